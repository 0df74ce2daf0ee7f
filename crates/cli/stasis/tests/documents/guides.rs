//! The blocks of the guides and of the tutorial, and how a test tries each of them. A block that is
//! neither tried nor listed here fails a test (`tests/documents.rs`).

use std::path::{Path, PathBuf};

use super::{commands, pages};

/// Guides that take minutes: `make slow-test` runs them. All others are run by `make test`.
pub const SLOW: &[(&str, &str)] = &[
    ("guides/automation", "of many commands"),
    ("guides/ci", "a crash test"),
    ("guides/commit", "follows a run closely"),
    ("guides/computational", "a guest for minutes"),
    ("guides/database", "crash tests"),
    ("guides/debug", "repeats runs many times"),
    ("guides/explore", "explores for minutes"),
    ("guides/faults", "makes guests of several packages"),
    ("guides/file-system", "crash tests"),
    ("guides/mount-options", "crash tests"),
    ("guides/network", "makes guests of several packages"),
    ("guides/nvme-tcp", "stock guests under QEMU"),
    ("guides/postgresql", "a guest with PostgreSQL, and its crash tests"),
    ("guides/precision", "measures for minutes"),
    ("guides/programs", "the Python package's experiments"),
    ("guides/race", "tries a hundred seeds"),
    ("guides/shell", "repeats runs up to a moment"),
    ("guides/slow-request", "follows a run closely"),
    ("guides/storage-functions", "machines under stock QEMU"),
    ("guides/tracers", "makes a guest of several packages"),
    ("tutorial/ten-minutes", "a dozen runs"),
];

/// Guides with a test of their own, and its place.
pub const APART: &[(&str, &str)] = &[
    ("guides/findings", "tests/system/findings.rs"),
    ("guides/kernel-bug", "tests/system/kernel_bug.rs"),
];

