//! `stasis run --power-cut`: one run, a power cut at some instant, and the state after it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{bail, Result};
use stasis_block::clock::Nanos;
use stasis_block::units::{format_duration, parse_duration};
use stasis_block::Operation;
use stasis_crash::{Cut, CutPoint, EventKind, StateSampler, Trace};
use stasis_drive::Sampling;
use stasis_experiment::Experiment;
use stasis_results::units::rounded;
use stasis_results::{Ios, ResultsFolder};
use stasis_runner::{input, state_file, Event, Observer, Results, Runner, TraceOptions};

use crate::check::{CheckSetup, GuestCheck};
use crate::disks::after_cut;
use crate::made;
use crate::session::{Finding, Outcome, Session, StateChecks};

/// Instant of a power cut, counted from the start of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At a virtual time (ns).
    At(Nanos),
    /// After this number of I/Os of the guest has ended: writes, flushes and the like.
    Io(u64),
    /// At a random instant.
    Random,
    /// At each flush that ends between two times (ns), one cut after the other.
    Flushes(Nanos, Nanos),
}

impl FromStr for When {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let forms = "must be a time such as 1.5s, io:1000, random, or flushes:1s..2s";
        let time = |word: &str| {
            parse_duration(word).map_err(|error| format!("`{word}`: {error}; WHEN {forms}"))
        };
        if word == "random" {
            return Ok(Self::Random);
        }
        match word.split_once(':') {
            Some(("io", count)) => match count.parse() {
                Ok(0) | Err(_) => Err(format!("`{count}` is no number of I/Os; WHEN {forms}")),
                Ok(count) => Ok(Self::Io(count)),
            },
            Some(("flushes", range)) => {
                let (from, to) = range.split_once("..").ok_or(forms)?;
                let (from, to) = (time(from)?, time(to)?);
                if from > to {
                    return Err(format!("{range} ends before it begins; WHEN {forms}"));
                }
                Ok(Self::Flushes(from, to))
            }
            Some(_) => Err(format!("WHEN {forms}")),
            None => Ok(Self::At(time(word)?)),
        }
    }
}

impl When {
    /// Virtual time of the command (ns) after which the run need not continue.
    pub fn limit(self) -> Option<Nanos> {
        match self {
            Self::At(at) | Self::Flushes(_, at) => Some(at),
            Self::Io(_) | Self::Random => None,
        }
    }

    /// The instants of a trace.
    fn points(self, trace: &Trace, seed: u64) -> Result<Vec<CutPoint>> {
        let (first, last) = trace.span();
        let began = trace.command.0;
        let flushes = |from: Nanos, to: Nanos| {
            let mut ends: Vec<CutPoint> = Vec::new();
            for drive in &trace.drives {
                for request in &drive.guest.requests {
                    let Some((at, event, _)) = request.end else { continue };
                    let flush = request.command.operation == Operation::Flush;
                    if flush && (began + from..=began.saturating_add(to)).contains(&at) {
                        ends.push(event + 1);
                    }
                }
            }
            ends.sort_unstable();
            ends
        };
        Ok(match self {
            Self::At(at) => vec![trace.point_at(began.saturating_add(at)).clamp(first, last)],
            // Any instant.
            Self::Random => {
                vec![StateSampler::new(trace, seed, (first, last)).drawn(trace, 2).point]
            }
            Self::Io(count) => {
                let ended = |kind: &EventKind| {
                    matches!(kind, EventKind::Completion(_, stasis_crash::Level::Guest, _))
                };
                let mut ends = (first..last).filter(|p| ended(&trace.events[*p as usize].kind));
                match ends.nth(usize::try_from(count - 1).unwrap_or(usize::MAX)) {
                    Some(point) => vec![point + 1],
                    None => bail!(
                        "--power-cut io:{count}: the command has ended {} I/Os that change or \
                         order something, no more",
                        (first..last).filter(|p| ended(&trace.events[*p as usize].kind)).count()
                    ),
                }
            }
            Self::Flushes(from, to) => match flushes(from, to) {
                ends if ends.is_empty() => bail!("--power-cut: no flush ended in that time"),
                ends => ends,
            },
        })
    }
}

