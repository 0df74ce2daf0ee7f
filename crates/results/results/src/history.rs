//! Histories of a run: the operations of clients, whose lines are those of `stasis-history`, kept in a file and counted.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stasis_block::clock::Nanos;
pub use stasis_history::Outcome;
use stasis_history::{Kind, Line};

use crate::{units, ResultsError};

/// Limit on the operations whose times are kept; all are in the file.
const MAX_OPERATIONS: usize = 1 << 17;
/// Limit on the kinds of operations that are counted by themselves, and on a kind's length.
const MAX_KINDS: usize = 32;
const MAX_KIND: usize = 64;

/// Returns whether a line of output is one of a history.
pub fn is_of_history(line: &[u8]) -> bool {
    Line::of_output(line).is_some()
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Number of the client's machine.
    pub machine: usize,
    /// Its kind, an index into [`History::kinds`].
    pub kind: usize,
    /// Time of its beginning (ns).
    pub invoked: Nanos,
    /// Time of its end; none if it had not ended by the run's end.
    pub ended: Option<Nanos>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Operations of a run, or of a fault, as their clients saw them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witnessed {
    /// Number of units.
    pub count: u64,
    /// Operations that were done.
    pub ok: u64,
    /// Operations that were not done.
    pub fail: u64,
    /// Operations of which nobody knows.
    pub info: u64,
    /// The longest, from its beginning to its end, or to the run's (ns).
    pub longest_ns: Nanos,
    /// The longest time between two that were done, one after the other (ns).
    pub longest_gap_ns: Nanos,
    /// Beginning of that time (ns).
    #[serde(default)]
    pub longest_gap_begin_ns: Nanos,
}

impl Witnessed {
    fn add(&mut self, operation: &Operation, ended: Nanos) {
        self.count += 1;
        match operation.outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Fail => self.fail += 1,
            Outcome::Unknown => self.info += 1,
        }
        self.longest_ns = self.longest_ns.max(ended.saturating_sub(operation.invoked));
    }

    fn add_gap(&mut self, (from, to): (Nanos, Nanos)) {
        if to - from > self.longest_gap_ns {
            (self.longest_gap_ns, self.longest_gap_begin_ns) = (to - from, from);
        }
    }

    /// Cells of a table: count, failed, unknown, longest, longest time without success and its
    /// beginning, on the axis of `time`.
    pub fn cells(&self, time: impl Fn(Nanos) -> String) -> [String; 5] {
        let [count, fail, info] = [self.count, self.fail, self.info].map(units::count);
        let shown = |ns: Nanos| match ns {
            0 => "–".to_owned(),
            ns => units::duration(ns as f64),
        };
        let gap = match self.longest_gap_ns {
            0 => shown(0),
            gap => format!("{} from {}", shown(gap), time(self.longest_gap_begin_ns)),
        };
        [count, fail, info, shown(self.longest_ns), gap]
    }
}

/// A history.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    /// Begun with the first operation.
    file: Option<BufWriter<File>>,
    lines: u64,
    operations: Vec<Operation>,
    kinds: Vec<String>,
    /// Operations under way, by machine and process.
    open: HashMap<(usize, String), usize>,
}

