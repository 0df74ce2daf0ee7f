# Functions of scripts that run in a guest which is a server's host, in /tmp with `log` of the server. The script itself follows.

# A step that hangs says where each thread waits, before the test's limit.
watch_steps() {
    {
        set +e
        sleep "$WATCH" &
        trap 'kill $!; exit' TERM
        wait $!
        echo "late:"
        cat log fio.txt
        dmesg | tail -30
        for thread in /proc/[0-9]*/task/*; do
            [ -s "$thread/cmdline" ] || continue
            echo "$thread $(tr '\0' ' ' <"$thread/cmdline")"
            cat "$thread/stack"
        done
    } 2>&1 &
    watch=$!
}

# Every operation on `device`, of 64 MiB, and a file system.
exercise() {
    fio --name=verify --filename="$device" --rw=randwrite --bsrange=512-512k --blockalign=512 --size=64M --io_size=64M \
        --ioengine=libaio --iodepth=16 --direct=1 --verify=crc32c --fsync=64 --output=fio.txt || { cat fio.txt log; exit 1; }
    dd if=/dev/urandom of=random bs=1M count=4 status=none
    dd if=random of="$device" bs=1M seek=8 oflag=direct status=none
    blkdiscard -z -o 9M -l 1M "$device"
    dd if="$device" bs=1M skip=8 count=1 status=none | cmp -n 1048576 - random
    dd if="$device" bs=1M skip=9 count=1 status=none | cmp -n 1048576 - /dev/zero
    blkdiscard "$device"
    mkfs.ext4 -q "$device"
    mkdir -p /tmp/mount
    mount "$device" /tmp/mount
    cp random /tmp/mount/
    umount /tmp/mount
    mount "$device" /tmp/mount
    cmp random /tmp/mount/random
    umount /tmp/mount
    e2fsck -fn "$device" >/dev/null 2>&1
}

# fio that writes and checks on `device`, of 32 MiB, behind this script.
verify_meanwhile() {
    fio --name=verify --filename="$device" --rw=randwrite --bs=4k --size=32M --io_size="$KILLS_BYTES" \
        --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --verify_backlog=256 --output=fio.txt &
    fio=$!
}

# The server of NVMe/TCP targets at the ports `paths`, and the name of its first one, `nqn`.
at=/tmp/sockets
server=
serve() {
    : >log
    ./stasis serve --sockets $at --control $at/control.sock --nvme-tcp "${paths:-4420}" "$@" 2>>log &
    server=$!
    until [ -S $at/control.sock ] && grep -q "nvme connect" log; do
        kill -0 $server || { cat log; exit 1; }
        sleep 0.1
    done
    nqn=$(sed -n 's/.* -n \([^;]*\).*/\1/p;T;q' log)
}

stop() {
    kill $server
    wait $server
}

# The block device of the subsystem that is connected.
settle() {
    until device=$(nvme list -o json 2>/dev/null | grep -o '/dev/nvme[0-9]*n1' | head -1) && [ -b "$device" ]; do sleep 0.1; done
}

connect() {
    nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" "$@"
    settle
}

control() { # REQUEST [SOCKET]
    perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new($ARGV[0]) or die; print $s "$ARGV[1]\n"; print scalar <$s>' \
        "${2:-$at/control.sock}" "$1"
}
