//! What a folder of results has, what in it is odd, and what can be asked of it next: for a reader
//! who has not made it, such as a program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::escape::shell_word as word;
use crate::failed;
use crate::verdict::{capital, counted};
use stasis_results::names_of_run;
use stasis_results::summary::{DriveSummary, Summary};
use stasis_results::{
    earlier_results, units, ResultsError, EARLIER_FOLDER, LIST_FILE, SUMMARY_FILE,
};

/// The kind of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A run in a guest.
    Run,
    /// A simulation.
    Simulation,
    /// I/Os of a server.
    Server,
    /// A crash test.
    CrashTest,
    /// A comparison of results.
    Comparison,
    /// Several runs, in folders of their own.
    Several,
    /// A run that has not ended.
    Unfinished,
}

impl Kind {
    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "a run",
            Self::Simulation => "a simulation",
            Self::Server => "a server's I/Os",
            Self::CrashTest => "a crash test",
            Self::Comparison => "a comparison",
            Self::Several => "several runs",
            Self::Unfinished => "a run that has not ended",
        }
    }
}

/// A file of results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Description of its content.
    pub has: &'static str,
}

/// A command that tells more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    /// Description of its answer.
    pub tells: String,
    /// The command line.
    pub command: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The folder.
    pub results: PathBuf,
    /// Their kind.
    pub kind: Kind,
    /// Sentences about the work and its end.
    pub about: Vec<String>,
    /// Sentences about anything unusual; empty if all is well.
    pub odd: Vec<String>,
    /// Commands to ask next.
    pub next: Vec<Next>,
    /// The files.
    pub files: Vec<File>,
    /// Folders with results of their own.
    pub runs: Vec<PathBuf>,
}

