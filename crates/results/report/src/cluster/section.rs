//! The part of `report.html` about a cluster: its machines as lanes.

use super::{Cluster, Machine};
use crate::page::{thinned, Block, Resolution, Section};
use crate::plot::{Arrow, Lane, Lanes, Mark, Stretch, Strip};
use crate::run_page::Time;
use crate::table::{Column, Table};
use stasis_results::history::{History, Operation, Outcome};
use stasis_results::summary::Summary;
use stasis_results::units;

/// Messages, and lines of output, that are shown, and those in the coarsest resolution.
const MESSAGES: usize = 1500;
const MIN_MESSAGES: usize = 50;
const LINES: usize = 600;
const MIN_LINES: usize = 40;
/// Kinds of messages with a colour each, the most frequent.
const KINDS: usize = 4;

/// Operations of a machine's clients that are shown, and those in the coarsest resolution.
const OPERATIONS: usize = 1200;
const MIN_OPERATIONS: usize = 60;

/// Series of the legend: marks of output and faults, operations by their outcome, then messages.
const OUTPUT: usize = 0;
const FAULTS: usize = 1;
const OPERATIONS_FROM: usize = 2;
/// Colours of marks of output and of faults, of operations by outcome, and of messages.
const MARKS: [usize; 2] = [4, 1];
const OUTCOMES: [usize; Outcome::ALL.len()] = [2, 3, 5];
const MESSAGE_COLOURS: [usize; KINDS + 1] = [0, 3, 5, 2, 4];
/// Kinds of messages with a colour each where operations have theirs.
const KINDS_BESIDE: usize = 1;

/// The sections of a run of several machines; none for any other.
pub(crate) fn sections(
    cluster: Option<&Cluster>,
    summary: &Summary,
    time: &Time,
    resolution: Resolution,
) -> Vec<Section> {
    let Some(cluster) = cluster.filter(|cluster| cluster.machines.len() > 1) else {
        return Vec::new();
    };
    let mut sections = vec![lanes(cluster, summary, time, resolution)];
    if cluster.machines.iter().any(|machine| machine.lines.count > 0) {
        sections.push(written(cluster, time, resolution).folded());
    }
    sections
}

fn lanes(cluster: &Cluster, summary: &Summary, time: &Time, resolution: Resolution) -> Section {
    let mut kinds: Vec<(usize, &(String, u64))> =
        cluster.messages.kinds().iter().enumerate().collect();
    kinds.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
    let mut series =
        vec![("a line of output".to_owned(), MARKS[OUTPUT]), ("a fault".to_owned(), MARKS[FAULTS])];
    let history = cluster.history.as_ref().filter(|history| !history.operations().is_empty());
    if history.is_some() {
        let outcomes = Outcome::ALL.into_iter().zip(OUTCOMES);
        let named = outcomes.map(|(one, colour)| (format!("operation, {}", one.name()), colour));
        series.extend(named);
    }
    let messages_from = series.len();
    let own = if history.is_some() { KINDS_BESIDE } else { KINDS };
    let series_of =
        |kind: usize| kinds.iter().position(|(place, _)| *place == kind).unwrap_or(0).min(own);
    let coloured = kinds.iter().take(own).zip(MESSAGE_COLOURS);
    series.extend(coloured.map(|((_, (name, _)), colour)| (format!("message, {name}"), colour)));
    if kinds.len() > own {
        series.push(("other messages".to_owned(), MESSAGE_COLOURS[KINDS]));
    }
    let machine_at = |network: u16, port: u16| {
        cluster.ports.get(usize::from(network))?.get(usize::from(port)).copied().flatten()
    };
    let shown = thinned(cluster.messages.kept(), resolution.of(MESSAGES, MIN_MESSAGES));
    let arrows: Vec<Arrow> = shown
        .iter()
        .filter_map(|message| {
            let from = machine_at(message.network, message.from)?;
            let to = machine_at(message.network, message.to)?;
            let [sent, arrived] = [message.sent, message.arrived].map(|at| time.since(at as f64));
            let text = format!(
                "{} to {}, {}, {} bytes: sent at {}, there after {}",
                cluster.machines[from].name,
                cluster.machines[to].name,
                cluster.messages.kinds()[message.kind].0,
                message.length,
                units::duration(sent),
                units::duration(arrived - sent)
            );
            let series = messages_from + series_of(message.kind);
            Some(Arrow { from, to, sent, arrived, series, text })
        })
        .filter(|arrow| arrow.sent >= 0.0)
        .collect();
    let lanes = cluster.machines.iter().enumerate();
    let most = resolution.of(OPERATIONS, MIN_OPERATIONS);
    let with_work = |(number, machine): (usize, &Machine)| {
        let mut lane = lane(machine, number, summary, time);
        lane.work = history.map(|all| work(all, number, time, most)).unwrap_or_default();
        lane
    };
    let lanes = lanes.map(with_work).collect();
    let figure = Lanes {
        title: "What each machine did when".to_owned(),
        x: time.whole(),
        series,
        lanes,
        arrows,
    };
    let count = cluster.messages.count();
    let of_messages = match (count, cluster.ports.is_empty()) {
        (0, true) => String::new(),
        (0, false) => " No message is shown: frames were not kept, or none arrived.".to_owned(),
        _ => format!(
            " An arrow is a message that arrived, from its first bit on the wire to its arrival: {} of {} are \
             shown, those of the boot left out.",
            units::count(figure.arrows.len() as u64),
            units::count(count)
        ),
    };
    let of_operations = match history {
        Some(_) => {
            " A thin bar is an operation of a client there, from its beginning to its end. Where there are \
             many, all that were not done are shown, and a sample of the others."
        }
        None => "",
    };
    let text = format!(
        "Each machine has a lane. The darker its upper strip, the more its processors ran; the bars \
         below are I/Os of its drives, without those of its first \
         boot; those of a boot after a fault count. A pale band is a fault of the machine, or its boot after one. Draw a box to \
         look at a part, click on an entry to hide it.{of_operations}{of_messages}"
    );
    Section::new("The cluster over time")
        .with(Block::Prose(text))
        .with(Block::Plots(vec![figure.draw()]))
}

