//! Lines: one is sent, with `\n` and the like in it, and one comes back.

use super::protocol::{Login, Question, Reply};
use super::wire::{Failure, Wire};
use super::words::unescape;

/// Reads the lines with which the server begins.
pub(super) fn greet(wire: &mut Wire, login: &Login) -> Result<(), Failure> {
    (0..login.greeting).try_for_each(|_| wire.line().map(drop))
}

pub(super) fn ask(operation: &str, _: &str, _: &Login) -> Result<Question, String> {
    Ok(format!("{}\n", unescape(operation)).into_bytes().into())
}

pub(super) fn answer(wire: &mut Wire, _: &Question) -> Result<Reply, Failure> {
    Ok(Reply::Ok(String::from_utf8_lossy(&wire.line()?).into_owned()))
}
