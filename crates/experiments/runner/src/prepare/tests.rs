//! Shared drives from an experiment's text to their layers, without a machine.

use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::Layer;
use stasis_qcow2::CreateOptions;

use super::*;
use stasis_nvme::{KeptPairs, KeptState, KeptZones, ZoneState};

use stasis_guest_image::Guest;

use crate::event::SharedObserver;
use crate::opened_drives::Drives;

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
    prepare_under(Engine::Exact, text, base, then)
}

fn prepare_under<T>(
    engine: Engine,
    text: &str,
    base: &Path,
    then: impl FnOnce(Prepared) -> T,
) -> Result<T> {
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
        images: Vec::new(),
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
        input: &crate::input::Input::default(),
        engine,
        terminal: None,
        debugged: None,
        branched: None,
        changed: None,
        profiled: None,
        snapshots: None,
        trace: None,
        timeline: false,
        is_one_of_many: false,
        observer: &observer,
    };
    setup.prepare().map(then)
}

/// Submits a command and waits; sets `now` to its end and returns the data read.
fn run(layer: &mut dyn Layer, now: &mut Nanos, command: Command, data: Vec<u8>) -> Vec<u8> {
    layer.submit(*now, Request::new(1, command, data));
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
        assert_eq!(
            (layer.properties().capacity, usize::from(layer.properties().index)),
            (4 << 20, number)
        );
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
    let file = |name: &str| {
        let load = "[[workload]]\nname = 'w'\ndrive = 'own'\npattern = '1r-seq'\n";
        format!("{EXPERIMENT}[[drive]]\nname = 'own'\nmodel = 'null'\n{name}\n{load}")
    };
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

const ZONED: &str = r#"
command = ["true"]
[[drive]]
model  = "fixed:1us"
medium = { file = "zoned.img", size = "16MiB" }
zones  = { size = "1MiB" }
"#;

/// The state that the only drive of an experiment keeps and starts with.
fn keep_of(text: &str, folder: &Path) -> Result<Keep> {
    let keep = prepare(text, folder, |mut prepared| {
        let keep = prepared.take_keeps().remove(0).unwrap();
        let begins = prepared.plan.machines[0].drives[0].state.as_deref();
        assert_eq!(begins, Some(&keep.state), "what the machine gets");
        keep
    });
    keep
}

fn refusal(text: &str, folder: &Path) -> String {
    format!("{:#}", keep_of(text, folder).map(|keep| keep.state).unwrap_err())
}

#[test]
fn pairs_are_where_the_last_run_left_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = ZONED.replace("zones  = { size = \"1MiB\" }", "key-value = { max-keys = 9 }");
    let keep = keep_of(&text, folder.path()).unwrap();
    assert!(keep.state.is_as_made() && !keep.can_follow());
    keep.begin().unwrap();
    for cut in [text.clone(), format!("{text}state = \"last\"")] {
        let message = refusal(&cut, folder.path());
        assert!(
            message.contains("where its pairs lie is known at the end of a run only"),
            "{message}"
        );
    }
    let mut state = keep.state.clone();
    let segments = state.namespaces[0].made.bytes() >> 20;
    let pairs = KeptPairs {
        pairs: vec![("6b6579".into(), 512, 700)],
        free: (1..segments as u32).collect(),
        open: [Some((0, 1536)), None],
        ..KeptPairs::default()
    };
    state.namespaces[0].pairs = Some(pairs.clone());
    keep.end(state.clone()).unwrap();
    assert_eq!(keep_of(&text, folder.path()).unwrap().state, state);
    // Another drive; a flash model that does not keep its mapping.
    let flash = "{ kind = \"flash\", channels = 1, luns = 1, planes = 1, pages = 32, \
                 over_provisioning = 0.5 }";
    for (from, to, says) in [
        ("max-keys = 9", "max-keys = 8", "made with pairs of 9 keys in segments of 1MiB"),
        ("key-value = { max-keys = 9 }", "", "and now is to have no pairs"),
        ("\"fixed:1us\"", flash, "its flash model begins anew"),
    ] {
        let message = refusal(&text.replace(from, to), folder.path());
        assert!(message.contains(says), "{message}");
    }
    // A state that no drive can be in.
    let damaged = KeptPairs { open: [Some((0, 1024)), None], ..pairs };
    state.namespaces[0].pairs = Some(damaged);
    keep.end(state).unwrap();
    let message = refusal(&text, folder.path());
    assert!(
        message.contains("the state is damaged: namespace 1: a value does not lie in"),
        "{message}"
    );
}

