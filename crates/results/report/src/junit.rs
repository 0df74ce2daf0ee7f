//! Results as JUnit's XML, which continuous integration shows test by test.

use std::path::Path;

use crate::escape::escape;
use stasis_results::files::write_whole;
use stasis_results::ResultsError;

/// A test that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The fault, in a line.
    pub message: String,
    /// The rest, in lines.
    pub text: String,
}

/// A test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The group that it is of, as a Java class: parts with dots between them.
    pub class: String,
    /// Its name in the group.
    pub name: String,
    /// None where it passed.
    pub failure: Option<Failure>,
    /// Output for a reader; may be empty.
    pub output: String,
}

/// Tests with one name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// Its duration.
    pub seconds: f64,
    /// Why it did not get to its end, where it did not: then no count of its tests is final.
    pub error: Option<String>,
    /// Its tests.
    pub cases: Vec<Case>,
}

impl Suite {
    /// The suite as a file's text.
    pub fn to_xml(&self) -> String {
        let failures = self.cases.iter().filter(|case| case.failure.is_some()).count();
        let errors = usize::from(self.error.is_some());
        let (name, tests) = (escape(&self.name), self.cases.len() + errors);
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
        let counts = format!("{counts} time=\"{:.3}\"", self.seconds);
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n<testsuite name=\"{name}\" {counts}>\n"
        );
        for case in &self.cases {
            let (class, name) = (escape(&case.class), escape(&case.name));
            out.push_str(&format!("<testcase classname=\"{class}\" name=\"{name}\">\n"));
            if let Some(Failure { message, text }) = &case.failure {
                let (message, text) = (attribute(message), escape(text));
                out.push_str(&format!("<failure message=\"{message}\">{text}</failure>\n"));
            }
            if !case.output.is_empty() {
                out.push_str(&format!("<system-out>{}</system-out>\n", escape(&case.output)));
            }
            out.push_str("</testcase>\n");
        }
        if let Some(why) = &self.error {
            let why = attribute(why);
            out.push_str(&format!("<testcase classname=\"{name}\" name=\"the whole\">\n"));
            out.push_str(&format!("<error message=\"{why}\"/>\n</testcase>\n"));
        }
        out.push_str("</testsuite>\n</testsuites>\n");
        out
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ResultsError> {
        write_whole(path, self.to_xml().as_bytes())
    }
}

/// A text as an attribute, in one line.
fn attribute(text: &str) -> String {
    escape(&text.trim_end().replace(['\n', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_pass_fail_or_were_not_all_done() {
        let case = |name: &str, failure| Case {
            class: "a.b".into(),
            name: name.into(),
            failure,
            output: "<1>".into(),
        };
        let failure = Failure { message: "\"x\" & y\nz".into(), text: "line\n\u{1b}[31m".into() };
        let cases = vec![case("good", None), case("bad", Some(failure))];
        let error = Some("interrupted".to_owned());
        let suite = Suite { name: "s<".into(), seconds: 1.5, error, cases };
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites tests=\"3\" failures=\"1\" errors=\"1\" time=\"1.500\">
<testsuite name=\"s&lt;\" tests=\"3\" failures=\"1\" errors=\"1\" time=\"1.500\">
<testcase classname=\"a.b\" name=\"good\">
<system-out>&lt;1&gt;</system-out>
</testcase>
<testcase classname=\"a.b\" name=\"bad\">
<failure message=\"&quot;x&quot; &amp; y z\">line
\u{fffd}[31m</failure>
<system-out>&lt;1&gt;</system-out>
</testcase>
<testcase classname=\"s&lt;\" name=\"the whole\">
<error message=\"interrupted\"/>
</testcase>
</testsuite>
</testsuites>
";
        assert_eq!(suite.to_xml(), expected);
    }
}
