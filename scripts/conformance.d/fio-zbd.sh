# Runs in the guest: fio's tests of zones on /dev/nvme0n1, all or those whose numbers are given.
. /root/conformance-guest
cd /root/suite/t/zbd || exit 1
# Results name the tests with two digits.
for index in "${!only[@]}"; do
    only[index]=$(printf '%02d' "$((10#${only[index]}))")
done
# shellcheck disable=SC2046
choose $(sed -nE 's/^test([0-9]+)\(\).*/\1/p' test-zbd-support | sort -n | xargs printf '%02d ')
options=()
for test in "${tests[@]}"; do
    options+=(-t "$((10#$test))")
done
# -w: a drive with a limit of open zones needs its zones reset before each test that writes.
bash ./test-zbd-support -w "${options[@]}" /dev/nvme0n1 2>&1 | tee /results/output.txt
sed -nE 's/^Running test ([0-9]+) \.\.\. (PASS|FAIL|SKIP) *(.*)$/\1\t\2\t\3/p' /results/output.txt |
    sed -e 's/\tPASS\t/\tpassed\t/' -e 's/\tFAIL\t/\tfailed\t/' -e 's/\tSKIP\t/\tnot-run\t/' >>/results/tests.tsv
cp test-zbd-support.log.* /results/
