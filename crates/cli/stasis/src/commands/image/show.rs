//! An image's properties, soundness and layout.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{anyhow, Context, Result};
use serde_json::json;
use stasis_block::units::format_size;
use stasis_qcow2::{Compression, ImageError, Kind};
use stasis_terminal::answer::document;

use super::open::open;

/// The way on from an image that was not closed, and from one that is marked.
const REPAIRED: &str = "it can be read, and opening it to be written repairs it";
const MARKED: &str = "it can only be read: copy its disk with `stasis image convert`";

/// `stasis image info`.
pub fn info(path: &Path, json: bool) -> Result<ExitCode> {
    let found = match stasis_qcow2::describe(path) {
        Err(ImageError::NotQcow2(_)) => return raw(path, json),
        found => found?,
    };
    let (header, report) = (&found.header, &found.report);
    let below: Vec<_> = found.below.iter().map(|path| path.display().to_string()).collect();
    let snapshots: Vec<_> = found
        .snapshots
        .iter()
        .map(|one| json!({ "id": one.id, "name": one.name, "size": one.size }))
        .collect();
    let compression = match header.compression {
        Compression::Deflate => "deflate",
        Compression::Zstd => "zstd",
    };
    let problem = found.problem.as_ref().map(ToString::to_string);
    let text = if json {
        let value = json!({
            "file": path.display().to_string(),
            "format": "qcow2",
            "version": header.version,
            "size": header.size,
            "cluster_size": header.cluster_size(),
            "refcount_bits": 1u32 << header.refcount_order,
            "lazy_refcounts": header.lazy_refcounts(),
            "extended_l2": header.extended_l2(),
            "compression": compression,
            "dirty": header.dirty(),
            "marked_corrupt": header.corrupt(),
            "corruptions": report.corruption_count,
            "problem": problem,
            "allocated_clusters": report.allocated,
            "compressed_clusters": report.compressed,
            "total_clusters": report.total,
            "leaked_clusters": report.leaks,
            "end": report.end,
            "below": below,
            "newer_below": found.newer_below,
            "snapshots": snapshots,
        });
        format!("{value:#}\n")
    } else {
        let mut text = String::new();
        writeln!(text, "{}: qcow2 version {}", path.display(), header.version)?;
        writeln!(text, "disk: {}", format_size(header.size))?;
        let clusters = format_size(header.cluster_size());
        let bits = 1u32 << header.refcount_order;
        let lazy = if header.lazy_refcounts() { ", written late" } else { "" };
        writeln!(text, "clusters: {clusters}, refcounts of {bits} bits{lazy}")?;
        if header.extended_l2() {
            let part = format_size(header.shape().unit());
            writeln!(text, "L2 entries: extended, with parts of {part}")?;
        }
        let compressed = match report.compressed {
            0 => String::new(),
            count => format!(", {count} compressed with {compression}"),
        };
        writeln!(text, "allocated: {} of {} clusters{compressed}", report.allocated, report.total)?;
        writeln!(text, "file: used up to {}", format_size(report.end))?;
        for name in below {
            writeln!(text, "below: {name}")?;
        }
        for path in &found.newer_below {
            writeln!(text, "{}", stasis_qcow2::newer_below(path))?;
        }
        for one in &found.snapshots {
            writeln!(text, "snapshot: {} ({}), {}", one.name, one.id, format_size(one.size))?;
        }
        if header.dirty() {
            writeln!(text, "not closed (lazy refcounts); {REPAIRED}")?;
        }
        if header.corrupt() {
            writeln!(text, "marked as corrupt; {MARKED}")?;
        }
        if let Some(problem) = problem {
            writeln!(text, "cannot be used: {problem}")?;
        }
        text
    };
    document(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Describes a raw image.
fn raw(path: &Path, json: bool) -> Result<ExitCode> {
    let found =
        std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Blocks of stat(2) have 512 bytes, whatever the file system's.
    let (size, allocated) = (found.len(), found.blocks() * 512);
    let text = if json {
        let file = path.display().to_string();
        let value = json!({ "file": file, "format": "raw", "size": size, "allocated": allocated });
        format!("{value:#}\n")
    } else {
        format!(
            "{}: raw\ndisk: {}\nfile: {} allocated\n",
            path.display(),
            format_size(size),
            stasis_results::units::bytes(allocated)
        )
    };
    document(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// `stasis image check`.
pub fn check(path: &Path, json: bool) -> Result<ExitCode> {
    let (header, report, _) = stasis_qcow2::check(path).map_err(|error| match error {
        // Its own advice would be this command.
        ImageError::Damaged { path, contradiction } => anyhow!(
            "{}: damaged, so that nothing more of it can be checked: {contradiction}; restore it, or copy \
             what can be read with `stasis image convert --rescue`",
            path.display()
        ),
        error => error.into(),
    })?;
    let text = if json {
        let value = json!({
            "file": path.display().to_string(),
            "corruptions": report.corruption_count,
            "first_corruptions": report.corruptions,
            "leaks": report.leaks,
            "stale": report.stale,
            "dirty": header.dirty(),
            "marked_corrupt": header.corrupt(),
            "allocated_clusters": report.allocated,
            "total_clusters": report.total,
        });
        format!("{value:#}\n")
    } else {
        let mut text = String::new();
        for corruption in &report.corruptions {
            writeln!(text, "{}: {corruption}", path.display())?;
        }
        if report.is_sound() && report.stale > 0 {
            let (path, stale) = (path.display(), report.stale);
            writeln!(text, "{path}: not closed (lazy refcounts): {stale} refcounts and flags are behind; {REPAIRED}")?;
        } else if report.is_sound() && header.corrupt() {
            writeln!(
                text,
                "{}: marked as corrupt, although no contradiction is found; {MARKED}",
                path.display()
            )?;
        }
        match (report.corruption_count, report.leaks) {
            (0, 0) if report.stale > 0 || header.corrupt() => {}
            (0, 0) => writeln!(text, "{}: sound", path.display())?,
            (0, leaks) => writeln!(
                text,
                "{}: sound; {leaks} clusters have leaked, which costs their room and nothing else",
                path.display()
            )?,
            (count, leaks) => writeln!(
                text,
                "{}: damaged: {count} errors, {leaks} leaked clusters; copy what can be read with `stasis \
                 image convert --rescue`, or try `qemu-img check -r all` on a copy",
                path.display()
            )?,
        }
        text
    };
    document(&text)?;
    Ok(ExitCode::from(report.verdict() as u8))
}

/// `stasis image map`.
pub fn map(path: &Path, json: bool) -> Result<ExitCode> {
    let mut image = open(path, false, None)?;
    let mut text = String::new();
    let mut rows = Vec::new();
    for extent in image.map()? {
        let (kind, place) = match extent.kind {
            Kind::Zero { explicit: true } => ("zero", None),
            Kind::Zero { explicit: false } => ("nothing", None),
            Kind::Data(at) => ("data", Some(at)),
            Kind::Below(_) => ("below", None),
            Kind::Compressed => ("compressed", None),
        };
        if json {
            rows.push(json!({
                "offset": extent.offset, "length": extent.length, "kind": kind, "file_offset": place,
            }));
        } else {
            let place = place.map(|at| format!(" at {at:#x}")).unwrap_or_default();
            let (offset, length) = (extent.offset, extent.length);
            writeln!(text, "{offset:#14x} {length:#14x} {kind}{place}")?;
        }
    }
    if json {
        text = format!("{:#}\n", serde_json::Value::from(rows));
    }
    document(&text)?;
    Ok(ExitCode::SUCCESS)
}
