//! Applications that are started, by name or in the user's own words.

use super::guest::Application;

/// Debian's package of the graphical server.
const SERVER: &str = "xvfb";

/// An application of the publication: its name, a command that ends once it has
/// started, and its Debian packages.
struct Known {
    name: &'static str,
    command: &'static [&'static str],
    packages: &'static [&'static str],
}

/// Applications of the publication (section 8.2), in increasing size. A terminal emulator runs
/// `true` once it has its window: the command ends with that.
const KNOWN: [Known; 3] = [
    Known { name: "bash", command: &["bash", "-c", "exit"], packages: &["bash"] },
    Known {
        name: "xterm",
        command: &["xterm", "-e", "/bin/true"],
        packages: &["xterm", SERVER, "xfonts-base"],
    },
    Known {
        name: "konsole",
        command: &["konsole", "-e", "/bin/true"],
        packages: &["konsole", SERVER],
    },
];

/// Applications, and the packages that they need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applications {
    pub list: Vec<Application>,
    /// Debian packages, sorted.
    pub packages: Vec<String>,
}

impl Applications {
    /// The applications with these names, and the user's command, which is named after its program.
    ///
    /// # Errors
    /// Returns the unknown name and the known ones.
    pub fn new(names: &[String], own: &[String], packages: &[String]) -> Result<Self, String> {
        let mut all = Self { list: Vec::new(), packages: packages.to_vec() };
        for name in names {
            let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
                let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
                let names = names.join(", ");
                return Err(format!(
                    "there is no application `{name}`: {names}, or a command of your own after --"
                ));
            };
            all.packages.extend(known.packages.iter().map(|package| (*package).to_owned()));
            let command = known.command.iter().map(|word| (*word).to_owned()).collect();
            all.list.push(Application { name: name.clone(), command });
        }
        if let Some(program) = own.first() {
            let name: String = program.rsplit('/').next().unwrap_or(program).to_owned();
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            if all.list.iter().any(|application| application.name == name) {
                return Err(format!("{name} is started already: --application none"));
            }
            all.list.push(Application { name, command: own.to_vec() });
        }
        all.packages.sort_unstable();
        all.packages.dedup();
        Ok(all)
    }

    /// Returns whether there is a graphical server among the packages.
    pub fn has_server(&self) -> bool {
        self.packages.iter().any(|package| package == SERVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn packages_are_those_of_all() {
        let own = words(&["/usr/bin/vim.tiny", "-c", "q"]);
        let all = Applications::new(&words(&["xterm", "konsole"]), &own, &words(&["vim-tiny"]));
        let all = all.unwrap();
        assert_eq!(all.packages, ["konsole", "vim-tiny", "xfonts-base", "xterm", "xvfb"]);
        let names: Vec<_> = all.list.iter().map(|application| &*application.name).collect();
        assert_eq!(names, ["xterm", "konsole", "vim-tiny"]);
        assert!(all.has_server());
        assert!(!Applications::new(&words(&["bash"]), &[], &[]).unwrap().has_server());
        let error = Applications::new(&words(&["emacs"]), &[], &[]).unwrap_err();
        assert!(error.contains("bash, xterm, konsole"), "{error}");
        assert!(Applications::new(&words(&["bash"]), &words(&["bash"]), &[]).is_err());
    }
}
