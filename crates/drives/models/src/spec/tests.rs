#![allow(clippy::disallowed_methods, reason = "files that descriptions name")]
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stasis_block::{CacheKind, PowerLoss};
use stasis_config::keys;

use super::*;
use crate::kinds::card::CardSpec;
use crate::kinds::disk::DiskSpec;
use crate::kinds::rated::{RatedSpec, Rating};
use crate::kinds::{FixedSpec, ProfileSpec, SpansSpec, UniformSpec};
use crate::named::NAMED;
use crate::span::Span;

#[derive(Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct Drive {
    model: ModelSpec,
}

fn from_toml(model: &str) -> Result<ModelSpec, String> {
    let drive: Result<Drive, _> = toml::from_str(&format!("model = {model}"));
    drive.map(|drive| drive.model).map_err(|e| e.to_string())
}

const CONTEXT: BuildContext = BuildContext { seed: 1, capacity: 1 << 30, path: 0 };

/// The examples in the module's documentation are what they claim to be.
#[test]
fn the_documented_forms_are_understood() {
    let lines: Vec<_> = include_str!("mod.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! model = "))
        .map(|line| line.split("  #").next().unwrap_or(line))
        .collect();
    assert_eq!(lines.len(), 14);
    for line in lines {
        let spec = from_toml(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let drive = Drive { model: spec };
        let json = serde_json::to_string(&drive).unwrap();
        assert_eq!(serde_json::from_str::<Drive>(&json).unwrap(), drive, "{json}");
        let text = toml::to_string(&drive).unwrap();
        assert_eq!(toml::from_str::<Drive>(&text).unwrap(), drive, "{text}");
        let profile = drive.model.kind().get::<ProfileSpec>();
        let file = profile.is_some_and(|spec| spec.profile.is_none());
        assert_eq!(drive.model.build(&CONTEXT).is_err(), file, "{line}");
    }
}

#[test]
fn every_named_model_is_understood_and_self_contained() {
    for named in NAMED {
        let spec = ModelSpec::parse(named.name).unwrap();
        assert_eq!(spec.label(), named.name);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<ModelSpec>(&json).unwrap(), spec, "{json}");
        assert!(spec.build(&CONTEXT).is_ok(), "{}", named.name);
        assert!(!named.figures.is_empty() && !named.source.is_empty());
    }
}

/// The keys of a kind's schema are those that a full description has and that are read back; those
/// that it requires are those without which nothing is read.
#[test]
fn no_key_is_forgotten() {
    let span = Some(Span::fixed(1000));
    let cache = Some(CacheSpec {
        size: 1 << 20,
        drain: stasis_block::Rate::per_second(1_000_000),
        fua: Span::fixed(7),
        queued_flush: false,
        barrier: Some(9),
    });
    let spans = SpansSpec {
        bandwidth: Some(stasis_block::Rate::per_second(1_000_000)),
        latency: span,
        read: span,
        write: span,
        flush: span,
        discard: span,
        write_zeroes: span,
        parallelism: Some(3),
        cache: cache.clone(),
        plp: false,
    };
    let profile = of_name::<ProfileSpec>("dcpmm", |p| {
        p.file = Some("x".into());
        (p.read, p.write, p.write_zeroes) = (span, span, span);
        p.parallelism = Some(1);
        p.cache.clone_from(&cache);
        p.plp = false;
    });
    let disk = of_name::<DiskSpec>("jpt39c", |d| {
        d.full_stroke_seek = Some(16_000_000);
        d.write_zeroes = span;
    });
    let rated = of_name::<RatedSpec>("optane-p4800x", |r| {
        r.write_zeroes = span;
        r.cache.clone_from(&cache);
        r.plp = false;
    });
    for (spec, keys) in [
        (ModelSpec::new("x", UniformSpec(spans)), keys::<UniformSpec>()),
        (profile, keys::<ProfileSpec>()),
        (rated, keys::<RatedSpec>()),
        (disk, keys::<DiskSpec>()),
        (ModelSpec::parse("sdhc-class-6").unwrap(), keys::<CardSpec>()),
    ] {
        let map = spec.to_map().unwrap();
        let mut written: Vec<_> = map.keys().map(String::as_str).collect();
        // A disk's capacity is one of its own keys.
        written.retain(|key| !["kind", "label", "link"].contains(key));
        written.retain(|key| *key != "capacity" || keys.iter().any(|own| own == key));
        // `plp` and `cache` exclude one another.
        let expected: Vec<_> = keys.iter().filter(|key| *key != "plp").collect();
        assert_eq!(written, expected);
        assert_eq!(ModelSpec::of_table(map.clone()).unwrap(), spec);
        for key in &expected {
            let mut without = map.clone();
            without.remove(*key);
            let read = ModelSpec::of_table(without.clone());
            let missing = matches!(read, Err(SpecError::Missing { .. }));
            let schema = stasis_config::schema::<Drive>();
            let fits = fits(&schema, &without);
            assert_eq!(missing, !fits, "{}: {key}: {read:?}", spec.label());
        }
    }
}

