//! A ublk device: how the host gets it, how it comes back to a server that was
//! killed, and how it goes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{symlink, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::abi::{Info, Parameters, DEAD, QUIESCED};
use super::control::Control;
use super::Ublk;
use crate::backend::Backend;
use crate::io_records::IoRecordSender;
use crate::store::Store;
use crate::ServeError;

/// Mark in a device that it is of this program ("stasis" and a version).
const MARK: u64 = u64::from_be_bytes(*b"stasis\0\x01");
/// Requests of a queue under way at a time.
const DEPTH: u16 = 128;
/// Limit on the bytes of a request.
const MAX_TRANSFER: u32 = 512 << 10;
/// Time to wait for the kernel's remaining work for a server that was killed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Properties of a device to be made.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: Arc<str>,
    /// Path of a link to the device.
    pub(crate) link: PathBuf,
    pub(crate) queues: u16,
    pub(crate) block: u32,
    pub(crate) read_only: bool,
}

/// A device, as its server has it.
pub(crate) struct Device {
    id: u32,
    name: Arc<str>,
    link: PathBuf,
    /// True if its queues have to be waited for as those of one that comes back.
    recovers: bool,
    /// True if it goes with this server.
    own: bool,
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::System { action, source }
}

/// Tries again while the kernel is at it.
fn patiently<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match act() {
            Err(error)
                if start.elapsed() < TIMEOUT
                    && matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENOENT)) =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Makes the device of a store, or takes over the one that an earlier server
/// left; on the thread that is to serve it. It is there once
/// [`Device::start`] has returned, on another thread.
pub(crate) fn open(
    wanted: &Wanted,
    store: Store,
    record: Option<IoRecordSender>,
    epoll: Arc<OwnedFd>,
) -> Result<(Device, Ublk), ServeError> {
    let mut control = Control::open().map_err(failed("reach the ublk driver"))?;
    let block = u64::from(wanted.block);
    let capacity = store.properties().capacity / block * block;
    let parameters = Parameters {
        block: wanted.block,
        capacity,
        max_bytes: MAX_TRANSFER,
        read_only: wanted.read_only,
    };
    let (info, recovers) = match left(&mut control, wanted, capacity)? {
        Some(info) => {
            patiently(|| control.start_recovery(info.id))
                .map_err(failed("take over the ublk device of an earlier server"))?;
            crate::log::warn(
                &wanted.name,
                &format!("goes on as /dev/ublkb{}, which an earlier server left", info.id),
            );
            (info, true)
        }
        None => {
            let new = Info {
                queues: wanted.queues,
                depth: DEPTH,
                state: 0,
                max_bytes: MAX_TRANSFER,
                // Any free number.
                id: u32::MAX,
                server: 0,
                mark: MARK,
            };
            let info = control.add(&new).map_err(failed("add a ublk device"))?;
            let given = control.set_parameters(info.id, parameters);
            if let Err(error) = given {
                let _ = control.delete(info.id);
                return Err(failed("say what a ublk device is like")(error));
            }
            (info, false)
        }
    };
    let path = format!("/dev/ublkc{}", info.id);
    let opened = patiently(|| OpenOptions::new().read(true).write(true).open(&path))
        .map_err(failed("open a ublk device"))
        .and_then(|file: File| {
            let backend = Backend::new(Arc::clone(&wanted.name), store, record, epoll)?;
            Ublk::start(file, &info, capacity, backend).map_err(failed("start a ublk queue"))
        });
    let (name, link) = (Arc::clone(&wanted.name), wanted.link.clone());
    let device = Device { id: info.id, name, link, recovers, own: true };
    match opened {
        Ok(ublk) => Ok((device, ublk)),
        Err(error) => {
            if !recovers {
                let _ = control.delete(info.id);
            }
            Err(error)
        }
    }
}

/// The device that an earlier server has left behind this link.
fn left(control: &mut Control, wanted: &Wanted, capacity: u64) -> Result<Option<Info>, ServeError> {
    let Some(id) = linked(&wanted.link) else { return Ok(None) };
    let start = Instant::now();
    let info = loop {
        let Ok(info) = control.info(id) else { return Ok(None) };
        if info.mark != MARK {
            return Ok(None);
        }
        match info.state {
            QUIESCED => break info,
            DEAD => {
                control.delete(id).map_err(failed("remove a ublk device that was left"))?;
                return Ok(None);
            }
            // A server that was killed has it until the kernel has noticed.
            _ if start.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(5)),
            _ => return Err(ServeError::InUse(wanted.link.clone())),
        }
    };
    let size = size_of(id);
    if info.max_bytes == MAX_TRANSFER && size == Some(capacity) {
        return Ok(Some(info));
    }
    crate::log::warn(
        &wanted.name,
        &format!(
            "/dev/ublkb{id} was left with {} bytes and the drive has {capacity}: it is removed, \
             and what was under way on it fails",
            size.unwrap_or(0)
        ),
    );
    let removed = control.stop(id).and_then(|()| control.delete(id));
    removed.map_err(failed("remove a ublk device that was left"))?;
    Ok(None)
}

/// The number of the device that a link leads to.
fn linked(link: &Path) -> Option<u32> {
    let target = std::fs::read_link(link).ok()?;
    target.to_str()?.strip_prefix("/dev/ublkb")?.parse().ok()
}

/// The size of a block device (bytes), as the kernel has it.
fn size_of(id: u32) -> Option<u64> {
    let sectors = std::fs::read_to_string(format!("/sys/block/ublkb{id}/size")).ok()?;
    Some(sectors.trim().parse::<u64>().ok()? * 512)
}

impl Device {
    /// Shows it to the host, once its thread fetches requests.
    pub(crate) fn start(&self) -> Result<(), ServeError> {
        let mut control = Control::open().map_err(failed("reach the ublk driver"))?;
        let started = match self.recovers {
            true => control.end_recovery(self.id),
            false => control.start(self.id),
        };
        started.map_err(failed("start a ublk device"))?;
        let _ = std::fs::remove_file(&self.link);
        symlink(self.path(), &self.link).map_err(failed("link to a ublk device"))
    }

    /// Path of the device on the host.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.id).into()
    }

    /// Leaves it to another server.
    pub(crate) fn hand_over(&mut self) {
        self.own = false;
    }

    /// Takes it away from the host, which then has written all its data; its thread must continue
    /// meanwhile.
    pub(crate) fn stop(&self) {
        if !self.own {
            return;
        }
        let alone = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(self.path());
        if alone.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
            let message = format!("{} is in use, and is taken away", self.path().display());
            crate::log::warn(&self.name, &message);
        }
        let stopped = Control::open().and_then(|mut control| control.stop(self.id));
        self.warn_of("stopped", stopped);
    }

    /// Forgets it, once its thread has closed it.
    pub(crate) fn remove(&self) {
        if !self.own {
            return;
        }
        let removed = Control::open().and_then(|mut control| control.delete(self.id));
        self.warn_of("removed", removed);
        let _ = std::fs::remove_file(&self.link);
    }

    fn warn_of(&self, operation: &str, result: io::Result<()>) {
        if let Err(error) = result {
            let path = self.path();
            let message = format!("{} could not be {operation}: {error}", path.display());
            crate::log::warn(&self.name, &message);
        }
    }
}
