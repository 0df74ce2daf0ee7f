//! A folder of results belongs to one run at a time. The results of the run before are in it until
//! those of the new one are.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};

use crate::file_list::{escaped, is_inside, listed, names_in, LIST_FILE};
use crate::files::make_folder;
use crate::names::{has_older_results, names_in_place, names_of_run, OLDER_FILES};
use crate::{earlier, inputs, ResultsError};

/// A folder of results, for as long as this lives no other run's.
///
/// Files are a run's own once [`Self::file`] has named them. All other files in the folder are the
/// user's: they are neither removed nor written over.
///
/// Dropped before [`Self::begun`], it leaves the folder as it found it. After that, and until
/// [`Self::finished`], an earlier run's results are beside the new ones, in
/// [`EARLIER_FOLDER`](crate::EARLIER_FOLDER).
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    list: File,
    own: BTreeSet<String>,
    progress: Progress,
    /// Folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
}

/// Progress of a run with its results.
#[derive(Debug, PartialEq)]
enum Progress {
    /// Nothing is lost if this run's files go.
    Claimed,
    /// This run's files are results, though not whole.
    Begun,
    /// This run's results are whole, or its files join those that are.
    Finished,
}

/// The folder of results that `path` is, or that it is a file of.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        _ if path.is_dir() => path,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Drop for ResultsFolder {
    fn drop(&mut self) {
        if self.progress == Progress::Claimed {
            // If this fails, the next claim finds the rest and goes on from there.
            let _ = self.undo();
        }
        // Now: a process that is just being started may hold the file a little longer.
        let _ = flock(&self.list, FlockOperation::Unlock);
    }
}

impl ResultsFolder {
    /// Makes the folder if it is missing, and sets aside what an earlier run left in it, but none
    /// of `inputs`: all that the run reads.
    ///
    /// # Errors
    /// An input would be destroyed, another run has the folder, or the folder cannot be made or
    /// written.
    pub fn claim(path: &Path, inputs: &[PathBuf]) -> Result<Self, ResultsError> {
        Self::check(path, inputs)?;
        let made = path.ancestors().take_while(|path| is_missing(path)).map(Path::to_owned);
        let made = made.collect();
        let mut folder = Self::join(path)?;
        folder.made = made;
        let names = names_in_place(path);
        if earlier::is_kept(path) {
            remove_all(path, &names)?;
        } else if !names.is_empty() {
            earlier::set_aside(path, &names)?;
        }
        folder.own.clear();
        folder.list.set_len(0).map_err(ResultsError::write(&path.join(LIST_FILE)))?;
        folder.progress = Progress::Claimed;
        Ok(folder)
    }

    /// Results written from now on are kept, even if the run fails.
    pub fn begun(&mut self) {
        if self.progress == Progress::Claimed {
            self.progress = Progress::Begun;
        }
    }

    /// Calls [`Self::begun`] if a run in a folder within, which [`Self::file`] has named, has left
    /// a file.
    pub fn begun_within(&mut self) {
        if self.own.iter().any(|name| !listed(&self.path.join(name)).is_empty()) {
            self.begun();
        }
    }

    /// The results are whole; those of an earlier run are removed.
    ///
    /// # Errors
    /// The earlier results cannot be removed.
    pub fn finished(&mut self) -> Result<(), ResultsError> {
        self.progress = Progress::Finished;
        earlier::remove(&self.path)
    }

    /// Returns whether [`Self::begun`] or [`Self::finished`] was called.
    pub fn has_begun(&self) -> bool {
        self.progress != Progress::Claimed
    }

    /// The folder of the results of an earlier run, if there are any.
    pub fn earlier(&self) -> Option<PathBuf> {
        earlier::is_kept(&self.path).then(|| earlier::folder(&self.path))
    }

    /// Removes this run's files, and puts an earlier run's back.
    fn undo(&self) -> Result<(), ResultsError> {
        remove_all(&self.path, &names_in_place(&self.path))?;
        if earlier::is_kept(&self.path) {
            return earlier::put_back(&self.path);
        }
        let list = self.path.join(LIST_FILE);
        self.list.set_len(0).map_err(ResultsError::write(&list))?;
        if !self.made.is_empty() {
            fs::remove_file(&list).map_err(ResultsError::write(&list))?;
            // A folder in which the user has put something stays.
            let _ = self.made.iter().try_for_each(fs::remove_dir);
        }
        Ok(())
    }

