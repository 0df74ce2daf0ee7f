//! Calls of a program that need no guest.

use std::process::{Command, Output, Stdio};

/// The output of a call without input.
pub fn call(program: &str, words: &[&str]) -> Output {
    Command::new(program).args(words).stdin(Stdio::null()).output().unwrap()
}

/// The message of a call that must fail with `status`.
pub fn failure(program: &str, words: &[&str], status: i32) -> String {
    let output = call(program, words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
    assert!(output.stdout.is_empty() && !error.contains("panicked"), "{words:?}: {error}");
    error
}
