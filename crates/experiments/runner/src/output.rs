//! Files that a command writes at its end, beside its results.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use stasis_results::files::part_of;
use stasis_results::{keep_inputs, ResultsError};

/// Refuses to write `output` at the end where it is one of `inputs`, or cannot be written: the work until
/// then would be for nothing. The folder `results` need not be there yet, as the work makes it.
///
/// # Errors
/// [`ResultsError::IsInput`], or [`ResultsError::Write`] with the system's answer.
pub fn check_output(output: &Path, results: &Path, inputs: &[PathBuf]) -> Result<(), ResultsError> {
    keep_inputs(output, inputs)?;
    if output.parent() == Some(results) && !results.exists() {
        return Ok(());
    }
    let cannot = |source| ResultsError::Write { path: output.to_owned(), source };
    if output.is_dir() {
        return Err(cannot(ErrorKind::IsADirectory.into()));
    }
    try_beside(output).map_err(cannot)
}

/// Makes the file from which `output` is renamed at the end, and removes it.
fn try_beside(output: &Path) -> io::Result<()> {
    let part = part_of(output);
    match File::create_new(&part) {
        Ok(_) => fs::remove_file(&part),
        // Remains of earlier work are written over.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(&part).map(drop)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_at_the_end_is_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let check = |name: &str| check_output(&at(name), &at("r"), &[at("job.fio")]);
        fs::write(at("job.fio"), "").unwrap();
        check("x.xml").unwrap();
        fs::write(at("x.xml"), "before").unwrap();
        check("x.xml").unwrap();
        assert_eq!(fs::read_to_string(at("x.xml")).unwrap(), "before");
        // The results' folder will be made, and none below it.
        check("r/x.xml").unwrap();
        let names = ["none/x.xml", "r/none/x.xml", "job.fio/x.xml", "."];
        for name in names {
            let error = check(name).unwrap_err();
            assert!(matches!(error, ResultsError::Write { .. }), "{name}: {error}");
        }
        assert!(matches!(check("job.fio"), Err(ResultsError::IsInput { .. })));
        let mut there: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        there.sort_by_key(fs::DirEntry::file_name);
        let there: Vec<_> = there.iter().map(fs::DirEntry::file_name).collect();
        assert_eq!(there, ["job.fio", "x.xml"]);
    }
}
