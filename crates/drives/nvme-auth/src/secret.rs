//! Secrets of hosts and subsystems, as nvme-cli writes them (`nvme gen-dhchap-key`; NVMe 2.0
//! section 8.13.5).

use base64::engine::general_purpose::STANDARD;
use base64::Engine;

use crate::hash::Hash;

/// A secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: Vec<u8>,
    /// Makes the key of the secret and of its owner's name; `None`: the secret is the key.
    transform: Option<Hash>,
}

/// Its bytes are nobody's business.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("transform", &self.transform).finish_non_exhaustive()
    }
}

/// Fault of a secret's text, which it does not repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The text is not of the form.
    #[error("a secret is of the form DHHC-1:HH:BASE64: as `nvme gen-dhchap-key` prints it")]
    Form,
    /// There is no such hash.
    #[error("the secret's hash is {0:02}, but must be 00 (none), 01, 02 or 03")]
    Hash(u8),
    /// Its length is none that the standard has, or not the hash's.
    #[error("the secret has {0} bytes, but must have 32, 48 or 64, and as many as its hash")]
    Length(usize),
    /// Its checksum is wrong.
    #[error("the secret's checksum is wrong: it was cut off or changed")]
    Checksum,
}

impl Secret {
    /// Reads a secret's text; white space around it is ignored.
    ///
    /// # Errors
    /// The fault.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let mut parts = text.trim().split(':');
        let form = [parts.next(), parts.next(), parts.next(), parts.next(), parts.next()];
        let [Some("DHHC-1"), Some(hash), Some(encoded), Some(""), None] = form else {
            return Err(SecretError::Form);
        };
        if hash.len() != 2 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(SecretError::Form);
        }
        let id = u8::from_str_radix(hash, 16).map_err(|_| SecretError::Form)?;
        let transform = match (id, Hash::of_id(id)) {
            (0, _) => None,
            (_, None) => return Err(SecretError::Hash(id)),
            (_, known) => known,
        };
        let mut bytes = STANDARD.decode(encoded).map_err(|_| SecretError::Form)?;
        let Some(length) = bytes.len().checked_sub(4) else { return Err(SecretError::Length(0)) };
        let right = match transform {
            Some(hash) => length == hash.length(),
            None => matches!(length, 32 | 48 | 64),
        };
        if !right {
            return Err(SecretError::Length(length));
        }
        let checksum = bytes.split_off(length);
        if crc32fast::hash(&bytes).to_le_bytes()[..] != checksum[..] {
            return Err(SecretError::Checksum);
        }
        Ok(Self { bytes, transform })
    }

    /// The key of its owner, who has the name `nqn` (NVMe 2.0 section 8.13.5).
    pub(crate) fn key(&self, nqn: &str) -> Vec<u8> {
        match self.transform {
            None => self.bytes.clone(),
            Some(hash) => hash.hmac(&self.bytes, &[nqn.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(hash: u8, bytes: &[u8]) -> String {
        let sum = crc32fast::hash(bytes).to_le_bytes();
        format!("DHHC-1:{hash:02}:{}:", STANDARD.encode([bytes, &sum].concat()))
    }

    #[test]
    fn a_secret_of_nvme_cli_is_read() {
        // The key of nvme-cli's `gen-dhchap-key --hmac=0`, as libnvme's issue 1087 shows it.
        let text = "DHHC-1:00:I5cApohpALDlFqz+gGwbq4PYTwFznfHwzjn6nFBZc7uc7QhK:\n";
        let secret = Secret::parse(text).unwrap();
        assert_eq!(secret.key("anyone").len(), 32);
        assert_eq!(secret.key("anyone")[..4], [0x23, 0x97, 0x00, 0xa6]);
        assert!(!format!("{secret:?}").contains("151"), "{secret:?}");
    }

    #[test]
    fn keys_belong_to_their_owners() {
        for hash in Hash::ALL {
            let secret = Secret::parse(&text(hash.id(), &vec![9; hash.length()])).unwrap();
            assert_eq!(secret.key("one").len(), hash.length());
            assert_ne!(secret.key("one"), secret.key("other"));
        }
        let plain = Secret::parse(&text(0, &[9; 48])).unwrap();
        assert_eq!(plain.key("one"), plain.key("other"));
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        let good = text(1, &[9; 32]);
        let flipped = good.replace("CQk", "CQl");
        let wrong = [
            ("", SecretError::Form),
            ("DHHC-1:00", SecretError::Form),
            ("DHHC-2:00:AAAA:", SecretError::Form),
            ("DHHC-1:0:AAAA:", SecretError::Form),
            ("DHHC-1:+1:AAAA:", SecretError::Form),
            ("DHHC-1:00:?:", SecretError::Form),
            (good.trim_end_matches(':'), SecretError::Form),
            ("DHHC-1:00:AAAA:", SecretError::Length(0)),
            ("DHHC-1:00:AAAAAAA=:", SecretError::Length(1)),
            ("DHHC-1:04:AAAAAAAA:", SecretError::Hash(4)),
            (&text(2, &[9; 32]), SecretError::Length(32)),
            (&text(0, &[9; 33]), SecretError::Length(33)),
            (&flipped, SecretError::Checksum),
        ];
        for (text, error) in wrong {
            assert_eq!(Secret::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
