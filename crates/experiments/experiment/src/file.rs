//! The experiment file.

use std::path::Path;

use stasis_block::{units, MAX_DRIVES};
use stasis_config::{guess, Mistake, Step};
use stasis_results::thresholds::Threshold;

use crate::compose;
use crate::expectation;
use crate::machine::GUEST_SCHEDULERS;
use crate::names::{check_name, once, placed};
use crate::{DriveSpec, Experiment, ExperimentError, MachineSpec, Source};

/// Minimum memory of a guest (bytes): its kernel and userland with room to work.
const MIN_MEMORY: u64 = 192 << 20;

/// Limit on all memory buffers of a machine's controllers (bytes), which lie in its addresses for
/// devices below 4 GiB, each at a multiple of its size.
const MAX_MEMORY_BUFFERS: u64 = 256 << 20;

impl Experiment {
    /// Reads an experiment file, or a Compose file as one.
    ///
    /// # Errors
    /// Returns the place, the value found, the allowed ones and the nearest.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        if compose::is_one(path) {
            let (shown, imported) = compose::text(path)?;
            let experiment = Self::of_text(&shown, &imported.experiment)?;
            return Ok(Self { notes: imported.notes, ..experiment });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| ExperimentError::Read { path: path.to_owned(), source })?;
        Self::of_text(path, &text)
    }

    /// The experiment that is the text of the file at `path`.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<Self, ExperimentError> {
        let wrong = |message: String| ExperimentError::Content { path: path.to_owned(), message };
        let (mut experiment, places) = stasis_config::read_placed::<Self>(text).map_err(|error| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match is_fio_job(path, text) {
                true => wrong(format!(
                    "this is a job file of fio: `stasis sim MODEL --workload {}` drives a model by it, and \
                     `stasis run --file {} -- fio {name}` runs fio in a guest",
                    path.display(),
                    path.display()
                )),
                false => ExperimentError::File { path: path.to_owned(), error },
            }
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        experiment.guest.anchor(folder);
        for machine in experiment.machine.each_mut() {
            crate::container::anchor(machine.container.image.as_mut(), folder);
        }
        for port in experiment.networks.iter_mut().flat_map(|network| &mut network.outside) {
            // An empty one is refused later.
            if !port.socket.as_os_str().is_empty() {
                port.socket = folder.join(&port.socket);
            }
        }
        experiment.source = Source::of(path, places, experiment.table());
        experiment.check_drives().map_err(|mistake| experiment.error(mistake))?;
        Ok(experiment)
    }

    /// Checks each drive apart.
    fn check_drives(&self) -> Result<(), Mistake> {
        for (index, drive) in self.drives.iter().enumerate() {
            let with_drive = |mistake: Mistake| mistake.said_of(format_args!("drive {index}"));
            drive.check().map_err(|mistake| with_drive(mistake).inside(index).inside("drive"))?;
        }
        for (index, machine) in self.machine.all().iter().enumerate() {
            for (number, drive) in machine.drives.iter().enumerate() {
                drive.check().map_err(|mistake| {
                    let mistake = mistake.inside(number).inside("drive");
                    let subject = format_args!("machine {index}, drive {number}");
                    mistake.within(self.machine_place(index)).said_of(subject)
                })?;
            }
        }
        Ok(())
    }

    /// Checks the experiment as a whole, and gives every drive a name.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn finish(&mut self) -> Result<(), ExperimentError> {
        // Names that are given here are in no file.
        let given = self.said();
        self.settle().map_err(|mistake| self.source.error(mistake, &given))
    }

    fn settle(&mut self) -> Result<(), Mistake> {
        self.name_own_drives()?;
        let copied = self.machine.multiply()?;
        self.source.copied(copied);
        self.name_all();
        self.settle_networks();
        self.settle_faults();
        self.draw_faults()?;
        self.check()
    }

    /// The thresholds of a run.
    ///
    /// # Errors
    /// A sentence about one that is none, or that is of a drive which there is not.
    pub fn thresholds(&self) -> Result<Vec<Threshold>, Mistake> {
        let machines = self.machine.several().iter();
        let own = machines.clone().flat_map(|machine| &machine.drives);
        let drives = self.drives.iter().chain(own).map(|drive| &drive.name);
        let names =
            drives.chain(machines.flat_map(|machine| &machine.disks).map(|disk| &disk.name));
        let names: Vec<&str> = names.filter_map(|name| name.as_deref()).collect();
        expectation::thresholds(&self.expectations, &names)
    }

    /// Gives a name to every drive of the experiment that is not a machine's.
    ///
    /// # Errors
    /// If two have the same.
    pub fn name_drives(&mut self) -> Result<(), ExperimentError> {
        let given = self.said();
        self.name_own_drives().map_err(|mistake| self.source.error(mistake, &given))
    }

    fn name_own_drives(&mut self) -> Result<(), Mistake> {
        for (index, drive) in self.drives.iter_mut().enumerate() {
            drive.name.get_or_insert_with(|| format!("drive{index}"));
        }
        once("drives", placed("drive", &self.drives).map(|(place, drive)| (place, &drive.name)))
    }

    fn name_all(&mut self) {
        for (index, load) in self.workloads.iter_mut().enumerate() {
            load.name.get_or_insert_with(|| format!("workload{index}"));
        }
        for (index, machine) in self.machine.several_mut().iter_mut().enumerate() {
            let name = machine.name.get_or_insert_with(|| format!("machine{index}")).clone();
            for (number, drive) in machine.drives.iter_mut().enumerate() {
                drive.name.get_or_insert_with(|| format!("{name}.drive{number}"));
            }
            for disk in &mut machine.disks {
                disk.name.get_or_insert_with(|| format!("{name}.{}", disk.on));
            }
        }
    }

    fn check(&self) -> Result<(), Mistake> {
        self.explore.check(self.history).map_err(|mistake| mistake.inside("explore"))?;
        self.check_containers()?;
        let has_none =
            |machine: &MachineSpec| machine.command.is_empty() && !self.may_have_command(machine);
        if self.command.is_empty() && self.machine.all().iter().any(has_none) {
            return Err("no command: say what to run in the guest after `--`, for example \
                        `stasis run -- uname -a`"
                .into());
        }
        let has_image = self.machine.all().iter().any(|machine| self.image_of(machine).is_some());
        if (self.guest.root.is_some() || has_image) && !self.guest.packages.is_empty() {
            let message = "packages: they make the guest's own root file system, and this guest \
                           has one of yours (root or image): install what the experiment needs there";
            return Err(Mistake::at("packages", message).inside("guest"));
        }
        for (index, machine) in self.machine.all().iter().enumerate() {
            let shared = self.machine.several().is_empty();
            let own = if shared { &self.drives } else { &machine.drives };
            // A key of the last drive, or its table: it is the one too many.
            let mistake_at = |last: Option<usize>, key: &str, message: String| {
                let mistake = match last {
                    Some(last) => Mistake::at(key, message).inside(last).inside("drive"),
                    None => message.into(),
                };
                match shared {
                    true => mistake,
                    false => mistake.within(self.machine_place(index)),
                }
            };
            let of_drives: u16 = own.iter().map(|drive| drive.controllers).sum();
            let count = usize::from(of_drives) + machine.disks.len();
            let networks = self.networks_of(machine).count();
            let name = || machine.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
            let buffers: u64 = own.iter().map(DriveSpec::memory_buffers).sum();
            if buffers > MAX_MEMORY_BUFFERS {
                let message = format!(
                    "{}memory buffers of {} in all, but a machine has room for {}",
                    name(),
                    units::format_size(buffers),
                    units::format_size(MAX_MEMORY_BUFFERS)
                );
                let last = own.iter().rposition(|drive| drive.memory_buffer.is_some());
                return Err(mistake_at(last, "memory-buffer", message));
            }
            if count + networks > MAX_DRIVES {
                let name = name();
                let networks = match networks {
                    0 => String::new(),
                    count => format!(" and {count} networks"),
                };
                let message = format!(
                    "{name}{count} controllers of drives{networks}, but a machine has {MAX_DRIVES} at most"
                );
                return Err(mistake_at(own.len().checked_sub(1), "controllers", message));
            }
        }
        if self.machine.several().is_empty() {
            self.machine.check_one(self.history)?;
        } else {
            self.check_several()?;
        }
        let machines = placed("machine", self.machine.several());
        once("machines", machines.clone().map(|(place, machine)| (place, &machine.name)))?;
        let drives = self.placed_drives().map(|(place, drive)| (place, &drive.name));
        let disks = machines.flat_map(|(machine, spec)| {
            placed("disk", &spec.disks)
                .map(move |(place, disk)| ([&machine[..], &place].concat(), &disk.name))
        });
        once("drives", drives.chain(disks))?;
        self.check_networks()?;
        self.check_commands()?;
        self.check_faults()?;
        self.thresholds()?;
        once("workloads", placed("workload", &self.workloads).map(|(at, load)| (at, &load.name)))?;
        for (place, load) in placed("workload", &self.workloads) {
            let name = load.name.as_deref().unwrap_or_default();
            let on = self.drive_of(load).map_err(|message| Mistake::at("drive", message));
            load.check().and(on).map_err(|mistake| {
                mistake.said_of(format_args!("workload {name}")).within(place)
            })?;
        }
        self.check_shared()
    }

    /// Every drive with its place: the experiment's, and those of several machines.
    fn placed_drives(&self) -> impl Iterator<Item = (Vec<Step>, &DriveSpec)> {
        let own = placed("machine", self.machine.several()).flat_map(|(machine, spec)| {
            placed("drive", &spec.drives)
                .map(move |(place, drive)| ([&machine[..], &place].concat(), drive))
        });
        placed("drive", &self.drives).chain(own)
    }

    fn check_several(&self) -> Result<(), Mistake> {
        if let Some((place, drive)) =
            self.placed_drives().find(|(_, drive)| !drive.limits.is_none())
        {
            let message = format!(
                "drive {}: limits of a drive are those of the one machine; with several machines, \
                 give them to a [[machine.disk]] or a [[workload]]",
                drive.name.as_deref().unwrap_or_default()
            );
            return Err(Mistake::at("limits", message).within(place));
        }
        for (place, machine) in placed("machine", self.machine.several()) {
            let name = machine.name.as_deref().unwrap_or_default();
            let with_machine = |mistake: Mistake| {
                mistake.said_of(format_args!("machine {name}")).within(place.clone())
            };
            check_name(name).map_err(with_machine)?;
            machine.check().map_err(with_machine)?;
            if machine.rewind {
                return Err(with_machine(Mistake::at("rewind", "rewind is for one machine alone")));
            }
            let first = &self.machine.several()[0];
            let differing = [
                ("cpu-speed", machine.cpu_speed != first.cpu_speed),
                ("quantum", machine.quantum != first.quantum),
                ("schedule", machine.schedule != first.schedule),
                ("threads", machine.threads != first.threads),
            ];
            if let Some((key, _)) = differing.into_iter().find(|(_, differs)| *differs) {
                let text =
                    "cpu-speed, quantum, schedule and threads must be the same for all machines";
                return Err(with_machine(Mistake::at(key, text)));
            }
            for (place, disk) in placed("disk", &machine.disks) {
                let on = self.drive_named(&disk.on).map_err(|message| Mistake::at("on", message));
                on.map(drop)
                    .and(disk.check())
                    .map_err(|mistake| with_machine(mistake.within(place)))?;
            }
        }
        if !self.machine.several().iter().any(|machine| machine.wait) {
            let text = "no machine is waited for: leave `wait = false` out of one";
            return Err(Mistake::at("wait", text).within(self.machine_place(0)));
        }
        Ok(())
    }

    /// A drive that several machines could share has a tenant: no machine would see it otherwise.
    fn check_shared(&self) -> Result<(), Mistake> {
        if self.machine.several().is_empty() {
            return Ok(());
        }
        let disks = self.machine.several().iter().flat_map(|machine| &machine.disks);
        let of_disks = disks.filter_map(|disk| self.drive_named(&disk.on).ok());
        let of_loads = self.workloads.iter().filter_map(|load| self.drive_of(load).ok());
        let used: Vec<_> = of_disks.chain(of_loads).collect();
        match (0..self.drives.len()).find(|place| !used.contains(place)) {
            None => Ok(()),
            Some(place) => {
                let message = format!(
                    "drive {}: nothing is on it: with [[machine]], write a drive of one machine as \
                     [[machine.drive]], and give a part of a shared one to a machine by a \
                     [[machine.disk]]",
                    self.drives[place].name.as_deref().unwrap_or_default()
                );
                Err(Mistake::at(place, message).inside("drive"))
            }
        }
    }
}

