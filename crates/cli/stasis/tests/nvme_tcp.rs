//! Drives as NVMe/TCP targets: a guest under stock QEMU has the server and Linux's own client,
//! which find each other by the loopback. Needs QEMU, and the network once for the guest:
//! `cargo test -p stasis --test served nvme_tcp:: -- --ignored --nocapture`.
//! `KILLS` is how often the server is killed while fio verifies.

#[path = "documents/commands.rs"]
mod commands;

use crate::host_guest;
use stasis_qemu_vm::{Config, Vm};

#[test]
#[ignore = "boots a guest with another kernel: make system-test"]
fn linux_connects_by_tcp() {
    let guest = host_guest::guest(&["nvme-tcp"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let kills = host_guest::kills();
    let output = host_guest::run(&mut vm, include_str!("guest/nvme_tcp.sh"), 280 + 15 * kills);
    let expected = [
        "discovered",
        "size 67108864 block 512 queues 2",
        "health",
        "file system",
        "disconnected",
        "digests",
        "reset",
        "nothing failed",
        "refused",
        "allowed",
        "two paths",
        "one path is enough",
        "written before",
        "the holder writes",
        "ports 2",
        "access by one port",
        "fio was running",
        "fio verifies over both ports",
        r#"{"error":"drive two: it has no path 3: it has 2, counted from 1"}"#,
        "zoned host-managed zones 16",
        "zone written",
        &format!("fio after {kills} kills: ok"),
        "stopped",
    ];
    host_guest::expect(&output, &expected);
    let lower = output.to_lowercase();
    assert!(lower.contains("zone invalid write"), "{output}");
    assert!(lower.contains("reservation conflict"), "{output}");
}

#[test]
#[ignore = "boots a guest with another kernel: make slow-test"]
fn namespaces_and_servers_come_and_go() {
    let guest = host_guest::guest(&["nvme-tcp"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let output = host_guest::run(&mut vm, include_str!("guest/nvme_namespaces.sh"), 280);
    let expected = [
        "a namespace went",
        "and stays away",
        "a namespace came back",
        "created",
        "attached",
        "used",
        "fio was running on another namespace",
        "fio verifies another namespace",
        "a namespace that one host has not",
        "fio is running",
        "handed over",
        "fio over another server: ok",
        "protected 0 0x13 0x1 ",
        "stopped",
    ];
    host_guest::expect(&output, &expected);
}

#[test]
#[ignore = "boots a guest with another kernel: make slow-test"]
fn linux_authenticates_by_tcp() {
    let guest = host_guest::guest(&["nvme-tcp", "dh_generic"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let output = host_guest::run(&mut vm, include_str!("guest/nvme_auth.sh"), 280);
    let mut expected = vec![
        "file system",
        "reset",
        "authenticates again while fio runs",
        "fio verifies",
        "another secret: refused",
        "no secret: refused",
        "another subsystem: left",
        "a stranger: refused",
        "and the host is let in",
        "stopped",
    ];
    let secrets: Vec<String> = (0..4)
        .flat_map(|hash| {
            let of_host = format!("the host authenticates, secret by hash {hash}");
            [of_host, format!("and the subsystem, secret by hash {hash}")]
        })
        .collect();
    let groups = ["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"];
    let groups = groups.map(|group| format!("group {group}"));
    expected.extend(secrets.iter().chain(&groups).map(String::as_str));
    host_guest::expect(&output, &expected);
    assert!(!output.lines().any(|line| line == "let in"), "{output}");
}

/// The NQN of the subsystem, as the guide leaves it open.
const OPEN_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:...";

/// The commands of the guide's section for the functions of `guest/host.sh`: `stasis serve` begins a
/// server behind the script, and its subsystem's name is put in.
fn section(title: &str) -> String {
    let guide = include_str!("../../../../docs/guides/nvme-tcp.md");
    let start = format!("\n## {title}\n");
    let part = guide.split(&start).nth(1).unwrap_or_else(|| panic!("the guide has no `{title}`"));
    let part = part.split("\n## ").next().unwrap();
    let mut script = format!("begin '{title}'\n");
    for command in commands::of(part) {
        let command = command.replace(OPEN_NQN, "\"$nqn\"");
        script += &match command.strip_prefix("stasis serve ") {
            Some(options) => format!("serve_as_said {options}\n"),
            None if command.starts_with("nvme connect ") => format!("{command}\nsettle\n"),
            None => format!("{command}\n"),
        };
    }
    script + &format!("end '{title}'\n")
}

#[test]
#[ignore = "boots a guest with another kernel: make slow-test"]
fn the_guide_s_commands_work() {
    let guest = host_guest::guest(&["nvme-tcp", "dh_generic"]);
    // The guide's drives are in memory, of which few pages are ever touched.
    let mut vm = Vm::start(&Config { memory: 5 << 30, ..Config::new(guest) }).unwrap();
    let titles = [
        "A zoned drive for this machine",
        "A host that proves who it is",
        "Two hosts, one drive",
        "Several paths",
    ];
    let sections: String = titles.iter().map(|title| section(title)).collect();
    let script =
        include_str!("guest/nvme_guide.sh").replace("# The guide's sections.\n", &sections);
    let output = host_guest::run(&mut vm, &script, 280);
    let mut expected = titles.map(|title| format!("done: {title}")).to_vec();
    expected.extend(
        [
            "zoned host-managed",
            "a file system in zones",
            "a write elsewhere is refused",
            "another host's write is refused",
            "one drive by two paths",
            "by one path: inaccessible optimized ",
        ]
        .map(str::to_owned),
    );
    host_guest::expect(&output, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
#[ignore = "measures for minutes on an idle machine: make slow-test"]
fn figures() {
    let guest = host_guest::guest(&["nvme-tcp", "nvmet-tcp", "brd"]);
    // The server and its client compute side by side.
    let config = Config { memory: 1 << 30, vcpus: 2, ..Config::new(guest) };
    let mut vm = Vm::start(&config).unwrap();
    let output = host_guest::run(&mut vm, include_str!("guest/nvme_tcp_bench.sh"), 600);
    let median = |target: &str, depth: &str| {
        let rates = output.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.first() == Some(&target) && words.get(1) == Some(&depth))
                .then(|| words[2].parse::<f64>().unwrap())
        });
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    for depth in ["1", "32"] {
        let (ours, kernel) = (median("stasis", depth), median("nvmet", depth));
        println!("QD{depth}: {ours:.0} IOPS, nvmet {kernel:.0}, ratio {:.2}", ours / kernel);
    }
}
