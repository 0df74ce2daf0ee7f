# Runs in the guest: nvme-cli's tests of a drive on /dev/nvme0, all or the modules that are given.
. /root/conformance-guest
cd /root/suite || exit 1
device=/dev/nvme0n1 ways=
if [ "$way" = tcp ]; then
    . /root/conformance-served
    serve_drive plain 4430 || exit 1
    ways=--no-validate-pci-device
fi
[ ${#only[@]} -gt 0 ] || only=("")
for module in "${only[@]}"; do
    # shellcheck disable=SC2086
    python3 tests/nvme-cli-e2e --controller "${device%n*}" --ns1 "$device" $ways --nvme-bin /root/suite/.build/nvme \
        --log-dir /tmp/log --plugins none $module 2>&1
done | tee /results/output.txt
# Lines of the Test Anything Protocol: `ok 1 - test_x (Class) # SKIP reason`.
awk '$1 == "ok" || $1 == "not" && $2 == "ok" {
        status = $1 == "ok" ? "passed" : "failed"
        reason = ""
        if (match($0, / # SKIP /)) {
            status = "not-run"
            reason = substr($0, RSTART + RLENGTH)
            $0 = substr($0, 1, RSTART - 1)
        }
        gsub(/[()]/, "", $NF)
        printf "%s.%s\t%s\t%s\n", $NF, $(NF - 1), status, reason
    }' /results/output.txt >>/results/tests.tsv
