//! Faults of drives, machines and guests: those of an experiment, and whether each can be.

mod course;
mod guests;
mod kinds;
mod machines;
mod networks;
mod space;
mod spec;
#[cfg(test)]
mod tests;
mod triggered;

use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_channel::{Begins, GuestFault, ScheduledGuestFault};
use stasis_config::{listed, Mistake};
use stasis_drive::{DriveFault, DriveFaultKind};
use stasis_media::MediumSpec;
use stasis_network::{NetworkFault, NetworkSpec, OutsideSpec};

use crate::names::missing;
use crate::triggers::{FaultTrigger, Trigger};
use crate::{DriveSpec, Experiment, ExperimentError, Interface, MachineSpec};

pub use kinds::MachineFailureKind;
use kinds::{FaultKind, GuestFaultKind, PAUSE};
pub use machines::{MachineFailure, MachinePause};
pub use space::FaultSpace;
use space::{Keep, Parts};
pub use spec::ScheduledFault;
use spec::MAX_FAULTS;

impl Experiment {
    /// The faults that come, each with its number.
    pub fn numbered(&self) -> impl Iterator<Item = (u16, &ScheduledFault)> {
        (0u16..).zip(&self.faults).filter(|(_, fault)| !fault.left_out)
    }

    /// Numbers the faults after those of `base`, of whose run this is a branch: the faults of
    /// `base` keep their numbers, also those that are left out here, and the others follow.
    ///
    /// # Errors
    /// If there are too many.
    pub fn number_faults_after(&mut self, base: &Self) -> Result<(), ExperimentError> {
        let mut own = std::mem::take(&mut self.faults);
        let mut all = base.faults.clone();
        for fault in &mut all {
            match own.iter().position(|other| other == fault) {
                Some(place) => drop(own.remove(place)),
                None => fault.left_out = true,
            }
        }
        all.append(&mut own);
        self.faults = all;
        if self.faults.len() > MAX_FAULTS {
            let count = self.faults.len();
            return Err(ExperimentError::Value(format!(
                "{count} faults with those of the run, but there can be {MAX_FAULTS} at most"
            )));
        }
        Ok(())
    }

