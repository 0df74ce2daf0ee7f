//! The files that a command reads: what an archive has to hold.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use stasis_experiment::Experiment;
use stasis_runner::job_file;
use stasis_simulation::model_file;

use super::command::{Made, Parse};

/// A run is dated to the second, and files by a clock that may be as much behind.
const CLOCKS: Duration = Duration::from_secs(2);

/// The words of a command line as results have it.
pub fn unquoted(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quoted, mut escaped) = (Vec::new(), None::<String>, false, false);
    for c in line.chars() {
        match c {
            c if escaped => {
                word.get_or_insert_default().push(c);
                escaped = false;
            }
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if !quoted => escaped = true,
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    ensure!(!quoted && !escaped, "the command line ends within quotes: {line}");
    words.extend(word);
    Ok(words)
}

/// The reason why other commands' results are no archive.
pub const NEITHER: &str = "only what `stasis run`, `sim`, `on`, `sweep`, `crash-test` and \
                           `reproduce` leave is archived";

/// The files and folders that a command reads, as relative paths from the current folder.
pub fn inputs(words: &[String], parse: Parse) -> Result<BTreeSet<PathBuf>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    words.iter().take_while(|word| *word != "--").try_for_each(|word| not_whole(word))?;
    match parse(words)? {
        Made::Run(run) => {
            let branches = run.snapshots.branches()?;
            for file in branches.iter().flat_map(|branches| branches.files()) {
                let mut branch = *run.clone();
                branch.experiment = Some(file.to_owned());
                let joined = || crate::commands::run::joined(branch);
                of_experiment(Some(file.to_owned()), joined, &mut paths)?;
            }
            ensure!(
                branches.is_none_or(|branches| branches.at.is_some()),
                "branches `--from last` begin at the last snapshot that this computer has: name the \
                 moment, as in `--from 1.2s`"
            );
            of_experiment(
                run.experiment.clone(),
                || crate::commands::run::joined(*run),
                &mut paths,
            )?;
        }
        Made::On(on) => {
            paths.extend(on.models.split(',').filter_map(|word| model_file(word.trim())));
            let file = on.experiment.clone();
            of_experiment(file, || crate::commands::on::joined(*on), &mut paths)?;
        }
        Made::CrashTest(test) => {
            let others = [&test.log_writes, &test.base, &test.trace];
            paths.extend(others.into_iter().flatten().cloned());
            let joined = || crate::commands::crash_test::joined(&test);
            of_experiment(Some(test.experiment.clone()), joined, &mut paths)?;
        }
        // They have no files of the user's.
        Made::Reproduce => {}
        Made::Sim(sim) => {
            for path in sim.inputs() {
                let text = path.to_string_lossy();
                named(&text, Path::new(""), &mut paths);
                let base = path.parent().unwrap_or(Path::new(""));
                if text.ends_with(".toml") {
                    let table = serde_json::to_value(table(&path)?)?;
                    texts(&table, &mut |text| named(text, base, &mut paths));
                }
                paths.extend(of_processors(&path));
            }
            for job in &sim.workload {
                paths.extend(job_file::included(job));
            }
        }
        _ => bail!(NEITHER),
    }
    let here = std::env::current_dir().context("there is no current folder")?;
    paths.iter().map(|path| relative(path, &here)).collect()
}

/// The files of an experiment: its own, and those that it names.
fn of_experiment(
    file: Option<PathBuf>,
    joined: impl FnOnce() -> Result<(Experiment, PathBuf)>,
    paths: &mut Vec<PathBuf>,
) -> Result<()> {
    if let Some(file) = &file {
        paths.push(file.clone());
        portable(file)?;
    }
    let (experiment, base) = joined()?;
    paths.extend(stasis_runner::input::paths(&experiment, &base));
    let value = serde_json::to_value(&experiment)?;
    texts(&value, &mut |text| named(text, &base, paths));
    Ok(())
}

/// Returns whether a file's name says that it is a job of fio's.
fn is_job(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "fio")
}

/// Refuses a TOML file that names another by a whole path.
fn portable(file: &Path) -> Result<()> {
    let mut written = serde_json::to_value(table(file)?)?;
    without_commands(&mut written);
    let mut whole = Ok(());
    texts(&written, &mut |text| {
        whole = std::mem::replace(&mut whole, Ok(())).and_then(|()| not_whole(text));
    });
    whole.with_context(|| file.display().to_string())
}

/// Takes away what is the guest's: its commands.
fn without_commands(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !matches!(name.as_str(), "command" | "check"));
            fields.values_mut().for_each(without_commands);
        }
        Value::Array(items) => items.iter_mut().for_each(without_commands),
        _ => {}
    }
}

/// The files of a study, by its own list, which begins with the files that describe it.
pub fn of_study(listed: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut paths = listed.to_vec();
    for path in listed {
        if path.extension().is_some_and(|extension| extension == "toml") {
            portable(path)?;
            let value = serde_json::to_value(table(path)?)?;
            own_systems(&value, "", path.parent().unwrap_or(Path::new("")))
                .with_context(|| path.display().to_string())?;
        }
        if is_job(path) {
            paths.extend(job_file::included(path));
        }
    }
    let here = std::env::current_dir().context("there is no current folder")?;
    paths.iter().map(|path| relative(path, &here)).collect()
}

