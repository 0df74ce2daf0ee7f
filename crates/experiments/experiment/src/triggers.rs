//! Triggers of faults: events, not times, that make a fault begin.

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

/// The only word of `when`.
pub(crate) const ASKED: &str = "asked";

/// Limit on the length of a name by which a guest asks, and of an expression.
const MAX_WORDS: usize = 256;

/// The event that makes a fault begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A drive of a machine is given a command.
    Io {
        /// Name of the drive.
        drive: String,
        /// Number of the command, from 0 on.
        order: u64,
    },
    /// A network is given a frame.
    Packet {
        /// Name of the network.
        network: String,
        /// Number of the frame, from 0 on, since the commands' start.
        number: u64,
    },
    /// A command has written a line.
    Output {
        /// The machine whose command it is; any, if none is given.
        machine: Option<String>,
        /// Regular expression that the line matches.
        pattern: String,
    },
    /// A guest asks for it.
    Asked {
        /// The words by which it does, any of them.
        words: Vec<String>,
    },
}

/// The trigger of a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultTrigger {
    /// Number of the fault among the experiment's.
    pub number: u16,
    /// Event that it waits for.
    pub trigger: Trigger,
    /// Limit on how often it brings the fault about.
    pub times: u64,
}

/// `DRIVE:NUMBER`.
pub(crate) fn io(text: &str) -> Result<Trigger, String> {
    let Some((drive, order)) = drive_and_number(text) else {
        return Err(format!(
            "at-io is `{text}`, but must be a drive's name and a command's number, as `disk:1234`"
        ));
    };
    Ok(Trigger::Io { drive, order })
}

/// `NETWORK:NUMBER`.
pub(crate) fn packet(text: &str) -> Result<Trigger, String> {
    let Some((network, number)) = drive_and_number(text) else {
        return Err(format!(
            "at-packet is `{text}`, but must be a network's name and a frame's number, as `lan:99`"
        ));
    };
    Ok(Trigger::Packet { network, number })
}

/// The drive's name and the number of `DRIVE:NUMBER`.
pub fn drive_and_number(text: &str) -> Option<(String, u64)> {
    let (drive, number) = text.rsplit_once(':').filter(|(drive, _)| !drive.is_empty())?;
    Some((drive.to_owned(), number.parse().ok()?))
}

pub(crate) fn output(pattern: &str, machine: Option<String>) -> Result<Trigger, String> {
    check_pattern(pattern).map_err(|wrong| format!("at-output: {wrong}"))?;
    Ok(Trigger::Output { machine, pattern: pattern.into() })
}

/// Checks a regular expression for lines of output.
///
/// # Errors
/// Returns what is wrong with it, for a user.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() || pattern.len() > MAX_WORDS {
        return Err(format!(
            "the pattern has {} bytes, but must have 1 to {MAX_WORDS}",
            pattern.len()
        ));
    }
    if let Err(error) = Regex::new(pattern) {
        return Err(format!("`{pattern}` is no regular expression: {error}"));
    }
    Ok(())
}

/// The words by which a guest asks for a fault: its name, and its kind with what it befalls.
pub(crate) fn asked(
    name: Option<&str>,
    kind: &str,
    target: Option<&str>,
) -> Result<Trigger, String> {
    if let Some(name) = name {
        let plain = |each: char| each.is_ascii_alphanumeric() || "-_.".contains(each);
        if name.is_empty() || name.len() > MAX_WORDS || !name.chars().all(plain) {
            return Err(format!(
                "its name is `{name}`, but must be 1 to {MAX_WORDS} letters, digits, `-`, `_` and `.`"
            ));
        }
    }
    let described = target.map_or_else(|| kind.to_owned(), |target| format!("{kind} {target}"));
    let words = name.map(str::to_owned).into_iter().chain([described]).collect();
    Ok(Trigger::Asked { words })
}
