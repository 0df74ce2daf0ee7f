//! Completions of a shell, as bash itself makes them.

use std::process::Command;

/// The completions of the last of `words`, in a folder with a file.
fn completed(words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a-file.toml"), "").unwrap();
    let script = "compopt() { :; }\n. \"$1\"\nshift\nCOMP_WORDS=(\"$@\")\n\
        COMP_CWORD=$(($# - 1))\n_stasis_of_drive stasis \"${COMP_WORDS[COMP_CWORD]}\" \
        \"${COMP_WORDS[COMP_CWORD - 1]}\"\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let program = Command::new(env!("CARGO_BIN_EXE_stasis")).args(["completions", "bash"]).output();
    // A file, as a user has them: they are longer than a word may be.
    let completions = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(completions.path(), program.unwrap().stdout).unwrap();
    let output = Command::new("bash")
        .args(["-c", script, "bash", completions.path().to_str().unwrap(), "stasis"])
        .args(words)
        .current_dir(&folder)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{words:?}: {error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn known_values_are_offered_and_no_files() {
    for (words, values) in [
        (&["run", "--engine", ""][..], &["auto", "kvm", "softkvm", "exact"][..]),
        (&["crash-test", "--engine", "so"], &["softkvm"]),
        (&["run", "--ios", ""], &["csv", "zst", "parquet", "none"]),
        (&["sim", "--ios", "p"], &["parquet"]),
        (
            &["crash-test", "--inject", ""],
            &["dropped-barrier", "early-acknowledgement", "swapped-tables", "split-writes"],
        ),
        (&["models", "jp"], &["jpt39c"]),
        (&["sim", "samsung-980"], &["samsung-980-pro"]),
        (&["suite", "--device", "jp"], &["jpt39c"]),
        (&["run", "--drive", "model", "=", "jp"], &["jpt39c"]),
        (&["run", "--drive", "model=jp"], &["model=jpt39c,medium=ram:1GiB"]),
        // Nothing is known: the typed word stays, and no file is offered.
        (&["run", "--seed", "7"], &["7"]),
        (&["run", "--memory", "a"], &["a"]),
    ] {
        let mut offered = completed(words);
        let mut values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        offered.sort();
        values.sort();
        assert_eq!(offered, values, "{words:?}");
    }
    let models = completed(&["run", "--drive", "model", "="]);
    assert!(models.len() > 5 && models.contains(&"dcpmm".to_owned()), "{models:?}");
    assert_eq!(completed(&["run", "--file", "a-"]), ["a-file.toml"]);
}
