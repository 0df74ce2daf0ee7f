# Tells what is random in a guest: the kernel's numbers, a process's own (AT_RANDOM, number 25 of
# getauxval(3)), the order of a hash, and the times of a drive.
od -A n -t x8 -N 16 /dev/urandom
cat /proc/sys/kernel/random/uuid
perl -e 'open A, "/proc/self/auxv"; read A, $b, 4096; %a = unpack "Q*", $b;
    open M, "/proc/self/mem"; seek M, $a{25}, 0; read M, $r, 16; print unpack("H*", $r), "\n"'
perl -e 'print keys %{{map { $_ => 1 } "a" .. "z"}}, "\n"'
dd if=/dev/nvme0n1 of=/dev/null bs=4k count=40 iflag=direct 2>/dev/null
