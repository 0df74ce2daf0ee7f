//! The endpoint of a drive: a socket, or a block device of the host.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::ublk::Device;
use crate::vhost_user::socket::Socket;

/// Place where clients find a drive.
pub(crate) enum Endpoint {
    /// On a socket.
    Socket(Socket),
    /// Among the block devices of the host.
    Ublk(Device),
    /// At an address and port on each path.
    NvmeTcp(Vec<SocketAddr>),
    /// A vfio-user device on each of these sockets.
    VfioUser(Vec<SocketName>),
}

/// The name of a socket, which goes with it where it is ours to remove.
pub(crate) struct SocketName {
    pub(crate) path: PathBuf,
    pub(crate) own: bool,
}

impl Drop for SocketName {
    fn drop(&mut self) {
        if self.own {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Endpoint {
    /// Returns the endpoint's place, as reports show it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Socket(socket) => socket.path().display().to_string(),
            Self::Ublk(device) => device.path().display().to_string(),
            Self::NvmeTcp(addresses) => {
                addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
            }
            Self::VfioUser(sockets) => {
                let paths = sockets.iter().map(|socket| socket.path.display().to_string());
                paths.collect::<Vec<_>>().join(",")
            }
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
            Self::NvmeTcp(_) | Self::VfioUser(_) => None,
        }
    }
}
