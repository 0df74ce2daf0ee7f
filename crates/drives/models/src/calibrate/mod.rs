//! Profiles from the output of fio or blkparse of a real drive.
//!
//! Both functions are pure: they take the text, and give the profile or an
//! error that names the place in the text.

mod blkparse;
mod error;
mod fio;
mod shape;

pub use blkparse::from_blkparse;
pub use error::CalibrateError;
pub use fio::from_fio;

use crate::profile::Profile;

/// Forms in which the measuring programs write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// fio's JSON.
    Fio,
    /// fio's usual text.
    FioText,
    /// fio's terse lines.
    FioTerse,
    /// Anything else: blkparse's text.
    Blkparse,
}

impl Form {
    /// The form of a text. No line of blkparse's is a brace alone, or begins with fio's words.
    pub fn of(text: &str) -> Self {
        if text.trim_start().starts_with('{') || text.lines().any(|line| line.trim_end() == "{") {
            return Self::Fio;
        }
        let terse =
            |line: &str| line.split(';').nth(1).is_some_and(|word| word.starts_with("fio-"));
        if text.lines().any(terse) {
            return Self::FioTerse;
        }
        let usual = |line: &str| {
            line.starts_with("fio-") || line.contains("(groupid=") || line.contains(": (g=")
        };
        if text.lines().any(usual) {
            return Self::FioText;
        }
        Self::Blkparse
    }
}

/// Makes a profile of the output of fio or blkparse.
///
/// # Errors
/// [`CalibrateError`], with the place, or a form that does not hold the distribution.
pub fn from_text(text: &str) -> Result<Profile, CalibrateError> {
    match Form::of(text) {
        Form::Fio => from_fio(text),
        Form::FioText => Err(CalibrateError::Form { form: "usual text" }),
        Form::FioTerse => Err(CalibrateError::Form { form: "terse output" }),
        Form::Blkparse => from_blkparse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_told_by_the_text() {
        for (text, form) in [
            ("{\n  \"fio version\" : \"fio-3.33\"\n}", Form::Fio),
            ("fio: this is a warning\n{\n  \"jobs\" : []\n}", Form::Fio),
            (
                "a: (g=0): rw=read, bs=(R) 4096B-4096B\nfio-3.33\nStarting 1 process\n",
                Form::FioText,
            ),
            ("3;fio-3.33;w;0;0;0;0", Form::FioTerse),
            ("  8,0 3 1 0.000000000 697 G W 223490 + 8 [kjournald]\n", Form::Blkparse),
        ] {
            assert_eq!(Form::of(text), form, "{text}");
        }
        let error = from_text("a: (g=0): rw=read\n").unwrap_err().to_string();
        assert!(error.contains("fio's usual text") && error.contains("json+"), "{error}");
    }
}
