//! A profile of a run: in which functions its processors were, over virtual time.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use parquet::data_type::ByteArray;
use serde_json::{json, Value};
use stasis_block::clock::Nanos;
use stasis_run_events::{Outcome, Sample};

use crate::late::Late;
use crate::page::{Block, Flame, Resolution, Section};
use crate::table::{Column, Table};
use stasis_results::files::write_whole;
use stasis_results::sample_file::{KeptSamples, SampleFile};
use stasis_results::sink::{Entry, Footer, Records, Sink};
use stasis_results::symbols::{FrameNames, Symbols};
use stasis_results::{units, ResultsError};

/// Stretches of time in which samples are counted; when there are twice as many, two become one.
const STRETCHES: usize = 512;
/// Functions in the table of the page.
const HOTTEST: usize = 15;
/// Parts of the whole that a stack must have to be drawn, in the finest resolution.
const DRAWN: usize = 4096;

/// A call of a function by another's.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// The caller; its own number at the root of a processor.
    parent: u32,
    name: u32,
}

/// Samples as a tree of calls, and how many there were of each stack when.
#[derive(Debug)]
pub(crate) struct Profile {
    frame_names: FrameNames,
    interval: Nanos,
    names: Vec<String>,
    name_of: HashMap<String, u32>,
    nodes: Vec<Node>,
    node_of: HashMap<(u32, u32), u32>,
    /// Samples whose innermost call a node is.
    counts: Vec<u64>,
    idle: u64,
    /// Samples of each node by stretches of this length from the first sample on.
    begin: Option<Nanos>,
    stretch: Nanos,
    stretches: Vec<BTreeMap<u32, u64>>,
    /// Samples of each node at times that have something in common, which is the name.
    views: Vec<(String, BTreeMap<u32, u64>)>,
}

impl Profile {
    /// Starts with processors of these names, which are sampled at an interval (ns).
    pub(crate) fn new(symbols: Symbols, interval: Nanos, processors: &[String]) -> Self {
        let mut profile = Self {
            frame_names: FrameNames::new(symbols),
            interval,
            names: Vec::new(),
            name_of: HashMap::new(),
            nodes: Vec::new(),
            node_of: HashMap::new(),
            counts: Vec::new(),
            idle: 0,
            begin: None,
            stretch: interval.max(1),
            stretches: Vec::new(),
            views: Vec::new(),
        };
        for (number, processor) in (0..).zip(processors) {
            let name = profile.word(processor);
            profile.nodes.push(Node { parent: number, name });
            profile.counts.push(0);
        }
        profile
    }

