//! Every command, feature, log page and Identify structure, asked by Linux's passthrough in one guest of a
//! served drive and of QEMU's own: the answers are those of `docs/reference/nvme.md`.
//! `cargo test -p stasis --test served nvme_peer:: -- --ignored --nocapture`.

#[path = "../../../drives/nvme/tests/support/offered.rs"]
mod offered;

use crate::host_guest;
use std::collections::BTreeMap;

use stasis_qemu_vm::{Config, Vm};

/// Returns whether a drive has a code of a kind, by the status of its answer.
fn is_there(drive: &str, kind: &str, status: u16) -> bool {
    // Status code type and code (NVMe 1.4 section 4.6.1).
    let refusal = match kind {
        "admin" | "io" => 0x001,
        // QEMU says Invalid Field of a log page that it does not have.
        "log" if drive == "here" => 0x109,
        _ => 0x002,
    };
    status & 0x7ff != refusal
}

#[test]
#[ignore = "boots a guest with another kernel: make slow-test"]
fn both_drives_answer_as_the_tables_say() {
    let guest = host_guest::guest(&["nvme-tcp"]);
    let arguments = [
        "-blockdev",
        "null-co,node-name=peer,size=67108864,read-zeroes=on",
        "-device",
        "nvme-subsys,id=subsystem",
        "-device",
        "nvme,serial=PEER,subsys=subsystem",
        "-device",
        "nvme-ns,drive=peer",
    ];
    let arguments = arguments.map(Into::into).to_vec();
    let config = Config { memory: 1 << 30, arguments, ..Config::new(guest) };
    let output =
        host_guest::run(&mut Vm::start(&config).unwrap(), include_str!("guest/nvme_peer.sh"), 580);
    host_guest::expect(&output, &["effects", "pages", "features"]);
    let mut answers = BTreeMap::new();
    for line in output.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        if let [drive @ ("here" | "peer"), kind, code, status] = words[..] {
            let Ok(code) = code.parse::<u8>() else { continue };
            let digits = status.trim_start_matches("0x");
            let status = u16::from_str_radix(digits, 16);
            let status = status.unwrap_or_else(|_| panic!("no status: {line}"));
            answers.insert((drive, kind, code), status);
        }
    }
    let kinds = [
        ("admin", "Admin commands", 192 - 7),
        ("io", "I/O commands", 255),
        ("feature", "Features", 256),
        ("log", "Log pages", 256),
        ("identify", "Identify", 256),
    ];
    let mut wrong = Vec::new();
    for (kind, heading, count) in kinds {
        let table = offered::table(heading);
        for drive in ["here", "peer"] {
            let of_kind = answers
                .iter()
                .filter(|((answering, answered, _), _)| (*answering, *answered) == (drive, kind));
            assert_eq!(of_kind.clone().count(), count, "{drive} {kind}");
            for ((.., code), &status) in of_kind {
                let row = table.get(code);
                let expected = row.is_some_and(|row| match drive {
                    "here" => row.is_offered(&["TCP", "shared", "metadata"]),
                    _ => row.qemu,
                });
                if is_there(drive, kind, status) != expected {
                    let name = row.map_or("unnamed", |row| &row.name);
                    wrong.push(format!("{drive}: {heading} {code:02x}h, {name}: {status:#x}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
