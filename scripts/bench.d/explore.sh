# shellcheck shell=bash Explorations: how many runs a planted mistake takes, beside power cuts at random times; and what
# a run costs. Numbers of runs repeat on any computer.

# Mistakes of guest/store.pl, each with what it does wrong; and those of examples, with the word that is changed.
MISTAKES=(
    "forgotten|one put in 50 is not synced"
    "early|a put is acknowledged before it is synced"
    "barrier|a header is synced together with what it points to"
    "torn|a page with a checksum is written in place"
    "recovery|the old log is emptied before the new one is durable"
)
# Runs after which a mistake counts as not found.
MAX_RUNS=${MAX_RUNS:-120}

# planted FILE MISTAKE: an experiment with the store, and a client that looks for 100 keys.
planted() {
    cat >"$1" <<END
guest   = { files = ["$here/bench.d/guest/store.pl:/root/store.pl"] }
command = ["sh", "-ec", '''
if [ \$(hostname) != client ]; then
    [ \$STASIS_BOOT != 1 ] || mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt
    exec perl /root/store.pl /mnt $2
fi
stasis-client lines store:7000 --until-ok hello
stasis-client lines store:7000 --repeat 100 --every 5ms --ok ok 'put k{} {}' --check 'get k{}' ''']
virtual-limit = "20s"
history = true
network = [{}]
machine = [{ name = "client" }, { name = "store", wait = false, drive = [
    { name = "disk", model = "samsung-980-pro", medium = "ram:64MiB" }] }]
END
}

bench_explore() {
    local mistake name text runs seed status
    for mistake in "log|nothing" "pages|nothing" "copies|nothing" "${MISTAKES[@]}"; do
        name=${mistake%%|*} text=${mistake#*|}
        planted "$name.toml" "$name"
        own
        local before=$own
        if [ "$text" = nothing ]; then
            "$stasis" explore "$name.toml" --runs 40 --results "$name" >"$name.out" 2>"$name.err" ||
                { cat "$name.out" "$name.err" >&2; exit 1; }
            own
            row "the store without a mistake ($name), 40 runs: findings; CPU time of a run" "0" \
                "0; $(awk -v a="$before" -v b="$own" 'BEGIN { printf "%.1f s", (b - a) / 41 }')"
            continue
        fi
        status=0
        "$stasis" explore "$name.toml" --until-found --runs "$MAX_RUNS" --results "$name" >"$name.out" 2>"$name.err" || status=$?
        case $status in
            0) runs="not in $MAX_RUNS" ;;
            1) runs=$(awk '/"verdict":{"failed"/ { print NR - 1; exit }' "$name/explore.jsonl") ;;
            *) cat "$name.out" "$name.err" >&2; exit 1 ;;
        esac
        own
        # One power cut at a random time of a second, as each seed draws it.
        { cat "$name.toml"; printf '[fault-space]\ndraws = 1\nwithin = "1s"\nshortest = "200ms"\nlongest = "200ms"\n'
            printf 'machines = ["store"]\nfault = [{ kind = "power-cut" }]\n'; } >"$name-random.toml"
        for seed in $(seq 1 "$MAX_RUNS"); do
            status=0
            "$stasis" run "$name-random.toml" --engine exact --seed "$seed" --results random >/dev/null 2>&1 || status=$?
            [ $status = 0 ] || break
        done
        [ $status != 0 ] || seed="not in $MAX_RUNS"
        row "$text: runs to the first that fails" "5 times fewer" "$runs" "$seed"
    done
}
