//! DH-HMAC-CHAP over a target's queues.

#[path = "support/initiator.rs"]
mod initiator;

use crate::support::*;
use initiator::*;
use stasis_nvme_auth::{Ended, Failure, Group};
use stasis_nvme_tcp::Fault;

const REQUIRED: u64 = 1 << 17;
const AUTHENTICATION_REQUIRED: u16 = 0x191;
const SECOND: u64 = 1_000_000_000;
const SEQUENCE_ERROR: u16 = 0x00c;
const FRIEND: &str = "nqn.2014-08.org.example:friend";

fn guarded(key: Key, subsystem: Option<Key>, groups: &[Group]) -> Bench {
    let mut bench = Bench::with(config(), &[FRIEND]);
    bench.target.set_authentication(authentication(&[(HOST, key, subsystem)], groups));
    bench
}

/// A connection whose queue `queue` waits for authentication, and the controller.
fn waiting(bench: &mut Bench, queue: u16, controller: u16) -> (Host, u16) {
    let mut host = Host::open(bench, 0);
    let nqn = bench.nqn();
    let connected = host.connect(bench, queue, controller, &nqn);
    assert_eq!((connected.status, connected.result & !0xffff), (0, REQUIRED));
    (host, connected.result as u16)
}

#[test]
fn hosts_and_subsystems_authenticate_on_each_queue() {
    for transform in 0..4 {
        for mutual in [false, true] {
            let key = Key::new(transform, 3);
            let own = mutual.then(|| Key::new((transform + 1) % 4, 4));
            let mut bench = guarded(key.clone(), own.clone(), &Group::ALL);
            let (mut admin, controller) = waiting(&mut bench, 0, 0xffff);
            let mut initiator = Initiator::new(key, own);
            assert_eq!(initiator.run(&mut bench, &mut admin)[..2], [1, 3], "success");
            enable(&mut bench, &mut admin);
            let (mut io, _) = waiting(&mut bench, 1, controller);
            assert_eq!(io.read(&mut bench, 0, 512).0.status, AUTHENTICATION_REQUIRED);
            initiator.transaction += 1;
            assert_eq!(initiator.run(&mut bench, &mut io)[..2], [1, 3]);
            assert_eq!(io.write(&mut bench, 8, &[6; 4096]).status, 0);
            assert_eq!(io.read(&mut bench, 8, 4096).1, [6; 4096]);
        }
    }
}

#[test]
fn every_hash_and_group_in_common_is_taken() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &Group::ALL);
    for group in Group::ALL {
        for hash in 1..=3 {
            let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
            let mut initiator = Initiator::new(key.clone(), None);
            (initiator.hashes, initiator.groups) = (vec![9, hash], vec![77, group.id()]);
            assert_eq!(initiator.run(&mut bench, &mut admin)[..2], [1, 3], "{group:?} {hash}");
            bench.target.close(admin.id);
        }
    }
    // The strongest hash, and the first group of the subsystem's own order.
    let mut bench = guarded(key.clone(), None, &[Group::Ffdhe3072, Group::Null]);
    let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
    assert_eq!(send(&mut bench, &mut admin, &Initiator::new(key, None).negotiate()).status, 0);
    assert_eq!(receive(&mut bench, &mut admin)[8..10], [3, 2]);
}

#[test]
fn nothing_passes_before_the_host_has_authenticated() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &Group::ALL);
    let (mut admin, controller) = waiting(&mut bench, 0, 0xffff);
    assert_eq!(admin.get_property(&mut bench, 0, true).status, AUTHENTICATION_REQUIRED);
    assert_eq!(admin.set_property(&mut bench, 0x14, 1).status, AUTHENTICATION_REQUIRED);
    let (identify, data) = admin.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096);
    assert_eq!((identify.status, data.len()), (AUTHENTICATION_REQUIRED, 0));
    let keep_alive = admin.command(&mut bench, entry(KEEP_ALIVE, 0, 0), &[]).0;
    assert_eq!(keep_alive.status, AUTHENTICATION_REQUIRED);
    // An I/O queue of a controller whose host has not authenticated.
    let mut io = Host::open(&mut bench, 0);
    let nqn = bench.nqn();
    assert_eq!(io.connect(&mut bench, 1, controller, &nqn).status, SEQUENCE_ERROR);
    assert_eq!(Initiator::new(key, None).run(&mut bench, &mut admin)[..2], [1, 3]);
    enable(&mut bench, &mut admin);
}

