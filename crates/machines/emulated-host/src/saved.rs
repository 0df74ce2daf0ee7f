//! A machine saved and restored.
//!
//! Saving: QEMU runs with its memory shared with the file `ram`; when the inner side is where it is
//! to be kept it pauses the machine, and the state of the devices goes to the file `state`.
//! Restoring: a new QEMU maps `ram` privately, so that pages are read as they are touched and
//! copied as they are written, and loads `state`. A run always continues in a restored machine, the
//! one that has saved it too, so that all start from the same state.

use crate::qemu::{Purpose, Qemu};
use crate::snapshots::Chain;
use crate::{Error, Host};
use serde_json::json;
use stasis_qemu_vm::qmp::{Qmp, QmpError};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Longest time for QEMU to save or load a state of some 50 KiB, on a machine that is busy with
/// much else.
pub(crate) const MAX_MOVE: Duration = Duration::from_secs(120);

/// A running machine.
pub(crate) struct Machine {
    pub qemu: Qemu,
    /// QEMU's memory, and where in it the buffer for bulk packets is.
    pub memory: File,
    pub buffer: u64,
    /// Address at which QEMU has the machine's memory from its physical address 0 on, if that was
    /// asked for.
    pub origin: Option<u64>,
    /// Held open: QEMU takes a closed monitor for a reason to complain.
    pub qmp: Qmp<'static>,
}

impl Machine {
    /// Starts QEMU, and does `more` with its monitor and its memory, which gives the place of the
    /// buffer as QEMU sees it.
    pub(crate) fn start(
        host: &Host,
        purpose: &Purpose,
        folder: &Path,
        log: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
        more: impl FnOnce(&mut Qmp, &File) -> Result<u64, QmpError>,
    ) -> Result<Self, Error> {
        let (mut qemu, stream) = Qemu::start(host, purpose, folder, log)?;
        let started = Qmp::new(stream, stopped).and_then(|mut qmp| {
            // Not before: a QEMU that has ended tells why.
            let memory = match qemu.memory() {
                Ok(memory) => memory,
                Err(error) => return Ok(Err(error)),
            };
            let buffer = more(&mut qmp, &memory)?;
            Ok(Ok((qmp.until(&|| false), memory, buffer)))
        });
        match started {
            Ok(Ok((qmp, memory, buffer))) => Ok(Self { qemu, memory, buffer, origin: None, qmp }),
            Ok(Err(error)) => Err(Error::system("read QEMU's memory")(error)),
            Err(QmpError::Closed) => Err(qemu.died()),
            Err(error) => Err(convert(error, "start", MAX_MOVE, &mut qemu)),
        }
    }

    /// Continues a machine that was started paused. QEMU is asked about its memory before: later
    /// the inner side may wait in a handshake, which keeps QEMU from answering.
    pub(crate) fn go(mut self) -> Result<Self, Error> {
        let origin = locate(&mut self.qmp, 0);
        self.origin =
            Some(origin.map_err(|error| convert(error, "start", MAX_MOVE, &mut self.qemu))?);
        self.cont()
    }

    /// Continues the paused machine. A short job may have ended before QEMU answers: its events, or
    /// their absence, are in the event stream.
    fn cont(mut self) -> Result<Self, Error> {
        self.go_on()?;
        Ok(self)
    }

    /// Continues the paused machine once more.
    pub(crate) fn go_on(&mut self) -> Result<(), Error> {
        match self.qmp.execute("cont", json!({})) {
            Ok(_) | Err(QmpError::Closed) => Ok(()),
            Err(error) => Err(convert(error, "start", MAX_MOVE, &mut self.qemu)),
        }
    }

    /// Takes the inner side's message about the place of its buffer, below the memory that QEMU
    /// maps apart (3 GiB).
    pub(crate) fn place(&mut self, address: u64) -> Result<(), Error> {
        if let Some(origin) = self.origin.filter(|_| address < stasis_bare::layout::LOW_END) {
            self.buffer = origin + address;
            return Ok(());
        }
        let found = locate(&mut self.qmp, address);
        self.buffer = found.map_err(|error| convert(error, "start", MAX_MOVE, &mut self.qemu))?;
        Ok(())
    }
}

/// Makes `folder` with a file for the machine's memory.
pub(crate) fn make_folder(host: &Host, folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
    let ram = folder.join("ram");
    File::create(&ram)
        .and_then(|file| file.set_len(host.megabytes() << 20))
        .map_err(Error::io("cannot write", &ram))
}

/// The state of the machine that runs in `folder`, once it has paused itself; it is to
/// be killed then. `limit`: how long it may take to get there.
pub(crate) fn save(qmp: &mut Qmp, folder: &Path, limit: Duration) -> Result<Vec<u8>, QmpError> {
    wait_for_pause(qmp, limit)?;
    take_state(qmp, folder)
}

fn wait_for_pause(qmp: &mut Qmp, limit: Duration) -> Result<(), QmpError> {
    qmp.wait(limit, |event, _| (event == "GUEST_PANICKED").then_some(()))
}

/// Waits until `machine` has paused itself.
pub(crate) fn paused(machine: &mut Machine) -> Result<(), Error> {
    let paused = wait_for_pause(&mut machine.qmp, MAX_MOVE);
    paused.map_err(|error| convert(error, "pause", MAX_MOVE, &mut machine.qemu))
}

