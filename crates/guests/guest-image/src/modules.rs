//! Which kernel modules the initramfs needs, and in which order.

use std::collections::BTreeMap;

use crate::{decompress, BuildError};

/// Loaded in every guest: the root file system's device and layers.
/// Built-in modules of a kernel are left out.
const ALWAYS: [&str; 4] = ["nd_pmem", "nd_e820", "ext4", "overlay"];

/// Loaded after those in every guest: the driver of NVMe drives.
const DRIVES: &str = "nvme";

/// The list of [`DRIVES`].
const DRIVES_LIST: &str = "order-drives";

/// Loaded where a PCI device of the vendor (hexadecimal) is there. 1af4 is
/// virtio's (Virtual I/O Device 1.2, section 4.1.2).
const BY_VENDOR: [(&str, &[&str]); 1] = [("1af4", &["virtio_pci", "virtio_blk"])];

/// Loaded after all of those where the agent speaks through a port.
const PORT: &str = "virtio_console";

/// Loaded after that where the kernel has it as a module: ext4, xfs and btrfs check
/// sums quicker with it. From Linux 6.14 on their library does so by itself.
const SUMS: &str = "crc32c_intel";

/// Loaded where the guest has ports of networks.
const NETWORK: &str = "virtio_net";

/// The list of what a root's file system needs.
pub(crate) const ROOT_LIST: &str = "order-root";

/// The list of the modules that a user wants beside a root, which may have no program to load them.
pub(crate) const ASKED_LIST: &str = "order-asked";

/// The list of [`NETWORK`].
const NETWORK_LIST: &str = "order-network";

/// The list of [`PORT`].
const PORT_LIST: &str = "order-port";

/// The dependency index that depmod(8) makes of a kernel's modules.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Path by name, with the paths it depends on, nearest first.
    modules: BTreeMap<String, (String, Vec<String>)>,
    builtin: Vec<String>,
    /// Names or aliases that go before a module.
    soft: BTreeMap<String, Vec<String>>,
    aliases: BTreeMap<String, Vec<String>>,
}

impl Index {
    /// From the texts of `modules.dep`, `modules.builtin`, `modules.softdep`
    /// and `modules.alias`. Lines that cannot be understood are passed over.
    pub(crate) fn new(dependencies: &str, builtin: &str, soft: &str, aliases: &str) -> Self {
        let mut index = Self::default();
        for line in dependencies.lines() {
            if let Some((path, needs)) = line.split_once(':') {
                let needs = needs.split_whitespace().map(String::from).collect();
                index.modules.insert(module_name(path), (path.to_string(), needs));
            }
        }
        index.builtin = builtin.lines().map(module_name).collect();
        for line in soft.lines() {
            let mut words = line.split_whitespace();
            if let (Some("softdep"), Some(name)) = (words.next(), words.next()) {
                let before = words.skip_while(|word| *word != "pre:").skip(1);
                let before = before.take_while(|word| *word != "post:").map(String::from);
                index.soft.entry(module_name(name)).or_default().extend(before);
            }
        }
        for line in aliases.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(alias), Some(name)) =
                (words.next(), words.next(), words.next())
            {
                index.aliases.entry(module_name(alias)).or_default().push(module_name(name));
            }
        }
        index
    }

    /// From those files; lines of one that is missing are none.
    pub(crate) fn of_files(mut file: impl FnMut(&str) -> Option<Vec<u8>>) -> Self {
        let mut text = |name| String::from_utf8_lossy(&file(name).unwrap_or_default()).into_owned();
        let (dependencies, builtin) = (text("modules.dep"), text("modules.builtin"));
        Self::new(&dependencies, &builtin, &text("modules.softdep"), &text("modules.alias"))
    }

    /// Appends what loading `name` takes, in the order of loading.
    fn collect(&self, name: &str, order: &mut Vec<String>) -> Result<(), BuildError> {
        if self.builtin.iter().any(|builtin| builtin == name) {
            return Ok(());
        }
        let (path, needs) = self.modules.get(name).ok_or_else(|| BuildError::Module {
            name: name.into(),
            cause: "the kernel has neither the module nor its function built in".into(),
        })?;
        if order.contains(path) {
            return Ok(());
        }
        for wanted in self.soft.get(name).into_iter().flatten() {
            if let Some(found) = self.resolve(&module_name(wanted)) {
                if found != name {
                    self.collect(found, order)?;
                }
            }
        }
        // modules.dep lists the farthest last, and it is to be loaded first.
        for need in needs.iter().rev() {
            self.collect(&module_name(need), order)?;
        }
        if !order.contains(path) {
            order.push(path.clone());
        }
        Ok(())
    }

    /// The module that a soft dependency means, if there is one: by name, else
    /// by alias. Of several, the one that runs on every processor.
    fn resolve<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if self.modules.contains_key(name) {
            return Some(name);
        }
        let names = self.aliases.get(name)?;
        let generic = names.iter().find(|name| name.ends_with("_generic"));
        let found = generic.or(names.first())?;
        self.modules.contains_key(found).then_some(found)
    }
}

