//! Images as others leave them, damaged ones among them: each outcome beside that of `qemu-img`.
//!
//! The kinds are those of QEMU's own tests of qcow2 (qemu-iotests 036, 060, 061, 080, 098, 103, 108, 138,
//! 176, 214, 271, 287 and others), made here by QEMU's programs and by other bytes at a few places.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::Arc;

use crate::common::*;
use stasis_block::{Command, Operation, Status};
use stasis_drive::{Drive, Layer};
use stasis_qcow2::{
    Extent, Fate, Format, Image, ImageError, Kind, Loss, Rescue, Settings, ZeroLatency,
};
use stasis_qcow2_format::Reader;

/// Bytes at a place of the file, in hexadecimal.
type Edit = (u64, &'static str);

/// An image, and the outcomes of `check` (its status), `info`, `map` and `convert`: `+` where it is done,
/// `-` where it is refused; and of a rescue: the bytes that are lost and doubtful, or `-`.
struct Row {
    name: &'static str,
    base: &'static str,
    edits: &'static [Edit],
    qemu: &'static str,
    ours: &'static str,
    rescue: &'static str,
}

const fn row(
    name: &'static str,
    base: &'static str,
    edits: &'static [Edit],
    qemu: &'static str,
    ours: &'static str,
    rescue: &'static str,
) -> Row {
    Row { name, base, edits, qemu, ours, rescue }
}

/// An image of QEMU's programs: its name, options, size, commands of `qemu-io`, and further programs.
type Base = (&'static str, &'static str, &'static str, Words, &'static [Words]);
type Words = &'static [&'static str];

const BASES: &[Base] = &[
    ("empty", "compat=1.1", "1M", &[], &[]),
    ("data", "compat=1.1", "1M", &["write -P 1 0 128k"], &[]),
    (
        "snapshot",
        "compat=1.1",
        "1M",
        &["write -P 1 0 128k"],
        &[&["snapshot", "-c", "then", "FILE"], &["io", "write -P 2 0 64k"]],
    ),
    (
        "old",
        "compat=0.10",
        "1M",
        &["write -P 1 0 64k", "write -P 2 512k 64k", "discard 0 64k"],
        &[],
    ),
    ("many tables", "cluster_size=4096", "8M", &["write -P 1 0 64k", "write -P 2 6M 64k"], &[]),
    ("small clusters", "cluster_size=512", "1M", MIX, &[]),
    ("large clusters", "cluster_size=2M", "8M", MIX, &[]),
    ("1 bit", "refcount_bits=1", "1M", MIX, &[]),
    ("64 bits", "refcount_bits=64", "1M", MIX, &[]),
    ("lazy", "lazy_refcounts=on", "1M", MIX, &[]),
    ("mapped", "preallocation=metadata", "1M", MIX, &[]),
    ("full", "preallocation=full", "1M", MIX, &[]),
    ("fallocated", "preallocation=falloc", "1M", MIX, &[]),
    ("parts", "extended_l2=on", "1M", MIX, &[]),
    ("small parts", "extended_l2=on,cluster_size=16k", "1M", MIX, &[]),
    ("parts over parts", "extended_l2=on,backing_file=parts,backing_fmt=qcow2", "1M", OVER, &[]),
    ("over parts", "backing_file=parts,backing_fmt=qcow2", "1M", OVER, &[]),
    ("parts over data", "extended_l2=on,backing_file=data,backing_fmt=qcow2", "1M", OVER, &[]),
    ("deflate", "compat=1.1", "1M", PACKED, &[&["io", "write -P 9 70k 4k"]]),
    ("zstd", "compression_type=zstd", "1M", PACKED, &[&["io", "write -P 9 70k 4k"]]),
    (
        "zstd parts",
        "compression_type=zstd,extended_l2=on",
        "1M",
        PACKED,
        &[&["io", "write -P 9 70k 4k"]],
    ),
    ("over zstd", "backing_file=zstd,backing_fmt=qcow2", "1M", OVER, &[]),
    ("over deflate", "backing_file=deflate,backing_fmt=qcow2", "1M", OVER, &[]),
    ("over not closed", "backing_file=not closed,backing_fmt=qcow2", "1M", OVER, &[]),
    ("over marked", "backing_file=marked,backing_fmt=qcow2", "1M", OVER, &[]),
    ("over damaged", "backing_file=damaged,backing_fmt=qcow2", "1M", OVER, &[]),
    (
        "bitmap",
        "compat=1.1",
        "1M",
        &[],
        &[&["bitmap", "--add", "FILE", "changed"], &["io", MIX[0]]],
    ),
    ("other file", "data_file=other.raw", "1M", MIX, &[]),
    ("100 bytes", "compat=1.1", "100", &["write -P 1 0 512"], &[]),
    ("no bytes", "compat=1.1", "0", &[], &[]),
    (
        "shrunk",
        "compat=1.1",
        "1M",
        &["write -P 7 0 256k"],
        &[&["resize", "--shrink", "-q", "FILE", "128k"], &["resize", "-q", "FILE", "512k"]],
    ),
    (
        "grown",
        "compat=1.1",
        "512k",
        &["write -P 7 0 256k"],
        &[
            &["snapshot", "-c", "then", "FILE"],
            &["resize", "-q", "FILE", "2M"],
            &["io", "write -P 8 1M 64k"],
        ],
    ),
];
const MIX: &[&str] = &[
    "write -P 5 100k 200k",
    "write -z 448k 128k",
    "write -P 3 640k 130k",
    "discard 128k 64k",
    "write -P 4 6k 2k",
    "write -z 104k 4k",
];
const OVER: &[&str] = &["write -P 8 40k 8k", "write -z 192k 66k", "write -P 6 700k 9k"];
const PACKED: &[&str] = &[
    "write -c -P 3 0 64k",
    "write -c -P 4 64k 64k",
    "write -c -P 5 256k 64k",
    "write -P 6 320k 64k",
];
/// Images that others lie over, made of others by edits.
const EDITED: &[(&str, &str, &[Edit])] =
    &[("not closed", "data", NOT_CLOSED), ("marked", "data", MARKED), ("damaged", "data", LOST_L2)];

