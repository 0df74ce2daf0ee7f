# Runs in the guest: zonefs-tools' tests of a file system of zones on /dev/nvme0n1, all or those whose numbers are given;
# with `control` first, on a drive of the kernel's own with the same zones.
. /root/conformance-guest
cd /root/suite/tests || exit 1
mkdir -p /results/logs
install -m 755 /root/suite/src/mkzonefs /usr/local/sbin/mkzonefs
device=/dev/nvme0n1
if [ "${only[0]-}" = control ]; then
    only=("${only[@]:1}")
    device=/dev/nullb0
    modprobe null_blk nr_devices=1 memory_backed=1 gb=1 zoned=1 zone_size=16 zone_capacity=12 zone_nr_conv=0 \
        zone_max_open=8 zone_max_active=8 || exit 1
    # Some of the tests remove the module.
    exec 9<$device
fi
# shellcheck disable=SC2046
choose $(cd scripts && ls [0-9]*.sh | sed 's/\.sh$//')
options=()
for test in "${tests[@]}"; do
    options+=(-t "$test")
done
bash ./zonefs-tests.sh -g /results/logs "${options[@]}" "$device" 2>&1 | tee /results/output.txt
# Lines such as `Test 0100: Files size (default) ... PASS`, in colours.
sed -E 's/\x1b\[[0-9]+m//g' /results/output.txt |
    sed -nE 's/^ *Test ([0-9]+): *(.*[^ ]) *\.\.\. *(PASS|FAIL|skip)$/\1\t\3\t\2/p' |
    sed -e 's/\tPASS\t/\tpassed\t/' -e 's/\tFAIL\t/\tfailed\t/' -e 's/\tskip\t/\tnot-run\t/' >>/results/tests.tsv