    /// Like [`Self::claim`], but the folder's contents stay: for files that join a run's results.
    ///
    /// # Errors
    /// As there.
    pub fn join(path: &Path) -> Result<Self, ResultsError> {
        make_folder(path)?;
        let name = path.join(LIST_FILE);
        let mut options = OpenOptions::new();
        let opened = options.create(true).read(true).append(true).open(&name);
        let list = opened.map_err(ResultsError::write(&name))?;
        flock(&list, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                ResultsError::InUse { path: path.to_owned() }
            } else {
                ResultsError::write(&name)(error.into())
            }
        })?;
        earlier::recover(path)?;
        let mut folder = Self {
            path: path.to_owned(),
            list,
            own: BTreeSet::new(),
            progress: Progress::Finished,
            made: Vec::new(),
        };
        folder.own = folder.names()?.into_iter().collect();
        if folder.own.is_empty() && has_older_results(path) {
            for name in OLDER_FILES {
                folder.list(name)?;
            }
        }
        Ok(folder)
    }

    /// Refuses where [`Self::claim`] would destroy one of `inputs`.
    ///
    /// # Errors
    /// [`ResultsError::IsInput`].
    pub fn check(path: &Path, inputs: &[PathBuf]) -> Result<(), ResultsError> {
        inputs::check(path, &names_of_run(path), inputs)
    }

    /// A part of a disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the run's file or folder `name`, which may not be one that somebody else
    /// has put there.
    ///
    /// # Errors
    /// The file is somebody else's, or the list cannot be written.
    pub fn file(&mut self, name: &str) -> Result<PathBuf, ResultsError> {
        let path = self.path.join(name);
        if self.own.contains(name) {
            return Ok(path);
        }
        if !is_inside(Path::new(name)) || fs::symlink_metadata(&path).is_ok() {
            return Err(ResultsError::Foreign { path });
        }
        // Before the file is there: the remains of a killed run are listed too.
        self.list(name)?;
        Ok(path)
    }

    fn list(&mut self, name: &str) -> Result<(), ResultsError> {
        writeln!(self.list, "{}", escaped(name))
            .map_err(ResultsError::write(&self.path.join(LIST_FILE)))?;
        self.own.insert(name.into());
        Ok(())
    }

    fn names(&mut self) -> Result<Vec<String>, ResultsError> {
        let mut bytes = Vec::new();
        let read = self.list.rewind().and_then(|()| self.list.read_to_end(&mut bytes));
        read.map_err(ResultsError::write(&self.path.join(LIST_FILE)))?;
        Ok(names_in(&bytes))
    }
}

/// Returns whether nothing is there, not even a link.
fn is_missing(path: &Path) -> bool {
    let missing = |error: std::io::Error| error.kind() == ErrorKind::NotFound;
    !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err_and(missing)
}

