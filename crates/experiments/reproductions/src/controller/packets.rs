//! The tests of netperf, which is not in Debian: requests and responses of one byte over TCP, and
//! streams.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

/// Bytes of a piece of a stream: netperf's default on Linux is the socket's
/// buffer, 16 KiB.
const PIECE: usize = 16 << 10;

/// Time that an answerer may take to listen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Answers until it is killed.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The port
    pub port: u16,
}

/// Asks, and prints a number.
#[derive(Debug, clap::Args)]
pub struct Send {
    /// `rr` (transactions a second), `send` or `receive` (Mbit a second)
    #[arg(value_name = "WHAT")]
    pub measurement: String,
    /// Address of the answerer
    pub address: String,
    /// Time of the measurement (s)
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
}

/// Answers one client after another. A client's first byte selects the test.
pub fn serve(arguments: &Serve) -> Result<ExitCode> {
    let listener = TcpListener::bind(("0.0.0.0", arguments.port))
        .with_context(|| format!("cannot listen on port {}", arguments.port))?;
    for stream in listener.incoming() {
        // A client that goes away ends its conversation and nothing else.
        let _ = stream.and_then(answer);
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut wanted, mut piece) = ([0], vec![0; PIECE]);
    stream.read_exact(&mut wanted)?;
    match wanted[0] {
        b'r' => loop {
            let length = stream.read(&mut piece)?;
            if length == 0 {
                return Ok(());
            }
            stream.write_all(&piece[..length])?;
        },
        b's' => {
            let mut taken = 0u64;
            loop {
                let length = stream.read(&mut piece)?;
                if length == 0 {
                    break;
                }
                taken += length as u64;
            }
            // Acknowledges the bytes, so that only those that arrived are counted.
            stream.write_all(&taken.to_le_bytes())
        }
        _ => loop {
            stream.write_all(&piece)?;
        },
    }
}

/// Prints the figure.
pub fn send(arguments: &Send) -> Result<ExitCode> {
    let stream = connect(&arguments.address)
        .with_context(|| format!("cannot connect to {}", arguments.address))?;
    let time = Duration::try_from_secs_f64(arguments.seconds).context("that is no time")?;
    let figure = match arguments.measurement.as_str() {
        "rr" => requests(stream, time),
        "send" => sending(stream, time),
        "receive" => receiving(stream, time),
        other => bail!("`{other}` is neither rr, send nor receive"),
    };
    println!("{}", figure.context("the other end broke off")?);
    Ok(ExitCode::SUCCESS)
}

/// Connects to an answerer that may have been started just now.
fn connect(address: &str) -> std::io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && begun.elapsed() < TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

fn requests(mut stream: TcpStream, time: Duration) -> std::io::Result<f64> {
    stream.set_nodelay(true)?;
    stream.write_all(b"r")?;
    let (begun, mut count, mut byte) = (Instant::now(), 0u64, [0]);
    while begun.elapsed() < time {
        stream.write_all(&[1])?;
        stream.read_exact(&mut byte)?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

fn sending(mut stream: TcpStream, time: Duration) -> std::io::Result<f64> {
    stream.write_all(b"s")?;
    let piece = vec![0; PIECE];
    let begun = Instant::now();
    while begun.elapsed() < time {
        stream.write_all(&piece)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut taken = [0; 8];
    stream.read_exact(&mut taken)?;
    Ok(mbit(u64::from_le_bytes(taken), begun))
}

fn receiving(mut stream: TcpStream, time: Duration) -> std::io::Result<f64> {
    stream.write_all(b"g")?;
    let (mut piece, mut taken, begun) = (vec![0; PIECE], 0u64, Instant::now());
    while begun.elapsed() < time {
        match stream.read(&mut piece)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => taken += length as u64,
        }
    }
    Ok(mbit(taken, begun))
}

fn mbit(bytes: u64, begun: Instant) -> f64 {
    bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_conversation_has_a_figure() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(3) {
                let _ = stream.and_then(answer);
            }
        });
        let time = Duration::from_millis(20);
        for kind in [requests, sending, receiving] {
            assert!(kind(TcpStream::connect(address).unwrap(), time).unwrap() > 0.0);
        }
    }
}
