# In a guest whose kernel has ublk: drives as block devices of this "host".
set -eu
modprobe ublk_drv
cd /tmp
at=/tmp/sockets
server=

watch_steps

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
exercise
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
verify_meanwhile
kills=0
while [ $kills -lt "$KILLS" ] && kill -0 $fio 2>/dev/null; do
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
