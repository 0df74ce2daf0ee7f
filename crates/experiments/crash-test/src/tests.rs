//! Crash tests of synthetic loads, without a guest.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::{
    splitmix, CacheKind, Command, Completion, Model, Operation, PowerLoss, Request, Status, Tag,
};
use stasis_crash::{
    Check, Fault, FaultInjector, Frame, Level, StateReader, TraceHeader, TraceStream, TraceWriter,
    TracedDrive, Verdict,
};
use stasis_drive::{Drive, Layer};
use stasis_media::{Execution, Medium, MediumSpec, OpenOptions};
use stasis_qcow2::{CreateOptions, Durability, Settings};
use stasis_results::ResultsFolder;

use crate::session::{Kind, Outcome, Session, StateChecks};

const SIZE: u64 = 4 << 20;

/// Numbers at random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(splitmix::GAMMA);
        splitmix::mix(self.0)
    }
}

/// Random latencies; a flush takes long and a barrier hardly any time.
struct Latencies(Random, EventQueue<Tag>, PowerLoss);

impl Model for Latencies {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        let flush = if command.operation == Operation::Flush { 1_000_000 } else { 0 };
        self.1.push(now + 1_000 + flush + self.0.next() % 50_000, tag);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.1.next_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.1.pop_due(now) {
            done.push(Completion::done(tag, at));
        }
    }

    fn barrier(&self) -> Option<Nanos> {
        Some(500)
    }

    fn power_loss(&self) -> PowerLoss {
        self.2
    }
}

/// A guest's random writes, discards, flushes and durable writes; returns the time of its end (ns).
fn load(layer: &mut dyn Layer, seed: u64, count: u64) -> Nanos {
    let mut random = Random(seed);
    let mut in_flight: VecDeque<(Tag, Command)> = VecDeque::new();
    let (mut now, mut done) = (0, Vec::new());
    let places: Vec<u64> = (0..6).map(|_| random.next() % (SIZE / 2)).collect();
    for tag in 0..count as Tag {
        let mut command = match random.next() % 10 {
            0..=6 => Command::new(Operation::Write, 0, 512 + random.next() % 40_000 / 512 * 512),
            7 => Command::new(Operation::Discard, 0, 512 + random.next() % 40_000 / 512 * 512),
            _ => Command::flush(),
        };
        if command.length > 0 {
            let place = places[random.next() as usize % places.len()];
            command.offset = (place + random.next() % 200_000) / 512 * 512;
            command.fua = command.operation == Operation::Write && random.next().is_multiple_of(9);
        }
        let mut data = Vec::new();
        if command.operation == Operation::Write {
            // Each write has different data.
            data.resize(command.length as usize, 0);
            for (index, sector) in data.chunks_mut(512).enumerate() {
                sector[..8].copy_from_slice(&(u64::from(tag) << 16 | index as u64).to_le_bytes());
                sector[511] = 1;
            }
        }
        let overlaps = |other: &Command| {
            command.offset < other.offset + other.length
                && other.offset < command.offset + command.length
        };
        while in_flight.len() >= 4 || in_flight.iter().any(|(_, other)| overlaps(other)) {
            step(layer, &mut now, &mut done, &mut in_flight);
        }
        layer.submit(now, Request { queue: 1, ..Request::new(tag, command, data) });
        in_flight.push_back((tag, command));
        if random.next().is_multiple_of(2) {
            step(layer, &mut now, &mut done, &mut in_flight);
        }
    }
    while !in_flight.is_empty() {
        step(layer, &mut now, &mut done, &mut in_flight);
    }
    now
}

fn step(
    layer: &mut dyn Layer,
    now: &mut Nanos,
    done: &mut Vec<stasis_drive::Done>,
    in_flight: &mut VecDeque<(Tag, Command)>,
) {
    let Some(at) = layer.next_event() else { panic!("{in_flight:?} never end") };
    *now = (*now).max(at);
    layer.advance(*now, done);
    for one in done.drain(..) {
        assert_eq!(one.status, Status::Ok, "{one:?}");
        in_flight.retain(|(tag, _)| *tag != one.tag);
    }
}

