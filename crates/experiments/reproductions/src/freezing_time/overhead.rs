//! Section 5.5, Fig. 11: time added by a slow medium if the emulated drive has no latency at all.

use anyhow::Result;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Boxes, Group, Quantity, Scale};
use stasis_report::published_vs_measured::Figure;

use super::fastest;
use super::published::PUBLISHED;
use super::setup::{count, fio_trial, label, on_ram, on_slow, MANY, READ_AND_WRITE};
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::published_data::figure;

/// The drive without latency in memory, by vCPUs: (vCPUs, in memory, on the slow disk).
pub const RUNS: [(u32, &str, &str); 2] =
    [(1, fastest::RUN, "overhead-1"), (MANY, "fastest-4", "overhead-4")];

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let jobs = (&READ_AND_WRITE[..], count(settings));
    let mut trials = Vec::new();
    for (vcpus, ram, slow) in RUNS {
        if vcpus > 1 {
            if settings.quick {
                continue;
            }
            let description = "5.5: a drive without latency, in memory, 4 vCPUs";
            trials.push(fio_trial(settings, (ram, description), vcpus, on_ram("null")?, jobs));
        }
        let description = label("5.5: a drive without latency on the slow disk", vcpus);
        trials.push(fio_trial(settings, (slow, &description), vcpus, on_slow("null")?, jobs));
    }
    Ok(trials)
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mut groups = Vec::new();
    let mut medians = Vec::new();
    for (vcpus, ram, slow) in RUNS {
        for name in ["read", "write"] {
            let (Some(ram), Some(slow)) = (runs.job(ram, name), runs.job(slow, name)) else {
                continue;
            };
            groups.extend(Group::of(format!("RAM: {}", label(name, vcpus)), 0, &ram.values()));
            groups.extend(Group::of(format!("slow: {}", label(name, vcpus)), 1, &slow.values()));
            let median = slow.percentile(50.0).zip(ram.percentile(50.0));
            medians.extend(median.map(|(slow, ram)| (slow - ram) / 1e3));
        }
    }
    let extreme = |pick: fn(f64, f64) -> f64| medians.iter().copied().reduce(pick);
    let wall = |id: &str| runs.get(id).map(|run| run.command_wall);
    let mut figures = vec![
        figure(
            "Fig. 11",
            "median overhead, largest",
            "us",
            PUBLISHED.overhead[1],
            extreme(f64::max),
        )
        .at_most(),
        figure(
            "Fig. 11",
            "median overhead, smallest",
            "us",
            PUBLISHED.overhead[0],
            extreme(f64::min),
        )
        .at_most(),
    ];
    for (vcpus, ram, slow) in RUNS {
        let more = wall(slow).zip(wall(ram)).map(|(slow, ram)| (slow - ram) / ram * 100.0);
        let title = label("wall-clock time above that in memory, no latency", vcpus);
        figures.push(figure("Section 5.5", title, "%", PUBLISHED.emulation_time, more).at_most());
    }
    let plot = Boxes {
        title: "Fig. 11: a drive without latency, in memory and on the slow disk".into(),
        axis: Axis::new("completion latency, fio", Scale::Linear, Quantity::Time),
        shade: String::new(),
        groups,
    };
    let section = Section::new("5.5 Overhead")
        .with(Block::Prose(
            "The same drive without latency, in memory and on an image that keeps each I/O waiting \
             for 5 ms of real time: what the guest sees should not differ. Figs. 9 and 10, which \
             show how single requests differ, are beside Fig. 8. The publication gives no figures \
             for wall-clock time by number of processors; its bound for all is 25 %."
                .into(),
        ))
        .with(Block::Plots(vec![plot.draw()]));
    Ok((section, figures))
}
