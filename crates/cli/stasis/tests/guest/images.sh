# Runs in the guest: a file system on each disk image, files made durable one by
# one, some deleted; then what the disk holds, for the host to compare.
set -e
for disk in "$@"; do
  mkfs.ext4 -q "/dev/$disk"
  mount "/dev/$disk" /mnt
  for number in $(seq 1 20); do
    seq "$number" 4000 | dd of="/mnt/$number" bs=16k conv=fsync status=none
  done
  rm /mnt/[1-9]
  fstrim /mnt
  seq 1 5000 | dd of=/mnt/20 conv=notrunc,fdatasync bs=4k status=none
  (cd /mnt && md5sum [12]*) >"/results/$disk.files"
  umount /mnt
  md5sum <"/dev/$disk" | cut -d' ' -f1 >"/results/$disk.md5"
done
