//! Words of operations: quotes, numbers, patterns, times.

use std::io::Write;
use std::time::Duration;

/// Splits at blanks. `"..."` is one word, with `\n`, `\r`, `\t`, `\"` and `\\`; so is `'...'`, as it is.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(quote) = rest.chars().next() {
        let (word, after) = match quote {
            '"' => quoted(&rest[1..]).ok_or(format!("a `\"` has no end in `{text}`"))?,
            '\'' => {
                let end = rest[1..].find('\'').ok_or(format!("a `'` has no end in `{text}`"))?;
                (rest[1..=end].to_owned(), &rest[end + 2..])
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// The text up to a `"`, and what is behind.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut escaped = false;
    for (place, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return Some((unescape(&text[..place]), &text[place + 1..])),
            _ => escaped = letter == '\\' && !escaped,
        }
    }
    None
}

/// Replaces `\n`, `\r` and `\t`, and `\` before any other by this alone.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            },
            _ => letter,
        });
    }
    plain
}

/// Puts the number for each `{}`, and with leading zeroes for `{:04}`.
pub(super) fn number(text: &str, number: u64) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('{') {
        let (before, from) = rest.split_at(place);
        done.push_str(before);
        let inside = from[1..].split_once('}');
        let width = inside.and_then(|(inside, after)| match inside.strip_prefix(":0") {
            Some(width) => Some((width.parse::<u8>().ok()?.into(), after)),
            None => inside.is_empty().then_some((0, after)),
        });
        rest = match width {
            Some((width, after)) => {
                done.push_str(&format!("{number:0width$}", width = width));
                after
            }
            None => {
                done.push('{');
                &from[1..]
            }
        };
    }
    done.push_str(rest);
    done
}

/// Returns whether an answer, or a line of it, is `pattern`, of which a `*` at an end is anything.
pub(super) fn is_like(answer: &str, pattern: &str) -> bool {
    let (before, middle) = pattern.strip_prefix('*').map_or((false, pattern), |rest| (true, rest));
    let (behind, middle) = middle.strip_suffix('*').map_or((false, middle), |rest| (true, rest));
    let fits = |text: &str| match (before, behind) {
        (false, false) => text == middle,
        (true, false) => text.ends_with(middle),
        (false, true) => text.starts_with(middle),
        (true, true) => text.contains(middle),
    };
    fits(answer) || answer.lines().any(fits)
}

/// Reads `20ms`, `1.5s`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let factor = match &text[unit..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    let number: f64 = text[..unit].parse().ok()?;
    Duration::try_from_secs_f64(number * factor).ok()
}

/// Adds `text` to `json` as a string (RFC 8259, section 7).
pub(super) fn quote(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            '\n' => json.push_str("\\n"),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            _ => json.push(letter),
        }
    }
    json.push('"');
}

/// Writes all of a text now.
pub(super) fn write(out: &mut impl Write, text: &str) -> Result<(), String> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| format!("cannot write: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_blanks_together() {
        let words = split(r#" SET "a \"b\" \\ \n"  'c d'e ;"#).unwrap();
        assert_eq!(words, ["SET", "a \"b\" \\ \n", "c d", "e", ";"]);
        assert_eq!(split(r#"'' """#).unwrap(), ["", ""]);
        assert!(split("SET 'a").is_err() && split(r#"SET "a\""#).is_err());
        assert!(split("").unwrap().is_empty());
    }

    #[test]
    fn numbers_take_the_place_of_braces() {
        assert_eq!(number("SET key{} {}", 7), "SET key7 7");
        assert_eq!(number(r#"{"key":"{:04}"}{"#, 12), r#"{"key":"0012"}{"#);
        assert_eq!(number("{:0300}{x}{:4}", 1), "{:0300}{x}{:4}");
    }

    #[test]
    fn patterns_fit_an_answer_or_a_line() {
        for (pattern, fits) in [
            ("b", true),
            ("a\nb", true),
            ("", false),
            ("*", true),
            ("a*", true),
            ("c*", false),
            ("*\nb", true),
            ("*a*", true),
        ] {
            assert_eq!(is_like("a\nb", pattern), fits, "{pattern}");
        }
        assert!(is_like("", "") && !is_like("10", "1"));
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(time("1.5s"), Some(Duration::from_millis(1500)));
        for wrong in ["1", "s", "-1s", "1h", "1e300m", "NaNs", "1 s"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn texts_are_json() {
        let mut json = String::new();
        quote(&mut json, "a\"\\\n\u{1}\u{fc}");
        assert_eq!(json, "\"a\\\"\\\\\\n\\u0001\u{fc}\"");
    }
}
