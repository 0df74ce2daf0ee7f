//! A fault as a user writes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Operation};
use stasis_config::{guess, listed, Mistake};
use stasis_drive::{CutChoice, DriveFault, DriveFaultKind, MAX_NAMED};
use stasis_nvme::MAX_NAMESPACES;

use super::kinds::{kinds, refusal, FaultKind};
use crate::drive::MAX_CONTROLLERS;
use crate::namespace::STEP;
use crate::triggers::ASKED;

/// Limit on the faults of an experiment.
pub(super) const MAX_FAULTS: usize = 1024;

/// A fault of a drive or a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ScheduledFault {
    /// Kind of the fault.
    #[schemars(extend("enum" = kinds().collect::<Vec<_>>()))]
    pub kind: String,
    /// Name by which a guest asks for it.
    pub name: Option<String>,
    /// Drive that it befalls; by default the only one.
    pub drive: Option<String>,
    /// Controller of the drive that is `gone`, whose namespaces are inaccessible or not optimized, or
    /// from which one is detached, counted from 1; by default all.
    #[schemars(range(min = 1, max = MAX_CONTROLLERS))]
    pub controller: Option<u16>,
    /// Namespace of the drive that is detached or resized, counted from 1; by default the first.
    #[schemars(range(min = 1, max = MAX_NAMESPACES))]
    pub namespace: Option<u32>,
    /// Size that a `namespace-resized` has meanwhile.
    #[serde(with = "units::size_option")]
    pub size: Option<u64>,
    /// Machine that pauses or fails, or in whose guest it happens; by default the only one.
    pub machine: Option<String>,
    /// Time at which it happens, in virtual time after the commands' start.
    #[serde(with = "units::duration_option")]
    pub at: Option<Nanos>,
    /// `DRIVE:NUMBER`: it begins as this drive of a machine is given its command of this number,
    /// its `order` in the results' I/Os.
    pub at_io: Option<String>,
    /// `NETWORK:NUMBER`: it begins as a machine sends this network's frame of this number, counted
    /// from 0 since the commands' start.
    pub at_packet: Option<String>,
    /// Regular expression: it begins as a command has written a line that matches.
    pub at_output: Option<String>,
    /// Machine whose output `at-output` looks at; by default all.
    pub output_of: Option<String>,
    /// `asked`: it begins whenever a guest asks for it by `stasis-fault`.
    #[schemars(extend("enum" = [ASKED]))]
    pub when: Option<String>,
    /// Limit on how much later than `at` or its trigger it happens: the time is drawn by the seed.
    #[serde(with = "units::duration_option")]
    pub within: Option<Nanos>,
    /// After what time the machine boots again, on its drives as they are left; by default a
    /// machine that is reset does at once, and any other never.
    #[serde(with = "units::duration_option")]
    pub restart: Option<Nanos>,
    /// The state in which a `power-cut` leaves its machine's drives; by default the seed draws it.
    pub leaves: Option<CutChoice>,
    /// The changes that a `power-cut` loses of each of its machine's drives, in place of `leaves`: numbers from
    /// 0 to 63, 0 being the newest of those that can be lost.
    pub loses: Vec<u8>,
    /// Time at which it begins, in virtual time after the commands' start or its trigger; by
    /// default at once.
    #[serde(with = "units::duration_option")]
    pub begin: Option<Nanos>,
    /// Time at which it ends, in virtual time after the commands' start or its trigger; by default
    /// never.
    #[serde(with = "units::duration_option")]
    pub end: Option<Nanos>,
    /// Share of the commands that it befalls, 0 to 1; by default all that it concerns.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rate: Option<f64>,
    /// The first command that it can befall, by its `order` in the results' I/Os.
    pub first: Option<u64>,
    /// Limit on how often it happens; of `bit-rot` the number of sectors, by default 1; of a
    /// machine's fault at how many lines of output, by default 1.
    pub times: Option<u64>,
    /// First byte of the region that it befalls; by default the drive's first.
    #[serde(with = "units::size_option")]
    pub offset: Option<u64>,
    /// Length of that region; by default to the drive's end.
    #[serde(with = "units::size_option")]
    pub length: Option<u64>,
    /// Operations that `slow`, `stall` and the faults of a controller befall; by default all.
    pub operations: Vec<Operation>,
    /// Factor of `slow` on a command's time, at least 1.
    #[schemars(range(min = 1.0))]
    pub factor: Option<f64>,
    /// Time that `slow` adds to a command's.
    #[serde(with = "units::duration_option")]
    pub delay: Option<Nanos>,
    /// Room that a `full` drive has, including what was written before; by default what is taken as
    /// the fault begins.
    #[serde(with = "units::size_option")]
    pub space: Option<u64>,
    /// Name of the process that `kill` kills: its program's, or its own.
    pub process: Option<String>,
    /// Memory that `memory-shortage` takes from the guest.
    #[serde(with = "units::size_option")]
    pub memory: Option<u64>,
    /// Distance by which `clock-jump` moves the guest's real-time clock, as `5s` or `-5s`.
    pub by: Option<String>,
    /// By how many parts per million `clock-drift` makes the guest's clocks faster, or slower.
    pub ppm: Option<i32>,
    /// Machines that a `partition` cuts off from their `peers`, or whose frames `slow-network`
    /// delays.
    pub machines: Vec<String>,
    /// Machines on the other side; by default all others of the network.
    pub peers: Vec<String>,
    /// Network that it befalls; by default each that the machines are on.
    pub network: Option<String>,
    /// True if frames from `machines` are befallen only, and not those to them.
    pub one_way: bool,
    /// True if it does not come, and only keeps the numbers of the others what they were.
    #[serde(skip)]
    #[schemars(skip)]
    pub left_out: bool,
}

