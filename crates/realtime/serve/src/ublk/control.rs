//! `/dev/ublk-control`: devices come and go.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{cqueue, opcode, squeue, types, IoUring};

use super::abi::{self, control, Info, Parameters};

const PATH: &str = "/dev/ublk-control";

/// The control device.
pub(super) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    /// Opens it.
    ///
    /// # Errors
    /// If the kernel has no ublk, or this user may not.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(PATH).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => {
                    "load the module with `modprobe ublk_drv`; Linux 6.4 and later can have it \
                     (CONFIG_BLK_DEV_UBLK)"
                }
                io::ErrorKind::PermissionDenied => "run this as root",
                _ => return error,
            };
            io::Error::new(error.kind(), format!("{PATH}: {error}; {hint}"))
        })?;
        let ring = IoUring::builder().build(2)?;
        Ok(Self { file, ring })
    }

    fn call(&mut self, code: u32, device: u32, buffer: &mut [u8], word: u64) -> io::Result<()> {
        let command = abi::control_command(device, buffer, word);
        let entry =
            opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), code).cmd(command).build();
        // SAFETY: the buffer outlives the call, which waits for the end of the operation it
        // submits.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
                    _ => Ok(()),
                };
            }
        }
    }

    /// Makes a new device; returns its properties.
    pub fn add(&mut self, wanted: &Info) -> io::Result<Info> {
        let mut bytes = wanted.to_bytes();
        self.call(control::ADD, wanted.id, &mut bytes, 0)?;
        Ok(Info::from_bytes(&bytes))
    }

    /// Identity of a device.
    pub fn info(&mut self, device: u32) -> io::Result<Info> {
        let mut bytes = [0; Info::LENGTH];
        self.call(control::GET_INFO, device, &mut bytes, 0)?;
        Ok(Info::from_bytes(&bytes))
    }

    /// Sets the parameters of a device; before it is started.
    pub fn set_parameters(&mut self, device: u32, parameters: Parameters) -> io::Result<()> {
        self.call(control::SET_PARAMETERS, device, &mut parameters.to_bytes(), 0)
    }

    /// Shows a device to the host; returns once its queues fetch requests.
    pub fn start(&mut self, device: u32) -> io::Result<()> {
        self.call(control::START, device, &mut [], u64::from(std::process::id()))
    }

    /// Takes a device away from the host. Requests must still be served meanwhile.
    pub fn stop(&mut self, device: u32) -> io::Result<()> {
        self.call(control::STOP, device, &mut [], 0)
    }

    /// Forgets a device; waits until it is closed.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.call(control::DELETE, device, &mut [], 0)
    }

    /// Begins to take the place of a device's ended server.
    pub fn start_recovery(&mut self, device: u32) -> io::Result<()> {
        self.call(control::START_RECOVERY, device, &mut [], 0)
    }

    /// Goes on; returns once the queues fetch requests.
    pub fn end_recovery(&mut self, device: u32) -> io::Result<()> {
        self.call(control::END_RECOVERY, device, &mut [], u64::from(std::process::id()))
    }
}
