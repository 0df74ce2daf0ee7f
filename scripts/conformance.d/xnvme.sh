# Runs in the guest: xNVMe's test programs by each of Linux's interfaces, all or those that are named.
#
# A test is PROGRAM.COMMAND.INTERFACE, as `xnvme_tests_PROGRAM COMMAND DEVICE --be INTERFACE`.
. /root/conformance-guest
cd /root/suite/build/tests || exit 1
mkdir -p /results/logs

# io_uring_cmd takes the generic character device; the others the block device.
device() {
    case $2 in
        io_uring_cmd) echo "/dev/ng$1n1" ;;
        *) echo "/dev/nvme$1n1" ;;
    esac
}

# each DRIVE PROGRAM COMMAND [OPTION...]: the command by each interface.
declare -A commands
names=()
each() {
    local drive=$1 program=$2 command=$3 interface
    shift 3
    for interface in io_uring_cmd io_uring thrpool emu; do
        local name=$program.$command.$interface
        # This program chooses its interface itself.
        local options="--be $interface"
        [ "$program" != znd_explicit_open ] || options=
        names+=("$name")
        commands[$name]="./xnvme_tests_$program $command $(device "$drive" $interface) $options $*"
    done
}

each 0 async_intf init_term --count 8 --qdepth 64
each 0 buf buf_alloc_free --count 27
each 0 buf buf_virt_alloc_free --count 28
each 0 compare compare
each 0 copy copy
each 0 ioworker verify
each 0 ioworker verify-sync
each 0 lblk io
each 0 lblk write_zeroes
each 0 lblk write_uncorrectable
each 0 scc idfy
each 0 scc support
each 0 scc scopy
each 0 scc scopy-msrc
each 1 znd_append verify
each 1 znd_explicit_open test_open_zdptr
each 1 znd_state changes
each 1 znd_state transition
choose "${names[@]}"
for name in "${tests[@]}"; do
    command=${commands[$name]-}
    echo "== $name $command"
    # A program that hangs is a failure, not the end of the run: all but the writes of whole drives take seconds.
    # shellcheck disable=SC2086
    if timeout 600 $command >"/results/logs/$name.txt" 2>&1; then
        printf '%s\tpassed\t\n' "$name"
    else
        printf '%s\tfailed\tstatus %s: %s\n' "$name" $? "$(grep . "/results/logs/$name.txt" | tail -1 | tr '\t' ' ')"
    fi | tee -a /results/tests.tsv
done
