//! A host that does anything, as a script of bytes says.

use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace, Subsystem, Zones};
use stasis_nvme_auth::{Group, Hash, Randomness, Secret, Secrets};
use stasis_nvme_tcp::{Authentication, ConnectionId, Target, MAX_OUTPUT};

#[path = "../../../block/tests/common/hostile.rs"]
mod common;
use common::Script;

const SIZE: u64 = 1 << 20;
const HOST: &str = "nqn.2014-08.org.example:host";

/// A PDU that is right but for what `entry` says.
fn pdu(kind: u8, flags: u8, header: &[u8], data: &[u8], digests: u8) -> Vec<u8> {
    let length = 8 + header.len();
    let with_digest = length + if digests & 1 != 0 { 4 } else { 0 };
    let tail = if digests & 2 != 0 && !data.is_empty() { 4 } else { 0 };
    let offset = if data.is_empty() { 0 } else { with_digest as u8 };
    let flags = flags | digests & 1 | if tail > 0 { 2 } else { 0 };
    let mut raw = vec![kind, flags, length as u8, offset];
    raw.extend(((with_digest + data.len() + tail) as u32).to_le_bytes());
    raw.extend(header);
    if digests & 1 != 0 {
        raw.extend(crc32c::crc32c(&raw).to_le_bytes());
    }
    raw.extend(data);
    if tail > 0 {
        raw.extend(crc32c::crc32c(data).to_le_bytes());
    }
    raw
}

fn connect(queue: u16, controller: u16, nqn: &str) -> ([u8; 64], Vec<u8>) {
    let mut raw = [0; 64];
    (raw[0], raw[4], raw[39], raw[42], raw[44]) = (0x7f, 1, 1, queue as u8, 15);
    raw[32..36].copy_from_slice(&1024u32.to_le_bytes());
    let mut data = vec![0; 1024];
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
    data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
    (raw, data)
}

/// Runs a script: whatever it says, nothing panics, memory is bounded, and a host that keeps to the
/// protocol is served in the end.
pub fn run(script: &[u8]) {
    let mut script = Script(script);
    let flags = script.u8();
    let zoned = (flags & 1 != 0).then(|| Zones::new(64 << 10));
    let config = Config {
        serial: "H".into(),
        queue_pairs: 2,
        queue_entries: 16,
        max_transfer: 128 << 10,
        max_in_flight_bytes: 512 << 10,
        namespaces: vec![Namespace { zoned, ..Namespace::new(SIZE / 512, 512) }],
        ..Config::default()
    };
    let digests = flags >> 1 & 3;
    let nqn = config.nqn();
    let mut target = Target::new(Subsystem::new(config).expect("a good configuration"), vec![]);
    let is_guarded = flags & 1 << 3 != 0;
    if is_guarded {
        target.set_authentication(authentication());
    }
    let mut ids: Vec<ConnectionId> = Vec::new();
    let mut held = Vec::new();
    let mut now = 0;
    // An admin queue that is ready, and an I/O queue, or else most scripts never get there.
    for queue in 0..2u16 {
        ids.extend(greet(&mut target, digests));
        let Some(&id) = ids.last() else { continue };
        let (entry, data) = connect(queue, if queue == 0 { 0xffff } else { 1 }, &nqn);
        target.receive(id, &pdu(4, 0, &entry, &data, digests));
        if is_guarded && flags & 1 << 4 != 0 {
            authenticate(&mut target, id, digests, &nqn);
        }
        if queue == 0 {
            let mut enable = [0; 64];
            (enable[0], enable[44]) = (0x7f, 0x14);
            enable[48..52].copy_from_slice(&(4u32 << 20 | 6 << 16 | 6 << 4 | 1).to_le_bytes());
            if flags & 1 == 0 {
                enable[48] = 1;
            }
            target.receive(id, &pdu(4, 0, &enable, &[], digests));
        }
    }
    while !script.0.is_empty() {
        step(&mut script, &mut target, &mut ids, &mut held, digests, &nqn, &mut now);
        for &id in &ids {
            assert!(target.output(id).len() <= MAX_OUTPUT + (4 << 20));
        }
        target.collect();
    }
    // Whatever happened, the drive can give everything back, and another host is served.
    for request in held.drain(..) {
        finish(&mut target, request);
    }
    ids.drain(..).for_each(|id| target.close(id));
    while let Some(request) = target.pop_request() {
        finish(&mut target, request);
    }
    target.collect();
    assert_eq!(target.in_flight(), 0);
    assert_eq!(target.subsystem().in_flight(), 0);
    let id = greet(&mut target, 0).expect("a connection");
    let (entry, data) = connect(0, 0xffff, &nqn);
    target.receive(id, &pdu(4, 0, &entry, &data, 0));
    target.collect();
    let output = target.output(id);
    assert_eq!(output[128], 5, "a response");
    assert_eq!(output[128 + 22..128 + 24], [0, 0], "success");
}

