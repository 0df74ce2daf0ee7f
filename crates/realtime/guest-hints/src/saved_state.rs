//! The original value of a setting, saved in a file as long as the setting is changed, so that it
//! can be restored by the next process if this one is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};

use crate::Error;

/// End of saved state; one without it was cut short.
const END: &str = "end\n";

/// The saved state of a cgroup or drive. The process that has it open and locked controls that.
#[derive(Debug)]
pub(crate) struct SavedState {
    file: File,
    path: PathBuf,
}

impl SavedState {
    /// Opens the saved state of `owner`, and returns the content that an earlier process has left.
    pub(crate) fn open(folder: &Path, owner: &Path) -> Result<(Self, String), Error> {
        let name = owner.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        let path = folder.join(name);
        let failed = |source| Error::SavedState { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Coordinated(owner.to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        let mut text = String::new();
        let leftover = match file.read_to_string(&mut text) {
            // Half a state belongs to a setting that was not changed yet.
            Ok(_) => text.strip_suffix(END).unwrap_or_default().to_owned(),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok((Self { file, path }, leftover))
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Error> {
        self.put(format!("{text}{END}").as_bytes())
    }

    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.put(b"")
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let put = |file: &mut File| {
            file.seek(SeekFrom::Start(0))?;
            file.set_len(0)?;
            file.write_all(bytes)
        };
        put(&mut self.file).map_err(|source| Error::SavedState { path: self.path.clone(), source })
    }
}
