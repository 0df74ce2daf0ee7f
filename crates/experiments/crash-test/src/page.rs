//! The page of a crash test.

use std::collections::{BTreeMap, BTreeSet};

use stasis_block::clock::Nanos;
use stasis_crash::Place;
use stasis_report::page::{thinned, Block, Head, Page, Resolution, Section};
use stasis_report::plot::{Axis, Dot, Dots, Markup, Quantity, Row, Scale};
use stasis_report::verdict::{capital, Broken, CrashTest, Found};
use stasis_report::{Column, Table, Tone};
use stasis_results::units;

use crate::evidence::{reason, Evidence, Span, SpanKind, REASONS};
use crate::groups::Group;
use crate::report::{not_repeated, repeated, DriveLoss, PlaceCount, Report};
use crate::session::{Finding, Kind, Outcome};

/// Findings that are on the page.
const LISTED: usize = 200;
/// Groups that have a section, and power cuts and other instants of a row of the timeline, in the
/// finest resolution and in the coarsest.
const GROUPS: usize = 12;
const INSTANTS: (usize, usize) = (2000, 100);

/// Kinds of findings, with their title on the page and their meaning.
pub(crate) const KINDS: [(Kind, &str, &str); 6] = [
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

/// The title of a kind.
pub(crate) fn title(kind: Kind) -> &'static str {
    KINDS.iter().find(|(each, ..)| *each == kind).map_or("", |(_, title, _)| title)
}

/// Colours of the timeline: of what is well, and of the trace.
const WELL: usize = 2;
const TRACE: usize = 4;
const FOUND: usize = 1;
const CUT: usize = 0;
/// Colour of cuts that no guest checked.
const UNCHECKED: usize = 3;

/// Entries of the timeline's legend: a cut with a finding, and one without, as a guest checked it or
/// did not, or where no guest was to check any.
const WITH_FINDING: &str = "cut with a finding";
const CHECKED: &str = "cut, checked in a guest and fine";
const NOT_CHECKED: &str = "cut, not checked in a guest";
const FINE: &str = "cut, nothing found";

impl Report {
    /// The page, as HTML: the verdict, the timeline, the findings by kind and cause, and every
    /// finding up to [`LISTED`].
    pub fn to_html(&self) -> String {
        Page::within_limit(|resolution| self.page(resolution))
    }

    fn page(&self, resolution: Resolution) -> Page {
        let outcome = &self.outcome;
        let shown = resolution.of(GROUPS, 1);
        let mut groups = self.ordered().into_iter().map(|group| self.group(group));
        // The example that the page begins with is what comes next.
        let mut sections: Vec<_> = groups.next().into_iter().collect();
        sections.push(self.timeline(resolution));
        sections.extend(groups.take(shown - 1));
        let more = self.groups.len().saturating_sub(shown);
        if more > 0 {
            let causes = if more == 1 { "cause is" } else { "causes are" };
            let text = format!("{more} more {causes} in {}, beside this page.", crate::FILE);
            sections.push(Section::new("More causes").with(Block::Prose(text)));
        }
        if !outcome.findings.is_empty() {
            sections.push(self.findings(resolution.of(LISTED, 10)).folded());
        }
        sections.push(self.figures().folded());
        let term = |name: &str, meaning: &str| (name.to_owned(), meaning.to_owned());
        let terms = KINDS.map(|(_, name, meaning)| term(name, meaning));
        let terms = Section::new("What is looked for").with(Block::Terms(terms.to_vec()));
        let reasons = REASONS.map(|(_, name, meaning)| term(name, meaning));
        let terms = terms
            .with(Block::Prose("Why a drive may lose a change:".into()))
            .with(Block::Terms(reasons.to_vec()));
        sections.push(terms.folded());
        sections.extend(stasis_report::provenance(&self.provenance).map(Section::folded));
        let subtitle = self.fault.map_or(String::new(), |fault| {
            let (name, harm) = (fault.name(), fault.harm());
            format!("With an injected fault, {name}: {harm}. The findings come from it.")
        });
        Page {
            title: format!("Crash test of {}", self.experiment.display()),
            subtitle,
            head: Some(self.head()),
            sections,
        }
    }

