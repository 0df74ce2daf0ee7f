//! Protection of inputs: an output never destroys one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::names::names_of_run;
use crate::ResultsError;

/// Refuses the file `output` where it is one of `inputs`, or a file of a run whose folder is. Links
/// are followed. An output that does not exist yet destroys nothing, and a missing input is
/// reported by its reader.
///
/// # Errors
/// [`ResultsError::IsInput`], with nothing written.
pub fn keep_inputs(output: &Path, inputs: &[PathBuf]) -> Result<(), ResultsError> {
    check(output, &[], inputs)
}

/// Like [`keep_inputs`], but for a folder whose files `names` are removed and written anew.
pub fn check(output: &Path, names: &[String], inputs: &[PathBuf]) -> Result<(), ResultsError> {
    let Ok(real) = output.canonicalize() else { return Ok(()) };
    let mut lost: Vec<PathBuf> = names.iter().map(|name| real.join(name)).collect();
    lost.push(real);
    for input in inputs {
        let Ok(real) = input.canonicalize() else { continue };
        let mut read: Vec<PathBuf> =
            names_of_run(&real).iter().map(|name| real.join(name)).collect();
        read.push(real);
        if read.iter().any(|read| lost.iter().any(|lost| is_same(read, lost))) {
            return Err(ResultsError::IsInput { output: output.to_owned(), input: input.clone() });
        }
    }
    Ok(())
}

/// Returns whether two names mean one file or folder, by any links.
fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|file: fs::Metadata| (file.dev(), file.ino()));
    a == b || matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{ResultsFolder, IOS_FILE, LIST_FILE, SUMMARY_FILE};

    fn run(folder: &Path) {
        let mut results = ResultsFolder::claim(folder, &[]).unwrap();
        for name in [IOS_FILE, SUMMARY_FILE] {
            fs::write(results.file(name).unwrap(), name).unwrap();
        }
        results.finished().unwrap();
    }

    #[test]
    fn a_folder_that_is_read_is_not_claimed() {
        let all = tempfile::tempdir().unwrap();
        let at = |name: &str| all.path().join(name);
        run(&at("r"));
        fs::write(at("r/job.fio"), "mine").unwrap();
        symlink(at("r"), at("folder")).unwrap();
        symlink(at("r/ios.csv"), at("file")).unwrap();
        fs::hard_link(at("r/ios.csv"), at("again")).unwrap();
        fs::create_dir(at("below")).unwrap();
        for output in ["r", "folder", "r/", "below/../r"] {
            for input in ["r", "folder", "r/ios.csv", "file", "again", "r/summary.json"] {
                let claimed = ResultsFolder::claim(&at(output), &[at("none"), at(input)]);
                let error = claimed.unwrap_err().to_string();
                assert!(error.contains(input) && error.contains("--results"), "{error}");
            }
        }
        assert_eq!(fs::read(at("r/ios.csv")).unwrap(), IOS_FILE.as_bytes());
        // Nothing of the run, so nothing is lost.
        let mut claimed =
            ResultsFolder::claim(&at("r"), &[at("r/job.fio"), at("none"), all.path().into()])
                .unwrap();
        claimed.finished().unwrap();
        assert_eq!(fs::read(at("r/job.fio")).unwrap(), b"mine");
        assert!(!at("r/ios.csv").exists());
    }

    #[test]
    fn a_file_of_a_run_that_is_read_is_not_written_over() {
        let all = tempfile::tempdir().unwrap();
        let at = |name: &str| all.path().join(name);
        run(&at("r"));
        fs::write(at("r/mine"), "").unwrap();
        symlink(at("r/ios.csv"), at("link")).unwrap();
        for output in ["r/ios.csv", "r/summary.json", "link"] {
            keep_inputs(&at(output), &[at("r")]).unwrap_err();
        }
        keep_inputs(&at("link"), &[at("r/ios.csv")]).unwrap_err();
        for output in ["r/mine", "r/new", "new"] {
            keep_inputs(&at(output), &[at("r")]).unwrap();
        }
        keep_inputs(&at("r/summary.json"), &[at("r/ios.csv")]).unwrap();
    }

    #[test]
    fn a_folder_within_a_run_that_is_read_is_not_claimed() {
        let all = tempfile::tempdir().unwrap();
        let top = all.path().join("r");
        let inner = top.join("1");
        let mut results = ResultsFolder::claim(&top, &[]).unwrap();
        results.file("1").unwrap();
        results.file("1/ios.csv").unwrap();
        results.finished().unwrap();
        drop(results);
        run(&inner);
        ResultsFolder::claim(&inner, std::slice::from_ref(&top)).unwrap_err();
        ResultsFolder::claim(&top, std::slice::from_ref(&inner)).unwrap_err();
        assert!(inner.join(IOS_FILE).exists() && inner.join(LIST_FILE).exists());
    }
}
