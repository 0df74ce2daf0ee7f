# Runs in the guest: NVMe commands beyond read and write, by nvme-cli and Linux's driver.
# /dev/nvme0 has two namespaces, /dev/nvme1 Flexible Data Placement.
set -u
cd /results

# What happened goes to a file each: the command's own words, and its status.
try() {
  name=$1
  shift
  "$@" >$name.txt 2>&1
  echo "status $?" >>$name.txt
}

uname -r >kernel.txt
try id-ctrl nvme id-ctrl /dev/nvme0
try id-ns nvme id-ns /dev/nvme0n1
try list-ns nvme list-ns /dev/nvme0
lsblk -bno NAME,SIZE,LOG-SEC /dev/nvme0n1 /dev/nvme0n2 >lsblk.txt

# The namespaces are parts of the drive of their own.
seq 1 100000 | head -c 65536 >one
seq 200000 300000 | head -c 65536 >two
dd if=one of=/dev/nvme0n1 bs=64k oflag=direct status=none
dd if=two of=/dev/nvme0n2 bs=64k oflag=direct status=none
dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct status=none | cmp - one && echo same >apart.txt
dd if=/dev/nvme0n2 bs=64k count=1 iflag=direct status=none | cmp - two && echo same >>apart.txt

# Copy: blocks 0 to 7 and 16 to 19 of the second namespace to 1000.
try copy nvme copy /dev/nvme0n2 --sdlba=1000 --slbs=0,16 --blocks=7,3
dd if=/dev/nvme0n2 bs=512 skip=1000 count=12 iflag=direct status=none >copied
(dd if=two bs=512 count=8 status=none; dd if=two bs=512 skip=16 count=4 status=none) |
  cmp - copied && echo same >>copy.txt
try overlap nvme copy /dev/nvme0n2 --sdlba=4 --slbs=0 --blocks=7

dd if=two of=block bs=4096 count=1 status=none
dd if=one of=other bs=4096 count=1 status=none
try equal nvme compare /dev/nvme0n2 --start-block=0 --block-count=7 --data-size=4096 --data=block
try different nvme compare /dev/nvme0n2 --start-block=0 --block-count=7 --data-size=4096 --data=other
try verify nvme verify /dev/nvme0n2 --start-block=0 --block-count=7

try uncorrectable nvme write-uncor /dev/nvme0n2 --start-block=64 --block-count=0
try unreadable nvme read /dev/nvme0n2 --start-block=64 --block-count=0 --data-size=512 --data=out
try unverified nvme verify /dev/nvme0n2 --start-block=64 --block-count=0
dd if=/dev/zero of=/dev/nvme0n2 bs=512 seek=64 count=1 oflag=direct status=none
try readable nvme read /dev/nvme0n2 --start-block=64 --block-count=0 --data-size=512 --data=out

# Transfers by SGLs: Linux takes them from segments of this average size on.
echo 1 >/sys/module/nvme/parameters/sgl_threshold
seq 1 1000000 | head -c 4M >large
try sgl dd if=large of=/dev/nvme0n1 bs=256k oflag=direct status=none
dd if=/dev/nvme0n1 bs=256k count=16 iflag=direct status=none | cmp - large && echo same >>sgl.txt
rm large

try format nvme format /dev/nvme0n2 --lbaf=1 --ses=1 --force
blockdev --getss /dev/nvme0n2 >sector.txt
dd if=/dev/nvme0n2 bs=64k count=1 iflag=direct status=none | cmp -n 65536 - /dev/zero && echo empty >>format.txt
dd if=/dev/nvme0n1 bs=4k count=1 iflag=direct status=none >/dev/null && echo there >>format.txt

# Namespaces come and go while fio verifies another one.
fio --name=others --filename=/dev/nvme0n1 --rw=randwrite --bs=4k --size=16M --rate_iops=2000 --direct=1 --ioengine=libaio \
  --iodepth=4 --verify=crc32c --do_verify=1 --output=others.txt &
