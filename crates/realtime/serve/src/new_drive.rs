//! Description of a drive that is to be served.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use stasis_virtio::Config;

use crate::description::{Description, Made};
use crate::io_records::IoRecordSender;
use crate::nvme_tcp::NvmeTcp;
use crate::store::OpenStore;
use crate::vfio_user::VfioUser;

/// Makes the place where a drive's I/Os are written down.
pub type MakeRecord = Box<dyn FnOnce() -> Option<IoRecordSender> + Send>;

/// A drive that is to be served.
pub struct NewDrive {
    /// Its name, which no other has.
    pub name: String,
    /// True if it is a block device of the host's instead of a socket.
    pub ublk: bool,
    /// The settings of an NVMe/TCP target, if it is one instead of a socket.
    pub nvme_tcp: Option<NvmeTcp>,
    /// The settings of a vfio-user device, if it is one on its socket instead of vhost-user-blk.
    pub vfio_user: Option<VfioUser>,
    /// Path of its socket, or of a link to the block device.
    pub path: PathBuf,
    /// The socket, if it is there already: systemd's, or an earlier server's.
    pub listener: Option<UnixListener>,
    /// True if the path is removed in the end: unless it is systemd's.
    pub own: bool,
    /// Configuration as the guest sees it; the capacity is the store's.
    pub config: Config,
    /// The drive's description.
    pub description: Arc<dyn Description>,
    /// A file that was made for it.
    pub made: Made,
    /// Medium of its bytes, for reports.
    pub medium: String,
    /// Makes the place where its I/Os are written down, once it is open, if they are.
    pub record: Option<MakeRecord>,
    /// Store of its bytes.
    pub open: OpenStore,
}
