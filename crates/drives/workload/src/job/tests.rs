use proptest::prelude::*;

use stasis_block::Fate;

use super::*;

fn parse(text: &str) -> Result<JobFile, JobError> {
    JobFile::parse(text, &|_| None)
}

#[test]
fn global_options_hold_for_the_jobs_after_them() {
    let file = parse(
        "[global]\nioengine=libaio\ndirect=1\nfilename=/dev/x\nbs=8k\nsize=1m\n[a]\nrw=randread\n\
         iodepth=32\n[global]\nbs=4k,16k\n[b]\nrw=randrw\nrwmixread=70\nnumjobs=4\nstonewall\n",
    )
    .unwrap();
    let [a, b] = file.jobs.as_slice() else { panic!("{file:?}") };
    assert_eq!((a.name.as_str(), a.in_flight_max(), a.random), ("a", 32, true));
    assert_eq!((a.blocks()[0].bounds(), b.blocks()[1].bounds()), ((8192, 8192), (16384, 16384)));
    assert_eq!((b.direction, b.rwmixread, b.numjobs, b.stonewall), (Direction::Mixed, 70, 4, true));
    assert_eq!(file.least_capacity(), Some(1 << 20));
    assert_eq!(file.warnings, [""; 0]);
}

#[test]
fn wrong_options_and_values_are_named() {
    for (text, expected) in [
        ("", "no job"),
        ("[global]\nbs=4k\n", "no job"),
        ("[a]\niodpeth=4\n", "line 2: unknown key `iodpeth`; did you mean `iodepth`?"),
        ("[a]\nBS=4k\n", "line 2: unknown key `BS`; did you mean `bs`?"),
        ("[a]\nxyzzy=4\n", "line 2: unknown key `xyzzy`"),
        ("[a]\noutput=x\n", "fio's command line"),
        ("[a]\nbs\n", "bs: needs a value"),
        ("[a]\niodepth=0\n", "iodepth: is 0, but must be from 1"),
        ("[a]\nrw=randreed\n", "`randreed` is none of"),
        ("[a]\nrw=randtrimwrite\noffset=1m\n", "elsewhere than it trims"),
        ("[a]\nbs=0\n", "a block size is 0"),
        ("[a]\nsize=1.5m\n", "what is before the point"),
        ("[a]\nzonemode=zbd\n", "zonemode: fio has `zbd`, sim has not"),
        ("[a]\nzonemode=strided\n", "needs a zonesize"),
        ("[a]\nzonesize=1m\n", "zonesize needs zonemode=strided"),
        ("[a]\nfile_service_type=first\n", "none of random, zipf"),
        ("[a]\nio_submit_mode=offload\niodepth_batch=4\n", "sim has not: leave one away"),
        ("[a]\nflow=8\n", "flow: fio has it, sim has not"),
        ("[a]\nfilename=/dev/a:/dev/b\n", "several drives"),
        ("[global]\nfilename=/dev/a\n[a]\nfilename=/dev/b\n", "`/dev/a:/dev/b` are several drives"),
        ("[global]\nfilename=/dev/a\n[a]\nfilename=/dev/a\nverify=md5\n", "more than once"),
        ("[a]\nfilename=a:b:a\nsize=1m\n", "named more than once"),
        ("[global]\nsize=10%\n[a]\nsize=1m\n", "line 4: size: `1m` comes after `10%`"),
        ("[global]\noffset=50%\n[a]\noffset=0\n", "comes after `50%`"),
        ("[a]\nsize=1m\nio_size=50%\nio_size=64k\n", "comes after `50%`"),
        ("[a]\ninclude x\n", "line 2: include: a job that stands in no file"),
        ("[a]\nioengine=net\n", "fio has `net`, sim has not"),
        ("[a]\nioengine=nett\n", "no engine of block I/O"),
        ("[a]\nrandom_distribution=zipf:x\n", "`x` is no number"),
        ("[a]\nrandom_distribution=bell:5\n", "none of random, zipf"),
        ("[a]\nruntime=5q\n", "unknown unit `q`"),
        ("[a]\nstonewall=\n", "no whole number"),
        ("[a]\nioengine=./plugin\n", "engine of its own"),
        ("[a]\nioengine=build/fio/spdk_nvme\nfilename=a:b\n", "several drives"),
        ("[a]\nioengine=spdk_bdev\nfilename=Nvme0n1:Nvme1n1\n", "several drives"),
        ("[a]\nrate=1m\nrate_iops=5\n", "exclude each other"),
        ("[a]\nwait_for=b\n[b]\n", "no job `b` before it"),
        ("[a]\nioengine=cpuio\n", "goes on for ever"),
    ] {
        match parse(text) {
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
            Ok(_) => assert!(expected.is_empty(), "{text}"),
        }
    }
}

#[test]
fn what_is_not_as_on_a_host_is_said_once() {
    let file = parse("[a]\niodepth=4\n[b]\nnice=4\nioengine=libaio\niodepth=4\n").unwrap();
    let [depth, cache, files] = file.warnings.as_slice() else { panic!("{:?}", file.warnings) };
    assert!(depth.contains("`a`") && depth.contains("not 4") && depth.contains("psync"), "{depth}");
    assert!(cache.contains("direct=1") && files.contains("one drive"), "{cache} {files}");
    assert_eq!((file.jobs[0].in_flight_max(), file.jobs[1].in_flight_max()), (1, 4));
}

