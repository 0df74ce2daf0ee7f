//! The root that is read where it lies, for QEMU: a server of one NBD connection whose drive is
//! only read.
//!
//! Names and numbers are those of the protocol's document (NetworkBlockDevice/nbd,
//! `doc/proto.md`): fixed newstyle negotiation, simple replies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use stasis_guest_image::Lower;

use crate::Error;

const INIT: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// `NBD_FLAG_FIXED_NEWSTYLE` and `NBD_FLAG_NO_ZEROES`.
const HANDSHAKE_FLAGS: u16 = 1 | 2;
/// `NBD_FLAG_HAS_FLAGS` and `NBD_FLAG_READ_ONLY`.
const TRANSMISSION_FLAGS: u16 = 1 | 2;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
const INFO_EXPORT: u16 = 0;

const CMD_READ: u16 = 0;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

/// Limit on an option's data (bytes); QEMU's options have a name and a few words.
const MAX_DATA: u32 = 8 << 10;
/// Limit on a read (bytes): the largest request of QEMU (`NBD_MAX_BUFFER_SIZE`).
const MAX_READ: u32 = 32 << 20;

/// The root of a running guest.
#[derive(Debug)]
pub(crate) struct Root(Arc<Mutex<Option<String>>>);

impl Root {
    /// Answers reads of `lower` at `stream` until its other end is closed.
    pub(crate) fn serve(lower: Lower, mut stream: UnixStream) -> Result<Self, Error> {
        let failure = Arc::new(Mutex::new(None));
        let first = Arc::clone(&failure);
        let work = move || {
            let read = |into: &mut [u8], offset: u64| {
                lower.read_at(into, offset).inspect_err(|error| {
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert_with(|| error.to_string());
                })
            };
            // QEMU is gone: the code that waits for its guest reports it.
            let _ = serve(&mut stream, lower.length(), read);
        };
        let thread = std::thread::Builder::new().name("root".into()).spawn(work);
        thread.map_err(Error::system("start a thread"))?;
        Ok(Self(failure))
    }

    /// Why a read failed, if one did. After that no report of the guest is about its disks.
    pub(crate) fn failure(&self) -> Option<Error> {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone().map(|cause| Error::Root { cause })
    }
}

/// Serves one client to its end.
fn serve(
    stream: &mut (impl Read + Write),
    length: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    if !negotiate(stream, length)? {
        return Ok(());
    }
    let mut reply = Vec::new();
    loop {
        if number(stream)? != REQUEST_MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let [_, _, kind @ ..] = bytes::<4>(stream)?;
        let cookie = bytes::<8>(stream)?;
        let (offset, asked) = (u64::from_be_bytes(bytes(stream)?), number(stream)?);
        reply.clear();
        reply.extend(REPLY_MAGIC.to_be_bytes());
        reply.extend([0; 4]);
        reply.extend(cookie);
        let head = reply.len();
        let inside = offset.checked_add(asked.into()).is_some_and(|end| end <= length);
        let error = match u16::from_be_bytes(kind) {
            CMD_READ if inside && asked <= MAX_READ => {
                reply.resize(head + asked as usize, 0);
                read(&mut reply[head..], offset).map_or(EIO, |()| 0)
            }
            CMD_READ => EINVAL,
            CMD_FLUSH => 0,
            CMD_DISC => return Ok(()),
            // The data of a write is not read from the stream: QEMU does not write to such a drive.
            _ => EPERM,
        };
        if error != 0 {
            reply.truncate(head);
            reply[4..8].copy_from_slice(&error.to_be_bytes());
        }
        stream.write_all(&reply)?;
    }
}