    fn word(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.name_of.get(name) {
            return known;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.name_of.insert(name.to_owned(), number);
        number
    }

    fn call(&mut self, parent: u32, address: u64) -> u32 {
        let name = self.frame_names.name(address).to_owned();
        let name = self.word(&name);
        self.child(parent, name)
    }

    fn child(&mut self, parent: u32, name: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let node = *self.node_of.entry((parent, name)).or_insert(next);
        if node == next {
            self.nodes.push(Node { parent, name });
            self.counts.push(0);
        }
        node
    }

    /// Takes a sample, and writes it into a file.
    fn keep(&mut self, sample: &Sample, file: &mut SampleFile) -> Result<(), ResultsError> {
        let node = self.record(sample);
        let Some(processor) = self.names.get(usize::from(sample.processor)) else { return Ok(()) };
        let path = node.map(|node| self.path(node)).unwrap_or_default();
        // Without the processor, which is the outermost.
        let stack: Vec<&str> = path.into_iter().rev().skip(1).collect();
        let processor = ByteArray::from(processor.as_str());
        file.row(sample.at, &processor, sample.count, &ByteArray::from(stack.join(";").as_str()))
    }

    /// Takes a sample; the call that it was in, unless its processor was idle.
    fn record(&mut self, sample: &Sample) -> Option<u32> {
        let count = u64::from(sample.count);
        let begin = *self.begin.get_or_insert(sample.at);
        if sample.frames.is_empty() {
            self.idle += count;
            return None;
        }
        let mut node = u32::from(sample.processor);
        if node as usize >= self.nodes.len() {
            return None;
        }
        for &frame in sample.frames.iter().rev() {
            node = self.call(node, frame);
        }
        self.counts[node as usize] += count;
        // A processor that is behind another may have an earlier one.
        let since = sample.at.saturating_sub(begin);
        while since / self.stretch >= 2 * STRETCHES as u64 {
            self.stretch = self.stretch.saturating_mul(2);
            self.stretches = joined(&self.stretches, 2);
        }
        let place = (since / self.stretch) as usize;
        if self.stretches.len() <= place {
            self.stretches.resize_with(place + 1, BTreeMap::new);
        }
        *self.stretches[place].entry(node).or_default() += count;
        Some(node)
    }

    /// Adds a view of the samples while I/Os were late, for each of `late`.
    pub(crate) fn add_views(
        &mut self,
        mut samples: KeptSamples,
        late: Vec<Late>,
    ) -> Result<(), ResultsError> {
        let mut views = vec![BTreeMap::new(); late.len()];
        while let Some(sample) = samples.next_sample()? {
            let Some(&processor) = self.name_of.get(&sample.processor) else { continue };
            if sample.stack.is_empty() {
                continue;
            }
            let times = (0..sample.count).map(|number| {
                sample.at.saturating_add(sample.interval.saturating_mul(number.into()))
            });
            let times: Vec<Nanos> = times.collect();
            let mut node = None;
            for (late, view) in late.iter().zip(&mut views) {
                let count = times.iter().filter(|&&at| late.holds(at)).count() as u64;
                if count == 0 {
                    continue;
                }
                let node = *node.get_or_insert_with(|| {
                    sample.stack.split(';').fold(processor, |node, name| {
                        let name = self.word(name);
                        self.child(node, name)
                    })
                });
                *view.entry(node).or_default() += count;
            }
        }
        let named = late.into_iter().zip(views).map(|(late, view)| (late.name, view));
        self.views = named.filter(|(_, view)| !view.is_empty()).collect();
        Ok(())
    }

    /// The stacks with their numbers of samples, as `flamegraph.pl` and others read them: names from
    /// the outermost on, by semicolons; without idle time.
    fn folded(&self) -> String {
        let mut lines = Vec::new();
        for (node, count) in (0..).zip(&self.counts).filter(|(_, count)| **count > 0) {
            let path: Vec<_> = self.path(node).into_iter().rev().collect();
            lines.push(format!("{} {count}\n", path.join(";")));
        }
        lines.sort();
        lines.concat()
    }

    /// The names of a node and its callers, the innermost first.
    fn path(&self, mut node: u32) -> Vec<&str> {
        let mut path = Vec::new();
        loop {
            let Node { parent, name } = self.nodes[node as usize];
            path.push(self.names[name as usize].as_str());
            if parent == node {
                return path;
            }
            node = parent;
        }
    }

    fn samples(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The profile's entry in the summary.
    fn summary(&self) -> Value {
        json!({
            "interval_ns": self.interval,
            "samples": self.samples() + self.idle,
            "idle_samples": self.idle,
        })
    }

    /// The functions in which most samples were: name, samples of its own, and with what it called.
    fn hottest(&self) -> Vec<(&str, u64, u64)> {
        let mut all: HashMap<u32, (u64, u64)> = HashMap::new();
        for (node, &count) in (0..).zip(&self.counts).filter(|(_, count)| **count > 0) {
            let mut counted = Vec::new();
            let mut at: u32 = node;
            all.entry(self.nodes[at as usize].name).or_default().0 += count;
            loop {
                let Node { parent, name } = self.nodes[at as usize];
                if parent == at {
                    break;
                }
                // A function that calls itself counts once.
                if !counted.contains(&name) {
                    counted.push(name);
                    all.entry(name).or_default().1 += count;
                }
                at = parent;
            }
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|&(name, (own, _))| (std::cmp::Reverse(own), name));
        let named =
            |(name, (own, whole)): (u32, _)| (self.names[name as usize].as_str(), own, whole);
        all.into_iter().take(HOTTEST).map(named).collect()
    }

    /// The section of the page. Its times begin at `begin` (ns).
    pub(crate) fn section(&self, begin: Nanos, resolution: Resolution) -> Section {
        let (busy, idle) = (self.samples(), self.idle);
        let share = |part: u64, whole: u64| match whole {
            0 => "0 %".to_owned(),
            _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
        };
        let text = format!(
            "{} samples, one of each processor every {} of virtual time; it was idle in {} of them, \
             which are left out below. Programs and modules of the kernel are one frame each, in \
             brackets. profile.folded has the stacks for other tools, profile.parquet each sample.",
            units::count(busy + idle),
            units::duration(self.interval as f64),
            share(idle, busy + idle),
        );
        let mut table = Table::new(vec![
            Column::left("function"),
            Column::right("itself"),
            Column::right("with its calls"),
        ]);
        for (name, own, whole) in self.hottest() {
            table.push(vec![name.to_owned(), share(own, busy), share(whole, busy)]);
        }
        let section = Section::new("Where processors were").anchored("profile");
        let section = section.with(Block::Prose(text));
        let section = match busy {
            0 => section,
            _ => section.with(Block::Flame(self.flame(begin, resolution))),
        };
        section.with(Block::Table("Functions with the most samples".to_owned(), table))
    }

    /// The tree of calls, by stretches of time. Rare stacks count as their callers.
    fn flame(&self, begin: Nanos, resolution: Resolution) -> Flame {
        let least = self.samples() / resolution.of(DRAWN, 64) as u64;
        let mut whole = self.counts.clone();
        for node in (0..self.nodes.len()).rev() {
            let parent = self.nodes[node].parent as usize;
            if parent != node {
                whole[parent] += whole[node];
            }
        }
        // A caller comes before those that it calls.
        let (mut drawn, mut place) = (Vec::new(), vec![0; self.nodes.len()]);
        let mut names = Vec::new();
        let mut name_of: HashMap<u32, usize> = HashMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let parent = node.parent as usize;
            let is_root = parent == number;
            let hidden = !is_root && (whole[number] <= least || whole[parent] <= least);
            place[number] = match hidden {
                true => place[parent],
                false => {
                    let name = *name_of.entry(node.name).or_insert_with(|| {
                        names.push(self.names[node.name as usize].clone());
                        names.len() - 1
                    });
                    let own = drawn.len();
                    drawn.push([if is_root { own } else { place[parent] }, name]);
                    own
                }
            };
        }
        let most = resolution.of(STRETCHES, 16);
        let step = self.stretches.len().div_ceil(most).max(1);
        let count = |stretch: &BTreeMap<u32, u64>| {
            let mut all: BTreeMap<usize, u64> = BTreeMap::new();
            for (&node, &count) in stretch {
                *all.entry(place[node as usize]).or_default() += count;
            }
            all.into_iter().flat_map(|(node, count)| [node as u64, count]).collect::<Vec<_>>()
        };
        let stretches: Vec<_> = joined(&self.stretches, step).iter().map(count).collect();
        let view = |(name, samples): &(String, BTreeMap<u32, u64>)| json!({"name": name, "counts": count(samples)});
        let data = json!({
            "names": names,
            "nodes": drawn,
            "begin": self.begin.unwrap_or(begin).saturating_sub(begin),
            "stretch": self.stretch.saturating_mul(step as u64),
            "interval": self.interval,
            "counts": stretches,
            "views": self.views.iter().map(view).collect::<Vec<_>>(),
        });
        Flame(data)
    }
}

/// The profile, with its files: each sample, and the stacks.
pub(crate) struct ProfileFiles {
    pub(crate) profile: Profile,
    pub(crate) samples: SampleFile,
    pub(crate) stacks: PathBuf,
}

impl Sink for ProfileFiles {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        let Self { profile, samples: file, .. } = self;
        match records {
            // Names of threads, of modules' functions, and of places in programs.
            Records::Names(names) => profile.frame_names.add(names.to_vec()),
            Records::Samples(all) => return all.iter().try_for_each(|one| profile.keep(one, file)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, footer: &Footer, outcome: Option<&Outcome>) -> Result<Entry, ResultsError> {
        self.samples.finish(footer)?;
        if outcome.is_some() {
            write_whole(&self.stacks, self.profile.folded().as_bytes())?;
        }
        Ok(Some(("profile".into(), self.profile.summary())))
    }
}

/// Each `count` stretches as one.
fn joined(stretches: &[BTreeMap<u32, u64>], count: usize) -> Vec<BTreeMap<u32, u64>> {
    let join = |some: &[BTreeMap<u32, u64>]| {
        let mut all = BTreeMap::new();
        for (&node, &count) in some.iter().flatten() {
            *all.entry(node).or_default() += count;
        }
        all
    };
    stretches.chunks(count.max(1)).map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stasis_run_events::NAMED;

    const CODE: u64 = 0xffff_ffff_8100_0000;
    const MODULES: u64 = 0xffff_ffff_c000_0000;

    fn profile() -> Profile {
        let functions = [(CODE + 512, "c"), (CODE + 256, "b"), (CODE, "a")];
        let functions = functions.map(|(address, name)| (address, name.to_owned()));
        Profile::new(Symbols::new(functions.to_vec()), 100, &["vCPU 0".into(), "vCPU 1".into()])
    }

    fn sample(at: u64, processor: u16, frames: &[u64]) -> Sample {
        Sample { at, processor, count: 1, frames: frames.to_vec() }
    }

    #[test]
    fn stacks_are_folded_by_function() {
        let mut profile = profile();
        profile.record(&sample(1000, 0, &[CODE + 5, CODE + 256]));
        profile.record(&sample(1100, 0, &[CODE + 9, CODE + 300]));
        profile.record(&Sample { count: 7, ..sample(1200, 0, &[]) });
        profile.record(&sample(1200, 1, &[0x40_0000]));
        profile.record(&sample(1300, 1, &[MODULES + 1, CODE + 600]));
        let folded = "vCPU 0;b;a 2\nvCPU 1;[program] 1\nvCPU 1;c;[module] 1\n";
        assert_eq!(profile.folded(), folded);
        assert_eq!(profile.summary()["samples"], 11);
        assert_eq!(profile.summary()["idle_samples"], 7);
        assert_eq!(profile.hottest()[0], ("a", 2, 2));
        let page = format!("{:?}", profile.section(500, Resolution::default()));
        assert!(page.contains("63.6 %"), "{page}");
    }

    /// Programs and modules have the names that come before them.
    #[test]
    fn given_names_are_frames() {
        let mut profile = profile();
        profile.frame_names.add(vec!["[fio]".into()]);
        profile.frame_names.add(vec!["[xfs]".into()]);
        profile.record(&sample(1000, 0, &[NAMED + 1, CODE + 256, NAMED]));
        profile.record(&sample(1100, 0, &[NAMED + 2]));
        assert_eq!(profile.folded(), "vCPU 0;[fio];b;[xfs] 1\nvCPU 0;[kernel] 1\n");
    }

    /// Samples while I/Os are late are those of these times, and of busy processors.
    #[test]
    fn a_view_has_the_samples_of_its_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(stasis_results::SAMPLES_FILE);
        let mut file = SampleFile::create(path, 100).unwrap();
        let mut profile = profile();
        for one in [
            sample(1000, 0, &[CODE + 5, CODE + 256]),
            Sample { count: 4, ..sample(1100, 0, &[CODE + 5]) },
            Sample { count: 9, ..sample(1000, 1, &[]) },
            sample(2000, 1, &[CODE + 512]),
        ] {
            profile.keep(&one, &mut file).unwrap();
        }
        file.finish(&Footer::new()).unwrap();
        let samples = || KeptSamples::open(folder.path()).unwrap().unwrap();
        let late = |times: &[(u64, u64)]| Late { name: "late".into(), times: times.to_vec() };
        profile.add_views(samples(), vec![late(&[(1000, 1201)]), late(&[(5000, 6000)])]).unwrap();
        let [(_, view)] = &profile.views[..] else { panic!("{:?}", profile.views) };
        let counts: BTreeMap<String, u64> =
            view.iter().map(|(node, count)| (profile.path(*node).join("<"), *count)).collect();
        let expected = [("a<b<vCPU 0".to_owned(), 1), ("a<vCPU 0".to_owned(), 2)];
        assert_eq!(counts, BTreeMap::from(expected));
        let Flame(data) = profile.flame(0, Resolution::default());
        assert_eq!(data["views"][0]["name"], "late");
        let drawn = data["views"][0]["counts"].as_array().unwrap();
        assert_eq!(drawn.iter().skip(1).step_by(2).map(|n| n.as_u64().unwrap()).sum::<u64>(), 3);
    }

