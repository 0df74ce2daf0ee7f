//! Traces of every format, from whole files to noise.

use proptest::prelude::*;
use stasis_block::{Command, Operation};
use stasis_workload::trace::{Format, Pace, Reader, Record, Replay, ReplayOptions};
use stasis_workload::{TraceError, Workload};

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

/// What is submitted when, if everything completes after `latency`.
fn replayed(
    text: &str,
    options: ReplayOptions,
    latency: u64,
) -> Result<Vec<(u64, Command)>, String> {
    let reader = Reader::new(text.as_bytes(), None).map_err(|error| error.to_string())?;
    let mut replay = Replay::new(reader, options).map_err(|error| error.to_string())?;
    let (mut seen, mut flying) = (Vec::new(), std::collections::VecDeque::new());
    loop {
        match (replay.next_at(), flying.front().copied()) {
            (None, None) => return Ok(seen),
            (next, Some(end)) if next.is_none_or(|next| end <= next) => {
                flying.pop_front();
                replay.complete(end, 0);
            }
            (next, _) => {
                let at = next.unwrap();
                if let Some(io) = replay.take().map_err(|error| error.to_string())? {
                    seen.push((at, io.command));
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
    // Without issues, what was queued.
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
    let seen = replayed(&text, options(), 5).unwrap();
    assert_eq!(seen.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 10, 35]);
    let seen = replayed(&text, ReplayOptions { pace: Pace::Exact, ..options() }, 5).unwrap();
    assert_eq!(seen.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [50, 60, 70, 95]);
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
        let seen = replayed(BLKPARSE, ReplayOptions { pace, ..options() }, latency).unwrap();
        seen.into_iter().map(|(at, _)| at).collect::<Vec<_>>()
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
    fn lines_that_are_almost_right_never_panic(
        lines in prop::collection::vec("[0-9]{1,22},[a-z]{0,3},[0-9]?,(Read|Write|x),[0-9]{0,22},[0-9]{0,22},1", 0..5),
        rows in prop::collection::vec("d,(boot|command),(read|flush|copy)(,[0-9]{0,21}){6},ok(,[0-9]{0,20}){5}", 0..5),
        capacity in prop::option::of(0u64..1 << 40),
        wrap: bool,
        depth in 1u32..4,
    ) {
        let texts = [lines.join("\n"), format!("{HEADER}\n{}", rows.join("\n"))];
        for text in texts {
            for pace in [Pace::Open(1.5), Pace::Exact, Pace::Closed(depth)] {
                let _ = replayed(&text, ReplayOptions { pace, capacity, wrap, ..options() }, 10);
            }
        }
    }
}
