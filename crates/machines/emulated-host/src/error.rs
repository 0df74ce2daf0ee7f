//! Everything that can go wrong outside, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why the software host could not run a job to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// QEMU is not installed.
    #[error(
        "qemu-system-x86_64 is not installed; it provides the software KVM host: \
         install Debian's package qemu-system-x86"
    )]
    QemuMissing,
    /// A program that prepares the software host is missing.
    #[error(
        "{program} is not installed; it is needed to {purpose}: install Debian's package {package}"
    )]
    ToolMissing {
        /// The program.
        program: &'static str,
        /// The purpose.
        purpose: &'static str,
        /// Package that it comes from.
        package: &'static str,
    },
    /// A program that prepares the software host failed.
    #[error("the software host's kernel: {program} failed: {message}{advice}")]
    Tool {
        /// The program.
        program: &'static str,
        /// The end of its output.
        message: String,
        /// Advice for the user.
        advice: &'static str,
    },
    /// The kernel package is not what is expected.
    #[error("the software host's kernel: package {package} has no {part}")]
    Package {
        /// The package.
        package: String,
        /// The part that was not found.
        part: String,
    },
    /// The program cannot run on the bare machine.
    #[error(transparent)]
    Image(#[from] stasis_bare::ImageError),
    /// A file could not be used.
    #[error("{action} {path}: {source}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refused something that is not about a file.
    #[error("the software host: cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The executable is not static, so it cannot run as `/init`.
    #[error(
        "{0} needs shared libraries and cannot run inside the software host: \
         build it with RUSTFLAGS=\"-C target-feature=+crt-static\""
    )]
    NotStatic(PathBuf),
    /// The machine has not enough free memory.
    #[error(
        "not enough memory: the machine needs {}, {} are available; \
         give the guest and its RAM drives less, or close other programs",
        gibibytes(*needed),
        gibibytes(*available)
    )]
    Memory {
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// Too many passed drives.
    #[error("the drives are on {given} files and devices, and the software host takes at most {most}: an image counts with its backing files, a backing file of several images once. Put a drive on RAM, or convert an image into one without backing files")]
    Drives {
        /// Number of those given.
        given: usize,
        /// Largest number.
        most: usize,
    },
    /// An input's name is empty, too long, used twice, or has other characters.
    #[error("input name `{0}`: it must be unique, 1 to {limit} letters, digits, `.`, `_` or `-`", limit = crate::Input::MAX_NAME)]
    InputName(String),
    /// An input is too long for QEMU's fw_cfg.
    #[error("input {path} has {length} bytes: the software host takes files below 4 GiB")]
    InputLength {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
    /// QEMU refused a command.
    #[error("QEMU refused `{command}`: {message}")]
    Refused {
        /// The QMP command.
        command: &'static str,
        /// Its answer.
        message: String,
    },
    /// The software host did not come up in time.
    #[error("the software host did not {event} within {seconds} s{detail}")]
    Timeout {
        /// The awaited event.
        event: &'static str,
        /// Duration.
        seconds: u64,
        /// The end of its log.
        detail: String,
    },
    /// QEMU or the software host's kernel ended before the job did.
    #[error("the software host ended unexpectedly ({status}){detail}")]
    Died {
        /// Exit status of QEMU.
        status: String,
        /// The end of the output of QEMU and the kernel, and where all of it is.
        detail: String,
    },
    /// A machine that was to be kept did not come to where it is kept.
    #[error("the machine could not be kept for later runs")]
    NotKept,
    /// The disk of the cache is full, or nearly.
    #[error(
        "the disk that holds {}, has room for {}, and a machine that is kept there may take {}: make room, \
         `stasis cache` tells what is kept",
        folder.display(), gibibytes(*free), gibibytes(*needed)
    )]
    NoRoom {
        /// The folder.
        folder: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// A snapshot that a job is to begin at is damaged.
    #[error("{0}")]
    DamagedSnapshot(stasis_kept_files::Damage),
    /// The snapshots that a job could begin at were damaged.
    #[error("{0}; there is no other before that time")]
    NoneLeft(String),
    /// A job is to begin at a snapshot that is not there.
    #[error(
        "there is no snapshot of this run before that time: a run with --snapshots leaves them, of the \
         same experiment, seed, files, program and QEMU; `stasis cache` tells whether any are kept"
    )]
    NoSnapshot,
    /// Stopped by [`crate::Control::stop`] before the job had ended.
    #[error("stopped")]
    Stopped,
    /// The wall-clock limit came before the job had ended.
    #[error("the limit of wall-clock time was reached")]
    WallLimit,
    /// The inner side's event stream is damaged.
    #[error("from the software host: {0}")]
    Frame(#[from] stasis_run_events::FrameError),
    /// The caller's event stream could not take an event.
    #[error("cannot keep the run's results: {0}")]
    EventSink(io::Error),
}

impl Error {
    /// Returns whether QEMU did not take a machine that was kept, or ended with it.
    pub(crate) fn is_of_restore(&self) -> bool {
        matches!(self, Error::Refused { .. } | Error::Timeout { .. } | Error::Died { .. })
    }

    /// For `map_err` on a file operation.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }

    /// For `map_err` on anything else of the operating system.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::System { action, source }
    }
}
/// An amount of memory to a tenth of a GiB.
fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
