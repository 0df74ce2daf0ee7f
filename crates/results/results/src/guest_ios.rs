//! `guest-ios.parquet`: the time of I/Os in the guest's kernel, one row each.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_run_events::{GuestIo, Outcome, Submitter};

use crate::columnar::{Cell, Column, ColumnFile, KeptRows, Kind, Rows};
use crate::sink::{Entry, Footer, Records, Sink};
use crate::symbols::{FrameNames, Symbols};
use crate::{ResultsError, GUEST_IOS_FILE};

const COLUMNS: &[Column] = &[
    Column::new("drive", Kind::Word, ""),
    Column::new("order", Kind::Long, "").differences(),
    Column::new("submitter", Kind::Word, ""),
    Column::new("thread", Kind::Word, ""),
    Column::new("begun_ns", Kind::Long, "ns").differences(),
    Column::new("queued_ns", Kind::Long, "ns").differences(),
    Column::new("rung_ns", Kind::Long, "ns").differences(),
    Column::new("delivered_ns", Kind::Long, "ns").differences(),
    Column::new("interrupted_ns", Kind::Long, "ns").differences(),
    Column::optional("woken_ns", Kind::Long, "ns"),
    Column::optional("ran_ns", Kind::Long, "ns"),
    Column::new("stack", Kind::Word, ""),
];

/// Limit on the different stacks whose texts are kept.
const MAX_STACKS: usize = 1 << 14;

/// The time of an I/O in the guest, beside its times at the drive. Times are virtual, in ns since the
/// machine was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTimes {
    /// Who has submitted it: `system-call`, `kernel-thread`, `fault` or `interrupt`.
    pub submitter: String,
    /// Its thread's name.
    pub thread: String,
    /// Time at which its system call was entered, or its thread of the kernel's own began to run.
    pub begun_ns: Nanos,
    /// Time at which the kernel's block layer got it.
    pub queued_ns: Nanos,
    /// Time at which the doorbell was rung.
    pub rung_ns: Nanos,
    /// Time at which the guest could see it complete.
    pub delivered_ns: Nanos,
    /// Time at which a processor took its interrupt.
    pub interrupted_ns: Nanos,
    /// Time at which its thread was woken; null where it did not sleep.
    pub woken_ns: Option<Nanos>,
    /// Time at which its thread ran again; null where it was on a processor.
    pub ran_ns: Option<Nanos>,
    /// The calls that led to the block layer, or to the doorbell, the outermost first, by semicolons.
    pub stack: String,
}

/// Times of I/Os in their guests, by the drive's name and the I/O's number there.
pub type OfIos = BTreeMap<(String, u64), GuestTimes>;

impl GuestTimes {
    /// The two parts of the time before the drive has it, and those after it is delivered, with names.
    pub fn parts(&self) -> [(&'static str, Nanos); 5] {
        let woken = self.woken_ns.unwrap_or(self.interrupted_ns);
        [
            ("submission in the guest", self.queued_ns.saturating_sub(self.begun_ns)),
            ("block layer", self.rung_ns.saturating_sub(self.queued_ns)),
            ("interrupt", self.interrupted_ns.saturating_sub(self.delivered_ns)),
            ("completion in the guest", woken.saturating_sub(self.interrupted_ns)),
            ("wait for a processor", self.ended().saturating_sub(woken)),
        ]
    }

    /// Returns the time at which the last of it was over (ns).
    pub fn ended(&self) -> Nanos {
        self.ran_ns.or(self.woken_ns).unwrap_or(self.interrupted_ns)
    }

    /// Returns whether a thread of the kernel's own has submitted it.
    pub fn is_of_kernel(&self) -> bool {
        self.submitter == Submitter::KernelThread.name()
    }

    /// Reads the times of all I/Os of a folder of results; `None` where the folder keeps none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(folder: &Path) -> Result<Option<OfIos>, ResultsError> {
        read(folder, |_, _| true)
    }

