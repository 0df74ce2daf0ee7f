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

# kmod's `modprobe --remove --wait` turns round for ever once its time is up (kmod issue 386), which on a slow machine it is:
# the suite, which has a way without, is not told of it.
printf '#!/bin/sh\n[ "$*" = --help ] || exec /usr/sbin/modprobe "$@"\n/usr/sbin/modprobe --help | grep -v wait\n' >/usr/local/sbin/modprobe
chmod +x /usr/local/sbin/modprobe

# The longest that a test may take, in seconds of the guest: one that waits for ever is not to take the others along.
limit=1800

# run DRIVE TEST...: prints one line with the outcome of each.
run() {
    local drive=$1 test check image
    shift
    for test in "$@"; do
        # What a test of a target writes: the least that each takes.
        case $test in nvme/012) image=350M ;; *) image=16M ;; esac
        TEST_DEVS=$drive NVME_TARGET_CONTROL=${control:-} NVME_IMG_SIZE=$image setsid ./check "$test" >/tmp/check.txt 2>&1 &
        check=$!
        # A process that waits in the kernel cannot be killed, and is left.
        if timeout $limit tail --pid=$check -f /dev/null; then
            wait $check
        else
            printf '%s\tfailed\tno end within %s s\n' "$test" $limit >>/results/tests.tsv
            { cat /tmp/check.txt; ps -e -o pid,stat,wchan:32,args; dmesg | tail -n 50; } | tee "/results/late-${test/\//-}.txt"
            kill -KILL -- -$check
            continue
        fi
        tee -a /results/check.txt </tmp/check.txt | gawk '
            function tell() { if (name != "") printf "%s\t%s\t%s\n", name, status, reason; name = "" }
            match($0, /^([a-z]+\/[0-9]+) .*\[(passed|failed|not run)\]/, found) {
                tell(); name = found[1]; status = found[2]; reason = ""; sub(" ", "-", status); print > "/dev/stderr"; next
            }
            name != "" && status != "passed" && reason == "" { gsub(/^[ \t]+|\t/, ""); reason = $0 }
            END { tell() }' >>/results/tests.tsv
    done
}

of_arrays() { grep --files-with-matches '^test_device_array()' "$@" | sed 's|^tests/||'; }
of_drives() { grep --files-with-matches '^test_device()' "$@" | sed 's|^tests/||'; }

# Over NVMe/TCP: tests of a drive, and those of the group nvme that take another target than the kernel's.
if [ "$way" = tcp ]; then
    . /root/conformance-served
    # The suite asks for the kernel's target and its place in configfs also where another one is named; Debian's
    # cloud kernels are built without it.
    modprobe -qn nvmet-tcp || echo "install nvmet-tcp /bin/true" >/etc/modprobe.d/nvmet.conf
    findmnt -t configfs /sys/kernel/config >/dev/null || mount -t configfs none /sys/kernel/config
    of_targets() {
        grep --files-with-matches '_setup_nvmet' tests/nvme/[0-9][0-9][0-9] |
            xargs grep --files-without-match '_require_kernel_nvme_target\|^test_device()' | sed 's|^tests/||'
    }
    # shellcheck disable=SC2046
    choose $(of_targets) $(of_drives tests/nvme/[0-9][0-9][0-9] tests/zbd/[0-9][0-9][0-9])
    plain=() zoned=() whole=() targets=()
    for test in "${tests[@]}"; do
        case $test in
            zbd/004) whole+=("$test") ;;
            zbd/*) zoned+=("$test") ;;
            *) if grep -q '^test_device()' "tests/$test"; then plain+=("$test"); else targets+=("$test"); fi ;;
        esac
    done
    control=/root/conformance-target run "" "${targets[@]}"
    nvme disconnect-all
    serve_drive plain 4430 && run "$device" "${plain[@]}"
    serve_drive zoned 4440 && run "$device" "${zoned[@]}"
    serve_drive whole 4450 && run "$device" "${whole[@]}"
    cp -r results /results/
    exit 0
fi

# shellcheck disable=SC2046
choose $(of_drives tests/block/[0-9][0-9][0-9] tests/nvme/[0-9][0-9][0-9] tests/zbd/[0-9][0-9][0-9]) \
    $(of_arrays tests/md/[0-9][0-9][0-9])
plain=() zoned=() whole=() metadata=() arrays=()
for test in "${tests[@]}"; do
    case $test in
        # It looks for a zone whose capacity is its size.
        zbd/004) whole+=("$test") ;;
        zbd/*) zoned+=("$test") ;;
        *)
            if grep -q '^\s*_test_dev_has_metadata' "tests/$test"; then
                metadata+=("$test")
            elif grep -q '^test_device_array()' "tests/$test"; then
                arrays+=("$test")
            else
                plain+=("$test")
            fi
            ;;
    esac
done
# of_name NAME ELSE: the drive whose serial number is its name, because Linux numbers drives as they answer.
of_name() {
    local controller
    for controller in /sys/class/nvme/nvme*; do
        [ "$(tr -d ' ' <"$controller/serial")" != "$1" ] || { echo "/dev/${controller##*/}n1"; return; }
    done
    echo "/dev/$2n1"
}
run "$(of_name plain nvme0)" "${plain[@]}"
run "$(of_name zoned nvme1)" "${zoned[@]}"
run "$(of_name whole nvme2)" "${whole[@]}"
run "$(of_name metadata nvme3)" "${metadata[@]}"
for test in "${arrays[@]}"; do
    array=$(for number in 1 2 3 4; do of_name "atomic$number" "nvme$((number + 3))"; done)
    printf 'TEST_CASE_DEV_ARRAY[%s]="%s"\n' "$test" "$(echo $array)" >>config
done
run "" "${arrays[@]}"
cp -r results /results/
