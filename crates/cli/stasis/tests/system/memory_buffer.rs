//! A controller's memory buffer, as Linux uses it where its kernel can: Debian's backports.

use crate::support::{guest_file, Bench};

#[test]
#[ignore = "fetches a kernel and boots a guest: make slow-test"]
fn a_memory_buffer_holds_queues_and_data_of_two_drives() {
    let bench = Bench::new();
    let script = guest_file("memory_buffer.sh");
    let experiment = format!(
        "command = ['sh', '/root/memory_buffer.sh']\nengine = 'exact'\n\
         [guest]\nfiles = ['{script}']\nkernel = 'linux-image-cloud-amd64/trixie-backports'\n\
         [[drive]]\nname = 'a'\nmodel = 'fixed:50us'\nmedium = 'ram:64MiB'\nmemory-buffer = '4MiB'\n\
         [[drive]]\nname = 'b'\nmodel = 'fixed:50us'\nmedium = 'ram:64MiB'\n\
         [[fault]]\nkind = 'gone'\ndrive = 'a'\nbegin = '3s'\nend = '3300ms'\n"
    );
    std::fs::write(bench.path("e.toml"), experiment).unwrap();
    let run = bench.run(&["e.toml", "--results=r"]);
    run.expect(0);
    // The submission queue has 64 KiB of the 4 MiB.
    let ready = "cmbloc : 0x000000e2 cmbsz : 0x0000421f size 4194304 available 4128768\n";
    let expected =
        format!("{ready}nvme0n1: 0\nnvme1n1: 0\n{ready}nvme0n1: 0\n{ready}nvme0n1: 0\n2\n");
    assert_eq!(run.stdout, expected);
    let summary = bench.json("r/summary.json");
    for (drive, count) in [(0, 48), (1, 16)] {
        assert_eq!(summary["drives"][drive]["write"]["count"], count);
        assert_eq!(summary["drives"][drive]["write"]["errors"], 0);
    }
}
