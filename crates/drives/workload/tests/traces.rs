//! Traces of every format, from whole files to noise.

use proptest::prelude::*;
use stasis_block::{Command, Fate, Operation};
use stasis_workload::trace::{
    Format, LeftOut, Merged, Pace, Placed, Reader, Record, Replay, ReplayOptions,
};
use stasis_workload::{Io, TraceError, Workload};

const BLKPARSE: &str = "\
8,0 0 1 0.000001000 9 Q R 8 + 8 [x]
8,0 0 2 0.000002000 9 D R 8 + 8 [x]
8,0 0 3 0.000005000 9 C R 8 + 8 [0]
8,0 1 4 0.000004000 9 D WFS 16 + 16 [x]
8,0 1 5 0.000009000 9 D FN [x]
CPU0 (8,0):
 Reads Queued: 1
";

const MSR: &str = "\
128166372003061629,hm,1,Read,383496192,32768,413
128166372016382155,hm,1,Write,310983168,4096,1
128166372016382156,hm,1,write,0,0,1
";

const HEADER: &str = "drive,phase,operation,lba,bytes,queue,submit_ns,target_ns,delivered_ns,\
                      status,fua,stream,priority,source_lba,order";

fn records(text: &str, drive: Option<&str>) -> Result<Vec<Record>, TraceError> {
    let mut reader = Reader::new(text.as_bytes(), drive)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}

fn options() -> ReplayOptions {
    ReplayOptions {
        pace: Pace::Open(1.0),
        capacity: None,
        wrap: false,
        block_size: 512,
        path: 0,
        length: None,
    }
}

/// Submissions and their times, if everything completes after `latency`.
fn replayed(
    text: &str,
    options: ReplayOptions,
    latency: u64,
) -> Result<Vec<(u64, Command)>, String> {
    let reader = Reader::new(text.as_bytes(), None).map_err(|error| error.to_string())?;
    let mut replay = Replay::new(reader, options).map_err(|error| error.to_string())?;
    let (mut submissions, mut flying) = (Vec::new(), std::collections::VecDeque::new());
    loop {
        match (replay.next_at(), flying.front().copied()) {
            (None, None) => return Ok(submissions),
            (next, Some(end)) if next.is_none_or(|next| end <= next) => {
                flying.pop_front();
                let command = Command::flush();
                let io = Io { thread: 0, early: false, number: 0, command };
                replay.complete(end, &io, Fate::Done);
            }
            (next, _) => {
                let at = next.unwrap();
                if let Some(io) = replay.take().map_err(|error| error.to_string())? {
                    submissions.push((at, io.command));
                    flying.push_back(at + latency);
                }
            }
        }
    }
}

#[test]
fn blkparse_gives_what_was_issued() {
    let records = records(BLKPARSE, None).unwrap();
    let at: Vec<_> = records.iter().map(|r| (r.at, r.thread, r.line)).collect();
    assert_eq!(at, [(2000, 0, 2), (4000, 1, 4), (9000, 1, 5)]);
    assert_eq!(records[0].command, Command::new(Operation::Read, 4096, 4096));
    let write = Command { fua: true, ..Command::new(Operation::Write, 8192, 8192) };
    assert_eq!((records[1].command, records[2].command), (write, Command::flush()));
    // Without issues, the queued requests.
    let queued: String =
        BLKPARSE.lines().filter(|line| !line.contains(" D ")).map(|l| format!("{l}\n")).collect();
    assert_eq!(self::records(&queued, None).unwrap()[0].at, 1000);
}

#[test]
fn msr_counts_ticks_from_the_first() {
    let records = records(MSR, None).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].at, records[1].at), (0, 1_332_052_600));
    assert_eq!(records[1].command, Command::new(Operation::Write, 310_983_168, 4096));
    assert_eq!(Reader::new(MSR.as_bytes(), None).unwrap().format(), Format::Msr);
}

