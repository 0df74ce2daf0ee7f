//! A region of a drive.

/// A region of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}
