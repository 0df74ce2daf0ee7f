//! The endpoint of a drive: a socket, or a block device of the host.

use std::path::PathBuf;

use crate::ublk::Device;
use crate::vhost_user::socket::Socket;

/// Place where clients find a drive.
pub(crate) enum Endpoint {
    /// On a socket.
    Socket(Socket),
    /// Among the block devices of the host.
    Ublk(Device),
}

impl Endpoint {
    /// Its place in the file system.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Socket(socket) => socket.path().to_owned(),
            Self::Ublk(device) => device.path(),
        }
    }

    /// Ends the admission of clients. The returned device is to be removed once the drive's thread
    /// has finished with it.
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
