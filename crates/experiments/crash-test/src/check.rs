//! A command of the guest's that inspects states, under stock QEMU.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use stasis_crash::{Check, DeviceKind, StateReader, Trace, Verdict};
use stasis_guest_image::Guest;
use stasis_qemu_vm::{Accelerator, Checker, Config, Device, Disk, Disks, Finding, Task};

/// The lines that the workload had written.
const LINES: &str = "root/stasis-lines";
/// The times at which the machine received these lines (ns), a line each.
const TIMES: &str = "root/stasis-times";
/// Beginning of a line that reports a repair.
const REPAIRED: &str = "repaired";

/// The status of a shell whose command is not there, or cannot be executed.
const NOT_RUN: [u8; 2] = [126, 127];

/// Setup of checks.
#[derive(Debug, Clone)]
pub struct CheckSetup<'a> {
    /// The guest.
    pub guest: Guest,
    /// A shell's command.
    pub command: &'a str,
    /// The archive of the experiment's files for the guest.
    pub files: &'a [u8],
    /// Time limit of a check, in virtual time of its guest.
    pub limit: Duration,
    /// Flag that stops a check when it is set.
    pub stop: &'a Arc<AtomicBool>,
}

/// For each disk, its drive and its first byte on the drive.
pub type Places = Vec<(usize, u64)>;

/// Runs a shell's command on each state.
pub struct GuestCheck {
    checker: Checker,
    command: String,
    limit: Duration,
    devices: Vec<Device>,
    places: Places,
    // True if each check has a separate guest.
    alone: bool,
    // The archive of the experiment's files.
    files: Arc<[u8]>,
}

impl GuestCheck {
    /// A check of the drives of `trace`.
    pub fn new(setup: &CheckSetup<'_>, trace: &Trace) -> Result<Self> {
        let mut config = Config::new(setup.guest.clone());
        config.stop = Arc::clone(setup.stop);
        let words = vec!["sh".into(), "-c".into(), setup.command.into()];
        let files = Arc::from(setup.files);
        let task = Task { command: words, limit: setup.limit, files: Arc::clone(&files) };
        let checker = Checker::new(config, task);
        let (devices, places) = devices(trace).context("take the check away")?;
        let (command, limit) = (setup.command.into(), setup.limit);
        Ok(Self { checker, command, limit, devices, places, alone: false, files })
    }

    /// Returns the check in another guest. The guests of all checks share one boot.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            checker: self.checker.another(),
            command: self.command.clone(),
            limit: self.limit,
            devices: self.devices.clone(),
            places: self.places.clone(),
            alone: self.alone,
            files: Arc::clone(&self.files),
        }
    }

    /// The check with a new guest for each state, whose clock counts instructions: neither other
    /// states nor a busy host have any part in what it finds.
    #[must_use]
    pub fn alone(&self) -> Self {
        let checker = self.checker.with(Accelerator::Instructions);
        Self { alone: true, checker, ..self.another() }
    }

    /// The disks that the check finds, by their names.
    pub fn names(&self) -> String {
        let disks = self.devices.iter().flat_map(|device| &device.disks);
        let names: Vec<String> = disks.map(|disk| format!("/dev/{}", disk.name)).collect();
        names.join(", ")
    }

    /// Warning for the user where a name that the check uses means another disk than in former
    /// versions. The command is searched, and the files for the guest that it names.
    pub fn other_names(&self) -> Option<String> {
        let disks = self.devices.iter().flat_map(|device| &device.disks);
        let names: Vec<&str> = disks.map(|disk| disk.name.as_str()).collect();
        let named = |path: &[u8]| {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            let command = self.command.as_bytes();
            !name.is_empty() && command.windows(name.len()).any(|part| part == name)
        };
        let mut found = other_names(self.command.as_bytes(), &names);
        let _ = stasis_guest_root::each_text(&self.files, &named, &mut |text| {
            found = found.take().or_else(|| other_names(text, &names));
        });
        found
    }
}

