//! Features of images: files below, snapshots, growth, compression.

use std::path::Path;

use crate::common::*;
use rand_xoshiro::rand_core::RngCore;
use stasis_block::Status;
use stasis_drive::{Drive, Layer};
use stasis_qcow2::{
    create, open_kept, CreateOptions, Durability, Format, ImageError, Kind, ZeroLatency,
};

const CLUSTER: usize = 64 << 10;

fn make(path: &Path, size: u64) {
    create(path, &CreateOptions { size: Some(size), ..CreateOptions::default() }).unwrap();
}

fn driver(path: &Path) -> Driver<stasis_qcow2::Image> {
    Driver::new(open(path, 1, settings(Durability::Flush)).unwrap())
}

#[test]
fn a_relative_path_starts_from_its_base() {
    // Itself relative, as a folder of results is.
    let folder = tempfile::tempdir_in(".").unwrap();
    let base = Path::new(folder.path().file_name().unwrap());
    make(&base.join("below.qcow2"), 1 << 20);
    let backing = Some(("below.qcow2".into(), None));
    create(&base.join("top.qcow2"), &CreateOptions { backing, ..CreateOptions::default() })
        .unwrap();
    let options = stasis_media::OpenOptions { base, ..options() };
    let (opening, _) = stasis_qcow2::open_files(Path::new("top.qcow2"), true, &options).unwrap();
    assert_eq!(opening.found().links.len(), 2);
}

#[test]
fn a_new_image_is_as_qemu_makes_them() {
    let folder = folder();
    for (cluster_size, refcount_bits, lazy) in
        [(64 << 10, 16, false), (512, 1, true), (2 << 20, 64, false), (4096, 8, true)]
    {
        let path = name(&folder, &format!("{cluster_size}.qcow2"));
        let options = CreateOptions {
            size: Some(20 << 20),
            cluster_size,
            refcount_bits,
            lazy_refcounts: lazy,
            backing: None,
        };
        create(&path, &options).unwrap();
        qemu_agrees(&path);
        let info = qemu_img(&["info", path.to_str().unwrap()]);
        for part in [
            format!("cluster_size: {cluster_size}"),
            format!("refcount bits: {refcount_bits}"),
            format!("lazy refcounts: {lazy}"),
            "20971520 bytes".into(),
        ] {
            assert!(info.contains(&part), "{info}");
        }
        // There is one already.
        assert!(create(&path, &options).is_err());
    }
}

#[test]
fn a_file_below_is_read_and_never_written() {
    let folder = folder();
    for format in [Format::Raw, Format::Qcow2] {
        let [base, top] = ["base", "top"].map(|n| name(&folder, &format!("{n}-{format:?}")));
        let size = 10 * CLUSTER;
        let mut disk: Vec<u8> = (0..size).map(|at| (at / 512) as u8).collect();
        match format {
            Format::Raw => std::fs::write(&base, &disk).unwrap(),
            Format::Qcow2 => {
                make(&base, size as u64);
                assert_eq!(driver(&base).write(0, disk.clone()), Status::Ok);
            }
        }
        let below = std::fs::read(&base).unwrap();
        let file = base.file_name().unwrap().to_str().unwrap().to_owned();
        let options = CreateOptions { backing: Some((file, None)), ..CreateOptions::default() };
        create(&top, &options).unwrap();
        let mut image = driver(&top);
        assert_eq!(image.layer.properties().capacity, size as u64);
        assert_same(&image.read(0, size as u64), &disk, "all from below");
        // Part of a cluster: the rest comes from below.
        assert_eq!(image.write(CLUSTER as u64 + 1024, vec![0xaa; 512]), Status::Ok);
        disk[CLUSTER + 1024..][..512].fill(0xaa);
        assert_same(&image.read(0, size as u64), &disk, "one cluster of its own");
        let map = image.layer.map().unwrap();
        let own = map.iter().filter(|extent| matches!(extent.kind, Kind::Data(_)));
        assert_eq!(own.map(|extent| extent.length).sum::<u64>(), CLUSTER as u64);
        drop(image);
        qemu_agrees(&top);
        assert_same(&qemu_contents(&top), &disk, "as qemu-img reads it");
        assert_same(&std::fs::read(&base).unwrap(), &below, "the file below");
    }
}

/// An image whose file is only read: what is written stays in memory.
fn kept(path: &Path) -> Result<Driver<stasis_qcow2::Image>, ImageError> {
    let (opening, medium) = open_kept(stasis_qcow2::links(path)?, &options())?;
    let drive = Drive::new(0, "d".into(), Latencies::new(7), medium);
    Ok(Driver::new(opening.open(Box::new(drive), settings(Durability::Flush))?))
}

