//! The memory, the programs, and the sets of memory ranges.

use std::collections::BTreeMap;

use stasis_ebpf::{Execution, Loader, Memory, Program};

use crate::computing::config::Programs;
use crate::computing::work::Call;
use crate::narrow::size;
use crate::status::StatusCode;

/// Program indexes, all of which take programs of the host.
pub const MAX_PROGRAMS: u16 = 16;
/// Bytes of all programs together: MAXPB is in MiB.
pub const MAX_PROGRAM_BYTES: u64 = 1 << 20;
/// Sets of memory ranges, and ranges of one.
pub const MAX_SETS: u16 = 64;
pub const MAX_RANGES: u8 = 16;

/// Addresses of a program's context, the command's data, and the first range; the others follow at
/// the same distance.
const CONTEXT: u64 = 2;
const DATA: u64 = 3;
const RANGES: u64 = 4;
/// Binary places of an address within one of those.
const PLACES: u32 = 40;

/// A program of the host.
#[derive(Debug)]
pub struct Loaded {
    size: u32,
    // The part that has been loaded so far, until it is whole.
    bytes: Vec<u8>,
    program: Option<Program>,
    pub active: bool,
}

/// A range of the memory: its first byte and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub length: u32,
}

/// The outcome of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub result: Result<u64, StatusCode>,
    pub instructions: u64,
    /// Bytes of the memory that it has read and written.
    pub bytes: u64,
}

/// Work of the device, of which a slice is carried out at a time.
#[derive(Debug)]
pub enum Task {
    /// A program runs.
    Run(Box<Running>),
    /// A program is checked.
    Check { index: u16, loader: Loader },
    /// Bytes of the memory are cleared.
    Clear { at: u64, end: u64 },
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    call: Call,
    execution: Execution,
    /// Bytes of the memory that it has read and written so far.
    bytes: u64,
}

/// Work that has come to its end.
#[derive(Debug)]
pub enum Finished {
    /// A program has run; its call's data.
    Run(Run, Vec<u8>),
    /// A program was checked: it is loaded, or refused.
    Check(Result<(), StatusCode>),
    /// The memory is clear.
    Clear,
}

/// The device that programs run on.
#[derive(Debug)]
pub struct Device {
    pub config: Programs,
    /// The work under way, by the numbers that it has in [`crate::computing::Work`].
    pub tasks: BTreeMap<u64, Task>,
    memory: Vec<u8>,
    programs: [Option<Loaded>; MAX_PROGRAMS as usize],
    sets: BTreeMap<u16, Vec<Range>>,
}

impl Device {
    /// A new one, if there are programs: its memory is zeroes.
    pub fn new(config: Option<Programs>) -> Option<Self> {
        let config = config?;
        let memory = vec![0; size(config.memory)];
        let (programs, sets, tasks) = ([const { None }; 16], BTreeMap::new(), BTreeMap::new());
        Some(Self { config, tasks, memory, programs, sets })
    }

    /// The bytes of a range of the memory, if they lie in it.
    pub fn bytes(&mut self, start: u64, length: u64) -> Option<&mut [u8]> {
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.memory.get_mut(start..end)
    }

    /// The work of clearing all of the memory.
    pub fn clear(&self) -> Task {
        Task::Clear { at: 0, end: self.memory.len() as u64 }
    }

    /// Loads a piece of a program: the first one begins it. The last one leaves it to be checked.
    ///
    /// # Errors
    /// As of Load Program (CP section 4.1.6).
    pub fn load(
        &mut self,
        index: u16,
        size: u32,
        offset: u32,
        piece: &[u8],
    ) -> Result<Option<Task>, StatusCode> {
        let of_others = |(other, loaded): (usize, &Option<Loaded>)| {
            loaded
                .as_ref()
                .filter(|_| other != usize::from(index))
                .map_or(0, |loaded| loaded.size.into())
        };
        let taken: u64 = self.programs.iter().enumerate().map(of_others).sum();
        let slot = self.slot(index)?;
        if offset == 0 {
            if slot.as_ref().is_some_and(|loaded| loaded.program.is_some()) {
                return Err(StatusCode::ProgramInUse);
            }
            if u64::from(size) > MAX_PROGRAM_BYTES {
                return Err(StatusCode::ProgramTooBig);
            }
            if taken + u64::from(size) > MAX_PROGRAM_BYTES {
                return Err(StatusCode::MaximumProgramBytesExceeded);
            }
            let bytes = Vec::new();
            *slot = Some(Loaded { size, bytes, program: None, active: false });
        }
        let Some(loaded) = slot else { return Err(StatusCode::NoProgram) };
        let follows = loaded.program.is_none() && loaded.bytes.len() == offset as usize;
        if !follows || loaded.size != size || u64::from(offset) + piece.len() as u64 > size.into() {
            return Err(StatusCode::InvalidField);
        }
        loaded.bytes.extend_from_slice(piece);
        if loaded.bytes.len() < size as usize {
            return Ok(None);
        }
        match Loader::new(std::mem::take(&mut loaded.bytes)) {
            Ok(loader) => Ok(Some(Task::Check { index, loader })),
            Err(_) => {
                *slot = None;
                Err(StatusCode::InvalidProgramData)
            }
        }
    }

