//! HTTP/1.1 (RFC 9112): `METHOD /path [BODY]`.

use super::protocol::{Login, Question, Reply};
use super::wire::{Failure, Wire};

/// Limit on the fields of an answer's head, and of a chunked body's end.
const MAX_FIELDS: usize = 256;

pub(super) fn greet(_: &mut Wire, _: &Login) -> Result<(), Failure> {
    Ok(())
}

pub(super) fn ask(operation: &str, server: &str, login: &Login) -> Result<Question, String> {
    let (method, rest) = operation.split_once(' ').unwrap_or((operation, ""));
    let (path, body) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_method || !path.starts_with('/') {
        return Err(format!("`{operation}` is not `METHOD /path [BODY]`"));
    }
    if method == "CONNECT" {
        return Err("CONNECT is not supported".into());
    }
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\n");
    if !body.is_empty() || method == "POST" || method == "PUT" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if body.starts_with(['{', '[']) {
        head.push_str("Content-Type: application/json\r\n");
    }
    login.headers.iter().for_each(|field| head.push_str(&format!("{field}\r\n")));
    let bytes = format!("{head}\r\n{body}").into_bytes();
    // The answer to HEAD has no body (9110, 9.3.2).
    let answers = usize::from(method != "HEAD");
    Ok(Question { bytes, answers, partial: false })
}

pub(super) fn answer(wire: &mut Wire, question: &Question) -> Result<Reply, Failure> {
    let (status, fields) = loop {
        let line = text(wire)?;
        let malformed = || Failure::malformed("a status line");
        let rest = line.strip_prefix("HTTP/1.").ok_or_else(malformed)?;
        let status: u16 =
            rest.get(2..5).and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
        wire.ends |= rest.starts_with('0');
        let fields = fields(wire)?;
        match status {
            101 => return Err(Failure::Unsupported("another protocol (101)".into())),
            100..=199 => continue,
            200..=599 => break (status, fields),
            _ => return Err(malformed()),
        }
    };
    let field = |name: &str| {
        let mut named = fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        named.next_back().map(|(_, value)| value.to_ascii_lowercase())
    };
    wire.ends |= field("Connection").is_some_and(|value| value.contains("close"));
    let body = match (field("Transfer-Encoding").as_deref(), field("Content-Length")) {
        _ if question.answers == 0 || status == 204 || status == 304 => Vec::new(),
        (Some("chunked"), _) => chunks(wire)?,
        (Some(other), _) => return Err(Failure::Unsupported(format!("the encoding {other}"))),
        (None, Some(length)) => {
            wire.bytes(length.parse().map_err(|_| Failure::malformed("Content-Length"))?)?
        }
        (None, None) => wire.rest()?,
    };
    let body = String::from_utf8_lossy(&body).into_owned();
    let text = body.strip_suffix('\n').unwrap_or(&body);
    Ok(match status {
        200..=299 => Reply::Ok(text.into()),
        300..=499 => Reply::Fail(format!("{status}: {text}")),
        _ => Reply::Info(format!("{status}: {text}")),
    })
}

/// Field lines up to the empty one.
fn fields(wire: &mut Wire) -> Result<Vec<(String, String)>, Failure> {
    let mut fields = Vec::new();
    while fields.len() < MAX_FIELDS {
        let line = text(wire)?;
        match line.split_once(':') {
            Some((name, value)) => fields.push((name.into(), value.trim().into())),
            None if line.is_empty() => return Ok(fields),
            None => return Err(Failure::malformed("a field")),
        }
    }
    Err(Failure::malformed("more than 256 fields"))
}

/// A chunked body (7.1).
fn chunks(wire: &mut Wire) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        let line = text(wire)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| Failure::malformed("a chunk"))?;
        if size == 0 {
            fields(wire)?;
            return Ok(body);
        }
        body.extend(wire.bytes(size)?);
        if !text(wire)?.is_empty() {
            return Err(Failure::malformed("a chunk's end"));
        }
    }
}

fn text(wire: &mut Wire) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&wire.line()?).into_owned())
}