/// Refuses a kernel or a root of this machine: a study's list has neither.
fn own_systems(value: &Value, key: &str, base: &Path) -> Result<()> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            let (table, own) = name.rsplit_once('.').unwrap_or((key, name));
            let of_guest = table.ends_with("guest") || table.ends_with("container");
            match own {
                // A disk's image is another thing.
                "image" if !of_guest => Ok(()),
                own => own_systems(value, own, base),
            }
        }),
        Value::Array(items) => items.iter().try_for_each(|item| own_systems(item, key, base)),
        Value::String(text) if matches!(key, "kernel" | "root" | "image") => {
            let own = key == "root" || text.starts_with('~') || base.join(text).exists();
            ensure!(
                !own,
                "the {key} `{text}` of the guest is this computer's, and an archive of a study has \
                 no guest's system: archive a run with it"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

fn table(path: &Path) -> Result<toml::Table> {
    let about = || format!("cannot read {}", path.display());
    std::fs::read_to_string(path).with_context(about)?.parse().with_context(about)
}

/// Forms of a medium or a model that name a file behind them.
const FORMS: [&str; 5] = ["file:", "qcow2:", "device:", "ordered:", "profile:"];

/// Refuses a text that names a file of this machine by a whole path: `/disk.img`,
/// `medium=file:/disk.img`, `/data:/root/data`.
fn not_whole(text: &str) -> Result<()> {
    for part in text.split([',', '=']) {
        let form = FORMS.iter().find_map(|form| part.strip_prefix(form));
        if form.unwrap_or(part).starts_with('/') {
            bail!(
                "`{text}` names a whole path, which leads nowhere on another computer: name it \
                 from the folder that the run is called in"
            );
        }
    }
    Ok(())
}

/// Every text in a value.
fn texts(value: &Value, act: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => act(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, act)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, act)),
        _ => {}
    }
}

/// The file that a text names, if one is there: `FILE`, `SOURCE:DESTINATION`, or `profile:FILE`.
fn named(text: &str, base: &Path, paths: &mut Vec<PathBuf>) {
    let parts = text.split_once(':').map_or([text, text], |(before, after)| [before, after]);
    let candidates = parts.into_iter().chain([text]).filter(|part| !part.is_empty());
    let found = candidates.map(|part| base.join(part)).find(|path| path.is_file());
    paths.extend(found);
}

/// The files of a trace that blktrace wrote for each processor.
fn of_processors(path: &Path) -> Vec<PathBuf> {
    if path.exists() {
        return if path.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    let is_one = |other: &str| other.starts_with(&format!("{name}.blktrace."));
    let found = entries.into_iter().flatten().filter_map(Result::ok);
    let found = found.filter(|entry| entry.file_name().to_str().is_some_and(is_one));
    found.map(|entry| path.with_file_name(entry.file_name())).collect()
}

/// A path as it leads from the current folder. Those that are written whole were refused; others
/// were made whole by us.
fn relative(path: &Path, here: &Path) -> Result<PathBuf> {
    let path = path.strip_prefix(here).unwrap_or(path);
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            // A path behind a link has another parent, and is kept as it is.
            Component::ParentDir if plain.components().all(|c| c == Component::ParentDir) => {
                plain.push("..");
            }
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::Prefix(_) => {
                bail!("{} does not lie where the run was called", path.display())
            }
        }
    }
    Ok(plain)
}

/// By how many folders a path leads up.
pub fn levels(path: &Path) -> usize {
    path.components().take_while(|part| *part == Component::ParentDir).count()
}

/// Returns whether a file is what the run has read.
pub fn unchanged(path: &Path, started: SystemTime, results: &Path) -> Result<()> {
    let about = || format!("cannot read {}", path.display());
    let metadata = path.metadata().with_context(about)?;
    ensure!(
        metadata.is_file() || metadata.is_dir(),
        "{} is neither a file nor a folder",
        path.display()
    );
    if metadata.is_dir() {
        for entry in path.read_dir().with_context(about)? {
            unchanged(&entry.with_context(about)?.path(), started, results)?;
        }
        return Ok(());
    }
    let changed = metadata.modified().with_context(about)?;
    ensure!(
        changed <= started + CLOCKS,
        "{} has changed since the run in {} began, so that the archive would not repeat it. A run \
         whose drives begin empty, as on `medium=ram:1GiB`, leaves no file behind",
        path.display(),
        results.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_from_a_command_line() {
        let line = "stasis run --drive model=null -- sh -c 'echo '\\''it'\\'' $1' ''";
        let words =
            ["stasis", "run", "--drive", "model=null", "--", "sh", "-c", "echo 'it' $1", ""];
        assert_eq!(unquoted(line).unwrap(), words);
        assert!(unquoted("stasis 'run").is_err());
    }

    #[test]
    fn paths_lead_from_the_current_folder() {
        let here = Path::new("/home/a/b");
        for (path, plain) in
            [("/home/a/b/c", "c"), ("./c/../d", "d"), ("../x", "../x"), ("../../y/z", "../../y/z")]
        {
            assert_eq!(relative(Path::new(path), here).unwrap(), Path::new(plain), "{path}");
        }
        assert!(relative(Path::new("/etc/passwd"), here).is_err());
        for text in ["/x", "--drive=model=null,medium=file:/x", "/x:/root/x", "profile:/x"] {
            assert!(not_whole(text).is_err(), "{text}");
        }
        for text in ["x", "--file=x:/root/x", "model=null,medium=file:x/y", "a/b"] {
            assert!(not_whole(text).is_ok(), "{text}");
        }
        assert_eq!(levels(Path::new("../../y")), 2);
    }
}
