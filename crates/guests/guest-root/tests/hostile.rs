//! Archives and images that may hold anything. The same is fuzzed by coverage in `fuzz`.

#[path = "common/damaged.rs"]
mod damaged;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};

fn of_archive(bytes: &[u8]) -> bool {
    damaged::exercise(|path| fs::write(path, damaged::as_archive(bytes)))
}

fn of_image(bytes: &[u8]) -> bool {
    damaged::exercise(|path| damaged::write_image(bytes, path))
}

fn known(target: &str) -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), target)
}

#[test]
fn the_corpus_is_refused_or_works() {
    for (target, works) in [("archive", of_archive as fn(&[u8]) -> bool), ("image", of_image)] {
        let known = known(target);
        assert!(known.iter().any(|bytes| works(bytes)), "no {target} works");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(100)))]

    #[test]
    fn damaged_archives_are_refused_or_work(bytes in inputs(known("archive"), 128 << 10)) {
        of_archive(&bytes);
    }

    #[test]
    fn damaged_images_are_refused_or_work(bytes in inputs(known("image"), 128 << 10)) {
        of_image(&bytes);
    }
}

/// Configurations that engines write, from which hostile ones are made.
fn configurations() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"architecture":"amd64","os":"linux","config":{"User":"postgres","Env":["PATH=/bin","A=b"],
            "Entrypoint":["/enter"],"Cmd":["serve","-p"],"WorkingDir":"/srv","Volumes":{"/data":{}},
            "ExposedPorts":{"5432/tcp":{}},"StopSignal":"SIGINT","Healthcheck":{"Test":["CMD-SHELL","ask"],
            "Interval":1000000000,"Timeout":1,"StartPeriod":0,"Retries":3}},"rootfs":{"diff_ids":[]}}"#,
        r#"{"config":{"Healthcheck":{"Test":["NONE"]},"Cmd":null,"Entrypoint":[]}}"#,
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads an archive as `docker save` writes it, with this configuration; `true` if it holds.
fn of_configuration(bytes: &[u8]) -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut archive = tar::Builder::new(file.reopen().unwrap());
    for (name, bytes) in [("manifest.json", &br#"[{"Config":"c","Layers":[]}]"#[..]), ("c", bytes)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, name, bytes).unwrap();
    }
    archive.finish().unwrap();
    let source = stasis_guest_root::Source::find(file.path().to_str().unwrap()).unwrap();
    match source.read(&std::env::temp_dir(), stasis_guest_root::Limits::default()) {
        Ok(read) => {
            let config = read.config.unwrap();
            let words = config.entrypoint.iter().chain(&config.command).chain(&config.volumes);
            let words = words.chain(config.environment.keys()).chain(config.environment.values());
            // None that a guest's system calls would cut off.
            assert!(words
                .chain([&config.user, &config.working_directory])
                .all(|word| !word.contains('\0')));
            assert!(config.volumes.iter().all(|path| path.starts_with('/') && path.len() > 1));
            assert!(config.environment.keys().all(|name| !name.is_empty() && !name.contains('=')));
            true
        }
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            false
        }
    }
}

