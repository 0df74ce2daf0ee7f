# In a guest whose kernel has nvme-tcp: the server, and its client by the loopback.
set -eu
modprobe nvme-tcp
cd /tmp
ip link set lo up 2>/dev/null || true

watch_steps

# Discovery, and a drive on RAM: sizes, every operation, a file system.
serve --drive name=ram,model=null,medium=ram:64MiB
nvme discover -t tcp -a 127.0.0.1 -s 4420 >discovered
grep -q "trtype:  tcp" discovered && grep -q "subnqn:  $nqn" discovered && grep -q "trsvcid: 4420" discovered && echo "discovered"
connect
controller=${device%n1}
echo "size $(blockdev --getsize64 "$device") block $(blockdev --getss "$device") queues $(cat /sys/class/nvme/"$(basename "$controller")"/queue_count)"
nvme smart-log "$controller" | grep -q "available_spare" && echo "health"
exercise
echo "file system"
nvme disconnect -n "$nqn" | grep -q "disconnected 1" && echo "disconnected"

# With digests of headers and data.
connect --hdr-digest --data-digest
fio --name=digests --filename="$device" --rw=randrw --bsrange=512-128k --blockalign=512 --size=64M --io_size=32M \
    --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --output=fio.txt && echo "digests"
nvme reset "${device%n1}" && dd if="$device" of=/dev/null bs=1M count=4 iflag=direct status=none && echo "reset"
nvme disconnect -n "$nqn" >/dev/null
stop
grep -q " 0 failed; 7 connections, 0 faults" log && echo "nothing failed" || cat log

# A host that is not allowed.
serve --drive name=ram,model=null,medium=ram:64MiB --hosts nqn.2014-08.org.example:friend
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" 2>&1 | grep -qi "fail\|host" && echo "refused"
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --hostnqn nqn.2014-08.org.example:friend >/dev/null && echo "allowed"
settle
nvme disconnect -n "$nqn" >/dev/null
stop

# Two paths of one host: one goes while fio verifies. Then two hosts, of which one reserves the namespace.
serve --drive name=ram,model=null,medium=ram:64MiB
connect
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --duplicate-connect >/dev/null
[ "$(nvme list-subsys | grep -c "tcp traddr=127.0.0.1")" = 2 ] && echo "two paths"
fio --name=paths --filename="$device" --rw=randwrite --bs=4k --size=16M --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c \
    --output=fio.txt &
fio=$!
sleep 1
nvme disconnect -d nvme1 >/dev/null
wait $fio && echo "one path is enough"
nvme disconnect -n "$nqn" >/dev/null
host() { # NUMBER: a controller of another host
    nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --duplicate-connect --hostnqn "nqn.2014-08.org.example:host$1" \
        --hostid "00000000-0000-4000-8000-00000000000$1" -o json | grep -o 'nvme[0-9]*' | tail -1
}
one=/dev/$(host 1)
other=/dev/$(host 2)
settle
reserved() { # CONTROLLER: a write of it
    nvme io-passthru "$1" --opcode=1 --namespace-id=1 --data-len=512 --write --cdw10=0 --cdw12=0 --input-file=random 2>&1
}
reserved "$other" | grep -qi "success" && echo "written before"
nvme resv-register "$one" --namespace-id=1 --nrkey=17 --rrega=0 >/dev/null
nvme resv-acquire "$one" --namespace-id=1 --crkey=17 --rtype=1 --racqa=0 >/dev/null
reserved "$other" | grep -i "conflict" | head -1
reserved "$one" | grep -qi "success" && echo "the holder writes"
nvme resv-report "$other" --namespace-id=1 --eds | grep -E "rtype|rkey" | tr -d ' ' | tr '\n' ' '
echo
nvme disconnect -n "$nqn" >/dev/null
stop

# Two ports of one drive: the access by one is taken away while fio verifies, and given back.
paths=4420,5420
serve --drive name=two,model=null,medium=ram:64MiB
paths=
echo "ports $(nvme discover -t tcp -a 127.0.0.1 -s 4420 | grep -c "portid:  [12]")"
connect
nvme connect -t tcp -a 127.0.0.1 -s 5420 -n "$nqn" >/dev/null
access() { # PATH STATE
    control "{\"do\": \"ana\", \"drive\": \"two\", \"path\": $1, \"state\": \"$2\"}"
}
states() { cat /sys/class/nvme-subsystem/nvme-subsys*/nvme*/nvme*c*n*/ana_state 2>/dev/null | sort | tr '\n' ' '; }
until [ "$(states)" = "optimized optimized " ]; do sleep 0.1; done
fio --name=ana --filename="$device" --rw=randwrite --bs=4k --size=16M --io_size=64M --rate_iops=4000 --ioengine=libaio --iodepth=8 \
    --direct=1 --verify=crc32c --output=fio.txt &
fio=$!
sleep 1
access 1 inaccessible
until [ "$(states)" = "inaccessible optimized " ]; do sleep 0.1; done
echo "access by one port"
access 2 non-optimized
until [ "$(states)" = "inaccessible non-optimized " ]; do sleep 0.1; done
access 1 optimized
until [ "$(states)" = "non-optimized optimized " ]; do sleep 0.1; done
kill -0 $fio && echo "fio was running" || true
wait $fio && echo "fio verifies over both ports"
access 3 optimized
nvme disconnect -n "$nqn" >/dev/null
stop

# A host-managed zoned namespace: a write that is not at the pointer is refused by the right status.
serve --drive name=zoned,model=null,medium=ram:64MiB,zones.size=4MiB
connect
echo "zoned $(cat /sys/block/"$(basename "$device")"/queue/zoned) zones $(nvme zns report-zones "$device" | grep -c "SLBA")"
dd if=random of="$device" bs=64k count=1 oflag=direct status=none
dd if="$device" bs=64k count=1 iflag=direct status=none | cmp -n 65536 - random && echo "zone written"
nvme zns zone-mgmt-send "$device" -a --zsa=4 >/dev/null 2>&1 || true
nvme write "$device" --start-block=16 --block-count=0 --data-size=512 --data=random 2>&1 | grep -i "invalid_write\|0x41bc\|1bc\|Zone Invalid Write" | head -1
nvme disconnect -n "$nqn" >/dev/null
stop

# Killed and started again while fio writes and checks, in a file.
truncate -s 32M disk.img
serve --drive name=file,model=fixed:200us,medium=file:disk.img
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=60 --fast_io_fail_tmo=30 >/dev/null 2>&1 ||
    nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=60
settle
verify_meanwhile
kills=0
while [ $kills -lt "$KILLS" ] && kill -0 $fio 2>/dev/null; do
    sleep 1
    kill -9 $server
    wait $server || true
    serve --drive name=file,model=fixed:200us,medium=file:disk.img
    until [ "$(cat /sys/class/nvme/"$(basename "${device%n1}")"/state)" = live ]; do
        kill -0 $fio || break
        sleep 0.1
    done
    kills=$((kills + 1))
done
wait $fio && echo "fio after $kills kills: ok" || { cat fio.txt log; dmesg | tail -40; exit 1; }
nvme disconnect -n "$nqn" >/dev/null
stop
echo "stopped"
kill $watch 2>/dev/null || true
