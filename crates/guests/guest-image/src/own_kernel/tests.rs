use super::*;

/// The start of a bzImage that names `release`.
fn image(release: &str) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
    bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    let text = format!("{release} (who@where) #1 SMP\0");
    bytes[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn find(folder: &tempfile::TempDir, name: &str) -> Result<OwnKernel, BuildError> {
    OwnKernel::find(folder.path().join(name).to_str().unwrap())
}

fn refused(folder: &tempfile::TempDir, name: &str) -> String {
    let text = find(folder, name).unwrap_err().to_string();
    assert!(text.contains(folder.path().to_str().unwrap()), "it names no file: {text}");
    text
}

/// The names in the archive.
fn names(kernel: &OwnKernel) -> Vec<&str> {
    let OwnKernel::Files(files) = kernel else { panic!("{kernel:?}") };
    files.iter().map(|(name, _)| name.as_str()).collect()
}

const NEW: &str = "6.12.0-mine";

#[test]
fn paths_are_told_from_packages() {
    for path in ["/boot/vmlinuz", "./bzImage", "../linux", "~/linux", ".", "~"] {
        assert!(is_path(path), "{path}");
    }
    for name in ["linux-image-cloud-amd64", "linux-image-amd64/trixie-backports", "", "bzImage"] {
        assert!(!is_path(name), "{name}");
    }
}

#[test]
fn a_path_without_a_dot_is_told() {
    // Tests run in their crate's folder.
    for path in ["src", "src/lib.rs", "Cargo.toml"] {
        let text = check_spelling(path).unwrap_err().to_string();
        assert!(text.contains(&format!("write ./{path}")), "{text}");
    }
    for fine in ["linux-image-cloud-amd64", "linux-image-amd64/trixie", "./src", "/etc", ""] {
        check_spelling(fine).unwrap();
    }
}

#[test]
fn what_is_no_kernel_is_refused() {
    let mut arm = b"\x7fELF\x02\x01".to_vec();
    arm.resize(0x100, 0);
    arm[0x10..0x14].copy_from_slice(&[2, 0, 183, 0]);
    let mut module = arm.clone();
    module[0x10..0x14].copy_from_slice(&[1, 0, 62, 0]);
    let mut silent = image(NEW);
    silent[0x300..].fill(b' ');
    let mut outside = image(NEW);
    outside[0x20e..0x210].copy_from_slice(&u16::MAX.to_le_bytes());
    let bad = folder(&[
        ("empty", b""),
        ("text", b"#!/bin/sh\n"),
        ("arm", &arm),
        ("module.ko", &module),
        ("silent", &silent),
        ("outside", &outside),
        ("package.deb", b"!<arch>\n"),
        ("nothing/README", b"x"),
    ]);
    assert!(refused(&bad, "empty").contains("no kernel"));
    assert!(refused(&bad, "text").contains("neither a bzImage nor an ELF file"));
    assert!(refused(&bad, "arm").contains("x86-64"));
    assert!(refused(&bad, "module.ko").contains("x86-64"));
    assert!(refused(&bad, "silent").contains("which release"));
    assert!(refused(&bad, "outside").contains("which release"));
    assert!(refused(&bad, "nothing").contains("boot/vmlinuz-*"));
    assert!(refused(&bad, "absent").contains("absent"));
    let package = find(&bad, "package.deb").unwrap();
    let work = tempfile::tempdir().unwrap();
    let error = package.pack(&work.path().join("tar"), work.path()).unwrap_err().to_string();
    assert!(error.contains("package.deb") && error.contains("no Debian package"), "{error}");
}

#[test]
fn modules_of_another_release_are_refused() {
    let system =
        folder(&[("boot/vmlinuz-new", &image(NEW)), ("lib/modules/6.1.0-other/modules.dep", b"")]);
    let text = refused(&system, "");
    assert!(text.contains(NEW) && text.contains("6.1.0-other"), "{text}");
    let alone = folder(&[("boot/vmlinuz-new", &image(NEW))]);
    assert!(refused(&alone, "").contains("lib/modules/6.12.0-mine"));
    assert!(refused(&alone, "boot/vmlinuz-new").contains("lib/modules/6.12.0-mine"));
    let two = folder(&[("boot/vmlinuz-1", &image(NEW)), ("boot/vmlinuz-2", &image(NEW))]);
    assert!(refused(&two, "").contains("several"));
}

#[test]
fn a_system_has_image_and_modules() {
    let system = folder(&[
        ("boot/vmlinuz-6.12.0-mine", &image(NEW)),
        ("boot/config-6.12.0-mine", b"CONFIG_X=y\n"),
        ("lib/modules/6.12.0-mine/modules.dep", b""),
        ("lib/modules/6.12.0-mine/kernel/fs/ext4/ext4.ko.xz", b"x"),
        ("lib/modules/6.12.0-mine/kernel/README", b"x"),
    ]);
    std::os::unix::fs::symlink("/", system.path().join("lib/modules/6.12.0-mine/build")).unwrap();
    let expected = [
        "boot/config-6.12.0-mine",
        "boot/vmlinuz-6.12.0-mine",
        "lib/modules/6.12.0-mine/kernel/fs/ext4/ext4.ko.xz",
        "lib/modules/6.12.0-mine/modules.dep",
    ];
    assert_eq!(names(&find(&system, "").unwrap()), expected);
    assert_eq!(names(&find(&system, "boot/vmlinuz-6.12.0-mine").unwrap()), expected);
}

fn build(more: &[(&str, &[u8])]) -> tempfile::TempDir {
    let image = image(NEW);
    let mut files: Vec<(&str, &[u8])> = vec![
        ("include/config/kernel.release", b"6.12.0-mine\n"),
        ("arch/x86/boot/bzImage", &image),
        ("modules.builtin", b"drivers/nvme/host/nvme.ko\n"),
        ("modules.order", b"fs/ext4/ext4.o\nkernel/fs/overlayfs/overlay.ko\n"),
        ("fs/ext4/ext4.ko", b"x"),
    ];
    files.extend(more);
    folder(&files)
}

#[test]
fn a_build_folder_has_modules_where_make_puts_them() {
    let tree = build(&[("fs/overlayfs/overlay.ko", b"x"), (".config", b"")]);
    let expected = [
        "boot/config-6.12.0-mine",
        "boot/vmlinuz-6.12.0-mine",
        "lib/modules/6.12.0-mine/kernel/fs/ext4/ext4.ko",
        "lib/modules/6.12.0-mine/kernel/fs/overlayfs/overlay.ko",
        "lib/modules/6.12.0-mine/modules.builtin",
        "lib/modules/6.12.0-mine/modules.order",
    ];
    assert_eq!(names(&find(&tree, "").unwrap()), expected);
    assert_eq!(names(&find(&tree, "arch/x86/boot/bzImage").unwrap()), expected);
}

#[test]
fn what_a_build_folder_lacks_is_named() {
    assert!(refused(&build(&[]), "").contains("fs/overlayfs/overlay.ko"));
    let older = build(&[("include/config/kernel.release", b"6.11.0-mine\n")]);
    let text = refused(&older, "");
    assert!(text.contains("6.11.0-mine") && text.contains(NEW), "{text}");
    let configured = folder(&[("include/config/kernel.release", b"6.12.0-mine\n")]);
    assert!(refused(&configured, "").contains("arch/x86/boot/bzImage"));
    let bare = build(&[]);
    fs::remove_file(bare.path().join("modules.builtin")).unwrap();
    assert!(refused(&bare, "").contains("CONFIG_MODULES"));
}

#[test]
fn another_build_is_another_guest() {
    let tree = build(&[("fs/overlayfs/overlay.ko", b"x")]);
    let stamp = || find(&tree, "").unwrap().stamp().unwrap();
    let first = stamp();
    assert_eq!(stamp(), first);
    fs::write(tree.path().join("fs/overlayfs/overlay.ko"), "changed").unwrap();
    assert_ne!(stamp(), first);
}

#[test]
fn the_archive_has_what_was_found() {
    let tree = build(&[("fs/overlayfs/overlay.ko", b"content")]);
    let kernel = find(&tree, "").unwrap();
    let path = tree.path().join("archive.tar");
    kernel.pack(&path, tree.path()).unwrap();
    let mut archive = tar::Archive::new(File::open(&path).unwrap());
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        assert!(!name.ends_with("overlay.ko") || content == b"content");
        found.push(name);
    }
    assert_eq!(found, names(&kernel));
}

#[test]
fn an_elf_image_says_its_release() {
    let mut vmlinux = b"\x7fELF\x02\x01".to_vec();
    vmlinux.resize(0x100, 0);
    vmlinux[0x10..0x14].copy_from_slice(&[2, 0, 62, 0]);
    vmlinux.extend_from_slice(b"Linux version %s\0Linux version 6.12.0-mine (who@where)\0");
    let tree = folder(&[
        ("include/config/kernel.release", b"6.12.0-mine\n"),
        ("vmlinux", &vmlinux),
        ("modules.builtin", b""),
    ]);
    assert_eq!(names(&find(&tree, "").unwrap())[0], "boot/vmlinuz-6.12.0-mine");
    assert_eq!(find(&tree, "vmlinux").unwrap(), find(&tree, "").unwrap());
}