/// The state of the paused machine that runs in `folder`; it may be continued then.
pub(crate) fn state(machine: &mut Machine, folder: &Path) -> Result<Vec<u8>, Error> {
    let taken = take_state(&mut machine.qmp, folder);
    let state = taken.map_err(|error| convert(error, "pause", MAX_MOVE, &mut machine.qemu))?;
    let socket = folder.join("save");
    fs::remove_file(&socket).map_err(Error::io("cannot remove", &socket))?;
    Ok(state)
}

fn take_state(qmp: &mut Qmp, folder: &Path) -> Result<Vec<u8>, QmpError> {
    // The socket's path may be too long; below /proc it never is.
    let handle = File::open(folder).map_err(|_| QmpError::Closed)?;
    let socket = format!("/proc/self/fd/{}/save", handle.as_raw_fd());
    let listener = UnixListener::bind(socket).map_err(|_| QmpError::Closed)?;
    ignore_shared(qmp)?;
    qmp.execute("migrate", json!({ "uri": "unix:save" }))?;
    let (mut stream, _) = listener.accept().map_err(|_| QmpError::Closed)?;
    let mut state = Vec::new();
    stream.read_to_end(&mut state).map_err(|_| QmpError::Closed)?;
    qmp.migrated(MAX_MOVE)?;
    Ok(state)
}

/// Writes what [`save`] gave, and the buffer's physical address, after QEMU has
/// ended. `sync`: a half-written machine must not survive a power cut.
pub(crate) fn write(folder: &Path, state: &[u8], place: u64, sync: bool) -> Result<(), Error> {
    let path = folder.join("state");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(state)?;
        if sync {
            file.sync_all()?;
            File::open(folder.join("ram"))?.sync_all()?;
        }
        fs::write(folder.join("place"), format!("{place:#x}"))?;
        fs::remove_file(folder.join("save"))
    };
    write().map_err(Error::io("cannot write", &path))
}

/// Memory is not part of the state: it is in the file `ram`.
fn ignore_shared(qmp: &mut Qmp) -> Result<(), QmpError> {
    let capabilities = json!([
        { "capability": "x-ignore-shared", "state": true },
        { "capability": "events", "state": true },
    ]);
    qmp.execute("migrate-set-capabilities", json!({ "capabilities": capabilities })).map(drop)
}

/// The physical address of the buffer of the machine saved in `folder`.
pub(crate) fn read_place(folder: &Path) -> Result<u64, Error> {
    let path = folder.join("place");
    let place = fs::read_to_string(&path).map_err(Error::io("cannot read", &path))?;
    let place = place.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    Ok(place.unwrap_or_default())
}

/// Starts the machine saved in `folder`, for `purpose`, up to the instruction at which it was saved,
/// where its memory has these `pages` beside those of the file `ram`.
pub(crate) fn restore(
    host: &Host,
    folder: &Path,
    purpose: &Purpose,
    log: &Path,
    stopped: &(dyn Fn() -> bool + Sync),
    pages: Option<&Chain>,
) -> Result<Machine, Error> {
    let place = read_place(folder)?;
    let mut failed = None;
    let started = Machine::start(host, purpose, folder, log, stopped, |qmp, memory| {
        ignore_shared(qmp)?;
        if let Some(pages) = pages {
            let origin = locate(qmp, 0)?;
            // Before the devices' state: QEMU's disks are of no use any more where the queues in memory
            // are older than that.
            let put = pages.read(|offset, page| memory.write_all_at(page, origin + offset));
            if let Err(error) = put {
                failed = Some(error);
                return Err(QmpError::Stopped);
            }
        }
        // QEMU runs in the machine's folder, so no path needs quoting.
        qmp.execute("migrate-incoming", json!({ "uri": "exec:cat state" }))?;
        qmp.migrated(MAX_MOVE)?;
        locate(qmp, place)
    });
    match failed {
        Some(error) => Err(error.convert(Error::system("restore a snapshot's memory"))),
        None => started?.cont(),
    }
}

/// Returns the address at which QEMU has the machine's memory at the physical address `place`.
fn locate(qmp: &mut Qmp, place: u64) -> Result<u64, QmpError> {
    // Only a command of the human monitor returns the address.
    let line = json!({ "command-line": format!("gpa2hva {place:#x}") });
    let answer = qmp.execute("human-monitor-command", line)?;
    let buffer = host_address(answer.as_str().unwrap_or_default());
    buffer.ok_or_else(|| QmpError::Refused { command: "gpa2hva", message: answer.to_string() })
}

/// The address in `Host virtual address for 0x2000000 (ram) is 0x7f0123456000`.
fn host_address(answer: &str) -> Option<u64> {
    let (_, address) = answer.trim().rsplit_once(" is 0x")?;
    u64::from_str_radix(address, 16).ok()
}

/// The error of a run whose machine did not do `event` within `limit`.
pub(crate) fn convert(
    error: QmpError,
    event: &'static str,
    limit: Duration,
    qemu: &mut Qemu,
) -> Error {
    match error {
        QmpError::Refused { command, message } => Error::Refused { command, message },
        QmpError::Stopped => Error::Stopped,
        QmpError::Timeout(command) => {
            let detail = format!(" ({command}){}", qemu.detail());
            Error::Timeout { event, seconds: limit.as_secs(), detail }
        }
        QmpError::Closed => {
            Error::Timeout { event, seconds: limit.as_secs(), detail: qemu.detail() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitors_answer_is_understood() {
        let answer = "Host virtual address for 0x2000000 (ram) is 0x7f0123456000\r\n";
        assert_eq!(host_address(answer), Some(0x7f01_2345_6000));
        assert_eq!(host_address("No memory is mapped at address 0x0"), None);
    }
}
