//! The user and groups of a command by a root's own lists of them, as container engines find them
//! (moby/sys, user/user.go, `GetExecUser`).

use std::fs;
use std::io;

/// Limit on the bytes of a list that are read.
const MAX_LIST: u64 = 16 << 20;
/// Largest number of a user or group (moby/sys, `maxID`).
const MAX_ID: u32 = i32::MAX as u32;
/// Limit on a user's further groups (Linux, include/uapi/linux/limits.h, NGROUPS_MAX).
const MAX_GROUPS: usize = 65_536;

/// A command's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) number: u32,
    pub(crate) group: u32,
    /// Groups beside that.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

impl User {
    /// Finds the user that `word` names in this root.
    ///
    /// # Errors
    /// Names the user or group that there is not.
    pub(crate) fn find(word: &str) -> Result<Self, String> {
        Self::of_lists(word, &list("/etc/passwd")?, &list("/etc/group")?)
    }

    /// The same by the texts of passwd(5) and group(5).
    fn of_lists(word: &str, passwd: &str, groups: &str) -> Result<Self, String> {
        let (name, group) = word.split_once(':').unwrap_or((word, ""));
        let number = name.parse::<u32>().ok();
        let mut user = Self { number: 0, group: 0, groups: Vec::new(), home: "/".into() };
        let is_meant = |fields: &Vec<&str>| match (name, number) {
            ("", _) => id(fields, 2) == Some(0),
            (_, Some(number)) => id(fields, 2) == Some(number),
            (name, None) => fields[0] == name,
        };
        let found = lines(passwd).find(is_meant);
        if let Some(fields) = &found {
            user.number = id(fields, 2).unwrap_or_default();
            user.group = id(fields, 3).unwrap_or_default();
            user.home = fields.get(5).filter(|home| !home.is_empty()).unwrap_or(&"/").to_string();
        } else if !name.is_empty() {
            let none = || format!("the user {name:?} is not in the guest's /etc/passwd");
            user.number = number.ok_or_else(none)?;
            check(user.number)?;
        }
        if !group.is_empty() {
            let wanted = group.parse::<u32>().ok();
            let mut all = lines(groups);
            let there = all.find(|fields| match wanted {
                Some(wanted) => id(fields, 2) == Some(wanted),
                None => fields[0] == group,
            });
            let none = || format!("the group {group:?} is not in the guest's /etc/group");
            let found = there.and_then(|fields| id(&fields, 2));
            user.group = found.or(wanted).ok_or_else(none)?;
            check(user.group)?;
        } else if let Some(fields) = found {
            let has = |members: &&str| members.split(',').any(|member| member == fields[0]);
            let own = lines(groups).filter(|line| line.get(3).is_some_and(has));
            user.groups = own.filter_map(|line| id(&line, 2)).take(MAX_GROUPS).collect();
        }
        Ok(user)
    }

    /// Makes this process the user's, between fork and exec: system calls only.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for output in [1, 2] {
            give(output, self.number, self.group);
        }
        // SAFETY: system calls that read the list, which lives as long as the call.
        let done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setgid(self.group) == 0
                && libc::setuid(self.number) == 0
        };
        if done {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Gives a pipe or a terminal to a user, so that a program can open it by its name in `/dev`, as runc does
/// (libcontainer/init_linux.go, `fixStdioPermissions`).
fn give(output: libc::c_int, user: u32, group: u32) {
    /// Major number of pseudo terminals (Linux, Documentation/admin-guide/devices.txt).
    const TERMINALS: u32 = 136;
    // SAFETY: all bytes of the structure may be 0, and fstat fills it.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is this function's own.
    if unsafe { libc::fstat(output, &mut status) } != 0 {
        return;
    }
    let is_terminal = status.st_mode & libc::S_IFMT == libc::S_IFCHR
        && u64::from(libc::major(status.st_rdev)) == u64::from(TERMINALS);
    if status.st_mode & libc::S_IFMT == libc::S_IFIFO || is_terminal {
        // SAFETY: a system call on a descriptor. Without it the program writes all the same.
        unsafe { libc::fchown(output, user, group) };
    }
}

fn check(number: u32) -> Result<(), String> {
    match number <= MAX_ID {
        true => Ok(()),
        false => Err(format!("{number} is no number of a user or group: at most {MAX_ID}")),
    }
}

/// The lines of a list, by their fields; lines without any are left out.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let whole =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    whole.map(|line| line.split(':').collect())
}

/// The number in a field.
fn id(fields: &[&str], place: usize) -> Option<u32> {
    fields.get(place)?.parse().ok()
}

/// The text of a list; empty where there is none.
fn list(path: &str) -> Result<String, String> {
    let error = |error: io::Error| format!("cannot read the guest's {path}: {error}");
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(e) => return Err(error(e)),
        Ok(meta) if !meta.is_file() => return Err(format!("the guest's {path} is no file")),
        Ok(meta) if meta.len() > MAX_LIST => {
            return Err(format!("the guest's {path} has more than {MAX_LIST} bytes"));
        }
        Ok(_) => {}
    }
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\n# none\n\npostgres:x:999:998::/var/lib/pg:/bin/sh\n\
                          twice:x:7:7::/one:\ntwice:x:8:8::/two:\nbroken\nhalf:x:x:x\n";
    const GROUP: &str = "root:x:0:\npostgres:x:998:\nssl:x:101:postgres,other\ndisk:x:6:root\n";

    fn find(word: &str) -> Result<User, String> {
        User::of_lists(word, PASSWD, GROUP)
    }

    #[test]
    fn users_are_found_as_engines_find_them() {
        for (word, number, group, groups, home) in [
            ("", 0, 0, &[6][..], "/root"),
            ("root", 0, 0, &[6], "/root"),
            ("0", 0, 0, &[6], "/root"),
            ("postgres", 999, 998, &[101], "/var/lib/pg"),
            ("999", 999, 998, &[101], "/var/lib/pg"),
            // A named group is the only one.
            ("postgres:ssl", 999, 101, &[], "/var/lib/pg"),
            ("postgres:5", 999, 5, &[], "/var/lib/pg"),
            (":ssl", 0, 101, &[], "/root"),
            // A number needs no line.
            ("1234", 1234, 0, &[], "/"),
            ("1234:1235", 1234, 1235, &[], "/"),
            ("twice", 7, 7, &[], "/one"),
        ] {
            let expected = User { number, group, groups: groups.to_vec(), home: home.into() };
            assert_eq!(find(word), Ok(expected), "{word}");
        }
        let none = User::of_lists("", "", "").unwrap();
        assert_eq!((none.number, none.home.as_str()), (0, "/"));
    }

    #[test]
    fn a_user_that_is_not_there_is_named() {
        for (word, expected) in [
            ("nobody", "the user \"nobody\" is not in the guest's /etc/passwd"),
            ("postgres:none", "the group \"none\" is not in the guest's /etc/group"),
            ("4294967295", "4294967295 is no number"),
            ("1:2147483648", "2147483648 is no number"),
            ("99999999999", "the user \"99999999999\""),
            ("-1", "the user \"-1\""),
        ] {
            let error = find(word).unwrap_err();
            assert!(error.contains(expected), "{word}: {error}");
        }
    }
}
