//! Drives as vfio-user devices: their sockets, and their controllers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Result};
use stasis_config::Mistake;
use stasis_experiment::{Experiment, Polling, ServeSpec};
use stasis_nvme::Subsystem;
use stasis_runner::{controller, failure};
use stasis_serve::VfioUser;

use super::kept;
use super::open_drive::{queues, Planned};

/// The first QEMU with `vfio-user-pci`, and where Debian 13 has a later one.
const QEMU: (u32, u32) = (10, 1);
const INSTALL: &str =
    "on Debian 13: apt install qemu-system-x86/trixie-backports seabios/trixie-backports";

/// Limit on the controllers of a drive, as on the paths of one over NVMe/TCP.
const MAX_PLACES: usize = 16;

/// The places that are named, separated by commas: each one has a controller of each drive.
pub fn places(named: &Path) -> impl Iterator<Item = &Path> {
    named.as_os_str().as_bytes().split(|&byte| byte == b',').map(OsStr::from_bytes).map(Path::new)
}

/// Checks what a server of vfio-user devices cannot have.
pub fn check(serve: &ServeSpec) -> Result<(), Mistake> {
    if serve.vfio_user.is_none() {
        return Ok(());
    }
    if serve.nvme_tcp.is_some() || !serve.ublk.is_empty() {
        let message = "a drive is a vfio-user device, an NVMe/TCP target or a ublk device: leave out all but one of vfio-user, nvme-tcp and ublk";
        return Err(Mistake::at("vfio-user", message));
    }
    Ok(())
}

/// The vfio-user devices of a server.
pub struct Devices {
    /// By controller: the socket of the only drive, or the folder of the sockets.
    places: Vec<Place>,
    mapped: bool,
}

/// A place where each drive has a controller.
struct Place {
    path: PathBuf,
    is_folder: bool,
}

impl Place {
    /// The socket of a drive.
    fn socket(&self, drive: &str) -> PathBuf {
        match self.is_folder {
            true => self.path.join(format!("{drive}.sock")),
            false => self.path.clone(),
        }
    }
}

impl Devices {
    /// Returns the places of an experiment's sockets, if its drives are to be such devices.
    pub fn of(experiment: &Experiment) -> Result<Option<Self>> {
        let serve = &experiment.serve;
        let Some(named) = &serve.vfio_user else { return Ok(None) };
        let count = experiment.drives.len();
        let mut all: Vec<Place> = Vec::new();
        for path in places(named) {
            let is_folder = path.is_dir();
            if path.as_os_str().is_empty() {
                bail!("vfio-user is `{}`, which has an empty name of a socket", named.display());
            }
            if !is_folder && count > 1 {
                bail!(
                    "vfio-user names one socket, {}, and there are {count} drives: name a folder that is there, for a socket NAME.sock of each",
                    path.display()
                );
            }
            if all.iter().any(|other| other.path == path) {
                bail!(
                    "vfio-user names {} twice: each controller of a drive has a socket of its own",
                    path.display()
                );
            }
            all.push(Place { path: path.to_owned(), is_folder });
        }
        if all.len() > MAX_PLACES {
            bail!(
                "vfio-user names {} sockets, and a drive has at most {MAX_PLACES} controllers",
                all.len()
            );
        }
        if let Some(version) = qemu().filter(|version| *version < QEMU) {
            let ((major, minor), (wanted, after)) = (version, QEMU);
            stasis_serve::log::warn(
                "vfio-user",
                &format!("this machine's QEMU is {major}.{minor}, which has no vfio-user-pci; install {wanted}.{after} or later ({INSTALL})"),
            );
        }
        // A thread that never looks is told of each doorbell by a message.
        let mapped = serve.poll != Polling::Never;
        Ok(Some(Self { places: all, mapped }))
    }

    /// The folder in which sockets are made.
    pub fn folder(place: &Path) -> PathBuf {
        match place.parent() {
            _ if place.is_dir() => place.to_owned(),
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => ".".into(),
        }
    }

    /// Makes a drive such a device, or one for each place.
    pub fn plug(&self, planned: &mut Planned, index: usize) {
        planned.shown.interface = "vfio-user".into();
        let new = &mut planned.new;
        let mut sockets = self.places.iter().map(|place| place.socket(&new.name));
        // There is at least one.
        new.path = sockets.next().unwrap_or_default();
        let further = sockets.collect();
        let (mut spec, before) = (planned.spec.clone(), planned.before.take());
        let (name, serial) = (new.name.clone(), spec.serial_number(index));
        new.vfio_user = Some(VfioUser {
            mapped: self.mapped,
            further,
            subsystem: Box::new(move |capacity, discard_zeroes| {
                let queues = queues(&spec);
                controller::check_room(&spec, capacity).map_err(|error| failure::told(&error))?;
                controller::fit_pairs(&mut spec, capacity);
                let made = controller::config(&spec, serial, queues, capacity, discard_zeroes);
                // Doorbells in mapped memory need no shadows.
                let config = stasis_nvme::Config { shadow_doorbells: false, ..made };
                kept::restore(config, before, &spec, &name, Subsystem::with_state)
                    .map_err(|error| failure::told(&error))
            }),
        });
    }

    /// Returns the option by which guests get the drive `name`: the first one, and those of its
    /// further controllers.
    pub fn place(&self, name: &str) -> String {
        let device = |path: &Path| {
            let path = path.display();
            format!(
                r#"-device '{{"driver":"vfio-user-pci","socket":{{"type":"unix","path":"{path}"}}}}'"#
            )
        };
        let paths: Vec<_> = self.places.iter().map(|place| place.socket(name)).collect();
        let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let devices: Vec<_> = paths.iter().map(|path| device(path)).collect();
        let devices = devices.join(", or another guest's ");
        format!("{}; QEMU {}.{} or later: {devices}", shown.join(","), QEMU.0, QEMU.1)
    }
}

/// The version of the QEMU that is installed.
fn qemu() -> Option<(u32, u32)> {
    let output = Command::new("qemu-system-x86_64").arg("--version").output().ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
}

fn version(output: &str) -> Option<(u32, u32)> {
    let mut numbers = output.split_once("version ")?.1.split(['.', ' ', '(', '\n']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let old = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright";
        assert_eq!(version(old), Some((7, 2)));
        let new = "QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)";
        assert!(version(new) > Some(QEMU) && version(old) < Some(QEMU));
        assert_eq!(version("something else"), None);
    }
}
