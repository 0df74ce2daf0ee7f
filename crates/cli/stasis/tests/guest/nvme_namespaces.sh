# In a guest whose kernel has nvme-tcp: namespaces that come and go, and a server that takes another's place.
set -eu
modprobe nvme-tcp
cd /tmp
ip link set lo up 2>/dev/null || true

watch_steps

# A namespace comes and goes, by the control interface and by nvme-cli, while fio verifies another one.
serve --drive name=three,model=null,medium=ram:96MiB,namespaces=3
connect
controller=${device%n*}
nsids() { # CONTROLLER: its namespaces, as nvme-cli lists them
    nvme list-ns "$1" | grep -o '0x[0-9a-f]*$' | sed 's/0x//' | tr '\n' ' '
}
# Linux numbers block devices by when it finds them, not by their NSIDs.
of_nsid() { # NSID: its block device
    local at
    for at in /sys/block/"${controller##*/}"n*; do
        [ "$(cat "$at/nsid")" != "$1" ] || echo "/dev/${at##*/}"
    done
}
present() { # NSIDS: whether `nvme list-ns` and the kernel have these
    local there
    there=$(cat /sys/block/"${controller##*/}"n*/nsid 2>/dev/null | sort -n | tr '\n' ' ')
    [ "$(nsids "$controller")" = "$1" ] && [ "$there" = "$1" ]
}
settled() {
    local try
    for try in $(seq 100); do
        ! present "$1" || return 0
        sleep 0.1
    done
    echo "not $1 but $(nsids "$controller") and $(grep . /sys/block/nvme*/nsid)"
    cat log
    dmesg | tail -20
    exit 1
}
settled "1 2 3 "
device=$(of_nsid 1)
fio --name=others --filename="$device" --rw=randwrite --bs=4k --size=16M --io_size=64M --rate_iops=2000 --ioengine=libaio --iodepth=8 \
    --direct=1 --verify=crc32c --output=fio.txt &
fio=$!
dd if=/dev/urandom of=random bs=1M count=1 status=none
dd if=random of="$(of_nsid 2)" bs=1M count=1 oflag=direct status=none
control '{"do": "detach-namespace", "drive": "three", "namespace": 2}'
settled "1 3 "
echo "a namespace went"
id=$(nvme id-ctrl "$controller" | awk '$1 == "cntlid" { print $3 }')
nvme attach-ns "$controller" --namespace-id=2 --controllers="$id" 2>&1 | grep -qi "denied" && echo "and stays away"
control '{"do": "attach-namespace", "drive": "three", "namespace": 2}'
settled "1 2 3 "
dd if="$(of_nsid 2)" bs=1M count=1 iflag=direct status=none | cmp -n 1048576 - random && echo "a namespace came back"
nvme detach-ns "$controller" --namespace-id=3 --controllers="$id"
settled "1 2 "
nvme list-ns "$controller" --all | grep -q "0x3" && nvme attach-ns "$controller" --namespace-id=3 --controllers="$id"
settled "1 2 3 "
nvme delete-ns "$controller" --namespace-id=3
settled "1 2 "
nvme create-ns "$controller" --nsze=4096 --ncap=4096 --flbas=1 --nmic=1 | grep -q "nsid:3" && echo "created"
settled "1 2 "
nvme attach-ns "$controller" --namespace-id=3 --controllers="$id"
settled "1 2 3 "
[ "$(blockdev --getsize64 --getss "$(of_nsid 3)" | tr '\n' ' ')" = "16777216 4096 " ] && echo "attached"
dd if=random of="$(of_nsid 3)" bs=1M count=1 oflag=direct status=none
dd if="$(of_nsid 3)" bs=1M count=1 iflag=direct status=none | cmp -n 1048576 - random && echo "used"
kill -0 $fio && echo "fio was running on another namespace" || true
wait $fio && echo "fio verifies another namespace"
control '{"do": "detach-namespace", "drive": "three", "namespace": 2, "host": "nqn.2014-08.org.example:away"}' >/dev/null
away=/dev/$(nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --duplicate-connect --hostnqn nqn.2014-08.org.example:away \
    --hostid 00000000-0000-4000-8000-000000000003 -o json | grep -o 'nvme[0-9]*' | tail -1)
[ "$(nsids "$away")" = "1 3 " ] && [ "$(nsids "$controller")" = "1 2 3 " ] && echo "a namespace that one host has not"
nvme disconnect -n "$nqn" >/dev/null
stop

# Another server takes its place while fio writes and checks.
truncate -s 32M disk.img
serve --drive name=file,model=fixed:200us,medium=file:disk.img
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=60 >/dev/null
settle
KILLS_BYTES=32M
verify_meanwhile
sleep 0.5
kill -0 $fio && echo "fio is running" || true
before=$server
serve --drive name=file,model=fixed:200us,medium=file:disk.img --replace
wait $before && echo "handed over"
wait $fio && echo "fio over another server: ok" || { cat fio.txt log; dmesg | tail -40; exit 1; }
nvme disconnect -n "$nqn" >/dev/null
stop

# Metadata behind the data: Linux's host finds the namespace, and makes no block device of it.
serve --drive name=protected,model=null,medium=ram:64MiB,metadata-size=8,protection=1,metadata.extended=true
connect
echo "protected $(blockdev --getsize64 "$device") $(nvme id-ns "$device" | awk '$1 == "flbas" || $1 == "dps" { print $3 }' | tr '\n' ' ')"
nvme disconnect -n "$nqn" >/dev/null
stop
echo "stopped"
kill $watch 2>/dev/null || true
