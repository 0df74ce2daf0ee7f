# Runs in the guest: fio's tests of zones on /dev/nvme0n1, all or those whose numbers are given.
set -u
cd /root/suite/t/zbd || exit 1
mkdir -p /results
printf 'kernel\t%s\n' "$(uname -r)" >/results/tests.tsv
never=' ' options=()
while [ $# -gt 0 ] && [ "${1#-}" != "$1" ]; do
    never="$never${1#-} "
    shift
done
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046
    set -- $(sed -nE 's/^test([0-9]+)\(\).*/\1/p' test-zbd-support | sort -n)
fi
for test in "$@"; do
    case $never in *" $test "*) continue ;; esac
    options+=(-t "$test")
    printf 'planned\t%02d\n' "$((10#$test))" >>/results/tests.tsv
done
# -w: a drive with a limit of open zones needs its zones reset before each test that writes.
bash ./test-zbd-support -w "${options[@]}" /dev/nvme0n1 2>&1 | tee /results/output.txt
sed -nE 's/^Running test ([0-9]+) \.\.\. (PASS|FAIL|SKIP) *(.*)$/\1\t\2\t\3/p' /results/output.txt |
    sed -e 's/\tPASS\t/\tpassed\t/' -e 's/\tFAIL\t/\tfailed\t/' -e 's/\tSKIP\t/\tnot-run\t/' >>/results/tests.tsv
cp test-zbd-support.log.* /results/
