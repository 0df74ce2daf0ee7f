//! A host workload on a shared drive, and its service.

use stasis_block::clock::{Nanos, SECOND};
use stasis_block::{Fate, Operation, Request, Status};
use stasis_run_events::{Limited, Service, WorkloadOutcome};
use stasis_scheduler::QueueSpec;
use stasis_workload::{Io, JobError, JobFile, Load, Workload};

use super::region::Region;
use crate::{Done, Tenant};

/// Duration of each sample of the rate (as published: vIrtical D3.6, 8).
const SAMPLE: Nanos = 2 * SECOND;
/// Samples that are kept: more than a day.
const SAMPLES: usize = 65_536;

/// A host workload: the jobs of a fio job file, each thread a tenant.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// Its name in the results.
    pub name: String,
    /// Jobs of the workload.
    pub jobs: JobFile,
    /// Region within the drive.
    pub region: Region,
    /// Queue of each of its threads at the scheduler.
    pub queue: QueueSpec,
    /// Weight of the group of its threads, which share the service, if they are a group.
    pub group: Option<u32>,
    /// Seed of its random offsets.
    pub seed: u64,
}

pub(super) struct HostLoad {
    name: String,
    load: Load,
    threads: Vec<Tenant>,
    wanted: u32,
    offset: u64,
    weight: u32,
    group: Option<u32>,
    started: Option<Nanos>,
    broken: bool,
    ios: u64,
    bytes: u64,
    errors: u64,
    latency: u128,
    longest: Nanos,
    // Bytes of each sample's time.
    samples: Vec<u64>,
    // Buffers that are free.
    buffers: Vec<Vec<u8>>,
}

impl HostLoad {
    pub(super) fn new(spec: &LoadSpec) -> Result<Self, JobError> {
        let wanted = spec.jobs.jobs.iter().map(|job| job.numjobs).sum();
        Ok(Self {
            name: spec.name.clone(),
            load: Load::new(&spec.jobs, spec.region.length, spec.seed, 0)?,
            threads: Vec::new(),
            wanted,
            offset: spec.region.offset,
            weight: spec.queue.effective_weight(),
            group: spec.group,
            started: None,
            broken: false,
            ios: 0,
            bytes: 0,
            errors: 0,
            latency: 0,
            longest: 0,
            samples: Vec::new(),
            buffers: Vec::new(),
        })
    }

    pub(super) fn threads_wanted(&self) -> u32 {
        self.wanted
    }

    pub(super) fn add_thread(&mut self, tenant: Tenant) {
        self.threads.push(tenant);
    }

    /// Sets the weights of the load and of its group.
    pub(super) fn reweigh(&mut self, weight: u32, group: Option<u32>) {
        (self.weight, self.group) = (weight, group);
    }

    /// Returns the load's threads, each with a name.
    pub(super) fn tenants(&self) -> impl Iterator<Item = (Tenant, String)> + '_ {
        self.threads.iter().enumerate().map(|(number, &tenant)| {
            let alone = self.threads.len() == 1;
            let name = match alone {
                true => self.name.clone(),
                false => format!("{}, thread {}", self.name, number + 1),
            };
            (tenant, name)
        })
    }

    pub(super) fn start(&mut self, now: Nanos) {
        self.started.get_or_insert(now);
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        let started = self.started.filter(|_| !self.broken)?;
        Some(started.saturating_add(self.load.next_at()?))
    }

    /// The next request that is due now, with its tenant.
    pub(super) fn take(&mut self) -> Option<(Tenant, Request)> {
        let Io { thread, command, .. } = match self.load.take() {
            Ok(io) => io?,
            Err(_) => {
                // A job's I/Os come from no file; were it so, they end here.
                self.broken = true;
                return None;
            }
        };
        let tenant = *self.threads.get(usize::from(thread))?;
        let mut command = command;
        if command.operation != Operation::Flush {
            command.offset = command.offset.saturating_add(self.offset);
        }
        let moves = matches!(command.operation, Operation::Read | Operation::Write);
        let mut data = Vec::new();
        if moves {
            data = self.buffers.pop().unwrap_or_default();
            data.resize(usize::try_from(command.length).unwrap_or(usize::MAX), 0);
        }
        let request = Request::new(u32::from(thread), command, data);
        Some((tenant, Request { queue: thread, ..request }))
    }

    pub(super) fn completed(&mut self, done: Done) {
        let Done { queue, command, status, data, submit, at, .. } = done;
        if data.capacity() > 0 {
            self.buffers.push(data);
        }
        let started = self.started.unwrap_or(0);
        let io = Io { thread: queue, early: false, number: 0, command };
        let fate = match status {
            Status::Ok => Fate::Done,
            status => Fate::failed(status),
        };
        self.load.complete(at.saturating_sub(started), &io, fate);
        let latency = at.saturating_sub(submit);
        (self.ios, self.latency) = (self.ios + 1, self.latency + u128::from(latency));
        self.longest = self.longest.max(latency);
        if status != Status::Ok {
            self.errors += 1;
            return;
        }
        self.bytes += command.length;
        let sample = (at.saturating_sub(started) / SAMPLE) as usize;
        if sample < SAMPLES {
            if self.samples.len() <= sample {
                self.samples.resize(sample + 1, 0);
            }
            self.samples[sample] += command.length;
        }
    }

    /// `got` and `limited`: what the scheduler counted for a thread, and for all that share its
    /// limits.
    pub(super) fn report(
        &self,
        now: Nanos,
        got: impl Fn(Tenant) -> Service,
        limited: impl Fn(Tenant) -> Limited,
    ) -> WorkloadOutcome {
        let started = self.started.unwrap_or(now);
        let time = now.saturating_sub(started);
        // The last sample is not over: it would be too small.
        let whole = (time / SAMPLE) as usize;
        let rate = |&bytes: &u64| bytes as f64 / (SAMPLE as f64 / 1e9);
        let mean = self.latency.checked_div(u128::from(self.ios)).unwrap_or(0);
        WorkloadOutcome {
            name: self.name.clone(),
            weight: self.weight,
            group_weight: self.group,
            seconds: time as f64 / 1e9,
            ios: self.ios,
            bytes: self.bytes,
            errors: self.errors,
            bytes_per_second: if time > 0 { self.bytes as f64 * 1e9 / time as f64 } else { 0.0 },
            mean_latency_ns: mean as u64,
            longest_latency_ns: self.longest,
            limited: self.threads.first().map(|&tenant| limited(tenant)).unwrap_or_default(),
            threads: self.threads.iter().map(|&tenant| got(tenant)).collect(),
            bytes_per_second_each_2s: self.samples.iter().take(whole).map(rate).collect(),
        }
    }
}
