//! The folder of what runs: sockets, and the state of functions.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use rustix::fs::{access, Access};

/// The folder below which this user's sockets and state are. `option` names another one.
///
/// # Errors
/// The only one left is below `/tmp`, and is another user's; the message gives advice.
pub fn runtime_folder(option: &str) -> Result<PathBuf> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return Ok("/run/stasis".into());
    }
    let writable = |path: &Path| path.is_dir() && access(path, Access::WRITE_OK).is_ok();
    match chosen(std::env::var_os("XDG_RUNTIME_DIR"), user.as_raw(), writable) {
        Some(folder) => Ok(folder),
        None => own_folder(Path::new("/tmp"), user.as_raw(), option),
    }
}

/// The folder of the user's session, or the one that an administrator has made.
fn chosen(
    variable: Option<OsString>,
    user: u32,
    writable: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    // The specification has relative paths ignored (XDG Base Directory Specification 0.8). After `su`
    // the variable may name another user's folder.
    let session = variable.map(PathBuf::from).filter(|path| path.is_absolute());
    let sessions = session.into_iter().chain([format!("/run/user/{user}").into()]);
    let mut folders = sessions.map(|folder| (folder.join("stasis"), folder));
    let shared = Path::new("/run/stasis");
    folders
        .find_map(|(own, folder)| writable(&folder).then_some(own))
        .or_else(|| writable(shared).then(|| shared.into()))
}

/// A folder of this user's alone below one that all users share, for a user without a session (`su`,
/// cron, a container).
fn own_folder(shared: &Path, user: u32, option: &str) -> Result<PathBuf> {
    let folder = shared.join(format!("stasis-{user}"));
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => Err(error).with_context(|| {
            format!(
                "XDG_RUNTIME_DIR names no folder of this user, and {} cannot be made: name a folder with {option} DIR",
                folder.display()
            )
        })?,
    }
    // Another user may have made it first, or a link.
    let found = std::fs::symlink_metadata(&folder)
        .with_context(|| format!("cannot look at {}", folder.display()))?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        bail!(
            "{} is not a folder that only this user can write and read: remove it, or name another one with \
             {option} DIR",
            folder.display()
        );
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{symlink, PermissionsExt};

    use super::*;

    #[test]
    fn it_is_the_session_s_folder_where_this_user_may_write_it() {
        let folder = |variable: Option<&str>, writable: &[&str]| {
            let writable = |path: &Path| writable.iter().any(|each| path == Path::new(each));
            let folder = chosen(variable.map(Into::into), 7, writable);
            folder.map(|folder| folder.display().to_string())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(folder(Some("/x"), &["/x", "/run/user/7"]), some("/x/stasis"));
        assert_eq!(folder(Some("/run/user/0"), &["/run/user/7"]), some("/run/user/7/stasis"));
        assert_eq!(folder(None, &["/run/user/7", "/run/stasis"]), some("/run/user/7/stasis"));
        assert_eq!(folder(Some("x"), &["x", "/run/stasis"]), some("/run/stasis"));
        assert_eq!(folder(None, &[]), None);
    }

    #[test]
    fn without_a_session_it_is_a_folder_of_this_user_s_alone() {
        let shared = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let own =
            || own_folder(shared.path(), user, "--sockets").map_err(|error| error.to_string());
        let folder = own().unwrap();
        assert_eq!(folder, shared.path().join(format!("stasis-{user}")));
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        // The next command finds what the first one has made.
        assert_eq!(own(), Ok(folder.clone()));
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own().unwrap_err().contains("--sockets DIR"));
        std::fs::remove_dir(&folder).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &folder).unwrap();
        assert!(own().unwrap_err().contains("not a folder that only this user"));
        // Another user's.
        let theirs = shared.path().join("stasis-4294967294");
        std::fs::create_dir(theirs).unwrap();
        assert!(own_folder(shared.path(), u32::MAX - 1, "--state")
            .unwrap_err()
            .to_string()
            .contains("--state"));
    }
}
