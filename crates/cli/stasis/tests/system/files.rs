//! Files for a guest: of every kind, in a run and in the guest of a check.

use std::process::Command;

use crate::support::Bench;

/// Makes `in`, a folder with every kind of file.
const EVERY_KIND: &str = include_str!("../../../../guests/guest-root/src/tests/every-kind.sh");

/// Lists a folder: lines with A say what is kept of it, those with B what is the same of all.
const LIST: &str = "cd $1; export LC_ALL=C
{ find . ! -type d ! -type s -printf 'A %P|%y|%m|%n|%s|%l\\n'; find . -type d -printf 'A %P|%y|%m\\n'
  find . -type f -print0 | sort -z | xargs -0 sha256sum | sed 's/^/A /'
  find . -type b -o -type c | xargs -r stat -c 'A %n %t,%T'
  for file in sparse hole holes; do [ $(du -k $file | cut -f1) -lt 200 ] && echo A $file has holes; done
} | sort
find . -printf 'B %P|%U:%G|%T@\\n' | sort
";

/// The check's listing is the command's.
const CHECK: &str = "grep -q ^step $STASIS_OUTPUT_LINES || exit 0
sed '/^step/d' $STASIS_OUTPUT_LINES >/tmp/then
sh /root/list.sh /root/in >/tmp/now
cmp /tmp/then /tmp/now && [ \"$(/root/in/tool)\" = tool ] || { diff /tmp/then /tmp/now; exit 1; }
";

#[test]
fn a_check_finds_the_files_of_the_run() {
    let bench = Bench::new();
    for (name, text) in [("list.sh", LIST), ("check.sh", CHECK), ("make.sh", EVERY_KIND)] {
        std::fs::write(bench.path(name), text).unwrap();
    }
    let here = |script: &str| {
        let mut command = Command::new("sh");
        let output = command.args(["-ec", script]).current_dir(bench.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    here("sh -e make.sh");
    std::fs::write(
        bench.path("files.toml"),
        "engine = 'exact'\ncheck = 'sh /root/check.sh'\nresults = 'r'\n\
         command = ['sh', '-c', 'sh /root/list.sh /root/in; \
         dd if=/dev/zero of=/dev/vda bs=4k count=1 oflag=direct status=none; echo step']\n\
         [guest]\nfiles = ['list.sh', 'check.sh', 'in']\n\
         [[drive]]\nmodel = 'fixed:100us'\ninterface = 'virtio-blk'\nmedium = { ram = '16MiB' }\n",
    )
    .unwrap();
    let words = ["crash-test", "files.toml", "--states=1", "--checkers=1"];
    let tested = bench.finish(bench.command(&words));
    assert_eq!(tested.status, Some(0), "{}{}", tested.stdout, tested.stderr);
    assert!(bench.json("r/crash-test.json")["checked"].as_u64() > Some(0));
    // The run's own are those of this machine, all root's and of one time.
    let output = String::from_utf8_lossy(&bench.bytes("r/output.txt")).into_owned();
    let kept = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("A ")).map(str::to_owned).collect()
    };
    let (there, expected) = (kept(&output), kept(&here("sh list.sh in")));
    assert!(expected.len() > 60, "{expected:#?}");
    assert_eq!(there, expected);
    let others = output.lines().filter(|line| line.starts_with("B ") && line.contains('|'));
    assert!(others.clone().count() > 40);
    for line in others {
        assert!(line.ends_with("|0:0|1153704088.0000000000"), "{line}");
    }
}

#[test]
fn what_files_and_results_leave_out_is_a_warning() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("in")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("in/here")).unwrap();
    let command = "mknod /results/s p; mknod /results/null c 1 3; echo kept >/results/a";
    let drive = "--drive=model=null,medium=ram:1MiB";
    let run = bench.run(&["--engine=exact", "--file=in", drive, "--", "sh", "-c", command]);
    run.expect(0);
    for words in [
        "files: the guest does not get /root/in/here: a socket",
        "the guest's /results/null is not in the results: neither a file",
        "/results/s is not in the results",
    ] {
        assert!(run.stderr.contains(words), "no {words:?} in {run:#?}");
    }
    assert_eq!(bench.bytes("results/a"), b"kept\n");
    assert!(!bench.path("results/s").exists() && !bench.path("results/left-out").exists());
}
