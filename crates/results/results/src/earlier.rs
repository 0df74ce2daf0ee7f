//! Results of an earlier run, in the folder of a run that has not finished its own.
//!
//! A rename makes each step: a process that is killed at any moment leaves either run's results, and
//! the next claim of the folder goes on from there.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::file_list::{listed, LIST_FILE};
use crate::ResultsError;

/// The folder of the results of an earlier run, in that of a run which has not finished its own.
pub const EARLIER_FOLDER: &str = ".stasis-before";
/// Name of [`EARLIER_FOLDER`] while files are on their way into it, or back.
const MOVING: &str = ".stasis-moving";
/// Name of [`EARLIER_FOLDER`] once the new results are whole.
const OBSOLETE: &str = ".stasis-obsolete";

/// Folder of the earlier results of the folder `path`, if they are kept.
pub fn folder(path: &Path) -> PathBuf {
    path.join(EARLIER_FOLDER)
}

/// Returns whether an earlier run's results are kept in the folder `path`.
pub fn is_kept(path: &Path) -> bool {
    folder(path).join(LIST_FILE).is_file()
}

/// Message about the results of the run before in the folder of results `path`, if a run that did
/// not end has left them there.
pub fn earlier_results(path: &Path) -> Option<String> {
    let text = || format!("the results of the run before are in {}", folder(path).display());
    is_kept(path).then(text)
}

/// The names of all that is kept in the folder `path`, for its removal.
pub fn names(path: &Path) -> Vec<String> {
    let below = [LIST_FILE.to_owned()].into_iter().chain(listed(&folder(path)));
    let below = below.map(|name| format!("{EARLIER_FOLDER}/{name}"));
    [EARLIER_FOLDER.to_owned()].into_iter().chain(below).collect()
}

/// Goes on where a process was killed.
pub fn recover(path: &Path) -> Result<(), ResultsError> {
    remove_tree(&path.join(OBSOLETE))?;
    match path.join(MOVING).is_dir() {
        true => bring_back(path),
        false => Ok(()),
    }
}

/// Sets the results of the folder `path` aside, which has these files and folders.
pub fn set_aside(path: &Path, names: &[String]) -> Result<(), ResultsError> {
    let moving = path.join(MOVING);
    let begin = || {
        fs::create_dir(&moving)?;
        let mut list = names.join("\n");
        list.push('\n');
        fs::write(moving.join(LIST_FILE), list)
    };
    begin().map_err(ResultsError::write(&moving)).inspect_err(|_| {
        let _ = fs::remove_file(moving.join(LIST_FILE));
        let _ = fs::remove_dir(&moving);
    })?;
    let end = || {
        let list = path.join(LIST_FILE);
        fs::write(&list, "").map_err(ResultsError::write(&list))?;
        fs::rename(&moving, folder(path)).map_err(ResultsError::write(&moving))
    };
    move_all(path, &moving, names).and_then(|()| end()).inspect_err(|_| {
        // The error that is reported is the first.
        let _ = bring_back(path);
    })
}

/// Puts the earlier results of the folder `path` back, where no others are.
pub fn put_back(path: &Path) -> Result<(), ResultsError> {
    fs::rename(folder(path), path.join(MOVING)).map_err(ResultsError::write(&folder(path)))?;
    bring_back(path)
}

/// Removes the earlier results of the folder `path`, whose own are whole.
pub fn remove(path: &Path) -> Result<(), ResultsError> {
    if !is_kept(path) {
        return Ok(());
    }
    let obsolete = path.join(OBSOLETE);
    fs::rename(folder(path), &obsolete).map_err(ResultsError::write(&folder(path)))?;
    remove_tree(&obsolete)
}

fn remove_tree(path: &Path) -> Result<(), ResultsError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ResultsError::write(path)(error)),
        _ => Ok(()),
    }
}

fn bring_back(path: &Path) -> Result<(), ResultsError> {
    let moving = path.join(MOVING);
    let names = listed(&moving);
    // A file that is in no list is the user's.
    let list = path.join(LIST_FILE);
    fs::copy(moving.join(LIST_FILE), &list).map_err(ResultsError::write(&list))?;
    move_all(&moving, path, &names)?;
    fs::remove_file(moving.join(LIST_FILE))
        .and_then(|()| fs::remove_dir(&moving))
        .map_err(ResultsError::write(&moving))
}

