//! The README, the book and the pages beside them, as far as they can be checked without
//! running a guest: each command is one that the program takes, each TOML block is an
//! experiment, each link leads somewhere, each file that is named is there. The commands of
//! the README, the guides and of some pages are also run, by `tests/system/readme.rs`.

use crate::markdown;
use crate::pages;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use stasis_experiment::Experiment;

#[path = "documents/commands.rs"]
mod commands;
#[path = "documents/guides.rs"]
mod guides;

use crate::pages::root;

fn text_of(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// A page's path from the repository's folder.
fn name_of(page: &Path) -> String {
    page.strip_prefix(root()).unwrap_or(page).display().to_string()
}

fn fail_with(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_in_the_documents_is_one() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages::all() {
        for command in commands::of(&text_of(&page)) {
            // A synopsis has its own words.
            if command.contains('[') {
                continue;
            }
            let words = commands::words(&command);
            let Some((program, words)) = words.split_first() else { continue };
            if program != "stasis" {
                continue;
            }
            count += 1;
            // The program reads each word up to the one that asks for help.
            let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
            let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
                .args(&words[..own])
                .arg("--help")
                .output()
                .unwrap();
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                wrong.push(format!("{}: `{command}`: {error}", name_of(&page)));
            }
        }
    }
    fail_with(&wrong);
    assert!(count > 30, "{count} commands");
}

#[test]
fn every_toml_block_is_an_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("experiment.toml");
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages::all() {
        for block in markdown::blocks(&text_of(&page), "toml") {
            for experiment in markdown::experiments(&block) {
                count += 1;
                std::fs::write(&file, &experiment).unwrap();
                if let Err(error) = Experiment::read(&file) {
                    wrong.push(format!("{}: {error}\n{experiment}", name_of(&page)));
                }
            }
        }
    }
    fail_with(&wrong);
    assert!(count >= 10, "{count} experiments");
}

#[test]
fn every_block_of_a_guide_is_tried_or_listed() {
    let mut used: BTreeSet<&guides::Listed> = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for (name, page) in guides::pages() {
        let text = text_of(&page);
        let blocks = guides::blocks(&text);
        let trials = guides::trials(&name, &blocks, &root());
        for (block, trial) in blocks.iter().zip(trials) {
            tried += usize::from(trial.is_some());
            let commands = commands::of(&format!("```sh\n{}```\n", block.text));
            let texts = match trial {
                Some(guides::Trial::Run) => commands,
                _ => vec![block.text.clone()],
            };
            let listed: Vec<_> =
                texts.iter().filter_map(|text| guides::listed(&name, text)).collect();
            if let Some(guides::Trial::Part(path)) = &trial {
                if !text_of(&root().join(path)).contains(&block.text) {
                    wrong.push(format!("{name}: {path} has no such part:\n{}", block.text));
                }
            }
            if trial.is_none() && listed.is_empty() {
                wrong.push(format!("{name}: no test tries this block:\n{}", block.text));
            }
            used.extend(listed);
        }
        names.insert(name);
    }
    for page in pages::all() {
        let commands = commands::of(&text_of(&page)).into_iter();
        used.extend(commands.filter_map(|command| guides::listed(&name_of(&page), &command)));
    }
    let unused = guides::LISTED.iter().filter(|entry| !used.contains(entry));
    wrong.extend(
        unused.map(|(page, begin, _)| format!("{page}: `{begin}` is listed, and not there")),
    );
    let known = guides::SLOW.iter().chain(guides::APART).filter(|(name, _)| !names.contains(*name));
    wrong.extend(known.map(|(name, _)| format!("there is no page {name}")));
    fail_with(&wrong);
    assert!(tried > 150, "{tried} blocks");
}

#[test]
fn a_line_is_printed_with_any_figures_and_no_other_words() {
    let printed = "drive0  read  124  46.1 µs  61.2 µs  –\n(gdb) watch x\nin submit_bio ()";
    let is_printed = |line| guides::is_printed(line, printed);
    for line in ["drive0  read  97  45 µs  –  –", "drive0 … 1 ms –", "(gdb) watch x"] {
        assert!(is_printed(line), "{line}");
    }
    for line in ["drive0  write  97  45 µs  –  –", "drive0  read  in", "Breakpoint 1, x"] {
        assert!(!is_printed(line), "{line}");
    }
}

