//! The option `--drive`: the words `KEY=VALUE,...` of a [`DriveSpec`]. Its medium, such as
//! `medium=file:x,size=1TB`, becomes a `MediumSpec` (`crates/drives/media/src/spec/table.rs`).

use std::sync::OnceLock;

use stasis_config::{Key, Words};

use crate::drive::DriveSpec;
use crate::error::ExperimentError;

/// The keys of `--drive`, from the schema of the table.
fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| Words::new(stasis_config::schema::<DriveSpec>(), of_medium))
}

/// Turns `file:a.img` into a table's `file = "a.img"` if other words set more keys of the medium.
fn of_medium(key: &str, word: &str) -> Option<(String, String)> {
    let (kind, value) = word.split_once(':').filter(|_| key == "medium")?;
    Some((kind.trim().to_owned(), value.trim().to_owned()))
}

impl DriveSpec {
    /// The keys of [`Self::parse`]: those of the schema that are no tables, and those of the tables
    /// in it that are of one form, as `TABLE.KEY` or by a shorter name.
    pub fn keys() -> &'static [Key] {
        words().keys()
    }

    /// Reads `KEY=VALUE,...` as `--drive` takes it.
    ///
    /// # Errors
    /// Names the word that is wrong and the nearest right one.
    pub fn parse(word: &str) -> Result<Self, ExperimentError> {
        let drive: Self = words()
            .read(word, "model=fixed:100us,medium=ram:1GiB")
            .map_err(|error| ExperimentError::Words { word: word.to_owned(), error })?;
        drive.check().map_err(|mistake| ExperimentError::Drive {
            word: word.to_owned(),
            message: mistake.into(),
        })?;
        Ok(drive)
    }
}

#[cfg(test)]
mod tests {
    use stasis_nvme::Placement;

    use super::*;

    #[test]
    fn words_say_what_tables_say() {
        let drive = DriveSpec::parse("model=dcpmm,medium=file:disk.img,delay=5ms").unwrap();
        assert_eq!(drive.delay, 5_000_000);
        assert_eq!(drive.model.label(), "dcpmm");
        let table: DriveSpec =
            toml::from_str("model='dcpmm'\nmedium={file='disk.img'}\ndelay='5ms'").unwrap();
        assert_eq!(drive, table);
        let drive = DriveSpec::parse("model=null,medium=file:disk.img,size=1GiB").unwrap();
        let table = "model='null'\nmedium={file='disk.img',size='1GiB'}";
        assert_eq!(drive, toml::from_str(table).unwrap());
        let word = "model=null,medium=ram:1GiB,namespaces=2,placement=streams:4";
        let table = "model='null'\nmedium='ram:1GiB'\nnamespaces=2\nplacement='streams:4'";
        let drive = DriveSpec::parse(word).unwrap();
        assert_eq!(drive, toml::from_str(&table.replace("'ram:1GiB'", "{ram='1GiB'}")).unwrap());
        assert_eq!((drive.namespaces, drive.placement), (2, Placement::Streams { max: 4 }));
    }

