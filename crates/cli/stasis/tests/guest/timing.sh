# Runs in the guest: what its clocks say, and what fio says of /dev/nvme0n1.
set -eu
date +%s
before=$(date +%s%N)
sleep 10
after=$(date +%s%N)
echo "slept $((after - before))"
fio --filename=/dev/nvme0n1 --bs=4k --direct=1 --size=64M --number_ios=500 \
  --output-format=json --output=/results/fio.json --name=reads --rw=randread --ioengine=psync \
  --name=deep --stonewall --rw=randrw --ioengine=libaio --iodepth=8