    /// The faults of the drive named `name`.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn faults_of(&self, name: &str) -> Result<Vec<DriveFault>, Mistake> {
        self.faults_up_to(name, MAX_FAULTS)
    }

    /// Like [`Self::faults_of`], but of the faults up to `last`.
    fn faults_up_to(&self, name: &str, last: usize) -> Result<Vec<DriveFault>, Mistake> {
        let mut faults = Vec::new();
        for (number, fault) in self.numbered().filter(|(number, _)| usize::from(*number) <= last) {
            if fault.drive.as_deref() == Some(name) && fault.is_of_drive() {
                faults.push(fault.of_drive(number)?);
            }
        }
        Ok(faults)
    }

    /// Names of the drives with a model of their own, which faults can befall.
    fn faulty_drives(&self) -> impl Iterator<Item = &str> + Clone {
        let own = self.machine.several().iter().flat_map(|machine| &machine.drives);
        self.drives.iter().chain(own).filter_map(|drive| drive.name.as_deref())
    }

    /// Gives a fault without a drive the only one.
    pub(crate) fn settle_faults(&mut self) {
        let names: Vec<String> = self.faulty_drives().map(str::to_owned).collect();
        if let [only] = &names[..] {
            for fault in self.faults.iter_mut().filter(|fault| fault.is_of_drive()) {
                fault.drive.get_or_insert_with(|| only.clone());
            }
        }
    }

    /// Draws the faults of the space, which join those of the schedule; there is no space then.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(crate) fn draw_faults(&mut self) -> Result<(), Mistake> {
        let Some(space) = self.fault_space.take() else { return Ok(()) };
        let (parts, seed) = (self.parts(), self.seed);
        let mut take = |fault: ScheduledFault, keep| {
            if keep == Keep::No {
                return self.check_fault(&fault, self.faults.len());
            }
            self.faults.push(fault.clone());
            let checked = self.check_fault(&fault, self.faults.len() - 1);
            if checked.is_err() {
                self.faults.pop();
            }
            checked
        };
        let drawn = space.draw(seed, &parts, &mut take);
        drawn.map_err(|mistake| mistake.said_of("fault-space").inside("fault-space"))?;
        self.check_count().map_err(|message| Mistake::at("draws", message).inside("fault-space"))
    }

    /// The faults of a space, each once for each machine or drive of this finished experiment that it
    /// can befall, without their times.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn candidates(&self, space: &FaultSpace) -> Result<Vec<ScheduledFault>, Mistake> {
        let mut take = |fault: ScheduledFault, _| self.check_fault(&fault, self.faults.len());
        let within = space.within.unwrap_or(0);
        let all = space.candidates(&self.parts(), within, &mut take);
        let all = all.map_err(|mistake| mistake.said_of("fault-space").inside("fault-space"))?;
        Ok(all.into_iter().flatten().collect())
    }

    fn parts(&self) -> Parts {
        Parts {
            machines: self.machine.all().iter().map(|machine| machine.name.clone()).collect(),
            drives: self.faulty_drives().map(str::to_owned).collect(),
        }
    }

    fn check_count(&self) -> Result<(), String> {
        let count = self.faults.len();
        match count > MAX_FAULTS {
            true => Err(format!("{count} faults, but there can be {MAX_FAULTS} at most")),
            false => Ok(()),
        }
    }

    pub(crate) fn check_faults(&self) -> Result<(), Mistake> {
        self.check_count().map_err(|message| Mistake::at(MAX_FAULTS, message).inside("fault"))?;
        for (number, fault) in self.faults.iter().enumerate() {
            self.check_fault(fault, number).map_err(|mistake| {
                mistake.said_of(format_args!("fault {number}")).inside(number).inside("fault")
            })?;
        }
        Ok(())
    }

    /// Checks a fault beside those up to `number`, which is its own, or their count.
    fn check_fault(&self, fault: &ScheduledFault, number: usize) -> Result<(), Mistake> {
        self.check_trigger(fault)?;
        if fault.is_of_machine() {
            return self.check_machine_fault(fault, number);
        }
        if !fault.is_of_drive() {
            return self.check_network_fault(fault);
        }
        fault.of_drive(0)?;
        let Some(name) = &fault.drive else {
            let message = match self.faulty_drives().next() {
                None => "there is no drive that it can befall".into(),
                Some(_) => format!("give it a drive: there are {}", listed(self.faulty_drives())),
            };
            return Err(Mistake::at("drive", message));
        };
        if !self.faulty_drives().any(|other| other == name) {
            return Err(Mistake::at("drive", missing("drive", name, self.faulty_drives())));
        }
        if fault.is_triggered() {
            self.check_own_drive(name, "drive")?;
        }
        if let FaultKind::Drive(kind) = fault.known()? {
            if kind.is_of_path() {
                self.check_path(name, kind, number)?;
            }
            if kind.is_of_namespace() {
                let checked = self.check_namespace_of(name, &fault.of_drive(0)?);
                checked.map_err(|message| Mistake::at("namespace", message))?;
            }
            if kind.delivery().is_some() {
                self.check_controller_of(name, kind)?;
            }
        }
        Ok(())
    }
}

