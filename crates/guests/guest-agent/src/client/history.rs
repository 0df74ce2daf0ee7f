//! The history: lines as Jepsen's and Maelstrom's clients write them.

use std::io::Write;

use super::options::Options;
use super::protocol::Reply;
use super::words::{quote, split, write};

pub(super) struct History<'a> {
    options: &'a Options,
    is_written: bool,
}

impl<'a> History<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Self { options, is_written: !options.print && !options.quiet }
    }

    pub(super) fn invoke(&self, out: &mut impl Write, operation: &str) -> Result<(), String> {
        self.line(out, "invoke", operation, None)
    }

    pub(super) fn end(
        &self,
        out: &mut impl Write,
        operation: &str,
        reply: &Reply,
    ) -> Result<(), String> {
        let (kind, text) = reply.parts();
        let name = if kind == "ok" { "answer" } else { "error" };
        self.line(out, kind, operation, Some((name, text)))
    }

    fn line(
        &self,
        out: &mut impl Write,
        kind: &str,
        operation: &str,
        more: Option<(&str, &str)>,
    ) -> Result<(), String> {
        if !self.is_written {
            return Ok(());
        }
        let operation = operation.trim();
        let (first, rest) = operation.split_once(char::is_whitespace).unwrap_or((operation, ""));
        let mut line = format!("{{\"type\":\"{kind}\",\"process\":");
        scalar(&mut line, &self.options.process);
        line.push_str(",\"f\":");
        quote(&mut line, &self.options.f.clone().unwrap_or_else(|| first.to_lowercase()));
        line.push_str(",\"value\":");
        match self.options.protocol {
            Some(protocol) if protocol.name == "redis" => {
                let words = split(operation).unwrap_or_default();
                for (place, word) in words.iter().skip(1).enumerate() {
                    line.push(if place == 0 { '[' } else { ',' });
                    scalar(&mut line, word);
                }
                line.push_str(if words.len() < 2 { "null" } else { "]" });
            }
            _ if rest.is_empty() => line.push_str("null"),
            _ => quote(&mut line, rest.trim_start()),
        }
        if let Some((name, text)) = more {
            line.push_str(&format!(",\"{name}\":"));
            quote(&mut line, text);
        }
        line.push_str("}\n");
        write(out, &line)
    }
}

/// Adds a number as one, anything else as a string.
fn scalar(line: &mut String, word: &str) {
    // A number of 15 digits is exact in any reader (RFC 8259, section 6).
    let is_number = !word.is_empty()
        && word.len() <= 15
        && word.bytes().all(|byte| byte.is_ascii_digit())
        && (word == "0" || !word.starts_with('0'));
    match is_number {
        true => line.push_str(word),
        false => quote(line, word),
    }
}
