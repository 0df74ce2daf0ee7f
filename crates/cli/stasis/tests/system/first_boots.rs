//! A run whose machines' first boot was made before, by a run with other drives, is the run that boots.

use serde_json::Value;

use crate::images::create;
use crate::repeat::with_cache;
use crate::restarts::{figures, COMMAND};
use crate::support::Bench;

/// Runs `experiment` on new files, with kept boots of its own in `cache`; its output, I/Os, and summary.
fn run(bench: &Bench, cache: &str, name: &str, experiment: &str) -> (String, String, Value) {
    std::fs::write(bench.path("first.toml"), format!("virtual-limit = '60s'\n{experiment}"))
        .unwrap();
    for name in ["disk.img", "disk.img.state", "disk.qcow2", "disk.qcow2.state"] {
        let _ = std::fs::remove_file(bench.path(name));
    }
    create(bench, "disk.qcow2", "64MiB");
    let results = format!("--results={name}");
    let words = ["run", "--engine=exact", "--quiet", "--ios=csv", &results, "first.toml"];
    let run = bench.finish(with_cache(bench, bench.command(&words), cache));
    run.expect(0);
    let ios = bench.text(&format!("{name}/ios.csv"));
    (run.stdout, ios, bench.json(&format!("{name}/summary.json")))
}

/// Time of the boot by the software host's clock, which counts instructions (s).
fn boot(summary: &Value) -> f64 {
    summary["boot_wall_seconds"].as_f64().unwrap()
}

#[test]
fn a_first_boot_serves_all_drives_and_machines() {
    let bench = Bench::new();
    let several = "drive = [{ model = 'samsung-980-pro', medium = 'ram:64MiB' }, \
         { model = 'flash-tlc', medium = { file = 'disk.img', size = '128MiB' } }, \
         { model = 'dcpmm', medium = 'qcow2:disk.qcow2', interface = 'virtio-blk' }]\n\
         fault = [{ kind = 'power-cut', at = '200ms', restart = '33us' }, \
         { kind = 'reset', at = '1900ms', restart = '1ms' }]\n";
    let machine = |name: &str, drive: &str| {
        format!("[[machine]]\nname = '{name}'\ndrive = [{{ {drive}, medium = 'ram:64MiB' }}]\n")
    };
    let cluster = format!(
        "{COMMAND}[[network]]\n{}{}\
         [[fault]]\nkind = 'panic'\nmachine = 'b'\nat = '200ms'\nrestart = '5ms'\n\
         [[fault]]\nkind = 'hang'\nmachine = 'a'\nat = '210ms'\nrestart = '5ms'\n",
        machine("a", "model = 'null'"),
        machine("b", "model = 'fixed:50us', interface = 'virtio-blk'")
    );
    let several = format!("{COMMAND}{several}");
    // The second run with such a machine, which is the cluster's, keeps its first boot.
    let booted = run(&bench, "one", "drives-booted", &several);
    let cluster_kept = run(&bench, "one", "cluster-kept", &cluster);
    let kept = run(&bench, "one", "drives-kept", &several);
    let cluster_booted = run(&bench, "other", "cluster-booted", &cluster);
    assert!(kept.0.contains("boot 3"), "{}", kept.0);
    assert!(cluster_kept.0.contains("[a] boot 2"), "{}", cluster_kept.0);
    for (name, kept, booted) in
        [("drives", &kept, &booted), ("cluster", &cluster_kept, &cluster_booted)]
    {
        for (kept, booted) in kept.0.lines().zip(booted.0.lines()) {
            assert_eq!(kept, booted, "{name}");
        }
        assert_eq!((&kept.0, &kept.1), (&booted.0, &booted.1), "{name}");
        assert_eq!(figures(&kept.2), figures(&booted.2), "{name}");
        assert_eq!(kept.2["restarts"], booted.2["restarts"], "{name}");
        let (kept, booted) = (boot(&kept.2), boot(&booted.2));
        assert!(kept < booted / 2.0, "{name}: {kept} and {booted} s");
    }
}
