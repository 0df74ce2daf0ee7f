//! The power of a drive is cut while its image is in use, and the image goes on.

use crate::common;
use std::collections::BTreeSet;

use crate::common::*;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Drive, Layer, PowerCuts, Sampling};
use stasis_qcow2::{Durability, Settings};

const SECTOR: u64 = 512;
const DISK: u64 = 1 << 20;

/// The possible contents of each sector: numbers of writes, of which 0 is before the first.
struct Possible(Vec<BTreeSet<u8>>);

impl Possible {
    fn of(&mut self, command: &Command) -> &mut [BTreeSet<u8>] {
        let first = (command.offset / SECTOR) as usize;
        &mut self.0[first..first + (command.length / SECTOR) as usize]
    }

    /// Checks that the image holds a possible state after a power cut. Returns the sectors with a
    /// choice.
    fn check(&mut self, image: &mut dyn Layer, case: &str) -> usize {
        let choices = self.0.iter().filter(|possible| possible.len() > 1).count();
        let read = Command::new(Operation::Read, 0, DISK);
        let (status, data) = image.instant(read, vec![1; DISK as usize]);
        assert_eq!(status, Status::Ok, "{case}");
        for (index, (sector, possible)) in data.chunks(SECTOR as usize).zip(&mut self.0).enumerate()
        {
            let value = sector[0];
            assert!(sector.iter().all(|byte| *byte == value), "{case}: sector {index} is torn");
            assert!(possible.contains(&value), "{case}: sector {index}: {value} of {possible:?}");
            *possible = [value].into();
        }
        choices
    }
}

/// Way of opening the image's file.
#[derive(Clone, Copy, PartialEq)]
enum File {
    Grows,
    /// Written, with all of its room from the beginning.
    HasRoom,
    /// Only read: what is written is in memory.
    IsKept,
}

/// Returns what each of the images has held at its end.
fn cuts(
    options: &str,
    durability: Durability,
    seeds: std::ops::Range<u64>,
    file: File,
) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let (mut lost, mut in_flight) = (0, 0);
    for seed in seeds {
        let text = path.to_str().unwrap();
        qemu_img(&["create", "-q", "-f", "qcow2", "-o", options, text, "1M"]);
        let before = std::fs::read(&path).unwrap();
        if file == File::HasRoom {
            stasis_qcow2::make_room(&stasis_qcow2::links(&path).unwrap()).unwrap();
        }
        let opened = match file {
            File::IsKept => open_kept(&path, &common::options()),
            File::Grows | File::HasRoom => open_files(&path, true, &common::options()),
        };
        let (opening, medium) = opened.unwrap();
        let drive = Drive::new(0, "d".into(), Latencies::new(seed), medium);
        let cuts = PowerCuts::new(Box::new(drive), 512, usize::MAX, false);
        let settings = Settings { durability, ..Settings::default() };
        let mut image = opening.open(Box::new(cuts), settings).unwrap();
        let mut possible = Possible(vec![[0].into(); (DISK / SECTOR) as usize]);
        let mut random = random(seed);
        let (mut now, mut tag, mut done) = (0, 0, Vec::new());
        for cut in 0..6 {
            let case = format!("{options} {durability:?} seed {seed} cut {cut}");
            let mut unflushed: Vec<(Command, u8)> = Vec::new();
            // Writes one after the other, so that the newest of a sector is known, and flushes; then
            // some that are under way at the cut.
            let rounds = random(40);
            for round in 0..rounds + 4 {
                tag += 1;
                if round < rounds && random(8) == 0 {
                    image.submit(now, Request::new(tag, Command::flush(), Vec::new()));
                    settle(&mut image, &mut now, &mut done, tag);
                    // A flush that only orders has made nothing durable yet.
                    if durability == Durability::Ordered {
                        continue;
                    }
                    for (command, value) in unflushed.drain(..) {
                        possible.of(&command).iter_mut().for_each(|one| *one = [value].into());
                    }
                    continue;
                }
                let length = (1 + random(16)) * SECTOR;
                let offset = random((DISK - length) / SECTOR) * SECTOR;
                let command = Command::new(Operation::Write, offset, length);
                let value = (1 + random(255)) as u8;
                possible.of(&command).iter_mut().for_each(|one| one.extend([value]));
                unflushed.push((command, value));
                let data = vec![value; length as usize];
                image.submit(now, Request::new(tag, command, data));
                if round < rounds {
                    settle(&mut image, &mut now, &mut done, tag);
                }
            }
            in_flight += image.in_flight();
            let sampling = match random(4) {
                0 => Sampling::Least,
                1 => Sampling::Most,
                _ => Sampling::Random(random(u64::MAX)),
            };
            assert!(image.control().cut_power(now, sampling).is_none());
            assert!(image.control().take_error().is_none(), "{case}");
            assert_eq!(image.in_flight(), 0, "{case}");
            lost += possible.check(&mut image, &case);
        }
        let mut last = possible.0.iter().map(|one| *one.first().unwrap());
        all.push(last.clone().collect());
        image.close().unwrap();
        drop(image);
        if file == File::IsKept {
            assert!(std::fs::read(&path).unwrap() == before, "{options}: its file has changed");
            continue;
        }
        qemu_finds_sound(&path);
        let contents = qemu_contents(&path);
        assert!(contents.chunks(512).all(|sector| Some(sector[0]) == last.next()), "seed {seed}");
    }
    assert!(lost > 1000 && in_flight > 40, "{lost} sectors to lose, {in_flight} commands");
    all
}

/// Goes on until the command has ended.
fn settle(image: &mut dyn Layer, now: &mut u64, done: &mut Vec<stasis_drive::Done>, tag: u32) {
    loop {
        image.advance(*now, done);
        if done.drain(..).any(|one| {
            assert_eq!(one.status, Status::Ok);
            one.tag == tag
        }) {
            return;
        }
        *now = image.next_event().expect("it is under way").max(*now);
    }
}

/// Numbers below a limit.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut place = 0;
    move |below| {
        place += 1;
        stasis_block::splitmix::nth(seed, place) % below.max(1)
    }
}

const KINDS: [(&str, std::ops::Range<u64>); 3] = [
    ("cluster_size=4096", 0..6),
    ("cluster_size=512,refcount_bits=1", 6..9),
    ("cluster_size=65536,lazy_refcounts=on", 9..12),
];

#[test]
fn an_image_goes_on_from_what_a_cut_has_left() {
    for durability in Durability::ALL {
        for (options, seeds) in KINDS {
            cuts(options, durability, seeds, File::Grows);
        }
    }
}

/// An image whose file is only read loses what one loses whose file is written.
#[test]
fn an_image_that_is_kept_goes_on_as_one_that_is_written() {
    for (options, seeds) in KINDS {
        let cuts_of = |file| cuts(options, Durability::Flush, seeds.clone(), file);
        assert!(cuts_of(File::HasRoom) == cuts_of(File::IsKept), "{options}");
    }
}
