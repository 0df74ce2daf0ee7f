//! An ordered disk for programs that use NBD: stock QEMU, fio, nbd-client.
//!
//! `nbd IMAGE SOCKET [SIZE] [flush|barrier|ordered]`: SIZE in MiB makes an image
//! that is not there. Ends, and closes the disk, at the end of its input.
//!
//! The protocol: NetworkBlockDevice, doc/proto.md, fixed newstyle negotiation,
//! simple replies.

use std::error::Error;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use stasis_ordered_disk::{Durability, Options, OrderedDisk};

const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
/// Flags, flush, FUA, trim, write zeroes, several connections.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
/// A request moves at most this (bytes).
const MAX_TRANSFER: usize = 32 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, socket, rest @ ..] = &arguments[..] else {
        return Err("use: nbd IMAGE SOCKET [SIZE] [flush|barrier|ordered]".into());
    };
    let mut options = Options::default();
    for word in rest {
        match Durability::parse(word) {
            Some(way) => options.durability = way,
            None if Path::new(image).exists() => {}
            None => OrderedDisk::create(Path::new(image), word.parse::<u64>()? << 20)?,
        }
    }
    let (disk, recovered) = OrderedDisk::open(Path::new(image), options)?;
    if recovered.replayed > 0 {
        eprintln!("{image}: recovered: {recovered:?}");
    }
    let disk = Arc::new(disk);
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    let served = disk.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let disk = served.clone();
            std::thread::spawn(move || match serve(&disk, &stream) {
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    eprintln!("a client: {error}");
                }
                _ => {}
            });
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    eprintln!("{:?}", disk.counters());
    // The content of the log is checkpointed when the image is next opened, or now.
    disk.make_durable()?;
    std::fs::remove_file(socket)?;
    Ok(())
}

fn word32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn serve(disk: &OrderedDisk, stream: &UnixStream) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 20, stream);
    let mut output = stream;
    output.write_all(b"NBDMAGICIHAVEOPT\0\x01")?;
    let _client_flags = word32(&mut input)?;
    while !negotiate(disk, &mut input, &mut output)? {}
    transmit(disk, &mut input, &mut output)
}

/// One option of the client; whether transmission begins.
fn negotiate(
    disk: &OrderedDisk,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<bool> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic)?;
    let (option, length) = (word32(input)?, word32(input)?);
    if &magic != b"IHAVEOPT" || length > 4096 {
        return Err(io::Error::other("this is no NBD client"));
    }
    let mut data = vec![0; length as usize];
    input.read_exact(&mut data)?;
    let mut reply = |kind: u32, data: &[u8]| {
        let mut bytes = OPTION_REPLY.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        output.write_all(&bytes)
    };
    let size = disk.capacity().to_be_bytes();
    match option {
        1 => {
            // NBD_OPT_EXPORT_NAME: no reply, and zeroes behind.
            output.write_all(&[&size[..], &FLAGS.to_be_bytes(), &[0; 124]].concat())?;
            Ok(true)
        }
        2 => {
            reply(1, &[])?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        6 | 7 => {
            // NBD_OPT_INFO, NBD_OPT_GO
            reply(3, &[&[0, 0], &size[..], &FLAGS.to_be_bytes()].concat())?;
            reply(1, &[])?;
            Ok(option == 7)
        }
        _ => reply(1 | 1 << 31, &[]).map(|()| false),
    }
}

fn transmit(disk: &OrderedDisk, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let mut request = [0; 28];
        input.read_exact(&mut request)?;
        let word = |from: usize, count: usize| {
            request[from..from + count].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (magic, flags, kind) = (word(0, 4), word(4, 2), word(6, 2));
        let (offset, length) = (word(16, 8), word(24, 4));
        if magic != u64::from(REQUEST) {
            return Err(io::Error::other("a request without its magic number"));
        }
        if kind <= 1 && length as usize > MAX_TRANSFER {
            return Err(io::Error::other("a request that is too long"));
        }
        // The reply's header and the data read leave in one piece.
        buffer.resize(16 + if kind <= 1 { length as usize } else { 0 }, 0);
        let fua = flags & 1 != 0;
        let result = match kind {
            0 => disk.read(offset, &mut buffer[16..]),
            1 => {
                input.read_exact(&mut buffer[16..])?;
                disk.write(offset, &buffer[16..], fua)
            }
            2 => return Ok(()),
            3 => disk.flush(),
            4 => disk.discard(offset, length),
            6 => disk.write_zeroes(offset, length, fua),
            _ => return Err(io::Error::other("an unknown request")),
        };
        let error: u32 = match &result {
            Ok(()) => 0,
            Err(stasis_ordered_disk::DiskError::OutOfRange { .. }) => 22,
            Err(_) => 5,
        };
        if let Err(error) = result {
            eprintln!("{error}");
        }
        buffer[..4].copy_from_slice(&REPLY.to_be_bytes());
        buffer[4..8].copy_from_slice(&error.to_be_bytes());
        buffer[8..16].copy_from_slice(&request[8..16]);
        let all = kind == 0 && error == 0;
        output.write_all(if all { &buffer } else { &buffer[..16] })?;
    }
}
