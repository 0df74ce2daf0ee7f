//! The functions of a kernel, by their addresses.

/// Addresses of the kernel, and of its modules, whose functions have no names here (Linux,
/// Documentation/arch/x86/x86_64/mm.rst).
const KERNEL: u64 = 1 << 63;
const MODULES: u64 = 0xffff_ffff_c000_0000;

/// The functions of a kernel.
#[derive(Debug, Clone, Default)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Of functions by their first address.
    pub fn new(mut functions: Vec<(u64, String)>) -> Self {
        functions.sort();
        Self(functions)
    }

    /// The function of an instruction.
    pub(crate) fn name(&self, address: u64) -> &str {
        if address < KERNEL {
            return "[program]";
        }
        let after = self.0.partition_point(|(first, _)| *first <= address);
        match after.checked_sub(1).and_then(|place| self.0.get(place)) {
            Some((_, name)) if address < MODULES => name,
            _ if address >= MODULES => "[module]",
            _ => "[kernel]",
        }
    }
}
