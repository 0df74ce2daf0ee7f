//! The functions of a guest's kernel and programs, for its samples.

use std::fmt::Debug;
use std::sync::Arc;

use stasis_run_events::{MAX_NAMES, NAMED};

/// Addresses of the kernel, and of its modules (Linux,
/// Documentation/arch/x86/x86_64/mm.rst).
const KERNEL: u64 = 1 << 63;
const MODULES: u64 = 0xffff_ffff_c000_0000;

/// The functions of programs, by their files in the guest.
pub trait Programs: Debug + Send + Sync {
    /// The function at a byte of a file, in brackets where it has no name; None where the file is not
    /// known, or no program.
    fn function(&self, path: &str, offset: u64) -> Option<String>;

    /// Returns the table by which the callers of a file's functions are found
    /// (`stasis_unwind::Table`, encoded); None where the file is not known, or has none.
    fn frames(&self, path: &str) -> Option<Vec<u8>>;
}

/// The functions of a kernel, and of programs where they are known.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    kernel: Vec<(u64, String)>,
    programs: Option<Arc<dyn Programs>>,
}

impl Symbols {
    /// Makes names of functions by their first address.
    pub fn new(mut functions: Vec<(u64, String)>) -> Self {
        functions.sort();
        Self { kernel: functions, programs: None }
    }

    /// Adds the functions of programs.
    #[must_use]
    pub fn with_programs(mut self, programs: Arc<dyn Programs>) -> Self {
        self.programs = Some(programs);
        self
    }

    /// Returns the table by which the callers of the functions of a program's file are found:
    /// [`Programs::frames`].
    pub fn frames(&self, path: &str) -> Option<Vec<u8>> {
        self.programs.as_ref()?.frames(path)
    }

    /// The function of an instruction.
    fn name(&self, address: u64) -> &str {
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
    fn told(&self, name: String) -> String {
        let place = name.starts_with('/').then(|| name.rsplit_once("+0x")).flatten();
        let place = place.and_then(|(path, at)| Some((path, u64::from_str_radix(at, 16).ok()?)));
        let Some((path, offset)) = place else { return name };
        let function = self.programs.as_ref().and_then(|all| all.function(path, offset));
        let file = path.rsplit('/').next().unwrap_or(path);
        function.unwrap_or_else(|| format!("[{file}+{offset:#x}]"))
    }
}

/// The names of a run's frames.
#[derive(Debug)]
pub struct FrameNames {
    symbols: Symbols,
    /// Names of threads, and of functions of programs and modules, by their numbers.
    given: Vec<String>,
}

impl FrameNames {
    /// Names by these symbols.
    pub fn new(symbols: Symbols) -> Self {
        Self { symbols, given: Vec::new() }
    }

    /// Further names that the run has told.
    pub fn add(&mut self, names: Vec<String>) {
        self.given.extend(names.into_iter().map(|name| self.symbols.told(name)));
    }

    /// The name of a frame.
    pub fn name(&self, frame: u64) -> &str {
        let given = frame.checked_sub(NAMED).filter(|number| *number < MAX_NAMES);
        let given = given.and_then(|number| self.given.get(number as usize));
        given.map_or_else(|| self.symbols.name(frame), String::as_str)
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

        fn frames(&self, path: &str) -> Option<Vec<u8>> {
            (path == "/usr/bin/a+0xb").then(|| vec![1])
        }
    }

    /// A run's own names come before those of addresses.
    #[test]
    fn frames_have_the_names_that_were_told() {
        let kernel = vec![(1 << 63, "_text".to_owned())];
        let one = Symbols::new(kernel).with_programs(Arc::new(One));
        assert_eq!(one.frames("/usr/bin/a+0xb"), Some(vec![1]));
        assert_eq!((one.frames("/"), Symbols::default().frames("/")), (None, None));
        let mut names = FrameNames::new(one);
        assert_eq!(names.name(NAMED), "_text");
        names.add(vec!["[fio]".into(), "/usr/bin/a+0xb+0x1f0".into()]);
        let found = [NAMED, NAMED + 1, NAMED + 2, 7].map(|frame| names.name(frame).to_owned());
        assert_eq!(found, ["[fio]", "main", "_text", "[program]"]);
    }

    #[test]
    fn a_place_in_a_file_is_its_function_or_says_where() {
        let (none, one) = (Symbols::default(), Symbols::default().with_programs(Arc::new(One)));
        let name_of = |symbols: &Symbols, name: &str| symbols.told(name.to_owned());
        assert_eq!(name_of(&one, "/usr/bin/a+0xb+0x1f0"), "main");
        assert_eq!(name_of(&none, "/usr/bin/fio+0x1f0"), "[fio+0x1f0]");
        assert_eq!(name_of(&one, "/usr/bin/fio+0x1f0"), "[fio+0x1f0]");
        for other in ["[fio]", "/no/place", "/no+0xplace", "xfs_sync+0x1 [xfs]"] {
            assert_eq!(name_of(&one, other), other);
        }
    }
}
