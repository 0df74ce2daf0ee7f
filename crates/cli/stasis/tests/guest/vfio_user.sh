# In a guest under stock QEMU whose NVMe drives come by vfio-user.
set -euo pipefail

# The namespace of the controller with a serial number.
named() {
    for controller in /sys/class/nvme/nvme*; do
        [ "$(tr -d ' ' <"$controller/serial")" != "$1" ] || echo "/dev/${controller##*/}n1"
    done
}

verify() { # DEVICE FIO-OPTION...
    local device=$1
    shift
    fio --name=verify --filename="$device" --bs=4k --ioengine=libaio --iodepth=16 --direct=1 --verify=crc32c \
        --verify_fatal=1 --output=/tmp/fio.txt "$@" || { cat /tmp/fio.txt; dmesg | tail -30; exit 1; }
}

first() {
    local fdp zns plain controller
    fdp=$(named FDP) zns=$(named ZNS) plain=$(named PLAIN)
    verify "$plain" --rw=randwrite --size=16M --randseed=5
    echo "verified"
    controller=${fdp%n1}
    # The guide's commands, of this drive.
    bash -ec "${GUIDE//\/dev\/nvme0/$controller}" >/tmp/guide.txt 2>&1 || { cat /tmp/guide.txt; exit 1; }
    grep -q 'Host Bytes with Metadata Written' /tmp/guide.txt
    echo "as the guide says"
    nvme fdp configs "$controller" --endgrp-id=1 >/tmp/configs.txt
    grep -q 'Number of Reclaim Unit Handles: *8' /tmp/configs.txt || { cat /tmp/configs.txt; exit 1; }
    head -c 4096 /dev/urandom >/tmp/block
    nvme write "$fdp" --start-block=0 --block-count=7 --data-size=4096 --data=/tmp/block --dir-type=2 --dir-spec=3 >/tmp/write.txt
    nvme read "$fdp" --start-block=0 --block-count=7 --data-size=4096 --data=/tmp/read >/tmp/write.txt
    cmp /tmp/block /tmp/read
    nvme fdp stats "$controller" --endgrp-id=1 >/tmp/stats.txt
    grep -Eq 'Host Bytes with Metadata Written.*: *4096' /tmp/stats.txt || { cat /tmp/stats.txt; exit 1; }
    echo "placed"
    echo "zoned $(cat /sys/block/"${zns#/dev/}"/queue/zoned)"
    nvme write "$zns" --start-block=16 --block-count=0 --data-size=512 --data=/tmp/block 2>&1 | grep -io 'zone invalid write' | head -n 1 || true
    mkfs.ext4 -q "$plain"
    mkdir -p /tmp/mount
    mount "$plain" /tmp/mount
    cp /tmp/block /tmp/mount/
    umount /tmp/mount
    nvme reset "${plain%n1}"
    mount "$plain" /tmp/mount
    cmp /tmp/block /tmp/mount/block
    umount /tmp/mount
    echo "reset"
}

# Reads a second of both drives in turns.
bench() {
    local round depth serial
    for round in 1 2 3; do
        for depth in 1 32; do
            for serial in STASIS QEMU; do
                echo "$serial $depth $(fio --name=bench --filename="$(named $serial)" --rw=randread --bs=4k --direct=1 \
                    --ioengine=libaio --iodepth=$depth --size=64M --time_based --runtime=4 --norandommap --randseed=$round \
                    --output-format=terse | cut -d';' -f8)"
            done
        done
    done
}

# Memory that was plugged in, in use by processes and page cache.
more() {
    local block
    for block in /sys/devices/system/memory/memory*; do
        [ "$(cat "$block/state")" = online ] || echo online_movable >"$block/state"
    done
    echo "memory $(($(awk '/MemTotal/ { print $2 }' /proc/meminfo) / 1024 / 100))"
    mkdir -p /tmp/full
    mount -t tmpfs -o size=400M none /tmp/full
    dd if=/dev/zero of=/tmp/full/full bs=1M count=300 status=none
    verify "$(named PLAIN)" --rw=randwrite --size=32M --mem=mmap --iodepth=64
    echo "verified in more memory"
    umount /tmp/full
    verify "$(named PLAIN)" --rw=write --size=16M --randseed=7
    sync
}

# Of two guests of one drive, the first one takes a reservation.
holds() {
    bash -ec "cd /tmp; $GUIDE" >/tmp/guide.txt 2>&1 || { cat /tmp/guide.txt; exit 1; }
    # Write Exclusive, of a host whose identifier is its name.
    grep -Eq 'rtype *: *1' /tmp/guide.txt || { cat /tmp/guide.txt; exit 1; }
    echo "reserved as the guide says"
}

write() {
    printf 'of the first guest' | dd of=/tmp/block bs=512 conv=sync status=none
    dd if=/tmp/block of=/dev/nvme0n1 bs=512 oflag=direct status=none
    echo "written"
}

# The other one's write is refused, as nvme-cli says and as Linux does.
refused() {
    head -c 512 /dev/urandom >/tmp/other
    nvme write /dev/nvme0n1 --start-block=0 --block-count=0 --data-size=512 --data=/tmp/other >/tmp/write.txt 2>&1 && exit 1
    grep -qi 'reservation conflict' /tmp/write.txt || { cat /tmp/write.txt; exit 1; }
    ! dd if=/tmp/other of=/dev/nvme0n1 bs=512 oflag=direct status=none 2>/dev/null || exit 1
    echo "refused by name"
}

preempt() {
    dd if=/dev/nvme0n1 of=/tmp/read bs=512 count=1 iflag=direct status=none
    [ "$(head -c 18 /tmp/read)" = 'of the first guest' ]
    printf 'the other guest.' >/tmp/name
    nvme set-feature /dev/nvme0 --feature-id=0x81 --value=1 --data-len=16 --data=/tmp/name
    nvme resv-register /dev/nvme0n1 --nrkey=18
    nvme resv-acquire /dev/nvme0n1 --crkey=18 --prkey=17 --rtype=1 --racqa=1
    head -c 512 /dev/urandom >/tmp/other
    dd if=/tmp/other of=/dev/nvme0n1 bs=512 oflag=direct status=none
    echo "reads what the other guest has written"
}

preempted() {
    refused
    nvme resv-notif-log /dev/nvme0 >/tmp/log.txt
    grep -Eq 'Type[[:space:]]*: 1 ' /tmp/log.txt || { cat /tmp/log.txt; exit 1; }
    echo "refused by name, and told"
}

# The server was killed: the controller fails, and its I/Os.
gone() {
    local plain
    plain=$(named PLAIN)
    ! timeout 100 dd if="$plain" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null || exit 1
    echo "an I/O fails"
}

back() {
    local plain=
    # The dead controller may still be there, without its namespace.
    until [ -n "$plain" ]; do
        sleep 0.2
        plain=$(named PLAIN | while read -r device; do [ ! -b "$device" ] || echo "$device"; done)
    done
    verify "$plain" --rw=write --size=16M --randseed=7 --verify_only
    verify "$plain" --rw=randwrite --size=16M
    echo "back with its data"
}

"$STEP"
