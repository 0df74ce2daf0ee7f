//! vfio-user on real sockets.

#[allow(dead_code)]
mod support;
#[path = "support/vfio_host.rs"]
mod vfio_host;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stasis_nvme::{Config, Controller, Namespace};
use stasis_serve::{NewDrive, NewNvme, Poll, Server, VfioUser};
use support::{counts, drive, until};
use vfio_host::{memory, Client, VfioHost, MEMORY};

fn new(name: &str, folder: &Path, medium: &str, model: Option<&str>, mapped: bool) -> NewDrive {
    let mut new = drive(name, folder, medium, model);
    let serial = name.to_owned();
    new.vfio_user = Some(VfioUser {
        mapped,
        controller: Box::new(move |capacity, _| {
            let namespaces = vec![Namespace::new(capacity / 512, 512)];
            let config =
                Config { serial, namespaces, shadow_doorbells: false, ..Config::default() };
            let nvme = Controller::new(config).map_err(|error| error.to_string())?;
            Ok(NewNvme { nvme, keep: None, follow: None })
        }),
    });
    new
}

/// A server of a drive, and its socket.
fn serve(folder: &Path, model: Option<&str>, poll: Poll) -> (Arc<Server>, PathBuf) {
    let server = Arc::new(Server::new(1, poll).unwrap());
    server.attach(new("d", folder, "ram:16MiB", model, poll != Poll::Never)).unwrap();
    (server, folder.join("d.sock"))
}

#[test]
fn a_driver_reads_what_it_has_written() {
    for poll in [Poll::Adaptive, Poll::Always, Poll::Never] {
        let folder = tempfile::tempdir().unwrap();
        let (server, path) = serve(folder.path(), None, poll);
        let mut host = VfioHost::connect(&path).unwrap();
        assert_eq!(host.doorbells.is_some(), poll != Poll::Never);
        assert_eq!(host.identify().unwrap()[4..6], *b"d ");
        for block in 0..200u64 {
            assert_eq!(host.write(block, &[block as u8 + 1; 4096]).unwrap(), 0);
        }
        for block in 0..200u64 {
            assert_eq!(host.read(block).unwrap(), [block as u8 + 1; 4096], "{poll:?} {block}");
        }
        let of = counts(&server);
        assert_eq!((of.writes, of.reads, of.failed, of.faults), (200, 200, 0, 0));
        // Two doorbells an I/O, or a few registers at the start.
        match poll {
            Poll::Never => assert!(of.trapped >= 800, "{of:?}"),
            _ => assert!(of.trapped <= 20, "{of:?}"),
        }
        assert!(server.report()[0].in_use);
        server.stop().unwrap();
        assert!(host.client.read(7, 0, 4).is_err(), "the drive has ended");
        assert!(!path.exists());
    }
}

#[test]
fn a_controller_that_is_reset_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), None, Poll::Adaptive);
    let mut host = VfioHost::connect(&path).unwrap();
    for round in 0..20u8 {
        assert_eq!(host.write(1, &[round; 4096]).unwrap(), 0);
        match round % 2 {
            // By the driver.
            0 => host.client.write(0, 0x14, &[0; 4]).unwrap(),
            // By the client, as at a reboot: the function is no bus master then.
            _ => {
                host.client.ask(13, &[], &[]).unwrap();
                assert_eq!(host.client.read(7, 4, 2).unwrap(), [0, 0]);
                host.client.write(7, 4, &[6, 0]).unwrap();
            }
        }
        // Doorbells are 0 again, or the first commands would go unseen.
        host.enable().unwrap();
        assert_eq!(host.read(1).unwrap(), [round; 4096]);
    }
    assert_eq!(counts(&server).faults, 0);
    server.stop().unwrap();
}

