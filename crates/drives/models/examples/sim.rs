//! A model under a fio job file's load, without the rest of Stasis: what is compiled after an edit of an FTL is
//! this, the model and the crates below it (`docs/guides/ftl.md`). `stasis sim` does the same, with results in files.
//!
//! `cargo run --release -p stasis-models --example sim -- MODEL JOB.fio [SEED]`
//!
//! MODEL is a word, or a table such as `{ kind = 'flash', ftl = 'page', capacity = '1GiB' }`.

#![allow(clippy::disallowed_methods, reason = "a program has arguments and files")]

use std::collections::BTreeMap;
use std::error::Error;

use stasis_models::{BuildContext, ModelSpec};
use stasis_workload::{JobFile, Load, Pause, Simulation};

/// I/Os between two looks at the completions.
const BATCH: usize = 4096;

fn spec(word: &str) -> Result<ModelSpec, Box<dyn Error>> {
    if !word.trim_start().starts_with('{') {
        return Ok(ModelSpec::parse(word)?);
    }
    let mut table: toml::Table = toml::from_str(&format!("model = {word}"))?;
    Ok(table.remove("model").ok_or("no model")?.try_into()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(model), Some(job)) = (words.first(), words.get(1)) else {
        return Err("usage: sim MODEL JOB.fio [SEED]".into());
    };
    let seed = words.get(2).map_or(Ok(0), |word| word.parse())?;
    let mut spec = spec(model)?;
    spec.resolve(".".as_ref())?;
    let file = JobFile::parse(&std::fs::read_to_string(job)?, &|name| std::env::var(name).ok())?;
    let capacity = spec.capacity().or(file.least_capacity());
    let capacity = capacity.ok_or("how large is the drive? Give the model a capacity")?;
    let load = Load::new(&file, capacity, seed, 0)?;
    let built = spec.build(&BuildContext { seed, capacity, path: 0 })?;

    let mut simulation = Simulation::new(built, load);
    let mut latencies: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut done = Vec::new();
    loop {
        let pause = simulation.run(u64::MAX, BATCH, &mut done)?;
        for io in done.drain(..) {
            latencies.entry(io.io.command.operation.name()).or_default().push(io.at - io.submit);
        }
        if pause != Pause::Batch {
            break;
        }
    }
    println!("{:.6} s of virtual time", simulation.now() as f64 / 1e9);
    for (operation, mut all) in latencies {
        all.sort_unstable();
        let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize] as f64 / 1e3;
        let (p50, p99, most) = (at(0.5), at(0.99), at(1.0));
        println!("{operation}: {} I/Os, p50 {p50} us, p99 {p99} us, most {most} us", all.len());
    }
    if let Some(inside) = simulation.model().inside(simulation.now()) {
        let inside = serde_json::to_value(&inside)?;
        println!("{}", serde_json::to_string_pretty(&inside)?);
    }
    Ok(())
}