/// A named model with changes.
fn of_name<P: Parameters>(name: &str, change: impl FnOnce(&mut P)) -> ModelSpec {
    let mut spec = ModelSpec::parse(name).unwrap();
    let mut parameters: P = spec.kind.get::<P>().unwrap().clone();
    change(&mut parameters);
    spec.kind = ModelKind::of(parameters);
    spec
}

#[test]
fn what_is_read_is_what_the_schema_has() {
    macro_rules! same {
        ($($table:ty)*) => { $(assert_eq!(stasis_config::keys_agree::<$table>(), Ok(()));)* };
    }
    same! {
        FixedSpec UniformSpec ProfileSpec RatedSpec Rating CacheSpec CardSpec DiskSpec crate::Profile
        crate::VolumeSpec crate::VolumeTier
        stasis_flash::spec::Spec stasis_flash::spec::GcSpec stasis_flash::spec::TimingSpec
        stasis_flash::spec::VariationSpec stasis_flash::spec::RetrySpec stasis_flash::spec::FaultSpec
    }
}

/// Returns whether one of the tables of a model's schema has every key that it requires in `table`.
fn fits(schema: &Value, table: &Map<String, Value>) -> bool {
    let tables = schema["$defs"]["model"]["anyOf"][1]["oneOf"].as_array().unwrap();
    let kind = table.get("kind");
    let own =
        tables.iter().find(|schema| schema["properties"]["kind"].get("const") == kind).unwrap();
    let required = own["required"].as_array().unwrap();
    required.iter().all(|key| table.contains_key(key.as_str().unwrap()))
}