/// An entry of the list of blocks that are not tried: a page (`*`: any), the beginning of a command or of a block, and the reason.
pub type Listed = (&'static str, &'static str, &'static str);
pub const LISTED: &[Listed] = &[
    ("*", "stasis reproduce ", "takes minutes, or hours: crates/cli/reproduce/tests"),
    ("*", "stasis coordinate ", "needs a host's BFQ and a port: crates/cli/coordinate/tests"),
    ("README.md", "stasis function run nfs", "makes a guest of packages: guides/storage-functions"),
    ("guides/archive", "stasis sweep ", "the Python package's: python/tests/test_archive.py"),
    ("guides/ci", "make setup", "is how this test came here"),
    ("guides/ci", "on: pull_request", "`scripts/test-on trixie packages` runs the action's steps"),
    ("guides/commit", "452 vCPU 0;", "lines of a file: tests/system/profile.rs"),
    (
        "guides/computational",
        "struct range",
        "is in the program that tests/system/computational.rs compiles",
    ),
    ("guides/computational", "clang ", "needs a compiler for BPF"),
    ("guides/containers", "docker save ", "needs Docker"),
    (
        "guides/containers",
        "stasis run --image ",
        "takes the archive of the line before: tests/system/containers.rs",
    ),
    ("guides/containers", "services:", "needs the image of Redis: tests/system/compose.rs"),
    ("guides/containers", "[guest]", "needs the image of Redis: tests/system/containers.rs"),
    (
        "guides/containers",
        "stasis run compose.yaml",
        "takes the file before: tests/system/compose.rs",
    ),
    (
        "guides/containers",
        "stasis import compose.yaml",
        "takes the file before: tests/system/compose.rs",
    ),
    ("guides/coordinate", "  guest ", "a drawing"),
    ("guides/coordinate", "systemd-run ", "has an ellipsis, and is root's"),
    ("guides/coordinate", "echo bfq ", "changes this host's drive"),
    ("guides/debug", "{", "an editor's settings"),
    ("guides/debug", "scripts/kernel-gdb ", "fetches packages of a kernel"),
    ("guides/debug", "stasis debug experiment.toml --kernel ~/linux", "needs a built kernel"),
    (
        "guides/debug",
        "stasis debug experiment.toml --symbols ~/kernel-gdb",
        "takes the folder of the line before",
    ),
    (
        "guides/explore",
        "stasis explore everysec.toml",
        "is to find something: tests/system/explore.rs",
    ),
    ("guides/explore", "stasis explore examples/redis.toml --for", "takes ten minutes"),
    ("guides/extending", "   mod ", "a line of a list: the crates' own tests"),
    ("guides/extending", "   Registered::of", "a line of a list: the crates' own tests"),
    (
        "guides/extending",
        "   verify::COMMAND,",
        "a line of a list: crates/drives/nvme/tests/extending.rs",
    ),
    (
        "guides/faults",
        "{\"type\": \"invoke\"",
        "lines that a client writes: crates/results/report/tests/clusters.rs",
    ),
    ("guides/faults", "stasis-fault ", "is for the guest: tests/system/faults.rs"),
    ("guides/faults", "import socket", "is for the guest: tests/system/faults.rs"),
    (
        "guides/faults",
        "stasis run experiment.toml --seed 1 --results results/1",
        "one seed after the other",
    ),
    ("guides/file-system", "dmsetup create ", "is root's, and takes two block devices"),
    ("guides/ftl", "   Registered {", "a line of a table: crates/drives/flash/tests/extending"),
    ("guides/ftl", "cargo run ", "compiles"),
    ("guides/grafana", "scrape_configs:", "Prometheus's settings"),
    ("guides/kernel-bug", "sudo apt install ", "is how a test gets its packages"),
    ("guides/mount-options", "git bisect ", "builds kernels"),
    ("guides/mount-options", "replay-log ", "a program of somebody else"),
    ("guides/mount-options", "dmsetup create ", "is for a guest with two drives"),
    (
        "guides/network",
        "qemu-system-x86_64 ",
        "needs `softkvm` and a server: tests/system/networks.rs",
    ),
    (
        "guides/nvme-tcp",
        "modprobe ",
        "changes this host's kernel: tests/nvme_tcp.rs does it in a guest",
    ),
    ("guides/nvme-tcp", "nvme ", "is root's: tests/nvme_tcp.rs runs it in a guest"),
    ("guides/nvme-tcp", "$ nvme ", "is root's: tests/nvme_tcp.rs runs it in a guest"),
    ("guides/nvme-tcp", "mkfs.btrfs ", "takes the drive of the line before"),
    ("guides/nvme-tcp", "mount ", "takes the drive of the line before"),
    ("guides/nvme-tcp", "cp -r /etc /mnt/", "takes the drive of the line before"),
    ("guides/nvme-tcp", "umount ", "takes the drive of the line before"),
    ("guides/nvme-tcp", "dmesg ", "takes the drive of the line before"),
    ("guides/nvme-tcp", "cat /sys/", "takes the drive of the line before"),
    ("guides/nvme-tcp", "socat ", "takes a server that runs: tests/serve.rs"),
    ("guides/nvme-tcp", "echo '{", "takes a server that runs: tests/serve.rs"),
    (
        "guides/nvme-tcp",
        "stasis serve --drive name=d,model=samsung-980-pro,medium=ram:4GiB --nvme-tcp 0.0.0.0:4420",
        "names a host of the reader's",
    ),
    ("guides/postgresql", "crash-test:", "GitLab's settings"),
    ("guides/precision", "stasis doctor --measure", "takes minutes: tests/system/measure.rs"),
    ("guides/programs", "python3 -m venv ", "`scripts/test-on trixie packages` installs the wheel"),
    ("guides/programs", "import stasis", "the Python package's: python/tests/test_guides.py"),
    ("guides/programs", "import optuna", "the Python package's: python/tests/test_guides.py"),
    ("guides/programs", "stasis-sweep ", "the Python package's: python/tests/test_guides.py"),
    ("guides/qemu-disk", "cloud-hypervisor ", "is in no release of Debian"),
    ("guides/qemu-disk", "modprobe ", "changes this host's kernel: tests/ublk.rs"),
    (
        "guides/qemu-disk",
        "stasis serve --drive name=fast,model=fixed:50us,medium=ram:1GiB --ublk",
        "is root's: tests/ublk.rs",
    ),
    ("guides/qemu-disk", "mkfs.ext4 ", "takes the block device of the line before"),
    ("guides/race", "stasis debug found ", "asks about the node that the seed has lost"),
    ("guides/race", "(gdb) delete", "goes on with the block before"),
    ("guides/shell", "stasis shell experiment.toml -- top", "goes on until its reader types q"),
    ("guides/shell", "docker save ", "needs Docker"),
    (
        "guides/shell",
        "stasis shell --root ",
        "takes the archive of the line before, or all of this computer: tests/system/root.rs",
    ),
    (
        "guides/storage-functions",
        "stasis function run compress ",
        "takes fuse3, and a /dev/fuse that users may open",
    ),
    (
        "guides/storage-functions",
        "stasis serve --drive model=null,medium=file:functions/compress",
        "takes the disk of the line before",
    ),
    ("guides/storage-functions", "nfs-ls ", "a program of somebody else"),
    ("guides/tail-latency", "python3 - ", "needs pandas: python/tests/test_guides.py"),
    ("guides/tail-latency", "duckdb ", "needs DuckDB: python/tests/test_guides.py"),
    ("guides/vfio-user", "apt install ", "installs a newer QEMU"),
    ("guides/vfio-user", "qemu-system-x86_64 ", "needs QEMU 10.1: tests/vfio_user.rs"),
    ("guides/vfio-user", "<domain ", "is libvirt's: the_domain_for_libvirt_is_one"),
    ("guides/vfio-user", "nvme ", "is for the guest: tests/vfio_user.rs"),
    ("guides/vfio-user", "printf 'the first guest.'", "is for the guest: tests/vfio_user.rs"),
    ("guides/vfio-user", "{ \"execute\"", "needs QEMU 10.1: tests/vfio_user.rs"),
    ("tutorial/ten-minutes", "sudo apt install git make", "is how this test came here"),
    (
        "tutorial/ten-minutes",
        "sudo apt install --no-install-recommends ",
        "`scripts/test-on trixie packages` installs them",
    ),
    // Pages of the reference.
    (
        "docs/reference/disk-images.md",
        "stasis image convert --rescue ",
        "needs a damaged image: tests/rescue.rs, and crates/drives/qcow2/tests/beside_qemu.rs",
    ),
    ("docs/reference/flash.md", "nvme ", "is for the guest"),
    ("docs/reference/ordered-disks.md", "qemu-system-x86_64 ", "has an ellipsis"),
    (
        "docs/reference/power-cuts.md",
        "stasis crash-test examples/crash.toml",
        "takes minutes: tests/system/crash.rs",
    ),
    (
        "docs/reference/power-cuts.md",
        "stasis crash-test examples/crash/atomic.toml",
        "takes minutes: tests/system/crash.rs",
    ),
    ("docs/reference/models.md", "fio job.fio --output-format", "measures a real drive"),
    ("docs/reference/models.md", "blktrace ", "measures a real drive"),
    (
        "docs/reference/ordered-disks.md",
        "cargo run ",
        "compiles: crates/realtime/ordered-disk/tests",
    ),
];

/// A fenced block.
pub struct Block {
    pub language: String,
    pub text: String,
    /// The paragraph that stands before it.
    before: String,
}

/// A way in which a block is tried.
#[derive(Debug, PartialEq)]
pub enum Trial {
    /// Its commands are run.
    Run,
    /// It is a file that the reader writes: its name.
    File(String),
    /// It is a part of a file of the repository: its path.
    Part(String),
    /// Its words are typed into the command before it, whose answers are those of the block.
    Typed(&'static str),
    /// Each of its lines is printed by the commands before it, with other figures.
    Printed,
    /// It is read as an experiment, or compiled.
    Read,
}

/// Prompts of the programs into which a reader types.
const PROMPTS: [&str; 2] = ["(gdb) ", "root@stasis:~# "];

/// The guides and the tutorial, by their names in the book.
pub fn pages() -> Vec<(String, PathBuf)> {
    let book = pages::root().join("docs");
    let all = ["guides", "tutorial"].map(|folder| pages::below(&book.join(folder), "md")).concat();
    let named = |page: PathBuf| {
        let name = page.strip_prefix(&book).unwrap().with_extension("");
        (name.display().to_string(), page)
    };
    all.into_iter().map(named).collect()
}

/// The blocks of `page`.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut block: Option<Block> = None;
    let (mut paragraph, mut over) = (String::new(), false);
    for line in page.lines() {
        match (&mut block, line.trim_start().strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(block.take()),
            (None, Some(language)) => {
                let before = std::mem::take(&mut paragraph);
                block = Some(Block { language: language.to_owned(), text: String::new(), before });
            }
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, None) if line.is_empty() => over = true,
            (None, None) => {
                if std::mem::take(&mut over) {
                    paragraph.clear();
                }
                paragraph += &format!("{line} ");
            }
        }
    }
    blocks
}

