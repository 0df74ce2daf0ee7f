# Runs in the guest: what scripts expect to be there. Prints a line for each.
set -eu
told() { echo "$1: $2"; }
told descriptors "$(bash -c 'cat <(echo one) /dev/stdin <<<two; echo three >/dev/stdout; echo four 2>&1 >/dev/stderr' 2>&1 | tr '\n' ' ')"
told id "$(readlink -f /dev/disk/by-id/nvme-Stasis_NVMe_drive_NUMBER1)"
told uuid "$(readlink -f /dev/disk/by-uuid/57a51500-0000-4000-8000-00000000abcd)"
told virtio "$(readlink -f /dev/disk/by-id/virtio-NUMBER2)"
told config "$(grep -x CONFIG_BLK_DEV_NVME=. "/boot/config-$(uname -r)")"
told mtab "$(findmnt --tab-file /etc/mtab --noheadings --output TARGET /results)"
# Folders that scripts of packages write to, though what readers need is left out.
told folders "$(ls -d /usr/share/man/man1 /usr/share/man/man8 /usr/share/doc /var/log/apt /var/cache/apt /run/lock | wc -l)"
told locked "$(touch /var/lock/one && stat --format=%a /run/lock /tmp /dev/shm | tr '\n' ' ')"
told column "$(printf 'a b\n' | column -t -o -)"
told hexdump "$(printf 'AB' | hexdump -e '"%x"')"
# A partition that comes is found.
addpart /dev/nvme1n1 1 2048 4096
udevadm settle
told partition "$(readlink -f /dev/disk/by-id/nvme-Stasis_NVMe_drive_NUMBER1-part1)"
# No file is of the future, and an archive says so.
told future "$(find / -xdev -newermt '1 second' | wc -l)"
told archive "$(tar -cf /tmp/etc.tar -C / etc && tar -xf /tmp/etc.tar -C /tmp 2>&1)"
# A new file system is found when it is asked for.
mkfs.ext4 -q -U 57a51500-0000-4000-8000-00000000ef01 /dev/nvme1n1p1
udevadm trigger --settle /dev/nvme1n1p1
told made "$(readlink -f /dev/disk/by-uuid/57a51500-0000-4000-8000-00000000ef01)"
# Who writes is not watched: what is written here is all that the drive is asked.
dd if=/dev/zero of=/dev/vda bs=64k count=4 oflag=direct status=none
udevadm settle
sleep 4