#[test]
fn an_image_that_is_kept_is_the_image_and_its_file_stays_as_it_is() {
    let folder = folder();
    let [below, path, copy] = ["below", "disk.qcow2", "copy.qcow2"].map(|n| name(&folder, n));
    std::fs::write(&below, vec![5; 8 << 20]).unwrap();
    let backing = Some(("below".into(), None));
    create(&path, &CreateOptions { backing, ..CreateOptions::default() }).unwrap();
    assert_eq!(driver(&path).write(1 << 20, vec![1; 3 * CLUSTER]), Status::Ok);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&copy, &bytes).unwrap();
    // A device's file has its room beforehand.
    stasis_qcow2::make_room(&stasis_qcow2::links(&copy).unwrap()).unwrap();
    let (opening, medium) = open_files(&copy, true, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Latencies::new(7), medium);
    let mut other =
        Driver::new(opening.open(Box::new(drive), settings(Durability::Flush)).unwrap());
    let mut image = kept(&path).unwrap();
    let mut random = random(3);
    for round in 0..300u64 {
        let at = random.next_u64() % ((8 << 20) - (70 << 10)) / 512 * 512;
        let length = (random.next_u64() % 140 + 1) * 512;
        let data = vec![round as u8; length as usize];
        match random.next_u64() % 3 {
            0 => assert_same(&image.read(at, length), &other.read(at, length), "a part"),
            _ => assert_eq!(image.write(at, data.clone()), other.write(at, data)),
        }
        assert_eq!(image.now, other.now, "they take the same time");
    }
    assert_same(&image.read(0, 8 << 20), &other.read(0, 8 << 20), "the whole");
    drop(image);
    assert_same(&std::fs::read(&path).unwrap(), &bytes, "the file");
}

#[test]
fn an_image_that_has_to_be_repaired_is_not_kept() {
    let folder = folder();
    let [path, copy] = ["disk.qcow2", "copy.qcow2"].map(|n| name(&folder, n));
    let lazy = CreateOptions { lazy_refcounts: true, size: Some(1 << 20), ..Default::default() };
    create(&path, &lazy).unwrap();
    let mut image = driver(&path);
    assert_eq!(image.write(0, vec![1; 512]), Status::Ok);
    image.flush();
    std::fs::copy(&path, &copy).unwrap();
    let message = kept(&copy).map(drop).unwrap_err().to_string();
    assert!(message.contains("it was not closed"), "{message}");
    drop(image);
    assert!(kept(&path).is_ok());
}

#[test]
fn snapshots_are_read_and_kept() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    make(&path, 1 << 20);
    let mut disk = vec![0; 1 << 20];
    let mut states = Vec::new();
    for round in 1..=3u8 {
        let mut image = driver(&path);
        for at in [0, 100_000 / 512 * 512, 500_000 / 512 * 512] {
            let data = vec![round; 70 << 10];
            assert_eq!(image.write(at, data), Status::Ok);
            disk[at as usize..][..70 << 10].fill(round);
        }
        drop(image);
        qemu_agrees(&path);
        let tag = format!("after-{round}");
        qemu_img(&["snapshot", "-c", &tag, path.to_str().unwrap()]);
        states.push((tag, disk.clone()));
    }
    for (tag, state) in &states {
        let (opening, medium) = open_files(&path, false, &options()).unwrap();
        let drive = Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium);
        let image = opening.open_snapshot(Box::new(drive), tag).unwrap();
        let mut image = Driver::new(image);
        assert_same(&image.read(0, 1 << 20), state, tag);
        assert_eq!(image.write(0, vec![9; 512]), Status::WriteError);
    }
    let (opening, medium) = open_files(&path, false, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium);
    let message = opening.open_snapshot(Box::new(drive), "none").map(drop).unwrap_err().to_string();
    assert!(message.contains("after-2"), "{message}");
    assert_same(&qemu_contents(&path), &disk, "the active state");
}

#[test]
fn disks_grow_and_keep_what_they_have() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let options =
        CreateOptions { size: Some(1 << 20), cluster_size: 512, ..CreateOptions::default() };
    create(&path, &options).unwrap();
    let mut image = driver(&path);
    assert_eq!(image.write(1000 * 512, vec![5; 1024]), Status::Ok);
    image.layer.close().unwrap();
    drop(image);
    // Far more tables than there were.
    stasis_qcow2::grow(&path, 40 << 20).unwrap();
    for wrong in [1 << 20, (40 << 20) + 1, u64::MAX / 512 * 512] {
        let before = std::fs::read(&path).unwrap();
        assert!(stasis_qcow2::grow(&path, wrong).is_err());
        assert_same(&std::fs::read(&path).unwrap(), &before, "a refused growth");
    }
    let mut image = driver(&path);
    assert_eq!(image.layer.properties().capacity, 40 << 20);
    assert_eq!(image.write((40 << 20) - 512, vec![6; 512]), Status::Ok);
    assert_eq!(image.read(1000 * 512, 1024), vec![5; 1024]);
    drop(image);
    qemu_agrees(&path);
}

