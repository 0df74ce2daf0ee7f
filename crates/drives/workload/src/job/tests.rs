use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<JobFile, JobError> {
    JobFile::parse(text, &|_| None)
}

#[test]
fn global_keys_hold_for_the_jobs_after_them() {
    let file = parse(
        "[global]\nioengine=libaio\ndirect=1\nbs=8k\nsize=1m\n[a]\nrw=randread\niodepth=32\n\
         [global]\nbs=4k,16k\n[b]\nrw=randrw\nrwmixread=70\nnumjobs=4\nstonewall\n",
    )
    .unwrap();
    let [a, b] = file.jobs.as_slice() else { panic!("{file:?}") };
    assert_eq!((a.name.as_str(), a.iodepth, a.random), ("a", 32, true));
    assert_eq!((a.blocks[0].only(), b.blocks[1].only()), (Some(8192), Some(16384)));
    assert_eq!((b.direction, b.rwmixread, b.numjobs, b.stonewall), (Direction::Mixed, 70, 4, true));
    assert_eq!(file.least_capacity(), Some(1 << 20));
    assert!(file.warnings.is_empty());
}

#[test]
fn wrong_keys_and_values_are_named() {
    for (text, expected) in [
        ("", "no job"),
        ("[global]\nbs=4k\n", "no job"),
        ("[a]\niodpeth=4\n", "line 2: unknown key `iodpeth`; did you mean `iodepth`?"),
        ("[a]\nxyzzy=4\n", "line 2: unknown key `xyzzy`"),
        ("[a]\niodepth=0\n", "iodepth: is 0, but must be from 1"),
        ("[a]\nrw=randreed\n", "`randreed` is none of"),
        ("[a]\nbs=0\n", "a block size is 0"),
        ("[a]\nzonemode=zbd\n", "zonemode: not possible here"),
        ("[a]\nrandom_distribution=zipf:x\n", "`x` is no number"),
        ("[a]\nrandom_distribution=normal:5\n", "none of random, zipf"),
        ("[a]\nruntime=5q\n", "unknown unit `q`"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_makes_no_difference_is_warned_of_once() {
    let file = parse("[a]\nnice=3\nioengine=psync\niodepth=4\n[b]\nnice=4\n").unwrap();
    assert_eq!(file.warnings.len(), 2, "{:?}", file.warnings);
    assert_eq!(file.jobs[0].iodepth, 1);
}

#[test]
fn jobs_that_do_not_fit_say_why() {
    for (text, expected) in [
        ("[a]\nsize=2m\n", "ends beyond the drive of 1048576 bytes"),
        ("[a]\nsize=2k\n", "smaller than a block of 4096"),
        ("[a]\ntime_based\n", "needs a runtime"),
        ("[a]\nnumjobs=40000\n[b]\nnumjobs=40000\n", "80000 threads"),
        ("[a]\noffset=512k\nsize=512k\noffset_increment=4k\nnumjobs=2\n", "ends beyond"),
    ] {
        let error = Load::new(&parse(text).unwrap(), 1 << 20, 0, 0).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "([\\[\\]a-z=0-9:/%,.# \n]|rw=|bs=|size=|\\[a\\]\n){0,60}") {
        if let Ok(file) = parse(&text) {
            let _ = file.least_capacity();
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}
