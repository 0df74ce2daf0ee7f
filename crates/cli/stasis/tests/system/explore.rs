//! Explorations: what breaks an experiment is found, shortened and repeated.

use super::support::Bench;

/// A Redis server that forgets the last second in a power cut, and a client that looks.
const FORGETS: &str = r#"
guest   = { packages = ["redis-server"] }
command = ["sh", "-ec", '''
if [ $(hostname) != client ]; then
    [ $STASIS_BOOT != 1 ] || mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt
    exec redis-server --dir /mnt --appendonly yes --appendfsync everysec --protected-mode no
fi > /dev/null
stasis-client redis redis --until PONG PING
stasis-client redis redis --repeat 40 --every 10ms 'SET key{} {}' --check 'GET key{}' ''']
virtual-limit = "30s"
history = true
network = [{}]
fault   = [{ kind = "power-cut", machine = "client", at = "1ms", restart = "1ms" }]
machine = [{ name = "client" }, { name = "redis", wait = false, drive = [
    { name = "disk", model = "samsung-980-pro", medium = "ram:64MiB" }] }]
"#;

/// A program that says what is durable, by a drive of its own, before it has flushed it. (`dd` without a flush leaves it in
/// the cache of the drive.)
const SAYS_TOO_EARLY: &str = r#"
command = ["sh", "-ec", '''
data=/dev/nvme0n1 log=/dev/nvme1n1
of() { dd if=$1 bs=512 skip=$2 count=1 iflag=direct status=none | tr -d '\0\n'; }
if [ $STASIS_BOOT = 1 ]; then
    for n in 1 2 3 4 5 6; do
        echo $n | dd of=$data bs=512 seek=$n conv=sync oflag=direct status=none
        echo $n | dd of=$log bs=512 seek=$n conv=sync,fsync oflag=direct status=none
    done
    exit 0
fi
for n in 1 2 3 4 5 6; do
    [ "$(of $log $n)" != $n ] || [ "$(of $data $n)" = $n ] || { date "+$n is lost, %s.%N"; exit 3; }
done''']
drive = [{ name = "data", model = "samsung-980-pro", medium = "ram:16MiB" },
    { name = "log", model = "fixed:100us", medium = "ram:16MiB" }]
virtual-limit = "30s"
[fault-space]
draws   = 2
within  = "20ms"
longest = "100ms"
fault   = [{ kind = "power-cut" }, { kind = "reset" }]
"#;

#[test]
fn a_program_that_forgets_is_found_and_its_scenario_repeats() {
    is_found("forgets.toml", SAYS_TOO_EARLY, "output.txt");
}

#[test]
#[ignore = "makes some fifty runs of two machines: make slow-test"]
fn a_server_that_forgets_is_found_and_its_scenario_repeats() {
    is_found("redis.toml", FORGETS, "history.jsonl");
}

/// Explores `experiment`, which loses what it has acknowledged in a power cut; the run that repeats the finding has
/// the same `file` of results.
fn is_found(name: &str, experiment: &str, file: &str) {
    let bench = Bench::new();
    std::fs::write(bench.path(name), experiment).unwrap();
    let explore = |runs: &str| {
        let words = ["explore", name, "--runs", runs, "--results", "found"];
        let more = ["--corpus", "corpus", "--junit", "found.xml", "--branches", "0"];
        let words = [&words[..], &more[..]].concat();
        bench.finish(bench.command(&words))
    };
    let first = explore("2");
    first.expect(1);
    let report = bench.json("found/explore.json");
    let finding = &report["findings"][0];
    assert_eq!(finding["failure"]["oracle"], "status", "{report}");
    assert_eq!(finding["repeats"], true, "{report}");
    assert_eq!(finding["run"], 0, "the loss of power comes first: {report}");
    let scenario = finding["scenario"].as_str().unwrap();
    assert_eq!(scenario.matches("[[fault]]").count(), 1, "{scenario}");
    // One change decides, which is named.
    assert!(scenario.contains("power-cut") && scenario.contains("loses = ["), "{scenario}");
    // The file repeats it, to the byte.
    let words = [name, "--scenario", "found/finding-1.toml", "--results", "again"];
    bench.run(&words).expect(3);
    let bytes = |folder: &str| std::fs::read(bench.path(folder).join(file)).unwrap();
    assert_eq!(bytes("again"), bytes("found/finding-1"));
    assert_eq!(std::fs::read_dir(bench.path("corpus")).unwrap().count(), 1);
    assert!(std::fs::read_to_string(bench.path("found.xml")).unwrap().contains("failures=\"1\""));

    // The same words go on with the runs that are missing.
    let log = || std::fs::read_to_string(bench.path("found/explore.jsonl")).unwrap();
    let before = log();
    explore("3").expect(1);
    let after = log();
    assert!(after.starts_with(&before) && after.len() > before.len(), "{after}");
    assert_eq!(bench.json("found/explore.json")["runs"], 3);
}

#[test]
#[ignore = "makes a dozen branches of two machines: make slow-test"]
fn a_finding_has_its_point_of_no_return() {
    let bench = Bench::new();
    std::fs::write(bench.path("redis.toml"), FORGETS).unwrap();
    let words = ["explore", "redis.toml", "--runs", "1", "--results", "found", "--branches", "1"];
    bench.finish(bench.command(&words)).expect(1);
    let report = bench.json("found/explore.json");
    let finding = &report["findings"][0];
    // Without the cut nothing is lost, and after it nothing brings the change back.
    let at =
        |name: &str| finding["inevitable"][name].as_u64().unwrap_or_else(|| panic!("{report}"));
    let begins = finding["debug"].as_str().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(stasis_block::units::parse_duration(begins), Ok(at("avoidable_ns")), "{report}");
    assert!((1..60_000_000).contains(&(at("inevitable_ns") - at("avoidable_ns"))), "{report}");
}

#[test]
fn what_cannot_be_explored_is_told_before_a_run_with_faults() {
    let bench = Bench::new();
    let one = "command = [\"false\"]\n[[drive]]\nname = \"d\"\nmodel = \"fixed:100us\"\nmedium = \"ram:16MiB\"\n";
    std::fs::write(bench.path("fails.toml"), one).unwrap();
    let fails = bench.finish(bench.command(&["explore", "fails.toml", "--runs", "1"]));
    fails.expect(125);
    assert!(fails.stderr.contains("fails without any fault"), "{}", fails.stderr);
    assert!(!bench.path("results/explore.json").exists());
    let space = format!(
        "{one}[fault-space]\ndraws = 1\nwithin = \"1s\"\nlongest = \"1s\"\nfault = [{{ kind = \"partition\" }}]\n"
    );
    std::fs::write(bench.path("space.toml"), space).unwrap();
    let space = bench.finish(bench.command(&["explore", "space.toml", "--runs", "1"]));
    space.expect(125);
    assert!(space.stderr.contains("no [[network]] joins any"), "{}", space.stderr);
}
