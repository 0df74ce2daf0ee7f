//! Time on many processors.

use crate::support::{guest_program, Bench};

/// Counts the drive's reads while the clocks are read: fields of
/// Documentation/block/stat.rst.
const SCRIPT: &str = "
for _ in 1 2 3 4; do
  while dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct status=none; do :; done &
done
reads() { read reads rest </sys/block/nvme0n1/stat; }
reads; started=$reads
while [ $reads -lt $((started + 100)) ]; do sleep 0.01; reads; done
before=$reads
/root/clock 8 200000
reads
echo meanwhile $((reads - before))";

/// Under KVM the cost of an entry and of an exit is an estimate: no clock goes back there either.
#[test]
#[ignore = "may not end on a busy machine (known issues, several threads): make slow-test"]
fn no_clock_goes_backwards_in_the_software_kvm_host() {
    reads_of_the_software_host(None);
}

/// On several threads each processor has a separate time.
#[test]
#[ignore = "may not end on a busy machine (known issues, several threads): make slow-test"]
fn no_clock_goes_backwards_on_two_threads() {
    reads_of_the_software_host(Some(2));
}

fn reads_of_the_software_host(threads: Option<u32>) {
    let bench = Bench::new();
    let key = threads.map_or(String::new(), |count| format!("threads = {count}"));
    let file = format!(
        "engine = 'softkvm'\ncommand = ['/root/clock', '4', '100000']\n\
         [guest]\nfiles = ['{}']\n[machine]\nvcpus = 4\n{key}\n",
        guest_program("clock")
    );
    std::fs::write(bench.path("clock.toml"), file).unwrap();
    let run = bench.run(&["--quiet", "clock.toml"]);
    run.expect(0);
    assert_eq!(run.stdout.trim(), "reads 100000 backwards 0 worst 0 processors 4");
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["threads"], threads.unwrap_or(1));
    assert!(summary["quantum_ns"].as_u64().unwrap() >= 20_000);
}

#[test]
fn no_clock_goes_backwards_on_8_processors_under_io() {
    let bench = Bench::new();
    let run = bench.run_beside_io(8, "clock", SCRIPT);
    run.expect(0);
    println!("{}", run.stdout.trim());
    let mut lines = run.stdout.lines();
    assert_eq!(lines.next(), Some("reads 200000 backwards 0 worst 0 processors 8"));
    let meanwhile = lines.next().unwrap().strip_prefix("meanwhile ").unwrap();
    assert!(meanwhile.parse::<u64>().unwrap() >= 10, "{meanwhile} reads of the drive");
}
