//! New images.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use stasis_layout::IntoBytes;
use stasis_qcow2_format::entries::Shape;

use crate::chain::{self, Format};
use crate::header::{Source, BACKING_FORMAT, LAZY_REFCOUNTS, MAGIC, MAX_L1};
use crate::{layout, refcounts, ImageError};

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
    let most = largest(Shape { cluster_bits: bits, extended: false });
    if size == 0 || size % 512 != 0 || size > most {
        return value(format!(
            "a size of {}: an image with these clusters has a multiple of 512 bytes, not 0, and \
             at most {}",
            stasis_block::units::format_size(size),
            stasis_block::units::format_size(most)
        ));
    }
    let os = |action| move |source| ImageError::Os { path: path.into(), action, source };
    let new = New { bits, order: options.refcount_bits.ilog2(), size };
    let header = new.header(options.lazy_refcounts, backing.as_ref());
    if header.len() as u64 > options.cluster_size {
        return value(
            "the name of the backing file is too long for a header in one cluster".into(),
        );
    }
    let file = File::options().write(true).create_new(true).open(path).map_err(os("make it"))?;
    let made = new.write(&file, &header).map_err(os("write it"));
    if made.is_err() {
        let _ = std::fs::remove_file(path);
    }
    made?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(os("write its folder"))
}

/// The largest disk of an image with L2 tables of this shape: limited by the longest L1 table that
/// QEMU opens.
pub(crate) fn largest(shape: Shape) -> u64 {
    MAX_L1 / 8 * shape.covered()
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

/// A new image: its header, refcount table, refcount blocks and L1 table, one behind the other.
struct New {
    bits: u32,
    order: u32,
    size: u64,
}

impl New {
    fn cluster(&self) -> u64 {
        1 << self.bits
    }

    /// Clusters of the L1 table.
    fn l1(&self) -> u64 {
        self.size.div_ceil(self.cluster() * (self.cluster() / 8)).div_ceil(self.cluster() / 8)
    }

    fn in_block(&self) -> u64 {
        (self.cluster() * 8) >> self.order
    }

    /// Clusters of the refcount table, and the number of its blocks.
    fn counts(&self) -> (u64, u64) {
        let (mut table, mut blocks) = (1, 1);
        loop {
            let wanted = (1 + table + blocks + self.l1()).div_ceil(self.in_block());
            let long = (8 * wanted).div_ceil(self.cluster());
            if (long, wanted) == (table, blocks) {
                return (table, blocks);
            }
            (table, blocks) = (long, wanted);
        }
    }

    fn header(&self, lazy: bool, backing: Option<&(String, String)>) -> Vec<u8> {
        let (table, blocks) = self.counts();
        let mut header = layout::Header {
            magic: MAGIC.into(),
            version: 3.into(),
            cluster_bits: self.bits.into(),
            size: self.size.into(),
            l1_entries: ((self.l1() * (self.cluster() / 8)) as u32).into(),
            l1_offset: ((1 + table + blocks) << self.bits).into(),
            reftable_offset: self.cluster().into(),
            reftable_clusters: (table as u32).into(),
            ..Default::default()
        };
        let version3 = layout::Version3 {
            compatible: if lazy { LAZY_REFCOUNTS } else { 0 }.into(),
            refcount_order: self.order.into(),
            header_length: (layout::LENGTH[1] as u32).into(),
            ..Default::default()
        };
        let mut behind = Vec::new();
        if let Some((_, format)) = backing {
            let (kind, length) = (BACKING_FORMAT.into(), (format.len() as u32).into());
            behind.extend_from_slice(layout::Extension { kind, length }.as_bytes());
            behind.extend(format.as_bytes());
            behind.resize(behind.len().next_multiple_of(8), 0);
        }
        behind.extend_from_slice(layout::Extension::default().as_bytes());
        if let Some((backing, _)) = backing {
            header.backing_offset = ((layout::LENGTH[1] + behind.len()) as u64).into();
            header.backing_length = (backing.len() as u32).into();
            behind.extend(backing.as_bytes());
        }
        [header.as_bytes(), version3.as_bytes(), &behind].concat()
    }

    /// Writes it, the header last: before that, the file is no image.
    fn write(&self, file: &File, header: &[u8]) -> io::Result<()> {
        let (table, blocks) = self.counts();
        let used = 1 + table + blocks + self.l1();
        file.set_len(used << self.bits)?;
        for block in 0..blocks {
            let at = (1 + table + block) << self.bits;
            file.write_all_at(&at.to_be_bytes(), self.cluster() + 8 * block)?;
            let mut bytes = vec![0; self.cluster() as usize];
            let first = block * self.in_block();
            for entry in 0..self.in_block().min(used - first) {
                refcounts::set(&mut bytes, self.order, entry, 1);
            }
            file.write_all_at(&bytes, at)?;
        }
        file.sync_data()?;
        file.write_all_at(header, 0)?;
        file.sync_all()
    }
}
