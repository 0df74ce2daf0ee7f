# "work" commits numbers, and prints each once it is committed; "check" looks for them.
set -eu
as() { su postgres -c "PATH=$(echo /usr/lib/postgresql/*/bin):\$PATH; cd /mnt; $1"; }
start='pg_ctl -D /mnt/pg -o "-k /tmp" -l /tmp/log -w start >/dev/null'
if [ "$1" = work ]; then
  mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda && mount /dev/vda /mnt
  install -d -o postgres /mnt/pg
  as "initdb -D /mnt/pg --wal-segsize=1 >/dev/null && $start"
  as 'psql -h /tmp -qc "create table t (n int)"' && sync -f /mnt && echo ready
  seq 1 100 | sed 's/.*/insert into t values (&);\n\\echo step &/' | as 'psql -h /tmp -q'
else
  grep -q '^ready$' "$STASIS_OUTPUT_LINES" || exit 0 # no cluster yet
  mount /dev/vda /mnt
  as "$start" || { cat /tmp/log; exit 2; }
  as 'psql -h /tmp -Atc "select n from t order by n"' >/tmp/found
  seq 1 "$(wc -l </tmp/found)" | cmp - /tmp/found || exit 2
  promised=$(grep -c '^step ' "$STASIS_OUTPUT_LINES" || true)
  [ "$(wc -l </tmp/found)" -ge "$promised" ] ||
    { echo "commit $promised was acknowledged, and $(wc -l </tmp/found) are left"; exit 2; }
fi
