//! The agent's task.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::WindowSize;

/// The answer to a guest's greeting, as JSON: one command and the surroundings
/// it runs in.
///
/// A reader ignores unknown members, and every member but `command` has a default, so that later
/// versions can add to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Program and arguments; the program is looked up in the guest's `PATH`.
    pub command: Vec<String>,
    /// Added to the agent's standard environment (`PATH`, `HOME`, `TERM`,
    /// `LANG`), of which it can replace members.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Folder in which the command starts, an absolute path in the guest.
    #[serde(default = "root_home")]
    pub working_directory: String,
    /// The guest's host name.
    #[serde(default = "host_name")]
    pub hostname: String,
    /// Time of the guest's real-time clock when the job is handed over (ns since 1970-01-01 00:00
    /// UTC); 0 leaves it as it is.
    #[serde(default)]
    pub realtime_ns: u64,
    /// True if a tar stream is to be fetched and unpacked before the command.
    #[serde(default)]
    pub has_input: bool,
    /// A file of the guest that the command reads as its standard input; it is
    /// removed as the command starts.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Size of the terminal on which the command runs, in a new session, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<WindowSize>,
    /// Seed of the guest kernel's random number generator.
    #[serde(default)]
    pub seed: u64,
    /// Number of processors of the guest; all must have come online before the command starts. 0:
    /// as many as did.
    #[serde(default)]
    pub vcpus: u32,
    /// Names below `/dev` of the drives that must be there before the command
    /// starts, for example `nvme0n1`.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Disks that a check is to find as they are; each is as it was when the check has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<CheckedDisk>,
    /// True if the command waits while each piece of its output is sent, so that a piece has the
    /// time when it was written.
    #[serde(default)]
    pub prompt_output: bool,
    /// Device of the root, if it is not in the guest's memory: then the kernel's modules alone are
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootDevice>,
    /// The container image that the guest's root is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Time for which the command may run, in ms of the guest's time; then it is killed and ends
    /// with status 124. 0: for ever.
    #[serde(default)]
    pub limit_ms: u64,
    /// True if processes that the command leaves behind live until the next job. Without effect
    /// where there is one job.
    #[serde(default)]
    pub keep_processes: bool,
    /// True if `/results` is sent after the command.
    #[serde(default = "yes")]
    pub send_results: bool,
    /// True if the command is to begin when it can in all machines.
    #[serde(default)]
    pub together: bool,
    /// The I/O scheduler to put before each of the drives; empty: as it is.
    #[serde(default)]
    pub scheduler: String,
    /// True if the guest is to report when its bfq raises weights.
    #[serde(default)]
    pub coordinate: bool,
    /// Addresses of the guest on networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NetworkInterface>,
    /// Addresses of machines, each with its names, for `/etc/hosts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<(Ipv4Addr, Vec<String>)>,
    /// True if processes of the guest can ask for faults, by the program [`crate::FAULT_PROGRAM`].
    #[serde(default)]
    pub asks: bool,
    /// True if the agent is to ask for faults that it brings about ([`crate::Orders`]).
    #[serde(default)]
    pub ordered: bool,
    /// True if the agent is to say how it can be called when there are some
    /// ([`crate::Request::Callable`]).
    #[serde(default)]
    pub called: bool,
    /// Level below which the kernel's messages reach its console from the command's start on
    /// (`kernel.printk`); 0 leaves it as it is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_level: u8,
    /// True if bfq is to idle while it has raised some, as on drives that seek.
    #[serde(default = "yes")]
    pub idles: bool,
}

fn is_zero(level: &u8) -> bool {
    *level == 0
}

fn yes() -> bool {
    true
}

fn root_home() -> String {
    "/root".into()
}

fn host_name() -> String {
    "stasis".into()
}

/// A disk that a check looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedDisk {
    /// Its name below `/dev`.
    pub name: String,
    /// Another name that checks may use for it, a link where there is nothing of that name.
    #[serde(default)]
    pub alias: Option<String>,
    /// Its serial number; the guest's kernel numbers drives as it finds them.
    #[serde(default)]
    pub serial: String,
    /// True if it has zones.
    #[serde(default)]
    pub zoned: bool,
    /// First byte of each zone that is not empty, and the number of its bytes that are written.
    #[serde(default)]
    pub written: Vec<(u64, u64)>,
}

/// An interface of a guest on a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Address of its port.
    pub port: [u8; 6],
    /// Address of the guest.
    pub address: Ipv4Addr,
    /// Bits of the prefix that the network's addresses have in common.
    pub prefix: u8,
}

/// The device that a guest's root is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootDevice {
    /// Its name below `/dev`, for example `vda`.
    pub device: String,
    /// The kernel's name of the file system on it, for example `ext4`.
    pub file_system: String,
}

/// A container image as the root of a guest. The command's environment is that of the job and no other,
/// but for `PATH`, `HOME` and `HOSTNAME` where the job has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Container {
    /// Folder of the image's files in the root file system.
    pub folder: String,
    /// The command's user, and group: `NAME`, `NUMBER`, `NAME:GROUP` and so on; empty: root.
    #[serde(default)]
    pub user: String,
    /// Drives whose file systems are folders of the root.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// The check of the command's health, if anybody waits for its result.
    #[serde(default)]
    pub health: Option<Health>,
}

impl Container {
    fn without_command(&self) -> Self {
        Self { folder: self.folder.clone(), ..Self::default() }
    }
}

/// A drive whose file system is a folder of a guest's root. It is made where the drive is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Name below `/dev`.
    pub device: String,
    /// Absolute path of the folder.
    pub path: String,
}

/// A check of a command's health, up to its first success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Program and arguments: status 0 means healthy.
    pub test: Vec<String>,
    /// Time from the start, or from the end of a check, to the next (ns).
    pub interval: u64,
    /// Time after which a check counts as failed (ns).
    pub timeout: u64,
    /// Time from the start within which failures do not count (ns).
    pub start_period: u64,
    /// The interval within that time (ns).
    pub start_interval: u64,
    /// Failures one after the other that make it unhealthy.
    pub retries: u32,
}

impl Job {
    /// A job with only a command; everything else at its default.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            environment: BTreeMap::new(),
            working_directory: root_home(),
            hostname: host_name(),
            realtime_ns: 0,
            has_input: false,
            stdin: None,
            terminal: None,
            seed: 0,
            vcpus: 0,
            drives: Vec::new(),
            checked: Vec::new(),
            prompt_output: false,
            root: None,
            container: None,
            limit_ms: 0,
            keep_processes: false,
            send_results: true,
            together: false,
            scheduler: String::new(),
            coordinate: false,
            interfaces: Vec::new(),
            hosts: Vec::new(),
            asks: false,
            ordered: false,
            called: false,
            log_level: 0,
            idles: true,
        }
    }

    /// The set-up of a guest, for any later command: without the command and its settings.
    pub fn without_command(&self) -> Self {
        Self {
            hostname: self.hostname.clone(),
            realtime_ns: self.realtime_ns,
            seed: self.seed,
            vcpus: self.vcpus,
            drives: self.drives.clone(),
            root: self.root.clone(),
            container: self.container.as_ref().map(Container::without_command),
            together: self.together,
            scheduler: self.scheduler.clone(),
            coordinate: self.coordinate,
            log_level: self.log_level,
            idles: self.idles,
            interfaces: self.interfaces.clone(),
            hosts: self.hosts.clone(),
            ..Self::new(Vec::new())
        }
    }
}
