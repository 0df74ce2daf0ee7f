//! `stasis export`: a run's I/Os in the formats of other tools.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use serde_json::json;
use stasis_block::timeline::{Track, TrackKind};
use stasis_crash::{LogWrites, TraceReader};
use stasis_report::KeptMoments;
use stasis_results::waits::KeptWait;
use stasis_results::{
    folder_of, keep_inputs, KeptIos, KeptSamples, KeptSpans, Summary, PROFILE_FILE, SUMMARY_FILE,
    TIMELINE_FILE,
};
use stasis_run_events::IoRecord;
use stasis_terminal::answer;
use stasis_trace_export::{
    blktrace, counters, fio_log, off_cpu, perfetto, pprof, ClusterMoments, Exported, Inside,
};

/// Arguments of `stasis export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis export results --blktrace trace && blkparse -i trace/drive0
  stasis export results --perfetto run.perfetto-trace
  stasis export profiled --pprof run.pb.gz
  stasis export results --off-cpu waits.folded
  stasis export results/ios.parquet --drive drive0 --fio-log logs
  stasis export crash-results --log-writes logs

Times are virtual, from the start of the machine on; I/Os of the guest's boot are left out
unless --boot is given. btt, iowatcher, btreplay and fio's read_iolog read what --blktrace
leaves; ui.perfetto.dev shows what --perfetto leaves: the I/Os, and of a run with --timeline
what its processors, flash drives and schedulers did meanwhile. xfstests' replay-log and others
read what --log-writes leaves of a crash test's trace.")]
pub struct Arguments {
    /// A folder of results, or its ios.csv, ios.csv.zst or ios.parquet
    #[arg(value_name = "RESULTS")]
    from: PathBuf,
    /// Write DRIVE.blktrace.0 of each drive, as blktrace does, to this folder
    #[arg(long, value_name = "DIR")]
    blktrace: Option<PathBuf>,
    /// Write a trace for the Perfetto UI to this file
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the profile of a run with --profile, as pprof reads it, to this file
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
    /// Write the stacks in which threads were off their processors, of a run with --guest-times, to this
    /// file: a line for each with its time in ns, as flame graphs are drawn from
    #[arg(long, value_name = "FILE")]
    off_cpu: Option<PathBuf>,
    /// Write DRIVE_clat.1.log of each drive, as fio's write_lat_log does, to this folder
    #[arg(long, value_name = "DIR")]
    fio_log: Option<PathBuf>,
    /// Write DRIVE.log of each drive of a crash test's trace, as Linux's dm-log-writes does, to this
    /// folder; the lines of the command's output are marks
    #[arg(long, value_name = "DIR")]
    log_writes: Option<PathBuf>,
    /// Only this drive
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// The I/Os of the guest's boot, too
    #[arg(long)]
    boot: bool,
}

