//! Chunks go to the form in which they outlive the controller, and come from it.

use crate::intervals::end_of_run;
use crate::narrow::size;
use crate::ocssd::kept::{ChunkState, KeptChunks};

use super::{Chunk, ChunkSet};

impl ChunkSet {
    /// The chunks that are not as new.
    pub fn kept(&self) -> Vec<KeptChunks> {
        let mut kept: Vec<KeptChunks> = Vec::new();
        for (first, &Chunk { state, written, resets }) in (0..).zip(&self.chunks) {
            if state == ChunkState::Free && resets == 0 {
                continue;
            }
            match kept.last_mut() {
                Some(last)
                    if last.first + last.count == first
                        && (last.state, last.written, last.resets) == (state, written, resets) =>
                {
                    last.count += 1;
                }
                _ => kept.push(KeptChunks { first, count: 1, state, written, resets }),
            }
        }
        kept
    }

    /// Takes over chunks that were kept. All chunks are as new before.
    ///
    /// # Errors
    /// The reason why the namespace cannot have such chunks.
    pub fn restore(&mut self, kept: &[KeptChunks]) -> Result<(), &'static str> {
        let mut least = 0;
        for chunks in kept {
            let end = end_of_run(chunks.first, chunks.count, least..self.chunks.len() as u64)
                .ok_or("chunks are not there, or are named twice")?;
            least = end;
            let sectors = self.config.sectors;
            let written_fits = match chunks.state {
                ChunkState::Free | ChunkState::Offline => chunks.written == 0,
                ChunkState::Open => (1..sectors).contains(&chunks.written),
                ChunkState::Closed => chunks.written <= sectors,
            };
            if !written_fits {
                return Err("a write pointer is not where its chunk's state allows");
            }
            for index in size(chunks.first)..size(end) {
                self.set(index, chunks.state);
                self.chunks[index].written = chunks.written;
                self.chunks[index].resets = chunks.resets;
            }
        }
        let too_many = |most: Option<u32>, count: u32| most.is_some_and(|most| count > most);
        let in_units = self.open_in.iter();
        if too_many(self.config.max_open, self.open)
            || in_units.into_iter().any(|&open| too_many(self.config.max_open_per_unit, open))
        {
            return Err("more chunks are open than can be");
        }
        Ok(())
    }
}
