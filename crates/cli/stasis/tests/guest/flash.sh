# Runs in the guest. nvme0n1 a flash SSD in steady state, nvme1n1 and nvme2n1 small
# ones for RAID, nvme3n1 one of 1 TB on a file with holes.
set -eu
(cd /sys/class/nvme/nvme0/device && cat current_link_speed current_link_width) >/results/link.txt

# Enough writes that garbage is collected, reads beside them.
fio --name=mixed --filename=/dev/nvme0n1 --rw=randrw --rwmixread=50 --bs=4k --direct=1 \
  --ioengine=libaio --iodepth=16 --size=32M --number_ios=1200 --randrepeat=0 >/dev/null

# A file system on two drives as one, by Linux' own RAID.
mdadm --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1 2>/dev/null
mkfs.ext4 -q -F /dev/md0
mount /dev/md0 /mnt
seq 1 100000 >/mnt/numbers
sync
echo 3 >/proc/sys/vm/drop_caches
seq 1 100000 | cmp - /mnt/numbers
umount /mnt
mdadm --stop /dev/md0 2>/dev/null

# More than any memory here: written and read at its ends.
blockdev --getsize64 /dev/nvme3n1 >/results/size.txt
for place in 0 123456789 244140624; do
  echo "at $place" | dd of=/dev/nvme3n1 bs=4k count=1 seek=$place conv=sync oflag=direct status=none
done
for place in 0 123456789 244140624; do
  dd if=/dev/nvme3n1 bs=4k count=1 skip=$place iflag=direct status=none | head -1
done >/results/places.txt

# A vendor command sets the time of a read, while the guest runs.
reads() {
  for _ in $(seq 20); do dd if=/dev/nvme3n1 of=/dev/null bs=4k count=1 iflag=direct status=none; done
}
reads
nvme admin-passthru /dev/nvme3 --opcode=0xc0 --cdw12=0 --cdw13=900000 >/dev/null 2>&1
reads
nvme smart-log /dev/nvme0 >/results/smart.txt