#[test]
fn models_say_what_a_power_cut_takes() {
    let power_loss = |text: &str| from_toml(text).unwrap().build(&CONTEXT).unwrap().power_loss();
    let sector = |cache| PowerLoss::new(cache, 512);
    let cache = r#"cache = { size = "64MiB", drain = "500MB/s" }"#;
    let cases = [
        (r#""null""#, PowerLoss::default()),
        (r#""fixed:1us""#, PowerLoss::default()),
        (r#"{ kind = "fixed", latency = "1us", plp = true }"#, sector(CacheKind::Protected)),
        (r#""intel-p4500""#, sector(CacheKind::Protected)),
        (r#""dcpmm""#, sector(CacheKind::Protected)),
        (r#""850-pro""#, sector(CacheKind::Volatile(256 << 20))),
        (r#""samsung-980-pro""#, sector(CacheKind::Volatile(64 << 20))),
        (r#""jpt39c""#, sector(CacheKind::Volatile(32 << 20))),
        (r#"{ base = "jpt39c", write_cache = "0" }"#, sector(CacheKind::None)),
        (r#""sdhc-class-6""#, PowerLoss::default()),
        (r#""flash-tlc""#, PowerLoss::new(CacheKind::Volatile(8 << 20), 4096)),
        (r#"{ base = "flash-tlc", plp = true }"#, PowerLoss::new(CacheKind::Protected, 4096)),
        (r#"{ base = "flash-tlc", buffer = "0" }"#, PowerLoss::new(CacheKind::None, 4096)),
        (
            &format!(r#"{{ kind = "uniform", latency = "1us", {cache} }}"#),
            sector(CacheKind::Volatile(64 << 20)),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(power_loss(text), expected, "{text}");
    }
    let both = format!(r#"{{ kind = "fixed", latency = "1us", plp = true, {cache} }}"#);
    let wrong = from_toml(&both).unwrap_err().to_string();
    assert!(wrong.contains("`plp`") && wrong.contains("leave one of"), "{wrong}");
}

#[test]
fn a_named_model_can_be_changed() {
    let spec = from_toml(r#"{ base = "jpt39c", write_cache = "0", rpm = 5400 }"#).unwrap();
    let disk = spec.kind().get::<DiskSpec>().unwrap();
    assert_eq!((disk.write_cache, disk.rpm, disk.capacity), (0, 5400, 1_000_000_000_000));
    assert_eq!(spec.label(), "jpt39c+rpm+write_cache");
    assert_eq!(spec.capacity(), Some(1_000_000_000_000));
    let ssd = |more: &str| {
        from_toml(&format!(r#"{{ base = "samsung-980-pro", flush = "2ms"{more} }}"#)).unwrap()
    };
    assert_eq!(ssd("").capacity(), Some(1_000_204_886_016), "IDEMA's size of 1,000 GB");
    assert_eq!(ssd(r#", capacity = "2TB""#).capacity(), Some(2_000_000_000_000));
    assert_eq!(from_toml(r#""fixed:1us""#).unwrap().capacity(), None);
    let wrong = from_toml(r#"{ kind = "null", capacity = "2TBB" }"#).unwrap_err();
    assert!(wrong.to_string().contains("TBB"), "{wrong}");
    let labelled = from_toml(r#"{ base = "dcpmm", parallelism = 4, label = "x" }"#).unwrap();
    assert_eq!(labelled.label(), "x");
}

/// A key that every table may have would hide a kind's own of the same name.
#[test]
fn no_kind_has_a_key_of_all_tables() {
    for kind in KINDS {
        let keys = (kind.keys)();
        for common in ["kind", "base", "label", "link"] {
            assert!(!keys.iter().any(|key| key == common), "{} {common}", kind.name);
        }
    }
    let rate = r#"{ kind = "flash", interface_rate = "1GB/s", link = "PCIe 4.0 x4" }"#;
    let spec = from_toml(rate).unwrap();
    let flash = spec.kind().get::<stasis_flash::Spec>().unwrap();
    assert_eq!(flash.interface_rate, Some(stasis_flash::spec::Rate::per_second(1_000_000_000)));
    assert_eq!(spec.link(), Link::new(4, 4));
    assert_eq!(ModelSpec::of_table(spec.to_map().unwrap()).unwrap(), spec);
}

#[test]
fn links_are_those_of_the_data_sheets_or_the_tables_own() {
    let link = |text: &str| from_toml(text).unwrap().link().map(|link| link.to_string());
    for named in NAMED {
        let shown = named.sheet().find(|(title, _)| *title == "link");
        let link = shown.map(|(_, much)| much.parse::<Link>().unwrap());
        assert_eq!(named.spec().link(), link, "{}", named.name);
    }
    let gen4 = Some("PCIe 4.0 x4".to_string());
    assert_eq!(ModelSpec::parse("samsung-980-pro").unwrap().link(), Link::new(4, 4));
    assert_eq!(link(r#"{ base = "samsung-980-pro", flush = "2ms" }"#), gen4);
    assert_eq!(link(r#"{ base = "samsung-870-evo", link = "4.0 x4" }"#), gen4);
    assert_eq!(link(r#"{ kind = "null", link = "PCIe 4.0 x4" }"#), gen4);
    assert_eq!(link(r#"{ kind = "flash" }"#), None);
    let error = from_toml(r#"{ kind = "null", link = "fast" }"#).unwrap_err().to_string();
    assert!(error.contains("`link`") && error.contains("PCIe 4.0 x4"), "{error}");
    let kept = ModelSpec::parse("intel-p4500").unwrap();
    assert_eq!(ModelSpec::of_table(kept.to_map().unwrap()).unwrap(), kept);
}

#[test]
fn errors_name_the_word_and_the_nearest_right_one() {
    for (word, expected) in [
        ("dcpm", "unknown model `dcpm`; did you mean `dcpmm`?"),
        ("samsung-970-pro", "did you mean `samsung-9"),
        ("qqqq", "unknown model `qqqq`; `stasis models`"),
        ("fixd:100us", "unknown kind of model `fixd`; did you mean `fixed`?"),
        ("fixed", "the kind alone is not enough"),
        ("fixed:100usec", "did you mean `us`?"),
        ("fixed:1us-2us", "`uniform:1us-2us`"),
        ("uniform:2us-1us", "ends before it begins"),
        ("disk:x", "cannot be a word"),
        ("profile:", "a file is missing"),
    ] {
        let error = ModelSpec::parse(word).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (table, expected) in [
        (r#"{ kind = "fixd", latency = "1us" }"#, "did you mean `fixed`?"),
        (r#"{ latency = "1us" }"#, "a model's table needs the key `kind`, or `base`"),
        (r#"{ fixed = "0xs" }"#, "needs the key `kind`"),
        (r#"{ fixed = "1us" }"#, "write the word `fixed:1us`, or `kind = \"fixed\"`"),
        (r#"{ flash = {} }"#, "write `kind = \"flash\"` with its keys"),
        (r#"{ kind = "fixed", raed = "1us" }"#, "unknown key `raed`"),
        (r#"{ kind = "fixed", raed = "1us" }"#, "did you mean `read`?"),
        (r#"{ kind = "fixed", flush = "1us" }"#, "needs the key `latency`"),
        (r#"{ kind = "fixed", read = "1uss" }"#, "`read` of a model of kind `fixed`"),
        (r#"{ kind = "fixed", read = "1us-2us" }"#, "take kind `uniform`"),
        (r#"{ kind = "fixed", read = 5 }"#, "`5` is not a duration such as"),
        (r#"{ kind = "fixed", latency = "1us", parallelism = 0 }"#, "at least 1"),
        (r#"{ kind = "null", read = "1us" }"#, "unknown key `read`"),
        (r#"{ base = "jpt39", rpm = 5 }"#, "did you mean `jpt39c`?"),
        (r#"{ base = "jpt39c", rpm = 0 }"#, "`rpm` of a model of kind `disk`: must be from 1"),
        (r#"{ base = "jpt39c", queue = "shortes" }"#, "did you mean `shortest`?"),
        (r#"{ base = "jpt39c", outer_rate = "5MB" }"#, "such as `3400MB/s`"),
        (r#"{ base = "jpt39c", average_seek = "1ms" }"#, "`average_seek`"),
        (r#"{ base = "jpt39c", kind = "fixed" }"#, "leave `kind` out"),
        (
            r#"{ kind = "rated", read = { latency = "1us", iops = 5, bandwith = "1MB/s" } }"#,
            "unknown key `bandwith` of a model of kind `rated.read`; did you mean `bandwidth`?",
        ),
        (r#"{ kind = "rated", read = "5us" }"#, "`5us` is not a table with `latency`"),
        (
            r#"{ kind = "rated", read = { latency = [[99, "5us"], [50, "9us"]], iops = 5, bandwidth = "1MB/s" } }"#,
            "ascend in both",
        ),
        (r#"{ kind = "profile" }"#, "needs the key `file`"),
        (r#"{ kind = "fixed", latency = "1us", cache = "1MiB" }"#, "a table with `size`, `drain`"),
        (
            r#"{ base = "850-pro", cache = { size = "1MiB" } }"#,
            "`rated.cache` needs the key `drain`",
        ),
        ("5", "a model: a word such as"),
    ] {
        let error = from_toml(table).unwrap_err();
        assert!(error.contains(expected), "{table}: {error}");
    }
}

#[test]
fn a_profiles_file_is_taken_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = ModelSpec::parse("profile:x.json").unwrap();
    let error = spec.resolve(folder.path()).unwrap_err().to_string();
    assert!(error.contains("x.json"), "{error}");
    assert!(matches!(spec.build(&CONTEXT), Err(BuildError::Unresolved { .. })));
    std::fs::write(folder.path().join("x.json"), "{}").unwrap();
    let error = spec.resolve(folder.path()).unwrap_err().to_string();
    assert!(error.contains("x.json: not a profile"), "{error}");
    let output = include_str!("../../tests/data/fio-randrw.json");
    let profile = crate::calibrate::from_fio(output).unwrap();
    std::fs::write(folder.path().join("x.json"), profile.to_json()).unwrap();
    spec.resolve(folder.path()).unwrap();
    assert!(spec.build(&CONTEXT).is_ok());
    // From now on the file is not needed.
    drop(folder);
    let json = serde_json::to_string(&spec).unwrap();
    let mut again: ModelSpec = serde_json::from_str(&json).unwrap();
    again.resolve(Path::new("/nowhere")).unwrap();
    assert_eq!(again, spec);
}

#[test]
fn a_drive_larger_than_its_disk_is_refused() {
    let context = BuildContext { capacity: 2_000_000_000_000, ..CONTEXT };
    let error = ModelSpec::parse("jpt39c").unwrap().build(&context).err().unwrap().to_string();
    assert!(error.contains("`jpt39c`, a disk of 1TB") && error.contains("capacity = \"2TB\""));
}

#[test]
fn a_model_knows_what_sets_it_apart() {
    let changes = |model: &str| from_toml(model).unwrap().changes();
    for (model, from, expected) in [
        ("'mqsim-mlc'", "mqsim-mlc", vec![]),
        ("{ base = 'mqsim-mlc', gc = { choices = 3 } }", "mqsim-mlc", vec!["gc.choices"]),
        ("{ kind = 'flash' }", "kind = \"flash\"", vec![]),
        // A given value that is the default is no difference.
        ("{ kind = 'flash', luns = 4, planes = 4 }", "kind = \"flash\"", vec!["planes"]),
        ("{ kind = 'flash', blocks = 70 }", "kind = \"flash\"", vec!["blocks"]),
    ] {
        let (found, keys) = changes(model).unwrap();
        assert_eq!(found, from, "{model}");
        let mut keys: Vec<_> = keys.keys().cloned().collect();
        keys.sort();
        assert_eq!(keys, expected, "{model}");
    }
    let (_, keys) = changes("{ base = 'mqsim-mlc', gc = { choices = 3 } }").unwrap();
    assert_eq!(keys["gc.choices"], [Value::from(10), Value::from(3)]);
    let (_, keys) = changes("{ kind = 'flash', blocks = 70 }").unwrap();
    assert_eq!(keys["blocks"], [Value::Null, Value::from(70)]);
    // Their keys have no defaults.
    for model in ["'fixed:1us'", "{ kind = 'uniform', read = '1us-2us', write = '1us' }"] {
        assert!(changes(model).is_none(), "{model}");
    }
}
