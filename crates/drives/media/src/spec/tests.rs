//! Media as words and as tables.

use super::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drive {
    medium: MediumSpec,
}

fn read(value: &str) -> Result<MediumSpec, String> {
    let text = format!("medium = {value}");
    toml::from_str::<Drive>(&text).map(|drive| drive.medium).map_err(|error| error.to_string())
}

#[test]
fn words_and_tables_say_the_same() {
    let ram = MediumSpec::Ram { size: 1 << 30 };
    let file = |size, direct| MediumSpec::File { path: "disk.img".into(), size, direct };
    let image = |durability, max_lag| MediumSpec::Qcow2 {
        path: "disk.qcow2".into(),
        settings: ImageSettings { durability, max_lag, ..ImageSettings::default() },
    };
    let ordered = |size, durability| MediumSpec::Ordered {
        path: "disk.img".into(),
        size,
        settings: ImageSettings { durability, ..ImageSettings::default() },
    };
    let device = |direct| MediumSpec::Device { path: "/dev/sdb".into(), direct };
    for (text, spec) in [
        ("'ram:1GiB'", ram.clone()),
        ("{ ram = '1GiB' }", ram.clone()),
        ("{ ram = 1073741824 }", ram),
        ("'file:disk.img'", file(None, false)),
        ("{ file = 'disk.img' }", file(None, false)),
        ("{ file = 'disk.img', size = '1MiB' }", file(Some(1 << 20), false)),
        ("{ file = 'disk.img', direct = true }", file(None, true)),
        ("'qcow2:disk.qcow2'", image(Durability::Flush, 50_000_000)),
        ("{ qcow2 = 'disk.qcow2' }", image(Durability::Flush, 50_000_000)),
        (
            "{ qcow2 = 'disk.qcow2', durability = 'ordered', max-lag = '10ms' }",
            image(Durability::Ordered, 10_000_000),
        ),
        ("'ordered:disk.img'", ordered(None, Durability::Ordered)),
        ("{ ordered = 'disk.img', size = '1MiB' }", ordered(Some(1 << 20), Durability::Ordered)),
        ("{ ordered = 'disk.img', durability = 'barrier' }", ordered(None, Durability::Barrier)),
        ("'device:/dev/sdb'", device(true)),
        ("{ device = '/dev/sdb' }", device(true)),
        ("{ device = '/dev/sdb', direct = false }", device(false)),
    ] {
        let drive = Drive { medium: read(text).unwrap() };
        assert_eq!(drive.medium, spec, "{text}");
        let written = toml::to_string(&drive).unwrap();
        assert_eq!(toml::from_str::<Drive>(&written).unwrap(), drive, "{written}");
    }
    for word in ["ram:1GiB", "file:disk.img", "file:a:b", "qcow2:d.qcow2", "device:/dev/sdb"] {
        assert_eq!(MediumSpec::parse(word).unwrap().label(), word);
    }
}

#[test]
fn wrong_ones_name_the_word_and_the_nearest() {
    for (text, parts) in [
        ("'rma:1GiB'", ["`rma`", "did you mean `ram`"]),
        ("'fil:disk.img'", ["`fil`", "did you mean `file`"]),
        ("'disk.img'", ["`disk.img`", "file:PATH"]),
        ("'ram'", ["`ram`", "ram:SIZE"]),
        ("'file:'", ["`file:`", "file:PATH"]),
        ("'ram:1gib'", ["`ram:1gib`", "did you mean `GiB`"]),
        ("{ ram = '1gib' }", ["unit `gib`", "did you mean `GiB`"]),
        ("{ fiel = 'x' }", ["`fiel`", "`file`"]),
        ("{ size = '1GiB' }", ["exactly one of", "none of them"]),
        ("{ ram = '1GiB', file = 'x' }", ["exactly one of", "`ram` and `file`"]),
        ("{ ram = '1GiB', direct = true }", ["`ram` medium", "no `direct`"]),
        ("{ ordered = 'x', direct = true }", ["`ordered` medium", "no `direct`"]),
        ("{ device = '/dev/sdb', size = 1 }", ["`device` medium", "no `size`"]),
        ("{ file = 'x', durability = 'flush' }", ["`raw` medium", "no `durability`"]),
        ("{ qcow2 = 'x', durability = 'flsh' }", ["flsh", "ordered"]),
        ("7", ["invalid type", "a medium such as"]),
    ] {
        let message = read(text).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
