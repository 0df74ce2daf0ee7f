//! The functions of a guest's programs and libraries and their frames, for profiles: from the files that
//! the guest's root has on this machine.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cpp_demangle::DemangleOptions;
use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use stasis_guest_image::Guest;
use stasis_guest_root::{image_folder, read_from_image, Lower};
use stasis_unwind::Table;

/// The largest file that is read.
const MAX_FILE: u64 = 512 << 20;
/// The longest name that is told (bytes).
const MAX_NAME: usize = 400;
/// The agent's program, process 1 of each guest.
const AGENT: &str = "/init";

/// Files of a guest.
pub struct Programs {
    /// The root's image.
    image: PathBuf,
    /// The root, where it is read in place.
    in_place: Option<Lower>,
    /// The guest, which has the agent.
    guest: Option<Guest>,
    /// Others, by their paths in the guest.
    files: Vec<(String, PathBuf)>,
    known: Mutex<HashMap<String, Option<Program>>>,
}

/// A file.
struct Program {
    functions: Functions,
    /// Its table of frames, encoded.
    frames: Option<Vec<u8>>,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Programs").field("image", &self.image).finish_non_exhaustive()
    }
}

impl Programs {
    /// Returns the programs of the image of a root, and of files that the experiment puts into the
    /// guest.
    pub fn new(image: PathBuf, files: Vec<(String, PathBuf)>) -> Self {
        Self { image, in_place: None, guest: None, files, known: Mutex::default() }
    }

    /// Adds a root that is read in place, and the agent's program.
    pub fn with(self, in_place: Option<Lower>, guest: Guest) -> Self {
        Self { in_place, guest: Some(guest), ..self }
    }

    /// The answer of `query` about the program at `path`, if it is known.
    fn of<T>(&self, path: &str, query: impl FnOnce(&Program) -> Option<T>) -> Option<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(path) {
            known.insert(path.to_owned(), self.read(path));
        }
        query(known.get(path)?.as_ref()?)
    }

    /// The bytes of a file of the guest's root, or of the experiment's.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        // A file system that lies over another one has its files in a folder of its own.
        let own = self.files.iter().find(|(own, _)| path.ends_with(own));
        match own {
            Some((_, file)) => read(file),
            None if path == AGENT => agent(self.guest.as_ref()?),
            // The image has the kernel's modules then.
            None if self.in_place.is_some() => self.in_place.as_ref()?.file(path, MAX_FILE),
            None => self.in_image(path),
        }
    }

    /// The bytes of a file in the root's image, or in that of one of its containers.
    fn in_image(&self, path: &str) -> Option<Vec<u8>> {
        let containers = self.guest.as_ref().map_or(0, |guest| guest.images.len());
        let places = (0..containers).map(|place| format!("/{}{path}", image_folder(place)));
        let mut places = std::iter::once(path.to_owned()).chain(places);
        places.find_map(|path| read_from_image(&self.image, &path, MAX_FILE))
    }

    fn read(&self, path: &str) -> Option<Program> {
        let bytes = self.bytes(path)?;
        let frames = Table::of(&bytes).map(|table| table.encode());
        Some(Program { functions: Functions::of(&bytes)?, frames })
    }
}

/// The guest's agent: this program, which has its names, if it is of the same build.
fn agent(guest: &Guest) -> Option<Vec<u8>> {
    let there = guest.agent()?;
    let own = stasis_runner::program::for_guests().ok().and_then(|path| std::fs::read(path).ok());
    Some(own.filter(|own| is_stripped(&there, own)).unwrap_or(there))
}

/// Returns whether `there` is `own` without its sections.
fn is_stripped(there: &[u8], own: &[u8]) -> bool {
    // The header tells of these in its last parts, from `e_shoff` and from `e_shentsize` on.
    const KEPT: [std::ops::Range<usize>; 2] = [0..40, 48..58];
    const HEADER: usize = 64;
    let is_same = |part: std::ops::Range<usize>| there.get(part.clone()) == own.get(part);
    let rest = there.len().max(HEADER);
    KEPT.into_iter().all(is_same) && own.get(HEADER..rest) == there.get(HEADER..)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= MAX_FILE);
    small.then(|| std::fs::read(path).ok())?
}

impl stasis_results::Programs for Programs {
    fn function(&self, path: &str, offset: u64) -> Option<String> {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.of(path, |program| program.functions.function(name, offset))
    }

    fn frames(&self, path: &str) -> Option<Vec<u8>> {
        self.of(path, |program| program.frames.clone())
    }
}

