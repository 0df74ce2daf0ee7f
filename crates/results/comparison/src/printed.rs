//! The figures that two commands printed themselves: lines that differ in their numbers only.

use std::collections::BTreeMap;

use stasis_report::verdict::is_close;

/// Characters of a line that is looked at, and lines.
const MAX_LINE: usize = 160;
const MAX_LINES: usize = 1000;

/// A line: its text without numbers and their units' prefixes, and the numbers.
struct Line<'a> {
    text: &'a str,
    numbers: Vec<f64>,
}

/// Lines that both printed once, with numbers of which one differs by `least` per cent or more.
pub(crate) fn differing(base: &str, other: &str, least: f64) -> Vec<[String; 2]> {
    let (was, is) = (lines(base), lines(other));
    let differs = |was: &Line, is: &Line| {
        was.numbers.iter().zip(&is.numbers).any(|(was, is)| !is_close(*was, *is, least))
    };
    let mut found: Vec<(usize, [String; 2])> = Vec::new();
    for (key, all) in &is {
        if let (Some([(_, was)]), [(place, is)]) = (was.get(key).map(Vec::as_slice), &all[..]) {
            if differs(was, is) {
                found.push((*place, [was, is].map(|line| line.text.to_owned())));
            }
        }
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, both)| both).collect()
}

/// The lines with numbers, each with its place, by their texts without them.
fn lines(text: &str) -> BTreeMap<String, Vec<(usize, Line<'_>)>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let usual = |line: &&str| {
        !line.is_empty()
            && line.chars().count() <= MAX_LINE
            && !line.chars().any(|c| c.is_control() && c != '\t')
    };
    // A line that is written over again and again, as progress is, has its last form.
    let ends = text.lines().take(MAX_LINES).map(|line| line.rsplit('\r').next().unwrap_or(line));
    for (place, text) in ends.map(str::trim).enumerate().filter(|(_, line)| usual(line)) {
        let (key, numbers) = without_numbers(text);
        if !numbers.is_empty() {
            all.entry(key).or_default().push((place, Line { text, numbers }));
        }
    }
    all
}

/// A text with `#` for each number, and the numbers: `61.8MiB/s` is `#B/s` and 61.8 times 2^20.
fn without_numbers(text: &str) -> (String, Vec<f64>) {
    let (mut key, mut numbers, mut rest) = (String::new(), Vec::new(), text);
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(begin);
        key.push_str(before);
        let digit = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
        let end = number.find(|c: char| !digit(c)).unwrap_or(number.len());
        let (digits, after) = number.split_at(end);
        // A full stop or comma at the end is the sentence's.
        let bare = digits.trim_end_matches(['.', ',']);
        let value = bare.replace(',', "").parse::<f64>();
        // An address, a version or a hash is a word.
        let part = key.chars().last().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        match value {
            Ok(value) if !part => {
                let (scale, after) = prefix(&rest[begin + bare.len()..]);
                numbers.push(value * scale);
                key.push('#');
                rest = after;
            }
            _ => {
                key.push_str(digits);
                rest = after;
            }
        }
    }
    key.push_str(rest);
    (key, numbers)
}

/// The scale of a unit's prefix at the start of a text, and the text behind it.
fn prefix(text: &str) -> (f64, &str) {
    const BINARY: [(&str, f64); 4] =
        [("Ki", 1024.0), ("Mi", 1_048_576.0), ("Gi", 1_073_741_824.0), ("Ti", 1_099_511_627_776.0)];
    const DECIMAL: [(&str, f64); 9] = [
        ("k", 1e3),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("m", 1e-3),
        ("µ", 1e-6),
        ("u", 1e-6),
        ("n", 1e-9),
    ];
    let (space, bare) = match text.strip_prefix(' ') {
        Some(bare) => (true, bare),
        None => (false, text),
    };
    let unit = |rest: &str| {
        let word: String = rest.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
        matches!(word.as_str(), "B" | "b" | "bit" | "s" | "sec" | "secs" | "IOPS")
    };
    let of_unit = BINARY.iter().chain(&DECIMAL).find_map(|(prefix, scale)| {
        let rest = bare.strip_prefix(prefix)?;
        // Without a unit only where it follows the number at once: `15.8k`.
        let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        let alone = !space && ends && *scale > 1.0 && prefix.len() == 1;
        (unit(rest) || alone).then_some((*scale, rest))
    });
    of_unit.unwrap_or((1.0, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_prefixes() {
        for (text, key, numbers) in [
            ("470 commits a second", "# commits a second", vec![470.0]),
            ("30,800 commits.", "# commits.", vec![30_800.0]),
            ("read: IOPS=15.8k, BW=2MiB/s", "read: IOPS=#, BW=#B/s", vec![15_800.0, 2_097_152.0]),
            ("took 3 ms, 4us", "took #s, #s", vec![0.003, 4.0 / 1e6]),
            ("sda1 v1.2.3 5 m", "sda1 v1.2.3 # m", vec![5.0]),
            ("no number", "no number", vec![]),
            ("1.", "#.", vec![1.0]),
            ("ends with 7", "ends with #", vec![7.0]),
        ] {
            let (found, all) = without_numbers(text);
            assert_eq!(found, key);
            assert!(all.len() == numbers.len(), "{all:?}");
            assert!(
                all.iter().zip(&numbers).all(|(a, b)| (a - b).abs() < 1e-12 * b.abs().max(1.0)),
                "{all:?}"
            );
        }
    }

    #[test]
    fn lines_that_differ_in_their_numbers_are_found() {
        let base = "mkfs done\n470 commits a second\nseed 7\nstep 1\nstep 2\n";
        let other = "mkfs done\n30800 commits a second\nseed 7\nstep 1\nstep 3\nmore 3\n";
        let found = differing(base, other, 1.0);
        assert_eq!(found, [["470 commits a second", "30800 commits a second"].map(str::to_owned)]);
        assert!(differing(base, base, 0.0).is_empty());
        // Within the least, or in other units.
        assert!(differing("took 1000 us", "took 1.001 ms", 1.0).is_empty());
        assert_eq!(differing("took 1000 us", "took 1.1 ms", 1.0).len(), 1);
        assert!(differing("\u{1b}[31m1", "\u{1b}[31m2", 1.0).is_empty());
    }
}
