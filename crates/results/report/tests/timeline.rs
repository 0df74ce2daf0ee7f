//! `timeline.parquet`: the spans that a run keeps, and those that are read back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{json, Map};
use stasis_block::timeline::{Cause, Purpose, Span, Step, Track, TrackKind, What, Whom};
use stasis_report::ResultsWriter;
use stasis_results::sink::Records;
use stasis_results::{KeptSpans, ResultsError, Summary};
use stasis_run_events::{Ending, Outcome};

fn outcome(lost_spans: u64) -> Outcome {
    Outcome { virtual_ns: 1, tsc_khz: 1, lost_spans, ..Outcome::of(Ending::Exited(0)) }
}

fn tracks() -> Vec<Track> {
    let nand = |kind, lun, plane| Track {
        channel: Some(lun / 4),
        lun: Some(lun),
        plane,
        ..Track::new(kind, "fast, \"odd\"", format!("LUN {lun}"))
    };
    vec![
        nand(TrackKind::Nand, 5, Some(1)),
        nand(TrackKind::Collection, 5, None),
        Track::new(TrackKind::Vcpu, "machine", "vCPU 0".into()),
    ]
}

/// Spans of all kinds, of which neither all have a place in the array nor all have none.
fn spans(count: u64) -> Vec<Span> {
    (0..count)
        .map(|number| {
            let (begin, end) = (number * 10, number * 10 + number % 9);
            let small = number as u32 % 1000;
            match number * 7 % 5 {
                0 => Span::new(2, What::Idle, begin, end),
                1 => Span {
                    block: small,
                    whom: Whom::collection(number),
                    ..Span::new(1, What::Collection, begin, end)
                },
                2 => Span { block: small, number, ..Span::new(0, What::Erase, begin, end) },
                _ => Span {
                    lane: 3,
                    step: Step::ALL[number as usize % Step::ALL.len()],
                    cause: Cause::ALL[number as usize % 4],
                    number,
                    block: u32::MAX - small,
                    page: small,
                    bytes: u64::MAX - number,
                    whom: match number % 4 {
                        0 => Whom { commands: small + 2, ..Whom::command(u64::MAX - number) },
                        1 => Whom::collection(number),
                        2 => Whom { purpose: Purpose::Map, ..Whom::command(number) },
                        _ => Whom { purpose: Purpose::Recovery, ..Whom::default() },
                    },
                    ..Span::new(0, What::Program, begin, end)
                },
            }
        })
        .collect()
}

/// Keeps spans, some at a time; the summary.
fn keep(folder: &Path, spans: &[Span], lost: u64) -> Summary {
    let mut writer = ResultsWriter::create(folder, Vec::new()).unwrap();
    writer.keep_timeline().unwrap();
    writer.take(Records::Tracks(&tracks())).unwrap();
    spans.chunks(999).for_each(|some| writer.take(Records::Spans(some)).unwrap());
    writer.finish(&outcome(lost), "exact", Duration::ZERO, Map::new()).unwrap()
}

/// Everything in a file.
fn read(folder: &Path) -> Result<Vec<(Track, Span)>, ResultsError> {
    let mut kept = KeptSpans::open(folder)?.expect("there is one");
    let mut all = Vec::new();
    while let Some((track, span)) = kept.next_span()? {
        all.push((track.clone(), span));
    }
    Ok(all)
}

#[test]
fn what_is_kept_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    // More than a group of rows.
    let (spans, tracks) = (spans(150_000), tracks());
    let summary = keep(folder.path(), &spans, 2);
    assert_eq!(summary.extra["timeline"], json!({ "tracks": 3, "spans": 150_000, "lost": 2 }));
    let all = read(folder.path()).unwrap();
    assert_eq!(all.len(), spans.len());
    for ((track, span), expected) in all.iter().zip(&spans) {
        assert_eq!(span, expected);
        assert_eq!(track, &tracks[span.track as usize]);
    }
    let kept = KeptSpans::open(folder.path()).unwrap().unwrap();
    assert_eq!(kept.lost(), 2);

    // The same again is the same bytes, and cut off in the middle it is an error.
    let bytes = fs::read(kept.path()).unwrap();
    keep(folder.path(), &spans, 2);
    assert!(fs::read(kept.path()).unwrap() == bytes);
    fs::write(kept.path(), &bytes[..bytes.len() / 2]).unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("timeline.parquet"));
}

/// As others read it: names of columns, and which values are missing.
#[test]
fn rows_say_where_and_what() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), &spans(5), 0);
    let file = fs::File::open(folder.path().join("timeline.parquet")).unwrap();
    let file = SerializedFileReader::new(file).unwrap();
    let row_text = |place: usize| {
        let row = file.get_row_iter(None).unwrap().nth(place).unwrap().unwrap();
        let fields = row.get_column_iter().map(|(name, field)| format!("{name}={field}"));
        fields.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row_text(0),
        "kind=\"vcpu\" owner=\"machine\" track=2 name=\"vCPU 0\" lane=0 what=\"idle\" step=\"\" \
         cause=\"\" begin_ns=0 end_ns=0 number=0 bytes=0 channel=null lun=null plane=null \
         block=null page=null lba=null purpose=\"\" command=null commands=null \
         collection=null"
    );
    let erase = row_text(1);
    assert!(erase.contains("what=\"erase\""), "{erase}");
    assert!(erase.contains("channel=1 lun=5 plane=1 block=1 page=null lba=null"), "{erase}");
    let units = file.metadata().file_metadata().key_value_metadata().unwrap();
    let units = units.iter().find(|entry| entry.key == "units").unwrap();
    assert!(units.value.as_deref().unwrap().contains("\"begin_ns\":\"ns\""));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), Vec::new()).unwrap();
    writer.take(Records::Spans(&spans(3))).unwrap();
    assert!(KeptSpans::open(folder.path()).unwrap().is_none(), "nobody asked to keep them");
    writer.keep_timeline().unwrap();
    let error = writer.take(Records::Spans(&spans(3))).unwrap_err().to_string();
    assert!(error.contains("names track 2, but there are 0"), "{error}");
}
