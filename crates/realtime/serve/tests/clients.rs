//! Clients of the server: good ones, bad ones, and several at a time.

#[allow(dead_code)]
mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};
use stasis_serve::{IoRecords, Poll, Server};
use support::*;
use vhost::vhost_user::Frontend;
use vhost::VhostBackend;

#[test]
fn a_guest_reads_what_it_wrote_however_it_is_polled() {
    for poll in [Poll::Always, Poll::Adaptive, Poll::Never] {
        let folder = tempfile::tempdir().unwrap();
        let server = server(folder.path(), poll);
        let mut guest = Guest::connect(&socket(folder.path()));
        for round in 0..20 {
            guest.check(8 * round, round as u8 + 1);
        }
        let report = server.report().remove(0);
        assert_eq!((report.counts.reads, report.counts.writes), (20, 20));
        assert_eq!((report.counts.failed, report.counts.faults, report.in_use), (0, 0, true));
        // It continues from the position where it stopped.
        assert_eq!(guest.frontend.get_vring_base(0).unwrap(), 40);
        assert!(!server.report()[0].in_use);
        server.stop().unwrap();
        assert!(!socket(folder.path()).exists());
    }
}

#[test]
fn a_second_client_is_turned_away_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), Poll::Adaptive);
    let path = socket(folder.path());
    let mut guest = Guest::connect(&path);
    guest.check(0, 1);
    let mut second = UnixStream::connect(&path).unwrap();
    assert_eq!(second.read(&mut [0; 16]).unwrap(), 0, "it is told by the end of its connection");
    guest.check(8, 2);
    assert_eq!(server.report()[0].counts.refused, 1);
    // And when the first has gone, there is room.
    drop(guest);
    Guest::connect(&path).check(16, 3);
}

#[test]
fn a_client_that_stalls_or_takes_its_memory_away_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), Poll::Adaptive);
    let good = tempfile::tempdir().unwrap();
    server.attach(drive("other", good.path(), "ram:16MiB", None)).unwrap();
    let mut other = Guest::connect(&good.path().join("other.sock"));
    // Half a message, and no more.
    let mut half = UnixStream::connect(socket(folder.path())).unwrap();
    half.write_all(&[1, 0, 0, 0, 1, 0]).unwrap();
    other.check(0, 1);
    drop(half);
    let mut bad = Guest::connect(&socket(folder.path()));
    bad.check(0, 2);
    bad.memory.set_len(4096).unwrap();
    bad.kick.write(1).unwrap();
    // Its connection ends: the server could not read its rings.
    let mut ended = false;
    for _ in 0..100 {
        ended |= bad.frontend.get_features().is_err();
        other.check(8, 3);
        if ended {
            break;
        }
        let _ = bad.kick.write(1);
    }
    assert!(ended, "the client that took its memory away is disconnected");
    let report = server.report();
    assert!(report[0].counts.faults > 0 && report[1].counts.faults == 0);
    // It may come again.
    Guest::connect(&socket(folder.path())).check(0, 4);
}

#[test]
fn chains_that_loop_or_lie_end_the_queue_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), Poll::Adaptive);
    type Lie = fn(&mut Guest);
    let lies: [Lie; 5] = [
        |guest| guest.describe(0, DATA, 16, 1, 0),
        |guest| guest.describe(0, DATA, 16, 1, 5000),
        |guest| guest.describe(0, DATA, u32::MAX, 2, 0),
        |guest| guest.describe(0, DATA, 16, 4, 0),
        |guest| guest.describe(0, DATA, 1, 0, 0),
    ];
    for (round, lie) in lies.into_iter().enumerate() {
        let mut guest = Guest::connect(&socket(folder.path()));
        guest.check(0, round as u8);
        lie(&mut guest);
        guest.submit(0);
        // The connection is there; the guest has to reset.
        let start = Instant::now();
        while server.report()[0].counts.faults <= round as u64 {
            assert!(guest.frontend.get_features().is_ok());
            assert!(start.elapsed() < Duration::from_secs(20), "lie {round} is not seen");
        }
        guest.frontend.get_vring_base(0).unwrap();
    }
    Guest::connect(&socket(folder.path())).check(0, 9);
}