/// Moves files and folders of these names, of which some may be gone. A file that another has taken
/// the name of stays.
fn move_all(from: &Path, to: &Path, names: &[String]) -> Result<(), ResultsError> {
    let mut folders = Vec::new();
    for name in names {
        let (source, target) = (from.join(name), to.join(name));
        let there = match fs::symlink_metadata(&source) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                continue;
            }
            there => there.map_err(ResultsError::write(&source))?,
        };
        let moved = if there.is_dir() {
            folders.push(source.clone());
            let mode = std::os::unix::fs::PermissionsExt::mode(&there.permissions());
            DirBuilder::new().recursive(true).mode(mode).create(&target)
        } else if fs::symlink_metadata(&target).is_ok() {
            Ok(())
        } else {
            let above = target.parent().map_or(Ok(()), fs::create_dir_all);
            above.and_then(|()| fs::rename(&source, &target))
        };
        moved.map_err(ResultsError::write(&source))?;
    }
    for folder in folders.iter().rev() {
        match fs::remove_dir(folder) {
            // The user has put something there.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => removed.map_err(ResultsError::write(folder))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{ResultsFolder, IOS_FILE, SUMMARY_FILE};

    /// All below a folder, with contents, but lists, which may name a file twice; none of a folder.
    fn below(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all.extend(below(&path));
            }
            if !path.ends_with(LIST_FILE) {
                all.insert(path.clone(), fs::read(path).ok());
            }
        }
        all
    }

    /// A run's results, with folders and another run's below, and a file of the user's in each.
    fn old(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut outer = ResultsFolder::claim(path, &[]).unwrap();
        fs::create_dir(outer.file("logs").unwrap()).unwrap();
        for name in [SUMMARY_FILE, IOS_FILE, "logs/a"] {
            fs::write(outer.file(name).unwrap(), format!("old {name}")).unwrap();
        }
        let inner = outer.file("inner").unwrap();
        let mut inner = ResultsFolder::claim(&inner, &[]).unwrap();
        fs::write(inner.file(IOS_FILE).unwrap(), "inner").unwrap();
        inner.finished().unwrap();
        drop(inner);
        outer.finished().unwrap();
        drop(outer);
        for mine in ["mine", "logs/mine", "inner/mine"] {
            fs::write(path.join(mine), "mine").unwrap();
        }
        below(path)
    }

    fn write_new(folder: &mut ResultsFolder) {
        for name in [SUMMARY_FILE, "new"] {
            fs::write(folder.file(name).unwrap(), "new").unwrap();
        }
    }

    #[test]
    fn a_run_that_does_not_begin_leaves_the_folder_as_it_was() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("r");
        let before = old(&path);
        for write in [false, true] {
            let mut new = ResultsFolder::claim(&path, &[]).unwrap();
            assert!(!path.join(SUMMARY_FILE).exists() && path.join("mine").exists());
            if write {
                write_new(&mut new);
            }
            drop(new);
            assert_eq!(below(&path), before);
        }
        // Without any, not even the folder stays.
        let none = temporary.path().join("a/b");
        write_new(&mut ResultsFolder::claim(&none, &[]).unwrap());
        assert!(!temporary.path().join("a").exists());
    }

    #[test]
    fn a_run_that_fails_on_its_way_leaves_both() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("r");
        let before = old(&path);
        let kept = folder(&path);
        for _ in 0..2 {
            let mut new = ResultsFolder::claim(&path, &[]).unwrap();
            write_new(&mut new);
            new.begun();
            drop(new);
            assert_eq!(fs::read(path.join("new")).unwrap(), b"new");
            assert_eq!(fs::read(kept.join("logs/a")).unwrap(), b"old logs/a");
            assert_eq!(fs::read(kept.join("inner").join(IOS_FILE)).unwrap(), b"inner");
            assert!(earlier_results(&path).is_some());
        }
        // The earlier ones are an input like any other.
        ResultsFolder::check(&path, &[kept.join(IOS_FILE)]).unwrap_err();
        drop(ResultsFolder::claim(&path, &[]).unwrap());
        assert_eq!(below(&path), before);
        let mut new = ResultsFolder::claim(&path, &[]).unwrap();
        write_new(&mut new);
        new.begun();
        new.finished().unwrap();
        drop(new);
        assert!(!kept.exists() && path.join("new").exists() && path.join("logs/mine").exists());
        assert_eq!(earlier_results(&path), None);
    }

    #[test]
    fn a_process_that_is_killed_while_files_move_loses_none() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("r");
        let before = old(&path);
        let names: Vec<_> = before
            .keys()
            .filter(|name| !name.ends_with("mine"))
            .map(|name| name.strip_prefix(&path).unwrap().to_string_lossy().into_owned())
            .collect();
        for count in 0..=names.len() {
            let moving = path.join(MOVING);
            fs::create_dir(&moving).unwrap();
            fs::write(moving.join(LIST_FILE), names.join("\n")).unwrap();
            move_all(&path, &moving, &names[..count]).unwrap();
            drop(ResultsFolder::claim(&path, &[]).unwrap());
            assert_eq!(below(&path), before, "{count} had moved");
        }
        // Once the new ones are whole, the old ones are not taken for them.
        fs::create_dir(path.join(OBSOLETE)).unwrap();
        fs::write(path.join(OBSOLETE).join(IOS_FILE), "older").unwrap();
        drop(ResultsFolder::claim(&path, &[]).unwrap());
        assert_eq!(fs::read(path.join(IOS_FILE)).unwrap(), format!("old {IOS_FILE}").as_bytes());
        assert!(!path.join(OBSOLETE).exists());
    }
}