    proptest! {
        /// Whatever is drawn, and however time is cut: every sample counts once.
        #[test]
        fn every_sample_is_drawn_once(
            all in prop::collection::vec(
                (0u64..10_000_000, 0u16..2, prop::collection::vec(0u64..3, 1..6)), 1..200,
            ),
        ) {
            let mut profile = profile();
            for (at, processor, frames) in &all {
                let frames: Vec<u64> = frames.iter().map(|number| CODE + 256 * number).collect();
                profile.record(&sample(*at, *processor, &frames));
            }
            let Flame(data) = profile.flame(0, Resolution::default());
            let counts = data["counts"].as_array().unwrap();
            let pairs = |counts: &Value| {
                let counts: Vec<u64> =
                    counts.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect();
                counts.chunks(2).map(|pair| pair[1]).sum::<u64>()
            };
            prop_assert_eq!(counts.iter().map(pairs).sum::<u64>(), all.len() as u64);
            let parents = data["nodes"].as_array().unwrap();
            for (number, node) in parents.iter().enumerate() {
                prop_assert!(node[0].as_u64().unwrap() <= number as u64);
            }
            let folded: u64 = profile
                .folded()
                .lines()
                .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
                .sum();
            prop_assert_eq!(folded, all.len() as u64);
        }
    }
}
