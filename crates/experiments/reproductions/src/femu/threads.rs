//! Fig. 2: latency against the number of threads that read at the same time.

use anyhow::Result;
use stasis_experiment::DriveSpec;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Line, Lines, Quantity, Scale, Stroke};
use stasis_report::published_vs_measured::Figure;

use super::published::{Latency, PUBLISHED};
use super::setup::experiment;
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::fio;
use crate::published_data::figure;

/// The guests: (vCPUs, run). The publication's machine has 24 cores.
const RUNS: [(u32, &str); 2] = [(32, "threads-32"), (64, "threads-64")];
/// Memory of the guest: enough for 64 threads of fio and a queue for each processor.
const MEMORY: u64 = 2 << 30;
/// Name and model of each drive.
const DRIVES: [(&str, &str); 2] = [("raw", "null"), ("50us", "fixed:50us")];
/// Numbers of threads.
const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    // I/Os of each thread.
    let ios = if settings.quick { 20 } else { 200 };
    let mut script = format!("fio --output-format=json+ --output=/results/{}", fio::FILE);
    for (index, (name, _)) in DRIVES.iter().enumerate() {
        for threads in COUNTS {
            script.push_str(&format!(
                " --name={name}-{threads} --filename=/dev/nvme{index}n1 --rw=randread --bs=4k \
                 --direct=1 --ioengine=psync --thread=1 --norandommap=1 --stonewall=1 \
                 --group_reporting=1 --numjobs={threads} --number_ios={ios}"
            ));
        }
    }
    let drives = DRIVES.map(|(name, model)| {
        DriveSpec::parse(&format!("name={name},model={model},medium=ram:256MiB"))
    });
    let drives: Vec<DriveSpec> = drives.into_iter().collect::<Result<_, _>>()?;
    let trials = RUNS.map(|(vcpus, id)| Trial {
        id,
        description: format!("Fig. 2: 1 to 64 threads, {vcpus} vCPUs"),
        experiment: experiment(settings, vcpus, MEMORY, drives.clone(), &script),
        disk_size: None,
        timed: None,
    });
    Ok(trials.into())
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mut figures = Vec::new();
    let mut plots = Vec::new();
    for (vcpus, id) in RUNS {
        let mean = |name: &str, threads: u32| {
            runs.job(id, &format!("{name}-{threads}")).map(|job| job.mean / 1e3)
        };
        for Latency { threads, who, us } in &PUBLISHED.threads {
            let title =
                format!("{threads} threads, {vcpus} vCPUs, no delay: mean; published: {who}");
            let one = figure("Fig. 2a", title, "us", *us, mean("raw", *threads));
            // Others' emulators say nothing of this one.
            figures.push(match who.starts_with("FEMU") {
                true => one.at_most(),
                false => one.incomparable(),
            });
        }
        let late = runs.job(id, "50us-1").and_then(|job| job.percentile(99.0)).map(|ns| ns / 1e3);
        let title = format!("1 thread, {vcpus} vCPUs, 50 µs: p99");
        figures.push(figure("Fig. 2b", title, "us", PUBLISHED.raw_50us, late));
        for threads in COUNTS {
            let title = format!("{threads} threads, {vcpus} vCPUs, 50 µs: mean");
            figures.push(figure("Fig. 2b", title, "us", None, mean("50us", threads)));
        }
        if let Some(run) = runs.get(id) {
            for (index, (name, model)) in DRIVES.iter().enumerate() {
                let p50 = run.summary.drives[index].read.delivered_ns.p50 as f64;
                let title = format!("{name} ({model}), {vcpus} vCPUs: as delivered, p50");
                figures.push(figure("Fig. 2", title, "us", None, Some(p50 / 1e3)));
            }
        }
        let lines = DRIVES.iter().enumerate().map(|(colour, (name, _))| Line {
            name: (*name).to_owned(),
            colour,
            stroke: Stroke::Thin,
            points: COUNTS
                .iter()
                .filter_map(|&threads| Some((f64::from(threads), mean(name, threads)? * 1e3)))
                .collect(),
        });
        let plot = Lines {
            title: format!("Fig. 2: mean latency as fio sees it, {vcpus} vCPUs"),
            x: Axis::new("threads", Scale::Log, Quantity::Number("")),
            y: Axis::new("latency", Scale::Linear, Quantity::Time),
            lines: lines.collect(),
        };
        plots.push(plot.draw());
    }
    let section = Section::new("Fig. 2 Latency against threads")
        .with(Block::Prose(
            "Random 4 KiB reads, one at a time in each thread, of a drive without latency and of \
             one of 50 µs. Each processor of the guest has the full speed of one, so threads \
             add latency only where they outnumber the processors. The drive's part is as \
             delivered: exact, whatever the number."
                .into(),
        ))
        .with(Block::Plots(plots));
    Ok((section, figures))
}
