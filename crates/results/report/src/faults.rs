//! `faults.parquet`: the faults that have happened, one row each, and their figures.
//!
//! Rows are in the order in which the parts of the run reported them: those of one drive or machine
//! in the order of time.

use std::path::PathBuf;

use parquet::data_type::ByteArray;
use serde::{Deserialize, Serialize};
use stasis_run_events::FaultRecord;

use crate::columnar::{Cell, Column, ColumnFile, Kind};
use crate::ios::Footer;
use crate::page::{Block, Section};
use crate::summary::Summary;
use crate::table::{Column as TableColumn, Table};
use crate::{units, ReportError};

const COLUMNS: &[Column] = &[
    Column::new("fault", Kind::Short, ""),
    Column::new("kind", Kind::Word, ""),
    Column::new("target", Kind::Word, ""),
    Column::new("at_ns", Kind::Long, "ns").differences(),
    Column::optional("order", Kind::Long, ""),
    Column::new("offset", Kind::Long, "B"),
    Column::new("bytes", Kind::Long, "B"),
];

/// A fault of an experiment, and how often it has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Its kind.
    pub kind: String,
    /// The drive or machine that it befalls.
    pub target: String,
    /// How often it has happened.
    pub happened: u64,
    /// When it happened first, in virtual time since the machines' start (ns).
    pub first_ns: Option<u64>,
    /// When it happened last (ns).
    pub last_ns: Option<u64>,
}

/// The file, with the figures of each fault.
pub(crate) struct FaultFile {
    file: ColumnFile,
    faults: Vec<(FaultSummary, ByteArray, ByteArray)>,
}

impl FaultFile {
    /// A file of no rows yet; `faults`: kind and target of each fault.
    pub(crate) fn create(
        path: PathBuf,
        faults: Vec<(String, String)>,
    ) -> Result<Self, ReportError> {
        let fault = |(kind, target): (String, String)| {
            let [kind_word, target_word] =
                [&kind, &target].map(|word| ByteArray::from(word.as_str()));
            let summary = FaultSummary { kind, target, happened: 0, first_ns: None, last_ns: None };
            (summary, kind_word, target_word)
        };
        let faults = faults.into_iter().map(fault).collect();
        Ok(Self { file: ColumnFile::create(path, "faults", COLUMNS)?, faults })
    }

    /// Appends a row; one of a fault that the experiment does not have is passed over.
    pub(crate) fn row(&mut self, record: &FaultRecord) -> Result<(), ReportError> {
        let Some((summary, kind, target)) = self.faults.get_mut(usize::from(record.fault)) else {
            return Ok(());
        };
        summary.happened += 1;
        summary.first_ns.get_or_insert(record.at);
        summary.last_ns = summary.last_ns.max(Some(record.at));
        self.file.push(&[
            Cell::Short(record.fault),
            Cell::Word(kind),
            Cell::Word(target),
            Cell::Long(record.at),
            record.order.map_or(Cell::Missing, Cell::Long),
            Cell::Long(record.offset),
            Cell::Long(record.length),
        ])
    }

    /// Ends the file. Returns the figures of each fault.
    pub(crate) fn finish(self, footer: &Footer) -> Result<Vec<FaultSummary>, ReportError> {
        self.file.finish(footer)?;
        Ok(self.faults.into_iter().map(|(summary, ..)| summary).collect())
    }
}

/// The section of the page about faults, if the run had any; its times begin at `begin` (ns).
pub(crate) fn section(summary: &Summary, begin: u64) -> Option<Section> {
    let faults = summary.extra.get("faults").cloned()?;
    let faults: Vec<FaultSummary> = serde_json::from_value(faults).ok()?;
    let columns = [TableColumn::left("fault"), TableColumn::left("of")];
    let columns = columns.into_iter().chain(["happened", "first", "last"].map(TableColumn::right));
    let mut table = Table::new(columns.collect());
    let time = |at: Option<u64>| {
        at.map_or("–".into(), |at| units::duration(at.saturating_sub(begin) as f64))
    };
    for fault in faults {
        let count = units::count(fault.happened);
        let times = [time(fault.first_ns), time(fault.last_ns)];
        table.push([fault.kind, fault.target, count].into_iter().chain(times).collect());
    }
    let caption = "Times are those since the commands' start. Each happening is a row of \
                   faults.parquet.";
    Some(Section::new("Faults").with(Block::Table(caption.into(), table)))
}
