//! Errors while results are written.

use std::path::{Path, PathBuf};

/// Results could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The folder for results is missing and cannot be made.
    #[error(
        "results: cannot create the folder {}: {source}; \
         name a folder that you may write to", .path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file could not be created or written.
    #[error(
        "results: cannot write {}: {source}; \
         check free space and permissions of its folder", .path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Results of a run cannot be read.
    #[error("results: cannot read {}: {source}; name the results of a run", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The fault.
        source: std::io::Error,
    },
    /// The run has kept no waits of threads.
    #[error(
        "results: {} has no waits of threads: run it with --guest-times, on a kernel with BTF",
        .folder.display()
    )]
    NoWaits {
        /// The folder of results.
        folder: PathBuf,
    },
    /// Another run has the folder.
    #[error(
        "results: another run is writing to {}; wait for it, or name another folder with --results",
        .path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A file that is to be written is there, and no run has left it.
    #[error(
        "results: {} was not written by Stasis and is left as it is; move it away, or name another \
         folder with --results", .path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The output would destroy an input.
    #[error(
        "results: {} is read, and writing to {} would destroy it; name another place for what is \
         written, such as another folder with --results", .input.display(), .output.display()
    )]
    IsInput {
        /// The output.
        output: PathBuf,
        /// The input.
        input: PathBuf,
    },
    /// A record names a drive that the experiment does not have.
    #[error(
        "results: a record names drive {index}, but there are {drives}; the stream of events is damaged"
    )]
    NoSuchDrive {
        /// The record's index.
        index: u16,
        /// Returns the number of drives.
        drives: usize,
    },
    /// A span names a track that was not announced.
    #[error(
        "results: a span names track {number}, but there are {tracks}; the stream of events is damaged"
    )]
    NoSuchTrack {
        /// The track's number.
        number: u32,
        /// Number of tracks.
        tracks: usize,
    },
}

impl ResultsError {
    /// The error of writing `path`.
    pub fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    /// The error of reading `path`.
    pub fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// The error for an input that is not as a run writes it.
    pub fn damaged(path: &Path, message: String) -> Self {
        Self::read(path)(std::io::Error::other(message))
    }
}
