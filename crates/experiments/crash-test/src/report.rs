//! The report of a crash test: text for the terminal, JSON for programs, a page for readers.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use stasis_block::units::format_duration;
use stasis_block::PowerLoss;
use stasis_crash::{Fault, StateSampler};
use stasis_report::page::{Block, Page, Section};
use stasis_report::plot::{Axis, Quantity, Scale, Scatter, ScatterSeries};
use stasis_report::{units, Column, Table};
use stasis_runner::provenance::Provenance;
use stasis_runner::TraceOptions;

use crate::session::{Finding, Kind, Outcome, Session};
use crate::CrashTest;

/// Findings that are printed; all are in the JSON.
const PRINTED: usize = 10;
/// Findings that are on the page.
const LISTED: usize = 200;

/// Kinds of findings, with their title on the page and their meaning.
const KINDS: [(Kind, &str, &str); 6] = [
    (Kind::Lost, "durable data lost", "what was acknowledged as durable is gone."),
    (Kind::Order, "order violated", "something is there without what was ordered before it."),
    (Kind::Unknown, "never written", "something is there that nobody wrote."),
    (Kind::Image, "image unsound", "an image's tables do not agree with each other."),
    (Kind::Check, "broken", "the check in a guest found it broken."),
    (
        Kind::Late,
        "check too slow",
        "the check did not end in its time, and says nothing of the disks.",
    ),
];

/// The report of a test, for programs.
#[derive(Debug, Serialize)]
pub struct Report {
    experiment: PathBuf,
    seed: u64,
    #[serde(rename = "plant")]
    fault: Option<Fault>,
    /// Numbers of commands in the trace: of the guest, and of the drives below images.
    guest_commands: u64,
    drive_commands: u64,
    /// Data that each drive can lose in a power cut.
    drives: Vec<DriveLoss>,
    /// Number of power cuts that were requested.
    asked: u64,
    /// Number of the cuts that lose all that may be lost, at the end, after a line or around a
    /// flush; and the number of such instants in the trace.
    fixed: u64,
    deciding: u64,
    /// Flushes of the guest that cover a write in flight, and whether they cover nothing of it.
    overlapping_flushes: u64,
    strict: bool,
    /// The inspected states and the findings.
    #[serde(flatten)]
    pub outcome: Outcome,
    seconds: f64,
    states_per_hour: f64,
    /// A command line for each finding.
    repeat: Vec<String>,
    /// Provenance of the report.
    #[serde(flatten)]
    provenance: Map<String, Value>,
}

/// A drive, and the data that it can lose in a power cut.
#[derive(Debug, Serialize)]
struct DriveLoss {
    name: String,
    power_loss: PowerLoss,
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Result of the repetition of a check's finding by a guest with its state alone.
fn repeated(finding: &Finding) -> Option<&'static str> {
    match finding.repeats {
        _ if !finding.kind.is_of_a_check() => None,
        Some(true) => Some("found again when a new guest looked at this state alone"),
        Some(false) => Some(
            "NOT found again when a new guest looked at this state alone: the check depends on what \
             it or the guest did before",
        ),
        None => Some("not repeated alone; those findings that were, were found again"),
    }
}