fn greet(target: &mut Target, digests: u8) -> Option<ConnectionId> {
    let id = target.open(1)?;
    let mut request = [0; 128];
    (request[2], request[4], request[11]) = (128, 128, digests);
    target.receive(id, &request);
    Some(id)
}

/// Returns whether a host that authenticates gets further than the refusal of all else.
#[allow(dead_code)]
pub fn is_served_after_authentication() -> bool {
    let config = Config { namespaces: vec![Namespace::new(SIZE / 512, 512)], ..Config::default() };
    let nqn = config.nqn();
    let mut target = Target::new(Subsystem::new(config).expect("a good configuration"), vec![]);
    target.set_authentication(authentication());
    let id = greet(&mut target, 0).expect("a connection");
    let (entry, data) = connect(0, 0xffff, &nqn);
    target.receive(id, &pdu(4, 0, &entry, &data, 0));
    authenticate(&mut target, id, 0, &nqn);
    let sent = target.output(id).len();
    let mut get = [0; 64];
    (get[0], get[4], get[44]) = (0x7f, 4, 8);
    target.receive(id, &pdu(4, 0, &get, &[], 0));
    target.collect();
    target.output(id)[sent + 22..sent + 24] == [0, 0]
}

/// A secret of 32 ones.
const SECRET: &str = "DHHC-1:00:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQHMnzFi:";

fn authentication() -> Authentication {
    let host = Secret::parse(SECRET).expect("a good secret");
    let secrets = Secrets { subsystem: Some(host.clone()), host };
    let mut next = 0u8;
    let random = Randomness::new(move |bytes| {
        bytes.fill_with(|| {
            next = next.wrapping_mul(77).wrapping_add(5);
            next
        });
        true
    });
    // The other groups take too long for thousands of scripts.
    Authentication::new([(HOST.to_owned(), secrets)].into(), vec![Group::Null], random)
}

/// An authentication command, and the data of its capsule.
fn command(kind: u8, length: u32, data: &[u8]) -> ([u8; 64], Vec<u8>) {
    let mut raw = [0; 64];
    (raw[0], raw[4], raw[39]) = (0x7f, kind, if data.is_empty() { 0x5a } else { 1 });
    raw[32..36].copy_from_slice(&length.to_le_bytes());
    raw[41..44].copy_from_slice(&[1, 1, 0xe9]);
    raw[44..48].copy_from_slice(&length.to_le_bytes());
    (raw, data.to_vec())
}

/// The offer of a host that has every hash and the null group.
fn negotiate() -> Vec<u8> {
    let mut message = vec![0; 72];
    (message[7], message[8], message[10], message[11]) = (1, 1, 3, 1);
    message[12..15].copy_from_slice(&[1, 2, 3]);
    message
}

/// A message of a host that is right, or of the right kind, or none.
fn authentication_message(script: &mut Script<'_>) -> Vec<u8> {
    let mut message = match script.u8() % 6 {
        0 => negotiate(),
        1 => [&[1, 2, 0, 0, 0, 0, 64, 0, script.u8() & 1, 0][..], &[script.u8(); 134]].concat(),
        2 => [&[1, 4][..], &[0; 14]].concat(),
        3 => [&[0, 0xf0][..], &[0; 6]].concat(),
        _ => (0..script.u8()).map(|_| script.u8()).collect(),
    };
    if let (Some(at), true) = (message.len().checked_sub(1), script.u8() & 1 != 0) {
        let at = usize::from(script.u8()).min(at);
        message[at] ^= script.u8();
    }
    message.truncate(usize::from(script.u8()).max(1) * 2);
    message
}

