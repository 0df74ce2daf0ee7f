//! Files from this machine for the guests, as tar archives.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use stasis_config::Step;
use stasis_experiment::{Experiment, MachineSpec};
use stasis_guest_image::is_path;
use stasis_guest_root::{path_and_image, Pack};

use crate::job_file;
use crate::placed::placed;

/// File in the guest with the command's standard input, until the command starts.
pub const STDIN: &str = "/run/stasis-stdin";

/// Rights of a file whose text an experiment has: those that engines give to a secret.
const TEXT_MODE: u32 = 0o444;

/// All files and folders of this machine that a run of `experiment` reads or whose bytes it
/// changes: files for the guest, its standard input, media with the files below them, a root
/// and a kernel of the user's, job files of the host's loads with those that they include.
/// Relative paths start at `base`.
pub fn paths(experiment: &Experiment, base: &Path) -> Vec<PathBuf> {
    let guest = &experiment.guest;
    let files = guest.files.iter().chain(&guest.templates).map(|word| base.join(source(word)));
    let machines = experiment.machine.all();
    let images = machines.iter().filter_map(|machine| experiment.image_of(machine));
    let roots = guest.root.as_deref().into_iter();
    let roots = roots.chain(images.filter(|word| is_path(word)));
    let roots = roots.map(|word| path_and_image(&base.join(word).to_string_lossy()).0);
    let words = guest.kernel.iter().map(|word| base.join(word)).chain(roots);
    let own = machines.iter().flat_map(|machine| &machine.container.files);
    let files = files.chain(own.map(|word| base.join(source(word))));
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

/// The source, and its place in the guest, of "SOURCE" or "SOURCE:DESTINATION": a relative
/// destination starts at the guest's /root.
fn places(word: &str) -> Result<(&str, PathBuf)> {
    let (source, destination) = match word.split_once(':') {
        Some((source, destination)) => (source, PathBuf::from(destination)),
        None => {
            let name = Path::new(word).file_name();
            (word, PathBuf::from(name.context(format!("--file {word}: no name"))?))
        }
    };
    let destination = Path::new("/root").join(destination);
    Ok((source, destination.strip_prefix("/").unwrap_or(&destination).to_owned()))
}

/// The files for the guests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// Parts of a tar archive: each machine's own, one behind the other, and then the one for all
    /// with the archive's end. Empty where there are no files.
    pub bytes: Vec<u8>,
    /// Lengths of the machines' own parts (bytes); none where no machine has any.
    pub own: Vec<usize>,
    /// Parts of the files that the guests do not get, for the user.
    pub left_out: Vec<String>,
}

impl Input {
    /// Packs the files, the templates and the standard input of an experiment; relative sources
    /// start at `base`.
    ///
    /// # Errors
    /// Names a file that cannot be read, or the line of a template with a variable that stands for
    /// nothing.
    pub fn pack(experiment: &Experiment, base: &Path) -> Result<Self> {
        let (mut bytes, mut own) = (Vec::new(), Vec::new());
        let has_own = |MachineSpec { container, .. }: &MachineSpec| {
            !container.files.is_empty() || !container.texts.is_empty()
        };
        if !experiment.guest.templates.is_empty() || experiment.machine.all().iter().any(has_own) {
            for machine in experiment.machine.all() {
                let part = templates(experiment, machine, base)?;
                own.push(part.len());
                bytes.extend(part);
            }
        }
        let guest = &experiment.guest;
        if own.is_empty() && guest.files.is_empty() && guest.stdin.is_none() {
            return Ok(Self::default());
        }
        let (shared, left_out) = pack(experiment, base)?;
        bytes.extend(shared);
        Ok(Self { bytes, own, left_out })
    }

    /// The tar archive of machine `number`.
    pub fn of(&self, number: usize) -> Vec<u8> {
        let length = self.own.get(number).copied().unwrap_or(0);
        let begin: usize = self.own.iter().take(number).sum();
        let shared: usize = self.own.iter().sum();
        let part = |from: usize, to: usize| self.bytes.get(from..to).unwrap_or_default();
        [part(begin, begin + length), part(shared, self.bytes.len())].concat()
    }
}

/// The place of an element of a list of the guest's.
fn in_guest(key: &'static str, at: usize) -> Vec<Step> {
    vec!["guest".into(), key.into(), at.into()]
}

