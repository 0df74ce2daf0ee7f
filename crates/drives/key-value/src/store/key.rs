//! Keys.

use std::fmt;

/// Maximum length of a key in bytes (NVMe Key Value Command Set 1.0, section 3.2).
pub const MAX_KEY: usize = 16;

/// A key: 1 to [`MAX_KEY`] bytes, ordered as bytes are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    // Zeroes behind its bytes, so that the order of the two fields is that of the bytes.
    bytes: [u8; MAX_KEY],
    length: u8,
}

impl Key {
    /// The key of these bytes; `None` if there are none, or too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > MAX_KEY {
            return None;
        }
        let mut key = Self { bytes: [0; MAX_KEY], length: bytes.len() as u8 };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Some(key)
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_ordered_as_their_bytes(
            one in prop::collection::vec(0u8..3, 1..=16),
            other in prop::collection::vec(0u8..3, 1..=16),
        ) {
            let keys = [&one, &other].map(|bytes| Key::new(bytes).unwrap());
            prop_assert_eq!(keys[0].cmp(&keys[1]), one.cmp(&other));
            prop_assert_eq!(keys[0].as_bytes(), one);
        }
    }

    #[test]
    fn keys_have_1_to_16_bytes() {
        assert_eq!(Key::new(&[]), None);
        assert_eq!(Key::new(&[0; 17]), None);
        assert_eq!(Key::new(&[7; 16]).map(|key| key.as_bytes().len()), Some(16));
    }
}