/// The functions of a file.
#[derive(Debug, Default)]
struct Functions {
    /// Parts of the file that are mapped: from where, how long, and to which address.
    parts: Vec<(u64, u64, u64)>,
    /// Named ones: the first address, that after the last, and the name.
    named: Vec<(u64, u64, String)>,
    /// The first addresses of all that can be unwound, which those without names are as well.
    begins: Vec<u64>,
}

impl Functions {
    /// Of an ELF file's symbols, or where it was stripped of those that others link with.
    fn of(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let part = |part: object::Segment<'_, '_>| {
            let (from, length) = part.file_range();
            (from, length, part.address())
        };
        let mut named: Vec<_> = file.symbols().filter_map(|symbol| function(&symbol)).collect();
        if named.is_empty() {
            named = file.dynamic_symbols().filter_map(|symbol| function(&symbol)).collect();
        }
        // The name, of several of one place, which looks least like the library's own.
        let own = |name: &str| name.len() - name.trim_start_matches('_').len();
        named.sort_by(|a, b| (a.0, own(&a.2), &a.2).cmp(&(b.0, own(&b.2), &b.2)));
        named.dedup_by_key(|(begin, ..)| *begin);
        let begins = file
            .section_by_name(".eh_frame_hdr")
            .and_then(|section| begins(section.address(), section.data().ok()?));
        let parts = file.segments().map(part).collect();
        Some(Self { parts, named, begins: begins.unwrap_or_default() })
    }

    /// The name of the function at a byte of the file; of one without a name, where it begins in
    /// `file`.
    fn function(&self, file: &str, offset: u64) -> Option<String> {
        let its = |&&(from, length, _): &&(u64, u64, u64)| {
            offset.checked_sub(from).is_some_and(|behind| behind < length)
        };
        let &(from, _, at) = self.parts.iter().find(its)?;
        let address = at + (offset - from);
        let after = self.named.partition_point(|(begin, ..)| *begin <= address);
        let named = after.checked_sub(1).and_then(|place| self.named.get(place));
        if let Some((_, _, name)) = named.filter(|(_, end, _)| address < *end) {
            return Some(name.clone());
        }
        let after = self.begins.partition_point(|begin| *begin <= address);
        let begin = self.begins.get(after.checked_sub(1)?)?;
        Some(format!("[{file}+{begin:#x}]"))
    }
}

/// The place and the name of a symbol that is a function.
fn function<'a>(symbol: &impl ObjectSymbol<'a>) -> Option<(u64, u64, String)> {
    let is = symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0;
    let name = symbol.name().ok().filter(|name| is && !name.is_empty())?;
    let end = symbol.address().checked_add(symbol.size())?;
    Some((symbol.address(), end, told(name)))
}

/// The name of a function as its language has it, without parameters and hashes, and without what
/// separates functions in stacks.
fn told(name: &str) -> String {
    let mut text = Bounded(String::new());
    // A name that is longer than the limit is cut off there.
    let cpp = || cpp_demangle::Symbol::new(name).ok();
    let options = DemangleOptions::new().no_params().no_return_type();
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let _ = write!(text, "{rust:#}");
    } else if let Some(cpp) = name.starts_with("_Z").then(cpp).flatten() {
        let _ = cpp.structured_demangle(&mut text, &options);
    }
    let name = if text.0.is_empty() { name } else { &text.0 };
    let plain = |c: char| if c == ';' || c.is_control() { '_' } else { c };
    name.chars().take(MAX_NAME).map(plain).collect()
}

/// Text of a bounded length: names of templates can be as long as one likes.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = MAX_NAME.saturating_sub(self.0.len());
        match part.is_char_boundary(room) && room < part.len() {
            true => {
                self.0.push_str(&part[..room]);
                Err(fmt::Error)
            }
            false if room == 0 => Err(fmt::Error),
            false => {
                self.0.push_str(part);
                Ok(())
            }
        }
    }
}

