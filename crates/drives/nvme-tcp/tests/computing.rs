//! Computational programs over a fabric, with data of the command.

use crate::support::*;
use stasis_block::Rate;
use stasis_nvme::{Config, Programs};

const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

fn bench() -> Bench {
    let programs = Programs {
        instructions_per_second: 1_000_000,
        memory: 4096,
        memory_rate: Rate::per_second(1_000_000_000),
        ..Programs::default()
    };
    Bench::with(Config { programs: Some(programs), ..config() }, &[])
}

#[test]
fn a_program_runs_for_a_host_on_a_fabric() {
    let mut bench = bench();
    let (mut admin, mut host, _) = with_queue(&mut bench, 0);
    // r0 = the first number of the command's data.
    let code = [[0x79, 0x12, 16, 0, 0, 0, 0, 0], [0x61, 0x20, 0, 0, 0, 0, 0, 0], EXIT].concat();
    let mut load = entry(0x85, 0, 3);
    block(&mut load, code.len(), true);
    load[42] = 0xc0;
    load[44] = code.len() as u8;
    load[56] = code.len() as u8;
    assert_eq!(admin.command(&mut bench, load, &code).0.status, 0);
    let mut activate = entry(0x88, 0, 3);
    activate[42] = 1;
    assert_eq!(admin.command(&mut bench, activate, &[]).0.status, 0);
    let mut execute = entry(1, 9, 3);
    execute[16] = 4;
    block(&mut execute, 4, true);
    host.send(&mut bench, 4, 0, &execute, &[0x78, 0x56, 0x34, 0x12]);
    // Three instructions, of a microsecond each.
    assert_eq!(bench.target.next_deadline(), Some(3000));
    bench.pass(2999);
    assert_eq!(host.next(&mut bench), None);
    bench.pass(1);
    let (end, _) = host.completion(&mut bench);
    assert_eq!((end.cid, end.status, end.result), (9, 0, 0x1234_5678));
    // The memory: 64 bytes there, and back.
    let data: Vec<u8> = (1..65).collect();
    let mut write = entry(5, 0, 2);
    block(&mut write, 64, true);
    write[48] = 64;
    host.send(&mut bench, 4, 0, &write, &data);
    bench.pass(64);
    assert_eq!(host.completion(&mut bench).0.status, 0);
    let mut read = entry(2, 0, 2);
    block(&mut read, 64, false);
    read[48] = 64;
    host.send(&mut bench, 4, 0, &read, &[]);
    bench.pass(64);
    let (end, got) = host.completion(&mut bench);
    assert_eq!((end.status, got), (0, data));
}
