//! A drive, as a `[[drive]]` table describes it; `drive_option.rs` reads it from words.

use std::path::Path;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Doorbells};
use stasis_config::Mistake;
use stasis_media::MediumSpec;
use stasis_models::{ModelSpec, ResolveError};
use stasis_nvme::{
    can_have_memory_buffer, KeyValue, Metadata, Ocssd, OptionalKind, Placement, PowerStates,
    Programs, Zones, MAX_NAMESPACES, MEMORY_BUFFER_SIZES,
};
use stasis_scheduler::{LimitSpec, SchedulerSpec};

use crate::error::ExperimentError;
use crate::guest_drive::guest_drive;
use crate::namespace::{endurance_groups, NamespaceSpec};

/// Device interface through which the guest accesses the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// An NVMe controller.
    #[default]
    Nvme,
    /// A virtio block device.
    VirtioBlk,
}

impl Interface {
    /// Name of the interface in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::VirtioBlk => "virtio-blk",
        }
    }
}

/// Initial state of a drive beside the bytes on its medium: zones and chunks, the format of
/// namespaces, placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateSpec {
    /// The state at the end of the last run on the medium. A drive with zones or chunks is refused
    /// if that run was cut off.
    #[default]
    Keep,
    /// The state at the end of the last run on the medium, or before that run if it was cut off.
    Last,
    /// The state of a new drive, whatever is on the medium.
    New,
}

guest_drive! {
    /// A drive: when its commands complete, and where its bytes live.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[schemars(transform = older_names)]
    pub struct DriveSpec (interface = "Interface::default") {
        /// Latency model, which sets when commands complete: a name, a word such as `fixed:100us`, or a
        /// table.
        #[schemars(extend("examples" = ["fixed:100us"]))]
        pub model: ModelSpec,
        /// Medium that stores the drive's data.
        #[schemars(extend("examples" = ["ram:1GiB"]))]
        pub medium: MediumSpec,
        /// Cost of a barrier (ns). A drive whose model has no barrier offers one if this is set.
        #[serde(default, with = "units::duration_option")]
        pub barrier: Option<Nanos>,
        /// Wall-clock delay added to each I/O on the medium (ns), which imitates a slow medium.
        #[serde(default, with = "units::duration")]
        pub delay: Nanos,
        /// Logical block size in bytes: 512, 4096 or 16384.
        #[serde(default = "default_block_size", with = "units::size")]
        pub block_size: u64,
        /// Metadata of each logical block, and protection information in it.
        #[serde(default)]
        pub metadata: Option<Metadata>,
        /// Namespaces, of equal size.
        #[serde(default = "default_namespaces")]
        #[schemars(range(min = 1, max = MAX_NAMESPACES))]
        pub namespaces: u32,
        /// NVMe controllers of the drive, each a path of its own to all namespaces.
        #[serde(default = "default_controllers")]
        #[schemars(range(min = 1, max = MAX_CONTROLLERS))]
        pub controllers: u16,
        /// Namespaces that are not all alike, from the drive's first byte on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub namespace: Vec<NamespaceSpec>,
        /// Data placement that the drive offers to the guest.
        #[serde(default)]
        pub placement: Placement,
        /// Limits on the machine's I/Os and bytes a second.
        #[serde(default)]
        pub limits: LimitSpec,
        /// Scheduler of a shared drive, which selects the next waiting request. Without one, requests
        /// go to the drive in order of arrival.
        #[serde(default)]
        pub scheduler: Option<SchedulerSpec>,
        /// Time that the guest's software adds to each command (ns), subtracted from latencies that
        /// were measured by an application. By default the value measured for the engine.
        #[serde(default, with = "units::duration_option")]
        pub path: Option<Nanos>,
        /// Zones, for a drive with the Zoned Namespace command set.
        #[serde(default)]
        pub zones: Option<Zones>,
        /// Geometry of an Open-Channel drive: `GROUPSxUNITSxCHUNKSxSECTORS`, or a table.
        #[serde(default, with = "stasis_nvme::ocssd_option", alias = "physical")]
        pub ocssd: Option<Ocssd>,
        /// Pairs of keys and values in place of blocks, for a drive with the Key Value command set.
        #[serde(default)]
        pub key_value: Option<KeyValue>,
        /// Power states of the NVMe controller, and what entering and leaving them takes: by default
        /// one.
        #[serde(default)]
        pub power_states: PowerStates,
        /// Computational programs that the drive runs, on a memory of its own.
        #[serde(default)]
        pub programs: Option<Programs>,
        /// Size in bytes of the memory buffer of each NVMe controller (CMB), in which its host can have
        /// queues and data: a power of two. Without one, the controller has no such buffer.
        #[serde(default, with = "units::size_option")]
        pub memory_buffer: Option<u64>,
        /// Initial state of the drive beside its data, such as zones: kept from an earlier run, or new.
        #[serde(default)]
        pub state: StateSpec,
    }
}

