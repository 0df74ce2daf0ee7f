//! Branches of a run: another seed, other faults and other drives from a moment on.

use crate::support::Bench;

const RUN: &str = r#"
engine  = "exact"
seed    = 7
command = ["sh", "-c", "fio --name=m --filename=/dev/nvme0n1 --rw=randrw --bs=4k --direct=1 --size=32M --number_ios=300 --output-format=json --output=/results/fio.json; echo whole"]
[[drive]]
name   = "d"
model  = { kind = "uniform", read = "60us-90us", write = "20us-40us" }
medium = { ram = "64MiB" }
"#;

/// Each I/O of a run: all columns.
fn ios(bench: &Bench, results: &str) -> Vec<String> {
    let text = String::from_utf8(bench.bytes(&format!("{results}/ios.csv"))).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "runs a guest twelve times: make slow-test"]
fn a_branch_is_the_run_up_to_its_moment_and_itself_each_time() {
    let bench = Bench::new();
    let write = |name: &str, text: &str| std::fs::write(bench.path(name), text).unwrap();
    write("run.toml", RUN);
    let slow = "[[fault]]\nkind = 'slow'\nfactor = 4.0\n";
    write("slow.toml", &format!("{RUN}{slow}"));
    write("fixed.toml", &RUN.replace("60us-90us", "200us-201us"));
    write("large.toml", &RUN.replace("64MiB", "128MiB"));
    write("early.toml", &format!("{RUN}[[fault]]\nkind = 'pause'\nbegin = '1us'\nend = '9us'\n"));
    let run = |results: &str, more: &[&str]| {
        let words = ["run", "run.toml", "--quiet", "--ios=csv", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat()))
    };
    run("alone", &[]).expect(0);
    let alone = ios(&bench, "alone");
    let branch = |results: &str, change: &str| {
        run(results, &["--from=12ms", "--branch", change]).expect(0);
        ios(&bench, results)
    };
    // Without snapshots it begins at the beginning.
    let eight = branch("begun", "seed=8");
    run("kept", &["--snapshots=5ms"]).expect(0);
    assert!(branch("same", "seed=7") == alone, "a branch that changes nothing is another run");
    assert!(branch("again", "seed=8") == eight, "from a snapshot a branch is another one");
    assert_ne!(eight, alone);
    let common = eight.iter().zip(&alone).take_while(|(one, other)| one == other).count();
    let summary = bench.json("again/summary.json");
    let at = summary["branch"]["at_ns"].as_u64().unwrap();
    assert!((12_000_000..17_000_000).contains(&at), "{at}");
    assert_eq!(summary["branch"]["changes"][0]["key"], "seed", "{}", summary["branch"]);
    let begun = (summary["boot_virtual_seconds"].as_f64().unwrap() * 1e9) as u64;
    let columns: Vec<&str> = alone[0].split(',').collect();
    let delivered = columns.iter().position(|column| *column == "delivered_ns").unwrap();
    let first = eight[common].split(',').nth(delivered).unwrap().parse::<u64>().unwrap();
    assert!(first >= begun + at, "{first} differs before {begun} + {at}");
    // A fault, and another model.
    let submitted = columns.iter().position(|column| *column == "submit_ns").unwrap();
    let number =
        |row: &String, column: usize| row.split(',').nth(column).unwrap().parse::<u64>().unwrap();
    let busy = |rows: &[String]| -> u64 {
        rows[1..].iter().map(|row| number(row, delivered) - number(row, submitted)).sum()
    };
    let slow = branch("slow", "slow.toml");
    assert!(busy(&slow) > 2 * busy(&alone), "{} and {}", busy(&slow), busy(&alone));
    assert!(!bench.bytes("slow/faults.parquet").is_empty());
    let fixed = branch("fixed", "fixed.toml");
    assert!(busy(&fixed) > busy(&alone) && fixed[..common] == alone[..common]);
    // Several side by side.
    run("side", &["--from=12ms", "--branch=seed=8..9", "--branch=slow.toml"]).expect(0);
    assert!(ios(&bench, "side/seed-8") == eight && ios(&bench, "side/slow") == slow);
    let table = String::from_utf8(bench.bytes("side/branches.csv")).unwrap();
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("\nseed-9,9,1"), "{table}");
    for (words, why) in [
        (&["--from=12ms", "--branch=large.toml"][..], "a branch cannot change drive.d.medium"),
        (&["--from=12ms", "--branch=early.toml"], "a pause at 1us"),
        (&["--from=12ms", "--branch=none.toml"], "none.toml"),
        (&["--from=12ms", "--branch=seed=x"], "`x` is no seed"),
        (&["--branch=seed=8"], "--from"),
        (&["--from=io:x:3", "--branch=seed=8"], "there is no drive x"),
    ] {
        let refused = run("refused", words);
        assert!(
            refused.status != Some(0) && refused.stderr.contains(why),
            "{words:?}: {refused:?}"
        );
    }
    let never = run("never", &["--from=100s", "--branch=seed=8"]);
    assert!(never.status == Some(125) && never.stderr.contains("has ended before"), "{never:?}");
    let debug = bench.finish(bench.command(&["debug", "again", "--at=1ms"]));
    assert!(debug.stderr.contains("is a branch"), "{debug:?}");
}