#[test]
fn configurations_hold() {
    assert!(configurations().iter().all(|bytes| of_configuration(bytes)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn damaged_configurations_are_refused_or_hold(bytes in inputs(configurations(), 4 << 10)) {
        of_configuration(&bytes);
    }
}

/// Writes the inputs that fuzzing begins with to `target/fuzz`: `scripts/fuzz` uses them.
#[test]
#[ignore = "makes inputs, with mke2fs, qemu-img, sfdisk and GNU tar: make fuzz-inputs"]
fn inputs_to_begin_with() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/fuzz/guest-root");
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    let run = |line: &str| {
        let output = Command::new("sh").args(["-ec", line]).current_dir(work).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("mkdir -p tree/bin tree/etc tree/deep/er");
    // A program of nothing but a header, for x86-64 (ELF specification: class 2, data 1, machine
    // 62).
    let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
    program.resize(4096, 0);
    fs::write(work.join("tree/bin/sh"), program).unwrap();
    run("chmod 755 tree/bin/sh && ln -s ../etc tree/bin/link && ln tree/bin/sh tree/etc/again
        mkfifo tree/etc/pipe && echo text >tree/deep/er/text && for i in $(seq 40); do echo $i >tree/deep/$i; done
        truncate -s 1M tree/holes && printf x | dd of=tree/holes bs=1 seek=70000 conv=notrunc
        ln -s $(head -c 300 /dev/zero | tr '\\0' x) tree/long");
    let save = |kind: &str, name: &str, bytes: Vec<u8>| {
        fs::create_dir_all(target.join(kind)).unwrap();
        fs::write(target.join(kind).join(name), bytes).unwrap();
    };
    let file = |name: &str| fs::read(PathBuf::from(work).join(name)).unwrap();
    for (name, options) in [
        ("gnu", "--format=gnu -S"),
        ("pax", "--format=posix -S --sparse-version=1.0"),
        ("pax-0.1", "--format=posix -S --sparse-version=0.1"),
        ("ustar", "--format=ustar --exclude=./long --exclude=./holes"),
    ] {
        run(&format!("tar -C tree {options} -cf {name}.tar ."));
        let bytes = file(&format!("{name}.tar"));
        assert!(of_archive(&bytes), "{name}");
        save("archive", name, bytes);
    }
    run("mkdir saved && tar -C tree -cf saved/layer.tar bin etc && touch tree/.wh.holes && mkdir tree/deep/x
        touch tree/deep/.wh..wh..opq && tar -C tree -cf saved/second.tar .wh.holes deep && rm tree/.wh.holes
        echo '[{\"RepoTags\":[\"a:b\"],\"Layers\":[\"layer.tar\",\"second.tar\"]}]' >saved/manifest.json
        tar -C saved -cf saved.tar manifest.json layer.tar second.tar");
    assert!(of_archive(&file("saved.tar")), "saved");
    save("archive", "saved", file("saved.tar"));
    for (name, options) in [
        ("ext4", "-t ext4 -b 1024"),
        ("ext4-64bit", "-t ext4 -b 1024 -O 64bit,^has_journal"),
        ("ext3", "-t ext3 -b 1024"),
        ("ext2", "-t ext2 -b 1024"),
        ("ext4-4k", "-t ext4 -b 4096 -O ^has_journal"),
        ("inline", "-t ext4 -b 1024 -O inline_data,^has_journal"),
    ] {
        run(&format!("rm -f image; mke2fs -q {options} -I 256 -N 128 -d tree image 8M"));
        let bytes = damaged::sectors(&file("image"));
        assert!(of_image(&bytes), "{name}");
        save("image", name, bytes);
    }
    run("rm -f image; mke2fs -q -t ext4 -b 1024 -O ^has_journal -N 128 -d tree image 3M
        qemu-img convert -c -O qcow2 -o cluster_size=4k image small.qcow2
        for label in dos gpt; do
            truncate -s 0 disk-$label; truncate -s 8M disk-$label
            printf 'label: %s\\n,1M\\n,4M\\n' $label | sfdisk -q disk-$label
            dd if=image of=disk-$label bs=512 seek=$(sfdisk -d disk-$label | sed -n 's/.*2 : start= *\\([0-9]*\\).*/\\1/p') conv=notrunc
        done
        mkdir -p xfs && truncate -s 1M xfs/image && printf XFSB | dd of=xfs/image conv=notrunc");
    for name in ["small.qcow2", "disk-dos", "disk-gpt", "xfs/image"] {
        let bytes = damaged::sectors(&file(name));
        assert!(of_image(&bytes), "{name}");
        save("image", &name.replace('/', "-"), bytes);
    }
}
