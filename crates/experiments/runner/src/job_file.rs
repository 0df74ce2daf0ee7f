//! Job files on a disk, with the files that they include.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stasis_workload::{Included, JobFile, JobText};

/// Reads a job file's lines with those that it includes. As in fio, an included file is looked for
/// as it is named, and then in the folder of the file that names it.
///
/// # Errors
/// A file cannot be read, or has no place where it is included.
pub fn read(path: &Path) -> Result<JobText> {
    read_with(path, &|_| ())
}

/// Reads a job file, and names each file that it includes.
fn read_with(path: &Path, on_include: &dyn Fn(&Path)) -> Result<JobText> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let include = |name: &str, from: Option<&str>| {
        let beside = from.map_or(path, Path::new).parent().unwrap_or(Path::new(""));
        let found = match Path::new(name).exists() {
            true => PathBuf::from(name),
            false => beside.join(name),
        };
        let text = std::fs::read_to_string(&found)
            .map_err(|error| format!("cannot read {}: {error}", found.display()))?;
        on_include(&found);
        Ok(Included { name: found.display().to_string(), text })
    };
    JobText::new(&text, &include).with_context(|| path.display().to_string())
}

/// The files that a job file includes, by any depth, in their order; those before the first that
/// cannot be read.
pub fn included(path: &Path) -> Vec<PathBuf> {
    let found = RefCell::new(Vec::new());
    // An error is reported by who runs the job.
    let _ = read_with(path, &|file| {
        let mut found = found.borrow_mut();
        if !found.iter().any(|known| known == file) {
            found.push(file.to_owned());
        }
    });
    found.into_inner()
}

/// Reads a job file; its variables are those of the environment.
///
/// # Errors
/// As [`read`]; a line is not right.
pub fn parse(path: &Path) -> Result<JobFile> {
    of(&read(path)?).with_context(|| path.display().to_string())
}

/// The jobs of a text; its variables are those of the environment.
///
/// # Errors
/// A line is not right.
pub fn of(text: &JobText) -> Result<JobFile> {
    Ok(JobFile::of(text, &|name| std::env::var(name).ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_included_from_beside_the_file_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let job = write("job.fio", "[a]\ninclude parts/all.inc\nrw=write\n");
        write("parts/all.inc", "include size.inc\nbs=8k\n");
        let size = write("parts/size.inc", "size=1m\n");
        let jobs = parse(&job).unwrap();
        assert_eq!(
            (jobs.least_capacity(), jobs.block_sizes().next()),
            (Some(1 << 20), Some(("a", 8192)))
        );
        std::fs::write(&size, "size=1m\nbs=x\n").unwrap();
        let error = format!("{:#}", parse(&job).unwrap_err());
        assert!(error.contains("line 2 of ") && error.contains("size.inc: bs:"), "{error}");
        std::fs::remove_file(&size).unwrap();
        let error = format!("{:#}", parse(&job).unwrap_err());
        assert!(
            error.contains("line 1 of ") && error.contains("all.inc: include: cannot read"),
            "{error}"
        );
    }
}
