//! A record, and the states that are made from it and looked at.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use stasis_clock::Nanos;
use stasis_crash::{
    Check, Contents, Cut, Judge, Plan, Position, Promise, Remains, StateReader, Story, Verdict,
    Walk,
};
use stasis_image::Durability;

use super::disks::{after_cut, Disk};

/// A record that was read, and the disks of its drives.
pub struct Session {
    pub story: Story,
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
        let mut story =
            Story::load(open().with_context(cannot)?, &mut base).with_context(cannot)?;
        if story.drives.len() > disks.len() {
            anyhow::bail!("{}: it tells of drives that it does not name", cannot());
        }
        let contents = std::mem::take(&mut story.contents);
        Ok(Self { story, contents, disks })
    }

    /// Looks at the states `cuts`, which are in the order of their positions. What comes
    /// out is in `outcome`, where it ends with an error too: a state counts when all
    /// have looked at it.
    pub fn explore(
        &mut self,
        cuts: &[Cut],
        looks: &mut Looks,
        outcome: &mut Outcome,
        mut on: impl FnMut(&Outcome) -> bool,
    ) -> Result<()> {
        let Self { story, contents, disks } = self;
        let story: &Story = story;
        let mut judges = Vec::new();
        for (index, drive) in story.drives.iter().enumerate() {
            let promise = match story.head.drives[index].image {
                Some(image) if image.durability == Durability::Ordered => {
                    Promise::Ordered(image.max_lag)
                }
                _ => Promise::Durable,
            };
            let mut judge = Judge::new(&drive.guest, promise, disks[index].was_empty());
            let sectors: Vec<u64> = judge.sectors().collect();
            let base =
                disks[index].contents(&mut sectors.iter().copied(), index, None, contents)?;
            for (place, content) in base.into_iter().enumerate() {
                judge.set_base(place, content);
            }
            judges.push((judge, sectors));
        }
        let mut walk = Walk::new(story);
        let mut seen = HashSet::new();
        let mut checked = HashSet::new();
        for cut in cuts {
            walk.go_to(cut.position);
            for (drive, sector, content) in walk.news() {
                disks[drive].settle(sector, content, contents)?;
            }
            let remains = walk.cut(cut.sampling);
            let at = story.time(cut.position);
            let promised: Vec<_> =
                judges.iter().map(|(judge, _)| judge.promised(cut.position, at)).collect();
            let prints: Vec<u128> = remains.iter().map(|remains| remains.print).collect();
            let mut state = State { story, walk: &walk, remains: &remains, cut, at };
            let new = seen.insert((promised, prints.clone()));
            if new {
                if looks.native {
                    state.natively(disks, &judges, contents, outcome)?;
                }
                if let Some(second) = &mut looks.second {
                    if outcome.distinct.is_multiple_of(looks.second_every) {
                        state.ask_another(disks, *second, outcome)?;
                    }
                }
            }
            let lines = story.lines.partition_point(|(when, ..)| *when <= cut.position);
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
                    let _ = disk.become_state(&walk, index, remains, contents)?;
                    let name = &after_cut(&story.head.drives[index]);
                    let size = story.drives[index].guest.capacity;
                    disk.save(folder, name, (&walk, index, remains), size, contents)?;
                }
            }
            if !on(outcome) {
                outcome.stopped = true;
                break;
            }
        }
        Ok(())
    }

    /// The states `numbers` of the plan with `seed` between the positions `span`.
    pub fn cuts(
        &self,
        seed: u64,
        span: (Position, Position),
        numbers: impl Iterator<Item = u64>,
    ) -> Vec<Cut> {
        let plan = Plan::new(&self.story, seed, span);
        let mut cuts: Vec<Cut> = numbers.map(|number| plan.cut(&self.story, number)).collect();
        cuts.sort_by_key(|cut| (cut.position, cut.number));
        cuts
    }
}

/// One state.
struct State<'a> {
    story: &'a Story,
    walk: &'a Walk<'a>,
    remains: &'a [Remains],
    cut: &'a Cut,
    at: Nanos,
}

impl State<'_> {
    fn finding(&self, drive: Option<usize>, kind: Kind, what: String) -> Finding {
        let name = |index: usize| self.story.head.drives[index].name.clone();
        Finding { state: self.cut.number, at: self.at, drive: drive.map(name), kind, what }
    }

    /// Compares each disk with what its way promised.
    fn natively(
        &mut self,
        disks: &mut [Disk],
        judges: &[(Judge, Vec<u64>)],
        contents: &mut Contents,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (index, disk) in disks.iter_mut().enumerate() {
            let Some((judge, sectors)) = judges.get(index) else { continue };
            let remains = &self.remains[index];
            if let Err(unsound) = disk.become_state(self.walk, index, remains, contents)? {
                let finding = self.finding(Some(index), Kind::Image, unsound.0);
                outcome.findings.push(finding);
                continue;
            }
            let present = Some((self.walk, remains));
            let held = disk.contents(&mut sectors.iter().copied(), index, present, contents)?;
            let judged = judge.judge(self.cut.position, self.at, |place, _| held[place]);
            if let Err(violation) = judged {
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
            if disk.become_state(self.walk, index, remains, contents)?.is_err() {
                // Said already: nobody can read it.
                return Ok(());
            }
        }
        let lines = self.story.lines[..lines].iter();
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
        self.state.story.drives.len()
    }

    fn size(&self, drive: usize) -> u64 {
        self.state.story.drives.get(drive).map_or(0, |drive| drive.guest.capacity)
    }

    fn read(&mut self, drive: usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.size(drive)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let present = (self.state.walk, &self.state.remains[drive]);
        self.disks[drive].read(drive, offset, into, present, self.contents)
    }

    fn at(&self) -> Nanos {
        self.state.at
    }

    fn lines(&self) -> &[(Nanos, Vec<u8>)] {
        &self.lines
    }
}