impl Report {
    /// The report of `session`, which took this many seconds.
    pub(crate) fn new(
        test: &CrashTest<'_>,
        session: &Session,
        plan: &StateSampler,
        outcome: Outcome,
        seconds: f64,
        tracing: &TraceOptions,
        provenance: Provenance,
    ) -> Self {
        let drives = &session.trace.drives;
        let count = |commands: usize| commands as u64;
        let repeat = |finding: &Finding| {
            let check = test.check.map(|check| format!(" --check {}", quoted(check)));
            let limit =
                test.check_limit.map(|limit| format!(" --check-limit {}ns", limit.as_nanos()));
            let strict = if test.strict { " --strict" } else { "" };
            format!(
                "stasis crash-test {} --trace {} --seed {} --state {}{strict}{}{}",
                test.path.display(),
                tracing.folder.display(),
                test.seed,
                finding.state,
                check.unwrap_or_default(),
                limit.unwrap_or_default()
            )
        };
        let named = drives.iter().zip(&session.trace.header.drives).map(|(drive, traced)| {
            DriveLoss { name: traced.name.clone(), power_loss: drive.cached().power_loss }
        });
        Self {
            experiment: test.path.to_owned(),
            seed: test.seed,
            fault: session.trace.header.fault.as_deref().and_then(Fault::parse),
            guest_commands: count(drives.iter().map(|drive| drive.guest.requests.len()).sum()),
            drive_commands: count(drives.iter().map(|drive| drive.cached().requests.len()).sum()),
            drives: named.collect(),
            asked: test.numbers(plan).count() as u64,
            fixed: if test.state.is_some() { 0 } else { plan.fixed() },
            deciding: plan.deciding(),
            overlapping_flushes: session.overlapping_flushes(),
            strict: session.is_strict(),
            seconds,
            states_per_hour: outcome.cuts as f64 / seconds.max(1e-9) * 3600.0,
            repeat: outcome.findings.iter().map(repeat).collect(),
            outcome,
            provenance: provenance.fields(),
        }
    }

    /// For the terminal; everything is in the files at `path` and `page`.
    pub fn text(&self, path: &Path, page: &Path) -> String {
        let outcome = &self.outcome;
        let of = |kind| self.found(kind);
        let mut text = String::new();
        let mut line = |name: &str, value: String| text += &format!("{name:<28}{value}\n");
        line(
            "traced",
            format!(
                "{} commands of the guest, {} of the drives",
                self.guest_commands, self.drive_commands
            ),
        );
        for DriveLoss { name, power_loss } in &self.drives {
            line(&format!("drive {name}"), power_loss.to_string());
        }
        if let Some(fault) = self.fault {
            line("injected fault", fault.name().into());
        }
        line(
            "power cuts",
            match outcome.stopped {
                true => format!(
                    "{} of {}: INTERRUPTED, the rest was not looked at",
                    outcome.cuts, self.asked
                ),
                false => outcome.cuts.to_string(),
            },
        );
        if self.fixed > 0 {
            let of = match self.deciding > self.fixed {
                true => format!(" of {}", self.deciding),
                false => String::new(),
            };
            line("at lines and flushes", format!("{}{of}", self.fixed));
        }
        if self.overlapping_flushes > 0 {
            let covers = if self.strict { "do not cover" } else { "cover" };
            let flushes = format!("{} {covers} a write in flight", self.overlapping_flushes);
            line("flushes", flushes);
        }
        line("different states", outcome.distinct.to_string());
        if outcome.checked > 0 {
            line("checked in a guest", outcome.checked.to_string());
            line("repaired by it", outcome.repaired.to_string());
            line("broken", of(Kind::Check).to_string());
            if of(Kind::Late) > 0 {
                line("check too slow", of(Kind::Late).to_string());
            }
        }
        line("durable data lost", of(Kind::Lost).to_string());
        line("order violated", of(Kind::Order).to_string());
        line("never written", of(Kind::Unknown).to_string());
        line("images inconsistent", of(Kind::Image).to_string());
        line("states per hour", format!("{:.0}", self.states_per_hour));
        for (finding, repeat) in outcome.findings.iter().zip(&self.repeat).take(PRINTED) {
            let drive =
                finding.drive.as_ref().map_or(String::new(), |name| format!(", drive {name}"));
            text += &format!(
                "\nstate {} (cut at {}{drive}): {}\n  {}{repeat}\n",
                finding.state,
                format_duration(finding.at),
                finding.what.trim_end(),
                repeated(finding).map(|said| format!("{said}\n  ")).unwrap_or_default()
            );
        }
        let more = outcome.findings.len().saturating_sub(PRINTED);
        if more > 0 {
            text += &format!("\nand {more} more\n");
        }
        text + &format!("\nall of it: {}\nreport: {}\n", path.display(), page.display())
    }

    fn found(&self, kind: Kind) -> usize {
        self.outcome.findings.iter().filter(|finding| finding.kind == kind).count()
    }