impl MachineSpec {
    /// Checks the only machine, which cannot have a `history`.
    fn check_one(&self, history: bool) -> Result<(), Mistake> {
        self.check().map_err(|mistake| mistake.inside("machine"))?;
        let of_several = [
            ("name", self.name.is_some()),
            ("count", self.count.is_some()),
            ("variables", !self.variables.is_empty()),
            ("command", !self.command.is_empty()),
            ("wait", !self.wait),
        ];
        if let Some((key, _)) = of_several.into_iter().find(|(_, is_set)| *is_set) {
            let message = "[machine] is one machine: name, count, variables, command and wait are \
                           for several, in [[machine]]";
            return Err(Mistake::at(key, message).inside("machine"));
        }
        if history {
            let message = "history: it is of several machines, in [[machine]]";
            return Err(Mistake::at("history", message));
        }
        let own = [("drive", self.drives.is_empty()), ("disk", self.disks.is_empty())];
        if let Some((key, _)) = own.into_iter().find(|(_, none)| !none) {
            let message = "[machine] has the experiment's drives; its own [[machine.drive]] and \
                           [[machine.disk]] are for several machines, in [[machine]]";
            return Err(Mistake::at(0, message).inside(key).inside("machine"));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Mistake> {
        if !(1..=64).contains(&self.vcpus) {
            let message = format!("vcpus is {}, but must be 1 to 64", self.vcpus);
            return Err(Mistake::at("vcpus", message));
        }
        if self.memory < MIN_MEMORY {
            let message = format!(
                "memory is {}, but a guest needs at least {}",
                units::format_size(self.memory),
                units::format_size(MIN_MEMORY)
            );
            return Err(Mistake::at("memory", message));
        }
        if self.quantum == 0 {
            let message = "quantum is 0, but must be some time, for example 20us";
            return Err(Mistake::at("quantum", message));
        }
        if self.threads == Some(0) {
            return Err(Mistake::at("threads", "threads is 0, but must be 1 at least"));
        }
        if let Some(level) = self.log_level.filter(|level| !(1..=8).contains(level)) {
            let message = format!("log-level is {level}, but must be 1 to 8");
            return Err(Mistake::at("log-level", message));
        }
        if let Some(word) = &self.guest_scheduler {
            if !GUEST_SCHEDULERS.contains(&word.as_str()) {
                let (guess, all) = (guess(word, GUEST_SCHEDULERS), GUEST_SCHEDULERS.join(", "));
                let message =
                    format!("unknown guest-scheduler `{word}`; {guess}it is one of {all}");
                return Err(Mistake::at("guest-scheduler", message));
            }
        }
        if self.coordinate && self.guest_scheduler.as_deref() != Some("bfq") {
            let message = "coordinate needs guest-scheduler = \"bfq\": it is what tells";
            return Err(Mistake::at("coordinate", message));
        }
        Ok(())
    }
}

/// Returns whether a text that is no experiment is a job file of fio.
fn is_fio_job(path: &Path, text: &str) -> bool {
    // Options that nearly every job has (fio(1)); none is a key of an experiment.
    const OPTIONS: [&str; 5] = ["rw", "readwrite", "ioengine", "iodepth", "filename"];
    let option = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned());
    let has_option = || text.lines().filter_map(option).any(|name| OPTIONS.contains(&&*name));
    path.extension().is_some_and(|ending| ending == "fio")
        || text.lines().any(|line| line.trim_start().starts_with('[')) && has_option()
}

#[cfg(test)]
mod tests {
    use stasis_media::{Durability, MediumSpec};