/// Removes the files and folders `names` in the folder `path`, of which some may be gone.
fn remove_all(path: &Path, names: &[String]) -> Result<(), ResultsError> {
    // Files before the folders that they are in.
    for name in names.iter().rev() {
        let path = path.join(name);
        let gone = match fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => fs::remove_dir(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match gone.map_err(|error| (error.kind(), error)) {
            // A folder in which the user has put something stays.
            Ok(()) => {}
            Err((
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::DirectoryNotEmpty,
                _,
            )) => {}
            Err((_, error)) => return Err(ResultsError::write(&path)(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IOS_FILE, SUMMARY_FILE};

    #[test]
    fn a_name_of_any_symbols_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let names = ["two\nlines", "end\r", "\\n", "a\\", "b"];
        let mut claimed = ResultsFolder::claim(&path, &[]).unwrap();
        for name in names {
            fs::write(claimed.file(name).unwrap(), "").unwrap();
        }
        claimed.begun();
        drop(claimed);
        assert_eq!(listed(&path), names);
        // The next run takes them away.
        let mut next = ResultsFolder::claim(&path, &[]).unwrap();
        next.begun();
        next.finished().unwrap();
        assert!(names.iter().all(|name| !path.join(name).exists()));
    }

    /// A child that is forked and has not yet started its program has all open files.
    #[test]
    fn it_is_free_at_once_though_another_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let first = ResultsFolder::claim(&path, &[]).unwrap();
        let held = first.list.try_clone().unwrap();
        drop(first);
        ResultsFolder::claim(&path, &[]).unwrap();
        drop(held);
    }

    #[test]
    fn an_earlier_run_s_files_go_and_the_users_stay() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("r");
        let mut first = ResultsFolder::claim(&path, &[]).unwrap();
        for name in ["ios.csv", "drive0.after-cut.img", "logs", "logs/a", "logs/b"] {
            let file = first.file(name).unwrap();
            if name == "logs" {
                fs::create_dir(file).unwrap()
            } else {
                fs::write(file, name).unwrap()
            }
        }
        first.finished().unwrap();
        drop(first);
        fs::write(path.join("notes.txt"), "mine").unwrap();
        fs::write(path.join("logs/mine"), "mine").unwrap();
        let joined = ResultsFolder::join(&path).unwrap();
        assert!(path.join("ios.csv").exists(), "nothing is removed");
        drop(joined);
        let mut second = ResultsFolder::claim(&path, &[]).unwrap();
        second.finished().unwrap();
        let mut files: Vec<_> =
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, [LIST_FILE, "logs", "notes.txt"]);
        assert_eq!(fs::read_dir(path.join("logs")).unwrap().count(), 1);
    }

    #[test]
    fn a_run_s_folder_within_goes_with_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut outer = ResultsFolder::claim(folder.path(), &[]).unwrap();
        for name in ["a", "b"] {
            let inner = outer.file(name).unwrap();
            let mut inner = ResultsFolder::claim(&inner, &[]).unwrap();
            fs::write(inner.file(IOS_FILE).unwrap(), "").unwrap();
            inner.finished().unwrap();
        }
        outer.finished().unwrap();
        drop(outer);
        fs::write(folder.path().join("b/notes.txt"), "mine").unwrap();
        // An input within is seen before anything is removed.
        let input = folder.path().join("a").join(IOS_FILE);
        ResultsFolder::claim(folder.path(), std::slice::from_ref(&input)).unwrap_err();
        assert!(input.exists());
        let outer = ResultsFolder::claim(folder.path(), &[]).unwrap();
        assert!(!outer.path().join("a").exists());
        let files: Vec<_> = fs::read_dir(outer.path().join("b")).unwrap().flatten().collect();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].file_name(), "notes.txt");
    }

    #[test]
    fn files_of_others_are_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("summary.json"), "mine").unwrap();
        let mut results = ResultsFolder::claim(folder.path(), &[]).unwrap();
        let error = results.file("summary.json").unwrap_err();
        assert!(error.to_string().contains("summary.json"), "{error}");
        for name in ["../x", "/x", "", LIST_FILE] {
            results.file(name).unwrap_err();
        }
        drop(results);
        let list = folder.path().join(LIST_FILE);
        fs::write(list, "../outside\n/etc/passwd\nsummary.json/x\n").unwrap();
        ResultsFolder::claim(folder.path(), &[]).unwrap();
        assert_eq!(fs::read(folder.path().join("summary.json")).unwrap(), b"mine");
    }

    #[test]
    fn a_folder_is_one_runs_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = ResultsFolder::claim(folder.path(), &[]).unwrap();
        let error = ResultsFolder::claim(folder.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("another run"), "{error}");
        drop(first);
        ResultsFolder::claim(folder.path(), &[]).unwrap();
    }

    #[test]
    fn results_without_a_list_are_known_by_their_summary() {
        let folder = tempfile::tempdir().unwrap();
        let summary = folder.path().join(SUMMARY_FILE);
        fs::write(&summary, "{\"boot_virtual_seconds\": 0.1}").unwrap();
        fs::write(folder.path().join(IOS_FILE), "").unwrap();
        let mut results = ResultsFolder::claim(folder.path(), &[]).unwrap();
        results.file(IOS_FILE).unwrap();
        results.finished().unwrap();
        assert!(!summary.exists());
    }
}
