# shellcheck shell=bash The promises of `exact`, and its speed.

# wrong RESULTS: how many I/Os were not delivered at their target, of how many.
wrong() {
    awk -F , 'NR > 1 { all++; if ($8 != $9) wrong++ } END { printf "%d of %d", wrong, all }' "$1/ios.csv"
}

# percentiles FILE: the percentiles of completion latencies in a report of fio's.
percentiles() {
    awk '/"clat_ns"/ { inside = 1 } inside && /"percentile"/ { listed = 1; next }
        listed && /}/ { exit } listed { gsub(/[",:]/, " "); print $1, $2 }' "$1"
}

# Models of 20 us or more, on RAM, a file, and a file that is 5 ms late.
bench_delivered() {
    local model media=(medium=ram:64MiB medium=file:file.img medium=file:late.img,delay=5ms) job
    truncate -s 64M file.img late.img
    job="for drive in 0 1 2; do for rw in randread randwrite; do
        fio --name=r --filename=/dev/nvme\${drive}n1 --rw=\$rw --bs=4k --direct=1 --ioengine=psync \
            --size=64M --number_ios=200 >>/results/fio.txt; done; done"
    for model in fixed:20us uniform:200us-400us cloudspeed-500 jpt39c; do
        run delivered "${media[@]/#/--drive=model=$model,}" -- sh -c "$job"
        row "I/Os not at their target, $model, three media" none "$(wrong delivered)"
    done
}

bench_media() {
    local medium
    truncate -s 64M late.img
    for medium in medium=ram:64MiB medium=file:late.img,delay=5ms; do
        run "media-${medium:7:3}" --drive "model=fixed:100us,$medium" -- \
            sh -c "$(reads 1000 --output-format=json --output=/results/fio.json)"
    done
    percentiles media-ram/fio.json >ram
    percentiles media-fil/fio.json >late
    row "fio's percentiles, 100 us, RAM against a file 5 ms late" "within 0.1 %" \
        "$(paste -d ' ' ram late | awk '{ d = $4 - $2; if (d < 0) d = -d; d = 100 * d / $2; if (d > max) max = d; same += d == 0 }
            END { printf "at most %.3f %%, %d of %d equal", max, same, NR }')"
}

bench_depth() {
    local jobs
    for jobs in 1 16 64; do
        run "depth$jobs" --vcpus 16 --memory 2GiB --drive model=fixed:50us,medium=ram:64MiB -- \
            sh -c "$(reads 30 --numjobs="$jobs" --thread --group_reporting --output=/results/fio.txt)"
        row "delivered p50, 50 us, $jobs fio threads on 16 vCPUs" "50000 ns" \
            "$(awk -F , 'NR > 1 && $2 == "command" { print $9 - $7 }' "depth$jobs/ios.csv" | sort -n |
                awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] " ns of " NR }')"
    done
}

# cost WORDS...: a run; `wall` and `cpu` are its times, in s.
cost() {
    local began=$EPOCHREALTIME before
    own
    before=$own
    run cost "$@"
    own
    wall=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
    cpu=$(awk -v a="$before" -v b="$own" 'BEGIN { print b - a }')
}

# keep WORDS...: runs that keep the guest, of which the third one does.
keep() {
    for _ in 1 2 3; do run kept "$@"; done
}

# warm GOAL WHAT WORDS...: the median of three runs, after those that keep the guest.
warm() {
    local goal=$1 what=$2 walls=() cpus=() turn
    shift 2
    for turn in 1 2 3 4 5 6; do
        cost "$@"
        [ "$turn" -le 3 ] || { walls+=("$wall"); cpus+=("$cpu"); }
    done
    row "$what" "$goal" "$(printf '%.2f s, CPU %.2f s' "$(median "${walls[@]}")" "$(median "${cpus[@]}")")"
}

bench_true() { warm "at most 1.5 s" "stasis run -- true, guest kept" -- true; }

bench_demo() {
    local examples=$here/../examples
    [ -e "$examples/demo.toml" ] || { row "the demo's run, guest kept" "at most 8 s" "no examples here"; return; }
    warm "at most 8 s" "the demo's run (three drives), guest kept" "$examples/demo.toml"
}

