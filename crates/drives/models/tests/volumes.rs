//! The named volumes against their providers' tables, in virtual time.
//!
//! A burst of half an hour is millions of I/Os. Where a test is of I/Os a second, the volume has a
//! bandwidth without end and its commands are of many I/Os each; the same volume as it comes is tested
//! once in full.

use serde_json::{json, Value};
use stasis_block::clock::{Nanos, MILLISECOND, SECOND};
use stasis_block::Command;
use stasis_block::Operation::{self, Read, Write};
use stasis_models::{BuildContext, Model, ModelSpec};

use crate::common::numbers;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// Commands in flight: more than a latency's worth at any volume's rate.
const DEPTH: u32 = 128;

fn spec(name: &str, keys: Value) -> ModelSpec {
    let mut table = json!({ "base": name });
    table.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    serde_json::from_value(table).unwrap()
}

fn build(name: &str, size: u64, keys: Value) -> Box<dyn Model> {
    let context = BuildContext { seed: 1, capacity: size, path: 0 };
    spec(name, keys).build(&context).unwrap_or_else(|error| panic!("{name} of {size}: {error}"))
}

/// A load on a volume: commands of one length, at random places or in order, always as many in flight.
struct Load {
    model: Box<dyn Model>,
    operation: Operation,
    length: u64,
    in_order: bool,
    now: Nanos,
    done: u64,
}

impl Load {
    fn new(model: Box<dyn Model>, operation: Operation, length: u64) -> Self {
        Self { model, operation, length, in_order: false, now: 0, done: 0 }
    }

    /// Runs from now on until `ended` says so of the commands done and the time of the last; none is
    /// in flight then. Returns those done.
    fn run(&mut self, mut ended: impl FnMut(u64, Nanos) -> bool) -> u64 {
        let (mut number, mut next) = (numbers(), 0);
        let (begin, length, operation, in_order) =
            (self.now, self.length, self.operation, self.in_order);
        let mut command = || {
            next += 1;
            // No two of them follow one another.
            let place = if in_order { next } else { 2 * (number() >> 20) };
            Command::new(operation, place * length, length)
        };
        (0..DEPTH).for_each(|tag| self.model.submit(begin, tag, &command()));
        let (mut out, mut count, mut over) = (Vec::new(), 0, false);
        while let Some(now) = self.model.next_event() {
            self.model.advance(now, &mut out);
            for completion in out.drain(..) {
                self.now = completion.at;
                count += u64::from(!over);
                over = over || ended(count, completion.at - begin);
                if !over {
                    self.model.submit(completion.at, completion.tag, &command());
                }
            }
        }
        self.done += count;
        count
    }

    /// Commands a second, from the first on that is not a part of the first rush.
    fn rate(&mut self, count: u64) -> f64 {
        let mut first = 0;
        let mut last = 0;
        self.run(|done, at| {
            if done == count / 2 {
                first = at;
            }
            last = at;
            done == count
        });
        (count - count / 2) as f64 / ((last - first) as f64 / SECOND as f64)
    }

    /// Time (s) from now on until the rate falls below `least` commands a second, measured over
    /// `count` of them.
    fn burst(&mut self, count: u64, least: f64) -> f64 {
        let (mut since, mut end) = (0, 0);
        self.run(|done, at| {
            if done % count == 0 {
                let rate = count as f64 / ((at - since) as f64 / SECOND as f64);
                if rate < least {
                    end = since;
                    return true;
                }
                since = at;
            }
            false
        });
        end as f64 / SECOND as f64
    }
}

fn near(measured: f64, wanted: f64, subject: &str) {
    println!("{subject}: {measured:.2}, by the table {wanted}");
    assert!((measured / wanted - 1.0).abs() < 0.005, "{subject}: {measured} for {wanted}");
}

/// Rate of I/Os of 4 KiB and of bytes of 256 KiB commands (of an I/O size), where no burst is.
fn rates(name: &str, size: u64, keys: Value) -> [f64; 2] {
    let small = Load::new(build(name, size, keys.clone()), Read, 4 * KIB).rate(20_000);
    let large = Load::new(build(name, size, keys), Write, 256 * KIB).rate(20_000);
    [small, large * (256 * KIB) as f64]
}

