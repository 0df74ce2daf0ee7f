//! Kinds of drives that a program can be built without.

/// A kind of drive that is a feature of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalKind {
    name: &'static str,
    feature: &'static str,
    is_built: bool,
}

/// A kind of drive that the program was built without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program was built without {name} (feature `{feature}`); take one that has them, or leave \
     the key out"
)]
pub struct NotBuilt {
    name: &'static str,
    feature: &'static str,
}

impl OptionalKind {
    /// Open-Channel drives.
    pub const OPEN_CHANNEL: Self = Self {
        name: "Open-Channel drives",
        feature: "open-channel",
        is_built: cfg!(feature = "open-channel"),
    };
    /// Computational programs.
    pub const COMPUTATIONAL: Self = Self {
        name: "computational programs",
        feature: "computational",
        is_built: cfg!(feature = "computational"),
    };
    /// Key-value namespaces.
    pub const KEY_VALUE: Self = Self {
        name: "key-value pairs",
        feature: "key-value",
        is_built: cfg!(feature = "key-value"),
    };

    /// Checks that the program has it, if it is `asked` for.
    ///
    /// # Errors
    /// The program was built without it.
    pub fn check(self, asked: bool) -> Result<(), NotBuilt> {
        let Self { name, feature, is_built } = self;
        match asked && !is_built {
            true => Err(NotBuilt { name, feature }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_built_is_refused_by_its_name() {
        let absent = OptionalKind { is_built: false, ..OptionalKind::KEY_VALUE };
        assert_eq!(absent.check(false), Ok(()));
        let refused = absent.check(true).unwrap_err().to_string();
        assert!(refused.contains("built without key-value pairs (feature `key-value`)"));
        let built = OptionalKind { is_built: true, ..absent };
        assert_eq!(built.check(true), Ok(()));
    }
}
