# Run by mmdebstrap as a hook: $1 is the new root file system, $MMDEBSTRAP_APT_CONFIG
# the configuration of its apt. $kernel (a package), $more (modules) and $started (when the build began, in
# seconds since 1970) come before this text. Leaves kernel.tar, root.ext4 and date in /.stasis in the new root.
set -eu
root=$1
work=$(mktemp -d)
# A build that is ended leaves nothing; the new root itself is mmdebstrap's.
clear_up() {
  [ ! -d "$work/view" ] || umount --lazy "$work/view" 2>/dev/null || :
  rm -rf "$work"
}
trap clear_up EXIT
trap 'exit 1' HUP INT TERM
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

# Prints the modules in the list $2, and those that they need by modules.dep and modules.softdep in the folder $1.
# A soft dependency is a module's name or an alias without wildcards; one that the kernel has not is passed over.
needed_modules() {
  touch "$1/modules.softdep" "$1/modules.alias"
  awk '
    function name(path) {
      sub(/.*\//, "", path)
      sub(/\.ko.*/, "", path)
      gsub(/-/, "_", path)
      return path
    }
    function need(path) {
      if (path != "" && !(path in needed)) {
        needed[path] = 1
        todo[++count] = path
      }
    }
    FILENAME ~ /modules\.dep$/ {
      path = $1
      sub(/:$/, "", path)
      paths[name(path)] = path
      for (i = 2; i <= NF; i++) needs[path] = needs[path] " " $i
      next
    }
    FILENAME ~ /modules\.softdep$/ {
      if ($1 == "softdep")
        for (i = 3; i <= NF; i++) if ($i !~ /:$/) soft[name($2)] = soft[name($2)] " " name($i)
      next
    }
    FILENAME ~ /modules\.alias$/ {
      if ($1 == "alias") aliases[name($2)] = aliases[name($2)] " " $3
      next
    }
    { need($0) }
    END {
      for (done = 1; done <= count; done++) {
        path = todo[done]
        print path
        number = split(needs[path], words, " ")
        for (i = 1; i <= number; i++) need(words[i])
        number = split(soft[name(path)], words, " ")
        for (i = 1; i <= number; i++) {
          if (words[i] in paths) { need(paths[words[i]]); continue }
          all = split(aliases[words[i]], found, " ")
          for (j = 1; j <= all; j++) need(paths[name(found[j])])
        }
      }
    }
  ' "$1/modules.dep" "$1/modules.softdep" "$1/modules.alias" "$2"
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
# The package's own list of what each module needs; in the root's own, a module that is not there would be missing.
[ -e "$work/tree/lib" ] || ln -s usr/lib "$work/tree/lib"
depmod --basedir "$work/tree" "$release"
: >"$work/asked"
for name in $more; do
  if ! modprobe --dirname "$work/tree" --set-version "$release" --show-depends "$name" >"$work/needed"; then
    echo "E: the kernel $release has no module $name" >&2
    exit 1
  fi
  sed -n "s|^insmod .*/$release/\([^ ]*\).*|\1|p" "$work/needed" >>"$work/asked"
done
(cd "$root/lib/modules/$release" && find kernel -name '*.ko*') >>"$work/asked"
needed_modules "$modules" "$work/asked" >"$work/needed"
while read -r inside; do
  if [ ! -f "$root/lib/modules/$release/$inside" ]; then
    mkdir -p "$root/lib/modules/$release/${inside%/*}"
    cp "$modules/$inside" "$root/lib/modules/$release/$inside"
  fi
done <"$work/needed"
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
# udevd's own rules but those for storage go: they are for hardware that is not there, or (60-block) have it read
# a drive whenever a program has written to it, or would start something (arrays, NVMe over fabrics, units of systemd).
# The guest's first process masks them by name in a root that it finds; here they would cost each boot its time.
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
rmdir "$work/view"
mkdir "$root/.stasis"
mv "$work/kernel.tar" "$work/root.ext4" "$root/.stasis/"
echo $(((newest / 86400 + 1) * 86400)) >"$root/.stasis/date"
echo "stasis: copying the image" >&2
