# In a guest whose kernel has nvme-tcp: the commands of docs/guides/nvme-tcp.md, and what must be true after each section.
set -euo pipefail
modprobe nvme-tcp
cd /tmp
ip link set lo up 2>/dev/null || true
[ -s /etc/nvme/hostnqn ] || { mkdir -p /etc/nvme && nvme gen-hostnqn >/etc/nvme/hostnqn; }

watch_steps

# `stasis serve` as the guide has it, behind this script.
serve_as_said() {
    : >log
    mkdir -p sockets
    case "$*" in *--sockets*) ;; *) set -- "$@" --sockets sockets ;; esac
    ./stasis serve "$@" 2>>log &
    server=$!
    until grep -q "nvme connect" log; do
        kill -0 $server || { cat log; exit 1; }
        sleep 0.1
    done
    nqn=$(sed -n 's/.* -n \(nqn[^ ;]*\).*/\1/p;T;q' log)
}

# The guest has no socat: the two words that the guide gives it.
socat() { # - UNIX-CONNECT:PATH
    control "$(cat)" "${2#UNIX-CONNECT:}"
}

begin() { # SECTION, each in a folder of its own
    mkdir -p "/tmp/$1"
    ln -sf /tmp/stasis "/tmp/$1/stasis"
    cd "/tmp/$1"
    # It is about a drive that is connected.
    if [ "$1" = "Two hosts, one drive" ]; then
        serve_as_said --drive name=d,model=null,medium=ram:64MiB --nvme-tcp 4420
        connect
    fi
}

end() {
    local other
    case $1 in
        "A zoned drive for this machine")
            echo "zoned $(cat /sys/block/nvme0n1/queue/zoned)"
            mount /dev/nvme0n1 /mnt
            diff -r --no-dereference /etc /mnt/etc >/dev/null && echo "a file system in zones"
            umount /mnt
            head -c 512 /dev/zero >block
            nvme zns reset-zone /dev/nvme0n1 -a >/dev/null
            { nvme write /dev/nvme0n1 --start-block=16 --block-count=0 --data-size=512 --data=block 2>&1 || true; } |
                grep -q 'Zone Invalid Write' && echo "a write elsewhere is refused"
            ;;
        "A host that proves who it is") dmesg | grep -q authenticated ;;
        "Two hosts, one drive")
            other=$(nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --duplicate-connect -o json \
                --hostnqn nqn.2014-08.org.example:other --hostid 00000000-0000-4000-8000-000000000002 | grep -o 'nvme[0-9]*' | tail -1)
            head -c 512 /dev/zero >block
            { nvme io-passthru "/dev/$other" --opcode=1 --namespace-id=1 --data-len=512 --write --input-file=block 2>&1 || true; } |
                grep -qi 'reservation conflict' && echo "another host's write is refused"
            ;;
        "Several paths")
            [ "$(nvme list-subsys | grep -c 'tcp traddr=127.0.0.1')" = 2 ] && echo "one drive by two paths"
            until grep -q inaccessible /sys/class/nvme-subsystem/nvme-subsys*/nvme*/nvme*c*n*/ana_state; do sleep 0.1; done
            echo "by one path: $(cat /sys/class/nvme-subsystem/nvme-subsys*/nvme*/nvme*c*n*/ana_state | sort | tr '\n' ' ')"
            dd if=/dev/nvme0n1 of=/dev/null bs=4k count=16 iflag=direct status=none
            ;;
    esac
    nvme disconnect -n "$nqn" >/dev/null
    stop
    echo "done: $1"
}

# The guide's sections.

kill $watch 2>/dev/null || true
