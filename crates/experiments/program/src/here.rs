//! An experiment from a file and `--drive`. Paths on the command line begin in the current folder;
//! those of an experiment file, in the file's.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use stasis_experiment::{DriveSpec, Experiment};

/// The experiment of `file`, or one without anything, with the drives of `--drive` behind its own;
/// and the folder where its relative paths begin, which is empty for the current one.
pub fn experiment(file: Option<&Path>, drives: &[String]) -> Result<(Experiment, PathBuf)> {
    let mut experiment = file.map(Experiment::read).transpose()?.unwrap_or_default();
    let base = file.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
    let here = Here::beside(&base)?;
    for word in drives {
        experiment.drives.push(here.drive(word)?);
    }
    Ok((experiment, base))
}

/// Folder at which the paths of words begin, for an experiment whose own begin elsewhere.
pub struct Here {
    /// The current folder; none where the experiment's is the same.
    folder: Option<PathBuf>,
}

impl Here {
    /// For words beside an experiment whose relative paths begin in `base`.
    pub fn beside(base: &Path) -> Result<Self> {
        let same = base.as_os_str().is_empty() || base == Path::new(".");
        let current = || std::env::current_dir().context("there is no current folder");
        Ok(Self { folder: (!same).then(current).transpose()? })
    }

    /// A drive of `--drive`.
    pub fn drive(&self, word: &str) -> Result<DriveSpec> {
        let mut drive = DriveSpec::parse(word)?;
        if let Some(folder) = &self.folder {
            drive.anchor(folder).with_context(|| format!("--drive {word}"))?;
        }
        Ok(drive)
    }

    /// A word of `--file`, SOURCE or SOURCE:DESTINATION.
    pub fn file(&self, word: String) -> Result<String> {
        let Some(folder) = self.folder.as_ref().filter(|_| !word.starts_with('/')) else {
            return Ok(word);
        };
        match folder.to_str() {
            // The first colon ends the source.
            Some(folder) if !folder.contains(':') => Ok(format!("{folder}/{word}")),
            _ => bail!(
                "--file {word}: the name of the current folder {} has a colon, or is not UTF-8: \
                 put the file into the experiment's `files`, or call from another folder",
                folder.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_media::MediumSpec;

    #[test]
    fn words_begin_in_the_current_folder() {
        let current = std::env::current_dir().unwrap();
        let word = "model=null,medium=file:disk.img";
        for (base, expected) in [
            (Path::new("."), PathBuf::from("disk.img")),
            (Path::new(""), PathBuf::from("disk.img")),
            (Path::new("elsewhere"), current.join("disk.img")),
        ] {
            let here = Here::beside(base).unwrap();
            let MediumSpec::File { path, .. } = here.drive(word).unwrap().medium else {
                panic!("no file")
            };
            assert_eq!(path, expected);
        }
        let here = Here::beside(Path::new("elsewhere")).unwrap();
        let file = here.file("a.txt:b.txt".into()).unwrap();
        assert_eq!(file, format!("{}/a.txt:b.txt", current.display()));
        assert_eq!(here.file("/etc/hosts".into()).unwrap(), "/etc/hosts");
        // The model's files as well: this one is looked for here.
        let error = here.drive("model=profile:none.json,medium=ram:1MiB").unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains(&current.join("none.json").display().to_string()), "{message}");
    }
}
