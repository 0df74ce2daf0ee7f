# shellcheck shell=bash What `exact` costs. Instructions are those of the software host's clock, with the guest's
# (`engine_wall_seconds`), and repeat on any computer; CPU time does not.

# counted RESULTS: the millions of instructions of the command of a run.
counted() { awk -v s="$(field "$1" engine_wall_seconds)" 'BEGIN { printf "%.3f", s * 1000 }'; }

# more GOAL WHAT COUNT UNIT WORDS: COUNT in WORDS is how much of the work is done; one more costs so much.
more() {
    local goal=$1 what=$2 count=$3 few cpu_few
    shift 3
    cost "${@//COUNT/10}"
    few=$(counted cost) cpu_few=$cpu
    cost "${@//COUNT/$((count + 10))}"
    row "$what" "$goal" "$(awk -v a="$few" -v b="$(counted cost)" -v c="$cpu_few" -v d="$cpu" -v n="$count" 'BEGIN {
        printf "%.4f million each; CPU %.2f s", (b - a) / n, d - c }')"
}

bench_cost() {
    local drive kept example model off folder changes costs=()
    drive=(--drive "model=null,medium=ram:64MiB")
    keep "${drive[@]}" -- true
    cost "${drive[@]}" -- true
    kept=$cpu
    row "a kept guest, true" - "$(counted cost) million; CPU $(printf '%.2f' "$kept") s"
    cost "${drive[@]}" --seed $RANDOM -- true
    row "a seed that was not there before, beside a kept guest" "0.3 s more" \
        "$(awk -v a="$kept" -v b="$cpu" 'BEGIN { printf "CPU %.2f s more", b - a }')"
    more "25 s for 10,000" "fork, exec and exit of true, 1,000 times" 1000 "${drive[@]}" -- \
        sh -c 'i=0; while [ $i -lt COUNT ]; do i=$((i + 1)); /bin/true; done'
    for model in null fixed:100us; do
        drive=(--drive "model=$model,medium=ram:64MiB")
        keep "${drive[@]}" -- true
        more - "reads of 4 KiB by dd, $model, 4,000" 4000 "${drive[@]}" -- \
            dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct count=COUNT
    done
    # A machine that loses its power once, beside one that never does; the same where it boots then.
    for off in "1h false" "1s false" "1s true"; do
        printf 'drive = [{ model = "fixed:100us", medium = "ram:64MiB" }]\nmachine = { boots-again = %s }\n' \
            "${off#* }" >cut.toml
        printf 'fault = [{ kind = "power-cut", at = "%s", restart = "1s" }]\n' "${off% *}" >>cut.toml
        keep cut.toml -- sleep 2
        cost cut.toml -- sleep 2
        costs+=("$(counted cost) $cpu")
    done
    row "a restart after a power cut, against a boot" "0.2 times" "$(printf '%s\n' "${costs[@]}" | awk '
        { counted[NR] = $1; cpu[NR] = $2 }
        END {
            restart = counted[2] - counted[1]
            printf "%.1f million, %.3f times; CPU %.2f s", restart, restart / (counted[3] - counted[1]), cpu[2] - cpu[1]
        }')"
    # 20 MiB of memory change between two snapshots, of which there are some hundred.
    drive=(--drive "model=null,medium=ram:64MiB")
    changes='for (1..104) { $b = chr($_) x (20<<20); select undef,undef,undef,0.008 }'
    cost "${drive[@]}" -- perl -e "$changes"
    kept=$cpu
    cost "${drive[@]}" --snapshots 10ms -- perl -e "$changes"
    row "a snapshot of 20 MiB, by a hundred of them" "0.15 s" \
        "$(awk -v a="$kept" -v b="$cpu" 'BEGIN { printf "CPU %.2f s", (b - a) / 100 }')"
    cost "${drive[@]}" --from last -- perl -e "$changes"
    row "a run from the last of them to its end" "0.15 s" "$(awk -v a="$wall" -v b="$cpu" 'BEGIN { printf "%.2f s, CPU %.2f s", a, b }')"
    # The second one finds the packages in apt's cache.
    for folder in first second; do
        own && kept=$own
        XDG_CACHE_HOME=$work/$folder "$stasis" guest build >guest.out 2>&1 || { cat guest.out >&2; exit 1; }
        own
    done
    row "guest build, packages in apt's cache" "25 s" "$(awk -v a="$kept" -v b="$own" 'BEGIN { printf "CPU %.1f s", b - a }')"
    # Clusters make guests of their own the first time.
    for example in demo noisy-neighbour bit-rot shared startup computational redis etcd postgresql; do
        example=$here/../examples/$example.toml
        [ -e "$example" ] || continue
        keep "$example"
        cost "$example"
        row "$(basename "$example"), guest kept" - "$(counted cost) million; CPU $(printf '%.2f' "$cpu") s"
    done
}
