//! Forms of values in Compose files: commands in one text, times, sizes, files of variables.

/// The words of a command in one text, by the quotes of a shell and nothing else of it (compose-spec, 05-services.md,
/// "command"; github.com/mattn/go-shellwords, which engines read it by).
///
/// # Errors
/// A quote without an end.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(signs.next()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match signs.next() {
                        None => return Err(format!("a quote has no end in {text:?}")),
                        Some(end) if end == sign => break,
                        Some('\\') if sign == '"' => word.extend(signs.next()),
                        Some(other) => word.push(other),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A time as Go writes it (`1m30s`) as one of an experiment, in nanoseconds.
///
/// # Errors
/// It is none.
pub(crate) fn time(text: &str) -> Result<String, String> {
    const UNITS: [(&str, f64); 6] =
        [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
    let wrong = || format!("{text:?} is no time, such as 1m30s");
    let (mut rest, mut sum) = (text.trim(), 0.0);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        let behind = &rest[end..];
        let length = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let unit = UNITS.iter().find(|(unit, _)| *unit == &behind[..length]).ok_or_else(wrong)?;
        sum += number * unit.1;
        rest = &behind[length..];
    }
    match sum <= 1e18 {
        true => Ok(format!("{}ns", sum as u64)),
        false => Err(wrong()),
    }
}

/// Variables of a file with a line `NAME=VALUE` each (compose-spec, 05-services.md, "env_file").
///
/// # Errors
/// The first line that is none.
pub(crate) fn variables(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("its line {} has no NAME=VALUE", number + 1);
        let (name, value) = line.split_once('=').ok_or_else(wrong)?;
        let value = value.trim();
        let quoted = |sign: char| value.strip_prefix(sign).and_then(|rest| rest.strip_suffix(sign));
        let value = match (quoted('\''), quoted('"')) {
            (Some(value), _) => value.to_owned(),
            (_, Some(value)) if !value.contains('\\') => value.to_owned(),
            (_, Some(_)) => return Err(format!("its line {} has a sign behind `\\`", number + 1)),
            // A comment begins behind a blank.
            _ => value.split(" #").next().unwrap_or_default().trim_end().to_owned(),
        };
        variables.push((name.trim_end().to_owned(), value));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_by_quotes() {
        for (text, words) in [
            ("redis-server --appendonly yes", &["redis-server", "--appendonly", "yes"][..]),
            ("sh -c 'a \"b\" c' \"d 'e' \\\"\"", &["sh", "-c", "a \"b\" c", "d 'e' \""]),
            ("a\\ b  '' c\n", &["a b", "", "c"]),
            ("", &[]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
        assert!(split("a 'b").is_err());
    }

    #[test]
    fn times_are_gos() {
        for (text, expected) in [
            ("10s", "10000000000ns"),
            ("1m30s", "90000000000ns"),
            ("1.5h", "5400000000000ns"),
            ("500ms", "500000000ns"),
        ] {
            assert_eq!(time(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "10", "s", "1x", "1s2", "-1s", "9999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_variables_are_read() {
        let text = "# a comment\nA=1\nexport B='two words' \nC=\"x\"\nD=a b # not c\nE=\n\n";
        let expected = [("A", "1"), ("B", "two words"), ("C", "x"), ("D", "a b"), ("E", "")];
        let found = variables(text).unwrap();
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(variables("A=1\nB").unwrap_err().contains("line 2"));
        assert!(variables("A=\"a\\n\"").is_err());
    }
}
