//! The same root in each form.

use super::*;
use std::io::Write;

fn as_tar() -> Tree {
    read_bytes(&archive(&items())).unwrap()
}

fn name_in_blobs(bytes: &[u8]) -> String {
    crate::sha256::digest(bytes)
}

#[test]
fn an_image_has_what_the_tree_has() {
    let mut tree = as_tar();
    let (_folder, path) = image(&mut tree);
    let again = crate::read_image(&path).unwrap();
    assert_eq!(listing(&again, true), listing(&tree, true));
    again.check().unwrap();
    // The same tree is the same image.
    let (_other, second) = image(&mut as_tar());
    assert!(fs::read(path).unwrap() == fs::read(second).unwrap());
}

#[test]
fn a_folder_is_what_its_archive_is() {
    let folder = folder(&items());
    let tree = read(folder.path()).unwrap();
    tree.check().unwrap();
    let mut expected = listing(&as_tar(), true);
    let own = fs::metadata(folder.path()).map(|meta| {
        use std::os::unix::fs::MetadataExt;
        (meta.uid(), meta.gid())
    });
    // For any user of the test: this user's files are root's.
    assert_eq!(listing(&tree, true), expected, "{own:?}");
    expected.dedup();
    let source = Source::find(folder.path().to_str().unwrap()).unwrap();
    let before = source.stamp().unwrap();
    assert_eq!(source.stamp().unwrap(), before);
    fs::write(folder.path().join("etc/passwd"), "changed").unwrap();
    assert_ne!(source.stamp().unwrap(), before);
}

#[test]
fn compressed_archives_are_archives() {
    let plain = archive(&items());
    let expected = listing(&as_tar(), true);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    assert_eq!(listing(&read_bytes(&gzip.finish().unwrap()).unwrap(), true), expected);
    // As programs with several threads write it: one frame after the other.
    let halves: [&[u8]; 2] = plain.split_at(plain.len() / 2).into();
    let frames = halves.map(|half| zstd::encode_all(half, 1).unwrap()).concat();
    assert_eq!(listing(&read_bytes(&frames).unwrap(), true), expected);
    for tool in ["xz", "zstd"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &plain).unwrap();
        let Ok(output) = Command::new(tool).args(["-q", "-c"]).arg(file.path()).output() else {
            continue;
        };
        let tree = read_bytes(&output.stdout).unwrap_or_else(|e| panic!("{tool}: {e}"));
        assert_eq!(listing(&tree, true), expected, "{tool}");
    }
}

/// Three layers: the last ones take away, replace and hide.
fn layers() -> Vec<Vec<u8>> {
    use Item::{File, Folder, Link};
    let base = [
        &items()[..],
        &[
            Folder("opt", 0o755),
            File("opt/old", 0o644, b"1".to_vec()),
            Folder("opt/kept", 0o755),
            File("opt/kept/old", 0o644, b"1".to_vec()),
            File("etc/gone", 0o644, b"1".to_vec()),
            Folder("etc/folder", 0o755),
            File("etc/folder/in", 0o644, b"1".to_vec()),
        ],
    ];
    let second = vec![
        File("etc/.wh.gone", 0o644, Vec::new()),
        File("etc/.wh.folder", 0o644, Vec::new()),
        // Through the link bin -> usr/bin.
        File("bin/tool", 0o755, program(62)),
        Folder("opt", 0o755),
        File("opt/.wh..wh..opq", 0o644, Vec::new()),
        Folder("opt/kept", 0o711),
        File("opt/kept/new", 0o644, b"2".to_vec()),
    ];
    let third = vec![
        File("etc/passwd", 0o600, b"other\n".to_vec()),
        Link("etc/gone", "passwd"),
        File("opt/.wh.nobody", 0o644, Vec::new()),
    ];
    vec![archive(&base.concat()), archive(&second), archive(&third)]
}

fn check_layers(tree: &Tree) {
    tree.check().unwrap();
    let lines = listing(tree, false);
    let line = |name: &str| lines.iter().find(|line| line.starts_with(&format!("{name} ")));
    for gone in ["/etc/folder", "/opt/old", "/opt/kept/old", "/etc/.wh.gone", "/opt/.wh..wh..opq"] {
        assert_eq!(line(gone), None);
    }
    assert!(line("/usr/bin/tool").is_some() && line("/opt/kept/new").is_some());
    assert!(line("/opt/kept").unwrap().contains(" 711 "));
    assert!(line("/etc/passwd").unwrap().contains(" 600 "));
    assert!(line("/etc/gone").unwrap().ends_with("link to passwd"));
}

fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    tar.into_inner().unwrap()
}

/// An image's configuration, whose command is this word.
fn configuration(command: &str) -> Vec<u8> {
    let config = serde_json::json!({ "Entrypoint": ["/bin/tool"], "Cmd": [command], "User": "7" });
    serde_json::json!({ "architecture": "amd64", "os": "linux", "config": config })
        .to_string()
        .into_bytes()
}

/// The configuration of an image in a file of these bytes; `name` picks one of several.
fn config(bytes: &[u8], name: &str) -> Result<crate::ImageConfig, RootError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let source = Source::find(&format!("{}{name}", file.path().display())).unwrap();
    let read = source.read(std::env::temp_dir().as_path(), Limits::default())?;
    Ok(read.config.unwrap())
}

/// An archive as `docker save` writes it, with `images` in its list.
fn docker(images: usize) -> Vec<u8> {
    let layers = layers();
    let names: Vec<String> = (0..layers.len()).map(|n| format!("{n}/layer.tar")).collect();
    let image = |number: usize| {
        let tags = [format!("it:{}", number + 1)];
        serde_json::json!({ "Config": format!("{number}.json"), "RepoTags": tags, "Layers": names })
    };
    let list = serde_json::json!((0..images).map(image).collect::<Vec<_>>());
    let mut files: Vec<_> = names.into_iter().zip(layers).collect();
    for number in 0..images {
        files.push((format!("{number}.json"), configuration(&format!("it {}", number + 1))));
    }
    files.push(("manifest.json".into(), list.to_string().into_bytes()));
    tar_of(&files)
}

/// The files of an OCI layout with compressed layers, for this architecture.
fn oci(architecture: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut blob = |bytes: Vec<u8>| {
        let name = name_in_blobs(&bytes);
        let size = bytes.len();
        files.push((format!("blobs/sha256/{name}"), bytes));
        serde_json::json!({ "digest": format!("sha256:{name}"), "size": size })
    };
    let mut described = Vec::new();
    for layer in layers() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&layer).unwrap();
        described.push(blob(gzip.finish().unwrap()));
    }
    let config = blob(configuration("it 1"));
    let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": described });
    let mut image = blob(manifest.to_string().into_bytes());
    image["platform"] = serde_json::json!({ "architecture": architecture, "os": "linux" });
    let mut signature = blob(b"{}".to_vec());
    signature["platform"] = serde_json::json!({ "architecture": "unknown", "os": "unknown" });
    let inner = serde_json::json!({ "manifests": [image, signature] });
    let mut list = blob(inner.to_string().into_bytes());
    list["annotations"] = serde_json::json!({ "org.opencontainers.image.ref.name": "it:1" });
    files
        .push(("index.json".into(), serde_json::json!({ "manifests": [list] }).to_string().into()));
    files.push(("oci-layout".into(), b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec()));
    files
}

