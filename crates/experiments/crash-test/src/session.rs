//! A trace, and the crash states that are made from it and inspected.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_crash::{
    Check, Contents, Cut, CutPoint, DriveCrashState, Enumerator, Oracle, Promise, StateReader,
    StateSampler, Trace, Verdict, SECTOR,
};
use stasis_drive::Sampling;
use stasis_qcow2::Durability;
use stasis_runner::leave_zones;

use crate::disks::{after_cut, StateDisk};
use crate::evidence::Evidence;
use crate::inspections::{Held, Inspections};

/// Identity of a state: the number of each drive's promises, and prints of the contents.
type Inspected = (Vec<(usize, usize)>, Vec<u128>);

/// A trace that was read, and the disks of its drives.
pub struct Session {
    pub trace: Trace,
    pub(crate) contents: Contents,
    pub(crate) disks: Vec<StateDisk>,
    pub(crate) strict: bool,
    folder: PathBuf,
    // True if the disks have been states.
    used: bool,
    // States that were inspected.
    inspected: HashSet<Inspected>,
    // States that a check inspected, by the number of lines and contents.
    checked: HashMap<(usize, Vec<u128>), u64>,
    // The same by what it has read.
    inspections: Inspections,
}

/// Something that a power cut must not leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The state's number.
    pub state: u64,
    /// Time of the power cut (ns).
    pub at: Nanos,
    /// The drive's name; none where a check looked at all of them.
    pub drive: Option<String>,
    /// Kind of the finding.
    pub kind: Kind,
    /// Description of the finding.
    pub what: String,
    /// True if a guest with this state alone repeated the finding; none if not tried, or if the
    /// finding is not a guest's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<bool>,
    /// The write that it is about, by its place in the log of the guest's requests to the drive.
    #[serde(skip)]
    pub write: Option<usize>,
    /// The bytes of the guest's disk that it names.
    #[serde(skip)]
    pub bytes: Vec<u64>,
    /// Surroundings of the cut; of the first findings, and of one of each cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something acknowledged as durable is gone.
    Lost,
    /// Something is there without something that was ordered before it.
    Order,
    /// Data is there that was never written.
    Unknown,
    /// The image contradicts itself.
    Image,
    /// The check found the state broken.
    Check,
    /// The check did not end in its time.
    Late,
}

impl Kind {
    /// Returns whether a check in a guest found it.
    pub fn is_of_a_check(self) -> bool {
        matches!(self, Self::Check | Self::Late)
    }
}

/// A disk of which nothing is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The disk as it was before the command.
    Before,
    /// The disk as it was after the end of all I/O.
    Completed,
}

/// Outcome of a session.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Outcome {
    /// Power cuts that were tried.
    pub cuts: u64,
    /// Their numbers.
    #[serde(skip)]
    pub tried: Vec<u64>,
    /// Different states among them.
    pub distinct: u64,
    /// Number of states that a check inspected.
    pub checked: u64,
    /// Their numbers.
    #[serde(skip)]
    pub inspected: Vec<u64>,
    /// States that were to be checked and are equal to a checked one, each with that one.
    #[serde(skip)]
    pub equal: Vec<(u64, u64)>,
    /// Number of states among these that differ from the checked one where its check has read nothing.
    pub alike: u64,
    /// Number of checks that repaired something and reported it.
    pub repaired: u64,
    /// States that violate a promise or fail a check.
    pub findings: Vec<Finding>,
    /// Findings of a check that were not found again in a guest with this state alone and a clock
    /// of instructions. They say nothing of the disks, and count for nothing.
    pub not_repeated: Vec<Finding>,
    /// True if the session was stopped.
    pub stopped: bool,
    /// Disks that are left, and whose zones are not: which, and why.
    #[serde(skip)]
    pub not_kept: Vec<String>,
}

