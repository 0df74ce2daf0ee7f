//! How drives are served in real time, in a `[serve]` table.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a polling thread looks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Polling {
    /// It never waits.
    Always,
    /// It spins while there is work, then waits.
    #[default]
    Adaptive,
    /// It waits whenever there is nothing to do.
    Never,
}

/// What `stasis serve` does with the drives.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServeSpec {
    /// Folder of the sockets; by default `/run/stasis`.
    pub sockets: Option<PathBuf>,
    /// How polling threads look for work.
    pub poll: Polling,
    /// Polling threads; by default one.
    pub threads: Option<usize>,
    /// Socket of the control interface; by default `control.sock` among the
    /// others.
    pub control: Option<PathBuf>,
    /// Where Prometheus finds metrics: `127.0.0.1:9464`; by default nowhere.
    pub metrics: Option<String>,
    /// Names of the drives that are block devices of the host's instead of
    /// sockets.
    pub ublk: Vec<String>,
    /// User to become once everything is open.
    pub user: Option<String>,
    /// Whether system calls and files are left open that the server does not
    /// need.
    pub unconfined: bool,
}
