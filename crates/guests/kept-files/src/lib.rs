//! Digests of files that later runs use again.
//!
//! A folder is [sealed](seal) when it is whole, and [checked](check) before it is used. Promise: a
//! check finds each file that is missing, cut, or has another byte, a flipped bit among them, and
//! names it. Holes of a file are zeros, however a file system stores them.
//!
//! A check reads all bytes of a file, unless the same file (inode, length and time of the last write)
//! was found sound within [`TRUSTED`] and since the system was started. Such a file's bytes are those
//! in the system's memory, or a disk has changed them since.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{seek, SeekFrom};
use rustix::io::Errno;
use twox_hash::xxhash3_128::Hasher;

/// Time for which a file that was found sound is not read again.
pub const TRUSTED: Duration = Duration::from_secs(3600);

/// Names of the files of digests, and of what was found sound.
const DIGESTS: &str = "digests";
const SOUND: &str = "sound";
/// Bytes of a page, and bytes that are read at once.
const PAGE: usize = 4096;
const PIECE: usize = 1 << 20;

/// A damage of kept files.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// Other bytes than were written.
    #[error("{} is damaged: it has other bytes than were written", .0.display())]
    Bytes(PathBuf),
    /// A file that cannot be read, or is not there.
    #[error("{} is damaged: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl Damage {
    /// The damaged file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Bytes(path) | Self::File { path, .. } => path,
        }
    }

    fn file(path: PathBuf) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path, source }
    }
}

/// Writes the digests of all files below `folder` but those named `but`, which is whole.
///
/// # Errors
/// A file that cannot be read or written.
pub fn seal(folder: &Path, but: &[&str]) -> io::Result<()> {
    let mut names = Vec::new();
    list(folder, "", &mut names)?;
    names
        .retain(|name| ![DIGESTS, SOUND].contains(&name.as_str()) && !but.contains(&name.as_str()));
    names.sort();
    let mut text = String::new();
    let mut sound = Sound::default();
    for name in &names {
        let file = File::open(folder.join(name))?;
        text += &format!("{:032x} {name}\n", digest(&file)?);
        sound.add(name, &file)?;
    }
    // The list has a digest as well.
    text += &format!("{:032x}\n", Hasher::oneshot(text.as_bytes()));
    fs::write(folder.join(DIGESTS), text)?;
    // Without it the next check reads all.
    let _ = sound.write(folder);
    Ok(())
}

/// Returns whether a folder is sealed.
pub fn is_sealed(folder: &Path) -> bool {
    folder.join(DIGESTS).exists()
}

/// Checks all files of a folder that were there when it was sealed.
///
/// # Errors
/// The first damage that is found.
pub fn check(folder: &Path) -> Result<(), Damage> {
    check_again(folder, TRUSTED)
}

/// Checks as [`check`] does, and reads again what was found sound longer ago than `trusted`.
///
/// # Errors
/// The first damage that is found.
pub fn check_again(folder: &Path, trusted: Duration) -> Result<(), Damage> {
    let path = folder.join(DIGESTS);
    let bytes = fs::read(&path).map_err(Damage::file(path.clone()))?;
    let files = read_digests(&bytes).ok_or(Damage::Bytes(path))?;
    let (mut sound, mut is_new) = (Sound::read(folder, trusted), false);
    for (name, expected) in files {
        let path = folder.join(name);
        let file = File::open(&path).map_err(Damage::file(path.clone()))?;
        if sound.has(name, &file) {
            continue;
        }
        is_new = true;
        match digest(&file).and_then(|digest| sound.add(name, &file).map(|()| digest)) {
            Ok(digest) if digest == expected => {}
            Ok(_) => return Err(Damage::Bytes(path)),
            Err(source) => return Err(Damage::File { path, source }),
        }
    }
    if is_new {
        let _ = sound.write(folder);
    }
    Ok(())
}

/// Returns whether a file that is in no list is sound, by `check`, which reads it.
pub fn is_sound(path: &Path, check: impl FnOnce() -> bool) -> bool {
    let (Some(folder), Some(name)) =
        (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return false;
    };
    let Ok(file) = File::open(path) else { return false };
    let mut sound = Sound::read(folder, TRUSTED);
    if sound.has(name, &file) {
        return true;
    }
    let is_sound = check() && sound.add(name, &file).is_ok();
    if is_sound {
        let _ = sound.write(folder);
    }
    is_sound
}