/// The name of a file in backticks, by which a paragraph introduces a block: in its last sentence.
fn named(paragraph: &str) -> Option<&str> {
    let sentence = paragraph.trim_end().strip_suffix(':')?;
    let sentence = sentence.rsplit(". ").next()?;
    let mut files = sentence.split('`').skip(1).step_by(2).filter(|code| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
        let end = Path::new(code).extension();
        code.chars().all(is_path) && (end.is_some() || *code == "Makefile")
    });
    files.next().filter(|_| files.next().is_none())
}

/// Returns the trial of each block; `None`: it is not tried.
pub fn trials(page: &str, blocks: &[Block], root: &Path) -> Vec<Option<Trial>> {
    let mut commands_before = false;
    let mut trials = Vec::new();
    for block in blocks {
        let trial = if listed(page, &block.text).is_some() && block.language != "sh" {
            None
        } else {
            match (block.language.as_str(), named(&block.before)) {
                ("sh", _) => {
                    commands_before = true;
                    Some(Trial::Run)
                }
                ("rust", _) => Some(Trial::Read),
                (_, Some(path)) if path.contains('/') && root.join(path).is_file() => {
                    Some(Trial::Part(path.to_owned()))
                }
                (_, Some(name)) if !name.contains('/') => Some(Trial::File(name.to_owned())),
                ("toml", _) => Some(Trial::Read),
                ("text", _) if commands_before => {
                    let prompt = PROMPTS.iter().find(|prompt| block.text.contains(**prompt));
                    Some(prompt.map_or(Trial::Printed, |prompt| Trial::Typed(prompt)))
                }
                _ => None,
            }
        };
        trials.push(trial);
    }
    trials
}

