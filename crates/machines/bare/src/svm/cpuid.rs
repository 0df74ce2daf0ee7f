//! Answers of CPUID.

/// One leaf, or one index of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// EAX.
    pub function: u32,
    /// ECX where the leaf has several; `None`: it has one.
    pub index: Option<u32>,
    /// EAX, EBX, ECX and EDX.
    pub values: [u32; 4],
}

/// The answer to a guest: zeros where `leaves` have none.
pub(super) fn answer(leaves: &[Leaf], function: u32, index: u32) -> [u32; 4] {
    let found = leaves.iter().find(|leaf| {
        leaf.function == function && leaf.index.is_none_or(|expected| expected == index)
    });
    found.map_or([0; 4], |leaf| leaf.values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_matter_where_there_are_any() {
        let leaves = [
            Leaf { function: 1, index: None, values: [1; 4] },
            Leaf { function: 7, index: Some(0), values: [2; 4] },
        ];
        assert_eq!(answer(&leaves, 1, 99), [1; 4]);
        assert_eq!(answer(&leaves, 7, 0), [2; 4]);
        assert_eq!(answer(&leaves, 7, 1), [0; 4]);
        assert_eq!(answer(&leaves, 2, 0), [0; 4]);
    }
}
