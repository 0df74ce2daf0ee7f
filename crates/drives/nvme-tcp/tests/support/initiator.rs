//! A host's side of DH-HMAC-CHAP, by the messages' own layout.

use stasis_nvme_auth::{Group, Hash, Randomness, Secret, Secrets};
use stasis_nvme_tcp::Authentication;

use super::{block, entry, Bench, Cqe, Host, FABRICS};

/// A secret of nvme-cli's form.
pub fn text(transform: u8, bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let all = [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
    let mut encoded = String::new();
    for part in all.chunks(3) {
        let value = (0..3).fold(0, |value, at| value << 8 | u32::from(*part.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = DIGITS[(value >> (18 - 6 * at) & 63) as usize] as char;
            encoded.push(if at > part.len() { '=' } else { digit });
        }
    }
    format!("DHHC-1:{transform:02}:{encoded}:")
}

/// Secrets of 32, 48 or 64 equal bytes, of the host and of the subsystem.
pub fn authentication(hosts: &[(&str, Key, Option<Key>)], groups: &[Group]) -> Authentication {
    let secret = |key: &Key| Secret::parse(&text(key.transform, &key.bytes)).unwrap();
    let secrets = hosts.iter().map(|(nqn, host, subsystem)| {
        let secrets = Secrets { host: secret(host), subsystem: subsystem.as_ref().map(secret) };
        (nqn.to_string(), secrets)
    });
    let mut state = 1u64;
    let random = Randomness::new(move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        true
    });
    Authentication::new(secrets.collect(), groups.to_vec(), random)
}

/// A secret's bytes, and the identifier of the hash that makes the key of it.
#[derive(Clone)]
pub struct Key {
    pub transform: u8,
    pub bytes: Vec<u8>,
}

impl Key {
    pub fn new(transform: u8, byte: u8) -> Self {
        let length = Hash::of_id(transform).map_or(32, Hash::length);
        Self { transform, bytes: vec![byte; length] }
    }

    fn of(&self, nqn: &str) -> Vec<u8> {
        match Hash::of_id(self.transform) {
            None => self.bytes.clone(),
            Some(hash) => hash.hmac(&self.bytes, &[nqn.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

/// An authentication of a host.
pub struct Initiator {
    pub key: Key,
    /// The subsystem's secret, if it is to authenticate.
    pub subsystem: Option<Key>,
    pub hashes: Vec<u8>,
    pub groups: Vec<u8>,
    pub transaction: u16,
    /// The response that the subsystem is to give.
    pub expected: Vec<u8>,
}

impl Initiator {
    pub fn new(key: Key, subsystem: Option<Key>) -> Self {
        let (hashes, groups) = (vec![1, 2, 3], vec![0, 1, 2, 3, 4, 5]);
        Self { key, subsystem, hashes, groups, transaction: 7, expected: vec![] }
    }

    pub fn negotiate(&self) -> Vec<u8> {
        let mut message = vec![0; 72];
        message[4..6].copy_from_slice(&self.transaction.to_le_bytes());
        (message[7], message[8]) = (1, 1);
        (message[10], message[11]) = (self.hashes.len() as u8, self.groups.len() as u8);
        message[12..12 + self.hashes.len()].copy_from_slice(&self.hashes);
        message[42..42 + self.groups.len()].copy_from_slice(&self.groups);
        message
    }

    /// The reply to a challenge: the hash's and group's identifiers are the challenge's.
    pub fn reply(&mut self, challenge: &[u8], host: &str, subsystem: &str) -> Vec<u8> {
        assert_eq!(challenge[..2], [1, 1], "a challenge");
        assert_eq!(challenge[4..6], self.transaction.to_le_bytes());
        let hash = Hash::of_id(challenge[8]).unwrap();
        let group = Group::ALL.into_iter().find(|group| group.id() == challenge[9]).unwrap();
        let length = usize::from(challenge[6]);
        assert_eq!(length, hash.length());
        let value = usize::from(u16::from_le_bytes([challenge[10], challenge[11]]));
        let (theirs, theirs_of_group) =
            (&challenge[16..16 + length], &challenge[16 + length..][..value]);
        let exponent = [0x5c; 64];
        let shared = group.shared(&exponent, theirs_of_group);
        assert_eq!(shared.is_some(), group != Group::Null);
        let augmented = |challenge: &[u8]| match &shared {
            None => challenge.to_vec(),
            Some(shared) => hash.hmac(&hash.digest(shared), &[challenge]),
        };
        let transaction = self.transaction.to_le_bytes();
        let response = |key: Vec<u8>, challenge: &[u8], sequence: &[u8], rest: String| {
            let parts = [&augmented(challenge), sequence, &transaction, &[0], rest.as_bytes()];
            hash.hmac(&key, &parts)
        };
        let of_host = format!("HostHost{host}\0{subsystem}");
        let own = response(self.key.of(host), theirs, &challenge[12..16], of_host);
        let ours = vec![0xa7; length];
        let mut reply = vec![1, 2, 0, 0, transaction[0], transaction[1], length as u8, 0];
        reply.extend([u8::from(self.subsystem.is_some()), 0]);
        let public = group.public(&exponent);
        reply.extend((public.len() as u16).to_le_bytes());
        let sequence = if self.subsystem.is_some() { 99u32 } else { 0 };
        reply.extend(sequence.to_le_bytes());
        reply.extend(own);
        reply.extend(&ours);
        reply.extend(public);
        if let Some(key) = &self.subsystem {
            let of_subsystem = format!("Controller{subsystem}\0{host}");
            let key = key.of(subsystem);
            self.expected = response(key, &ours, &sequence.to_le_bytes(), of_subsystem);
        }
        reply
    }

    pub fn success2(&self) -> Vec<u8> {
        let [low, high] = self.transaction.to_le_bytes();
        [&[1, 4, 0, 0, low, high][..], &[0; 10]].concat()
    }

    /// Authenticates on a queue; the message that the subsystem has last.
    pub fn run(&mut self, bench: &mut Bench, host: &mut Host) -> Vec<u8> {
        assert_eq!(send(bench, host, &self.negotiate()).status, 0);
        let challenge = receive(bench, host);
        if challenge[..2] != [1, 1] {
            return challenge;
        }
        let (nqn, subsystem) = (host.host.clone(), bench.nqn());
        let reply = self.reply(&challenge, &nqn, &subsystem);
        assert_eq!(send(bench, host, &reply).status, 0);
        let success = receive(bench, host);
        if success[..2] == [1, 3] && self.subsystem.is_some() {
            assert_eq!(success[8], 1, "a response");
            assert_eq!(success[16..16 + self.expected.len()], self.expected, "the subsystem's");
            assert_eq!(send(bench, host, &self.success2()).status, 0);
        }
        success
    }
}

/// An authentication command of `length` bytes of data.
pub fn command(kind: u8, length: usize, in_capsule: bool) -> [u8; 64] {
    let mut raw = entry(FABRICS, 0, kind.into());
    block(&mut raw, length, in_capsule);
    raw[41..44].copy_from_slice(&[1, 1, 0xe9]);
    raw[44..48].copy_from_slice(&(length as u32).to_le_bytes());
    raw
}

pub fn send(bench: &mut Bench, host: &mut Host, message: &[u8]) -> Cqe {
    host.command(bench, command(5, message.len(), true), message).0
}

/// A message by a buffer that is longer than it.
pub fn receive(bench: &mut Bench, host: &mut Host) -> Vec<u8> {
    let (cqe, data) = host.command(bench, command(6, 4096, false), &[]);
    assert_eq!(cqe.status, 0);
    data
}
