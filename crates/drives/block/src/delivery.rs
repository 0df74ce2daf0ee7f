//! Delivery of a command's end to the host: well, or by a fault of the controller.

use serde::{Deserialize, Serialize};

/// Delivery of a completion to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// As it should.
    #[default]
    Once,
    /// Never: the command has been carried out, and its host waits.
    Never,
    /// A second time as well.
    Twice,
    /// Without its interrupt.
    WithoutInterrupt,
    /// Never, nor does any other of its queue, until the host makes the queue anew.
    StopsQueue,
    /// Never: the controller has failed, and only a reset helps.
    FailsController,
}
