# Files are deleted while they are open, and fsync makes that durable: xfstests' generic/764.
# "check" looks for files that came back.
set -eu
if [ "$1" = work ]; then
  mkfs.btrfs -q /dev/vda
  mount /dev/vda /mnt
  touch /mnt/file1 /mnt/file2 /mnt/file3
  sync -f /mnt
  for number in 1 2 3; do
    exec 3<"/mnt/file$number"
    rm "/mnt/file$number"
    sync /proc/self/fd/3 # fsync of the open file
    echo "deleted $number"
    exec 3<&-
  done
else
  grep -q '^deleted ' "$STASIS_OUTPUT_LINES" || exit 0 # nothing is promised yet
  mount /dev/vda /mnt
  for number in $(sed -n 's/^deleted //p' "$STASIS_OUTPUT_LINES"); do
    [ ! -e "/mnt/file$number" ] || { echo "file $number was deleted durably, and is back"; exit 2; }
  done
fi
