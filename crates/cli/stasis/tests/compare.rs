//! `stasis compare` on simulations.

use std::path::Path;
use std::process::{Command, Output};

fn stasis(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stasis")).args(words).current_dir(folder).output().unwrap()
}

fn simulate(folder: &Path, model: &str, results: &str, seeds: &str) {
    let job = "[r]\nrw=randread\nbs=4k\nsize=64m\nnumber_ios=3000\n";
    std::fs::write(folder.join("job.fio"), job).unwrap();
    let words = ["sim", model, "--workload", "job.fio", "--seed", seeds, "--results", results];
    let output = stasis(folder, &[&words[..], &["--size", "1GiB"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_slower_drive_is_found_and_the_same_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "uniform:80us-120us", "before", "1-4");
    simulate(folder, "uniform:80us-120us", "again", "5-8");
    simulate(folder, "uniform:90us-130us", "slower", "1-4");

    let same = stasis(folder, &["compare", "before", "again", "--fail-above", "5%"]);
    assert_eq!(same.status.code(), Some(0), "{}", String::from_utf8_lossy(&same.stderr));
    let words = ["compare", "before", "slower", "--fail-above", "5%", "--junit", "tests.xml"];
    let slower = stasis(folder, &words);
    assert_eq!(slower.status.code(), Some(1), "{}", String::from_utf8_lossy(&slower.stderr));
    let table = String::from_utf8(slower.stdout).unwrap();
    assert!(table.contains("p99") && table.contains("slower"), "{table}");

    // The tests that fail are those of the exit status: the time, each latency, and no rate.
    let tests = std::fs::read_to_string(folder.join("tests.xml")).unwrap();
    let failed = tests.matches("<failure ").count();
    assert!(failed >= 3 && tests.contains(&format!(" failures=\"{failed}\"")), "{tests}");
    assert!(
        tests.contains("<testcase classname=\"slower.drive0.read\" name=\"p99\">\n<failure "),
        "{tests}"
    );
    assert!(tests.contains("name=\"IOPS\">\n<system-out>"), "{tests}");

    // Ten in a hundred: not by more than a quarter.
    let words =
        ["compare", "before", "slower", "--fail-above", "25", "--quiet", "--junit", "tests.xml"];
    let bound = stasis(folder, &words);
    assert_eq!(bound.status.code(), Some(0));
    let tests = std::fs::read_to_string(folder.join("tests.xml")).unwrap();
    assert!(tests.contains(" failures=\"0\"") && !tests.contains("<failure"), "{tests}");
    let json = std::fs::read(folder.join("comparison/comparison.json")).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let differences = written["differences"].as_array().unwrap();
    let mean = differences.iter().find(|one| one["statistic"] == "mean").unwrap();
    assert!((9.0..11.0).contains(&mean["percent"].as_f64().unwrap()), "{mean}");
    let page = std::fs::read_to_string(folder.join("comparison/comparison.html")).unwrap();
    assert!(page.contains("in 4 runs") && page.contains("Upper tail"));
    // The version that made it, as on other pages.
    let version = format!("<dt>Stasis</dt><dd>{}</dd>", env!("CARGO_PKG_VERSION"));
    assert!(page.contains("Where this comes from") && page.contains(&version), "{version}");
}

/// The commands of a comparison's page, in an empty folder with the load alone: those of the runs make what
/// the comparison's own reads. A seed stands where one was given.
#[test]
fn a_comparisons_page_makes_it_again_from_nothing() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (here, elsewhere) = (first.path(), second.path());
    simulate(here, "uniform:80us-120us", "before", "3-4");
    std::fs::copy(here.join("job.fio"), elsewhere.join("job.fio")).unwrap();
    let words = ["sim", "uniform:90us-130us", "null", "--workload", "job.fio", "--size", "1GiB"];
    assert!(stasis(here, &[&words[..], &["--results", "two"]].concat()).status.success());
    let folders = std::fs::read_dir(here.join("two")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    let folders = folders.map(|path| format!("two/{}", path.file_name().unwrap().display()));
    let mut folders: Vec<_> = folders.collect();
    folders.sort();
    let words = ["compare", "before", &folders[0], &folders[1]];
    let shown = stasis(here, &words);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let page = std::fs::read_to_string(here.join("comparison/comparison.html")).unwrap();
    let commands = page.split("<pre class=\"command\"><code>").skip(1);
    let commands: Vec<_> = commands.map(|text| text.split('<').next().unwrap()).collect();
    let [compare, runs @ ..] = &commands[..] else { panic!("{page}") };
    assert_eq!(runs.len(), 4);
    let seeded = runs.iter().filter(|command| command.contains("--seed")).count();
    assert_eq!(seeded, 2, "{runs:?}");
    for command in runs.iter().chain([compare]) {
        let words: Vec<_> = command.split(' ').skip(1).collect();
        let output = stasis(elsewhere, &words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {stderr}");
    }
    let read = |folder: &Path| std::fs::read(folder.join("comparison.json")).unwrap();
    assert_eq!(read(&here.join("comparison")), read(&elsewhere.join("again")));
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "fixed:100us", "one", "1");
    for (words, why) in [
        (vec!["compare", "one"], "RESULTS"),
        (vec!["compare", "one", "nothing"], "nothing"),
        (vec!["compare", "one", "one", "--fail-above", "much"], "a share such as 5%"),
    ] {
        let output = stasis(folder, &words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(why), "{words:?}: {stderr}");
    }
}

/// Every file below a folder, with its bytes.
fn bytes_of(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(bytes_of(&path)),
            false => files.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn no_command_destroys_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "fixed:100us", "results", "1");
    simulate(folder, "fixed:90us", "several", "1-2");
    std::fs::create_dir(folder.join("linked")).unwrap();
    std::os::unix::fs::symlink("results", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("../results/ios.parquet", folder.join("linked/ios.parquet"))
        .unwrap();
    let one = std::fs::read_dir(folder.join("several")).unwrap().flatten();
    let one = one.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    let one = one.strip_prefix(folder).unwrap().to_str().unwrap();
    // A disk that a power cut left among the results of a run.
    let disk = std::fs::File::create(folder.join("results/drive0.after-cut.img")).unwrap();
    disk.set_len(1 << 20).unwrap();
    let list = std::fs::read_to_string(folder.join("results/.stasis-results")).unwrap();
    let list = list + "drive0.after-cut.img\n";
    std::fs::write(folder.join("results/.stasis-results"), list).unwrap();
    std::fs::write(
        folder.join("cut.toml"),
        "command = ['true']\n[[drive]]\nmodel = 'null'\nmedium = { file = 'results/drive0.after-cut.img' }\n",
    )
    .unwrap();

    // Results in a folder with the name of a model are no model that is read.
    for _ in 0..2 {
        let words =
            ["sim", "samsung-980-pro", "--trace", "results", "--results", "samsung-980-pro"];
        assert!(stasis(folder, &words).status.success(), "{words:?}");
    }

    let medium = "model=null,medium=file:results/drive0.after-cut.img";
    let before = bytes_of(folder);
    for words in [
        vec!["sim", "fixed:100us", "--trace", "results"],
        vec!["sim", "fixed:100us", "--trace", "results", "--results", "link"],
        vec!["sim", "fixed:100us", "--trace", "link/ios.parquet"],
        vec!["sim", "fixed:100us", "--trace", "linked/ios.parquet"],
        vec!["sim", "fixed:100us", "fixed:80us", "--trace", "results"],
        vec!["sim", "fixed:100us", "--trace", one, "--results", "several"],
        vec!["compare", "results", "several", "--results", "results"],
        vec!["compare", "results", "several", "--results", "several"],
        vec!["compare", "results", "several", "--results", one],
        vec!["compare", "results", "several", "--junit", "results/summary.json"],
        vec!["export", "results", "--perfetto", "results/ios.parquet"],
        vec!["export", "link/ios.parquet", "--perfetto", "results/summary.json"],
        vec!["export", "results", "--perfetto", "linked/ios.parquet"],
        vec!["run", "--drive", medium, "--", "true"],
        vec!["run", "--drive", "model=null,medium=ram:1MiB", "--file", "link", "--", "true"],
        vec!["crash-test", "cut.toml"],
        vec!["crash-test", "cut.toml", "--results", "cut", "--junit", "cut.toml"],
        vec!["serve", "--drive", medium, "--results", "results", "--sockets", "sockets"],
    ] {
        let refused = stasis(folder, &words);
        let message = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(125), "{words:?}: {message}");
        assert!(message.contains("would destroy it"), "{words:?}: {message}");
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drives/models/tests/data");
    let fio = std::fs::read_to_string(data.join("fio-randrw.json")).unwrap();
    std::fs::write(folder.join("fio.json"), &fio).unwrap();
    let over = stasis(folder, &["calibrate", "fio.json", "-o", "fio.json", "--force"]);
    let message = String::from_utf8_lossy(&over.stderr).into_owned();
    assert!(!over.status.success() && message.contains("would destroy it"), "{message}");
    assert_eq!(std::fs::read_to_string(folder.join("fio.json")).unwrap(), fio);
    std::fs::remove_file(folder.join("fio.json")).unwrap();
    let _ = std::fs::remove_dir_all(folder.join("sockets"));
    assert!(bytes_of(folder) == before, "something was changed");

    // Elsewhere, and beside what is read, all is well.
    for words in [
        vec!["sim", "fixed:100us", "--trace", "results", "--results", "again"],
        vec!["compare", "results", "again", "--results", "results/comparison"],
        vec!["export", "results", "--perfetto", "results/mine"],
        vec!["export", "results", "--perfetto", "results/mine"],
    ] {
        let done = stasis(folder, &words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let after = bytes_of(&folder.join("results"));
    for file in before.iter().filter(|(path, _)| path.starts_with(folder.join("results"))) {
        assert!(after.contains(file), "{}", file.0.display());
    }
}

#[test]
fn drives_of_other_names_are_compared_where_each_is_the_only_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "fixed:100us", "one", "1");
    let csv = stasis(
        folder,
        &[
            "sim",
            "fixed:100us",
            "--workload",
            "job.fio",
            "--size",
            "1GiB",
            "--ios",
            "csv",
            "--results",
            "csv",
        ],
    );
    assert!(csv.status.success());
    let text = std::fs::read_to_string(folder.join("csv/ios.csv")).unwrap();
    for (name, names) in [("other", &["slow"][..]), ("two", &["slow", "fast"])] {
        std::fs::create_dir(folder.join(name)).unwrap();
        let mut lines = text.lines();
        let mut out = format!("{}\n", lines.next().unwrap());
        for (place, line) in lines.enumerate() {
            out += &format!("{}\n", line.replace("drive0", names[place % names.len()]));
        }
        std::fs::write(folder.join(name).join("ios.csv"), out).unwrap();
    }
    let output = stasis(folder, &["compare", "one", "other"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("other: its only drive, slow, is compared with drive0 of one"),
        "{stderr}"
    );
    let output = stasis(folder, &["compare", "one", "two"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    for named in ["one has drive0 (read)", "two has fast (read), slow (read)", "`name`"] {
        assert!(stderr.contains(named), "{named}: {stderr}");
    }
}
