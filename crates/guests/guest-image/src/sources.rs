//! This machine's apt sources, so that a guest comes from the mirror that its
//! owner has chosen.

use std::fs;
use std::path::Path;

use crate::{BuildError, Recipe};

/// Returns the sources of a guest of `suite`, with its kernel from `release`, as lines of
/// sources.list(5): those that this machine uses for them. None where it has none for `suite`
/// alone: mmdebstrap then takes Debian's own.
pub(crate) fn of_guest(suite: &str, release: Option<&str>) -> Result<Vec<String>, BuildError> {
    let texts = texts();
    let mut lines = of_suite(&texts, suite);
    let Some(release) = release.filter(|release| *release != suite) else { return Ok(lines) };
    let more = of_suite(&texts, release);
    if !lines.is_empty() && !more.is_empty() {
        lines.extend(more);
        return Ok(lines);
    }
    // The archive of one release has the others as well.
    let own = Recipe::default().suite;
    let line = archive(&any(&texts, &|name| belongs(name, &own)), &own)
        .ok_or_else(|| BuildError::NoArchive { release: release.into() })?;
    let with = |other: &str| line.replacen(&format!(" {own} "), &format!(" {other} "), 1);
    if lines.is_empty() {
        lines.push(with(suite));
    }
    lines.push(with(release));
    Ok(lines)
}

/// The line of `suite` in the archive that has its updates too, as Debian's has;
/// others can have a suite of the same name.
fn archive(lines: &[String], suite: &str) -> Option<String> {
    let of_suite = || lines.iter().filter(|line| suite_of(line) == Some(suite));
    let updates = |line: &&String| {
        let wanted = line.replacen(&format!(" {suite} "), &format!(" {suite}-updates "), 1);
        lines.contains(&wanted)
    };
    of_suite().find(updates).or_else(|| of_suite().next()).cloned()
}

/// The files of this machine's sources with their formats.
fn texts() -> Vec<(bool, String)> {
    let mut files = vec![Path::new("/etc/apt/sources.list").to_path_buf()];
    let folder = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten();
    files.extend(folder.filter_map(Result::ok).map(|entry| entry.path()));
    files.sort_unstable();
    let mut texts = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => texts.push((false, text)),
            Some("sources") => texts.push((true, text)),
            _ => {}
        }
    }
    texts
}

/// The lines whose suite `fits`.
fn any(texts: &[(bool, String)], fits: &dyn Fn(&str) -> bool) -> Vec<String> {
    let lines = |(deb822, text): &(bool, String)| match deb822 {
        true => deb822_format(text, fits),
        false => one_line_format(text, fits),
    };
    texts.iter().flat_map(lines).collect()
}

/// The lines of `suite` and its updates.
fn of_suite(texts: &[(bool, String)], suite: &str) -> Vec<String> {
    let lines = any(texts, &|name| belongs(name, suite));
    // Updates alone are no distribution.
    if lines.iter().any(|line| suite_of(line) == Some(suite)) {
        lines
    } else {
        Vec::new()
    }
}

/// The third word of a line, options left out.
fn suite_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("deb ")?.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(options) => options.split_once(']')?.1,
        None => rest,
    };
    rest.split_whitespace().nth(1)
}

/// Returns whether `name` is the suite or its updates.
fn belongs(name: &str, suite: &str) -> bool {
    let rest = name.trim_end_matches('/').strip_prefix(suite);
    matches!(rest, Some("" | "-updates" | "-security"))
}

fn one_line_format(text: &str, fits: &dyn Fn(&str) -> bool) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| {
        suite_of(line).is_some_and(fits) && line.split_whitespace().any(|word| word == "main")
    });
    lines.map(String::from).collect()
}

fn deb822_format(text: &str, fits: &dyn Fn(&str) -> bool) -> Vec<String> {
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
            for name in words("Suites").into_iter().filter(|name| fits(name)) {
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
        assert_eq!(one_line_format(text, &|name| belongs(name, "bookworm")), expected);
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
        assert_eq!(deb822_format(text, &|name| belongs(name, "trixie")), expected);
    }

    #[test]
    fn a_suite_that_this_machine_has_not_is_left_to_mmdebstrap() {
        assert!(of_guest("no-such-suite", None).unwrap().is_empty());
        assert!(
            of_suite(&[(false, "deb http://m/d trixie-updates main".into())], "trixie").is_empty()
        );
    }

    #[test]
    fn the_archive_is_the_one_with_updates() {
        let lines = [
            "deb http://other bookworm main",
            "deb [signed-by=/k] http://m/debian bookworm main",
            "deb [signed-by=/k] http://m/debian bookworm-updates main",
        ];
        let lines = lines.map(String::from);
        assert_eq!(archive(&lines, "bookworm").as_deref(), Some(lines[1].as_str()));
        assert_eq!(archive(&lines[..1], "bookworm").as_deref(), Some(lines[0].as_str()));
        assert_eq!(archive(&lines, "trixie"), None);
    }
}
