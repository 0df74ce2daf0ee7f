//! Redis: RESP2 (redis.io, "Redis serialization protocol specification").

use super::protocol::{Login, Question, Reply};
use super::wire::{Failure, Wire};
use super::words;

/// Limit on arrays within arrays.
const MAX_DEPTH: usize = 8;

/// Commands of which a part may have happened where they answer with an error.
const PARTIAL: [&str; 5] = ["EVAL", "EVALSHA", "FCALL", "EXEC", "WAIT"];

pub(super) fn greet(wire: &mut Wire, login: &Login) -> Result<(), Failure> {
    let mut commands = Vec::new();
    if !login.password.is_empty() {
        let user = login.user.as_deref();
        commands.push([&["AUTH"], user.as_slice(), &[&login.password]].concat());
    }
    if let Some(database) = &login.database {
        commands.push(vec!["SELECT", database]);
    }
    for command in commands {
        wire.send(&encode(&command))?;
        if let Value::Error(text) = value(wire, 0)? {
            return Err(Failure::Refused(text));
        }
    }
    Ok(())
}

/// Commands with a word `;` between them are sent together; the last one's answer counts.
pub(super) fn ask(operation: &str, _: &str, _: &Login) -> Result<Question, String> {
    let words = words::split(operation)?;
    let commands: Vec<_> = words.split(|word| word == ";").collect();
    if commands.iter().any(|command| command.is_empty()) {
        return Err(format!("`{operation}` lacks a command"));
    }
    let bytes = commands.iter().flat_map(|command| encode(command)).collect();
    let first = commands[0][0].to_ascii_uppercase();
    let partial = commands.len() > 1 || PARTIAL.contains(&first.as_str());
    Ok(Question { bytes, answers: commands.len(), partial })
}

fn encode<S: AsRef<str>>(command: &[S]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len());
    for word in command.iter().map(AsRef::as_ref) {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

pub(super) fn answer(wire: &mut Wire, question: &Question) -> Result<Reply, Failure> {
    let mut error = None;
    let mut text = String::new();
    for number in 0..question.answers {
        match value(wire, 0)? {
            // Nothing has happened if the first fails, and is all.
            Value::Error(why) => error = error.or(Some((number, why))),
            Value::Text(one) => text = one,
            Value::Array(one, errors) => {
                error = error.or(errors.then(|| (usize::MAX, one.clone())));
                text = one;
            }
        }
    }
    Ok(match error {
        None => Reply::Ok(text),
        Some((0, why)) if !question.partial => Reply::Fail(why),
        Some((_, why)) => Reply::Info(why),
    })
}

enum Value {
    Text(String),
    Error(String),
    /// Lines, and whether there is an error among them.
    Array(String, bool),
}

fn value(wire: &mut Wire, depth: usize) -> Result<Value, Failure> {
    let line = wire.line()?;
    let (&kind, rest) = line.split_first().ok_or_else(|| Failure::malformed("an empty line"))?;
    let text = String::from_utf8_lossy(rest).into_owned();
    let number = || text.parse::<i64>().map_err(|_| Failure::malformed("a length"));
    Ok(match kind {
        b'+' | b':' => Value::Text(text),
        b'-' => Value::Error(text),
        b'$' | b'*' if text == "-1" => Value::Text("(nil)".into()),
        b'$' => {
            let length = usize::try_from(number()?).map_err(|_| Failure::malformed("a length"))?;
            let bytes = wire.bytes(length)?;
            if wire.bytes(2)? != *b"\r\n" {
                return Err(Failure::malformed("the end of a string"));
            }
            Value::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        b'*' if depth == MAX_DEPTH => return Err(Failure::malformed("arrays too deep")),
        b'*' => {
            let mut lines = Vec::new();
            let mut errors = false;
            for _ in 0..number()? {
                match value(wire, depth + 1)? {
                    Value::Text(text) => lines.push(text),
                    Value::Error(text) => (errors = true, lines.push(format!("(error) {text}"))).1,
                    Value::Array(text, more) => (errors |= more, lines.push(text)).1,
                }
            }
            Value::Array(lines.join("\n"), errors)
        }
        b'_' | b'#' | b',' | b'(' | b'!' | b'=' | b'%' | b'~' | b'>' => {
            return Err(Failure::Unsupported("RESP3: leave out HELLO 3".into()));
        }
        _ => return Err(Failure::malformed("a type")),
    })
}