#[test]
fn a_zoned_drive_goes_on_where_its_last_run_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (image, file) = (folder.path().join("zoned.img"), folder.path().join("zoned.img.state"));
    let keep = keep_of(ZONED, folder.path()).unwrap();
    assert!(keep.state.is_as_made() && !file.exists(), "nothing is written before it runs");
    keep.begin().unwrap();
    keep.revert().unwrap();
    assert!(!file.exists(), "the machine did not begin");
    keep.begin().unwrap();
    let text = refusal(ZONED, folder.path());
    assert!(text.contains("zoned.img.state: the last run on this drive was cut off"), "{text}");
    let last = format!("{ZONED}state = \"last\"");
    assert!(keep_of(&last, folder.path()).unwrap().state.is_as_made());
    // The run has written, and ended.
    let mut state = keep.state.clone();
    let written = KeptZones::one(3, ZoneState::ImplicitlyOpen, 7);
    state.namespaces[0].zones = vec![written];
    let write = |at: u64, byte: u8| {
        let image = std::fs::File::options().write(true).open(&image).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&image, &[byte; 4096], at).unwrap();
    };
    write(3 << 20, 1);
    keep.end(state.clone()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions();
    assert_eq!(mode(&file), mode(&image));
    assert_eq!(keep_of(ZONED, folder.path()).unwrap().state, state);
    // A revert leaves the file as it was.
    let before = std::fs::read(&file).unwrap();
    let keep = keep_of(ZONED, folder.path()).unwrap();
    keep.begin().unwrap();
    assert_ne!(std::fs::read(&file).unwrap(), before);
    keep.revert().unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // Another drive, and another medium.
    for (from, to, says) in [
        ("1MiB", "2MiB", "with zones of 1MiB, and now is to have zones of 2MiB"),
        ("zones  = { size = \"1MiB\" }", "", "zones of 1MiB, and now is to have no zones"),
        ("zones  = { size = \"1MiB\" }", "interface = \"virtio-blk\"", "an NVMe drive with zones"),
        (
            "\"fixed:1us\"",
            "{ kind = \"flash\", channels = 1, luns = 1, planes = 1, pages = 32, \
             over_provisioning = 0.3 }",
            "a flash model does not keep",
        ),
    ] {
        let text = refusal(&ZONED.replace(from, to), folder.path());
        assert!(text.contains(says), "{text}");
    }
    write(0, 2);
    let text = refusal(ZONED, folder.path());
    assert!(text.contains("has changed since the run that left this state"), "{text}");
    let new = format!("{ZONED}state = \"new\"");
    assert!(keep_of(&new, folder.path()).unwrap().state.is_as_made());
    std::fs::write(&file, "{}").unwrap();
    let text = refusal(ZONED, folder.path());
    assert!(text.contains("is no state of a drive"), "{text}");
    // The medium has data, and there is no record of which zones are written.
    std::fs::remove_file(&file).unwrap();
    let text = refusal(ZONED, folder.path());
    assert!(text.contains("zoned.img holds data, and nothing says"), "{text}");
}

#[test]
fn a_run_on_a_disk_that_a_power_cut_left_goes_on_where_its_zones_end() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("zoned.img");
    let device = || {
        let traced = prepare(ZONED, folder.path(), |prepared| {
            let drive = &prepared.plan.machines[0].drives[0];
            trace::device(drive, "nvme0n1", 16 << 20)
        });
        traced.unwrap()
    };
    let made = device().unwrap();
    assert_eq!(made.written, []);
    let zones = [(0, 1 << 20), (3 << 20, 8192)];
    crate::leave_zones(&image, &made, 16 << 20, &zones).unwrap();
    assert!(folder.path().join(crate::state_file("zoned.img")).exists());
    let kept = keep_of(ZONED, folder.path()).unwrap();
    let states: Vec<_> =
        kept.state.namespaces[0].zones.iter().map(|one| (one.first, one.state)).collect();
    assert_eq!(states, [(0, ZoneState::Full), (3, ZoneState::Closed)]);
    // The next power cut knows them.
    assert_eq!(device().unwrap().written, zones);
    // States that a run cannot start from are refused.
    let mut state = kept.state.clone();
    state.namespaces[0].zones = vec![KeptZones::one(2, ZoneState::Offline, 0)];
    kept.end(state).unwrap();
    let text = device().unwrap_err().to_string();
    assert!(text.contains("zone 2 is read-only or offline"), "{text}");
    let mut state = kept.state.clone();
    state.namespaces[0].block_size = if made.block() == 512 { 4096 } else { 512 };
    state.namespaces[0].zones.clear();
    kept.end(state).unwrap();
    let text = device().unwrap_err().to_string();
    assert!(text.contains("has formatted it with logical blocks"), "{text}");
    // No drive can be so.
    let wrong = crate::leave_zones(&image, &made, 16 << 20, &[(0, 2 << 20)]);
    assert!(wrong.is_err(), "more than a zone has");
}

