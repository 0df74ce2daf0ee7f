//! `waits.parquet`: the waits of guests' threads, one row each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_run_events::{name_of, Outcome, Wait, WaitKind};

use crate::columnar::{Cell, Column, ColumnFile, KeptRows, Kind, Rows};
use crate::sink::{Entry, Footer, Records, Sink};
use crate::symbols::{FrameNames, Symbols};
use crate::{ResultsError, WAITS_FILE};

const COLUMNS: &[Column] = &[
    Column::new("machine", Kind::Long, ""),
    Column::new("pid", Kind::Long, ""),
    Column::new("process", Kind::Long, ""),
    Column::new("thread", Kind::Word, ""),
    Column::new("kind", Kind::Word, ""),
    Column::optional("called_ns", Kind::Long, "ns"),
    Column::new("begun_ns", Kind::Long, "ns").differences(),
    Column::optional("woken_ns", Kind::Long, "ns"),
    Column::new("ran_ns", Kind::Long, "ns").differences(),
    Column::new("stack", Kind::Word, ""),
    Column::optional("waker_pid", Kind::Long, ""),
    Column::new("waker", Kind::Word, ""),
    Column::new("waker_stack", Kind::Word, ""),
];

/// Limit on the different texts that are kept.
const MAX_TEXTS: usize = 1 << 14;
/// The waker's word where an interrupt has woken a thread.
const INTERRUPT: &str = "interrupt";

/// A wait of a thread's. Times are virtual, in ns since the machine was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWait {
    /// The machine's number.
    pub machine: u64,
    /// The thread's number.
    pub pid: u64,
    /// Its process's number.
    pub process: u64,
    /// Its name.
    pub thread: String,
    /// `sleep` or `block`, or `preempted`.
    pub kind: String,
    /// Time at which it entered the system call in which it waited, if it did in one.
    pub called_ns: Option<Nanos>,
    /// Time at which it left its processor.
    pub begun_ns: Nanos,
    /// Time at which it was woken; null where it was preempted.
    pub woken_ns: Option<Nanos>,
    /// Time at which it ran again.
    pub ran_ns: Nanos,
    /// The calls that led to the wait, the outermost first, by semicolons.
    pub stack: String,
    /// Number of the thread that has woken it; null where an interrupt did.
    pub waker_pid: Option<u64>,
    /// The name of that thread, or `interrupt`; empty where nobody did.
    pub waker: String,
    /// The calls that led to the wake-up.
    pub waker_stack: String,
}

impl KeptWait {
    /// Returns its length (ns).
    pub fn length(&self) -> Nanos {
        self.ran_ns.saturating_sub(self.begun_ns)
    }

    /// Returns the system call in which it was, by the kernel's name, if it was in one.
    pub fn call(&self) -> Option<&str> {
        self.called_ns?;
        self.stack.split(';').find_map(|function| {
            let (begin, call) = function.split_once("_sys_")?;
            matches!(begin, "__x64" | "__ia32" | "__se" | "__do").then_some(call)
        })
    }

    /// The waits of a folder of results that is to have them.
    ///
    /// # Errors
    /// If the file cannot be read, or the run has kept none.
    pub fn of(folder: &Path) -> Result<Vec<Self>, ResultsError> {
        Self::read(folder)?.ok_or_else(|| ResultsError::NoWaits { folder: folder.to_owned() })
    }

    /// Reads the waits of a folder of results, in the order in which they ended; `None` where it has none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Vec<Self>>, ResultsError> {
        let Some(mut kept) = KeptRows::open(folder, WAITS_FILE, COLUMNS)? else { return Ok(None) };
        let mut all = Vec::new();
        while let Some(row) = kept.next_row()? {
            let wait = wait(kept.rows(), row);
            all.push(wait.ok_or_else(|| kept.wrong_row())?);
        }
        Ok(Some(all))
    }
}

/// The wait of a row; `None` if it cannot be one of a run's.
fn wait(rows: &Rows, row: usize) -> Option<KeptWait> {
    let word = |column| rows.word(column, row).map(str::to_owned);
    let long = |column| rows.long(column, row);
    Some(KeptWait {
        machine: long(0)?,
        pid: long(1)?,
        process: long(2)?,
        thread: word(3)?,
        kind: word(4)?,
        called_ns: long(5),
        begun_ns: long(6)?,
        woken_ns: long(7),
        ran_ns: long(8)?,
        stack: word(9)?,
        waker_pid: long(10),
        waker: word(11)?,
        waker_stack: word(12)?,
    })
}

/// The file, with the words that its rows refer to.
pub struct WaitFile {
    file: ColumnFile,
    frame_names: FrameNames,
    kinds: [ByteArray; WaitKind::ALL.len()],
    words: HashMap<String, ByteArray>,
    stacks: HashMap<Vec<u64>, ByteArray>,
    rows: u64,
}

