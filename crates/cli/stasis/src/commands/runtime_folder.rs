//! The folder of what runs: sockets, and the state of functions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use rustix::fs::{access, Access};

/// The folder below which this user's sockets and state are. `option` names another one.
///
/// # Errors
/// There is none that this user may write; the message gives advice.
pub fn runtime_folder(option: &str) -> Result<PathBuf> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return Ok("/run/stasis".into());
    }
    let writable = |path: &Path| path.is_dir() && access(path, Access::WRITE_OK).is_ok();
    choose(std::env::var_os("XDG_RUNTIME_DIR"), user.as_raw(), option, writable)
}

fn choose(
    variable: Option<OsString>,
    user: u32,
    option: &str,
    writable: impl Fn(&Path) -> bool,
) -> Result<PathBuf> {
    // The specification has relative paths ignored (XDG Base Directory Specification 0.8).
    if let Some(own) = variable.map(PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(own.join("stasis"));
    }
    let (own, shared) = (format!("/run/user/{user}"), Path::new("/run/stasis"));
    if writable(Path::new(&own)) {
        return Ok(Path::new(&own).join("stasis"));
    }
    if writable(shared) {
        return Ok(shared.into());
    }
    bail!(
        "XDG_RUNTIME_DIR is not set (as after su, or sudo -u), and this user may write neither \
         {own} nor /run/stasis: name a folder with {option} DIR"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_variable_it_is_a_folder_that_can_be_written_or_an_error_that_says_so() {
        let folder = |variable: Option<&str>, writable: &str| {
            choose(variable.map(Into::into), 7, "--sockets", |path| path == Path::new(writable))
                .map_err(|error| error.to_string())
        };
        assert_eq!(folder(Some("/x"), ""), Ok("/x/stasis".into()));
        assert_eq!(folder(None, "/run/user/7"), Ok("/run/user/7/stasis".into()));
        assert_eq!(folder(Some("x"), "/run/stasis"), Ok("/run/stasis".into()));
        let error = folder(None, "").unwrap_err();
        assert!(error.contains("XDG_RUNTIME_DIR") && error.contains("--sockets DIR"), "{error}");
    }
}
