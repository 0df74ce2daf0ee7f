//! Settings of drives that are served in real time, in a `[serve]` table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Strategy of a polling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Polling {
    /// The thread always polls and never sleeps.
    Always,
    /// The thread polls while there is work, then sleeps until there is more.
    #[default]
    Adaptive,
    /// The thread never polls: it sleeps whenever there is no work.
    Never,
}

/// Settings of `stasis serve`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServeSpec {
    /// Folder of the sockets; by default `/run/stasis`.
    pub sockets: Option<PathBuf>,
    /// Strategy of the polling threads.
    pub poll: Polling,
    /// Number of polling threads; by default one.
    pub threads: Option<usize>,
    /// Socket of the control interface; by default `control.sock` among the
    /// others.
    pub control: Option<PathBuf>,
    /// Address at which Prometheus finds metrics: `127.0.0.1:9464`; by default nowhere.
    pub metrics: Option<String>,
    /// Names of the drives that are block devices of the host's instead of
    /// sockets.
    pub ublk: Vec<String>,
    /// Address at which the drives are NVMe/TCP targets instead of sockets: the first drive there,
    /// each further one at the next port. `4420` alone is that port of this host's loopback. Several
    /// addresses, separated by commas, are paths to the same drives.
    pub nvme_tcp: Option<String>,
    /// Socket at which the only drive is an NVMe controller of a virtual machine, by vfio-user, or
    /// a folder for a socket of each drive. Several, separated by commas, are controllers of the same
    /// drives.
    pub vfio_user: Option<PathBuf>,
    /// NVMe Qualified Names of the hosts that may connect to NVMe/TCP targets; empty: all.
    pub hosts: Vec<String>,
    /// Files with the secrets by which hosts authenticate, by the hosts' NVMe Qualified Names: a
    /// line with the host's, and a second with the subsystem's if the host asks for it. If there are
    /// some, these hosts and `hosts` may connect, and nobody else.
    pub host_secrets: BTreeMap<String, PathBuf>,
    /// Groups of Diffie-Hellman by which hosts authenticate, the preferred one first; by default
    /// `ffdhe2048`, `ffdhe3072`, `ffdhe4096`, `ffdhe6144`, `ffdhe8192`, `null`.
    pub dh_groups: Vec<String>,
    /// User to become once everything is open.
    pub user: Option<String>,
    /// True if system calls and files are left open that the server does not need.
    pub unconfined: bool,
}
