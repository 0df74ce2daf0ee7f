//! Files of a crate form no large knots: sets of files each of which uses each other, directly or
//! over others, so that none can be read or changed without all of them.
//!
//! A file uses another where it names something that is defined there, through any re-exports, and
//! where a method in it calls a method that an `impl` block of the other defines: of `self`, of a
//! field of `self`, or of a field of that and so on, as far as the fields' types are known by their
//! names. So an object that is cut over several files, each with an `impl` block of the one type, is
//! a knot as soon as its parts call one another: each part names the type, and is called from its
//! file. A call of a local variable's method is not seen, nor one through a `Vec`, `Box` or `Option`;
//! the type is mostly named there.
//!
//! A file that only exports is no user, code of tests does not count, and neither do the lines of a
//! registration table.

mod graph;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use graph::{knots, Knot};
use source::RegistrationTable;

/// Files that may form a knot: a type and some parts of its implementation.
const MAX_FILES: usize = 4;

/// Knots of several files in all crates together.
const MAX_KNOTS: usize = 13;

/// Constants that list all of a kind. Each entry implements what the table's file defines, so that
/// the lines point back; they are all that an addition changes of what is there.
const TABLES: &[RegistrationTable] = &[
    RegistrationTable {
        file: "drives/models/src/kinds/mod.rs",
        constant: "KINDS",
        reason: "a kind of model implements `Parameters`, beside the table of kinds",
    },
    RegistrationTable {
        file: "drives/scheduler/src/kinds/mod.rs",
        constant: "KINDS",
        reason: "a kind of scheduler implements `Parameters`, beside the table of kinds",
    },
    RegistrationTable {
        file: "drives/flash/src/ftl/mod.rs",
        constant: "FTLS",
        reason: "a translation layer implements `Ftl`, beside the table of layers",
    },
    RegistrationTable {
        file: "drives/flash/src/gc/mod.rs",
        constant: "POLICIES",
        reason: "a policy implements `VictimPolicy`, beside the table of policies",
    },
    RegistrationTable {
        file: "drives/flash/src/vendor/mod.rs",
        constant: "COMMANDS",
        reason: "a vendor's command is a function of the drive, which finds it in the table",
    },
];

/// The message about a knot that is too large.
fn told(name: &str, knot: &Knot) -> String {
    let files: Vec<_> = knot.files.iter().map(|file| file.display().to_string()).collect();
    format!(
        "crates/{name}: {} files use each other, at most {MAX_FILES} may: {}\n  {}\n",
        knot.files.len(),
        files.join(", "),
        knot.arrows.join("\n  ")
    )
}

/// The folders in a folder.
fn folders_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

#[test]
fn files_form_no_large_knots() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (mut wrong, mut read, mut count) = (String::new(), 0, 0);
    for folder in folders_below(&crates).iter().flat_map(|wing| folders_below(wing)) {
        read += 1;
        let name = folder.file_name().unwrap().to_str().unwrap();
        let knots = knots(&folder, TABLES);
        count += knots.iter().filter(|knot| knot.files.len() > 1).count();
        for knot in knots.iter().filter(|knot| knot.files.len() > MAX_FILES) {
            wrong.push_str(&told(name, knot));
        }
    }
    assert!(read > 30, "the crates are there");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count <= MAX_KNOTS, "{count} knots of several files, at most {MAX_KNOTS} may be");
}

#[test]
fn registration_tables_are_there_and_have_a_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for table in TABLES {
        let text = fs::read_to_string(crates.join(table.file)).unwrap();
        let found = |word: &str| text.contains(&format!("{word} {}:", table.constant));
        assert!(found("const") || found("static"), "{table:?}");
        assert!(!table.reason.is_empty(), "{table:?}");
    }
}

