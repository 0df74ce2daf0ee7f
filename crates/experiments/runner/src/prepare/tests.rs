//! Shared drives from an experiment's text to their layers, without a machine.

use stasis_block::{Command, Operation, Status};
use stasis_drive::{Layer, Submission};
use stasis_qcow2::CreateOptions;

use super::*;
use crate::drives::Drives;

const EXPERIMENT: &str = r#"
command = ["true"]
[[drive]]
name      = "disk"
model     = { kind = "fixed", read = "1ms", write = "1ms", flush = "3ms" }
medium    = { file = "disk.img", size = "48MiB" }
scheduler = "deadline"
[[machine]]
[[machine.disk]]
on   = "disk"
size = "4MiB"
[[machine]]
[[machine.disk]]
on     = "disk"
offset = "8MiB"
image  = "top.qcow2"
[[machine]]
[[machine.disk]]
on     = "disk"
offset = "32MiB"
image  = "other.qcow2"
"#;

const MIB: usize = 1 << 20;

/// A folder with the experiment's images, the first on top of a file of ones.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let size = Some(4 << 20);
    std::fs::write(folder.path().join("base.raw"), vec![1; 4 * MIB]).unwrap();
    let backing = Some(("base.raw".into(), Some(stasis_qcow2::Format::Raw)));
    let top = CreateOptions { size, backing, ..CreateOptions::default() };
    stasis_qcow2::create(&folder.path().join("top.qcow2"), &top).unwrap();
    let other = CreateOptions { size, ..CreateOptions::default() };
    stasis_qcow2::create(&folder.path().join("other.qcow2"), &other).unwrap();
    folder
}

fn prepare<T>(text: &str, base: &Path, then: impl FnOnce(Prepared) -> T) -> Result<T> {
    let mut experiment: Experiment = toml::from_str(text).unwrap();
    experiment.finish().unwrap();
    let [vmlinux, initramfs, root] = ["vmlinux", "initramfs", "root"].map(|name| name.into());
    let (kernel_release, digest) = (String::new(), String::new());
    let recipe = stasis_guest_image::Recipe::default();
    let guest = Guest {
        vmlinux,
        initramfs,
        root,
        in_place: None,
        recipe,
        kernel_release,
        date: 0,
        left_out: 0,
        digest,
    };
    let mut nobody = |_: crate::Event<'_>| Ok(());
    let observer = SharedObserver::new(&mut nobody);
    let setup = RunSetup {
        experiment: &experiment,
        base,
        guest: &guest,
        input: &[],
        engine: Engine::Exact,
        terminal: None,
        trace: None,
        timeline: false,
        observer: &observer,
    };
    setup.prepare().map(then)
}

/// Submits and waits; when it ended, and what was read.
fn run(layer: &mut dyn Layer, now: &mut Nanos, command: Command, data: Vec<u8>) -> Vec<u8> {
    layer.submit(*now, Submission { tag: 1, queue: 0, command, data });
    let mut done = Vec::new();
    while done.is_empty() {
        *now = layer.next_event().unwrap().max(*now);
        layer.advance(*now, &mut done);
    }
    assert_eq!(done[0].status, Status::Ok);
    std::mem::take(&mut done[0].data)
}

#[test]
fn regions_and_images_lie_side_by_side_on_a_drive() {
    let folder = folder();
    let (plan, shown) = prepare(EXPERIMENT, folder.path(), |prepared| {
        (prepared.plan, prepared.shown.into_iter().map(|drive| drive.medium).collect::<Vec<_>>())
    })
    .unwrap();
    assert_eq!(shown[0], "disk from 0B on");
    assert_eq!(shown[1], "qcow2:top.qcow2 on disk from 8MiB on");
    assert_eq!(plan.media().count(), 3, "the drive's own, and two images");
    let mut drives = Drives::open(&plan, None).unwrap();
    let mut layers: Vec<Box<dyn Layer>> = plan
        .machines
        .iter()
        .enumerate()
        .map(|(index, machine)| drives.config(index, &machine.drives[0]).unwrap().drive)
        .collect();
    let mut now = 0;
    let read = Command::new(Operation::Read, MIB as u64, 4096);
    for (number, layer) in layers.iter_mut().enumerate() {
        assert_eq!((layer.capacity(), usize::from(layer.index())), (4 << 20, number));
        let before = run(&mut **layer, &mut now, read, vec![9; 4096]);
        assert_eq!(before, vec![u8::from(number == 1); 4096], "a file below shows through");
        let write = Command::new(Operation::Write, MIB as u64, 4096);
        run(&mut **layer, &mut now, write, vec![number as u8 + 10; 4096]);
        let begun = now;
        run(&mut **layer, &mut now, Command::flush(), Vec::new());
        assert!(now - begun >= 3_000_000, "the drive's flush takes its time: {}", now - begun);
        let after = run(&mut **layer, &mut now, read, vec![0; 4096]);
        assert_eq!(after, vec![number as u8 + 10; 4096]);
    }
    drop(layers);
    drop(drives);

    let disk = std::fs::read(folder.path().join("disk.img")).unwrap();
    assert_eq!(disk[MIB..MIB + 4096], [10; 4096]);
    assert!(disk[4 * MIB..].iter().all(|&byte| byte == 0), "images are in their files");
    let base = std::fs::read(folder.path().join("base.raw")).unwrap();
    assert!(base.iter().all(|&byte| byte == 1), "a file below is only read");
    for image in ["top.qcow2", "other.qcow2"] {
        let (header, report, _) = stasis_qcow2::check(&folder.path().join(image)).unwrap();
        assert!(report.is_sound() && !header.dirty(), "{image}: {report:?}");
    }
}

#[test]
fn two_on_one_file_are_refused_by_name() {
    let folder = folder();
    let file =
        |name: &str| format!("{EXPERIMENT}[[drive]]\nname = 'own'\nmodel = 'null'\n{name}\n");
    for (text, words) in [
        (EXPERIMENT.replace("other.qcow2", "./top.qcow2"), ["top.qcow2", "machine1.disk already"]),
        (file("medium = { qcow2 = 'top.qcow2' }"), ["top.qcow2", "drive own already"]),
        (file("medium = { file = 'disk.img' }"), ["drive own", "disk.img is the medium of drive"]),
        (EXPERIMENT.replace("32MiB", "12MiB"), ["machine1.disk and machine2.disk", "overlap"]),
        (EXPERIMENT.replace("32MiB", "44MiB"), ["machine2.disk", "can grow to"]),
        (EXPERIMENT.replace("32MiB", "9KiB"), ["machine2.disk", "4096"]),
        (
            EXPERIMENT.replace("image  = \"o", "durability = 'barrier'\nimage = \"o"),
            ["machine2.disk", "barriers"],
        ),
        (
            format!("{EXPERIMENT}[[workload]]\nname = 'w'\npattern = '1r-seq'\noffset = '40MiB'\n"),
            ["workload w reads", "machine2.disk"],
        ),
    ] {
        let error = prepare(&text, folder.path(), |_| ()).unwrap_err();
        let error = format!("{error:#}");
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    }
}
