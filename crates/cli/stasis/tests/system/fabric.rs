//! A storage server and its clients on a modelled network: where the time of a read goes.

use std::collections::BTreeMap;

use crate::support::Bench;

/// The port of NVMe over TCP (NVMe/TCP Transport Specification 1.0, section 1.5).
const PORT: u16 = 4420;

/// Types of PDUs (the same, section 3.6.1).
const CAPSULE_COMMAND: u8 = 4;
const CAPSULE_RESPONSE: u8 = 5;

/// One direction of a connection.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Way {
    from: ([u8; 4], u16),
    to: ([u8; 4], u16),
}

/// A PDU, and when its first and last byte left the sender and reached the receiver, in ns.
struct Pdu {
    header: Vec<u8>,
    /// Time of the frame with the last byte.
    sent: u64,
    arrived: u64,
}

impl Pdu {
    /// A command's identifier; of a response that of the command which has ended.
    fn identifier(&self) -> u16 {
        let at = if self.header[0] == CAPSULE_COMMAND { 10 } else { 20 };
        u16::from_le_bytes([self.header[at], self.header[at + 1]])
    }
}

/// The bytes of one direction, and the end of each frame in them with its time.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    ends: Vec<(usize, u64)>,
}

/// The streams of a file as they left their senders, or as they arrived. No frame of them may be
/// lost or sent again.
fn streams(file: &[u8], inbound: bool) -> BTreeMap<Way, Stream> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut streams) = (0, BTreeMap::<Way, Stream>::new());
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        // An enhanced packet block (pcapng, section 4.3), whose flags are the last option but the end.
        if kind == 6 && (word(at + length - 12) == 1) == inbound {
            let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let frame = &file[at + 28..at + 28 + word(at + 20) as usize];
            if let Some((way, payload)) = segment(frame) {
                let stream = streams.entry(way).or_default();
                stream.bytes.extend(payload);
                stream.ends.push((stream.bytes.len(), time));
            }
        }
        at += length;
    }
    streams
}

/// Returns the direction of the TCP segment that a frame has, and its data, if it has any.
fn segment(frame: &[u8]) -> Option<(Way, &[u8])> {
    let short = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let address = |at: usize| frame[at..at + 4].try_into().unwrap();
    if short(12) != 0x800 || frame[23] != 6 {
        return None;
    }
    let tcp = 14 + usize::from(frame[14] & 15) * 4;
    let data = tcp + usize::from(frame[tcp + 12] >> 4) * 4;
    let way = Way { from: (address(26), short(tcp)), to: (address(30), short(tcp + 2)) };
    let payload = &frame[data..14 + usize::from(short(16))];
    (!payload.is_empty()).then_some((way, payload))
}

/// The PDUs of one way.
fn pdus(sent: &Stream, arrived: &Stream) -> Vec<Pdu> {
    assert!(sent.bytes == arrived.bytes, "the network changes nothing");
    let time = |stream: &Stream, end: usize| {
        let frame = stream.ends.partition_point(|(until, _)| *until < end);
        stream.ends.get(frame).map(|(_, time)| *time)
    };
    let (mut at, mut pdus) = (0, Vec::new());
    while at < sent.bytes.len() {
        let header = sent.bytes[at..at + usize::from(sent.bytes[at + 2])].to_vec();
        let end = at + u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
        let (Some(departed), Some(came)) = (time(sent, end), time(arrived, end)) else { break };
        pdus.push(Pdu { header, sent: departed, arrived: came });
        at = end;
    }
    pdus
}

/// The time of each read by fio's clock (ns), by the place that it read.
fn measured(log: &str) -> BTreeMap<u64, u64> {
    let row = |line: &str| {
        let words: Vec<u64> = line.split(", ").map(|word| word.trim().parse().unwrap()).collect();
        (words[4], words[1])
    };
    log.lines().map(row).collect()
}

/// Commands before and after fio in the example: the client's kernel traces when fio enters a read and
/// leaves it, by the processor's counter.
const BEFORE: &str =
    "t=/sys/kernel/tracing; mount -t tracefs none $t; echo x86-tsc > $t/trace_clock
echo 1 | tee $t/events/syscalls/sys_*_pread64/enable > /tmp/log\n";
const AFTER: &str = "; cp $t/trace /results/trace";

/// Ticks of a guest's counter in a virtual nanosecond, at the usual `cpu-speed`.
const TICKS: u64 = 5;

/// Returns the ticks at which the kernel has entered and left each read, by the place that it read.
fn traced(trace: &str) -> BTreeMap<u64, (u64, u64)> {
    let (mut calls, mut entered) = (BTreeMap::new(), None);
    for line in trace.lines() {
        let Some((head, call)) = line.split_once(": sys_pread64") else { continue };
        let time: u64 = head.rsplit(' ').next().unwrap().parse().unwrap();
        match (call.split_once("pos: "), entered.take()) {
            (Some((_, place)), _) => {
                let place = u64::from_str_radix(place.trim_end_matches(')'), 16).unwrap();
                entered = Some((place, time));
            }
            (None, Some((place, begun))) => drop(calls.insert(place, (begun, time))),
            (None, None) => {}
        }
    }
    calls
}

