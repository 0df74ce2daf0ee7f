//! The five workloads: their commands in the guest, and their sizes.

use super::Settings;

/// Bytes of a record of dd and Mobibench, and varmail's I/O size: that of the
/// image's clusters.
pub const RECORD: u64 = 64 << 10;
/// varmail's threads (filebench's).
const THREADS: u32 = 16;

/// Sizes of the workloads.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Writes of dd.
    pub dd: u64,
    /// Records of Mobibench.
    pub records: u64,
    /// varmail's files, and its rounds.
    pub files: u32,
    pub rounds: u64,
    /// Bytes of each disk.
    pub disk: u64,
    /// Memory of the guest (bytes).
    pub memory: u64,
}

impl Sizes {
    pub fn of(settings: &Settings) -> Self {
        match (settings.quick, settings.full) {
            (true, _) => Self { dd: 100, records: 100, files: 200, rounds: 60, ..Self::USUAL },
            (_, false) => Self::USUAL,
            // 25000 of dd, 5 GB of Mobibench. The publication runs varmail for 180 s and gives no
            // number of rounds; this one takes about 180 s in the slowest configuration.
            (_, true) => Self {
                dd: 25_000,
                records: (5 << 30) / RECORD,
                files: 1000,
                rounds: 100_000,
                disk: 16 << 30,
                memory: 4 << 30,
            },
        }
    }

    const USUAL: Self =
        Self { dd: 500, records: 500, files: 1000, rounds: 400, disk: 1 << 30, memory: 1 << 30 };
}

/// Form of a workload's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    /// dd's last line.
    Dd,
    /// JSON of `guest-load`.
    Load,
}

/// A workload, on a separate drive.
pub struct Workload {
    /// The drive's name, and that of the result and of the published figures.
    pub name: &'static str,
    /// Title of the workload.
    pub title: &'static str,
    /// The drive with the same preparations and nothing more.
    pub idle: &'static str,
    /// Form of its result.
    pub form: ResultFormat,
    /// True if the workload has one write in flight at a time.
    pub one_at_a_time: bool,
}

/// The publication's workloads, in its order.
pub const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "varmail",
        title: "varmail",
        idle: "idle-files",
        form: ResultFormat::Load,
        one_at_a_time: false,
    },
    Workload {
        name: "mobibench-append",
        title: "Mobibench, append",
        idle: "idle-empty",
        form: ResultFormat::Load,
        one_at_a_time: true,
    },
    Workload {
        name: "mobibench-overwrite",
        title: "Mobibench, overwrite",
        idle: "idle-filled",
        form: ResultFormat::Load,
        one_at_a_time: true,
    },
    Workload {
        name: "dd-append",
        title: "GNU dd, append",
        idle: "idle-empty",
        form: ResultFormat::Dd,
        one_at_a_time: true,
    },
    Workload {
        name: "dd-overwrite",
        title: "GNU dd, overwrite",
        idle: "idle-filled",
        form: ResultFormat::Dd,
        one_at_a_time: true,
    },
];

/// Drives that are only prepared.
pub const IDLE: [&str; 3] = ["idle-empty", "idle-filled", "idle-files"];

/// Every drive, in the order in which the guest has them.
pub fn drives() -> Vec<&'static str> {
    WORKLOADS.iter().map(|workload| workload.name).chain(IDLE).collect()
}

/// The guest's script: each drive gets a file system and the files that its workload needs, then
/// the workload runs.
pub fn script(sizes: &Sizes) -> String {
    let Sizes { dd, records, files, rounds, .. } = *sizes;
    let load = "/proc/1/exe guest-load";
    let mut script = String::from("mkdir -p /results\n");
    for (index, name) in drives().into_iter().enumerate() {
        let device = format!("vd{}", char::from(b'a' + index as u8));
        script.push_str(&format!(
            "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/{device}\n\
             mkdir -p /mnt/{name}; mount /dev/{device} /mnt/{name}; cd /mnt/{name}\n"
        ));
        let fill = |count: u64| {
            format!("dd if=/dev/zero of=file bs={RECORD} count={count} conv=fsync status=none\n")
        };
        let make =
            format!("{load} files mail --files {files} > /results/{name}-files.json; sync\n");
        let write = format!("dd if=/dev/zero of=file bs={RECORD} count={dd} oflag=dsync");
        let record = format!("{load} records file --size {RECORD} --count {records}");
        script.push_str(&match name {
            "varmail" => format!(
                "{make}{load} varmail mail --files {files} --rounds {rounds} --threads {THREADS} \
                 --io-size {RECORD} > /results/{name}.json\n"
            ),
            "mobibench-append" => format!("{record} > /results/{name}.json\n"),
            "mobibench-overwrite" => {
                format!("{}{record} --overwrite > /results/{name}.json\n", fill(records))
            }
            "dd-append" => format!("{write} 2> /results/{name}.txt\n"),
            "dd-overwrite" => {
                format!("{}{write} conv=notrunc 2> /results/{name}.txt\n", fill(dd))
            }
            "idle-filled" => fill(dd.max(records)),
            "idle-files" => make,
            _ => String::new(),
        });
        script.push_str(&format!("cd /; umount /mnt/{name}\n"));
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_in_the_script_with_its_drive() {
        let settings = Settings { engine: Default::default(), quick: true, full: false };
        let script = script(&Sizes::of(&settings));
        for workload in &WORKLOADS {
            assert!(script.contains(&format!("/results/{}.", workload.name)), "{script}");
            assert!(IDLE.contains(&workload.idle));
        }
        for device in 'a'..='h' {
            assert!(script.contains(&format!("/dev/vd{device}\n")), "{script}");
        }
        assert_eq!(script.matches("oflag=dsync").count(), 2);
        assert_eq!(script.matches("conv=notrunc").count(), 1);
    }
}
