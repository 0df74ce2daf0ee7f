//! The endpoint of a drive: a socket, or a block device of the host.

use std::net::SocketAddr;

use crate::ublk::Device;
use crate::vhost_user::socket::Socket;

/// Place where clients find a drive.
pub(crate) enum Endpoint {
    /// On a socket.
    Socket(Socket),
    /// Among the block devices of the host.
    Ublk(Device),
    /// At an address and port.
    NvmeTcp(SocketAddr),
}

impl Endpoint {
    /// Its place, as reports show it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Socket(socket) => socket.path().display().to_string(),
            Self::Ublk(device) => device.path().display().to_string(),
            Self::NvmeTcp(address) => address.to_string(),
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
            Self::NvmeTcp(_) => None,
        }
    }
}