/// `stasis export`.
pub fn main(arguments: &Arguments, quiet: bool) -> Result<ExitCode> {
    let Arguments { from, blktrace: blktrace_to, perfetto: perfetto_to, fio_log: fio_to, .. } =
        arguments;
    let others = blktrace_to.is_some() || perfetto_to.is_some() || fio_to.is_some();
    if let Some(folder) = &arguments.log_writes {
        log_writes(from, folder, arguments.drive.as_deref(), quiet)?;
    }
    if let Some(path) = &arguments.pprof {
        to_pprof(from, path, quiet)?;
    }
    if let Some(path) = &arguments.off_cpu {
        to_off_cpu(from, path, quiet)?;
    }
    let own = [&arguments.log_writes, &arguments.pprof, &arguments.off_cpu];
    if !others && own.iter().any(|path| path.is_some()) {
        return Ok(ExitCode::SUCCESS);
    }
    if !others {
        bail!(
            "nothing to write: give --blktrace, --perfetto, --pprof, --off-cpu, --fio-log or --log-writes"
        );
    }
    let (drives, ios) = read(arguments)?;
    let print = |path: &Path, exported: Exported| -> Result<()> {
        answer::push("files", &json!({ "file": path, "ios": exported.ios }))?;
        if !quiet {
            let left_out = match exported.left_out {
                0 => String::new(),
                count => format!(", {count} left out, which the format has no way to say"),
            };
            let inside = match exported.spans {
                0 => String::new(),
                count => format!(", {count} spans of what happened inside"),
            };
            let machines = match exported.moments {
                0 => String::new(),
                count => format!(", {count} lines, faults and messages of machines"),
            };
            let samples = match exported.samples {
                0 => String::new(),
                count => format!(", {count} samples"),
            };
            let more = format!("{inside}{machines}{samples}{left_out}");
            eprintln!("{}: {} I/Os{more}", path.display(), exported.ios);
        }
        Ok(())
    };
    if let Some(folder) = blktrace_to {
        for (number, (name, ios)) in drives.iter().zip(&ios).enumerate() {
            let path = folder.join(format!("{}.blktrace.0", file_name(name)));
            let number = u8::try_from(number).context("more than 256 drives")?;
            print(&path, written(from, &path, |out| blktrace(ios, number, out))?)?;
        }
    }
    if let Some(path) = perfetto_to {
        print(path, to_perfetto(arguments, &drives, &ios, path)?)?;
    }
    if let Some(folder) = fio_to {
        let begin = ios.iter().flatten().map(|record| record.submit).min().unwrap_or_default();
        for (name, ios) in drives.iter().zip(&ios) {
            let path = folder.join(format!("{}_clat.1.log", file_name(name)));
            let records = ios.iter().copied().map(Ok::<IoRecord, io::Error>);
            print(&path, written(from, &path, |out| fio_log(records, begin, out))?)?;
        }
    }
    if drives.is_empty() && !quiet {
        eprintln!(
            "{}: no I/O of the command is in it (--boot has those of the boot)",
            from.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the profile of the results in `from`.
fn to_pprof(from: &Path, to: &Path, quiet: bool) -> Result<()> {
    let folder = folder_of(from);
    let path = folder.join(PROFILE_FILE);
    let folded = std::fs::read_to_string(&path).with_context(|| {
        format!("cannot read {}: a run with --profile leaves it", path.display())
    })?;
    let summary = Summary::beside(from).context("the results have no summary.json")?;
    let interval = summary.extra.get("profile").and_then(|profile| profile["interval_ns"].as_u64());
    let interval = interval.context("summary.json has no interval of a profile")?;
    keep_inputs(to, &[from.to_owned(), folder.to_owned()])?;
    let cannot = || format!("cannot write {}", to.display());
    let mut out = BufWriter::new(File::create(to).with_context(cannot)?);
    let samples = pprof(&folded, interval, &mut out).with_context(cannot)?;
    answer::push("files", &json!({ "file": to, "samples": samples }))?;
    if !quiet {
        eprintln!("{}: {samples} samples", to.display());
    }
    Ok(())
}

/// Writes the stacks of waits of the results in `from`.
fn to_off_cpu(from: &Path, to: &Path, quiet: bool) -> Result<()> {
    let folder = folder_of(from);
    let waits = KeptWait::of(folder)?;
    keep_inputs(to, &[from.to_owned(), folder.to_owned()])?;
    let cannot = || format!("cannot write {}", to.display());
    let mut out = BufWriter::new(File::create(to).with_context(cannot)?);
    let stacks = off_cpu(&waits, &mut out).and_then(|stacks| out.flush().map(|()| stacks));
    let stacks = stacks.with_context(cannot)?;
    answer::push("files", &json!({ "file": to, "stacks": stacks }))?;
    if !quiet {
        eprintln!("{}: {stacks} stacks of {} waits", to.display(), waits.len());
    }
    Ok(())
}

/// Writes the logs of dm-log-writes of a crash test's trace in `from`: one for each drive, or of
/// `only` one.
fn log_writes(from: &Path, folder: &Path, only: Option<&str>, quiet: bool) -> Result<()> {
    let path = folder_of(from).join(stasis_results::TRACE_FILE);
    let about = || format!("cannot read {}, the trace of a crash test", path.display());
    let open = || {
        let file = File::open(&path).with_context(about)?;
        TraceReader::new(BufReader::new(file)).with_context(about)
    };
    let (_, header) = open()?;
    let names: Vec<_> = header.drives.iter().map(|drive| drive.name.as_str()).collect();
    if let Some(name) = only.filter(|name| !names.contains(name)) {
        bail!("{}: no drive `{name}`; it has {}", path.display(), names.join(", "));
    }
    for (number, name) in names.iter().enumerate() {
        if only.is_some_and(|only| only != *name) {
            continue;
        }
        let number = u16::try_from(number).context("more than 65,536 drives")?;
        let to = folder.join(format!("{}.log", file_name(name)));
        keep_inputs(&to, &[from.to_owned(), folder_of(from).to_owned()])?;
        let cannot = || format!("cannot write {}", to.display());
        std::fs::create_dir_all(folder).with_context(cannot)?;
        let file = BufWriter::new(File::create(&to).with_context(cannot)?);
        let mut log = LogWrites::new(file, number).with_context(cannot)?;
        let (mut reader, _) = open()?;
        let mut result = Ok(());
        while reader.next(|frame| {
            if result.is_ok() {
                result = log.take(frame);
            }
        })? {}
        result.with_context(|| format!("drive {name}")).with_context(cannot)?;
        let entries = log.finish().with_context(cannot)?;
        answer::push("files", &json!({ "file": to, "entries": entries }))?;
        if !quiet {
            eprintln!("{}: {entries} entries", to.display());
        }
    }
    Ok(())
}

/// The drives that are asked for, and the I/Os of each.
fn read(arguments: &Arguments) -> Result<(Vec<String>, Vec<Vec<IoRecord>>)> {
    let mut kept = KeptIos::open(&arguments.from)?;
    let mut ios: Vec<Vec<IoRecord>> = Vec::new();
    for record in kept.by_ref() {
        let record = record?;
        let drive = usize::from(record.drive);
        if ios.len() <= drive {
            ios.resize(drive + 1, Vec::new());
        }
        if arguments.boot || !record.boot {
            ios[drive].push(record);
        }
    }
    let drives = kept.drives();
    if let Some(name) = &arguments.drive {
        let Some(place) = drives.iter().position(|drive| drive == name) else {
            bail!("{}: no drive `{name}`; it has {}", kept.path().display(), drives.join(", "));
        };
        return Ok((vec![name.clone()], vec![std::mem::take(&mut ios[place])]));
    }
    Ok((drives.to_vec(), ios))
}

/// Writes the I/Os with what the summary and the timeline beside them have: nothing of that
/// where there is none.
fn to_perfetto(
    arguments: &Arguments,
    drives: &[String],
    ios: &[Vec<IoRecord>],
    path: &Path,
) -> Result<Exported> {
    let from = &arguments.from;
    let folder = folder_of(from);
    let summary = std::fs::read(folder.join(SUMMARY_FILE)).ok();
    let summary = summary.and_then(|json| serde_json::from_slice::<Summary>(&json).ok());
    let named = |name: &str| drives.iter().any(|drive| drive == name);
    let counters = summary.as_ref().map_or(Vec::new(), |summary| counters(summary, named));
    let boot = summary.map_or(0, |summary| (summary.boot_virtual_seconds * 1e9).round() as u64);
    let wanted = |track: &Track| {
        let drive = arguments.drive.as_ref();
        let machine = matches!(track.kind, TrackKind::Vcpu | TrackKind::Freeze);
        machine || drive.is_none_or(|drive| *drive == track.owner)
    };
    let mut inside = KeptSpans::open(folder)?.map(|kept| Inside {
        kept,
        from: if arguments.boot { 0 } else { boot },
        wanted: &wanted,
    });
    let lost = inside.as_ref().map_or(0, |inside| inside.kept.lost());
    if lost > 0 {
        eprintln!("{}: {lost} spans are missing: too many came at once", TIMELINE_FILE);
    }
    let mut cluster = KeptMoments::open(folder)?
        .map(|kept| ClusterMoments { kept, from: if arguments.boot { 0 } else { boot } });
    let mut samples = KeptSamples::open(folder)?;
    let (inside, cluster, samples) = (inside.as_mut(), cluster.as_mut(), samples.as_mut());
    written(from, path, |out| perfetto(drives, ios, &counters, inside, cluster, samples, out))
}

/// A drive's name as a file's.
fn file_name(drive: &str) -> String {
    drive.replace(['/', '\\'], "_")
}

fn written(
    from: &Path,
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<Exported>,
) -> Result<Exported> {
    keep_inputs(path, &[from.to_owned(), folder_of(from).to_owned()])?;
    let cannot = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    let mut out = BufWriter::new(File::create(path).with_context(cannot)?);
    write(&mut out).with_context(cannot)
}
