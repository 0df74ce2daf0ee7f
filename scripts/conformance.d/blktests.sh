# Runs in the guest: blktests' tests of a drive, of the groups block, nvme and zbd, or those that are named.
#
# A test without test_device() makes its own devices (null_blk, scsi_debug, fabrics) and meets no drive of ours.
. /root/conformance-guest
cd /root/suite || exit 1
useradd user
printf 'TIMEOUT=5\nRUN_ZONED_TESTS=1\nNORMAL_USER=user\n' >config
# Asked for by its old name, deadline, which loads nothing; where a machine has a disk, it is there.
modprobe mq-deadline
# The suite reads a version up to a minus sign; Debian 13 has a plus sign before (6.12.117+deb13).
release=$(uname -r)
if [ "$release" != "${release/+/-}" ]; then
    ln -s "config-$release" "/boot/config-${release/+/-}"
    ln -s "$release" "/lib/modules/${release/+/-}"
    printf '#!/bin/sh\n/usr/bin/uname "$@" | sed s/+/-/\n' >/usr/local/bin/uname
    chmod +x /usr/local/bin/uname
fi

# run DRIVE TEST...: prints one line with the outcome of each.
run() {
    local drive=$1
    shift
    [ $# -gt 0 ] || return 0
    TEST_DEVS=$drive ./check "$@" 2>&1 | tee -a /results/check.txt | gawk '
        function tell() { if (name != "") printf "%s\t%s\t%s\n", name, status, reason; name = "" }
        match($0, /^([a-z]+\/[0-9]+) .*\[(passed|failed|not run)\]/, found) {
            tell(); name = found[1]; status = found[2]; reason = ""; sub(" ", "-", status); print > "/dev/stderr"; next
        }
        name != "" && status != "passed" && reason == "" { gsub(/^[ \t]+|\t/, ""); reason = $0 }
        { fflush() }
        END { tell() }' >>/results/tests.tsv
}

of_drives() { grep --files-with-matches '^test_device()' "$@" | sed 's|^tests/||'; }

# shellcheck disable=SC2046
choose $(of_drives tests/block/[0-9][0-9][0-9] tests/nvme/[0-9][0-9][0-9] tests/zbd/[0-9][0-9][0-9])
plain=() zoned=() whole=()
for test in "${tests[@]}"; do
    case $test in
        # It looks for a zone whose capacity is its size.
        zbd/004) whole+=("$test") ;;
        zbd/*) zoned+=("$test") ;;
        *) plain+=("$test") ;;
    esac
done
run /dev/nvme0n1 "${plain[@]}"
run /dev/nvme1n1 "${zoned[@]}"
run /dev/nvme2n1 "${whole[@]}"
cp -r results /results/
