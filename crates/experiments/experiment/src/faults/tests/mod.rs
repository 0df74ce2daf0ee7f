//! Faults are read as a user means them, and wrong ones are refused.

mod guests;
mod networks;
mod space;
mod triggered;

use crate::networks::tests::finish;
use stasis_drive::{CutChoice, DriveFaultKind};

const GOOD: &str = "command = ['true']\n[[drive]]\nname = 'disk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[drive]]\nname = 'log'\nmodel = 'null'\nmedium = 'ram:1MiB'\n\
     [[fault]]\nkind = 'lost-write'\ndrive = 'log'\nrate = 0.5\nbegin = '1s'\nend = '2s'\n";

#[test]
fn a_fault_is_that_of_its_drive() {
    let experiment = finish(GOOD).unwrap();
    assert_eq!(experiment.faults_of("disk"), Ok(vec![]));
    let [fault] = &experiment.faults_of("log").unwrap()[..] else { panic!("one fault") };
    assert_eq!(fault.kind, DriveFaultKind::LostWrite);
    assert_eq!((fault.begin, fault.end, fault.rate), (1_000_000_000, Some(2_000_000_000), 0.5));
    let only =
        "command = ['true']\n[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[fault]]\nkind = 'read-error'\n";
    assert_eq!(finish(only).unwrap().faults_of("drive0").unwrap().len(), 1);
}

#[test]
fn the_time_of_a_failure_is_drawn_by_the_seed() {
    let cut = "command = ['true']\n[[fault]]\nkind = 'power-cut'\nat = '1s'\n\
         within = '1s'\nrestart = '2s'\n";
    let at = |seed: u64| {
        let experiment = finish(&format!("seed = {seed}\n{cut}")).unwrap();
        let [failure] = &experiment.failures_of(&experiment.machine.all()[0]).unwrap()[..] else {
            panic!("one failure")
        };
        assert_eq!(failure.restart, Some(2_000_000_000));
        failure.at
    };
    let times: Vec<_> = (0..20).map(at).collect();
    assert!(times.iter().all(|at| (1_000_000_000..=2_000_000_000).contains(at)));
    assert!(times.iter().max().unwrap() - times.iter().min().unwrap() > 500_000_000);
    assert_eq!(at(3), times[3]);
}

#[test]
fn a_power_cut_leaves_what_its_fault_says() {
    let leaves = |key: &str| {
        let text = format!(
            "command = ['true']\n[[fault]]\nkind = 'power-cut'\nat = '1s'\nrestart = '2s'\n{key}"
        );
        let experiment = finish(&text)?;
        let failures = experiment.failures_of(&experiment.machine.all()[0]).unwrap();
        let [failure] = &failures[..] else { panic!("one failure") };
        Ok::<_, String>(failure.leaves.choice)
    };
    assert_eq!(leaves(""), Ok(CutChoice::Drawn));
    for choice in CutChoice::ALL {
        let word = serde_json::to_value(choice).unwrap();
        assert_eq!(leaves(&format!("leaves = {word}")), Ok(choice), "{word}");
    }
    let message = leaves("leaves = 'lest'").unwrap_err();
    assert!(message.contains("`least`") && message.contains("`all-but-one`"), "{message}");
}

