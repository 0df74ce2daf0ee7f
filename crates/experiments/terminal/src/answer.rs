//! Results for programs: with `--json`, a command prints one JSON document on its standard output,
//! and nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{json, Value};
use stasis_runner::failure::{self, Code};
use stasis_runner::Results;

use crate::print;

static IS_JSON: AtomicBool = AtomicBool::new(false);
/// True once the command has printed a document of its own form.
static IS_PRINTED: AtomicBool = AtomicBool::new(false);
/// The fields of the command's document.
static FIELDS: Mutex<BTreeMap<String, Value>> = Mutex::new(BTreeMap::new());

/// Results are printed as JSON from now on.
pub fn as_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Returns whether results are printed as JSON.
pub fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Prints a text for people, in place of which a program gets the fields.
///
/// # Errors
/// If the standard output cannot be written.
pub fn text(text: &str) -> Result<()> {
    match is_json() {
        true => Ok(()),
        false => print(text),
    }
}

/// Prints a document of the command's own form.
///
/// # Errors
/// If the standard output cannot be written.
pub fn document(json: &str) -> Result<()> {
    IS_PRINTED.store(true, Ordering::Relaxed);
    print(json)
}

/// Sets a field of the command's document.
///
/// # Errors
/// If the value has no form in JSON.
pub fn put(name: &str, value: &impl Serialize) -> Result<()> {
    if is_json() {
        let value = serde_json::to_value(value).context("cannot write the result as JSON")?;
        fields().insert(name.to_owned(), value);
    }
    Ok(())
}

/// A list of the command's document, which is there without an entry as well.
pub fn list(name: &str) {
    if is_json() {
        fields().insert(name.to_owned(), Value::Array(Vec::new()));
    }
}

/// Appends to a list of the command's document.
///
/// # Errors
/// If the value has no form in JSON.
pub fn push(name: &str, value: &impl Serialize) -> Result<()> {
    if is_json() {
        let value = serde_json::to_value(value).context("cannot write the result as JSON")?;
        let mut fields = fields();
        let list = fields.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(value);
        }
    }
    Ok(())
}

/// The fields of a run that has ended.
pub fn of_run(run: &Results) -> Value {
    json!({
        "results": run.folder,
        "status": run.status,
        "message": run.message,
        "summary": run.summary,
    })
}

/// Prints the document of a command that has ended with this status.
///
/// # Errors
/// If the standard output cannot be written.
pub fn finish(status: u8) -> Result<()> {
    if !is_json() || IS_PRINTED.load(Ordering::Relaxed) {
        return Ok(());
    }
    put("status", &status)?;
    print(&format!("{:#}\n", json!(std::mem::take(&mut *fields()))))
}

/// Prints the document of a command that has failed; its message for people is on the standard
/// error.
pub fn fail(code: Code, message: &str, status: u8) {
    if is_json() {
        // There is nobody to be told where this fails.
        let _ = print(&format!(
            "{:#}\n",
            json!({ "status": status, "error": failure::document(code, message) })
        ));
    }
}

fn fields() -> MutexGuard<'static, BTreeMap<String, Value>> {
    FIELDS.lock().unwrap_or_else(PoisonError::into_inner)
}
