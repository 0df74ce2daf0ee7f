//! Tenants of shared drives: virtual disks of machines, and host workloads.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Doorbells};
use stasis_config::{guess, Mistake};
use stasis_media::{Durability, ImageSettings, MediumSpec};
use stasis_nvme::{Placement, PowerStates};
use stasis_scheduler::{Class, LimitSpec, Priority, QueueSpec, WEIGHTS};

use crate::guest_drive::guest_drive;
use crate::names::check_drive_name;
use crate::tenant::{plain, tenant};
use crate::{DriveSpec, Interface};

tenant! {
    /// Scheduling parameters of a tenant of a shared drive.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    pub struct TenantSpec {}
}

impl TenantSpec {
    /// Returns the scheduler's queue with these parameters.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn queue(&self) -> Result<QueueSpec, Mistake> {
        if let Some(weight) = self.weight.filter(|weight| !WEIGHTS.contains(weight)) {
            return Err(weight_error("weight", weight));
        }
        let priority = self.ioprio.as_deref().map(priority).transpose();
        let priority = priority.map_err(|message| Mistake::at("ioprio", message))?;
        let priority = priority.unwrap_or_default();
        self.limits.check().map_err(|mistake| mistake.said_of("limits").inside("limits"))?;
        let (weight, limits) = (self.weight, self.limits);
        Ok(QueueSpec { weight, priority, limits, ..QueueSpec::default() })
    }
}

fn weight_error(key: &str, weight: u32) -> Mistake {
    let (least, most) = (WEIGHTS.start(), WEIGHTS.end());
    Mistake::at(key, format!("{key} is {weight}, but must be {least} to {most}"))
}

const CLASSES: [(&str, Class); 3] =
    [("real-time", Class::RealTime), ("best-effort", Class::BestEffort), ("idle", Class::Idle)];

/// Reads `CLASS` or `CLASS/LEVEL`.
fn priority(word: &str) -> Result<Priority, String> {
    let (class, level) = word.split_once('/').map_or((word, None), |(c, l)| (c, Some(l)));
    let Some((_, found)) = CLASSES.iter().find(|(name, _)| *name == class) else {
        let names = CLASSES.map(|(name, _)| name);
        let (guess, names) = (guess(class, names), names.join(", "));
        return Err(format!("unknown ioprio `{word}`; {guess}its class is one of {names}"));
    };
    let level = match level {
        None => Priority::DEFAULT_LEVEL,
        Some(level) => level
            .parse()
            .ok()
            .filter(|level| *level <= Priority::LOWEST)
            .ok_or_else(|| format!("ioprio is `{word}`, but its level must be 0 to 7"))?,
    };
    Ok(Priority { class: *found, level })
}

tenant! {
    /// A machine's virtual disk on a shared drive: a region of it, or an image whose
    /// files lie there.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    pub struct DiskSpec (interface = "virtio") {
        /// Name of the shared drive that holds the disk.
        pub on: String,
        /// Offset of the disk on the shared drive, in bytes.
        #[serde(default, with = "units::size")]
        pub offset: u64,
        /// Size in bytes; by default the rest of the drive. The size of an image is in the image.
        #[serde(default, with = "units::size_option")]
        pub size: Option<u64>,
        /// Path of an image in qcow2.
        #[serde(default)]
        pub image: Option<PathBuf>,
        /// Durability of an image: the condition that a flush waits for.
        #[serde(default)]
        pub durability: Option<Durability>,
        /// Limit on an image's lag in time ([`ImageSettings::max_lag`]).
        #[serde(default, with = "units::duration_option")]
        pub max_lag: Option<Nanos>,
        /// Limit on an image's lag in bytes ([`ImageSettings::max_lag_bytes`]).
        #[serde(default, with = "units::size_option")]
        pub max_lag_bytes: Option<u64>,
    }
}

fn virtio() -> Interface {
    Interface::VirtioBlk
}

