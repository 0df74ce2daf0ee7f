//! This machine's apt sources, so that a guest comes from the mirror that its
//! owner has chosen.

use std::fs;
use std::path::Path;

/// The Debian sources of `suite` that this machine uses, as lines of
/// sources.list(5). None if it has none: mmdebstrap then takes Debian's own.
pub(super) fn of_this_machine(suite: &str) -> Vec<String> {
    let mut files = vec![Path::new("/etc/apt/sources.list").to_path_buf()];
    let folder = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten();
    files.extend(folder.filter_map(Result::ok).map(|entry| entry.path()));
    files.sort_unstable();
    let mut lines = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => lines.extend(one_line_format(&text, suite)),
            Some("sources") => lines.extend(deb822_format(&text, suite)),
            _ => {}
        }
    }
    // Updates alone are no distribution.
    if lines.iter().any(|line| line.split(' ').any(|word| word == suite)) {
        lines
    } else {
        Vec::new()
    }
}

/// Whether `name` is the suite or its updates.
fn belongs(name: &str, suite: &str) -> bool {
    let rest = name.trim_end_matches('/').strip_prefix(suite);
    matches!(rest, Some("" | "-updates" | "-security"))
}

fn one_line_format(text: &str, suite: &str) -> Vec<String> {
    let fits = |line: &&str| {
        let Some(rest) = line.strip_prefix("deb ") else { return false };
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace().skip(1);
        words.next().is_some_and(|name| belongs(name, suite)) && words.any(|word| word == "main")
    };
    text.lines().map(str::trim).filter(fits).map(String::from).collect()
}

fn deb822_format(text: &str, suite: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for stanza in text.split("\n\n") {
        let words = |key: &str| -> Vec<&str> {
            let line = stanza.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.trim().eq_ignore_ascii_case(key).then_some(value)
            });
            line.map(|value| value.split_whitespace().collect()).unwrap_or_default()
        };
        let is_off = words("Enabled").iter().any(|word| word.eq_ignore_ascii_case("no"));
        if is_off || !words("Types").contains(&"deb") || !words("Components").contains(&"main") {
            continue;
        }
        // A key can also stand in the stanza itself; then apt's own keys must do.
        let key = words("Signed-By").first().filter(|key| key.starts_with('/')).copied();
        let options = key.map(|key| format!("[signed-by={key}] ")).unwrap_or_default();
        for uri in words("URIs") {
            for name in words("Suites").into_iter().filter(|name| belongs(name, suite)) {
                lines.push(format!("deb {options}{uri} {name} main"));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_lines_are_kept_and_others_are_not() {
        let text = "# deb http://a/debian bookworm main\n\
            deb http://mirror/debian bookworm main contrib\n\
            deb-src http://mirror/debian bookworm main\n\
            deb [arch=amd64 signed-by=/k] http://mirror/security bookworm-security/ main\n\
            deb http://docker bookworm stable\n\
            deb http://mirror/debian bookworm-backports main\n\
            deb [broken http://x bookworm main\n\
            deb http://mirror/debian trixie main\n";
        let expected = [
            "deb http://mirror/debian bookworm main contrib",
            "deb [arch=amd64 signed-by=/k] http://mirror/security bookworm-security/ main",
        ];
        assert_eq!(one_line_format(text, "bookworm"), expected);
    }

    #[test]
    fn stanzas_become_lines() {
        let text = "Types: deb deb-src\n# comment\nURIs: http://m/debian http://n/debian\n\
            Suites: trixie trixie-updates sid\nComponents: main non-free\n\
            Signed-By: /usr/share/keyrings/k.gpg\n\n\
            Types: deb\nURIs: http://off\nSuites: trixie\nComponents: main\nEnabled: no\n\n\
            Types: deb\nURIs: http://s\nSuites: trixie-security\nComponents: main\n\
            Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n";
        let expected = [
            "deb [signed-by=/usr/share/keyrings/k.gpg] http://m/debian trixie main",
            "deb [signed-by=/usr/share/keyrings/k.gpg] http://m/debian trixie-updates main",
            "deb [signed-by=/usr/share/keyrings/k.gpg] http://n/debian trixie main",
            "deb [signed-by=/usr/share/keyrings/k.gpg] http://n/debian trixie-updates main",
            "deb http://s trixie-security main",
        ];
        assert_eq!(deb822_format(text, "trixie"), expected);
    }

    #[test]
    fn a_suite_that_this_machine_has_not_is_left_to_mmdebstrap() {
        assert!(of_this_machine("no-such-suite").is_empty());
    }
}
