//! `stasis archive` and `stasis repeat`: a run as one file, and the same run on another computer.
//!
//! An archive is a tar in zstd: `archive.json`, the files that the run read below `files`, where
//! they lay to each other, and its results below `results`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Cursor, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{anyhow, bail, ensure, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stasis_experiment::Engine;
use stasis_report::{comparable, keep_inputs, KeptIos, ReportError, Summary, SUMMARY_FILE};
use stasis_run_events::IoRecord;
use stasis_runner::provenance::words::without_results;

use crate::cli::{self, Command};

/// The version of the form that [`Manifest`] describes.
const FORM: u32 = 1;
const MANIFEST: &str = "archive.json";
const FILES: &str = "files";
const RESULTS: &str = "results";
/// Fields of a summary on which all others depend: the guest with the first process of this
/// program's build, its kernel and recipe, the engine.
const CAUSES: [&str; 4] = ["guest", "kernel", "engine", "seed"];
/// Differences that are told one by one.
const SHOWN: usize = 10;
/// A run is dated to the second, and files by a clock that may be as much behind.
const CLOCKS: Duration = Duration::from_secs(2);

/// Arguments of `stasis archive`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The archive has the command line, the files that the run read, its results, and of the guest
the recipe. It is called in the folder in which the run was made. Files that have changed since
the run, and media that it has written, are refused.

Examples:
  stasis archive results -o run.tar.zst
  stasis repeat run.tar.zst --results again"
)]
pub struct Arguments {
    /// A folder of results of `stasis run` or `stasis sim`
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
    /// The archive
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Arguments of `stasis repeat`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Under exact, and of a simulation, every figure and every I/O is to be the same.

Example:
  stasis archive results -o run.tar.zst && stasis repeat run.tar.zst --results again

Exit status: 0 if the results are the same, 1 if they differ, 125 if the run could not be
repeated."
)]
pub struct RepeatArguments {
    /// An archive of `stasis archive`
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

/// Description of an archive.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    form: u32,
    /// The program that made the run.
    stasis_version: String,
    /// Its words.
    words: Vec<String>,
    /// The folder that it was called in, below `files`.
    folder: PathBuf,
}

