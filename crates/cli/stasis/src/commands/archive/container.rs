//! The file of an archive: a tar in zstd.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};
use stasis_guest_root::Pack;

use super::inputs::levels;
use super::whole::Whole;

/// The version of the form that [`Manifest`] describes.
pub const FORM: u32 = 1;
pub const MANIFEST: &str = "archive.json";
pub const FILES: &str = "files";
pub const RESULTS: &str = "results";
/// Description of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    pub form: u32,
    /// The program that made the results.
    pub stasis_version: String,
    /// Its words.
    pub words: Vec<String>,
    /// The folder that it was called in, below `files`.
    pub folder: PathBuf,
}

/// Writes the file `output`: the description, the files that were read, and the results.
pub fn write(
    output: &Path,
    manifest: &Manifest,
    inputs: &BTreeSet<PathBuf>,
    results: &Path,
    whole: &Whole,
) -> Result<()> {
    let file = File::create(output)?;
    let encoder = zstd::Encoder::new(file, 0)?;
    let mut pack = Pack::new(encoder);
    let json = serde_json::to_vec_pretty(manifest)?;
    pack.add_bytes(Path::new(MANIFEST), 0o644, &json)?;
    for path in inputs {
        // As many names of `folder` remain as the path does not leave.
        let up = levels(path);
        let kept = manifest.folder.ancestors().nth(up).unwrap_or(Path::new(""));
        let below: PathBuf = path.components().skip(up).collect();
        pack.add(path, &Path::new(FILES).join(kept).join(below))?;
    }
    let current = whole.current().map_err(std::io::Error::other)?;
    let archive = pack.archive();
    // The same results make the same archive, independent of owners and times.
    archive.mode(tar::HeaderMode::Deterministic);
    append(archive, Path::new(RESULTS), results, &|path| whole.keeps(path, &current))?;
    pack.whole()?.finish()?.flush()?;
    Ok(())
}

/// Appends a folder, in the order of its names, without what `keeps` leaves out.
fn append(
    archive: &mut tar::Builder<impl Write>,
    name: &Path,
    folder: &Path,
    keeps: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    archive.append_dir(name, folder)?;
    let mut entries: Vec<_> = folder.read_dir()?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        if !keeps(&path) {
            continue;
        }
        match path.is_dir() {
            true => append(archive, &name, &path, keeps)?,
            false => archive.append_path_with_name(&path, name)?,
        }
    }
    Ok(())
}

/// Unpacks files, folders, and links that stay within; nothing else.
pub fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let file = File::open(archive).context("cannot read it")?;
    let decoder = zstd::Decoder::new(file).context("it is not compressed by zstd")?;
    let mut archive = tar::Archive::new(decoder);
    archive.set_preserve_permissions(true);
    for entry in archive.entries().context("it is no tar")? {
        let mut entry = entry.context("it is damaged")?;
        let kind = entry.header().entry_type();
        let name = entry.path().context("a name in it")?.into_owned();
        let is_link = kind.is_symlink() || kind.is_hard_link();
        ensure!(
            kind.is_file() || kind.is_gnu_sparse() || kind.is_dir() || is_link,
            "{}: no file, folder or link, and only a guest may have anything else",
            name.display()
        );
        let whole = entry.unpack_in(into).with_context(|| name.display().to_string())?;
        ensure!(whole, "{} leads out of it", name.display());
    }
    // Bytes behind the end are read too, so that a cut archive is reported.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).context("it is damaged")?;
    Ok(())
}

/// A folder that stays within another.
pub fn inside(path: &Path) -> Result<&Path> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(plain, "its folder {} leads out of it", path.display());
    Ok(path)
}

/// For tests of archives that are not what they seem.
#[cfg(test)]
fn packed(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 0).unwrap());
    for (name, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        // Names are written as they are, which a builder would refuse.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_stays_within_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (file, into) = (folder.path().join("a.tar.zst"), folder.path().join("into"));
        std::fs::create_dir(&into).unwrap();
        std::fs::write(&file, packed(&[("../escaped", "x")])).unwrap();
        let error = unpack(&file, &into).unwrap_err();
        assert!(format!("{error:#}").contains("leads out"), "{error:#}");
        assert!(!folder.path().join("escaped").exists());
        let whole = packed(&[("a", "x"), ("b", "y")]);
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).unwrap();
            assert!(unpack(&file, &into).is_err(), "{length} of {} bytes", whole.len());
        }
        std::fs::write(&file, &whole).unwrap();
        unpack(&file, &into).unwrap();
        assert!(inside(Path::new("a/b")).is_ok() && inside(Path::new("a/../../b")).is_err());
        assert!(inside(Path::new("/etc")).is_err());
    }

    /// Files for a guest are repeated as they were: with links, permissions and holes.
    #[test]
    fn files_for_a_guest_are_unpacked_as_they_were_packed() {
        use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("in/empty")).unwrap();
        std::fs::write(at("in/tool"), "tool").unwrap();
        std::fs::set_permissions(at("in/tool"), PermissionsExt::from_mode(0o4750)).unwrap();
        std::fs::hard_link(at("in/tool"), at("in/same")).unwrap();
        symlink("tool", at("in/link")).unwrap();
        symlink("gone", at("in/dangling")).unwrap();
        std::fs::File::create(at("in/sparse")).unwrap().set_len(64 << 20).unwrap();
        let file = at("a.tar.zst");
        let encoder = zstd::Encoder::new(File::create(&file).unwrap(), 0).unwrap();
        let mut pack = Pack::new(encoder);
        pack.add(&at("in"), Path::new("files/in")).unwrap();
        pack.whole().unwrap().finish().unwrap();
        std::fs::create_dir(at("into")).unwrap();
        unpack(&file, &at("into")).unwrap();
        let out = |name: &str| at("into/files/in").join(name);
        let status = |name: &str| std::fs::symlink_metadata(out(name)).unwrap();
        assert_eq!(status("tool").mode() & 0o7777, 0o4750);
        assert_eq!(status("tool").ino(), status("same").ino());
        assert_eq!(std::fs::read_link(out("link")).unwrap(), Path::new("tool"));
        assert_eq!(std::fs::read_link(out("dangling")).unwrap(), Path::new("gone"));
        assert!(status("empty").is_dir());
        assert!(status("sparse").size() == 64 << 20 && status("sparse").blocks() < 1000);
    }
}