/// Rounds inspect the states that one pass inspects, in another order.
#[test]
fn rounds_find_what_one_pass_finds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.record");
    for way in WAYS {
        let fault = Some(Fault::EarlyAcknowledgement);
        let mut in_rounds = explore(&mut traced(folder.path(), way, fault, 4), 6, 300);
        let mut session = Session::open(&file, false).unwrap();
        let cuts = session.cuts(&session.plan(6), 0..300);
        let mut checks = StateChecks { oracle: true, ..StateChecks::default() };
        let mut at_once = Outcome::default();
        session.explore(&cuts, &mut checks, &mut at_once, |_| true).unwrap();
        assert_eq!((in_rounds.cuts, in_rounds.distinct), (at_once.cuts, at_once.distinct));
        for outcome in [&mut in_rounds, &mut at_once] {
            outcome.tried.sort_unstable();
        }
        assert_eq!(in_rounds.tried, at_once.tried);
        assert!(!at_once.findings.is_empty());
        assert_eq!(in_rounds.findings.len(), at_once.findings.len(), "{way:?}");
    }
}

/// Traces a load on an image of that way, or on a raw drive.
fn traced(folder: &Path, way: Option<Durability>, fault: Option<Fault>, seed: u64) -> Session {
    traced_on(PowerLoss::default(), folder, way, fault, seed)
}

/// The trace of a run on a drive that loses `power_loss` in a power cut.
fn traced_on(
    power_loss: PowerLoss,
    folder: &Path,
    way: Option<Durability>,
    fault: Option<Fault>,
    seed: u64,
) -> Session {
    traced_load(power_loss, folder, way, fault, seed, |layer| load(layer, seed, 250))
}

/// The trace of a load, which returns the time of its end.
fn traced_load(
    power_loss: PowerLoss,
    folder: &Path,
    way: Option<Durability>,
    fault: Option<Fault>,
    seed: u64,
    load: impl FnOnce(&mut dyn Layer) -> Nanos,
) -> Session {
    let stream = TraceStream::default();
    let options = OpenOptions {
        execution: Execution::Synchronous,
        delay: Duration::ZERO,
        base: Path::new(""),
    };
    let settings =
        Settings { durability: way.unwrap_or_default(), max_lag: 4_000_000, ..Settings::default() };
    let mut head = TracedDrive { name: "disk".into(), ..TracedDrive::default() };
    let medium: Box<dyn Medium>;
    let mut opening = None;
    if way.is_some() {
        let base = folder.join("disk.before");
        let create =
            CreateOptions { size: Some(SIZE), cluster_size: 4096, ..CreateOptions::default() };
        let _ = std::fs::remove_file(&base);
        stasis_qcow2::create(&base, &create).unwrap();
        let copy = folder.join("copy");
        std::fs::copy(&base, &copy).unwrap();
        let (opened, files) = stasis_qcow2::open_files(&copy, true, &options).unwrap();
        (opening, medium) = (Some(opened), files);
        (head.base, head.image) = (Some("disk.before".into()), Some(settings));
    } else {
        medium = MediumSpec::Ram { size: SIZE }.open(&options).unwrap();
    }
    let model = Box::new(Latencies(Random(seed ^ 99), EventQueue::new(), power_loss));
    let mut layer: Box<dyn Layer> = Box::new(Drive::new(0, "disk".into(), model, medium));
    layer = Box::new(stream.tap(layer, Level::Drive, 512));
    if let Some(fault) = fault {
        layer = Box::new(FaultInjector::new(layer, fault, 512));
    }
    if let Some(opening) = opening {
        layer = Box::new(opening.open(layer, settings).unwrap());
    }
    layer = Box::new(stream.tap(layer, Level::Guest, 512));
    let end = load(&mut *layer);
    let bytes = stream.drain();
    drop(layer);

    let file = folder.join("run.record");
    let head = TraceHeader { drives: vec![head], ..TraceHeader::default() };
    let mut writer = TraceWriter::new(std::fs::File::create(&file).unwrap(), &head).unwrap();
    writer.piece(&bytes).unwrap();
    writer.frame(&Frame::Over { at: end }).unwrap();
    writer.finish().unwrap();
    Session::open(&file, false).unwrap()
}

fn explore(session: &mut Session, seed: u64, states: u64) -> Outcome {
    let rounds = session.plan(seed).rounds(&session.trace, 0..states);
    let mut checks = StateChecks { oracle: true, ..StateChecks::default() };
    let mut outcome = Outcome::default();
    for cuts in &rounds {
        session.explore(cuts, &mut checks, &mut outcome, |_| true).unwrap();
    }
    outcome
}

