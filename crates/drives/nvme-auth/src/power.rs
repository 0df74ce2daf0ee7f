//! Powers of Diffie-Hellman, which take milliseconds: the carrier computes them where nobody waits.

use crate::group::{Group, EXPONENT};

/// A power that a [`crate::Verifier`] needs before it goes on.
pub struct Power {
    group: Group,
    exponent: [u8; EXPONENT],
    /// The other side's value, of which the shared key is a power; `None`: the generator.
    value: Option<Vec<u8>>,
}

/// Its exponent is nobody's business.
impl std::fmt::Debug for Power {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Power").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A power that was computed; `None` inside: the other side's value is none of the group's.
pub struct Computed(pub(crate) Option<Vec<u8>>);

/// A shared key is nobody's business.
impl std::fmt::Debug for Computed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Computed").finish_non_exhaustive()
    }
}

impl Power {
    /// The value to send.
    pub(crate) fn public(group: Group, exponent: [u8; EXPONENT]) -> Self {
        Self { group, exponent, value: None }
    }

    /// The shared key.
    pub(crate) fn shared(group: Group, exponent: [u8; EXPONENT], value: &[u8]) -> Self {
        Self { group, exponent, value: Some(value.to_vec()) }
    }

    /// Computes it: in the null group at once, in the largest one for some 50 ms.
    pub fn compute(self) -> Computed {
        let Self { group, exponent, value } = self;
        Computed(match value {
            None => Some(group.public(&exponent)),
            Some(value) => group.shared(&exponent, &value),
        })
    }
}
