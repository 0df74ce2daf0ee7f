//! Job files mean the same here as in the installed fio: its options each have a verdict, and a
//! battery of them makes the same I/Os.
//!
//! Two loads agree where their I/Os are equal in order, places and lengths. Random ones are of
//! other random numbers: they agree in the properties that the numbers must not change, named by
//! each case.

// The peer is a program.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use stasis_workload::fio;

use common::Agree::{
    AsSet, Exactly, InNumber, InShares, InSpread, InSteps, Pairs, ReadAgain, Renamed,
};
use common::{differ, fio, here, in_fio, in_fio_on_files, section, Access, Agree};

/// The battery: options of a job, one after the other.
const CASES: &[(&str, Agree)] = &[
    // Sizes, their units, and comments.
    ("rw=read size=64k", Exactly),
    ("rw=write size=64k", Exactly),
    ("rw=read size=64Ki", Exactly),
    ("rw=read size=1Mi bs=4ki", Exactly),
    ("rw=read size=100KiB bs=1000", Exactly),
    ("rw=read size=0x10000", Exactly),
    ("rw=read size=64k;comment", Exactly),
    ("rw=read bs=4k\t#comment size=64k", Exactly),
    ("rw=read size=8MiB bs=1024KiB kb_base=1000", Exactly),
    ("rw=read kb_base=1000 size=100k bs=1k", Exactly),
    ("rw=read bs=64kb size=1mb", Exactly),
    ("rw=read size=1%", Exactly),
    ("rw=read size=1m io_size=50%", Exactly),
    ("rw=read size=1m io_limit=256k", Exactly),
    ("rw=read size=256k io_size=1m", Exactly),
    ("rw=write size=256k io_size=1m", Exactly),
    ("rw=write size=256k io_size=1000k", Exactly),
    ("rw=randwrite norandommap size=4m filesize=1m", InNumber),
    ("rw=randwrite norandommap filesize=1m size=4m", InNumber),
    ("rw=write filesize=1m size=256k bs=64k", Exactly),
    ("rw=write filesize=1m offset=256k bs=64k", Exactly),
    ("rw=read size=100k bs=8k", Exactly),
    ("rw=read offset=1m size=64k", Exactly),
    ("rw=read fileoffset=1m size=64k", Exactly),
    ("rw=read offset=50% size=1m bs=64k", Exactly),
    ("rw=read offset=33% size=1m bs=64k", Exactly),
    ("rw=read offset=33% offset_align=1m size=1m bs=64k", Exactly),
    ("rw=read offset=75% size=50% bs=1m", Exactly),
    ("rw=read size=64k loops=3", Exactly),
    ("rw=read size=64k loops=0", Exactly),
    ("rw=read size=64k loops=2 io_size=32k", Exactly),
    ("rw=read size=1m number_ios=10", Exactly),
    ("rw=read size=64k number_ios=10 loops=3", Exactly),
    ("rw=read size=64k number_ios=100", Exactly),
    ("rw=read size=1m number_ios=1k", Exactly),
    // Block sizes.
    ("rw=write size=64k bs=,8k", Exactly),
    ("rw=read blocksize=16k,4k size=64k", Exactly),
    ("rw=read bs=3k size=64k", Exactly),
    ("rw=read bssplit=4k/60:16k/40 size=16m", InShares),
    ("rw=read bssplit=4k/60:16k size=16m", InShares),
    ("rw=read bssplit=4k:8k:16k/20 size=16m", InShares),
    ("rw=write bssplit=4k/100,8k/50:32k/50 size=16m", InShares),
    ("rw=read bssplit=4k/50:6k/50 size=4m", InShares),
    ("rw=read bs=64k bssplit=4k/50:16k/50 size=8m", InShares),
    ("rw=read bsrange=4k-16k size=16m", InShares),
    ("rw=read bsrange=16k-4k size=16m", InShares),
    ("rw=read blocksize_range=4k:64k size=32m", InShares),
    ("rw=randread bs=4k,16k bs_is_seq_rand=1 percentage_random=50 norandommap size=4m", InShares),
    // Directions.
    ("readwrite=rw size=8m", InShares),
    ("rw=readwrite rwmixread=90 size=8m", InShares),
    ("rw=randrw rwmixwrite=90 size=8m", InShares),
    ("rw=rw rwmixread=0 size=256k", Exactly),
    ("rw=randrw rwmixread=100 size=256k", AsSet),
    // Sequential I/O with holes and backwards.
    ("rw=read:4k size=256k", Exactly),
    ("rw=write:12k size=256k", Exactly),
    ("rw=read:-8k size=256k", Exactly),
    ("rw=read:-8k offset=1m size=256k", Exactly),
    ("rw=read:8k offset=1m size=256k loops=2", Exactly),
    ("rw=randread:8 size=1m number_ios=24", InSteps),
    ("rw=randread:8 rw_sequencer=identical norandommap size=1m number_ios=24", InSteps),
    // Random offsets.
    ("rw=randread size=1m", AsSet),
    ("rw=randwrite size=1m bs=16k offset=2m", AsSet),
    ("rw=randread size=1m random_generator=lfsr", AsSet),
    ("rw=randread size=1m random_generator=tausworthe64", AsSet),
    ("rw=randread size=1m random_generator=lfsr norandommap", AsSet),
    ("rw=randread size=1m softrandommap=1", AsSet),
    ("rw=randread size=1m norandommap", InNumber),
    ("rw=randread size=1m norandommap=0", AsSet),
    ("rw=randread size=1m io_size=4m", AsSet),
    ("rw=randwrite size=1m io_size=4m norandommap", InNumber),
    ("rw=randread size=1m loops=3", AsSet),
    ("rw=randread size=1m ba=512 norandommap", InNumber),
    ("rw=randread size=1m bs=16k blockalign=4k", InNumber),
    ("rw=randread size=16m bssplit=4k/50:16k/50", InShares),
    ("rw=randread size=16m bsrange=4k-16k norandommap", InShares),
    ("rw=randread size=4m random_distribution=zipf", InNumber),
    ("rw=randread size=4m random_distribution=zipf:0.8", InNumber),
    ("rw=randread size=4m random_distribution=pareto:0.3", InNumber),
    ("rw=randread size=4m random_distribution=normal:20", InNumber),
    ("rw=randread size=4m random_distribution=zoned:60/10:40/90", InNumber),
    ("rw=randread size=4m random_distribution=zoned:50/5:30/15:20/", InNumber),
    ("rw=randread size=4m random_distribution=zoned_abs:60/1m:40/3m", InNumber),
    ("rw=randread size=8m percentage_random=30 norandommap", InNumber),
    // Flushes.
    ("rw=write size=64k fsync=4", Exactly),
    ("rw=write size=64k fdatasync=3", Exactly),
    ("rw=write size=64k fsync=4 fdatasync=3", Exactly),
    ("rw=write size=64k end_fsync=1", Exactly),
    ("rw=write size=64k end_fsync=1 loops=2", Exactly),
    ("rw=write size=64k fsync=16 end_fsync=1", Exactly),
    ("rw=write size=64k fsync_on_close=1", Exactly),
    ("rw=read size=64k fsync=4 end_fsync=1", Exactly),
    // Batches.
    ("rw=read size=1m ioengine=libaio iodepth=16 iodepth_batch=4", Exactly),
    ("rw=read size=1m ioengine=libaio iodepth=16 iodepth_batch_submit=0 iodepth_low=4", Exactly),
    (
        "rw=write size=1m ioengine=libaio iodepth=16 iodepth_batch=8 iodepth_batch_complete=4 \
         iodepth_batch_complete_max=8",
        Exactly,
    ),
    ("rw=write size=256k ioengine=libaio iodepth=8 iodepth_batch_complete_min=0", Exactly),
    // Written data is read again.
    ("rw=write size=256k verify=crc32c", Exactly),
    ("rw=write size=256k bs=16k verify=md5 loops=2", Exactly),
    ("rw=write size=256k bs=16k verify=md5 end_fsync=1", Exactly),
    ("rw=write size=256k verify=md5 verify_backlog=8", Exactly),
    ("rw=write size=256k verify=md5 verify_backlog=8 verify_backlog_batch=3", Exactly),
    ("rw=write size=256k verify=md5 verify_backlog=7 verify_backlog_batch=20", Exactly),
    ("rw=write size=256k verify=md5 number_ios=20", Exactly),
    ("rw=write size=256k verify=md5 number_ios=20 verify_backlog=6", Exactly),
    ("rw=write size=256k io_size=1m verify=md5", Exactly),
    ("rw=write size=256k verify=md5 ioengine=libaio iodepth=4", Exactly),
    ("rw=randwrite size=256k verify=md5", Renamed),
    ("rw=randwrite size=256k verify=md5 norandommap", ReadAgain),
    ("rw=randwrite size=256k verify=md5 verify_backlog=8", Renamed),
    ("rw=read size=256k verify=null", Exactly),
    ("rw=rw size=8m verify=md5", ReadAgain),
    ("rw=write size=256k verify=null verify_only", Exactly),
    ("rw=randwrite size=256k verify=null verify_only", AsSet),
    // Zones.
    (
        "rw=read size=1m zonemode=strided zonesize=64k zonerange=256k zoneskip=64k io_size=1m",
        Exactly,
    ),
    ("rw=read size=1m zonemode=strided zonesize=64k", Exactly),
    ("rw=write size=1m zonemode=strided zonesize=256k zonerange=64k zoneskip=1m", Exactly),
    ("rw=randread size=1m zonemode=strided zonesize=64k zonerange=256k zoneskip=1m", InNumber),
    ("rw=read size=1m zonemode=strided zonesize=64k zonerange=256k zoneskip=16m offset=1m loops=2", Exactly),
    ("rw=read size=1m zonemode=none", Exactly),
    // Each block trimmed, then written.
    ("rw=trimwrite size=256k ioengine=null", Exactly),
    ("rw=trimwrite size=256k number_ios=10 ioengine=null", Exactly),
    ("rw=trimwrite size=256k bs=4k,4k,8k ioengine=null", Exactly),
    ("rw=randtrimwrite size=256k ioengine=null", Renamed),
    // Engines, and options that change nothing.
    ("rw=write size=256k ioengine=libaio iodepth=8", Exactly),
    ("rw=read size=256k ioengine=sync", Exactly),
    ("rw=randread size=256k ioengine=vsync iodepth=4", AsSet),
    ("rw=read size=256k verify=0 verify_dump=1", Exactly),
    ("rw=write size=256k verify=md5 do_verify=0", Exactly),
    ("rw=read size=64k thinktime=100 thinktime_blocks=4", Exactly),
    ("rw=read size=64k rate_iops=1000", Exactly),
    ("rw=read size=64k rate=4m", Exactly),
    ("rw=read size=64k rate_iops=1000 rate_process=poisson", Exactly),
    ("rw=read size=64k nice=3 thread randrepeat=0 clocksource=clock_gettime", Exactly),
    ("rw=write size=64k refill_buffers scramble_buffers=0 buffer_compress_percentage=50", Exactly),
    ("rw=write size=64k invalidate=0 overwrite=1 fallocate=none", Exactly),
    ("rw=read size=64k mem=mmap iomem_align=4096 ioengine=libaio userspace_reap", Exactly),
    ("rw=read size=64k group_reporting log_avg_msec=10 gtod_reduce=1", Exactly),
    // New ones stand here: fio's random numbers follow from a job's place in the file, and with some a
    // random job ends early, at the end of its region.
    ("rw=write bssplit=4k/100,,8k/100 size=1m", Exactly),
    ("rw=read bssplit=4k/40:8k/30:16k/20 size=16m", InShares),
    ("rw=read bssplit=4k/80:8k/50: size=16m", InShares),
    ("rw=read bssplit=4k:8k:16k size=16m", InShares),
    ("rw=read bssplit=4k/0:16k/60 size=16m", InShares),
    ("rw=read bssplit=4k/0:16k/100 size=1m", Exactly),
    ("rw=trimwrite size=1m bsrange=512-4k ioengine=null", Pairs),
    ("rw=trimwrite size=1m bssplit=512/25:1k/:2k/:4k/ ioengine=null", Pairs),
    ("rw=randtrimwrite size=1m bsrange=512-4k ioengine=null", Pairs),
    ("rw=read size=64k time_based", Exactly),
    ("rw=read size=100% size=64k", Exactly),
    ("rw=read size=64k size=1%", Exactly),
    // Some of a number of blocks that is no power of two are met by no rank.
    ("rw=randread size=4000k io_size=64m random_distribution=zipf:0.8", InSpread),
    ("rw=randread size=4000k io_size=64m random_distribution=zipf:1.2", InSpread),
    ("rw=randread size=4000k io_size=64m random_distribution=pareto:0.3", InSpread),
    ("rw=randread size=4000k io_size=64m random_distribution=normal", InSpread),
    ("rw=randread size=4000k io_size=64m random_distribution=normal:20", InSpread),
    ("rw=randread size=4096k io_size=64m random_distribution=zipf:1.2", InSpread),
    ("rw=randread size=4096k io_size=64m random_distribution=normal:20", InSpread),
];

