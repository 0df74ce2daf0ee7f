//! The part of `report.html` about several machines and the drives that they share.

use serde::Deserialize;
use stasis_run_events::{
    Limited, Service, SharedOutcome, TenantOutcome, TenantTail, WorkloadOutcome,
};

use crate::page::{thinned, Block, Resolution, Section};
use crate::plot::{Axis, Bar, Bars, Line, Lines, Markup, Quantity, Scale, Segment, Stroke};
use crate::run_page::Time;
use crate::scheduler::{division, has_weights, parameters};
use crate::several::rows;
use crate::table::{Column, Table, Tone};
use crate::verdict::{Tenant, Tenants, Waited, SUFFERED};
use stasis_results::summary::{DriveSummary, OperationSummary, Summary};
use stasis_results::{limit_of, units};

/// Time between two samples of a workload's rate (ns): the field's name contains it.
const SAMPLE: f64 = 2e9;

/// A machine, as `summary.json` has it.
#[derive(Debug, Deserialize)]
struct Machine {
    name: String,
    ending: String,
    exit_status: Option<i32>,
    started_seconds: Option<f64>,
    virtual_seconds: Option<f64>,
}

/// Steps of a tail over time in the coarsest resolution, of [`STEPS`] at most.
const MIN_STEPS: usize = 12;
const STEPS: usize = 64;

/// The sections of shared drives.
pub(crate) fn sections(summary: &Summary, time: &Time, resolution: Resolution) -> Vec<Section> {
    let shared: Vec<SharedOutcome> = rows(summary, "shared");
    shared.iter().map(|one| drive(summary, one, time, resolution)).collect()
}

