# shellcheck shell=bash
# Guests with several processors, in virtual time.

# Copies of a busy loop, as a multiple of the time of one.
bench_copies() {
    compiled busy
    local vcpus copies turns=100000000
    for vcpus in 2 4 16 64; do
        copies="1 $((vcpus / 2)) $vcpus"
        # More copies than processors are Linux's to balance: that takes some ticks.
        [ "$vcpus" -gt 4 ] || copies+=" $((vcpus + 1)) $((2 * vcpus))"
        [ "$vcpus" -lt 64 ] || turns=20000000
        run copies --vcpus "$vcpus" --file busy -- sh -c "/root/busy $turns $copies"
        row "copies of a busy loop on $vcpus vCPUs: time, of one copy's" "1, (N+1)/N, 2" \
            "$(awk '$2 == 1 && !one { one = $4 } { printf "%s%d: %.3f", (NR > 1 ? ", " : ""), $2, $4 / one }' copies.out)"
    done
}

# fio's latency of a 50 us drive, by threads on 64 processors.
bench_threads() {
    run threads --vcpus 64 --drive model=fixed:50us,medium=ram:64MiB -- sh -c '
        for jobs in 1 8 16 32 64; do
            fio --name=r --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync --size=64M \
                --thread --group_reporting --numjobs=$jobs --number_ios=100 --output-format=terse --terse-version=3 |
                awk -F ";" -v jobs=$jobs "{ print jobs, \$40 }"
        done'
    row "fio, 50 us, 64 vCPUs: mean latency by threads, of one's" "1.05 to 32, 1.10 to 64" \
        "$(awk 'NR == 1 { one = $2; printf "1: %.1f us", $2 } NR > 1 { printf ", %d: %.3f", $1, $2 / one }' threads.out)"
}

# I/Os a virtual second of a drive that takes no time, 64 threads against one.
bench_null() {
    run null --vcpus 64 --drive model=null,medium=ram:64MiB -- sh -c '
        for jobs in 1 64; do
            fio --name=r --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync --size=64M \
                --thread --group_reporting --numjobs=$jobs --number_ios=100 --output-format=terse --terse-version=3 |
                awk -F ";" -v jobs=$jobs "{ print jobs, \$8 }"
        done'
    row "fio, null drive, 64 vCPUs: I/Os a second, of one thread's" "30" \
        "$(awk 'NR == 1 { one = $2; printf "1: %d/s", $2 } NR > 1 { printf ", %d: %.1f", $1, $2 / one }' null.out)"
}

bench_clock() {
    compiled clock
    run clocked --vcpus 64 --file clock --drive model=fixed:50us,medium=ram:64MiB -- sh -c "
        fio --name=r --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync --size=64M \
            --time_based --runtime=1000 >/dev/null & sleep 1; /root/clock 64 ${READS:-1000000}"
    row "reads of CLOCK_MONOTONIC on 64 vCPUs under I/O" "backwards 0" "$(cat clocked.out)"
}

# Programs that wait for each other, by quantum: the cost of the bound on sharing memory.
bench_locks() {
    compiled locks
    local quantum
    for quantum in 2us 20us; do
        printf 'command = ["/root/locks", "4", "400"]\n[machine]\nvcpus = 4\nquantum = "%s"\n[guest]\nfiles = ["locks"]\n' \
            "$quantum" >locks.toml
        run locked locks.toml
        row "ping-pong, spin lock, work queue on 4 vCPUs, quantum $quantum" "within 5 %" \
            "$(awk '{ printf "%s%s %.1f us", (NR > 1 ? ", " : ""), $1, $2 / 1000 }' locked.out)"
    done
}

# Processors of one guest in parallel on the host's cores against in turn, under `softkvm`: pairs, one after the other.
# Wall-clock between two lines of the guest's output, so that neither boot nor the host's start counts.
bench_parallel() {
    compiled busy
    local pair threads
    for pair in 1 2 3; do
        for threads in 1 2; do
            printf 'command = ["sh", "-c", "/root/busy 1000000 4; /root/busy 100000000 4"]\n[machine]\nvcpus = 4\nthreads = %s\n%s' \
                "$threads" $'[guest]\nfiles = ["busy"]\n' >parallel.toml
            timeout 600 "$stasis" run --engine softkvm --quiet --results parallel parallel.toml 2>parallel.err |
                while read -r line; do echo "$(date +%s.%N) $line"; done >"parallel-$threads-$pair" || true
        done
        row "four busy vCPUs, softkvm, two threads: how many times as fast as in turn (pair $pair)" "1.7, on an idle machine" \
            "$(awk 'FNR == 1 { since = $1 } FNR == 2 { took[FILENAME ~ /-1-/] = $1 - since }
                END { if (took[0] && took[1]) printf "%.2f (%.2f s, %.2f s in turn)", took[1] / took[0], took[0], took[1]
                    else printf "a run did not end" }' \
                "parallel-1-$pair" "parallel-2-$pair"), load $(cut -d ' ' -f 1 /proc/loadavg)"
    done
}

bench_repeat() {
    compiled busy
    local name
    for name in once twice; do
        run "$name" --vcpus 16 --file busy --drive model=samsung-980-pro,medium=ram:64MiB -- sh -c '
            /root/busy 1000000 16 &
            fio --name=r --filename=/dev/nvme0n1 --rw=randrw --bs=4k --direct=1 --ioengine=psync --size=64M \
                --thread --group_reporting --numjobs=16 --number_ios=50; wait'
    done
    row "rows of ios.csv that differ in two runs of 16 vCPUs" "0" \
        "$(diff once/ios.csv twice/ios.csv | grep -c '^<' || true) of $(($(wc -l <once/ios.csv) - 1))"
}

# Programs that use all processors, on a guest of 16 against the same guest with one.
bench_programs() {
    local vcpus
    for vcpus in 1 16; do
        printf '%s\n' 'command = ["sh", "/root/programs.sh"]' '[machine]' "vcpus = $vcpus" 'memory = "3GiB"' \
            '[guest]' 'packages = ["sysbench", "pigz", "postgresql"]' "files = [\"$here/bench.d/guest/programs.sh:/root/programs.sh\"]" \
            '[[drive]]' 'model = "samsung-980-pro"' 'medium = "ram:512MiB"' >programs.toml
        run "programs-$vcpus" programs.toml
    done
    paste -d ' ' programs-1.out programs-16.out | while read -r name one _ many; do
        row "$name on 16 vCPUs: speed-up in virtual time" "14 (postgresql: said)" \
            "$(awk -v a="$one" -v b="$many" 'BEGIN { printf "%.1f (%.3f s, %.3f s)", a / b, a / 1e9, b / 1e9 }')"
    done
}