#[test]
fn jobs_that_do_not_fit_say_why() {
    for (text, expected) in [
        ("[a]\nsize=2m\n", "ends beyond the drive of 1048576 bytes"),
        ("[a]\nsize=2k\n", "smaller than a block of 4096"),
        ("[a]\nnumjobs=40000\n[b]\nnumjobs=40000\n", "80000 threads"),
        ("[a]\noffset=512k\nsize=512k\noffset_increment=4k\nnumjobs=2\n", "ends beyond"),
        ("[a]\nrw=randread\nrandom_distribution=zoned_abs:100/2m\n", "beyond the region"),
        ("[a]\nnrfiles=4\n", "the files are new"),
        ("[a]\nnrfiles=4\nsize=1m\noffset=64k\n", "ends beyond the drive"),
    ] {
        match Load::new(&parse(text).unwrap(), 1 << 20, 0, 0) {
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
            Ok(_) => assert!(expected.is_empty(), "{text}"),
        }
    }
}

/// Regions are as fio 3.33 computes them (filesetup.c), on a drive of 64 MiB.
#[test]
fn regions_are_fios() {
    for (options, offset, length, size) in [
        ("size=1m\nio_size=50%", 0, 1 << 20, 512 << 10),
        ("filesize=1m\nsize=4m", 0, 1 << 20, 1 << 20),
        ("size=4m\nfilesize=1m", 0, 1 << 20, 1 << 20),
        ("filesize=1m\nsize=512k", 0, 1 << 20, 512 << 10),
        ("filesize=1m\noffset=256k", 256 << 10, 768 << 10, 768 << 10),
        ("size=25%", 0, 16 << 20, 16 << 20),
        ("offset=50%\nsize=75%", 32 << 20, 32 << 20, 32 << 20),
        ("size=400Ki\nkb_base=1000", 0, 400_000, 400_000),
        ("kb_base=1000\nsize=8MiB\nbs=1024KiB", 0, 8 << 20, 8 << 20),
    ] {
        let file = parse(&format!("[a]\n{options}\n")).unwrap();
        let plan = file.jobs[0].plan(0, 64 << 20, 0).unwrap();
        let found = (plan.files[0].offset, plan.files[0].length, plan.size);
        assert_eq!(found, (offset, length, size), "{options}");
    }
}

/// SPDK's engines do the same I/Os by another way.
#[test]
fn spdks_engines_are_read() {
    for engine in ["spdk", "spdk_bdev", "./build/fio/spdk_nvme", "external:/opt/spdk/fio_plugin"] {
        let text = format!("[a]\nioengine={engine}\niodepth=32\nfilename=trtype=PCIe ns=1\n");
        assert_eq!(parse(&text).unwrap().jobs[0].in_flight_max(), 32, "{engine}");
    }
}

#[test]
fn time_without_an_end_is_told() {
    let file = parse("[a]\ntime_based\ndirect=1\nfilename=x\n").unwrap();
    assert!(!file.jobs[0].time_based && file.warnings[0].contains("without a runtime"), "{file:?}");
}

#[test]
fn every_option_has_one_verdict() {
    let mut names: Vec<_> = table::options().flat_map(|option| option.names).collect();
    let all = names.len();
    assert!(all > 350, "{all}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands twice");
    // A refused option is refused by its name; a neutral one is taken.
    for option in table::options() {
        for name in option.names {
            let text = format!("[a]\nsize=1m\n{name}=77777\n");
            let parsed = parse(&text).map(|_| ()).map_err(|error| error.to_string());
            match option.verdict {
                table::Verdict::NoEffect(_) => assert_eq!(parsed, Ok(()), "{name}"),
                table::Verdict::Refused(..) => {
                    let error = parsed.unwrap_err();
                    assert!(error.contains(&format!("{name}: fio has it, sim has not")), "{error}");
                }
                table::Verdict::Simulated(..) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "([\\[\\]a-z=0-9:/%,.# \n]|rw=|bs=|size=|\\[a\\]\n){0,60}") {
        if let Ok(file) = parse(&text) {
            let _ = (file.least_capacity(), Load::new(&file, 1 << 20, 0, 0).is_ok());
        }
    }

    /// Loads of extreme numbers do not panic either.
    #[test]
    fn no_numbers_panic(
        lines in prop::collection::vec((
            prop::sample::select(
                table::options()
                    .filter(|o| matches!(o.verdict, table::Verdict::Simulated(..)))
                    .map(|o| o.names[0])
                    .collect::<Vec<_>>()
            ),
            prop::sample::select(vec![
                "0", "1", "3", "4k", "7k", "50%", "1m", "100", "18446744073709551615", "9223372036854775807",
                "1:2", "randrw", "randread:5", "write:-4k", "write:8k", "zipf", "normal:20", "4k-64k", "4k/30:12k/70",
                "libaio", "cpuio",
            ]),
        ), 0..8),
    ) {
        let text: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        if let Ok(Ok(mut load)) =
            parse(&format!("[a]\n{text}")).map(|file| Load::new(&file, 1 << 20, 0, 0))
        {
            use crate::Workload;
            for _ in 0..200 {
                let Some(at) = load.next_at() else { break };
                if let Ok(Some(io)) = load.take() {
                    prop_assert!(io.command.offset + io.command.length <= 1 << 20);
                    load.complete(at, &io, Fate::Done);
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}