    use super::*;
    use crate::WorkloadSpec;

    fn read(text: &str) -> Result<Experiment, ExperimentError> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("experiment-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let result = Experiment::read(&path);
        std::fs::remove_file(&path).unwrap();
        result
    }

    #[test]
    fn a_kernels_path_begins_beside_the_file() {
        let beside = std::env::temp_dir().join("./linux");
        for (written, wanted) in [
            ("./linux", beside.to_str().unwrap()),
            ("~/linux", "~/linux"),
            ("/boot/vmlinuz", "/boot/vmlinuz"),
            ("linux-image-amd64/trixie", "linux-image-amd64/trixie"),
        ] {
            let experiment = read(&format!("[guest]\nkernel = '{written}'\n")).unwrap();
            assert_eq!(experiment.guest.kernel.as_deref(), Some(wanted), "{written}");
        }
    }

    #[test]
    fn memory_buffers_beyond_a_machines_room_are_refused() {
        let finished = |controllers: u16| {
            let drive = "[[drive]]\nmodel = 'null'\nmedium = { ram = '1MiB' }\n\
                         memory-buffer = '64MiB'\n";
            let text = format!("command = ['true']\n{drive}controllers = {controllers}\n");
            read(&text).unwrap().finish().map_err(|error| error.to_string())
        };
        assert_eq!(finished(4), Ok(()));
        let refused = finished(5).unwrap_err();
        let message =
            "line 5, column 17: memory buffers of 320MiB in all, but a machine has room for \
                    256MiB\n";
        assert!(refused.contains(message), "{refused}");
    }