/// The machines of a run of several, with the last line that each wrote.
pub(crate) fn machines(
    summary: &Summary,
    time: &Time,
    last_line: impl Fn(&str) -> Option<String>,
) -> Table {
    let machines: Vec<Machine> = rows(summary, "machines");
    let columns = ["status", "command began at", "it took"].map(Column::right);
    let named = [Column::left("machine"), Column::left("ended")];
    let columns = named.into_iter().chain(columns).chain([Column::left("its last line")]);
    let mut table = Table::new(columns.collect());
    let shown = |ns: Option<f64>| ns.map_or("–".into(), units::duration);
    for machine in machines {
        table.push(vec![
            machine.name.clone(),
            match machine.ending.as_str() {
                "went-on" => "went on until the others had ended".to_owned(),
                other => other.to_owned(),
            },
            machine.exit_status.map_or("–".to_owned(), |status| status.to_string()),
            shown(machine.started_seconds.map(|seconds| time.since(seconds * 1e9).max(0.0))),
            shown(machine.virtual_seconds.map(|seconds| seconds * 1e9)),
            last_line(&machine.name).unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    table
}

fn drive(
    summary: &Summary,
    shared: &SharedOutcome,
    time: &Time,
    resolution: Resolution,
) -> Section {
    let mut section = Section::new(format!("Tenants of {}", shared.name))
        .with(Block::Prose(division(&shared.scheduler)))
        .with(Block::Table(
            "The service of each tenant as the drive's scheduler counted it, from when its command began: no I/O of a \
             guest's first boot is in it. Virtual disks are named MACHINE.DISK, workloads run on the host. A request \
             waits behind others or for a limit, and then is at the drive. Asked for is the part of the steps below \
             with requests.".to_owned()
                + &processes(shared)
                + match has_weights(&shared.scheduler) {
                    true => {
                        " The share by weight is that of a weight among those that ask in a step, averaged over the steps. \
                         The last column has what sets a tenant apart besides its weight."
                    }
                    false => "",
                },
            shares(shared, summary),
        ));
    let worst: Vec<_> = worst(shared, time).collect();
    if !worst.is_empty() {
        let caption = format!(
            "The worst step of each tenant: p99 from when the drive's scheduler gets a request until that completes, in steps \
             of {}; the usual one is the median of its steps. It is at most 1/32 above the latency that it stands for; of fewer than 100 requests it is the longest. A \
             tenant has suffered where its worst is more than {SUFFERED} times its usual one. One that is delayed all the \
             time has a long usual one: see its mean wait above.",
            units::duration(shared.tails_step_ns as f64)
        );
        section = section.with(Block::Table(caption, worst_steps(&worst)));
    }
    if shared.tenants.iter().any(|tenant| tenant.help_calls > 0) {
        let caption = "Help that guests asked for, as they raised a queue's weight. Unhelped is time in which one asked \
                       and had used up its bound; urgent requests are those that a guest's own scheduler preferred."
            .to_owned();
        section = section.with(Block::Table(caption, help(&shared.tenants)));
    }
    if limits(shared).any(|(_, _, limited)| limited.limited_requests > 0) {
        let caption = "Requests that waited for a limit on their tenant's rate.".to_owned();
        section = section.with(Block::Table(caption, limited(shared, summary)));
    }
    if !shared.workloads.is_empty() {
        let caption = "The host's workloads, from when they began.".to_owned();
        section = section.with(Block::Table(caption, workloads(&shared.workloads)));
    }
    let mut plots: Vec<_> = tails(shared, time, resolution).into_iter().collect();
    plots.push(amounts(shared));
    let sampled = |load: &WorkloadOutcome| !load.bytes_per_second_each_2s.is_empty();
    match shared.workloads.iter().any(sampled) {
        true => plots.push(rates(&shared.workloads)),
        false if shared.workloads.is_empty() => {}
        false => {
            section = section.with(Block::Prose(
                "The bandwidth of the host's workloads over time is not drawn: it is sampled every 2 s, and none ran for \
                 as long."
                    .to_owned(),
            ));
        }
    }
    section.with(Block::Plots(plots)).with(Block::Terms(parameters(&shared.scheduler)))
}

/// The steps of a tenant's tail in which it had requests: the beginning and the end of each on the axis of
/// time, of the last one that of its part until the end, its 99th percentile (ns), and its requests.
fn tail<'a>(
    shared: &'a SharedOutcome,
    tenant: &'a TenantTail,
    time: &'a Time,
) -> impl Iterator<Item = ((f64, f64), f64, u64)> + 'a {
    let (from, step) = (shared.tails_from_ns as f64, shared.tails_step_ns as f64);
    let steps = tenant.p99_ns_each_step.iter().enumerate();
    let points = steps.filter_map(move |(number, p99)| {
        let begin = time.since(from + number as f64 * step);
        let end = (begin + step).min(time.end().max(begin));
        let requests = tenant.requests_each_step.get(number).copied().unwrap_or(0);
        Some(((begin, end), (*p99)? as f64, requests))
    });
    points.filter(|(step, ..)| time.holds(middle(*step)))
}

fn middle((begin, end): (f64, f64)) -> f64 {
    (begin + end) / 2.0
}

/// The worst step of each tenant.
fn worst<'a>(shared: &'a SharedOutcome, time: &'a Time) -> impl Iterator<Item = Tenant<'a>> {
    let is_alone = shared.tenants.len() + shared.workloads.len() < 2;
    shared.tails.iter().filter_map(move |tenant| {
        let mut steps: Vec<_> = tail(shared, tenant, time).collect();
        let &(step, most, requests) = steps.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        steps.sort_by(|a, b| a.1.total_cmp(&b.1));
        let usual = (steps[(steps.len() - 1) / 2].1 + steps[steps.len() / 2].1) / 2.0;
        let name = &tenant.name;
        Some(Tenant { name, is_alone, steps: steps.len(), step, most, requests, usual })
    })
}

fn worst_steps(worst: &[Tenant]) -> Table {
    let columns = ["usual p99", "worst p99", "of requests", "times the usual", "from", "to"];
    let columns = columns.map(Column::right);
    let mut table = Table::new([Column::left("who")].into_iter().chain(columns).collect());
    table.columns.push(Column::left("suffered"));
    for one in worst {
        let suffered = one.suffered();
        table.push(vec![
            one.name.to_owned(),
            units::duration(one.usual),
            units::duration(one.most),
            units::count(one.requests),
            match one.steps {
                1 => "–".to_owned(),
                _ => units::significant(one.ratio(), 3),
            },
            units::duration(one.step.0),
            units::duration(one.step.1),
            match (one.is_alone, one.steps, suffered) {
                (true, ..) => "alone on the drive",
                (_, 1, _) => "one step only",
                (.., true) => "yes",
                (.., false) => "no",
            }
            .to_owned(),
        ]);
        if one.is_compared() {
            table.judge(7, if suffered { Tone::Bad } else { Tone::Good });
        }
    }
    table
}

/// The facts about the tenants of all shared drives for the page's verdict; `None` where no drive is
/// shared, or nothing is known of its tenants' latencies.
pub(crate) fn tenants<T>(
    summary: &Summary,
    time: &Time,
    then: impl FnOnce(Option<Tenants>) -> T,
) -> T {
    let shared: Vec<SharedOutcome> = rows(summary, "shared");
    let tenants: Vec<_> = shared.iter().flat_map(|one| worst(one, time)).collect();
    let limits = shared.iter().flat_map(limits);
    let limits: Vec<_> = limits.map(|one| (one, limit_of(summary, one.0))).collect();
    let waited = limits.iter().map(|((name, requests, limited), limit)| {
        let waited = limited.limited_requests;
        let mean = limited.limited_seconds * 1e9 / waited.max(1) as f64;
        Waited { name, waited, requests: *requests, mean, limit: limit.as_deref() }
    });
    let waited = waited.collect();
    then((!tenants.is_empty()).then_some(Tenants { tenants, waited }))
}

/// The 99th percentile of each tenant over time; nothing where the results have none.
fn tails(shared: &SharedOutcome, time: &Time, resolution: Resolution) -> Option<Markup> {
    let lines: Vec<_> = shared
        .tails
        .iter()
        .enumerate()
        .map(|(number, tenant)| Line {
            name: tenant.name.clone(),
            colour: number,
            stroke: Stroke::Thin,
            points: thinned(
                &tail(shared, tenant, time)
                    .map(|(step, p99, _)| (middle(step), p99))
                    .collect::<Vec<_>>(),
                resolution.of(STEPS, MIN_STEPS),
            ),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let plot = Lines {
        title: format!(
            "p99 of each tenant over time, in steps of {}",
            units::duration(shared.tails_step_ns as f64)
        ),
        x: time.axis(),
        y: Axis::new("p99 at the drive's scheduler", Scale::Log, Quantity::Time),
        lines,
    };
    (!plot.lines.is_empty()).then(|| plot.draw())
}

/// Each tenant's and each workload's name, weight and service, as the scheduler counted it.
fn got(shared: &SharedOutcome) -> impl Iterator<Item = (&str, u32, Service)> {
    let tenants = shared.tenants.iter();
    let tenants = tenants.map(|one| (one.name.as_str(), one.weight, one.service));
    let loads = shared.workloads.iter().map(|one| {
        let sum = |part: fn(&Service) -> u64| one.threads.iter().map(part).sum();
        let service = Service {
            requests: sum(|thread| thread.requests),
            bytes: sum(|thread| thread.bytes),
            at_drive_ns: sum(|thread| thread.at_drive_ns),
        };
        (one.name.as_str(), one.group_weight.unwrap_or(one.weight), service)
    });
    tenants.chain(loads)
}

/// The weight of a tenant or workload, of which each process has one where it is no group.
fn whole_weight(shared: &SharedOutcome, name: &str, weight: u32) -> (usize, f64) {
    let load = shared.workloads.iter().find(|load| load.name == name);
    let each = load.filter(|load| load.group_weight.is_none()).map_or(1, |load| load.threads.len());
    (each, each as f64 * f64::from(weight))
}

/// The meaning of a weight of several processes, by the first workload that has some.
fn processes(shared: &SharedOutcome) -> String {
    let mut all =
        got(shared).map(|(name, weight, _)| (whole_weight(shared, name, weight).0, weight));
    match all.find(|(each, _)| *each > 1) {
        Some((each, weight)) => {
            format!(" {each} × {weight} are {each} processes of weight {weight} each.")
        }
        None => String::new(),
    }
}

fn shares(shared: &SharedOutcome, summary: &Summary) -> Table {
    let drives = &summary.drives;
    let columns = ["weight", "requests", "asked for", "amount"];
    let columns = columns.map(Column::right).into_iter();
    let weighed = has_weights(&shared.scheduler);
    let of_shares = ["of the amount", "of the drive's time", "by weight"];
    let of_shares = of_shares.into_iter().take(if weighed { 3 } else { 2 });
    let columns = columns.chain(of_shares.map(|name| Column::right(name).under("share")));
    let means = ["latency", "at the drive", "waiting"];
    let means = means.map(|name| Column::right(name).under("a request, on average"));
    let apart = weighed.then(|| Column::left("besides its weight"));
    let columns = [Column::left("who")].into_iter().chain(columns).chain(means).chain(apart);
    let mut table = Table::new(columns.collect());
    let share = |own: u64, all: u64| match all {
        0 => "–".to_owned(),
        all => format!("{} %", units::significant(100.0 * own as f64 / all as f64, 3)),
    };
    let all: u64 = got(shared).map(|(.., service)| service.bytes).sum();
    let time: u64 = got(shared).map(|(.., service)| service.at_drive_ns).sum();
    let percent = |share: f64| format!("{} %", units::significant(100.0 * share, 3));
    for (name, weight, service) in got(shared) {
        let own = drives.iter().find(|drive| drive.described.name == name);
        let load = shared.workloads.iter().find(|load| load.name == name);
        let at_drive = || service.at_drive_ns as f64 / service.requests.max(1) as f64;
        let of_load = |load: &WorkloadOutcome| {
            let latency = load.mean_latency_ns as f64;
            (latency, (latency - at_drive()).max(0.0))
        };
        let latency = own.map(mean_latency).or(load.map(of_load));
        let latency = latency.filter(|(latency, _)| *latency > 0.0);
        let apart = weighed.then(|| {
            let latency = latency.unwrap_or_default().0;
            let all = time as f64 / all.max(1) as f64;
            particulars(shared, (name, limit_of(summary, name)), service, latency, all)
        });
        let means = latency.map(|(latency, waited)| [latency, latency - waited, waited]);
        let means =
            means.map_or_else(|| ["–"; 3].map(str::to_owned), |all| all.map(units::duration));
        let mut row = vec![
            name.to_owned(),
            match whole_weight(shared, name, weight).0 {
                1 => weight.to_string(),
                each => format!("{each} × {weight}"),
            },
            units::count(service.requests),
            asked(shared, name).map_or("–".to_owned(), |part| {
                format!("{} % of the time", units::significant(100.0 * part, 2))
            }),
            units::bytes(service.bytes),
            share(service.bytes, all),
            share(service.at_drive_ns, time),
        ];
        row.extend(weighed.then(|| match by_weight(shared, name) {
            Some(share) => percent(share),
            None => "–".to_owned(),
        }));
        table.push(row.into_iter().chain(means).chain(apart).collect());
    }
    table
}

/// Below so many requests at once of each process, somebody asks for one after the other.
const ONE: f64 = 1.5;
/// From this ratio on, and below its reciprocal, the time for a byte is named.
const DEAR: f64 = 1.05;

/// Differences of a tenant from others besides its weight. `latency`: the mean of its service (ns); `usual`:
/// the time at the drive for a byte of all (ns); with the tenant's limits, if it has any.
fn particulars(
    shared: &SharedOutcome,
    (name, limit): (&str, Option<String>),
    service: Service,
    latency: f64,
    usual: f64,
) -> String {
    let mut all = Vec::new();
    let tenant = shared.tenants.iter().find(|tenant| tenant.name == name);
    if let Some(tenant) = tenant.filter(|tenant| tenant.helped_seconds > 0.0) {
        all.push(format!("help for {}", units::duration(tenant.helped_seconds * 1e9)));
    }
    let limited = limits(shared).find(|(each, ..)| *each == name);
    if let Some((_, requests, limited)) = limited.filter(|one| one.2.limited_requests > 0) {
        let (waited, requests) = (units::count(limited.limited_requests), units::count(requests));
        let limit = limit.map_or(String::new(), |limit| format!(" of {limit}"));
        all.push(format!("{waited} of {requests} requests waited for its limit{limit}"));
    }
    let steps = tail_of(shared, name);
    let steps = steps.map_or(0, |tail| tail.p99_ns_each_step.iter().flatten().count());
    let asked = steps as f64 * shared.tails_step_ns as f64;
    let load = shared.workloads.iter().find(|load| load.name == name);
    let processes = load.map_or(1, |load| load.threads.len().max(1));
    let at_once = service.requests as f64 * latency / asked.max(1.0) / processes as f64;
    if latency > 0.0 && at_once < ONE {
        let each = if processes > 1 { " of each process" } else { "" };
        all.push(format!("one request{each} at a time, or pauses"));
    }
    let dear = service.at_drive_ns as f64 / service.bytes.max(1) as f64 / usual;
    if service.bytes > 0 && dear > 0.0 && dear.is_finite() && !(1.0 / DEAR..DEAR).contains(&dear) {
        all.push(format!(
            "{} times as much of the drive's time for a byte",
            units::significant(dear, 2)
        ));
    }
    match all.is_empty() {
        true => "nothing".to_owned(),
        false => all.join("; "),
    }
}

/// The mean latency of all I/Os of a disk, and their mean wait (ns); 0 without any.
fn mean_latency(drive: &DriveSummary) -> (f64, f64) {
    let sum = |value: fn(&OperationSummary) -> f64| -> f64 {
        drive.used().map(|(_, figures)| value(figures)).sum()
    };
    let count = sum(|one| one.count as f64).max(1.0);
    let mean = |all: f64| all / count;
    (
        mean(sum(|one| one.count as f64 * one.delivered_ns.mean)),
        mean(sum(|one| one.count as f64 * one.waited_ns)),
    )
}

/// The latencies of a tenant or workload over time.
fn tail_of<'a>(shared: &'a SharedOutcome, name: &str) -> Option<&'a TenantTail> {
    shared.tails.iter().find(|tail| tail.name == name)
}

/// The share that a tenant's weight gives: of each step its weight among those who ask in it, averaged over
/// the steps in which anybody does.
fn by_weight(shared: &SharedOutcome, name: &str) -> Option<f64> {
    let weights = got(shared).map(|(each, weight, _)| {
        (each, whole_weight(shared, each, weight).1, tail_of(shared, each))
    });
    let weights: Vec<_> = weights.collect();
    let steps = shared.tails.iter().map(|tail| tail.p99_ns_each_step.len()).max()?;
    let (mut sum, mut busy) = (0.0, 0u64);
    for step in 0..steps {
        let asks = |tail: &Option<&TenantTail>| {
            tail.and_then(|tail| tail.p99_ns_each_step.get(step).copied()).flatten().is_some()
        };
        let asking = || weights.iter().filter(|(.., tail)| asks(tail));
        let all: f64 = asking().map(|(_, weight, _)| weight).sum();
        if all > 0.0 {
            busy += 1;
            let own = asking().filter(|(each, ..)| *each == name);
            sum += own.map(|(_, weight, _)| weight / all).sum::<f64>();
        }
    }
    (busy > 0).then(|| sum / busy as f64)
}

/// The part of the steps in which somebody had requests.
fn asked(shared: &SharedOutcome, name: &str) -> Option<f64> {
    let steps = tail_of(shared, name)
        .map(|tail| &tail.p99_ns_each_step)
        .filter(|steps| !steps.is_empty())?;
    let used = steps.iter().filter(|p99| p99.is_some()).count();
    Some(used as f64 / steps.len() as f64)
}

fn help(tenants: &[TenantOutcome]) -> Table {
    let columns = ["asked", "helped for", "unhelped for", "urgent requests"].map(Column::right);
    let mut table = Table::new([Column::left("disk")].into_iter().chain(columns).collect());
    for tenant in tenants {
        table.push(vec![
            tenant.name.clone(),
            units::count(tenant.help_calls),
            units::duration(tenant.helped_seconds * 1e9),
            units::duration(tenant.unhelped_seconds * 1e9),
            units::count(tenant.urgent_requests),
        ]);
    }
    table
}

/// Each tenant's and each workload's name, requests, and the effect of its limits.
fn limits(shared: &SharedOutcome) -> impl Iterator<Item = (&str, u64, Limited)> {
    let tenants = shared.tenants.iter();
    let tenants = tenants.map(|one| (one.name.as_str(), one.service.requests, one.limited));
    let loads = shared.workloads.iter();
    tenants.chain(loads.map(|one| (one.name.as_str(), one.ios, one.limited)))
}

fn limited(shared: &SharedOutcome, summary: &Summary) -> Table {
    let columns = ["requests", "that waited", "wait, mean of those"].map(Column::right);
    let named = ["who", "its limit"].map(Column::left);
    let mut table = Table::new(named.into_iter().chain(columns).collect());
    for (name, requests, limited) in limits(shared) {
        let mean = limited.limited_seconds * 1e9 / limited.limited_requests.max(1) as f64;
        let waited = limited.limited_requests > 0;
        table.push(vec![
            name.to_owned(),
            limit_of(summary, name).unwrap_or_else(|| "–".to_owned()),
            units::count(requests),
            units::count(limited.limited_requests),
            if waited { units::duration(mean) } else { "–".to_owned() },
        ]);
    }
    table
}

fn workloads(workloads: &[WorkloadOutcome]) -> Table {
    let columns = [
        "processes",
        "ran for",
        "I/Os",
        "failed",
        "amount",
        "bandwidth",
        "mean latency",
        "longest",
    ];
    let columns = columns.map(Column::right);
    let mut table = Table::new([Column::left("workload")].into_iter().chain(columns).collect());
    for load in workloads {
        table.push(vec![
            load.name.clone(),
            load.threads.len().to_string(),
            units::duration(load.seconds * 1e9),
            units::count(load.ios),
            units::count(load.errors),
            units::bytes(load.bytes),
            units::bandwidth(load.bytes_per_second),
            units::duration(load.mean_latency_ns as f64),
            units::duration(load.longest_latency_ns as f64),
        ]);
    }
    table
}

fn amounts(shared: &SharedOutcome) -> Markup {
    let bars = got(shared).map(|(name, _, service)| {
        let segment = Segment { name: String::new(), colour: 0, value: service.bytes as f64 };
        Bar { label: name.to_owned(), segments: vec![segment] }
    });
    Bars {
        title: "Service of each tenant".to_owned(),
        axis: Axis::new("Amount", Scale::FromZero, Quantity::Bytes),
        stacked: false,
        bars: bars.collect(),
    }
    .draw()
}

fn rates(workloads: &[WorkloadOutcome]) -> Markup {
    let line = |(number, load): (usize, &WorkloadOutcome)| {
        let samples = load.bytes_per_second_each_2s.iter().enumerate();
        Line {
            name: load.name.clone(),
            colour: number,
            stroke: Stroke::Thin,
            points: samples.map(|(at, rate)| ((at as f64 + 0.5) * SAMPLE, *rate)).collect(),
        }
    };
    Lines {
        title: format!(
            "Bandwidth of the host's workloads, in steps of {}",
            units::duration(SAMPLE)
        ),
        x: Axis::new("Virtual time since the workload began", Scale::Linear, Quantity::Time),
        y: Axis::new("Bandwidth", Scale::FromZero, Quantity::Bandwidth),
        lines: workloads.iter().enumerate().map(line).collect(),
    }
    .draw()
}
