//! Connect (NVMe-oF 1.1 section 3.3): the making of a controller with its admin queue, and of an
//! I/O queue.

use stasis_nvme_layout::fabrics::ConnectData;
use stasis_nvme_layout::transmute_ref;

use crate::capsules::{kind, ConnectedHost, ANY_CONTROLLER, OPCODE};
use crate::command::{location, Dword, SubmissionEntry};
use crate::controller_id::ControllerId;
use crate::keep_alive::KeepAlive;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::status::StatusCode;
use crate::subsystem::Subsystem;
use crate::transport::Transport;

/// Length of the data of Connect in bytes.
pub const CONNECT_DATA: usize = size_of::<ConnectData>();
/// Maximum length of an NQN in bytes (NVMe 1.4 section 7.9).
pub const MAX_NQN: usize = 223;

/// A Connect command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// The queue to be made; 0 is the admin queue.
    pub queue: u16,
    /// Entries of the queue.
    pub size: u32,
    /// Keep Alive Timeout in milliseconds.
    pub keep_alive: u32,
    /// True if the host does not look at the head of the submission queue.
    pub no_flow_control: bool,
    /// The controller's identifier, or 0xffff.
    pub controller: u16,
    /// The subsystem that the host wants.
    pub subsystem: String,
    /// The host.
    pub host: ConnectedHost,
}

/// A queue that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// Its controller.
    pub controller: ControllerId,
    /// The queue; 0 is the admin queue.
    pub queue: u16,
    /// Entries of the queue.
    pub size: u16,
}

/// Why a queue is not made: a status, and Dword 0 of the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectError {
    status: StatusCode,
    result: u32,
}

impl ConnectError {
    /// The status field of the completion, without its phase bit.
    pub fn field(&self) -> u16 {
        self.status.field()
    }

    /// Dword 0 of the completion.
    pub fn result(&self) -> u32 {
        self.result
    }

    /// Invalid parameter at this byte of the command (NVMe-oF 1.1 figure 20).
    fn command(at: u16) -> Self {
        Self { status: StatusCode::ConnectInvalidParameters, result: at.into() }
    }

    /// Invalid parameter at this byte of the data.
    fn data(at: u16) -> Self {
        const IN_DATA: u32 = 1 << 16;
        Self { status: StatusCode::ConnectInvalidParameters, result: IN_DATA | u32::from(at) }
    }

    /// Refuses an unknown name of a subsystem.
    pub fn subsystem() -> Self {
        Self::data(field::SUBSYSTEM)
    }

    /// The host may not use the subsystem.
    pub fn host() -> Self {
        StatusCode::ConnectInvalidHost.into()
    }

    /// A command that cannot come now.
    pub fn sequence() -> Self {
        StatusCode::CommandSequenceError.into()
    }
}

impl From<StatusCode> for ConnectError {
    fn from(status: StatusCode) -> Self {
        Self { status, result: 0 }
    }
}

/// Bytes of the fields in the data of Connect.
mod field {
    use std::mem::offset_of;

    use stasis_nvme_layout::fabrics::ConnectData;

    use crate::narrow::constant16;

    pub const CONTROLLER: u16 = constant16(offset_of!(ConnectData, cntlid) as u64);
    pub const SUBSYSTEM: u16 = constant16(offset_of!(ConnectData, subnqn) as u64);
    pub const HOST: u16 = constant16(offset_of!(ConnectData, hostnqn) as u64);
}