#[test]
fn a_wrong_secret_ends_the_connection_and_no_other() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), Some(Key::new(0, 4)), &Group::ALL);
    let (mut good, _) = waiting(&mut bench, 0, 0xffff);
    assert_eq!(Initiator::new(key.clone(), None).run(&mut bench, &mut good)[..2], [1, 3]);
    for wrong in [Key::new(1, 5), Key::new(0, 3), Key::new(2, 3)] {
        let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
        let last = Initiator::new(wrong, None).run(&mut bench, &mut admin);
        assert_eq!(last[..8], [0, 0xf1, 0, 0, 7, 0, 1, 1], "Failure1: failed");
        assert!(bench.target.has_ended(admin.id));
        let fault = bench.target.take_fault(admin.id).unwrap();
        assert_eq!(fault, Fault::Authentication(Ended::Refused(Failure::Failed)));
        assert!(fault.to_string().contains("the secrets differ"), "{fault}");
        bench.target.close(admin.id);
    }
    enable(&mut bench, &mut good);
    // The host has another secret of the subsystem: it says so, and leaves.
    let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
    let mut initiator = Initiator::new(key.clone(), Some(Key::new(0, 9)));
    send(&mut bench, &mut admin, &initiator.negotiate());
    let challenge = receive(&mut bench, &mut admin);
    let reply = initiator.reply(&challenge, HOST, &bench.nqn());
    send(&mut bench, &mut admin, &reply);
    let success = receive(&mut bench, &mut admin);
    assert_ne!(success[16..16 + initiator.expected.len()], initiator.expected);
    assert_eq!(admin.get_property(&mut bench, 0, true).status, AUTHENTICATION_REQUIRED);
    assert_eq!(send(&mut bench, &mut admin, &[0, 0xf0, 0, 0, 7, 0, 1, 1]).status, 0);
    assert_eq!(bench.target.take_fault(admin.id), Some(Fault::Authentication(Ended::ByHost)));
    // A host that wants a response where the subsystem has no secret for it.
    let mut bench = guarded(key.clone(), None, &Group::ALL);
    let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
    let last = Initiator::new(key, Some(Key::new(0, 4))).run(&mut bench, &mut admin);
    assert_eq!(last[..2], [0, 0xf1]);
}

#[test]
fn hosts_without_a_secret_come_only_if_they_are_named() {
    let mut bench = guarded(Key::new(1, 3), None, &Group::ALL);
    let nqn = bench.nqn();
    let mut friend = Host::open(&mut bench, 0);
    friend.host = FRIEND.into();
    let connected = friend.connect(&mut bench, 0, 0xffff, &nqn);
    assert_eq!((connected.status, connected.result & REQUIRED), (0, 0));
    enable(&mut bench, &mut friend);
    // It has nothing to authenticate by.
    assert_eq!(send(&mut bench, &mut friend, &[0; 72]).status, 1, "no such command");
    let mut stranger = Host::open(&mut bench, 0);
    stranger.host = "nqn.2014-08.org.example:stranger".into();
    assert_eq!(stranger.connect(&mut bench, 0, 0xffff, &nqn).status, 0x184);
    // Discovery is open.
    assert_eq!(stranger.connect(&mut bench, 0, 0xffff, discovery()).status, 0);
}

