//! A moment as a file: a kernel's memory and its processors' registers as drgn and gdb read them.
//!
//! The file is an ELF core file as kexec's `/proc/vmcore` is (Linux, Documentation/admin-guide/kdump): a
//! segment for each part of memory, at its place in the kernel's direct map, one for the kernel itself, a
//! note with each processor's registers (`NT_PRSTATUS`), and the kernel's own note of its layout
//! (`VMCOREINFO`). All of it is read over the wire to gdb, the memory by a packet of our own.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use stasis_layout::{layout, u32_at, u64_at, IntoBytes, U16, U32, U64};
use stasis_run_events::Debugger;

use super::packet::{packet, unhex};
use crate::commands::symbols::Symbols;

/// Interval between looks for a stop while waiting.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes that are asked for at once.
const PIECE: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The begin of the mapping of the kernel's own code and data (Linux, Documentation/arch/x86/x86_64/mm.rst).
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// The direct map of a kernel that does not lay memory out at random (likewise).
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

layout! {
    /// `Elf64_Ehdr` (ELF, chapter 4).
    struct Header: 64 {
        [0] magic: [u8; 16],
        [16] kind: U16,
        [18] machine: U16,
        [20] version: U32,
        [24] entry: U64,
        [32] segments: U64,
        [40] sections: U64,
        [48] flags: U32,
        [52] size: U16,
        [54] segment_size: U16,
        [56] segment_count: U16,
        [58] section_size: U16,
        [60] section_count: U16,
        [62] section_names: U16,
    }
}
layout! {
    /// `Elf64_Phdr`.
    struct Segment: 56 {
        [0] kind: U32,
        [4] flags: U32,
        [8] offset: U64,
        [16] linear: U64,
        [24] physical: U64,
        [32] length: U64,
        [40] memory: U64,
        [48] align: U64,
    }
}
layout! {
    /// `Elf64_Nhdr`.
    struct Note: 12 {
        [0] name: U32,
        [4] length: U32,
        [8] kind: U32,
    }
}

/// Bytes of `struct elf_prstatus` of x86-64, and the place of its registers (Linux,
/// include/linux/elfcore.h).
const STATUS: usize = 336;
const STATUS_PID: usize = 32;
const STATUS_REGISTERS: usize = 112;
/// In that order, the places of registers in gdb's answer; two are not among them: ORIG_RAX, and the bases
/// of FS and GS, which stay zero (arch/x86/include/asm/user_64.h).
const REGISTERS: [(usize, usize); 21] = {
    const fn whole(number: usize) -> (usize, usize) {
        (8 * number, 8)
    }
    const fn half(number: usize) -> (usize, usize) {
        (17 * 8 + 4 * number, 4)
    }
    [
        whole(15),
        whole(14),
        whole(13),
        whole(12),
        whole(6),
        whole(1),
        whole(11),
        whole(10),
        whole(9),
        whole(8),
        whole(0),
        whole(2),
        whole(3),
        whole(4),
        whole(5),
        (0, 0),
        whole(16),
        half(1),
        half(0),
        whole(7),
        half(2),
    ]
};

/// The files of a moment, for the user.
#[derive(Debug)]
pub struct Dumped {
    files: Vec<(PathBuf, u64, usize)>,
    time: String,
}

impl fmt::Display for Dumped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.time.trim_end())?;
        for (file, memory, processors) in &self.files {
            let (memory, file) = (memory >> 20, file.display());
            writeln!(f, "{file}: {memory} MiB of memory, {processors} processors")?;
            write!(f, "  drgn -c {file} -s VMLINUX; gdb VMLINUX {file}")?;
        }
        Ok(())
    }
}

/// For bytes of the run's, and those that it gets.
type Wires = (SyncSender<Vec<u8>>, Receiver<Vec<u8>>);

/// A debugger that writes the moment to a file, and ends the run.
#[derive(Debug)]
pub struct Dump {
    /// None once the run is over.
    wires: Option<Wires>,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<Result<Dumped>>>,
}

impl Dump {
    /// Makes one that writes `file`; of several machines the others' names are appended.
    pub fn new(file: PathBuf, symbols: &Symbols, stop: Arc<AtomicBool>) -> Self {
        let (outgoing, answers) = sync_channel(1);
        let (requests, incoming) = sync_channel(1);
        let place = |name: &str| symbols.address(name);
        let places = Places {
            direct_map: place("page_offset_base"),
            base: place("phys_base"),
            note: place("vmcoreinfo_note"),
            begin: place("_text"),
            end: place("_end"),
        };
        let write = move || {
            let mut wire = Client { requests, answers, came: Vec::new() };
            let written = wire.write(&file, &places);
            // The run is over, whatever has come of it.
            let _ = wire.send("k");
            written
        };
        Self { wires: Some((outgoing, incoming)), stop, writer: Some(std::thread::spawn(write)) }
    }

