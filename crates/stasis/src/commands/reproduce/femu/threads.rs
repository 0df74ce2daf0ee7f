//! Fig. 2: latency against the number of threads that read at the same time.

use anyhow::Result;
use stasis_experiment::DriveSpec;
use stasis_report::figures::Figure;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Line, Lines, Quantity, Scale, Stroke};

use super::published::{RAW_50US, THREADS};
use super::{experiment, figure, Settings};
use crate::commands::reproduce::bench::{Runs, Trial};
use crate::commands::reproduce::fio;

const RUN: &str = "threads";
/// Processors of the guest.
const VCPUS: u32 = 4;
/// Memory of the guest: enough for 64 processes of fio.
const MEMORY: u64 = 1 << 30;
/// Name and model of each drive.
const DRIVES: [(&str, &str); 2] = [("raw", "null"), ("50us", "fixed:50us")];
/// How many threads.
const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    // Of each thread.
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
    let drives = drives.into_iter().collect::<Result<_, _>>()?;
    let experiment = experiment(settings, VCPUS, MEMORY, drives, &script);
    let what = "Fig. 2: 1 to 64 threads, 4 vCPUs".to_owned();
    Ok(vec![Trial { id: RUN, what, experiment, disk_size: None }])
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mean = |name: &str, threads: u32| {
        runs.job(RUN, &format!("{name}-{threads}")).map(|job| job.mean / 1e3)
    };
    let mut figures = Vec::new();
    for (threads, who, us) in THREADS {
        let what = format!("{threads} threads, no delay: mean; published: {who}");
        figures.push(figure("Fig. 2a", what, "us", us, mean("raw", threads)));
    }
    let late = runs.job(RUN, "50us-1").and_then(|job| job.percentile(99.0)).map(|ns| ns / 1e3);
    figures.push(figure("Fig. 2b", "1 thread, 50 us: p99", "us", RAW_50US, late));
    for threads in COUNTS {
        let what = format!("{threads} threads, 50 us: mean");
        figures.push(figure("Fig. 2b", what, "us", None, mean("50us", threads)));
    }
    if let Some(run) = runs.get(RUN) {
        for (index, (name, model)) in DRIVES.iter().enumerate() {
            let delivered = &run.summary.drives[index].read.delivered_ns;
            let (what, us) = (format!("{name} ({model}): as delivered, p50"), delivered.p50 as f64);
            figures.push(figure("Fig. 2", what, "us", None, Some(us / 1e3)));
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
        title: "Fig. 2: mean latency as fio sees it".into(),
        x: Axis::new("threads", Scale::Log, Quantity::Number("")),
        y: Axis::new("latency", Scale::Linear, Quantity::Time),
        lines: lines.collect(),
    };
    let section = Section::new("Fig. 2 Latency against threads")
        .with(Block::Prose(
            "Random 4 KiB reads, one at a time in each thread, of a drive without latency and of \
             one of 50 us. What grows with the threads is the guest's own work: its processors \
             take turns on one virtual clock, so that many busy threads share the speed of one \
             processor. The drive's part is as delivered: exact, whatever the number."
                .into(),
        ))
        .with(Block::Plots(vec![plot.draw()]));
    Ok((section, figures))
}