#[test]
fn clouds_traces_have_their_own_units() {
    // Alibaba: microseconds and bytes.
    let text = "device_id,opcode,offset,length,timestamp\n\
                419,W,8792731648,16384,1577808144360767\n\
                725,R,4096,512,1577808144360768\n\
                419,R,0,0,1577808144360769\n\
                419,R,512,512,1577808144361767\n";
    let mut reader = Reader::new(text.as_bytes(), Some("419")).unwrap();
    assert_eq!(reader.format(), Format::Alibaba);
    let first = reader.next_record().unwrap().unwrap();
    assert_eq!((first.at, first.line), (0, 2));
    assert_eq!(first.command, Command::new(Operation::Write, 8_792_731_648, 16384));
    let second = reader.next_record().unwrap().unwrap();
    assert_eq!((second.at, second.command), (1_000_000, Command::new(Operation::Read, 512, 512)));
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(reader.left_out(), LeftOut { other_drives: 1, empty: 1, ..LeftOut::default() });
    // Tencent: sectors, and seconds, over which I/Os are spread.
    let text = "1538323200,12910952,128,0,1063\n1538323200,8,8,1,1063\n1538323200,0,8,0,1071\n\
                1538323200,16,8,1,1063\n1538323200,24,8,1,1063\n1538323202,32,8,0,1063\n";
    let reader = Reader::new(text.as_bytes(), Some("1063")).unwrap();
    assert_eq!(reader.format(), Format::Tencent);
    let records = records(text, Some("1063")).unwrap();
    let at: Vec<_> = records.iter().map(|record| record.at / 1_000_000).collect();
    assert_eq!(at, [0, 250, 500, 750, 2000]);
    assert_eq!(records[0].command, Command::new(Operation::Read, 12_910_952 * 512, 65536));
    let error = self::records(text, None).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("--trace-drive 1063"), "{error}");
}

/// Categories and actions of blktrace's events (linux/blktrace_api.h).
const READ: u32 = 1;
const WRITE: u32 = 2;
const FLUSH: u32 = 4;
const NOTIFY: u32 = 1 << 10;
const PASSTHROUGH: u32 = 1 << 9;
const FUA: u32 = 1 << 15;
const QUEUE: u32 = 1;
const ISSUE: u32 = 7;

/// An event of blktrace's, with `data` bytes behind it.
fn event(
    big: bool,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    cpu: u32,
    data: u16,
) -> Vec<u8> {
    let (magic, device) = (0x6561_7407_u32, 8_u32 << 20 | 16);
    let mut out = Vec::new();
    let mut put = |bytes: &[u8]| {
        // Given little-endian.
        match big {
            true => out.extend(bytes.iter().rev()),
            false => out.extend(bytes),
        }
    };
    put(&magic.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&time.to_le_bytes());
    put(&sector.to_le_bytes());
    put(&bytes.to_le_bytes());
    put(&action.to_le_bytes());
    put(&77_u32.to_le_bytes());
    put(&device.to_le_bytes());
    put(&cpu.to_le_bytes());
    put(&0_u16.to_le_bytes());
    put(&data.to_le_bytes());
    out.extend(std::iter::repeat_n(b'd', data.into()));
    out
}

/// A trace of a processor: a message, then queued and issued requests.
fn events(big: bool, cpu: u32) -> Vec<u8> {
    let cgroup = 1 << 8;
    [
        event(big, 1, 0, 0, 2 | NOTIFY << 16, cpu, 11),
        event(big, 900 + u64::from(cpu), 8, 4096, QUEUE | READ << 16, cpu, 0),
        event(big, 1000 + u64::from(cpu), 8, 4096, ISSUE | cgroup | READ << 16, cpu, 8),
        event(big, 2000 + u64::from(cpu), 64, 512, ISSUE | (WRITE | FUA) << 16, cpu, 0),
        event(big, 2500 + u64::from(cpu), 0, 36, ISSUE | (READ | PASSTHROUGH) << 16, cpu, 16),
        event(big, 3000 + u64::from(cpu), 0, 0, ISSUE | (FLUSH | WRITE) << 16, cpu, 0),
    ]
    .concat()
}

