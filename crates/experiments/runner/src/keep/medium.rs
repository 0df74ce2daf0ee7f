//! Relations of a drive's state to its medium: the place of the state file, and a check that the
//! medium's contents belong to the state.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use stasis_guest_image::sha256;
use stasis_media::MediumSpec;
use stasis_nvme::{Config, Namespace};

/// Extension of a state file's name, after the medium's name.
pub(super) const EXTENSION: &str = "state";

/// Number of blocks in a sample, evenly spread, and the size of each (bytes): any other image
/// differs somewhere in them, and a sample is read in some milliseconds.
const SAMPLES: u64 = 256;
const BLOCK: u64 = 4096;

/// The state file of a medium at `path`; `None` where there is no place for one.
pub fn state_file(medium: &MediumSpec, path: &Path) -> Option<PathBuf> {
    match medium {
        MediumSpec::Device { .. } => of_device(path),
        _ => Some(beside(path)),
    }
}

/// The state file beside an image.
pub fn beside(image: &Path) -> PathBuf {
    // The image itself, whatever links lead to it.
    let image = std::fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let mut name = image.into_os_string();
    name.push(".");
    name.push(EXTENSION);
    name.into()
}

/// The folder of block devices' state files, in the user's folder for states; `None` where there
/// is none.
pub fn of_devices() -> Option<PathBuf> {
    let of_user = |variable: &str| {
        let folder = PathBuf::from(std::env::var_os(variable)?);
        folder.is_absolute().then_some(folder)
    };
    let states =
        of_user("XDG_STATE_HOME").or_else(|| Some(of_user("HOME")?.join(".local/state")))?;
    Some(states.join("stasis/drives"))
}

fn of_device(device: &Path) -> Option<PathBuf> {
    let device = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let name = device.to_string_lossy().trim_start_matches('/').replace('/', "-");
    Some(of_devices()?.join(format!("{name}.{EXTENSION}")))
}

fn open(medium: &Path) -> Result<(File, u64)> {
    let unreadable = || format!("cannot read {}", medium.display());
    let mut file = File::open(medium).with_context(unreadable)?;
    let length = file.seek(SeekFrom::End(0)).with_context(unreadable)?;
    file.rewind().with_context(unreadable)?;
    Ok((file, length))
}

/// The medium's size, and a digest of blocks from all over it.
pub fn sample(medium: &Path) -> Result<String> {
    let (file, length) = open(medium)?;
    let mut digest = Sha256::new();
    digest.update(length.to_le_bytes());
    let blocks = length.div_ceil(BLOCK);
    let mut block = [0; BLOCK as usize];
    for number in 0..SAMPLES.min(blocks) {
        let at = (u128::from(number) * u128::from(blocks) / u128::from(SAMPLES.min(blocks))) as u64;
        let read = read_at(&file, &mut block, at * BLOCK)
            .with_context(|| format!("cannot read {}", medium.display()))?;
        digest.update(&block[..read]);
    }
    let digest = sha256::hex(&digest.finalize());
    Ok(format!("sha256 of {length} bytes, sampled: {digest}"))
}

/// Returns whether any zone or chunk of a drive that is made so begins with something else than
/// zeroes.
pub fn holds_data(medium: &Path, config: &Config) -> Result<bool> {
    let (file, length) = open(medium)?;
    let mut block = [0; BLOCK as usize];
    for namespace in &config.namespaces {
        let Some(step) = step(namespace) else { continue };
        let end = (namespace.start + namespace.bytes()).min(length);
        let mut at = namespace.start;
        while at < end {
            let read = read_at(&file, &mut block, at)
                .with_context(|| format!("cannot read {}", medium.display()))?;
            if block[..read].iter().any(|&byte| byte != 0) {
                return Ok(true);
            }
            at += step;
        }
    }
    Ok(false)
}

/// Distance from the start of a zone or a chunk to the start of the next (bytes).
fn step(namespace: &Namespace) -> Option<u64> {
    if let Some(zones) = &namespace.zoned {
        return Some(zones.size);
    }
    let ocssd = namespace.ocssd.as_ref()?;
    Some(u64::from(ocssd.sectors) * u64::from(namespace.block_size))
}

/// Fills `into` as far as the file goes.
fn read_at(file: &File, into: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}