    /// The answer: whether a promise was broken, in how many states, and why.
    fn head(&self) -> Head {
        let outcome = &self.outcome;
        let (cuts, found) = (outcome.cuts, outcome.findings.len());
        let late = self.found(Kind::Late);
        let ordered = self.ordered();
        let [lossy, lossy_checked, lossy_passed] = lossy(outcome);
        let broken = ordered.first().map(|first| Broken {
            kinds: self.kinds(),
            lossy,
            lossy_checked,
            lossy_passed,
            is_late: found == late,
            example: self.example(first).unwrap_or_default(),
        });
        let verdict = CrashTest {
            cuts,
            distinct: outcome.distinct,
            not_inspected: self.not_inspected(),
            not_repeated: not_repeated(&outcome.not_repeated),
            is_stopped: outcome.stopped,
            checked: outcome.checked,
            failed: found_by(outcome, true).len() as u64,
            check_every: self.check_every,
            broken,
        };
        let flushes = self.course.flushes.iter().flatten();
        let (all, cut) = flushes.fold((0, 0), count_cut);
        let tiles = [
            ("Different states", units::count(outcome.distinct)),
            (
                "Flushes cut before and after",
                format!("{} of {}", units::count(cut), units::count(all)),
            ),
        ];
        let mut table = Table::new(
            [Column::left("looked for")]
                .into_iter()
                .chain(["findings", "causes", "first cut", "last cut"].map(Column::right))
                .collect(),
        );
        let looked_for =
            KINDS.iter().filter(|(kind, ..)| !kind.is_of_a_check() || outcome.checked > 0);
        for (kind, name, _) in looked_for {
            let of_kind = || outcome.findings.iter().filter(|finding| finding.kind == *kind);
            let count = of_kind().count();
            let causes = self.groups.iter().filter(|group| group.kind == *kind).count();
            let time = |at: Option<u64>| at.map_or("–".to_owned(), moment);
            table.push(vec![
                (*name).to_owned(),
                units::count(count as u64),
                units::count(causes as u64),
                time(of_kind().map(|finding| finding.at).min()),
                time(of_kind().map(|finding| finding.at).max()),
            ]);
            table.judge(1, if count > 0 { Tone::Bad } else { Tone::Good });
        }
        let mut head = Head::answering(verdict.verdict(), tiles);
        let example = ordered.first().and_then(|group| outcome.findings.get(group.example));
        head.link = example.map(|finding| {
            let text = format!("State {}: what is lost, why, and what repeats it", finding.state);
            (text, anchor(ordered[0]))
        });
        let caption = "Times are virtual, since the machine was made. A state is what one power cut leaves, and has \
                       a number; one instant can have several, such as those just before and just after the end of \
                       a flush. One state can have several findings.";
        head.with(caption, table).repeated_by(self.repeat_test.clone())
    }

