//! Scripts that run a file system's tools in a guest, and the parts of their output.

/// Runs a shell's script in a guest on a fresh copy of the disk; returns its output.
pub type Ask<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// The folder of the guest at which scripts mount.
pub const MOUNTED: &str = "/run/stasis-names";

/// The line that a script prints where the guest lacks a tool.
const MISSING: &str = "stasis-missing";

/// The start of a script that uses `tool`.
pub fn needs(tool: &str) -> String {
    format!("command -v {tool} >/dev/null || {{ echo {MISSING} {tool}; exit 0; }}\n")
}

/// The output of a script that began with [`needs`]. `package`: Debian's package with the tool.
pub fn answer(output: String, package: &str) -> Result<String, String> {
    match output.lines().find_map(|line| line.strip_prefix(MISSING)) {
        Some(tool) => Err(format!(
            "the guest has no{tool}: add the package `{package}` to `packages` in [guest]"
        )),
        None => Ok(output),
    }
}

/// The lines of `output` after the line `== section`, up to the next such.
pub fn section<'a>(output: &'a str, section: &'a str) -> impl Iterator<Item = &'a str> {
    let mut lines = output.lines();
    let head = move |line: &&str| line.strip_prefix("== ") == Some(section);
    lines.by_ref().find(head);
    lines.take_while(|line| !line.starts_with("== "))
}

/// Numbers in words for a shell.
pub fn words(numbers: impl IntoIterator<Item = u64>) -> String {
    let words: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    words.join(" ")
}
