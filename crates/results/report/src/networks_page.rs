//! The part of `report.html` about networks.

use stasis_run_events::{LinkOutcome, NetworkOutcome};

use crate::page::{Block, Section};
use crate::table::{Column, Table};
use stasis_results::summary::Summary;
use stasis_results::units;

/// A section for each network of a run.
pub(crate) fn sections(summary: &Summary) -> Vec<Section> {
    let networks = summary.extra.get("networks").cloned();
    let networks: Vec<NetworkOutcome> =
        networks.and_then(|all| serde_json::from_value(all).ok()).unwrap_or_default();
    networks.iter().map(|network| section(network, summary.virtual_seconds)).collect()
}

fn section(network: &NetworkOutcome, seconds: f64) -> Section {
    let mut caption =
        "Each direction of each link over which frames were sent, boot included. Time is from a \
                       frame's first bit on the wire to its arrival."
            .to_owned();
    if network.links.iter().any(|link| link.no_buffer > 0) {
        caption.push_str(
            " No buffer: the machine's driver had none for the frame, as where it is off.",
        );
    }
    let table = links(&network.links, seconds);
    Section::new(format!("Network {}", network.name)).with(Block::Table(caption, table))
}

/// A name, and the figure of a link.
type Figure = (&'static str, fn(&LinkOutcome) -> u64);

/// Frames that something has happened to, shown where it has.
const EVENTS: [Figure; 8] = [
    ("lost", |link| link.lost),
    ("queue full", |link| link.queue_full),
    ("dropped early", |link| link.dropped_early),
    ("marked", |link| link.marked),
    ("no buffer", |link| link.no_buffer),
    ("duplicated", |link| link.duplicated),
    ("reordered", |link| link.reordered),
    ("corrupted", |link| link.corrupted),
];

fn links(links: &[LinkOutcome], seconds: f64) -> Table {
    let happened: Vec<&Figure> =
        EVENTS.iter().filter(|(_, count)| links.iter().any(|link| count(link) > 0)).collect();
    let mut columns = vec![Column::left("from"), Column::left("to")];
    columns.extend(["frames", "MB", "MB/s", "shortest", "mean", "longest"].map(Column::right));
    columns.extend(happened.iter().map(|(name, _)| Column::right(*name)));
    let mut table = Table::new(columns);
    for link in links {
        let megabytes = link.bytes as f64 / 1e6;
        let rate =
            if seconds > 0.0 { units::significant(megabytes / seconds, 3) } else { "–".into() };
        let time =
            |ns: u64| if link.arrived == 0 { "–".into() } else { units::duration(ns as f64) };
        let mut row = vec![
            link.from.clone(),
            link.to.clone(),
            units::count(link.frames),
            units::significant(megabytes, 3),
            rate,
            time(link.shortest_ns),
            time(link.mean_ns),
            time(link.longest_ns),
        ];
        row.extend(happened.iter().map(|(_, count)| units::count(count(link))));
        table.push(row);
    }
    table
}
