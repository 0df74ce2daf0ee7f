# Runs in the guest: a file system that flushes often.
set -eu
mkfs.ext4 -q /dev/nvme0n1
mount /dev/nvme0n1 /mnt
echo mounted
fio --name=w --directory=/mnt --size=4M --rw=randwrite --bs=4k --fsync=4 --number_ios=60 \
  --output-format=json --output=/results/fio.json
