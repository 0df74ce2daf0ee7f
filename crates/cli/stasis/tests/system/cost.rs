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
    /// Instructions, those of the guest among them (2026-12-01, built as CI does, with assertions;
    /// `scripts/bench STASIS cost`).
    count: f64,
    /// The experiment, with `N` for a value.
    experiment: &'static str,
    /// The value in the cheaper run, and in the other.
    values: [&'static str; 2],
    /// Number of further ones in the other.
    more: u32,
}

/// An experiment with `N` single reads of a drive of this model.
macro_rules! dd {
    ($model:literal) => {
        concat!(
            "command = ['dd', 'if=/dev/nvme0n1', 'of=/dev/null', 'bs=4k', 'iflag=direct', 'count=N']\n",
            "drive = [{ model = '",
            $model,
            "', medium = 'ram:64MiB' }]"
        )
    };
}

/// A limit on one more read.
const fn reads(name: &'static str, count: f64, experiment: &'static str) -> Limit {
    Limit { name, count, experiment, values: ["10", "2010"], more: 2000 }
}

/// Those of one machine follow each other.
const LIMITS: [Limit; 4] = [
    reads("a read of 4 KiB by dd, fixed:100us", 50_053.0, dd!("fixed:100us")),
    reads("a read of 4 KiB by dd, null", 33_834.0, dd!("null")),
    Limit {
        name: "a start of /bin/true",
        count: 1_089_097.0,
        experiment:
            "command = ['sh', '-c', 'i=0; while [ $i -lt N ]; do i=$((i + 1)); /bin/true; done']
            drive = [{ model = 'null', medium = 'ram:64MiB' }]",
        values: ["10", "210"],
        more: 200,
    },
    Limit {
        name: "a restart after a power cut",
        count: 106_922_240.0,
        experiment: "command = ['sleep', '2']
            drive = [{ model = 'fixed:100us', medium = 'ram:64MiB' }]
            fault = [{ kind = 'power-cut', at = 'N', restart = '1s' }]",
        values: ["1h", "1s"],
        more: 1,
    },
];

/// Instructions from the start of a machine with a drive that was not there before to its command, with
/// those of the guest; as [`Limit::count`].
const FIRST: f64 = 40_563_709.0;

/// Runs `experiment`, and gives its summary.
fn run(bench: &Bench, experiment: &str) -> Value {
    std::fs::write(bench.path("cost.toml"), experiment).unwrap();
    bench.run(&["--engine=exact", "--quiet", "--results=cost", "cost.toml"]).expect(0);
    bench.json("cost/summary.json")
}

/// The message about a figure that is larger than its limit, of runs with this kernel.
fn more(name: &str, figure: f64, limit: f64, kernel: &Value) -> Option<String> {
    let version = COMPILER.and_then(|name| name.split('-').next());
    let is_same = version.is_some_and(|version| TOOLCHAIN.contains(&format!("\"{version}\"")));
    let kernel = kernel.as_str().unwrap_or_default();
    let slack = if KERNELS.contains(&kernel) && is_same { SLACK[0] } else { SLACK[1] };
    eprintln!("{name}: {figure:.0} instructions");
    (figure > limit * (1.0 + slack))
        .then(|| format!("{name}: {figure:.0} instructions, {limit} before (kernel {kernel})\n"))
}

/// The software host's clock has a tick of 1 ns for each instruction.
fn instructions(summary: &Value, field: &str) -> f64 {
    summary[field].as_f64().unwrap() * 1e9
}

#[test]
fn nothing_takes_more_instructions_than_it_did() {
    let bench = Bench::new();
    let mut wrong = String::new();
    let mut machine = "";
    for Limit { name, count, experiment, values, more: number } in LIMITS {
        let run = |value: &str| run(&bench, &experiment.replace('N', value));
        // From the machine's third run on the booted guest is kept, with which the others begin.
        let own = experiment.split_once('\n').unwrap().1.trim();
        if own != machine {
            (0..2).for_each(|_| drop(run(values[0])));
        }
        machine = own;
        let [few, many] = values.map(run);
        let figure = [&many, &few].map(|run| instructions(run, "engine_wall_seconds"));
        let figure = (figure[0] - figure[1]) / f64::from(number);
        wrong.extend(more(name, figure, count, &many["kernel"]));
    }
    // A machine with a drive that was not there before goes on from the first boot, which is those machines'.
    let drive = "drive = [{ model = 'null', medium = 'ram:66MiB' }]";
    let first = run(&bench, &format!("command = ['true']\n{drive}"));
    let figure = instructions(&first, "boot_wall_seconds");
    wrong.extend(more("a start with another drive", figure, FIRST, &first["kernel"]));
    assert!(
        wrong.is_empty(),
        "{wrong}Find what costs more; where a compiler or a kernel does, write the new figure into LIMITS"
    );
}
