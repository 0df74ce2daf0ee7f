//! Messages (NVMe 2.0 section 8.13.5): those of the host taken apart, those of the controller put
//! together.

use stasis_layout::{u16_at, u32_at};

use crate::group::Group;
use crate::hash::Hash;

/// Types and identifiers of messages.
mod kind {
    pub const COMMON: u8 = 0x00;
    pub const DH_HMAC_CHAP: u8 = 0x01;
    pub const NEGOTIATE: u8 = 0x00;
    pub const CHALLENGE: u8 = 0x01;
    pub const REPLY: u8 = 0x02;
    pub const SUCCESS1: u8 = 0x03;
    pub const SUCCESS2: u8 = 0x04;
    pub const FAILURE2: u8 = 0xf0;
    pub const FAILURE1: u8 = 0xf1;
}

/// Identifier of DH-HMAC-CHAP among the protocols of a negotiation.
const PROTOCOL: u8 = 0x01;
/// Length of the description of a protocol in bytes.
const DESCRIPTION: usize = 64;
/// Place at which the identifiers of hash functions begin in it, and their largest number.
const HASHES: (usize, usize) = (4, 30);
/// Place at which those of groups begin.
const GROUPS: (usize, usize) = (34, 30);

/// Why an authentication fails: the explanation of the reason "authentication failed" (NVMe 2.0
/// section 8.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Failure {
    /// The response is wrong, or there can be none.
    #[error("the secrets differ, or one side has none")]
    Failed = 1,
    /// DH-HMAC-CHAP is not offered.
    #[error("no protocol in common: DH-HMAC-CHAP is the one here")]
    Protocol = 2,
    /// A secure channel was asked for.
    #[error("a secure channel (TLS) was asked for, which is not there")]
    Channel = 3,
    /// No hash function in common.
    #[error("no hash function in common")]
    Hash = 4,
    /// No group in common, or a value that is not of the group.
    #[error("no group of Diffie-Hellman in common, or a value that is none of it")]
    Group = 5,
    /// A field of a message is invalid.
    #[error("a message with an invalid field")]
    Payload = 6,
    /// A message that cannot come now.
    #[error("a message out of sequence")]
    Message = 7,
}

/// A message of the host, with its transaction.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    Negotiate(Negotiate<'a>),
    Reply(Reply<'a>),
    /// The host has authenticated the controller.
    Success2,
    /// The host has not.
    Failure2,
}

/// The offer of a host.
#[derive(Debug, PartialEq, Eq)]
pub struct Negotiate<'a> {
    pub channel: u8,
    /// Identifiers; empty if DH-HMAC-CHAP is not offered.
    pub hashes: &'a [u8],
    pub groups: &'a [u8],
    pub has_protocol: bool,
}

/// The host's response, and its challenge.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    pub response: &'a [u8],
    /// The challenge, if the controller is to authenticate, and its sequence number.
    pub challenge: Option<(&'a [u8], u32)>,
    /// The host's value of the group.
    pub value: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Result<u16, Failure> {
    u16_at(bytes, at).ok_or(Failure::Payload)
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, Failure> {
    bytes.get(at).copied().ok_or(Failure::Payload)
}

/// Takes a message apart: its transaction, and what it says.
///
/// # Errors
/// An unknown message, or one that is too short for what it says.
pub fn parse(bytes: &[u8]) -> Result<(u16, Received<'_>), Failure> {
    let kind = (byte(bytes, 0)?, byte(bytes, 1)?);
    let transaction = word(bytes, 4)?;
    let received = match kind {
        (kind::COMMON, kind::NEGOTIATE) => Received::Negotiate(negotiate(bytes)?),
        (kind::DH_HMAC_CHAP, kind::REPLY) => Received::Reply(reply(bytes)?),
        (kind::DH_HMAC_CHAP, kind::SUCCESS2) => Received::Success2,
        (kind::COMMON, kind::FAILURE2) => Received::Failure2,
        _ => return Err(Failure::Message),
    };
    Ok((transaction, received))
}

fn negotiate(bytes: &[u8]) -> Result<Negotiate<'_>, Failure> {
    let (channel, count) = (byte(bytes, 6)?, usize::from(byte(bytes, 7)?));
    let all = bytes.get(8..8 + count * DESCRIPTION).filter(|all| !all.is_empty());
    let mut descriptions = all.ok_or(Failure::Payload)?.chunks_exact(DESCRIPTION);
    let Some(ours) = descriptions.find(|description| description[0] == PROTOCOL) else {
        return Ok(Negotiate { channel, hashes: &[], groups: &[], has_protocol: false });
    };
    let list = |(at, most): (usize, usize), count: u8| match usize::from(count) {
        count if count <= most => Ok(&ours[at..at + count]),
        _ => Err(Failure::Payload),
    };
    let (hashes, groups) = (list(HASHES, ours[2])?, list(GROUPS, ours[3])?);
    Ok(Negotiate { channel, hashes, groups, has_protocol: true })
}

fn reply(bytes: &[u8]) -> Result<Reply<'_>, Failure> {
    let (length, is_valid) = (usize::from(byte(bytes, 6)?), byte(bytes, 8)? != 0);
    let value = usize::from(word(bytes, 10)?);
    let sequence = u32_at(bytes, 12).ok_or(Failure::Payload)?;
    let rest = bytes.get(16..16 + 2 * length + value).ok_or(Failure::Payload)?;
    let (response, rest) = rest.split_at(length);
    let (challenge, value) = rest.split_at(length);
    Ok(Reply { response, challenge: is_valid.then_some((challenge, sequence)), value })
}

fn begin(message: (u8, u8), transaction: u16, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    (bytes[0], bytes[1]) = message;
    bytes[4..6].copy_from_slice(&transaction.to_le_bytes());
    bytes
}

/// The controller's challenge, and its value of the group.
pub fn challenge(
    transaction: u16,
    (hash, group): (Hash, Group),
    sequence: u32,
    challenge: &[u8],
    value: &[u8],
) -> Vec<u8> {
    let mut bytes = begin((kind::DH_HMAC_CHAP, kind::CHALLENGE), transaction, 16);
    (bytes[6], bytes[8], bytes[9]) = (hash.length() as u8, hash.id(), group.id());
    bytes[10..12].copy_from_slice(&(value.len() as u16).to_le_bytes());
    bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(challenge);
    bytes.extend_from_slice(value);
    bytes
}

/// The host is authenticated; the controller's response, if the host has challenged it.
pub fn success(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = begin((kind::DH_HMAC_CHAP, kind::SUCCESS1), transaction, 16);
    bytes[6] = hash.length() as u8;
    if let Some(response) = response {
        bytes[8] = 1;
        bytes.extend_from_slice(response);
    }
    bytes
}

/// The host is not authenticated.
pub fn failure(transaction: u16, failure: Failure) -> Vec<u8> {
    /// The reason code: authentication failed.
    const FAILED: u8 = 1;
    let mut bytes = begin((kind::COMMON, kind::FAILURE1), transaction, 8);
    (bytes[6], bytes[7]) = (FAILED, failure as u8);
    bytes
}