    /// Ends the writing, with the run.
    ///
    /// # Errors
    /// The reason why there is no file.
    pub fn end(&mut self) -> Result<Dumped> {
        self.wires = None;
        let writer = self.writer.take().context("the moment is written once")?;
        writer.join().map_err(|_| anyhow!("the moment was not written"))?
    }
}

impl Debugger for Dump {
    fn exchange(&mut self, bytes: &[u8], wait: bool) -> io::Result<Option<Vec<u8>>> {
        let Some((outgoing, incoming)) = &self.wires else { return Ok(None) };
        if !bytes.is_empty() && outgoing.send(bytes.to_vec()).is_err() {
            return Ok(None);
        }
        match wait {
            true => loop {
                match incoming.recv_timeout(LOOK) {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Relaxed) => {}
                    Err(_) => return Ok(None),
                }
            },
            false => Ok(Some(Vec::new())),
        }
    }
}

/// Linear addresses of the kernel's.
#[derive(Debug)]
struct Places {
    direct_map: Option<u64>,
    base: Option<u64>,
    note: Option<u64>,
    begin: Option<u64>,
    end: Option<u64>,
}

/// A machine, as the run describes it.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    name: String,
    /// gdb's numbers of its processors.
    processors: Vec<usize>,
    /// The guest-physical address and length of each part of its memory.
    memory: Vec<(u64, u64)>,
}

impl Machine {
    /// Reads a line of `monitor regions`.
    fn read(line: &str) -> Option<Self> {
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let mut words = line.split_whitespace();
        let name = words.next()?.strip_suffix(':')?.to_owned();
        let processors = words.next()?.strip_prefix("processors=")?;
        let processors =
            processors.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let memory = words.next()?.strip_prefix("memory=")?.split(',');
        let part = |word: &str| {
            let (base, length) = word.split_once('+')?;
            Some((number(base)?, number(length)?))
        };
        Some(Self { name, processors, memory: memory.map(part).collect::<Option<_>>()? })
    }
}

/// gdb's side of its remote protocol (gdb's manual, appendix E).
struct Client {
    requests: SyncSender<Vec<u8>>,
    answers: Receiver<Vec<u8>>,
    came: Vec<u8>,
}

impl Client {
    fn send(&mut self, body: &str) -> Result<()> {
        self.requests.send(packet(body.as_bytes())).context("the run has ended")
    }

    /// The next packet of the run's.
    fn packet(&mut self) -> Result<Vec<u8>> {
        loop {
            let begin = self.came.iter().position(|byte| *byte == b'$');
            let end = self.came.iter().position(|byte| *byte == b'#');
            if let (Some(begin), Some(end)) = (begin, end) {
                if self.came.len() >= end + 3 {
                    let body = plain(&self.came[begin + 1..end]);
                    self.came.drain(..end + 3);
                    return Ok(body);
                }
            }
            let bytes = self.answers.recv();
            self.came.extend(bytes.context("the run has ended before the moment")?);
        }
    }

    fn ask(&mut self, body: &str) -> Result<Vec<u8>> {
        self.send(body)?;
        self.packet()
    }

    /// The answer to a `monitor` command.
    fn monitor(&mut self, command: &str) -> Result<String> {
        let hex: String = command.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.send(&format!("qRcmd,{hex}"))?;
        let mut text = Vec::new();
        loop {
            let packet = self.packet()?;
            match packet.split_first() {
                Some((b'O', rest)) if rest != b"K" => text.extend(unhex(rest)),
                _ => return Ok(String::from_utf8_lossy(&text).into_owned()),
            }
        }
    }

    /// Memory at a linear address, as far as it is there.
    fn read(&mut self, at: u64, length: u64) -> Result<Vec<u8>> {
        let answer = self.ask(&format!("m{at:x},{length:x}"))?;
        match answer.first() {
            Some(b'E') | None => Ok(Vec::new()),
            Some(_) => Ok(unhex(&answer)),
        }
    }

    /// Memory of machine `number` at a guest-physical address.
    fn memory(&mut self, number: usize, at: u64, length: u64) -> Result<Vec<u8>> {
        const LENGTH: usize = 4;
        self.send(&format!("qStasisMemory:{number:x},{at:x},{length:x}"))?;
        loop {
            let length = u32_at(&self.came, 0).map(|length| LENGTH + length as usize);
            if let Some(length) = length.filter(|length| self.came.len() >= *length) {
                let found = self.came[LENGTH..length].to_vec();
                self.came.drain(..length);
                return Ok(found);
            }
            let bytes = self.answers.recv();
            self.came.extend(bytes.context("the run has ended while the moment was written")?);
        }
    }