impl Connect {
    /// Parses a command capsule and its data.
    ///
    /// # Errors
    /// The command is no Connect, or its format or one of its names is invalid.
    pub fn parse(raw: &[u8; 64], data: &[u8; CONNECT_DATA]) -> Result<Self, ConnectError> {
        const NO_FLOW_CONTROL: u32 = 1 << 2;
        let command = SubmissionEntry::parse(ControllerId::PCIE, 0, raw);
        if command.opcode != OPCODE || command.nsid.byte(0) != kind::CONNECT {
            return Err(ConnectError::sequence());
        }
        // Record format, in Dword 10; there is one.
        if command.cdw10.low() != 0 {
            return Err(StatusCode::ConnectIncompatibleFormat.into());
        }
        let data: &ConnectData = transmute_ref!(data);
        Ok(Self {
            queue: command.cdw10.high(),
            size: (command.cdw11 & 0xffff) + 1,
            keep_alive: command.cdw12,
            no_flow_control: command.cdw11 >> 16 & NO_FLOW_CONTROL != 0,
            controller: data.cntlid.get(),
            subsystem: name(&data.subnqn, field::SUBSYSTEM)?,
            host: ConnectedHost { nqn: name(&data.hostnqn, field::HOST)?, id: data.hostid },
        })
    }
}

/// The NQN in a field of the data, at byte `at`, which a zero ends.
fn name(raw: &[u8; 256], at: u16) -> Result<String, ConnectError> {
    let length = raw.iter().position(|&byte| byte == 0).filter(|&length| length <= MAX_NQN);
    let text = length.and_then(|length| std::str::from_utf8(&raw[..length]).ok());
    match text {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(ConnectError::data(at)),
    }
}

impl Subsystem {
    /// Makes the queue that `connect` asks for, and its controller with an admin queue. The caller
    /// has found the subsystem by its name, and that the host may use it. `path`: by which the host
    /// comes. `discovery`: as a discovery controller, which has an admin queue only.
    ///
    /// # Errors
    /// An invalid parameter, by its place; no controller is left; or the queue exists.
    pub fn connect(
        &mut self,
        connect: &Connect,
        path: u16,
        discovery: bool,
    ) -> Result<Connected, ConnectError> {
        const QUEUE: u16 = location::CDW10 + 2;
        let sizes = 2..=self.config().queue_entries;
        let size = u16::try_from(connect.size).ok().filter(|size| sizes.contains(size));
        let size = size.ok_or(ConnectError::command(location::CDW11))?;
        let id = match connect.queue {
            0 if connect.controller != ANY_CONTROLLER => {
                return Err(ConnectError::data(field::CONTROLLER));
            }
            0 => {
                let transport = if discovery { Transport::Discovery } else { Transport::Fabrics };
                self.add_controller(transport).ok_or(StatusCode::CONNECT_CONTROLLER_BUSY)?
            }
            _ => ControllerId(connect.controller),
        };
        let unknown = ConnectError::data(field::CONTROLLER);
        let pairs = self.config().queue_pairs;
        let mut controller = self.controller(id).ok_or(unknown)?;
        let host = &mut controller.host;
        match connect.queue {
            0 => {
                host.keep_alive = KeepAlive::new(connect.keep_alive, host.now);
                host.connected = Some(connect.host.clone());
                host.path = path;
            }
            _ if host.transport != Transport::Fabrics || discovery => return Err(unknown),
            queue if queue > pairs => return Err(ConnectError::command(QUEUE)),
            _ if host
                .connected
                .as_ref()
                .is_none_or(|connected| connected.nqn != connect.host.nqn) =>
            {
                return Err(ConnectError::data(field::HOST));
            }
            _ if host.connected.as_ref() != Some(&connect.host) => {
                return Err(ConnectError::data(0));
            }
            queue if !host.is_running() || host.queues.submission(queue).is_some() => {
                return Err(ConnectError::sequence());
            }
            _ => {}
        }
        let queue = connect.queue;
        host.queues.create_completion(queue, CompletionQueue::of_capsules(size));
        let mut submission = SubmissionQueue::of_capsules(size, queue);
        // Connect itself has taken an entry.
        submission.pass();
        host.queues.create_submission(queue, submission);
        if queue == 0 && !discovery {
            self.set_host(id, &connect.host);
        }
        Ok(Connected { controller: id, queue, size })
    }
}