    #[test]
    fn layouts_come_from_words_and_tables() {
        let words = "model=null,medium=ram:1GiB,zone-size=64MiB,zone-capacity=48MiB,\
                     max-open-zones=8,max-active-zones=14";
        let table: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\n\
             zones={size='64MiB',capacity='48MiB',max-open=8,max-active=14}",
        )
        .unwrap();
        assert_eq!(DriveSpec::parse(words).unwrap(), table);
        assert_eq!(table.zones.unwrap().capacity, Some(48 << 20));
        let words = "model=null,medium=ram:1GiB,ocssd=4x2x32x1024";
        let table: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\n\
             ocssd={groups=4,units=2,chunks=32,sectors=1024}",
        )
        .unwrap();
        assert_eq!(DriveSpec::parse(words).unwrap(), table);
        let words = "model=null,medium=ram:1GiB,block-size=4096,metadata-size=16,protection=1,\
                     guard=64,metadata.first=true";
        let table: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\nblock-size=4096\n\
             metadata={size=16,protection=1,guard=64,first=true}",
        )
        .unwrap();
        assert_eq!(DriveSpec::parse(words).unwrap(), table);
        let zrwa: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\nzones={size='64MiB',extension-size=64,\
             zrwa={size='1MiB',granularity='16KiB',count=4},reads-cross-zones=true}",
        )
        .unwrap();
        assert_eq!(zrwa.zones.unwrap().zrwa.unwrap().granularity, 16384);
    }

    #[test]
    fn older_names_are_read_and_not_listed() {
        let new = DriveSpec::parse("model=null,medium=ram:1GiB,ocssd=4x2x32x1024").unwrap();
        let old = DriveSpec::parse("model=null,medium=ram:1GiB,physical=4x2x32x1024").unwrap();
        assert_eq!(old, new);
        let table = "model='null'\nmedium={ram='1GiB'}\nphysical='4x2x32x1024'";
        assert_eq!(toml::from_str::<DriveSpec>(table).unwrap(), new);
        let words = "physical.groups=1,physical.units=1,physical.chunks=1,physical.sectors=8";
        let drive = DriveSpec::parse(&format!("model=null,medium=ram:1GiB,{words}")).unwrap();
        assert_eq!(drive.ocssd.unwrap().sectors, 8);
        assert!(DriveSpec::keys().iter().all(|key| !key.name.contains("physical")));
        let near = DriveSpec::parse("model=null,medium=ram:1GiB,physicals=1").unwrap_err();
        assert!(!near.to_string().contains("did you mean `physical`"), "{near}");
    }

    #[test]
    fn every_key_of_the_table_can_be_a_word_and_the_other_way_round() {
        let schema = stasis_config::schema::<DriveSpec>();
        let table = schema["properties"].as_object().unwrap();
        let keys = DriveSpec::keys();
        for (key, schema) in table {
            if schema["deprecated"] == true {
                let word = format!("model=null,medium=ram:1GiB,{key}=?");
                let message = DriveSpec::parse(&word).unwrap_err().to_string();
                assert!(!message.contains("unknown key"), "{key}: {message}");
                continue;
            }
            // A list of tables is of files only.
            if key == "namespace" {
                continue;
            }
            let of_table = |listed: &Key| listed.path().next() == Some(key);
            assert!(keys.iter().any(of_table), "{key}");
        }
        for key in keys {
            assert!(key.path().next().is_some_and(|first| table.contains_key(first)), "{key:?}");
            let message = match DriveSpec::parse(&format!("{}=?", key.name)) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            assert!(!message.contains("unknown key"), "{key:?}: {message}");
            // The nearest to a word with a slip of the finger is the word.
            let slip = format!("{}x", key.name);
            let message = DriveSpec::parse(&format!("{slip}=1")).unwrap_err().to_string();
            assert!(message.contains(&format!("did you mean `{}`?", key.name)), "{message}");
        }
        for name in [
            "size",
            "durability",
            "max-lag",
            "zone-size",
            "zone-capacity",
            "max-open-zones",
            "max-active-zones",
            "ocssd",
            "zones.zrwa.size",
        ] {
            assert!(keys.iter().any(|key| key.name == name), "{name}");
        }
    }

    #[test]
    fn words_of_tables_in_the_table() {
        let words = "model=null,medium=file:d.img,medium.direct=true,zone-size=64MiB,\
                     zones.zrwa.size=1MiB,zones.zrwa.granularity=16KiB,zones.zrwa.count=4";
        let table = "model='null'\nmedium={file='d.img',direct=true}\n\
                     zones={size='64MiB',zrwa={size='1MiB',granularity='16KiB',count=4}}";
        assert_eq!(DriveSpec::parse(words).unwrap(), toml::from_str(table).unwrap());
        let words = "model=null,medium=ordered:d.img,size=1MiB,durability=barrier,max-lag=3ms";
        let table =
            "model='null'\nmedium={ordered='d.img',size='1MiB',durability='barrier',max-lag='3ms'}";
        assert_eq!(DriveSpec::parse(words).unwrap(), toml::from_str(table).unwrap());
    }

    #[test]
    fn wrong_words_are_named() {
        for (word, expected) in [
            ("modle=null,medium=ram:1GiB", "did you mean `model`?"),
            ("model=null", "medium is missing"),
            ("model=null,medium=ram:1GiB,size=1GiB", "ram:SIZE"),
            ("model=null,medium=file:d,size=1GX", "1GX"),
            ("model=null,medium=ram:1GiB,block-size=1024", "512, 4096 or 16384"),
            ("model=null,medium=ram:1GiB,protection=1", "metadata-size is missing"),
            ("model=null,medium=ram:1GiB,queues=0", "1 to 64"),
            ("model=null,medium=ram:1GiB,doorbells=lasy", "did you mean `lazy`?"),
            ("model=null,medium=ram:1GiB,interface=virtio", "did you mean `virtio-blk`?"),
            ("model=null,medium=ram:1GiB,namespaces=0", "1 to 128"),
            ("model=null,medium=ram:1GiB,namespaces=2,interface=virtio-blk", "interface=nvme"),
            ("model=null,medium=ram:1GiB,namespaces=two", "1 to 128"),
            ("model=null,medium=ram:1GiB,placement=fpd:8x1MiB", "fdp:8x64MiB"),
            ("model=dcpm,medium=ram:1GiB", "dcpmm"),
            ("model=fixed:100uss,medium=ram:1GiB", "us"),
            ("model=null,medium=qcow2:d,durability=orderd", "did you mean `ordered`?"),
            ("model=null,medium=ram:1GiB,durability=ordered", "medium=qcow2:PATH"),
            ("model=null,medium=ram:1GiB,scheduler=bfg", "did you mean `bfq`?"),
            ("nonsense", "KEY=VALUE"),
            ("model=null,medium=ram:1GiB,zone-sice=64MiB", "did you mean `zone-size`?"),
            ("model=null,medium=ram:1GiB,zone-capacity=64MiB", "zone-size is missing"),
            ("model=null,medium=ram:1GiB,zone-size=64MiB,max-open-zones=a", "a whole number"),
            ("model=null,medium=ram:1GiB,ocssd=4x2x32", "GROUPSxUNITSxCHUNKSxSECTORS"),
            ("model=null,medium=ram:1GiB,ocssd=1x1x1x1,zone-size=1MiB", "exclude"),
        ] {
            let message = DriveSpec::parse(word).unwrap_err().to_string();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }
}