    fn word(&mut self, at: Option<u64>) -> Result<Option<u64>> {
        let Some(at) = at else { return Ok(None) };
        Ok(u64_at(&self.read(at, 8)?, 0))
    }

    fn write(&mut self, file: &Path, places: &Places) -> Result<Dumped> {
        self.ask("QStartNoAckMode")?;
        let regions = self.monitor("regions")?;
        let machines = regions.lines().map(Machine::read).collect::<Option<Vec<_>>>();
        let machines = machines.filter(|all| !all.is_empty());
        let machines =
            machines.with_context(|| format!("the machines are not known: {regions}"))?;
        let time = self.monitor("time")?;
        let mut files = Vec::new();
        for (number, machine) in machines.iter().enumerate() {
            let mut path = file.to_owned();
            if machines.len() > 1 {
                path.as_mut_os_string().push(format!("-{}", machine.name));
            }
            let written = self.write_machine(&path, (number, machine), places);
            written.with_context(|| format!("--dump: cannot write {}", path.display()))?;
            let memory = machine.memory.iter().map(|(_, length)| length).sum();
            files.push((path, memory, machine.processors.len()));
        }
        Ok(Dumped { files, time })
    }

    fn write_machine(
        &mut self,
        path: &Path,
        (number, machine): (usize, &Machine),
        places: &Places,
    ) -> Result<()> {
        let first = machine.processors.first().context("a machine has no processor")?;
        ensure!(self.ask(&format!("Hg{first:x}"))? == b"OK", "the processor {first} is not there");
        let direct_map = self.word(places.direct_map)?.unwrap_or(DIRECT_MAP);
        let mut notes = Vec::new();
        for processor in &machine.processors {
            self.ask(&format!("Hg{processor:x}"))?;
            let registers = unhex(&self.ask("g")?);
            note(&mut notes, b"CORE\0", 1, &status(&registers, *processor));
        }
        self.ask(&format!("Hg{first:x}"))?;
        notes.extend(self.own_note(places)?);

        // The kernel itself, which is in one of the parts of memory.
        let kernel = self.kernel(machine, places)?;
        let count = 1 + machine.memory.len() + usize::from(kernel.is_some());
        let head = (size_of::<Header>() + count * size_of::<Segment>()) as u64;
        let mut offset = (head + notes.len() as u64).next_multiple_of(PAGE);
        let mut segments = vec![segment(4, (head, 0, 0), notes.len() as u64)];
        let mut offsets = Vec::new();
        for &(base, length) in &machine.memory {
            offsets.push(offset);
            segments.push(segment(1, (offset, direct_map.wrapping_add(base), base), length));
            offset += length.next_multiple_of(PAGE);
        }
        if let Some((begin, physical, length)) = kernel {
            let parts = machine.memory.iter().zip(&offsets);
            let part = parts.rev().find(|((base, _), _)| *base <= physical);
            if let Some(((base, _), offset)) = part {
                segments.push(segment(1, (offset + physical - base, begin, physical), length));
            }
        }

        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(header(segments.len()).as_bytes())?;
        segments.iter().try_for_each(|segment| file.write_all(segment.as_bytes()))?;
        file.write_all(&notes)?;
        for (&(base, length), &offset) in machine.memory.iter().zip(&offsets) {
            for done in (0..length).step_by(PIECE as usize) {
                let found = self.memory(number, base + done, PIECE.min(length - done))?;
                ensure!(!found.is_empty(), "memory at {:#x} cannot be read", base + done);
                // Pages of nothing but zeros are holes.
                for (page, bytes) in (0..).zip(found.chunks(PAGE as usize)) {
                    if bytes.iter().any(|byte| *byte != 0) {
                        file.seek(SeekFrom::Start(offset + done + page * PAGE))?;
                        file.write_all(bytes)?;
                    }
                }
            }
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.set_len(offset)?;
        Ok(())
    }

    /// The kernel's own note.
    fn own_note(&mut self, places: &Places) -> Result<Vec<u8>> {
        const MAX_NOTE: u64 = 64 << 10;
        let missing = "the kernel has no note of its layout (VMCOREINFO), or has not made it yet";
        let at = self.word(places.note)?.filter(|at| *at != 0).context(missing)?;
        let head = self.read(at, size_of::<Note>() as u64)?;
        let (name, length) = u32_at(&head, 0).zip(u32_at(&head, 4)).context(missing)?;
        let padded = |length: u32| u64::from(length).next_multiple_of(4);
        let whole = size_of::<Note>() as u64 + padded(name) + padded(length);
        if whole > MAX_NOTE {
            bail!(missing);
        }
        let note = self.read(at, whole)?;
        ensure!(note.len() as u64 == whole && note[12..].starts_with(b"VMCOREINFO"), missing);
        Ok(note)
    }

    /// Linear and guest-physical address of the kernel, and its length.
    fn kernel(&mut self, machine: &Machine, places: &Places) -> Result<Option<(u64, u64, u64)>> {
        let base = self.word(places.base)?.unwrap_or(0);
        let Some((begin, end)) = places.begin.zip(places.end) else { return Ok(None) };
        let physical = begin.wrapping_sub(KERNEL_MAP).wrapping_add(base);
        let length = end.saturating_sub(begin);
        let is_there = machine.memory.iter().any(|(base, memory)| {
            let last = physical.checked_add(length);
            *base <= physical && last.is_some_and(|last| last <= base + memory)
        });
        Ok(is_there.then_some((begin, physical, length)))
    }
}

/// A packet without its runs of a byte: after `*`, how often it comes again.
fn plain(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(body.len());
    let mut rest = body.iter();
    while let Some(&byte) = rest.next() {
        match (byte, plain.last().copied()) {
            (b'*', Some(last)) => {
                let count = rest.next().map_or(0, |count| count.saturating_sub(29));
                plain.resize(plain.len() + usize::from(count), last);
            }
            _ => plain.push(byte),
        }
    }
    plain
}

fn header(segments: usize) -> Header {
    let mut magic = [0; 16];
    magic[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    Header {
        magic,
        kind: 4.into(),
        machine: 62.into(),
        version: 1.into(),
        segments: (size_of::<Header>() as u64).into(),
        size: (size_of::<Header>() as u16).into(),
        segment_size: (size_of::<Segment>() as u16).into(),
        segment_count: (segments as u16).into(),
        ..Header::default()
    }
}

/// A segment of a kind, at an offset of the file and at linear and physical addresses.
fn segment(kind: u32, (offset, linear, physical): (u64, u64, u64), length: u64) -> Segment {
    /// It can be read, written and executed.
    const FLAGS: u32 = 7;
    Segment {
        kind: kind.into(),
        flags: if kind == 1 { FLAGS } else { 0 }.into(),
        offset: offset.into(),
        linear: linear.into(),
        physical: physical.into(),
        length: length.into(),
        memory: if kind == 1 { length } else { 0 }.into(),
        align: 0.into(),
    }
}

/// Appends a note.
fn note(notes: &mut Vec<u8>, name: &[u8], kind: u32, bytes: &[u8]) {
    let head = Note {
        name: (name.len() as u32).into(),
        length: (bytes.len() as u32).into(),
        kind: kind.into(),
    };
    notes.extend(head.as_bytes());
    for part in [name, bytes] {
        notes.extend(part);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
}

/// A processor's `struct elf_prstatus`.
fn status(registers: &[u8], processor: usize) -> Vec<u8> {
    let mut status = vec![0; STATUS];
    status[STATUS_PID..STATUS_PID + 4].copy_from_slice(&(processor as u32).to_le_bytes());
    for (slot, (from, length)) in REGISTERS.into_iter().enumerate() {
        let at = STATUS_REGISTERS + 8 * slot;
        if let Some(found) = registers.get(from..from + length) {
            status[at..at + length].copy_from_slice(found);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read() {
        // gdb's manual, E.1: "0* " is four zeros.
        assert_eq!(plain(b"0* 1"), b"00001");
        assert_eq!(unhex(&plain(b"0*\"ff")), [0, 0, 0, 0xff]);
        let machine = Machine::read("a: processors=1,2 memory=0x0+0xa0000,0x100000+0x3ff00000");
        let expected = Machine {
            name: "a".into(),
            processors: vec![1, 2],
            memory: vec![(0, 0xa0000), (0x10_0000, 0x3ff0_0000)],
        };
        assert_eq!(machine, Some(expected));
        assert_eq!(Machine::read("no machine"), None);
    }

    /// Each register is where the kernel's `user_regs_struct` has it.
    #[test]
    fn registers_have_their_places() {
        let mut registers: Vec<u8> =
            (0..17u64).flat_map(|number| (100 + number).to_le_bytes()).collect();
        registers.extend((0..7u32).flat_map(|number| (200 + number).to_le_bytes()));
        let status = status(&registers, 3);
        let word = |slot: usize| u64_at(&status, STATUS_REGISTERS + 8 * slot).unwrap();
        let all: Vec<u64> = (0..21).map(word).collect();
        let expected = [
            115, 114, 113, 112, 106, 101, 111, 110, 109, 108, 100, 102, 103, 104, 105, 0, 116, 201,
            200, 107, 202,
        ];
        assert_eq!(all, expected);
        assert_eq!(u32_at(&status, STATUS_PID), Some(3));
    }
}
