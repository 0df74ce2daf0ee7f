# In a guest whose kernel has ublk: drives as block devices of this "host".
set -eu
modprobe ublk_drv
cd /tmp
at=/tmp/sockets
server=

# A step that hangs says where each thread waits, before the test's limit.
{
    set +e
    sleep 110 &
    trap 'kill $!; exit' TERM
    wait $!
    echo "late:"
    cat log fio.txt
    for thread in /proc/[0-9]*/task/*; do
        [ -s "$thread/cmdline" ] || continue
        echo "$thread $(tr '\0' ' ' <"$thread/cmdline")"
        cat "$thread/stack"
    done
} 2>&1 &
watch=$!

serve() {
    rm -f log.ready
    ./stasis serve --sockets $at --control $at/control.sock "$@" 2>>log &
    server=$!
    until [ -S $at/control.sock ] && grep -q "on $at" log; do
        kill -0 $server || { cat log; exit 1; }
        sleep 0.1
    done
    : >log.seen
}

settle() {
    until [ -b "$(readlink -f $at/"$1".ublk)" ]; do sleep 0.1; done
    device=$(readlink -f $at/"$1".ublk)
}

# A drive on RAM: sizes, every operation, a file system.
serve --drive name=ram,model=null,medium=ram:64MiB --ublk
settle ram
echo "size $(blockdev --getsize64 "$device") block $(blockdev --getss "$device") cache $(cat /sys/block/"${device#/dev/}"/queue/write_cache)"
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
kill $server
wait $server
[ ! -e "$device" ] && [ ! -L $at/ram.ublk ] && echo "gone after a stop"
grep -c "ram: .* 0 failed; 0 connections, 0 faults" log

# It ends in bounded time though its model holds a request back for an hour.
: >log
serve --drive name=slow,model=null,medium=ram:32MiB --ublk
settle slow
perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new($ARGV[0]) or die; print $s "$ARGV[1]\n"; print scalar <$s>' \
    $at/control.sock '{"do": "timing", "drive": "slow", "model": "fixed:1h"}'
dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct 2>/dev/null &
until [ "$(awk '{ print $1 + $2 }' /sys/block/"${device#/dev/}"/inflight)" -gt 0 ]; do sleep 0.1; done
before=$(date +%s)
kill $server
wait $server && [ $(($(date +%s) - before)) -lt 20 ] && echo "ended in time"

truncate -s 32M disk.img

# Killed and started again while fio writes and checks, and replaced.
: >log
serve --drive name=file,model=fixed:200us,medium=file:disk.img --ublk
settle file
fio --name=verify --filename="$device" --rw=randwrite --bs=4k --size=32M --io_size="${KILLS_BYTES:-64M}" \
    --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --verify_backlog=256 --output=fio.txt &
fio=$!
kills=0
while [ $kills -lt "${KILLS:-3}" ] && kill -0 $fio 2>/dev/null; do
    sleep 1
    kill -9 $server
    wait $server || true
    : >log
    serve --drive name=file,model=fixed:200us,medium=file:disk.img --ublk
    grep -q "which an earlier server left" log || { cat log; exit 1; }
    kills=$((kills + 1))
done
old=$server
serve --drive name=file,model=null,medium=file:disk.img --ublk --replace
wait $old
wait $fio && echo "fio after $kills kills: ok" || { cat fio.txt log; exit 1; }
[ "$(readlink -f $at/file.ublk)" = "$device" ] && echo "the same device"

# One thing at a time.
./stasis serve --sockets $at --control $at/other.sock --drive name=file,model=null,medium=ram:32MiB --ublk 2>&1 | tail -1 || true
kill $server
wait $server && echo "stopped"
kill $watch 2>/dev/null || true