#[test]
fn blktraces_events_are_read_in_either_byte_order() {
    for big in [false, true] {
        let bytes = events(big, 3);
        let mut reader = Reader::new(bytes.as_slice(), Some("8,16")).unwrap();
        assert_eq!(reader.format(), Format::Blktrace);
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            records.push((record.at, record.thread, record.command));
        }
        let write = Command { fua: true, ..Command::new(Operation::Write, 64 * 512, 512) };
        let read = Command::new(Operation::Read, 4096, 4096);
        assert_eq!(records, [(1003, 3, read), (2003, 3, write), (3003, 3, Command::flush())]);
        assert_eq!(reader.left_out(), LeftOut { operations: 1, ..LeftOut::default() });
        assert_eq!(reader.bytes(), bytes.len() as u64);
        let error = Reader::new(bytes.as_slice(), Some("sda")).unwrap_err().to_string();
        assert!(error.contains("`sda`"), "{error}");
        let mut other = Reader::new(bytes.as_slice(), Some("8,0")).unwrap();
        assert!(other.next_record().unwrap_err().to_string().contains("of drive `8,0`"));
    }
    // Queued requests, where nothing was issued.
    let queued = event(false, 5, 8, 512, QUEUE | WRITE << 16, 0, 0);
    let mut reader = Reader::new(queued.as_slice(), None).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().at, 5);
}