impl ScheduledFault {
    /// Returns the fault's kind, if it is known.
    pub(super) fn kind(&self) -> Option<FaultKind> {
        FaultKind::all().find(|kind| kind.name() == self.kind)
    }

    /// Returns whether a machine is befallen, or its guest.
    pub(crate) fn is_of_machine(&self) -> bool {
        matches!(self.kind(), Some(FaultKind::Pause | FaultKind::Failure(_) | FaultKind::Guest(_)))
    }

    /// Returns whether a drive is befallen; so is one of an unknown kind.
    pub(crate) fn is_of_drive(&self) -> bool {
        matches!(self.kind(), None | Some(FaultKind::Drive(_)))
    }

    /// The drive, the machine, or the machines of a network that are befallen; empty if they are
    /// not named.
    pub(super) fn named_target(&self) -> String {
        match (self.is_of_drive(), self.is_of_machine()) {
            (true, _) => self.drive.clone().unwrap_or_default(),
            (_, true) => self.machine.clone().unwrap_or_default(),
            _ => self.machines.join(","),
        }
    }

    /// The drive, the machine, or the machines of a network that are befallen.
    pub fn target(&self) -> String {
        let named = self.named_target();
        if named.is_empty() {
            "machine".to_owned()
        } else {
            named
        }
    }

    /// Returns the fault's kind, and checks that all keys have an effect.
    pub(super) fn known(&self) -> Result<FaultKind, Mistake> {
        let kind = FaultKind::all().find(|kind| kind.name() == self.kind).ok_or_else(|| {
            let (guess, all) = (guess(&self.kind, kinds()), listed(kinds()));
            let message = match self.kind.is_empty() {
                true => format!("it has no kind; there are {all}"),
                false => format!("unknown kind `{}`; {guess}there are {all}", self.kind),
            };
            Mistake::at("kind", message)
        })?;
        if let Some(key) = self.given().find(|key| !kind.takes(key)) {
            return Err(Mistake::at(key, refusal(key, kind)));
        }
        if let Some(number) = self.loses.iter().find(|number| **number >= MAX_NAMED) {
            let message = format!("loses has {number}, but its numbers must be below {MAX_NAMED}");
            return Err(Mistake::at("loses", message));
        }
        if let (Some(_), false) = (self.leaves, self.loses.is_empty()) {
            let message = "leaves and loses are given, but one of them says what a cut leaves";
            return Err(Mistake::at("loses", message));
        }
        let span = units::check_span(self.begin, self.end);
        span.map_err(|message| Mistake::at("end", message))?;
        Ok(kind)
    }

    /// The changes that it loses, a bit each.
    pub(super) fn lost(&self) -> u64 {
        let bits = self.loses.iter().filter_map(|number| 1u64.checked_shl(u32::from(*number)));
        bits.fold(0, |mask, bit| mask | bit)
    }

