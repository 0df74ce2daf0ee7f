//! The snapshot before a moment of a run that its own record tells of: a line of output, or an I/O.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use regex_lite::Regex;
use stasis_run_events::{Decoder, Moment, RunEvent};

use crate::Error;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Limit on the bytes of a line that an expression sees, as at the run itself.
const MAX_LINE: usize = 64 << 10;

/// A moment that is looked for.
enum Wanted {
    Line(Lines),
    Io { drive: u16, order: u64 },
}

/// The lines of the commands' output.
struct Lines {
    pattern: Regex,
    /// The machine whose entries come.
    from: u16,
    /// The beginning of a line of each machine's output and errors.
    begun: HashMap<(u16, bool), Vec<u8>>,
}

impl Lines {
    /// Returns whether a line that matches ends in `bytes`.
    fn end_in(&mut self, error: bool, bytes: &[u8]) -> bool {
        let line = self.begun.entry((self.from, error)).or_default();
        let mut any = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n");
            let more = text.unwrap_or(piece);
            line.extend_from_slice(&more[..more.len().min(MAX_LINE - line.len())]);
            if text.is_some() {
                let text = String::from_utf8_lossy(line);
                any |= self.pattern.is_match(text.strip_suffix('\r').unwrap_or(&text));
                line.clear();
            }
        }
        any
    }
}

impl Wanted {
    fn of(moment: &Moment) -> Option<Self> {
        match moment {
            Moment::Output(pattern) => {
                let pattern = Regex::new(pattern).ok()?;
                Some(Self::Line(Lines { pattern, from: 0, begun: HashMap::new() }))
            }
            &Moment::Io { drive, order } => Some(Self::Io { drive, order }),
            _ => None,
        }
    }

    /// Returns whether it has come with this event.
    fn comes(&mut self, event: &RunEvent) -> bool {
        match (self, event) {
            (Self::Line(lines), RunEvent::From(machine)) => {
                lines.from = *machine;
                false
            }
            (Self::Line(lines), RunEvent::Output(bytes)) => lines.end_in(false, bytes),
            (Self::Line(lines), RunEvent::ErrorOutput(bytes)) => lines.end_in(true, bytes),
            (&mut Self::Io { drive, order }, RunEvent::Ios(records)) => {
                records.iter().any(|io| io.drive == drive && io.order == order)
            }
            _ => false,
        }
    }

    /// Returns whether a run that begins here sees it whole.
    fn is_clean(&self) -> bool {
        match self {
            Self::Line(lines) => lines.begun.values().all(Vec::is_empty),
            Self::Io { .. } => true,
        }
    }
}

/// Counts the snapshots that a run to `moment` can pass. `events`: files of the events up to the
/// first snapshot, then up to each. None if the record has no such moment.
///
/// # Errors
/// If a file cannot be read, or is no record.
pub(super) fn passed(moment: &Moment, events: &[PathBuf]) -> Result<Option<usize>, Error> {
    let Some(mut wanted) = Wanted::of(moment) else { return Ok(None) };
    let mut best = 0;
    for (number, path) in events.iter().enumerate() {
        if comes_in(&mut wanted, path)? {
            return Ok(Some(best));
        }
        if wanted.is_clean() {
            best = number;
        }
    }
    Ok(Some(best))
}

/// Returns whether it comes with an event of this file.
fn comes_in(wanted: &mut Wanted, path: &PathBuf) -> Result<bool, Error> {
    let mut file = File::open(path).map_err(Error::io("cannot read", path))?;
    let (mut decoder, mut piece) = (Decoder::new(), vec![0; PIECE]);
    loop {
        let length = file.read(&mut piece).map_err(Error::io("cannot read", path))?;
        if length == 0 {
            return Ok(false);
        }
        decoder.push(&piece[..length]);
        let damaged = |error| Error::io("cannot read", path)(std::io::Error::other(error));
        while let Some(event) = decoder.next_event().map_err(damaged)? {
            if wanted.comes(&event) {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_run_events::encode;

    /// The snapshots that are passed on the way to a line `stop`, of files with this output each.
    fn of(pieces: &[&[&str]]) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for (number, pieces) in pieces.iter().enumerate() {
            let mut bytes = Vec::new();
            for piece in *pieces {
                encode(&RunEvent::Output(piece.as_bytes().to_vec()), &mut bytes);
                encode(&RunEvent::Progress(1), &mut bytes);
            }
            files.push(folder.path().join(number.to_string()));
            std::fs::write(&files[number], bytes).unwrap();
        }
        passed(&Moment::Output("^stop".into()), &files).unwrap().unwrap()
    }

    #[test]
    fn a_run_begins_at_the_last_snapshot_before_the_line() {
        assert_eq!(of(&[&["a\n"], &["b\n"], &["stop here\n"], &["stop\n"]]), 1);
        assert_eq!(of(&[&["stop\n"], &["b\n"]]), 0);
        assert_eq!(of(&[&["a\n"], &["b\n"], &["c\n"]]), 2, "it may come later");
        // The line's beginning is before the second snapshot.
        assert_eq!(of(&[&["a\n"], &["b\n"], &["c\nst"], &["op\n"]]), 1);
        assert_eq!(of(&[&["a\n"], &["b\nx"], &["c\nst", "op\n"]]), 0);
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        std::fs::write(&path, [b'?', 0, 0, 0, 0]).unwrap();
        let moment = Moment::Output("x".into());
        assert!(passed(&moment, std::slice::from_ref(&path)).is_err());
        assert!(passed(&moment, &[folder.path().join("none")]).is_err());
        assert_eq!(passed(&Moment::End, &[path]).unwrap(), None);
    }
}
