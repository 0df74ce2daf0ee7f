//! The samples of a profile as slices, one in the other: each function from the first of the samples
//! that follow each other in it, until an interval after the last.

use std::collections::BTreeMap;
use std::io;

use stasis_results::{KeptSample, KeptSamples};

use super::packets::Trace;

/// The process of the tracks.
const GROUP: &str = "Functions";

/// The stack that a processor is in.
struct Open {
    track: u64,
    stack: Vec<String>,
    /// Time at which the last sample's interval ends (ns).
    end: u64,
}

impl Open {
    /// Ends the functions from this depth on.
    fn close(&mut self, depth: usize, time: u64, trace: &mut Trace<'_>) -> io::Result<()> {
        while self.stack.len() > depth {
            self.stack.pop();
            trace.end(self.track, time)?;
        }
        Ok(())
    }

    fn take(&mut self, sample: &KeptSample, trace: &mut Trace<'_>) -> io::Result<()> {
        let KeptSample { at, count, interval, ref stack, .. } = *sample;
        if at > self.end {
            self.close(0, self.end, trace)?;
        }
        let names = || stack.split(';').filter(|name| !name.is_empty());
        let same = self.stack.iter().zip(names()).take_while(|(one, other)| one == other).count();
        self.close(same, at, trace)?;
        for name in names().skip(same) {
            trace.begin((self.track, at), ("profile", name), &[])?;
            self.stack.push(name.to_owned());
        }
        self.end = at.saturating_add(interval.saturating_mul(count.into()));
        Ok(())
    }
}

/// Writes the samples. Returns the number of those of busy processors.
pub(super) fn write(kept: &mut KeptSamples, trace: &mut Trace<'_>) -> io::Result<u64> {
    let (mut processors, mut written) = (BTreeMap::<String, Open>::new(), 0);
    while let Some(sample) = kept.next_sample().map_err(io::Error::other)? {
        if !processors.contains_key(&sample.processor) {
            let track = trace.track(GROUP, &sample.processor, processors.len() as u64)?;
            let open = Open { track, stack: Vec::new(), end: sample.at };
            processors.insert(sample.processor.clone(), open);
        }
        if !sample.stack.is_empty() {
            written += u64::from(sample.count);
        }
        if let Some(open) = processors.get_mut(&sample.processor) {
            open.take(&sample, trace)?;
        }
    }
    for open in processors.values_mut() {
        open.close(0, open.end, trace)?;
    }
    Ok(written)
}