impl DiskSpec {
    /// Returns the scheduler's queue for this disk.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn queue(&self) -> Result<QueueSpec, Mistake> {
        self.tenant().queue()
    }

    /// The image, if it is one, as a medium.
    pub fn medium(&self) -> Option<MediumSpec> {
        let usual = ImageSettings::default();
        let settings = ImageSettings {
            durability: self.durability.unwrap_or(usual.durability),
            max_lag: self.max_lag.unwrap_or(usual.max_lag),
            max_lag_bytes: self.max_lag_bytes.unwrap_or(usual.max_lag_bytes),
        };
        let path = self.image.clone()?;
        Some(MediumSpec::Qcow2 { path, settings })
    }

    /// The disk as its machine's drive, if it lies on the shared drive `on`: what the disk does not
    /// say is as on that drive, but a disk has one namespace and nothing special of NVMe.
    pub fn drive(&self, on: &DriveSpec) -> DriveSpec {
        DriveSpec {
            name: self.name.clone(),
            interface: self.interface,
            medium: self.medium().unwrap_or_else(|| on.medium.clone()),
            queues: self.queues,
            doorbells: self.doorbells,
            namespaces: 1,
            controllers: 1,
            namespace: Vec::new(),
            placement: Placement::None,
            serial: self.serial.clone(),
            zones: None,
            ocssd: None,
            key_value: None,
            programs: None,
            memory_buffer: None,
            power_states: PowerStates::default(),
            // The disk's, before the drive's scheduler.
            limits: LimitSpec::default(),
            ..on.clone()
        }
    }

    /// Checks the disk apart from the rest of the experiment.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        self.queue()?;
        self.check_guest_side()?;
        if self.image.is_some() && self.size.is_some() {
            let message = "an image has a size of its own: leave `size` out of the disk";
            return Err(Mistake::at("size", message));
        }
        let of_image = [
            ("durability", self.durability.is_some()),
            ("max-lag", self.max_lag.is_some()),
            ("max-lag-bytes", self.max_lag_bytes.is_some()),
        ];
        match of_image.into_iter().find(|(_, is_set)| *is_set && self.image.is_none()) {
            None => Ok(()),
            Some((key, _)) => {
                let message = "durability, max-lag and max-lag-bytes are of images: add `image = \
                               \"PATH\"` to the disk";
                Err(Mistake::at(key, message))
            }
        }
    }
}

tenant! {
    /// A host workload on a shared drive.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
    pub struct WorkloadSpec {
        /// Name in the results; by default `workload0`, ...
        pub name: Option<String>,
        /// Name of the drive; may be left out where there is only one.
        pub drive: Option<String>,
        /// I/O pattern in a word: `5r-seq`, `1r-rand`, `2r2w-seq`.
        pub pattern: Option<String>,
        /// Text of a fio job file with the I/O to submit.
        pub job: Option<String>,
        /// Path of a fio job file with the I/O to submit.
        pub job_file: Option<PathBuf>,
        /// Offset of the workload's region on the drive, in bytes.
        #[serde(with = "units::size")]
        pub offset: u64,
        /// Length of the workload's region in bytes; by default the rest of the drive.
        #[serde(with = "units::size_option")]
        pub size: Option<u64>,
        /// Share of all the workload's threads together, 1 to 1000.
        #[schemars(range(min = 1, max = 1000))]
        pub group_weight: Option<u32>,
    }
}

impl WorkloadSpec {
    /// Returns the scheduler's queue for each of the workload's threads.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn queue(&self) -> Result<QueueSpec, Mistake> {
        if let Some(weight) = self.group_weight.filter(|weight| !WEIGHTS.contains(weight)) {
            return Err(weight_error("group-weight", weight));
        }
        self.tenant().queue()
    }

    /// Checks the workload apart from the rest of the experiment.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        let keys = [
            ("pattern", self.pattern.is_some()),
            ("job", self.job.is_some()),
            ("job-file", self.job_file.is_some()),
        ];
        let given: Vec<_> = keys.into_iter().filter(|(_, given)| *given).collect();
        let message = "say what it does by one of pattern, job and job-file";
        match given[..] {
            [] => return Err(message.into()),
            [_] => {}
            [_, (second, _), ..] => return Err(Mistake::at(second, message)),
        }
        if let Some(pattern) = &self.pattern {
            jobs_of_pattern(pattern, 1 << 40).map_err(|message| Mistake::at("pattern", message))?;
        }
        self.name.as_deref().map_or(Ok(()), check_drive_name)?;
        self.queue().map(drop)
    }
}