impl Outcome {
    /// Sets aside the findings that were not found again.
    pub fn keep_what_repeats(&mut self) {
        let (gone, kept) = std::mem::take(&mut self.findings)
            .into_iter()
            .partition(|finding| finding.repeats == Some(false));
        (self.not_repeated, self.findings) = (gone, kept);
    }
}

/// A program that reports the faults of an image.
pub type ImageChecker = dyn FnMut(&File) -> Result<Option<String>>;

/// The checks of each state.
pub struct StateChecks<'a> {
    /// True if the oracle compares the state with the promises.
    pub oracle: bool,
    /// A check in a guest, if any.
    pub check: Option<&'a mut dyn Check>,
    /// Interval of the check: it runs on one of this many states.
    pub check_every: u64,
    /// Folder in which the disks of the last state are left.
    pub keep: Option<&'a Path>,
    /// Another program's verdict on an image's file, on some states.
    pub image_checker: Option<&'a mut ImageChecker>,
    /// Interval of the image checker: it runs on one of this many states.
    pub image_checker_every: u64,
    /// True if each state is looked at, though there are equal ones.
    pub each: bool,
}

impl Default for StateChecks<'_> {
    fn default() -> Self {
        let (check, image_checker, keep) = (None, None, None);
        Self {
            oracle: true,
            check,
            check_every: 1,
            keep,
            image_checker,
            image_checker_every: 1,
            each: false,
        }
    }
}

