//! Puts the initramfs together.

use std::fs;
use std::path::Path;

use crate::cpio::Archive;
use crate::BuildError;

/// The agent's file.
pub(crate) const AGENT: &str = "init";

/// Makes the archive: the agent as `/init`, the modules, and the places that
/// the agent mounts on.
pub(crate) fn make(agent: &[u8], modules: &Path) -> Result<Vec<u8>, BuildError> {
    let mut archive = Archive::default();
    for name in ["dev", "sys", "lower", "upper", "new", "modules", "beside"] {
        archive.folder(name);
    }
    // Without these a process started by a kernel that has no console has no
    // standard descriptors, and Rust's runtime gives up.
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    let error = BuildError::file("read", modules);
    let mut names: Vec<_> = fs::read_dir(modules)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(error)?;
    names.sort_unstable();
    for path in names {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let content = fs::read(&path).map_err(BuildError::file("read", &path))?;
        archive.file(&format!("modules/{name}"), 0o644, &content);
    }
    archive.file(AGENT, 0o755, agent);
    Ok(archive.finish())
}
