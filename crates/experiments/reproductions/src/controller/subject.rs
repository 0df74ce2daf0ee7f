//! The subjects of measurement: each of the publication's tables.

use serde::{Deserialize, Serialize};

/// A subject that is compared between the ways of running the guest. All parts of one figure are
/// measured in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Latency and throughput of the drive, and the exits from guest mode that they take.
    Drive,
    /// Ping, requests and streams.
    Network,
    /// Reads of a file server.
    FileServer,
}

impl Subject {
    /// Every one, in the publication's order.
    pub const ALL: [Self; 3] = [Self::Drive, Self::Network, Self::FileServer];

    /// Name of the subject on the command line, and of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drive => "drive",
            Self::Network => "network",
            Self::FileServer => "file-server",
        }
    }

    /// Description in one line.
    pub fn what(self) -> &'static str {
        match self {
            Self::Drive => {
                "block latency, throughput and exits: the bare drive, initial, optimized"
            }
            Self::Network => "ping, requests and streams: the bare network, halting, polling",
            Self::FileServer => "reads of the file server: the bare host, initial, optimized",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn the_command_line_has_the_same_names() {
        for subject in Subject::ALL {
            assert_eq!(Subject::from_str(subject.name(), false), Ok(subject));
        }
    }
}
