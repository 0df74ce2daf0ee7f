//! The report of a crash test: text for the terminal, JSON for programs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};
use stasis_block::clock::Nanos;
use stasis_block::{Operation, PowerLoss};
use stasis_crash::{Cut, CutPoint, Enumerator, Fault, Level, Place, StateSampler, Trace};
use stasis_drive::Sampling;
use stasis_guest_image::Guest;
use stasis_report::{shell_word, Repeat};
use stasis_results::units::rounded;
use stasis_runner::provenance::Provenance;
use stasis_runner::TraceOptions;

use crate::evidence::{line_text, BrokenPromise, Evidence, NamedByte};
use crate::groups::{groups, Group};
use crate::namer::Range;
use crate::session::{Finding, Kind, Outcome, Session};
use crate::CrashTest;

/// Findings that are printed; all are in the JSON.
const PRINTED: usize = 10;
/// Findings whose surroundings are looked up: those that stand for a group, then the first.
const EXPLAINED: usize = 200;

/// The report of a test, for programs.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(crate) experiment: PathBuf,
    seed: u64,
    #[serde(rename = "plant")]
    pub(crate) fault: Option<Fault>,
    /// Numbers of commands in the trace: of the guest, and of the drives below images.
    pub(crate) guest_commands: u64,
    pub(crate) drive_commands: u64,
    /// Data that each drive can lose in a power cut.
    pub(crate) drives: Vec<DriveLoss>,
    /// Number of power cuts that were requested.
    pub(crate) asked: u64,
    /// Number of the cuts that lose all that may be lost, at the end, after a line or around a
    /// flush; and the number of such instants in the trace.
    pub(crate) fixed: u64,
    pub(crate) deciding: u64,
    /// Numbers of inspected states, by kind.
    pub(crate) places: Vec<PlaceCount>,
    /// Flushes of the guest that cover a write in flight, and whether they cover nothing of it.
    pub(crate) overlapping_flushes: u64,
    pub(crate) strict: bool,
    /// Interval of the check: it looked at one of this many power cuts.
    pub(crate) check_every: u64,
    /// The inspected states and the findings.
    #[serde(flatten)]
    pub outcome: Outcome,
    pub(crate) seconds: f64,
    pub(crate) states_per_hour: f64,
    /// A command line for each finding.
    pub(crate) repeat: Vec<String>,
    /// The folder with the trace, which these read.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// The command line that repeats the whole test, and the files that it read.
    pub(crate) repeat_test: Option<Repeat>,
    /// Files with the disks of a state, where they were to be kept.
    pub disks: Vec<PathBuf>,
    /// The findings by kind and cause.
    pub groups: Vec<Group>,
    /// Events over time, for the page.
    #[serde(skip)]
    pub(crate) course: Course,
    /// Provenance of the report.
    #[serde(flatten)]
    pub(crate) provenance: Map<String, Value>,
}

/// The instants of a test (ns).
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// Ends of the guest's flushes by drive, each with whether the power was cut just before it and
    /// just after it.
    pub(crate) flushes: Vec<Vec<(Nanos, bool)>>,
    /// Lines of output.
    pub(crate) lines: Vec<(Nanos, String)>,
    /// Power cuts: the state and its time.
    pub(crate) cuts: Vec<(u64, Nanos)>,
    /// Number of those before a flush that keep one of its writes, beside one that keeps none.
    pub(crate) keeping: u64,
}

impl Course {
    fn of(trace: &Trace, cuts: &[Cut]) -> Self {
        let points: HashSet<_> = cuts.iter().map(|cut| cut.point).collect();
        let flushes = |log: &stasis_crash::RequestLog| {
            let flushes =
                log.requests.iter().filter(|one| one.command.operation == Operation::Flush);
            let ends = flushes.filter_map(|flush| flush.end);
            let cut = |end| points.contains(&end) && points.contains(&(end + 1));
            ends.map(|(at, end, _)| (at, cut(end))).collect()
        };
        let keeps = |cut: &&Cut| matches!(cut.sampling, Sampling::Newest | Sampling::Oldest);
        Self {
            keeping: cuts.iter().filter(keeps).count() as u64,
            flushes: trace.drives.iter().map(|drive| flushes(&drive.guest)).collect(),
            lines: trace.lines.iter().map(|(_, at, line)| (*at, line_text(line))).collect(),
            cuts: cuts.iter().map(|cut| (cut.number, trace.time(cut.point))).collect(),
        }
    }
}

