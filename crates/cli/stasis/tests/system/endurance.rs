//! Endurance groups and NVM sets, by nvme-cli in a stock guest.

use crate::support::Bench;

#[test]
#[ignore = "boots a guest for a minute: make slow-test"]
fn endurance_groups_are_told_to_a_stock_guest() {
    let bench = Bench::new();
    let experiment = r#"
engine  = "exact"
command = ["sh", "-c", """
set -e
cd /results
nvme id-ctrl /dev/nvme0 | grep -E 'nsetidmax|endgidmax' > controller
for n in 1 2 3; do nvme id-ns /dev/nvme0n$n | grep -E 'nvmsetid|endgid'; done > namespaces
nvme list-endgrp /dev/nvme0 --endgrp-id=1 | grep '0x' > groups
nvme id-nvmset /dev/nvme0 --nvmset_id=2 | grep -E '^nid|total' > sets
dd if=/dev/urandom of=/dev/nvme0n3 bs=1M count=30 oflag=direct
for i in 1 2 3 4; do dd if=/dev/nvme0n3 of=/dev/nvme0n3 bs=1M count=20 seek=8 oflag=direct conv=notrunc; done
for n in 1 2; do nvme endurance-log /dev/nvme0 --group-id=$n > log$n; done
nvme endurance-log /dev/nvme0 --group-id=3 > none 2>&1 && exit 1
nvme fdp configs /dev/nvme0 --endgrp-id=1 > configurations
nvme get-feature /dev/nvme0 --feature-id=0x1d --cdw11=2 > feature
"""]

[[drive]]
model     = { kind = "flash", channels = 1, luns = 2, planes = 1, pages = 32, endurance = 20 }
medium    = "ram:96MiB"

[[drive.namespace]]
size            = "32MiB"
endurance-group = 1
nvm-set         = 1
placement       = "fdp:4x1MiB"

[[drive.namespace]]
size            = "16MiB"
endurance-group = 1
nvm-set         = 2

[[drive.namespace]]
endurance-group = 2
nvm-set         = 3
"#;
    std::fs::write(bench.path("e.toml"), experiment).unwrap();
    bench.run(&["e.toml", "--results=r"]).expect(0);
    let words = |name: &str| {
        let text = bench.text(&format!("r/{name}"));
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("controller"), "nsetidmax : 3 endgidmax : 2");
    let homes = [(1, 1), (2, 1), (3, 2)];
    let homes = homes.map(|(set, group)| format!("nvmsetid: {set} endgid : {group}"));
    assert_eq!(words("namespaces"), homes.join(" "));
    assert_eq!(words("groups"), "[ 0]:0x1 [ 1]:0x2");
    let sets = "nid : 2 total_nvmset_cap : 16777216 total_nvmset_cap : 50331648";
    assert_eq!(words("sets"), sets);
    // The group that was written has worn, the other has not.
    let used = |name: &str| {
        let text = words(name);
        let (_, after) = text.split_once("percent_used : ").expect("it is told");
        after.split_once('%').unwrap().0.parse::<u32>().unwrap()
    };
    assert!(used("log1") == 0 && used("log2") > 2, "{} {}", words("log1"), words("log2"));
    assert!(words("log1").contains("media_units_written : 0"), "{}", words("log1"));
    assert!(words("log2").contains("data_units_written : 1"), "{}", words("log2"));
    assert!(words("none").contains("0x6002"), "{}", words("none"));
    assert!(words("configurations").contains("Unit Handles: 4"), "{}", words("configurations"));
    assert!(words("feature").ends_with("value:00000000"), "{}", words("feature"));
    // In the results each part has its own inside.
    let drive = &bench.json("r/summary.json")["drives"][0];
    let starts: Vec<u64> = drive["inside"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["start"].as_u64().unwrap())
        .collect();
    assert_eq!(starts, [0, 32 << 20, 48 << 20]);
}
