//! A record, and the states that are made from it and looked at.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use stasis_clock::Nanos;
use stasis_crash::{
    Check, Contents, Cut, CutPoint, Enumerator, Oracle, Promise, Remains, StateReader,
    StateSampler, Trace, Verdict,
};
use stasis_qcow2::Durability;

use crate::disks::{after_cut, Disk};

/// A record that was read, and the disks of its drives.
pub struct Session {
    pub trace: Trace,
    contents: Contents,
    disks: Vec<Disk>,
}

/// Something that a power cut must not leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The state's number.
    pub state: u64,
    /// When the power was cut (ns).
    pub at: Nanos,
    /// The drive's name; none where a check looked at all of them.
    pub drive: Option<String>,
    /// What kind.
    pub kind: Kind,
    /// What is wrong.
    pub what: String,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something acknowledged as durable is gone.
    Lost,
    /// Something is there without what was ordered before it.
    Order,
    /// Something is there that nobody wrote.
    Unknown,
    /// The image contradicts itself.
    Image,
    /// The check found it broken.
    Check,
}

/// What came out.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Outcome {
    /// Power cuts that were tried.
    pub cuts: u64,
    /// Different states among them.
    pub distinct: u64,
    /// How often a check was asked.
    pub checked: u64,
    /// How often it had to repair something, and said what.
    pub repaired: u64,
    /// States that must not be.
    pub findings: Vec<Finding>,
    /// Whether somebody stopped it.
    pub stopped: bool,
}

/// Says what is wrong with an image.
pub type Opinion = dyn FnMut(&File) -> Result<Option<String>>;

/// What looks at each state.
pub struct Looks<'a> {
    /// Compare with what was promised.
    pub native: bool,
    /// A check of the guest's, if any.
    pub check: Option<&'a mut dyn Check>,
    /// Of how many states one is checked.
    pub check_every: u64,
    /// Where the disks of the last state are left.
    pub keep: Option<&'a Path>,
    /// Another opinion on an image's file, on some states.
    pub second: Option<&'a mut Opinion>,
    /// Of how many states one gets it.
    pub second_every: u64,
}

impl Default for Looks<'_> {
    fn default() -> Self {
        let (check, second, keep) = (None, None, None);
        Self { native: true, check, check_every: 1, keep, second, second_every: 1 }
    }
}

impl Session {
    /// Reads the record at `file`; the disks as they were are beside it.
    pub fn open(file: &Path) -> Result<Self> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let cannot = || format!("cannot read the record {}", file.display());
        let open = || Ok::<_, io::Error>(BufReader::with_capacity(1 << 20, File::open(file)?));
        let (_, head) =
            stasis_crash::RecordReader::new(open().with_context(cannot)?).with_context(cannot)?;
        let mut disks = Vec::new();
        for drive in &head.drives {
            let mut disk =
                Disk::open(drive, folder).with_context(|| format!("drive {}", drive.name))?;
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
        Ok(Self { trace, contents, disks })
    }

    /// Looks at the states `cuts`, which are in the order of their points. What comes
    /// out is in `outcome`, where it ends with an error too: a state counts when all
    /// have looked at it.
    pub fn explore(
        &mut self,
        cuts: &[Cut],
        looks: &mut Looks,
        outcome: &mut Outcome,
        mut on: impl FnMut(&Outcome) -> bool,
    ) -> Result<()> {
        let Self { trace, contents, disks } = self;
        let trace: &Trace = trace;
        let mut oracles = Vec::new();
        for (index, drive) in trace.drives.iter().enumerate() {
            let promise = match trace.head.drives[index].image {
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
        let mut enumerator = Enumerator::new(trace);
        let mut seen = HashSet::new();
        let mut checked = HashSet::new();
        for cut in cuts {
            enumerator.go_to(cut.point);
            for (drive, sector, content) in enumerator.news() {
                disks[drive].settle(sector, content, contents)?;
            }
            let remains = enumerator.cut(cut.sampling);
            let at = trace.time(cut.point);
            let promised: Vec<_> =
                oracles.iter().map(|(oracle, _)| oracle.promised(cut.point, at)).collect();
            let prints: Vec<u128> = remains.iter().map(|remains| remains.print).collect();
            let mut state = State { trace, enumerator: &enumerator, remains: &remains, cut, at };
            let new = seen.insert((promised, prints.clone()));
            if new {
                if looks.native {
                    state.natively(disks, &oracles, contents, outcome)?;
                }
                if let Some(second) = &mut looks.second {
                    if outcome.distinct.is_multiple_of(looks.second_every) {
                        state.ask_another(disks, *second, outcome)?;
                    }
                }
            }
            let lines = trace.lines.partition_point(|(when, ..)| *when <= cut.point);
            let turn = cut.number % looks.check_every == 0 || cuts.len() == 1;
            if let Some(check) = looks.check.as_mut().filter(|_| turn) {
                if checked.insert((lines, prints)) {
                    state.check(disks, contents, *check, lines, outcome)?;
                }
            }
            outcome.cuts += 1;
            outcome.distinct += u64::from(new);
            if let Some(folder) = looks.keep.filter(|_| outcome.cuts == cuts.len() as u64) {
                for (index, disk) in disks.iter_mut().enumerate() {
                    let remains = &remains[index];
                    // An image that is not sound is left as it is.
                    let _ = disk.become_state(&enumerator, index, remains, contents)?;
                    let name = &after_cut(&trace.head.drives[index]);
                    let size = trace.drives[index].guest.capacity;
                    disk.save(folder, name, (&enumerator, index, remains), size, contents)?;
                }
            }
            if !on(outcome) {
                outcome.stopped = true;
                break;
            }
        }
        Ok(())
    }

    /// The states `numbers` of the plan with `seed` between the points `span`.
    pub fn cuts(
        &self,
        seed: u64,
        span: (CutPoint, CutPoint),
        numbers: impl Iterator<Item = u64>,
    ) -> Vec<Cut> {
        let plan = StateSampler::new(&self.trace, seed, span);
        let mut cuts: Vec<Cut> = numbers.map(|number| plan.cut(&self.trace, number)).collect();
        cuts.sort_by_key(|cut| (cut.point, cut.number));
        cuts
    }
}

/// One state.
struct State<'a> {
    trace: &'a Trace,
    enumerator: &'a Enumerator<'a>,
    remains: &'a [Remains],
    cut: &'a Cut,
    at: Nanos,
}

impl State<'_> {
    fn finding(&self, drive: Option<usize>, kind: Kind, what: String) -> Finding {
        let name = |index: usize| self.trace.head.drives[index].name.clone();
        Finding { state: self.cut.number, at: self.at, drive: drive.map(name), kind, what }
    }

