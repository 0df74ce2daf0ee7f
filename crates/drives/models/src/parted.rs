//! A drive whose bytes lie in several parts with flash of their own: endurance groups, and NVM sets.
//!
//! Each part is a model by itself, of the part's size, so that nothing done in one delays another. A
//! command is of the part that its first byte lies in; so is a flush.

use std::any::Any;

use stasis_block::clock::Nanos;
use stasis_block::inside::{part_name, Inside};
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{Command, Completion, Health, Model, PowerLoss, Tag};

/// A part of a drive: its first byte on the drive, and its model.
pub type Part = (u64, Box<dyn Model>);

/// A model of several parts; see the [module](self).
pub struct Parted(Vec<Part>);

impl Parted {
    /// Joins these parts, in the order of bytes; at least one, the first from the drive's first
    /// byte on.
    pub fn new(parts: Vec<Part>) -> Self {
        debug_assert!(parts.is_sorted_by(|one, other| one.0 < other.0) && !parts.is_empty());
        Self(parts)
    }

    /// The part of a byte: its number.
    fn part_of(&self, offset: u64) -> usize {
        self.0.partition_point(|(start, _)| *start <= offset).saturating_sub(1)
    }

    fn models(&self) -> impl Iterator<Item = &dyn Model> {
        self.0.iter().map(|(_, model)| &**model)
    }
}

impl Model for Parted {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        let index = self.part_of(command.offset);
        let Some((start, model)) = self.0.get_mut(index) else { return };
        let offset = command.offset.saturating_sub(*start);
        let source = command.source.saturating_sub(*start);
        model.submit(now, tag, &Command { offset, source, ..*command });
    }

    fn next_event(&self) -> Option<Nanos> {
        self.models().filter_map(Model::next_event).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let before = done.len();
        for (_, model) in &mut self.0 {
            model.advance(now, done);
        }
        // The first parts come first among equal times.
        done[before..].sort_by_key(|completion| completion.at);
    }

    fn barrier(&self) -> Option<Nanos> {
        self.models().next()?.barrier()
    }

    fn power_loss(&self) -> PowerLoss {
        self.models().next().map(Model::power_loss).unwrap_or_default()
    }

    fn cut_power(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|(_, model)| model.cut_power(now));
    }

    fn reseed(&mut self, seed: u64) {
        for (seed, (_, model)) in seeds(seed).zip(&mut self.0) {
            model.reseed(seed);
        }
    }

    fn adapt(&mut self, parameters: &dyn Any) -> bool {
        // They are alike: what one can, all can.
        self.0.iter_mut().all(|(_, model)| model.adapt(parameters))
    }

    fn entry(&self, offset: u64) -> Option<String> {
        let index = self.part_of(offset);
        let (start, model) = self.0.get(index)?;
        let entry = model.entry(offset.saturating_sub(*start))?;
        Some(format!("part {}: {entry}", index + 1))
    }

    fn waiting(&self, now: Nanos) -> Option<String> {
        let waits = (1..).zip(self.models()).filter_map(|(number, model)| {
            model.waiting(now).map(|waiting| format!("part {number}: {waiting}"))
        });
        let waits: Vec<String> = waits.collect();
        (!waits.is_empty()).then(|| waits.join("; "))
    }

    fn health(&self) -> Health {
        let worst = |one: Health, other: Health| one.and(&other);
        self.models().map(Model::health).reduce(worst).unwrap_or_default()
    }

    fn parts_health(&self) -> Vec<Health> {
        self.models().map(Model::health).collect()
    }

    fn start(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|(_, model)| model.start(now));
    }

    fn inside(&self, now: Nanos) -> Option<Inside> {
        let parts: Vec<_> = self.models().map(|model| model.inside(now)).collect();
        let starts = self.0.iter().map(|(start, _)| *start);
        let parts: Vec<_> = starts.zip(parts).collect();
        parts.iter().any(|(_, inside)| inside.is_some()).then(|| Inside::of_parts(parts))
    }

    fn watch(&mut self, owner: &str, tracks: &mut Tracks) {
        for (number, (_, model)) in (1..).zip(&mut self.0) {
            model.watch(&part_name(owner, number), tracks);
        }
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.0.iter_mut().for_each(|(_, model)| model.take_spans(spans));
    }
}

