//! A simulation of the I/Os of a guest's drives has the same targets.

use crate::support::{rows, Bench};

#[test]
fn a_simulation_of_a_runs_ios_gives_its_targets_to_the_nanosecond() {
    let bench = Bench::new();
    let job = "--stonewall --direct=1 --ioengine=libaio --bssplit=4k/70:64k/30 --size=64m \
               --number_ios=150 --iodepth=16 --rw=randrw --fsync=20 --randrepeat=0";
    let script = format!(
        "mkfs.ext4 -q /dev/nvme0n1 && fio --output=/dev/null --name=a {job} --filename=/dev/nvme0n1 \
         --name=b {job} --filename=/dev/nvme1n1 \
         --name=c --stonewall --filename=/dev/nvme0n1 --rw=read --number_ios=100 --bs=16k"
    );
    // A disk has state: its head, its angle, its cache and its queue.
    let drives = [("disk", "jpt39c", "256MiB"), ("other", "uniform:50us-900us", "64MiB")];
    let words = drives
        .map(|(name, model, size)| format!("--drive=model={model},medium=ram:{size},name={name}"));
    bench
        .run(&[
            "--engine=exact",
            "--seed=11",
            "--results=r",
            &words[0],
            &words[1],
            "--",
            "sh",
            "-c",
            &script,
        ])
        .expect(0);
    for (name, model, size) in drives {
        let sim = bench.command(&[
            "sim",
            model,
            "--trace=r/ios.csv",
            "--exact-times",
            "--trace-drive",
            name,
            "--size",
            size,
            "--seed=11",
            "--results=s",
            "--ios=csv",
        ]);
        bench.finish(sim).expect(0);
        let (run, sim) = (rows(&bench, "r/ios.csv", name), rows(&bench, "s/ios.csv", "drive0"));
        assert!(run.len() > 150, "{name}: {}", run.len());
        // The boot's I/Os belong to it: they move the head as well.
        assert!(run.values().any(|row| row.contains("boot")), "{name}");
        // Numbers of I/Os that never completed are missing in the run alone.
        let sim: Vec<_> = sim.into_values().collect();
        let run: Vec<_> = run.into_values().collect();
        assert_eq!(run.len(), sim.len(), "{name}");
        for (run, sim) in run.iter().zip(&sim) {
            let without_order = |row: &str| row.rsplit_once(',').map(|(row, _)| row.to_owned());
            assert_eq!(without_order(run), without_order(sim), "{name}");
        }
    }
    // The comparison is not of numbers with themselves: another seed gives other targets.
    let sim = bench.command(&[
        "sim",
        "uniform:50us-900us",
        "--trace=r/ios.csv",
        "--exact-times",
        "--trace-drive=other",
        "--seed=12",
        "--results=s",
        "--ios=csv",
    ]);
    bench.finish(sim).expect(0);
    assert_ne!(rows(&bench, "r/ios.csv", "other"), rows(&bench, "s/ios.csv", "drive0"));
}
