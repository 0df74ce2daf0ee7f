//! Instructions that the software host spends on an I/O: its virtual clock counts them, so the figure
//! is the same on any computer, and a limit on it holds on a busy one.

use crate::support::Bench;

/// Kernels of the guest with which [`LIMITS`] were measured: another one may have other instructions.
const KERNELS: [&str; 2] = ["6.1.0-56-cloud-amd64", "6.1.0-57-cloud-amd64"];
/// Instructions of a read of 4 KiB by dd on each model, with those of the guest (2026-11-30,
/// built as CI does with `opt-level = 1`; `scripts/bench STASIS cost`).
const LIMITS: [(&str, f64); 2] = [("null", 33_130.0), ("fixed:100us", 48_787.0)];
/// The compiler that built this; rustup names it.
const COMPILER: Option<&str> = option_env!("RUSTUP_TOOLCHAIN");
/// The compiler of [`LIMITS`].
const TOOLCHAIN: &str = include_str!("../../../../../rust-toolchain.toml");
/// Part by which a figure may be larger: with the same kernel and compiler, and with another.
const SLACK: [f64; 2] = [0.01, 0.15];
/// Reads of the shorter run and of the longer one.
const READS: [u32; 2] = [10, 2010];

#[test]
fn a_read_takes_no_more_instructions_than_it_did() {
    let bench = Bench::new();
    for (model, limit) in LIMITS {
        let drive = format!("--drive=model={model},medium=ram:64MiB");
        let read = |results: &str, count: u32| {
            let dd = format!("dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct count={count}");
            let run = bench.run(&[
                "--engine=exact",
                "--quiet",
                "--results",
                results,
                &drive,
                "--",
                "sh",
                "-c",
                &dd,
            ]);
            run.expect(0);
            bench.json(&format!("{results}/summary.json"))
        };
        // The second run keeps the booted guest, with which the others begin.
        read("kept", 1);
        read("kept", 1);
        let [few, many] = READS.map(|count| read(&format!("reads-{count}"), count));
        let kernel = many["kernel"].as_str().unwrap_or_default();
        let [few, many] = [&few, &many].map(|run| run["engine_wall_seconds"].as_f64().unwrap());
        // The software host's clock has a tick of 1 ns for each instruction.
        let each = (many - few) * 1e9 / f64::from(READS[1] - READS[0]);
        let version = COMPILER.and_then(|name| name.split('-').next());
        let is_same = version.is_some_and(|version| TOOLCHAIN.contains(&format!("\"{version}\"")));
        let slack = if KERNELS.contains(&kernel) && is_same { SLACK[0] } else { SLACK[1] };
        eprintln!("{model}: {each:.1} instructions a read");
        assert!(
            each <= limit * (1.0 + slack),
            "{model}: {each:.1} instructions a read, {limit} before (kernel {kernel}). Find what costs \
             more; where a compiler or a kernel does, write the new figure into LIMITS"
        );
    }
}