/// States of a kind, and how many of them were inspected.
#[derive(Debug, Serialize)]
pub(crate) struct PlaceCount {
    pub(crate) place: Place,
    pub(crate) tried: u64,
    pub(crate) asked: u64,
}

/// Counts the states of each kind that there is among `asked`.
fn places(plan: &StateSampler, asked: impl Iterator<Item = u64>, tried: &[u64]) -> Vec<PlaceCount> {
    let mut counts = Place::ALL.map(|place| PlaceCount { place, tried: 0, asked: 0 });
    let index = |number: u64| Place::ALL.iter().position(|one| *one == plan.place(number));
    for place in asked.filter_map(index) {
        counts[place].asked += 1;
    }
    for place in tried.iter().copied().filter_map(index) {
        counts[place].tried += 1;
    }
    counts.into_iter().filter(|count| count.asked > 0).collect()
}

/// A drive, and the data that it can lose in a power cut.
#[derive(Debug, Serialize)]
pub(crate) struct DriveLoss {
    pub(crate) name: String,
    pub(crate) power_loss: PowerLoss,
}

/// Result of the repetition of a check's finding by a guest with its state alone.
pub(crate) fn repeated(finding: &Finding) -> Option<&'static str> {
    match finding.repeats {
        _ if !finding.kind.is_of_a_check() => None,
        Some(_) => {
            Some(
                "found again in a new guest that had this state alone, on a clock that counts instructions and not the \
                 host's time",
            )
        }
        None => Some("not repeated alone"),
    }
}

/// Findings that were not found again, in a sentence.
pub(crate) fn not_repeated(findings: &[Finding]) -> Option<String> {
    /// States that are named.
    const NAMED: usize = 8;
    let states: Vec<String> =
        findings.iter().take(NAMED).map(|finding| finding.state.to_string()).collect();
    let more = if findings.len() > NAMED { ", …" } else { "" };
    let (first, count) = (findings.first()?, findings.len());
    let description = first.what.lines().next().unwrap_or_default();
    Some(format!(
        "The check failed on {count} more (states {}{more}: {description}), and passed when a new guest with \
         that state alone repeated it on a clock that counts instructions and not the host's time. These are no \
         findings: the check depends on the host's speed, or on what it or its guest did before",
        states.join(", ")
    ))
}

/// Looks up the surroundings of findings, in one way through the trace.
fn explain(session: &Session, plan: &StateSampler, groups: &[Group], findings: &mut [Finding]) {
    let trace = &session.trace;
    let mut chosen: Vec<usize> = groups.iter().map(|group| group.example).collect();
    let mut known: HashSet<usize> = chosen.iter().copied().collect();
    chosen.extend((0..findings.len()).filter(|index| known.insert(*index)).take(EXPLAINED));
    chosen.truncate(EXPLAINED);
    let cuts = chosen.into_iter().map(|index| (plan.cut(trace, findings[index].state), index));
    let mut cuts: Vec<(Cut, usize)> = cuts.collect();
    cuts.sort_by_key(|(cut, index)| (cut.point, *index));
    let mut enumerator = Enumerator::new(trace, session.is_strict());
    for (cut, index) in cuts {
        enumerator.go_to(cut.point);
        let finding = &mut findings[index];
        let named = blamed(trace, finding);
        let mut evidence = Evidence::of(trace, &enumerator, &cut, named);
        let byte = |offset: &u64| NamedByte { offset: *offset, holders: Vec::new() };
        evidence.about = finding.bytes.iter().map(byte).collect();
        finding.evidence = Some(evidence);
    }
}

/// The write that a finding is about, by drive and place in the guest's log.
fn blamed(trace: &Trace, finding: &Finding) -> Option<(usize, usize)> {
    let name = finding.drive.as_ref()?;
    let drive = trace.header.drives.iter().position(|one| one.name == *name)?;
    Some((drive, finding.write?))
}

/// Findings whose places are named: each takes some starts of programs in a guest.
const NAMED: usize = 20;

