//! `timeline.parquet`: the spans inside a run, one row each ([`stasis_block::timeline`]).
//!
//! Rows are in the order in which they were recorded: those of one track in the order of time, and
//! those of a lane one after the other.

use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use serde_json::json;
use stasis_block::timeline::{Cause, Purpose, Span, Step, Track, TrackKind, What, Whom};
use stasis_run_events::{Outcome, BLOCK};

use crate::columnar::{Cell, Column, ColumnFile, KeptRows, Kind, Rows};
use crate::sink::{self, Footer, Records, Sink};
use crate::{ResultsError, TIMELINE_FILE};

const COLUMNS: &[Column] = &[
    Column::new("kind", Kind::Word, ""),
    Column::new("owner", Kind::Word, ""),
    Column::new("track", Kind::Int, ""),
    Column::new("name", Kind::Word, ""),
    Column::new("lane", Kind::Short, ""),
    Column::new("what", Kind::Word, ""),
    Column::new("step", Kind::Word, ""),
    Column::new("cause", Kind::Word, ""),
    Column::new("begin_ns", Kind::Long, "ns").differences(),
    Column::new("end_ns", Kind::Long, "ns").differences(),
    Column::new("number", Kind::Long, ""),
    Column::new("bytes", Kind::Long, "B"),
    Column::optional("channel", Kind::Int, ""),
    Column::optional("lun", Kind::Int, ""),
    Column::optional("plane", Kind::Int, ""),
    Column::optional("block", Kind::Int, ""),
    Column::optional("page", Kind::Int, ""),
    Column::optional("lba", Kind::Long, ""),
    Column::new("purpose", Kind::Word, ""),
    Column::optional("command", Kind::Long, ""),
    Column::optional("commands", Kind::Int, ""),
    Column::optional("collection", Kind::Long, ""),
];

/// The file, with the words that its rows refer to.
pub struct SpanFile {
    file: ColumnFile,
    /// Each track, with its owner and its name.
    tracks: Vec<(Track, ByteArray, ByteArray)>,
    kinds: [ByteArray; TrackKind::ALL.len()],
    activities: [ByteArray; What::ALL.len()],
    steps: [ByteArray; Step::ALL.len()],
    causes: [ByteArray; Cause::ALL.len()],
    purposes: [ByteArray; Purpose::ALL.len()],
    rows: u64,
}

impl SpanFile {
    /// A file of no tracks yet.
    pub fn create(path: PathBuf) -> Result<Self, ResultsError> {
        Ok(Self {
            file: ColumnFile::create(path, "timeline", COLUMNS)?,
            tracks: Vec::new(),
            kinds: TrackKind::ALL.map(|kind| ByteArray::from(kind.name())),
            activities: What::ALL.map(|activity| ByteArray::from(activity.name())),
            steps: Step::ALL.map(|step| ByteArray::from(step.name())),
            causes: Cause::ALL.map(|cause| ByteArray::from(cause.name())),
            purposes: Purpose::ALL.map(|purpose| ByteArray::from(purpose.name())),
            rows: 0,
        })
    }

    fn add_track(&mut self, track: Track) {
        let [owner, name] = [&track.owner, &track.name].map(|word| ByteArray::from(word.as_str()));
        self.tracks.push((track, owner, name));
    }

    /// Appends a row.
    fn row(&mut self, span: &Span) -> Result<(), ResultsError> {
        let tracks = self.tracks.len();
        let Some((track, owner, name)) = self.tracks.get(span.track as usize) else {
            return Err(ResultsError::NoSuchTrack { number: span.track, tracks });
        };
        let nand = matches!(track.kind, TrackKind::Channel | TrackKind::Nand);
        let block = nand || track.kind == TrackKind::Collection;
        let page = nand && span.activity != What::Erase;
        let or_none = |number: Option<u32>| number.map_or(Cell::Missing, Cell::Int);
        let long = |number: Option<u64>| number.map_or(Cell::Missing, Cell::Long);
        let Span { whom, .. } = *span;
        self.rows += 1;
        self.file.push(&[
            Cell::Word(&self.kinds[track.kind as usize]),
            Cell::Word(owner),
            Cell::Int(span.track),
            Cell::Word(name),
            Cell::Short(span.lane),
            Cell::Word(&self.activities[span.activity as usize]),
            Cell::Word(&self.steps[span.step as usize]),
            Cell::Word(&self.causes[span.cause as usize]),
            Cell::Long(span.begin),
            Cell::Long(span.end),
            Cell::Long(span.number),
            Cell::Long(span.bytes),
            or_none(track.channel),
            or_none(track.lun),
            or_none(track.plane),
            or_none(block.then_some(span.block)),
            or_none(page.then_some(span.page)),
            match track.kind {
                TrackKind::Command => Cell::Long(span.offset / BLOCK),
                _ => Cell::Missing,
            },
            Cell::Word(&self.purposes[if nand { whom.purpose as usize } else { 0 }]),
            long(whom.first_command()),
            or_none((whom.commands > 0).then_some(whom.commands)),
            long(whom.its_collection()),
        ])
    }
}