/// The lists of the initramfs: file name, and the modules' paths in the order of
/// loading. That of drives continues the general one, and a list by vendor both.
pub(crate) fn lists(index: &Index) -> Result<Vec<(String, Vec<String>)>, BuildError> {
    let mut order = Vec::new();
    for name in ALWAYS {
        index.collect(name, &mut order)?;
    }
    let mut lists = vec![("order".to_string(), order.clone())];
    let before = order.len();
    index.collect(DRIVES, &mut order)?;
    lists.push((DRIVES_LIST.to_string(), order[before..].to_vec()));
    for (vendor, names) in BY_VENDOR {
        let mut longer = order.clone();
        for name in names {
            index.collect(name, &mut longer)?;
        }
        lists.push((format!("order-{vendor}"), longer.split_off(order.len())));
    }
    let mut all: Vec<String> = lists.iter().flat_map(|(_, paths)| paths.clone()).collect();
    let before = all.len();
    // A kernel without it runs machines that have no network.
    if index.collect(NETWORK, &mut all).is_err() {
        all.truncate(before);
    }
    let network = (NETWORK_LIST.to_string(), all[before..].to_vec());
    let before = all.len();
    index.collect(PORT, &mut all)?;
    if index.modules.contains_key(SUMS) {
        index.collect(SUMS, &mut all)?;
    }
    lists.push((PORT_LIST.to_string(), all.split_off(before)));
    lists.push(network);
    Ok(lists)
}

/// These modules and those that they need, as [`lists`] gives them; nothing of what the kernel has
/// built in.
pub(crate) fn of_names<'a>(
    index: &Index,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, BuildError> {
    let mut order = Vec::new();
    names.into_iter().try_for_each(|name| index.collect(&module_name(name), &mut order))?;
    Ok(order)
}

/// A module's name as the kernel spells it: no folder, no ending, `_` for `-`.
fn module_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

/// A module's file name in the initramfs.
pub(crate) fn file_name(path: &str) -> String {
    format!("{}.ko", module_name(path))
}