#[test]
fn messages_that_cannot_be_are_refused_by_name() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &[Group::Ffdhe2048]);
    let good = Initiator::new(key.clone(), None);
    let offer = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = good.negotiate();
        change(&mut message);
        message
    };
    let wrong = [
        (offer(&|message| message[8] = 2), Failure::Protocol),
        (offer(&|message| message[6] = 2), Failure::Channel),
        (offer(&|message| message[12..15].fill(9)), Failure::Hash),
        (offer(&|message| message[43] = 0), Failure::Group),
        (offer(&|message| message[7] = 0), Failure::Payload),
        (offer(&|message| message[7] = 2), Failure::Payload),
        (offer(&|message| message[10] = 31), Failure::Payload),
        (offer(&|message| message.truncate(71)), Failure::Payload),
        (vec![0], Failure::Payload),
        (good.success2(), Failure::Payload),
        (vec![1, 7, 0, 0, 0, 0, 0, 0], Failure::Message),
        (vec![1, 4, 0, 0, 0, 0, 0, 0], Failure::Message),
    ];
    for (message, failure) in wrong {
        let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
        assert_eq!(send(&mut bench, &mut admin, &message).status, 0);
        let last = receive(&mut bench, &mut admin);
        assert_eq!((&last[..2], last[6], last[7]), (&[0, 0xf1][..], 1, failure as u8), "{failure}");
        let fault = bench.target.take_fault(admin.id);
        assert_eq!(fault, Some(Fault::Authentication(Ended::Refused(failure))));
        bench.target.close(admin.id);
    }
    // Replies.
    type Change = fn(&mut Vec<u8>);
    let replies: [(Change, Failure); 6] = [
        (|reply| reply[4] ^= 1, Failure::Payload),
        (|reply| reply[6] = 48, Failure::Payload),
        (|reply| reply.truncate(100), Failure::Payload),
        (|reply| reply[10..12].fill(0), Failure::Payload),
        (|reply| reply[16 + 128..].fill(0), Failure::Group),
        (|reply| reply[20] ^= 1, Failure::Failed),
    ];
    for (change, failure) in replies {
        let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
        let mut initiator = Initiator::new(key.clone(), None);
        send(&mut bench, &mut admin, &initiator.negotiate());
        let challenge = receive(&mut bench, &mut admin);
        let mut reply = initiator.reply(&challenge, HOST, &bench.nqn());
        change(&mut reply);
        send(&mut bench, &mut admin, &reply);
        assert_eq!(receive(&mut bench, &mut admin)[7], failure as u8, "{failure}");
        bench.target.close(admin.id);
    }
}

#[test]
fn commands_with_invalid_fields_change_nothing() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &[Group::Null]);
    let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
    let mut initiator = Initiator::new(key, None);
    let negotiate = initiator.negotiate();
    for (at, value) in [(41, 0), (42, 2), (43, 0), (44, 1)] {
        let mut raw = command(5, negotiate.len(), true);
        raw[at] = value;
        assert_eq!(admin.command(&mut bench, raw, &negotiate).0.status, 2, "byte {at}");
    }
    let nothing = admin.command(&mut bench, command(6, 4096, false), &[]).0;
    assert_eq!(nothing.status, SEQUENCE_ERROR, "nothing to receive");
    assert_eq!(send(&mut bench, &mut admin, &negotiate).status, 0);
    let short = admin.command(&mut bench, command(6, 79, false), &[]).0;
    assert_eq!(short.status, 2, "the challenge has 80 bytes");
    // It is still there.
    let challenge = receive(&mut bench, &mut admin);
    let reply = initiator.reply(&challenge, HOST, &bench.nqn());
    assert_eq!(send(&mut bench, &mut admin, &reply).status, 0);
    assert_eq!(receive(&mut bench, &mut admin)[..2], [1, 3]);
}

#[test]
fn a_host_may_begin_anew_but_not_for_ever() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &[Group::Null]);
    let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
    let mut initiator = Initiator::new(key, None);
    for transaction in 0..3 {
        initiator.transaction = transaction;
        assert_eq!(send(&mut bench, &mut admin, &initiator.negotiate()).status, 0);
    }
    assert_eq!(initiator.run(&mut bench, &mut admin)[..2], [1, 3]);
    for _ in 0..4 {
        assert_eq!(send(&mut bench, &mut admin, &initiator.negotiate()).status, 0);
    }
    assert_eq!(initiator.run(&mut bench, &mut admin)[..2], [0, 0xf1]);
}

#[test]
fn a_host_may_authenticate_again_and_is_out_if_it_fails() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &[Group::Null]);
    let (mut admin, controller) = waiting(&mut bench, 0, 0xffff);
    let mut initiator = Initiator::new(key, None);
    assert_eq!(initiator.run(&mut bench, &mut admin)[..2], [1, 3]);
    enable(&mut bench, &mut admin);
    let (mut io, _) = waiting(&mut bench, 1, controller);
    initiator.run(&mut bench, &mut io);
    send(&mut bench, &mut io, &initiator.negotiate());
    assert_eq!(io.read(&mut bench, 0, 512).0.status, 0, "meanwhile");
    receive(&mut bench, &mut io);
    assert_eq!(initiator.run(&mut bench, &mut io)[..2], [1, 3]);
    let mut wrong = Initiator::new(Key::new(1, 4), None);
    assert_eq!(wrong.run(&mut bench, &mut io)[..2], [0, 0xf1]);
    assert!(bench.target.has_ended(io.id));
    assert_eq!(admin.get_property(&mut bench, 0x1c, false).result, 1, "the controller goes on");
    // On the admin queue, the controller is out.
    assert_eq!(wrong.run(&mut bench, &mut admin)[..2], [0, 0xf1]);
    assert_eq!(bench.target.subsystem().controllers().count(), 0);
}

