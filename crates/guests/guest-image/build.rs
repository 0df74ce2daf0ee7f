//! Gives the agent a name that follows from its sources: `STASIS_AGENT`.
//!
//! Two builds of the same sources differ in their bytes, by the compiler's version or the folder. A
//! guest keeps the agent that it was made with as long as the sources are the same, so that its
//! programs do not depend on the build of the host.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn main() {
    // The agent, the code that makes the initramfs, and the channel between agent and host.
    let mut files = Vec::new();
    for folder in ["src", "../guest-agent/src", "../channel/src"] {
        println!("cargo::rerun-if-changed={folder}");
        list(Path::new(folder), &mut files);
    }
    files.sort();
    let mut hash = Sha256::new();
    for path in files {
        let bytes = std::fs::read(&path).expect("a source file can be read");
        hash.update(path.to_string_lossy().as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=STASIS_AGENT={name}");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}
