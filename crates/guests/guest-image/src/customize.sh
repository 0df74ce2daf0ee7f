# Run by mmdebstrap as a hook: $1 is the new root file system, $MMDEBSTRAP_APT_CONFIG
# the configuration of its apt. $kernel (a package), $more (modules) and $started (when the build began, in
# seconds since 1970) come before this text. Leaves kernel.tar, root.ext4 and date in /.stasis in the new root.
set -eu
root=$1
work=$(mktemp -d)
PATH=$PATH:/usr/sbin:/sbin
# The log must be readable for the program that follows it.
export LC_ALL=C MKE2FS_CONFIG=/dev/null
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"

fetch_kernel() {
  if ! apt-cache show "$kernel" >/dev/null 2>&1; then
    echo "E: this Debian release has no package $kernel" >&2
    exit 1
  fi
  image=$(apt-cache depends "$kernel" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  image=${image:-$kernel}
  # From Linux 7 on the modules and the image itself are packages of their own.
  parts=$(apt-cache depends "$image" | sed -n 's/^ *Depends: \(linux-\(base\|binary\|modules\)-[0-9].*\)/\1/p')
  mkdir "$work/tree"
  # shellcheck disable=SC2086
  (cd "$work" && apt-get --quiet download "$image" $parts >&2)
  for file in "$work"/*.deb; do dpkg-deb --extract "$file" "$work/tree"; done
  rm "$work"/*.deb
}

echo "stasis: fetching the kernel" >&2
if [ -d "$root/.stasis-kernel" ]; then
  # The user's own.
  mv "$root/.stasis-kernel" "$work/tree"
else
  fetch_kernel
fi
modules=$(echo "$work"/tree/lib/modules/*)
[ -d "$modules" ] || modules=$(echo "$work"/tree/usr/lib/modules/*)
release=${modules##*/}
# There the kernel and its configuration lie beside the modules, and are copied when it is installed.
mkdir -p "$work/tree/boot"
for file in vmlinuz config; do
  [ ! -f "$modules/$file" ] || mv "$modules/$file" "$work/tree/boot/$file-$release"
done
mkdir -p "$root/lib/modules/$release/kernel/drivers"
for file in "$modules"/modules.*; do cp "$file" "$root/lib/modules/$release/"; done
# What storage can need; no hardware but the machine's own is there.
for folder in arch block crypto fs lib drivers/block drivers/md drivers/nvdimm drivers/nvme drivers/dax drivers/virtio; do
  if [ -d "$modules/kernel/$folder" ]; then
    cp -r "$modules/kernel/$folder" "$root/lib/modules/$release/kernel/$folder"
  fi
done
# What only stock QEMU has: ports, network.
for file in drivers/char/virtio_console drivers/net/virtio_net drivers/net/net_failover net/core/failover; do
  for module in "$modules/kernel/$file".ko*; do
    if [ -f "$module" ]; then
      mkdir -p "$root/lib/modules/$release/kernel/${file%/*}"
      cp "$module" "$root/lib/modules/$release/kernel/${file%/*}/"
    fi
  done
done
for folder in drivers/block/drbd fs/ceph fs/nfs fs/nfsd fs/smb fs/orangefs fs/ocfs2 fs/gfs2 fs/afs; do
  rm -rf "$root/lib/modules/$release/kernel/$folder"
done
if [ -n "$more" ]; then
  [ -e "$work/tree/lib" ] || ln -s usr/lib "$work/tree/lib"
  depmod --basedir "$work/tree" "$release"
  for name in $more; do
    if ! modprobe --dirname "$work/tree" --set-version "$release" --show-depends "$name" >"$work/needed"; then
      echo "E: the kernel $release has no module $name" >&2
      exit 1
    fi
    sed -n 's|^insmod ||p' "$work/needed" | while read -r file; do
      inside=${file#*"/$release/"}
      mkdir -p "$root/lib/modules/$release/${inside%/*}"
      cp "$file" "$root/lib/modules/$release/$inside"
    done
  done
fi
depmod --basedir "$root" "$release"
rm -rf "$root"/boot/*
# Scripts ask it what the kernel can do.
for file in "$work"/tree/boot/config-*; do [ ! -f "$file" ] || cp "$file" "$root/boot/"; done
tar -cf "$work/kernel.tar" -C "$work/tree" boot -C "$root/lib" "modules/$release"
rm -rf "$work/tree"

echo "stasis: tidying" >&2
rm -rf "$root"/var/lib/apt/lists/*
# Folders stay: they are those of packages, with the owners that their programs need.
find "$root/var/cache" "$root/var/log" ! -type d -delete
# udevd keeps the rules for storage: the others are for hardware that is not there, or (60-block) have it read
# a drive whenever a program has written to it, or would start something (arrays, NVMe over fabrics, units of systemd).
rules=$(dpkg-query --admindir="$root/var/lib/dpkg" --listfiles udev | sed -n 's|^.*/rules.d/\(.*\.rules\)$|\1|p')
for file in $rules; do
  case $file in
    50-udev-default.rules | 60-persistent-storage.rules | 64-btrfs.rules | 80-drivers.rules) ;;
    *) rm -f "$root/lib/udev/rules.d/$file" ;;
  esac
