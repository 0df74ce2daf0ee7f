# Runs in the guest: xfstests with ext4 on /dev/nvme0n1 and /dev/nvme1n1, a short list or the tests that are named.
#
# The list has tests in which a drive's order decides: shutdowns, logs that are replayed, writes that dm-flakey drops.
. /root/conformance-guest
cd /root/suite || exit 1
mkdir -p /mnt/test /mnt/scratch
useradd --create-home fsgqa
choose generic/{001,013,047,073,311,321,322,325,335,336,341,342,343,376,388,475}
cat >local.config <<'END'
export FSTYP=ext4 TEST_DEV=/dev/nvme0n1 TEST_DIR=/mnt/test SCRATCH_DEV=/dev/nvme1n1 SCRATCH_MNT=/mnt/scratch
END
mkfs.ext4 -q -F /dev/nvme0n1
mount /dev/nvme0n1 /mnt/test
./check "${tests[@]}" 2>&1 | tee /results/output.txt
# The summary: `Ran:` has all that were started, `Not run:` and `Failures:` those of them that did not pass.
awk '/^(Ran|Not run|Failures): / {
        status = $1 == "Ran:" ? "passed" : $1 == "Failures:" ? "failed" : "not-run"
        for (i = status == "not-run" ? 3 : 2; i <= NF; i++) ended[$i] = status == "passed" && $i in ended ? ended[$i] : status
    }
    END { for (test in ended) printf "%s\t%s\t\n", test, ended[test] }' /results/output.txt >>/results/tests.tsv
cp -r results /results/
