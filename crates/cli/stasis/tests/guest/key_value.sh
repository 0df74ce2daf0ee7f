# Runs in the guest: pairs of keys and values, by nvme-cli and Linux's generic device.
set -u
cd /results

# The command's own words go to a file each, and its status.
try() {
  name=$1
  shift
  "$@" >$name.txt 2>&1
  echo "status $?" >>$name.txt
}
# OPCODE LENGTH-OF-KEY FIRST-DWORD DWORD-10 ...: a command on a pair.
pair() {
  opcode=$1 length=$2 key=$3 dword10=$4
  shift 4
  nvme io-passthru /dev/ng0n1 --namespace-id=1 --opcode=$opcode --cdw2=$key --cdw11=$length \
    --cdw10=$dword10 "$@"
}

ls /dev | grep -E '^n(g|vme)0' >devices.txt
try sets nvme id-ns /dev/ng0n1 --namespace-id=1
nvme admin-passthru /dev/nvme0 --opcode=6 --namespace-id=1 --cdw10=5 --cdw11=0x1000000 --data-len=4096 \
  --read --raw-binary 2>/dev/null | od -An -tu4 -j72 -N12 >format.txt

seq 1 400 | head -c 1000 >value
head -c 300 /dev/urandom >other
# The key "key", of 3 bytes, and "k".
try missing pair 0x14 3 0x79656b 0
try store pair 0x01 3 0x79656b 1000 --data-len=1000 --write --input-file=value
try there pair 0x14 3 0x79656b 0
try retrieve pair 0x02 3 0x79656b 4096 --data-len=4096 --read
pair 0x02 3 0x79656b 4096 --data-len=4096 --read --raw-binary 2>/dev/null | head -c 1000 | cmp - value &&
  echo same >same.txt
try exists pair 0x01 $((0x203)) 0x79656b 300 --data-len=300 --write --input-file=other
try other pair 0x01 1 0x6b 300 --data-len=300 --write --input-file=other
pair 0x06 0 0 4096 --data-len=4096 --read --raw-binary 2>/dev/null | od -An -tx1 -N16 >list.txt
# Every second one again and again: the drive collects what was overwritten, and copies the others.
failed=0
for round in $(seq 0 72); do
  [ $round -lt 32 ] && number=$round || number=$((2 * (round % 16)))
  head -c 262144 /dev/urandom >large
  pair 0x01 1 $number 262144 --data-len=262144 --write --input-file=large >/dev/null 2>&1 ||
    failed=$((failed + 1))
done
echo "$failed failed" >overwritten.txt
pair 0x02 1 $number 262144 --data-len=262144 --read --raw-binary 2>/dev/null | cmp - large &&
  echo last >>overwritten.txt
pair 0x02 3 0x79656b 4096 --data-len=4096 --read --raw-binary 2>/dev/null | head -c 1000 | cmp - value &&
  echo first >>overwritten.txt
try delete pair 0x10 3 0x79656b 0
try gone pair 0x02 3 0x79656b 4096 --data-len=4096 --read
