//! The publication's statements as figures beside ours.

use std::collections::HashMap;

use stasis_report::published_vs_measured::Figure;

use super::grid::{Extent, HOST, READERS};
use super::published::{Range, PUBLISHED};
use crate::published_data::figure;
use crate::suite::measured::Measurement;
use crate::suite::scenario::{Benchmark, Device, Scenario, Setup};
use stasis_program::pattern::Pattern;

/// The page's note above the figures.
pub const NOTE: &str = "Start-up times against an idle drive: nothing but the start in the guest \
    and on the host. Beside them, against the same guest workload without a host workload: what \
    the host adds. What was given up at 60 s of virtual time is missing here, and an X in the \
    plots. Together is what the guest and the host moved while applications were started, with \
    coordination against without.";

/// The host's scheduler in the figures.
const BFQ: &str = "bfq";

/// Everything that was measured, to be looked up.
pub struct Results<'a> {
    pub extent: &'a Extent,
    all: HashMap<&'a str, &'a Measurement>,
}

/// A guest's scheduler, and whether it is coordinated with the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Above {
    pub scheduler: String,
    pub coordinated: bool,
}

impl Above {
    pub fn plain(scheduler: &str) -> Self {
        Self { scheduler: scheduler.to_owned(), coordinated: false }
    }

    pub const fn name(&self) -> &str {
        if self.coordinated {
            "coordinated"
        } else {
            self.scheduler.as_str()
        }
    }
}

impl<'a> Results<'a> {
    pub fn new(extent: &'a Extent, measurements: &'a [Measurement]) -> Self {
        let all = measurements.iter().map(|m| (m.name.as_str(), m)).collect();
        Self { extent, all }
    }

    /// A scenario's measurement, if there is one.
    pub fn get(
        &self,
        device: &Device,
        host_scheduler: &str,
        above: &Above,
        [host, guest]: [Pattern; 2],
        benchmark: Benchmark,
    ) -> Option<&'a Measurement> {
        let setup = Setup {
            device: device.clone(),
            host_scheduler: host_scheduler.to_owned(),
            host_workload: host,
            guest_scheduler: above.scheduler.clone(),
            coordinated: above.coordinated,
        };
        let scenario = Scenario { setup, guest_workload: guest, benchmark };
        self.all.get(scenario.name().as_str()).copied()
    }

    /// Seconds of a start of `application` on an idle drive.
    pub fn idle(&self, device: &Device, application: &str) -> Option<f64> {
        self.seconds(device, application, &Above::plain(BFQ), [Pattern::NONE; 2])
    }

    fn seconds(
        &self,
        device: &Device,
        application: &str,
        above: &Above,
        workloads: [Pattern; 2],
    ) -> Option<f64> {
        let benchmark = Benchmark::Startup(application.to_owned());
        self.get(device, BFQ, above, workloads, benchmark)?.mean()
    }

    /// Every figure.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for device in &self.extent.devices {
            for application in &self.extent.applications {
                self.startup(device, application, &mut figures);
            }
            self.throughput(device, &mut figures);
        }
        figures
    }

    fn startup(&self, device: &Device, application: &str, figures: &mut Vec<Figure>) {
        let (plain, coordinated) =
            (Above::plain(BFQ), Above { scheduler: BFQ.into(), coordinated: true });
        let idle = self.idle(device, application);
        let against_idle = |above: &Above, workloads| {
            Some(self.seconds(device, application, above, workloads)? / idle?)
        };
        let name = &device.name;
        let subject = format!("{name}, {application}");
        let hard_disk = (name == "mk6006gah" && application == "xterm").then_some(());
        let seconds = hard_disk.map(|()| PUBLISHED.idle_xterm);
        figures.push(figure("8.3", format!("{subject}: idle"), "s", seconds, idle));
        for guest in &self.extent.guest_workloads {
            let none = against_idle(&plain, [Pattern::NONE, *guest]);
            let title = format!("{subject}: {guest}, no host workload, against idle");
            figures.push(figure("8.3", title, "times", PUBLISHED.same, none));
            for host in &HOST[1..] {
                let one = against_idle(&plain, [*host, *guest]);
                let title =
                    format!("{subject}: {guest}, {host} on host, not coordinated, against idle");
                figures.push(figure("8.3", title, "times", None, one));
                let with = against_idle(&coordinated, [*host, *guest]);
                let title =
                    format!("{subject}: {guest}, {host} on host, coordinated, against idle");
                let same = (*guest != READERS[3]).then_some(PUBLISHED.same);
                figures.push(figure("10", title, "times", same, with));
                let title = format!(
                    "{subject}: {guest}, {host} on host, coordinated, against no host workload"
                );
                let added = with.zip(none).map(|(with, none)| with / none);
                figures.push(figure("10", title, "times", None, added));
            }
        }
        let one_reader = self.extent.guest_workloads.iter();
        let one_reader = one_reader.filter_map(|guest| against_idle(&plain, [HOST[1], *guest]));
        let range = one_reader.fold(None, |range: Option<(f64, f64)>, times| {
            let (least, greatest) = range.unwrap_or((times, times));
            Some((least.min(times), greatest.max(times)))
        });
        let Range { least, most } = PUBLISHED.one_on_host;
        for (word, published, found) in
            [("least", least, range.map(|r| r.0)), ("greatest", most, range.map(|r| r.1))]
        {
            let title = format!("{subject}: one reader on the host, not coordinated, {word}");
            figures.push(figure("8.3", title, "times", published, found));
        }
        for scheduler in self.extent.guest_schedulers.iter().filter(|name| *name != BFQ) {
            for (guest, times) in &PUBLISHED.cfq {
                let Some(guest) = READERS.iter().find(|g| g.to_string() == *guest) else {
                    continue;
                };
                let found = against_idle(&Above::plain(scheduler), [Pattern::NONE, *guest]);
                let title = format!(
                    "{subject}: {guest}, {scheduler} in the guest (published: cfq), against idle"
                );
                let times = hard_disk.map(|()| *times);
                figures.push(figure("8.3", title, "times", times, found));
            }
        }
    }

    fn throughput(&self, device: &Device, figures: &mut Vec<Figure>) {
        let coordinated = Above { scheduler: BFQ.into(), coordinated: true };
        let mut benchmarks = vec![(Benchmark::Throughput, "beside readers")];
        benchmarks.extend(self.extent.applications.iter().map(|name| {
            (Benchmark::Startup((*name).to_owned()), "while applications are started")
        }));
        for guest in &self.extent.guest_workloads {
            for host in &HOST {
                for (benchmark, when) in &benchmarks {
                    let moved = |above: &Above| {
                        self.get(device, BFQ, above, [*host, *guest], benchmark.clone())?.together
                    };
                    let with = moved(&coordinated).zip(moved(&Above::plain(BFQ)));
                    let title = format!(
                        "{}: {guest}, {host} on host, together {when}, with coordination against \
                         without",
                        device.name
                    );
                    let times = with.map(|(with, without)| with / without);
                    figures.push(figure("10", title, "times", PUBLISHED.throughput, times));
                }
            }
        }
    }
}