    /// The kinds of findings, those with the most findings first.
    fn kinds(&self) -> Vec<Found> {
        let found = KINDS.iter().map(|&(kind, title, _)| Found {
            kind: title,
            findings: self.found(kind) as u64,
            causes: self.groups.iter().filter(|group| group.kind == kind).count() as u64,
        });
        let mut kinds: Vec<_> = found.filter(|kind| kind.findings > 0).collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.findings));
        kinds
    }

    /// The causes in the order of the page: first what the check found, which is what a user of the
    /// disks would meet, then those with a step of the work that is lost.
    fn ordered(&self) -> Vec<&Group> {
        let mut all: Vec<_> = self.groups.iter().collect();
        all.sort_by_key(|group| (group.kind != Kind::Check, self.lost_step(group).is_none()));
        all
    }

    /// A cause's example in a sentence: what the check said, or the step that is lost.
    fn example(&self, group: &Group) -> Option<String> {
        let finding = self.outcome.findings.get(group.example)?;
        if group.kind == Kind::Check {
            let sentence = conclusion(&finding.what);
            let (state, at) = (finding.state, moment(finding.at));
            return Some(format!(
                "The check says “{sentence}” of state {state}, which a power cut at {at} left. "
            ));
        }
        self.lost_step(group)
    }

    /// The promised step that an example has lost, with what lies at the place of its lost write.
    fn lost_step(&self, group: &Group) -> Option<String> {
        let finding = self.outcome.findings.get(group.example)?;
        let evidence = finding.evidence.as_ref()?;
        let promise = evidence.promise.as_ref()?;
        let place = evidence.place().map_or(String::new(), |place| format!(" ({place})"));
        let state = finding.state;
        match (&promise.step, &promise.under_way) {
            (Some(step), _) => Some(format!(
                "“{}” relied on a write that state {state} has lost{place}. ",
                step.text
            )),
            (None, Some(step)) => Some(format!(
                "State {state} has lost a durable write on the way to “{}”{place}. ",
                step.text
            )),
            (None, None) => None,
        }
    }

    /// The flushes and lines of the run with the cuts on them.
    fn timeline(&self, resolution: Resolution) -> Section {
        let most = resolution.of(INSTANTS.0, INSTANTS.1);
        let dot = |name: &str, colour, at: u64, about: String| Dot {
            name: name.to_owned(),
            colour,
            value: at as f64,
            interval: None,
            about,
        };
        let row = |label: String, dots: Vec<Dot>, most: usize| {
            let places: Vec<usize> = (0..dots.len()).collect();
            let kept = thinned(&places, most).into_iter().map(|place| dots[place].clone());
            Row { label, dots: kept.collect() }
        };
        let mut rows = Vec::new();
        for (drive, flushes) in self.drives.iter().zip(&self.course.flushes) {
            let mark = |(at, cut): &(u64, bool)| match cut {
                true => dot("cut before and after", WELL, *at, String::new()),
                false => dot("not cut", TRACE, *at, String::new()),
            };
            let label = format!("flushes of {}", drive.name);
            rows.push(row(label, flushes.iter().map(mark).collect(), most));
        }
        let lines = self.course.lines.iter();
        let lines = lines.map(|(at, line)| dot("line of output", TRACE, *at, line.clone()));
        rows.push(row("promised steps".into(), lines.collect(), most));
        rows.push(row("power cuts".into(), cuts(&self.course.cuts, &self.outcome), most));
        for (kind, name, _) in KINDS {
            let found = self.outcome.findings.iter().filter(|finding| finding.kind == kind);
            let about = |finding: &Finding| {
                format!("state {}: {}", finding.state, first_line(&finding.what))
            };
            let found: Vec<_> =
                found.map(|finding| dot(WITH_FINDING, FOUND, finding.at, about(finding))).collect();
            if !found.is_empty() {
                rows.push(row(name.to_owned(), found, most));
            }
        }
        rows.retain(|row| !row.dots.is_empty());
        let plot = Dots {
            title: "Flushes, promised steps, and power cuts".into(),
            axis: Axis::new(
                "Virtual time since the machine was made",
                Scale::Linear,
                Quantity::Time,
            ),
            apart: false,
            rows,
        };
        Section::new("Timeline").with(Block::Plots(vec![plot.draw()]))
    }

    /// One group of findings, with the surroundings of one of its power cuts.
    fn group(&self, group: &Group) -> Section {
        let Some(finding) = self.outcome.findings.get(group.example) else {
            return Section::default();
        };
        let states: Vec<_> = group.states.iter().map(ToString::to_string).collect();
        let more = if group.count > states.len() as u64 { ", …" } else { "" };
        let drive = match &group.drive {
            None if self.drives.len() == 1 => String::new(),
            drive => format!(", {}", of_drive(drive.as_ref())),
        };
        let heading = format!(
            "{}{drive}: {}",
            title(group.kind),
            match group.count {
                1 => "one finding".to_owned(),
                many => format!("{} findings", units::count(many)),
            }
        );
        let text = format!(
            "{}; states {}{more}. State {}, at {}:",
            capital(&group.cuts(moment)),
            states.join(", "),
            finding.state,
            moment(finding.at)
        );
        let mut section = Section::new(heading).anchored(anchor(group)).with(Block::Prose(text));
        section = match finding.what.trim_end() {
            description if description.contains('\n') => section
                .with(Block::Details(first_line(description).to_owned(), description.to_owned())),
            description => section.with(Block::Prose(description.to_owned())),
        };
        if let Some(outcome) = repeated(finding) {
            section = section.with(Block::Prose(format!("It was {outcome}.")));
        }
        if let Some(evidence) = &finding.evidence {
            section = around(section, evidence, finding.at);
        }
        let repeat = self.repeat.get(group.example).cloned().unwrap_or_default();
        let text = format!(
            "To repeat it, where this test left its folder {}, which has the trace:",
            self.folder.display()
        );
        section.with(Block::Prose(text)).with(Block::Command(repeat))
    }

    fn findings(&self, most: usize) -> Section {
        let findings = &self.outcome.findings;
        let named = ["drive", "kind", "what", "alone"].map(Column::left);
        let columns = [Column::right("state"), Column::right("cut at")].into_iter().chain(named);
        let mut table = Table::new(columns.collect());
        for finding in findings.iter().take(most) {
            table.push(vec![
                finding.state.to_string(),
                moment(finding.at),
                finding.drive.clone().unwrap_or_default(),
                title(finding.kind).to_owned(),
                finding.what.clone(),
                repeated(finding).unwrap_or_default().to_owned(),
            ]);
        }
        let caption = match findings.len() > most {
            true => format!(
                "The first {most} of {}: {} are not on this page; all are in {}, beside it.",
                units::count(findings.len() as u64),
                units::count((findings.len() - most) as u64),
                crate::FILE
            ),
            false => String::new(),
        };
        Section::new("All findings").with(Block::Table(caption, table))
    }

    fn figures(&self) -> Section {
        let outcome = &self.outcome;
        let (_, flushes) = self.course.flushes.iter().flatten().fold((0, 0), count_cut);
        let mut facts = vec![
            ("Power cuts", units::count(outcome.cuts)),
            ("Power cuts by their places", by_place(&self.places, self.course.keeping, flushes)),
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
        Section::new("More figures").with(Block::Facts(facts))
    }
}

