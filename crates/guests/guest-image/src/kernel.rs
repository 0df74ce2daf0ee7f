//! Takes the kernel and the modules of the initramfs out of the archive that
//! the hook has made.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use stasis_layout::{u16_at, u32_at};

use crate::modules::{self, Index};
use crate::BuildError;

/// The folder with the initramfs' modules and the lists of them.
pub(crate) const MODULES: &str = "modules";
const VMLINUX: &str = "vmlinux";

/// Writes `vmlinux` and the modules' folder to `into`; gives the kernel's
/// release.
pub(crate) fn unpack(archive: &Path, into: &Path) -> Result<String, BuildError> {
    let mut index_files = BTreeMap::new();
    let mut image = None;
    each_file(archive, |name, read| {
        if let Some(release) = name.strip_prefix("boot/vmlinuz-") {
            image = Some((release.to_string(), read()?));
        } else if let Some(name) = name.rsplit('/').next().filter(|n| n.starts_with("modules.")) {
            index_files.insert(name.to_string(), read()?);
        }
        Ok(())
    })?;
    let missing = || BuildError::Kernel("it has no /boot/vmlinuz".into());
    let (release, image) = image.ok_or_else(missing)?;
    let path = into.join(VMLINUX);
    let kernel = vmlinux(&image).map_err(BuildError::Kernel)?;
    fs::write(&path, kernel).map_err(BuildError::file("write", &path))?;

    let index = Index::of_files(|name| index_files.remove(name));
    let lists = modules::lists(&index)?;
    let folder = into.join(MODULES);
    fs::create_dir(&folder).map_err(BuildError::file("create the folder", &folder))?;
    for (name, paths) in &lists {
        let text: String = paths.iter().map(|p| format!("{}\n", modules::file_name(p))).collect();
        let path = folder.join(name);
        fs::write(&path, text).map_err(BuildError::file("write", &path))?;
    }
    let prefix = format!("modules/{release}/");
    each_file(archive, |name, read| {
        let Some(inside) = name.strip_prefix(&prefix) else { return Ok(()) };
        if lists.iter().any(|(_, paths)| paths.iter().any(|path| path == inside)) {
            let module = modules::plain(inside, read()?)?;
            let path = folder.join(modules::file_name(inside));
            fs::write(&path, module).map_err(BuildError::file("write", &path))?;
        }
        Ok(())
    })?;
    Ok(release)
}

type Reader<'a> = &'a mut dyn FnMut() -> Result<Vec<u8>, BuildError>;

fn each_file(
    archive: &Path,
    mut visit: impl FnMut(&str, Reader<'_>) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    let error = || BuildError::file("read", archive);
    let file = File::open(archive).map_err(error())?;
    let mut tar = tar::Archive::new(file);
    for entry in tar.entries().map_err(error())? {
        let mut entry = entry.map_err(error())?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut read = || {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(error())?;
            Ok(content)
        };
        visit(name.trim_start_matches("./"), &mut read)?;
    }
    Ok(())
}

/// Offsets of a bzImage, from the boot protocol (Documentation/x86/boot.rst, "The real-mode kernel
/// header"), version 2.08 or later.
mod header {
    pub const SETUP_SECTORS: usize = 0x1f1;
    pub const MAGIC: usize = 0x202;
    pub const VERSION: usize = 0x206;
    pub const KERNEL_VERSION: usize = 0x20e;
    pub const PAYLOAD_OFFSET: usize = 0x248;
    pub const PAYLOAD_LENGTH: usize = 0x24c;
    pub const END: usize = 0x250;
}

/// The release that the start of an image names, `uname -r`.
pub(crate) fn release(image: &[u8]) -> Result<String, String> {
    /// The longest release that `uname` returns (Linux, include/uapi/linux/utsname.h).
    const MAX_LENGTH: usize = 64;
    // In an ELF file it is in the kernel's first message (init/version.c).
    const BANNER: &[u8] = b"Linux version ";
    let text = if image.starts_with(b"\x7fELF") {
        executable_for_x86_64(image)?;
        let banners = image.windows(BANNER.len()).enumerate().filter(|(_, text)| *text == BANNER);
        let texts = banners.map(|(at, _)| &image[at + BANNER.len()..]);
        texts.into_iter().find(|text| text.first().is_some_and(u8::is_ascii_digit))
    } else {
        let header =
            image.get(..header::END).filter(|header| &header[header::MAGIC..][..4] == b"HdrS");
        let header = header.ok_or("it is no kernel: neither a bzImage nor an ELF file")?;
        let at = u16_at(header, header::KERNEL_VERSION);
        at.and_then(|at| image.get(usize::from(at) + 0x200..))
    };
    let text = text.ok_or("it does not say which release it is")?;
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+_~".contains(byte);
    let release: Vec<u8> = text.iter().take(MAX_LENGTH).copied().take_while(fits).collect();
    let starts = release.first().is_some_and(u8::is_ascii_digit);
    let named = String::from_utf8(release).ok().filter(|_| starts);
    named.ok_or_else(|| "it does not say which release it is".into())
}

fn executable_for_x86_64(image: &[u8]) -> Result<(), String> {
    // Class 2: 64 bits; data 1: little-endian; type 2: executable; machine 62: x86-64.
    let fits =
        image.starts_with(b"\x7fELF\x02\x01") && image.get(0x10..0x14) == Some(&[2, 0, 62, 0]);
    if fits {
        Ok(())
    } else {
        Err("it is an ELF file, but no executable for x86-64".into())
    }
}

/// The uncompressed kernel in a bzImage, or in a file that is one already, without its debugging
/// information.
fn vmlinux(image: &[u8]) -> Result<Vec<u8>, String> {
    use header::{MAGIC, PAYLOAD_LENGTH, PAYLOAD_OFFSET, SETUP_SECTORS, VERSION};
    if image.starts_with(b"\x7fELF") {
        executable_for_x86_64(image)?;
        return crate::executable::cut(image.to_vec()).map_err(String::from);
    }
    let header = image.get(..header::END).ok_or("its kernel is shorter than a header")?;
    let word = |at: usize| u32_at(header, at).map_or(0, |word| word as usize);
    if &header[MAGIC..MAGIC + 4] != b"HdrS"
        || header[VERSION + 1] < 2
        || word(VERSION) & 0xffff < 0x208
    {
        return Err("its kernel is no bzImage of boot protocol 2.08 or later".into());
    }
    // 0 stands for 4, for historical reasons (same document).
    let sectors = match header[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + word(PAYLOAD_OFFSET);
    let payload = image
        .get(start..)
        .and_then(|rest| rest.get(..word(PAYLOAD_LENGTH)))
        .ok_or("its kernel is cut short")?;
    let kernel = crate::decompress::kernel(payload)?;
    if !kernel.starts_with(b"\x7fELF\x02\x01") {
        return Err("its kernel is no 64-bit ELF file".into());
    }
    Ok(kernel)
}
