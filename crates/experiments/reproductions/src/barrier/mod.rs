//! Kim, Oh, Won, "Barrier enabled QEMU" (ICISS 2019): its section 5, for one
//! virtual machine.
//!
//! One guest for each of the three configurations, with a drive for each workload and some that are
//! only prepared: the counts of these are subtracted, so that flushes are those of the workload.

pub mod load;
mod published;
mod results;
mod workloads;

use anyhow::{Context, Result};
use stasis_experiment::{DriveSpec, Experiment, Interface, MachineSpec};
use stasis_media::{Durability, ImageSettings, MediumSpec};
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Bar, Bars, Quantity, Scale, Segment};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};

use crate::bench::{Runs, Trial};
use crate::experiments::{self, Evaluation, Settings, Trials};
use crate::publication::{Extra, Publication};
use crate::published_data::figure;
use crate::reproduction::{Findings, Reproduction};
use published::PUBLISHED;
use results::Measured;
use workloads::{drives, script, Sizes, WORKLOADS};

/// The drive of the publication's host.
const MODEL: &str = "850-pro";

/// A configuration: the run's name, its title, and the meaning of the guest's flush.
const CONFIGURATIONS: [(&str, &str, Durability); 3] = [
    ("flush", "QEMU: flush", Durability::Flush),
    ("barrier", "QEMU-HostB: barrier", Durability::Barrier),
    ("ordered", "QEMU-AllB: ordered", Durability::Ordered),
];

/// Kim et al.: "Barrier enabled QEMU", 2019
pub struct Barrier;

impl Publication for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn takes(&self) -> &'static [Extra] {
        &[Extra::Full, Extra::Jobs]
    }

    fn trials(&self) -> Option<Trials> {
        Some(trials)
    }

    fn measure(&self, request: &Reproduction) -> Result<Findings> {
        experiments::run(request, trials, findings)
    }
}

/// The runs, one for each configuration.
fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let sizes = Sizes::of(settings);
    CONFIGURATIONS
        .into_iter()
        .map(|(id, name, durability)| {
            let drives = drives().into_iter().map(|drive| {
                let mut spec =
                    DriveSpec::parse(&format!("name={drive},model={MODEL},medium=ram:1MiB"))?;
                let path = format!("{drive}.qcow2").into();
                let settings = ImageSettings { durability, ..ImageSettings::default() };
                spec.medium = MediumSpec::Qcow2 { path, settings };
                spec.interface = Interface::VirtioBlk;
                anyhow::Ok(spec)
            });
            let experiment = Experiment {
                engine: settings.engine,
                command: ["sh", "-e", "-c", &script(&sizes)].map(str::to_owned).to_vec(),
                machine: MachineSpec { memory: sizes.memory, ..MachineSpec::default() }.into(),
                drives: drives.collect::<Result<_>>()?,
                ..Experiment::default()
            };
            let description = format!("section 5: {name}, five workloads on ext4");
            Ok(Trial { id, description, experiment, disk_size: Some(sizes.disk), timed: None })
        })
        .collect()
}

/// Evaluates the runs.
fn findings(settings: &Settings, runs: &Runs) -> Result<Evaluation> {
    let sizes = Sizes::of(settings);
    let mut all = Vec::new();
    for (id, name, _) in CONFIGURATIONS {
        let Some(run) = runs.get(id) else {
            all.push(None);
            continue;
        };
        let measured: Result<Vec<_>> =
            WORKLOADS.iter().map(|workload| Measured::read(run, workload)).collect();
        all.push(Some(measured.with_context(|| format!("the results of {name}"))?));
    }
    let get = |configuration: usize, workload: usize| {
        all[configuration].as_ref().map(|measured: &Vec<Measured>| &measured[workload])
    };
    let parts = [throughput(&get), flushes(&get, &sizes), shares(&get), losses(&get)];
    let mut findings = Evaluation {
        title: "Barrier enabled QEMU",
        sections: Vec::new(),
        figures: Vec::new(),
        failed: Vec::new(),
    };
    for (section, figures) in parts {
        findings.sections.push(if figures.is_empty() {
            section
        } else {
            section.with(Block::Figures(figures.clone()))
        });
        findings.figures.extend(figures);
    }
    Ok(findings)
}

/// By configuration and workload.
type Get<'a> = dyn Fn(usize, usize) -> Option<&'a Measured> + 'a;

/// Figs. 3 to 5.
fn throughput(get: &Get) -> (Section, Vec<Figure>) {
    let mut figures = Vec::new();
    let mut bars = Vec::new();
    for (index, workload) in WORKLOADS.iter().enumerate() {
        let rate = |configuration| get(configuration, index).map(Measured::rate);
        let times = |configuration| Some(rate(configuration)? / rate(0)?);
        let title = workload.title;
        let published = PUBLISHED.throughput.get(workload.name);
        let ordered = format!("{title}: ordered against flush");
        figures.push(figure(
            "Figs. 3-5",
            ordered,
            "times",
            published.map(|published| published.all_b_times),
            times(2),
        ));
        let barrier = format!("{title}: barrier against flush");
        let more = times(1).map(|times| (times - 1.0) * 100.0);
        figures.push(figure(
            "Figs. 3-5",
            barrier,
            "% more",
            published.map(|published| published.host_b_percent),
            more,
        ));
        let segments = CONFIGURATIONS.iter().enumerate().filter_map(|(colour, (_, name, _))| {
            Some(Segment { name: (*name).to_owned(), colour, value: rate(colour)? })
        });
        bars.push(Bar { label: title.to_owned(), segments: segments.collect() });
    }
    let plot = Bars {
        title: "Figs. 3 to 5: throughput on a single VM".into(),
        axis: Axis::new("operations a second", Scale::Log, Quantity::Number("/s")),
        stacked: false,
        bars,
    };
    let section = Section::new("Throughput")
        .with(Block::Prose(
            "A stock ext4 guest on a qcow2 image over a Samsung 850 PRO. The publication's \
             QEMU-AllB needs a guest with BarrierFS, whose fsync is an order by itself; here the \
             guest is a stock one, and the drive makes an order of its flush."
                .into(),
        ))
        .with(Block::Plots(vec![plot.draw()]));
    (section, figures)
}

