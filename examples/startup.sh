# How long a shell takes to start with cold caches, beside a reader in the guest:
#   sh startup.sh READERS SETTLE TIMES
# The disk is /dev/vda: a file system at its beginning, what the readers read behind it.
set -e
readers=$1 settle=$2 times=$3
mkfs.ext4 -q -F -J size=8 -E lazy_itable_init=1,lazy_journal_init=1 /dev/vda 1G
mkdir -p /tmp/app
mount -o noatime,noinit_itable /dev/vda /tmp/app
for file in /bin/bash $(ldd /bin/bash | grep -o '/[^ )]*'); do
    mkdir -p "/tmp/app$(dirname "$file")"
    cp -L "$file" "/tmp/app$file"
done
sync
number=0
while [ "$number" -lt "$readers" ]; do
    dd if=/dev/vda of=/dev/null bs=128k skip=$((16384 + 4096 * number)) 2>/dev/null &
    number=$((number + 1))
done
sleep "$settle"
number=0
while [ "$number" -lt "$times" ]; do
    echo 3 >/proc/sys/vm/drop_caches
    begun=$(date +%s%N)
    timeout 60 chroot /tmp/app /bin/bash -c exit || echo "not within 60 s"
    ended=$(date +%s%N)
    echo "$(((ended - begun) / 1000)) us"
    sleep 4
    number=$((number + 1))
done