const WAYS: [Option<Durability>; 4] =
    [None, Some(Durability::Flush), Some(Durability::Barrier), Some(Durability::Ordered)];

#[test]
fn no_way_breaks_its_promise() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        for seed in 0..3 {
            let mut session = traced(folder.path(), way, None, seed);
            let outcome = explore(&mut session, seed, 300);
            assert!(outcome.findings.is_empty(), "{way:?} {seed}: {:#?}", outcome.findings);
            assert!(outcome.distinct > 100, "{way:?}: {}", outcome.distinct);
        }
    }
}

#[test]
fn each_injected_fault_is_found_within_200_states() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        for fault in Fault::LOSSES {
            for seed in 0..4 {
                let mut session = traced(folder.path(), way, Some(fault), seed);
                let outcome = explore(&mut session, seed ^ 5, 200);
                assert!(!outcome.findings.is_empty(), "{way:?} {fault:?} {seed}");
            }
        }
    }
}

/// A flash drive's: a buffer, and units of 4 KiB.
const BUFFERED: PowerLoss = PowerLoss { cache: CacheKind::Volatile(256 << 10), atomic_unit: 4096 };

#[test]
fn each_injected_fault_is_found_on_a_drive_with_a_small_cache() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        for seed in 0..2 {
            let mut sound = traced_on(BUFFERED, folder.path(), way, None, seed);
            assert_eq!(sound.trace.drives[0].cached().power_loss, BUFFERED, "in the trace");
            let outcome = explore(&mut sound, seed, 200);
            assert!(outcome.findings.is_empty(), "{way:?} {seed}: {:#?}", outcome.findings);
            for fault in Fault::LOSSES {
                let mut session = traced_on(BUFFERED, folder.path(), way, Some(fault), seed);
                let outcome = explore(&mut session, seed ^ 5, 400);
                assert!(!outcome.findings.is_empty(), "{way:?} {fault:?} {seed}");
            }
        }
    }
}

/// A drive with power-loss protection keeps all that it acknowledged, so a dropped flush does no
/// harm on a raw drive; a durable write that is acknowledged before the drive has it does.
#[test]
fn with_protection_a_dropped_flush_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let protected = PowerLoss { cache: CacheKind::Protected, ..BUFFERED };
    for (fault, harm) in [(Fault::DroppedBarrier, false), (Fault::EarlyAcknowledgement, true)] {
        let mut findings = 0;
        for seed in 0..4 {
            let mut session = traced_on(protected, folder.path(), None, Some(fault), seed);
            findings += explore(&mut session, seed, 300).findings.len();
        }
        assert_eq!(findings > 0, harm, "{fault:?}: {findings}");
    }
}

#[test]
fn a_state_is_the_same_alone_as_among_others() {
    let folder = tempfile::tempdir().unwrap();
    let way = Some(Durability::Ordered);
    let mut session = traced(folder.path(), way, Some(Fault::SwappedTables), 3);
    let all = explore(&mut session, 8, 200).findings;
    let one = all.last().unwrap();
    let cuts = session.cuts(&session.plan(8), one.state..one.state + 1);
    let mut session = Session::open(&folder.path().join("run.record"), false).unwrap();
    let mut checks = StateChecks { oracle: true, ..StateChecks::default() };
    let mut alone = Outcome::default();
    session.explore(&cuts, &mut checks, &mut alone, |_| true).unwrap();
    assert_eq!(alone.findings, std::slice::from_ref(one));
    assert!(all
        .iter()
        .any(|finding| matches!(finding.kind, Kind::Image | Kind::Order | Kind::Lost)));
}

/// Reads all of a state's disk, so that no other one is read alike.
fn read_all(state: &mut dyn StateReader) {
    state.read(0, 0, &mut vec![0; SIZE as usize]).unwrap();
}

/// A check that is stopped while it inspects one state.
struct Stopped(u64);

impl Check for Stopped {
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String> {
        read_all(state);
        self.0 -= 1;
        if self.0 == 0 {
            return Err("stopped".into());
        }
        Ok(Verdict::Sound)
    }
}

#[test]
fn what_was_looked_at_stays_when_a_check_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = traced(folder.path(), None, Some(Fault::EarlyAcknowledgement), 0);
    let cuts = session.cuts(&session.plan(5), 0..300);
    let mut check = Stopped(150);
    let mut checks =
        StateChecks { oracle: true, check: Some(&mut check), ..StateChecks::default() };
    let mut outcome = Outcome::default();
    session.explore(&cuts, &mut checks, &mut outcome, |_| true).unwrap_err();
    assert!((149..300).contains(&outcome.cuts), "{}", outcome.cuts);
    assert!(!outcome.findings.is_empty());
}

