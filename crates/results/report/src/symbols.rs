//! The functions of a guest's kernel and programs, for its samples.

use std::fmt::Debug;
use std::sync::Arc;

/// Addresses of the kernel, and of its modules (Linux,
/// Documentation/arch/x86/x86_64/mm.rst).
const KERNEL: u64 = 1 << 63;
const MODULES: u64 = 0xffff_ffff_c000_0000;

/// The functions of programs, by their files in the guest.
pub trait Programs: Debug + Send + Sync {
    /// The function at a byte of a file, in brackets where it has no name; None where the file is not
    /// known, or no program.
    fn function(&self, path: &str, offset: u64) -> Option<String>;
}

/// The functions of a kernel, and of programs where they are known.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    kernel: Vec<(u64, String)>,
    programs: Option<Arc<dyn Programs>>,
}

impl Symbols {
    /// Of functions by their first address.
    pub fn new(mut functions: Vec<(u64, String)>) -> Self {
        functions.sort();
        Self { kernel: functions, programs: None }
    }

    /// The same with the functions of programs.
    #[must_use]
    pub fn with_programs(mut self, programs: Arc<dyn Programs>) -> Self {
        self.programs = Some(programs);
        self
    }

    /// The function of an instruction.
    pub(crate) fn name(&self, address: u64) -> &str {
        if address < KERNEL {
            return "[program]";
        }
        let after = self.kernel.partition_point(|(first, _)| *first <= address);
        match after.checked_sub(1).and_then(|place| self.kernel.get(place)) {
            Some((_, name)) if address < MODULES => name,
            _ if address >= MODULES => "[module]",
            _ => "[kernel]",
        }
    }

    /// A name that a run has told: of a place in a program's file (a path, `+`, and bytes in
    /// hexadecimal) its function, or the file and the place.
    pub(crate) fn told(&self, name: String) -> String {
        let place = name.starts_with('/').then(|| name.rsplit_once("+0x")).flatten();
        let place = place.and_then(|(path, at)| Some((path, u64::from_str_radix(at, 16).ok()?)));
        let Some((path, offset)) = place else { return name };
        let function = self.programs.as_ref().and_then(|all| all.function(path, offset));
        let file = path.rsplit('/').next().unwrap_or(path);
        function.unwrap_or_else(|| format!("[{file}+{offset:#x}]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct One;

    impl Programs for One {
        fn function(&self, path: &str, offset: u64) -> Option<String> {
            (path == "/usr/bin/a+0xb" && offset == 0x1f0).then(|| "main".to_owned())
        }
    }

    #[test]
    fn a_place_in_a_file_is_its_function_or_says_where() {
        let (none, one) = (Symbols::default(), Symbols::default().with_programs(Arc::new(One)));
        let told = |symbols: &Symbols, name: &str| symbols.told(name.to_owned());
        assert_eq!(told(&one, "/usr/bin/a+0xb+0x1f0"), "main");
        assert_eq!(told(&none, "/usr/bin/fio+0x1f0"), "[fio+0x1f0]");
        assert_eq!(told(&one, "/usr/bin/fio+0x1f0"), "[fio+0x1f0]");
        for other in ["[fio]", "/no/place", "/no+0xplace", "xfs_sync+0x1 [xfs]"] {
            assert_eq!(told(&one, other), other);
        }
    }
}