impl Experiment {
    /// The triggers of faults.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn triggers(&self) -> Result<Vec<FaultTrigger>, Mistake> {
        self.numbered().filter_map(|(number, fault)| fault.trigger(number).transpose()).collect()
    }

    fn check_trigger(&self, fault: &ScheduledFault) -> Result<(), Mistake> {
        let trigger = fault.trigger(0)?.map(|trigger| trigger.trigger);
        let machines = self.machine.all();
        let names = || machines.iter().filter_map(|machine| machine.name.as_deref());
        match trigger {
            Some(Trigger::Io { drive, .. }) => self.check_own_drive(&drive, "at-io"),
            Some(Trigger::Packet { network, .. }) => {
                let names = || self.networks.iter().filter_map(|network| network.name.as_deref());
                let message = match names().next() {
                    None => "at-packet needs a network, and there is none".into(),
                    Some(_) if names().any(|name| name == network) => return Ok(()),
                    Some(_) => missing("network", &network, names()),
                };
                Err(Mistake::at("at-packet", message))
            }
            Some(Trigger::Output { machine: Some(name), .. })
                if !names().any(|other| other == name) =>
            {
                let message = match names().next() {
                    None => "there is one machine, without a name: leave output-of out".into(),
                    Some(_) => missing("machine", &name, names()),
                };
                Err(Mistake::at("output-of", message))
            }
            Some(Trigger::Asked { .. }) if fault.name.is_some() => {
                let same = |other: &&ScheduledFault| other.name == fault.name;
                match self.faults.iter().filter(same).count() {
                    0 | 1 => Ok(()),
                    _ => {
                        let name = fault.name.as_deref().unwrap_or_default();
                        let message = format!("another fault has the name `{name}`, too");
                        Err(Mistake::at("name", message))
                    }
                }
            }
            _ => Ok(()),
        }
    }

    /// Refuses a drive that does not belong to a machine alone; `key` names it.
    fn check_own_drive(&self, name: &str, key: &'static str) -> Result<(), Mistake> {
        self.check_own(name).map_err(|message| Mistake::at(key, message))
    }

    fn check_own(&self, name: &str) -> Result<(), String> {
        let several = self.machine.several();
        let own = |drive: &DriveSpec| drive.name.as_deref() == Some(name);
        if several.iter().flat_map(|machine| &machine.drives).any(own) {
            return Ok(());
        }
        if let Some(drive) = self.drives.iter().find(|drive| own(drive)) {
            let shared = !several.is_empty()
                || drive.scheduler.is_some()
                || !drive.limits.is_none()
                || !self.workloads.is_empty();
            return match shared {
                false => Ok(()),
                true => Err(format!(
                    "drive {name} is shared, or its scheduler is the host's: triggers are for a \
                     drive that is a machine's own"
                )),
            };
        }
        let own = several.iter().flat_map(|machine| &machine.drives);
        let names = self.drives.iter().chain(own).filter_map(|drive| drive.name.as_deref());
        match names.clone().next() {
            None => Err(format!("there is no drive `{name}`: no machine has one")),
            Some(_) => Err(missing("drive", name, names)),
        }
    }

    /// The drive of that name, of [`Experiment::faulty_drives`].
    fn faulty_drive(&self, name: &str) -> Option<&DriveSpec> {
        let of_machines = self.machine.all().iter().flat_map(|machine| &machine.drives);
        self.drives.iter().chain(of_machines).find(|drive| drive.name.as_deref() == Some(name))
    }

    /// Refuses a drive without an NVMe controller of one machine in front of it.
    fn check_controller_of(&self, name: &str, kind: DriveFaultKind) -> Result<(), Mistake> {
        self.check_own_drive(name, "drive")?;
        let Some(drive) = self.faulty_drive(name) else { return Ok(()) };
        let kind = kind.name();
        if drive.interface != Interface::Nvme {
            let message = format!("{kind} is of an NVMe controller, and drive {name} has none");
            return Err(Mistake::at("kind", message));
        }
        if matches!(drive.medium, MediumSpec::Qcow2 { .. }) {
            let message = format!(
                "{kind} is of a controller, and the controller of drive {name} is before an image: \
                 take a medium `ram` or `file`"
            );
            return Err(Mistake::at("kind", message));
        }
        Ok(())
    }

    /// Refuses a namespace that the drive does not have, and a resize of a namespace that has one
    /// size only.
    fn check_namespace_of(&self, name: &str, fault: &DriveFault) -> Result<(), String> {
        let Some(drive) = self.faulty_drive(name) else { return Ok(()) };
        let (nsid, count) = (fault.namespace, drive.namespace_count());
        if !(1..=count).contains(&nsid) {
            return Err(format!(
                "namespace is {nsid}, but must be one of the drive's, 1 to {count}"
            ));
        }
        if fault.kind == DriveFaultKind::NamespaceResized && !drive.can_resize(nsid) {
            return Err(format!(
                "namespace {nsid} of drive {name} cannot have another size: it has zones, pairs, \
                 chunks or an endurance group"
            ));
        }
        Ok(())
    }

    /// Refuses a drive that cannot leave its bus, or has one path only whose access cannot change,
    /// and faults of a path that meet.
    fn check_path(&self, name: &str, kind: DriveFaultKind, number: usize) -> Result<(), Mistake> {
        self.check_own_drive(name, "drive")?;
        let machines = self.machine.all();
        let own = |drive: &DriveSpec| drive.name.as_deref() == Some(name);
        let in_machine = |machine: &&MachineSpec| machine.drives.iter().any(own);
        let machine = machines.iter().find(in_machine).or(machines.first());
        let drive = self.faulty_drive(name);
        if drive.is_some_and(|drive| drive.interface != Interface::Nvme) {
            let message = match kind {
                DriveFaultKind::Gone => {
                    format!("drive {name} has no slot that it can leave: it is no NVMe drive")
                }
                _ => format!("{} is of an NVMe drive, and {name} is none", kind.name()),
            };
            return Err(Mistake::at("kind", message));
        }
        if machine.is_some_and(|machine| machine.rewind) {
            return Err("a machine with rewind cannot have faults".into());
        }
        // Later ones are checked in their turn, and are at fault if they meet it.
        let all = self.faults_up_to(name, number)?;
        let controllers = drive.map_or(1, |drive| drive.controllers);
        let access = !kind.is_of_namespace() && kind != DriveFaultKind::Gone;
        if controllers == 1 && access {
            let message = format!(
                "{} is of a drive with several controllers: say `controllers = 2` at drive {name}",
                kind.name()
            );
            return Err(Mistake::at("kind", message));
        }
        if let Some(controller) = all.iter().filter_map(|fault| fault.controller).max() {
            if !(1..=controllers).contains(&controller) {
                let message = format!(
                    "controller is {controller}, but must be one of the drive's, 1 to {controllers}"
                );
                return Err(Mistake::at("controller", message));
            }
        }
        let mut paths = all.iter().filter(|fault| fault.kind.is_of_path() && !fault.triggered);
        while let Some(one) = paths.next() {
            let meets = |other: &&DriveFault| {
                let alike = match (one.kind.is_of_namespace(), other.kind.is_of_namespace()) {
                    (false, false) => true,
                    (true, true) => (one.kind, one.namespace) == (other.kind, other.namespace),
                    _ => false,
                };
                alike
                    && one.controller.is_none_or(|controller| other.is_of(controller))
                    && one.begin < other.end.unwrap_or(Nanos::MAX)
                    && other.begin < one.end.unwrap_or(Nanos::MAX)
            };
            if let Some(other) = paths.clone().find(meets) {
                let message = format!("it is during fault {}", other.number.min(one.number));
                return Err(Mistake::at("begin", message));
            }
        }
        Ok(())
    }

    /// Returns whether any of the faults waits for a guest that asks.
    pub fn is_asked_for_faults(&self) -> bool {
        self.numbered().any(|(_, fault)| fault.when.is_some())
    }
}