#[test]
fn wrong_faults_are_refused_by_name() {
    for (from, to, expected) in [
        ("'lost-write'", "'lost-writes'", "did you mean `lost-write`?"),
        ("kind = 'lost-write'\n", "", "it has no kind"),
        ("drive = 'log'", "drive = 'lob'", "there is no drive `lob`; did you mean `log`?"),
        ("drive = 'log'\n", "", "give it a drive: there are `disk`, `log`"),
        ("rate = 0.5", "rate = 1.5", "1"),
        ("rate = 0.5", "factor = 2", "factor is for the kind `slow`, and not for `lost-write`"),
        ("'lost-write'", "'slow'", "slow needs factor or delay"),
        ("'lost-write'", "'stall'", "rate means nothing for the kind `stall`"),
        ("end = '2s'", "end = '1s'", "it ends at 1s, but begins at 1s"),
        ("rate = 0.5", "length = 0", "at least one byte"),
        (
            "rate = 0.5",
            "operations = ['read']",
            "operations means nothing for the kind `lost-write`",
        ),
        ("rate = 0.5", "rats = 0.5", "did you mean `rate`?"),
        (
            "rate = 0.5",
            "leaves = 'least'",
            "leaves is for the kind `power-cut`, and not for `lost-write`",
        ),
        ("rate = 0.5", "space = '1MiB'", "space is for the kind `full`, and not for `lost-write`"),
        ("'lost-write'", "'full'", "rate means nothing for the kind `full`"),
        ("'lost-write'", "'gone'", "rate means nothing for the kind `gone`"),
        (
            "'lost-write'\ndrive = 'log'\nrate = 0.5",
            "'gone'\ndrive = 'log'\nlength = 512",
            "length",
        ),
        (
            "end = '2s'\n",
            "end = '2s'\n[[fault]]\nkind = 'gone'\ndrive = 'log'\n\
            [[fault]]\nkind = 'gone'\ndrive = 'log'\nbegin = '9s'\n",
            "it is during fault 1",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let message = finish(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
    let gone = GOOD.replace("'lost-write'", "'gone'").replace("rate = 0.5\n", "");
    finish(&gone).unwrap();
    for kind in [
        "lost-completion",
        "doubled-completion",
        "lost-interrupt",
        "stuck-queue",
        "controller-failure",
    ] {
        let of_controller =
            GOOD.replace("'lost-write'", &format!("'{kind}'\noperations = ['read']"));
        finish(&of_controller).unwrap();
        let virtio =
            of_controller.replace("'log'\nmodel", "'log'\ninterface = 'virtio-blk'\nmodel");
        let message = finish(&virtio).unwrap_err();
        assert!(message.contains("drive log has none"), "{kind}: {message}");
        let image = of_controller.replacen(
            "'log'\nmodel = 'null'\nmedium = 'ram:1MiB'",
            "'log'\nmodel = 'null'\nmedium = { qcow2 = 'log.qcow2' }",
            1,
        );
        let message = finish(&image).unwrap_err();
        assert!(message.contains("before an image"), "{kind}: {message}");
    }
    let one = gone.replace("'gone'", "'path-inaccessible'");
    assert!(finish(&one).unwrap_err().contains("say `controllers = 2` at drive log"));
    let two = one.replace("'log'\nmodel", "'log'\ncontrollers = 2\nmodel");
    finish(&two).unwrap();
    let with_fault = |fault: &str, controller: &str| {
        two.replace("'path-inaccessible'", &format!("'{fault}'\ncontroller = {controller}"))
    };
    finish(&with_fault("path-non-optimized", "2")).unwrap();
    for (text, expected) in [
        (with_fault("gone", "3"), "one of the drive's, 1 to 2"),
        (with_fault("gone", "0"), "from 1 to 8"),
        (with_fault("lost-write", "1"), "controller is for the kind"),
        (
            with_fault("gone", "1") + "[[fault]]\nkind = 'path-inaccessible'\ndrive = 'log'\n",
            "it is during fault 0",
        ),
    ] {
        let message = finish(&text).unwrap_err();
        assert!(message.contains(expected), "{text}: {message}");
    }
    for (fault, expected) in [
        ("'namespace-detached'", None),
        ("'namespace-detached'\nnamespace = 2", Some("one of the drive's, 1 to 1")),
        ("'namespace-detached'\nsize = '8KiB'", Some("size is for the kind `namespace-resized`")),
        ("'namespace-resized'", Some("needs a size")),
        ("'namespace-resized'\nsize = '8KiB'", None),
        ("'namespace-resized'\nsize = 5000", Some("multiple of 4096")),
        ("'namespace-resized'\nsize = 0", Some("multiple of 4096")),
        ("'gone'\nnamespace = 1", Some("namespace is for the kind")),
    ] {
        let text = gone.replace("'gone'", fault);
        match (finish(&text), expected) {
            (Ok(_), None) => {}
            (Err(message), Some(expected)) if message.contains(expected) => {}
            (result, _) => panic!("{fault}: {:?}", result.map(drop)),
        }
    }
    let second = "[[fault]]\nkind = 'namespace-resized'\nsize = '8KiB'\ndrive = 'log'\n";
    finish(&(gone.replace("'gone'", "'namespace-detached'") + second)).unwrap();
    let meets = gone.replace("'gone'", "'namespace-resized'\nsize = '4KiB'") + second;
    assert!(finish(&meets).unwrap_err().contains("it is during fault 0"));
    let zoned = gone
        .replace("'gone'", "'namespace-resized'\nsize = '8KiB'")
        .replace("'log'\nmodel", "'log'\nzones = { size = '64KiB' }\nmodel");
    assert!(finish(&zoned)
        .unwrap_err()
        .contains("namespace 1 of drive log cannot have another size"));
    let other = "[[fault]]\nkind = 'path-inaccessible'\ndrive = 'log'\ncontroller = 2\n";
    finish(&(with_fault("gone", "1") + other)).unwrap();
    let message = finish(&gone.replace("'log'\nmodel", "'log'\ninterface = 'virtio-blk'\nmodel"));
    assert!(message.unwrap_err().contains("drive log has no slot"));
    let machines = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n\
         [[fault]]\nkind = 'pause'\nmachine = 'a'\nbegin = '1s'\nend = '2s'\n";
    assert_eq!(finish(machines).unwrap().faults[0].target(), "a");
    for (from, to, expected) in [
        ("machine = 'a'\n", "", "give it a machine: there are `a`, `b`"),
        ("machine = 'a'\n", "machine = 'c'\n", "there is no machine `c`"),
        ("end = '2s'\n", "", "give the pause an end"),
        ("end = '2s'", "end = '1s'", "it ends at 1s, but begins at 1s"),
        ("end = '2s'", "end = '2s'\nrate = 0.5", "rate means nothing for the kind `pause`"),
        ("end = '2s'", "end = '2s'\nat = '1s'", "at is for the kind `power-cut`, `reset`"),
        (
            "end = '2s'\n",
            "end = '2s'\n[[fault]]\nkind = 'pause'\nmachine = 'a'\nend = '1500ms'\n",
            "it is during fault 0",
        ),
    ] {
        assert!(machines.contains(from), "{from}");
        let message = finish(&machines.replacen(from, to, 1)).unwrap_err();
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
    let cut = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n\
         [[machine.drive]]\nname = 'disk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n\
         [[fault]]\nkind = 'power-cut'\nmachine = 'b'\nat = '1s'\nrestart = '2s'\n";
    assert!(finish(cut).is_ok());
    for (from, to, expected) in [
        ("at = '1s'\n", "", "say when it happens"),
        ("restart = '2s'\n", "", "give the fault a `restart`"),
        ("name = 'b'\n", "name = 'b'\nrewind = true\n", "rewind"),
        ("at = '1s'", "at = '1s'\nend = '2s'", "end means nothing for the kind `power-cut`"),
        ("at = '1s'", "at = '1s'\ndrive = 'disk'", "drive means nothing"),
    ] {
        assert!(cut.contains(from), "{from}");
        let message = finish(&cut.replacen(from, to, 1)).unwrap_err();
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
    let reset = cut.replace("power-cut", "reset").replace("restart = '2s'\n", "");
    let with = |text: &str, keys: &str| text.replace("'ram:1MiB'\n", &format!("{keys}\n"));
    let message = finish(&(reset.clone() + "leaves = 'least'\n")).unwrap_err();
    assert!(
        message.contains("leaves is for the kind `power-cut`, and not for `reset`"),
        "{message}"
    );
    let ram = "'ram:8MiB'\nzones = { size = '1MiB' }";
    for keys in ["'qcow2:x'", ram] {
        assert!(finish(&with(cut, keys)).is_ok() && finish(&with(&reset, keys)).is_ok(), "{keys}");
    }
    let areas = "'ram:8MiB'\nzones = { size = '1MiB', max-active = 2, \
                 zrwa = { size = '64KiB', granularity = '16KiB', count = 2 } }";
    let chunks = "'ram:4MiB'\nblock-size = 4096\nocssd = '2x2x4x64'";
    let image = ram.replace("ram:8MiB", "qcow2:x");
    for (keys, why) in
        [(areas, "random write areas"), (chunks, "Open-Channel"), (&image, "an image")]
    {
        let message = finish(&with(cut, keys)).unwrap_err();
        assert!(message.contains(why), "{keys}: {message}");
        assert!(finish(&with(&reset, keys)).is_ok(), "{keys}");
    }
    let pairs = with(&reset, "'ram:8MiB'\nkey-value = {}");
    assert!(finish(&pairs).unwrap_err().contains("key-value pairs"));
    let none = "command = ['true']\n[[fault]]\nkind = 'stall'\n";
    assert!(finish(none).unwrap_err().contains("no drive that it can befall"));
}