impl Inspection {
    /// Looks at the results in `folder`.
    ///
    /// # Errors
    /// The folder has no results.
    pub fn of(folder: &Path) -> Result<Self, ResultsError> {
        let entries = fs::read_dir(folder).map_err(ResultsError::read(folder))?;
        let mut names: Vec<String> = names_of_run(folder);
        names.retain(|name| !name.starts_with(EARLIER_FOLDER) && !name.ends_with(LIST_FILE));
        let mut runs: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.join(SUMMARY_FILE).is_file() && !path.ends_with(EARLIER_FOLDER))
            .collect();
        runs.sort();
        names.retain(|name| !runs.iter().any(|run| folder.join(name).starts_with(run)));
        let mut known = BTreeSet::new();
        let files = names.into_iter().filter(|name| known.insert(name.clone()));
        let files: Vec<File> = files.filter_map(|name| file(folder, name)).collect();
        let json = |name: &str| -> Option<Value> {
            serde_json::from_slice(&fs::read(folder.join(name)).ok()?).ok()
        };
        let summary = Summary::beside(folder).filter(|_| folder.join(SUMMARY_FILE).is_file());
        let (crash, compared) =
            (json(stasis_results::CRASH_TEST_FILE), json(stasis_results::COMPARISON_FILE));
        let kind = match &summary {
            _ if crash.is_some() => Kind::CrashTest,
            Some(summary) if summary.engine == "sim" => Kind::Simulation,
            Some(summary) if summary.engine == "serve" => Kind::Server,
            Some(_) => Kind::Run,
            None if compared.is_some() && runs.is_empty() => Kind::Comparison,
            None if !runs.is_empty() => Kind::Several,
            None if !files.is_empty() => Kind::Unfinished,
            None => return Err(ResultsError::damaged(folder, "it has no results".into())),
        };
        let (about, odd, next) = (Vec::new(), Vec::new(), Vec::new());
        let results = folder.to_owned();
        let mut it = Self { results, kind, about, odd, next, files, runs };
        match &crash {
            Some(crash) => it.crash_test(crash),
            None => summary.iter().for_each(|summary| it.run(summary)),
        }
        it.others(compared.as_ref());
        Ok(it)
    }

    fn ask(&mut self, tells: &str, command: String) {
        self.next.push(Next { tells: tells.to_owned(), command });
    }

    /// The folder as a word for a shell.
    fn shown(&self) -> String {
        word(&self.results.display().to_string())
    }

    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name == name)
    }

    fn run(&mut self, summary: &Summary) {
        let field = |name: &str| summary.extra.get(name).cloned().unwrap_or_default();
        let command: Vec<_> = field("command").as_array().cloned().unwrap_or_default();
        let command: Vec<_> = command.iter().filter_map(Value::as_str).map(word).collect();
        let subject = match (command.is_empty(), field("title").as_str()) {
            (false, _) => format!("`{}`", command.join(" ")),
            (true, Some(title)) => format!("`{title}`"),
            (true, None) => "It".into(),
        };
        let seconds = units::duration(summary.virtual_seconds * 1e9);
        self.about.push(format!(
            "{subject} took {seconds} of virtual time under `{}`, with {}.",
            summary.engine,
            counted(summary.ios(), "I/O", "I/Os")
        ));
        let ended = summary.ending.replace('-', " ");
        if summary.ending != "exited" {
            let why = summary.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            self.odd.push(format!("It did not end by itself: {ended}{why}."));
        } else if summary.exit_status != 0 {
            self.odd.push(format!("The command ended with status {}.", summary.exit_status));
        }
        let unmet = stasis_results::thresholds::unmet(summary);
        self.odd.extend(unmet.map(|clause| format!("A threshold is not met: {clause}.")));
        self.odd.extend(summary.warnings.iter().map(|why| format!("Not to be trusted: {why}.")));
        summary.drives.iter().for_each(|drive| self.drive(drive));
        for fault in field("faults").as_array().into_iter().flatten() {
            if fault["happened"] == 0 {
                let (kind, target) = (&fault["kind"], &fault["target"]);
                let [kind, target] = [kind, target].map(|it| it.as_str().unwrap_or_default());
                self.odd.push(format!("The fault {kind} of {target} has not happened."));
            }
        }
        if field("lost_ios").as_u64().is_some_and(|lost| lost > 0) {
            self.odd.push(format!("The file of the I/Os lacks {} of them.", field("lost_ios")));
        }
        let shown = self.shown();
        let has_ios = stasis_results::IOS_FILES.iter().any(|name| self.has(name));
        if has_ios && summary.ios() > 0 {
            self.ask("where the time of the slowest I/O went", format!("stasis why {shown}"));
            let trace = format!("stasis export {shown} --perfetto trace.json");
            self.ask("all of it over time, in Perfetto", trace);
            let compare = format!("stasis compare {shown} OTHER-RESULTS");
            self.ask("which differences from another run matter", compare);
        }
        if self.kind == Kind::Run {
            let archive = format!("stasis archive {shown} -o run.stasis");
            self.ask("a file by which others repeat it", archive);
        }
        if let Some(command) = field("repeat")["command"].as_str() {
            self.ask("the same again", command.to_owned());
            if !self.has(stasis_results::TIMELINE_FILE)
                && self.kind != Kind::Server
                && !command.contains('<')
                && ["stasis run ", "stasis sim "].iter().any(|begin| command.starts_with(begin))
            {
                let with = match command.split_once(" -- ") {
                    Some((before, after)) => format!("{before} --timeline -- {after}"),
                    None => format!("{command} --timeline"),
                };
                self.ask("what the drives did inside, which this run has not kept", with);
            }
        }
    }

    fn drive(&mut self, drive: &DriveSummary) {
        self.odd.extend(failed::failed(drive));
        let name = &drive.described.name;
        if drive.refused > 0 {
            let refused = units::count(drive.refused);
            self.odd.push(format!("{name}: {refused} commands were refused."));
        }
        if drive.used().next().is_none() {
            self.odd.push(format!("{name}: no I/O of the command has reached it."));
        }
    }

    fn crash_test(&mut self, test: &Value) {
        let findings = test["findings"].as_array().map_or(0, Vec::len);
        let cuts = test["cuts"].as_u64().unwrap_or_default();
        let experiment = test["experiment"].as_str().unwrap_or_default();
        self.about.push(format!("{experiment}: {} power cuts were looked at.", units::count(cuts)));
        if test["stopped"] == true {
            self.odd.push("It was stopped before all were looked at.".into());
        }
        if let Some(why) = test["control_failed"].as_str() {
            self.odd.push(format!("The check fails without any power cut: {why}"));
        }
        if findings > 0 {
            let first = test["findings"][0]["what"].as_str().unwrap_or_default();
            let first = first.lines().next().unwrap_or_default();
            let states = counted(findings as u64, "finding", "findings");
            self.odd.push(format!("There is what a power cut must not leave, {states}: {first}"));
        }
        if let Some(command) = test["repeat"][0].as_str() {
            self.ask("the first finding alone", command.to_owned());
            self.ask("its disks, as files", format!("{command} --keep-disk"));
        }
    }

    /// Adds everything that does not depend on the kind.
    fn others(&mut self, compared: Option<&Value>) {
        if let Some(sentence) = compared.and_then(|all| all["sentence"].as_str()) {
            self.about.push(sentence.to_owned());
        }
        if let Some(differences) = compared.and_then(|all| all["differences"].as_array()) {
            let significant = differences.iter().filter(|it| it["significant"] == true).count();
            self.about.push(format!(
                "{} figures were compared; of {significant} the difference is significant.",
                differences.len()
            ));
        }
        if self.kind == Kind::Unfinished {
            self.odd
                .push("There is no summary: the run goes on yet, or was killed, or failed.".into());
        }
        self.odd.extend(earlier_results(&self.results).map(|note| capital(&note) + "."));
        let runs = self.runs.len();
        if runs > 0 {
            self.about.push(format!("{runs} runs have folders of their own."));
            let first = word(&self.runs[0].display().to_string());
            self.ask("one of the runs", format!("stasis inspect {first}"));
        }
        if runs > 1 {
            let runs: Vec<_> =
                self.runs.iter().take(4).map(|run| word(&run.display().to_string())).collect();
            self.ask("what differs between them", format!("stasis compare {}", runs.join(" ")));
        }
        let pages: Vec<_> =
            self.files.iter().filter(|file| file.name.ends_with(".html")).cloned().collect();
        for page in pages {
            let path = self.results.join(page.name);
            self.ask("it as a page", format!("xdg-open {}", word(&path.display().to_string())));
        }
    }

    /// The answer for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.results.display(), self.kind.name());
        let mut list = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                text += &format!("\n{title}\n");
                lines.iter().for_each(|line| text += &format!("  {line}\n"));
            }
        };
        list("What it is", self.about.clone());
        let odd = match self.odd.is_empty() {
            true => vec!["Nothing.".to_owned()],
            false => self.odd.clone(),
        };
        list("What is odd", odd);
        let next = self.next.iter().map(|next| format!("{}: {}", next.tells, next.command));
        list("What to ask next", next.collect());
        let width = self.files.iter().map(|file| file.name.chars().count()).max().unwrap_or(0);
        let files = self.files.iter().map(|file| {
            let size = units::bytes(file.bytes);
            format!("{:width$}  {size:>9}  {}", file.name, file.has)
        });
        list("Files", files.collect());
        text
    }
}

