# Runs in the guest: a file system that flushes often.
set -eu
mkfs.ext4 -q /dev/nvme0n1
mount /dev/nvme0n1 /mnt
echo mounted
# What the guest takes for the time of each is in its results.
for number in $(seq 14); do
  dd if=/dev/zero of=/mnt/$number bs=16k count=1 conv=fsync 2>>/results/times.txt
  sleep 0.008
done