// Places in the images of 64 KiB clusters that `qemu-img create` makes.
const REFTABLE: u64 = 0x1_0000;
const REFBLOCK: u64 = 0x2_0000;
const L1: u64 = 0x3_0000;
const L2: u64 = 0x4_0000;

/// The dirty bit, and refcounts of data that were not written.
const NOT_CLOSED: &[Edit] = &[(72, "0000000000000001"), (REFBLOCK + 2 * 5, "00000000")];
const MARKED: &[Edit] = &[(72, "0000000000000002")];
const LOST_L2: &[Edit] = &[(L2 + 8, "8000000100000000")];

const ROWS: &[Row] = &[
    row("a header of 4 GiB", "empty", &[(100, "ffffffff")], "1 - - -", "1 - - -", "0 0"),
    row("a header of 2 GiB", "empty", &[(100, "7fffffff")], "1 - - -", "1 - - -", "0 0"),
    row(
        "a backing file's name far away",
        "empty",
        &[(8, "ffffffffffffffff"), (16, "00000010")],
        "1 - - -",
        "1 - - -",
        "1048576 0",
    ),
    row(
        "a backing file's name of 4 GiB",
        "empty",
        &[(8, "0000000000001000"), (16, "ffffffff")],
        "1 - - -",
        "1 - - -",
        "1048576 0",
    ),
    row(
        "an extension without end",
        "empty",
        &[(112, "123456787fffffff")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "an extension behind a kind of compression",
        "empty",
        &[(104, "1234567800000000")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "a refcount table of 4 G clusters",
        "empty",
        &[(56, "ffffffff")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "a refcount table just too long",
        "empty",
        &[(56, "00020001")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "an unaligned refcount table",
        "empty",
        &[(48, "1234567890abcdef")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "a refcount table behind the end",
        "empty",
        &[(48, "ffffffffffff0000"), (56, "0000007f")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row("no refcount table", "empty", &[(56, "00000000")], "2 - - -", "1 - - -", "0 0"),
    row("4 G snapshots", "empty", &[(60, "ffffffff")], "1 - - -", "1 - - -", "0 0"),
    row("2 G snapshots", "empty", &[(60, "7fffffff")], "1 - - -", "1 - - -", "0 0"),
    row(
        "snapshots behind the end of all",
        "empty",
        &[(64, "ffffffffffff0000"), (60, "0000ffff")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "no snapshots, unaligned",
        "empty",
        &[(64, "1234567890abcdef")],
        "1 - - -",
        "1 - - -",
        "0 0",
    ),
    row(
        "snapshots behind the end",
        "empty",
        &[(64, "0000000001000000"), (60, "00000003")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row("an L1 table of 32 GiB", "empty", &[(36, "ffffffff")], "1 - - -", "1 - - -", "0 0"),
    row("an L1 table of 16 GiB", "empty", &[(36, "7fffffff")], "1 - - -", "1 - - -", "0 0"),
    row(
        "an L1 table behind the end",
        "empty",
        &[(40, "7fffffffffff0000"), (36, "0000ffff")],
        "1 - - -",
        "1 - - -",
        "-",
    ),
    row("an unaligned L1 table", "empty", &[(40, "1234567890abcdef")], "1 - - -", "1 - - -", "-"),
    row(
        "an L1 table without entries",
        "snapshot",
        &[(36, "00000000")],
        "1 - - -",
        "1 - - -",
        "1048576 0",
    ),
    row(
        "an L1 table with more entries than its disk",
        "data",
        &[(36, "00000010")],
        "0 + + +",
        "0 + + +",
        "0 0",
    ),
    row("version 1", "empty", &[(4, "00000001")], "1 - - -", "1 - - -", "-"),
    row("version 4", "empty", &[(4, "00000004")], "1 - - -", "1 - - -", "-"),
    row("clusters of 256 bytes", "empty", &[(20, "00000008")], "1 - - -", "1 - - -", "-"),
    row("clusters of 4 MiB", "empty", &[(20, "00000016")], "1 - - -", "1 - - -", "-"),
    row("refcounts of 128 bits", "data", &[(96, "00000007")], "1 - - -", "1 - - -", "0 0"),
    row("refcounts of 2^255 bits", "data", &[(96, "000000ff")], "1 - - -", "1 - - -", "0 0"),
    row("encryption", "empty", &[(32, "00000001")], "1 + - -", "1 - - -", "-"),
    row("an unknown encryption", "empty", &[(32, "00000007")], "1 - - -", "1 - - -", "-"),
    row(
        "an unknown incompatible feature",
        "data",
        &[(72, "8000000000000000")],
        "1 - - -",
        "1 - - -",
        "-",
    ),
    row(
        "an unknown compatible feature",
        "data",
        &[(80, "0000000000000002")],
        "0 + + +",
        "0 + + +",
        "0 0",
    ),
    row(
        "an unknown autoclear feature",
        "data",
        &[(88, "0000000000000004")],
        "0 + + +",
        "0 + + +",
        "0 0",
    ),
    row("zstd in the bit alone", "data", &[(72, "0000000000000008")], "1 - - -", "1 - - -", "0 0"),
    row("zstd in the field alone", "data", &[(104, "01")], "1 - - -", "1 - - -", "0 0"),
    row(
        "an unknown compression",
        "data",
        &[(72, "0000000000000008"), (104, "02")],
        "1 - - -",
        "1 - - -",
        "-",
    ),
    row(
        "extended entries in a table of others",
        "data",
        &[(72, "0000000000000010")],
        "3 + + +",
        "3 + + +",
        "0 0",
    ),
    row(
        "extended entries with clusters of 4 KiB",
        "many tables",
        &[(72, "0000000000000010")],
        "1 - - -",
        "1 - - -",
        "-",
    ),
    row("a disk of 511 bytes", "data", &[(24, "00000000000001ff")], "0 + + +", "1 - - -", "0 0"),
    row(
        "a disk of 1 MiB and a byte",
        "data",
        &[(24, "0000000000100001")],
        "0 + + +",
        "1 - - -",
        "0 0",
    ),
    row("a disk of 8 EiB", "data", &[(24, "7fffffffffffffff")], "1 - - -", "1 - - -", "-"),
    row("a disk without bytes", "data", &[(24, "0000000000000000")], "0 + + +", "0 + + +", "0 0"),
    row("cut within its header", "data", &[(80, "")], "1 - - -", "1 - - -", "-"),
    row("marked as corrupt", "data", MARKED, "0 + + +", "0 + + +", "0 0"),
    row("not closed", "data", &[(72, "0000000000000001")], "0 + + +", "0 + + +", "0 0"),
    row("not closed, with refcounts behind", "data", NOT_CLOSED, "2 + + +", "2 + + +", "0 0"),
    row("not closed and marked", "data", &[(72, "0000000000000003")], "0 + + +", "0 + + +", "0 0"),
    row("a backing file that was not closed", "over not closed", &[], "0 + + +", "0 + + +", "0 0"),
    row("a backing file that is marked", "over marked", &[], "0 + + +", "0 + + +", "0 0"),
    row("a backing file that is damaged", "over damaged", &[], "0 + + +", "0 + - -", "65536 0"),
    row(
        "an unaligned refcount block",
        "data",
        &[(REFTABLE, "0000000000020200")],
        "1 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "a refcount block behind the end",
        "data",
        &[(REFTABLE, "0000002000020000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "no refcount block",
        "data",
        &[(REFTABLE, "0000000000000000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "a refcount block in the refcount table",
        "data",
        &[(REFTABLE, "0000000000010000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "a refcount of 0 of data",
        "data",
        &[(REFBLOCK + 2 * 5, "0000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "a refcount of 7 of data",
        "data",
        &[(REFBLOCK + 2 * 5, "0007")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row("a leak", "data", &[(L2, "0000000000000000")], "3 + + +", "3 + + +", "0 0"),
    row(
        "a refcount behind the end",
        "data",
        &[(REFBLOCK + 2 * 9, "0001")],
        "0 + + +",
        "0 + + +",
        "0 0",
    ),
    row(
        "a data cluster with a refcount of 1 that is not flagged",
        "data",
        &[(L2, "0000000000050000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "an L2 table with a refcount of 0",
        "data",
        &[(REFBLOCK + 2 * 4, "0000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "an L2 entry with unknown bits, behind the end",
        "data",
        &[(L2, "bfffffffffff0000")],
        "2 + + +",
        "2 + - -",
        "65536 0",
    ),
    row(
        "an L2 entry with unknown bits",
        "data",
        &[(L2, "8000000000050002")],
        "2 + + +",
        "2 + - -",
        "0 65536",
    ),
    row(
        "an L1 entry with unknown bits",
        "data",
        &[(L1, "8000000000040004")],
        "2 + + +",
        "2 + - -",
        "0 1048576",
    ),
    row(
        "data behind the end",
        "data",
        &[(L2, "800000ffffff0000")],
        "2 + + +",
        "2 + - -",
        "65536 0",
    ),
    row(
        "data behind the end, twice",
        "data",
        &[(L2, "800000ffffff0000"), (L2 + 8, "800000fffffe0000")],
        "2 + + +",
        "2 + - -",
        "131072 0",
    ),
    row("unaligned data", "data", &[(L2, "8000000000052a00")], "2 + - -", "2 + - -", "65536 0"),
    row(
        "unaligned room of zeroes",
        "data",
        &[(L2, "8000000000052a01")],
        "2 + - -",
        "2 + - -",
        "65536 0",
    ),
    row(
        "an unaligned L2 table",
        "data",
        &[(L1, "8000000000040200")],
        "2 + - -",
        "2 + - -",
        "1048576 0",
    ),
    row(
        "an L2 table behind the end",
        "data",
        &[(L1, "8000010000000000")],
        "2 + + +",
        "2 + - -",
        "1048576 0",
    ),
    row(
        "an L2 table in the L1 table",
        "empty",
        &[(L1, "8000000000030000")],
        "2 + + +",
        "2 + - -",
        "1048568 8",
    ),
    row(
        "an L2 table in the refcount block",
        "data",
        &[(L1, "8000000000020000")],
        "2 + + +",
        "2 + - -",
        "65536 983040",
    ),
    row(
        "data in the refcount block",
        "data",
        &[(L2, "8000000000020000")],
        "2 + + +",
        "2 + - -",
        "0 65536",
    ),
    row(
        "data in the header",
        "data",
        &[(L2 + 8, "4000000000000000")],
        "2 + + -",
        "2 + - -",
        "65536 0",
    ),
    row(
        "data of two parts",
        "data",
        &[(L2 + 16, "8000000000050000")],
        "2 + + +",
        "2 + - -",
        "0 131072",
    ),
    row(
        "data in a table of the snapshot",
        "snapshot",
        &[(0x90000, "8000000000040000")],
        "2 + + +",
        "2 + - -",
        "0 65536",
    ),
    row(
        "zeroes in version 2",
        "old",
        &[(L2 + 16, "0000000000000001")],
        "0 + - -",
        "2 + - -",
        "65536 0",
    ),
    row(
        "a compressed cluster that is none",
        "data",
        &[(L2, "4000000000050000")],
        "0 + + -",
        "0 + + -",
        "65536 0",
    ),
    row(
        "a compressed cluster behind the end",
        "deflate",
        &[(L2, "400000ffffff0000")],
        "2 + + -",
        "2 + - -",
        "65536 0",
    ),
    row(
        "compressed data that is damaged",
        "deflate",
        &[(0x50000, "ffffffffffffffff")],
        "0 + + -",
        "0 + + -",
        "65536 0",
    ),
    row(
        "zstd data that is damaged",
        "zstd",
        &[(0x50000, "ffffffffffffffff")],
        "0 + + -",
        "0 + + -",
        "65536 0",
    ),
    row("cut within data", "data", &[(0x58000, "")], "2 + + +", "2 + - -", "98304 0"),
    row("cut before data", "data", &[(0x50000, "")], "2 + + +", "2 + - -", "131072 0"),
    row("cut before the L2 table", "data", &[(0x40000, "")], "2 + + +", "2 + - -", "1048576 0"),
    row("cut within the L2 table", "data", &[(0x40004, "")], "0 + + +", "2 + - -", "1048576 0"),
    row(
        "an unaligned L1 table of a snapshot",
        "snapshot",
        &[(0x80000, "0000000000070200")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "a snapshot with 268 million L1 entries",
        "snapshot",
        &[(0x80008, "10000000")],
        "2 + + +",
        "2 + - -",
        "0 0",
    ),
    row(
        "a snapshot with 16 MiB of extra data",
        "snapshot",
        &[(0x80024, "01000000")],
        "1 - - -",
        "2 + - -",
        "0 0",
    ),
    row("512-byte clusters", "small clusters", &[], "0 + + +", "0 + + +", "0 0"),
    row("2 MiB clusters", "large clusters", &[], "0 + + +", "0 + + +", "0 0"),
    row("refcounts of a bit", "1 bit", &[], "0 + + +", "0 + + +", "0 0"),
    row("refcounts of 64 bits", "64 bits", &[], "0 + + +", "0 + + +", "0 0"),
    row("lazy refcounts", "lazy", &[], "0 + + +", "0 + + +", "0 0"),
    row("tables made beforehand", "mapped", &[], "0 + + +", "0 + + +", "0 0"),
    row("all made beforehand", "full", &[], "0 + + +", "0 + + +", "0 0"),
    row("all allocated beforehand", "fallocated", &[], "0 + + +", "0 + + +", "0 0"),
    row("version 2", "old", &[], "0 + + +", "0 + + +", "0 0"),
    row("more than one L2 table", "many tables", &[], "0 + + +", "0 + + +", "0 0"),
    row("extended entries", "parts", &[], "0 + + +", "0 + + +", "0 0"),
    row("extended entries, 16 KiB clusters", "small parts", &[], "0 + + +", "0 + + +", "0 0"),
    row("extended over extended", "parts over parts", &[], "0 + + +", "0 + + +", "0 0"),
    row("above extended entries", "over parts", &[], "0 + + +", "0 + + +", "0 0"),
    row("extended over others", "parts over data", &[], "0 + + +", "0 + + +", "0 0"),
    row(
        "a part that is data and zeroes",
        "parts",
        &[(L2 + 24, "8000000080000000")],
        "2 + - -",
        "2 + - -",
        "65536 0",
    ),
    row(
        "a part with data and no place",
        "parts",
        &[(L2 + 16 * 12, "00000000000000000000000000000001")],
        "2 + - -",
        "2 + - -",
        "65536 0",
    ),
    row(
        "a bit of zeroes in an extended entry",
        "parts",
        &[(L2 + 16, "8000000000050001")],
        "0 + + +",
        "2 + - -",
        "0 65536",
    ),
    row(
        "unaligned data of parts",
        "parts",
        &[(L2 + 16, "8000000000050200")],
        "2 + - -",
        "2 + - -",
        "65536 0",
    ),
    row("compressed by deflate", "deflate", &[], "0 + + +", "0 + + +", "0 0"),
    row("compressed by zstd", "zstd", &[], "0 + + +", "0 + + +", "0 0"),
    row("zstd with extended entries", "zstd parts", &[], "0 + + +", "0 + + +", "0 0"),
    row("above zstd", "over zstd", &[], "0 + + +", "0 + + +", "0 0"),
    row("above deflate", "over deflate", &[], "0 + + +", "0 + + +", "0 0"),
    row(
        "a compressed cluster with parts",
        "zstd parts",
        &[(L2 + 8, "0000000000000001")],
        "2 + + +",
        "2 + - -",
        "65536 0",
    ),
    row("bitmaps", "bitmap", &[], "0 + + +", "0 + + +", "0 0"),
    row("another file with the data", "other file", &[], "0 + + +", "1 - - -", "-"),
    row("100 bytes", "100 bytes", &[], "0 + + +", "0 + + +", "0 0"),
    row("no bytes", "no bytes", &[], "0 + + +", "0 + + +", "0 0"),
    row("shrunk and grown", "shrunk", &[], "0 + + +", "0 + + +", "0 0"),
    row("grown since a snapshot", "grown", &[], "0 + + +", "0 + + +", "0 0"),
    row("a snapshot", "snapshot", &[], "0 + + +", "0 + + +", "0 0"),
    row("data", "data", &[], "0 + + +", "0 + + +", "0 0"),
    row("nothing", "empty", &[], "0 + + +", "0 + + +", "0 0"),
];

struct Images {
    folder: tempfile::TempDir,
    known: BTreeMap<&'static str, Vec<u8>>,
}

impl Images {
    fn new() -> Self {
        Self { folder: folder(), known: BTreeMap::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn edited(&mut self, base: &'static str, edits: &[Edit]) -> Vec<u8> {
        let mut file = self.base(base).to_vec();
        for (at, bytes) in edits {
            if bytes.is_empty() {
                file.truncate(*at as usize);
                continue;
            }
            let byte = |n| u8::from_str_radix(&bytes[2 * n..2 * n + 2], 16).unwrap();
            let at = *at as usize;
            (0..bytes.len() / 2).for_each(|n| file[at + n] = byte(n));
        }
        file
    }

    /// The bytes of a base, whose file remains for others to lie over.
    fn base(&mut self, name: &'static str) -> &[u8] {
        if !self.known.contains_key(name) {
            let made = EDITED.iter().find(|(edited, ..)| *edited == name);
            match made {
                Some((_, base, edits)) => {
                    let bytes = self.edited(base, edits);
                    std::fs::write(self.path(name), bytes).unwrap();
                }
                None => self.make(name),
            }
            self.known.insert(name, std::fs::read(self.path(name)).unwrap());
        }
        &self.known[name]
    }

    fn make(&mut self, name: &'static str) {
        let (_, options, size, writes, then) =
            BASES.iter().find(|(base, ..)| *base == name).unwrap();
        if let Some(below) = options.split("backing_file=").nth(1) {
            let below = below.split(',').next().unwrap();
            let known = BASES.iter().map(|base| base.0).chain(EDITED.iter().map(|base| base.0));
            let below = known.into_iter().find(|base| *base == below).unwrap();
            self.base(below);
        }
        self.run("qemu-img", &["create", "-q", "-f", "qcow2", "-o", options, name, size]);
        self.io(name, writes);
        for words in *then {
            match words {
                ["io", commands @ ..] => self.io(name, commands),
                words => {
                    let word = |word: &&'static str| if *word == "FILE" { name } else { word };
                    self.run("qemu-img", &words.iter().map(word).collect::<Vec<_>>());
                }
            }
        }
    }

    fn io(&self, name: &str, commands: &[&str]) {
        if !commands.is_empty() {
            let words = commands.iter().flat_map(|command| ["-c", command]);
            self.run("qemu-io", &words.chain([name]).collect::<Vec<_>>());
        }
    }

    fn run(&self, program: &str, words: &[&str]) {
        let (status, text) = self.outcome(program, words);
        assert_eq!(status, 0, "{program} {words:?}: {text}");
    }

    fn outcome(&self, program: &str, words: &[&str]) -> (i32, String) {
        let output = Program::new(program).args(words).current_dir(self.folder.path()).output();
        let output = output.expect("QEMU's programs are installed");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }
}

/// A part of a map, in words that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    Zeroes,
    Data(u64),
    Below,
    Compressed,
}

fn joined(parts: impl Iterator<Item = (u64, u64, Has)>) -> Vec<(u64, u64, Has)> {
    let mut all: Vec<(u64, u64, Has)> = Vec::new();
    for (start, length, has) in parts.filter(|part| part.1 > 0) {
        match all.last_mut() {
            Some((_, before, Has::Data(at))) if has == Has::Data(*at + *before) => {
                *before += length
            }
            Some((_, before, last)) if *last == has && !matches!(has, Has::Data(_)) => {
                *before += length
            }
            _ => all.push((start, length, has)),
        }
    }
    all
}

fn map_of_qemu(text: &str) -> Vec<(u64, u64, Has)> {
    joined(text.lines().map(|line| {
        let word = |name: &str| {
            let rest = line.split(&format!("\"{name}\": ")).nth(1)?;
            rest.split([',', '}']).next()
        };
        let number = |name| word(name).and_then(|word| word.parse::<u64>().ok());
        let has = match (word("data"), number("depth"), number("offset")) {
            (Some("false"), ..) => Has::Zeroes,
            (_, _, None) => Has::Compressed,
            (_, Some(0), Some(at)) => Has::Data(at),
            _ => Has::Below,
        };
        (number("start").unwrap(), number("length").unwrap(), has)
    }))
}

fn map_of_ours(map: &[Extent]) -> Vec<(u64, u64, Has)> {
    joined(map.iter().map(|extent| {
        let has = match extent.kind {
            Kind::Zero { .. } => Has::Zeroes,
            Kind::Data(at) => Has::Data(at),
            Kind::Below(_) => Has::Below,
            Kind::Compressed => Has::Compressed,
        };
        (extent.offset, extent.length, has)
    }))
}

fn open_to_read(path: &Path) -> Result<Image, ImageError> {
    let (opening, medium) = open_files(path, false, &options())?;
    let drive = Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium);
    opening.open(Box::new(drive), Settings::default())
}

fn contents(image: &mut Image) -> Option<Vec<u8>> {
    let size = image.properties().capacity;
    let read = Command::new(Operation::Read, 0, size);
    let (status, data) = image.instant(read, vec![0xee; size as usize]);
    (status == Status::Ok).then_some(data)
}

fn rescued(path: &Path) -> Result<(Vec<u8>, Vec<Loss>), ImageError> {
    let rescue = Rescue::open(path, Format::Qcow2, None)?;
    let mut disk = vec![0; rescue.size() as usize];
    let losses = rescue.copy(|at, data| {
        disk[at as usize..][..data.len()].copy_from_slice(data);
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(losses) = losses;
    Ok((disk, losses))
}

/// Each refusal names a way out.
fn names_a_way_out(row: &str, error: &ImageError) {
    let message = error.to_string();
    assert!(!message.contains('\n'), "{row}: {message}");
    assert!(message.contains("qemu-img") || message.contains("stasis image"), "{row}: {message}");
}

#[test]
fn each_outcome_is_that_of_qemu_or_a_refusal_by_name() {
    let mut images = Images::new();
    let (mut wrong, mut roots) = (Vec::new(), 0);
    for row in ROWS {
        let bytes = images.edited(row.base, row.edits);
        let path = images.path("row.qcow2");
        std::fs::write(&path, &bytes).unwrap();
        let name = row.name;
        let sign = |done: bool| if done { '+' } else { '-' };

        let raw = images.path("row.raw");
        let qemu = |words: &[&str]| images.outcome("qemu-img", words);
        let [check, info, map, convert] = [
            &["check", "row.qcow2"][..],
            &["info", "row.qcow2"],
            &["map", "--output=json", "row.qcow2"],
            &["convert", "-f", "qcow2", "-O", "raw", "row.qcow2", "row.raw"],
        ]
        .map(qemu);
        let done = [&info, &map, &convert].map(|(status, _)| sign(*status == 0));
        let by_qemu = format!("{} {} {} {}", check.0, done[0], done[1], done[2]);
        let salvage = ["convert", "--salvage", "-f", "qcow2", "-O", "raw", "row.qcow2", "row.raw"];
        let read = convert.0 == 0 || qemu(&salvage).0 == 0;
        let qemu_disk = read.then(|| std::fs::read(&raw).unwrap());

        let checked = stasis_qcow2::check(&path);
        let status = checked.as_ref().map_or(1, |(_, report, _)| report.verdict() as u8);
        let described = stasis_qcow2::describe(&path);
        let mut opened = open_to_read(&path);
        let ours_map = opened.as_mut().ok().and_then(|image| image.map().ok());
        let disk = opened.as_mut().ok().and_then(contents);
        let (described_well, mapped) = (sign(described.is_ok()), sign(ours_map.is_some()));
        let by_us = format!("{status} {described_well} {mapped} {}", sign(disk.is_some()));
        for error in [checked.err(), described.err(), opened.err()].iter().flatten() {
            names_a_way_out(name, error);
        }

        let rescue = rescued(&path);
        let by_rescue = match &rescue {
            Err(_) => "-".to_owned(),
            Ok((_, losses)) => {
                let ranges = |fate| losses.iter().filter(move |loss| loss.fate == fate);
                let [lost, doubtful] = [Fate::Lost, Fate::Doubtful]
                    .map(|fate| ranges(fate).map(|loss| loss.length).sum::<u64>());
                format!("{lost} {doubtful}")
            }
        };
        let rows = [(row.qemu, &by_qemu), (row.ours, &by_us), (row.rescue, &by_rescue)];
        if rows.iter().any(|(expected, found)| expected != found) {
            let causes = rescue.as_ref().map(|(_, losses)| losses.clone());
            wrong.push(format!(
                "row({name:?}, {:?}, {:?}, {by_qemu:?}, {by_us:?}, {by_rescue:?}), // {causes:?} {}",
                row.base, row.edits, convert.1.trim()
            ));
        }

        // No disk is read that QEMU does not read, and each that both read is the same.
        if let Some(disk) = &disk {
            assert_eq!(convert.0, 0, "{name}: {}", convert.1);
            assert_same(disk, qemu_disk.as_ref().unwrap(), name);
            assert_eq!(map_of_ours(&ours_map.unwrap()), map_of_qemu(&map.1), "{name}");
        }
        // A rescue has all that QEMU can salvage, but for ranges that it names.
        if let (Some(expected), Ok((disk, losses))) = (&qemu_disk, &rescue) {
            let mut expected = expected.clone();
            for loss in losses.iter().filter(|loss| loss.fate == Fate::Lost) {
                expected[loss.offset as usize..][..loss.length as usize].fill(0);
            }
            // QEMU leaves out a part of a sector at the end.
            let whole = disk.len() / 512 * 512;
            assert_same(&disk[..whole], &expected, &format!("{name}, rescued"));
        }
        // As the root of a guest it is read by another way.
        let is_alone = || Reader::open(Arc::new(File::open(&path).unwrap()), &path);
        if let (Some(disk), Ok(reader)) = (&disk, is_alone()) {
            let mut read = vec![0; disk.len()];
            reader.read_at(&mut read, 0).unwrap();
            assert_same(&read, disk, &format!("{name}, as a root"));
            roots += 1;
        }
        // Without a word about a loss, the rescued disk is the disk.
        if let (Some(disk), Ok((rescued, losses))) = (&disk, &rescue) {
            assert_eq!(losses, &[], "{name}");
            assert_same(rescued, disk, name);
        }
    }
    assert!(roots > 25, "{roots} of the images can be roots");
    assert!(wrong.is_empty(), "rows that are otherwise:\n{}", wrong.join("\n"));
}
