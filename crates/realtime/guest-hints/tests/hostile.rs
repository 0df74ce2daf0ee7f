//! Guests that flood, send garbage, or break off, beside one that behaves, on
//! real sockets.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stasis_guest_hints::hint_message::Message;
use stasis_guest_hints::host::{Guest, Host, Settings};
use stasis_guest_hints::report::GuestReport;

const TIMEOUT: Duration = Duration::from_secs(20);

fn guest(folder: &Path, name: &str) -> (Guest, UnixListener) {
    let cgroup = folder.join(format!("{name}.cgroup"));
    fs::create_dir(&cgroup).unwrap();
    fs::write(cgroup.join("io.bfq.weight"), "default 100\n").unwrap();
    let socket = folder.join(name);
    let listener = UnixListener::bind(&socket).unwrap();
    (Guest { socket, cgroup }, listener)
}

fn settings(folder: &Path) -> Settings {
    Settings {
        weight: 800,
        share: 500_000,
        burst: 60_000_000_000,
        state: Some(folder.join("state")),
        drive: None,
    }
}

/// A host at work on a separate thread.
struct Running {
    /// Ends it.
    stopper: UnixStream,
    /// Its messages, and the guest of each.
    news: Receiver<(String, String)>,
    work: JoinHandle<Vec<GuestReport>>,
}

fn start(host: Host) -> Running {
    let (stop, stopper) = UnixStream::pair().unwrap();
    let (tell, news) = channel();
    let work = std::thread::spawn(move || {
        let mut tell =
            |guest: &str, message: &str| tell.send((guest.to_owned(), message.to_owned())).unwrap();
        host.run(stop.as_fd(), &mut tell).unwrap()
    });
    Running { stopper, news, work }
}

fn weight(guest: &Guest) -> String {
    let text = fs::read_to_string(guest.cgroup.join("io.bfq.weight")).unwrap();
    text.trim().trim_start_matches("default ").to_owned()
}

fn wait(news: &Receiver<(String, String)>, guest: &Guest, wanted: &str) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let timeout = until.saturating_duration_since(Instant::now());
        let (sender, message) =
            news.recv_timeout(timeout).unwrap_or_else(|_| panic!("never {wanted}"));
        if sender == guest.socket.display().to_string() && message == wanted {
            return;
        }
    }
}

fn say(stream: &mut UnixStream, sequence: u32, raised: u32) {
    let message = Message { sequence, raised, valid: 3_000_000_000 };
    stream.write_all(&message.encode()).unwrap();
}

#[test]
fn hostile_guests_are_contained() {
    let folder = tempfile::tempdir().unwrap();
    let (good, good_end) = guest(folder.path(), "good");
    let (bad, bad_end) = guest(folder.path(), "bad");
    let host = Host::new(&[good.clone(), bad.clone()], &settings(folder.path())).unwrap();
    let reports = host.reports();
    let Running { mut stopper, news, work } = start(host);
    let (mut good_stream, mut bad_stream) =
        (good_end.accept().unwrap().0, bad_end.accept().unwrap().0);
    // It writes as much as is taken, garbage with the message's beginning in it.
    let flood = std::thread::spawn(move || {
        let garbage: Vec<u8> = (0..4096u32)
            .flat_map(|n| if n % 5 == 0 { *b"HELP" } else { n.to_le_bytes() })
            .collect();
        bad_stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(2) {
            sent += bad_stream.write(&garbage).unwrap_or(0);
        }
        (sent, bad_stream)
    });
    // The other is heard meanwhile.
    say(&mut good_stream, 0, 1);
    wait(&news, &good, "helped");
    assert_eq!((weight(&good), weight(&bad)), ("800".into(), "100".into()));
    say(&mut good_stream, 1, 0);
    wait(&news, &good, "not helped any more");
    assert_eq!(weight(&good), "100");
    let (sent, bad_stream) = flood.join().unwrap();
    let counts = reports.lock().unwrap()[1].counts;
    // A burst and the rate of some seconds is read; the rest is the socket's.
    assert!(counts.garbage > 0 && counts.floods > 0, "{counts:?}");
    assert!(counts.garbage < 8192 + 10 * 4096, "{counts:?} of {sent}");
    assert_eq!(counts.messages, 0);
    // It breaks off, and comes again as another guest, in the middle of asking.
    drop(bad_stream);
    wait(&news, &bad, "disconnected");
    let mut bad_stream = bad_end.accept().unwrap().0;
    say(&mut bad_stream, 77, 3);
    wait(&news, &bad, "helped");
    drop(bad_stream);
    wait(&news, &bad, "not helped any more");
    // One that asks at the end is restored.
    say(&mut good_stream, 2, 1);
    wait(&news, &good, "helped");
    stopper.write_all(&[0]).unwrap();
    let reports = work.join().unwrap();
    assert_eq!((weight(&good), weight(&bad)), ("100".into(), "100".into()));
    assert_eq!((reports[0].counts.messages, reports[1].counts.messages), (3, 1));
    assert_eq!(good_stream.read(&mut [0]).unwrap(), 0, "nothing is ever sent to a guest");
}

#[test]
fn a_socket_is_waited_for_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (guest, listener) = guest(folder.path(), "guest");
    drop(listener);
    let settings = settings(folder.path());
    let twice = Host::new(&[guest.clone(), guest.clone()], &settings).unwrap_err().to_string();
    assert!(twice.contains("coordinated by another") || twice.contains("named twice"), "{twice}");
    let host = Host::new(std::slice::from_ref(&guest), &settings).unwrap();
    let Running { mut stopper, news, work } = start(host);
    wait(&news, &guest, "cannot connect: nobody listens on it yet; trying again");
    fs::remove_file(&guest.socket).unwrap();
    wait(&news, &guest, "cannot connect: it is not there yet; trying again");
    let listener = UnixListener::bind(&guest.socket).unwrap();
    wait(&news, &guest, "connected");
    drop(listener.accept().unwrap());
    wait(&news, &guest, "disconnected");
    wait(&news, &guest, "connected");
    stopper.write_all(&[0]).unwrap();
    assert!(work.join().unwrap()[0].counts.messages == 0);
}
