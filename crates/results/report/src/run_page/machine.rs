//! The cost of a run, and the activity of its processors.

use super::kind::Time;
use crate::page::{Block, Resolution, Section};
use crate::plot::{Axis, Bar, Bars, Heat, Quantity, Scale, Segment};
use stasis_results::summary::{ProcessorSummary, Summary};
use stasis_results::units;

/// The machine's part of a run's further figures.
pub(super) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let ios = summary.ios();
    let each = summary.exits as f64 / ios.max(1) as f64;
    let per_io = (ios > 0).then(|| ("Exits per I/O", units::significant(each, 3)));
    let late = [summary.overshoot_ns.p99, summary.overshoot_ns.max];
    let [p99, max] = late.map(|ns| units::duration(ns as f64));
    let boot = units::duration(summary.boot_virtual_seconds * 1e9);
    let facts = [("Boot, virtual", boot), ("Exits", units::count(summary.exits))];
    let late = ("Late ends of slices, p99 / max", format!("{p99} / {max}"));
    facts.into_iter().chain(per_io).chain([late]).collect()
}

/// The activity of several processors over virtual time.
pub(super) fn processors(
    summary: &Summary,
    time: &Time,
    resolution: Resolution,
) -> Option<Section> {
    if summary.processors.len() < 2 {
        return None;
    }
    let step = summary.processors[0].step_seconds * 1e9;
    let busy = Heat {
        title: "Share of time for which each processor ran".to_owned(),
        row: "vCPU".to_owned(),
        x: time.whole(),
        width: step,
        origin: 0.0,
        values: summary.processors.iter().map(|processor| processor.shares.clone()).collect(),
    };
    let call = summary.processor_call_ns;
    let sum = |part: fn(&ProcessorSummary) -> f64| summary.processors.iter().map(part).sum::<f64>();
    let text = format!(
        "{} processors ran for {} of virtual time together, in {} slices, and were idle for {}. They were \
         frozen together for {} of wall-clock, which is no virtual time. Interrupts between them \
         took {} in the median and {} at p99. Each ran ahead of the others by {} at most: a program may see up to that much \
         later what another processor of its machine has written to memory. Times of I/Os have no such error: \
         I/Os are in the order of virtual time, whichever processor ran first. A slice is a stretch between two exits \
         from guest mode.",
        summary.processors.len(),
        units::duration(sum(|processor| processor.running_seconds) * 1e9),
        units::count(summary.slices),
        units::duration(sum(|processor| processor.idle_seconds) * 1e9),
        units::duration(summary.frozen_seconds * 1e9),
        units::duration(call.p50 as f64),
        units::duration(call.p99 as f64),
        units::duration(summary.clock_skew_max_ns as f64),
    );
    let section = Section::new("Processors").with(Block::Prose(text));
    Some(section.with(Block::Plots(vec![busy.draw_in(resolution)])))
}

/// Returns the costs: time, and the reasons for which the guest was left.
pub(super) fn costs(summary: &Summary) -> Section {
    let bar = |label: &str, parts: &[(&str, usize, f64)]| Bar {
        label: label.to_owned(),
        segments: parts
            .iter()
            .map(|&(name, colour, seconds)| Segment {
                name: name.to_owned(),
                colour,
                value: seconds * 1e9,
            })
            .collect(),
    };
    let (skipped, frozen) = (summary.skipped_seconds, summary.frozen_seconds);
    let time = Bars {
        title: "Time".to_owned(),
        axis: Axis::new("Time of the command", Scale::Linear, Quantity::Time),
        stacked: true,
        bars: vec![
            bar(
                "virtual",
                &[
                    ("guest ran", 0, (summary.virtual_seconds - skipped).max(0.0)),
                    ("skipped: guest idle", 2, skipped),
                ],
            ),
            bar(
                "wall-clock",
                &[
                    ("working", 4, (summary.wall_seconds - frozen).max(0.0)),
                    ("frozen: waiting for a medium", 1, frozen),
                ],
            ),
        ],
    };
    let (exits, ios) = (&summary.exits_by_reason, summary.ios());
    let reasons = [
        ("port I/O", exits.io),
        ("memory-mapped I/O", exits.mmio),
        ("of these, doorbells", exits.doorbell),
        ("registers (MSR)", exits.msr),
        ("halt", exits.halt),
        ("interrupt window", exits.interrupt_window),
        ("end of slice", exits.kick),
        ("other", exits.other),
    ];
    let exits = Bars {
        title: "Exits from guest mode by reason".to_owned(),
        axis: Axis::new("Exits", Scale::Linear, Quantity::Number("")),
        stacked: false,
        bars: reasons
            .into_iter()
            .map(|(label, count)| {
                let segment = Segment { name: String::new(), colour: 0, value: count as f64 };
                let label = match ios {
                    0 => label.to_owned(),
                    _ => format!("{label}, {:.2} for each I/O", count as f64 / ios as f64),
                };
                Bar { label, segments: vec![segment] }
            })
            .collect(),
    };
    Section::new("What the run cost").with(Block::Plots(vec![time.draw(), exits.draw()]))
}