impl Session {
    /// Reads the trace at `file`; the disks as they were are beside it. `strict`: a flush covers
    /// nothing that was in flight when it was submitted.
    pub fn open(file: &Path, strict: bool) -> Result<Self> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let cannot = || format!("cannot read the trace {}", file.display());
        let open = || Ok::<_, io::Error>(BufReader::with_capacity(1 << 20, File::open(file)?));
        let (_, header) =
            stasis_crash::TraceReader::new(open().with_context(cannot)?).with_context(cannot)?;
        let mut disks = Vec::new();
        for drive in &header.drives {
            let mut disk =
                StateDisk::open(drive, folder).with_context(|| format!("drive {}", drive.name))?;
            if let Err(unsound) = disk.open_image()? {
                anyhow::bail!("drive {}: before the run: {}", drive.name, unsound.0);
            }
            disks.push(disk);
        }
        let mut base = |drive: usize, sector: u64, into: &mut [u8]| match disks.get_mut(drive) {
            Some(disk) => disk.read_before(sector, into),
            None => Err(io::Error::other("there is no such drive")),
        };
        let mut trace =
            Trace::load(open().with_context(cannot)?, &mut base).with_context(cannot)?;
        if trace.drives.len() > disks.len() {
            anyhow::bail!("{}: it tells of drives that it does not name", cannot());
        }
        let contents = std::mem::take(&mut trace.contents);
        let (inspected, checked, inspections) = Default::default();
        let (folder, used) = (folder.to_owned(), false);
        Ok(Self { trace, contents, disks, strict, folder, used, inspected, checked, inspections })
    }

    /// Makes the disks what they were before the run: states of any time can be inspected then.
    fn rewind(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.used, true) {
            return Ok(());
        }
        for (disk, drive) in self.disks.iter_mut().zip(&self.trace.header.drives) {
            disk.rewind(drive, &self.folder).with_context(|| format!("drive {}", drive.name))?;
        }
        Ok(())
    }

    /// Inspects the states `cuts`, which are in the order of their points. The results are in
    /// `outcome`, after an error too: a state counts when all checks have inspected it. States that
    /// are equal to one which was inspected before are left out.
    pub fn explore(
        &mut self,
        cuts: &[Cut],
        checks: &mut StateChecks,
        outcome: &mut Outcome,
        mut on: impl FnMut(&Outcome) -> bool,
    ) -> Result<()> {
        self.rewind()?;
        let Self { trace, contents, disks, strict, inspected, checked, inspections, .. } = self;
        let trace: &Trace = trace;
        let mut oracles = Vec::new();
        for (index, drive) in trace.drives.iter().enumerate() {
            let promise = match trace.header.drives[index].image {
                Some(image) if image.durability == Durability::Ordered => {
                    Promise::Ordered(image.max_lag)
                }
                _ => Promise::Durable,
            };
            let mut oracle = Oracle::new(&drive.guest, promise, disks[index].was_empty());
            let sectors: Vec<u64> = oracle.sectors().collect();
            let base =
                disks[index].contents(&mut sectors.iter().copied(), index, None, contents)?;
            for (place, content) in base.into_iter().enumerate() {
                oracle.set_base(place, content);
            }
            oracles.push((oracle, sectors));
        }
        let mut enumerator = Enumerator::new(trace, *strict);
        for cut in cuts {
            enumerator.go_to(cut.point);
            for (drive, sector, content) in enumerator.news() {
                disks[drive].settle(sector, content, contents)?;
            }
            let crashed = enumerator.cut(cut.sampling);
            let at = trace.time(cut.point);
            let promised: Vec<_> =
                oracles.iter().map(|(oracle, _)| oracle.promised(cut.point, at)).collect();
            let prints: Vec<u128> = crashed.iter().map(|crashed| crashed.print).collect();
            let mut state = State { trace, enumerator: &enumerator, crashed: &crashed, cut, at };
            let new = inspected.insert((promised, prints.clone()));
            if new {
                if checks.oracle {
                    state.check_oracle(disks, &oracles, contents, outcome)?;
                }
                if let Some(image_checker) = &mut checks.image_checker {
                    if outcome.distinct.is_multiple_of(checks.image_checker_every) {
                        state.check_images(disks, *image_checker, outcome)?;
                    }
                }
            }
            let lines = trace.lines.partition_point(|(when, ..)| *when <= cut.point);
            let turn = cut.number.is_multiple_of(checks.check_every);
            if let Some(check) = checks.check.as_mut().filter(|_| turn) {
                match checked.get(&(lines, prints.clone())).filter(|_| !checks.each) {
                    Some(&equal) => outcome.equal.push((cut.number, equal)),
                    None => {
                        let sectors = oracles.iter().map(|(_, sectors)| &sectors[..]).collect();
                        let inspections = (!checks.each).then_some(&mut *inspections);
                        let before = (sectors, inspections);
                        let inspected =
                            state.check(disks, contents, *check, (lines, before), outcome)?;
                        checked.insert((lines, prints), inspected);
                    }
                }
            }
            outcome.cuts += 1;
            outcome.tried.push(cut.number);
            outcome.distinct += u64::from(new);
            if let Some(folder) = checks.keep.filter(|_| outcome.cuts == cuts.len() as u64) {
                for (index, disk) in disks.iter_mut().enumerate() {
                    let crashed = &crashed[index];
                    // An image that is not sound is left as it is.
                    let _ = disk.become_state(&enumerator, index, crashed, contents)?;
                    let name = &after_cut(&trace.header.drives[index]);
                    let size = trace.drives[index].guest.capacity;
                    disk.save(folder, name, (&enumerator, index, crashed), size, contents)?;
                    let (image, device) = (folder.join(name), &trace.header.drives[index].device);
                    let pointers = crashed.pointers_in_bytes();
                    if let Err(why) = leave_zones(&image, device, size, &pointers) {
                        outcome.not_kept.push(format!("{}: {why:#}", image.display()));
                    }
                }
            }
            if !on(outcome) {
                outcome.stopped = true;
                break;
            }
        }
        Ok(())
    }

    /// Returns the first fault that `check` finds in disks without any loss: as they were before
    /// the command, or at the end of all I/O. These count as inspected by no check.
    pub fn control(&mut self, check: &mut dyn Check) -> Result<Option<(Control, String)>> {
        let (first, last) = (self.trace.span().0, self.trace.events.len() as CutPoint);
        let cut = |number, point| Cut { number, point, sampling: Sampling::Most };
        let cuts = [cut(0, first), cut(1, last)];
        let mut checks =
            StateChecks { oracle: false, check: Some(check), ..StateChecks::default() };
        let mut outcome = Outcome::default();
        self.explore(&cuts, &mut checks, &mut outcome, |outcome| outcome.findings.is_empty())?;
        (self.inspected, self.checked, self.inspections) = Default::default();
        let found = outcome.findings.into_iter().next();
        Ok(found.map(|finding| match finding.state {
            0 => (Control::Before, finding.what),
            _ => (Control::Completed, finding.what),
        }))
    }

    /// Flushes of the guest that cover a write in flight, which a drive need not make durable.
    pub fn overlapping_flushes(&self) -> u64 {
        self.trace.drives.iter().map(|drive| drive.guest.overlapping_flushes()).sum()
    }

    /// Returns whether a flush covers nothing that was in flight when it was submitted.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The sampler that draws states with `seed`.
    pub fn plan(&self, seed: u64) -> StateSampler {
        StateSampler::new(&self.trace, seed, self.trace.span())
    }

    /// The states `numbers` of a plan, in the order of their points.
    #[cfg(test)]
    pub fn cuts(&self, plan: &StateSampler, numbers: impl Iterator<Item = u64>) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = numbers.map(|number| plan.cut(&self.trace, number)).collect();
        cuts.sort_by_key(|cut| (cut.point, cut.number));
        cuts
    }
}

