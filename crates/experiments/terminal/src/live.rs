//! A page on the loopback interface: HTTP for this machine's browsers, and nothing else.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stasis_runner::LivePage;

/// Limit on connections at a time; further ones are closed.
const MAX_CONNECTIONS: usize = 16;
/// Limit on the bytes of a request's head.
const MAX_HEAD: usize = 8 << 10;
/// Limit on the time of a connection, from its beginning to its end.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Time after which a browser asks again (s).
const REFRESH: u32 = 2;
/// Bytes that are written at a time.
const PIECE: usize = 64 << 10;

/// Serves a page until the program ends. Returns its address.
///
/// # Errors
/// If the port is taken.
pub fn serve(page: &Arc<LivePage>, port: u16) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("--live: cannot listen on port {port} of this machine"))?;
    let address = listener.local_addr().context("--live")?;
    let page = Arc::clone(page);
    thread::spawn(move || listen(&listener, &page));
    Ok(address)
}

fn listen(listener: &TcpListener, page: &Arc<LivePage>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, say.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (page, own) = (Arc::clone(page), Arc::clone(&open));
        let answers = move || {
            // The client of a connection that fails has gone.
            let _ = answer(stream, &page);
            own.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().spawn(answers).is_err() {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The time that a connection has until `end`.
fn rest(end: Instant) -> std::io::Result<Duration> {
    let rest = end.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        Err(ErrorKind::TimedOut.into())
    } else {
        Ok(rest)
    }
}

fn answer(mut stream: TcpStream, page: &LivePage) -> std::io::Result<()> {
    let end = Instant::now() + MAX_TIME;
    let own = stream.local_addr()?.port();
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        stream.set_read_timeout(Some(rest(end)?))?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count if head.len() + count > MAX_HEAD => {
                return send(&mut stream, end, &refusal("431 Request Header Fields Too Large"));
            }
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    let asked = match asked(&head, own) {
        Ok(asked) => asked,
        Err(status) => return send(&mut stream, end, &refusal(status)),
    };
    let (html, over) = page.look();
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n",
        html.len()
    );
    if !over {
        response.push_str(&format!("Refresh: {REFRESH}\r\n"));
    }
    response.push_str("\r\n");
    if asked == Asked::Page {
        response.push_str(&html);
    }
    send(&mut stream, end, response.as_bytes())?;
    if over && asked == Asked::Page {
        page.was_read();
    }
    Ok(())
}

fn refusal(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

fn send(stream: &mut TcpStream, end: Instant, bytes: &[u8]) -> std::io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        stream.set_write_timeout(Some(rest(end)?))?;
        stream.write_all(piece)?;
    }
    stream.flush()
}

/// A request.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Page,
    Head,
}

/// Reads a request's head (RFC 9112), or says with which status it is refused. The host has to be this
/// one by its usual names: a page of another site whose name leads here is no reader.
fn asked(head: &[u8], port: u16) -> Result<Asked, &'static str> {
    const BAD: &str = "400 Bad Request";
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) || words.next().is_some() {
        return Err(BAD);
    }
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let host = hosts.next().ok_or(BAD)?;
    let (name, given) = host.rsplit_once(':').unwrap_or((host, "80"));
    let local = ["127.0.0.1", "localhost"].iter().any(|own| name.eq_ignore_ascii_case(own));
    if !local || given.parse() != Ok(port) || hosts.next().is_some() {
        return Err("421 Misdirected Request");
    }
    let path = target.unwrap_or_default().split('?').next().unwrap_or_default();
    match (method, path) {
        (Some("GET"), "/" | "/report.html") => Ok(Asked::Page),
        (Some("HEAD"), "/" | "/report.html") => Ok(Asked::Head),
        (Some("GET" | "HEAD"), _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(address: SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // One that is refused may be closed before all is written.
        let _ = stream.write_all(text.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(address: SocketAddr) -> String {
        request(address, &format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", address.port()))
    }

    #[test]
    fn the_page_is_what_the_run_shows_and_ends_as_the_last() {
        let page = Arc::new(LivePage::new("<p>begins".into()));
        let address = serve(&page, 0).unwrap();
        assert!(address.ip().is_loopback());
        let first = get(address);
        assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\n<p>begins"));
        assert!(first.contains("\r\nRefresh: 2\r\n"), "{first}");
        page.show("<p>goes on".into());
        assert!(get(address).ends_with("<p>goes on"));
        let own = Arc::clone(&page);
        let ends = thread::spawn(move || own.end("<p>over".into()));
        let last = loop {
            let text = get(address);
            if text.ends_with("<p>over") {
                break text;
            }
        };
        assert!(!last.contains("Refresh"), "{last}");
        // It has been read, so that nobody waits.
        ends.join().unwrap();
        let other = serve(&page, address.port()).unwrap_err();
        assert!(format!("{other:#}").contains("cannot listen on port"), "{other:#}");
    }

    #[test]
    fn requests_of_others_and_no_requests_are_refused() {
        let head = |text: &str| asked(text.as_bytes(), 80);
        assert_eq!(head("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Ok(Asked::Page));
        assert_eq!(head("HEAD /?a HTTP/1.0\r\nhOsT:127.0.0.1:80\r\n\r\n"), Ok(Asked::Head));
        for (text, status) in [
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 421),
            ("GET / HTTP/1.1\r\nHost: localhost:81\r\n\r\n", 421),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 421),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET /\r\nHost: localhost\r\n\r\n", 400),
            ("GET / HTTP/1.1 more\r\nHost: localhost\r\n\r\n", 400),
            ("\r\n\r\n", 400),
            ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ] {
            let refused = head(text).unwrap_err();
            assert!(refused.starts_with(&status.to_string()), "{text:?}: {refused}");
        }
        assert!(asked(&[0xff; 20], 80).is_err());
    }

    #[test]
    fn hostile_clients_are_bounded() {
        let page = Arc::new(LivePage::new("page".into()));
        let address = serve(&page, 0).unwrap();
        // A head without an end.
        let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}", "a".repeat(64 << 10));
        let refused = request(address, &long);
        assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
        // Many that say nothing: the first have their place until their time is over, and further
        // ones are closed at once.
        let silent: Vec<_> =
            (0..4 * MAX_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let closed = |mut stream: &TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            matches!(stream.read(&mut [0]), Ok(0))
        };
        let begun = Instant::now();
        while silent.iter().filter(|stream| closed(stream)).count() < 3 * MAX_CONNECTIONS {
            assert!(begun.elapsed() < MAX_TIME);
        }
        drop(silent);
        // Then there is room again.
        while !get(address).ends_with("page") {
            assert!(begun.elapsed() < 3 * MAX_TIME);
        }
    }
}
