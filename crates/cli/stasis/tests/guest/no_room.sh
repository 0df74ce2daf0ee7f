# Runs in the guest: writes until there is no room below, then until there is again.
write() { dd if=/dev/zero of=/dev/vda bs=64k count=1 seek="$1" oflag=direct conv=notrunc,fsync status=none 2>/results/said; }
at=0
while write $at; do
  at=$((at + 1))
done
grep -q 'Input/output error' /results/said
echo "full at $at"
tries=0
until write $at; do
  tries=$((tries + 1))
  [ $tries -lt 20000 ]
  sleep 0.5
done
for more in 1 2 3; do write $((at + more)); done
sync /dev/vda
echo "room again"
md5sum </dev/vda | cut -d' ' -f1 >/results/vda.md5
