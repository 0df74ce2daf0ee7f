//! The source of a simulation's I/Os, opened and checked.

use std::path::Path;

use anyhow::{anyhow, bail, Context, Result};
use stasis_clock::Nanos;
use stasis_workload::{JobFile, Load};

use crate::cli::SimArguments;

/// A source of I/Os.
pub type Work = Load;

/// Opens what the arguments name, for a drive of `capacity` if that is known;
/// returns it with the drive's size.
pub fn open(
    arguments: &SimArguments,
    capacity: Option<u64>,
    block_size: u64,
    path: Nanos,
) -> Result<(Work, Option<u64>)> {
    let Some(job) = &arguments.workload else { bail!("no --workload") };
    let (load, capacity) = jobs(job, capacity, block_size, arguments.seed, path)?;
    Ok((load, Some(capacity)))
}

fn jobs(
    path: &Path,
    capacity: Option<u64>,
    block_size: u64,
    seed: u64,
    software: Nanos,
) -> Result<(Load, u64)> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", shown()))?;
    let file = JobFile::parse(&text, &|name| std::env::var(name).ok()).with_context(shown)?;
    for warning in &file.warnings {
        eprintln!("{}: {warning}", shown());
    }
    let capacity = capacity.or_else(|| file.least_capacity()).ok_or_else(|| {
        anyhow!("{}: how large is the drive? Give --size, or `size` in every job", shown())
    })?;
    for job in &file.jobs {
        let sizes = job.blocks.iter().flat_map(|split| split.all());
        if let Some(odd) = sizes.into_iter().find(|size| size % block_size != 0) {
            bail!(
                "{}: job `{}`: its block size {odd} is no multiple of the drive's, {block_size}",
                shown(),
                job.name
            );
        }
    }
    Ok((Load::new(&file, capacity, seed, software).with_context(shown)?, capacity))
}