    /// Who has submitted it, in words: `fio (pwrite64)`.
    pub fn who(&self) -> String {
        let call = self.stack.split(';').find_map(|function| {
            // As `__x64_sys_pread64` and `__se_sys_fsync` are, below the functions of the program.
            let (begin, call) = function.split_once("_sys_")?;
            matches!(begin, "__x64" | "__ia32" | "__se" | "__do").then_some(call)
        });
        match (self.submitter.as_str(), call) {
            ("system-call", Some(call)) => format!("{} ({call})", self.thread),
            ("system-call", None) => self.thread.clone(),
            ("interrupt", _) => "an interrupt".to_owned(),
            ("fault", _) => format!("{} (a page fault)", self.thread),
            _ => format!("the kernel's thread {}", self.thread),
        }
    }
}

/// The file, with the words that its rows refer to.
pub struct GuestIoFile {
    file: ColumnFile,
    /// The drives' names.
    drives: Vec<ByteArray>,
    frame_names: FrameNames,
    submitters: [ByteArray; Submitter::ALL.len()],
    threads: HashMap<String, ByteArray>,
    stacks: HashMap<Vec<u64>, ByteArray>,
    rows: u64,
}

impl GuestIoFile {
    /// A file of no rows yet.
    ///
    /// # Errors
    /// The failure to write it.
    pub fn create(path: PathBuf, symbols: Symbols) -> Result<Self, ResultsError> {
        Ok(Self {
            file: ColumnFile::create(path, "guest-ios", COLUMNS)?,
            drives: Vec::new(),
            frame_names: FrameNames::new(symbols),
            submitters: Submitter::ALL.map(|one| ByteArray::from(one.name())),
            threads: HashMap::new(),
            stacks: HashMap::new(),
            rows: 0,
        })
    }

    /// Appends an I/O.
    fn row(&mut self, io: &GuestIo) -> Result<(), ResultsError> {
        let Self { drives, frame_names, stacks, threads, .. } = self;
        let Some(drive) = drives.get(usize::from(io.drive)) else {
            return Err(ResultsError::NoSuchDrive { index: io.drive, drives: drives.len() });
        };
        if stacks.len() >= MAX_STACKS {
            stacks.clear();
        }
        let stack = stacks.entry(io.frames.clone()).or_insert_with(|| {
            let names: Vec<&str> = io.frames.iter().rev().map(|&at| frame_names.name(at)).collect();
            ByteArray::from(names.join(";").as_str())
        });
        if threads.len() >= MAX_STACKS {
            threads.clear();
        }
        let thread = io.thread();
        let thread =
            threads.entry(thread).or_insert_with_key(|name| ByteArray::from(name.as_str()));
        let or_none = |time: Option<Nanos>| time.map_or(Cell::Missing, Cell::Long);
        self.rows += 1;
        self.file.push(&[
            Cell::Word(drive),
            Cell::Long(io.order),
            Cell::Word(&self.submitters[io.submitter as usize]),
            Cell::Word(thread),
            Cell::Long(io.begun),
            Cell::Long(io.queued),
            Cell::Long(io.rung),
            Cell::Long(io.delivered),
            Cell::Long(io.interrupted),
            or_none(io.woken),
            or_none(io.ran),
            Cell::Word(stack),
        ])
    }
}

impl Sink for GuestIoFile {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Drive(drive) => self.drives.push(ByteArray::from(drive.name.as_str())),
            Records::Names(names) => self.frame_names.add(names.to_vec()),
            Records::GuestIos(ios) => return ios.iter().try_for_each(|io| self.row(io)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, footer: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        self.file.finish(footer)?;
        Ok(Some(("guest_ios".into(), self.rows.into())))
    }
}