/// `stasis archive`.
pub fn main(arguments: &Arguments, quiet: bool) -> Result<ExitCode> {
    let Arguments { results, output } = arguments;
    let summary = read_summary(results)?;
    let text = |name: &str| summary.extra.get(name).and_then(Value::as_str);
    let line = text("command_line").with_context(|| {
        format!("{} does not say how the run was made", results.join(SUMMARY_FILE).display())
    })?;
    let words: Vec<_> = without_results(unquoted(line)?.into_iter().skip(1).collect());
    let started = text("started_at").context("the results do not say when the run was made")?;
    let started = stasis_runner::provenance::time_of(started)
        .with_context(|| format!("the date of the run, {started}"))?;
    let inputs = inputs(&words)?;
    let here = std::env::current_dir().context("there is no current folder")?;
    let up = inputs.iter().map(|path| levels(path)).max().unwrap_or(0);
    let root = here.ancestors().nth(up).context("a path leads above the root folder")?;
    let folder = here.strip_prefix(root).unwrap_or(Path::new("")).to_owned();
    for path in &inputs {
        unchanged(path, started, results)?;
    }
    let mut read: Vec<_> = inputs.iter().cloned().collect();
    read.push(results.clone());
    keep_inputs(output, &read)?;
    let version = text("stasis_version").unwrap_or("unknown").to_owned();
    let manifest = Manifest { form: FORM, stasis_version: version, words, folder: folder.clone() };
    write(output, &manifest, &inputs, results)
        .with_context(|| format!("cannot write {}", output.display()))?;
    if !quiet {
        let what = if inputs.len() == 1 { "input" } else { "inputs" };
        eprintln!("{}: {} {what} and the results", output.display(), inputs.len());
        if summary.engine != "exact" && summary.engine != "sim" {
            let engine = &summary.engine;
            eprintln!("a run under {engine} does not repeat to the byte; one under exact does");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `stasis repeat`.
pub fn repeat(arguments: &RepeatArguments, quiet: bool) -> Result<ExitCode> {
    let results = std::path::absolute(&arguments.results).context("--results")?;
    let unpacked = tempfile::tempdir().context("there is no room for the archive")?;
    let shown = arguments.archive.display();
    unpack(&arguments.archive, unpacked.path()).with_context(|| format!("the archive {shown}"))?;
    let manifest = std::fs::read(unpacked.path().join(MANIFEST));
    let manifest = manifest
        .map_err(anyhow::Error::from)
        .and_then(|json| serde_json::from_slice::<Manifest>(&json).map_err(anyhow::Error::from));
    let manifest = manifest.with_context(|| format!("{shown} is no archive of a run"))?;
    ensure!(
        manifest.form == FORM,
        "{shown} has the form {}, and this version reads {FORM}",
        manifest.form
    );
    let before = unpacked.path().join(RESULTS);
    let first = read_summary(&before)?;
    let folder = unpacked.path().join(FILES).join(inside(&manifest.folder)?);
    std::fs::create_dir_all(&folder).context("cannot make its folder")?;
    std::env::set_current_dir(&folder).context("cannot enter its folder")?;
    // Whoever made the archive may be nobody's friend: nothing but its own files is read or written.
    let tree = unpacked.path().join(FILES).canonicalize().context("its files")?;
    for path in inputs(&manifest.words).with_context(|| format!("the archive {shown}"))? {
        let full =
            path.canonicalize().with_context(|| format!("{} is not in it", path.display()))?;
        ensure!(full.starts_with(&tree), "{shown}: {} leads out of it", path.display());
    }
    if manifest.stasis_version != env!("CARGO_PKG_VERSION") {
        let (own, theirs) = (env!("CARGO_PKG_VERSION"), &manifest.stasis_version);
        eprintln!("stasis: the run was made by version {theirs}; this is {own}");
    }
    // The release and the engine of another computer are no default here.
    let recipe = first.extra.get("guest_recipe");
    let suite = recipe.and_then(|recipe| recipe["suite"].as_str()).map(str::to_owned);
    let engine = first.engine.parse::<Engine>().ok();
    // The run's own status is among the figures.
    match parsed(&manifest.words)? {
        Command::Run(mut run) => {
            run.results = Some(results.clone());
            super::run::changed(*run, quiet, |experiment| {
                if experiment.guest.root.is_none() {
                    experiment.guest.suite = experiment.guest.suite.take().or(suite);
                }
                if experiment.engine == Engine::Auto {
                    experiment.engine = engine.unwrap_or_default();
                }
            })?;
        }
        Command::Sim(mut sim) => {
            sim.results.clone_from(&results);
            stasis_simulation::main(&sim, quiet)?;
        }
        _ => bail!(NEITHER),
    }
    let second = read_summary(&results)?;
    if first.engine != second.engine {
        eprintln!("stasis: the run was made under {}; this is {}", first.engine, second.engine);
    }
    let mut differences = differences(&first, &second, &before, &results)?;
    // Causes first: where these differ, all else may.
    differences.sort_by_key(|difference| !CAUSES.iter().any(|cause| difference.starts_with(cause)));
    if differences.is_empty() {
        let ios = stasis_report::units::count(second_ios(&results)?);
        eprintln!("the same: every figure, and {ios} I/Os");
        return Ok(ExitCode::SUCCESS);
    }
    for difference in differences.iter().take(SHOWN) {
        eprintln!("stasis: different: {difference}");
    }
    if differences.len() > SHOWN {
        eprintln!("stasis: and {} more", differences.len() - SHOWN);
    }
    Ok(ExitCode::from(1))
}

const NEITHER: &str = "only runs (`stasis run`) and simulations (`stasis sim`) of one model are \
                       archived; of a study, archive each of its runs";

fn read_summary(results: &Path) -> Result<Summary> {
    let path = results.join(SUMMARY_FILE);
    let json = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&json).with_context(|| format!("{} is no summary", path.display()))
}

/// The words of a command line as results have it.
fn unquoted(line: &str) -> Result<Vec<String>> {
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

fn parsed(words: &[String]) -> Result<Command> {
    let all = std::iter::once("stasis").chain(words.iter().map(String::as_str));
    cli::parse(all).map_err(|error| anyhow!("the run's command line: {error}"))
}

/// The files and folders that a run reads, as relative paths from the current folder.
fn inputs(words: &[String]) -> Result<BTreeSet<PathBuf>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    words.iter().take_while(|word| *word != "--").try_for_each(|word| not_whole(word))?;
    match parsed(words)? {
        Command::Run(run) => {
            if let Some(file) = &run.experiment {
                paths.push(file.clone());
                let mut written = table(file)?;
                // Words of the guest.
                for key in ["command", "check"] {
                    written.remove(key);
                }
                let mut whole = Ok(());
                texts(&serde_json::to_value(written)?, &mut |text| {
                    whole = std::mem::replace(&mut whole, Ok(())).and_then(|()| not_whole(text));
                });
                whole.with_context(|| file.display().to_string())?;
            }
            let (experiment, base) = super::run::joined(*run)?;
            paths.extend(stasis_runner::input::paths(&experiment, &base));
            texts(&serde_json::to_value(&experiment)?, &mut |text| named(text, &base, &mut paths));
        }
        Command::Sim(sim) => {
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
                included(job, &mut paths);
            }
        }
        _ => bail!(NEITHER),
    }
    let here = std::env::current_dir().context("there is no current folder")?;
    paths.iter().map(|path| relative(path, &here)).collect()
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

/// The job files that a job file includes, and those that these do.
fn included(job: &Path, paths: &mut Vec<PathBuf>) {
    let text = std::fs::read_to_string(job).unwrap_or_default();
    for file in text.lines().filter_map(|line| line.trim().strip_prefix("include ")) {
        let path = job.with_file_name("").join(file.trim());
        if path.is_file() && !paths.contains(&path) {
            paths.push(path.clone());
            included(&path, paths);
        }
    }
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
fn levels(path: &Path) -> usize {
    path.components().take_while(|part| *part == Component::ParentDir).count()
}

/// A folder that stays within another.
fn inside(path: &Path) -> Result<&Path> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(plain, "its folder {} leads out of it", path.display());
    Ok(path)
}

/// Whether a file is what the run has read.
fn unchanged(path: &Path, started: SystemTime, results: &Path) -> Result<()> {
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

fn write(
    output: &Path,
    manifest: &Manifest,
    inputs: &BTreeSet<PathBuf>,
    results: &Path,
) -> Result<()> {
    let file = File::create(output)?;
    let encoder = zstd::Encoder::new(file, 0)?;
    let mut archive = tar::Builder::new(encoder);
    // The same files make the same archive, independent of owners and times.
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(true);
    let json = serde_json::to_vec_pretty(manifest)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(json.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, MANIFEST, Cursor::new(json))?;
    for path in inputs {
        // As many names of `folder` remain as the path does not leave.
        let up = levels(path);
        let kept = manifest.folder.ancestors().nth(up).unwrap_or(Path::new(""));
        let below: PathBuf = path.components().skip(up).collect();
        let name = Path::new(FILES).join(kept).join(below);
        match path.is_dir() {
            true => archive.append_dir_all(name, path)?,
            false => archive.append_path_with_name(path, name)?,
        }
    }
    archive.append_dir_all(RESULTS, results)?;
    archive.into_inner()?.finish()?.flush()?;
    Ok(())
}

/// Unpacks files and folders, and nothing else.
fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let file = File::open(archive).context("cannot read it")?;
    let decoder = zstd::Decoder::new(file).context("it is not compressed by zstd")?;
    let mut archive = tar::Archive::new(decoder);
    for entry in archive.entries().context("it is no tar")? {
        let mut entry = entry.context("it is damaged")?;
        let kind = entry.header().entry_type();
        let name = entry.path().context("a name in it")?.into_owned();
        ensure!(kind.is_file() || kind.is_dir(), "{}: no file and no folder", name.display());
        let whole = entry.unpack_in(into).with_context(|| name.display().to_string())?;
        ensure!(whole, "{} leads out of it", name.display());
    }
    // Bytes behind the end are read too, so that a cut archive is reported.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).context("it is damaged")?;
    Ok(())
}

/// Differences between two runs: figures by their place, then the first I/O.
fn differences(first: &Summary, second: &Summary, a: &Path, b: &Path) -> Result<Vec<String>> {
    let value =
        |summary: &Summary| Ok::<_, anyhow::Error>(comparable(&serde_json::to_value(summary)?));
    let mut found = Vec::new();
    compare("", &value(first)?, &value(second)?, &mut found);
    let (mut before, mut after) = match (open(a)?, open(b)?) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => return Ok(found),
        _ => {
            found.push("only one of the two kept its I/Os".into());
            return Ok(found);
        }
    };
    for number in 1u64.. {
        let next = |ios: &mut KeptIos| ios.next().transpose();
        let pair: (Option<IoRecord>, Option<IoRecord>) = (next(&mut before)?, next(&mut after)?);
        match pair {
            (None, None) => break,
            (one, other) if one == other => {}
            (Some(one), Some(other)) => {
                found.push(format!(
                    "I/O {number}: submitted at {} and {} ns, delivered at {} and {} ns",
                    one.submit, other.submit, one.delivered, other.delivered
                ));
                break;
            }
            _ => {
                found.push(format!("one of the two ends before I/O {number}"));
                break;
            }
        }
    }
    Ok(found)
}

/// The I/Os of a run, where it kept them.
fn open(results: &Path) -> Result<Option<KeptIos>> {
    let kept = stasis_report::IOS_FILES.iter().any(|name| results.join(name).exists());
    kept.then(|| KeptIos::open(results)).transpose().map_err(|error: ReportError| error.into())
}

fn second_ios(results: &Path) -> Result<u64> {
    let mut count = 0;
    for io in open(results)?.into_iter().flatten() {
        io?;
        count += 1;
    }
    Ok(count)
}

fn compare(path: &str, first: &Value, second: &Value, found: &mut Vec<String>) {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (first, second) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let of = |fields: &serde_json::Map<String, Value>| {
                    fields.get(key.as_str()).cloned().unwrap_or_default()
                };
                compare(&at(key), &of(a), &of(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (number, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&at(&number.to_string()), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: {a}, now {b}")),
    }
}

/// For tests of archives that are not what they seem.
#[cfg(test)]
fn packed(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 0).unwrap());
    for (name, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        // Names are written as they are, which a builder would refuse.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
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

    #[test]
    fn an_archive_stays_within_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (file, into) = (folder.path().join("a.tar.zst"), folder.path().join("into"));
        std::fs::create_dir(&into).unwrap();
        std::fs::write(&file, packed(&[("../escaped", "x")])).unwrap();
        let error = unpack(&file, &into).unwrap_err();
        assert!(format!("{error:#}").contains("leads out"), "{error:#}");
        assert!(!folder.path().join("escaped").exists());
        let whole = packed(&[("a", "x"), ("b", "y")]);
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).unwrap();
            assert!(unpack(&file, &into).is_err(), "{length} of {} bytes", whole.len());
        }
        std::fs::write(&file, &whole).unwrap();
        unpack(&file, &into).unwrap();
        assert!(inside(Path::new("a/b")).is_ok() && inside(Path::new("a/../../b")).is_err());
        assert!(inside(Path::new("/etc")).is_err());
    }

    #[test]
    fn what_differs_is_named_by_its_place() {
        let mut found = Vec::new();
        let [a, b] = [r#"{"a":1,"b":[{"c":2}]}"#, r#"{"a":1,"b":[{"c":3}],"d":4}"#]
            .map(|text| serde_json::from_str(text).unwrap());
        compare("", &a, &b, &mut found);
        assert_eq!(found, ["b.0.c: 2, now 3", "d: null, now 4"]);
    }
}