#[test]
fn memory_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), None, Poll::Adaptive);
    let mut host = VfioHost::connect(&path).unwrap();
    let far = 1 << 32;
    let status = |host: &mut VfioHost| {
        let mut entry = [0; 64];
        (entry[0], entry[4], entry[48]) = (2, 1, 7);
        entry[24..32].copy_from_slice(&u64::to_le_bytes(far));
        host.submit(1, &entry).unwrap();
        host.wait(1).unwrap().1 & 0x7ff
    };
    const DATA_TRANSFER_ERROR: u16 = 4;
    assert_eq!(status(&mut host), DATA_TRANSFER_ERROR);
    let more = memory(1 << 20);
    for _ in 0..200 {
        host.client.map(far, 1 << 20, Some(&more)).unwrap();
        assert_eq!(status(&mut host), 0);
        host.client.unmap(far, 1 << 20).unwrap();
        assert_eq!(status(&mut host), DATA_TRANSFER_ERROR);
    }
    // Memory that is not shared is known, and not reached.
    host.client.map(far, 1 << 20, None).unwrap();
    assert_eq!(status(&mut host), DATA_TRANSFER_ERROR);
    host.client.unmap(far, 1 << 20).unwrap();
    // Memory that is taken away ends the connection, and nothing else.
    host.memory.set_len(0).unwrap();
    let _ = host.ring(2, 5);
    until("the connection has ended", || host.client.read(7, 0, 4).is_err());
    assert!(counts(&server).faults > 0);
    VfioHost::connect(&path).unwrap().read(0).unwrap();
    server.stop().unwrap();
}

#[test]
fn bad_requests_are_refused_and_the_next_are_answered() {
    const ENOENT: i32 = 2;
    const EEXIST: i32 = 17;
    const EINVAL: i32 = 22;
    const ENOSPC: i32 = 28;
    const EOPNOTSUPP: i32 = 95;
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), None, Poll::Adaptive);
    let mut client = Client::connect(&path).unwrap();
    let errno = |result: std::io::Result<()>| result.unwrap_err().raw_os_error().unwrap();
    let guest = memory(MEMORY);
    client.map(0, MEMORY, Some(&guest)).unwrap();
    assert_eq!(errno(client.map(4096, 4096, Some(&guest))), EEXIST);
    assert_eq!(errno(client.map(MEMORY, 2 * MEMORY, Some(&guest))), EINVAL, "beyond its file");
    assert_eq!(errno(client.map(u64::MAX - 10, 4096, None)), EINVAL);
    assert_eq!(errno(client.unmap(0, 4096)), ENOENT);
    assert_eq!(errno(client.write(0, 0x3ffe, &[0; 4])), EINVAL);
    assert_eq!(errno(client.read(3, 0, 4).map(|_| ())), EINVAL);
    assert_eq!(errno(client.read(7, 0, 5000).map(|_| ())), EINVAL);
    assert_eq!(errno(client.ask(16, &[0; 8], &[]).map(|_| ())), EOPNOTSUPP);
    // Descriptors that are no eventfds, and vectors that there are not.
    let wrong = [20, 0x24, 2, 0, 1].map(u32::to_le_bytes).concat();
    assert_eq!(errno(client.ask(8, &wrong, &[guest.as_fd()]).map(|_| ())), EINVAL);
    let beyond = [20, 0x21, 2, 60, 9].map(u32::to_le_bytes).concat();
    assert_eq!(errno(client.ask(8, &beyond, &[]).map(|_| ())), EINVAL);
    for piece in 1..64u64 {
        client.map(piece << 32, 4096, Some(&guest)).unwrap();
    }
    assert_eq!(errno(client.map(64 << 32, 4096, Some(&guest))), ENOSPC);
    assert!(client.doorbells().unwrap().is_some(), "the stream is in step");
    assert_eq!(counts(&server).faults, 10);
    drop(client);
    VfioHost::reconnect(&path).read(0).unwrap();
    server.stop().unwrap();
}