/// A file of the folder; folders are left out.
fn file(folder: &Path, name: String) -> Option<File> {
    let there = fs::metadata(folder.join(&name)).ok().filter(|there| there.is_file())?;
    let known = stasis_results::FILES.iter().find(|(known, _)| *known == name).map(|(_, has)| *has);
    let has = match known {
        Some(has) => has,
        None if name.ends_with(".pcapng") => "the frames of a network",
        None if name.ends_with(".csv") => "a table of the runs",
        None => "left by the command, or of its drives",
    };
    Some(File { bytes: there.len(), name, has })
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Map};
    use stasis_block::{Command, Operation};
    use stasis_run_events::{Ending, IoRecord, IoStatus, Outcome};

    use super::*;
    use crate::ResultsWriter;
    use stasis_results::{Drive, ResultsFolder};

    fn drive(name: &str) -> Drive {
        Drive {
            name: name.into(),
            model: "fixed:1us".into(),
            parameters: Value::Null,
            changes: None,
            interface: "nvme".into(),
            medium: "ram:1MiB".into(),
        }
    }

    /// A run with one drive of which an I/O failed, and one that was not used.
    fn run(folder: &Path, ending: Ending) {
        let drives = vec![drive("used"), drive("unused")];
        let mut writer = ResultsWriter::create(folder, drives).unwrap();
        let status = IoStatus::Error;
        let io = IoRecord::of(&Command::new(Operation::Read, 0, 4096));
        writer.record(&[IoRecord { status, code: 0x281, target: 9, delivered: 9, ..io }]).unwrap();
        writer.folder().begun();
        let mut extra = Map::new();
        extra.insert("command".into(), json!(["sh", "-c", "a b"]));
        extra.insert("repeat".into(), json!({ "command": "stasis run -- sh" }));
        extra.insert("faults".into(), json!([{ "kind": "reset", "target": "a", "happened": 0 }]));
        writer.finish(&Outcome::of(ending), "exact", Default::default(), extra).unwrap();
    }

    #[test]
    fn a_run_says_what_it_is_what_is_odd_and_what_to_ask() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), Ending::Exited(3));
        let found = Inspection::of(folder.path()).unwrap();
        assert_eq!(found.kind, Kind::Run);
        let text = found.to_text();
        for part in [
            "`sh -c 'a b'` took",
            "status 3",
            "Unrecovered Read Error",
            "unused: no I/O",
            "The fault reset of a has not happened.",
            "stasis why /",
            "stasis run --timeline -- sh",
            "ios.csv",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(found.files.iter().all(|file| file.name != LIST_FILE), "{text}");
    }

    #[test]
    fn kinds_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        Inspection::of(&at("none")).unwrap_err();
        fs::create_dir(at("empty")).unwrap();
        Inspection::of(&at("empty")).unwrap_err();
        run(&at("several/a"), Ending::Exited(0));
        run(&at("several/b"), Ending::Cancelled);
        let several = Inspection::of(&at("several")).unwrap();
        assert_eq!((several.kind, several.runs.len()), (Kind::Several, 2));
        assert!(several.next.iter().any(|next| next.command.starts_with("stasis compare ")));
        let stopped = Inspection::of(&at("several/b")).unwrap();
        assert!(stopped.odd[0].contains("cancelled"), "{stopped:?}");
        // A run over another's results, which was killed.
        let mut killed = ResultsFolder::claim(&at("several/a"), &[]).unwrap();
        fs::write(killed.file("output.txt").unwrap(), "").unwrap();
        killed.begun();
        drop(killed);
        let killed = Inspection::of(&at("several/a")).unwrap();
        assert_eq!(killed.kind, Kind::Unfinished);
        assert!(killed.odd.iter().any(|odd| odd.contains(EARLIER_FOLDER)), "{killed:?}");
        fs::write(
            at("empty/crash-test.json"),
            r#"{"cuts": 9, "findings": [{"what": "lost"}], "repeat": ["stasis crash-test x"]}"#,
        )
        .unwrap();
        let test = Inspection::of(&at("empty")).unwrap();
        assert_eq!(test.kind, Kind::CrashTest);
        assert!(test.odd[0].contains("one finding") || test.odd[0].contains("1 finding: lost"));
        assert!(test.next[0].command.contains("crash-test"));
        fs::create_dir(at("compared")).unwrap();
        let compared = r#"{"verdict": "faster", "sentence": "It is faster.",
            "differences": [{"significant": true}, {"significant": false}]}"#;
        fs::write(at("compared/comparison.json"), compared).unwrap();
        fs::write(at("compared/.stasis"), "").unwrap();
        let compared = Inspection::of(&at("compared")).unwrap();
        assert_eq!(compared.kind, Kind::Comparison);
        assert_eq!(
            compared.about,
            ["It is faster.", "2 figures were compared; of 1 the difference is significant."]
        );
    }

    #[test]
    fn a_threshold_that_is_not_met_is_odd() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
        let threshold = stasis_results::thresholds::Threshold::parse("exit_status == 1").unwrap();
        writer.expect(vec![threshold]);
        writer.folder().begun();
        let ended = Outcome::of(Ending::Exited(0));
        writer.finish(&ended, "exact", Default::default(), Map::new()).unwrap();
        let found = Inspection::of(folder.path()).unwrap();
        assert!(found.odd.iter().any(|odd| odd.contains("exit_status == 1")), "{found:?}");
        assert!(!found.next.iter().any(|next| next.command.contains("--timeline")), "{found:?}");
    }
}