/// Counts a flush, and whether the power was cut before and after it.
fn count_cut((all, cut): (u64, u64), (_, is_cut): &(Nanos, bool)) -> (u64, u64) {
    (all + 1, cut + u64::from(*is_cut))
}

/// The numbers of power cuts at each kind of place. `keeping`: of those before flushes that keep a write;
/// `flushes`: of the flushes with cuts before and after.
fn by_place(places: &[PlaceCount], keeping: u64, flushes: u64) -> String {
    let tried = places.iter().filter(|count| count.tried > 0);
    let parts = tried.map(|PlaceCount { place, tried, .. }| {
        let second = if *place == Place::BeforeFlush { keeping } else { 0 };
        let elsewhere = match place {
            Place::BeforeFlush | Place::AfterFlush => flushes.saturating_sub(tried.saturating_sub(second)),
            Place::Line | Place::Drawn => 0,
        };
        let mut notes = Vec::new();
        if second > 0 {
            notes.push(format!(
                "{} of them a second cut at their flush, which keeps one of its writes where the first keeps none",
                units::count(second)
            ));
        }
        if elsewhere > 0 {
            let are = if elsewhere == 1 { "is" } else { "are" };
            notes.push(format!(
                "{} more {are} at one of the places before, such as the end",
                units::count(elsewhere)
            ));
        }
        let notes = match notes.is_empty() {
            true => String::new(),
            false => format!(" ({})", notes.join("; ")),
        };
        format!("{} {}{notes}", units::count(*tried), place.name())
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// States with findings of the check in a guest, or of all else.
fn found_by(outcome: &Outcome, the_check: bool) -> BTreeSet<u64> {
    let findings = outcome.findings.iter();
    let those = findings.filter(|finding| finding.kind.is_of_a_check() == the_check);
    those.map(|finding| finding.state).collect()
}

/// Number of power cuts that broke a promise, of those that a guest checked, and of those on which its check
/// passed.
fn lossy(outcome: &Outcome) -> [u64; 3] {
    let (lossy, failed) = (found_by(outcome, false), found_by(outcome, true));
    let checked = || outcome.inspected.iter().filter(|state| lossy.contains(state));
    let passed = checked().filter(|state| !failed.contains(state));
    [lossy.len(), checked().count(), passed.count()].map(|count| count as u64)
}

/// The power cuts of a test as marks: those that no guest checked, above them those that one checked
/// and found fine, and on top those with a finding.
fn cuts(all: &[(u64, u64)], outcome: &Outcome) -> Vec<Dot> {
    let inspected: BTreeSet<u64> = outcome.inspected.iter().copied().collect();
    let equal: BTreeMap<u64, u64> = outcome.equal.iter().copied().collect();
    let broken: BTreeSet<u64> = outcome.findings.iter().map(|finding| finding.state).collect();
    let mark = |&(state, at): &(u64, u64)| {
        let (name, colour) = match (broken.contains(&state), inspected.contains(&state)) {
            (true, _) => (WITH_FINDING, FOUND),
            (false, true) => (CHECKED, WELL),
            (false, false) if outcome.checked == 0 => (FINE, WELL),
            (false, false) => (NOT_CHECKED, UNCHECKED),
        };
        let about = match equal.get(&state).filter(|other| inspected.contains(other)) {
            Some(other) => format!(
                "state {state}, of which the check would read the same after the same lines as of state \
                 {other}, which a guest checked"
            ),
            None => format!("state {state}"),
        };
        Dot { name: name.to_owned(), colour, value: at as f64, interval: None, about }
    };
    let mut marks: Vec<Dot> = all.iter().map(mark).collect();
    let height = |dot: &Dot| [CHECKED, WITH_FINDING].iter().position(|name| dot.name == *name);
    marks.sort_by_key(height);
    marks
}

/// The anchor of the section of a cause.
fn anchor(group: &Group) -> String {
    format!("finding-{}", group.example)
}

/// Tables of the writes that a state lacks, and of the events around its cut.
fn around(section: Section, evidence: &Evidence, cut: u64) -> Section {
    let since = |at: u64| match at > cut {
        true => format!("+{}", units::duration((at - cut) as f64)),
        false if at == cut => "0".to_owned(),
        false => format!("−{}", units::duration((cut - at) as f64)),
    };
    let mut section = section;
    if let Some(promise) = &evidence.promise {
        let words = promise.words();
        section = section.with(Block::Prose(format!("The lost write was {words}.")));
    }
    for byte in evidence.bytes() {
        section = section.with(Block::Prose(format!("On the guest's disk, {byte}.")));
    }
    let mut lines = Table::new(vec![Column::right("from the cut"), Column::left("line")]);
    for line in &evidence.lines {
        lines.push(vec![since(line.at), line.text.clone()]);
    }
    let mut lost = Table::new(
        ["write", "why", "what lies there"]
            .map(Column::left)
            .into_iter()
            .chain(["at byte", "length", "submitted", "acknowledged", "left"].map(Column::right))
            .chain([Column::left("drive"), Column::right("number")])
            .collect(),
    );
    for loss in &evidence.losses {
        lost.push(vec![
            loss.operation.name().to_owned(),
            reason(loss.why).to_owned(),
            loss.held_by(),
            format!("{:#x}", loss.offset),
            units::bytes(loss.length),
            since(loss.submitted),
            loss.acknowledged.map_or("no".to_owned(), since),
            match loss.left {
                0 => "nothing".to_owned(),
                kept => format!("torn: {}", units::bytes(kept)),
            },
            loss.drive.clone(),
            units::count(loss.order),
        ]);
        if loss.named {
            lost.judge(0, Tone::Bad);
        }
    }
    let all = evidence.missing + evidence.torn;
    let shown = match evidence.losses.len() as u64 {
        shown if shown < all => format!("; {shown} of them"),
        _ => String::new(),
    };
    let caption = format!(
        "Writes of the trace that this state lacks: {}{shown}. Times from the cut.",
        evidence.counted()
    );
    let mut events = Table::new(vec![Column::right("from the cut"), Column::left("event")]);
    let mut is_cut = false;
    for event in &evidence.events {
        if !event.before && !is_cut {
            events.push(vec!["0".to_owned(), "power cut".to_owned()]);
            events.judge(1, Tone::Bad);
            is_cut = true;
        }
        events.push(vec![since(event.at), event.what.clone()]);
    }
    section = section.with(Block::Plots(vec![course(evidence, cut)]));
    section = section.with(Block::Table(caption, lost));
    if let Some(why) = &evidence.not_named {
        section = section.with(Block::Prose(format!("What lies there has no name: {why}.")));
    }
    if !evidence.lines.is_empty() {
        section =
            section.with(Block::Table("The last lines of output before the cut.".into(), lines));
    }
    section.with(Block::Table("Events around the cut.".to_owned(), events))
}

/// The requests and lines around a cut, over time.
fn course(evidence: &Evidence, cut: u64) -> Markup {
    let rows = [
        (SpanKind::Line, "lines of output", TRACE),
        (SpanKind::Order, "flushes", TRACE),
        (SpanKind::Below, "flushes at the drive below", TRACE),
        (SpanKind::Kept, "other changes", WELL),
        (SpanKind::Lost, "missing or torn", FOUND),
    ];
    let dots = |kind: SpanKind, colour: usize| {
        let of_kind = evidence.course.iter().filter(move |span| span.kind == kind);
        let dot = move |span: &Span| Dot {
            name: String::new(),
            colour,
            value: span.at.1 as f64,
            interval: Some([span.at.0 as f64, span.at.1 as f64]),
            about: span.description.clone(),
        };
        of_kind.map(dot).collect()
    };
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(kind, label, colour)| Row { label: label.to_owned(), dots: dots(kind, colour) })
        .filter(|row: &Row| !row.dots.is_empty())
        .collect();
    let (name, about) = (String::new(), String::new());
    let mark = Dot { name, colour: CUT, value: cut as f64, interval: None, about };
    rows.push(Row { label: "power cut".to_owned(), dots: vec![mark] });
    let axis = Axis::new("Virtual time around the cut", Scale::Linear, Quantity::Time);
    let title = "What was submitted, and when it ended".to_owned();
    Dots { title, axis, apart: false, rows }.draw()
}

/// A moment or length of the run (ns), as a page tells it.
pub(crate) fn moment(ns: u64) -> String {
    units::duration(ns as f64)
}

pub(crate) fn of_drive(drive: Option<&String>) -> String {
    drive.map_or("all drives".to_owned(), |name| format!("drive {name}"))
}

pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The finding of a check, of all that it said: its last line. Programs that it calls speak before it
/// does. A hint of ours stands in brackets behind.
pub(crate) fn conclusion(output: &str) -> &str {
    let lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines.clone().take_while(|line| !line.starts_with("(fsck's status"));
    match own.clone().count() {
        0 | 1 => {
            let first = first_line(output);
            first.split_once(": ").map_or(first, |(_, first)| first)
        }
        _ => own.last().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 610 flushes with cuts before and after: 203 have two before, and the last one's after is the end.
    #[test]
    fn cuts_by_their_places_add_up_to_the_flushes() {
        let count = |place, tried| PlaceCount { place, tried, asked: tried };
        let places = [
            count(Place::Line, 202),
            count(Place::BeforeFlush, 813),
            count(Place::AfterFlush, 609),
            count(Place::Drawn, 0),
        ];
        assert_eq!(
            by_place(&places, 203, 610),
            "202 at lines of output and at the end, 813 before flushes (203 of them a second cut at their flush, which \
             keeps one of its writes where the first keeps none), 609 after flushes (1 more is at one of the places \
             before, such as the end)"
        );
        let places = [count(Place::BeforeFlush, 2), count(Place::AfterFlush, 2)];
        assert_eq!(by_place(&places, 0, 2), "2 before flushes, 2 after flushes");
        let flushes = [(1, true), (2, false), (3, true)];
        assert_eq!(flushes.iter().fold((0, 0), count_cut), (3, 2));
    }

    #[test]
    fn cuts_are_marked_by_what_a_guest_found() {
        let finding = |state, kind| Finding {
            state,
            at: 10 * state,
            drive: None,
            kind,
            what: String::new(),
            repeats: None,
            write: None,
            bytes: Vec::new(),
            evidence: None,
        };
        let all: Vec<(u64, u64)> = (0..6).map(|state| (state, 10 * state)).collect();
        let marks = |outcome: &Outcome| {
            let named = |dot: Dot| (dot.name, dot.value as u64 / 10, dot.about);
            cuts(&all, outcome).into_iter().map(named).collect::<Vec<_>>()
        };
        let states = |marks: &[(String, u64, String)], name: &str| {
            let named = marks.iter().filter(|mark| mark.0 == name);
            named.map(|mark| mark.1).collect::<Vec<_>>()
        };
        // One is broken for the guest, one by the promises alone, and one is as another.
        let outcome = Outcome {
            checked: 3,
            inspected: vec![0, 3, 4],
            equal: vec![(5, 3)],
            findings: vec![finding(4, Kind::Check), finding(1, Kind::Lost)],
            ..Outcome::default()
        };
        assert_eq!(lossy(&outcome), [1, 0, 0]);
        let found = marks(&outcome);
        assert_eq!(states(&found, NOT_CHECKED), [2, 5]);
        assert_eq!(states(&found, CHECKED), [0, 3]);
        assert_eq!(states(&found, WITH_FINDING), [1, 4]);
        // Findings lie on top, and below them cuts that are fine.
        let order: Vec<_> = found.iter().map(|mark| mark.1).collect();
        assert_eq!(order, [2, 5, 0, 3, 1, 4]);
        assert!(found[1].2.ends_with("as of state 3, which a guest checked"), "{:?}", found[1]);
        // Without a check nobody asks which.
        let outcome = Outcome { findings: vec![finding(4, Kind::Order)], ..Outcome::default() };
        assert_eq!(states(&marks(&outcome), FINE), [0, 1, 2, 3, 5]);
        // A guest checked two of three with lost data, and passed one.
        let lost = [1, 2, 3].map(|state| finding(state, Kind::Lost));
        let findings = lost.into_iter().chain([finding(2, Kind::Check)]).collect();
        let outcome = Outcome { inspected: vec![0, 1, 2], findings, ..Outcome::default() };
        assert_eq!(lossy(&outcome), [3, 2, 1]);
    }

    #[test]
    fn a_check_concludes_with_its_last_line() {
        for (output, expected) in [
            (
                "the check's status is 2: pg_ctl: starting\n9 acknowledged, 0 left\n",
                "9 acknowledged, 0 left",
            ),
            ("the check's status is 1: /a is gone", "/a is gone"),
            ("the check's status is 4: dirty\n(fsck's status 4 with -n: replay)", "dirty"),
            ("", ""),
        ] {
            assert_eq!(conclusion(output), expected);
        }
    }
}
