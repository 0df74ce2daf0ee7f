//! The part of `report.html` about a cluster: its machines as lanes.

use super::{Cluster, Machine};
use crate::page::{thinned, Block, Resolution, Section};
use crate::plot::{Arrow, Lane, Lanes, Mark, Strip};
use crate::run_page::Time;
use crate::summary::Summary;
use crate::table::{Column, Table};
use crate::units;

/// Messages, and lines of output, that are shown, and those in the coarsest resolution.
const MESSAGES: usize = 1500;
const MIN_MESSAGES: usize = 50;
const LINES: usize = 600;
const MIN_LINES: usize = 40;
/// Kinds of messages with a colour each, the most frequent.
const KINDS: usize = 4;

/// Series of the legend: marks of output and faults, then messages.
const OUTPUT: usize = 0;
const FAULTS: usize = 1;
const MESSAGES_FROM: usize = 2;

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
    let series_of =
        |kind: usize| kinds.iter().position(|(of, _)| *of == kind).unwrap_or(0).min(KINDS);
    let mut series = vec!["a line of output".to_owned(), "a fault".to_owned()];
    series.extend(kinds.iter().take(KINDS).map(|(_, (name, _))| format!("message, {name}")));
    if kinds.len() > KINDS {
        series.push("other messages".to_owned());
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
            let series = MESSAGES_FROM + series_of(message.kind);
            Some(Arrow { from, to, sent, arrived, series, text })
        })
        .filter(|arrow| arrow.sent >= 0.0)
        .collect();
    let lanes = cluster.machines.iter().enumerate();
    let lanes = lanes.map(|(number, machine)| lane(machine, number, summary, time)).collect();
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
            " An arrow is a message, from its first bit on the wire to its arrival: {} of {} are \
             shown, those of the boot left out.",
            units::count(figure.arrows.len() as u64),
            units::count(count)
        ),
    };
    let text = format!(
        "Each machine has a lane. The darker its upper strip, the more its processors ran; the bars \
         below are I/Os of its drives. Draw a box to look at a part, click on an entry to hide \
         it.{of_messages}"
    );
    Section::new("The cluster over time")
        .with(Block::Prose(text))
        .with(Block::Plots(vec![figure.draw()]))
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
    let marks = machine.lines.kept().map(line).chain(machine.faults.iter().map(fault));
    Lane {
        name: machine.name.clone(),
        load,
        bars: ios,
        marks: marks.filter(|mark| mark.at >= 0.0).collect(),
    }
}

fn written(cluster: &Cluster, time: &Time, resolution: Resolution) -> Section {
    let all = cluster.machines.iter().flat_map(|machine| {
        machine.lines.kept().map(move |line| (line.at, machine.name.as_str(), line))
    });
    let mut all: Vec<_> = all.collect();
    // Of one machine they are in their order.
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
    let caption = format!(
        "{} of {} lines, of each machine the first and the last. Times are those since the \
         commands' start.",
        units::count(shown.len() as u64),
        units::count(count)
    );
    Section::new("What the machines wrote").with(Block::Table(caption, table))
}
