//! The time of the host's commands at a drive, on average, as a plot.

use std::collections::BTreeMap;

use stasis_block::inside::{LatencyMeans, Parts};

use crate::plot::{Axis, Bar, Bars, Markup, Quantity, Scale, Segment};

/// Named values, one beside the other.
pub(crate) fn bar(label: &str, parts: &[(&str, f64)]) -> Bar {
    let segment = |(colour, &(name, value)): (usize, &(&str, f64))| Segment {
        name: name.to_owned(),
        colour,
        value,
    };
    Bar { label: label.to_owned(), segments: parts.iter().enumerate().map(segment).collect() }
}

/// The parts of the host's commands' time at a drive, on average.
pub(crate) fn latency(latency: &BTreeMap<String, LatencyMeans>) -> Markup {
    let is_something =
        |place: &usize| latency.values().any(|means| means.parts.named()[*place].1 > 0.0);
    // The same parts in each bar, so that each has its colour.
    let places: Vec<usize> =
        (0..Parts::<f64>::default().named().len()).filter(is_something).collect();
    let bars = latency.iter().map(|(operation, means)| {
        let parts: Vec<_> = places.iter().map(|&place| means.parts.named()[place]).collect();
        bar(operation, &parts)
    });
    Bars {
        title: "Where the time of the host's commands went".to_owned(),
        axis: Axis::new("Mean latency", Scale::Linear, Quantity::Time),
        stacked: true,
        bars: bars.collect(),
    }
    .draw()
}