impl Sink for SpanFile {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Tracks(tracks) => tracks.iter().for_each(|one| self.add_track(one.clone())),
            Records::Spans(spans) => return spans.iter().try_for_each(|span| self.row(span)),
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        footer: &Footer,
        outcome: Option<&Outcome>,
    ) -> Result<sink::Entry, ResultsError> {
        let mut footer = footer.clone();
        let lost = outcome.map(|outcome| outcome.lost_spans);
        footer.extend(lost.map(|lost| ("lost_spans".to_owned(), lost.into())));
        self.file.finish(&footer)?;
        let (tracks, spans) = (self.tracks.len(), self.rows);
        let summary = |lost| json!({ "tracks": tracks, "spans": spans, "lost": lost });
        Ok(lost.map(|lost| ("timeline".into(), summary(lost))))
    }
}

/// The spans of a finished run, in the order in which they were recorded.
#[derive(Debug)]
pub struct KeptSpans {
    rows: KeptRows,
    tracks: BTreeMap<u32, Track>,
}

impl KeptSpans {
    /// Opens the [`TIMELINE_FILE`] of a folder of results; `None` where there is none.
    ///
    /// # Errors
    /// The file is not of this kind.
    pub fn open(folder: &Path) -> Result<Option<Self>, ResultsError> {
        let rows = KeptRows::open(folder, TIMELINE_FILE, COLUMNS)?;
        Ok(rows.map(|rows| Self { rows, tracks: BTreeMap::new() }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.rows.path()
    }

    /// Returns the number of spans that were not kept because too many came at once.
    pub fn lost(&self) -> u64 {
        self.rows.said("lost_spans").and_then(|lost| lost.parse().ok()).unwrap_or_default()
    }

    /// The next span, with its track; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read on, or a row is none of a run's.
    pub fn next_span(&mut self) -> Result<Option<(&Track, Span)>, ResultsError> {
        let Some(row) = self.rows.next_row()? else { return Ok(None) };
        let rows = self.rows.rows();
        let wrong = || self.rows.wrong_row();
        let span = span(rows, row).ok_or_else(wrong)?;
        let track = match self.tracks.entry(span.track) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(track(rows, row).ok_or_else(wrong)?),
        };
        Ok(Some((track, span)))
    }
}

/// The span of a row; `None` if it cannot be one of a run's.
fn span(rows: &Rows, row: usize) -> Option<Span> {
    let word = |column| rows.word(column, row);
    let activity = word(5)?;
    let step = word(6)?;
    let (cause, purpose) = (word(7)?, word(18)?);
    let purpose = Purpose::ALL.into_iter().find(|one| one.name() == purpose)?;
    let collection = rows.long(21, row);
    let whom = Whom {
        // The row of a collection is no operation.
        purpose: if collection.is_some() { Purpose::Collection } else { purpose },
        number: rows.long(19, row).or(collection).unwrap_or_default(),
        commands: rows.int(20, row).unwrap_or_default(),
    };
    let (begin, end) = (rows.long(8, row)?, rows.long(9, row)?);
    Some(Span {
        lane: rows.short(4, row)?,
        step: Step::ALL.into_iter().find(|one| one.name() == step)?,
        cause: Cause::ALL.into_iter().find(|one| one.name() == cause)?,
        number: rows.long(10, row)?,
        bytes: rows.long(11, row)?,
        block: rows.int(15, row).unwrap_or_default(),
        page: rows.int(16, row).unwrap_or_default(),
        offset: rows.long(17, row).unwrap_or_default() * BLOCK,
        whom,
        ..Span::new(
            rows.int(2, row)?,
            What::ALL.into_iter().find(|one| one.name() == activity)?,
            begin,
            end,
        )
    })
    .filter(|_| begin <= end)
}

/// The track of a row.
fn track(rows: &Rows, row: usize) -> Option<Track> {
    let kind = rows.word(0, row)?;
    Some(Track {
        kind: TrackKind::ALL.into_iter().find(|one| one.name() == kind)?,
        owner: rows.word(1, row)?.to_owned(),
        name: rows.word(3, row)?.to_owned(),
        channel: rows.int(12, row),
        lun: rows.int(13, row),
        plane: rows.int(14, row),
    })
}