/// The seeds of a drive's parts: the first draws as a drive without parts.
pub fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    const STEP: u64 = 0x7061_7274_7365_6564;
    (0u64..).map(move |number| seed ^ number.wrapping_mul(STEP))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stasis_block::Operation;

    use super::*;
    use crate::spec::{BuildContext, ModelSpec};

    const STARTS: [u64; 3] = [0, 1 << 20, 5 << 20];
    const ENDS: [u64; 3] = [1 << 20, 5 << 20, 8 << 20];
    const WORDS: [&str; 2] = [
        r#"{"kind": "fixed", "read": "80us", "write": "20us", "flush": "1ms", "parallelism": 1}"#,
        r#"{"kind": "uniform", "read": "10us-90us", "write": "1us-50us", "parallelism": 2}"#,
    ];

    fn models(word: &str) -> Vec<Part> {
        let spec: ModelSpec = serde_json::from_str(word).unwrap();
        let built = |((start, end), seed): ((u64, u64), u64)| {
            let context = BuildContext { seed, capacity: end - start, path: 0 };
            (start, spec.build(&context).unwrap())
        };
        STARTS.into_iter().zip(ENDS).zip(seeds(7)).map(built).collect()
    }

    proptest! {
        /// A drive of parts is as several drives, of which each gets what is its own.
        #[test]
        fn parts_are_drives_by_themselves(
            word in 0usize..2,
            commands in prop::collection::vec((0u64..2048, 0u64..40_000, 0u8..3), 1..120),
        ) {
            let mut parted = Parted::new(models(WORDS[word]));
            let mut apart = models(WORDS[word]);
            let (mut done, mut expected) = (Vec::new(), Vec::new());
            let mut now = 0;
            for (tag, (block, gap, kind)) in (0..).zip(commands) {
                now += gap;
                let operation = [Operation::Read, Operation::Write, Operation::Flush][usize::from(kind)];
                let offset = block * 4096;
                let command = Command::new(operation, offset, if kind == 2 { 0 } else { 4096 });
                parted.advance(now, &mut done);
                parted.submit(now, tag, &command);
                let index = STARTS.iter().rposition(|start| *start <= offset).unwrap();
                let (start, model) = &mut apart[index];
                model.advance(now, &mut expected);
                model.submit(now, tag, &Command { offset: offset - *start, ..command });
            }
            while let Some(at) = parted.next_event() {
                parted.advance(at, &mut done);
            }
            for (_, model) in &mut apart {
                while let Some(at) = model.next_event() {
                    model.advance(at, &mut expected);
                }
            }
            prop_assert!(done.is_sorted_by_key(|completion| completion.at));
            let key = |completion: &Completion| (completion.at, completion.tag);
            done.sort_by_key(key);
            expected.sort_by_key(key);
            prop_assert_eq!(done, expected);
        }
    }

    #[test]
    fn a_busy_part_delays_no_other() {
        let mut parted = Parted::new(models(WORDS[0]));
        let read = |offset| Command::new(Operation::Read, offset, 4096);
        (0..9).for_each(|tag| parted.submit(0, tag, &read(0)));
        parted.submit(0, 9, &read(STARTS[1]));
        let mut done = Vec::new();
        parted.advance(80_000, &mut done);
        let ended: Vec<Tag> = done.iter().map(|completion| completion.tag).collect();
        assert_eq!(ended, [0, 9]);
    }

    #[test]
    fn each_part_wears_by_itself() {
        let spec = r#"{"kind": "flash", "channels": 1, "luns": 1, "planes": 1, "pages": 16,
            "page_size": "4KiB", "over_provisioning": 0.5, "endurance": 20,
            "buffer": "16KiB"}"#;
        let mut parted = Parted::new(models(spec).into_iter().take(2).collect());
        let mut done = Vec::new();
        let mut now = 0;
        for tag in 0..4000 {
            let command = Command::new(Operation::Write, u64::from(tag % 200) * 4096, 4096);
            parted.submit(now, tag, &command);
            while done.len() <= tag as usize {
                now = parted.next_event().unwrap();
                parted.advance(now, &mut done);
            }
        }
        let [first, second] = parted.parts_health()[..] else { panic!("two parts") };
        assert!(first.percentage_used > 0 && second.percentage_used == 0, "{first:?} {second:?}");
        assert!(first.media_bytes_written >= 3900 * 4096 && second.media_bytes_written == 0);
        assert_eq!(parted.health().percentage_used, first.percentage_used);
        let Some(Inside::Parts { parts }) = parted.inside(now) else { panic!("both report") };
        assert_eq!(parts.iter().map(|part| part.start).collect::<Vec<_>>(), [0, 1 << 20]);
        // Results name tracks and figures of a part alike.
        let inside = parted.inside(now).unwrap();
        let named: Vec<String> = inside.flashes("ssd").into_iter().map(|(name, _)| name).collect();
        assert_eq!(named, ["ssd, part 1", "ssd, part 2"]);
        let mut tracks = Tracks::default();
        parted.watch("ssd", &mut tracks);
        let mut owners: Vec<String> =
            tracks.into_vec().into_iter().map(|track| track.owner).collect();
        owners.dedup();
        assert_eq!(owners, named);
    }
}