#[test]
fn provisioned_volumes_have_what_was_provisioned() {
    const MB: u64 = 1_000_000;
    let none = json!({});
    for (name, size, keys, iops, bandwidth) in [
        ("aws-gp3", 100 * GIB, none.clone(), 3_000, 125 * MIB),
        (
            "aws-gp3",
            100 * GIB,
            json!({"iops": 16000, "bandwidth": "1000MiB/s"}),
            16_000,
            1_000 * MIB,
        ),
        (
            "aws-gp3",
            160 * GIB,
            json!({"iops": 80000, "bandwidth": "2000MiB/s"}),
            80_000,
            2_000 * MIB,
        ),
        ("aws-io2", 4 * GIB, none.clone(), 4_000, 4_000 * (MIB * 256 / 1_000)),
        // "Maximum throughput with at least 16,000 IOPS of 256 KiB".
        ("aws-io2", 16 * GIB, json!({"iops": 16000}), 16_000, 4_000 * MIB),
        ("aws-io2", 256 * GIB, json!({"iops": 256000}), 256_000, 4_000 * MIB),
        ("azure-premium-ssd-v2", 128 * GIB, none.clone(), 3_000, 125 * MB),
        (
            "azure-premium-ssd-v2",
            160 * GIB,
            json!({"iops": 80000, "bandwidth": "1200MB/s"}),
            80_000,
            1_200 * MB,
        ),
        ("gcp-hyperdisk-balanced", 100 * GIB, none.clone(), 3_000, 140 * MIB),
        (
            "gcp-hyperdisk-balanced",
            320 * GIB,
            json!({"iops": 160000, "bandwidth": "2400MiB/s"}),
            160_000,
            2_400 * MIB,
        ),
        ("gcp-hyperdisk-extreme", 64 * GIB, json!({"iops": 1000}), 1_000, 250 * MIB),
        ("gcp-hyperdisk-extreme", TIB, json!({"iops": 350000}), 350_000, 5_000 * MIB),
    ] {
        // More of them in flight than a latency's worth.
        let keys_of = |mut keys: Value| {
            keys["read"] = "100us".into();
            keys["write"] = "100us".into();
            keys
        };
        let [small, large] = rates(name, size, keys_of(keys));
        near(small, f64::from(iops), &format!("{name} IOPS"));
        let most = bandwidth.min(u64::from(iops as u32) * 256 * KIB);
        near(large, most as f64, &format!("{name} bandwidth"));
    }
}

#[test]
fn persistent_disks_grow_with_their_size() {
    for (name, gib, iops, mib) in [
        ("gcp-pd-balanced", 10, 3_060, 142.8),
        ("gcp-pd-balanced", 100, 3_600, 168.0),
        ("gcp-pd-balanced", 1_000, 9_000, 420.0),
        ("gcp-pd-balanced", 16_384, 80_000, 1_200.0),
        ("gcp-pd-ssd", 10, 6_300, 244.8),
        ("gcp-pd-ssd", 500, 21_000, 480.0),
        ("gcp-pd-ssd", 4_096, 100_000, 1_200.0),
    ] {
        let keys = json!({ "read": "100us", "write": "100us" });
        let [small, large] = rates(name, gib * GIB, keys);
        near(small, f64::from(iops), &format!("{name} of {gib} GiB, IOPS"));
        near(large, mib * MIB as f64, &format!("{name} of {gib} GiB, bandwidth"));
    }
}

/// Commands of so many I/Os.
const MANY: u64 = 64;

/// A volume whose bandwidth bounds nothing, and commands of [`MANY`] I/Os.
fn bounded_by_ios(name: &str, size: u64, mut keys: Value) -> Load {
    let keys_of = keys.as_object_mut().unwrap();
    keys_of.insert("bandwidth".into(), "1TB/s".into());
    keys_of.insert("read".into(), "1ms".into());
    Load::new(build(name, size, keys), Read, MANY * 256 * KIB)
}