    /// Keys that are given, besides its kind.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("name", self.name.is_some()),
            ("at-io", self.at_io.is_some()),
            ("at-packet", self.at_packet.is_some()),
            ("at-output", self.at_output.is_some()),
            ("output-of", self.output_of.is_some()),
            ("when", self.when.is_some()),
            ("drive", self.drive.is_some()),
            ("machine", self.machine.is_some()),
            ("at", self.at.is_some()),
            ("within", self.within.is_some()),
            ("restart", self.restart.is_some()),
            ("leaves", self.leaves.is_some()),
            ("loses", !self.loses.is_empty()),
            ("begin", self.begin.is_some()),
            ("end", self.end.is_some()),
            ("rate", self.rate.is_some()),
            ("first", self.first.is_some()),
            ("times", self.times.is_some()),
            ("offset", self.offset.is_some()),
            ("length", self.length.is_some()),
            ("operations", !self.operations.is_empty()),
            ("factor", self.factor.is_some()),
            ("delay", self.delay.is_some()),
            ("space", self.space.is_some()),
            ("process", self.process.is_some()),
            ("memory", self.memory.is_some()),
            ("by", self.by.is_some()),
            ("ppm", self.ppm.is_some()),
            ("machines", !self.machines.is_empty()),
            ("peers", !self.peers.is_empty()),
            ("network", self.network.is_some()),
            ("controller", self.controller.is_some()),
            ("namespace", self.namespace.is_some()),
            ("size", self.size.is_some()),
            ("one-way", self.one_way),
        ]
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
    }

    /// The fault of a drive that it describes; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn of_drive(&self, number: u16) -> Result<DriveFault, Mistake> {
        let FaultKind::Drive(kind) = self.known()? else {
            let message = format!("the kind `{}` is of a machine", self.kind);
            return Err(Mistake::at("kind", message));
        };
        self.check(kind)?;
        let usual = DriveFault::new(number, kind);
        Ok(DriveFault {
            begin: self.begin.unwrap_or(usual.begin),
            end: self.end,
            rate: self.rate.unwrap_or(usual.rate),
            first: self.first.unwrap_or(usual.first),
            times: self.times,
            offset: self.offset.unwrap_or(usual.offset),
            length: self.length,
            operations: self.operations.clone(),
            factor: self.factor.unwrap_or(usual.factor),
            delay: self.delay.unwrap_or(usual.delay),
            space: self.space,
            triggered: self.is_triggered(),
            controller: self.controller,
            namespace: self.namespace.unwrap_or(usual.namespace),
            size: self.size.unwrap_or(usual.size),
            ..usual
        })
    }

    pub(super) fn check(&self, kind: DriveFaultKind) -> Result<(), Mistake> {
        use DriveFaultKind::{BitRot, NamespaceResized, Slow};
        if kind == Slow && self.factor.is_none() && self.delay.is_none() {
            return Err(Mistake::at("kind", "slow needs factor or delay"));
        }
        if kind == NamespaceResized && self.size.is_none() {
            return Err(Mistake::at("kind", "namespace-resized needs a size"));
        }
        if let Some(size) = self.size.filter(|size| *size == 0 || size % STEP != 0) {
            let message = format!("size is {size}, but must be a multiple of {STEP} bytes");
            return Err(Mistake::at("size", message));
        }
        if let Some(rate) = self.rate.filter(|rate| !(0.0..=1.0).contains(rate)) {
            return Err(Mistake::at("rate", format!("rate is {rate}, but must be 0 to 1")));
        }
        if let Some(factor) = self.factor.filter(|factor| !(1.0..=1e9).contains(factor)) {
            let message = format!("factor is {factor}, but must be 1 to 1000000000");
            return Err(Mistake::at("factor", message));
        }
        if let Some(times) = self.times.filter(|times| kind == BitRot && *times > MAX_SECTORS) {
            let message = format!("times is {times}, but of bit-rot at most {MAX_SECTORS}");
            return Err(Mistake::at("times", message));
        }
        if self.length == Some(0) {
            return Err(Mistake::at("length", "length is 0, but must be at least one byte"));
        }
        Ok(())
    }
}

/// Limit on the sectors of a `bit-rot`.
const MAX_SECTORS: u64 = stasis_drive::faults::MAX_ROTTEN;

impl ScheduledFault {
    /// Returns whether something else than time brings it about.
    pub(super) fn is_triggered(&self) -> bool {
        self.at_io.is_some()
            || self.at_packet.is_some()
            || self.at_output.is_some()
            || self.when.is_some()
    }
}