done
for file in 64-md-raid-assembly 70-nvmf-autoconnect 71-nvmf-iopolicy-netapp 85-hwclock 96-e2scrub; do
  rm -f "$root/lib/udev/rules.d/$file.rules"
done
rm -rf "$root"/lib/udev/hwdb.*
mkdir -p "$root/results"
echo stasis >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 stasis\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
# Tools that look for what is mounted (mkfs.nilfs2) know no other place.
ln -sf ../proc/self/mounts "$root/etc/mtab"
: >"$root/etc/resolv.conf"
: >"$root/etc/machine-id"

echo "stasis: making the image" >&2
# A view without what is mounted in the new root (/proc, /sys, /dev/pts).
mkdir "$work/view"
mount --bind "$root" "$work/view"
trap 'umount "$work/view"' EXIT
find "$work/view/tmp" "$work/view/run" -mindepth 1 -maxdepth 1 ! -name 'mmdebstrap.*' -exec rm -rf {} +
# What the build itself has written gets the time of the newest file of a package, and the guest's date is the
# day after: the same packages are the same image, and no file is of the future.
newest=$(find "$work/view" ! -newermt "@$started" -printf '%T@\n' | sort -n | tail -n 1 | cut -d . -f 1)
newest=${newest:-$started}
find "$work/view" -newermt "@$newest" -exec touch --no-dereference --date "@$newest" {} +
inodes=$(($(find "$work/view" | wc -l) + 64))
kib=$(du -sk "$work/view" | cut -f 1)
# 256 bytes for each inode; 2 % for directories' and extents' blocks. In whole 2 MiB.
mib=$((((kib + inodes / 4) * 102 / 100 / 2048 + 2) * 2))
attempt=1
# No journal, checksums or reserved blocks: the image is never written to.
# Fixed identifiers and times: the same content is the same image.
until E2FSPROGS_FAKE_TIME=$newest mke2fs -q -F -t ext4 -b 4096 -I 256 -N "$inodes" -m 0 -L stasis-root \
    -U 57a51500-0000-4000-8000-000000000001 \
    -O none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize \
    -E hash_seed=57a51500-0000-4000-8000-000000000002,root_owner=0:0,lazy_itable_init=0,nodiscard \
    -d "$work/view" "$work/root.ext4" "${mib}M" >&2; do
  [ "$attempt" -lt 4 ] || exit 1
  attempt=$((attempt + 1))
  mib=$((mib + (mib / 20 / 2 + 1) * 2))
  rm -f "$work/root.ext4"
done
umount "$work/view"
trap - EXIT
mkdir "$root/.stasis"
mv "$work/kernel.tar" "$work/root.ext4" "$root/.stasis/"
echo $(((newest / 86400 + 1) * 86400)) >"$root/.stasis/date"
rm -rf "$work"
echo "stasis: copying the image" >&2