/// The guide's table: size, baseline, seconds of a burst at 3,000 IOPS, and to fill the credits.
#[test]
fn gp2_bursts_for_as_long_as_its_table_says() {
    for (gib, baseline, burst, fill) in [
        // Its table has 1,802 s, by 3 IOPS instead of the 100 by which it fills the credits.
        (1, 100, 1_862.0, 54_000),
        (100, 300, 2_000.0, 18_000),
        (250, 750, 2_400.0, 7_200),
        (334, 1_002, 2_703.0, 5_389),
        (500, 1_500, 3_600.0, 3_600),
        (750, 2_250, 7_200.0, 2_400),
    ] {
        let name = format!("gp2 of {gib} GiB");
        let mut load = bounded_by_ios("aws-gp2", gib * GIB, json!({}));
        let least = f64::from(3_000 + baseline) / 2.0 / MANY as f64;
        near(load.burst(100, least), burst, &format!("{name}, burst (s)"));
        near(load.rate(200) * MANY as f64, baseline.into(), &format!("{name}, baseline"));
        // Half of the time fills half of the credits.
        load.now += fill * SECOND / 2;
        let half = load.burst(100, least);
        assert!((half * 2.0 / burst - 1.0).abs() < 0.02, "{name}: {half} s after {fill} s / 2");
    }
    for (gib, iops) in [(33, 100), (1_000, 3_000), (5_334, 16_000), (16_384, 16_000)] {
        let mut load = bounded_by_ios("aws-gp2", gib * GIB, json!({}));
        let least = f64::from(iops) * 0.99 / MANY as f64;
        if iops >= 3_000 {
            near(load.rate(1_000) * MANY as f64, iops.into(), "gp2 without bursts");
        } else {
            load.burst(100, least.max(1_000.0 / MANY as f64));
            near(load.rate(200) * MANY as f64, iops.into(), "gp2's least");
        }
    }
}

/// As it comes, by reads of 4 KiB: six million of them.
#[test]
fn gp2_of_100_gib_bursts_for_2000_s() {
    let mut load = Load::new(build("aws-gp2", 100 * GIB, json!({})), Read, 4 * KIB);
    near(load.burst(3_000, 1_650.0), 2_000.0, "gp2 of 100 GiB, burst (s)");
    near(load.done as f64, 6_000_000.0, "reads");
    near(load.rate(2_000), 300.0, "baseline");
}

#[test]
fn gp2_moves_what_its_size_allows() {
    for (gib, mib) in [(100, 128.0), (170, 128.0), (171, 250.0), (334, 250.0), (16_384, 250.0)] {
        let mut load = Load::new(build("aws-gp2", gib * GIB, json!({})), Read, 256 * KIB);
        near(load.rate(10_000) * 0.25, mib, &format!("gp2 of {gib} GiB, MiB/s"));
    }
}

/// The guide's table: size (TiB), base and burst throughput (MiB/s).
#[test]
fn st1_bursts_as_its_table_says() {
    const LENGTH: u64 = 64;
    for (tib, base, burst) in [
        (0.125, 5.0, 31.25),
        (0.5, 20.0, 125.0),
        (1.0, 40.0, 250.0),
        (2.0, 80.0, 500.0),
        (3.0, 120.0, 500.0),
        (8.0, 320.0, 500.0),
    ] {
        let size = (tib * TIB as f64) as u64;
        let mut load = Load::new(build("aws-st1", size, json!({})), Read, LENGTH * MIB);
        let name = format!("st1 of {tib} TiB");
        near(load.rate(2_000) * LENGTH as f64, burst, &format!("{name}, burst"));
        let spent = load.now;
        // The bucket holds as much as the volume.
        let length = tib * (1 << 20) as f64 / (burst - base);
        let rest = load.burst(20, (base + burst) / 2.0 / LENGTH as f64);
        let whole = spent as f64 / SECOND as f64 + rest;
        assert!((whole / length - 1.0).abs() < 0.01, "{name}: {whole} s for {length}");
        near(load.rate(400) * LENGTH as f64, base, &format!("{name}, base"));
    }
    for tib in [13, 16] {
        let mut load = Load::new(build("aws-st1", tib * TIB, json!({})), Read, LENGTH * MIB);
        near(load.rate(2_000) * LENGTH as f64, 500.0, "st1 without bursts");
    }
}