#[test]
fn a_container_image_has_its_layers_in_order() {
    check_layers(&read_bytes(&docker(1)).unwrap());
    check_layers(&read_bytes(&tar_of(&oci("amd64"))).unwrap());
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in oci("amd64") {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    check_layers(&read(folder.path()).unwrap());
}

#[test]
fn a_container_image_that_cannot_be_used_is_told() {
    let text = refused(read_bytes(&docker(2)));
    assert!(text.contains("2 images (it:1, it:2)"), "{text}");
    let text = refused(read_bytes(&tar_of(&oci("arm64"))));
    assert!(text.contains("linux/amd64") && text.contains("linux/arm64"), "{text}");
    let mut files = oci("amd64");
    files[0].1[20] ^= 1;
    let text = refused(read_bytes(&tar_of(&files)));
    assert!(text.contains("not what its digest says"), "{text}");
    files.remove(0);
    let text = refused(read_bytes(&tar_of(&files)));
    assert!(text.contains("is missing"), "{text}");
}

#[test]
fn a_container_image_says_what_runs_in_it() {
    let images = [docker(1), tar_of(&oci("amd64"))];
    for image in &images {
        for name in ["", ":it:1", ":docker.io/library/it:1"] {
            let config = config(image, name).unwrap();
            assert_eq!(
                (config.entrypoint, config.command),
                (vec!["/bin/tool".into()], vec!["it 1".into()])
            );
            assert_eq!(config.user, "7");
        }
        let text = config(image, ":it:3").unwrap_err().to_string();
        assert!(text.contains("it has no image it:3 (it:1)"), "{text}");
    }
    // One of several is picked by its name.
    for number in [1, 2] {
        let config = config(&docker(2), &format!(":it:{number}")).unwrap();
        assert_eq!(config.command, [format!("it {number}")]);
    }
    // The name stands for an image only.
    let text = config(&archive(&items()), ":it:1").unwrap_err().to_string();
    assert!(text.contains("no container image, and it:1"), "{text}");
    // A list that names a configuration has it.
    let mut files = oci("amd64");
    let place = files.iter().position(|(_, bytes)| *bytes == configuration("it 1")).unwrap();
    files.remove(place);
    let text = config(&tar_of(&files), "").unwrap_err().to_string();
    assert!(text.contains("is missing"), "{text}");
    // A layout whose configuration is anything.
    let list = br#"[{"Config":"c","Layers":[]}]"#.to_vec();
    for bytes in [&b""[..], b"{", b"[]", &[0xff; 100], &b"[".repeat(100_000)] {
        let files = [("manifest.json".into(), list.clone()), ("c".into(), bytes.to_vec())];
        let text = config(&tar_of(&files), "").unwrap_err().to_string();
        assert!(text.contains("its configuration is damaged"), "{text}");
    }
}

#[test]
fn images_of_several_machines_are_one_tree() {
    let mut debian = as_tar();
    for name in ["usr/lib/modules/6.1.0-x/kernel", "usr/sbin", "sbin"] {
        debian.folder(name.as_bytes(), 0).unwrap();
    }
    let sbin = debian.at("/sbin").unwrap();
    let meta = || crate::tree::Meta::of_root(0o755);
    debian.put(sbin, b"mke2fs", meta(), hole(7), 0).unwrap();
    let link = Kind::Link(b"usr/lib".to_vec());
    debian.put(ROOT, b"lib", crate::tree::Meta::of_root(0o777), link, 0).unwrap();
    let mut tree = Tree::of_images("6.1.0-x", &debian, &[as_tar(), as_tar()]).unwrap();
    let (_folder, path) = image(&mut tree);
    let again = crate::read_image(&path).unwrap();
    for path in ["/lib/modules/6.1.0-x/kernel", "/tools/dev"] {
        assert!(again.at(path).is_some(), "{path}");
    }
    assert_eq!(again.node(again.at("/tools/sbin/mke2fs").unwrap()).names, 1);
    for place in 0..2 {
        let folder = crate::image_folder(place);
        let at = |name: &str| again.at(&format!("/{folder}/{name}")).unwrap();
        // Names of one file stay that.
        assert_eq!(at("usr/large"), at("usr/again"));
        assert_eq!(again.node(at("usr/large")).meta.mode, 0o4755);
    }
}

/// An image that mke2fs made of the items' folder with these options.
fn made_by_others(options: &[&str]) -> Option<(TempDir, PathBuf)> {
    let from = folder(&items());
    let to = tempfile::tempdir().unwrap();
    let path = to.path().join("disk.img");
    let made = Command::new("mke2fs")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-F", "-d"])
        .arg(from.path())
        .args(options)
        .arg(&path)
        .arg("16M")
        .output();
    let output = made.ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((to, path))
}

#[test]
fn images_of_all_kinds_of_ext_are_read() {
    let expected = listing(&as_tar(), true);
    for options in [
        &["-t", "ext4", "-b", "4096"][..],
        &["-t", "ext4", "-b", "1024", "-O", "64bit,metadata_csum"],
        &["-t", "ext3", "-b", "1024"],
        &["-t", "ext2", "-b", "2048", "-I", "128"],
    ] {
        let Some((_folder, path)) = made_by_others(options) else { return };
        let owned = |line: &String| {
            // mke2fs keeps the owner of whoever runs the test.
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            format!("{} {} {}", words[0], words[1], words[3])
        };
        let found: Vec<_> = listing(&read(&path).unwrap(), true).iter().map(owned).collect();
        assert_eq!(found, expected.iter().map(owned).collect::<Vec<_>>(), "{options:?}");
    }
}

/// A disk with an MBR, its second partition being the image.
fn partitioned(image: &[u8]) -> Vec<u8> {
    let mut disk = vec![0; 1 << 20];
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    for (slot, kind, start) in [(0, 0x0c, 64u32), (1, 0x83, 2048)] {
        let entry = 446 + slot * 16;
        disk[entry + 4] = kind;
        disk[entry + 8..entry + 12].copy_from_slice(&start.to_le_bytes());
    }
    disk[64 * 512 + 0x52..][..5].copy_from_slice(b"FAT32");
    disk.extend_from_slice(image);
    disk
}

#[test]
fn a_disk_has_its_linux_in_a_partition_and_in_qcow2() {
    let (_folder, path) = image(&mut as_tar());
    let expected = listing(&as_tar(), true);
    let disk = partitioned(&fs::read(path).unwrap());
    assert_eq!(listing(&read_bytes(&disk).unwrap(), true), expected);
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("disk.raw");
    fs::write(&raw, &disk).unwrap();
    for options in [&["-c"][..], &["-o", "cluster_size=4k"], &["-c", "-o", "compression_type=zstd"]]
    {
        let qcow2 = folder.path().join("disk.qcow2");
        let made = Command::new("qemu-img")
            .args(["convert", "-f", "raw", "-O", "qcow2"])
            .args(options)
            .args([&raw, &qcow2])
            .output();
        let Ok(output) = made else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(listing(&read(&qcow2).unwrap(), true), expected, "{options:?}");
    }
    // Without its Linux: the error names the other content.
    let mut empty = disk;
    empty.truncate(2048 * 512);
    empty.resize(4 << 20, 0);
    let text = refused(read_bytes(&empty));
    assert!(text.contains("1: FAT") && text.contains("no Linux"), "{text}");
}

#[test]
fn devices_rights_and_owners_are_kept() {
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |name: &str, kind: tar::EntryType, numbers: (u32, u32), owner: u64| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o2640);
        header.set_size(0);
        header.set_uid(owner);
        header.set_gid(owner + 1);
        header.set_device_major(numbers.0).unwrap();
        header.set_device_minor(numbers.1).unwrap();
        tar.append_data(&mut header, name, &[][..]).unwrap();
    };
    add("null", tar::EntryType::Char, (1, 3), 0);
    add("large", tar::EntryType::Block, (259, 70_000), 100_000);
    add("pipe", tar::EntryType::Fifo, (0, 0), 7);
    tar.append_pax_extensions([("SCHILY.xattr.security.capability", &pattern(20)[..])]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(2);
    header.set_mode(0o755);
    tar.append_data(&mut header, "ping", &b"hi"[..]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), tar.into_inner().unwrap()).unwrap();
    let mut tree = read(file.path()).unwrap();
    let (_folder, path) = image(&mut tree);
    let lines = listing(&crate::read_image(&path).unwrap(), false);
    assert_eq!(lines, listing(&tree, false));
    assert!(lines.iter().any(|line| line.starts_with("/large 2640 100000:100001")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("major: 259, minor: 70000")), "{lines:?}");
    let rights = format!("{:?}", Some(pattern(20)));
    assert!(lines.iter().any(|line| line.starts_with("/ping") && line.contains(&rights)));
}

