# In a guest: 4 KiB random reads over NVMe/TCP on the loopback, of this server and of the kernel's own target (nvmet), both
# with their bytes in memory, in turns. Prints `TARGET QD IOPS` lines.
set -eu
modprobe nvme-tcp
modprobe nvmet-tcp
modprobe brd rd_nr=1 rd_size=65536
cd /tmp
ip link set lo up 2>/dev/null || true
at=/tmp/sockets

# The kernel's target, at port 4421.
mount -t configfs none /sys/kernel/config 2>/dev/null || true
target=/sys/kernel/config/nvmet
mkdir $target/subsystems/nqn.kernel
echo 1 >$target/subsystems/nqn.kernel/attr_allow_any_host
mkdir $target/subsystems/nqn.kernel/namespaces/1
echo /dev/ram0 >$target/subsystems/nqn.kernel/namespaces/1/device_path
echo 1 >$target/subsystems/nqn.kernel/namespaces/1/enable
mkdir $target/ports/1
(
    cd $target/ports/1
    echo tcp >addr_trtype
    echo ipv4 >addr_adrfam
    echo 127.0.0.1 >addr_traddr
    echo 4421 >addr_trsvcid
    ln -s $target/subsystems/nqn.kernel subsystems/nqn.kernel
)

./stasis serve --sockets $at --control $at/control.sock --nvme-tcp 4420 --drive name=d,model=null,medium=ram:64MiB 2>log &
server=$!
until grep -q "nvme connect" log 2>/dev/null; do
    kill -0 $server || { cat log; exit 1; }
    sleep 0.1
done
nqn=$(sed -n 's/.* -n //p;T;q' log)
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" >/dev/null
nvme connect -t tcp -a 127.0.0.1 -s 4421 -n nqn.kernel >/dev/null
device() {
    for controller in /sys/class/nvme/nvme*; do
        [ "$(cat "$controller"/subsysnqn)" = "$1" ] || continue
        echo "/dev/$(basename "$controller")n1"
    done
}
until [ -b "$(device "$nqn")" ] && [ -b "$(device nqn.kernel)" ]; do sleep 0.1; done
for device in "$(device "$nqn")" "$(device nqn.kernel)"; do
    dd if=/dev/urandom of="$device" bs=1M count=64 oflag=direct status=none
done
for round in 1 2 3; do
    for depth in 1 32; do
        for name in stasis nvmet; do
            [ $name = stasis ] && file=$(device "$nqn") || file=$(device nqn.kernel)
            iops=$(fio --name=$name --filename="$file" --rw=randread --bs=4k --ioengine=io_uring --iodepth=$depth --direct=1 \
                --runtime="${SECONDS_EACH:-5}" --time_based --output-format=terse | cut -d';' -f8)
            echo "$name $depth $iops"
        done
    done
done
kill $server
wait $server