/// The entry of the list that a command, or a block, begins with.
pub fn listed(page: &str, text: &str) -> Option<&'static Listed> {
    LISTED.iter().find(|(listed_page, begin, _)| {
        (*listed_page == page || *listed_page == "*") && text.starts_with(begin)
    })
}

/// The commands of a block that are run.
#[allow(dead_code)] // one of the two tests runs them
pub fn run_of(page: &str, block: &Block) -> Vec<String> {
    let mut commands = commands::of(&format!("```sh\n{}```\n", block.text));
    commands.retain(|command| listed(page, command).is_none());
    commands
}

/// Returns whether a reader types the line.
#[allow(dead_code)] // one of the two tests types
pub fn is_typed(line: &str) -> bool {
    PROMPTS.iter().any(|prompt| line.starts_with(prompt.trim_end()))
}

/// Returns whether `printed` has the line of a page: the words, with any figures; `…` stands for
/// anything.
pub fn is_printed(line: &str, printed: &str) -> bool {
    let wanted = shape(line);
    let parts: Vec<&[String]> = wanted.split(|word| word == "…").collect();
    printed.lines().map(shape).any(|shape| {
        let mut rest = &shape[..];
        parts.iter().all(|part| {
            let starts = if part.is_empty() {
                Some(0)
            } else {
                rest.windows(part.len()).position(|at| at == *part)
            };
            starts.map(|at| rest = &rest[at + part.len()..]).is_some()
        })
    })
}

/// A line's words, `#` for each figure with its unit.
fn shape(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let is_unit = [
            "%", "ns", "µs", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "B/s", "kB/s", "MB/s",
            "GB/s",
        ];
        if is_unit.contains(&word.trim_end_matches([',', ')', ']', ';']))
            && words.last().is_some_and(|last| last == "#")
        {
            continue;
        }
        let word = match word {
            word if word.contains('…') => "…",
            // A percentile of few I/Os is a dash: another release's guest may do some more.
            word if word == "–" || word.contains(|c: char| c.is_ascii_digit()) => "#",
            word => word,
        };
        words.push(word.to_owned());
    }
    words
}