/// The documentation's table: size, IOPS and MB/s; up to 512 GiB a burst of 3,500 and 170 for half an
/// hour.
#[test]
fn azure_premium_ssds_burst_by_credits() {
    for (gib, iops, megabytes) in [
        (4, 120, 25),
        (16, 120, 25),
        (32, 120, 25),
        (64, 240, 50),
        (128, 500, 100),
        (256, 1_100, 125),
        (512, 2_300, 150),
        (1_024, 5_000, 200),
        (2_048, 7_500, 250),
        (8_192, 16_000, 500),
        (16_384, 18_000, 750),
        (32_767, 20_000, 900),
    ] {
        let name = format!("Premium SSD of {gib} GiB");
        let mut ios = bounded_by_ios("azure-premium-ssd", gib * GIB, json!({}));
        let keys = json!({ "iops": 1_000_000, "read": "1ms" });
        let mut bytes = Load::new(build("azure-premium-ssd", gib * GIB, keys), Read, 4 * MIB);
        let of_bytes = (4 * MIB) as f64 / 1e6;
        if gib <= 512 {
            let least = f64::from(3_500 + iops) / 2.0 / MANY as f64;
            near(ios.burst(50, least), 1_800.0, &format!("{name}, burst of IOPS (s)"));
            let least = f64::from(170 + megabytes) / 2.0 / of_bytes;
            near(bytes.burst(40, least), 1_800.0, &format!("{name}, burst of bytes (s)"));
        }
        near(ios.rate(400) * MANY as f64, iops.into(), &format!("{name}, IOPS"));
        near(bytes.rate(400) * of_bytes, megabytes.into(), &format!("{name}, MB/s"));
    }
    // A size between two has the limits of the larger.
    let mut between = bounded_by_ios("azure-premium-ssd", 1_025 * GIB, json!({}));
    near(between.rate(2_000) * MANY as f64, 7_500.0, "Premium SSD of 1,025 GiB");
    // On-demand bursting and a higher performance tier: the keys beside the tiers.
    let keys = json!({ "iops": 30_000, "bandwidth": "1000MB/s", "read": "1ms" });
    let mut demand = Load::new(build("azure-premium-ssd", TIB, keys), Read, 4 * KIB);
    near(demand.rate(20_000), 30_000.0, "bursting on demand");
}

/// "8 contiguous I/O operations at 32 KiB each count as one", 8 random ones as 8; one of 1,024 KiB as
/// 4 (Amazon EBS User Guide).
#[test]
fn commands_count_as_ios_by_length_and_order() {
    let keys = json!({ "bandwidth": "1TB/s", "bandwidth_per_iops": "1GB/s", "max_bandwidth": "1TB/s",
                       "read": "1ms" });
    let rate = |length: u64, in_order: bool, name: &str| {
        let mut load = Load::new(build(name, 100 * GIB, keys.clone()), Read, length);
        load.in_order = in_order;
        load.rate(10_000)
    };
    near(rate(32 * KIB, true, "aws-gp3"), 24_000.0, "gp3, 32 KiB in order");
    near(rate(32 * KIB, false, "aws-gp3"), 3_000.0, "gp3, 32 KiB at random");
    near(rate(1_024 * KIB, false, "aws-gp3"), 750.0, "gp3, 1 MiB");
    near(rate(257 * KIB, false, "aws-gp3"), 1_500.0, "gp3, 257 KiB");
    // Without merging and without a size, each is one.
    near(rate(32 * KIB, true, "gcp-hyperdisk-balanced"), 3_000.0, "Hyperdisk, in order");
    near(rate(1_024 * KIB, true, "gcp-hyperdisk-balanced"), 3_000.0, "Hyperdisk, 1 MiB");
    // A single-digit HDD I/O of 128 KiB in order is an eighth of one.
    let mut load = Load::new(build("aws-st1", TIB, json!({})), Read, 128 * KIB);
    load.in_order = true;
    near(load.rate(20_000) / 8.0, 250.0, "st1, 128 KiB in order");
    load = Load::new(build("aws-st1", TIB, json!({})), Read, 128 * KIB);
    near(load.rate(20_000), 500.0, "st1, 128 KiB at random");
}