others=$!
has() { # NSIDS: whether the kernel has block devices of these, and no others; waits for them
  for _ in $(seq 100); do
    there=$(cat /sys/block/nvme0n*/nsid | sort -n | tr '\n' ' ')
    [ "$there" != "$1" ] || return 0
    sleep 0.1
  done
  echo "namespaces $there, not $1"
  return 1
}
of_nsid() { # NSID: its block device
  for at in /sys/block/nvme0n*; do
    [ "$(cat "$at/nsid")" != "$1" ] || echo "/dev/${at##*/}"
  done
}
try full nvme create-ns /dev/nvme0 --nsze=8 --ncap=8 --flbas=0
try delete-ns nvme delete-ns /dev/nvme0 --namespace-id=2
has "1 " >>delete-ns.txt && echo gone >>delete-ns.txt
nvme id-ctrl /dev/nvme0 | grep nvmcap >capacity.txt
try create-ns nvme create-ns /dev/nvme0 --nsze=4096 --ncap=4096 --flbas=1
try create-more nvme create-ns /dev/nvme0 --nsze=16384 --ncap=16384 --flbas=0
try attach-ns nvme attach-ns /dev/nvme0 --namespace-id=2 --controllers=0
try attach-more nvme attach-ns /dev/nvme0 --namespace-id=3 --controllers=0
has "1 2 3 " >>attach-ns.txt
for nsid in 2 3; do blockdev --getsize64 --getss "$(of_nsid $nsid)"; done >created.txt
mkfs.ext4 -q "$(of_nsid 2)" && mount "$(of_nsid 2)" /mnt && cp one /mnt && umount /mnt && echo written >>created.txt
try detach-ns nvme detach-ns /dev/nvme0 --namespace-id=3 --controllers=0
has "1 2 " >>detach-ns.txt && echo gone >>detach-ns.txt
try delete-more nvme delete-ns /dev/nvme0 --namespace-id=3
mount "$(of_nsid 2)" /mnt && cmp one /mnt/one && umount /mnt && echo kept >>created.txt
kill -0 $others && echo running >>created.txt
wait $others && echo verified >>created.txt

try vendor nvme admin-passthru /dev/nvme0 --opcode=0xc2 --data-len=512 --read --cdw10=128
try smart-log nvme smart-log /dev/nvme0
try error-log nvme error-log /dev/nvme0 --log-entries=64
try abort nvme admin-passthru /dev/nvme0 --opcode=0x08 --cdw10=0x12340001 --show-command

# Placement: writes by identifier, and what the logs say of them.
try fdp-configs nvme fdp configs /dev/nvme1 --endgrp-id=1
for identifier in 1 2; do
  try placed$identifier nvme write /dev/nvme1n1 --start-block=0 --block-count=7 --data-size=4096 --data=block \
    --dir-type=2 --dir-spec=$identifier
done
try fdp-status nvme fdp status /dev/nvme1n1
try fdp-stats nvme fdp stats /dev/nvme1 --endgrp-id=1
try fdp-usage nvme fdp usage /dev/nvme1 --endgrp-id=1
try fdp-update nvme fdp update /dev/nvme1n1 --pids=1
try fdp-updated nvme fdp status /dev/nvme1n1

# Coalesced interrupts: one read at a time waits for the time that was asked for.
one_at_a_time="--filename=/dev/nvme1n1 --rw=randread --bs=4k --direct=1 --size=64M --number_ios=100 --output-format=json"
fio $one_at_a_time --ioengine=psync --output=interrupts.json --name=plain --name=coalesced --stonewall \
  --exec_prerun="nvme set-feature /dev/nvme1 --feature-id=8 --value=0x30f"
nvme set-feature /dev/nvme1 --feature-id=8 --value=0 >/dev/null

# Polled queues, which have no interrupts.
interrupts() {
  awk '/nvme1q[1-9]/ { for (i = 2; i <= NF; i++) if ($i ~ /^[0-9]+$/) sum += $i } END { print sum + 0 }' \
    /proc/interrupts
}
address=$(basename "$(readlink -f /sys/class/nvme/nvme1/device)")
echo 1 >/sys/module/nvme/parameters/poll_queues
echo "$address" >/sys/bus/pci/drivers/nvme/unbind
echo "$address" >/sys/bus/pci/drivers/nvme/bind
# The driver looks for namespaces in its own time.
until [ -b /dev/nvme1n1 ]; do sleep 0.1; done
cat /sys/block/nvme1n1/queue/io_poll >poll.txt
before=$(interrupts)
fio $one_at_a_time --name=polled --ioengine=io_uring --hipri --output=polled.json
echo $(($(interrupts) - before)) >>poll.txt
exit 0
