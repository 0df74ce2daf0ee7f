//! Words of `stasis image`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use stasis_block::units::parse_size;
use stasis_qcow2::Format;

/// Commands of `stasis image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Make an empty image
    #[command(after_help = "Examples:
  stasis image create disk.qcow2 10GiB
  stasis image create --backing base.qcow2 overlay.qcow2
  stasis run --drive model=850-pro,medium=qcow2:disk.qcow2 -- mkfs.ext4 /dev/nvme0n1")]
    Create(CreateArguments),
    /// Say what an image is
    #[command(after_help = "Examples:
  stasis image info disk.qcow2
  stasis image info --json disk.qcow2")]
    Info(FileArguments),
    /// Look for inconsistencies in an image's tables
    #[command(
        after_help = "Nothing is written. An image that was not closed (lazy refcounts) is repaired where it is opened
to be written; `stasis image convert --rescue` copies what can be read of a damaged one.

Example:
  stasis image check disk.qcow2

Exit status: 0 if it is sound, 2 if it is damaged or its refcounts are behind, 3 if clusters have leaked and
no more."
    )]
    Check(FileArguments),
    /// Copy a disk into a new image, raw or qcow2
    #[command(
        after_help = "Zeroes take no room in the copy. A qcow2 image is read with everything below it, and only if it is
sound. With --rescue it may be damaged: each range that cannot be read is zeroes and printed as lost, with
the cause; one that is read but should be something else by another table is printed as doubtful.

Examples:
  stasis image convert disk.qcow2 disk.img --to raw
  stasis image convert disk.img disk.qcow2
  stasis image convert disk.qcow2 before.qcow2 --snapshot before-update
  stasis image convert --rescue disk.qcow2 rescued.qcow2

Exit status: 0 if all was copied; with --rescue, 2 if a range is lost, and 3 if some are doubtful and none
is lost."
    )]
    Convert(ConvertArguments),
    /// List which ranges of a disk hold what, and where
    #[command(after_help = "Examples:
  stasis image map disk.qcow2
  stasis image map --json disk.qcow2")]
    Map(FileArguments),
    /// Make an image's disk larger
    #[command(after_help = "What is new reads as zeroes, also where a backing file is longer.

Example:
  stasis image grow disk.qcow2 20GiB")]
    Grow(GrowArguments),
}

/// Arguments of `stasis image create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// The image's file; there must be none yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Size of the disk [default: the backing file's]
    #[arg(value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Bytes of a cluster: a power of two from 512B to 2MiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = size)]
    pub cluster_size: u64,
    /// Bits of a refcount: a power of two up to 64
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub refcount_bits: u32,
    /// Write refcounts when the image is closed, and find them again after a crash
    #[arg(long)]
    pub lazy_refcounts: bool,
    /// An image below, as this one is to name it: relative to its own folder
    #[arg(long, value_name = "FILE")]
    pub backing: Option<String>,
    /// Format of the image below [default: by its first bytes]
    #[arg(long, value_name = "FORMAT", requires = "backing")]
    pub backing_format: Option<ImageFormat>,
}

/// Which image.
#[derive(Debug, clap::Args)]
pub struct FileArguments {
    /// The image
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `stasis image convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertArguments {
    /// The disk to copy: raw or qcow2, as it begins
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// The new file; there must be none yet
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// Format of the new file
    #[arg(long = "to", value_name = "FORMAT", default_value = "qcow2")]
    pub format: ImageFormat,
    /// Copy the disk as it was at this internal snapshot
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Format of the file to copy [default: by its first bytes]
    #[arg(long, value_name = "FORMAT")]
    pub from_format: Option<ImageFormat>,
    /// Copy what can be read of a damaged disk, and print what cannot
    #[arg(long)]
    pub rescue: bool,
}

/// Arguments of `stasis image grow`.
#[derive(Debug, clap::Args)]
pub struct GrowArguments {
    /// The image
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The disk's new size
    #[arg(value_name = "SIZE", value_parser = size)]
    pub size: u64,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImageFormat {
    /// The disk's bytes as they are
    Raw,
    /// A qcow2 image
    Qcow2,
}

impl From<ImageFormat> for Format {
    fn from(format: ImageFormat) -> Self {
        match format {
            ImageFormat::Raw => Self::Raw,
            ImageFormat::Qcow2 => Self::Qcow2,
        }
    }
}

fn size(word: &str) -> Result<u64, String> {
    parse_size(word).map_err(|error| error.to_string())
}
