//! The compressions of kernels and modules.

use std::io::Read;

/// The largest kernel or module taken, uncompressed: several times the size of
/// any distribution's, so that a damaged length does not take all memory.
pub(crate) const MAX_SIZE: u64 = 1 << 30;

/// The start of a stream of each kind (kernel: lib/decompress.c; xz: the .xz
/// file format 1.2.1, section 2.1.1; zstd: RFC 8878, section 3.1.1; gzip: RFC
/// 1952, section 2.3.1; LZ4: "legacy frame" of the LZ4 frame format 1.6.4).
mod magic {
    pub const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
    pub const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
    pub const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    pub const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
}

/// Decompresses a kernel's payload, which may have its size appended.
pub(crate) fn kernel(payload: &[u8]) -> Result<Vec<u8>, String> {
    if payload.starts_with(b"\x7fELF") {
        return Ok(payload.to_vec());
    }
    stream(payload)?.ok_or_else(|| {
        let start = &payload[..payload.len().min(6)];
        format!("its kernel's compression is not known (it starts with {start:02x?}; known are gzip, xz, zstd and LZ4)")
    })
}

/// Decompresses one stream; `None` if it is of no known kind.
pub(crate) fn stream(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let plain = if bytes.starts_with(magic::GZIP) {
        all("gzip", flate2::bufread::GzDecoder::new(bytes))?
    } else if bytes.starts_with(magic::XZ) {
        all("xz", lzma_rust2::XzReader::new(bytes, false))?
    } else if bytes.starts_with(magic::ZSTD) {
        let decoder = zstd::Decoder::with_buffer(bytes);
        // One frame: a kernel's size may follow.
        let decoder = decoder.map_err(|e| format!("its zstd stream is damaged: {e}"))?;
        all("zstd", decoder.single_frame())?
    } else if let Some(blocks) = bytes.strip_prefix(magic::LZ4_LEGACY) {
        lz4_legacy(blocks)?
    } else {
        return Ok(None);
    };
    Ok(Some(plain))
}

fn all(kind: &str, reader: impl Read) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let read = reader.take(MAX_SIZE + 1).read_to_end(&mut plain);
    read.map_err(|e| format!("its {kind} stream is damaged: {e}"))?;
    if plain.len() as u64 > MAX_SIZE {
        return Err(format!("its {kind} stream holds more than {MAX_SIZE} bytes"));
    }
    Ok(plain)
}

/// Decompresses the blocks of an LZ4 legacy frame: each a `u32` length and an LZ4 block of
/// 8 MiB, the last one less.
fn lz4_legacy(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    const BLOCK: usize = 8 << 20;
    let damaged = |reason: &str| format!("its LZ4 stream is damaged: {reason}");
    let mut plain = Vec::new();
    let mut block = vec![0; BLOCK];
    // The kernel's build appends the uncompressed size: 4 bytes that are no
    // block.
    while rest.len() > 4 {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("no length"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let content = tail.get(..length).ok_or_else(|| damaged("a block is cut short"))?;
        let size = lz4_flex::block::decompress_into(content, &mut block)
            .map_err(|e| damaged(&e.to_string()))?;
        if (plain.len() + size) as u64 > MAX_SIZE {
            return Err(damaged("it is too long"));
        }
        plain.extend_from_slice(&block[..size]);
        rest = &tail[length..];
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn sample() -> Vec<u8> {
        (0..9_000_000u32).map(|i| ((i / 7) ^ (i >> 11)) as u8).collect()
    }

    fn legacy_frame(plain: &[u8]) -> Vec<u8> {
        let mut frame = magic::LZ4_LEGACY.to_vec();
        for block in plain.chunks(8 << 20) {
            let packed = lz4_flex::block::compress(block);
            frame.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            frame.extend_from_slice(&packed);
        }
        frame.extend_from_slice(&(plain.len() as u32).to_le_bytes());
        frame
    }

    #[test]
    fn lz4_in_several_blocks_with_the_size_behind() {
        let plain = sample();
        let frame = legacy_frame(&plain);
        assert!(kernel(&frame).unwrap() == plain);
        assert!(kernel(&frame[..frame.len() - 100]).is_err());
    }

    #[test]
    fn gzip_and_plain() {
        let mut plain = sample();
        plain[..4].copy_from_slice(b"\x7fELF");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&plain).unwrap();
        assert!(kernel(&encoder.finish().unwrap()).unwrap() == plain);
        assert!(kernel(&plain).unwrap() == plain);
    }

    #[test]
    fn host_tools_agree() {
        for tool in ["xz", "zstd"] {
            let plain = sample();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("plain");
            std::fs::write(&path, &plain).unwrap();
            // The kernel's build uses the x86 filter for xz.
            let options: &[&str] = match tool {
                "xz" => &["--check=crc32", "--x86", "--lzma2=preset=1", "-c"],
                _ => &["-q", "-c"],
            };
            let output = std::process::Command::new(tool).args(options).arg(&path).output();
            let Ok(output) = output else { continue };
            let mut packed = output.stdout;
            packed.extend_from_slice(&(plain.len() as u32).to_le_bytes());
            assert!(kernel(&packed).unwrap() == plain, "{tool}");
            packed.truncate(packed.len() / 2);
            assert!(kernel(&packed).is_err(), "{tool}");
        }
    }

    #[test]
    fn unknown_streams_are_named() {
        assert!(kernel(b"BZh91AY&SY").unwrap_err().contains("42, 5a, 68"));
        assert!(kernel(b"").is_err());
    }
}