/// A state that is inspected.
struct State<'a> {
    trace: &'a Trace,
    enumerator: &'a Enumerator<'a>,
    crashed: &'a [DriveCrashState],
    cut: &'a Cut,
    at: Nanos,
}

impl State<'_> {
    fn finding(&self, drive: Option<usize>, kind: Kind, description: String) -> Finding {
        let name = |index: usize| self.trace.header.drives[index].name.clone();
        Finding {
            state: self.cut.number,
            at: self.at,
            drive: drive.map(name),
            kind,
            what: description,
            repeats: None,
            write: None,
            bytes: Vec::new(),
            evidence: None,
        }
    }

    /// Compares each disk with the promises of its kind of durability.
    fn check_oracle(
        &mut self,
        disks: &mut [StateDisk],
        oracles: &[(Oracle, Vec<u64>)],
        contents: &mut Contents,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (index, disk) in disks.iter_mut().enumerate() {
            let Some((oracle, sectors)) = oracles.get(index) else { continue };
            let crashed = &self.crashed[index];
            if let Err(unsound) = disk.become_state(self.enumerator, index, crashed, contents)? {
                let finding = self.finding(Some(index), Kind::Image, unsound.0);
                outcome.findings.push(finding);
                continue;
            }
            let present = Some((self.enumerator, crashed));
            let held = disk.contents(&mut sectors.iter().copied(), index, present, contents)?;
            let verdict = oracle.check(self.cut.point, self.at, |place, _| held[place]);
            if let Err(violation) = verdict {
                use stasis_crash::Violation::{Lost, Order, Unknown};
                let (kind, write, sectors) = match violation {
                    Lost { sector, place, .. } => (Kind::Lost, Some(place), vec![sector]),
                    Order { old, new } => (Kind::Order, None, vec![old, new]),
                    Unknown { sector } => (Kind::Unknown, None, vec![sector]),
                };
                let bytes = sectors.into_iter().map(|sector| sector * SECTOR as u64).collect();
                let finding = self.finding(Some(index), kind, violation.to_string());
                outcome.findings.push(Finding { write, bytes, ..finding });
            }
        }
        Ok(())
    }

    /// Asks another program about the images.
    fn check_images(
        &mut self,
        disks: &mut [StateDisk],
        image_checker: &mut ImageChecker,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (index, disk) in disks.iter().enumerate() {
            let Some(file) = disk.file() else { continue };
            if let Some(wrong) = image_checker(file)? {
                outcome.findings.push(self.finding(Some(index), Kind::Image, wrong));
            }
        }
        Ok(())
    }

    /// Runs `check` on the state, if none that it has inspected before has the same verdict. `sectors`: those
    /// that the guest has ever written, by drive. Returns the number of the state whose verdict it has.
    fn check(
        &mut self,
        disks: &mut [StateDisk],
        contents: &mut Contents,
        check: &mut dyn Check,
        (lines, (sectors, inspections)): (usize, (Vec<&[u64]>, Option<&mut Inspections>)),
        outcome: &mut Outcome,
    ) -> Result<u64> {
        for (index, disk) in disks.iter_mut().enumerate() {
            let crashed = &self.crashed[index];
            if disk.become_state(self.enumerator, index, crashed, contents)?.is_err() {
                // Reported already: the image cannot be read.
                return Ok(self.cut.number);
            }
        }
        let mut all = Vec::new();
        for (index, (disk, sectors)) in disks.iter_mut().zip(&sectors).enumerate() {
            let present = Some((self.enumerator, &self.crashed[index]));
            all.push(disk.contents(&mut sectors.iter().copied(), index, present, contents)?);
        }
        let held = Held::new(all, sectors, self.crashed);
        let alike = inspections.as_ref().and_then(|inspections| inspections.alike(lines, &held));
        if let Some(alike) = alike {
            outcome.equal.push((self.cut.number, alike));
            outcome.alike += 1;
            return Ok(alike);
        }
        let given = self.trace.lines[..lines].iter();
        let given = given.map(|(_, at, line)| (*at, line.clone())).collect();
        let mut view = View { state: self, disks, contents, lines: given, reads: Vec::new() };
        outcome.checked += 1;
        outcome.inspected.push(self.cut.number);
        let verdict = check.check(&mut view).map_err(|error| anyhow::anyhow!("{error}"))?;
        let reads = view.reads;
        match inspections {
            Some(inspections) if !matches!(verdict, Verdict::Late(_)) => {
                inspections.keep(self.cut.number, lines, &held, reads);
            }
            _ => {}
        }
        match verdict {
            Verdict::Sound => {}
            Verdict::Repaired(_) => outcome.repaired += 1,
            Verdict::Broken(description) => {
                outcome.findings.push(self.finding(None, Kind::Check, description));
            }
            Verdict::Late(description) => {
                outcome.findings.push(self.finding(None, Kind::Late, description));
            }
        }
        Ok(self.cut.number)
    }
}

