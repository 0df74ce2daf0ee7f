//! Drives as block devices of a host whose kernel has ublk: a guest under stock
//! QEMU is that host. Needs QEMU, and the network once for the guest:
//! `cargo test -p stasis --test served ublk:: -- --ignored --nocapture`.
//! `KILLS` is how often the server is killed while fio verifies.

use stasis_qemu_vm::{Config, Vm};

use crate::host_guest;

#[test]
#[ignore = "boots a guest with another kernel: make system-test"]
fn drives_are_block_devices_of_a_host() {
    let guest = host_guest::guest(&["nvme-tcp"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let kills = host_guest::kills();
    let output = host_guest::run(&mut vm, include_str!("guest/ublk.sh"), 120 + 15 * kills);
    let expected = [
        "size 67108864 block 512 cache write back",
        "gone after a stop",
        "1",
        &format!("fio after {kills} kills: ok"),
        "the same device",
        "ended in time",
        "stopped",
    ];
    host_guest::expect(&output, &expected);
    assert!(output.contains("another program serves"), "{output}");
}
