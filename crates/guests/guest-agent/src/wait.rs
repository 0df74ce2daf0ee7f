//! Waiting for block devices, by what the kernel announces.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    bind, recv, socket, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType,
};

use crate::AgentError;

/// Longest time until a device appears, in seconds of virtual time: longer than any of Stasis's
/// controllers takes to become ready.
const TIMEOUT: u64 = 30;

/// Frequency of looks for a device that nothing announces.
const LOOKS_PER_SECOND: u64 = 20;

/// Hears which devices the kernel has finished adding. A block device's node
/// is there before it can be opened; it is announced after its partitions have
/// been looked for, so none of that I/O falls into the command's time.
#[derive(Debug)]
pub(crate) struct Announcements(OwnedFd);

impl Announcements {
    /// Hears what is announced from now on.
    pub(crate) fn listen() -> Result<Self, AgentError> {
        /// The kernel's own announcements.
        const KERNEL: u32 = 1;
        listen(SockProtocol::NetlinkKObjectUEvent, KERNEL).map(Self)
    }

    /// Waits for a device, a name below `/dev`, that was there already or has
    /// been announced since.
    pub(crate) fn wait_for(&self, name: &str) -> Result<(), AgentError> {
        let node = Path::new("/dev").join(name);
        if opens(&node) {
            return Ok(());
        }
        self.wait_for_new(name)
    }

    /// Waits for a device whose driver has just been loaded. It is not tried
    /// before it is announced: opening one that is half added makes the kernel
    /// search for its driver.
    pub(crate) fn wait_for_new(&self, name: &str) -> Result<(), AgentError> {
        let node = Path::new("/dev").join(name);
        self.wait_until(name, &node.display().to_string(), || opens(&node).then_some(()))
    }

    /// Waits until `look` finds something. `look` is called when the device `name` has been
    /// announced, and now and then without that. `subject` names the missing thing in an error.
    pub(crate) fn wait_until<T>(
        &self,
        name: &str,
        subject: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, AgentError> {
        let error = |e: Errno| AgentError::new("wait for", subject, e);
        for _ in 0..TIMEOUT * LOOKS_PER_SECOND {
            let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            let announced = match poll(&mut waiting, PollTimeout::from(PAUSE_MS)) {
                // Perhaps it was announced before anyone listened.
                Ok(0) => true,
                Ok(_) => self.hears(name).map_err(error)?,
                Err(Errno::EINTR) => false,
                Err(e) => return Err(error(e)),
            };
            if announced {
                if let Some(found) = look() {
                    return Ok(found);
                }
            }
        }
        Err(AgentError::NoDevice { name: subject.into(), seconds: TIMEOUT })
    }

    /// Takes in the announcements; returns whether the device was among them.
    fn hears(&self, name: &str) -> Result<bool, Errno> {
        // The kernel's messages have at most 2 KiB (linux/kobject.h,
        // UEVENT_BUFFER_SIZE) and a heading.
        let mut message = [0; 4096];
        let mut heard = false;
        loop {
            match recv(self.0.as_raw_fd(), &mut message, MsgFlags::empty()) {
                Ok(length) => heard |= is_addition_of(name, &message[..length]),
                // Messages were lost, this device's perhaps.
                Err(Errno::ENOBUFS) => heard = true,
                Err(Errno::EAGAIN) => return Ok(heard),
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// A socket that receives the announcements of a netlink protocol to a multicast group (netlink(7)).
pub(crate) fn listen(protocol: SockProtocol, group: u32) -> Result<OwnedFd, AgentError> {
    let error = |e: Errno| AgentError::new("listen to", "the kernel's announcements", e);
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol);
    let socket = socket.map_err(error)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, group)).map_err(error)?;
    Ok(socket)
}

/// Waits until there is something to read; returns whether there was, before the deadline. `subject` names
/// who has to send it in an error.
pub(crate) fn readable(
    socket: &impl AsFd,
    deadline: Instant,
    subject: &str,
) -> Result<bool, AgentError> {
    loop {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(AgentError::new("wait for", subject, e)),
        }
    }
}

/// Between two looks.
const PAUSE_MS: u16 = (1000 / LOOKS_PER_SECOND) as u16;

/// Returns whether a message (a heading and `KEY=value` words, each ended by a zero) announces that
/// the device has been added.
fn is_addition_of(name: &str, message: &[u8]) -> bool {
    let has = |key: &[u8], value: &[u8]| {
        message.split(|byte| *byte == 0).any(|word| word.strip_prefix(key) == Some(value))
    };
    has(b"ACTION=", b"add") && has(b"DEVNAME=", name.as_bytes())
}

fn opens(node: &Path) -> bool {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(node).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_addition_of;

    #[test]
    fn an_announcement_is_understood() {
        let message = b"add@/devices/x/nvme0n1\0ACTION=add\0DEVPATH=/devices/x/nvme0n1\0\
            SUBSYSTEM=block\0DEVNAME=nvme0n1\0DEVTYPE=disk\0SEQNUM=7\0";
        assert!(is_addition_of("nvme0n1", message));
        assert!(!is_addition_of("nvme0n", message));
        assert!(!is_addition_of("nvme0n1", &message[..30]));
        let message = b"change@/devices/x\0ACTION=change\0DEVNAME=nvme0n1\0";
        assert!(!is_addition_of("nvme0n1", message));
    }
}
