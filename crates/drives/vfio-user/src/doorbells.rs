//! Doorbells in memory that guest and device share.

/// Memory of the page of doorbells, in words of four bytes. The guest writes there at any time.
pub trait Doorbells {
    /// Reads the first words, as many as there is room for; later accesses to memory come after.
    fn read(&self, into: &mut [u32]);

    /// Returns whether the first words differ from `known`.
    fn differ(&self, known: &[u32]) -> bool;

    /// Writes a word.
    fn write(&self, index: usize, value: u32);

    /// Writes 0 to a word, unless its value is no longer `expected`.
    fn clear(&self, index: usize, expected: u32);
}
