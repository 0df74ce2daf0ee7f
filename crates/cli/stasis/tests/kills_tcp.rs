//! `stasis serve --nvme-tcp` is killed in the midst of writes; acknowledged data is there
//! afterwards.
//! `KILLS=1000 cargo test --release -p stasis --test served kills_tcp:: -- --nocapture`

use std::net::TcpListener;

use crate::killed_writes::{survive, Host, BLOCKS};
use crate::server::serve;
use crate::tcp_host::{Event, TcpHost};
use stasis_nvme::Config;

impl Host for TcpHost {
    fn begin(&mut self, slot: u16, block: u64, data: &[u8]) {
        self.io.write(slot, block, data).unwrap();
    }

    fn ended(&mut self) -> Option<u16> {
        match self.io.next() {
            Ok(Event::Done(slot, _, 0)) => Some(slot),
            _ => None,
        }
    }

    fn read(&mut self, block: u64) -> Vec<u8> {
        TcpHost::read(self, block).unwrap()
    }
}

#[test]
fn acknowledged_writes_survive_kills_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let disk = std::fs::File::create(folder.path().join("disk.img")).unwrap();
    disk.set_len(BLOCKS * 4096).unwrap();
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nqn = Config { serial: "K".into(), ..Config::default() }.nqn();
    survive(|| {
        let drive = "name=d,model=fixed:300us,medium=file:disk.img,serial=K";
        let at = address.to_string();
        let server = serve(folder.path(), &["--drive", drive, "--nvme-tcp", &at]);
        (server, TcpHost::reconnect(address, &nqn, 1))
    });
}
