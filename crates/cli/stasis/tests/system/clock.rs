//! Time on many processors.

use crate::support::Bench;

/// Counts the drive's reads while the clocks are read: fields of
/// Documentation/block/stat.rst.
const SCRIPT: &str = "
fio --name=load --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync \
  --size=64M --time_based --runtime=1000 >/dev/null &
reads() { read reads rest </sys/block/nvme0n1/stat; }
reads; started=$reads
while [ $reads -lt $((started + 100)) ]; do sleep 0.01; reads; done
before=$reads
/root/clock 8 1000000
reads
echo meanwhile $((reads - before))";

#[test]
fn no_clock_goes_backwards_on_8_processors_under_io() {
    let bench = Bench::new();
    let run = bench.run_beside_io(8, "clock", SCRIPT);
    run.expect(0);
    println!("{}", run.stdout.trim());
    let mut lines = run.stdout.lines();
    assert_eq!(lines.next(), Some("reads 1000000 backwards 0 worst 0 processors 8"));
    let meanwhile = lines.next().unwrap().strip_prefix("meanwhile ").unwrap();
    assert!(meanwhile.parse::<u64>().unwrap() >= 10, "{meanwhile} reads of the drive");
}