#[test]
fn a_virtio_drive_that_begins_anew_discards_the_zones_as_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zoned.img.state");
    let keep = keep_of(ZONED, folder.path()).unwrap();
    keep.begin().unwrap();
    keep.end(keep.state.clone()).unwrap();
    let before = std::fs::read(&file).unwrap();
    let plain = ZONED.replace("zones  = { size = \"1MiB\" }", "interface = \"virtio-blk\"");
    let new = format!("{plain}state = \"new\"");
    let keep =
        prepare(&new, folder.path(), |mut prepared| prepared.take_keeps().remove(0).unwrap());
    let keep = keep.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before, "nothing changes before it runs");
    keep.begin().unwrap();
    assert!(!file.exists());
    keep.revert().unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before, "the machine did not begin");
}

#[test]
fn a_plain_drive_has_a_state_file_only_for_what_its_bytes_do_not_say() {
    let folder = tempfile::tempdir().unwrap();
    let plain = ZONED.replace("zones  = { size = \"1MiB\" }", "");
    let file = folder.path().join("zoned.img.state");
    let keep = keep_of(&plain, folder.path()).unwrap();
    keep.begin().unwrap();
    keep.end(keep.state.clone()).unwrap();
    assert!(!file.exists());
    let mut formatted = keep.state.clone();
    formatted.namespaces[0].block_size = 4096;
    keep.end(formatted.clone()).unwrap();
    // Whoever changes the bytes of such a drive changes nothing of its state.
    let image = folder.path().join("zoned.img");
    std::fs::write(&image, vec![5; 16 << 20]).unwrap();
    let keep = keep_of(&plain, folder.path()).unwrap();
    assert_eq!(keep.state, formatted);
    let text = refusal(&format!("{plain}zones = {{ size = \"1MiB\" }}"), folder.path());
    assert!(text.contains("no zones, and now is to have zones of 1MiB"), "{text}");
    keep.end(KeptState {
        namespaces: keep
            .state
            .namespaces
            .iter()
            .map(|one| stasis_nvme::KeptNamespace::as_made(&one.made))
            .collect(),
        ..keep.state.clone()
    })
    .unwrap();
    assert!(!file.exists(), "formatted back");
}

#[test]
fn an_image_keeps_zones_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions { size: Some(16 << 20), ..CreateOptions::default() };
    stasis_qcow2::create(&folder.path().join("zoned.qcow2"), &options).unwrap();
    let text = ZONED.replace("{ file = \"zoned.img\", size = \"16MiB\" }", "\"qcow2:zoned.qcow2\"");
    let keep = keep_of(&text, folder.path()).unwrap();
    let mut state = keep.state.clone();
    state.namespaces[0].zones = vec![KeptZones::one(0, ZoneState::Full, 256)];
    keep.end(state.clone()).unwrap();
    assert_eq!(keep_of(&text, folder.path()).unwrap().state, state);
    std::fs::remove_file(folder.path().join("zoned.qcow2.state")).unwrap();
    assert!(keep_of(&text, folder.path()).unwrap().state.is_as_made(), "it has no data");
}

#[test]
fn a_machine_gets_the_drive_that_the_user_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let each_key = "command = ['true']\n[[drive]]\nname = 'd'\nmodel = 'fixed:1us'\n\
         medium = { file = 'd.img', size = '16MiB' }\nbarrier = '1234567ns'\ndelay = '1ms'\n\
         queues = 3\ndoorbells = 'lazy'\nblock-size = 4096\nplacement = 'fdp:2x8x64MiB'\n\
         scheduler = 'deadline'\nserial = 's'\npath = '3us'\nstate = 'last'\n";
    for layout in [
        "",
        "namespaces = 2",
        "zones = { size = '1MiB', capacity = '768KiB', max-open = 2, max-active = 3, \
         extension-size = 64, zrwa = { size = '64KiB', granularity = '8KiB', count = 1 }, \
         reads-cross-zones = true }",
        "ocssd = { groups = 2, units = 2, chunks = 4, sectors = 256, write-min = 2, \
         write-optimal = 4, cached = 2, max-open = 4, max-open-per-unit = 2, endurance = 9 }",
    ] {
        let text = format!("{each_key}{layout}");
        let experiment: Experiment = toml::from_str(&text).unwrap();
        let mut written = experiment.drives.into_iter().next().unwrap();
        let plan = prepare(&text, folder.path(), |prepared| prepared.plan).unwrap();
        let sent = serde_json::to_vec(&plan).unwrap();
        let got: RunPlan = serde_json::from_slice(&sent).unwrap();
        let drive = &got.machines[0].drives[0];
        written.medium = absolute(&written.medium, folder.path()).unwrap();
        assert_eq!(drive.spec, written);
        assert_eq!((drive.path, drive.queues, drive.serial.as_str()), (3_000, 3, "s"));
    }
}

