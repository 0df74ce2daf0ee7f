//! Faults of a host that end its connection.

use stasis_nvme_auth::Ended;

use crate::pdu::Reason;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field of a PDU's header is invalid.
    #[error("PDU of type {kind:#04x}: byte {at} of its header is invalid")]
    Header {
        /// The PDU's type.
        kind: u8,
        /// The first byte of the field.
        at: u16,
    },
    /// The host begins TLS.
    #[error("the host begins TLS (`--tls`), and this target does not encrypt; leave `--tls` out there, and have a tunnel encrypt")]
    Tls,
    /// A PDU that cannot come now.
    #[error("PDU of type {0:#04x} out of sequence")]
    Sequence(u8),
    /// A header digest that differs.
    #[error("PDU of type {0:#04x}: its header digest is wrong")]
    HeaderDigest(u8),
    /// Data beyond what a command announced or was asked for.
    #[error("data of command {0} beyond what was asked for")]
    Range(u16),
    /// More commands than the queue has entries.
    #[error("more commands than the queue has entries")]
    TooMany,
    /// A parameter of the initialization that is not supported.
    #[error("parameter at byte {0} of the initialization request is not supported")]
    Parameter(u16),
    /// The host has ended the connection with a fault of ours.
    #[error("the host ended the connection: it found fault {0:#06x} in what it received")]
    Host(u16),
    /// The host is not who it says, or it says so of the controller.
    #[error("{}", authentication(.0))]
    Authentication(Ended),
    /// No Connect command, or no authentication, came in time.
    #[error("no Connect command, or no authentication, in time")]
    Idle,
    /// No Keep Alive command came in time.
    #[error("no Keep Alive command within its time-out")]
    KeepAlive,
}

impl Fault {
    /// The reason as a termination request names it; `None` if no such request is sent.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match *self {
            Self::Header { at, .. } => Some((1, at.into())),
            Self::Sequence(_) | Self::TooMany => Some((2, 0)),
            Self::HeaderDigest(_) => Some((3, 0)),
            Self::Range(_) => Some((4, 0)),
            Self::Parameter(at) => Some((6, at.into())),
            Self::Tls | Self::Host(_) | Self::Authentication(_) | Self::Idle | Self::KeepAlive => {
                None
            }
        }
    }
}

fn authentication(ended: &Ended) -> String {
    match ended {
        Ended::Refused(failure) => format!("authentication failed: {failure}"),
        Ended::ByHost => {
            "authentication failed: the host found the subsystem's response wrong; the \
             subsystem's secret for it is another than the host's"
                .into()
        }
    }
}