/// The first addresses in the table of what can be unwound, a section at `address` (Linux Standard
/// Base, 10.6.2): of the encoding that linkers write.
fn begins(address: u64, section: &[u8]) -> Option<Vec<u64>> {
    /// Version 1; pointers relative to themselves, 32-bit numbers, entries relative to the section.
    const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let word = |at: usize| section.get(at..)?.first_chunk().map(|word| i32::from_le_bytes(*word));
    if section.get(..4)? != HEAD {
        return None;
    }
    let count = usize::try_from(word(8)?).ok()?;
    let begin = |number: usize| {
        word(12 + 8 * number).map(|offset| address.wrapping_add_signed(offset.into()))
    };
    (0..count).map(begin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_results::Programs as _;
    use std::process::Command;

    #[inline(never)]
    fn a_function_of_this_test(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }

    /// Returns the place of a function of this program in its file, as the kernel has mapped it.
    fn place() -> (String, u64) {
        let at = a_function_of_this_test as fn(u64) -> u64 as usize as u64;
        assert_eq!(a_function_of_this_test(1), 2);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (range, _, offset) = (words.next()?, words.next()?, words.next()?);
            let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
            let (begin, end) = range.split_once('-').map(|(a, b)| (hex(a), hex(b)))?;
            let path = words.nth(2)?.to_owned();
            (begin..end).contains(&at).then(|| (path, hex(offset) + at - begin))
        });
        line.expect("the function is in a file")
    }

    #[test]
    fn a_function_has_its_name_and_one_without_its_place() {
        let (path, offset) = place();
        let folder = tempfile::tempdir().unwrap();
        let stripped = folder.path().join("stripped");
        let strip = Command::new("strip").arg("-o").args([&stripped, Path::new(&path)]).status();
        assert!(strip.unwrap().success());
        let files = vec![("/root/whole".into(), path.into()), ("/root/bare".into(), stripped)];
        let programs = Programs::new(folder.path().join("none"), files);
        let named = |file: &str, at: u64| programs.function(file, at);
        let own = |name: Option<String>| {
            // Without its hash.
            let its = "programs::tests::a_function_of_this_test";
            assert!(name.as_ref().is_some_and(|name| name.ends_with(its)), "{name:?}");
        };
        own(named("/root/whole", offset));
        own(named("/upper/root/whole", offset + 1));
        let bare = named("/root/bare", offset + 1).unwrap();
        assert_eq!(Some(&bare), named("/root/bare", offset).as_ref());
        assert!(bare.starts_with("[bare+0x"), "{bare}");
        assert_eq!(named("/root/whole", u64::MAX), None);
        assert_eq!(named("/root/other", offset), None, "there is no image");
        // A file without names tells its frames all the same.
        let frames = ["/root/whole", "/root/bare", "/root/other"].map(|file| programs.frames(file));
        assert!(frames[0].is_some() && frames[0] == frames[1] && frames[2].is_none());
        let table = Table::decode(frames[0].as_ref().unwrap()).unwrap();
        assert!(table.rule(offset).is_some());
    }

    #[test]
    fn the_agent_of_another_build_is_not_this_program() {
        let own: Vec<u8> = (0..200).map(|at| at as u8).collect();
        let mut there = own[..150].to_vec();
        there[40..48].fill(0);
        there[58..64].fill(0);
        assert!(is_stripped(&there, &own) && is_stripped(&own, &own));
        for place in [7, 50, 64, 149] {
            let mut other = there.clone();
            other[place] ^= 1;
            assert!(!is_stripped(&other, &own), "{place}");
        }
        assert!(!is_stripped(&[&own[..], &[0]].concat(), &own) && !is_stripped(&[], &own));
    }

    #[test]
    fn names_are_those_of_their_languages() {
        for (mangled, name) in [
            ("main", "main"),
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            (
                "_ZN7rocksdb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE",
                "rocksdb::DBImpl::Write",
            ),
            ("_Zx", "_Zx"),
            ("a;b\n", "a_b_"),
        ] {
            assert_eq!(told(mangled), name);
        }
        // Names of programs can be anything: they stay short, and nothing overflows.
        let deep = format!("_ZN{}E", "1aI".repeat(60_000));
        assert!(told(&deep).len() <= MAX_NAME);
        let long = format!("_ZN{}3fooE", "9abcdefghi".repeat(200));
        assert!(told(&long).len() <= MAX_NAME && told(&long).starts_with("abcdefghi::abc"));
        let umlauts = "ä".repeat(1000);
        assert_eq!(told(&umlauts).chars().count(), MAX_NAME);
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        assert!(Functions::of(b"#!/bin/sh\n").is_none());
        let (path, _) = place();
        let whole = std::fs::read(path).unwrap();
        for cut in (0..4096.min(whole.len())).step_by(7) {
            if let Some(functions) = Functions::of(&whole[..cut]) {
                functions.function("x", 64);
            }
        }
        assert!(begins(0, &[1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 255, 255, 255, 127]).is_none());
    }
}
