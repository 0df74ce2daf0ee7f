//! Variables of machines: `{{machine.address}}` in a command or a file stands for the address of the
//! machine that has the command or the file.

use std::collections::BTreeMap;

use stasis_config::Mistake;

use crate::names::missing;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// First part of each name: what else is in braces is left as it is.
const FIRST: &str = "machine.";

/// Properties of a machine that each has, and a variable of the user's cannot be.
pub(crate) const NAME: &str = "name";
pub(crate) const NUMBER: &str = "number";
pub(crate) const ADDRESS: &str = "address";

/// Properties of a machine with their values.
pub(crate) type Properties = BTreeMap<String, String>;

/// The variables that stand for something in a machine's command and files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// The machine's own: `machine.PROPERTY`.
    pub(crate) own: Properties,
    /// Variables of every machine: `machine.NAME.PROPERTY`.
    pub(crate) machines: BTreeMap<String, Properties>,
}

/// A variable that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its line, from 1 on.
    pub line: usize,
    /// The variable, and those that there are.
    pub message: String,
}

impl Variables {
    /// Returns `text` with the value in place of each variable.
    ///
    /// # Errors
    /// The first variable that does not exist.
    pub fn fill(&self, text: &str) -> Result<String, UnknownVariable> {
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, behind)) = rest.split_once(OPEN) {
            filled.push_str(before);
            let Some(name) = behind.trim_start_matches(' ').strip_prefix(FIRST) else {
                // One brace only: `{{{machine.name}}}` has a variable between braces.
                filled.push('{');
                rest = &rest[before.len() + 1..];
                continue;
            };
            let wrong = |message| UnknownVariable {
                line: 1 + text[..text.len() - behind.len()].matches('\n').count(),
                message,
            };
            let line = name.lines().next().unwrap_or_default();
            let (name, _) = line.split_once(CLOSE).ok_or_else(|| {
                wrong(format!("`{OPEN}{FIRST}` begins a variable, which has no `{CLOSE}`"))
            })?;
            filled.push_str(self.value(name.trim_end_matches(' ')).map_err(wrong)?);
            // Whatever is between, the end is there.
            rest = behind.split_once(CLOSE).map_or("", |(_, rest)| rest);
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// The value of the variable of this name, behind [`FIRST`].
    fn value(&self, name: &str) -> Result<&str, String> {
        if self.own.is_empty() {
            return Err(format!(
                "`{FIRST}{name}`: variables are of several machines, in [[machine]]; this \
                 experiment has one [machine]"
            ));
        }
        let (properties, property, place) = match name.rsplit_once('.') {
            None => (&self.own, name, FIRST.to_owned()),
            Some((machine, property)) => {
                let all = self.machines.keys().map(String::as_str);
                let properties = self.machines.get(machine).ok_or_else(|| {
                    format!("`{FIRST}{name}`: {}", missing("machine", machine, all))
                })?;
                (properties, property, format!("{FIRST}{machine}."))
            }
        };
        properties.get(property).map(String::as_str).ok_or_else(|| {
            if property == ADDRESS {
                return format!("`{FIRST}{name}`: no [[network]] gives it an address here");
            }
            let all: Vec<_> = properties.keys().map(|key| format!("{place}{key}")).collect();
            let others = match name.contains('.') {
                true => String::new(),
                false => {
                    let machines: Vec<_> = self.machines.keys().map(String::as_str).collect();
                    format!(
                        "; with a machine's name, as in `{FIRST}{}.{NAME}`, those of {}",
                        machines.last().unwrap_or(&""),
                        machines.join(", ")
                    )
                }
            };
            let all = all.iter().map(String::as_str);
            missing("variable", &format!("{place}{property}"), all) + &others
        })
    }
}

/// Checks the names of a user's variables of a machine.
///
/// # Errors
/// Names the one that cannot be.
pub(crate) fn check(variables: &Properties) -> Result<(), Mistake> {
    for (name, value) in variables {
        let mistake = |message: String| Mistake::at(&**name, message).inside("variables");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || !is_name {
            return Err(mistake(format!(
                "variables: `{name}` is no variable's name: it has letters, digits and `_`, and \
                 does not begin with a digit"
            )));
        }
        if [NAME, NUMBER, ADDRESS].contains(&name.as_str()) || name.starts_with("STASIS_") {
            return Err(mistake(format!("variables: `{name}` is there already")));
        }
        if value.contains('\0') {
            return Err(mistake(format!("variables: the value of `{name}` has a zero byte")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let properties = |name: &str, number: u32| {
            let all = [(NAME, name.to_owned()), (NUMBER, number.to_string())];
            all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Properties>()
        };
        let mut own = properties("a", 1);
        own.insert("role".into(), "first".into());
        let machines = [("a".to_owned(), own.clone()), ("b.c".to_owned(), properties("b-c", 2))];
        Variables { own, machines: machines.into() }
    }

    #[test]
    fn variables_stand_for_their_values() {
        for (text, filled) in [
            ("", ""),
            (
                "nothing of ours: ${x} {{ x }} {machine.name}",
                "nothing of ours: ${x} {{ x }} {machine.name}",
            ),
            ("{{machine.name}}", "a"),
            ("id={{ machine.number }}\n{{machine.role}}:{{machine.b.c.name}}", "id=1\nfirst:b-c"),
            ("{{{machine.number}}}", "{1}"),
            ("{{{{machine.number}}", "{{1"),
            ("é{{machine.a.role}}é{{", "éfirsté{{"),
        ] {
            assert_eq!(variables().fill(text).as_deref(), Ok(filled), "{text}");
        }
    }

    #[test]
    fn an_unknown_one_names_its_line_and_those_that_there_are() {
        for (text, line, message) in [
            (
                "\n\n x {{machine.numbr}}",
                3,
                "there is no variable `machine.numbr`; did you mean `machine.number`? there are \
                 `machine.name`, `machine.number`, `machine.role`; with a machine's name, as in \
                 `machine.b.c.name`, those of a, b.c",
            ),
            (
                "{{machine.name}}\n{{machine.d.name}}",
                2,
                "`machine.d.name`: there is no machine `d`; there are `a`, `b.c`",
            ),
            (
                "{{machine.b.c.role}}",
                1,
                "there is no variable `machine.b.c.role`; did you mean \
                 `machine.b.c.name`? there are `machine.b.c.name`, `machine.b.c.number`",
            ),
            (
                "{{machine.address}}",
                1,
                "`machine.address`: no [[network]] gives it an address here",
            ),
            ("{{machine.name\n}}", 1, "`{{machine.` begins a variable, which has no `}}`"),
        ] {
            let wrong = variables().fill(text).unwrap_err();
            assert_eq!((wrong.line, wrong.message.as_str()), (line, message), "{text}");
        }
        let none = Variables::default().fill("{{machine.name}}").unwrap_err();
        assert!(none.message.contains("several machines"), "{}", none.message);
    }

    #[test]
    fn names_of_variables_are_those_of_an_environment() {
        let check = |name: &str, value: &str| check(&[(name.into(), value.into())].into());
        for name in ["role", "_1", "A_b2"] {
            check(name, "any\n= value").unwrap();
        }
        for name in ["", "1a", "a-b", "a.b", "name", "number", "address", "STASIS_X", "é"] {
            assert!(check(name, "").is_err(), "{name}");
        }
        assert!(check("a", "\0").is_err());
    }
}
