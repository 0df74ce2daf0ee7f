//! A packet by which a program of ours, and not gdb, asks for memory as it is.

/// The packet's begin: the machine's number, a guest-physical address, and bytes follow. The answer is no packet:
/// the number of bytes that follow in four, and these.
const MEMORY: &[u8] = b"$qStasisMemory:";
/// Limit on the bytes of an answer.
const MAX_MEMORY: usize = 1 << 20;

/// Memory that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub machine: usize,
    pub address: u64,
    pub length: usize,
}

impl Asked {
    /// Reads a packet at the begin of `bytes`, and its length; None where there is none, or not all of it.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let body = bytes.strip_prefix(MEMORY)?;
        let end = body.iter().position(|byte| *byte == b'#')?;
        let text = std::str::from_utf8(&body[..end]).ok()?;
        let mut words = text.split(',').map(|word| u64::from_str_radix(word, 16).ok());
        let mut next = || words.next().flatten();
        let asked = Self {
            machine: usize::try_from(next()?).ok()?,
            address: next()?,
            length: usize::try_from(next()?).ok()?.min(MAX_MEMORY),
        };
        // The sum's two digits.
        let whole = MEMORY.len() + end + 3;
        (bytes.len() >= whole).then_some((asked, whole))
    }
}
