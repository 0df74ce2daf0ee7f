# Commits to a BuntDB database on XFS, which then shrinks its file; another program syncs a file of
# its own. "check" looks for the commits.
set -eu
chmod +x /root/load
if [ "$1" = work ]; then
  mkfs.xfs -q /dev/vda
  mount /dev/vda /mnt
  touch /mnt/log
  sync -f /mnt
  /root/load work /mnt/db 5
  echo "a line" >>/mnt/log
  sync /mnt/log
  echo "the log is synced"
else
  grep -q '^committed ' "$STASIS_OUTPUT_LINES" || exit 0 # nothing is promised yet
  mount /dev/vda /mnt
  /root/load check /mnt/db "$(grep -c '^committed ' "$STASIS_OUTPUT_LINES")"
fi
