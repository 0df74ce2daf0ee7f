//! The verdicts of `scripts/conformance` on the endings of a suite's tests.

use std::path::{Path, PathBuf};
use std::process::Command;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts")
}

/// Exit status and output of the comparison.
fn compare(expected: &str, ended: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["expected", "ended"].map(|name| folder.path().join(name));
    std::fs::write(&a, expected).unwrap();
    std::fs::write(&b, ended).unwrap();
    let output = Command::new(scripts().join("conformance-compare")).arg(&a).arg(&b).output();
    let output = output.expect("awk, of Debian's mawk");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

const EXPECTED: &str = "# TEST\n\
    block/001\t*\tfailed\tno such thing\n\
    nvme/*\t6.1,6.5\tnot-run\tneeds fabrics\n\
    zbd/9\t6.12\tnever\thangs\n";

#[test]
fn tests_that_end_as_expected_are_right() {
    let ended =
        "kernel\t6.1.0-5-amd64\nblock/001\tfailed\tx\nnvme/7\tnot-run\ty\nzbd/1\tpassed\t\n";
    let (status, text) = compare(EXPECTED, ended);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("needs fabrics") && !text.contains("hangs"), "{text}");
    assert!(text.contains("1 passed, 2 not applicable, 0 not as expected"), "{text}");
}

#[test]
fn any_other_end_is_wrong() {
    for (ended, why) in [
        ("block/001\tpassed\t", "passes against the list"),
        ("block/001\tnot-run\tx", "is not even run"),
        ("block/002\tfailed\tx", "fails"),
        ("block/002\tnot-run\tx", "is not run"),
        ("", "nothing has ended"),
    ] {
        let (status, text) = compare(EXPECTED, &format!("kernel\t6.1.0\n{ended}\n"));
        assert_eq!(status, 1, "{why}: {text}");
        assert!(ended.is_empty() || text.contains("UNEXPECTED"), "{text}");
    }
    // A suite that ends in the midst of its tests.
    let (status, text) = compare(
        EXPECTED,
        "kernel\t6.1.0\nplanned\tblock/001\nplanned\tzbd/1\nblock/001\tfailed\tx\n",
    );
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("zbd/1") && text.contains("DID NOT END"), "{text}");
    // The list is for another kernel: 6.12 is not 6.1.
    let (status, text) = compare(EXPECTED, "kernel\t6.12.3\nnvme/7\tnot-run\ty\n");
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("hangs"), "{text}");
    let (status, text) = compare("block/001 * failed because\n", "kernel\t6.1\na\tpassed\t\n");
    assert_eq!(status, 2, "{text}");
    assert!(text.contains(":1: not"), "{text}");
}

const SUITES: [&str; 6] = ["blktests", "fio-zbd", "nvme-cli", "zonefs", "xnvme", "xfstests"];

/// Lists of suites on drives that are reached by NVMe/TCP or vfio-user, where other tests apply.
const SERVED: [&str; 3] = ["blktests-tcp", "blktests-vfio-user", "nvme-cli-tcp"];

/// A suite is named in the script's usage, has its three files, a variable of `make conformance`
/// and a row in the documents, and a folder that is not its own is refused with the missing file.
#[test]
fn every_suite_is_complete() {
    let text = |path: &str| std::fs::read_to_string(scripts().join(path)).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(scripts().join("conformance.d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut wanted: Vec<_> = SUITES
        .iter()
        .flat_map(|suite| ["expected", "sh", "toml"].map(|end| format!("{suite}.{end}")))
        .chain(SERVED.map(|suite| format!("{suite}.expected")))
        .collect();
    wanted.sort();
    assert_eq!(files, wanted);
    let (script, make) = (text("conformance"), text("../Makefile"));
    let document = text("../docs/development/conformance.md");
    let empty = tempfile::tempdir().unwrap();
    for suite in SUITES {
        assert!(script.contains(SUITES.join("|").as_str()), "the usage");
        assert!(make.contains(&format!("scripts/conformance {suite} \"$(")), "{suite}");
        assert!(document.contains(&format!("\n| `{suite}` |")), "{suite}");
        let mut script = Command::new(scripts().join("conformance"));
        let refused = script.arg(suite).arg(empty.path()).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{suite}: {error}");
        assert!(error.contains(" has no "), "{suite}: {error}");
    }
}

#[test]
fn every_list_can_be_read() {
    for suite in SUITES.into_iter().chain(SERVED) {
        let path = scripts().join(format!("conformance.d/{suite}.expected"));
        let (status, text) = compare(
            &std::fs::read_to_string(path).unwrap(),
            "kernel\t6.1.0\nno-such-test\tpassed\t\n",
        );
        assert_eq!(status, 0, "{suite}: {text}");
    }
}
