//! The booted machine, saved and restored.
//!
//! Building: QEMU boots with its memory shared with the file `ram`; when the
//! inner side is ready it pauses the machine, and the state of the devices
//! goes to the file `state`. Restoring: a new QEMU maps `ram` privately, so
//! that pages are read as they are touched and copied as they are written,
//! and loads `state`. A job always runs in a restored machine, the first one
//! too, so that all runs start from the same state.

use crate::fd::{lock, Lock};
use crate::packet::{Packet, Packets};
use crate::qemu::{machine, Purpose, Qemu};

use crate::{initramfs, Error, Host, Kernel};
use serde_json::json;
use sha2::{Digest, Sha256};
use stasis_qemu::process::find_qemu;
use stasis_qemu::qmp::{Qmp, QmpError};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Saved machines that are kept; each takes about 300 MiB of disk.
const KEPT: usize = 4;
/// The boot takes 8 s on a 2026 cloud machine, and ten times that where other work
/// keeps it busy; more is a failure.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const MOVE_LIMIT: Duration = Duration::from_secs(30);

/// A saved machine; a private one is removed when dropped.
pub(crate) struct Snapshot {
    pub folder: PathBuf,
    private: bool,
    /// Keeps others from removing it until the restored machine has it open.
    _lock: File,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.private {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Snapshot {
    /// The saved machine for `host`, built if there is none.
    pub(crate) fn get(
        host: &Host,
        kernel: &Kernel,
        log: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<Self, Error> {
        let parent = host.cache.join("softkvm/machines");
        fs::create_dir_all(&parent).map_err(Error::io("cannot create", &parent))?;
        let lock_path = parent.join("lock");
        let lock_file = File::create(&lock_path).map_err(Error::io("cannot write", &lock_path))?;
        let locked = |kind| lock(&lock_file, kind).map_err(Error::system("lock the cache"));
        if !host.snapshot {
            locked(Lock::Shared)?;
            static PRIVATE: AtomicU32 = AtomicU32::new(0);
            let number = PRIVATE.fetch_add(1, Ordering::Relaxed);
            let folder = parent.join(format!("private-{}-{number}", std::process::id()));
            let snapshot = Self { folder, private: true, _lock: lock_file };
            build(host, kernel, &snapshot.folder, log, stopped, progress)?;
            return Ok(snapshot);
        }
        let folder = parent.join(key(host, kernel)?);
        locked(Lock::Shared)?;
        if !folder.is_dir() {
            locked(Lock::Exclusive)?;
            clean(&parent);
            // Another program may have built it meanwhile.
            if !folder.is_dir() {
                let new = parent.join("new");
                let built = build(host, kernel, &new, log, stopped, progress);
                let kept = built.and_then(|()| {
                    fs::rename(&new, &folder).map_err(Error::io("cannot create", &folder))
                });
                if kept.is_err() {
                    let _ = fs::remove_dir_all(&new);
                }
                kept?;
            }
            prune(&parent, &folder);
            locked(Lock::Shared)?;
        }
        // The modification time tells when it was last used.
        let _ = File::open(&folder).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(Self { folder, private: false, _lock: lock_file })
    }

    /// Removes a saved machine that cannot be restored.
    pub(crate) fn discard(self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Whether one is saved for `host`.
    pub(crate) fn exists(host: &Host, kernel: &Kernel) -> bool {
        key(host, kernel).is_ok_and(|key| host.cache.join("softkvm/machines").join(key).is_dir())
    }
}

/// Everything that the saved state depends on.
fn key(host: &Host, kernel: &Kernel) -> Result<String, Error> {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(b"softkvm machine 1");
    part(kernel.release.as_bytes());
    part(&read(&host.executable)?);
    for path in [&find_qemu().ok_or(Error::QemuMissing)?, &kernel.image] {
        let metadata = fs::metadata(path).map_err(Error::io("cannot read", path))?;
        part(path.as_os_str().as_bytes());
        part(
            format!("{} {} {}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()).as_bytes(),
        );
    }
    for argument in machine(host) {
        part(argument.as_bytes());
    }
    Ok(hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(Error::io("cannot read", path))
}

/// Removes what a killed builder left; the lock is held exclusively.
fn clean(parent: &Path) {
    let _ = fs::remove_dir_all(parent.join("new"));
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("private-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the least recently used machines beyond [`KEPT`].
fn prune(parent: &Path, current: &Path) {
    let mut machines: Vec<(SystemTime, PathBuf)> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path() != current && entry.path().is_dir())
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    machines.sort();
    let extra = (machines.len() + 1).saturating_sub(KEPT);
    for (_, path) in machines.into_iter().take(extra) {
        let _ = fs::remove_dir_all(path);
    }
}

/// Boots the machine and saves it in `folder`.
fn build(
    host: &Host,
    kernel: &Kernel,
    folder: &Path,
    log: &Path,
    stopped: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<(), Error> {
    progress("booting the software KVM host (kept for later runs)", None);
    fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
    let archive = folder.join("initramfs");
    initramfs::write(&archive, &host.executable, kernel)?;
    let ram = folder.join("ram");
    File::create(&ram)
        .and_then(|file| file.set_len(host.megabytes() << 20))
        .map_err(Error::io("cannot write", &ram))?;
    let purpose = Purpose::Build { kernel: &kernel.image, initramfs: &archive };
    let (mut qemu, stream) = Qemu::start(host, &purpose, folder, log)?;
    let state = folder.join("state");
    let saved = Qmp::new(stream, stopped).and_then(|mut qmp| {
        qmp.wait(BOOT_LIMIT, |event, _| (event == "GUEST_PANICKED").then_some(()))?;
        // The socket's path may be too long; below /proc it never is.
        let handle = File::open(folder).map_err(|_| QmpError::Closed)?;
        let socket = format!("/proc/self/fd/{}/save", handle.as_raw_fd());
        let listener = UnixListener::bind(socket).map_err(|_| QmpError::Closed)?;
        ignore_shared(&mut qmp)?;
        qmp.execute("migrate", json!({ "uri": "unix:save" }))?;
        let (mut stream, _) = listener.accept().map_err(|_| QmpError::Closed)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map_err(|_| QmpError::Closed)?;
        qmp.migrated(MOVE_LIMIT)?;
        Ok(bytes)
    });
    let bytes = match saved {
        Ok(bytes) => bytes,
        Err(QmpError::Closed) => {
            // What the inner side said before it gave up, if anything.
            return Err(inner_failure(&mut qemu).unwrap_or_else(|| qemu.died()));
        }
        Err(error) => return Err(convert(error, "boot", BOOT_LIMIT, &mut qemu)),
    };
    let place = place(&mut qemu)?;
    drop(qemu);
    let write = || -> io::Result<()> {
        let mut file = File::create(&state)?;
        file.write_all(&bytes)?;
        if host.snapshot {
            // A half-written machine must not survive a power cut.
            file.sync_all()?;
            File::open(&ram)?.sync_all()?;
        }
        fs::write(folder.join("place"), format!("{place:#x}"))?;
        fs::remove_file(folder.join("save"))?;
        fs::remove_file(&archive)
    };
    write().map_err(Error::io("cannot write", &state))
}

/// Memory is not part of the state: it is in the file `ram`.
fn ignore_shared(qmp: &mut Qmp) -> Result<(), QmpError> {
    let capabilities = json!([
        { "capability": "x-ignore-shared", "state": true },
        { "capability": "events", "state": true },
    ]);
    qmp.execute("migrate-set-capabilities", json!({ "capabilities": capabilities })).map(drop)
}

/// The buffer's physical address, which the inner side has told before it
/// paused the machine.
fn place(qemu: &mut Qemu) -> Result<u64, Error> {
    let mut packets = Packets::default();
    let mut bytes = [0; 64];
    let length = qemu.journal.read(&mut bytes).map_err(Error::system("read from QEMU"))?;
    packets.push(&bytes[..length]);
    match packets.next() {
        Ok(Some(Packet::Place { address, .. })) => Ok(address),
        _ => Err(Error::Timeout {
            what: "say where its buffer is",
            seconds: BOOT_LIMIT.as_secs(),
            detail: qemu.detail(),
        }),
    }
}

/// A restored machine.
pub(crate) struct Restored {
    pub qemu: Qemu,
    /// QEMU's memory, and where in it the buffer for bulk packets is.
    pub memory: File,
    pub buffer: u64,
    /// Held open: QEMU takes a closed monitor for a reason to complain.
    pub qmp: Qmp<'static>,
}

impl Restored {
    /// The inner side has told where its buffer is.
    pub(crate) fn place(&mut self, address: u64) -> Result<(), Error> {
        let found = locate(&mut self.qmp, &format!("{address:#x}"));
        self.buffer = found.map_err(|error| convert(error, "start", MOVE_LIMIT, &mut self.qemu))?;
        Ok(())
    }
}

/// Starts the program itself on the bare machine with `job`, in `folder`.
pub(crate) fn start_exact(
    host: &Host,
    folder: &Path,
    job: &Path,
    log: &Path,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Restored, Error> {
    let image = folder.join("image");
    let program = read(&host.executable)?;
    let bytes = stasis_bare::image(&program, host.megabytes() << 20).map_err(Error::Image)?;
    let write =
        |path: &Path, bytes: &[u8]| fs::write(path, bytes).map_err(Error::io("cannot write", path));
    write(&image, &bytes)?;
    write(&folder.join("firmware"), stasis_bare::firmware())?;
    let purpose =
        Purpose::Exact { job: &std::path::absolute(job).unwrap_or(job.into()), image: &image };
    let (mut qemu, stream) = Qemu::start(host, &purpose, folder, log)?;
    match Qmp::new(stream, stopped) {
        Ok(qmp) => {
            let memory = qemu.memory().map_err(Error::system("read QEMU's memory"))?;
            Ok(Restored { qemu, memory, buffer: 0, qmp: qmp.ask(&|| false) })
        }
        Err(QmpError::Closed) => Err(qemu.died()),
        Err(error) => Err(convert(error, "start", MOVE_LIMIT, &mut qemu)),
    }
}

/// Starts the machine saved in `folder` with `job`, up to the instruction at which
/// it was saved.
pub(crate) fn restore(
    host: &Host,
    folder: &Path,
    job: &Path,
    log: &Path,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Restored, Error> {
    let path = folder.join("place");
    let place = fs::read_to_string(&path).map_err(Error::io("cannot read", &path))?;
    let (mut qemu, stream) = Qemu::start(host, &Purpose::Restore { job }, folder, log)?;
    let restored = Qmp::new(stream, stopped).and_then(|mut qmp| {
        ignore_shared(&mut qmp)?;
        // QEMU runs in the machine's folder, so no path needs quoting.
        qmp.execute("migrate-incoming", json!({ "uri": "exec:cat state" }))?;
        qmp.migrated(MOVE_LIMIT)?;
        let buffer = locate(&mut qmp, &place)?;
        qmp.execute("cont", json!({}))?;
        Ok((qmp.ask(&|| false), buffer))
    });
    match restored {
        Ok((qmp, buffer)) => {
            let memory = qemu.memory().map_err(Error::system("read QEMU's memory"))?;
            Ok(Restored { qemu, memory, buffer, qmp })
        }
        Err(QmpError::Closed) => Err(qemu.died()),
        Err(error) => Err(convert(error, "start", MOVE_LIMIT, &mut qemu)),
    }
}

/// Where QEMU has the machine's memory at address `place`.
fn locate(qmp: &mut Qmp, place: &str) -> Result<u64, QmpError> {
    // The one command that tells is one of the human monitor's.
    let line = json!({ "command-line": format!("gpa2hva {place}") });
    let said = qmp.execute("human-monitor-command", line)?;
    let buffer = host_address(said.as_str().unwrap_or_default());
    buffer.ok_or_else(|| QmpError::Refused { command: "gpa2hva", message: said.to_string() })
}

/// The address in `Host virtual address for 0x2000000 (ram) is 0x7f0123456000`.
fn host_address(said: &str) -> Option<u64> {
    let (_, address) = said.trim().rsplit_once(" is 0x")?;
    u64::from_str_radix(address, 16).ok()
}

fn convert(error: QmpError, what: &'static str, limit: Duration, qemu: &mut Qemu) -> Error {
    match error {
        QmpError::Refused { command, message } => Error::Refused { command, message },
        QmpError::Stopped => Error::Stopped,
        QmpError::Timeout | QmpError::Closed => {
            Error::Timeout { what, seconds: limit.as_secs(), detail: qemu.detail() }
        }
    }
}

/// A message of the inner side from before it was ready.
fn inner_failure(qemu: &mut Qemu) -> Option<Error> {
    let mut bytes = Vec::new();
    qemu.journal.read_to_end(&mut bytes).ok()?;
    let mut packets = Packets::default();
    packets.push(&bytes);
    let mut decoder = stasis_journal::Decoder::new();
    // So early all packets are short.
    while let Ok(Some(Packet::Short(bytes))) = packets.next() {
        decoder.push(&bytes);
    }
    while let Ok(Some(entry)) = decoder.next_entry() {
        if let stasis_journal::Entry::Failed(message) = entry {
            return Some(Error::Died { status: message, detail: qemu.detail() });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_machines_go() {
        let parent = tempfile::tempdir().unwrap();
        for age in 0..7u64 {
            let path = parent.path().join(age.to_string());
            fs::create_dir(&path).unwrap();
            let when = SystemTime::now() - Duration::from_secs(100 * age);
            File::open(&path).unwrap().set_modified(when).unwrap();
        }
        // The current one stays though it is the oldest.
        prune(parent.path(), &parent.path().join("6"));
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0", "1", "2", "6"]);
    }

    #[test]
    fn the_monitors_answer_is_understood() {
        let said = "Host virtual address for 0x2000000 (ram) is 0x7f0123456000\r\n";
        assert_eq!(host_address(said), Some(0x7f01_2345_6000));
        assert_eq!(host_address("No memory is mapped at address 0x0"), None);
    }
}
