//! Reads records of comma-separated fields (RFC 4180).

use std::io::{self, BufRead};

/// The records of a file, of which one is here.
pub(super) struct Records {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    /// The fields one behind another, without their quotes, and the end of each.
    fields: String,
    ends: Vec<usize>,
}

impl Records {
    /// The first record of `input` is not read yet.
    pub(super) fn new(input: Box<dyn BufRead>) -> Self {
        Self { input, line: Vec::new(), fields: String::new(), ends: Vec::new() }
    }

    /// Reads the next record. Returns false if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is no text.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut quotes = 0;
        loop {
            let begin = self.line.len();
            let length = self.input.read_until(b'\n', &mut self.line)?;
            quotes += self.line[begin..].iter().filter(|byte| **byte == b'"').count();
            // An end of a line between quotes is part of a field.
            if length == 0 || quotes % 2 == 0 {
                break;
            }
        }
        self.fields.clear();
        self.ends.clear();
        let line = std::str::from_utf8(&self.line)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if line.is_empty() {
            return Ok(false);
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        let mut rest = line.strip_suffix('\r').unwrap_or(line);
        loop {
            while let Some(quoted) = rest.strip_prefix('"') {
                let (part, after) = quoted.split_once('"').unwrap_or((quoted, ""));
                self.fields.push_str(part);
                rest = after;
                // Two quotes are one that belongs to the field.
                if rest.starts_with('"') {
                    self.fields.push('"');
                }
            }
            let next = rest.split_once(',');
            self.fields.push_str(next.map_or(rest, |(field, _)| field));
            self.ends.push(self.fields.len());
            match next {
                Some((_, after)) => rest = after,
                None => return Ok(true),
            }
        }
    }

    /// The number of fields of the record.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field of the record, by its place.
    pub(super) fn get(&self, place: usize) -> Option<&str> {
        let end = *self.ends.get(place)?;
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.fields[begin..end])
    }
}

#[cfg(test)]
mod tests {
    use super::super::csv::quoted;
    use super::*;

    fn records(text: &str) -> Vec<Vec<String>> {
        let mut records = Records::new(Box::new(io::Cursor::new(text.as_bytes().to_vec())));
        let mut all = Vec::new();
        while records.read().unwrap() {
            let fields = (0..records.len()).map(|place| records.get(place).unwrap().to_owned());
            all.push(fields.collect());
            assert_eq!(records.get(records.len()), None);
        }
        all
    }

    #[test]
    fn records_end_with_lines() {
        assert_eq!(records("a,b\n1,2\r\n,"), [["a", "b"], ["1", "2"], ["", ""]]);
        assert_eq!(records(""), Vec::<Vec<String>>::new());
    }

    #[test]
    fn fields_are_read_as_they_are_quoted() {
        let signs = ["a", "\"", ",", "\n", "\r", " "];
        for first in signs {
            for second in signs {
                for third in signs {
                    let name = [first, second, third].concat();
                    let text = format!("{},7\n{0}\n", quoted(&name));
                    assert_eq!(records(&text), [vec![&name[..], "7"], vec![&name[..]]], "{text}");
                }
            }
        }
    }

    #[test]
    fn a_damaged_text_is_an_error_or_other_fields() {
        assert_eq!(records("\"a"), [["a"]]);
        assert_eq!(records("a\"b,\"\"c\n"), [["a\"b", "c"]]);
        let mut records = Records::new(Box::new(io::Cursor::new(vec![0xff])));
        records.read().unwrap_err();
    }
}