#[test]
fn hostile_clients_harm_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), None, Poll::Adaptive);
    server.attach(new("other", folder.path(), "ram:16MiB", None, true)).unwrap();
    let mut kept = VfioHost::connect(&folder.path().join("other.sock")).unwrap();
    kept.write(5, &[7; 4096]).unwrap();
    for round in 0..40u64 {
        let mut bad = Client::connect(&path).unwrap();
        match round % 4 {
            0 => drop(bad.send(4, &[0; 5000], &[])),
            // A vhost-user client.
            1 => drop(std::io::Write::write_all(&mut &bad.stream, &[1, 0, 0, 0, 1, 0, 0, 0])),
            2 => {
                let stream = bad.stream.try_clone().unwrap();
                drop(bad.send(2, &[0; 32], &[stream.as_fd(); 17]));
            }
            // Half a message, and it goes.
            _ => drop(std::io::Write::write_all(&mut &bad.stream, &[1, 0, 4, 0])),
        }
        if round % 4 != 3 && round % 4 != 1 {
            until("its connection has ended", || bad.read(7, 0, 4).is_err());
        }
        drop(bad);
        assert_eq!(kept.read(5).unwrap(), [7; 4096]);
    }
    until("faults are counted", || counts(&server).faults >= 20);
    server.stop().unwrap();
}

#[test]
fn a_second_client_is_turned_away_and_the_next_finds_a_new_drive() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), Some("fixed:50ms"), Poll::Adaptive);
    let mut host = VfioHost::connect(&path).unwrap();
    host.write(3, &[9; 4096]).unwrap();
    assert!(Client::connect(&path).is_err());
    assert_eq!(counts(&server).refused, 1);
    // It goes without a word while a write is under way, which is done before the next comes.
    host.begin_write(1, 3, &[10; 4096]).unwrap();
    until("it is under way", || server.report()[0].in_flight == 1);
    let old = host.doorbells.take().unwrap();
    drop(host);
    let mut next = VfioHost::reconnect(&path);
    // The last one's mapping rings nothing any more.
    std::os::unix::fs::FileExt::write_all_at(&old.0, &[9, 0, 0, 0], old.1).unwrap();
    assert_eq!(next.read(3).unwrap(), [10; 4096]);
    assert_eq!((counts(&server).connections, counts(&server).faults), (2, 0));
    server.stop().unwrap();
}

/// Median time of a read at a depth of one, in us, and reads a second at `depth`.
fn reads(host: &mut VfioHost, depth: u16) -> (f64, f64) {
    let mut random = 1u64;
    let mut block = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % 4096
    };
    let (start, mut times) = (Instant::now(), Vec::new());
    let mut begun = vec![start; depth.into()];
    for cid in 0..depth {
        begun[usize::from(cid)] = Instant::now();
        host.begin(2, cid, block()).unwrap();
    }
    let mut under_way = depth;
    while under_way > 0 {
        let Some((cid, 0, _)) = host.completion(1).unwrap() else { continue };
        times.push(begun[usize::from(cid)].elapsed());
        under_way -= 1;
        if start.elapsed() < Duration::from_secs(1) {
            begun[usize::from(cid)] = Instant::now();
            host.begin(2, cid, block()).unwrap();
            under_way += 1;
        }
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    times.sort();
    (times[times.len() / 2].as_secs_f64() * 1e6, rate)
}

#[test]
#[ignore = "measures on an idle machine: make slow-test"]
fn figures() {
    for (label, poll) in [("always", Poll::Always), ("adaptive", Poll::Adaptive)] {
        for model in [None, Some("fixed:100us")] {
            let folder = tempfile::tempdir().unwrap();
            let (server, path) = serve(folder.path(), model, poll);
            let mut host = VfioHost::connect(&path).unwrap();
            let (median, one) = reads(&mut host, 1);
            let report = server.report().remove(0);
            let (_, many) = reads(&mut host, 32);
            let of = model.unwrap_or("null");
            println!("{label} {of}: median {median:.1} us, {one:.0} IOPS, QD32 {many:.0} IOPS");
            if let (Some(error), Some(bias)) = (report.timing_error, report.timing_bias_ns) {
                println!(
                    "  error: median {} ns, p99 {} ns, bias {bias:.0} ns",
                    error.p50_ns, error.p99_ns
                );
            }
            let trapped = report.counts.trapped as f64 / report.counts.reads as f64;
            println!("  {trapped:.5} accesses trapped an I/O");
            server.stop().unwrap();
        }
    }
}
