//! One simulation: what it is made from, its run, and its results.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use serde_json::Value;
use stasis_block::clock::Nanos;
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{units, Fate};
use stasis_models::{BuildContext, ModelSpec};
use stasis_report::ResultsWriter;
use stasis_results::sink::Records;
use stasis_results::thresholds::Threshold;
use stasis_results::{Ios, ResultsFolder, Summary};
use stasis_run_events::{Ending, IoRecord, IoStatus, Outcome};
use stasis_runner::provenance::Provenance;
use stasis_runner::{engine, free_space};
use stasis_terminal::progress::Steps;
use stasis_workload::{Finished, Pause, Simulation, Workload};

use crate::drive_info::DriveInfo;
use crate::points::Point;
use crate::{model, work, Arguments};

/// The engine's name in results.
const ENGINE: &str = "sim";
/// The drive's name in results.
const DRIVE: &str = "drive0";
/// Completions that are recorded together.
const BATCH: usize = 4096;
/// Completions that are recorded together with a timeline: fewer, since the model holds the
/// timeline between two batches.
const WATCHED_BATCH: usize = 64;
/// Exit status of a simulation whose values are wrong, as of one that cannot be.
const FAILED: u8 = 125;
/// Interval between two updates of the progress on the terminal.
const PROGRESS: Duration = Duration::from_millis(200);

/// Everything a simulation is made from, checked.
pub struct SimulationSetup {
    label: String,
    spec: ModelSpec,
    context: BuildContext,
    work: work::IoSource,
    /// Warnings for the user about the setup.
    pub warnings: Vec<String>,
    /// Without a size, any offset is on the drive.
    capacity: Option<u64>,
    source: PathBuf,
    /// All files that this and the other simulations of the command read.
    inputs: Vec<PathBuf>,
    /// The files of this one.
    reads: Vec<PathBuf>,
    seed: u64,
    /// The words of this simulation alone, where it is one of several.
    repeated_by: Option<Vec<String>>,
    path: Nanos,
    limit: Option<Nanos>,
    thresholds: Vec<Threshold>,
    results: PathBuf,
    ios: Ios,
    timeline: bool,
}

/// A simulation that can begin.
pub struct Ready {
    setup: SimulationSetup,
    model: Box<dyn stasis_block::Model>,
}

/// A simulation that has ended.
pub struct Run {
    pub summary: Summary,
    /// Remark for the user about the trace.
    pub remark: Option<String>,
    pub message: Option<String>,
    /// Wall-clock time of the simulation alone.
    pub wall: Duration,
}

