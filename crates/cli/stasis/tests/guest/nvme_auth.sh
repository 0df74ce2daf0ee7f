# In a guest whose kernel has nvme-tcp with authentication: the server, and its client by the loopback.
set -eu
modprobe nvme-tcp
modprobe dh_generic
cd /tmp
ip link set lo up 2>/dev/null || true
host=nqn.2014-08.org.example:host
id=00000000-0000-4000-8000-000000000001

watch_steps

serve_secret() { # OPTION...: whose host has the secret of the file
    serve --drive name=ram,model=null,medium=ram:64MiB --host-secret $host=secret "$@"
}

connect() {
    dmesg -c >before
    timeout 60 nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --hostnqn $host --hostid $id "$@" >said 2>&1
}

disconnect() {
    nvme disconnect -n "$nqn" >/dev/null
}

# The secrets of a host and of the subsystem, which nvme-cli makes: as they are, and by each hash.
for hmac in 0 1 2 3; do
    nvme gen-dhchap-key --hmac=$hmac --nqn $host >host_secret
    nvme gen-dhchap-key --hmac=$((3 - hmac)) --nqn $host >subsystem_secret
    (umask 077 && cat host_secret subsystem_secret >secret)
    serve_secret
    connect --dhchap-secret "$(cat host_secret)" || { cat said log; dmesg; exit 1; }
    settle
    dmesg | grep -q "qid 0: authenticated with hash hmac(sha512) dhgroup ffdhe2048" && echo "the host authenticates, secret by hash $hmac"
    disconnect
    connect --dhchap-secret "$(cat host_secret)" --dhchap-ctrl-secret "$(cat subsystem_secret)" || { cat said log; dmesg; exit 1; }
    settle
    dmesg | grep -q "qid 0: controller authenticated" && echo "and the subsystem, secret by hash $((3 - hmac))"
    disconnect
    stop
    grep -q " 0 failed; 4 connections, 0 faults" log || cat log
done

# I/O, a reset, and a host that authenticates again meanwhile.
serve_secret
connect --dhchap-secret "$(cat host_secret)"
settle
exercise
echo "file system"
nvme reset "${device%n1}" && dd if="$device" of=/dev/null bs=1M count=4 iflag=direct status=none && echo "reset"
fio --name=again --filename="$device" --rw=randwrite --bs=4k --size=16M --io_size=64M --rate_iops=4000 --ioengine=libaio --iodepth=8 \
    --direct=1 --verify=crc32c --output=fio.txt &
fio=$!
sleep 1
dmesg -c >before
cat host_secret >/sys/class/nvme/"$(basename "${device%n1}")"/dhchap_secret
until dmesg | grep -q "qid 0: authenticated"; do sleep 0.1; done
kill -0 $fio && echo "authenticates again while fio runs"
wait $fio && echo "fio verifies"
disconnect

# Another secret, none, and another subsystem than the host expects.
nvme gen-dhchap-key --hmac=1 --nqn $host >other_secret
connect --dhchap-secret "$(cat other_secret)" && echo "let in" || echo "another secret: refused"
grep -c "authentication failed: the secrets differ" log
connect && echo "let in" || echo "no secret: refused"
connect --dhchap-secret "$(cat host_secret)" --dhchap-ctrl-secret "$(cat other_secret)" && echo "let in" || echo "another subsystem: left"
grep -c "the host found the subsystem's response wrong" log
timeout 60 nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" >said 2>&1 && echo "let in" || echo "a stranger: refused"
connect --dhchap-secret "$(cat host_secret)" && echo "and the host is let in"
settle
disconnect
stop

# Each group.
for group in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do
    serve_secret --dh-groups $group
    begin=$(date +%s%N)
    connect --dhchap-secret "$(cat host_secret)" || { cat said log; dmesg; exit 1; }
    echo "$group: connected in $((($(date +%s%N) - begin) / 1000000)) ms" >&2
    settle
    dmesg | grep -q "qid 0: authenticated with hash hmac(sha512) dhgroup $group" && echo "group $group"
    disconnect
    stop
done
echo "stopped"
kill $watch 2>/dev/null || true
