//! The examples of the program's help.

use std::process::Command;

fn help(words: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stasis")).args(words).arg("--help").output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// The lines below one that `is_title`, up to an empty one.
fn section(help: &str, is_title: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !is_title(line)).skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Each command, by its words behind `stasis`, with its examples, whose continued lines are joined.
pub fn examples() -> Vec<(Vec<String>, Vec<String>)> {
    let mut all = Vec::new();
    let mut commands = vec![Vec::new()];
    while let Some(words) = commands.pop() {
        let help = help(&words);
        let mut examples: Vec<String> = Vec::new();
        for line in section(&help, |line| line == "Examples:" || line == "Example:") {
            match examples.last_mut().filter(|last| last.ends_with('\\')) {
                Some(last) => {
                    last.truncate(last.len() - 1);
                    last.push_str(line.trim());
                }
                None => examples.push(line.trim().to_owned()),
            }
        }
        for line in section(&help, |line| line == "Commands:") {
            let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
            let name = name.and_then(|line| line.split_whitespace().next());
            if let Some(name) = name.filter(|name| *name != "help") {
                commands.push([&words[..], &[name.to_owned()]].concat());
            }
        }
        all.push((words, examples));
    }
    all
}
