# Uses the memory buffer of the first drive's controller: for queues, for data of its own and of the
# other drive, after a reset of the controller, and after it was away.
ready() {
    buffer=$(readlink -f /sys/class/nvme/nvme0/device)/p2pmem
    echo $(cat /sys/class/nvme/nvme0/cmb) "size $(cat "$buffer/size") available $(cat "$buffer/available")"
}
# Data in the buffer, verified: $1, the drive.
write() {
    fio --name=write --filename="/dev/$1" --rw=write --bs=64k --iodepth=4 --ioengine=libaio \
        --direct=1 --size=1M --verify=crc32c --mem="mmapshared:$buffer/allocate" >fio.txt 2>&1
    echo "$1: $?"
}
ready
write nvme0n1
write nvme1n1
nvme reset /dev/nvme0
ready
write nvme0n1
# The fault begins at 3 s.
sleep 4
for _ in $(seq 100); do
    [ -e /dev/nvme0n1 ] && [ -e /sys/class/nvme/nvme0/cmb ] && break
    sleep 0.1
done
ready
write nvme0n1
dmesg | grep -c "added peer-to-peer DMA memory"
