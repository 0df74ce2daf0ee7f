//! `stasis serve --vfio-user` is killed in the midst of writes; acknowledged data is there
//! afterwards. The client is the tests' own, which connects again: QEMU does not.
//! `KILLS=300 cargo test --release -p stasis --test served kills_vfio:: -- --nocapture`

use crate::killed_writes::{survive, Host, BLOCKS};
use crate::server::serve;
use crate::vfio_host::VfioHost;

impl Host for VfioHost {
    fn begin(&mut self, slot: u16, block: u64, data: &[u8]) {
        self.begin_write(slot, block, data).unwrap();
    }

    fn ended(&mut self) -> Option<u16> {
        match self.wait(1) {
            Ok((slot, 0, _)) => Some(slot),
            _ => None,
        }
    }

    fn read(&mut self, block: u64) -> Vec<u8> {
        VfioHost::read(self, block).unwrap()
    }
}

#[test]
fn acknowledged_writes_survive_kills_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let disk = std::fs::File::create(folder.path().join("disk.img")).unwrap();
    disk.set_len(BLOCKS * 4096).unwrap();
    let path = folder.path().join("vfio.sock");
    survive(|| {
        let drive = "name=d,model=fixed:300us,medium=file:disk.img";
        let server = serve(folder.path(), &["--drive", drive, "--vfio-user", "vfio.sock"]);
        (server, VfioHost::reconnect(&path))
    });
}