fn older_names(schema: &mut Schema) {
    stasis_config::older_name(schema, "ocssd", "physical");
}

fn default_block_size() -> u64 {
    512
}

fn default_namespaces() -> u32 {
    1
}

fn default_controllers() -> u16 {
    1
}

/// Limit on a drive's controllers: paths to storage are rarely more than four.
pub(crate) const MAX_CONTROLLERS: u16 = 8;

impl DriveSpec {
    /// Reads a table, as the control interface of `stasis serve` takes it.
    ///
    /// # Errors
    /// Returns the key, the value found, the allowed ones and the nearest.
    pub fn from_table(table: serde_json::Value) -> Result<Self, ExperimentError> {
        let wrong =
            |message: String| ExperimentError::Value(format!("the drive's table: {message}"));
        let drive: Self =
            stasis_config::read_table(table).map_err(|error| wrong(error.to_string()))?;
        drive.check().map_err(|mistake| wrong(mistake.into()))?;
        Ok(drive)
    }

    /// Has its relative paths begin in `folder`: its medium's, and its model's, whose files are
    /// read.
    ///
    /// # Errors
    /// [`ResolveError`], which names the file that cannot be read.
    pub fn anchor(&mut self, folder: &Path) -> Result<(), ResolveError> {
        self.medium.anchor(folder);
        self.model.resolve(folder)
    }