/// A module as the agent loads it: uncompressed. Its signature stays behind its end, so that the
/// kernel is not tainted, and loads it also where it takes none without (`module.sig_enforce=1`).
pub(crate) fn plain(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, BuildError> {
    let error = |cause: String| BuildError::Module { name: name.into(), cause };
    let plain = decompress::stream(&bytes).map_err(error)?.unwrap_or(bytes);
    if !plain.starts_with(b"\x7fELF") {
        let cause = "it is no ELF file, nor one compressed with gzip, xz or zstd";
        return Err(BuildError::Module { name: name.into(), cause: cause.into() });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/drivers/nvdimm/libnvdimm.ko.xz:
kernel/drivers/nvdimm/nd_btt.ko.xz: kernel/drivers/nvdimm/libnvdimm.ko.xz
kernel/drivers/nvdimm/nd_pmem.ko.xz: kernel/drivers/nvdimm/nd_btt.ko.xz kernel/drivers/nvdimm/libnvdimm.ko.xz
kernel/drivers/nvdimm/nd_e820.ko.xz: kernel/drivers/nvdimm/libnvdimm.ko.xz
kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz
kernel/fs/jbd2/jbd2.ko.xz:
kernel/crypto/crc32c_generic.ko.xz:
kernel/arch/x86/crypto/crc32c-intel.ko.xz:
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio.ko.xz:
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/fs/overlayfs/overlay.ko.xz:
kernel/drivers/char/virtio_console.ko.xz: kernel/drivers/virtio/virtio.ko.xz
";

    fn index(builtin: &str) -> Index {
        let soft = "# comment\nsoftdep ext4 pre: crc32c missing post: x\nsoftdep broken\n";
        let aliases = "alias crc32c crc32c_intel\nalias crc32c crc32c_generic\nalias x\n";
        Index::new(DEPENDENCIES, builtin, soft, aliases)
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let lists = lists(&index("kernel/drivers/nvme/host/nvme.ko\n")).unwrap();
        let names: Vec<Vec<String>> =
            lists.iter().map(|(_, paths)| paths.iter().map(|p| module_name(p)).collect()).collect();
        let general = [
            "libnvdimm",
            "nd_btt",
            "nd_pmem",
            "nd_e820",
            "crc32c_generic",
            "jbd2",
            "ext4",
            "overlay",
        ];
        assert_eq!(names[0], general);
        assert_eq!(names[2], ["virtio", "virtio_pci", "virtio_blk"]);
        assert_eq!(lists[2].0, "order-1af4");
        assert_eq!(names[3], ["virtio_console", "crc32c_intel"]);
        assert_eq!(lists[3].0, "order-port");
    }

    #[test]
    fn named_modules_come_with_what_they_need_once() {
        let order = of_names(&index(""), ["ext4", "virtio-console", "virtio_blk"]).unwrap();
        let names: Vec<_> = order.iter().map(|path| module_name(path)).collect();
        assert_eq!(
            names,
            ["crc32c_generic", "jbd2", "ext4", "virtio", "virtio_console", "virtio_blk"]
        );
        assert!(of_names(&index(""), ["absent"]).unwrap_err().to_string().contains("absent"));
    }

    /// As Linux 6.14 and later ones.
    #[test]
    fn a_kernel_may_have_no_module_for_sums() {
        let without: Vec<&str> =
            DEPENDENCIES.lines().filter(|line| !line.contains("crc32c-intel")).collect();
        let without = without.join("\n");
        let index = Index::new(&without, "kernel/drivers/nvme/host/nvme.ko\n", "", "");
        let lists = lists(&index).unwrap();
        assert!(lists[3].1.iter().all(|path| !path.contains("crc32c")), "{lists:?}");
        assert!(lists[3].1.iter().any(|path| path.contains("virtio_console")), "{lists:?}");
    }

    #[test]
    fn a_kernel_without_the_driver_is_refused() {
        let error = lists(&index("")).unwrap_err().to_string();
        assert!(error.contains("nvme"), "{error}");
    }

    #[test]
    fn a_module_must_be_one() {
        assert!(plain("x.ko", b"\x7fELF...".to_vec()).is_ok());
        assert!(plain("x.ko", b"text".to_vec()).unwrap_err().to_string().contains("x.ko"));
    }

    #[test]
    fn a_module_keeps_its_signature() {
        let mut module = b"\x7fELF code SIGNATURE\0\0\x02\0\0\0\0\0".to_vec();
        module.extend_from_slice(&9u32.to_be_bytes());
        module.extend_from_slice(b"~Module signature appended~\n");
        assert_eq!(plain("x", module.clone()).unwrap(), module);
    }
}