    /// The page: the inspected states, and every finding up to [`LISTED`].
    pub fn page(&self) -> Page {
        let outcome = &self.outcome;
        let cuts = match outcome.stopped {
            true => format!("{} of {}", units::count(outcome.cuts), units::count(self.asked)),
            false => units::count(outcome.cuts),
        };
        let mut facts = vec![
            ("Power cuts", cuts),
            ("Different states", units::count(outcome.distinct)),
            ("Findings", units::count(outcome.findings.len() as u64)),
            ("Commands of the guest", units::count(self.guest_commands)),
            ("Commands of the drives", units::count(self.drive_commands)),
            ("States per hour", units::decimals(self.states_per_hour, 0)),
        ];
        if outcome.checked > 0 {
            facts.push(("Checked in a guest", units::count(outcome.checked)));
            facts.push(("Repaired by it", units::count(outcome.repaired)));
        }
        let mut facts: Vec<(String, String)> =
            facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let loss =
            |drive: &DriveLoss| (format!("Drive {}", drive.name), drive.power_loss.to_string());
        facts.extend(self.drives.iter().map(loss));
        let mut sections = vec![Section::new("").with(Block::Facts(facts))];
        if !outcome.findings.is_empty() {
            sections.push(self.findings());
        }
        let terms = KINDS.map(|(_, name, meaning)| (name.to_owned(), meaning.to_owned()));
        sections.push(Section::new("What is looked for").with(Block::Terms(terms.to_vec())));
        sections.extend(stasis_report::provenance(&self.provenance));
        let subtitle = match (outcome.stopped, outcome.findings.len()) {
            (true, _) => "Interrupted: the rest was not looked at.".to_owned(),
            (false, 0) => "Nothing was found that a power cut must not leave.".to_owned(),
            (false, 1) => "One state was found that a power cut must not leave.".to_owned(),
            (false, many) => format!("{many} findings of what a power cut must not leave."),
        };
        let subtitle = match self.fault {
            Some(fault) => format!("{subtitle} With an injected fault: {}.", fault.name()),
            None => subtitle,
        };
        Page { title: format!("Crash test of {}", self.experiment.display()), subtitle, sections }
    }

    fn findings(&self) -> Section {
        let findings = &self.outcome.findings;
        let kinds = KINDS.iter().enumerate();
        let series = kinds.map(|(colour, (kind, name, _))| {
            let of_kind = findings.iter().filter(|finding| finding.kind == *kind);
            let points = of_kind.map(|finding| (finding.at as f64, finding.state as f64)).collect();
            ScatterSeries { name: (*name).to_owned(), colour, points, details: Vec::new() }
        });
        let plot = Scatter {
            title: "Findings by the time of the cut".into(),
            x: Axis::new("Virtual time since the machine was made", Scale::Linear, Quantity::Time),
            y: Axis::new("State", Scale::FromZero, Quantity::Number("")),
            series: series.filter(|series| !series.points.is_empty()).collect(),
        };
        let named = ["drive", "kind", "what", "alone", "repeat"].map(Column::left);
        let columns = [Column::right("state"), Column::right("cut at")].into_iter().chain(named);
        let mut table = Table::new(columns.collect());
        for (finding, repeat) in findings.iter().zip(&self.repeat).take(LISTED) {
            let kind = KINDS.iter().find(|(kind, ..)| *kind == finding.kind);
            table.push(vec![
                finding.state.to_string(),
                format_duration(finding.at),
                finding.drive.clone().unwrap_or_default(),
                kind.map_or("", |(_, name, _)| name).to_owned(),
                finding.what.clone(),
                repeated(finding).unwrap_or_default().to_owned(),
                repeat.clone(),
            ]);
        }
        let caption = match findings.len() > LISTED {
            true => format!("The first {LISTED}; all are in {}.", crate::FILE),
            false => String::new(),
        };
        let section = Section::new("Findings").with(Block::Plots(vec![plot.draw()]));
        section.with(Block::Table(caption, table))
    }
}