impl History {
    /// One without operations, whose file will be at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            lines: 0,
            operations: Vec::new(),
            kinds: Vec::new(),
            open: HashMap::new(),
        }
    }

    /// The operations, in the order of their beginning.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Names of kinds of operations.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// A line of a machine's output, and whether it is one of a history.
    pub fn line(
        &mut self,
        (machine, name): (usize, &str),
        at: Nanos,
        line: &[u8],
    ) -> Result<bool, ResultsError> {
        let Some(read) = Line::of_output(line) else { return Ok(false) };
        self.write(name, at, line)?;
        let process = (machine, read.process.to_string());
        if read.kind == Kind::Invoke {
            if self.operations.len() < MAX_OPERATIONS {
                let kind = self.kind(&read.f);
                self.open.insert(process, self.operations.len());
                let (invoked, outcome) = (at, Outcome::Unknown);
                self.operations.push(Operation { machine, kind, invoked, ended: None, outcome });
            }
            return Ok(true);
        }
        // One without a beginning says nothing of how long it took.
        let begun = self.open.remove(&process).and_then(|place| self.operations.get_mut(place));
        if let Some(operation) = begun {
            operation.ended = Some(at);
            operation.outcome = Outcome::of_end(read.kind);
        }
        Ok(true)
    }

    fn kind(&mut self, name: &str) -> usize {
        let name: String = name.chars().take(MAX_KIND).collect();
        let place = self.kinds.iter().position(|known| *known == name);
        place.unwrap_or_else(|| {
            if self.kinds.len() < MAX_KINDS {
                self.kinds.push(name);
            }
            self.kinds.len() - 1
        })
    }

    /// Writes the line with its time and machine.
    fn write(&mut self, machine: &str, at: Nanos, line: &[u8]) -> Result<(), ResultsError> {
        // A line that was read is an object.
        let mut object: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
        object.insert("index".into(), self.lines.into());
        object.insert("time".into(), at.into());
        object.insert("machine".into(), machine.into());
        self.lines += 1;
        let path = &self.path;
        let wrong = |source| ResultsError::Write { path: path.clone(), source };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(path).map_err(wrong)?)),
        };
        let mut text = Value::Object(object).to_string();
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(wrong)
    }

    /// Ends the file.
    pub fn finish(&mut self) -> Result<(), ResultsError> {
        let flushed = self.file.take().map_or(Ok(()), |mut file| file.flush());
        flushed.map_err(|source| ResultsError::Write { path: self.path.clone(), source })
    }

    /// Returns the figures of all operations, in a run that ended at `end` (ns); None without an
    /// operation.
    pub fn witnessed(&self, end: Nanos) -> Option<Witnessed> {
        self.by_fault(&[(0, Nanos::MAX)], end).pop()
    }

    /// Returns the figures of each fault, of which `times` has the beginning and the end (ns), in a run that
    /// ended at `end`; nothing without an operation. An operation belongs to the first fault that it met, and
    /// so does a time without success.
    pub fn by_fault(&self, times: &[(Nanos, Nanos)], end: Nanos) -> Vec<Witnessed> {
        let (Some(first), false) = (self.operations.first(), times.is_empty()) else {
            return Vec::new();
        };
        let ended = |operation: &Operation| operation.ended.unwrap_or(end);
        let met = |(from, to): (Nanos, Nanos)| {
            let all = times.iter().enumerate().filter(|(_, time)| time.0 <= to && time.1 >= from);
            all.min_by_key(|(_, time)| time.0).map(|(place, _)| place)
        };
        let mut all = vec![Witnessed::default(); times.len()];
        for operation in &self.operations {
            if let Some(place) = met((operation.invoked, ended(operation))) {
                all[place].add(operation, ended(operation));
            }
        }
        // Between the first beginning and the last end.
        let last = self.operations.iter().map(ended).max().unwrap_or(end);
        let done = self.operations.iter().filter(|operation| operation.outcome == Outcome::Ok);
        let mut done: Vec<Nanos> = done.map(ended).chain([first.invoked, last]).collect();
        done.sort_unstable();
        for gap in done.windows(2).map(|pair| (pair[0], pair[1])) {
            if let Some(place) = met(gap) {
                all[place].add_gap(gap);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: &[(Nanos, &str)]) -> (tempfile::TempDir, History) {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::new(folder.path().join("history.jsonl"));
        for (at, line) in lines {
            history.line((1, "client"), *at, line.as_bytes()).unwrap();
        }
        history.finish().unwrap();
        (folder, history)
    }

    #[test]
    fn lines_of_a_history_are_told_from_output() {
        for line in [
            r#"{"type":"invoke","process":0,"f":"read","value":null}"#,
            r#" {"process": "a", "f": "txn", "type": "ok", "value": [["r", 1, 2]], "time": 3}  "#,
        ] {
            assert!(is_of_history(line.as_bytes()), "{line}");
        }
        for line in [
            "",
            "{",
            "{}",
            "done",
            r#"{"type":"done","process":0,"f":"read"}"#,
            r#"{"type":"ok"}"#,
            r#"{"type":"ok","process":0,"f":1}"#,
            r#"["invoke"]"#,
            "{\"type\":\"ok\u{0}",
        ] {
            assert!(!is_of_history(line.as_bytes()), "{line}");
        }
        assert!(!is_of_history(&[b'{', 0xff, b'}']));
    }

    #[test]
    fn operations_are_joined_by_their_process() {
        let (folder, history) = history(&[
            (10, r#"{"type":"invoke","process":0,"f":"write","value":1}"#),
            (12, r#"{"type":"invoke","process":1,"f":"read","value":null}"#),
            (15, r#"{"type":"fail","process":1,"f":"read","value":null}"#),
            (20, r#"{"type":"ok","process":0,"f":"write","value":1}"#),
            (25, "ready"),
            (30, r#"{"type":"ok","process":7,"f":"read","value":1}"#),
            (40, r#"{"type":"invoke","process":0,"f":"write","value":2}"#),
            (45, r#"{"type":"info","process":0,"f":"write","value":2}"#),
            (50, r#"{"type":"invoke","process":0,"f":"write","value":3}"#),
        ]);
        let fields: Vec<_> = history
            .operations()
            .iter()
            .map(|one| (one.invoked, one.ended, one.outcome, one.kind))
            .collect();
        assert_eq!(
            fields,
            [
                (10, Some(20), Outcome::Ok, 0),
                (12, Some(15), Outcome::Fail, 1),
                (40, Some(45), Outcome::Unknown, 0),
                (50, None, Outcome::Unknown, 0),
            ]
        );
        assert_eq!(history.kinds(), ["write", "read"]);
        let file = std::fs::read_to_string(folder.path().join("history.jsonl")).unwrap();
        let lines: Vec<Value> =
            file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 8);
        let first = serde_json::json!({
            "type": "invoke", "process": 0, "f": "write", "value": 1, "index": 0, "time": 10,
            "machine": "client",
        });
        assert_eq!(lines[0], first);
        assert_eq!(lines[7]["index"], 7);
    }

    #[test]
    fn a_fault_has_the_operations_that_met_it_first() {
        let done = |at: Nanos, to: Nanos, kind: &str| {
            [
                (at, r#"{"type":"invoke","process":0,"f":"w"}"#.to_owned()),
                (to, format!(r#"{{"type":"{kind}","process":0,"f":"w"}}"#)),
            ]
        };
        let all = [
            done(0, 10, "ok"),
            done(20, 30, "ok"),
            done(40, 240, "fail"),
            done(250, 300, "info"),
            done(310, 320, "ok"),
            done(330, 340, "ok"),
        ]
        .concat();
        let lines: Vec<_> = all.iter().map(|(at, line)| (*at, line.as_str())).collect();
        let (_folder, history) = history(&lines);
        let witnessed = |from, to| history.by_fault(&[(from, to)], 400).remove(0);
        let whole = history.witnessed(400).unwrap();
        let counts =
            |witnessed: &Witnessed| (witnessed.count, witnessed.ok, witnessed.fail, witnessed.info);
        assert_eq!(counts(&whole), (6, 4, 1, 1));
        assert_eq!((whole.longest_ns, whole.longest_gap_ns), (200, 290));
        assert_eq!(whole.longest_gap_begin_ns, 30);
        let cells = whole.cells(|at| units::duration(at as f64));
        assert_eq!(cells, ["6", "1", "1", "200 ns", "290 ns from 30 ns"]);
        let fault = witnessed(35, 260);
        assert_eq!(counts(&fault), (2, 0, 1, 1));
        assert_eq!((fault.longest_ns, fault.longest_gap_ns), (200, 290));
        // A moment in the middle of one operation, and one between two.
        assert_eq!(counts(&witnessed(25, 25)), (1, 1, 0, 0));
        assert_eq!(counts(&witnessed(35, 35)), (0, 0, 0, 0));
        assert_eq!(witnessed(325, 360).longest_gap_ns, 20);
        // The harm of the first of two faults is not the second's, whichever is named first.
        for (second, first) in [(0, 1), (1, 0)] {
            let mut times = [(45, 345); 2];
            times[second] = (100, 330);
            let all = history.by_fault(&times, 400);
            assert_eq!((counts(&all[first]), counts(&all[second])), ((4, 2, 1, 1), (0, 0, 0, 0)));
            assert_eq!((all[first].longest_ns, all[first].longest_gap_ns), (200, 290));
            let cells = all[second].cells(|at| units::duration(at as f64));
            assert_eq!(cells, ["0", "0", "0", "–", "–"]);
        }
        // The one that began while the first lasted is the first's, the next one the second's.
        let [first, second] = &history.by_fault(&[(35, 50), (245, 255)], 400)[..] else { panic!() };
        assert_eq!((counts(first), counts(second)), ((1, 0, 1, 0), (1, 0, 0, 1)));
        assert_eq!((first.longest_gap_ns, second.longest_gap_ns), (290, 0));
        let (_folder, none) = super::tests::history(&[(1, "ready")]);
        assert_eq!((none.witnessed(10), none.by_fault(&[(0, 10)], 10)), (None, Vec::new()));
    }
}
