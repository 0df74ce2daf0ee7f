# shellcheck shell=bash
# Flash drives without a guest; `scripts/bench-flash` has the rest, and MQSim beside it.

millions() { awk -v n="$1" 'BEGIN { printf "%.2f million", n / 1e6 }'; }

bench_flash() {
    local reads mixed amplification example=$here/../target/x86_64-unknown-linux-gnu/release/examples/ssd_speed
    (cd "$here/.." && cargo build --locked --release --quiet --package stasis-flash --examples)
    # Large maps want large pages.
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "$example" 8 >speeds
    read -r reads mixed amplification < <(awk '$2 == "GB" { print $6, $7, $8 }' speeds)
    row "4 KiB reads simulated a CPU second, 8 GB" "3 million" "$(millions "$reads")" "MQSim: 0.13"
    row "70 % reads, steady state, write amplification $amplification" "1 million" "$(millions "$mixed")" "MQSim: 0.08"
}