    /// Checks ranges and combinations that serde does not.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        let nvme = self.interface == Interface::Nvme;
        let (largest, possible) =
            if nvme { (16384, "512, 4096 or 16384") } else { (4096, "512 or 4096") };
        if !matches!(self.block_size, 512 | 4096 | 16384) || self.block_size > largest {
            let message = format!("block-size is {}, but must be {possible}", self.block_size);
            return Err(Mistake::at("block-size", message));
        }
        if let Some(metadata) = &self.metadata {
            self.check_metadata(metadata).map_err(|message| Mistake::at("metadata", message))?;
        }
        if !(1..=MAX_NAMESPACES as u32).contains(&self.namespaces) {
            let message = format!("namespaces must be a number from 1 to {MAX_NAMESPACES}");
            return Err(Mistake::at("namespaces", message));
        }
        if !(1..=MAX_CONTROLLERS).contains(&self.controllers) {
            let message = format!("controllers must be a number from 1 to {MAX_CONTROLLERS}");
            return Err(Mistake::at("controllers", message));
        }
        self.check_namespaces()?;
        if let Some(key) = self.key_of_nvme().filter(|_| !nvme) {
            let message = "namespaces, controllers and placement are of interface=nvme only";
            return Err(Mistake::at(key, message));
        }
        if self.controllers > 1 && self.power_states.is_choice() {
            let message = "power-states are of a drive with one controller: leave one of them and \
                           controllers out";
            return Err(Mistake::at("power-states", message));
        }
        self.check_guest_side()?;
        self.limits.check().map_err(|mistake| mistake.said_of("limits").inside("limits"))?;
        for (key, kind, asked) in [
            ("ocssd", OptionalKind::OPEN_CHANNEL, self.ocssd.is_some()),
            ("key-value", OptionalKind::KEY_VALUE, self.key_value.is_some()),
            ("programs", OptionalKind::COMPUTATIONAL, self.programs.is_some()),
        ] {
            kind.check(asked).map_err(|absent| Mistake::at(key, absent.to_string()))?;
        }
        let mut kinds = self.kinds();
        if let Some(kind) = kinds.next().filter(|_| !nvme) {
            return Err(Mistake::at(kind, "zones, ocssd and key-value need the interface nvme"));
        }
        if !nvme && self.power_states.is_choice() {
            return Err(Mistake::at("power-states", "power-states need the interface nvme"));
        }
        if let Some(programs) = &self.programs {
            if !nvme {
                return Err(Mistake::at("programs", "programs need the interface nvme"));
            }
            if self.namespaces > 126 || self.namespace.len() > 126 {
                let key = if self.namespaces > 126 { "namespaces" } else { "programs" };
                let message = "namespaces must be at most 126 beside those of programs";
                return Err(Mistake::at(key, message));
            }
            let checked = programs.check();
            checked.map_err(|problem| Mistake::at("programs", problem.to_string()))?;
        }
        if let Some(size) = self.memory_buffer {
            if !can_have_memory_buffer(size) {
                let message = format!("memory-buffer must be {MEMORY_BUFFER_SIZES}");
                return Err(Mistake::at("memory-buffer", message));
            }
            if !nvme {
                return Err(Mistake::at("memory-buffer", "memory-buffer needs the interface nvme"));
            }
        }
        if let Some(second) = kinds.next() {
            let message = "zones, ocssd and key-value exclude each other; leave one";
            return Err(Mistake::at(second, message));
        }
        let is_lost = matches!(self.medium, MediumSpec::Ram { .. }) || self.state == StateSpec::New;
        if self.has_pairs() && is_lost && self.model.kind().state_file().is_some() {
            let message =
                "the model keeps its `state` between runs, but the drive loses its pairs: \
                           take a medium that lasts and state=keep, and to begin anew delete the \
                           files of both states; or leave the model's `state` out";
            return Err(Mistake::at("model", message));
        }
        Ok(())
    }

    /// Keys that make it another drive than one of blocks.
    fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let kinds = [
            ("zones", self.zones.is_some()),
            ("ocssd", self.ocssd.is_some()),
            ("key-value", self.key_value.is_some()),
        ];
        kinds.into_iter().filter_map(|(key, is_set)| is_set.then_some(key))
    }

    /// A key of namespaces and controllers, if one is other than usual.
    fn key_of_nvme(&self) -> Option<&'static str> {
        let keys = [
            ("namespaces", self.namespaces != 1),
            ("controllers", self.controllers != 1),
            ("placement", self.placement != Placement::None),
        ];
        keys.into_iter().find_map(|(key, is_changed)| is_changed.then_some(key))
    }

    /// Bytes of the memory buffers of all its controllers.
    pub fn memory_buffers(&self) -> u64 {
        self.memory_buffer.unwrap_or(0) * u64::from(self.controllers)
    }

    /// Number of its first namespaces, without those of programs.
    pub fn namespace_count(&self) -> u32 {
        match self.namespace.len() {
            0 => self.namespaces,
            listed => listed as u32,
        }
    }

    /// Returns whether a namespace, counted from 1, can have another size: it has blocks alone, and
    /// no endurance group.
    pub(crate) fn can_resize(&self, nsid: u32) -> bool {
        match self.namespace.get((nsid as usize).wrapping_sub(1)) {
            None => self.zones.is_none() && self.key_value.is_none() && self.ocssd.is_none(),
            Some(one) => {
                one.zones.is_none() && one.key_value.is_none() && one.endurance_group.is_none()
            }
        }
    }

    /// Returns whether it has zones, or any of its namespaces.
    pub fn has_zones(&self) -> bool {
        self.zones.is_some() || self.namespace.iter().any(|one| one.zones.is_some())
    }

    /// Returns whether its zones have random write areas, or those of any of its namespaces.
    pub fn has_random_write_areas(&self) -> bool {
        let namespaces = self.namespace.iter().map(|one| &one.zones);
        let zones = namespaces.chain([&self.zones]).flatten();
        zones.into_iter().any(|zones| zones.zrwa.is_some())
    }

    /// Returns whether it has pairs of keys and values, or any of its namespaces.
    pub fn has_pairs(&self) -> bool {
        self.key_value.is_some() || self.namespace.iter().any(|one| one.key_value.is_some())
    }

    fn check_namespaces(&self) -> Result<(), Mistake> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        if self.interface != Interface::Nvme {
            return Err(Mistake::at(0, "namespace needs the interface nvme").inside("namespace"));
        }
        for (of_drive, key) in [
            (self.zones.is_some(), "zones"),
            (self.key_value.is_some(), "key-value"),
            (self.ocssd.is_some(), "ocssd"),
            (self.metadata.is_some(), "metadata"),
            (self.namespaces != 1, "namespaces"),
        ] {
            if of_drive {
                let message = format!(
                    "{key} is of drives whose namespaces are all alike: leave `{key}` or `namespace` \
                     out"
                );
                return Err(Mistake::at(key, message));
            }
        }
        if self.namespace.len() > MAX_NAMESPACES {
            let message = format!("there can be {MAX_NAMESPACES} namespaces");
            return Err(Mistake::at(MAX_NAMESPACES, message).inside("namespace"));
        }
        for (number, one) in self.namespace.iter().enumerate() {
            one.check().map_err(|mistake| {
                let mistake = mistake.reworded(|problem| format!("namespace[{number}].{problem}"));
                mistake.inside(number).inside("namespace")
            })?;
        }
        self.check_groups()
    }

    fn check_groups(&self) -> Result<(), Mistake> {
        let groups = endurance_groups(&self.namespace, self.placement)?;
        if groups.is_empty() {
            return Ok(());
        }
        if let Some(number) = self.namespace.iter().position(|one| one.endurance_group.is_none()) {
            let message = format!(
                "namespace[{number}] has no endurance-group, and others have: say it for each, or for \
                 none"
            );
            return Err(Mistake::at(number, message).inside("namespace"));
        }
        if matches!(self.placement, Placement::Streams { .. })
            && groups.iter().any(|group| group.placement != Placement::None)
        {
            let message = "streams and data placement by endurance group exclude each other";
            return Err(Mistake::at("placement", message));
        }
        let of_host = if self.scheduler.is_some() { "scheduler" } else { "limits" };
        let possible = [
            ("model", self.model.kind().state_file().is_none(), "whose model keeps no state"),
            ("medium", !matches!(self.medium, MediumSpec::Qcow2 { .. }), "that is no disk image"),
            (
                of_host,
                self.scheduler.is_none() && self.limits.is_none(),
                "without scheduler and limits",
            ),
        ];
        match possible.iter().find(|(_, possible, _)| !possible) {
            Some((key, _, condition)) => {
                let message = format!("endurance-group is possible on a drive {condition}");
                Err(Mistake::at(*key, message))
            }
            None => Ok(()),
        }
    }

    fn check_metadata(&self, metadata: &Metadata) -> Result<(), String> {
        let possible = [
            (self.interface == Interface::Nvme, "has the interface nvme"),
            (self.kinds().next().is_none(), "has neither zones, chunks nor pairs"),
            (!matches!(self.medium, MediumSpec::Qcow2 { .. }), "is no disk image"),
            (self.scheduler.is_none() && self.limits.is_none(), "has no scheduler and no limits"),
        ];
        if let Some((_, condition)) = possible.iter().find(|(possible, _)| !possible) {
            return Err(format!("metadata is possible on a drive that {condition}"));
        }
        metadata.check(self.block_size as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_programs_are_checked() {
        let table = |text: &str| DriveSpec::from_table(serde_json::from_str(text).unwrap());
        let drive = table(r#"{"model": "null", "medium": "ram:1GiB", "queues": 2}"#).unwrap();
        assert_eq!(drive, DriveSpec::parse("model=null,medium=ram:1GiB,queues=2").unwrap());
        for (key, expected) in [
            (r#""queues": 65"#, "from 1 to 64"),
            (r#""modle": "null""#, "did you mean `model`?"),
            (r#""block-size": 1024"#, "512, 4096 or 16384"),
            (r#""controllers": 9"#, "from 1 to 8"),
            (r#""controllers": 2, "interface": "virtio-blk""#, "interface=nvme only"),
            (r#""controllers": 2, "power-states": "8W/idle:50mW:2ms:1500us""#, "one controller"),
            (r#""block-size": 16384, "interface": "virtio-blk""#, "512 or 4096"),
            (r#""metadata": {"size": 16}"#, "8 with a guard of 16 bits"),
            (r#""metadata": {"size": 8}, "zones": {"size": "1MiB"}"#, "neither zones"),
            (r#""metadata": {"size": 8}, "scheduler": "bfq""#, "no scheduler"),
            (r#""metadata": {"size": 8, "guard": 17}"#, "16, 32 or 64 bits"),
            (r#""metadata": {"size": 8, "protection": 4}"#, "1 to 3"),
            (r#""zones": {"sice": 1}"#, "did you mean `size`?"),
            (r#""key-value": {"segmnt": 1}"#, "did you mean `segment`?"),
            (r#""key-value": {}, "interface": "virtio-blk""#, "interface nvme"),
            (r#""key-value": {}, "ocssd": "4x2x64x1024""#, "exclude each other"),
            (r#""programs": {"processors": 0}"#, "not a whole number from 1 to 64"),
            (r#""programs": {"memory": "2GiB"}"#, "up to 1GiB"),
            (r#""programs": {"speed": 1}"#, "unknown key"),
            (r#""programs": {}, "interface": "virtio-blk""#, "interface nvme"),
            (r#""programs": {}, "namespaces": 127"#, "at most 126"),
            (r#""namespace": [{}, {"block-size": 8192}]"#, "namespace[1].block-size is 8192"),
            (r#""namespace": [{"sice": 1}]"#, "did you mean `size`?"),
            (r#""namespace": [{"zones": {"size": "1MiB"}, "key-value": {}}]"#, "leave one"),
            (r#""namespace": [{}], "namespaces": 2"#, "leave `namespaces` or `namespace` out"),
            (r#""namespace": [{}], "zones": {"size": "1MiB"}"#, "leave `zones` or"),
            (r#""namespace": [{}], "interface": "virtio-blk""#, "interface nvme"),
            (r#""namespace": [{"endurance-group": 1}, {}]"#, "namespace[1] has no endurance-group"),
            (r#""namespace": [{"nvm-set": 1}]"#, "say endurance-group too"),
            (
                r#""namespace": [{"endurance-group": 1, "placement": "none"},
                    {"endurance-group": 1, "placement": "fdp:8x64MiB"}]"#,
                "different placements",
            ),
            (
                r#""namespace": [{"endurance-group": 1, "placement": "streams:2"}]"#,
                "which are of the drive",
            ),
            (
                r#""namespace": [{"endurance-group": 1, "placement": "fdp:8x64MiB"}],
                    "placement": "streams:2""#,
                "exclude each other",
            ),
            (r#""namespace": [{"endurance-group": 1}], "scheduler": "bfq""#, "without scheduler"),
            (r#""memory-buffer": "3MiB""#, "power of two from 2MiB to 64MiB"),
            (r#""memory-buffer": "128MiB""#, "power of two from 2MiB to 64MiB"),
            (r#""memory-buffer": "2MiB", "interface": "virtio-blk""#, "interface nvme"),
            (r#""power-states": "8W/50mW:2ms""#, "idle:50mW:2ms:1500us"),
            (r#""power-states": "8W/idle:1W", "interface": "virtio-blk""#, "interface nvme"),
        ] {
            let text = format!(r#"{{"model": "null", "medium": "ram:1GiB", {key}}}"#);
            let message = table(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{key}: {message}");
        }
        let pairs = |medium: &str| DriveSpec::parse(&format!("model=null,{medium}"));
        for medium in ["medium=ram:1GiB", "medium=file:d.img,size=1GiB"] {
            let drive = pairs(&format!("{medium},key-value.segment=1MiB")).unwrap();
            assert_eq!(drive.key_value.unwrap().segment, Some(1 << 20));
        }
        let flash = |rest: &str| {
            let model = r#""model": {"kind": "flash", "state": "s"}, "key-value": {}"#;
            table(&format!("{{{model}, {rest}}}"))
        };
        assert!(flash(r#""medium": {"file": "d.img", "size": "1GiB"}"#).is_ok());
        for rest in [
            r#""medium": "ram:1GiB""#,
            r#""medium": {"file": "d.img", "size": "1GiB"}, "state": "new""#,
        ] {
            let lost = flash(rest).unwrap_err();
            assert!(lost.to_string().contains("keeps its `state`"), "{lost}");
        }
    }
}
