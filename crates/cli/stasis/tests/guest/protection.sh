# Runs in the guest: a namespace with protection information, as Linux and nvme-cli use it, and a
# fault that corrupts blocks of it 60 s after the begin.
set -u
cd /results
drive=/dev/nvme0n1
sys=/sys/block/nvme0n1

# What happened goes to a file each: the command's own words, and its status.
try() {
  name=$1
  shift
  "$@" >$name.txt 2>&1
  echo "status $?" >>$name.txt
}

# Writes and reads with the checks of the kernel, of the drive and of fio.
use() {
  cat $sys/integrity/format >$1-format.txt
  blockdev --getsize64 $drive >$1-size.txt
  try $1-fio fio --name=w --filename=$drive --rw=randwrite --bsrange=4k-64k --size=8M --direct=1 \
    --ioengine=libaio --iodepth=8 --verify=crc32c --verify_fatal=1
}

use made
cat $sys/integrity/tag_size $sys/integrity/read_verify $sys/integrity/write_generate >made-tags.txt
try made-id nvme id-ns $drive
# Blocks that were never written, deallocated ones, and zeroes.
try unwritten dd if=$drive of=/dev/null bs=64k skip=512 count=16 iflag=direct
try discard blkdiscard -o 33554432 -l 1048576 $drive
try zeroes blkdiscard -z -o 34603008 -l 1048576 $drive
try read-zeroes dd if=$drive of=/dev/null bs=64k skip=512 count=32 iflag=direct

# The reference tag of block 100, by the drive's own check and by the bytes.
seq 1 100000 | head -c 4096 >block
printf '\0\0\0\0\0\0\0\0' >metadata
try insert nvme write $drive --start-block=100 --data-size=4096 --data=block --prinfo=8 --ref-tag=100
try check nvme read $drive --start-block=100 --data-size=4096 --data=read --metadata-size=8 \
  --metadata=tags --prinfo=5 --ref-tag=100
cmp block read && od -An -tx1 -j4 tags >tags.txt
try wrong-tag nvme read $drive --start-block=100 --data-size=4096 --prinfo=1 --ref-tag=101
try wrong-guard nvme write $drive --start-block=101 --data-size=4096 --data=block --metadata-size=8 \
  --metadata=metadata --prinfo=4
try verify nvme verify $drive --start-block=100 --prinfo=5 --ref-tag=100

# A file system, and the fault: bits go wrong between 40 and 44 MiB of the drive.
try mkfs mkfs.ext4 -q $drive 30m
mkdir /mnt/fs
try mount mount $drive /mnt/fs
try file dd if=/dev/urandom of=/mnt/fs/file bs=1M count=8 conv=fsync
try umount umount /mnt/fs
try fsck fsck.ext4 -fn $drive
try before dd if=/dev/zero of=$drive bs=1M seek=34 count=8 oflag=direct
try read-before dd if=$drive of=/dev/null bs=1M skip=34 count=8 iflag=direct
read up _ </proc/uptime
sleep $((62 - ${up%.*}))
dmesg -C
try read-after dd if=$drive of=/dev/null bs=4k skip=8704 count=2048 iflag=direct conv=noerror
try verify-after nvme verify $drive --start-block=8704 --block-count=127 --prinfo=4
for first in 8832 8960 9088 9216 9344 9472 9600 9728 9856 9984 10112 10240 10368; do
  nvme verify $drive --start-block=$first --block-count=127 --prinfo=4 >>verify-after.txt 2>&1
done
dmesg >dmesg.txt

# Other formats, and back.
try format-64 nvme format $drive --lbaf=7 --pi=1 --force
use crc64
try format-behind nvme format $drive --lbaf=5 --pi=1 --ms=1 --force
blockdev --getsize64 $drive >behind-size.txt
try behind-fio fio --name=w --filename=$drive --rw=randwrite --bs=4k --size=2M --direct=1 --verify=crc32c
try format-512 nvme format $drive --lbaf=3 --pi=3 --force
use type3
try format-plain nvme format $drive --lbaf=0 --force
blockdev --getsize64 $drive >plain-size.txt
cat $sys/integrity/format >plain-format.txt
true