/// Name of the disk `number` (from 0 among all) in former versions, where every drive of a check's
/// guest was a virtio drive; `None` beyond the last letter.
fn former_name(number: usize) -> Option<String> {
    let letter = ('a'..='z').nth(number)?;
    Some(format!("vd{letter}"))
}

/// Warning about a name in the check's `text` that means another disk than in former versions;
/// `names`: the names of all disks.
fn other_names(text: &[u8], names: &[&str]) -> Option<String> {
    let says = |name: &str| {
        let path = format!("/dev/{name}");
        text.windows(path.len()).any(|window| window == path.as_bytes())
    };
    let moved = names.iter().enumerate().find_map(|(number, now)| {
        let former = former_name(number)?;
        (*now != former && names.contains(&&*former) && says(&former)).then_some((former, now))
    });
    let (former, now) = moved?;
    Some(format!(
        "the check names /dev/{former}, which is the virtio drive of that name, as in the tested guest; \
         the drive that former versions called so, by the order of all drives, is /dev/{now}"
    ))
}

/// The drives of a trace as a guest finds them, and the places of their disks.
pub fn devices(trace: &Trace) -> Result<(Vec<Device>, Places)> {
    let (mut devices, mut places) = (Vec::new(), Places::new());
    for (index, drive) in trace.drives.iter().enumerate() {
        let Some(traced) = trace.header.drives.get(index) else { continue };
        let (capacity, device_seen) = (drive.guest.capacity, &traced.device);
        if let Some(unlike) = &device_seen.unlike {
            bail!("drive {}: {unlike}, and no guest of a check can have such a one", traced.name);
        }
        // Traces of former versions do not record the kind of the drive.
        let mut device = Device::virtio(index, capacity);
        if !device_seen.names.is_empty() {
            device.nvme = device_seen.kind == DeviceKind::Nvme;
            device.serial.clone_from(&device_seen.serial);
            device.block_size = device_seen.block();
            device.zones.clone_from(&device_seen.zones);
            let spaces = device_seen.names.iter().zip(device_seen.namespaces(capacity));
            let disk =
                |(name, (_, size)): (&String, _)| Disk { name: name.clone(), alias: None, size };
            device.disks = spaces.map(disk).collect();
        }
        places
            .extend(device_seen.namespaces(capacity).into_iter().map(|(start, _)| (index, start)));
        devices.push(device);
    }
    // Names that checks used for NVMe drives before their guests had NVMe.
    let taken: Vec<String> =
        devices.iter().flat_map(|device| &device.disks).map(|disk| disk.name.clone()).collect();
    let disks = devices.iter_mut().flat_map(|device| &mut device.disks);
    for (number, disk) in disks.enumerate() {
        disk.alias = former_name(number).filter(|alias| !taken.contains(alias));
    }
    Ok((devices, places))
}

/// A state as the machine's disks.
pub struct StateDisks<'a>(pub &'a mut dyn StateReader, pub &'a [Device], pub &'a [(usize, u64)]);

impl Disks for StateDisks<'_> {
    fn devices(&self) -> Vec<Device> {
        self.1.to_vec()
    }

    fn written(&self, index: usize) -> Vec<(u64, u64)> {
        let Some(&(drive, start)) = self.2.get(index) else { return Vec::new() };
        let end = self.2.get(index + 1).filter(|next| next.0 == drive).map_or(u64::MAX, |n| n.1);
        let zones = self.0.zones(drive).into_iter();
        let own = zones.filter(|(zone, _)| (start..end).contains(zone));
        own.map(|(zone, written)| (zone - start, written)).collect()
    }

    fn read(&mut self, index: usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let (drive, start) = self.2.get(index).copied().ok_or(io::ErrorKind::NotFound)?;
        self.0.read(drive, start + offset, into)
    }
}