impl Report {
    /// The report of `session`, which took this many seconds.
    pub(crate) fn new(
        test: &CrashTest<'_>,
        session: &Session,
        plan: &StateSampler,
        mut outcome: Outcome,
        seconds: f64,
        tracing: &TraceOptions,
        provenance: Provenance,
    ) -> Self {
        let drives = &session.trace.drives;
        let count = |commands: usize| commands as u64;
        let repeat = |finding: &Finding| {
            let check = test.check.map(|check| format!(" --check {}", shell_word(check)));
            let limit =
                test.check_limit.map(|limit| format!(" --check-limit {}ns", limit.as_nanos()));
            let strict = if test.strict { " --strict" } else { "" };
            let trace = tracing.folder.display().to_string();
            let trace = trace.trim_end_matches('/');
            let state = finding.state;
            let seed = match test.seed {
                0 => String::new(),
                seed => format!(" --seed {seed}"),
            };
            format!(
                // Not on the page that the line stands on.
                "stasis crash-test {} --trace {} --results {}{seed} --state {state}{strict}{}{}",
                shell_word(&test.path.display().to_string()),
                shell_word(trace),
                shell_word(&format!("{trace}-state-{state}")),
                check.unwrap_or_default(),
                limit.unwrap_or_default()
            )
        };
        let named = drives.iter().zip(&session.trace.header.drives).map(|(drive, traced)| {
            DriveLoss { name: traced.name.clone(), power_loss: drive.cached().power_loss }
        });
        let tried = outcome.tried.iter();
        let mut cuts: Vec<Cut> = tried.map(|number| plan.cut(&session.trace, *number)).collect();
        cuts.sort_by_key(|cut| cut.number);
        let numbers = test.numbers(plan);
        let trace = &session.trace;
        let relied_on = |finding: &Finding| {
            let cut = plan.cut(trace, finding.state);
            let promise =
                blamed(trace, finding).and_then(|it| BrokenPromise::of(trace, cut.point, it));
            promise.map_or(0, |promise| match (promise.step, promise.under_way) {
                (Some(_), _) => 2,
                (None, Some(_)) => 1,
                (None, None) => 0,
            })
        };
        let groups = groups(&outcome.findings, relied_on);
        explain(session, plan, &groups, &mut outcome.findings);
        let mut provenance = provenance.fields();
        let repeat_test = Repeat::take(&mut provenance);
        Self {
            course: Course::of(&session.trace, &cuts),
            disks: Vec::new(),
            groups,
            experiment: test.path.to_owned(),
            seed: test.seed,
            fault: session.trace.header.fault.as_deref().and_then(Fault::parse),
            guest_commands: count(drives.iter().map(|drive| drive.guest.requests.len()).sum()),
            drive_commands: count(drives.iter().map(|drive| drive.cached().requests.len()).sum()),
            drives: named.collect(),
            asked: numbers.end - numbers.start,
            places: places(plan, numbers, &outcome.tried),
            fixed: if test.state.is_some() { 0 } else { plan.fixed() },
            deciding: plan.deciding(),
            overlapping_flushes: session.overlapping_flushes(),
            strict: session.is_strict(),
            check_every: test.interval(),
            seconds,
            states_per_hour: outcome.cuts as f64 / seconds.max(1e-9) * 3600.0,
            repeat: outcome.findings.iter().map(repeat).collect(),
            folder: tracing.folder.clone(),
            outcome,
            repeat_test,
            provenance,
        }
    }

    /// The findings of which places are named: those that stand for a group, then the first.
    fn to_be_named(&self) -> Vec<usize> {
        let mut known = HashSet::new();
        let examples = self.groups.iter().map(|group| group.example);
        let all = examples.chain(0..self.outcome.findings.len());
        all.filter(|index| known.insert(*index)).take(NAMED).collect()
    }

    /// Notes why nothing is named.
    pub(crate) fn cannot_name(&mut self, why: &str) {
        for index in self.to_be_named() {
            if let Some(evidence) = &mut self.outcome.findings[index].evidence {
                evidence.not_named = Some(why.to_owned());
            }
        }
    }