/// The I/Os' times in the guest in a folder of results, by drive and number: of those that `wanted`
/// names; `None` where the folder keeps none.
///
/// # Errors
/// If the file cannot be read.
pub fn read(
    folder: &Path,
    wanted: impl Fn(&str, u64) -> bool,
) -> Result<Option<OfIos>, ResultsError> {
    let Some(mut kept) = KeptRows::open(folder, GUEST_IOS_FILE, COLUMNS)? else { return Ok(None) };
    let mut all = BTreeMap::new();
    while let Some(row) = kept.next_row()? {
        let rows = kept.rows();
        let io = || Some((rows.word(0, row)?.to_owned(), rows.long(1, row)?));
        let (drive, order) = io().ok_or_else(|| kept.wrong_row())?;
        if wanted(&drive, order) {
            let times = times(rows, row).ok_or_else(|| kept.wrong_row())?;
            all.insert((drive, order), times);
        }
    }
    Ok(Some(all))
}

/// The times of a row; `None` if it cannot be one of a run's.
fn times(rows: &Rows, row: usize) -> Option<GuestTimes> {
    let word = |column| rows.word(column, row).map(str::to_owned);
    let long = |column| rows.long(column, row);
    Some(GuestTimes {
        submitter: word(2)?,
        thread: word(3)?,
        begun_ns: long(4)?,
        queued_ns: long(5)?,
        rung_ns: long(6)?,
        delivered_ns: long(7)?,
        interrupted_ns: long(8)?,
        woken_ns: long(9),
        ran_ns: long(10),
        stack: word(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stasis_run_events::THREAD_NAME;

    fn io(order: u64, times: [u64; 7], woken: bool, ran: bool) -> GuestIo {
        let mut thread = [0; THREAD_NAME];
        thread[..3].copy_from_slice(b"fio");
        let [begun, queued, rung, delivered, interrupted, wake, run] = times;
        GuestIo {
            drive: 0,
            order,
            submitter: Submitter::SystemCall,
            thread,
            begun,
            queued,
            rung,
            delivered,
            interrupted,
            woken: woken.then_some(wake),
            ran: ran.then_some(run),
            frames: vec![(1 << 63) + 20, (1 << 63) + 5, 1],
        }
    }

    proptest! {
        /// Rows are read as they were written, and the parts with the drive's time are the whole.
        #[test]
        fn parts_are_the_whole(
            raw in prop::collection::vec((any::<[u32; 7]>(), any::<bool>(), any::<bool>()), 1..40),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let symbols = vec![(1 << 63, "__x64_sys_pread64".into()), ((1 << 63) + 16, "ring".into())];
            let path = folder.path().join(GUEST_IOS_FILE);
            let mut file = GuestIoFile::create(path, Symbols::new(symbols)).unwrap();
            file.drives.push("d".into());
            for (order, (times, woken, ran)) in raw.iter().enumerate() {
                let mut times = times.map(u64::from);
                times.sort_unstable();
                file.row(&io(order as u64, times, *woken, *ran)).unwrap();
            }
            let entry = file.end(&Footer::new(), None).unwrap();
            prop_assert_eq!(entry, Some(("guest_ios".into(), raw.len().into())));
            let read = read(folder.path(), |_, _| true).unwrap().unwrap();
            prop_assert_eq!(read.len(), raw.len());
            for (order, (times, woken, ran)) in raw.into_iter().enumerate() {
                let mut times = times.map(u64::from);
                times.sort_unstable();
                let row = &read[&("d".to_owned(), order as u64)];
                prop_assert_eq!(row.woken_ns.is_some(), woken);
                prop_assert_eq!(row.ran_ns.is_some(), ran);
                let parts: u64 = row.parts().iter().map(|(_, time)| time).sum();
                let drive = row.delivered_ns - row.rung_ns;
                prop_assert_eq!(parts + drive, row.ended() - row.begun_ns);
                prop_assert_eq!(row.who(), "fio (pread64)");
                prop_assert_eq!(&row.stack, "[program];__x64_sys_pread64;ring");
            }
        }
    }
}
