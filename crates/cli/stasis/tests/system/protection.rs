//! A namespace with protection information in a guest: Linux's own checks and the drive's, formats
//! by nvme-cli, and a fault that corrupts blocks.

use crate::support::{guest_file, Bench};

#[test]
#[ignore = "boots a guest for a minute: make slow-test"]
fn protection_information_is_checked_by_the_kernel_and_the_drive() {
    let bench = Bench::new();
    let script = guest_file("protection.sh");
    let experiment = format!(
        "command = ['sh', '/root/protection.sh']\nengine = 'exact'\n\
         [guest]\nfiles = ['{script}']\n\
         [[drive]]\nname = 'd'\nmodel = 'fixed:50us'\nmedium = 'ram:64MiB'\nblock-size = 4096\n\
         metadata = {{ size = 8, protection = 1 }}\n\
         [[fault]]\nkind = 'bit-rot'\ndrive = 'd'\nbegin = '60s'\ntimes = 40\n\
         offset = '40MiB'\nlength = '4MiB'\n"
    );
    std::fs::write(bench.path("e.toml"), experiment).unwrap();
    bench.run(&["e.toml", "--results=r"]).expect(0);
    let text = |name: &str| bench.text(&format!("r/{name}.txt"));
    let expect = |name: &str, status: u32, words: &[&str]| {
        let text = text(name);
        assert!(text.contains(&format!("status {status}\n")), "{name}: {text}");
        for word in words {
            assert!(text.contains(word), "{name}: no {word:?} in {text}");
        }
    };
    let blocks: u64 = (64 << 20) / (4096 + 512);
    assert_eq!(text("made-format"), "T10-DIF-TYPE1-CRC\n");
    assert_eq!(text("made-size"), format!("{}\n", blocks * 4096));
    assert_eq!(text("made-tags"), "2\n1\n1\n");
    expect("made-id", 0, &["flbas   : 0x5", "dps     : 0x1", "mc      : 0x3", "dpc     : 0x1f"]);
    for good in ["made-fio", "unwritten", "discard", "zeroes", "read-zeroes", "insert", "check"] {
        expect(good, 0, &[]);
    }
    assert_eq!(text("tags"), " 00 00 00 64\n");
    expect("wrong-tag", 1, &["0x6181"]);
    expect("wrong-guard", 1, &["0x2282"]);
    for good in ["verify", "mkfs", "mount", "file", "umount", "fsck", "before", "read-before"] {
        expect(good, 0, &[]);
    }
    // The fault: each block with a wrong bit fails, for the guest and for Verify.
    expect("read-after", 0, &["Invalid or incomplete"]);
    let failed = text("read-after").matches("error reading").count();
    let verified = text("verify-after").matches("Guard Check Error").count();
    assert!(failed >= 20 && verified >= 4, "{failed} {verified}: {}", text("dmesg"));
    assert!(text("dmesg").contains("protection error"), "{}", text("dmesg"));

    for format in ["format-64", "format-behind", "format-512", "format-plain"] {
        expect(format, 0, &["Success"]);
    }
    assert_eq!(text("crc64-format"), "EXT-DIF-TYPE1-CRC64\n");
    assert_eq!(text("type3-format"), "T10-DIF-TYPE3-CRC\n");
    assert_eq!(text("type3-size"), format!("{}\n", blocks * (4096 + 512) / 1024 * 512));
    assert_eq!(text("behind-size"), format!("{}\n", blocks * 4096));
    assert_eq!(text("plain-size"), format!("{}\n", blocks * (4096 + 512)));
    assert_eq!(text("plain-format"), "none\n");
    for good in ["crc64-fio", "behind-fio", "type3-fio"] {
        expect(good, 0, &[]);
    }
}