/// A state as a check sees it.
struct View<'a> {
    state: &'a State<'a>,
    disks: &'a mut [StateDisk],
    contents: &'a Contents,
    lines: Vec<(Nanos, Vec<u8>)>,
    /// The bytes that were read: a drive and a range each.
    reads: Vec<(usize, Range<u64>)>,
}

impl StateReader for View<'_> {
    fn drives(&self) -> usize {
        self.state.trace.drives.len()
    }

    fn size(&self, drive: usize) -> u64 {
        self.state.trace.drives.get(drive).map_or(0, |drive| drive.guest.capacity)
    }

    fn read(&mut self, drive: usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.size(drive)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // One that goes on where the last one ended is one with it.
        let range = offset..offset + into.len() as u64;
        match self.reads.last_mut().filter(|(last, read)| (*last, read.end) == (drive, range.start))
        {
            Some((_, read)) => read.end = range.end,
            None => self.reads.push((drive, range)),
        }
        let present = (self.state.enumerator, &self.state.crashed[drive]);
        self.disks[drive].read(drive, offset, into, present, self.contents)
    }

    fn zones(&self, drive: usize) -> Vec<(u64, u64)> {
        self.state.crashed.get(drive).map_or_else(Vec::new, DriveCrashState::pointers_in_bytes)
    }

    fn on_disk(&self, drive: usize, offset: u64) -> Option<u64> {
        self.disks.get(drive)?.on_disk(offset)
    }

    fn number(&self) -> u64 {
        self.state.cut.number
    }

    fn at(&self) -> Nanos {
        self.state.at
    }

    fn lines(&self) -> &[(Nanos, Vec<u8>)] {
        &self.lines
    }
}