/// The guide's domain for libvirt has the device of its command line, in memory that is shared. Where
/// libvirt's schemas and xmllint are installed, it is valid by them.
#[test]
fn the_domain_for_libvirt_is_one() {
    let page = text_of(&root().join("docs/guides/vfio-user.md"));
    let domains = markdown::blocks(&page, "xml");
    let [domain] = &domains[..] else { panic!("{} domains", domains.len()) };
    let device = page.split("-device '").nth(1).unwrap().split('\'').next().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(device).is_ok(), "{device}");
    for part in [
        r#"xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0""#,
        r#"<source type="memfd"/>"#,
        r#"<access mode="shared"/>"#,
        &format!("<qemu:arg value=\"-device\"/>\n    <qemu:arg value='{device}'/>"),
    ] {
        assert!(domain.contains(part), "there is no {part}");
    }
    // Each element that is opened is closed, in its order.
    let mut open = Vec::new();
    for tag in domain.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let schemas = std::env::var("STASIS_LIBVIRT_SCHEMAS");
    let schema = schemas.unwrap_or("/usr/share/libvirt/schemas".into()) + "/domain.rng";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("domain.xml");
    std::fs::write(&file, domain).unwrap();
    let mut xmllint = Command::new("xmllint");
    xmllint.args(["--noout", "--relaxng", &schema]).arg(&file);
    match xmllint.output().ok().filter(|_| Path::new(&schema).exists()) {
        None => eprintln!("not validated: libvirt's schemas or xmllint are not installed"),
        Some(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn the_command_line_page_has_every_command_and_option() {
    let page = text_of(&root().join("docs/reference/command-line.md"));
    let mut wrong = Vec::new();
    let mut commands = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let help = Command::new(env!("CARGO_BIN_EXE_stasis")).args(&command).arg("--help").output();
        let help = String::from_utf8(help.unwrap().stdout).unwrap();
        let of_help = |start: &str| {
            let lines = help.lines().skip_while(move |line| *line != start).skip(1);
            lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        for line in of_help("Commands:").iter().filter(|line| !line.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap().to_owned();
            if name != "help" {
                commands.push(command.iter().cloned().chain([name]).collect());
            }
        }
        if command.is_empty() {
            continue;
        }
        let name = format!("stasis {}", command.join(" "));
        let title = format!("# `{name}`\n");
        let Some((_, section)) = page.split_once(&title) else {
            wrong.push(format!("no section `{name}`"));
            continue;
        };
        let section = section.split("\n#").next().unwrap();
        let options = help.lines().skip_while(|line| *line != "Options:").skip(1);
        // Text with examples follows the options.
        let options = options.take_while(|line| line.is_empty() || line.starts_with(' '));
        for line in options {
            let line = line.trim_start();
            let line = if line.starts_with('-') { line } else { continue };
            let option = line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--"));
            let Some(option) = option else { continue };
            let of_all = ["--quiet", "--json", "--help", "--version"].contains(&option);
            if !of_all
                && !section.contains(&format!("{option} "))
                && !section.contains(&format!("{option}`"))
                && !section.contains(&format!("{option}["))
            {
                wrong.push(format!("`{name}` has the option {option}, its section has not"));
            }
        }
    }
    fail_with(&wrong);
}

#[test]
fn every_rust_block_is_a_file_that_is_compiled() {
    let sources = pages::below(&root().join("crates"), "rs");
    let sources: BTreeSet<_> = sources.iter().map(|path| text_of(path)).collect();
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages::of_the_book() {
        for block in markdown::blocks(&text_of(&page), "rust") {
            count += 1;
            if !sources.contains(&block) {
                let first = block.lines().next().unwrap_or_default();
                wrong.push(format!("{}: no file has the block `{first}`", name_of(&page)));
            }
        }
    }
    fail_with(&wrong);
    assert!(count >= 5, "{count} blocks");
}

#[test]
fn every_link_leads_somewhere() {
    let book = root().join("docs");
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages::all() {
        let text = text_of(&page);
        for target in markdown::links(&text) {
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let to = if path.is_empty() { page.clone() } else { joined(&page, path) };
            let mut say =
                |mistake: &str| wrong.push(format!("{}: {target}: {mistake}", name_of(&page)));
            if !to.exists() {
                say("there is no such file");
            } else if page.starts_with(&book) && !to.starts_with(&book) {
                // mdBook builds what is in the book's folder.
                say("is not in the book: name the file in backticks");
            } else if !heading.is_empty()
                && !markdown::headings(&text_of(&to)).contains(&heading.to_owned())
            {
                say("there is no such heading");
            }
        }
    }
    fail_with(&wrong);
    assert!(count > 60, "{count} links");
}

/// Returns the target of a link of `page` to `path`, without `..`.
fn joined(page: &Path, path: &str) -> PathBuf {
    let mut to = page.parent().unwrap().to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(to.pop()),
            part => to.push(part),
        }
    }
    to
}