#[test]
fn what_was_under_way_is_done_again_by_the_next_server() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::new(1, Poll::Adaptive).unwrap();
    // So slow that nothing is acknowledged before the end.
    first.attach(drive("d", folder.path(), "ram:16MiB", Some("fixed:20s"))).unwrap();
    let path = socket(folder.path());
    let mut guest = Guest::connect(&path);
    for slot in 0..8 {
        guest.put(DATA + 4096 * u64::from(slot), &[slot as u8 + 1; 4096]);
        guest.request(slot, OUT, 8 * u64::from(slot));
    }
    while first.report()[0].in_flight < 8 {}
    assert_eq!(guest.given(), 0);
    // As in a crash: the client gets no message, its memory stays as it is.
    let copy = guest.memory.try_clone().unwrap();
    first.set_model("d", serde_json::Value::Null).unwrap();
    drop(copy);
    let second_folder = tempfile::tempdir().unwrap();
    let second = server(second_folder.path(), Poll::Adaptive);
    drop(first);
    let mut guest = guest.reconnect(&socket(second_folder.path()));
    assert!(guest.wait(8) || guest.given() == 8);
    assert!((0..8).all(|slot| guest.status(slot) == 0));
    assert_eq!(second.report()[0].counts.failed, 0);
}

#[test]
fn what_was_given_back_is_not_done_again_for_a_client_that_looked_too_early() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), Poll::Adaptive);
    let path = socket(folder.path());
    let mut guest = Guest::connect(&path);
    for slot in 0..4 {
        guest.request(slot, OUT, 8 * u64::from(slot));
    }
    while guest.given() < 4 {
        std::thread::yield_now();
    }
    // It claims that its queue is at the position it has seen last: at the beginning.
    let mut guest = guest.reconnect(&path);
    assert_eq!(guest.take_given(), [0, 1, 2, 3]);
    guest.check(64, 9);
    assert_eq!(guest.given(), 6);
    assert_eq!(server.report()[0].counts.writes, 5);
}

#[test]
fn a_hand_over_waits_for_a_client_that_has_just_come() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), Poll::Adaptive);
    let client = Frontend::connect(socket(folder.path()), 2).unwrap();
    while server.report()[0].counts.connections < 1 {
        std::thread::yield_now();
    }
    let _sockets = server.share().unwrap();
    server.hand_over();
    let stopping = std::thread::spawn(move || server.stop());
    client.set_owner().unwrap();
    for _ in 0..20 {
        client.get_features().expect("its messages are answered");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A client that starts no queue is waited for until it goes, or a few seconds.
    drop(client);
    stopping.join().unwrap().unwrap();
}

#[test]
fn a_guest_is_rung_when_its_queue_begins() {
    // A completion that an earlier server gave back without ringing would be missed for ever.
    let folder = tempfile::tempdir().unwrap();
    let _server = server(folder.path(), Poll::Adaptive);
    let guest = Guest::connect(&socket(folder.path()));
    assert!(guest.is_rung(Duration::from_secs(20)));
}

#[test]
fn completions_are_held_until_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(1, Poll::Adaptive).unwrap();
    server.attach(drive("d", folder.path(), "ram:16MiB", Some("fixed:3ms"))).unwrap();
    let mut guest = Guest::connect(&socket(folder.path()));
    let start = Instant::now();
    for round in 0..10 {
        guest.check(0, round);
    }
    assert!(start.elapsed() >= 20 * Duration::from_millis(3));
    let report = server.report().remove(0);
    assert_eq!(report.timing_error.unwrap().count, 20);
    assert!(report.read.p50_ns >= 3_000_000 - 3_000);
    // And at once without a model.
    server.set_model("d", serde_json::Value::Null).unwrap();
    guest.check(0, 77);
    assert_eq!(server.report()[0].timing_error.unwrap().count, 20);
}

