//! Guests on a root file system of the user's own. Each form of one is tested in the crate
//! `guest-root`; here one boots.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Bench;

/// A root with this machine's shell, its libraries, and nothing else.
fn make(folder: &Path) {
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let listed = Command::new("ldd").arg(&shell).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/'));
    for library in libraries {
        let to = folder.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(library, to).unwrap();
    }
    for name in ["bin", "etc"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::copy(shell, folder.join("bin/sh")).unwrap();
    fs::write(folder.join("etc/whose"), "the user's own\n").unwrap();
}

#[test]
fn a_guest_starts_from_a_folder() {
    let bench = Bench::new();
    make(&bench.path("tree"));
    let script = "read -r text < /etc/whose; echo \"$text\"
        [ -b /dev/nvme0n1 ] && [ -d /lib/modules ] && echo complete
        echo written > /etc/whose && echo overlaid > /results/file
        [ -e /usr/bin/fio ] || echo alone";
    let words = ["--engine=exact", "--root=tree", "--drive=model=fixed:10us,medium=ram:64MiB"];
    let run = bench.run(&[&words[..], &["--", "sh", "-c", script]].concat());
    run.expect(0);
    assert_eq!(run.stdout, "the user's own\ncomplete\nalone\n", "{}", run.stderr);
    assert_eq!(bench.text("results/file"), "overlaid\n");
    assert_eq!(fs::read_to_string(bench.path("tree/etc/whose")).unwrap(), "the user's own\n");
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["guest_recipe"]["root"], "tree");
    let digest = summary["guest"].as_str().unwrap().to_owned();
    // The same again, from a file; what the root lacks is told.
    let text = "engine = 'exact'\ncommand = ['fio', '--version']\n[guest]\nroot = 'tree'\n";
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml", "--results=again"]);
    assert_eq!(run.status, Some(127), "{run:#?}");
    run.says(&["fio: command not found in the guest", "tree: install the command there"]);
    assert_eq!(bench.json("again/summary.json")["guest"], digest.as_str());
}

#[test]
fn a_root_that_cannot_be_used_is_told_before_a_guest_is_made() {
    let bench = Bench::new();
    let cache = bench.path("cache");
    let fails = |words: &[&str], expected: &[&str]| {
        let mut command = bench.command(&[&["run"], words, &["--", "true"]].concat());
        command.env("XDG_CACHE_HOME", &cache);
        let run = bench.finish(command);
        assert_eq!(run.status, Some(125), "{run:#?}");
        run.says(expected);
        let left = fs::read_dir(cache.join("stasis/guest")).map_or(0, |entries| entries.count());
        assert_eq!(left, 0, "something is left in the cache");
    };
    fails(&["--root=absent"], &["absent"]);
    fs::create_dir_all(bench.path("empty/etc")).unwrap();
    fails(&["--root=empty"], &["empty", "no /bin/sh"]);
    fs::write(bench.path("text"), "a file").unwrap();
    fails(&["--root=text"], &["text", "neither a folder"]);
    bench.image("image", 4 << 20);
    fails(&["--root=image"], &["image", "no Linux"]);
    make(&bench.path("tree"));
    fails(&["--root=tree", "--packages=jq"], &["packages", "root"]);
}