impl SimulationSetup {
    /// Reads and checks what the simulation needs. Its model, which may be large, is made by
    /// [`SimulationSetup::build`].
    pub fn new(arguments: &Arguments, point: &Point) -> Result<Self> {
        let duration = |word: &str, option: &str| {
            units::parse_duration(word).map_err(|error| anyhow!("{option}: {error}"))
        };
        let size = |word: &str, option: &str| {
            units::parse_size(word).map_err(|error| anyhow!("{option}: {error}"))
        };
        let path = duration(&arguments.path, "--path")?;
        let limit = arguments.limit.as_ref().map(|limit| duration(limit, "--limit")).transpose()?;
        let block_size = size(&arguments.block_size, "--block-size")?;
        if !matches!(block_size, 512 | 4096) {
            bail!("--block-size is {block_size}, but must be 512 or 4096");
        }
        let mut spec = model::read(point.model)?;
        if !arguments.workload.is_empty() && work::is_of_pairs(point.source) {
            spec.for_pairs();
        }
        let given = arguments.size.as_ref().map(|word| size(word, "--size")).transpose()?;
        if given.is_some_and(|size| size == 0 || size % block_size != 0) {
            bail!("--size must be a multiple of the block size {block_size}, and not 0");
        }
        let own = given.or(spec.capacity());
        let log = own.and_then(|capacity| spec.kind().log_shape(capacity));
        let drive = DriveInfo {
            capacity: own,
            block_size,
            path,
            log,
            used: spec.kind().state_file().is_some(),
        };
        let work::Opened { work, capacity, warnings } = work::open(arguments, point, drive)?;
        if capacity.is_none() && spec.kind().needs_capacity() {
            bail!("how large is the drive? Give --size");
        }
        let zone = capacity.and_then(|capacity| spec.kind().zone(capacity));
        if let (Some(zone), Some(segment)) = (zone, work.segment()) {
            if !segment.is_multiple_of(zone) {
                let (zone, segment) = (units::format_size(zone), units::format_size(segment));
                bail!(
                    "{}: the log has segments of {segment}, but the model has zones of {zone}, which \
                     are written in order and discarded as a whole: give log.segment = \"{zone}\"",
                    point.source.display()
                );
            }
        }
        // One job is the drive.
        let jobs = work.jobs().filter(|jobs| jobs.len() > 1).into_iter().flatten();
        let jobs = jobs.map(|(name, _)| name.as_str());
        let owners: Vec<&str> = std::iter::once(DRIVE).chain(jobs).collect();
        let threshold = |text: &String| {
            let threshold = Threshold::parse(text)?;
            threshold.check(&owners).map(|()| threshold)
        };
        let thresholds = arguments.expect.iter().map(threshold).collect::<Result<_, _>>()?;
        let context = BuildContext {
            seed: stasis_runner::drive_seed(point.seed, work::drive_index(arguments, point)),
            capacity: capacity.unwrap_or(u64::MAX),
            path,
        };
        let mut reads = point.inputs();
        // A trace includes nothing.
        if !arguments.workload.is_empty() && !work::is_of_pairs(point.source) {
            reads.extend(stasis_runner::job_file::included(point.source));
        }
        Ok(Self {
            label: spec.label(),
            spec,
            context,
            work,
            warnings,
            capacity,
            source: point.source.to_owned(),
            inputs: arguments.inputs(),
            reads,
            seed: point.seed,
            repeated_by: point.words(arguments),
            path,
            limit,
            thresholds,
            results: point.results.clone(),
            ios: arguments.ios,
            timeline: arguments.timeline,
        })
    }

    /// Makes the model.
    pub fn build(self) -> Result<Ready> {
        let model = self.spec.build(&self.context)?;
        Ok(Ready { setup: self, model })
    }
}