    /// Has what lies at the places of lost writes named: of the findings that stand for a group, and
    /// of the first that are printed.
    ///
    /// # Errors
    /// A disk of the trace cannot be read.
    pub(crate) fn name(
        &mut self,
        session: &mut Session,
        plan: &StateSampler,
        guest: Guest,
        stop: &Arc<AtomicBool>,
    ) -> Result<()> {
        let chosen = self.to_be_named();
        let (trace, findings) = (&session.trace, &mut self.outcome.findings);
        let drive = |name: &str| trace.header.drives.iter().position(|one| one.name == name);
        let asked = chosen.iter().map(|index| {
            let finding = &findings[*index];
            let losses = finding.evidence.iter().flat_map(|evidence| &evidence.losses);
            let lost = losses.filter_map(|loss| {
                let (level, offset, length) = (Level::Drive, loss.offset, loss.length);
                drive(&loss.drive).map(|drive| Range { drive, level, offset, length })
            });
            let bytes = finding.bytes.iter().filter_map(|offset| {
                let (level, offset, length) = (Level::Guest, *offset, 1);
                let drive = drive(finding.drive.as_deref()?)?;
                Some(Range { drive, level, offset, length })
            });
            (plan.cut(trace, finding.state).point, lost.chain(bytes).collect())
        });
        let asked: Vec<(CutPoint, Vec<Range>)> = asked.collect();
        for (index, named) in chosen.into_iter().zip(session.name(asked, guest, stop)?) {
            let Some(evidence) = &mut findings[index].evidence else { continue };
            evidence.not_named = named.why_not;
            let losses = evidence.losses.iter_mut().map(|loss| &mut loss.holders);
            let bytes = evidence.about.iter_mut().map(|byte| &mut byte.holders);
            for (place, holders) in losses.chain(bytes).zip(named.holders) {
                *place = holders;
            }
        }
        Ok(())
    }

    /// For the terminal; everything is in the files at `path` and `page`.
    pub fn text(&self, path: &Path, page: &Path) -> String {
        let outcome = &self.outcome;
        let count = |kind| self.found(kind);
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
                true => format!("{} of {}: INTERRUPTED", outcome.cuts, self.asked),
                false => outcome.cuts.to_string(),
            },
        );
        if let Some(rest) = self.not_inspected() {
            line("NOT LOOKED AT", rest);
        }
        if self.fixed > 0 {
            let share = match self.deciding > self.fixed {
                true => format!(" of {}", self.deciding),
                false => String::new(),
            };
            line("at lines and flushes", format!("{}{share}", self.fixed));
        }
        if self.overlapping_flushes > 0 {
            let covers = if self.strict { "do not cover" } else { "cover" };
            let flushes = format!("{} {covers} a write in flight", self.overlapping_flushes);
            line("flushes", flushes);
        }
        line("different states", outcome.distinct.to_string());
        if outcome.checked > 0 {
            line("checked in a guest", outcome.checked.to_string());
            if outcome.alike > 0 {
                line("as one of these reads it", outcome.alike.to_string());
            }
            line("repaired by it", outcome.repaired.to_string());
            line("broken", count(Kind::Check).to_string());
            if !outcome.not_repeated.is_empty() {
                line("broken once, not again", outcome.not_repeated.len().to_string());
            }
            if count(Kind::Late) > 0 {
                line("check too slow", count(Kind::Late).to_string());
            }
        }
        line("durable data lost", count(Kind::Lost).to_string());
        line("order violated", count(Kind::Order).to_string());
        line("never written", count(Kind::Unknown).to_string());
        line("images inconsistent", count(Kind::Image).to_string());
        line("states per hour", format!("{:.0}", self.states_per_hour));
        for (finding, repeat) in outcome.findings.iter().zip(&self.repeat).take(PRINTED) {
            let drive =
                finding.drive.as_ref().map_or(String::new(), |name| format!(", drive {name}"));
            text += &format!(
                "\nstate {} (cut at {}{drive}): {}\n{}  {}{repeat}\n",
                finding.state,
                rounded(finding.at),
                finding.what.trim_end(),
                finding.evidence.as_ref().map(|found| found.text(finding.at)).unwrap_or_default(),
                repeated(finding).map(|words| format!("{words}\n  ")).unwrap_or_default()
            );
        }
        let more = outcome.findings.len().saturating_sub(PRINTED);
        if more > 0 {
            text += &format!("\nand {more} more\n");
        }
        if let Some(sentence) = not_repeated(&outcome.not_repeated) {
            text += &format!("\n{sentence}\n");
        }
        for disk in &self.disks {
            text += &format!("\ndisk of a state: {}\n", disk.display());
        }
        text + &format!("\nall of it: {}\nreport: {}\n", path.display(), page.display())
    }

    /// The states of each kind that were not inspected.
    pub(crate) fn not_inspected(&self) -> Option<String> {
        let rest = self.places.iter().filter(|count| count.tried < count.asked);
        let rest: Vec<String> = rest
            .map(|PlaceCount { place, tried, asked }| {
                format!("{} of {asked} {}", asked - tried, place.name())
            })
            .collect();
        (!rest.is_empty()).then(|| rest.join(", "))
    }

    pub(crate) fn found(&self, kind: Kind) -> usize {
        self.outcome.findings.iter().filter(|finding| finding.kind == kind).count()
    }
}