/// Linux refuses the second of two drives with one serial number, as one subsystem's.
#[test]
fn the_nvme_drives_of_a_machine_have_distinct_serial_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let drive = "model = 'null'\nmedium = 'ram:1MiB'\n";
    let two =
        format!("command = ['true']\n[[drive]]\n{drive}serial = 'STASIS1'\n[[drive]]\n{drive}");
    let text = refusal(&two, folder.path());
    assert!(text.starts_with("two drives have the serial number STASIS1,"), "{text}");
    assert!(text.contains("its own `serial`"), "{text}");
    let of_machine = two.replace("[[drive]]", "[[machine.drive]]");
    let text = refusal(&of_machine.replacen("[[", "[[machine]]\n[[", 1), folder.path());
    assert!(text.starts_with("machine machine0: two drives"), "{text}");
    let virtio = two.replace("[[drive]]\n", "[[drive]]\ninterface = 'virtio-blk'\n");
    prepare(&virtio, folder.path(), |_| ()).unwrap();
    let own_and_shared = format!(
        "command = ['true']\n[[drive]]\nname = 'shared'\n{drive}[[machine]]\n\
         [[machine.drive]]\n{drive}[[machine.disk]]\non = 'shared'\ninterface = 'nvme'\n"
    );
    prepare(&own_and_shared, folder.path(), |_| ()).unwrap();
}

#[test]
fn address_spaces_are_laid_out_alike_unless_the_experiment_says_otherwise() {
    for (engine, line, is_random, wanted) in [
        (Engine::Exact, "", false, "norandmaps net.ifnames=0 unknown_nmi_panic"),
        (Engine::Exact, "quiet", false, "norandmaps quiet net.ifnames=0 unknown_nmi_panic"),
        (Engine::Exact, "quiet", true, "quiet net.ifnames=0 unknown_nmi_panic"),
        (Engine::Softkvm, "quiet", false, "quiet"),
    ] {
        let text = format!(
            "command = ['true']\n[machine]\nrandomize = {is_random}\nkernel-command-line = '{line}'\n"
        );
        let found = prepare_under(engine, &text, Path::new("."), |prepared| {
            let line = prepared.plan.machines[0].spec.kernel_command_line.clone();
            (line, prepared.randomizes())
        });
        let (line, randomizes) = found.unwrap();
        assert_eq!(line, wanted);
        assert_eq!(randomizes, !wanted.contains("norandmaps"));
    }
}

/// One kept boot serves all of them.
#[test]
fn no_boot_depends_on_the_seed_or_on_faults_that_come_later() {
    use crate::begins::Begins;
    use serde_json::to_value;

    let folder = tempfile::tempdir().unwrap();
    let plan = |text: &str| prepare(text, folder.path(), |prepared| prepared.plan).unwrap();
    let text = |seed: u64, model: &str, more: &str| {
        format!(
            "command = ['true']\nseed = {seed}\n{more}\n[[drive]]\nname = 'd'\nmodel = '{model}'\n\
             medium = 'ram:64MiB'\n"
        )
    };
    let fault = |begin| {
        format!(
            "virtual-limit = '{begin}s'\n\
             [[fault]]\nkind = 'slow'\ndrive = 'd'\nfactor = 2\nbegin = '{begin}s'\n\
             [[fault]]\nkind = 'pause'\nbegin = '{begin}s'\nend = '9s'\n\
             [[fault]]\nkind = 'reset'\nat = '{begin}s'\n"
        )
    };
    let boot = |text: &str| {
        let mut plan = plan(text);
        let whole = plan.clone();
        let begins = Begins::take(&mut plan);
        let mut again = begins.clone().complete(&plan);
        for (drive, other) in again.media_mut().zip(whole.media()) {
            drive.faulty = other.faulty;
        }
        assert_eq!(to_value(again).unwrap(), to_value(whole).unwrap(), "the run is another");
        (to_value(plan).unwrap(), begins)
    };
    let fixed = |seed, more: &str| boot(&text(seed, "uniform:1us-2us", more));
    let ((one, its), (two, other)) = (fixed(1, &fault(1)), fixed(2, &fault(2)));
    assert_eq!(one, two);
    assert_ne!(its, other);
    // Where the drive's beginning is drawn, the boot finds it so.
    let drawn = |seed| boot(&text(seed, "jpt39c", "")).0;
    assert_ne!(drawn(1), drawn(2));
    // What is taken is counted from the start.
    let full = "[[fault]]\nkind = 'full'\ndrive = 'd'\nspace = '1MiB'";
    assert_ne!(fixed(1, full).0, fixed(1, "").0);
}