    #[test]
    fn a_drive_that_no_machine_would_see_is_refused() {
        let finished = |rest: &str| {
            let two = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n";
            let drive = "[[drive]]\nname = 'disk'\nmodel = 'null'\nmedium = { ram = '1MiB' }\n";
            let mut experiment = read(&format!("{two}{rest}{drive}")).unwrap();
            experiment.finish().map_err(|error| error.to_string())
        };
        let refused = finished("").unwrap_err();
        assert!(refused.contains("drive disk: nothing is on it"), "{refused}");
        finished("[[machine.disk]]\non = 'disk'\n").unwrap();
        finished("[[workload]]\nname = 'load'\npattern = '5r-seq'\n").unwrap();
    }

    #[test]
    fn the_documented_form_is_read() {
        let experiment = read(
            "engine = 'exact'\nseed = 7\ncommand = ['true']\nwall-limit = '10s'\n\
             [machine]\nvcpus = 4\nmemory = '512MiB'\ncpu-speed = '3GHz'\n\
             [[drive]]\nname = 'fast'\nmodel = 'dcpmm'\nmedium = { ram = '1GiB' }\n\
             [[drive]]\nmodel = { kind = 'fixed', read = '80us', write = '20us' }\nmedium = 'ram:1GiB'\n",
        )
        .unwrap();
        assert_eq!(experiment.machine.vcpus, 4);
        assert_eq!(experiment.drives.len(), 2);
        let mut experiment = experiment;
        experiment.finish().unwrap();
        assert_eq!(experiment.drives[1].name.as_deref(), Some("drive1"));
    }

