# Work on ext4 with some mount options: renames a new file over an old one without fsync, and
# appends to a log with it. "check" looks for both.
set -eu
if [ "$1" = check ]; then
  grep -q '^ready$' "$STASIS_OUTPUT_LINES" || exit 0 # no file system yet
  mount /dev/vda /mnt
  durable=$(grep -c '^durable ' "$STASIS_OUTPUT_LINES" || true)
  [ "$(wc -l </mnt/log)" -ge "$durable" ] || { echo "the log lacks line $durable"; exit 2; }
  [ -s /mnt/settings ] || { echo "the file is neither the old one nor the new one"; exit 2; }
  exit 0
fi
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
mount -o "$1" /dev/vda /mnt
touch /mnt/log && echo old >/mnt/settings && sync -f /mnt && echo ready
for number in $(seq 1 20); do
  head -c 20000 /dev/urandom >/mnt/new && mv /mnt/new /mnt/settings
  echo "line $number" >>/mnt/log && sync /mnt/log && echo "durable $number"
done