/// A file of `length` zeroes.
fn hole(length: u64) -> Kind {
    Kind::File(Content::Pieces {
        source: std::sync::Arc::new(crate::lower::open(Path::new("/dev/null")).unwrap()),
        pieces: Vec::new(),
        length,
    })
}

/// Numbers of blocks have 32 bits: a folder of sparse files may need more.
#[test]
fn files_of_more_than_16_tib_together_are_refused() {
    let limits = crate::tree::Limits { bytes: u64::MAX, ..Default::default() };
    let mut tree = crate::Tree::new(Path::new("root"), limits);
    for number in 0..410 {
        let name = format!("{number}");
        let meta = crate::tree::Meta::of_root(0o644);
        tree.put(ROOT, name.as_bytes(), meta, hole(40 << 30), 0).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let error = crate::ext4::write::write(&mut tree, &folder.path().join("image")).unwrap_err();
    assert!(error.to_string().contains("16 TiB"), "{error}");
}

/// More inodes than a group of a small image counts, a folder of many blocks, and a file whose
/// extents an inode has no room for.
#[test]
fn many_files_and_a_large_one() {
    let mut tree = as_tar();
    let folder = tree.folder(b"many", 0).unwrap();
    let meta = || crate::tree::Meta::of_root(0o644);
    let small = hole(3);
    for number in 0..40_000 {
        let name = format!("a file with the number {number}");
        tree.put(folder, name.as_bytes(), meta(), small.clone(), 0).unwrap();
    }
    tree.put(ROOT, b"large", meta(), hole(600 << 20), 0).unwrap();
    let (_folder, path) = image(&mut tree);
    let again = crate::read_image(&path).unwrap();
    assert_eq!(listing(&again, false).len(), listing(&tree, false).len());
    let Kind::File(content) = &again.node(again.at("/large").unwrap()).kind else { panic!() };
    assert_eq!(content.length(), 600 << 20);
}

#[test]
fn a_root_gets_what_a_guest_needs() {
    let mut tree = as_tar();
    let rules = tree.folder(b"usr/lib/udev/rules.d", 0).unwrap();
    let file = || hole(0);
    for name in ["60-block.rules", "95-dm-notify.rules"] {
        tree.put(rules, name.as_bytes(), crate::tree::Meta::of_root(0o644), file(), 0).unwrap();
    }
    let mut other = Tree::new(Path::new("/other"), Limits::default());
    let modules = other.folder(b"usr/lib/modules/6.1.0-x/kernel", 0).unwrap();
    other.put(modules, b"nvme.ko", crate::tree::Meta::of_root(0o644), file(), 0).unwrap();
    let link = Kind::Link(b"usr/lib".to_vec());
    other.put(ROOT, b"lib", crate::tree::Meta::of_root(0o777), link, 0).unwrap();
    tree.complete("6.1.0-x", &other).unwrap();
    for there in ["/lib/modules/6.1.0-x/kernel/nvme.ko", "/dev", "/proc", "/results", "/tmp"] {
        assert!(tree.at(there).is_some(), "{there}");
    }
    // The guest's first process masks those that do not belong there.
    for there in ["60-block", "95-dm-notify"] {
        assert!(tree.at(&format!("/usr/lib/udev/rules.d/{there}.rules")).is_some(), "{there}");
    }
}

#[test]
fn the_hosts_own_root_is_taken_in_part() {
    let host = folder(&items());
    let here = |name: &str| host.path().join(name);
    fs::create_dir_all(here("home/somebody")).unwrap();
    fs::create_dir_all(here("usr/lib/modules/6.1.0-x")).unwrap();
    let walked = crate::folder::of_host(host.path(), Limits::default()).unwrap();
    walked.tree.check().unwrap();
    assert!(
        walked.tree.at("/home").is_none() && walked.tree.at("/usr/lib/modules/6.1.0-x").is_none()
    );
    assert!(
        walked.tree.at("/usr/lib/modules").is_some() && walked.tree.at("/etc/passwd").is_some()
    );
}

/// GNU tar's forms of files with holes, more of them than one header lists.
#[test]
fn files_with_holes_in_archives() {
    let work = tempfile::tempdir().unwrap();
    let holes = fs::File::create(work.path().join("holes")).unwrap();
    let mut expected = vec![0; 3_050_007];
    for (index, at) in (0..expected.len()).step_by(100_000).enumerate() {
        let at = at / 4096 * 4096;
        let bytes = pattern(4096 * (1 + index % 3));
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
        std::os::unix::fs::FileExt::write_all_at(&holes, &bytes, at as u64).unwrap();
    }
    holes.set_len(expected.len() as u64).unwrap();
    for form in [
        "--format=gnu",
        "--format=posix --sparse-version=1.0",
        "--format=posix --sparse-version=0.1",
    ] {
        let line = format!("tar --sparse {form} -cf archive.tar holes");
        let status = Command::new("sh").args(["-c", &line]).current_dir(work.path()).status();
        assert!(status.unwrap().success());
        let archive = work.path().join("archive.tar");
        assert!(fs::metadata(&archive).unwrap().len() < 400_000, "there are no holes in {form}");
        let tree = read(&archive).unwrap();
        let read = tree.read_file("/holes").unwrap().expect("it has the file's own name");
        assert!(read == expected, "{form}");
    }
    let line = "tar --sparse --format=posix --sparse-version=0.0 -cf archive.tar holes";
    let status = Command::new("sh").args(["-c", line]).current_dir(work.path()).status();
    assert!(status.unwrap().success());
    let text = refused(read(&work.path().join("archive.tar")));
    assert!(text.contains("form that is not known") && text.contains("archive.tar"), "{text}");
}