    /// Compares each disk with what its way promised.
    fn natively(
        &mut self,
        disks: &mut [Disk],
        oracles: &[(Oracle, Vec<u64>)],
        contents: &mut Contents,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (index, disk) in disks.iter_mut().enumerate() {
            let Some((oracle, sectors)) = oracles.get(index) else { continue };
            let remains = &self.remains[index];
            if let Err(unsound) = disk.become_state(self.enumerator, index, remains, contents)? {
                let finding = self.finding(Some(index), Kind::Image, unsound.0);
                outcome.findings.push(finding);
                continue;
            }
            let present = Some((self.enumerator, remains));
            let held = disk.contents(&mut sectors.iter().copied(), index, present, contents)?;
            let verdict = oracle.check(self.cut.point, self.at, |place, _| held[place]);
            if let Err(violation) = verdict {
                use stasis_crash::Violation::{Lost, Order, Unknown};
                let kind = match violation {
                    Lost { .. } => Kind::Lost,
                    Order { .. } => Kind::Order,
                    Unknown { .. } => Kind::Unknown,
                };
                outcome.findings.push(self.finding(Some(index), kind, violation.to_string()));
            }
        }
        Ok(())
    }

    /// Asks another program about the images.
    fn ask_another(
        &mut self,
        disks: &mut [Disk],
        second: &mut Opinion,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (index, disk) in disks.iter().enumerate() {
            let Some(file) = disk.file() else { continue };
            if let Some(wrong) = second(file)? {
                outcome.findings.push(self.finding(Some(index), Kind::Image, wrong));
            }
        }
        Ok(())
    }

    /// Has the state looked at.
    fn check(
        &mut self,
        disks: &mut [Disk],
        contents: &mut Contents,
        check: &mut dyn Check,
        lines: usize,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (index, disk) in disks.iter_mut().enumerate() {
            let remains = &self.remains[index];
            if disk.become_state(self.enumerator, index, remains, contents)?.is_err() {
                // Said already: nobody can read it.
                return Ok(());
            }
        }
        let lines = self.trace.lines[..lines].iter();
        let lines = lines.map(|(_, at, line)| (*at, line.clone())).collect();
        let mut view = View { state: self, disks, contents, lines };
        outcome.checked += 1;
        match check.check(&mut view).map_err(|error| anyhow::anyhow!("{error}"))? {
            Verdict::Sound => {}
            Verdict::Repaired(_) => outcome.repaired += 1,
            Verdict::Broken(what) => {
                outcome.findings.push(self.finding(None, Kind::Check, what));
            }
        }
        Ok(())
    }
}

/// A state as a check sees it.
struct View<'a> {
    state: &'a State<'a>,
    disks: &'a mut [Disk],
    contents: &'a Contents,
    lines: Vec<(Nanos, Vec<u8>)>,
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
        let present = (self.state.enumerator, &self.state.remains[drive]);
        self.disks[drive].read(drive, offset, into, present, self.contents)
    }

    fn at(&self) -> Nanos {
        self.state.at
    }

    fn lines(&self) -> &[(Nanos, Vec<u8>)] {
        &self.lines
    }
}