#[test]
fn the_contents_list_every_page_once() {
    let book = root().join("docs");
    let contents = book.join("SUMMARY.md");
    let listed = markdown::links(&text_of(&contents));
    let once: BTreeSet<_> = listed.iter().map(|target| joined(&contents, target)).collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let pages = pages::of_the_book().into_iter().filter(|page| *page != contents);
    assert_eq!(once, pages.collect());
}

#[test]
fn pages_that_the_sources_name_are_there() {
    let mut sources: Vec<_> =
        [("crates", "rs"), ("crates", "toml"), ("examples", "toml"), ("python", "py")]
            .iter()
            .flat_map(|(folder, extension)| pages::below(&root().join(folder), extension))
            .collect();
    let scripts = std::fs::read_dir(root().join("scripts")).unwrap();
    sources.extend(scripts.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    sources.push(root().join("Makefile"));
    let mut count = 0;
    let mut wrong = Vec::new();
    for source in &sources {
        for rest in text_of(source).split("docs/").skip(1) {
            let is_of_a_path = |c: char| c.is_ascii_lowercase() || "-/".contains(c);
            let end = rest.find(|c| !is_of_a_path(c)).unwrap_or(rest.len());
            if !rest[end..].starts_with(".md") {
                continue;
            }
            count += 1;
            let page = format!("docs/{}.md", &rest[..end]);
            if !root().join(&page).exists() {
                wrong.push(format!("{}: {page}", name_of(source)));
            }
        }
    }
    fail_with(&wrong);
    assert!(count > 20, "{count} names");
}

#[test]
fn files_that_the_documents_name_are_there() {
    let begins = ["crates/", "docs/", "examples/", "scripts/"];
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages::all() {
        // History keeps the names of its time.
        if page.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = text_of(&page);
        let in_commands = commands::of(&text).into_iter().flat_map(|text| commands::words(&text));
        for word in markdown::code(&text).into_iter().chain(in_commands) {
            let word = word.split([' ', ':']).next().unwrap_or_default();
            let is_one = begins.iter().any(|begin| word.starts_with(begin));
            if !is_one || word.contains(['*', '<']) || word.contains("results") {
                continue;
            }
            count += 1;
            if !root().join(word).exists() {
                wrong.push(format!("{}: {word}", name_of(&page)));
            }
        }
    }
    fail_with(&wrong);
    assert!(count > 30, "{count} names");
}

/// Installers, and the names of others' packages that our documents install with them.
const OTHERS: &[(&str, &[&str])] = &[
    ("pip install ", &["hatchling"]),
    ("pipx install ", &[]),
    ("uvx --from ", &[]),
    ("uv pip install ", &[]),
    ("cargo install ", &["cargo-deb", "cargo-deny", "cargo-fuzz", "mdbook"]),
];

/// The names given to the installer that stands in front of `rest`, without options and their
/// values.
fn installed(rest: &str) -> Vec<String> {
    let with_value = ["--find-links", "--target", "--version", "--python"];
    let mut names = Vec::new();
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        let ends =
            word.ends_with(['`', '.', ';', ')', ',']) || word.starts_with(['&', '|', '#', ';']);
        if with_value.contains(&word) {
            if words.next().is_none_or(|value| value.contains('`')) {
                break;
            }
        } else if word.starts_with(|c: char| c.is_alphanumeric() || "'\"./$".contains(c)) {
            let quotes = ['\'', '"', '`', '.', ';', ')', ','];
            let bare = word.trim_end_matches(quotes).trim_start_matches(['\'', '"']);
            names.push(bare.to_owned());
            // Prose continues behind it.
            break;
        }
        if ends {
            break;
        }
    }
    names
}