impl Check for GuestCheck {
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String> {
        let mut lines = Vec::new();
        let mut times = String::new();
        for (at, line) in state.lines() {
            lines.extend_from_slice(line);
            lines.push(b'\n');
            times += &format!("{at}\n");
        }
        let environment = [
            ("STASIS_OUTPUT_LINES", format!("/{LINES}")),
            ("STASIS_OUTPUT_TIMES", format!("/{TIMES}")),
            ("STASIS_LINE_COUNT", state.lines().len().to_string()),
            ("STASIS_CUT_NS", state.at().to_string()),
        ];
        let files = [(LINES, lines.as_slice()), (TIMES, times.as_bytes())];
        if self.alone {
            self.checker.renew();
        }
        let mut disks = StateDisks(state, &self.devices, &self.places);
        let found = self.checker.check(&mut disks, &files, &environment);
        let Finding { status, output, late } = found.map_err(|error| error.to_string())?;
        Ok(match status {
            _ if late => Verdict::Late(format!(
                "the check took more than {:?}, and says nothing of the disks (`check-limit` or \
                 --check-limit gives it longer): {output}",
                self.limit
            )),
            Some(0) if output.lines().any(|line| line.starts_with(REPAIRED)) => {
                Verdict::Repaired(output)
            }
            Some(0) => Verdict::Sound,
            Some(status) => {
                let hint = journal_hint(&self.command, status.into()).unwrap_or_default();
                let not_run = match NOT_RUN.contains(&status) {
                    true => " (a command of it is not found in the guest, or cannot be executed)",
                    false => "",
                };
                Verdict::Broken(format!("the check's status is {status}{not_run}: {output}{hint}"))
            }
            None => Verdict::Broken(format!("the guest did not survive the check: {output}")),
        })
    }
}

/// Likely cause if `command` failed with `status`: e2fsck exits with 4 (errors left as they are,
/// e2fsck(8)) for every disk with a journal to replay, since `-n` prevents the replay.
fn journal_hint(command: &str, status: i32) -> Option<&'static str> {
    let mut words = command.split(|c: char| c.is_whitespace() || c == ';');
    let looks_only = words.any(|word| word.starts_with('-') && word.contains('n'));
    let fsck = ["fsck", "e2fsck"].iter().any(|name| command.trim_start().starts_with(name));
    (fsck && looks_only && status == 4).then_some(
        "\n(fsck's status 4 with -n: the journal was not replayed. Mount and unmount first: \
         mount /dev/vda /mnt && umount /mnt && fsck -fn /dev/vda)",
    )
}

#[cfg(test)]
mod tests {
    use super::{journal_hint, other_names};

    #[test]
    fn a_name_that_means_another_disk_than_before_is_told() {
        let check = b"mount /dev/vda /mnt";
        let warning = other_names(check, &["nvme0n1", "vda"]).unwrap();
        assert!(
            warning.contains("is /dev/nvme0n1") && warning.contains("names /dev/vda"),
            "{warning}"
        );
        assert_eq!(other_names(check, &["vda", "nvme0n1"]), None, "as it was");
        assert_eq!(other_names(check, &["nvme0n1", "nvme1n1"]), None, "vda is nvme0n1 still");
        assert_eq!(other_names(b"mount /dev/nvme0n1 /mnt", &["nvme0n1", "vda"]), None);
    }

    #[test]
    fn a_journal_that_was_not_replayed_is_told_from_damage() {
        assert!(journal_hint("fsck.ext4 -fn /dev/vda", 4).is_some());
        assert!(journal_hint("e2fsck -n -f /dev/vda", 4).is_some());
        let right = "mount /dev/vda /mnt && umount /mnt && fsck.ext4 -fn /dev/vda";
        assert!(journal_hint(right, 4).is_none(), "that is damage");
        assert!(journal_hint("fsck.ext4 -fy /dev/vda", 4).is_none());
        assert!(journal_hint("fsck.ext4 -fn /dev/vda", 8).is_none());
    }
}