    /// Unloads a program. `busy`: the program runs.
    ///
    /// # Errors
    /// There is none, or it is active.
    pub fn unload(&mut self, index: u16, busy: bool) -> Result<(), StatusCode> {
        let slot = self.slot(index)?;
        match slot {
            None => Err(StatusCode::NoProgram),
            Some(loaded) if loaded.active || busy => Err(StatusCode::ProgramInUse),
            Some(_) => {
                *slot = None;
                Ok(())
            }
        }
    }

    /// Activates a program, or deactivates it. `busy`: the program runs.
    ///
    /// # Errors
    /// As of Program Activation Management (CP section 4.1.8).
    pub fn activate(&mut self, index: u16, active: bool, busy: bool) -> Result<(), StatusCode> {
        let loaded = self.slot(index)?.as_mut().ok_or(StatusCode::NoProgram)?;
        if loaded.program.is_none() {
            return Err(StatusCode::InvalidProgramData);
        }
        if !active && busy {
            return Err(StatusCode::ProgramInUse);
        }
        loaded.active = active;
        Ok(())
    }

    fn slot(&mut self, index: u16) -> Result<&mut Option<Loaded>, StatusCode> {
        self.programs.get_mut(usize::from(index)).ok_or(StatusCode::InvalidProgramIndex)
    }

    /// Makes a set of ranges, which have been checked by themselves; returns its identifier.
    ///
    /// # Errors
    /// Ranges do not lie in the memory, or overlap, or there are too many sets.
    pub fn create_set(&mut self, ranges: Vec<Range>) -> Result<u16, StatusCode> {
        for (index, Range { start, length }) in ranges.iter().copied().enumerate() {
            let aligned = start.is_multiple_of(4) && length.is_multiple_of(4);
            if length == 0 || !aligned || self.bytes(start, length.into()).is_none() {
                return Err(StatusCode::InvalidMemoryRangeSet);
            }
            let overlaps = |other: &Range| {
                start < other.start + u64::from(other.length)
                    && other.start < start + u64::from(length)
            };
            if ranges[..index].iter().any(overlaps) {
                return Err(StatusCode::OverlappingMemoryRanges);
            }
        }
        let free = (1..=MAX_SETS).find(|id| !self.sets.contains_key(id));
        let id = free.ok_or(StatusCode::MaximumMemoryRangeSetsExceeded)?;
        self.sets.insert(id, ranges);
        Ok(id)
    }

    /// Takes a set away. `busy`: whether a program runs on it.
    ///
    /// # Errors
    /// There is none, or it is in use.
    pub fn delete_set(&mut self, id: u16, busy: bool) -> Result<(), StatusCode> {
        if !self.sets.contains_key(&id) {
            return Err(StatusCode::InvalidMemoryRangeSetIdentifier);
        }
        if busy {
            return Err(StatusCode::MemoryRangeSetInUse);
        }
        self.sets.remove(&id);
        Ok(())
    }

    /// Checks that a program can be run on a set (0: on none).
    ///
    /// # Errors
    /// As of Execute Program (CP section 3.2.1).
    pub fn check(&self, program: u16, set: u16) -> Result<(), StatusCode> {
        let slot = self.programs.get(usize::from(program));
        let loaded = slot.ok_or(StatusCode::InvalidProgramIndex)?.as_ref();
        let loaded = loaded.ok_or(StatusCode::NoProgram)?;
        if !loaded.active {
            return Err(StatusCode::ProgramNotActivated);
        }
        if set != 0 && !self.sets.contains_key(&set) {
            return Err(StatusCode::InvalidMemoryRangeSetIdentifier);
        }
        Ok(())
    }

    /// The work of running a program.
    pub fn begin(&self, call: Call) -> Task {
        let execution = Execution::new(CONTEXT << PLACES);
        Task::Run(Box::new(Running { call, execution, bytes: 0 }))
    }