/// Runs `experiment`, cuts the power, and inspects the state after the cut. `inputs` and `given`:
/// see [`Runner::reading`] and [`Runner::given`].
pub fn run(
    experiment: &Experiment,
    base: &Path,
    (inputs, given): (Vec<PathBuf>, Option<PathBuf>),
    stop: &Arc<AtomicBool>,
    ios: Ios,
    when: When,
    observer: &mut dyn Observer,
) -> Result<Results> {
    let machines = experiment.machine.several().len();
    if machines > 0 {
        bail!("{}", crate::of_one_machine("--power-cut", machines));
    }
    if experiment.drives.is_empty() {
        bail!("--power-cut: the experiment has no drive");
    }
    let mut experiment = experiment.clone();
    // The guest is stopped dead there.
    if let Some(at) = when.limit() {
        let limit = experiment.virtual_limit.map_or(at, |limit| limit.min(at));
        experiment.virtual_limit = Some(limit.max(1));
    }
    let folder = experiment.results.clone().unwrap_or_else(|| "results".into());
    let tracing = TraceOptions { folder: folder.clone(), fault: None };
    let runner = Runner::new(&experiment).base(base).stop(stop).ios(ios).trace(&tracing);
    let mut done = runner.reading(inputs).given(given).run(observer)?;
    // Stopped, or never begun.
    let never = (125..=127).contains(&done.status) || !done.are_written;
    if never || stop.load(Ordering::Relaxed) {
        return Ok(done);
    }
    let mut session = Session::open(&tracing.file(), experiment.strict)?;
    let cuts: Vec<Cut> = when
        .points(&session.trace, experiment.seed)?
        .into_iter()
        .enumerate()
        .map(|(index, point)| {
            let number = index as u64;
            Cut { number, point, sampling: Sampling::Random(experiment.seed ^ number << 32) }
        })
        .collect();
    let mut check = match &experiment.check {
        Some(command) => {
            let files = input::Input::pack(&experiment, base)?.of(0);
            let guest = made(&experiment, stop, observer)?;
            let limit = experiment.check_limit();
            let setup = CheckSetup { guest, command, files: &files, limit, stop };
            let check = GuestCheck::new(&setup, &session.trace)?;
            if let Some(names) = check.other_names() {
                observer.event(Event::Warning(&names))?;
            }
            Some(check)
        }
        None => None,
    };
    let mut results = ResultsFolder::join(&folder)?;
    for drive in &session.trace.header.drives {
        let image = after_cut(drive);
        results.file(&image)?;
        if drive.device.zones.is_some() {
            results.file(&state_file(&image))?;
        }
    }
    let mut checks = StateChecks {
        check: check.as_mut().map(|check| check as &mut dyn stasis_crash::Check),
        keep: Some(&folder),
        ..StateChecks::default()
    };
    let mut outcome = Outcome::default();
    let going = |_: &Outcome| !stop.load(Ordering::Relaxed);
    let ended = session.explore(&cuts, &mut checks, &mut outcome, going);
    // A check that is stopped on its way ends with an error.
    if stop.load(Ordering::Relaxed) {
        done.message = Some(format!("stopped after {} of {} power cuts", outcome.cuts, cuts.len()));
        done.status = 130;
        return Ok(done);
    }
    ended?;
    done.message = Some(describe(&session, when, &cuts, &outcome, &folder));
    done.status = u8::from(!outcome.findings.is_empty());
    Ok(done)
}

fn describe(
    session: &Session,
    when: When,
    cuts: &[Cut],
    outcome: &Outcome,
    folder: &Path,
) -> String {
    let trace = &session.trace;
    let since = |at: Nanos| rounded(at.saturating_sub(trace.command.0));
    let ended = trace.command.1;
    let mut text = match (when, cuts) {
        (When::At(at), [_]) if at > ended.saturating_sub(trace.command.0) => format!(
            "the power was cut at {}, where the command had ended: {} is later",
            since(ended),
            format_duration(at)
        ),
        (_, [one]) => format!("the power was cut at {}", since(trace.time(one.point))),
        _ => format!("the power was cut at {} flushes", cuts.len()),
    };
    if outcome.checked > 0 {
        text += &format!("; {} of {} states repaired", outcome.repaired, outcome.checked);
    }
    if outcome.findings.is_empty() {
        text += "; nothing is wrong with what is left";
    }
    for Finding { at, drive, what: description, .. } in &outcome.findings {
        let drive = drive.as_ref().map_or(String::new(), |name| format!("drive {name}: "));
        text += &format!("\n  cut at {}: {drive}{description}", since(*at));
    }
    for why in &outcome.not_kept {
        text += &format!("\n  a run on this disk cannot go on where its zones end: {why}");
    }
    text + &format!(
        "\n  the disks after the last cut are {}/*.after-cut.*; media of the experiment are as they \
         were",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read() {
        let when = |word: &str| word.parse::<When>();
        assert_eq!(when("1.5s"), Ok(When::At(1_500_000_000)));
        assert_eq!(when("io:1000"), Ok(When::Io(1000)));
        assert_eq!(when("random"), Ok(When::Random));
        assert_eq!(when("flushes:1ms..2s"), Ok(When::Flushes(1_000_000, 2_000_000_000)));
        for wrong in ["", "io:", "io:0", "flushes:1s", "flushes:2s..1s", "soon", "at:1s"] {
            assert!(when(wrong).unwrap_err().contains("flushes:1s..2s"), "{wrong}");
        }
    }
}