/// The operations of a machine's clients: all that were not done, and others between them, which
/// lie below.
fn work(history: &History, machine: usize, time: &Time, most: usize) -> Vec<Stretch> {
    let own = history.operations().iter().filter(|one| one.machine == machine);
    let (done, others): (Vec<_>, Vec<_>) = own.partition(|one| one.outcome == Outcome::Ok);
    let kinds = history.kinds();
    let stretch = |one: &&Operation| {
        let from = time.since(one.invoked as f64);
        let to = one.ended.map_or(time.end(), |at| time.since(at as f64));
        let (kind, outcome) = (kinds.get(one.kind).map_or("", String::as_str), one.outcome);
        let length = match one.ended {
            Some(_) => format!("after {}", units::duration(to - from)),
            None => "without an end".to_owned(),
        };
        let text = format!("{kind} at {}: {} {length}", units::duration(from), outcome.name());
        let series =
            OPERATIONS_FROM + Outcome::ALL.iter().position(|all| *all == outcome).unwrap_or(0);
        Stretch { from, to, series, text }
    };
    let others = thinned(&others, most);
    let done = thinned(&done, most.saturating_sub(others.len()).max(most / 4));
    done.iter().chain(&others).map(stretch).collect()
}

fn lane(machine: &Machine, number: usize, summary: &Summary, time: &Time) -> Lane {
    let own: Vec<_> = summary
        .processors
        .iter()
        .filter(|processor| usize::from(processor.machine) == number)
        .collect();
    let steps = own.iter().map(|processor| processor.shares.len()).max().unwrap_or(0);
    let mean = |step: usize| {
        let all = own.iter().filter_map(|processor| processor.shares.get(step));
        all.sum::<f64>() / own.len() as f64
    };
    let load = Strip {
        origin: 0.0,
        width: own.first().map_or(1.0, |processor| processor.step_seconds * 1e9),
        values: (0..steps).map(mean).collect(),
    };
    let counts = machine.ios.counts.iter().map(|count| *count as f64).collect();
    let (origin, width) = (time.since(0.0), machine.ios.step as f64);
    let ios = Strip { origin, width, values: counts };
    let line = |line: &super::lines::Line| Mark {
        at: time.since(line.at as f64),
        series: OUTPUT,
        text: format!("{}: {}", units::duration(time.since(line.at as f64)), line.text),
    };
    let fault = |(at, name): &(u64, String)| Mark {
        at: time.since(*at as f64),
        series: FAULTS,
        text: format!("{name} at {}", units::duration(time.since(*at as f64))),
    };
    let moments = machine.spans.iter().filter(|(from, to, _)| from == to);
    let moments: Vec<_> = moments.map(|(at, _, name)| (*at, name.clone())).collect();
    let faults = machine.faults.iter().chain(&moments).map(fault);
    let marks = machine.lines.kept().map(line).chain(faults);
    let band = |(from, to, name): &(u64, u64, String)| {
        let [from, to] = [from, to].map(|at| time.since(*at as f64));
        let ends = [from, to].map(units::duration);
        let text =
            format!("{name} from {} to {}: {}", ends[0], ends[1], units::duration(to - from));
        Stretch { from, to, series: FAULTS, text }
    };
    Lane {
        name: machine.name.clone(),
        load,
        bars: ios,
        marks: marks.filter(|mark| mark.at >= 0.0).collect(),
        bands: machine.spans.iter().filter(|(from, to, _)| from < to).map(band).collect(),
        work: Vec::new(),
    }
}

fn written(cluster: &Cluster, time: &Time, resolution: Resolution) -> Section {
    let all = cluster.machines.iter().flat_map(|machine| {
        machine.lines.kept().map(move |line| (line.at, machine.name.as_str(), line))
    });
    let mut all: Vec<_> = all.collect();
    // Moments of one machine are in their order.
    all.sort_by_key(|(at, ..)| *at);
    let shown = thinned(&all, resolution.of(LINES, MIN_LINES));
    let columns = [Column::right("time"), Column::left("machine"), Column::left("line")];
    let mut table = Table::new(columns.into());
    for (at, machine, line) in &shown {
        let since = time.since(*at as f64);
        let at = if since < 0.0 { "boot".to_owned() } else { units::duration(since) };
        table.push(vec![at, (*machine).to_owned(), line.text.clone()]);
    }
    let count = cluster.machines.iter().map(|machine| machine.lines.count).sum::<u64>();
    let shown = match shown.len() as u64 {
        1 if count == 1 => "The one line".to_owned(),
        shown if shown == count => format!("All {} lines", units::count(count)),
        shown => format!(
            "{} of {} lines, the first and the last of each machine",
            units::count(shown),
            units::count(count)
        ),
    };
    let caption = format!("{shown}. Times are since the commands' start.");
    Section::new("What the machines wrote").with(Block::Table(caption, table))
}
