//! `cluster.parquet`: what machines of a cluster said, what befell them, and the messages between
//! them, one row each.
//!
//! Rows are in the order in which they were recorded: lines of one machine in their order, messages
//! by their arrival, faults as their parts of the run reported them.

use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use stasis_block::clock::Nanos;

use stasis_results::columnar::{Cell, Column, ColumnFile, KeptRows, Kind};
use stasis_results::sink::Footer;
use stasis_results::{ResultsError, CLUSTER_FILE};

const COLUMNS: &[Column] = &[
    Column::new("machine", Kind::Word, ""),
    Column::new("kind", Kind::Word, ""),
    Column::new("at_ns", Kind::Long, "ns").differences(),
    Column::new("text", Kind::Word, ""),
    Column::optional("to", Kind::Word, ""),
    Column::optional("arrived_ns", Kind::Long, "ns"),
    Column::optional("bytes", Kind::Long, "B"),
];

/// Kind of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MomentKind {
    /// A line of a command's standard output.
    Output,
    /// A line of its standard error.
    Error,
    /// A fault of the machine or one of its drives.
    Fault,
    /// A message to another machine.
    Message,
}

impl MomentKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Output, Self::Error, Self::Fault, Self::Message];

    /// Returns the kind's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Error => "error",
            Self::Fault => "fault",
            Self::Message => "message",
        }
    }
}

/// Something that happened to a machine of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Name of the machine; of a message, the sender.
    pub machine: String,
    /// Its kind.
    pub kind: MomentKind,
    /// When, in virtual time since the machines' start (ns); of a message, its sending.
    pub at: Nanos,
    /// The line, the fault, or the kind of the message.
    pub text: String,
    /// Message's receiver, arrival (ns), and length in bytes.
    pub arrival: Option<(String, Nanos, u64)>,
}

/// The file.
pub(super) struct MomentFile {
    file: ColumnFile,
    machines: Vec<ByteArray>,
    kinds: [ByteArray; MomentKind::ALL.len()],
}

impl std::fmt::Debug for MomentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MomentFile").field("machines", &self.machines.len()).finish()
    }
}

impl MomentFile {
    pub(super) fn create(path: PathBuf, machines: &[String]) -> Result<Self, ResultsError> {
        Ok(Self {
            file: ColumnFile::create(path, "cluster", COLUMNS)?,
            machines: machines.iter().map(|name| ByteArray::from(name.as_str())).collect(),
            kinds: MomentKind::ALL.map(|kind| ByteArray::from(kind.name())),
        })
    }

    /// Appends a row of machine `machine`; `arrival`: a message's receiver, arrival and length.
    pub(super) fn row(
        &mut self,
        machine: usize,
        kind: MomentKind,
        at: Nanos,
        text: &[u8],
        arrival: Option<(usize, Nanos, u32)>,
    ) -> Result<(), ResultsError> {
        let Some(name) = self.machines.get(machine) else { return Ok(()) };
        let to = arrival.and_then(|(to, ..)| self.machines.get(to));
        // As text, whatever it holds.
        let text = ByteArray::from(String::from_utf8_lossy(text).into_owned().into_bytes());
        self.file.push(&[
            Cell::Word(name),
            Cell::Word(&self.kinds[kind as usize]),
            Cell::Long(at),
            Cell::Word(&text),
            to.map_or(Cell::Missing, Cell::Word),
            arrival.map_or(Cell::Missing, |(_, at, _)| Cell::Long(at)),
            arrival.map_or(Cell::Missing, |(.., bytes)| Cell::Long(bytes.into())),
        ])
    }

    pub(super) fn finish(&mut self, footer: &Footer) -> Result<(), ResultsError> {
        self.file.finish(footer)
    }
}

/// The moments of a finished run, in the order in which they were recorded.
#[derive(Debug)]
pub struct KeptMoments {
    rows: KeptRows,
}

impl KeptMoments {
    /// Opens the [`CLUSTER_FILE`] of a folder of results; `None` where there is none.
    ///
    /// # Errors
    /// The file is not of this kind.
    pub fn open(folder: &Path) -> Result<Option<Self>, ResultsError> {
        let rows = KeptRows::open(folder, CLUSTER_FILE, COLUMNS)?;
        Ok(rows.map(|rows| Self { rows }))
    }

    /// The next moment; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read on, or a row is none of a run's.
    pub fn next_moment(&mut self) -> Result<Option<Moment>, ResultsError> {
        let Some(row) = self.rows.next_row()? else { return Ok(None) };
        self.moment(row).ok_or_else(|| self.rows.wrong_row()).map(Some)
    }

    fn moment(&self, row: usize) -> Option<Moment> {
        let rows = self.rows.rows();
        let kind = rows.word(1, row)?;
        let kind = MomentKind::ALL.into_iter().find(|one| one.name() == kind)?;
        let arrival = match kind {
            MomentKind::Message => {
                Some((rows.word(4, row)?.to_owned(), rows.long(5, row)?, rows.long(6, row)?))
            }
            _ => None,
        };
        Some(Moment {
            machine: rows.word(0, row)?.to_owned(),
            kind,
            at: rows.long(2, row)?,
            text: rows.word(3, row)?.to_owned(),
            arrival,
        })
    }
}
