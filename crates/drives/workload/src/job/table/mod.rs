//! Every option of fio's job files, with its treatment here. The parser, the documents' tables and
//! the tests against fio derive from [`OPTIONS`].

mod engines;
mod known;
mod option;

pub use option::{FioOption, Key, Verdict};

/// Options of fio's command line, which no job file has.
pub const COMMAND_LINE: &[&str] = &[
    "output",
    "output-format",
    "minimal",
    "append-terse",
    "terse-version",
    "eta",
    "eta-newline",
    "eta-interval",
    "status-interval",
    "debug",
    "parse-only",
    "readonly",
    "section",
    "client",
    "server",
    "daemonize",
    "max-jobs",
    "latency-log",
    "bandwidth-log",
    "showcmd",
    "warnings-fatal",
    "idle-prof",
    "inflate-log",
    "trigger-file",
    "trigger-timeout",
    "trigger",
    "aux-path",
    "alloc-size",
    "cmdhelp",
    "enghelp",
];

/// All options: those of fio itself in its order, then those of its engines.
pub fn options() -> impl Iterator<Item = &'static FioOption> {
    known::OPTIONS.iter().chain(engines::OPTIONS)
}

/// The option of a name.
pub fn option(name: &str) -> Option<&'static FioOption> {
    options().find(|option| option.names.contains(&name))
}

/// The engines that keep `iodepth` I/Os in flight.
pub const ASYNCHRONOUS: &[&str] = &[
    "libaio",
    "io_uring",
    "io_uring_cmd",
    "posixaio",
    "solarisaio",
    "windowsaio",
    "sg",
    "null",
    "nbd",
    "rbd",
    "rados",
    "libblkio",
    "libiscsi",
    "xnvme",
    "guasi",
    "spdk",
    "spdk_bdev",
];

/// SPDK's engines by the name of the file that fio loads, with the names that they have in fio.
pub const LOADED: &[(&str, &str)] =
    &[("spdk_nvme", "spdk"), ("spdk_bdev", "spdk_bdev"), ("fio_plugin", "spdk")];

/// The engines whose `filename` is a drive, whatever its name.
pub const OF_DRIVES: &[&str] =
    &["spdk", "spdk_bdev", "sg", "io_uring_cmd", "libblkio", "xnvme", "libzbc", "mtd"];

/// The asynchronous engines whose threads wait for a flush.
pub const WAITS_FOR_FLUSH: &[&str] = &["libaio", "windowsaio", "solarisaio", "sg", "guasi"];

/// The asynchronous engines whose threads wait for a discard (fio's `FIO_ASYNCIO_SYNC_TRIM`).
pub const WAITS_FOR_TRIM: &[&str] = &["libaio", "posixaio", "io_uring", "io_uring_cmd"];

/// The engines that wait for each I/O.
pub const SYNCHRONOUS: &[&str] = &[
    "sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "libpmem", "pmemblk",
    "dev-dax", "mtd", "libzbc",
];

/// fio's engines that do no I/O on blocks of a drive.
pub const OTHER_ENGINES: &[&str] = &[
    "net",
    "netsplice",
    "rdma",
    "exec",
    "filecreate",
    "filestat",
    "filedelete",
    "dircreate",
    "dirstat",
    "dirdelete",
    "ftruncate",
    "falloc",
    "e4defrag",
    "gfapi",
    "gfapi_async",
    "libhdfs",
    "http",
    "nfs",
    "dfs",
    "ime_psync",
    "ime_psyncv",
    "ime_aio",
    "libcufile",
    "libhipfile",
    "librpma_apm_client",
    "librpma_apm_server",
    "librpma_gpspm_client",
    "librpma_gpspm_server",
    "external",
];

/// fio's engine where a job names none, on Linux.
pub const ENGINE: &str = "psync";

/// The option's name nearest to `name`, if any resembles it.
pub fn nearest(name: &str) -> Option<&'static str> {
    options()
        .flat_map(|option| option.names)
        .map(|known| (strsim::jaro_winkler(name, known), *known))
        .filter(|(alike, _)| *alike > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Rows of the documents' table of simulated options.
pub fn simulated_rows() -> String {
    let mut text = String::from("| option | meaning |\n| --- | --- |\n");
    for option in options() {
        if let Verdict::Simulated(_, meaning) = option.verdict {
            text += &format!("| {} | {meaning} |\n", names(option));
        }
    }
    text
}

/// Rows of the documents' table of options that change nothing: by reason.
pub fn neutral_rows() -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for option in options() {
        if let Verdict::NoEffect(reason) = option.verdict {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, all)) => all.push(names(option)),
                None => reasons.push((reason, vec![names(option)])),
            }
        }
    }
    let mut text = String::from("| why | options |\n| --- | --- |\n");
    for (reason, all) in reasons {
        text += &format!("| {reason} | {} |\n", all.join(", "));
    }
    text
}

/// Rows of the documents' table of refused options.
pub fn refused_rows() -> String {
    let mut hints: Vec<(String, Vec<String>)> = Vec::new();
    for option in options() {
        if let Verdict::Refused(neutral, instead) = option.verdict {
            let values: Vec<_> = neutral.iter().map(|value| format!("`{value}`")).collect();
            let but = match values.as_slice() {
                [] => String::new(),
                _ => format!(" (but for {})", values.join(", ")),
            };
            let name = names(option) + &but;
            match hints.iter_mut().find(|(known, _)| known == instead) {
                Some((_, all)) => all.push(name),
                None => hints.push((instead.to_owned(), vec![name])),
            }
        }
    }
    let mut text = String::from("| instead | options |\n| --- | --- |\n");
    for (instead, all) in hints {
        text += &format!("| {instead} | {} |\n", all.join(", "));
    }
    text
}

fn names(option: &FioOption) -> String {
    option.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