#[test]
fn compressed_clusters_are_read_and_replaced() {
    for compression in ["zlib", "zstd"] {
        let folder = folder();
        let [raw, path] = ["disk.raw", "disk.qcow2"].map(|n| name(&folder, n));
        let mut disk: Vec<u8> = (0..1 << 20).map(|at: usize| (at / 1000) as u8).collect();
        std::fs::write(&raw, &disk).unwrap();
        let [from, to] = [&raw, &path].map(|p| p.to_str().unwrap());
        let kind = format!("compression_type={compression}");
        qemu_img(&["convert", "-c", "-O", "qcow2", "-o", &kind, from, to]);
        let mut image = driver(&path);
        assert_same(&image.read(0, 1 << 20), &disk, "compressed");
        for at in [0usize, 200_192, 900_096] {
            assert_eq!(image.write(at as u64, vec![0xbb; 80_384]), Status::Ok);
            disk[at..at + 80_384].fill(0xbb);
        }
        assert_same(&image.read(0, 1 << 20), &disk, "in part");
        drop(image);
        qemu_agrees(&path);
        assert_same(&qemu_contents(&path), &disk, "as qemu-img reads it");
    }
}

/// Parts of clusters below an image are read for it, and stay as they are.
#[test]
fn images_with_parts_of_clusters_are_written_above() {
    let folder = folder();
    let [base, top] = ["base", "top"].map(|n| name(&folder, n));
    for options in ["extended_l2=on", "extended_l2=on,compression_type=zstd,cluster_size=16k"] {
        let word = base.to_str().unwrap();
        qemu_img(&["create", "-q", "-f", "qcow2", "-o", options, word, "1M"]);
        let mut disk = vec![0; 1 << 20];
        let parts = [(0usize, 4096, 1u8), (10_240, 2048, 2), (66_560, 70_000 / 512 * 512, 3)];
        for (at, length, value) in parts {
            let write = format!("write -P {value} {at} {length}");
            let io = std::process::Command::new("qemu-io").args(["-c", &write, word]).output();
            assert!(io.unwrap().status.success());
            disk[at..at + length].fill(value);
        }
        let below = std::fs::read(&base).unwrap();
        let backing = Some(("base".into(), None));
        create(&top, &CreateOptions { backing, ..CreateOptions::default() }).unwrap();
        let mut image = driver(&top);
        assert_same(&image.read(0, 1 << 20), &disk, "all from below");
        for at in [2048usize, 67_072, 500_224] {
            assert_eq!(image.write(at as u64, vec![0xaa; 1024]), Status::Ok);
            disk[at..at + 1024].fill(0xaa);
        }
        assert_same(&image.read(0, 1 << 20), &disk, "some from below");
        drop(image);
        qemu_agrees(&top);
        assert_same(&qemu_contents(&top), &disk, "as qemu-img reads it");
        assert_same(&std::fs::read(&base).unwrap(), &below, "the file below");
        std::fs::remove_file(&top).unwrap();
    }
}

/// A bitmap of changed blocks has clusters of its own, which are no leaks.
#[test]
fn bitmaps_are_used() {
    let folder = folder();
    for entries in [1, 3] {
        let path = name(&folder, &format!("{entries}.qcow2"));
        let word = path.to_str().unwrap();
        qemu_img(&["create", "-q", "-f", "qcow2", "-o", "cluster_size=512", word, "4M"]);
        for number in 0..entries {
            qemu_img(&["bitmap", "--add", "-g", "512", word, &format!("changed {number}")]);
        }
        // Its bits are stored as the image is closed.
        let write =
            std::process::Command::new("qemu-io").args(["-c", "write 1M 1M", word]).output();
        assert!(write.unwrap().status.success());
        qemu_agrees(&path);
        let (header, report, _) = stasis_qcow2::check(&path).unwrap();
        assert_eq!(header.directory.unwrap().bitmaps, entries);
        assert_eq!((report.leaks, &report.corruptions[..]), (0, &[][..]));

        // The table of the first lies where the disk's data does.
        let directory = header.directory.unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        use std::os::unix::fs::FileExt;
        file.write_all_at(&header.l1_offset.to_be_bytes(), directory.offset).unwrap();
        let (_, report, _) = stasis_qcow2::check(&path).unwrap();
        assert!(report.corruptions[0].contains("table of a bitmap"), "{report:?}");
    }
}
