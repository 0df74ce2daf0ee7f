# Runs in the guest: a virtio drive and an NVMe drive side by side.
# /dev/vda and /dev/nvme0n1: 100 us on RAM; /dev/vdb: the same, polled.
set -eu

# First reads of each; then the same data on both, written and read in different pieces, many at a time.
jobs=
for drive in vda nvme0n1 vdb; do
  jobs="$jobs --name=$drive --stonewall --filename=/dev/$drive --rw=randread --bs=4k --ioengine=psync --number_ios=300"
done
fio --direct=1 --size=64M --output=/dev/null $jobs --name=verify --stonewall --filename=/dev/vda --rw=randwrite \
  --bsrange=4k-64k --ioengine=libaio --iodepth=16 --size=4M --verify=crc32c --verify_fatal=1
dd if=/dev/vda of=/dev/nvme0n1 bs=1M count=4 iflag=direct oflag=direct status=none
dd if=/dev/nvme0n1 bs=12k iflag=direct count=341 status=none | cmp -n 4190208 - /dev/vda

# What the driver made of the features.
cd /sys/block/vda
for file in serial cache_type queue/logical_block_size queue/max_segments queue/discard_max_bytes \
  queue/write_zeroes_max_bytes queue/fua; do
  echo "$file $(cat $file)"
done >/results/vda.txt
ls mq | wc -l >/results/queues.txt
cd /

# Every processor uses a queue of its own.
for cpu in 0 1; do
  taskset -c $cpu dd if=/dev/vda of=/dev/null bs=4k count=40 skip=$((cpu * 100)) iflag=direct status=none
done

# Neither read nor write: each followed by a look at what it did.
tr '\0' 'x' </dev/zero | dd of=/dev/vda bs=64k count=16 iflag=fullblock oflag=direct status=none
blkdiscard --offset 65536 --length 65536 /dev/vda
blkdiscard --zeroout --offset 262144 --length 131072 /dev/vda
fallocate --punch-hole --offset 524288 --length 65536 /dev/vda
dd if=/dev/vda of=/results/mixed bs=64k count=16 iflag=direct status=none
dd if=/dev/zero of=/dev/vda bs=4k count=1 seek=1000 conv=fsync status=none

# A file system, by way of the cache and many flushes.
mkfs.ext4 -q -F /dev/vda
mount /dev/vda /mnt
cp -r /etc /mnt/
(cd /mnt && find . -type f | sort | xargs sha256sum) >/results/before.sha256
umount /mnt
echo 3 >/proc/sys/vm/drop_caches
mount /dev/vda /mnt
(cd /mnt && sha256sum --check --quiet /results/before.sha256)
umount /mnt

# The write cache off: no flush any more.
echo "write through" >/sys/block/vda/cache_type
cat /sys/block/vda/cache_type >>/results/vda.txt
dd if=/dev/zero of=/dev/vda bs=4k count=1 conv=fsync status=none
echo done