#[test]
fn no_package_is_advised_that_is_not_ours() {
    let extensions = ["md", "rs", "py", "toml", "ipynb", "yml"];
    let mut files: Vec<_> = ["crates", "docs", "examples", "python", "packaging"]
        .iter()
        .flat_map(|folder| extensions.map(|end| pages::below(&root().join(folder), end)).concat())
        .collect();
    files.extend(pages::all());
    for folder in ["scripts", "scripts/package.d", "scripts/test-on.d", ".github/workflows"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    }
    files.push(root().join("python/README.md"));
    files.push(root().join("Makefile"));
    let (mut count, mut wrong) = (0, Vec::new());
    // This file has the words themselves.
    for file in files.iter().filter(|file| !file.ends_with("tests/documents.rs")) {
        let text = text_of(file);
        // PyPI's `stasis` is another project; with an extra it can only be meant as ours.
        if text.contains("stasis[study") {
            wrong.push(format!("{}: names `stasis[study]`", name_of(file)));
        }
        for line in text.lines() {
            for (installer, others) in OTHERS {
                for rest in line.split(installer).skip(1) {
                    for name in installed(rest) {
                        count += 1;
                        let is_path = name.starts_with(['.', '/', '$']) || name.ends_with(".whl");
                        let package = name.split(['[', '=', '@']).next().unwrap();
                        if !is_path && package != "stasis-vm" && !others.contains(&package) {
                            wrong.push(format!("{}: {installer}{name}", name_of(file)));
                        }
                    }
                }
            }
        }
    }
    fail_with(&wrong);
    assert!(count >= 10, "{count} installations");
    let project = text_of(&root().join("python/pyproject.toml"));
    assert!(project.contains("\nname = \"stasis-vm\"\n"), "pip's name of the package");
}

/// Names of tests in the sources: functions, whatever runs them.
fn names_of_tests() -> BTreeSet<String> {
    let sources = [("crates", "rs"), ("python", "py")];
    let sources = sources.iter().flat_map(|(folder, end)| pages::below(&root().join(folder), end));
    let mut names = BTreeSet::new();
    for path in sources {
        for line in text_of(&path).lines() {
            let line = line.trim_start();
            let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "));
            let name = name.and_then(|rest| rest.split('(').next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

#[test]
fn each_promise_names_tests_that_are_there() {
    let page = text_of(&root().join("docs/explanation/trust.md"));
    let names = names_of_tests();
    let (mut rows, mut wrong) = (0, Vec::new());
    for row in page.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<_> = row.split(" | ").collect();
        let words = cells[1].split('`').skip(1).step_by(2);
        // A name of a test is a sentence; other code in a row is a file, a field or a command.
        let tests: Vec<_> = words.filter(|word| word.matches('_').count() >= 2).collect();
        wrong.extend(
            tests
                .iter()
                .filter(|name| !names.contains(**name))
                .map(|name| format!("{name}: no test has this name")),
        );
        if tests.is_empty() && !cells[1].starts_with("the same test") {
            wrong.push(format!("{}: no test is named", cells[0]));
        }
        rows += 1;
    }
    fail_with(&wrong);
    assert!(rows >= 10, "{rows} promises");
}

/// The required fields of Grafana's published schema of panels (Foundation SDK 0.0.22, `common`:
/// `VizLegendOptions` and `VizTooltipOptions`); an import of a file without them may hide legends.
#[test]
fn the_dashboard_s_panels_have_what_grafana_s_schema_requires() {
    let text = include_str!("../../../../packaging/grafana/stasis.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] == "timeseries") {
        let (legend, tooltip) = (&panel["options"]["legend"], &panel["options"]["tooltip"]);
        assert!(legend["showLegend"].is_boolean() && legend["calcs"].is_array(), "{panel:#}");
        assert!(legend["displayMode"].is_string() && legend["placement"].is_string());
        assert!(tooltip["mode"].is_string() && tooltip["sort"].is_string(), "{panel:#}");
    }
}
