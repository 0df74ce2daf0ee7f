//! The software host's own kind of machine: Debian's Linux with KVM, booted once
//! and kept.

use crate::kept::{Kept, Key, Store};
use crate::packet::{Packet, Packets};
use crate::qemu::{machine, Purpose, Qemu};
use crate::saved::{convert, make_folder, save, write};
use crate::{initramfs, Error, Host, Kernel};
use stasis_qemu_vm::process::find_qemu;
use stasis_qemu_vm::qmp::{Qmp, QmpError};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The boot takes 8 s on a 2026 cloud machine, and ten times that where other work
/// keeps it busy; more is a failure.
const MAX_BOOT: Duration = Duration::from_secs(300);

/// The booted machine for `host`, made if there is none.
pub(crate) fn get(
    host: &Host,
    kernel: &Kernel,
    log: &Path,
    stopped: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<Kept, Error> {
    let make = |folder: &Path| build(host, kernel, folder, log, stopped, progress);
    match host.snapshot {
        true => store(host).get(key(host, kernel)?, make),
        false => store(host).private(make),
    }
}

/// Returns whether one is kept for `host`.
pub(crate) fn is_kept(host: &Host, kernel: &Kernel) -> bool {
    key(host, kernel).is_ok_and(|key| store(host).has(key))
}

fn store(host: &Host) -> Store {
    Store::new(host.cache.join("softkvm/machines"))
}

/// Everything that the saved state depends on.
fn key(host: &Host, kernel: &Kernel) -> Result<Key, Error> {
    let mut key = Key::new("softkvm machine 2");
    key.part(kernel.release.as_bytes());
    key.part(&fs::read(&host.executable).map_err(Error::io("cannot read", &host.executable))?);
    key.file(&find_qemu().ok_or(Error::QemuMissing)?)?;
    key.file(&kernel.image)?;
    machine(host).iter().for_each(|argument| key.part(argument.as_bytes()));
    Ok(key)
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
    make_folder(host, folder)?;
    let archive = folder.join("initramfs");
    initramfs::write(&archive, &host.executable, kernel)?;
    let purpose = Purpose::Build { kernel, initramfs: &archive };
    let (mut qemu, stream) = Qemu::start(host, &purpose, folder, log)?;
    let saved = Qmp::new(stream, stopped).and_then(|mut qmp| save(&mut qmp, folder, MAX_BOOT));
    let state = match saved {
        Ok(state) => state,
        Err(QmpError::Closed) => {
            // The inner side's last message before it gave up, if any.
            return Err(inner_failure(&mut qemu).unwrap_or_else(|| qemu.died()));
        }
        Err(error) => return Err(convert(error, "boot", MAX_BOOT, &mut qemu)),
    };
    let place = place(&mut qemu)?;
    drop(qemu);
    write(folder, &state, place, host.snapshot)?;
    fs::remove_file(&archive).map_err(Error::io("cannot remove", &archive))
}

/// The buffer's physical address, which the inner side has sent before it paused the machine.
fn place(qemu: &mut Qemu) -> Result<u64, Error> {
    let mut packets = Packets::default();
    let mut bytes = [0; 64];
    let length = qemu.events.read(&mut bytes).map_err(Error::system("read from QEMU"))?;
    packets.push(&bytes[..length]);
    match packets.next() {
        Ok(Some(Packet::Place { address, .. })) => Ok(address),
        _ => Err(Error::Timeout {
            event: "say where its buffer is",
            seconds: MAX_BOOT.as_secs(),
            detail: qemu.detail(),
        }),
    }
}

/// A message of the inner side from before it was ready.
fn inner_failure(qemu: &mut Qemu) -> Option<Error> {
    let mut bytes = Vec::new();
    qemu.events.read_to_end(&mut bytes).ok()?;
    let mut packets = Packets::default();
    packets.push(&bytes);
    let mut decoder = stasis_run_events::Decoder::new();
    // So early all packets are short.
    while let Ok(Some(Packet::Short(bytes))) = packets.next() {
        decoder.push(&bytes);
    }
    while let Ok(Some(event)) = decoder.next_event() {
        if let stasis_run_events::RunEvent::Failed(message) = event {
            return Some(Error::Died { status: message, detail: qemu.detail() });
        }
    }
    None
}