/// Two machines: one prepares its drive, the other waits.
const PAIR: &str = r#"
engine  = "exact"
seed    = 7
[[machine]]
name    = "a"
command = ["sh", "-c", "dd if=/dev/zero of=/dev/nvme0n1 bs=4k count=20 oflag=direct 2>&1; echo p >/results/p; echo ready; sleep 0.3; echo late"]
drive   = [{ name = "d", model = "fixed:90us", medium = { ram = "16MiB" } }]
[[machine]]
name    = "b"
command = ["sh", "-c", "echo once; sleep 0.2"]
"#;

#[test]
#[ignore = "runs guests ten times: make slow-test"]
fn a_branch_runs_commands_of_its_own_beside_what_runs() {
    let bench = Bench::new();
    let write = |name: &str, text: &str| std::fs::write(bench.path(name), text).unwrap();
    write("run.toml", PAIR);
    let begins = PAIR.find("[\"sh\"").unwrap();
    let ends = PAIR.find("\ndrive").unwrap();
    let own = |command: &str| PAIR.replace(&PAIR[begins..ends], command);
    let reads = r#"["sh", "-c", "cat /results/p; dd if=/dev/nvme0n1 of=/dev/null bs=4k count=30 iflag=direct 2>/dev/null; pgrep -x sleep; exit 3"]"#;
    write("reads.toml", &own(reads));
    let asleep = r#"["sh", "-c", "echo other; sleep 0.05"]"#;
    write("both.toml", &own(reads).replace(r#"["sh", "-c", "echo once; sleep 0.2"]"#, asleep));
    write("none.toml", &own(r#"["no-such-program"]"#));
    let run = |results: &str, more: &[&str]| {
        let words = ["run", "run.toml", "--quiet", "--ios=csv", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat()))
    };
    let alone = run("alone", &["--snapshots=output:^ready"]);
    alone.expect(0);
    assert!(alone.stdout.ends_with("[a] ready\n[a] late\n"), "{alone:?}");
    let from = ["--from=output:^ready", "--branch"];
    let branch = |results: &str, file: &str| run(results, &[&from[..], &[file]].concat());
    let reads = branch("reads", "reads.toml");
    reads.expect(3);
    // The other machine's command goes on as it was.
    assert_eq!(reads.stdout.matches("[b] once").count(), 1, "{reads:?}");
    // The run's own command sleeps on beside, and is not heard.
    let lines: Vec<_> = reads.stdout.lines().collect();
    let at = lines.iter().position(|line| *line == "[a] ready").unwrap();
    assert_eq!(lines[at + 1], "[a] p", "{reads:?}");
    assert!(
        lines[at + 2].trim_start_matches("[a] ").parse::<u32>().is_ok() && lines.len() == at + 3,
        "{reads:?}"
    );
    let (before, after) = (ios(&bench, "alone"), ios(&bench, "reads"));
    let column = before[0].split(',').position(|name| name == "operation").unwrap();
    let count = |rows: &[String], operation: &str| {
        rows.iter().filter(|row| row.split(',').nth(column) == Some(operation)).count()
    };
    assert_eq!(
        after.iter().zip(&before).take_while(|(one, other)| one == other).count(),
        before.len()
    );
    assert_eq!(count(&after, "read") - count(&before, "read"), 30);
    let summary = bench.json("reads/summary.json");
    assert_eq!(summary["branch"]["changes"][0]["key"], "machine.a.command", "{summary:#}");
    // The same without a snapshot, and beside another.
    std::fs::remove_dir_all(bench.path("alone")).unwrap();
    let both = branch("both", "both.toml");
    both.expect(3);
    assert!(both.stdout.contains("[b] other\n"), "{both:?}");
    run("side", &[&from[..], &["reads.toml", "--branch=both.toml"]].concat()).expect(3);
    assert!(ios(&bench, "side/reads") == after && ios(&bench, "side/both") == ios(&bench, "both"));
    branch("none", "none.toml").expect(127).says(&["no-such-program: command not found"]);
    // At the end of all: the last command was a's.
    run("kept", &["--snapshots=output:^ready"]).expect(0);
    let end = run("end", &["--from=end", "--branch=reads.toml"]);
    end.expect(3);
    assert!(end.stdout.ends_with("[a] late\n[a] p\n"), "{end:?}");
    run("over", &["--from=end", "--branch=both.toml"])
        .expect(125)
        .says(&["guest of b runs no command"]);
    // After a power cut a machine begins with the branch's command.
    let cut = |at: &str| {
        format!("[[fault]]\nkind = 'power-cut'\nmachine = 'a'\nat = '{at}'\nrestart = '10ms'\n")
    };
    write("run.toml", &format!("{PAIR}{}", cut("1000s")));
    let boots = r#"["sh", "-c", "echo boot $STASIS_BOOT; test $STASIS_BOOT = 2 || sleep 9"]"#;
    write("cut.toml", &format!("{}{}", own(boots), cut("250ms")));
    let boots = branch("cut", "cut.toml");
    boots.expect(0);
    assert!(boots.stdout.ends_with("[a] boot 1\n[a] boot 2\n"), "{boots:?}");
    write("run.toml", PAIR);
    // A machine whose command is over takes none.
    let late = run("late", &["--from=250ms", "--branch=both.toml"]);
    late.expect(125).says(&["the guest of b runs no command at this moment"]);
}

/// Two machines and a workload on one drive.
const SHARED: &str = r#"
engine = "exact"
[[drive]]
name      = "disk"
model     = "fixed:100us"
medium    = { ram = "64MiB" }
scheduler = "none"
[[machine]]
name    = "a"
command = ["fio", "--name=a", "--filename=/dev/vda", "--rw=randread", "--bs=4k", "--direct=1", "--iodepth=8", "--ioengine=libaio", "--size=16M", "--runtime=100ms", "--time_based"]
[[machine.disk]]
on   = "disk"
size = "16MiB"
[[machine]]
name    = "b"
command = ["fio", "--name=b", "--filename=/dev/vda", "--rw=randread", "--bs=4k", "--direct=1", "--iodepth=8", "--ioengine=libaio", "--size=16M", "--runtime=100ms", "--time_based"]
[[machine.disk]]
on     = "disk"
offset = "16MiB"
size   = "16MiB"
[[workload]]
name    = "readers"
pattern = "1r-seq"
offset  = "32MiB"
"#;

#[test]
#[ignore = "runs two guests eight times: make slow-test"]
fn a_branch_shares_a_drive_otherwise() {
    let bench = Bench::new();
    let write = |name: &str, text: &str| std::fs::write(bench.path(name), text).unwrap();
    write("run.toml", SHARED);
    // The I/Os of the last disk: the first machine's ends before.
    let of_b =
        |more: &str| SHARED.replace("offset = \"16MiB\"", &format!("offset = \"16MiB\"\n{more}"));
    write("limit.toml", &of_b("limits = { iops = 200 }"));
    let fair = SHARED.replace("scheduler = \"none\"", "scheduler = \"bfq\"");
    write("bfq.toml", &fair);
    write("weight.toml", &fair.replace("offset = \"16MiB\"", "offset = \"16MiB\"\nweight = 1000"));
    write("place.toml", &SHARED.replace("offset  = \"32MiB\"", "offset  = \"33MiB\""));
    let run = |results: &str, more: &[&str]| {
        let words = ["run", "run.toml", "--quiet", "--ios=csv", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat()))
    };
    let branch = |results: &str, file: &str| {
        run(results, &["--from=50ms", "--branch", file]).expect(0);
        ios(&bench, results)
    };
    run("alone", &[]).expect(0);
    let alone = ios(&bench, "alone");
    let limited = branch("limit", "limit.toml");
    run("kept", &["--snapshots=10ms"]).expect(0);
    assert!(ios(&bench, "kept") == alone);
    assert!(branch("again", "limit.toml") == limited, "from a snapshot it is another branch");
    let (fair, weighted) = (branch("bfq", "bfq.toml"), branch("weight", "weight.toml"));
    let column = alone[0].split(',').position(|name| name == "drive").unwrap();
    let count = |rows: &[String], drive: &str| {
        rows.iter().filter(|row| row.split(',').nth(column) == Some(drive)).count()
    };
    let names: Vec<&str> = alone[1..].iter().filter_map(|row| row.split(',').nth(column)).collect();
    let last = *names.iter().max().unwrap();
    for rows in [&limited, &fair, &weighted] {
        let common = rows.iter().zip(&alone).take_while(|(one, other)| one == other).count();
        assert!(common > 50 && common < alone.len() - 50, "{common} of {}", alone.len());
    }
    // 50 ms at most at 200 I/Os a second, and what was under way.
    assert!(count(&limited, last) < count(&alone, last) * 3 / 4, "{last}");
    let (few, many) = (count(&fair, last), count(&weighted, last));
    assert!(many > few * 5 / 4, "{few} and {many} I/Os of {last}");
    let summary = bench.json("weight/summary.json");
    let shared = &summary["shared"][0];
    assert_eq!(
        (&shared["scheduler"]["kind"], &shared["tenants"][1]["weight"]),
        (&"bfq".into(), &1000.into())
    );
    let refused = run("refused", &["--from=50ms", "--branch=place.toml"]);
    refused.expect(125).says(&["a branch cannot change workload.readers.offset"]);
    // Nothing stands before a drive that nobody shares.
    write("run.toml", RUN);
    write("bfq.toml", &RUN.replace("[[drive]]", "[[drive]]\nscheduler = \"bfq\""));
    let refused = run("refused", &["--from=1ms", "--branch=bfq.toml"]);
    refused
        .expect(125)
        .says(&["a scheduler, limits or a workload in a branch needs one in the run"]);
}

/// Branches are archived together and each alone, and repeated where no snapshot is.
#[test]
#[ignore = "runs a guest nine times: make slow-test"]
fn a_branch_is_archived_and_repeated() {
    let bench = Bench::new();
    let write = |name: &str, text: &str| std::fs::write(bench.path(name), text).unwrap();
    write("run.toml", RUN);
    write("fixed.toml", &RUN.replace("60us-90us", "200us-201us"));
    let call = |words: &[&str]| bench.finish(bench.command(words));
    let branches = ["--branch=seed=8", "--branch=fixed.toml"];
    let words = ["run", "run.toml", "--quiet", "--from=12ms", "--results=all"];
    call(&[&words[..], &branches].concat()).expect(0);
    call(&["archive", "all", "-o", "all.tar.zst"]).expect(0);
    call(&["archive", "all/fixed", "-o", "one.tar.zst"]).expect(0);
    // A snapshot changes nothing.
    call(&["run", "run.toml", "--quiet", "--snapshots=5ms", "--results=kept"]).expect(0);
    for (archive, compared) in [("all.tar.zst", "I/Os of 2 runs"), ("one.tar.zst", "I/Os")] {
        let again = call(&["repeat", archive, "--results", &format!("{archive}-again")]);
        again.expect(0);
        let says = |words: &str| assert!(again.stderr.contains(words), "{again:?}");
        says("the same: every figure, and");
        says(compared);
    }
    let last = ["run", "run.toml", "--quiet", "--from=last", "--branch=seed=8", "--results=last"];
    call(&last).expect(0);
    let refused = call(&["archive", "last", "-o", "last.tar.zst"]);
    refused.expect(125).says(&["name the moment"]);
}
