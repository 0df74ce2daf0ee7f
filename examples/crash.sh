# Appends lines to a log, overwrites files, and says which lines are durable.
set -eu
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
mount /dev/vda /mnt
sync
echo "ready"
for number in $(seq 1 "${1:-40}"); do
  echo "line $number" >>/mnt/log
  head -c 20000 /dev/urandom >"/mnt/file$((number % 7))"
  sync /mnt/log
  echo "durable $number"
done
umount /mnt
