//! A user's program that runs experiments: the same workload on three drives, by `stasis-runner`
//! alone. It is a program and no function of a test, since its executable also runs in the guest.
//! `make system-test` runs it.

use std::sync::atomic::Ordering;
use std::sync::{atomic::AtomicUsize, Arc};

use stasis_experiment::{DriveSpec, Experiment};
use stasis_runner::{Event, Runner};

/// Reads of each drive.
const READS: u64 = 50;

fn main() -> anyhow::Result<()> {
    stasis_runner::enter();
    let folder = tempfile::tempdir()?;
    for (name, latency) in [("slow", 10_000_000), ("usual", 100_000), ("fast", 20_000)] {
        let mut experiment = Experiment {
            command: ["fio", "--name=r", "--filename=/dev/nvme0n1", "--rw=randread", "--bs=4k"]
                .map(str::to_owned)
                .to_vec(),
            ..Experiment::default()
        };
        experiment.command.extend(["--direct=1".into(), format!("--number_ios={READS}")]);
        experiment
            .drives
            .push(DriveSpec::parse(&format!("model=fixed:{latency}ns,medium=ram:64MiB"))?);
        experiment.results = Some(folder.path().join(name));
        experiment.finish()?;
        let printed = Arc::new(AtomicUsize::new(0));
        let results = Runner::new(&experiment).run(&mut |event: Event<'_>| {
            if let Event::Output(bytes) = event {
                printed.fetch_add(bytes.len(), Ordering::Relaxed);
            }
            Ok(())
        })?;
        assert_eq!(results.status, 0, "{:?}", results.message);
        assert!(printed.load(Ordering::Relaxed) > 0, "fio prints its results");
        let read = &results.summary.drives[0].read;
        assert!(read.count >= READS);
        assert_eq!(read.delivered_ns.p50, latency, "{name}");
        println!("{name}: {} reads, {} ns at the median", read.count, latency);
    }
    Ok(())
}