/// The knots of a crate of these files, by their names; those of one file are left out.
fn knots_of(files: &[(&str, &str)], tables: &[RegistrationTable]) -> Vec<Vec<String>> {
    let crates = tempfile::tempdir().unwrap();
    let folder = crates.path().join("wing/made-up");
    for (name, text) in files {
        let path = folder.join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let source = Path::new("wing/made-up/src");
    let name = |file: &PathBuf| file.strip_prefix(source).unwrap().to_str().unwrap().to_owned();
    let names = |knot: &Knot| {
        let mut names: Vec<_> = knot.files.iter().map(name).collect();
        names.sort();
        names
    };
    knots(&folder, tables).iter().map(names).filter(|names| names.len() > 1).collect()
}

const RING: [(&str, &str); 6] = [
    ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\npub use d::D;\nuse e::*;\n"),
    // By an import, with other names and in a group.
    ("a.rs", "use crate::{b::{self, B as Other}, c};\npub struct A(Other);\n"),
    // By a path in a body.
    ("b.rs", "pub struct B;\nfn f() -> u32 { vec![1, crate::c::COUNT][0] }\n"),
    // By a re-export.
    ("c.rs", "pub const COUNT: u32 = 1;\nimpl crate::D { fn g(&self) {} }\n"),
    // By what the parent imports of everything.
    ("d.rs", "pub struct D;\nfn h() { let _ = super::E { x: 1 }; }\n"),
    // By an import within a function.
    ("e.rs", "pub struct E { pub x: u32 }\npub const fn i() { use crate::a::A; }\n"),
];

#[test]
fn a_ring_is_a_knot_however_its_files_name_each_other() {
    assert_eq!(knots_of(&RING, &[]), [["a.rs", "b.rs", "c.rs", "d.rs", "e.rs"]]);
    // Without any one of the arrows it is none.
    for (place, (_, text)) in RING.iter().enumerate().skip(1) {
        let mut files = RING;
        let cut = text.replace("crate::", "other::").replace("super::", "other::");
        files[place].1 = &cut;
        assert_eq!(knots_of(&files, &[]), Vec::<Vec<String>>::new(), "{cut}");
    }
    let knot = Knot { files: vec!["a.rs".into(), "b.rs".into()], arrows: vec!["a uses b".into()] };
    let message = told("made-up", &knot);
    assert!(
        message.contains("made-up: 2 files") && message.contains("a.rs, b.rs\n  a uses b"),
        "{message}"
    );
}

#[test]
fn an_object_cut_over_files_is_a_knot_once_its_parts_call_one_another() {
    let lib = "mod a;\nmod b;\npub struct Cut { part: a::Part, count: u32 }\n\
               impl Cut { pub fn new() -> Self { Self { part: a::Part, count: 0 } } }\n";
    let b = "use crate::Cut;\nimpl Cut { pub fn step(&mut self) { self.count += 1; } }\n";
    let a = "pub struct Part;\nimpl Part { pub fn small(&self) {} }\n";
    let none = Vec::<Vec<String>>::new();
    // The part names its type, and nothing calls it.
    assert_eq!(knots_of(&[("lib.rs", lib), ("a.rs", a), ("b.rs", b)], &[]), none);
    for (call, knot) in [
        ("impl Cut { fn f(&mut self) { self.step(); } }", true),
        ("impl<'a> Drop for &'a mut Cut { fn drop(&mut self) { self.step() } }", true),
        ("impl Cut { fn f(&mut self) { Self::step(self); } }", true),
        ("struct Owner { cut: Cut }\nimpl Owner { fn f(&mut self) { self.cut.step(); } }", true),
        ("impl Cut { fn f(&mut self) { self.part.small(); } }", false),
        ("impl Cut { fn f(&mut self) { self.part.step(); } }", false),
        ("impl Cut { #[cfg(test)]\nfn f(&mut self) { self.step(); } }", false),
        ("struct Other;\nimpl Other { fn step(&self) {}\nfn f(&self) { self.step(); } }", false),
    ] {
        let lib = format!("{lib}{call}\n");
        let found = knots_of(&[("lib.rs", &lib), ("a.rs", a), ("b.rs", b)], &[]);
        let expected = if knot { vec![vec!["b.rs".to_owned(), "lib.rs".into()]] } else { vec![] };
        assert_eq!(found, expected, "{call}");
    }
}

#[test]
fn super_in_a_module_within_a_file_is_that_file() {
    let files = |inner: &'static str| {
        [
            ("lib.rs", "pub mod outer;\npub struct Root;\n"),
            ("outer/mod.rs", "mod part;\npub struct Outer(part::Part);\n"),
            ("outer/part.rs", inner),
        ]
    };
    let within = "pub struct Part;\nmod inner { use super::Part; fn f(_: Part) {} }\n";
    assert_eq!(knots_of(&files(within), &[]), Vec::<Vec<String>>::new());
    let above = "pub struct Part;\nmod inner { use super::super::Outer; fn f(_: Outer) {} }\n";
    assert_eq!(knots_of(&files(above), &[]), [["outer/mod.rs", "outer/part.rs"]]);
}

#[test]
fn tests_exports_words_and_registration_tables_are_no_arrows() {
    let lib = |more: &str| format!("mod a;\npub use a::A;\npub trait T {{}}\n{more}");
    let a = "/// See [`crate::T`]: crate::T.\npub struct A;\nimpl crate::T for A {}\n\
             #[cfg(test)]\nmod tests { use crate::U; }\n";
    let none = Vec::<Vec<String>>::new();
    let exports = lib("");
    assert_eq!(knots_of(&[("lib.rs", &exports), ("a.rs", a)], &[]), none);

    let with_table = lib("pub const ALL: &[&dyn T] = &[&A];\n");
    let files = [("lib.rs", with_table.as_str()), ("a.rs", a)];
    assert_eq!(knots_of(&files, &[]), [["a.rs", "lib.rs"]]);
    let table = RegistrationTable {
        file: "wing/made-up/src/lib.rs",
        constant: "ALL",
        reason: "it is a test",
    };
    assert_eq!(knots_of(&files, &[table]), none);

    // A table excuses nothing else in its file.
    let used = lib("pub const ALL: &[&dyn T] = &[&A];\nfn f() -> A { A }\n");
    assert_eq!(knots_of(&[("lib.rs", &used), ("a.rs", a)], &[table]), [["a.rs", "lib.rs"]]);
}
