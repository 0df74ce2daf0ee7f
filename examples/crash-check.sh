# After a power cut: the file system mounts, is clean, and has every line that
# was said to be durable. With durability = "ordered" the last lines may be gone,
# and what is there must be a beginning: check = "STASIS_ORDERED=1 sh ...".
set -eu
if ! grep -q '^ready$' "$STASIS_OUTPUT_LINES"; then
  exit 0 # there was no file system yet
fi
mount /dev/vda /mnt
touch /mnt/log
durable=$(grep -c '^durable ' "$STASIS_OUTPUT_LINES" || true)
found=$(wc -l </mnt/log)
if ! seq -f 'line %.0f' 1 "$found" | cmp - /mnt/log; then
  echo "the log is no beginning of what was written"
  exit 2
fi
if [ "${STASIS_ORDERED:-}" != 1 ] && [ "$found" -lt "$durable" ]; then
  echo "line $durable was acknowledged as durable, and the log has $found"
  exit 2
fi
umount /mnt
fsck.ext4 -fn /dev/vda >/tmp/fsck 2>&1 || { cat /tmp/fsck; exit 2; }
