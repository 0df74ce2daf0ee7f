//! What runs cost under `exact`: limits on instructions, which are the same on any computer.

use crate::support::Bench;

/// A load, and the limits on what it may cost.
struct Load {
    name: &'static str,
    experiment: &'static str,
    command: &'static str,
    /// Limit on the instructions of the software host and the guest together
    /// (`engine_wall_seconds`), with the kernel that it was measured with.
    all: (&'static str, u64),
    /// Limit on those of the software host alone, with any kernel.
    host: u64,
}

const FIXED: &str = "[[drive]]\nmodel = 'fixed:100us'\nmedium = 'ram:64MiB'\n";
const NULL: &str = "[[drive]]\nmodel = 'null'\nmedium = 'ram:64MiB'\n";
/// A machine that loses its power and boots again.
const CUT: &str = "[[fault]]\nkind = 'power-cut'\nbegin = '10ms'\nrestart = '1ms'\n";

const STARTS: &str = "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); /bin/true; done";
const READS: &str = "dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1000 iflag=direct 2>/dev/null";
const RESTART: &str = "[ $STASIS_BOOT -gt 1 ] || sleep 1";

/// 1 % more than what was measured with the build of continuous integration; a release build, which
/// is optimised more, is well below.
const LOADS: [Load; 4] = [
    Load { name: "starts", experiment: NULL, command: STARTS, all: ("", 0), host: 0 },
    Load { name: "null", experiment: NULL, command: READS, all: ("", 0), host: 0 },
    Load { name: "fixed", experiment: FIXED, command: READS, all: ("", 0), host: 0 },
    Load { name: "restart", experiment: CUT, command: RESTART, all: ("", 0), host: 0 },
];

#[test]
fn a_run_costs_no_more_instructions_than_before() {
    let bench = Bench::new();
    let mut over = Vec::new();
    for Load { name, experiment, command, all: (kernel, all), host } in LOADS {
        std::fs::write(bench.path("cost.toml"), experiment).unwrap();
        let words = ["--engine=exact", "--quiet", "cost.toml", "--", "sh", "-c", command];
        bench.run(&words).expect(0);
        let summary = bench.json("results/summary.json");
        let nanoseconds = |seconds: &serde_json::Value| (seconds.as_f64().unwrap() * 1e9).round();
        let whole = nanoseconds(&summary["engine_wall_seconds"]);
        let running = summary["processors"].as_array().unwrap().iter();
        let running: f64 = running.map(|one| nanoseconds(&one["running_seconds"])).sum();
        // An instruction of the guest is a tick.
        let guest = running * summary["tsc_khz"].as_f64().unwrap() / 1e6;
        let kernel_is = summary["kernel"].as_str().unwrap();
        println!("{name}: {whole} instructions, {:.0} of the host; {kernel_is}", whole - guest);
        if kernel_is == kernel && whole > all as f64 {
            over.push(format!("{name}: {whole} instructions, at most {all}"));
        }
        if whole - guest > host as f64 {
            over.push(format!("{name}: {:.0} of the host, at most {host}", whole - guest));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
