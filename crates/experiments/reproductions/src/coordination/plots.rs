//! The publication's plots: bars for each guest workload, grouped by the host's workload.

use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Bar, Bars, Quantity, Scale, Segment};

use super::figures::{Above, Results};
use super::grid::{HOST, WRITERS, WRITERS_DEVICE};
use crate::suite::scenario::{Benchmark, Device};
use stasis_program::pattern::Pattern;

/// Figures 5 to 7, 8 to 10, and 12 to 17 by device, in the publication's order.
const NUMBERS: [(&str, &str, &str, &str); 3] = [
    ("mk6006gah", "5", "8", "12 and 13"),
    ("sdhc-class-6", "6", "9", "14 and 15"),
    ("sem16g", "7", "10", "16 and 17"),
];

/// Every plot.
pub fn sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    for device in &results.extent.devices {
        let known = NUMBERS.iter().find(|numbers| numbers.0 == device.name);
        let (_, throughput, startup, coordinated) = known.copied().unwrap_or(("", "", "", ""));
        let mut plots = vec![throughputs(results, device, &titled(throughput, "throughput"))];
        let guests = &results.extent.guest_workloads;
        let today: Vec<Above> =
            results.extent.guest_schedulers.iter().map(|name| Above::plain(name)).collect();
        let mut with = vec![Above { scheduler: "bfq".into(), coordinated: true }];
        with.extend(today.clone());
        for application in &results.extent.applications {
            for host_scheduler in &results.extent.host_schedulers {
                let title = |number: &str| {
                    let subject =
                        format!("start-up of {application}, {host_scheduler} on the host");
                    titled(number, &subject)
                };
                let on = (device, application.to_owned(), &**host_scheduler);
                plots.push(startups(results, on, &today, guests, &title(startup)));
                if host_scheduler == "bfq" {
                    plots.push(startups(results, on, &with, guests, &title(coordinated)));
                }
                if results.extent.writers && device.name == WRITERS_DEVICE {
                    let mut guests: Vec<Pattern> = guests.clone();
                    guests.push(WRITERS);
                    plots.push(startups(results, on, &today, &guests, &title("11")));
                }
            }
        }
        let plots = plots.iter().map(Bars::draw).collect();
        sections.push(Section::new(device.name.clone()).with(Block::Plots(plots)));
    }
    sections
}

fn titled(number: &str, subject: &str) -> String {
    if number.is_empty() {
        subject.to_owned()
    } else {
        format!("Fig. {number}: {subject}")
    }
}

fn throughputs(results: &Results, device: &Device, title: &str) -> Bars {
    let bars = results.extent.guest_workloads.iter().map(|guest| {
        let schedulers = results.extent.guest_schedulers.iter().enumerate();
        let segments = schedulers.filter_map(|(colour, name)| {
            let workloads = [Pattern::NONE, *guest];
            let above = Above::plain(name);
            let found = results.get(device, "bfq", &above, workloads, Benchmark::Throughput)?;
            Some(Segment { name: name.clone(), colour, value: found.mean()? / 1e6 })
        });
        Bar { label: guest.to_string(), segments: segments.collect() }
    });
    Bars {
        title: title.to_owned(),
        axis: Axis::new("MB/s", Scale::Linear, Quantity::Number("MB/s")),
        stacked: false,
        bars: bars.collect(),
    }
}

fn startups(
    results: &Results,
    (device, application, host_scheduler): (&Device, &str, &str),
    above: &[Above],
    guests: &[Pattern],
    title: &str,
) -> Bars {
    let mut bars = Vec::new();
    if let Some(idle) = results.idle(device, application) {
        let segment = Segment { name: "idle drive".into(), colour: 5, value: idle };
        bars.push(Bar { label: "idle".into(), segments: vec![segment] });
    }
    for guest in guests {
        for host in &HOST {
            let segments = above.iter().enumerate().filter_map(|(colour, above)| {
                let benchmark = Benchmark::Startup(application.to_owned());
                let workloads = [*host, *guest];
                let found = results.get(device, host_scheduler, above, workloads, benchmark)?;
                // A start that was given up has no length, and an X.
                let value = found.mean().unwrap_or(f64::NAN);
                Some(Segment { name: above.name().to_owned(), colour, value })
            });
            let label = match *host {
                Pattern::NONE => format!("{guest}, none on host"),
                host => format!("{guest}, {host} on host"),
            };
            bars.push(Bar { label, segments: segments.collect() });
        }
    }
    Bars {
        title: title.to_owned(),
        axis: Axis::new("seconds", Scale::Linear, Quantity::Number("s")),
        stacked: false,
        bars,
    }
}