#[test]
fn processors_files_are_one_trace() {
    let queued = event(false, 950, 8, 512, QUEUE | WRITE << 16, 2, 0);
    let files = [events(false, 0), Vec::new(), queued, events(false, 1)];
    let files = files.iter().enumerate().map(|(cpu, file)| (format!("sda.{cpu}"), file.as_slice()));
    let mut trace = Merged::new(files, None).unwrap();
    let mut at = Vec::new();
    while let Some(record) = trace.next_record().unwrap() {
        at.push(record.at);
    }
    // Each I/O once: one processor queued it, another issued it.
    assert_eq!(at, [1000, 1001, 2000, 2001, 3000, 3001]);
    assert_eq!(trace.left_out().operations, 2);
    let cut = events(false, 1);
    let files = [("sda.0", events(false, 0)), ("sda.1", cut[..cut.len() - 7].to_vec())];
    let files = files.iter().map(|(name, file)| ((*name).to_owned(), file.as_slice()));
    let mut trace = Merged::new(files, None).unwrap();
    let error = loop {
        match trace.next_record() {
            Ok(record) => assert!(record.is_some()),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("sda.1: byte 275: the file ends within an event"), "{error}");
    let none = Merged::new([("a".to_owned(), &b""[..])], None);
    assert!(none.unwrap_err().to_string().contains("no I/O"));
}

#[test]
fn events_that_are_none_are_told_by_their_place() {
    let good = event(false, 5, 8, 512, ISSUE | WRITE << 16, 0, 3);
    let fails = |bytes: &[u8], expected: &str| {
        let mut reader = Reader::new(bytes, None).unwrap();
        let error = std::iter::from_fn(|| Some(reader.next_record())).take(9).find_map(Result::err);
        let error = error.unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    fails(&[&good[..], &[0; 48]].concat(), "byte 51: no event of blktrace begins here");
    fails(&good[..50], "byte 0: the file ends within an event's data");
    let mut old = good.clone();
    old[0] = 6;
    fails(&old, "byte 0: the event is of version 6");
    let far = event(false, 5, u64::MAX, 512, ISSUE | WRITE << 16, 0, 0);
    fails(&far, "byte 0: the sector");
    let mut other = event(false, 6, 8, 512, ISSUE | WRITE << 16, 0, 0);
    other[36] = 17;
    fails(&[&good[..], &other].concat(), "byte 51: the trace is of drive `8,17` too");
}

#[test]
fn what_was_changed_and_left_out_is_counted() {
    let text = "7,R,0,512,0\n7,W,1048576,4096,10\n8,R,0,512,11\n7,R,100,4096,9\n7,W,5,0,12\n";
    let reader = Reader::new(text.as_bytes(), Some("7")).unwrap();
    let small = ReplayOptions { capacity: Some(1 << 20), wrap: true, ..options() };
    let mut replay = Replay::new(reader, small).unwrap();
    let mut taken = 0;
    while replay.next_at().is_some() {
        taken += u64::from(replay.take().unwrap().is_some());
    }
    let placed = Placed { submitted: 3, folded: 1, widened: 1, backwards: 1, late: 0 };
    assert_eq!((taken, replay.placed()), (3, placed));
    assert_eq!(replay.left_out(), LeftOut { other_drives: 1, empty: 1, ..LeftOut::default() });
}

#[test]
fn ios_come_in_the_order_of_submission() {
    let text = format!(
        "{HEADER}\n\"a,\"\"b\",boot,read,8,4096,1,50,90,90,ok,0,0,0,0,0\n\
         \"a,\"\"b\",command,flush,0,0,1,70,80,80,ok,0,0,0,0,2\n\
         \"a,\"\"b\",command,write,8,512,2,60,85,85,ok,1,3,7,0,1\n\
         \"a,\"\"b\",command,copy,8,512,2,95,99,99,ok,0,0,0,64,4\n"
    );
    let records = records(&text, Some("a,\"b")).unwrap();
    let orders: Vec<_> = records.iter().map(|record| record.order).collect();
    assert_eq!(orders, [0, 1, 2, 4]);
    assert!(records[0].early && !records[1].early);
    let write = records[1].command;
    assert_eq!((write.fua, write.stream, write.priority, records[1].thread), (true, 3, 7, 2));
    assert_eq!(records[3].command.source, 64 * 512);
    // The boot is left out, and times begin with the command.
    let submissions = replayed(&text, options(), 5).unwrap();
    assert_eq!(submissions.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 10, 35]);
    let submissions = replayed(&text, ReplayOptions { pace: Pace::Exact, ..options() }, 5).unwrap();
    assert_eq!(submissions.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [50, 60, 70, 95]);
}

#[test]
fn traces_of_several_drives_need_a_choice() {
    let two = format!("{BLKPARSE}8,16 0 6 0.000010000 9 D R 0 + 8 [x]\n");
    let error = records(&two, None).unwrap_err().to_string();
    assert!(error.contains("line 8") && error.contains("--trace-drive 8,0"), "{error}");
    assert_eq!(records(&two, Some("8,16")).unwrap().len(), 1);
    assert!(records(&two, Some("8,32")).unwrap_err().to_string().contains("of drive `8,32`"));
    let two = format!("{MSR}128166372016382157,hm,0,Read,0,512,1\n");
    assert!(records(&two, None).unwrap_err().to_string().contains("`hm.0`"));
    assert_eq!(records(&two, Some("hm.0")).unwrap().len(), 1);
}

#[test]
fn what_no_drive_was_asked_is_not_replayed() {
    let rows = "a,command,write,8,512,1,5,9,9,ok,0,0,0,0,0,0x0\n\
                a,command,write,0,512,1,6,6,6,refused,0,0,0,0,1,0x1bc\n\
                a,command,read,8,512,1,7,9,9,error,0,0,0,0,1,0x281\n";
    let records = records(&format!("{HEADER},code\n{rows}"), None).unwrap();
    assert_eq!(records.iter().map(|record| record.at).collect::<Vec<_>>(), [5, 7]);
}

#[test]
fn errors_name_the_line() {
    for (text, expected) in [
        ("", "no I/O"),
        ("hello\n", "no trace"),
        ("8,0 0 1 0.000001000 9 D R 8 + 8 [x]\n8,0 0 1 0.1 9 D R\n", "line 2: the time"),
        ("1,h,0,Read,0,512,1\n1,h,0,Raed,0,512,1\n", "line 2: the type `Raed`"),
        ("1,h,0,Read,0,512,1\n1,h,0,Read,x,512,1\n", "line 2: the field Offset"),
        ("drive,phase,operation,lba\nx\n", "line 1: the column"),
        ("1,R,0,512,5\n1,R,0,512\n", "line 2: it must have five fields"),
        ("1,R,0,512,5\n1,T,0,512,6\n", "line 2: the opcode `T`"),
        ("1,R,0,512,5\n1,R,0,512,6,7\n", "line 2: it must have five fields"),
        ("9,0,8,0,1\n9,0,8,2,1\n", "line 2: the IOType `2`"),
        ("9,0,8,0,1\n9,18446744073709551615,8,0,1\n", "line 2: the field Offset is too large"),
    ] {
        let error = records(text, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = records(&format!("{HEADER}\na,command,raed,0,0,0,0,0,0,ok,0,0,0,0,0\n"), None);
    assert!(error.unwrap_err().to_string().contains("line 2: the operation `raed`"));
    let long = format!("{BLKPARSE}{}\n", "x".repeat(100_000));
    assert!(records(&long, None).unwrap_err().to_string().contains("longer than"));
}

#[test]
fn times_are_stretched_or_left() {
    let at = |pace, latency| {
        let submissions = replayed(BLKPARSE, ReplayOptions { pace, ..options() }, latency).unwrap();
        submissions.into_iter().map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(at(Pace::Open(1.0), 5), [0, 2000, 7000]);
    assert_eq!(at(Pace::Open(0.5), 5), [0, 1000, 3500]);
    assert_eq!(at(Pace::Closed(1), 100), [0, 100, 200]);
    assert_eq!(at(Pace::Closed(2), 100), [0, 0, 100]);
}

#[test]
fn offsets_are_refused_wrapped_or_widened() {
    let line =
        |sector: u64, sectors: u64| format!("8,0 0 1 0.000001000 9 D R {sector} + {sectors} [x]\n");
    let capacity = Some(1 << 20);
    let small = ReplayOptions { capacity, ..options() };
    let error = replayed(&line(2047, 2), small, 1).unwrap_err();
    assert!(error.contains("line 1") && error.contains("--wrap"), "{error}");
    let wrapped = ReplayOptions { wrap: true, ..small };
    for (sector, expected) in [(2047, 0), (2048 + 6, 3072), (2046, 2046 * 512)] {
        assert_eq!(replayed(&line(sector, 2), wrapped, 1).unwrap()[0].1.offset, expected);
    }
    assert!(replayed(&line(0, 4096), wrapped, 1).is_err());
    let coarse = ReplayOptions { block_size: 4096, ..small };
    let command = replayed(&line(7, 2), coarse, 1).unwrap()[0].1;
    assert_eq!((command.offset, command.length), (0, 8192));
    let far = line(u64::MAX / 512, 8);
    assert!(replayed(&far, options(), 1).is_err());
}

#[test]
fn an_io_that_never_completed_does_not_hold_up_the_rest() {
    let mut text = format!("{HEADER}\n");
    for order in (0..1000).filter(|order| order % 100 != 5) {
        text.push_str(&format!("d,command,read,0,512,1,{order},0,0,ok,0,0,0,0,{order}\n"));
    }
    let records = records(&text, None).unwrap();
    assert_eq!(records.len(), 990);
    assert!(records.windows(2).all(|pair| pair[0].order < pair[1].order));
}

proptest! {
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0usize..4) {
        let start = [BLKPARSE, MSR, HEADER, ""][start];
        let mut input = start.as_bytes().to_vec();
        input.extend(&bytes);
        if let Ok(mut reader) = Reader::new(input.as_slice(), None) {
            while let Ok(Some(_)) = reader.next_record() {}
        }
    }

    #[test]
    fn events_that_are_almost_right_never_panic(
        changes in prop::collection::vec((0usize..320, any::<u8>()), 0..8),
        length in 0usize..330,
        big: bool,
    ) {
        let mut bytes = events(big, 1);
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(length);
        if let Ok(reader) = Reader::new(bytes.as_slice(), None) {
            if let Ok(mut replay) = Replay::new(reader, options()) {
                while replay.next_at().is_some() && replay.take().is_ok() {}
            }
        }
    }

    #[test]
    fn lines_that_are_almost_right_never_panic(
        lines in prop::collection::vec("[0-9]{1,22},[a-z]{0,3},[0-9]?,(Read|Write|x),[0-9]{0,22},[0-9]{0,22},1", 0..5),
        clouds in prop::collection::vec("[0-9]{1,22},[RW01x]{0,2},[0-9]{0,22},[0-9]{0,21},[01]", 0..5),
        rows in prop::collection::vec("d,(boot|command),(read|flush|copy)(,[0-9]{0,21}){6},ok(,[0-9]{0,20}){5}", 0..5),
        capacity in prop::option::of(0u64..1 << 40),
        wrap: bool,
        depth in 1u32..4,
    ) {
        let texts = [lines.join("\n"), clouds.join("\n"), format!("{HEADER}\n{}", rows.join("\n"))];
        for text in texts {
            for pace in [Pace::Open(1.5), Pace::Exact, Pace::Closed(depth)] {
                let _ = replayed(&text, ReplayOptions { pace, capacity, wrap, ..options() }, 10);
            }
        }
    }
}
