//! Time on many processors.

use crate::support::{guest_program, Bench};

#[test]
fn no_clock_goes_backwards_on_8_processors_under_io() {
    let bench = Bench::new();
    let run = bench.run(&[
        "--engine=exact",
        "--quiet",
        "--vcpus=8",
        "--results=r",
        "--file",
        &guest_program("clock"),
        "--drive=model=fixed:50us,medium=ram:64MiB",
        "--",
        "sh",
        "-c",
        "fio --name=load --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync \
         --size=64M --time_based --runtime=1000 >/dev/null & /root/clock 8 1000000",
    ]);
    run.expect(0);
    println!("{}", run.stdout.trim());
    assert_eq!(run.stdout, "reads 1000000 backwards 0 worst 0 processors 8\n");
    let reads = bench.json("r/summary.json")["drives"][0]["read"]["count"].as_u64().unwrap();
    assert!(reads > 100, "only {reads} reads of the drive meanwhile");
}