/// Packs the templates as one machine has them, and its own files: a part of an archive, without an end.
fn templates(experiment: &Experiment, machine: &MachineSpec, base: &Path) -> Result<Vec<u8>> {
    let mut pack = Pack::default();
    let variables = experiment.variables_of(machine);
    for (at, word) in experiment.guest.templates.iter().enumerate() {
        let (source, inside) = places(word)?;
        let path = base.join(source);
        let context = || format!("cannot copy the template {} into the guest", path.display());
        let read = path.canonicalize().and_then(|named| {
            let text = std::fs::read_to_string(&named)?;
            Ok((named, text))
        });
        let (named, text) = read
            .with_context(context)
            .map_err(|error| placed(experiment, in_guest("templates", at), error))?;
        let text = match variables.fill(&text) {
            Ok(text) => text,
            Err(wrong) => {
                let whose = machine.name.as_ref().map(|name| format!(" (machine {name})"));
                bail!(
                    "{}: line {}: {}{}",
                    path.display(),
                    wrong.line,
                    wrong.message,
                    whose.unwrap_or_default()
                )
            }
        };
        let mode = std::fs::metadata(&named).with_context(context)?.mode();
        pack.add_bytes(&inside, mode, text.as_bytes()).with_context(context)?;
    }
    for word in &machine.container.files {
        let (source, inside) = places(word)?;
        let path = base.join(source);
        pack.add(&path, &inside)
            .with_context(|| format!("cannot copy {} into the guest", path.display()))?;
    }
    for (path, text) in &machine.container.texts {
        let inside = Path::new(path.trim_start_matches('/'));
        pack.add_bytes(inside, TEXT_MODE, text.as_bytes())
            .with_context(|| format!("cannot copy {path} into the guest"))?;
    }
    pack.part().context("cannot pack the files of a machine")
}

/// Packs the files of `guest` and its standard input, an archive's end alone where there are none, with
/// a list of what it leaves out.
fn pack(experiment: &Experiment, base: &Path) -> Result<(Vec<u8>, Vec<String>)> {
    let guest = &experiment.guest;
    let mut pack = Pack::default();
    for (at, word) in guest.files.iter().enumerate() {
        let mut add = || {
            let (source, inside) = places(word)?;
            let path = base.join(source);
            let context = || format!("cannot copy {} into the guest", path.display());
            pack.add(&path, &inside).with_context(context)
        };
        add().map_err(|error| placed(experiment, in_guest("files", at), error))?;
    }
    if let Some(path) = &guest.stdin {
        let path = base.join(path);
        let context = || format!("cannot read the standard input {}", path.display());
        let place = vec!["guest".into(), "stdin".into()];
        let added = pack.add(&path, Path::new(STDIN.trim_start_matches('/'))).with_context(context);
        added.map_err(|error| placed(experiment, place, error))?;
    }
    let left_out = pack.left_out().to_vec();
    Ok((pack.whole().context("cannot pack the files for the guest")?, left_out))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn with_files(files: Vec<String>) -> Experiment {
        let mut experiment = Experiment::default();
        experiment.guest.files = files;
        experiment
    }

    /// Contents of an archive by name: a file's content, or a link's target.
    fn unpacked(archive: &[u8]) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            match entry.link_name().unwrap() {
                Some(target) => content = format!("-> {}", target.display()),
                None => drop(entry.read_to_string(&mut content).unwrap()),
            }
            all.insert(name, content);
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
        let all = unpacked(&pack(&with_files(files), folder.path()).unwrap().0);
        for (name, content) in [
            ("root/sources/file", "content"),
            ("root/sources/link", "-> file"),
            ("root/sources/dangling", "-> gone"),
            ("opt/copy/dangling", "-> gone"),
            ("root/to-file", "content"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(content), "{name}: {all:?}");
        }
    }

    #[test]
    fn each_machine_has_its_own_form_of_a_template() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("conf"), "me {{machine.name}}\nfirst {{machine.a1.number}}\n").unwrap();
        std::fs::write(at("plain"), "{{machine.name}}").unwrap();
        let mut experiment: Experiment = stasis_config::read_text(
            "command = ['true']\nguest = { files = ['plain'], templates = ['conf:/etc/x/conf'] }\n\
             machine = [{ name = 'a', count = 2 }, { name = 'b' }]\n",
        )
        .unwrap();
        experiment.finish().unwrap();
        let input = Input::pack(&experiment, folder.path()).unwrap();
        for (number, name) in ["a1", "a2", "b"].iter().enumerate() {
            let all = unpacked(&input.of(number));
            assert_eq!(all["etc/x/conf"], format!("me {name}\nfirst 1\n"));
            assert_eq!(all["root/plain"], "{{machine.name}}", "a file is as it is");
        }
        std::fs::write(at("conf"), "a\n b {{machine.a3.number}}").unwrap();
        let error = format!("{:#}", Input::pack(&experiment, folder.path()).unwrap_err());
        let expected = "conf: line 2: `machine.a3.number`: there is no machine `a3`; did you mean";
        assert!(error.contains(expected) && error.contains("(machine a1)"), "{error}");
        std::fs::write(at("conf"), [0xff]).unwrap();
        let error = format!("{:#}", Input::pack(&experiment, folder.path()).unwrap_err());
        assert!(error.contains("conf") && error.contains("UTF-8"), "{error}");
        experiment.guest.templates.clear();
        experiment.guest.files.clear();
        assert_eq!(Input::pack(&experiment, folder.path()).unwrap(), Input::default());
    }

    #[test]
    fn what_is_not_there_is_named() {
        let experiment = with_files(vec!["gone.txt".into()]);
        let error = format!("{:#}", pack(&experiment, Path::new("/nowhere")).unwrap_err());
        assert!(error.contains("/nowhere/gone.txt") && error.contains("No such file"), "{error}");
    }
}
