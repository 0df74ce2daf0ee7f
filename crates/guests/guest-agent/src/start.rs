//! Start of a job's command: finds its program and puts its surroundings together.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use stasis_channel::Job;

use crate::user::User;

/// The environment of every command; the job can replace its members.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", DEFAULT_PATH), ("HOME", "/root"), ("TERM", "dumb"), ("LANG", "C.UTF-8")];

/// Debian's path for root (login.defs, ENV_SUPATH).
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The right to reboot(2) and kexec_load(2) (Linux, include/uapi/linux/capability.h).
const CAP_SYS_BOOT: libc::c_ulong = 22;

/// Finds the program and puts its surroundings together; on failure the
/// status a shell would give, and why.
pub(crate) fn assemble(job: &Job) -> Result<Command, (u8, String)> {
    let [name, arguments @ ..] = job.command.as_slice() else {
        return Err((127, "there is no command to run".into()));
    };
    let start = Path::new(&job.working_directory);
    let user = match &job.container {
        Some(container) => Some(User::find(&container.user).map_err(|text| (126, text))?),
        None => None,
    };
    if user.is_some() {
        // As engines do; what is in the way is told below.
        let _ = fs::create_dir_all(start);
    }
    if !start.is_dir() {
        let text = format!("the working directory {} does not exist in the guest", start.display());
        return Err((126, text));
    }
    let path = job.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let program = find(name, path, start)?;
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(user.as_ref().map_or(ENVIRONMENT.to_vec(), |user| {
            let hostname = ("HOSTNAME", job.hostname.as_str());
            vec![("PATH", DEFAULT_PATH), ("HOME", user.home.as_str()), hostname]
        }))
        .envs(&job.environment)
        .current_dir(start)
        .stdin(input(job)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: setsid, sigprocmask and prctl are system calls only (signal-safety(7))
    // and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            // A machine does not start again: a process that asks gets an error at once.
            if libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_BOOT) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The command would inherit that SIGCHLD is blocked, and a shell's `wait` never end.
            SigSet::empty().thread_set_mask()?;
            user.as_ref().map_or(Ok(()), User::enter)
        });
    }
    Ok(command)
}

/// The command's standard input.
fn input(job: &Job) -> Result<Stdio, (u8, String)> {
    let Some(path) = &job.stdin else { return Ok(Stdio::null()) };
    let file = fs::File::open(path).and_then(|file| fs::remove_file(path).map(|()| file));
    let file = file.map_err(|error| (126, format!("cannot read the standard input: {error}")))?;
    Ok(file.into())
}

/// Looks a program up as execvp(3) does.
fn find(name: &str, path: &str, start: &Path) -> Result<PathBuf, (u8, String)> {
    let mut found_unusable = None;
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![start.join(name)]
    } else {
        path.split(':').map(|folder| start.join(folder).join(name)).collect()
    };
    for candidate in candidates {
        match fs::metadata(&candidate) {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(_) => found_unusable = Some(candidate),
            Err(_) => {}
        }
    }
    Err(match found_unusable {
        Some(candidate) => {
            (126, format!("{}: not an executable file in the guest", candidate.display()))
        }
        None => (127, missing(name)),
    })
}

fn missing(name: &str) -> String {
    format!("{name}: command not found in the guest")
}

pub(crate) fn not_executable(name: &str, error: &io::Error) -> (u8, String) {
    match error.kind() {
        io::ErrorKind::NotFound => {
            (127, format!("{name}: cannot start: its interpreter is missing in the guest"))
        }
        _ => (126, format!("{name}: cannot start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lookup_tells_missing_from_unusable() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(&a).unwrap();
        fs::create_dir_all(&b).unwrap();
        let path = "a:b";
        let make = |path: &Path, mode| {
            fs::File::create(path).unwrap().write_all(b"#!/bin/true\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(find("tool", path, folder.path()).unwrap_err().0, 127);
        make(&a.join("tool"), 0o644);
        assert_eq!(find("tool", path, folder.path()).unwrap_err().0, 126);
        make(&b.join("tool"), 0o755);
        assert_eq!(find("tool", path, folder.path()).unwrap(), b.join("tool"));
        assert_eq!(find("./b/tool", "", folder.path()).unwrap(), folder.path().join("./b/tool"));
        assert_eq!(find("./b/x", "", folder.path()).unwrap_err().0, 127);
    }

    #[test]
    fn a_job_without_command_or_place_is_told_apart() {
        let mut job = Job::new(vec![]);
        job.working_directory = "/".into();
        assert_eq!(assemble(&job).unwrap_err().0, 127);
        job.command = vec!["true".into()];
        assert!(assemble(&job).is_ok());
        job.working_directory = "/nowhere at all".into();
        assert_eq!(assemble(&job).unwrap_err().0, 126);
    }
}
