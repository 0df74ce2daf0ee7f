//! vfio-user on real sockets.

#[allow(dead_code)]
mod support;
#[path = "support/vfio_host.rs"]
mod vfio_host;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stasis_drive::{DriveFault, DriveFaultKind};
use stasis_nvme::{Config, Namespace, Programs, Subsystem};
use stasis_serve::{FollowState, NewDrive, NewNvme, Poll, Server, VfioUser};
use support::{counts, drive, until};
use vfio_host::{memory, Client, VfioHost, MEMORY};

fn new(name: &str, folder: &Path, medium: &str, model: Option<&str>, mapped: bool) -> NewDrive {
    let mut new = drive(name, folder, medium, model);
    let serial = name.to_owned();
    new.vfio_user = Some(VfioUser {
        mapped,
        further: vec![],
        subsystem: Box::new(move |capacity, _| {
            let namespaces = vec![Namespace::new(capacity / 512, 512)];
            let config =
                Config { serial, namespaces, shadow_doorbells: false, ..Config::default() };
            let nvme = Subsystem::new(config).map_err(|error| error.to_string())?;
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
        let counted = counts(&server);
        assert_eq!(
            (counted.writes, counted.reads, counted.failed, counted.faults),
            (200, 200, 0, 0)
        );
        // Two doorbells an I/O, or a few registers at the start.
        match poll {
            Poll::Never => assert!(counted.trapped >= 800, "{counted:?}"),
            _ => assert!(counted.trapped <= 20, "{counted:?}"),
        }
        assert!(server.report()[0].in_use);
        server.stop().unwrap();
        assert!(host.client.read(7, 0, 4).is_err(), "the drive has ended");
        assert!(!path.exists());
    }
}

/// A program is loaded, activated and run on a range of the drive's memory, by messages and queues of a
/// client: Dword 0 of the completion is the sum of what the client has written there.
#[test]
fn a_program_runs_in_a_drive_on_a_socket() {
    const ALL_COMMAND_SETS: u32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let mut new = drive("d", folder.path(), "ram:16MiB", None);
    new.vfio_user = Some(VfioUser {
        mapped: true,
        further: vec![],
        subsystem: Box::new(move |capacity, _| {
            let namespaces = vec![Namespace::new(capacity / 512, 512)];
            let programs = Some(Programs { memory: 1 << 20, ..Programs::default() });
            let config = Config { namespaces, programs, ..Config::default() };
            let nvme = Subsystem::new(config).map_err(|error| error.to_string())?;
            Ok(NewNvme { nvme, keep: None, follow: None })
        }),
    });
    let server = Arc::new(Server::new(1, Poll::Adaptive).unwrap());
    server.attach(new).unwrap();
    let path = folder.path().join("d.sock");
    let mut host = VfioHost::connect_for(ALL_COMMAND_SETS, &path).unwrap();
    let entry = |opcode, nsid: u32, dwords: &[(usize, u32)]| {
        let mut entry = [0; 64];
        entry[0] = opcode;
        entry[4..8].copy_from_slice(&nsid.to_le_bytes());
        for (dword, value) in dwords {
            entry[4 * dword..4 * dword + 4].copy_from_slice(&value.to_le_bytes());
        }
        entry
    };
    let (memory, compute) = (2, 3);
    let write = entry(0x05, memory, &[(10, 64), (12, 16)]);
    let numbers = [40u64, 2].map(u64::to_le_bytes).concat();
    assert_eq!(host.run(1, write, &numbers).unwrap().1, 0);
    // r2 = the address of the first range; r0 = its two numbers added.
    let code: [[u8; 8]; 5] = [
        [0x79, 0x12, 40, 0, 0, 0, 0, 0],
        [0x79, 0x20, 0, 0, 0, 0, 0, 0],
        [0x79, 0x23, 8, 0, 0, 0, 0, 0],
        [0x0f, 0x30, 0, 0, 0, 0, 0, 0],
        [0x95, 0, 0, 0, 0, 0, 0, 0],
    ];
    let size = code.len() as u32 * 8;
    let load = entry(0x85, compute, &[(10, 0xc0 << 16), (11, size), (14, size)]);
    assert_eq!(host.run(0, load, &code.concat()).unwrap().1, 0);
    let activate = entry(0x88, compute, &[(10, 1 << 16)]);
    assert_eq!(host.run(0, activate, &[]).unwrap().1, 0);
    let mut range = [0; 32];
    (range[0], range[4], range[8]) = (memory as u8, 16, 64);
    let (set, status) = host.run(0, entry(0x89, compute, &[(11, 1)]), &range).unwrap();
    assert_eq!(status, 0);
    let execute = entry(0x01, compute, &[(2, set << 16)]);
    assert_eq!(host.run(1, execute, &[]).unwrap(), (42, 0));
    server.stop().unwrap();
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

/// Faults of a controller are of the drive that a guest has, and a reset helps.
#[test]
fn controllers_fail_by_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), None, Poll::Adaptive);
    let mut host = VfioHost::connect(&path).unwrap();
    assert_eq!(host.write(1, &[7; 4096]).unwrap(), 0);
    let once = |number, kind| DriveFault { times: Some(1), ..DriveFault::new(number, kind) };
    let begin = |fault: &DriveFault| {
        server.check_fault("d", fault).unwrap();
        server.add_fault("d", fault.clone()).unwrap();
    };
    // The host never hears of the first read, and of the next one it does.
    begin(&once(0, DriveFaultKind::LostCompletion));
    host.begin(2, 90, 1).unwrap();
    until("it is done", || counts(&server).reads == 1);
    assert_eq!(host.read(1).unwrap(), [7; 4096], "the completion that comes is of this read");
    assert_eq!(server.end_fault("d", 0).unwrap(), 1);
    begin(&once(1, DriveFaultKind::ControllerFailure));
    host.begin(2, 91, 1).unwrap();
    const CSTS: u64 = 0x1c;
    const CFS: u8 = 2;
    until("the controller fails", || host.client.read(0, CSTS, 4).unwrap()[0] & CFS != 0);
    assert_eq!(server.end_fault("d", 1).unwrap(), 1);
    host.client.write(0, 0x14, &[0; 4]).unwrap();
    host.enable().unwrap();
    assert_eq!(host.read(1).unwrap(), [7; 4096]);
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
    // Descriptors that are no eventfds, and missing vectors.
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

/// A server of a drive with two controllers, and their sockets. `follows`: its state is kept before
/// completions.
fn serve_two(folder: &Path, model: Option<&str>, follows: bool) -> (Arc<Server>, [PathBuf; 2]) {
    let server = Arc::new(Server::new(1, Poll::Adaptive).unwrap());
    let sockets = [folder.join("d.sock"), folder.join("other.sock")];
    let mut new = new("d", folder, "ram:16MiB", model, true);
    let settings = new.vfio_user.as_mut().unwrap();
    settings.further = vec![sockets[1].clone()];
    let config = Config { serial: "two".into(), shadow_doorbells: false, ..Config::default() };
    settings.subsystem = Box::new(move |capacity, _| {
        let namespaces = vec![Namespace::new(capacity / 512, 512)];
        let nvme = Subsystem::new(Config { namespaces, ..config }).unwrap();
        let follow: FollowState = Box::new(|_| Ok(()));
        Ok(NewNvme { nvme, keep: None, follow: follows.then_some(follow) })
    });
    server.attach(new).unwrap();
    (server, sockets)
}

/// A command of namespace 1 with Dword 10 and data: its status.
fn command(host: &mut VfioHost, queue: usize, opcode: u8, dword10: u32, data: &[u8]) -> u16 {
    let mut entry = [0; 64];
    (entry[0], entry[4]) = (opcode, 1);
    entry[40..44].copy_from_slice(&dword10.to_le_bytes());
    host.run(queue, entry, data).unwrap().1 & 0x7ff
}

const REGISTER: u8 = 0x0d;
const ACQUIRE: u8 = 0x11;
const CONFLICT: u16 = 0x083;

/// A command of reservations with its keys.
fn reserve(host: &mut VfioHost, opcode: u8, dword10: u32, keys: [u64; 2]) -> u16 {
    command(host, 1, opcode, dword10, &keys.map(u64::to_le_bytes).concat())
}

/// Sets the Host Identifier, of 128 bits.
fn set_name(host: &mut VfioHost, name: u8) -> u16 {
    let mut entry = [0; 64];
    (entry[0], entry[40], entry[44]) = (0x09, 0x81, 1);
    host.run(0, entry, &[name; 16]).unwrap().1 & 0x7ff
}

#[test]
fn two_guests_have_one_drive_and_reserve_it() {
    for follows in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (server, sockets) = serve_two(folder.path(), None, follows);
        let [mut one, mut other] = sockets.each_ref().map(|path| VfioHost::connect(path).unwrap());
        let [of_one, of_other] = [&mut one, &mut other].map(|host| host.identify().unwrap());
        assert_eq!((of_one[78], of_other[78]), (0, 1), "CNTLID");
        assert_eq!(
            (of_one[76], of_one[520] >> 5 & 1),
            (2 | 8, 1),
            "CMIC: several controllers, ANA; ONCS: reservations"
        );
        assert_eq!(of_one[768..1024], of_other[768..1024], "one subsystem");
        assert_eq!(one.write(5, &[7; 4096]).unwrap(), 0);
        assert_eq!(other.read(5).unwrap(), [7; 4096]);

        // The first guest has no name; the other one gives its name, once.
        assert_eq!(set_name(&mut other, 2), 0);
        assert_eq!((set_name(&mut other, 2), set_name(&mut other, 3)), (0, 0x00c));
        assert_eq!(reserve(&mut one, REGISTER, 0, [0, 11]), 0);
        assert_eq!(set_name(&mut one, 1), 0x00c, "it is registered");
        // Write Exclusive.
        assert_eq!(reserve(&mut one, ACQUIRE, 1 << 8, [11, 0]), 0);
        assert_eq!(other.write(6, &[8; 4096]).unwrap() & 0x7ff, CONFLICT);
        assert_eq!(other.read(5).unwrap(), [7; 4096]);
        assert_eq!(one.write(6, &[9; 4096]).unwrap(), 0);

        // A guest whose registration is taken away hears of it by an interrupt.
        let mut events = [0; 64];
        events[0] = 0x0c;
        one.submit(0, &events).unwrap();
        assert_eq!(reserve(&mut other, REGISTER, 0, [0, 12]), 0);
        assert_eq!(reserve(&mut other, ACQUIRE, 1 << 8 | 1, [12, 11]), 0);
        assert_eq!(one.wait(0).unwrap().2, 6 | 0x80 << 16, "the log of reservations");
        assert_eq!(one.write(6, &[10; 4096]).unwrap() & 0x7ff, CONFLICT);
        assert_eq!(other.write(6, &[11; 4096]).unwrap(), 0);

        // The contents of a name outlast a reset, after which the guest is nobody until it says so.
        other.client.write(0, 0x14, &[0; 4]).unwrap();
        other.enable().unwrap();
        assert_eq!(other.write(6, &[12; 4096]).unwrap() & 0x7ff, CONFLICT);
        assert_eq!(set_name(&mut other, 2), 0);
        assert_eq!(other.write(6, &[13; 4096]).unwrap(), 0);
        assert_eq!(one.read(6).unwrap(), [13; 4096]);
        // Clear; then what is held without a name ends with the guest.
        assert_eq!(reserve(&mut other, 0x15, 1, [12, 0]), 0);
        assert_eq!(reserve(&mut one, REGISTER, 0, [0, 14]), 0);
        assert_eq!(reserve(&mut one, ACQUIRE, 1 << 8, [14, 0]), 0);
        assert_eq!(other.write(6, &[14; 4096]).unwrap() & 0x7ff, CONFLICT);
        drop(one);
        until("the guest is gone", || other.write(6, &[15; 4096]).unwrap() == 0);

        // A guest has a say in its own controller only.
        let mut one = VfioHost::reconnect(&sockets[0]);
        let list = |id: u16| [1, id].map(u16::to_le_bytes).concat();
        const ATTACHMENT: u8 = 0x15;
        assert_eq!(command(&mut other, 0, ATTACHMENT, 1, &list(0)), 0x015, "Operation Denied");
        assert_eq!(command(&mut other, 0, ATTACHMENT, 1, &list(1)), 0);
        assert_ne!(other.write(6, &[16; 4096]).unwrap(), 0);
        assert_eq!(one.read(6).unwrap(), [15; 4096]);
        assert_eq!(command(&mut other, 0, ATTACHMENT, 0, &list(1)), 0);
        assert_eq!(other.read(6).unwrap(), [15; 4096]);
        assert_eq!((counts(&server).connections, counts(&server).faults), (3, 0));
        server.stop().unwrap();
        assert!(!sockets[1].exists());
    }
}

#[test]
fn a_guest_waits_for_the_last_ones_requests_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (server, sockets) = serve_two(folder.path(), Some("fixed:300ms"), false);
    let [mut one, other] = sockets.each_ref().map(|path| VfioHost::connect(path).unwrap());
    one.begin_write(1, 3, &[1; 4096]).unwrap();
    until("it is under way", || server.report()[0].in_flight == 1);
    drop(other);
    let mut other = VfioHost::reconnect(&sockets[1]);
    assert_eq!(server.report()[0].in_flight, 1, "the first guest's write is under way yet");
    // The first guest goes in the midst of it: the write ends before the next one comes.
    drop(one);
    let mut next = VfioHost::reconnect(&sockets[0]);
    assert_eq!(server.report()[0].in_flight, 0);
    assert_eq!(next.read(3).unwrap(), [1; 4096]);
    assert_eq!(other.read(3).unwrap(), [1; 4096]);
    server.stop().unwrap();
}

/// Also where the thread waits as soon as it has nothing to do.
#[test]
fn the_next_client_is_let_in_once_the_last_write_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = serve(folder.path(), Some("fixed:1ms"), Poll::Never);
    for round in 0..40 {
        let mut host = VfioHost::reconnect(&path);
        host.begin_write(1, 3, &[round; 4096]).unwrap();
        drop(host);
    }
    assert_eq!(VfioHost::reconnect(&path).read(3).unwrap(), [39; 4096]);
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
            let model_name = model.unwrap_or("null");
            println!(
                "{label} {model_name}: median {median:.1} us, {one:.0} IOPS, QD32 {many:.0} IOPS"
            );
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
