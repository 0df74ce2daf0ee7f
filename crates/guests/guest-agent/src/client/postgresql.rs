//! PostgreSQL: the simple query of protocol 3.0 (PostgreSQL 17, chapter 53, "Frontend/Backend
//! Protocol": 53.2.1 start-up, 53.2.2 simple query, 53.7 formats, 53.8 fields of errors).

use super::protocol::{Login, Question, Reply};
use super::wire::{Bytes, Failure, Wire};

const VERSION: u32 = 3 << 16;

/// Limit on a message; an answer of several is limited as such.
const MAX_MESSAGE: u64 = 16 << 20;

pub(super) fn greet(wire: &mut Wire, login: &Login) -> Result<(), Failure> {
    let user = login.user.as_deref().unwrap_or("postgres");
    let database = login.database.as_deref().unwrap_or(user);
    let mut words = VERSION.to_be_bytes().to_vec();
    for word in ["user", user, "database", database, "application_name", "stasis-client", ""] {
        words.extend_from_slice(word.as_bytes());
        words.push(0);
    }
    wire.send(&framed(None, &words))?;
    loop {
        let (kind, body) = message(wire)?;
        match kind {
            b'R' => authenticate(wire, &mut Bytes(&body), login)?,
            b'Z' => return Ok(()),
            b'E' => return Err(Failure::Refused(Error::read(&body).text)),
            b'S' | b'K' | b'N' | b'v' => {}
            _ => return Err(Failure::malformed("a message at the start")),
        }
    }
}

fn authenticate(wire: &mut Wire, body: &mut Bytes, login: &Login) -> Result<(), Failure> {
    let method = match body.big(4)? {
        0 => return Ok(()),
        3 if login.password.is_empty() => "a password, which --password gives",
        3 => return wire.send(&framed(Some(b'p'), &[login.password.as_bytes(), &[0]].concat())),
        5 => "a password by MD5: use `trust` or `password` in pg_hba.conf",
        10 => "a password by SCRAM: use `trust` or `password` in pg_hba.conf",
        _ => "GSSAPI, SSPI or the like: use `trust` or `password` in pg_hba.conf",
    };
    Err(Failure::Unsupported(format!("PostgreSQL asks for {method}")))
}

pub(super) fn ask(operation: &str, _: &str, _: &Login) -> Result<Question, String> {
    match operation.contains('\0') {
        true => Err("a statement has no byte 0".into()),
        false => Ok(framed(Some(b'Q'), &[operation.as_bytes(), &[0]].concat()).into()),
    }
}

pub(super) fn answer(wire: &mut Wire, _: &Question) -> Result<Reply, Failure> {
    let (mut rows, mut tag) = (None::<Vec<String>>, String::new());
    let mut error = None;
    loop {
        let (kind, body) = message(wire)?;
        match kind {
            b'T' => rows = Some(Vec::new()),
            b'D' => rows.get_or_insert_default().push(row(&mut Bytes(&body))?),
            b'C' => tag = Bytes(&body).text(),
            b'E' => {
                let found = Error::read(&body);
                wire.ends |= found.is_end;
                error = Some(found);
                if wire.ends {
                    break;
                }
            }
            b'Z' => break,
            b'I' | b'N' | b'S' | b'A' => {}
            b'G' | b'H' | b'W' => return Err(Failure::Unsupported("COPY".into())),
            _ => return Err(Failure::malformed("a message of an answer")),
        }
    }
    Ok(match error {
        None => Reply::Ok(rows.map_or(tag, |rows| rows.join("\n"))),
        Some(error) if error.is_unknown || error.is_end => Reply::Info(error.text),
        Some(error) => Reply::Fail(error.text),
    })
}

/// A row's columns, a tab between them; NULL is empty.
fn row(body: &mut Bytes) -> Result<String, Failure> {
    let mut columns = Vec::new();
    for _ in 0..body.big(2)? {
        const NULL: u64 = u32::MAX as u64;
        columns.push(match body.big(4)? {
            NULL => String::new(),
            length => String::from_utf8_lossy(body.take(length as usize)?).into_owned(),
        });
    }
    Ok(columns.join("\t"))
}

struct Error {
    text: String,
    /// True if the server ends the session.
    is_end: bool,
    /// True if the statement may have happened.
    is_unknown: bool,
}

impl Error {
    fn read(body: &[u8]) -> Self {
        let [mut severity, mut code, mut message] = [const { String::new() }; 3];
        let mut fields = Bytes(body);
        while let Ok(&[kind]) = fields.take(1) {
            match kind {
                b'V' => severity = fields.text(),
                b'S' if severity.is_empty() => severity = fields.text(),
                b'C' => code = fields.text(),
                b'M' => message = fields.text(),
                0 => break,
                _ => drop(fields.text()),
            }
        }
        let is_end = severity == "FATAL" || severity == "PANIC";
        // Class 08: the connection; statement_completion_unknown (appendix A, "Error Codes").
        let is_unknown = code.starts_with("08") || code == "40003";
        Self { text: format!("{severity} {code}: {message}"), is_end, is_unknown }
    }
}

fn message(wire: &mut Wire) -> Result<(u8, Vec<u8>), Failure> {
    let head = wire.bytes(5)?;
    let length = Bytes(&head[1..]).big(4)?;
    match length {
        4..=MAX_MESSAGE => Ok((head[0], wire.bytes(length as usize - 4)?)),
        _ => Err(Failure::malformed("a message's length")),
    }
}

fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [kind.as_slice(), &length, body].concat()
}