#[test]
fn each_io_is_recorded_with_the_error_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let records = IoRecords::default();
    let server = Server::new(1, Poll::Adaptive).unwrap();
    let mut drive = drive("d", folder.path(), "ram:16MiB", Some("fixed:2ms"));
    let record = records.of(7);
    drive.record = Some(Box::new(move || Some(record)));
    server.attach(drive).unwrap();
    let mut guest = Guest::connect(&socket(folder.path()));
    for round in 0..10 {
        guest.check(8 * round, 1);
    }
    let report = server.report().remove(0);
    let mut ios = Vec::new();
    records.take(&mut ios);
    assert_eq!((ios.len(), records.lost()), (20, 0));
    let mut late = 0;
    for (number, io) in ios.iter().enumerate() {
        assert_eq!((io.drive, io.order, io.bytes), (7, number as u64, 4096));
        assert_eq!(io.offset, 4096 * (number as u64 / 2));
        assert_eq!(io.target - io.submit, 2_000_000);
        late += io.delivered as i64 - io.target as i64;
    }
    let worst = ios.iter().map(|io| io.delivered.abs_diff(io.target)).max().unwrap();
    let error = report.timing_error.unwrap();
    assert_eq!(error.count, 20);
    // A histogram of three digits.
    assert!(error.max_ns.abs_diff(worst) <= worst / 500, "{error:?}, {worst}");
    assert_eq!(report.timing_bias_ns.unwrap(), late as f64 / 20.0);
}

#[test]
fn a_socket_in_use_and_a_file_in_its_place_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), Poll::Never);
    let again = Server::new(1, Poll::Never).unwrap();
    let error = again.attach(drive("d", folder.path(), "ram:16MiB", None)).unwrap_err().to_string();
    assert!(error.contains("another program serves") && error.contains("--replace"), "{error}");
    Guest::connect(&socket(folder.path())).check(0, 1);
    drop(server);
    std::fs::write(folder.path().join("d.sock"), "mine").unwrap();
    let error = again.attach(drive("d", folder.path(), "ram:16MiB", None)).unwrap_err().to_string();
    assert!(error.contains("no socket"), "{error}");
    assert_eq!(std::fs::read(folder.path().join("d.sock")).unwrap(), b"mine");
}

/// Inputs that cargo-fuzz has found.
fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "messages")
}

#[test]
fn the_corpus_does_not_end_the_server() {
    known().iter().for_each(|script| hostile::run(script));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(100)))]

    #[test]
    fn no_messages_end_the_server(script in inputs(known(), 400)) {
        hostile::run(&script);
    }
}

/// Mean, median, 99 % and 99.9 % of nanoseconds.
fn distribution(mut nanos: Vec<u64>) -> String {
    nanos.sort_unstable();
    let at = |part: f64| nanos[(part * nanos.len() as f64) as usize];
    let mean = nanos.iter().sum::<u64>() / nanos.len() as u64;
    format!("mean {mean} ns, p50 {}, p99 {}, p99.9 {}", at(0.5), at(0.99), at(0.999))
}

/// `cargo test --release -p stasis-serve --test clients -- --ignored --nocapture`: the error of a
/// model where the thread has a core; and that of a loop which does nothing but wait until 100 us
/// have passed: no server can be more on time.
#[test]
#[ignore = "a measurement, which needs a core of its own: make slow-test"]
fn timing_errors_are_measured() {
    const COUNT: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(1, Poll::Adaptive).unwrap();
    server.attach(drive("d", folder.path(), "ram:16MiB", Some("fixed:100us"))).unwrap();
    server.attach(drive("none", folder.path(), "ram:16MiB", None)).unwrap();
    for name in ["d", "none"] {
        let mut guest = Guest::connect(&folder.path().join(format!("{name}.sock")));
        let took = (0..COUNT).map(|round| {
            let start = Instant::now();
            guest.request(0, IN, 8 * (round % 1000));
            // A client that polls as well.
            while guest.take_given().is_empty() {
                assert!(start.elapsed() < Duration::from_secs(20));
            }
            start.elapsed().as_nanos() as u64
        });
        println!("{name}: the client, its system calls included: {}", distribution(took.collect()));
    }
    for drive in server.report() {
        println!("{}: read {:?}", drive.name, drive.read);
        println!("  bias {:?} ns, error {:?}", drive.timing_bias_ns, drive.timing_error);
    }
    let bare = std::thread::spawn(|| {
        let late = (0..COUNT).map(|_| {
            let start = Instant::now();
            loop {
                let passed = start.elapsed().as_nanos() as u64;
                if passed >= 100_000 {
                    break passed - 100_000;
                }
            }
        });
        late.collect()
    });
    // The other core is as busy as before.
    let mut guest = Guest::connect(&folder.path().join("none.sock"));
    while !bare.is_finished() {
        guest.given();
    }
    println!("a loop that only waits is late by {}", distribution(bare.join().unwrap()));
    guest.check(0, 1);
}
