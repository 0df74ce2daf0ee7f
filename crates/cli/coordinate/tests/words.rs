//! The words of `stasis-coordinate`, as far as no guest is needed.

#[path = "../../stasis/tests/call/mod.rs"]
mod call;

use std::process::Output;

const PROGRAM: &str = env!("CARGO_BIN_EXE_stasis-coordinate");

fn call(words: &[&str]) -> Output {
    call::call(PROGRAM, words)
}

fn failure(words: &[&str], status: i32) -> String {
    call::failure(PROGRAM, words, status)
}

#[test]
fn guests_that_cannot_be_coordinated_are_told() {
    let host = |words: &[&str], status| failure(&[&["host"], words].concat(), status);
    assert!(host(&["/run/guest.help"], 2).contains("SOCKET=CGROUP"));
    assert!(host(&["a=b", "--weight", "1001"], 2).contains("from 1 to 1000"));
    assert!(host(&["a=b", "--help-share", "1.1"], 2).contains("from 0 to 1"));
    assert!(host(&["a=b", "--help-burst", "60"], 2).contains("60"));
    assert!(host(&["a=b", "--drive", "none0"], 125).contains("there is no drive none0"));
    let folder = tempfile::tempdir().unwrap();
    let cgroup = folder.path().to_str().unwrap();
    let error = host(&[&format!("a={cgroup}"), "--dry-run"], 125);
    assert!(error.contains(&format!("{cgroup} is no cgroup")), "{error}");
    let guest = ["guest", "--port", "no.such.port"];
    let error = failure(&guest, 125);
    assert!(error.contains("virtserialport") && error.contains("no.such.port"), "{error}");
    assert!(failure(&["guest", "--heartbeat", "1ms"], 125).contains("10ms to 3s"));
}

#[test]
fn its_help_and_version_are_those_of_the_command() {
    let text = |words: &[&str]| String::from_utf8(call(words).stdout).unwrap();
    assert!(text(&["host", "--help"]).contains("Usage: stasis coordinate host [OPTIONS]"));
    assert!(text(&["--version"]).starts_with("stasis-coordinate "), "{}", text(&["--version"]));
    let json = call(&["host", "--json"]);
    assert_eq!(json.status.code(), Some(2));
    assert!(String::from_utf8(json.stdout).unwrap().contains("\"code\": \"usage\""));
}