impl Experiment {
    /// The pauses of a machine.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn pauses_of(&self, machine: &MachineSpec) -> Result<Vec<MachinePause>, Mistake> {
        self.pauses_up_to(machine, MAX_FAULTS)
    }

    /// The pauses of a machine, of faults up to `last`.
    fn pauses_up_to(
        &self,
        machine: &MachineSpec,
        last: usize,
    ) -> Result<Vec<MachinePause>, Mistake> {
        let mut pauses: Vec<MachinePause> = Vec::new();
        for (number, fault) in self.numbered().filter(|(number, _)| usize::from(*number) <= last) {
            if fault.kind != PAUSE || fault.machine != machine.name {
                continue;
            }
            let pause = fault.pause(number);
            let meets = |other: &&MachinePause| {
                !pause.triggered
                    && !other.triggered
                    && pause.begin < other.end.unwrap_or(Nanos::MAX)
                    && other.begin < pause.end.unwrap_or(Nanos::MAX)
            };
            if let Some(other) = pauses.iter().find(meets) {
                let message = format!("it is during fault {}", other.number);
                return Err(Mistake::at("begin", message));
            }
            pauses.push(pause);
        }
        Ok(pauses)
    }

    /// The failures of a machine.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn failures_of(&self, machine: &MachineSpec) -> Result<Vec<MachineFailure>, Mistake> {
        let mut failures = Vec::new();
        for (number, fault) in self.numbered() {
            if let (true, FaultKind::Failure(kind)) =
                (fault.machine == machine.name && fault.is_of_machine(), fault.known()?)
            {
                failures.push(fault.failure(kind, number, self.seed));
            }
        }
        Ok(failures)
    }

    fn check_machine_fault(&self, fault: &ScheduledFault, number: usize) -> Result<(), Mistake> {
        let machines = self.machine.all();
        let names = || machines.iter().filter_map(|machine| machine.name.as_deref());
        let Some(machine) = machines.iter().find(|machine| machine.name == fault.machine) else {
            let message = match &fault.machine {
                None => format!("give it a machine: there are {}", listed(names())),
                Some(name) if names().next().is_none() => {
                    format!("there is no machine `{name}`: there is one, without a name: leave machine out")
                }
                Some(name) => missing("machine", name, names()),
            };
            return Err(Mistake::at("machine", message));
        };
        let kind = fault.known()?;
        if machine.rewind {
            return Err("a machine with rewind cannot have faults".into());
        }
        let FaultKind::Failure(failure) = kind else {
            if let FaultKind::Guest(kind) = kind {
                return self.check_guest_fault(machine, fault, kind);
            }
            if fault.end.is_none() && machine.wait {
                return Err("without an end its command never ends: give the pause an end, or \
                            the machine `wait = false`"
                    .into());
            }
            return self.pauses_up_to(machine, number).map(drop);
        };
        if fault.at.is_none() && !fault.is_triggered() {
            return Err("say when it happens: give it `at`, or a trigger: `at-io`, `at-packet`, \
                        `at-output` or `when`"
                .into());
        }
        if fault.failure(failure, 0, 0).restart.is_none() && machine.wait {
            return Err(
                "without a restart its command never ends: give the fault a `restart`, or \
                        the machine `wait = false`"
                    .into(),
            );
        }
        let drives = self.check_drives_of_failure(machine, failure);
        drives.map_err(|message| Mistake::at("kind", message))
    }

    /// Refuses drives that cannot fail with their machine.
    fn check_drives_of_failure(
        &self,
        machine: &MachineSpec,
        kind: MachineFailureKind,
    ) -> Result<(), String> {
        let alone = self.machine.several().is_empty();
        let drives = if alone { &self.drives } else { &machine.drives };
        let cut = kind == MachineFailureKind::PowerCut;
        for drive in drives {
            let name = drive.name.as_deref().unwrap_or_default();
            let shared = alone
                && (drive.scheduler.is_some()
                    || !drive.limits.is_none()
                    || !self.workloads.is_empty());
            let image = matches!(drive.medium, MediumSpec::Qcow2 { .. });
            let why = match () {
                () if cut && drive.has_random_write_areas() => {
                    "what a power cut leaves of its zones' random write areas is not modelled: take \
                     `zrwa` out"
                }
                () if cut && drive.has_zones() && image => {
                    "what a power cut leaves of zones on an image is not modelled: take a medium `ram` \
                     or `file`"
                }
                () if cut && drive.ocssd.is_some() => "it is an Open-Channel drive",
                () if drive.has_pairs() => "it has key-value pairs",
                () if cut && shared => {
                    "others share it, or its scheduler is the host's, and it keeps its power: take \
                     `reset`"
                }
                () => continue,
            };
            return Err(format!("drive {name} cannot fail with its machine: {why}"));
        }
        if let (true, Some(disk)) = (cut, machine.disks.first()) {
            let name = disk.name.as_deref().unwrap_or_default();
            return Err(format!(
                "disk {name} cannot lose its power with its machine: it lies on a shared drive, which \
                 keeps its own: take `reset`"
            ));
        }
        Ok(())
    }
}

