# In the guest: sysbench, pigz and PostgreSQL with 16 threads or clients. Prints a line for each: "NAME NANOSECONDS".
set -eu
cd /tmp
now() { date +%s%N; }
# told NAME SINCE
told() { echo "$1 $(($(now) - $2))"; }

head -c 24M /dev/urandom | base64 >text

since=$(now)
sysbench cpu --threads=16 --events=32000 --time=0 --cpu-max-prime=4000 run >/results/sysbench.txt
told sysbench "$since"

since=$(now)
pigz -p 16 -c text >text.gz
told pigz "$since"

bin=$(echo /usr/lib/postgresql/*/bin)
as() { su postgres -s /bin/sh -c "$*"; }
mkfs.ext4 -q /dev/nvme0n1
mkdir -p /mnt/db /run/postgresql
mount /dev/nvme0n1 /mnt/db
chown -R postgres /mnt/db /run/postgresql
as "$bin/initdb -D /mnt/db/data -A trust" >/results/initdb.txt
as "$bin/pg_ctl -D /mnt/db/data -w -l /mnt/db/log start" >/results/postgresql.txt
as "$bin/pgbench -i -q -s 2 postgres" >/results/fill.txt 2>&1
as "$bin/pgbench -S -n -c 16 -j 16 -t 100 postgres" >/results/warm.txt
since=$(now)
as "$bin/pgbench -S -n -c 16 -j 16 -t 1000 postgres" >/results/pgbench.txt
told postgresql "$since"
as "$bin/pg_ctl -D /mnt/db/data -m fast stop" >>/results/postgresql.txt
