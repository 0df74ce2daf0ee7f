//! Hash functions (NVMe 2.0 section 8.13.5.2), and HMAC by them (RFC 2104).

use hmac::digest::block_api::BlockSizeUser;
use hmac::digest::Digest;
use hmac::{KeyInit, Mac, SimpleHmac};
use sha2::{Sha256, Sha384, Sha512};

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// All, the strongest first.
    pub const ALL: [Self; 3] = [Self::Sha512, Self::Sha384, Self::Sha256];

    /// Returns the hash function's identifier.
    pub fn id(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha384 => 2,
            Self::Sha512 => 3,
        }
    }

    /// The one of this identifier.
    pub fn of_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Length of its result in bytes.
    pub fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// The hash of `bytes`.
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// The HMAC of `parts`, one behind another.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha256 => mac::<Sha256>(key, parts).finalize().into_bytes().to_vec(),
            Self::Sha384 => mac::<Sha384>(key, parts).finalize().into_bytes().to_vec(),
            Self::Sha512 => mac::<Sha512>(key, parts).finalize().into_bytes().to_vec(),
        }
    }

    /// Returns whether `claimed` is the HMAC of `parts`, in a time that does not depend on its
    /// bytes.
    pub fn verify(self, key: &[u8], parts: &[&[u8]], claimed: &[u8]) -> bool {
        match self {
            Self::Sha256 => mac::<Sha256>(key, parts).verify_slice(claimed).is_ok(),
            Self::Sha384 => mac::<Sha384>(key, parts).verify_slice(claimed).is_ok(),
            Self::Sha512 => mac::<Sha512>(key, parts).verify_slice(claimed).is_ok(),
        }
    }
}

fn mac<D: Digest + BlockSizeUser>(key: &[u8], parts: &[&[u8]]) -> SimpleHmac<D> {
    // HMAC takes keys of every length.
    let mut mac = SimpleHmac::<D>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn hmacs_are_those_of_the_standard() {
        // RFC 4231 section 4.3: test case 2.
        let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        let expected = [
            (Hash::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            (
                Hash::Sha384,
                "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
            ),
            (
                Hash::Sha512,
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
            ),
        ];
        for (hash, text) in expected {
            assert_eq!(hash.hmac(b"Jefe", &parts), hex(text));
            assert!(hash.verify(b"Jefe", &parts, &hex(text)));
            assert!(!hash.verify(b"Jefe", &parts, &hex(text)[1..]));
            assert!(!hash.verify(b"jefe", &parts, &hex(text)));
            assert_eq!(Hash::of_id(hash.id()), Some(hash));
            assert_eq!(hash.digest(b"").len(), hash.length());
        }
        assert_eq!(Hash::of_id(0), None);
    }
}
