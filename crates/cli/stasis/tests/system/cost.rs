//! Instructions that the software host spends on an I/O, a program's start, a restart and a machine's
//! start: its virtual clock counts them, so a figure is the same on any computer, and a limit on it holds
//! on a busy one.

use serde_json::Value;

use crate::support::Bench;

/// Kernels of the guest with which [`Limit::count`] was measured: another one may have other instructions.
const KERNELS: [&str; 2] = ["6.1.0-56-cloud-amd64", "6.1.0-57-cloud-amd64"];
/// The compiler that built this; rustup names it.
const COMPILER: Option<&str> = option_env!("RUSTUP_TOOLCHAIN");
/// The compiler of the limits.
const TOOLCHAIN: &str = include_str!("../../../../../rust-toolchain.toml");
/// Part by which a figure may be larger: with the same kernel and compiler, and with another.
const SLACK: [f64; 2] = [0.01, 0.15];

/// A limit on what one more of something costs.
struct Limit {
    name: &'static str,
    /// Instructions, those of the guest among them (2026-12-01, built as CI does with `opt-level = 1`;
    /// `scripts/bench STASIS cost`).
    count: f64,
    /// The experiment, with `N` for a value.
    experiment: &'static str,
    /// The value in the cheaper run, and in the other.
    values: [&'static str; 2],
    /// How many more the other has of it.
    more: u32,
}

const LIMITS: [Limit; 4] = [
    Limit {
        name: "a read of 4 KiB by dd, null",
        count: 33_130.0,
        experiment: "command = 'dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct count=N'
            drive = [{ model = 'null', medium = 'ram:64MiB' }]",
        values: ["10", "2010"],
        more: 2000,
    },
    Limit {
        name: "a read of 4 KiB by dd, fixed:100us",
        count: 48_787.0,
        experiment: "command = 'dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct count=N'
            drive = [{ model = 'fixed:100us', medium = 'ram:64MiB' }]",
        values: ["10", "2010"],
        more: 2000,
    },
    Limit {
        name: "a start of /bin/true",
        count: 1.0,
        experiment: "command = 'i=0; while [ $i -lt N ]; do i=$((i + 1)); /bin/true; done'
            drive = [{ model = 'null', medium = 'ram:64MiB' }]",
        values: ["10", "210"],
        more: 200,
    },
    Limit {
        name: "a restart after a power cut",
        count: 1.0,
        experiment: "command = 'sleep 2'
            drive = [{ model = 'fixed:100us', medium = 'ram:64MiB' }]
            fault = [{ kind = 'power-cut', at = 'N', restart = '1s' }]",
        values: ["1h", "1s"],
        more: 1,
    },
];

/// Runs `experiment`, and gives its summary.
fn run(bench: &Bench, experiment: &str) -> Value {
    std::fs::write(bench.path("cost.toml"), experiment).unwrap();
    bench.run(&["--engine=exact", "--quiet", "--results=cost", "cost.toml"]).expect(0);
    bench.json("cost/summary.json")
}

/// Asserts that a figure is no larger than its limit, for runs with this kernel.
fn check(name: &str, figure: f64, limit: f64, kernel: &str) {
    let version = COMPILER.and_then(|name| name.split('-').next());
    let is_same = version.is_some_and(|version| TOOLCHAIN.contains(&format!("\"{version}\"")));
    let slack = if KERNELS.contains(&kernel) && is_same { SLACK[0] } else { SLACK[1] };
    eprintln!("{name}: {figure:.1} instructions");
    assert!(
        figure <= limit * (1.0 + slack),
        "{name}: {figure:.1} instructions, {limit} before (kernel {kernel}). Find what costs more; where a \
         compiler or a kernel does, write the new figure into LIMITS"
    );
}

#[test]
fn nothing_takes_more_instructions_than_it_did() {
    let bench = Bench::new();
    for Limit { name, count, experiment, values, more } in LIMITS {
        let run = |value: &str| run(&bench, &experiment.replace('N', value));
        // From the third run on the booted guest is kept, with which the others begin.
        (0..2).for_each(|_| drop(run(values[0])));
        let [few, many] = values.map(run);
        let kernel = many["kernel"].as_str().unwrap_or_default();
        // The software host's clock has a tick of 1 ns for each instruction.
        let [few, many] = [&few, &many].map(|run| run["engine_wall_seconds"].as_f64().unwrap());
        check(name, (many - few) * 1e9 / f64::from(more), count, kernel);
    }
}

/// A machine with a drive that was not there before begins after its first boot.
#[test]
fn a_first_start_takes_no_more_instructions_than_it_did() {
    let bench = Bench::new();
    let start = |size: u32| {
        let drive = format!("drive = [{{ model = 'null', medium = 'ram:{size}MiB' }}]");
        run(&bench, &format!("command = 'true'\nseed = {size}\n{drive}"))
    };
    (0..2).for_each(|number| drop(start(64 + number)));
    let run = start(66);
    let figure = run["engine_wall_seconds"].as_f64().unwrap() * 1e9;
    check("a run with another drive", figure, FIRST, run["kernel"].as_str().unwrap_or_default());
}

/// Instructions of a run of `true` with a drive that was not there before, with those of the guest; as
/// [`Limit::count`].
const FIRST: f64 = 1.0;