/// Authenticates as a host does that knows the secret.
fn authenticate(target: &mut Target, id: ConnectionId, digests: u8, nqn: &str) {
    let send = |target: &mut Target, message: &[u8]| {
        let (raw, data) = command(5, message.len() as u32, message);
        target.receive(id, &pdu(4, 0, &raw, &data, digests));
    };
    send(target, &negotiate());
    target.collect();
    let sent = target.output(id).len();
    target.receive(id, &pdu(4, 0, &command(6, 4096, &[]).0, &[], digests));
    target.collect();
    let output = target.output(id);
    // The data of one PDU, behind its header and before its digest, if there are some.
    let Some(start) = output.get(sent + 3).map(|&offset| sent + usize::from(offset)) else {
        return;
    };
    let Some(challenge) = output.get(start..start + 80) else { return };
    let key = [1; 32];
    let rest = format!("HostHost{HOST}\0{nqn}");
    let parts = [&challenge[16..80], &challenge[12..16], &[0; 3], rest.as_bytes()];
    let mut reply = vec![1, 2, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    reply.extend(Hash::Sha512.hmac(&key, &parts));
    reply.extend([0; 64]);
    send(target, &reply);
    target.receive(id, &pdu(4, 0, &command(6, 4096, &[]).0, &[], digests));
    target.collect();
}

fn finish(target: &mut Target, mut request: stasis_block::Request) {
    if request.command.operation == Operation::Read {
        request.data.resize(request.command.length as usize, 0);
    }
    target.complete(request.tag, Status::Ok, request.data);
}

fn step(
    script: &mut Script<'_>,
    target: &mut Target,
    ids: &mut Vec<ConnectionId>,
    held: &mut Vec<stasis_block::Request>,
    digests: u8,
    nqn: &str,
    now: &mut u64,
) {
    let which = usize::from(script.u8());
    let id = match ids.len() {
        0 => None,
        count => Some(ids[which % count]),
    };
    match script.u8() % 14 {
        0 => {
            let raw: Vec<u8> = (0..script.u8()).map(|_| script.u8()).collect();
            id.into_iter().for_each(|id| target.receive(id, &raw));
        }
        1 => ids.extend(target.open(1)),
        2 => ids.extend(greet(target, script.u8() & 3)),
        3 if ids.len() > 2 => target.close(ids.swap_remove(which % ids.len())),
        4 => {
            let (queue, controller) = (script.u16() % 4, script.u16());
            let controller = if controller % 8 < 6 { controller % 4 } else { 0xffff };
            let (mut entry, data) = connect(queue, controller, nqn);
            entry[usize::from(script.u8() % 64)] ^= script.u8() & 1;
            let raw = pdu(4, 0, &entry, &data, digests);
            id.into_iter().for_each(|id| target.receive(id, &raw));
        }
        5..=7 if script.0.first() == Some(&0x7f) => {
            script.u8();
            let message = authentication_message(script);
            let length = message.len() as u32 ^ u32::from(script.u8() == 0xff);
            let raw = match script.u8() & 3 {
                0 => command(6, 4096 >> (script.u8() % 10), &[]),
                _ => command(5, length, &message),
            };
            let raw = pdu(4, 0, &raw.0, &raw.1, digests);
            id.into_iter().for_each(|id| target.receive(id, &raw));
        }
        // A command of any opcode, with its data in the capsule or moved by PDUs.
        5..=7 => {
            let mut entry = [0; 64];
            entry[0] = script.u8();
            entry[2] = script.u8();
            entry[4] = script.u8() % 3;
            let length = (u32::from(script.u8() % 40) * 512).min(16 << 10);
            let in_capsule = script.u8() & 1 != 0;
            entry[32..36].copy_from_slice(&length.to_le_bytes());
            entry[39] = if in_capsule { 1 } else { 0x5a };
            entry[40..44].copy_from_slice(&(script.u32() % 4096).to_le_bytes());
            entry[44] = script.u8();
            let blocks = (length / 512).saturating_sub(1);
            entry[48..52].copy_from_slice(&blocks.to_le_bytes());
            let data = vec![script.u8(); if in_capsule { length as usize } else { 0 }];
            let raw = pdu(4, 0, &entry, &data, digests);
            id.into_iter().for_each(|id| target.receive(id, &raw));
        }
        // Data, which may have been asked for.
        8 => {
            let mut header = [0; 16];
            header[0] = script.u8();
            header[2] = script.u8() % 16;
            let at = u32::from(script.u8()) * 512;
            let length = u32::from(script.u8()) * 64;
            header[4..8].copy_from_slice(&at.to_le_bytes());
            header[8..12].copy_from_slice(&length.to_le_bytes());
            let data = vec![1; length as usize];
            let raw = pdu(6, script.u8() & 4, &header, &data, digests);
            id.into_iter().for_each(|id| target.receive(id, &raw));
        }
        9 => {
            while let Some(request) = target.pop_request() {
                held.push(request);
            }
            while let Some((power, computed)) =
                target.pop_power().map(|(id, power)| (id, power.compute()))
            {
                target.computed(power, computed);
            }
            while target.pop_refused().is_some() {}
            while let Some(vendor) = target.pop_vendor() {
                target.complete_vendor(vendor.tag, Ok(0), &vendor.command.data);
            }
        }
        10 if !held.is_empty() => {
            let request = held.swap_remove(which % held.len());
            finish(target, request);
        }
        11 => {
            *now += u64::from(script.u32()) * 16;
            target.set_time(*now);
        }
        12 => {
            for &id in ids.iter() {
                let sent = target.output(id).len();
                target.sent(id, sent);
            }
        }
        _ => {
            let id = id.filter(|id| target.wants_input(*id));
            let header = [script.u8(); 16];
            let raw = pdu(script.u8() % 10, script.u8(), &header, &[], digests);
            id.into_iter().for_each(|id| target.receive(id, &raw));
        }
    }
    ids.retain(|&id| {
        let ended = target.has_ended(id);
        if ended {
            target.close(id);
        }
        !ended
    });
}
