//! Comparison of a thread's I/Os.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Access, Counts};
use crate::peer::Logged;
use crate::prepare::PreparedJob;

/// Parts of a range whose shares are compared.
const PARTS: u64 = 8;

/// The difference, if there is one.
pub fn differ(theirs: &[Logged], ours: &[Access], job: &PreparedJob) -> Option<String> {
    let mut ours = ours.to_vec();
    if job.by_latency {
        // fio's log of latencies has no flushes.
        ours.retain(|io| io.0 != 'f');
    }
    let mut theirs: Vec<Logged> = theirs.to_vec();
    if theirs.is_empty() != ours.is_empty() && !job.exits {
        return Some(format!("fio: {} I/Os, here: {}", theirs.len(), ours.len()));
    }
    if job.timed {
        let both = theirs.len().min(ours.len());
        theirs.truncate(both);
        ours.truncate(both);
        if both == 0 {
            return None;
        }
    }
    let distance = match job.drawn {
        true => 1 << 50,
        false => distance(&theirs, &ours),
    };
    let theirs: Vec<Access> = theirs
        .iter()
        .map(|logged| {
            let (difference, place, length) = logged.io;
            (difference, place + if difference == 'f' { 0 } else { logged.file * distance }, length)
        })
        .collect();
    let lengths: BTreeSet<_> =
        ours.iter().filter(|io| io.0 != 'f').map(|io| (io.0, io.2)).collect();
    let mut theirs = theirs;
    if job.by_latency && !job.timed && !job.drawn {
        // It is in the order of completions.
        theirs.sort_unstable();
        ours.sort_unstable();
    }
    let in_order = !job.by_latency || !job.timed;
    let difference = match job.drawn {
        false if lengths.len() <= 2 && in_order => (theirs != ours).then(|| at(&theirs, &ours))?,
        _ => drawn(&theirs, &ours, job)?,
    };
    let head = |all: &[Access]| format!("{} {:?}", all.len(), &all[..all.len().min(8)]);
    Some(format!("{difference}\nfio: {}\nhere: {}", head(&theirs), head(&ours)))
}

/// The first place in which two sequences differ.
fn at(theirs: &[Access], ours: &[Access]) -> String {
    match theirs.iter().zip(ours).position(|(a, b)| a != b) {
        Some(at) => format!("I/O {at}: fio {:?}, here {:?}", theirs[at], ours[at]),
        None => format!("fio has {} I/Os, here are {}", theirs.len(), ours.len()),
    }
}

/// The distance of files here.
fn distance(theirs: &[Logged], ours: &[Access]) -> u64 {
    let first = theirs.iter().zip(ours).find(|(logged, _)| logged.file > 0 && logged.io.0 != 'f');
    first.map_or(0, |(logged, io)| io.1.saturating_sub(logged.io.1) / logged.file)
}

/// The difference of I/Os of which something is drawn: in their shares.
fn drawn(theirs: &[Access], ours: &[Access], job: &PreparedJob) -> Option<String> {
    let (a, b) = (Shares::of(theirs), Shares::of(ours));
    let lengths: BTreeSet<_> = ours.iter().filter(|io| io.0 != 'f').map(|io| io.2).collect();
    let exact = !job.timed && !job.sum_is_drawn;
    if lengths.len() == 1 && exact && a.total != b.total {
        return Some(format!("fio has {} I/Os, here are {}", a.total, b.total));
    }
    // With drawn lengths the bytes are those of the region, unless the number of I/Os is the limit.
    let largest = lengths.last().copied().unwrap_or(0);
    let same_bytes = a.bytes.abs_diff(b.bytes) <= 2 * largest;
    if exact && lengths.len() > 1 && a.total != b.total && !same_bytes {
        return Some(format!(
            "fio has {} bytes in {}, here are {} in {}",
            a.bytes, a.total, b.bytes, b.total
        ));
    }
    let mut parts = vec![("operations and lengths", &a.kinds, &b.kinds)];
    // The log of latencies has no files.
    if !(job.runs || job.several && job.by_latency) {
        parts.push(("repetitions", &a.repetitions, &b.repetitions));
    }
    if job.uniform && !job.several {
        parts.push(("places", &a.places, &b.places));
    }
    if let Some((aspect, a, b)) = parts.into_iter().find(|(_, a, b)| !alike(a, b)) {
        return Some(format!("{aspect}: fio {a:?}, here {b:?}"));
    }
    // At the end of a pass fio's map gives the next free block, which may be the one behind.
    let part = |shares: &Shares| shares.behind as f64 / shares.total.max(1) as f64;
    if !(job.runs || job.repeated || job.several && job.by_latency)
        && (part(&a) - part(&b)).abs()
            > 0.03 + 3.0 / (a.total.max(1) as f64).sqrt() + 1.0 / (b.distinct.max(1) as f64).sqrt()
    {
        return Some(format!("behind the one before: fio {}, here {}", a.behind, b.behind));
    }
    // Places reach the bounds nearly, of many.
    let near =
        |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / 8 + lengths.last().copied().unwrap_or(0);
    (job.uniform && !job.several && a.total > 200 && !near(a.end, b.end))
        .then(|| format!("places end at {} in fio, at {} here", a.end, b.end))
}

/// Returns whether the shares of each kind of I/O are equal within the spread of their numbers.
fn alike(theirs: &Counts, ours: &Counts) -> bool {
    let total = |counts: &Counts| (counts.values().sum::<u64>() as f64).max(1.0);
    let (n, m) = (total(theirs), total(ours));
    theirs.keys().chain(ours.keys()).all(|key| {
        let share_of = |counts: &Counts, all| counts.get(key).copied().unwrap_or(0) as f64 / all;
        let (p, q) = (share_of(theirs, n), share_of(ours, m));
        let share = (p + q) / 2.0;
        // Five deviations of a difference of shares, and three I/Os.
        let spread = (share * (1.0 - share) * (1.0 / n + 1.0 / m)).sqrt();
        (p - q).abs() <= 5.0 * spread + 3.0 / n.min(m)
    })
}

/// Numbers that random places must not change but within their spread.
#[derive(Default)]
struct Shares {
    total: u64,
    bytes: u64,
    distinct: u64,
    end: u64,
    /// By operation and length.
    kinds: Counts,
    /// I/Os behind the one before them of the same operation.
    behind: u64,
    /// I/Os at a place that was met before, by operation.
    repetitions: Counts,
    /// I/Os by part of the range.
    places: Counts,
}

impl Shares {
    fn of(all: &[Access]) -> Self {
        let mut shares = Self::default();
        let mut last: BTreeMap<char, u64> = BTreeMap::new();
        let mut met = BTreeSet::new();
        // A range of a power of two is the same for both.
        let end = all.iter().map(|io| io.1 + io.2).max().unwrap_or(0);
        let range = end.next_power_of_two().max(PARTS);
        for &(kind, place, length) in all {
            *shares.kinds.entry((kind, length)).or_default() += 1;
            if kind == 'f' {
                continue;
            }
            shares.total += 1;
            shares.bytes += length;
            let before = last.insert(kind, place + length);
            shares.behind += u64::from(before == Some(place));
            *shares
                .repetitions
                .entry((kind, u64::from(!met.insert((kind, place)))))
                .or_default() += 1;
            *shares.places.entry((kind, place / (range / PARTS))).or_default() += 1;
        }
        shares.end = end;
        shares.distinct = met.len() as u64;
        shares
    }
}