#[test]
fn a_host_that_does_not_authenticate_in_time_is_disconnected() {
    let mut bench = guarded(Key::new(1, 3), None, &Group::ALL);
    let (admin, _) = waiting(&mut bench, 0, 0xffff);
    bench.pass(9_999_999_999);
    assert!(!bench.target.has_ended(admin.id));
    bench.pass(1);
    assert!(bench.target.has_ended(admin.id));
    assert_eq!(bench.target.take_fault(admin.id), Some(Fault::Idle));
    bench.target.close(admin.id);
    assert_eq!(bench.target.subsystem().controllers().count(), 0);
}

#[test]
fn a_host_whose_power_is_being_computed_lets_others_go_on() {
    let key = Key::new(1, 3);
    let mut bench = guarded(key.clone(), None, &[Group::Ffdhe2048]);
    let (mut other, controller) = waiting(&mut bench, 0, 0xffff);
    assert_eq!(Initiator::new(key.clone(), None).run(&mut bench, &mut other)[..2], [1, 3]);
    enable(&mut bench, &mut other);
    let (mut io, _) = waiting(&mut bench, 1, controller);
    assert_eq!(Initiator::new(key.clone(), None).run(&mut bench, &mut io)[..2], [1, 3]);

    let (mut admin, _) = waiting(&mut bench, 0, 0xffff);
    let mut initiator = Initiator::new(key.clone(), None);
    let begin = |bench: &mut Bench, host: &mut Host, message: &[u8]| {
        let raw = command(5, message.len(), true);
        let raw = host.pdu(4, 0, &raw, message);
        bench.target.receive(host.id, &raw);
        bench.target.collect();
        bench.target.pop_power().expect("a power is asked for")
    };
    let power = begin(&mut bench, &mut admin, &initiator.negotiate());
    assert!(bench.target.output(admin.id).is_empty(), "the command has not ended");
    assert!(!format!("{power:?}").contains("exponent"), "{power:?}");
    assert_eq!(io.write(&mut bench, 8, &[6; 4096]).status, 0);
    assert_eq!(io.read(&mut bench, 8, 4096).1, [6; 4096]);
    // Its own queue waits: there is nothing to receive, and no next message yet.
    let early = admin.command(&mut bench, command(6, 4096, false), &[]).0;
    assert_eq!(early.status, SEQUENCE_ERROR);
    assert_eq!(send(&mut bench, &mut admin, &initiator.negotiate()).status, SEQUENCE_ERROR);
    // However long that takes, it is none of the host's time; that begins then.
    bench.pass(60 * SECOND);
    bench.target.computed(power.0, power.1.compute());
    bench.pass(9 * SECOND);
    assert_eq!(admin.completion(&mut bench).0.status, 0);
    let challenge = receive(&mut bench, &mut admin);
    let reply = initiator.reply(&challenge, HOST, &bench.nqn());
    let power = begin(&mut bench, &mut admin, &reply);
    assert_eq!(io.read(&mut bench, 8, 4096).1, [6; 4096]);
    let computed = power.1.compute();
    bench.target.computed(power.0, computed);
    bench.target.collect();
    assert_eq!(admin.completion(&mut bench).0.status, 0);
    assert_eq!(receive(&mut bench, &mut admin)[..2], [1, 3], "success");

    // A host that goes meanwhile: its power is computed for nobody, or not at all.
    let (mut gone, _) = waiting(&mut bench, 0, 0xffff);
    let power = begin(&mut bench, &mut gone, &Initiator::new(key.clone(), None).negotiate());
    bench.target.close(gone.id);
    let (next, _) = waiting(&mut bench, 0, 0xffff);
    assert_eq!(next.id, gone.id, "the number of the connection is taken again");
    bench.target.computed(power.0, power.1.compute());
    bench.target.collect();
    assert!(bench.target.output(next.id).is_empty(), "it is none of the next one's concern");
    let message = Initiator::new(key, None).negotiate();
    let raw = next.pdu(4, 0, &command(5, message.len(), true), &message);
    bench.target.receive(next.id, &raw);
    bench.target.close(next.id);
    assert!(bench.target.pop_power().is_none());
}
