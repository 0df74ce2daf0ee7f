//! A file server: NFS v4 by the kernel, and 4 KiB reads that miss its cache.

/// Starts it on `device`, with one file of 48 MiB.
pub fn start(device: &str) -> String {
    format!(
        "set -e\nmke2fs -q -F -t ext4 {device}\nmkdir -p /srv\nmount -t ext4 {device} /srv\nmkdir -p /srv/export\n\
         dd if=/dev/zero of=/srv/export/file bs=1M count=48 conv=fsync status=none\n\
         modprobe nfsd\nmount -t nfsd nfsd /proc/fs/nfsd\n\
         echo 10 >/proc/fs/nfsd/nfsv4leasetime\necho 10 >/proc/fs/nfsd/nfsv4gracetime\n\
         exportfs -o rw,sync,fsid=0,no_subtree_check,no_root_squash,insecure '*:/srv/export'\n\
         rpc.mountd --no-nfs-version 3 --no-udp >/dev/null 2>&1\n\
         rpc.nfsd --no-nfs-version 3 --no-udp --tcp 4 >/dev/null 2>&1\n\
         echo Y >/proc/fs/nfsd/v4_end_grace\n"
    )
}

/// Ends it.
pub const STOP: &str =
    "rpc.nfsd 0; exportfs -ua; pkill rpc.mountd; umount /proc/fs/nfsd; umount /srv";

/// Empties the server's cache.
pub const DROP: &str = "sync; echo 3 >/proc/sys/vm/drop_caches";

/// Mounts it at the client, reads `count` blocks past the client's cache, and
/// unmounts it.
pub fn read(address: &str, threads: u32, count: u64) -> String {
    let fio = super::blocks::fio("/mnt/file", "randread", threads, count, false);
    format!(
        "modprobe nfsv4; mkdir -p /mnt; mount -t nfs4 -o vers=4.2,proto=tcp {address}:/ /mnt || exit 1\n\
         {fio}\nstatus=$?; umount /mnt; exit $status"
    )
}
