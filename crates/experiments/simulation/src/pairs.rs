//! Loads of key-value pairs: their file, and their counts for results.

use std::path::Path;

use anyhow::{anyhow, Context, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{json, Map, Value};
use stasis_models::LogShape;
use stasis_workload::{PairCounts, PairsSpec, PhaseCounts};

use crate::drive_info::DriveInfo;

pub use stasis_workload::PairLoad;

/// A file of a load.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    pairs: PairsSpec,
}

/// Opens a load.
pub fn open(path: &Path, drive: DriveInfo, seed: u64) -> Result<PairLoad> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", shown()))?;
    let File { mut pairs } = stasis_config::read_text(&text).with_context(shown)?;
    let capacity = drive
        .capacity
        .ok_or_else(|| anyhow!("{}: how large is the drive? Give --size", shown()))?;
    if let Some(LogShape { erased, page }) = drive.log {
        pairs.log = pairs.log.on_flash(capacity, (erased, page));
    }
    let load = PairLoad::new(&pairs, (capacity, drive.block_size), seed, drive.path);
    let load = load.with_context(shown)?;
    Ok(if drive.used { load.on_used_drive() } else { load })
}

/// Bytes of a segment of its log.
pub fn segment(load: &PairLoad) -> u64 {
    load.layout().segment
}

/// The counts of a load, for `summary.json`.
pub fn counts(load: &PairLoad) -> Value {
    let PairCounts { phases, wrong, failed } = load.counts();
    let layout = load.layout();
    let mut by_phase = Map::new();
    for (name, PhaseCounts { count, from, until, log }) in phases {
        let seconds = until.saturating_sub(*from) as f64 / 1e9;
        let each = if seconds > 0.0 { *count as f64 / seconds } else { 0.0 };
        let phase = json!({
            "count": count,
            "seconds": seconds,
            "per_second": each,
            "stored_bytes": log.stored,
            "collected_bytes": log.collected,
            "collected_segments": log.segments_collected,
            "write_amplification": log.write_amplification(),
            "filled_bytes": log.filled,
            "index_hits": log.index_hits,
            "index_read_bytes": log.index_read,
            "index_written_bytes": log.index_written,
        });
        by_phase.insert((*name).to_owned(), phase);
    }
    json!({
        "keys": layout.max_keys,
        "segment_bytes": layout.segment,
        "segments": layout.segments,
        "capacity": layout.capacity,
        "index_pages": layout.index.map(|index| index.pages),
        "index_pages_in_memory": layout.index.map(|index| index.cached),
        "phases": by_phase,
        "wrong": wrong,
        "failed": failed,
    })
}
