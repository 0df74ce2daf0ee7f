//! Tables of real files, against what others make of these.

// This program is the file, and its registers are read.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::disallowed_methods, reason = "readelf, and files of this machine")]

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::{Object, ObjectSegment};
use stasis_unwind::{Registers, Table};

fn own() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// The rows that readelf tells of a file: address, and columns by their names.
fn told(path: &Path) -> Vec<(u64, HashMap<String, String>)> {
    let readelf = Command::new("readelf").arg("--debug-dump=frames-interp").arg(path).output();
    let text = String::from_utf8_lossy(&readelf.unwrap().stdout).into_owned();
    let (mut names, mut rows, mut is_function) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, _, _, "FDE", ..] => is_function = true,
            [_, _, _, "CIE", ..] => is_function = false,
            ["LOC", ..] => names = words[1..].iter().map(|word| (*word).to_owned()).collect(),
            [address, ..] if is_function && words.len() == names.len() + 1 => {
                let Ok(address) = u64::from_str_radix(address, 16) else { continue };
                let columns = names.iter().cloned();
                let columns = columns.zip(words[1..].iter().map(|word| (*word).to_owned()));
                rows.push((address, columns.collect()));
            }
            _ => {}
        }
    }
    rows
}

/// Each row of a program is as readelf has it, and nearly all have a rule.
#[test]
fn rows_are_those_of_readelf() {
    let path = own();
    let bytes = std::fs::read(&path).unwrap();
    let table = Table::of(&bytes).expect("this program has call frame information");
    let file = object::File::parse(&bytes[..]).unwrap();
    let place = |address: u64| {
        file.segments().find_map(|part| {
            let behind = address.checked_sub(part.address()).filter(|it| *it < part.size())?;
            Some(part.file_range().0 + behind)
        })
    };
    let (mut all, mut others) = (0, 0);
    for (address, columns) in told(&path) {
        let column = |name: &str| match columns.get(name).map(String::as_str) {
            None | Some("u" | "s") => "u",
            Some(word) => word,
        };
        let row = format!("{} {} {}", column("CFA"), column("rbp"), column("ra"));
        let own = place(address).and_then(|place| table.rule(place)).map(ToString::to_string);
        all += 1;
        // An expression, or a register that is not followed.
        let is_other = row.contains("exp") || !row.starts_with("rsp") && !row.starts_with("rbp");
        match is_other {
            true => others += 1,
            false => assert_eq!(own.as_deref(), Some(row.as_str()), "{address:#x}"),
        }
    }
    assert!(all > 10_000, "{all} rows");
    assert!(others * 100 < all, "{others} of {all} rows are of other kinds");
    let streamed = Table::decode(&table.encode());
    assert!(streamed.as_ref() == Some(&table));
    // Stripped of its sections it has the same: programs run without these.
    let mut stripped = bytes.clone();
    stripped[40..48].fill(0);
    stripped[58..64].fill(0);
    assert!(Table::of(&stripped) == Some(table.clone()));
    println!("{all} rows, {others} others, {} bytes", table.size());
}

extern "C" {
    fn _Unwind_Backtrace(
        take: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        all: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

extern "C" fn take(context: *mut c_void, all: *mut c_void) -> i32 {
    // SAFETY: the vector of `both`, and the context of this call.
    unsafe { (*all.cast::<Vec<u64>>()).push(_Unwind_GetIP(context) as u64) };
    0
}

/// The calls that led here by the table, and by the C compiler's library.
#[inline(never)]
fn both(table: &Table, maps: &[(u64, u64, u64)]) -> (Vec<u64>, Vec<u64>) {
    let (mut rip, mut rsp, mut rbp) = (0u64, 0u64, 0u64);
    // SAFETY: registers are read and nothing else.
    unsafe {
        std::arch::asm!(
            "lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp",
            out(reg) rip, out(reg) rsp, out(reg) rbp,
        );
    }
    let mut theirs: Vec<u64> = Vec::new();
    // SAFETY: `take` is given the vector.
    unsafe { _Unwind_Backtrace(take, (&raw mut theirs).cast()) };
    let (mut at, mut exact, mut own) = (Registers { rip, rsp, rbp }, true, Vec::new());
    while own.len() < 256 {
        let call = if exact { at.rip } else { at.rip - 1 };
        let Some(&(begin, _, from)) = maps.iter().find(|part| (part.0..part.1).contains(&call))
        else {
            break;
        };
        own.push(at.rip);
        let Some(rule) = table.rule(from + (call - begin)) else { break };
        // SAFETY: the stack of this thread, from here to its outermost function.
        let word = |at: u64| Some(unsafe { (at as *const u64).read() });
        let Some(caller) = rule.caller(at, word) else { break };
        (at, exact) = (caller.registers, caller.is_interrupted);
    }
    (own, theirs)
}

/// A function whose frame is as long as the program says, and which calls itself.
#[inline(never)]
fn deep(depth: u64, table: &Table, maps: &[(u64, u64, u64)]) -> (Vec<u64>, Vec<u64>) {
    let room = std::hint::black_box([depth; 33]);
    let found = match depth {
        0 => both(table, maps),
        depth => deep(depth - 1, table, maps),
    };
    assert_eq!(std::hint::black_box(room)[7], depth);
    found
}

#[test]
fn this_programs_own_stack_is_found_whole() {
    let bytes = std::fs::read(own()).unwrap();
    let table = Table::of(&bytes).unwrap();
    let own = own().to_string_lossy().into_owned();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parts = maps.lines().filter(|line| line.ends_with(&own)).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
        let (begin, end) = words[0].split_once('-').unwrap();
        (hex(begin), hex(end), hex(words[2]))
    });
    let (own, theirs) = deep(9, &table, &parts.collect::<Vec<_>>());
    assert!(own.len() > 12, "{own:x?}");
    // The innermost one is at another instruction; theirs ends with an address of no function, if any.
    let theirs: Vec<u64> = theirs.into_iter().filter(|at| *at != 0).collect();
    assert_eq!(own[1..], theirs[1..], "{own:x?} {theirs:x?}");
}
