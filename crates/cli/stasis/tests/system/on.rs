//! One workload on several drives: the same bytes for each run, figures side by side.

use crate::support::Bench;

/// Reads 64 blocks, tells what the first one begins with, and writes over it.
const SCRIPT: &str = "dd if=/dev/nvme0n1 of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null
    head -c 6 /dev/nvme0n1
    echo second | dd of=/dev/nvme0n1 bs=512 conv=sync oflag=direct 2>/dev/null";

#[test]
fn each_run_begins_with_the_same_bytes() {
    let bench = Bench::new();
    let image = bench.image("disk.img", 64 << 20);
    std::fs::write(&image, [b"first\n".as_slice(), &[0; 4090]].concat()).unwrap();
    std::fs::File::options().write(true).open(&image).unwrap().set_len(64 << 20).unwrap();
    let before = std::fs::read(&image).unwrap();
    let models = "fixed:100us,fixed:1ms";
    let drive = "--drive=model=null,medium=file:disk.img";
    let words = ["on", models, "--engine=exact", drive, "--", "sh", "-c", SCRIPT];
    let run = bench.finish(bench.command(&words));
    run.expect(0);
    assert_eq!(std::fs::read(&image).unwrap(), before, "the image stays as it is");
    let folder = bench.path("results");
    for model in models.split(',') {
        let output = std::fs::read_to_string(folder.join(model).join("output.txt")).unwrap();
        assert_eq!(output, "first\n", "{model}");
        assert!(folder.join(model).join("report.html").exists());
    }
    // The models' own latencies, and rates that follow from them: one request at a time.
    let figures = std::fs::read_to_string(folder.join("drives.csv")).unwrap();
    let mut lines = figures.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|one| *one == name).unwrap();
    let reads: Vec<Vec<&str>> = lines
        .map(|line| line.split(',').collect())
        .filter(|line: &Vec<&str>| line[column("operation")] == "read")
        .collect();
    for (line, (model, latency)) in
        reads.iter().zip([("\"fixed:100us\"", 100e3), ("\"fixed:1ms\"", 1e6)])
    {
        assert_eq!(line[column("on")], model);
        assert_eq!(line[column("p50_ns")].parse(), Ok(latency));
        let iops: f64 = line[column("iops")].parse().unwrap();
        assert!(iops > 0.5e9 / latency && iops <= 1e9 / latency, "{model}: {iops}");
    }
    assert_eq!(reads.len(), 2, "{figures}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("times as long"), "the verdict is on the page");
    assert!(folder.join("comparison.html").exists());
    assert!(run.stdout.lines().all(|line| line.len() <= 80), "{}", run.stdout);
    // Nothing of the overlays is left.
    let overlays = std::fs::read_dir(&folder).unwrap().flatten();
    let overlays = overlays.filter(|one| one.file_name().to_string_lossy().starts_with("overlays"));
    assert_eq!(overlays.count(), 0);
}

#[test]
fn what_cannot_be_compared_is_refused_before_a_boot() {
    let bench = Bench::new();
    bench.image("disk.img", 64 << 20);
    std::fs::write(bench.path("several.toml"), SEVERAL).unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["fixed:1us,nonsense", "--", "true"], "nonsense"),
        (&["fixed:1us,fixed:1us", "--", "true"], "named twice"),
        (&["fixed:1us", "--to=data", "--drive=model=null,medium=ram:1MiB", "--", "true"], "drive0"),
        (&["fixed:1us", "several.toml"], "stasis sweep"),
        (
            &["fixed:1us", "--drive=model=null,medium=file:disk.img,zone-size=16MiB", "--", "true"],
            "use ram:SIZE",
        ),
        (&["fixed:1us"], "command"),
    ];
    for (words, expected) in cases {
        let run = bench.finish(bench.command(&[&["on"], words].concat()));
        assert_ne!(run.status, Some(0), "{words:?}");
        assert!(run.stderr.contains(expected), "{words:?}: {}", run.stderr);
        assert!(!bench.path("results").exists(), "{words:?}");
    }
}

const SEVERAL: &str = r#"
[[drive]]
name = "disk"
model = "null"
medium = { ram = "64MiB" }
scheduler = "none"

[[machine]]
name = "a"
command = ["true"]

[[machine.disk]]
on = "disk"
size = "32MiB"

[[machine]]
name = "b"
command = ["true"]

[[machine.disk]]
on = "disk"
offset = "32MiB"
size = "32MiB"
"#;