/// The digest and the name of each file of a list; None where the list is damaged.
fn read_digests(bytes: &[u8]) -> Option<Vec<(&str, u128)>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let begin = text.rfind('\n').map_or(0, |end| end + 1);
    let (lines, last) = text.split_at(begin);
    if last != format!("{:032x}", Hasher::oneshot(lines.as_bytes())) {
        return None;
    }
    let line = |line| {
        let (digest, name) = str::split_once(line, ' ')?;
        Some((name, u128::from_str_radix(digest, 16).ok()?))
    };
    lines.lines().map(line).collect()
}

/// Adds the names of all files below a folder, relative to `folder`.
fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(prefix))? {
        let entry = entry?;
        let own = entry.file_name().into_string().map_err(|_| ErrorKind::InvalidFilename)?;
        if own.contains('\n') {
            return Err(ErrorKind::InvalidFilename.into());
        }
        let name = if prefix.is_empty() { own } else { format!("{prefix}/{own}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(folder, &name, names)?;
        } else if kind.is_file() {
            names.push(name);
        }
    }
    Ok(())
}

/// The digest of a file: of its length, and of each page that is not all zeros with its place.
fn digest(file: &File) -> io::Result<u128> {
    const ZEROS: [u8; PAGE] = [0; PAGE];
    let length = file.metadata()?.len();
    let mut hasher = Hasher::new();
    hasher.write(&length.to_le_bytes());
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < length {
        let page = PAGE as u64;
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data / page * page,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(at))?.next_multiple_of(page).min(length);
        while at < end {
            let bytes = &mut piece[..(end - at).min(PIECE as u64) as usize];
            file.read_exact_at(bytes, at)?;
            for page in bytes.chunks(PAGE) {
                if page != &ZEROS[..page.len()] {
                    hasher.write(&at.to_le_bytes());
                    hasher.write(page);
                }
                at += page.len() as u64;
            }
        }
    }
    Ok(hasher.finish_128())
}

/// A file as it was found sound.
#[derive(PartialEq, Eq)]
struct State {
    inode: u64,
    length: u64,
    /// Time of the last write (ns since 1970).
    written: i128,
}

impl State {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (seconds, nanos) = (i128::from(metadata.mtime()), i128::from(metadata.mtime_nsec()));
        let written = 1_000_000_000 * seconds + nanos;
        Ok(Self { inode: metadata.ino(), length: metadata.len(), written })
    }
}

/// Files that were found sound, by name, with the time of that (s since 1970).
#[derive(Default)]
struct Sound(BTreeMap<String, (u64, State)>);

impl Sound {
    fn add(&mut self, name: &str, file: &File) -> io::Result<()> {
        self.0.insert(name.to_owned(), (now().as_secs(), State::of(file)?));
        Ok(())
    }

    fn has(&self, name: &str, file: &File) -> bool {
        let known = self.0.get(name).map(|(_, state)| state);
        State::of(file).is_ok_and(|state| known == Some(&state))
    }

    /// The files of a folder that were found sound no longer ago than `trusted`.
    fn read(folder: &Path, trusted: Duration) -> Self {
        let text = fs::read_to_string(folder.join(SOUND)).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(&boot()) {
            return Self::default();
        }
        let line = |line: &str| {
            let mut words = line.splitn(5, ' ');
            let mut number = || words.next()?.parse::<i128>().ok();
            let found = u64::try_from(number()?).ok()?;
            let (inode, length) = (number()?.try_into().ok()?, number()?.try_into().ok()?);
            let state = State { inode, length, written: number()? };
            Some((words.next()?.to_owned(), (found, state)))
        };
        // One that was found in the future is not known.
        let age = |found: u64| now().as_secs().checked_sub(found);
        let is_recent = |(_, (found, _)): &(String, (u64, State))| {
            age(*found).is_some_and(|age| age < trusted.as_secs())
        };
        Self(lines.filter_map(line).filter(is_recent).collect())
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = boot() + "\n";
        for (name, (found, State { inode, length, written })) in &self.0 {
            text += &format!("{found} {inode} {length} {written} {name}\n");
        }
        // Several programs may check at once.
        let new = folder.join(format!("{SOUND}.{}-{}", std::process::id(), now().as_nanos()));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, folder.join(SOUND)));
        if written.is_err() {
            let _ = fs::remove_file(new);
        }
        written
    }
}

/// Time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Identity of this start of the system (proc(5)).
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim_end().to_owned()
}
