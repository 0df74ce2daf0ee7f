//! Drives as NVMe/TCP targets: a guest under stock QEMU has the server and Linux's own client,
//! which find each other by the loopback. Needs QEMU, and the network once for the guest:
//! `cargo test -p stasis --test nvme_tcp -- --ignored --nocapture`.
//! `KILLS` is how often the server is killed while fio verifies.

mod host_guest;

use stasis_qemu_vm::{Config, Vm};

#[test]
#[ignore = "boots a guest with another kernel: make system-test"]
fn linux_connects_by_tcp() {
    let guest = host_guest::guest(&["nvme-tcp"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let kills = host_guest::kills();
    let said = host_guest::run(&mut vm, include_str!("guest/nvme_tcp.sh"), 280 + 15 * kills);
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
    host_guest::expect(&said, &expected);
    let lower = said.to_lowercase();
    assert!(lower.contains("zone invalid write"), "{said}");
    assert!(lower.contains("reservation conflict"), "{said}");
}

#[test]
#[ignore = "boots a guest with another kernel: make slow-test"]
fn namespaces_and_servers_come_and_go() {
    let guest = host_guest::guest(&["nvme-tcp"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let said = host_guest::run(&mut vm, include_str!("guest/nvme_namespaces.sh"), 280);
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
        "stopped",
    ];
    host_guest::expect(&said, &expected);
}

#[test]
#[ignore = "boots a guest with another kernel: make slow-test"]
fn linux_authenticates_by_tcp() {
    let guest = host_guest::guest(&["nvme-tcp", "dh_generic"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let said = host_guest::run(&mut vm, include_str!("guest/nvme_auth.sh"), 280);
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
    host_guest::expect(&said, &expected);
    assert!(!said.lines().any(|line| line == "let in"), "{said}");
}

#[test]
#[ignore = "measures for minutes on an idle machine: make slow-test"]
fn figures() {
    let guest = host_guest::guest(&["nvme-tcp", "nvmet-tcp", "brd"]);
    // The server and its client compute side by side.
    let config = Config { memory: 1 << 30, vcpus: 2, ..Config::new(guest) };
    let mut vm = Vm::start(&config).unwrap();
    let said = host_guest::run(&mut vm, include_str!("guest/nvme_tcp_bench.sh"), 600);
    let median = |target: &str, depth: &str| {
        let of = said.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.first() == Some(&target) && words.get(1) == Some(&depth))
                .then(|| words[2].parse::<f64>().unwrap())
        });
        let mut of: Vec<f64> = of.collect();
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    for depth in ["1", "32"] {
        let (ours, kernel) = (median("stasis", depth), median("nvmet", depth));
        println!("QD{depth}: {ours:.0} IOPS, nvmet {kernel:.0}, ratio {:.2}", ours / kernel);
    }
}