/// Bytes of a sequential reader's or writer's request: the size of Linux's read-ahead
/// (`VM_READAHEAD_PAGES`, 128 KiB).
const SEQUENTIAL: u64 = 128 << 10;
/// Bytes of a random reader's or writer's request: a page.
const RANDOM: u64 = 4 << 10;

/// The fio jobs of a word such as `2r2w-seq`: readers and writers, each with a separate file in a
/// region of `length` bytes, without an end.
///
/// # Errors
/// Returns the invalid word and examples of valid ones.
pub fn jobs_of_pattern(word: &str, length: u64) -> Result<String, String> {
    let wrong = || {
        format!("pattern is `{word}`; write such as 1r-seq, 5r-rand or 2r2w-seq: readers, writers")
    };
    let (counts, kind) = word.split_once('-').ok_or_else(wrong)?;
    let random = match kind {
        "seq" => false,
        "rand" => true,
        _ => return Err(wrong()),
    };
    let (mut readers, mut writers, mut number) = (0u32, 0u32, String::new());
    for letter in counts.chars() {
        match letter {
            '0'..='9' if number.len() < 4 => number.push(letter),
            'r' if readers == 0 => readers = std::mem::take(&mut number).parse().unwrap_or(0),
            'w' if writers == 0 => writers = std::mem::take(&mut number).parse().unwrap_or(0),
            _ => return Err(wrong()),
        }
    }
    if !number.is_empty() || readers + writers == 0 {
        return Err(wrong());
    }
    let block = if random { RANDOM } else { SEQUENTIAL };
    let each = length / u64::from(readers + writers) / block * block;
    if each == 0 {
        return Err(format!("pattern {word} needs at least {block} bytes for each of its files"));
    }
    let mut text = String::new();
    for (name, count, place, rw) in
        [("readers", readers, 0, "read"), ("writers", writers, readers, "write")]
    {
        if count > 0 {
            let rw = if random { format!("rand{rw}") } else { rw.into() };
            // Half an age of virtual time: the machines' commands end first.
            text += &format!(
                "[{name}]\nfilename=drive\ndirect=1\nrw={rw}\nbs={block}\nnumjobs={count}\noffset={}\nsize={each}\n\
                 offset_increment={each}\ntime_based=1\nruntime=1000d\nnorandommap=1\n",
                u64::from(place) * each
            );
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_workload::JobFile;

    #[test]
    fn patterns_are_jobs() {
        let jobs = |word: &str| {
            let text = jobs_of_pattern(word, 1 << 30)?;
            Ok::<_, String>(JobFile::parse(&text, &|_| None).unwrap())
        };
        let file = jobs("2r3w-rand").unwrap();
        assert_eq!(file.warnings, [""; 0]);
        assert_eq!(file.jobs.iter().map(|job| job.numjobs).collect::<Vec<_>>(), [2, 3]);
        assert!(file.jobs.iter().all(|job| job.random && job.time_based));
        assert!(file.least_capacity().is_some_and(|least| least <= 1 << 30));
        assert!(!jobs("1r-seq").unwrap().jobs[0].random);
        for wrong in ["5r", "r-seq", "5-seq", "5x-seq", "5r-sequ", "0r-seq", "1r1r-seq", "-seq"] {
            assert!(jobs(wrong).unwrap_err().contains("5r-rand"), "{wrong}");
        }
        assert!(jobs_of_pattern("4r-seq", 1000).unwrap_err().contains("131072"));
    }

    #[test]
    fn priorities_are_words() {
        let read = |word| priority(word).map(|p| (p.class, p.level));
        assert_eq!(read("real-time/0"), Ok((Class::RealTime, 0)));
        assert_eq!(read("idle"), Ok((Class::Idle, 4)));
        assert!(read("best-effort/8").unwrap_err().contains("0 to 7"));
        assert!(read("realtime").unwrap_err().contains("did you mean `real-time`?"));
        let tenant = TenantSpec { weight: Some(0), ..TenantSpec::default() };
        assert!(tenant.queue().unwrap_err().to_string().contains("1 to 1000"));
    }
}
