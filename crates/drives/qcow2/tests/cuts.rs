//! The power is cut anywhere, and the image is started again from a state that the drive's cache
//! may leave.

use std::path::Path;

use crate::common::cut::{run, run_on_shared, Run};
use crate::common::*;
use stasis_qcow2::{Durability, Settings};

fn cuts(options: &str, durability: Durability, seeds: std::ops::Range<u64>, each: u64) {
    let work = |path: &Path, seed, settings| run(path, seed, settings, 150);
    cuts_of(work, options, durability, seeds, each);
}

fn cuts_of(
    work: impl Fn(&Path, u64, Settings) -> Run,
    options: &str,
    durability: Durability,
    seeds: std::ops::Range<u64>,
    each: u64,
) {
    let folder = folder();
    for seed in seeds {
        let path = name(&folder, "disk.qcow2");
        let text = path.to_str().unwrap();
        qemu_img(&["create", "-q", "-f", "qcow2", "-o", options, text, "1M"]);
        if options == PARTS {
            // Clusters with data, which is zeroes, in some of their parts: QEMU allocates parts.
            let writes = (0..32).map(|n| format!("write -P 0 {}k 4k", 32 * n + 2));
            let words = writes.flat_map(|write| ["-c".to_owned(), write]);
            let output = std::process::Command::new("qemu-io").args(words).arg(text).output();
            assert!(output.unwrap().status.success());
        }
        let settings = Settings { durability, max_lag: 4_000_000, ..Settings::default() };
        let run = work(&path, seed, settings);
        let state = name(&folder, "state.qcow2");
        for draw in 0..each {
            let judged = run.cut(&state, seed << 32 | draw, draw.is_multiple_of(20));
            judged
                .unwrap_or_else(|wrong| panic!("{options} {durability:?} {seed} {draw}: {wrong}"));
        }
    }
}

/// Images in which a cluster can have data in parts.
const PARTS: &str = "cluster_size=16384,extended_l2=on";

#[test]
fn flush_keeps_what_was_flushed() {
    cuts("cluster_size=4096", Durability::Flush, 0..2, 20);
    cuts("cluster_size=512,refcount_bits=1", Durability::Flush, 3..5, 20);
    cuts("cluster_size=65536", Durability::Flush, 6..7, 20);
    cuts(PARTS, Durability::Flush, 7..8, 20);
}

#[test]
fn barrier_keeps_what_was_flushed() {
    cuts("cluster_size=4096", Durability::Barrier, 0..2, 20);
    cuts("cluster_size=512,refcount_bits=1", Durability::Barrier, 3..5, 20);
    cuts("cluster_size=65536", Durability::Barrier, 6..7, 20);
    cuts(PARTS, Durability::Barrier, 7..8, 20);
}

#[test]
fn ordered_keeps_a_prefix() {
    cuts("cluster_size=4096", Durability::Ordered, 0..2, 20);
    cuts("cluster_size=512,refcount_bits=1", Durability::Ordered, 3..5, 20);
    cuts("cluster_size=65536", Durability::Ordered, 6..7, 20);
    cuts(PARTS, Durability::Ordered, 7..8, 20);
}

#[test]
fn late_refcounts_are_found_again() {
    for durability in Durability::ALL {
        cuts("cluster_size=4096,lazy_refcounts=on", durability, 0..1, 20);
    }
}

/// On a drive that others share, below a scheduler that changes orders.
#[test]
fn a_shared_drive_keeps_the_same() {
    for (number, scheduler) in ["bfq", "deadline", "clook", "cfq", "none"].into_iter().enumerate() {
        for durability in Durability::ALL {
            // A flush waits its turn at the scheduler: it takes the longer.
            let work = |path: &Path, seed, settings| {
                let settings = Settings { max_lag: 1_000_000_000, ..settings };
                run_on_shared(path, seed, settings, 150, scheduler)
            };
            let seed = number as u64;
            cuts_of(work, "cluster_size=4096", durability, seed..seed + 1, 8);
        }
    }
}
