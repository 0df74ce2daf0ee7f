//! The virtio port in a guest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::hint_message::Message;
use crate::Error;

/// The port that messages go through.
#[derive(Debug)]
pub(crate) struct Port {
    file: File,
    path: PathBuf,
}

impl Port {
    /// Opens the port of a name, or a device, if a path is given.
    pub(crate) fn open(name: &str) -> Result<Self, Error> {
        let class = Path::new("/sys/class/virtio-ports");
        let path = match name.starts_with('/') {
            true => PathBuf::from(name),
            // By its number: without udev nothing has its name.
            false => named(class, name).ok_or_else(|| Error::NoPort(name.to_owned()))?,
        };
        // A port whose other end nobody has open blocks otherwise.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&path);
        match file {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(Error::Port { path, source }),
        }
    }

    /// Sends a message. Returns whether it was sent: it is not while nobody listens.
    pub(crate) fn send(&mut self, message: &Message) -> Result<bool, Error> {
        let bytes = message.encode();
        match self.file.write(&bytes) {
            Ok(count) => Ok(count == bytes.len()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(source) => Err(Error::PortLost { path: self.path.clone(), source }),
        }
    }
}

/// The device below /dev whose port bears a name.
fn named(class: &Path, wanted: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(class).ok()?;
    let fits = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == wanted)
    };
    let entry = entries.filter_map(Result::ok).find(fits)?;
    Some(Path::new("/dev").join(entry.file_name()))
}