    /// Goes on with work, by at most `instructions` of a program or `bytes` of memory; what it comes to
    /// if that is its end.
    pub fn go_on(&mut self, task: &mut Task, instructions: u64, bytes: u64) -> Option<Finished> {
        match task {
            Task::Run(running) => {
                let run = self.run(running, instructions)?;
                Some(Finished::Run(run, std::mem::take(&mut running.call.data)))
            }
            Task::Check { index, loader } => {
                let most = usize::try_from(instructions).unwrap_or(usize::MAX);
                let slot = self.programs.get_mut(usize::from(*index))?;
                Some(Finished::Check(match (loader.go_on(most), slot) {
                    (Ok(None), _) => return None,
                    (Ok(Some(program)), Some(loaded)) => {
                        loaded.program = Some(program);
                        Ok(())
                    }
                    (_, slot) => {
                        *slot = None;
                        Err(StatusCode::InvalidProgramData)
                    }
                }))
            }
            Task::Clear { at, end } => {
                let length = (*end - *at).min(bytes);
                if let Some(part) = self.bytes(*at, length) {
                    part.fill(0);
                }
                *at += length;
                (at == end).then_some(Finished::Clear)
            }
        }
    }

    fn run(&mut self, running: &mut Running, most: u64) -> Option<Run> {
        let Self { config, memory, programs, sets, .. } = self;
        let Running { call, execution, bytes } = running;
        let program = programs.get(usize::from(call.program)).and_then(Option::as_ref);
        let program = program.and_then(|loaded| loaded.program.as_ref());
        let Some(program) = program else {
            return Some(Run { result: Err(StatusCode::NoProgram), instructions: 0, bytes: 0 });
        };
        let ranges = sets.get(&call.set).map_or(&[][..], Vec::as_slice);
        let context = context(call, ranges);
        let mut reach = Reach { context, data: &call.data, memory, ranges, bytes: *bytes };
        let ended = program.go_on(execution, &mut reach, most, config.max_instructions);
        *bytes = reach.bytes;
        let ended = ended?;
        // A fault of a program is none of the host's command.
        let result = ended.result.map_err(|_| StatusCode::InternalError);
        Some(Run { result, instructions: ended.instructions, bytes: *bytes })
    }
}

/// The numbers that a program finds at the address in r1, of 64 bits: the parameters of the
/// command, the place and the length of its data, the number of ranges, and the place and the
/// length of each.
fn context(call: &Call, ranges: &[Range]) -> Vec<u8> {
    let data = if call.data.is_empty() { 0 } else { DATA << PLACES };
    let head =
        [call.parameters[0], call.parameters[1], data, call.data.len() as u64, ranges.len() as u64];
    let places = (RANGES..).zip(ranges);
    let places = places.flat_map(|(at, range)| [at << PLACES, range.length.into()]);
    head.into_iter().chain(places).flat_map(u64::to_le_bytes).collect()
}

/// The memory that a program reaches.
struct Reach<'a> {
    context: Vec<u8>,
    data: &'a [u8],
    memory: &'a mut [u8],
    ranges: &'a [Range],
    // Bytes of the ranges, read and written.
    bytes: u64,
}

impl Reach<'_> {
    /// The bytes of a range, if they are of one.
    fn of_range(&mut self, address: u64, width: usize) -> Option<&mut [u8]> {
        let index = usize::try_from((address >> PLACES).checked_sub(RANGES)?).ok()?;
        let range = self.ranges.get(index)?;
        let offset = address & ((1 << PLACES) - 1);
        if offset + width as u64 > range.length.into() {
            return None;
        }
        self.bytes += width as u64;
        let at = size(range.start + offset);
        self.memory.get_mut(at..at + width)
    }
}

impl Memory for Reach<'_> {
    fn load(&mut self, address: u64, width: usize) -> Option<u64> {
        let at = (address & ((1 << PLACES) - 1)) as usize;
        let bytes = match address >> PLACES {
            CONTEXT => self.context.get(at..at.checked_add(width)?)?,
            DATA => self.data.get(at..at.checked_add(width)?)?,
            _ => self.of_range(address, width)?,
        };
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(bytes);
        Some(u64::from_le_bytes(raw))
    }

    fn store(&mut self, address: u64, width: usize, value: u64) -> Option<()> {
        let bytes = self.of_range(address, width)?;
        bytes.copy_from_slice(&value.to_le_bytes()[..width]);
        Some(())
    }
}