/// Amplification of the guest's syncs.
fn flushes(get: &Get, sizes: &Sizes) -> (Section, Vec<Figure>) {
    // dd's append: each write is one appending fsync.
    const DD_APPEND: usize = 3;
    let each = |count: u64| count as f64 / sizes.dd as f64;
    let guest = get(0, DD_APPEND).map(|measured| each(measured.guest_flushes));
    let mut figures = vec![figure(
        "3.1.2",
        "flushes of the guest for an append",
        "",
        PUBLISHED.flushes.guest,
        guest,
    )];
    for (index, (id, name, _)) in CONFIGURATIONS.iter().enumerate() {
        let host = get(index, DD_APPEND).map(|measured| each(measured.host_flushes));
        let title = format!("{name}: flushes of the host for an append that it waits for");
        figures.push(figure("3.1.2", title, "", PUBLISHED.flushes.host.get(*id).copied(), host));
    }
    let mut columns = vec![Column::left("workload")];
    for name in ["flush", "barrier", "ordered"] {
        columns.push(Column::right(format!("{name}: guest's flushes")));
        columns.push(Column::right("host's flushes"));
        columns.push(Column::right("barriers"));
        columns.push(Column::right("flushes nobody waits for"));
    }
    let mut table = Table::new(columns);
    for (index, workload) in WORKLOADS.iter().enumerate() {
        let mut row = vec![workload.title.to_owned()];
        for configuration in 0..CONFIGURATIONS.len() {
            let counts = get(configuration, index).map(|measured| {
                [
                    measured.guest_flushes,
                    measured.host_flushes,
                    measured.host_barriers,
                    measured.lag_flushes,
                ]
            });
            row.extend(
                (0..4).map(|place| {
                    counts.map_or_else(String::new, |counts| counts[place].to_string())
                }),
            );
        }
        table.push(row);
    }
    let section = Section::new("Amplification of the guest's syncs")
        .with(Block::Prose(
            "Counted at the image: flushes of the guest and what they became at the drive below, \
             less those of a drive that was only prepared."
                .into(),
        ))
        .with(Block::Table("Flushes of each workload".into(), table));
    (section, figures)
}

/// Parts of the time of a write.
fn shares(get: &Get) -> (Section, Vec<Figure>) {
    let mut table = Table::new(
        [Column::left("workload"), Column::left("configuration")]
            .into_iter()
            .chain(["one operation", "flushes", "writes", "the guest"].map(Column::right))
            .collect(),
    );
    for (index, workload) in WORKLOADS.iter().enumerate().filter(|(_, w)| w.one_at_a_time) {
        for (configuration, (_, name, _)) in CONFIGURATIONS.iter().enumerate() {
            let Some(measured) = get(configuration, index) else { continue };
            let each = |ns: f64| {
                stasis_results::units::duration(ns.max(0.0) / measured.operations.max(1) as f64)
            };
            let rest = measured.ns - measured.flush_ns - measured.write_ns;
            table.push(vec![
                workload.title.to_owned(),
                (*name).to_owned(),
                each(measured.ns),
                each(measured.flush_ns),
                each(measured.write_ns),
                each(rest),
            ]);
        }
    }
    let section = Section::new("Where the time goes")
        .with(Block::Prose(
            "Workloads with one write at a time: what the guest's flushes and writes took at the \
             image, and what is left for the guest's processor. varmail's threads overlap."
                .into(),
        ))
        .with(Block::Table("Time of one write".into(), table));
    (section, Vec::new())
}

/// Data that a crash can undo.
fn losses(get: &Get) -> (Section, Vec<Figure>) {
    let mut figures = Vec::new();
    for (configuration, (_, name, _)) in CONFIGURATIONS.iter().enumerate() {
        let most = |count: fn(&Measured) -> u64| {
            let all: Option<Vec<u64>> =
                (0..WORKLOADS.len()).map(|index| get(configuration, index).map(count)).collect();
            all?.into_iter().max().map(|most| most as f64)
        };
        for (loss, unit, value) in [
            ("flushes that had ended", "", most(|measured| measured.lag_most_flushes)),
            (
                "bytes before them",
                "MiB",
                most(|measured| measured.lag_most_bytes).map(|bytes| bytes / f64::from(1 << 20)),
            ),
            ("for so long", "ms", most(|measured| measured.lag_longest).map(|ns| ns / 1e6)),
        ] {
            let title = format!("{name}: a crash undoes at most: {loss}");
            figures.push(figure("crash", title, unit, None, value));
        }
    }
    let section = Section::new("What a crash loses").with(Block::Prose(
        "Flushes of the guest that had ended and were not durable yet, at most at once, over all \
         workloads. What is left is what the guest wrote before one of its flushes. The \
         publication bounds this by nothing: its AllB never flushes."
            .into(),
    ));
    (section, figures)
}