/// Finds nothing in the disk, of which it reads all, or else nothing.
struct Sound(bool);

impl Check for Sound {
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String> {
        if self.0 {
            read_all(state);
        }
        Ok(Verdict::Sound)
    }
}

#[test]
fn what_a_check_inspected_is_known_by_number() {
    let mut counts = Vec::new();
    for reads in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut session = traced(folder.path(), None, None, 0);
        let cuts = session.cuts(&session.plan(5), 0..300);
        let mut check = Sound(reads);
        let mut checks =
            StateChecks { check: Some(&mut check), check_every: 3, ..StateChecks::default() };
        let mut outcome = Outcome::default();
        session.explore(&cuts, &mut checks, &mut outcome, |_| true).unwrap();
        assert_eq!(outcome.inspected.len() as u64, outcome.checked);
        assert!(outcome.inspected.iter().all(|state| state % 3 == 0));
        // Each that was to be checked is, or is equal to one that is.
        let equal = outcome.equal.iter().map(|(state, _)| *state);
        let mut all: Vec<u64> = outcome.inspected.iter().copied().chain(equal).collect();
        all.sort_unstable();
        assert_eq!(all, (0..300).step_by(3).collect::<Vec<_>>());
        assert!(outcome.equal.iter().all(|(_, other)| outcome.inspected.contains(other)));
        counts.push((outcome.checked, outcome.alike));
    }
    // A check that reads nothing tells all by one state after each number of lines.
    let [(whole, some), (few, alike)] = counts[..] else { panic!("{counts:?}") };
    assert!(few < whole && some < alike, "{counts:?}");
}

/// A check that keeps what it reads.
struct Reads(Vec<u8>);

impl Check for Reads {
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String> {
        self.0.resize(SIZE as usize, 0);
        state.read(0, 0, &mut self.0).map_err(|error| error.to_string())?;
        Ok(Verdict::Sound)
    }
}

#[test]
fn a_kept_disk_is_the_one_that_a_check_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.record");
    for way in WAYS {
        let plan = traced(folder.path(), way, None, 2).plan(4);
        let mut disks = HashSet::new();
        for state in [0, 20, 40, 60, 80] {
            let mut session = Session::open(&file, false).unwrap();
            let cut = plan.cut(&session.trace, state);
            let mut reads = Reads(Vec::new());
            let mut checks = StateChecks { check: Some(&mut reads), ..StateChecks::default() };
            session.explore(&[cut], &mut checks, &mut Outcome::default(), |_| true).unwrap();
            let mut results = ResultsFolder::join(&folder.path().join("results")).unwrap();
            let mut session = Session::open(&file, false).unwrap();
            let (files, remarks) = session.keep(&cut, &mut results).unwrap();
            assert_eq!((files.len(), remarks.len()), (1, 0), "{remarks:?}");
            assert!(files[0].ends_with(format!("results/disk.state-{state}.img")), "{files:?}");
            let kept = std::fs::read(&files[0]).unwrap();
            assert!(kept == reads.0, "{way:?}, state {state}");
            disks.insert(kept);
        }
        assert!(disks.len() > 3, "{way:?}: the states differ");
    }
}

#[test]
fn an_image_that_contradicts_itself_is_kept_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.record");
    let way = Some(Durability::Barrier);
    let unsound = (0..8).find_map(|seed| {
        let mut session = traced(folder.path(), way, Some(Fault::SwappedTables), seed);
        let found = explore(&mut session, seed, 400).findings;
        let unsound = found.into_iter().find(|finding| finding.kind == Kind::Image)?;
        Some(session.plan(seed).cut(&session.trace, unsound.state))
    });
    let cut = unsound.expect("a swapped table");
    let mut results = ResultsFolder::join(&folder.path().join("results")).unwrap();
    let (files, remarks) = Session::open(&file, false).unwrap().keep(&cut, &mut results).unwrap();
    assert!(files[0].ends_with(format!("disk.state-{}.qcow2", cut.number)), "{files:?}");
    assert!(std::fs::read(&files[0]).unwrap().starts_with(b"QFI\xfb"));
    assert!(remarks[0].contains("contradicts itself"), "{remarks:?}");
}
