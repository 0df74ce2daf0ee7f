//! The modules of a guest's kernel: their functions and their tables for unwinding stacks, which are
//! read from its memory when an address of theirs comes up.

use std::ops::Range;

use stasis_layout::{layout, IntoBytes, U16, U32, U64};
use stasis_run_events::{ModuleOrc, ModuleSymbols, Modules, Orc};
use stasis_unwind::{symbol_file, Symbol};

use super::linear::Words;
use super::orc::{Tables, MODULES};

/// Bytes of a module's name (Linux, MODULE_NAME_LEN on 64 bits).
const MODULE_NAME: usize = 56;
/// Limit on the modules of a kernel, on the symbols of one, and on the bytes of a symbol's name
/// (include/linux/kallsyms.h, KSYM_NAME_LEN).
const MAX_MODULES: usize = 1024;
const MAX_SYMBOLS: u32 = 1 << 18;
const SYMBOL_NAME: usize = 512;
/// The kind of a function (System V ABI, chapter 4).
const FUNCTION: u8 = 2;

layout! {
    /// An entry of a table of symbols, `Elf64_Sym` (ibid.).
    struct Entry: 24 {
        [0] name: U32,
        /// The kind, in bits 3:0.
        [4] info: u8,
        [5] other: u8,
        [6] section: U16,
        [8] value: U64,
        [16] size: U64,
    }
}

/// A module that is loaded.
#[derive(Debug)]
pub(in super::super) struct Module {
    first: u64,
    end: u64,
    name: String,
    pub(super) tables: Tables,
    /// Functions by their first address, with the address of the name of each.
    functions: Vec<(u64, u64)>,
}

/// The modules of a machine, as they were read last.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub modules: Vec<Module>,
    /// Addresses that were in none.
    missed: u64,
}

impl Loaded {
    /// The module of an address, among those that are known.
    pub(super) fn known(&self, address: u64) -> Option<&Module> {
        self.modules.iter().find(|module| module.has(address))
    }

    /// Learns the module of an address, if it is not known and the address may be a module's.
    /// Returns whether more is known now.
    pub(super) fn learn(
        &mut self,
        address: u64,
        places: &Modules,
        memory: &mut impl Words,
    ) -> bool {
        if address < MODULES || self.known(address).is_some() {
            return false;
        }
        // Code that is no module's, such as BPF's, is never found: the list is read seldom then.
        self.missed += 1;
        if !self.missed.is_power_of_two() {
            return false;
        }
        self.modules = read(places, memory).unwrap_or_default();
        self.known(address).is_some()
    }
}

/// The modules that the kernel lists.
pub(in super::super) fn read(places: &Modules, memory: &mut impl Words) -> Option<Vec<Module>> {
    let mut all = Vec::new();
    let mut entry = memory.quad(places.head)?;
    while entry != places.head && all.len() < MAX_MODULES {
        let module = entry.wrapping_sub(places.list);
        let mut name = [0; MODULE_NAME];
        let first = memory.quad(module.wrapping_add(places.base))?;
        let size = memory.long(module.wrapping_add(places.size))?;
        if !memory.read(module.wrapping_add(places.name), &mut name) {
            return None;
        }
        let end = first.saturating_add(size.into());
        let orc = places.orc.and_then(|orc| tables(&orc, module, memory));
        let functions = places.symbols.and_then(|one| functions(&one, module, first..end, memory));
        all.push(Module {
            first,
            end,
            name: plain(&name),
            tables: orc.unwrap_or_default(),
            functions: functions.unwrap_or_default(),
        });
        entry = memory.quad(entry)?;
    }
    Some(all)
}

fn tables(places: &ModuleOrc, module: u64, memory: &mut impl Words) -> Option<Tables> {
    let count = memory.long(module.wrapping_add(places.count))?;
    let addresses = memory.quad(module.wrapping_add(places.addresses))?;
    let entries = memory.quad(module.wrapping_add(places.entries))?;
    let addresses_end = addresses.checked_add(4 * u64::from(count))?;
    let orc = Orc { addresses, addresses_end, entries, from_6_4: places.from_6_4 };
    Tables::read(&orc, |at, into| memory.read(at, into))
}

fn functions(
    places: &ModuleSymbols,
    module: u64,
    code: Range<u64>,
    memory: &mut impl Words,
) -> Option<Vec<(u64, u64)>> {
    let list = memory.quad(module.wrapping_add(places.list))?;
    let table = memory.quad(list.wrapping_add(places.table))?;
    let count = memory.long(list.wrapping_add(places.count))?.min(MAX_SYMBOLS);
    let strings = memory.quad(list.wrapping_add(places.strings))?;
    let mut all = vec![Entry::default(); count as usize];
    if !memory.read(table, all.as_mut_bytes()) {
        return None;
    }
    let function = |symbol: &Entry| {
        let (name, value) = (symbol.name.get(), symbol.value.get());
        let is = symbol.info & 0xf == FUNCTION && code.contains(&value) && name != 0;
        is.then(|| (value, strings.wrapping_add(name.into())))
    };
    let mut functions: Vec<_> = all.iter().filter_map(function).collect();
    functions.sort_unstable();
    Some(functions)
}

impl Module {
    /// The addresses of its code.
    pub(in super::super) fn code(&self) -> Range<u64> {
        self.first..self.end
    }

    pub(in super::super) fn name(&self) -> &str {
        &self.name
    }

    /// A file for gdb with its functions, and with the frames by which their callers are found.
    pub(in super::super) fn symbol_file(&self, memory: &mut impl Words) -> Vec<u8> {
        let symbol = |&(address, name): &(u64, u64)| {
            let name = string(name, memory).filter(|name| !name.is_empty())?;
            Some(Symbol { address, kind: 't', name })
        };
        let symbols: Vec<Symbol> = self.functions.iter().filter_map(symbol).collect();
        symbol_file(&symbols, self.code(), self.end..self.end, &self.tables.frames(self.end))
    }

    pub(super) fn has(&self, address: u64) -> bool {
        (self.first..self.end).contains(&address)
    }

    /// The name of the function of an address, as the kernel lists it: with the module's behind it.
    pub(super) fn function(&self, address: u64, memory: &mut impl Words) -> String {
        let after = self.functions.partition_point(|(first, _)| *first <= address);
        let place = after.checked_sub(1).and_then(|place| self.functions.get(place));
        let name = place.and_then(|&(_, at)| string(at, memory)).filter(|name| !name.is_empty());
        match name {
            Some(name) => format!("{name} [{}]", self.name),
            None => format!("[{}]", self.name),
        }
    }
}

/// The string at an address, which ends with a zero.
fn string(at: u64, memory: &mut impl Words) -> Option<String> {
    const PART: usize = 32;
    let mut bytes = Vec::new();
    while bytes.len() < SYMBOL_NAME {
        let from = at.wrapping_add(bytes.len() as u64);
        // Parts do not cross a page.
        let mut part = [0; PART];
        let length = PART - (from % PART as u64) as usize;
        if !memory.read(from, &mut part[..length]) {
            return None;
        }
        bytes.extend_from_slice(&part[..length]);
        if part[..length].contains(&0) {
            return Some(plain(&bytes));
        }
    }
    None
}

/// A name up to its zero, as it can stand in a folded stack, which has semicolons and lines of its own.
pub(super) fn plain(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let plain = |c: char| if c == ';' || c.is_control() { '_' } else { c };
    String::from_utf8_lossy(&name[..end]).chars().map(plain).collect()
}
