//! The guide to a bug in a kernel, as a reader follows it: its files, its commands, its words to gdb.

use std::process::{Command, Stdio};

use crate::readme::{commands, markdown};
use crate::support::{Bench, Finished};

/// The page.
const PAGE: &str = include_str!("../../../../../docs/guides/kernel-bug.md");

/// The block below the line that ends with this name.
fn named<'a>(name: &str) -> &'a str {
    let heading = format!("`{name}`");
    let (_, after) = PAGE.split_once(&format!("{heading}:\n\n```")).unwrap_or_else(|| {
        let (_, after) = PAGE.split_once(&format!("{heading}, ")).expect("the file is on the page");
        after.split_once("\n\n```").expect("a block follows")
    });
    let (_, block) = after.split_once('\n').unwrap();
    block.split_once("```").unwrap().0
}

fn shell(bench: &Bench, line: &str, input: Stdio) -> Finished {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.env("PATH", &path).current_dir(bench.path(".")).stdin(input);
    bench.mark(command.args(["-e", "-c", line]));
    bench.finish(command)
}

/// The planted bug is found by the crash test, led back to its line by gdb, and gone once it is
/// corrected as the page says.
#[test]
#[ignore = "builds a module and runs crash tests: make slow-test"]
fn the_guide_to_a_kernels_bug_finds_it() {
    let headers = "ls -d /usr/src/linux-headers-*-cloud-amd64";
    if !Command::new("sh").args(["-c", headers]).output().unwrap().status.success() {
        eprintln!("skipped: no headers of the guest's kernel (linux-headers-cloud-amd64)");
        return;
    }
    let bench = Bench::new();
    for name in ["ledger.c", "Makefile", "work.sh", "check.sh", "ledger.toml"] {
        std::fs::write(bench.path(name), named(name)).unwrap();
    }
    let (mut symbols, mut tests) = (String::new(), 0);
    for line in commands::of(PAGE) {
        if line.starts_with("stasis debug ") {
            let output = converse(&bench, &line, &symbols);
            let (place, source) = ("ledger.c:40", "40\t\tindex->count++;");
            assert!(PAGE.contains(place) && PAGE.contains(source), "the page has another line");
            assert!(output.contains(place) && output.contains(source), "{output}");
            assert!(
                output.contains("Old value = 5") && output.contains("New value = 4"),
                "{output}"
            );
            continue;
        }
        let run = shell(&bench, &line, Stdio::null());
        // The first crash test finds something.
        let finds = line.starts_with("stasis crash-test ") && tests == 0;
        tests += usize::from(line.starts_with("stasis crash-test "));
        let (status, output) = (run.status, format!("{}{}", run.stdout, run.stderr));
        assert_eq!(status, Some(finds.into()), "`{line}`: {output}");
        if finds {
            assert!(output.contains("and block 1 has no entry"), "{output}");
        }
        let add_symbols = run.stdout.lines().find(|line| line.starts_with("add-symbol-file "));
        symbols = add_symbols.map_or(symbols, str::to_owned);
    }
    assert_eq!(tests, 2);
}

/// The page's words to gdb, with the module's place as this run has it; the answers.
fn converse(bench: &Bench, line: &str, symbols: &str) -> String {
    assert!(!symbols.is_empty(), "the run does not tell where the module is");
    let block = markdown::blocks(PAGE, "text");
    let block = block.iter().find(|block| block.contains("(gdb) ")).unwrap();
    let words = block.lines().filter_map(|line| line.strip_prefix("(gdb) "));
    let words: Vec<&str> = words
        .map(|word| if word.starts_with("add-symbol-file") { symbols } else { word })
        .collect();
    let script = bench.path("words.gdb");
    std::fs::write(&script, format!("set pagination off\n{}\n", words.join("\n"))).unwrap();
    let run = shell(bench, line, Stdio::from(std::fs::File::open(&script).unwrap()));
    format!("{}{}", run.stdout, run.stderr)
}
