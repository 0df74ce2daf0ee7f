//! Variables in the texts of a Compose file (compose-spec, 12-interpolation.md).

use crate::yaml::{Node, Value};

/// Limit on values that have variables themselves.
const MAX_DEPTH: usize = 8;

/// The variables, and those that there are not.
pub(crate) struct Variables<'a> {
    /// Value of a variable.
    pub(crate) value: &'a dyn Fn(&str) -> Option<String>,
    /// Notes about variables without a value.
    pub(crate) notes: Vec<String>,
}

impl Variables<'_> {
    /// Puts values in the places of variables in all texts of a tree; keys stay.
    ///
    /// # Errors
    /// The first variable that has to have a value, or is none.
    pub(crate) fn fill(&mut self, node: &mut Node) -> Result<(), String> {
        match &mut node.value {
            Value::Text(text, _) => {
                if text.contains('$') {
                    *text = self
                        .text(text, node.line, 0)
                        .map_err(|e| format!("line {}: {e}", node.line))?;
                }
                Ok(())
            }
            Value::List(list) => list.iter_mut().try_for_each(|node| self.fill(node)),
            Value::Map(map) => map.iter_mut().try_for_each(|(_, node)| self.fill(node)),
        }
    }

    fn text(&mut self, text: &str, line: usize, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err("variables are within each other too deep".into());
        }
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once('$') {
            filled.push_str(before);
            if let Some(behind) = behind.strip_prefix('$') {
                filled.push('$');
                rest = behind;
            } else if let Some(behind) = behind.strip_prefix('{') {
                let end = closing(behind).ok_or_else(|| format!("`${{` has no end in {text:?}"))?;
                filled += &self.braced(&behind[..end], line, depth)?;
                rest = &behind[end + 1..];
            } else {
                let length = name_length(behind);
                if length == 0 {
                    return Err(format!(
                        "`$` begins no variable in {text:?}; `$$` is the sign itself"
                    ));
                }
                filled += &self.plain(&behind[..length], line);
                rest = &behind[length..];
            }
        }
        Ok(filled + rest)
    }

    /// The value of what stands between braces.
    fn braced(&mut self, inside: &str, line: usize, depth: usize) -> Result<String, String> {
        let length = name_length(inside);
        let (name, operator) = inside.split_at(length);
        if name.is_empty() {
            return Err(format!("`${{{inside}}}` is no variable"));
        }
        let value = (self.value)(name);
        let some = value.clone().filter(|value| !value.is_empty());
        let (found, kind, word) = match operator.strip_prefix(':') {
            Some(rest) => (some, rest.get(..1), rest.get(1..)),
            None => (value, operator.get(..1), operator.get(1..)),
        };
        let word = word.unwrap_or_default();
        match (kind, found) {
            (None, _) if operator.is_empty() => Ok(self.plain(name, line)),
            (Some("-"), Some(value)) | (Some("?"), Some(value)) => Ok(value),
            (Some("-"), None) => self.text(word, line, depth + 1),
            (Some("?"), None) => Err(format!("the variable {name} has no value: {word}")),
            (Some("+"), Some(_)) => self.text(word, line, depth + 1),
            (Some("+"), None) => Ok(String::new()),
            _ => Err(format!("`${{{inside}}}` is no variable")),
        }
    }

    fn plain(&mut self, name: &str, line: usize) -> String {
        (self.value)(name).unwrap_or_else(|| {
            self.notes.push(format!("line {line}: the variable {name} has no value, and is empty"));
            String::new()
        })
    }
}

/// Length of the name that a text begins with.
fn name_length(text: &str) -> usize {
    let is_first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if is_first {
        end
    } else {
        0
    }
}

/// Place of the brace that ends a variable.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, sign) in text.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_their_values() {
        let value = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let fill = |text: &str| {
            let mut variables = Variables { value: &value, notes: Vec::new() };
            let mut node = Node { line: 7, value: Value::Text(text.into(), true) };
            let filled = variables.fill(&mut node);
            filled.map(|()| (node.text().unwrap_or_default().to_owned(), variables.notes.len()))
        };
        for (text, expected, notes) in [
            ("x$A-${A}", "xa-a", 0),
            ("$$A $${A}", "$A ${A}", 0),
            ("${NO-d} ${NO:-d$A} ${EMPTY-d}|${EMPTY:-d}", "d da |d", 0),
            ("${NO:-${A:-x}}", "a", 0),
            ("${A+is}${NO+is}${EMPTY:+is}", "is", 0),
            ("${A:?must} ${EMPTY?must}", "a ", 0),
            ("x$NO", "x", 1),
        ] {
            assert_eq!(fill(text), Ok((expected.to_owned(), notes)), "{text}");
        }
        for (text, expected) in [
            ("${NO:?say it}", "line 7: the variable NO has no value: say it"),
            ("${EMPTY:?say}", "the variable EMPTY"),
            ("${A", "has no end"),
            ("$1", "begins no variable"),
            ("${A!x}", "is no variable"),
            ("${}", "is no variable"),
        ] {
            let error = fill(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