# Reads at depth 1: the time of 10,000 more of them.
bench_reads() {
    local model goal few
    # With one queue Linux puts mq-deadline before a drive, with two nothing.
    for model in null:6000 null,queues=2:6000 fixed:100us:3000 fixed:100us,queues=2:3000; do
        goal=${model##*:} model=${model%:*}
        keep --drive "model=$model,medium=ram:64MiB" -- true
        cost --drive "model=$model,medium=ram:64MiB" -- sh -c "$(reads 100)"
        few=$cpu
        cost --drive "model=$model,medium=ram:64MiB" -- sh -c "$(reads 10100)"
        row "reads a CPU second, one at a time, $model" "$goal" \
            "$(awk -v a="$few" -v b="$cpu" 'BEGIN { printf "%.0f", 10000 / (b - a) }')"
    done
}

# Guest instructions a second, from the time of more of the same work. At 5 GHz a virtual second is 5e9 of them.
bench_speed() {
    local dd='dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct count=' few virtual
    local loop='i=0; while [ $i -lt COUNT ]; do i=$((i + 1)); done'
    local drive=(--cpu-speed 5GHz --drive model=null,medium=ram:128MiB)
    # work WHAT GOAL FEW MANY WORDS: COUNT in WORDS is how much of the work is done.
    work() {
        keep "${drive[@]}" -- true
        cost "${drive[@]}" -- sh -c "${5//COUNT/$3}"
        few=$cpu virtual=$(field cost virtual_seconds)
        cost "${drive[@]}" -- sh -c "${5//COUNT/$4}"
        row "guest instructions a CPU second, $1" "$2" \
            "$(awk -v a="$few" -v b="$cpu" -v v="$virtual" -v w="$(field cost virtual_seconds)" -v turns="$(($4 - $3))" -v what="$1" 'BEGIN {
                printf "%.0f million", (w - v) * 5e3 / (b - a)
                if (what != "computing") printf ", %.0f I/Os", turns / (b - a) }')"
    }
    work computing "700 million" 1000 500000 "$loop"
    work "dd, 4 KiB" "115 million, 8,000 I/Os" 100 20100 "${dd}COUNT 2>/dev/null"
    work "fio, random reads of 4 KiB" "5,700 I/Os" 100 10100 "$(reads COUNT)"
}

bench_disk() {
    local few
    cost --drive model=jpt39c,medium=ram:64MiB -- true
    few=$wall
    cost --drive model=jpt39c,medium=ram:64MiB -- sh -c "$(reads 1000)"
    row "1000 random reads on jpt39c" "less than virtual time" \
        "$(awk -v few="$few" -v all="$wall" -v virtual="$(field cost virtual_seconds)" 'BEGIN {
            printf "%.2f s of wall-clock for %.2f s", all - few, virtual }')"
}

# field RESULTS NAME: a number at the top of a summary.
field() { awk -F '[:,]' -v name="\"$2\"" '{ gsub(/ /, "", $1) } $1 == name { print $2 + 0; exit }' "$1/summary.json"; }

# Reads of a null drive beside those of QEMU's null-co, in a software KVM host under the same QEMU.
bench_peer() {
    local scheduler few ours peer drive=model=null,medium=ram:64MiB
    keep --drive "$drive" -- true
    for scheduler in mq-deadline none; do
        cost --drive "$drive" -- sh -c "echo $scheduler >/sys/block/nvme0n1/queue/scheduler; $(reads 100)"
        few=$cpu
        cost --drive "$drive" -- sh -c "echo $scheduler >/sys/block/nvme0n1/queue/scheduler; $(reads 10100)"
        ours=$(awk -v a="$few" -v b="$cpu" 'BEGIN { printf "%.0f", 10000 / (b - a) }')
        # It stands still once in a while.
        for _ in 1 2 3; do
            if peer=$("$here/bench-qemu" 3000 "$scheduler"); then break; fi
        done
        peer=${peer#* }
        row "reads a CPU second, null drive, one at a time, $scheduler in both guests" "5 times QEMU's" \
            "$ours, $(awk -v a="$ours" -v b="$peer" 'BEGIN { printf "%.1f times", a / b }')" "QEMU: $peer"
    done
}