#[test]
fn options_make_the_same_ios() {
    // Each has a drive of its own.
    let name = |index: usize| format!("case{index:03}");
    let job = |index: usize, options: &str| {
        section(&name(index), &format!("{options} filename={}.drive direct=0", name(index)))
    };
    let text: String =
        CASES.iter().enumerate().map(|(index, (options, _))| job(index, options)).collect();
    let theirs = in_fio(&text);
    let mut wrong = Vec::new();
    for (index, (options, agree)) in CASES.iter().enumerate() {
        let difference = match here(&job(index, options), 10_000) {
            Err(error) => Some(error),
            Ok(ours) => {
                let name = name(index);
                differ(&theirs[&name], ours.get(&name).map_or(&[], Vec::as_slice), *agree)
            }
        };
        wrong.extend(difference.map(|difference| format!("== {options}\n{difference}")));
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

/// Files lie one behind the other, each of which has room for the largest, at multiples of 64 KiB.
#[test]
fn several_files_are_served_alike() {
    let mut wrong = Vec::new();
    for (options, largest, agree) in [
        ("rw=read size=1m nrfiles=4", 260 << 10, Exactly),
        ("rw=write size=1000k nrfiles=3 bs=16k end_fsync=1", 350 << 10, Exactly),
        ("rw=read size=1m nrfiles=4 file_service_type=sequential", 260 << 10, Exactly),
        ("rw=read size=1m nrfiles=4 file_service_type=roundrobin:3", 260 << 10, Exactly),
        ("rw=write size=1m nrfiles=4 file_service_type=sequential openfiles=1", 260 << 10, Exactly),
        ("rw=read size=1m nrfiles=4 openfiles=2", 260 << 10, Exactly),
        ("rw=write filesize=128k nrfiles=5", 128 << 10, Exactly),
        ("rw=write filesize=128k nrfiles=5 size=256k", 128 << 10, Exactly),
        ("rw=write filesize=128k nrfiles=5 io_size=1m", 128 << 10, Exactly),
        ("rw=write size=1m nrfiles=4 loops=2 fsync=5", 260 << 10, Exactly),
        ("rw=read size=512k nrfiles=4 offset=64k", 196 << 10, Exactly),
        ("rw=write size=512k nrfiles=4 verify=md5", 132 << 10, Exactly),
        ("rw=randread size=512k nrfiles=4", 132 << 10, AsSet),
        ("rw=randwrite size=512k nrfiles=4 norandommap", 132 << 10, InNumber),
        ("rw=write size=1m nrfiles=8 file_service_type=random", 132 << 10, AsSet),
        ("rw=write size=1m nrfiles=8 file_service_type=random:4", 132 << 10, AsSet),
        ("rw=randread size=512k nrfiles=4 file_service_type=zipf:1.2", 132 << 10, InNumber),
        ("rw=randread size=512k nrfiles=4 file_service_type=gauss:10", 132 << 10, InNumber),
        ("rw=write filesize=64k-128k nrfiles=64", 128 << 10, InShares),
    ] {
        let text = section("s", options);
        let theirs = in_fio_on_files(&text, u64::next_multiple_of(largest, 64 << 10));
        let difference = match here(&text, 10_000) {
            Err(error) => Some(error),
            Ok(ours) => differ(&theirs["s"], &ours["s"], agree),
        };
        wrong.extend(difference.map(|difference| format!("== {options}\n{difference}")));
    }
    for named in [
        "[n]\nfilename=n.0:n.1\nrw=write\nsize=256k\n",
        "[n]\nfilename=n.0\nfilename=n.1\nrw=write\nsize=256k\n",
        "[global]\nfilename=n.0\n[n]\nfilename=n.1\nrw=write\nsize=256k\n",
        "[global]\nnrfiles=3\n[n]\nfilename=n.0:n.1\nrw=write\nsize=256k\n",
        "[n]\nfilename=n.0:n.1\nnrfiles=3\nrw=write\nsize=256k\n",
        "[n]\nfilename=n:n\nrw=write\nsize=256k\n",
        "[global]\nfilename=n\n[n]\nfilename=n\nrw=write\nsize=200k\nbs=16k\noffset=1m\n",
        "[global]\nfilename=n\n[n]\nfilename=n\nrw=read\nsize=2%\nfile_service_type=sequential\n",
        "[global]\nfilename=n:n\n[n]\nfilename=n\nrw=read\nbs=8m\n",
    ] {
        // The same file more than once is one drive.
        let distance = if named.contains("n.1") { 192 << 10 } else { 0 };
        let (theirs, ours) = (in_fio_on_files(named, distance), here(named, 10_000).unwrap());
        wrong.extend(
            differ(&theirs["n"], &ours["n"], Exactly)
                .map(|difference| format!("{named}{difference}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Trims need no file in fio's engine `null`, whose drive is as large as the region.
#[test]
fn trims_are_the_same() {
    let text = "[t]\nioengine=null\nrw=trim\nbs=64k\nsize=1m\n";
    let (theirs, ours) = (in_fio(text), here(text, 10_000).unwrap());
    assert_eq!(differ(&theirs["t"], &ours["t"], Exactly), None);
    let text = text.replace("rw=trim", "rw=randtrim");
    let (theirs, ours) = (in_fio(&text), here(&text, 10_000).unwrap());
    assert_eq!(differ(&theirs["t"], &ours["t"], AsSet), None);
}

/// fio before 3.38 flushes again after each read until the next write; 3.38 does not, as here.
#[test]
fn a_mix_is_flushed_after_its_writes() {
    let text = "[m]\nfilename=drive\nrw=randrw\nsize=1m\nfsync=2\n";
    for ios in [&in_fio(text)["m"], &here(text, 10_000).unwrap()["m"]] {
        let after_writes = ios.windows(2).filter(|two| two[0].0 == 'w' && two[1].0 == 'f').count();
        let writes = ios.iter().filter(|io| io.0 == 'w').count();
        assert!(after_writes.abs_diff(writes / 2) <= 1, "{after_writes} {writes}");
    }
    let ours = &here(text, 10_000).unwrap()["m"];
    assert!(ours.windows(2).all(|two| two[1].0 != 'f' || two[0].0 == 'w'));
}

/// Jobs that begin and end with others.
#[test]
fn jobs_follow_and_end_each_other() {
    const GLOBAL: &str = "[global]\nfilename=drive\nsize=1m\nbs=4k\n";
    // A job that needs some 100 ms, and one that would need much longer.
    const FEW: &str = "[few]\nrw=read\nnumber_ios=50\nthinktime=2000\n";
    const MANY: &str = "[many]\nrw=randread\nnumber_ios=4000\nsize=64m\nthinktime=2000\n";
    let whole = 4000;
    for (text, ended) in [
        (format!("{GLOBAL}exitall\n{FEW}{MANY}"), true),
        (format!("{GLOBAL}{FEW}exitall=1\n{MANY}"), true),
        (
            format!("{GLOBAL}exitall\n{FEW}{MANY}new_group\n")
                .replace("number_ios=4000", "number_ios=100"),
            false,
        ),
        (format!("{GLOBAL}exitall\nexit_what=all\n{FEW}{MANY}new_group\n"), true),
        (format!("{GLOBAL}exitall\nexit_what=stonewall\n{FEW}{MANY}new_group\n"), true),
    ] {
        let (theirs, ours) = (in_fio(&text), here(&text, 10_000).unwrap());
        for jobs in [&theirs, &ours] {
            assert_eq!(jobs["few"].len(), 50, "{text}");
            let many = jobs["many"].len();
            assert_eq!(many < if ended { whole } else { 100 }, ended, "{many}: {text}");
        }
    }
    for text in [
        format!("{GLOBAL}[a]\nrw=write\n[b]\nwait_for=a\nrw=randread\n"),
        format!("{GLOBAL}[a]\nrw=write\n[b]\nstonewall\nrw=randread\nstartdelay=10ms\n"),
        format!("{GLOBAL}[a]\nrw=write\ncreate_only=1\n[b]\nrw=randread\n"),
        format!("{GLOBAL}[a]\nioengine=cpuio\ncpuload=10\nruntime=50ms\n[b]\nrw=randread\n"),
        format!("{GLOBAL}[a]\nioengine=cpuio\ncpuload=10\nexit_on_io_done=1\n[b]\nrw=randread\n"),
        format!("{GLOBAL}[a]\nname=a\nrw=write\n[b]\nrw=randread\nwait_for=a\n"),
    ] {
        let (theirs, ours) = (in_fio(&text), here(&text, 10_000).unwrap());
        for name in ["a", "b"] {
            let ios_of_job =
                |jobs: &BTreeMap<String, Vec<Access>>| jobs.get(name).cloned().unwrap_or_default();
            let theirs = ios_of_job(&theirs);
            assert_eq!(differ(&theirs, &ios_of_job(&ours), AsSet), None, "{name}: {text}");
        }
    }
}

/// An option that fio refuses is not taken here either, and one that fio reads in a peculiar way is
/// not read otherwise.
#[test]
fn what_fio_refuses_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for options in [
        "BS=4k",
        "size=(4*8k",
        "runtime=",
        "stonewall=",
        "direct",
        "direct=2",
        "rw=readX",
        "rw=reed",
        "ioengine=nullx",
        "bs=0",
        "iodepth=0",
        "rwmixread=101",
        "wait_for=b",
        "nosuch=1",
        "output=x",
        "rate=1m rate_iops=5",
        "random_distribution=zipf:1",
        "random_distribution=bell",
        "kb_base=1001",
        "rate_process=bell",
        "numjobs=",
        "zonesize=64k",
        "zonemode=strided",
        "percentage_random=101",
        "exit_what=none",
    ] {
        let text = section("a", &format!("ioengine=null size=64k {options}"));
        std::fs::write(folder.path().join("job.fio"), &text).unwrap();
        let output = fio(&["job.fio"], folder.path());
        assert!(!output.status.success(), "fio takes {options}");
        let ours = here(&text, 1000);
        assert!(ours.is_err(), "{options} is taken here");
    }
    // It takes 1.5m as 1 byte, 64q as 64: here they are refused.
    for options in ["size=1.5m", "size=64q", "runtime=5q"] {
        assert!(here(&section("a", options), 1000).is_err(), "{options}");
    }
}

/// Each option of the installed fio and of its engines has a verdict.
#[test]
fn every_option_of_fio_has_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let names = |help: &str| -> Vec<String> {
        let output = fio(&[help], folder.path());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let option = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
        text.lines().filter_map(option).collect()
    };
    let mut all = names("--cmdhelp=all");
    assert!(all.len() > 200, "{all:?}");
    let engines = fio(&["--enghelp"], folder.path());
    let engines = String::from_utf8_lossy(&engines.stdout).into_owned();
    for engine in engines.lines().skip(1) {
        let known = [fio::SYNCHRONOUS, fio::ASYNCHRONOUS, fio::OTHER_ENGINES].concat();
        let engine = engine.trim();
        assert!(engine == "cpuio" || known.contains(&engine), "no verdict on the engine {engine}");
        all.extend(names(&format!("--enghelp={engine}")));
    }
    let missing: Vec<_> =
        all.iter().filter(|name| !name.contains(' ') && fio::option(name).is_none()).collect();
    assert!(missing.is_empty(), "no verdict on {missing:?}");
}

/// The document lists each option with its verdict.
#[test]
fn the_document_lists_every_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/fio-options.md");
    let text = std::fs::read_to_string(path).unwrap();
    let tables = [fio::simulated_rows(), fio::neutral_rows(), fio::refused_rows()];
    let missing: Vec<_> = tables.iter().filter(|rows| !text.contains(*rows)).collect();
    assert!(missing.is_empty(), "docs/reference/fio-options.md must have {missing:#?}");
}

/// I/Os in flight when I/Os are submitted: fio's `iodepth_level`, in percent of the I/Os.
#[test]
fn batches_keep_the_same_depths() {
    let levels = |report: &str| -> Vec<f64> {
        let table = report.split_once("\"iodepth_level\"").unwrap().1;
        let table = table.split_once('}').unwrap().0;
        let value = |line: &str| line.rsplit_once(": ")?.1.trim_end_matches(',').parse().ok();
        table.lines().filter_map(value).collect()
    };
    let mut wrong = Vec::new();
    for (options, batch) in [
        ("iodepth=1", 1),
        ("iodepth=16", 1),
        ("iodepth=16 iodepth_batch=4", 4),
        ("iodepth=16 iodepth_batch=16 iodepth_batch_complete=16", 16),
        ("iodepth=16 iodepth_batch=8 iodepth_batch_complete=4", 8),
        ("iodepth=16 iodepth_batch=8 iodepth_batch_complete=4 iodepth_batch_complete_max=8", 8),
        ("iodepth=16 iodepth_low=4", 1),
        // A batch of others is submitted in two parts by libaio, where its ring of so many entries
        // ends.
        ("iodepth=32 iodepth_batch_submit=0 iodepth_low=16", 32),
        ("iodepth=8 iodepth_batch_complete_min=0", 1),
    ] {
        let options = format!("rw=read bs=4k size=16m filename=drive ioengine=libaio {options}");
        let text = section("b", &options);
        let folder = tempfile::tempdir().unwrap();
        let drive = std::fs::File::create(folder.path().join("drive")).unwrap();
        drive.set_len(common::DRIVE).unwrap();
        std::fs::write(folder.path().join("job.fio"), &text).unwrap();
        let output = fio(&["job.fio", "--output-format=json"], folder.path());
        let theirs = levels(&String::from_utf8_lossy(&output.stdout));
        let ours = common::depths(&text, batch).unwrap();
        let near = theirs.len() == ours.len()
            && theirs.iter().zip(&ours).all(|(a, b)| (a - b).abs() <= 1.0);
        if !near {
            wrong.push(format!("{options}: fio {theirs:?}, here {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