impl Experiment {
    /// The faults inside a machine's guest.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn guest_faults_of(
        &self,
        machine: &MachineSpec,
    ) -> Result<Vec<ScheduledGuestFault>, Mistake> {
        let mut faults = Vec::new();
        for (number, fault) in self.numbered() {
            if fault.machine != machine.name || !fault.is_of_machine() {
                continue;
            }
            if let FaultKind::Guest(kind) = fault.known()? {
                let begins = self.begins(fault, machine)?;
                faults.push(fault.scheduled(fault.in_guest(kind)?, begins, number, self.seed));
            }
        }
        Ok(faults)
    }

    /// The faults of a network.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn network_faults_of(&self, network: &NetworkSpec) -> Result<Vec<NetworkFault>, Mistake> {
        let mut faults = Vec::new();
        for (number, fault) in self.numbered() {
            if let FaultKind::Network(kind) = fault.known()? {
                faults.extend(fault.on_network(kind, network, number, self.seed)?);
            }
        }
        Ok(faults)
    }

    fn check_network_fault(&self, fault: &ScheduledFault) -> Result<(), Mistake> {
        let FaultKind::Network(kind) = fault.known()? else { return Ok(()) };
        if self.networks.is_empty() {
            let message = format!(
                "{} is of frames between machines, and no [[network]] joins any",
                kind.name()
            );
            return Err(Mistake::at("kind", message));
        }
        let names = || self.networks.iter().filter_map(|network| network.name.as_deref());
        if let Some(name) =
            fault.network.as_deref().filter(|name| !names().any(|other| other == *name))
        {
            return Err(Mistake::at("network", missing("network", name, names())));
        }
        let machines = self.machine.all();
        let outside = self.networks.iter().flat_map(|network| &network.outside);
        let machine = machines.iter().filter_map(|machine| machine.name.as_deref());
        let all = || machine.clone().chain(outside.clone().map(OutsideSpec::name));
        for (key, names) in [("machines", &fault.machines), ("peers", &fault.peers)] {
            let unknown = |name: &String| !all().any(|other| other == name);
            if let Some(at) = names.iter().position(unknown) {
                return Err(Mistake::at(at, missing("machine", &names[at], all())).inside(key));
            }
        }
        if fault.machines.is_empty() {
            let all = listed(all());
            let message = format!("say whom it befalls: give it `machines`: there are {all}");
            return Err(Mistake::at("machines", message));
        }
        let mut any = false;
        for network in &self.networks {
            any |= fault.on_network(kind, network, 0, 0)?.is_some();
        }
        match any {
            true => Ok(()),
            false => {
                let message = "no network joins its machines with any of its peers";
                Err(Mistake::at("machines", message))
            }
        }
    }

    /// The beginning of a fault inside a machine's guest, as its agent sees it.
    fn begins(&self, fault: &ScheduledFault, machine: &MachineSpec) -> Result<Begins, Mistake> {
        let alone = self.machine.several().is_empty();
        Ok(match fault.trigger(0)?.map(|trigger| trigger.trigger) {
            None => Begins::InTime,
            Some(Trigger::Asked { .. }) if alone => Begins::AsAsked,
            Some(Trigger::Output { .. }) if alone => Begins::AtOutput,
            Some(Trigger::Output { machine: speaker, .. })
                if speaker.is_some() && speaker == machine.name =>
            {
                Begins::AtOutput
            }
            Some(_) => Begins::Elsewhere,
        })
    }

    /// Refuses a fault that this machine's guest cannot have.
    fn check_guest_fault(
        &self,
        machine: &MachineSpec,
        fault: &ScheduledFault,
        kind: GuestFaultKind,
    ) -> Result<(), Mistake> {
        let lasts = kind.takes("begin");
        if !lasts && fault.at.is_none() && !fault.is_triggered() {
            return Err("say when it happens: give it `at`, or a trigger: `at-io`, `at-packet`, \
                        `at-output` or `when`"
                .into());
        }
        match fault.in_guest(kind)? {
            GuestFault::MemoryShortage { bytes } if bytes >= machine.memory => {
                let [bytes, memory] = [bytes, machine.memory].map(units::format_size);
                let message = format!("memory is {bytes}, but the machine has {memory} in all");
                Err(Mistake::at("memory", message))
            }
            _ => Ok(()),
        }
    }
}