impl Ready {
    /// Runs the simulation to its end, or until the user stops it; `on_progress` receives its
    /// progress.
    pub fn run(self, stop: &AtomicBool, on_progress: &mut dyn FnMut(&RunProgress)) -> Result<Run> {
        let Self { setup, model } = self;
        let drive = stasis_runner::describe(DRIVE.into(), &setup.spec, ENGINE, "none".into());
        free_space::check_results(&setup.results, 0)?;
        let folder = ResultsFolder::claim(&setup.results, &setup.inputs)?;
        let mut writer = ResultsWriter::within(folder, vec![drive], setup.ios)?;
        writer.expect(setup.thresholds);
        if let Some(jobs) = setup.work.jobs().filter(|jobs| jobs.len() > 1) {
            writer.by_job(jobs.to_vec());
        }
        let mut provenance = Provenance::begin(false).reading(&setup.reads);
        if let Some(words) = setup.repeated_by {
            provenance = provenance.repeated_by(words);
        }
        let source = setup.source.display().to_string();
        let begun = Instant::now();
        let mut simulation = Simulation::new(model, setup.work);
        let mut spans = None;
        if setup.timeline {
            writer.keep_timeline()?;
            let mut tracks = Tracks::default();
            simulation.watch(DRIVE, &mut tracks);
            writer.take(Records::Tracks(&tracks.into_vec()))?;
            spans = Some(Spans::default());
        }
        let until = setup.limit.unwrap_or(Nanos::MAX);
        writer.folder().begun();
        let ended = go(&mut simulation, until, (&mut writer, spans.as_mut()), stop, on_progress);
        let (ending, measured) = match ended.with_context(|| source.clone()) {
            Ok(ended) => ended,
            Err(error) => {
                // A writer that fails as well adds nothing to why.
                let _ = writer.abandon();
                return Err(error);
            }
        };
        let wall = begun.elapsed();

        let end = match ending {
            Ending::VirtualLimit => until,
            _ => simulation.now(),
        };
        // Without anything measured, all of it was before.
        let measured = measured.unwrap_or(end);
        let remark = simulation.workload().remark().map(|remark| format!("{source}: {remark}"));
        let statistics = simulation.workload().statistics();
        let pairs = simulation.workload().pairs();
        let wrong = pairs.as_ref().map_or(0, |pairs| pairs["wrong"].as_u64().unwrap_or(0));
        let lost = simulation.in_flight();
        let message = match ending {
            Ending::VirtualLimit => {
                let limit = units::format_duration(until);
                Some(format!("the limit of {limit} of virtual time was reached"))
            }
            Ending::Cancelled => Some("stopped; the results so far are kept".into()),
            _ if wrong > 0 => Some(format!("{wrong} values were not those stored")),
            _ if simulation.workload().is_stuck() => {
                Some("stores wait for room: the drive has failed to make any".into())
            }
            _ if lost > 0 => Some(format!("{lost} I/Os were never completed by the model")),
            _ => None,
        };
        let mut outcome = engine::unfinished(ending, end - measured, wall);
        outcome.boot_virtual_ns = measured;
        outcome.skipped_ns = outcome.virtual_ns;
        outcome.lost_spans = spans.map_or(0, |spans| spans.lost());
        outcome.inside = vec![simulation.model().inside(end)];
        if let Some(file) = setup.spec.kind().state_file() {
            if let Some(state) = simulation.model_mut().shut_down(end) {
                stasis_runner::keep_model(file, &state)?;
            }
        }
        let failed = wrong > 0 || simulation.workload().is_stuck();
        let mut summary = finish(
            writer,
            &outcome,
            &setup.label,
            &source,
            wall,
            provenance,
            [
                ("seed", setup.seed.into()),
                ("capacity", setup.capacity.into()),
                ("path_ns", setup.path.into()),
                ("unfinished", lost.into()),
                ("trace", statistics.unwrap_or_default()),
                ("pairs", pairs.unwrap_or_default()),
            ],
        )?;
        if failed && summary.exit_status == 0 {
            summary.exit_status = FAILED.into();
        }
        Ok(Run { summary, remark, message, wall })
    }
}

fn finish<const N: usize>(
    writer: ResultsWriter,
    outcome: &Outcome,
    label: &str,
    source: &str,
    wall: Duration,
    provenance: Provenance,
    fields: [(&str, Value); N],
) -> Result<Summary> {
    let mut extra = provenance.fields();
    let fields = fields
        .into_iter()
        .filter(|(name, value)| !matches!(*name, "trace" | "pairs") || !value.is_null());
    extra.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    extra.insert("title".into(), format!("{label}: {source}").into());
    extra.insert("workload".into(), source.into());
    Ok(writer.finish(outcome, ENGINE, wall, extra)?)
}

/// Progress of a simulation.
pub struct RunProgress {
    /// Virtual time (ns).
    pub now: Nanos,
    /// I/Os so far.
    pub ios: u64,
    /// I/Os a second of wall-clock time.
    rate: f64,
    /// Finished part of the simulation (0 to 1), if that is known.
    pub fraction: Option<f64>,
}

impl RunProgress {
    /// Shows it on the terminal.
    pub fn show(&self, steps: &mut Steps) {
        let progress = format!(
            "{:.3} s of virtual time, {} I/Os, {} a second",
            Duration::from_nanos(self.now).as_secs_f64(),
            stasis_results::units::count(self.ios),
            stasis_results::units::decimals(self.rate, 0)
        );
        steps.step(&progress, self.fraction);
    }
}

/// I/Os that may take no time in a row, if the load is no nearer to its end after them.
const MAX_STILL: u64 = 2_000_000;

