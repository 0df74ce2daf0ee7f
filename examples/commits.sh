# 500 commits of SQLite on a fresh ext4, one by one, and how many a second.
set -eu
mkfs.ext4 -q /dev/nvme0n1 && mount /dev/nvme0n1 /mnt
sqlite3 /mnt/db 'pragma journal_mode = wal; create table t (n)' >/dev/null
begin=$(date +%s%N)
{ echo 'pragma synchronous = full;'; seq 1 500 | sed 's/.*/insert into t values (&);/'; } | sqlite3 /mnt/db
end=$(date +%s%N)
echo "$((500000000000 / (end - begin))) commits a second"