impl WaitFile {
    /// A file of no rows yet.
    ///
    /// # Errors
    /// The failure to write it.
    pub fn create(path: PathBuf, symbols: Symbols) -> Result<Self, ResultsError> {
        Ok(Self {
            file: ColumnFile::create(path, "waits", COLUMNS)?,
            frame_names: FrameNames::new(symbols),
            kinds: WaitKind::ALL.map(|one| ByteArray::from(one.name())),
            words: HashMap::new(),
            stacks: HashMap::new(),
            rows: 0,
        })
    }

    fn word(&mut self, word: String) -> ByteArray {
        if self.words.len() >= MAX_TEXTS {
            self.words.clear();
        }
        let word = self.words.entry(word);
        word.or_insert_with_key(|word| ByteArray::from(word.as_str())).clone()
    }

    fn stack(&mut self, frames: &[u64]) -> ByteArray {
        let Self { frame_names, stacks, .. } = self;
        if stacks.len() >= MAX_TEXTS {
            stacks.clear();
        }
        let stack = stacks.entry(frames.to_vec());
        let made = stack.or_insert_with(|| {
            let names: Vec<&str> = frames.iter().rev().map(|&at| frame_names.name(at)).collect();
            ByteArray::from(names.join(";").as_str())
        });
        made.clone()
    }

    /// Appends a wait.
    fn row(&mut self, wait: &Wait) -> Result<(), ResultsError> {
        let (thread, stack) = (self.word(name_of(&wait.thread)), self.stack(&wait.frames));
        let waker = wait.waker.as_ref();
        let by_thread = waker.filter(|waker| !waker.in_interrupt);
        let name = match waker {
            None => String::new(),
            Some(waker) if waker.in_interrupt => INTERRUPT.to_owned(),
            Some(waker) => name_of(&waker.thread),
        };
        let name = self.word(name);
        let waker_stack = self.stack(waker.map_or(&[], |waker| &waker.frames));
        let or_none = |number: Option<u64>| number.map_or(Cell::Missing, Cell::Long);
        self.rows += 1;
        self.file.push(&[
            Cell::Long(wait.machine.into()),
            Cell::Long(wait.pid.into()),
            Cell::Long(wait.group.into()),
            Cell::Word(&thread),
            Cell::Word(&self.kinds[wait.kind as usize]),
            or_none(wait.called),
            Cell::Long(wait.begun),
            or_none(wait.woken),
            Cell::Long(wait.ran),
            Cell::Word(&stack),
            or_none(by_thread.map(|waker| waker.pid.into())),
            Cell::Word(&name),
            Cell::Word(&waker_stack),
        ])
    }
}

impl Sink for WaitFile {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Names(names) => self.frame_names.add(names.to_vec()),
            Records::Waits(waits) => return waits.iter().try_for_each(|wait| self.row(wait)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, footer: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        self.file.finish(footer)?;
        Ok(Some(("waits".into(), self.rows.into())))
    }
}

#[cfg(test)]
mod tests {
    use stasis_run_events::{Waker, THREAD_NAME};

    use super::*;

    #[test]
    fn waits_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let symbols =
            vec![(1 << 63, "__x64_sys_fdatasync".into()), ((1 << 63) + 16, "wait".into())];
        let path = folder.path().join(WAITS_FILE);
        let mut file = WaitFile::create(path, Symbols::new(symbols)).unwrap();
        let mut thread = [0; THREAD_NAME];
        thread[..2].copy_from_slice(b"db");
        let one = Wait {
            machine: 1,
            pid: 8,
            group: 7,
            thread,
            kind: WaitKind::Block,
            called: Some(5),
            begun: 10,
            woken: Some(20),
            waker: Some(Waker {
                pid: 3,
                thread,
                in_interrupt: false,
                frames: vec![(1 << 63) + 17],
            }),
            ran: 25,
            frames: vec![(1 << 63) + 20, (1 << 63) + 5, 1],
        };
        let waker = one.waker.clone().map(|waker| Waker { in_interrupt: true, ..waker });
        let other = Wait { waker, called: None, ..one.clone() };
        let preempted =
            Wait { waker: None, woken: None, kind: WaitKind::Preempted, ..other.clone() };
        file.take(Records::Waits(&[one, other, preempted])).unwrap();
        assert_eq!(file.end(&Footer::new(), None).unwrap(), Some(("waits".into(), 3.into())));
        let read = KeptWait::read(folder.path()).unwrap().unwrap();
        let first = &read[0];
        assert_eq!((first.machine, first.pid, first.process), (1, 8, 7));
        assert_eq!((&*first.thread, &*first.kind, first.length()), ("db", "block", 15));
        assert_eq!(first.call(), Some("fdatasync"));
        assert_eq!(first.stack, "[program];__x64_sys_fdatasync;wait");
        let waker = (first.waker_pid, &*first.waker, &*first.waker_stack);
        assert_eq!(waker, (Some(3), "db", "wait"));
        assert_eq!((read[1].waker_pid, &*read[1].waker, read[1].call()), (None, "interrupt", None));
        assert_eq!((read[2].woken_ns, &*read[2].waker, &*read[2].kind), (None, "", "preempted"));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(KeptWait::read(empty.path()).unwrap(), None);
    }
}