/// Below its limits a volume has its latency, and waits are told apart.
#[test]
fn a_lone_command_has_the_latency_alone() {
    let mut model = build("aws-gp3", 100 * GIB, json!({ "read": "700us", "flush": "2ms" }));
    let mut done = Vec::new();
    for tag in 0..3 {
        model.submit(0, tag, &Command::new(Read, u64::from(tag) << 30, 4 * KIB));
    }
    model.submit(0, 3, &Command::flush());
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    let ends: Vec<_> = done.iter().map(|done| (done.tag, done.at)).collect();
    let (latency, slot) = (700_000, SECOND.div_ceil(3_000));
    let expected =
        [(0, latency), (1, latency + slot), (2, latency + 2 * slot), (3, 2 * MILLISECOND)];
    assert_eq!(ends, expected);
    // No command is done before its bytes have moved: 64 MiB at 125 MiB/s.
    let mut model = build("aws-gp3", 100 * GIB, json!({}));
    model.submit(0, 0, &Command::new(Write, 0, 64 * MIB));
    let at = model.next_event().unwrap();
    assert!((511_999_000..=512_000_000).contains(&at), "{at}");
}

#[test]
fn a_volume_that_no_provider_has_is_refused() {
    let built = |name: &str, size: u64, keys: Value| {
        let context = BuildContext { seed: 1, capacity: size, path: 0 };
        spec(name, keys).build(&context).map(drop).map_err(|error| error.to_string())
    };
    for (name, size, keys, expected) in [
        ("aws-gp2", 17 * TIB, json!({}), "no such volume of 17TiB: the largest has 16TiB"),
        ("azure-premium-ssd", 40 * TIB, json!({}), "the largest has 32767GiB"),
        (
            "aws-gp3",
            8 * GIB,
            json!({"iops": 16000}),
            "at most 4000 I/Os a second (500 for each GiB)",
        ),
        ("aws-gp3", TIB, json!({"bandwidth": "1000MiB/s"}), "bandwidth is at most 750MiB/s"),
        (
            "aws-gp2",
            TIB,
            json!({"size": "500GiB"}),
            "a drive of 1TiB does not fit a volume of 500GiB",
        ),
    ] {
        let error = built(name, size, keys).unwrap_err();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    // A part of a larger volume, and of the smallest one.
    assert_eq!(built("aws-gp3", GIB, json!({"iops": 16000, "size": "32GiB"})), Ok(()));
    assert_eq!(built("aws-st1", GIB, json!({})), Ok(()));
    for (keys, expected) in [
        (
            json!({"iops": 90000}),
            "`iops` of a model of kind `volume`: is 90000: must be at most `max_iops`",
        ),
        (json!({"iops": 0}), "must be at least 1"),
        (
            json!({"bandwidth": "3GB/s"}),
            "`bandwidth` of a model of kind `volume`: must be at most 2000MiB/s",
        ),
        (json!({"burst_iops": 9000}), "needs `iops_credits` or `burst`"),
        (json!({"iops_credits": 9000}), "needs `burst_iops`"),
        (json!({"burst": "30min"}), "needs `burst_iops` or `burst_bandwidth`"),
        (json!({"min_size": "65TiB"}), "must be at most `max_size`"),
        (json!({"tiers": [{"size": "2GiB"}, {"size": "1GiB"}]}), "must ascend by `size`"),
    ] {
        let mut table = json!({ "base": "aws-gp3" });
        table.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let error = serde_json::from_value::<ModelSpec>(table).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