    #[test]
    fn wrong_keys_name_their_place_and_the_right_word() {
        let message = read("[machine]\nvcpu = 4\n").unwrap_err().to_string();
        assert!(message.contains("vcpus") && message.contains("line 2"), "{message}");
        let message = read("[[drive]]\nmodle = 'null'\n").unwrap_err().to_string();
        assert!(message.contains("did you mean `model`?"), "{message}");
        let message = read("engine = 'exat'\n").unwrap_err().to_string();
        assert!(message.contains("did you mean `exact`?"), "{message}");
    }

    #[test]
    fn machines_share_a_drive() {
        let good = "command = ['true']\n\
             [[drive]]\nname = 'disk'\nmodel = 'null'\nmedium = { ram = '1GiB' }\nscheduler = 'bfq'\n\
             [[machine]]\nname = 'web'\nguest-scheduler = 'bfq'\ncoordinate = true\n\
             [[machine.disk]]\non = 'disk'\nsize = '256MiB'\nweight = 200\n\
             [[machine]]\nname = 'db'\nwait = false\ncommand = ['sh']\n\
             [[machine.disk]]\non = 'disk'\noffset = '256MiB'\nsize = '256MiB'\nioprio = 'idle'\n\
             [[workload]]\nname = 'readers'\npattern = '5r-seq'\noffset = '512MiB'\n";
        let finish = |text: &str| {
            let mut experiment = read(text).map_err(|error| error.to_string())?;
            experiment.finish().map_err(|error| error.to_string())?;
            Ok::<_, String>(experiment)
        };
        let three = finish(&good.replacen("'db'", "'db'\ncount = 2", 1)).unwrap();
        let names: Vec<_> = three.machine.all().iter().flat_map(|all| &all.name).collect();
        assert_eq!(names, ["web", "db1", "db2"]);
        assert_eq!(three.machine.all()[2].disks[0].name.as_deref(), Some("db2.disk"));
        let experiment = finish(good).unwrap();
        assert_eq!(experiment.machine.all().len(), 2);
        let disks: Vec<_> =
            experiment.machine.all().iter().flat_map(|machine| &machine.disks).collect();
        assert_eq!(disks[1].name.as_deref(), Some("db.disk"));
        assert_eq!(disks[0].queue().unwrap().weight, Some(200));
        assert_eq!(disks[0].medium(), None);
        let image = "image = 'd.qcow2'\ndurability = 'ordered'\nmax-lag = '5ms'";
        let image = finish(&good.replacen("size = '256MiB'", image, 1)).unwrap();
        let Some(MediumSpec::Qcow2 { path, settings }) = image.machine.all()[0].disks[0].medium()
        else {
            panic!("an image is a medium");
        };
        assert_eq!(path, Path::new("d.qcow2"));
        assert_eq!((settings.durability, settings.max_lag), (Durability::Ordered, 5_000_000));
        assert_eq!(experiment.drive_of(&experiment.workloads[0]), Ok(0));
        for (from, to, expected) in [
            ("'db'", "'web'", "two machines have the name `web`"),
            (
                "[[machine]]",
                "[[drive]]\nname = 'disk'\nmodel = 'null'\nmedium = { ram = '1GiB' }\n[[machine]]",
                "two drives have the name `disk`",
            ),
            (
                "[[workload]]",
                "[[workload]]\nname = 'readers'\npattern = '1r-seq'\n[[workload]]",
                "two workloads have the name `readers`",
            ),
            ("'db'", "'d/b'", "letters, digits"),
            ("wait = false", "count = 0", "whole number from 1 to 32"),
            ("on = 'disk'", "on = 'disc'", "did you mean `disk`?"),
            ("'bfq'\n[[machine]]", "'bfg'\n[[machine]]", "did you mean `bfq`?"),
            ("wait = false", "rewind = true", "rewind"),
            ("name = 'web'", "name = 'web'\nwait = false", "no machine is waited for"),
            ("'idle'", "'idel'", "did you mean `idle`?"),
            ("5r-seq", "5r-sec", "2r2w-seq"),
            ("weight = 200", "weight = 2000", "1 to 1000"),
            ("wait = false", "slice = '1us'", "the same for all"),
            ("wait = false", "quantum = '1us'", "the same for all"),
            ("offset = '512MiB'", "offset = '512MiB'\ndrive = 'disc'", "did you mean `disk`?"),
            ("weight = 200", "limits = { iops = 0 }", "whole number from 1 to"),
            ("weight = 200", "limits = { burst-iops = 9 }", "burst-iops needs iops"),
            ("weight = 200", "limits = { iop = 9 }", "did you mean `iops`?"),
            ("'5r-seq'", "'5r-seq'\nlimits = { burst = '1s', iops = 5 }", "burst needs"),
            ("scheduler = 'bfq'", "limits = { iops = 9 }", "give them to a [[machine.disk]]"),
            ("weight = 200", "queues = 65", "1 to 64"),
            ("weight = 200", "durability = 'ordered'", "add `image = \"PATH\"`"),
            ("weight = 200", "image = 'd.qcow2'", "leave `size` out"),
            ("size = '256MiB'", "image = 'd'\ndurability = 'orderd'", "did you mean `ordered`?"),
            ("size = '256MiB'", "imag = 'd'", "did you mean `image`?"),
        ] {
            assert!(good.contains(from), "{from}");
            let message = finish(&good.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        for change in [
            |e: &mut Experiment| e.machine.vcpus = 65,
            |e: &mut Experiment| e.machine.memory = 1 << 20,
            |e: &mut Experiment| e.command.clear(),
            |e: &mut Experiment| e.machine.guest_scheduler = Some("cfq".into()),
            |e: &mut Experiment| e.machine.coordinate = true,
            |e: &mut Experiment| e.machine.command = vec!["true".into()],
            |e: &mut Experiment| e.workloads.push(WorkloadSpec::default()),
        ] {
            let mut experiment = Experiment { command: vec!["true".into()], ..Default::default() };
            assert!(experiment.clone().finish().is_ok());
            change(&mut experiment);
            assert!(experiment.finish().is_err());
        }
    }
}
