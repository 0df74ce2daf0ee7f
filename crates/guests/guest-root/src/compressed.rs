//! Archives that are compressed: they are unpacked once into a file without a name, which is gone
//! with the process.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use crate::content::{ReadAt, Span};
use crate::tree::Limits;

/// The start of a stream of each kind (gzip: RFC 1952, section 2.3.1; xz: the .xz file format
/// 1.2.1, section 2.1.1; zstd: RFC 8878, section 3.1.1; bzip2: its source's `BZ_HDR`).
const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BZIP2: &[u8] = b"BZh";

/// The decompressed bytes of `span`, in a file in `work`, or the span itself if it is not
/// compressed.
pub(crate) fn plain(span: &Span, work: &Path, limits: Limits) -> Result<Span, String> {
    let mut start = [0; 6];
    let length = span.length.min(6) as usize;
    span.read_at(&mut start[..length], 0).map_err(|e| e.to_string())?;
    let reader = || BufReader::with_capacity(1 << 16, Reader { span: span.clone(), at: 0 });
    let is = |magic: &[u8]| start.starts_with(magic);
    if is(GZIP) {
        spool("gzip", flate2::bufread::MultiGzDecoder::new(reader()), work, limits)
    } else if is(XZ) {
        spool("xz", lzma_rust2::XzReader::new(reader(), true), work, limits)
    } else if is(ZSTD) {
        let decoder = zstd::Decoder::with_buffer(reader());
        let decoder = decoder.map_err(|e| format!("its zstd stream is damaged: {e}"))?;
        spool("zstd", decoder, work, limits)
    } else if is(BZIP2) {
        Err("it is compressed with bzip2, which is not known (gzip, xz and zstd are)".into())
    } else {
        Ok(span.clone())
    }
}

fn spool(kind: &str, reader: impl Read, work: &Path, limits: Limits) -> Result<Span, String> {
    let cannot = |e: io::Error| format!("cannot write a temporary file in {}: {e}", work.display());
    let mut file = tempfile::tempfile_in(work).map_err(cannot)?;
    let mut reader = reader.take(limits.bytes + 1);
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        let read = reader.read(&mut buffer);
        let length = read.map_err(|e| format!("its {kind} stream is damaged: {e}"))?;
        if length == 0 {
            break;
        }
        total += length as u64;
        if total > limits.bytes {
            return Err(format!("its {kind} stream holds more than {} MiB", limits.bytes >> 20));
        }
        file.write_all(&buffer[..length]).map_err(cannot)?;
    }
    Span::whole(file).map_err(cannot)
}

/// Reads a span from its start.
struct Reader {
    span: Span,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = (self.span.length - self.at).min(into.len() as u64) as usize;
        self.span.read_at(&mut into[..length], self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}
