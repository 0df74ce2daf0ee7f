//! Tar archives of files: [`Pack`] makes one for a guest, [`unpack`] puts its files there, and
//! [`Head`] is an entry as all readers see it.

mod pack;
mod unpack;

use std::io::{self, Read};

use tar::EntryType;

use crate::sparse::Keys;
use crate::tree::Meta;

pub use pack::Pack;
pub use unpack::unpack;

/// Key of a program's rights in PAX headers (star's, as GNU tar and Docker write it).
const CAPABILITY: &str = "SCHILY.xattr.security.capability";

/// An entry, without the bytes of its file.
pub(crate) struct Head {
    pub path: Vec<u8>,
    pub target: Vec<u8>,
    pub kind: EntryType,
    pub meta: Meta,
    pub device: (u32, u32),
    /// Keys about holes in PAX's forms.
    pub keys: Keys,
}

impl Head {
    /// Reads what is in front of an entry's bytes.
    ///
    /// # Errors
    /// The archive is damaged, or cannot be read.
    pub(crate) fn of<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<Self> {
        let (mut capability, mut keys) = (None, Keys::default());
        for extension in entry.pax_extensions()?.into_iter().flatten().flatten() {
            match extension.key() {
                Ok(CAPABILITY) => capability = Some(extension.value_bytes().to_vec()),
                Ok(key) => keys.take(key, extension.value_bytes()),
                Err(_) => {}
            }
        }
        let header = entry.header();
        let (kind, number) = (header.entry_type(), |value: io::Result<u64>| value.unwrap_or(0));
        let user = |value| u32::try_from(number(value)).unwrap_or(65_534);
        let meta = Meta {
            mode: (header.mode().unwrap_or(0o644) & 0o7777) as u16,
            uid: user(header.uid()),
            gid: user(header.gid()),
            mtime: number(header.mtime()),
            capability,
        };
        let part = |value: io::Result<Option<u32>>| value.ok().flatten().unwrap_or(0);
        let device = (part(header.device_major()), part(header.device_minor()));
        let path = keys.name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let target = entry.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default();
        // As tar(5) has it for archives older than the type.
        let is_folder = kind == EntryType::Regular && path.ends_with(b"/");
        let kind = if is_folder { EntryType::Directory } else { kind };
        Ok(Self { path, target, kind, meta, device, keys })
    }
}

/// Hands the bytes of the files in the archive `bytes` whose paths `wanted` chooses to `take`;
/// those of more than 1 MiB are no texts, and left out.
///
/// # Errors
/// The archive is damaged.
pub fn each_text(
    bytes: &[u8],
    wanted: &dyn Fn(&[u8]) -> bool,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    const MAX_SIZE: u64 = 1 << 20;
    for entry in tar::Archive::new(bytes).entries()? {
        let mut entry = entry?;
        let head = Head::of(&mut entry)?;
        if head.kind.is_file() && entry.size() <= MAX_SIZE && wanted(&head.path) {
            let mut text = Vec::new();
            entry.read_to_end(&mut text)?;
            take(&text);
        }
    }
    Ok(())
}