/// A duration; the first moment is not after the second.
fn from_to(begin: u64, end: u64) -> u64 {
    end.checked_sub(begin).expect("each step follows the one before")
}

/// Three clients of one modelled flash drive. Four records tell where a read's time goes: the client's
/// kernel when it has entered and left the read, the network when the frames have left and arrived,
/// the drive when it had the command and was done, and fio how long it took by its own clock.
#[test]
#[ignore = "takes minutes: make slow-test"]
fn clusters_with_a_storage_server_add_up_to_the_nanosecond() {
    let bench = Bench::new();
    let example = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/nvme-tcp.toml"
    ))
    .unwrap();
    assert!(example.lines().count() <= 25);
    let traced_too = example
        .replace("fio --name", &format!("{BEFORE}fio --name"))
        .replace("-m1 lat", &format!("-m1 lat{AFTER}"));
    assert_eq!(traced_too.len(), example.len() + BEFORE.len() + AFTER.len());
    std::fs::write(bench.path("nvme-tcp.toml"), traced_too).unwrap();
    bench.run(&["nvme-tcp.toml", "--engine=exact", "--results", "results"]).expect(0);

    let summary = bench.json("results/summary.json");
    for link in summary["networks"][0]["links"].as_array().unwrap() {
        assert_eq!((&link["max_error_ns"], &link["lost"]), (&0.into(), &0.into()), "{link}");
    }
    let ios = bench.text("results/ios.csv");
    let rows: Vec<Vec<&str>> = ios.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let columns = ["submit_ns", "target_ns", "delivered_ns"].map(column);
    let lba = column("lba");

    let file = std::fs::read(bench.path("results/san.pcapng")).unwrap();
    let (sent, arrived) = (streams(&file, false), streams(&file, true));
    let mut parts: [Vec<u64>; 5] = Default::default();
    let mut met_another = 0;
    for (way, out) in sent.iter().filter(|(way, _)| way.to.1 == PORT) {
        let back = Way { from: way.to, to: way.from };
        let commands = pdus(out, &arrived[way]);
        let responses = pdus(&sent[&back], &arrived[&back]);
        let results = format!("results/client{}", way.from.0[3] - 1);
        let calls = traced(&bench.text(&format!("{results}/trace")));
        for (place, latency) in measured(&bench.text(&format!("{results}/read_lat.1.log"))) {
            let block = place / 512;
            // A read's first block is its words 10 and 11 (NVM Command Set Specification 1.0).
            let reads_it = |pdu: &&Pdu| {
                pdu.header[0] == CAPSULE_COMMAND
                    && pdu.header[8] == 2
                    && pdu.header[48..56] == block.to_le_bytes()
            };
            // A client's administrative connection has no reads.
            let Some(command) = commands.iter().find(reads_it) else { break };
            let row = rows.iter().find(|row| row[lba] == block.to_string()).unwrap();
            let [begun, due, done] = columns.map(|column| row[column].parse::<u64>().unwrap());
            let ends = |pdu: &&Pdu| {
                pdu.header[0] == CAPSULE_RESPONSE
                    && pdu.identifier() == command.identifier()
                    && pdu.sent > done
            };
            let response = responses.iter().find(ends).unwrap();
            assert_eq!(due, done, "the drive's model says when it is done");

            let (entered, returned) = calls[&place];
            let client = from_to(entered, command.sent * TICKS)
                + from_to(response.arrived * TICKS, returned);
            let server = from_to(command.arrived, begun) + from_to(done, response.sent);
            let network = [command, response].map(|pdu| from_to(pdu.sent, pdu.arrived));
            // The delay, and at 3.125 bytes/ns the frame: 72 bytes of the command and 24 of the
            // response, with 66 of headers and 24 on the wire. Other frames can be ahead.
            assert!(network[0] >= 20_051 && network[1] >= 20_036, "{network:?}");
            met_another += u32::from(network[0] > 20_052);
            let network = network[0] + network[1];
            let drive = from_to(begun, done);
            // The rest of fio's own figure is its way from the clock to the call and back.
            let own = from_to(client + (network + server + drive) * TICKS, latency * TICKS);
            let ticks = [client, network * TICKS, server * TICKS, drive * TICKS, own];
            parts.iter_mut().zip(ticks).for_each(|(part, ticks)| part.push(ticks));
        }
    }
    let reads = parts[0].len();
    assert_eq!(reads, 600);
    let mean = |part: &[u64]| part.iter().sum::<u64>() / (TICKS * reads as u64);
    let [client, network, server, drive, _] = [0, 1, 2, 3, 4].map(|part| mean(&parts[part]));
    // fio's way is the same instructions each time, but where an interrupt comes.
    let own = &mut parts[4];
    own.sort_unstable();
    let usual = own[reads / 2];
    let same = own.iter().filter(|ticks| ticks.abs_diff(usual) <= 2 * TICKS).count();
    assert!(same * 100 >= reads * 95, "{same} of {reads}: {own:?}");
    assert!(usual < 1_000 * TICKS, "{usual}");
    println!(
        "{reads} reads, mean ns: client's kernel {client}, network {network}, server {server}, drive \
         {drive}; fio itself {}, the same within 2 ns in {same}; {met_another} commands met another \
         frame on the wire",
        usual / TICKS
    );
}
