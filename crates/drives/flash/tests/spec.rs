//! Descriptions of drives as a file has them. (Here, and not in the crate, since a reader of files is compiled for each
//! part of a description: the crate's tests are optimised, for minutes.)

use stasis_flash::spec::{CacheSize, WhenFull};
use stasis_flash::Spec;

#[test]
fn an_empty_table_is_a_drive_and_reads_back() {
    let spec: Spec = toml::from_str("").unwrap();
    assert_eq!(spec, Spec::default());
    spec.check(64 << 30).unwrap();
    let written = toml::to_string(&spec).unwrap();
    assert_eq!(toml::from_str::<Spec>(&written).unwrap(), spec);
}

#[test]
fn everything_can_be_said() {
    let spec: Spec = toml::from_str(
        r#"
        channels = 16
        luns = 1
        planes = 2
        pages = 512
        page_size = "16KiB"
        cells = "LLLLLuLLu(LLuu)*"
        registers = 2
        plane_mode = "lockstep"
        suspensions = 3
        scheduling = "read-first"
        channel_order = "data-first"
        mapping_unit = "16KiB"
        over_provisioning = 0.28
        stripe = "plane,channel,lun"
        buffer = "32MiB"
        plp = true
        streams = 4
        hot_cold = true
        wear_levelling = "static"
        controller = "5us"
        interface_rate = "3.2GB/s"
        precondition = "steady"
        gc = { policy = "d-choices", choices = 5, blocking = "channel", background = 20 }
        [timing]
        read = { L = "48us", u = "64us" }
        program = { L = "900us", u = "2400us" }
        erase = "3ms"
        bus = "166MB/s"
        [variation]
        chip = 0.02
        retry = { wear = 1.0, limit = 5 }
        [[faults]]
        kind = "dead-die"
        channel = 3
        lun = 0
        from = "1s"
        [[faults]]
        kind = "corrupt"
        offset = "1MiB"
        length = "4KiB"
        "#,
    )
    .unwrap();
    spec.check(64 << 30).unwrap();
    let pattern = spec.pattern(512).unwrap();
    let timing = spec.timing.timing(&spec.cells, &pattern).unwrap();
    assert_eq!(timing.program[1], 2_400_000);
    assert_eq!(toml::from_str::<Spec>(&toml::to_string(&spec).unwrap()).unwrap(), spec);
}

#[test]
fn an_older_name_of_a_translation_layer_is_read() {
    let old: Spec = toml::from_str("ftl = 'physical'").unwrap();
    assert_eq!(old, Spec { ftl: "ocssd".into(), ..Spec::default() });
}

#[test]
fn a_size_is_of_bytes_or_a_share() {
    let text = "slc_cache = { static = \"4MB\", dynamic = 0.036, when_full = \"fold\" }";
    let spec: Spec = toml::from_str(text).unwrap();
    let cache = spec.slc_cache.unwrap();
    assert_eq!(cache.fixed, CacheSize::Bytes(4_000_000));
    assert_eq!((cache.dynamic, cache.when_full), (CacheSize::Share(0.036), WhenFull::Fold));
    let again: Spec = toml::from_str(&toml::to_string(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
}

#[test]
fn words_that_are_not_known_are_refused() {
    for wrong in ["chanels = 3", "gc = { polcy = \"greedy\" }", "[timing]\nbus = \"400\""] {
        assert!(toml::from_str::<Spec>(wrong).is_err(), "{wrong}");
    }
}