/// Agrees with a client on the drive; false where it wants none.
fn negotiate(stream: &mut (impl Read + Write), length: u64) -> io::Result<bool> {
    stream.write_all(INIT)?;
    stream.write_all(&HANDSHAKE_FLAGS.to_be_bytes())?;
    let export = [&length.to_be_bytes()[..], &TRANSMISSION_FLAGS.to_be_bytes()].concat();
    // The client's own flags: the client knows the offered ones, and pads nothing.
    number(stream)?;
    loop {
        if u64::from_be_bytes(bytes(stream)?) != OPTION_MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (option, data) = (number(stream)?, number(stream)?);
        if data > MAX_DATA {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // Every name of the client stands for the one drive.
        stream.read_exact(&mut vec![0; data as usize])?;
        let mut answer = |kind: u32, data: &[u8]| {
            let mut reply = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
            for word in [option, kind, data.len() as u32] {
                reply.extend(word.to_be_bytes());
            }
            reply.extend(data);
            stream.write_all(&reply)
        };
        match option {
            OPT_EXPORT_NAME => {
                stream.write_all(&export)?;
                return Ok(true);
            }
            OPT_INFO | OPT_GO => {
                answer(REP_INFO, &[&INFO_EXPORT.to_be_bytes()[..], &export].concat())?;
                answer(REP_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_ABORT => return answer(REP_ACK, &[]).map(|()| false),
            _ => answer(REP_ERR_UNSUP, &[])?,
        }
    }
}

fn bytes<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn number(stream: &mut impl Read) -> io::Result<u32> {
    bytes(stream).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A client's messages, and the answers to them.
    struct Talk<'a>(&'a [u8], Vec<u8>);

    impl Read for Talk<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Talk<'_> {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.1.write(from)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const LENGTH: u64 = 4096;

    fn answers(client_bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let mut talk = Talk(client_bytes, Vec::new());
        let read = |into: &mut [u8], offset: u64| match offset {
            1024 => Err(io::ErrorKind::NotFound.into()),
            _ => {
                into.fill((offset / 512) as u8);
                Ok(())
            }
        };
        let ended = serve(&mut talk, LENGTH, read);
        (talk.1, ended)
    }

    fn option(option: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    fn request(kind: u16, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(*b"a cookie");
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    /// The start of a talk by `NBD_OPT_EXPORT_NAME`.
    fn start() -> Vec<u8> {
        [&[0, 0, 0, 3][..], &option(OPT_EXPORT_NAME, b"")].concat()
    }

    fn transmission(requests: &[Vec<u8>]) -> Vec<u8> {
        let (answered, ended) = answers(&[start(), requests.concat()].concat());
        ended.unwrap();
        answered[16 + 2 + 10..].to_vec()
    }

    #[test]
    fn options_that_are_not_known_are_refused_and_the_drive_is_agreed_on() {
        let options =
            [&[0, 0, 0, 3][..], &option(8, b""), &option(OPT_GO, b"\0\0\0\0\0\0")].concat();
        let (answered, ended) = answers(&options);
        // The client goes in the middle of a request.
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let reply = |option: u32, kind: u32, data: &[u8]| {
            let words = [option, kind, data.len() as u32].map(u32::to_be_bytes).concat();
            [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &words, data].concat()
        };
        let export = [0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 3];
        let expected = [
            b"NBDMAGICIHAVEOPT\0\x03".to_vec(),
            reply(8, REP_ERR_UNSUP, &[]),
            reply(OPT_GO, REP_INFO, &export),
            reply(OPT_GO, REP_ACK, &[]),
        ];
        assert_eq!(answered, expected.concat());
    }

    #[test]
    fn reads_are_answered_and_nothing_is_written() {
        let requests = [
            request(CMD_READ, 512, 3),
            request(CMD_READ, 1024, 512),
            request(CMD_READ, LENGTH - 1, 2),
            request(CMD_READ, u64::MAX, 2),
            request(1, 0, 0),
            request(CMD_FLUSH, 0, 0),
            request(CMD_DISC, 0, 0),
        ];
        let reply = |error: u32, data: &[u8]| {
            [&REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), b"a cookie", data].concat()
        };
        let expected = [
            reply(0, &[1; 3]),
            reply(EIO, &[]),
            reply(EINVAL, &[]),
            reply(EINVAL, &[]),
            reply(EPERM, &[]),
            reply(0, &[]),
        ];
        assert_eq!(transmission(&requests), expected.concat());
    }

    proptest! {
        #[test]
        fn noise_ends_a_talk(
            noise in prop::collection::vec(any::<u8>(), 0..200),
            before in prop::sample::select(vec![vec![], start(), [start(), request(CMD_READ, 0, 9)].concat()]),
        ) {
            let (answered, _) = answers(&[before, noise].concat());
            prop_assert!(answered.len() < 1 << 20);
        }
    }
}
