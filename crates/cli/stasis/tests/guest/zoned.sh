# Runs in the guest: a zoned drive and an Open-Channel drive through Linux's own tools.
# nvme0n1: zones of 8 MiB, 6 MiB of each writable; nvme1n1: 2 groups of 2 units of 4 chunks of 64
# sectors of 4 KiB.
set -eu
cd /results

zoned=/dev/nvme0n1
cat /sys/block/nvme0n1/queue/zoned /sys/block/nvme0n1/queue/max_open_zones \
  /sys/block/nvme0n1/queue/max_active_zones >queue.txt
blkzone report $zoned >report.txt
nvme zns id-ns $zoned >id-ns.txt
nvme zns report-zones $zoned --descs=2 >zns.txt

# Written in order, refused elsewhere.
seq 1 100000 | head -c 262144 >/tmp/data
dd if=/tmp/data of=$zoned bs=64k oflag=direct status=none
dd if=$zoned bs=64k count=4 iflag=direct status=none | cmp - /tmp/data
behind=0
dd if=/tmp/data of=$zoned bs=64k seek=1 count=1 oflag=direct status=none 2>behind.txt || behind=$?
ahead=0
dd if=/tmp/data of=$zoned bs=64k seek=5 count=1 oflag=direct status=none 2>ahead.txt || ahead=$?
echo $behind $ahead >refused.txt
dd if=$zoned bs=64k count=4 iflag=direct status=none | cmp - /tmp/data
blkzone report --count 1 $zoned >written.txt

# Appended, finished, reset.
for size in 4096 8192 4096; do
  head -c $size /tmp/data >/tmp/part
  nvme zns zone-append $zoned --zslba=16384 --data=/tmp/part --data-size=$size
done >append.txt
nvme zns finish-zone $zoned --start-lba=16384 >/dev/null
blkzone report --offset 16384 --count 1 $zoned >finished.txt
nvme zns open-zone $zoned --start-lba=32768 >/dev/null
blkzone report --offset 32768 --count 1 $zoned >opened.txt
blkzone reset $zoned
blkzone report $zoned >reset.txt
dd if=$zoned bs=64k count=4 iflag=direct status=none | cmp -n 262144 - /dev/zero

fio --filename=$zoned --zonemode=zbd --bs=64k --direct=1 --ioengine=psync --size=64M --number_ios=40 --max_open_zones=4 \
  --output-format=json --output=zbd.json --name=write --rw=randwrite --name=read --stonewall --rw=randread
blkzone reset $zoned

# zonefs: its superblock is the first block of the first zone: magic, CRC-32 of the whole without
# the last inversion, label, UUID, and no features (Linux, fs/zonefs/zonefs.h).
truncate -s 4096 /tmp/super
printf 'SFOZ\230\317\044\327stasis' | dd of=/tmp/super conv=notrunc status=none
printf 'stasis zoned one' | dd of=/tmp/super bs=1 seek=72 conv=notrunc status=none
dd if=/tmp/super of=$zoned bs=4k oflag=direct status=none
dd if=/tmp/data of=$zoned bs=64k seek=512 oflag=direct status=none
modprobe zonefs
mount -t zonefs $zoned /mnt
ls /mnt/seq | wc -l >zonefs.txt
stat -c %s /mnt/seq/3 >>zonefs.txt
cmp /tmp/data /mnt/seq/3
truncate -s 0 /mnt/seq/3
umount /mnt
blkzone report --offset $((4 * 16384)) --count 1 $zoned >truncated.txt

# Open-Channel: what it is, and vectors of one address, for a list's address is the kernel's.
ocssd=/dev/nvme1n1
nvme admin-passthru /dev/nvme1 --opcode=0xe2 --namespace-id=1 --data-len=4096 --read --raw-binary \
  >geometry.bin
vector() {
  opcode=$1
  shift
  nvme io-passthru $ocssd --opcode=$opcode --namespace-id=1 "$@"
}
chunks() {
  nvme get-log /dev/nvme1 --namespace-id=1 --log-id=0xca --log-len=64 --raw-binary >$1
}
head -c 4096 /tmp/data >/tmp/sector
vector 0x91 --cdw10=0x40 --data-len=4096 --write --input-file=/tmp/sector
vector 0x92 --cdw10=0x40 --data-len=4096 --read --raw-binary 2>/dev/null | cmp - /tmp/sector
again=0
vector 0x91 --cdw10=0x40 --data-len=4096 --write --input-file=/tmp/sector >again.txt 2>&1 || again=$?
echo $again >>refused.txt
chunks written.bin
# A copy inside the drive, and the rest of the chunk as by any driver, so that it can be reset.
vector 0x93 --cdw10=0x40 --cdw14=0x00
vector 0x92 --cdw10=0x00 --data-len=4096 --read --raw-binary 2>/dev/null | cmp - /tmp/sector
dd if=/tmp/data of=$ocssd bs=4k seek=65 count=63 oflag=direct status=none
chunks closed.bin
vector 0x90 --cdw10=0x40
chunks reset.bin
