//! Where a drive is found by those who use it.

use std::path::PathBuf;

use crate::socket::Socket;
use crate::ublk::Device;

/// Where a drive is found.
pub(crate) enum Door {
    /// On a socket.
    Socket(Socket),
    /// Among the block devices of the host.
    Ublk(Device),
}

impl Door {
    /// Its place in the file system.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Socket(socket) => socket.path().to_owned(),
            Self::Ublk(device) => device.path(),
        }
    }

    /// Nobody comes in from now on. What is left is to be removed once the
    /// drive's thread has finished with it.
    pub(crate) fn close(self) -> Option<Device> {
        match self {
            Self::Socket(socket) => {
                drop(socket);
                None
            }
            Self::Ublk(device) => {
                device.stop();
                Some(device)
            }
        }
    }
}
