# Runs in the guest: what its clocks say, and what fio says of /dev/nvme0n1.
set -eu
date +%s
before=$(date +%s%N)
sleep 10
after=$(date +%s%N)
echo "slept $((after - before))"
fio --name=reads --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync \
  --size=64M --number_ios=500 --output-format=json --output=/results/reads.json
fio --name=deep --filename=/dev/nvme0n1 --rw=randrw --bs=4k --direct=1 --ioengine=libaio --iodepth=8 \
  --size=64M --number_ios=500 --output-format=json --output=/results/deep.json
