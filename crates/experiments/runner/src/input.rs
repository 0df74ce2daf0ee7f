//! Files from this machine for the guest, as one tar archive.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stasis_experiment::{Experiment, GuestSpec};

use crate::job_file;

/// File in the guest with the command's standard input, until the command starts.
pub const STDIN: &str = "/run/stasis-stdin";

/// All files and folders of this machine that a run of `experiment` reads or whose bytes it
/// changes: files for the guest, its standard input, media with the files below them, a root
/// and a kernel of the user's, job files of the host's loads with those that they include.
/// Relative paths start at `base`.
pub fn paths(experiment: &Experiment, base: &Path) -> Vec<PathBuf> {
    let guest = &experiment.guest;
    let files = guest.files.iter().map(|word| base.join(source(word)));
    let words = guest.root.iter().chain(&guest.kernel).map(|word| base.join(word));
    let machines = experiment.machine.all();
    let drives = machines.iter().flat_map(|machine| &machine.drives).chain(&experiment.drives);
    let images = machines.iter().flat_map(|machine| &machine.disks);
    let images = images.filter_map(|disk| disk.image.as_deref());
    let media = drives.filter_map(|drive| drive.medium.path()).chain(images).flat_map(|path| {
        let path = base.join(path);
        // Opening the medium reports a file that is no image, or a damaged one.
        let links = stasis_qcow2::links(&path).unwrap_or_default();
        links.into_iter().map(|link| link.path).chain([path])
    });
    let jobs = experiment.workloads.iter().filter_map(|load| load.job_file.as_ref());
    let jobs = jobs.flat_map(|job| {
        let job = base.join(job);
        let included = job_file::included(&job);
        [job].into_iter().chain(included)
    });
    let stdin = guest.stdin.iter().map(|path| base.join(path));
    files.chain(stdin).chain(words).chain(media).chain(jobs).collect()
}

/// The source in "SOURCE" or "SOURCE:DESTINATION".
fn source(word: &str) -> &str {
    word.split_once(':').map_or(word, |(source, _)| source)
}

/// Packs the files of `guest` ("SOURCE" or "SOURCE:DESTINATION") and its standard
/// input; relative sources start at `base`, relative destinations at the guest's
/// /root. Empty where there are none.
pub fn pack(guest: &GuestSpec, base: &Path) -> Result<Vec<u8>> {
    let files = &guest.files;
    if files.is_empty() && guest.stdin.is_none() {
        return Ok(Vec::new());
    }
    let mut archive = tar::Builder::new(Vec::new());
    // The same files make the same archive, independent of owners and times.
    archive.mode(tar::HeaderMode::Deterministic);
    // A link in a folder stays one, wherever it leads.
    archive.follow_symlinks(false);
    for word in files {
        let (source, destination) = match word.split_once(':') {
            Some((source, destination)) => (source, PathBuf::from(destination)),
            None => {
                let name = Path::new(word).file_name();
                (word.as_str(), PathBuf::from(name.context(format!("--file {word}: no name"))?))
            }
        };
        let path = base.join(source);
        let destination = Path::new("/root").join(destination);
        let inside = destination.strip_prefix("/").unwrap_or(&destination);
        let context = || format!("cannot copy {} into the guest", path.display());
        // A named link is followed: its target is copied.
        let named = path.canonicalize().with_context(context)?;
        if named.is_dir() {
            archive.append_dir_all(inside, &named).with_context(context)?;
        } else {
            archive.append_path_with_name(&named, inside).with_context(context)?;
        }
    }
    if let Some(path) = &guest.stdin {
        let path = base.join(path);
        let context = || format!("cannot read the standard input {}", path.display());
        let named = path.canonicalize().with_context(context)?;
        archive
            .append_path_with_name(&named, STDIN.trim_start_matches('/'))
            .with_context(context)?;
    }
    archive.into_inner().context("cannot pack the files for the guest")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Contents of an archive by name: a file's content, or a link's target.
    fn unpacked(archive: &[u8]) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut said = String::new();
            match entry.link_name().unwrap() {
                Some(target) => said = format!("-> {}", target.display()),
                None => drop(entry.read_to_string(&mut said).unwrap()),
            }
            all.insert(name, said);
        }
        all
    }

    #[test]
    fn links_in_a_folder_stay_links_and_what_is_named_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sources")).unwrap();
        std::fs::write(at("sources/file"), "content").unwrap();
        symlink("file", at("sources/link")).unwrap();
        symlink("gone", at("sources/dangling")).unwrap();
        symlink("sources", at("to-folder")).unwrap();
        symlink("sources/file", at("to-file")).unwrap();
        let files = ["sources", "to-folder:/opt/copy", "to-file"].map(str::to_owned).to_vec();
        let guest = GuestSpec { files, ..GuestSpec::default() };
        let all = unpacked(&pack(&guest, folder.path()).unwrap());
        for (name, said) in [
            ("root/sources/file", "content"),
            ("root/sources/link", "-> file"),
            ("root/sources/dangling", "-> gone"),
            ("opt/copy/dangling", "-> gone"),
            ("root/to-file", "content"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(said), "{name}: {all:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let guest = GuestSpec { files: vec!["gone.txt".into()], ..GuestSpec::default() };
        let error = format!("{:#}", pack(&guest, Path::new("/nowhere")).unwrap_err());
        assert!(error.contains("/nowhere/gone.txt") && error.contains("No such file"), "{error}");
    }
}
