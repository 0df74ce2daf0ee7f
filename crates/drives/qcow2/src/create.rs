//! New images.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder};
use stasis_block::{Command, Operation};
use stasis_drive::{Control, Drive};
use stasis_media::{Access, Execution, HostFile, HostFiles, OpenOptions};

use crate::chain::{self, Format};
use crate::header::{Source, LAZY_REFCOUNTS, MAX_L1};
use crate::host::Shared;
use crate::layer::instantly;
use crate::storage::{Handle, Role};
use crate::tables::Tables;
use crate::tasks::Tasks;
use crate::zero_latency::ZeroLatency;
use crate::{layout, ImageError};

/// Options of a new image.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Size of the disk in bytes; without it as large as the backing file's.
    pub size: Option<u64>,
    /// Bytes of a cluster: a power of two from 512 to 2 MiB.
    pub cluster_size: u64,
    /// Bits of a refcount: a power of two up to 64.
    pub refcount_bits: u32,
    /// True if refcounts are written late.
    pub lazy_refcounts: bool,
    /// The file below, as the image is to name it, and its format.
    pub backing: Option<(String, Option<Format>)>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            size: None,
            cluster_size: 64 << 10,
            refcount_bits: 16,
            lazy_refcounts: false,
            backing: None,
        }
    }
}

/// Makes an image at `path`, which does not exist yet.
///
/// # Errors
/// An [`ImageError`] that names the file or the value, and the remedy.
pub fn create(path: &Path, options: &CreateOptions) -> Result<(), ImageError> {
    let value = |message: String| Err(ImageError::Value(message));
    let bits = options.cluster_size.checked_ilog2().unwrap_or(0);
    if !options.cluster_size.is_power_of_two() || !(9..=21).contains(&bits) {
        return value("a cluster size must be a power of two from 512B to 2MiB".into());
    }
    if !options.refcount_bits.is_power_of_two() || options.refcount_bits > 64 {
        return value("refcount bits must be a power of two from 1 to 64".into());
    }
    let (size, backing) = below(path, options)?;
    let most = largest(options.cluster_size);
    if size == 0 || size % 512 != 0 || size > most {
        return value(format!(
            "a size of {}: an image with these clusters has a multiple of 512 bytes, not 0, and \
             at most {}",
            stasis_block::units::format_size(size),
            stasis_block::units::format_size(most)
        ));
    }
    let os = |action| move |source| ImageError::Os { path: path.into(), action, source };
    File::options().write(true).create_new(true).open(path).map_err(os("make it"))?;
    let made = write(path, options, bits, size, backing);
    if made.is_err() {
        let _ = std::fs::remove_file(path);
    }
    made?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(os("write its folder"))
}

/// The largest disk of an image with clusters of `cluster` bytes: limited by the longest L1 table
/// that QEMU opens.
pub(crate) fn largest(cluster: u64) -> u64 {
    MAX_L1 / 8 * (cluster / 8) * cluster
}

type Backing = Option<(String, String)>;

/// Returns the disk's size, and the file below as the header has it.
fn below(path: &Path, options: &CreateOptions) -> Result<(u64, Backing), ImageError> {
    let missing = || ImageError::Value("a new image needs a size, such as 10GiB".into());
    let Some((name, format)) = &options.backing else {
        return Ok((options.size.ok_or_else(missing)?, None));
    };
    let at = path.parent().unwrap_or(Path::new("")).join(name);
    let os = |source| ImageError::Os { path: at.clone(), action: "read it", source };
    let file = File::open(&at)
        .map_err(|_| ImageError::MissingBacking { path: path.into(), backing: at.clone() })?;
    let source = Source::new(&file).map_err(os)?;
    let format = match format {
        Some(format) => *format,
        None if crate::header::is_qcow2(&source).map_err(os)? => Format::Qcow2,
        None => Format::Raw,
    };
    let (found, word) = match format {
        Format::Raw => (source.length.next_multiple_of(512), "raw"),
        Format::Qcow2 => {
            let found = chain::find(&at)?;
            if found.links.len() > chain::MAX_DEPTH {
                let limit = chain::MAX_DEPTH;
                return Err(ImageError::TooDeep { path: path.into(), limit });
            }
            (found.header.size, "qcow2")
        }
    };
    Ok((options.size.unwrap_or(found), Some((name.clone(), word.into()))))
}

fn write(
    path: &Path,
    options: &CreateOptions,
    bits: u32,
    size: u64,
    backing: Backing,
) -> Result<(), ImageError> {
    let format = |source| ImageError::Format { path: path.into(), source };
    let file = HostFile { path: path.into(), room: 1 << 50, access: Access::Write };
    let open = OpenOptions {
        execution: Execution::Synchronous,
        delay: Duration::ZERO,
        base: Path::new(""),
    };
    let medium = HostFiles::open(&[file], &open)?;
    let mut lower =
        Drive::new(0, "image".into(), Box::new(ZeroLatency::default()), Box::new(medium));
    let order = options.refcount_bits.ilog2();
    let shared = Shared::new(1 << 50, 0, Tables::new(bits, order, false));
    let mut tasks = Tasks::default();
    let (handle, options) = (Handle::new(&shared, Role::Tables), options.clone());
    let files = Arc::clone(&shared);
    let made = instantly(&mut tasks, &shared, &mut lower, async move {
        let mut builder = Qcow2::<Handle>::create_builder(handle)
            .size(size)
            .cluster_size(options.cluster_size as usize)
            .refcount_width(options.refcount_bits as usize);
        if let Some((name, format)) = backing {
            builder = builder.backing(name, format);
        }
        let image = builder
            .create_open(DenyImplicitOpenGate::default(), |file| {
                Ok(Qcow2::<Handle>::builder(file).backing(None).write(true))
            })
            .await?;
        FormatAccess::new(image).flush().await?;
        let plan = {
            let mut state = files.lock();
            if options.lazy_refcounts {
                let mut header = [0; layout::LENGTH[1] as usize];
                state.tables.read(0, &mut header);
                if !layout::COMPATIBLE.set_bits(&mut header, LAZY_REFCOUNTS, true) {
                    return Err(std::io::ErrorKind::Unsupported.into());
                }
                state.tables.write(0, &header);
            }
            state.tables.plan(true)
        };
        for write in plan.groups.into_iter().flat_map(|group| group.writes) {
            let command = Command::new(Operation::Write, write.offset, write.data.len() as u64);
            files.io(command, write.data).await?;
        }
        files.io(Command::flush(), Vec::new()).await.map(drop)
    });
    made.unwrap_or_else(|| Err(std::io::Error::other("it waits for something"))).map_err(|source| {
        match lower.take_error() {
            Some(error) => format(std::io::Error::other(error)),
            None => format(source),
        }
    })
}
