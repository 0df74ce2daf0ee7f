//! Examples of clusters whose machines fail: each tells at its end whether what was acknowledged is
//! there.

use crate::support::{Bench, Finished};

/// Limit on the seeds within which a planted mistake is to be found.
const SEEDS: u32 = 200;

/// An example that says at its end how much was acknowledged, and exits with 3 where some of it is
/// lost.
struct Example {
    name: &'static str,
    text: String,
}

impl Example {
    fn read(name: &'static str) -> Self {
        let path = format!("{}/../../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.lines().count() < 25, "{name}");
        Self { name, text }
    }

    /// Runs it on a bench of its own, as the time of each is limited.
    fn run(&self, seed: u32) -> (Bench, Finished) {
        let bench = Bench::new();
        std::fs::write(bench.path(self.name), &self.text).unwrap();
        let seed = seed.to_string();
        let run =
            bench.run(&[self.name, "--engine=exact", "--seed", &seed, "--results", "results"]);
        (bench, run)
    }

    /// Each acknowledged write is there with several seeds, one of them twice with the same results.
    /// Gives the summary of the last.
    fn keeps_and_repeats(&self, end: &str) -> serde_json::Value {
        let mut summary = serde_json::Value::Null;
        let kept = [1, 1, 2].map(|seed| {
            let (bench, run) = self.run(seed);
            run.expect(0);
            assert!(run.stdout.ends_with(end), "seed {seed}: {}", run.stdout);
            summary = bench.json("results/summary.json");
            let happened = summary["faults"].as_array().unwrap();
            assert_eq!(happened.len(), self.text.matches("kind = \"").count());
            assert!(happened.iter().all(|fault| fault["happened"] == 1), "{happened:?}");
            ["net0.pcapng", "ios.csv", "faults.parquet", "cluster.parquet"]
                .map(|name| std::fs::read(bench.path(&format!("results/{name}"))).unwrap())
        });
        assert!(kept[0] == kept[1], "one seed, two results");
        for link in summary["networks"][0]["links"].as_array().unwrap() {
            assert_eq!(link["max_error_ns"], 0, "{link}");
        }
        summary
    }

    /// A planted mistake is found with one of the first seeds: the example says what is lost, or its
    /// servers do not come back until its limit.
    fn finds(&self, from: &str, to: &str) {
        let text = self.text.replace(from, to);
        assert_ne!(text, self.text);
        self.is_found(to, text);
    }

    /// As [`Self::finds`], of drives that lie about flushes from the commands' start on.
    fn finds_lies_of(&self, drives: &[&str]) {
        let lie = |drive: &&str| format!("{{ kind = \"lost-flush\", drive = \"{drive}\" }}, ");
        let lies: String = drives.iter().map(lie).collect();
        let (before, faults) = self.text.split_once("\nfault   = [").unwrap();
        self.is_found("drives that lie", format!("{before}\nfault   = [{lies}{faults}"));
    }

    fn is_found(&self, mistake: &str, text: String) {
        let with = Self { text, ..*self };
        let found = (1..=SEEDS).find_map(|seed| {
            let (_, run) = with.run(seed);
            let last = run.stdout.lines().last().unwrap_or_default();
            match run.status {
                Some(0) => None,
                Some(3) => Some(format!("seed {seed}: {last}")),
                // A limit of virtual time.
                Some(124) => Some(format!("seed {seed}: it does not come back")),
                _ => panic!("{run:?}"),
            }
        });
        println!("{}: {mistake}: {found:?}", self.name);
        assert!(found.is_some());
    }
}

/// A guide's sentence: every acknowledged key is there after a partition and a rack without power.
#[test]
#[ignore = "builds a guest with etcd: make slow-test"]
fn clusters_of_etcd_keep_what_they_have_acknowledged() {
    let example = Example::read("etcd.toml");
    let summary = example.keeps_and_repeats(" of 40 acknowledged, none lost\n");
    let links = summary["networks"][0]["links"].as_array().unwrap();
    assert_eq!(links.len(), 12);
    for link in links.iter().filter(|link| link["from"] == "etcd1" || link["to"] == "etcd1") {
        assert!(link["lost"].as_u64().unwrap() > 0, "{link}");
    }
    example.finds("--unsafe-no-fsync=false", "--unsafe-no-fsync=true");
    example.finds_lies_of(&["etcd1.drive0", "etcd2.drive0", "etcd3.drive0"]);
}

/// Redis on machines whose power is cut.
#[test]
#[ignore = "builds a guest with Redis: make slow-test"]
fn clusters_of_redis_come_back_from_power_cuts() {
    let example = Example::read("redis.toml");
    example.keeps_and_repeats(" of 60 acknowledged, none lost\n");
    example.finds("appendfsync always", "appendfsync no");
    example.finds_lies_of(&["redis1.drive0"]);
}

/// Redis whose Sentinels promote a replica.
#[test]
#[ignore = "builds a guest with Redis: make slow-test"]
fn clusters_with_sentinels_go_on_without_their_first_machine() {
    Example::read("sentinel.toml").keeps_and_repeats(" of 100 acknowledged, none lost\n");
}

/// PostgreSQL with a synchronous standby: the first server is lost for good, and the second, once it is
/// promoted, loses its power.
#[test]
#[ignore = "builds a guest with PostgreSQL: make slow-test"]
fn clusters_of_postgresql_promote_their_standby() {
    let example = Example::read("postgresql.toml");
    example.keeps_and_repeats(" of 60 acknowledged, none lost\n");
    example.finds("fsync=on", "fsync=off");
    example.finds("synchronous_commit=on", "synchronous_commit=off");
    example.finds_lies_of(&["pg2.drive0"]);
}

/// An NFS server that loses its power, and a client that waits for it.
#[test]
#[ignore = "builds a guest with an NFS server: make slow-test"]
fn clusters_with_an_nfs_server_go_on_after_a_power_cut() {
    let example = Example::read("nfs.toml");
    example.keeps_and_repeats(" of 80 synced, none lost\n");
    example.finds("rw,sync", "rw,async");
    example.finds_lies_of(&["server.drive0"]);
}

/// DRBD: the second machine takes the place of the first.
#[test]
#[ignore = "builds a guest with DRBD: make slow-test"]
fn clusters_of_drbd_have_on_one_machine_what_the_other_acknowledged() {
    let example = Example::read("drbd.toml");
    example.keeps_and_repeats(" acknowledged, none lost\n");
}

/// NATS: a minority of the servers of a stream loses its power at a time.
#[test]
#[ignore = "builds a guest with NATS: make slow-test"]
fn clusters_of_nats_keep_a_stream_while_one_server_is_off() {
    let example = Example::read("nats.toml");
    example.keeps_and_repeats(" of 90 acknowledged, none lost\n");
}

/// ZooKeeper on three machines, all of which lose their power.
#[test]
#[ignore = "builds a guest with ZooKeeper: make slow-test"]
fn clusters_of_zookeeper_keep_what_they_have_acknowledged() {
    let example = Example::read("zookeeper.toml");
    example.keeps_and_repeats(" of 60 acknowledged, none lost\n");
    example.finds("forceSync=yes", "forceSync=no");
    example.finds_lies_of(&["zk1.drive0", "zk2.drive0", "zk3.drive0"]);
}

/// MariaDB with Galera on three machines, all of which lose their power.
#[test]
#[ignore = "builds a guest with MariaDB: make slow-test"]
fn clusters_of_mariadb_keep_what_they_have_acknowledged() {
    let example = Example::read("galera.toml");
    example.keeps_and_repeats(" of 60 acknowledged, none lost\n");
    example.finds("flush-log-at-trx-commit=1", "flush-log-at-trx-commit=0");
    example.finds_lies_of(&["db1.drive0", "db2.drive0", "db3.drive0"]);
}
