# Runs in the guest: uses four drives in every way a user would.
# /dev/nvme0n1 null, nvme1n1 100 us on RAM, nvme2n1 the same on a file, nvme3n1 on a late file.
set -eu

# One job after the other, of one fio: its start takes longer than they do.
jobs=
for drive in 0 1 2 3; do
  jobs="$jobs --name=reads$drive --stonewall --filename=/dev/nvme${drive}n1 --rw=randread --number_ios=300
    --name=writes$drive --stonewall --filename=/dev/nvme${drive}n1 --rw=randwrite --number_ios=100"
done
fio --bs=4k --direct=1 --ioengine=psync --size=64M --output-format=json --output=/results/fio.json $jobs

for link in /sys/class/nvme/nvme*/device; do
  echo "$(cat "$link/current_link_speed") x$(cat "$link/current_link_width") of $(cat "$link/max_link_speed")"
done >/results/links.txt
dmesg --level=err,warn | grep -i pci >/results/pci-complaints.txt || true
# A reset of the function, then of the link: the driver goes on, and nothing is lost.
for method in flr bus; do
  echo "stasis: before $method" | dd of=/dev/nvme1n1 bs=4k count=1 conv=sync oflag=direct status=none
  echo $method >/sys/class/nvme/nvme1/device/reset_method
  echo 1 >/sys/class/nvme/nvme1/device/reset
  dd if=/dev/nvme1n1 bs=4k count=1 iflag=direct status=none | head -n 1 >>/results/resets.txt
done

nvme list >/results/list.txt
nvme id-ctrl /dev/nvme1 >/results/id-ctrl.txt
nvme smart-log /dev/nvme1 >/results/smart-log.txt

# Commands that are neither read nor write, each followed by a look at what it did.
echo "stasis: these words go away" | dd of=/dev/nvme1n1 bs=4k count=1 conv=sync oflag=direct status=none
nvme write-zeroes /dev/nvme1n1 --start-block=0 --block-count=7 >/dev/null
dd if=/dev/nvme1n1 bs=4k count=1 iflag=direct status=none | cmp -n 4096 - /dev/zero
blkdiscard --offset 1048576 --length 1048576 /dev/nvme1n1
nvme flush /dev/nvme1n1 --namespace-id=1 >/dev/null

# A file system on the drive with a file below it.
mkfs.ext4 -q -F /dev/nvme2n1
mount /dev/nvme2n1 /mnt
seq 1 200000 >/mnt/numbers
mkdir /mnt/folder
cp -r /etc /mnt/folder/
(cd /mnt && find . -type f | sort | xargs sha256sum) >/results/before.sha256
umount /mnt
echo 3 >/proc/sys/vm/drop_caches
mount /dev/nvme2n1 /mnt
(cd /mnt && sha256sum --check --quiet /results/before.sha256)
umount /mnt

echo "to standard output"
echo "to standard error" >&2
exit 7
