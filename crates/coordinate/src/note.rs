//! What a cgroup's weight was, noted in a file as long as it is raised, so that
//! it can be restored by the next process if this one is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};

use crate::cgroup::Weights;
use crate::Error;

/// What is noted: the weights to be restored, and those that were set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raised {
    pub(crate) original: Weights,
    pub(crate) set: Weights,
}

/// Between the two in the file.
const BETWEEN: &str = "raised to\n";

/// A cgroup's note. Who has it open and locked has the cgroup.
#[derive(Debug)]
pub(crate) struct Note {
    file: File,
    path: PathBuf,
}

impl Note {
    /// Opens the note of `cgroup`, and says what an earlier process has left.
    pub(crate) fn open(folder: &Path, cgroup: &Path) -> Result<(Self, Option<Raised>), Error> {
        let name = cgroup.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        let path = folder.join(name);
        let failed = |source| Error::Note { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::Coordinated(cgroup.to_owned()))
            }
            Err(error) => return Err(failed(error.into())),
        }
        let mut text = String::new();
        // One that was cut short is of a weight that was not yet raised.
        let left = match file.read_to_string(&mut text) {
            Ok(_) => parse(&text),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            Err(error) => return Err(failed(error)),
        };
        Ok((Self { file, path }, left))
    }

    pub(crate) fn write(&mut self, raised: &Raised) -> Result<(), Error> {
        let text = format!("{}{BETWEEN}{}end\n", raised.original, raised.set);
        self.put(text.as_bytes())
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
        put(&mut self.file).map_err(|source| Error::Note { path: self.path.clone(), source })
    }
}

fn parse(text: &str) -> Option<Raised> {
    let (original, set) = text.strip_suffix("end\n")?.split_once(BETWEEN)?;
    Some(Raised { original: Weights::parse(original)?, set: Weights::parse(set)? })
}