/// Runs to the end; returns why it ended, and when the first I/O was submitted
/// that counts (ns).
fn go<W: Workload>(
    simulation: &mut Simulation<W>,
    until: Nanos,
    (writer, mut spans): (&mut ResultsWriter, Option<&mut Spans>),
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(&RunProgress),
) -> Result<(Ending, Option<Nanos>)> {
    let mut done: Vec<Finished> = Vec::with_capacity(2 * BATCH);
    let mut records: Vec<IoRecord> = Vec::with_capacity(2 * BATCH);
    let begun = Instant::now();
    let mut last = begun;
    let mut measured: Option<Nanos> = None;
    let (mut early, mut total) = (false, 0u64);
    // The last step forward: its time, the finished part, and the I/Os until then.
    let mut step = (0, None, 0u64);
    let batch = if spans.is_some() { WATCHED_BATCH } else { BATCH };
    loop {
        let pause = simulation.run(until, batch, &mut done)?;
        for io in &done {
            if io.io.early {
                early = true;
            } else {
                measured = Some(measured.map_or(io.submit, |first| first.min(io.submit)));
            }
        }
        total += done.len() as u64;
        let now = simulation.now();
        // The finished part takes a look at every thread: only where time stands still. A trace may
        // not know it, and ends anyway.
        let fraction = if now == step.0 { simulation.workload().fraction(now) } else { None };
        if (now, fraction) != (step.0, step.1) {
            step = (now, fraction, total);
        } else if fraction.is_some_and(|part| part < 1.0) && total - step.2 > MAX_STILL {
            bail!(
                "{} I/Os in a row took no time, at {}: a job that ends by time (time_based) never \
                 ends on a model without a latency; take one that has some, such as fixed:1us, or \
                 give the job an end (number_ios, or a size without time_based)",
                stasis_results::units::count(total - step.2),
                stasis_results::units::rounded(now)
            );
        }
        records.extend(done.drain(..).map(|io| record(&io)));
        free_space::check_results(writer.folder().path(), 0)?;
        writer.record(&records)?;
        records.clear();
        if let Some(spans) = &mut spans {
            simulation.take_spans(spans);
            writer.take(Records::Spans(spans.kept()))?;
            spans.clear();
        }
        let measured = || if early { measured } else { Some(0) };
        match pause {
            Pause::Over => return Ok((Ending::Exited(0), measured())),
            Pause::Time => return Ok((Ending::VirtualLimit, measured())),
            Pause::Batch if stop.load(Ordering::Relaxed) => {
                return Ok((Ending::Cancelled, measured()))
            }
            Pause::Batch => {}
        }
        if last.elapsed() >= PROGRESS {
            last = Instant::now();
            let now = simulation.now();
            let of_limit = (until != Nanos::MAX).then(|| now as f64 / until.max(1) as f64);
            let fraction = match (simulation.workload().fraction(now), of_limit) {
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            };
            let rate = total as f64 / begun.elapsed().as_secs_f64().max(1e-3);
            on_progress(&RunProgress { now, ios: total, rate, fraction });
        }
    }
}

/// The record of an I/O: without a guest, an I/O is delivered at its target.
fn record(finished: &Finished) -> IoRecord {
    let Finished { io, order, submit, at, fate } = *finished;
    let failed = matches!(fate, Fate::Failed { .. });
    IoRecord {
        queue: io.thread,
        status: if failed { IoStatus::Error } else { IoStatus::Ok },
        boot: io.early,
        order,
        submit,
        target: at,
        delivered: at,
        ..IoRecord::of(&io.command)
    }
}

impl Run {
    /// Rates over the drive's active time, and the simulation's own speed.
    pub fn rates(&self) -> String {
        use stasis_results::units::{bandwidth, count, duration, significant};
        let ios = self.summary.ios();
        let wall = self.wall.as_secs_f64().max(1e-9);
        format!(
            "{} I/Os in {} of virtual time; {} IOPS, {} while the drive was active; simulated in \
             {}, {} I/Os a second\n",
            count(ios),
            duration(self.summary.virtual_seconds * 1e9),
            significant(self.summary.iops(), 4),
            bandwidth(self.summary.bytes_per_second()),
            duration(wall * 1e9),
            significant(ios as f64 / wall, 3),
        )
    }
}
