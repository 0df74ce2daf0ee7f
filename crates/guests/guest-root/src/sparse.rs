//! Files with holes in tar archives: which pieces of the archive are which of the file (GNU tar's
//! manual, "Storing Sparse Files": the old GNU form, and the forms 0.1 and 1.0 of PAX).

use tar::GnuSparseHeader;

use crate::content::{Piece, ReadAt, Span};

/// Archives pad everything to this.
const BLOCK: u64 = 512;
/// Limit on the bytes of a list of pieces in front of a file's bytes.
const LIST: u64 = 1 << 20;

/// A file with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holes {
    /// Its size, holes included.
    pub length: u64,
    /// The data between them, in order.
    pub pieces: Vec<Piece>,
}

type Result<T> = std::result::Result<T, String>;

fn damaged() -> String {
    "its list of holes is damaged".into()
}

impl Holes {
    /// The data and holes that an old GNU header lists (`first`, and extension headers from `at` on
    /// in `span`, if it is `extended`) of a file of `length` bytes.
    pub(crate) fn of_gnu(
        first: &[GnuSparseHeader],
        extended: bool,
        span: &Span,
        mut at: u64,
        length: u64,
    ) -> Result<Self> {
        let mut parts = Vec::new();
        let mut add = |headers: &[GnuSparseHeader]| -> Result<()> {
            for header in headers.iter().filter(|header| !header.is_empty()) {
                let numbers = header.offset().and_then(|offset| Ok((offset, header.length()?)));
                parts.push(numbers.map_err(|_| damaged())?);
            }
            Ok(())
        };
        add(first)?;
        let mut extended = extended;
        while extended {
            let mut more = tar::GnuExtSparseHeader::new();
            span.read_at(more.as_mut_bytes(), at).map_err(|_| damaged())?;
            add(&more.sparse)?;
            extended = more.is_extended();
            at += BLOCK;
        }
        Self::new(&parts, at, span.length, length)
    }

    /// The data and holes that the key `GNU.sparse.map` lists (form 0.1) of a file of `length`
    /// bytes, whose pieces are at `at` in an archive of `end` bytes.
    pub(crate) fn of_map(map: &str, at: u64, end: u64, length: u64) -> Result<Self> {
        let numbers = map.split(',').map(|word| word.parse::<u64>().map_err(|_| damaged()));
        Self::new(&pairs(&numbers.collect::<Result<Vec<_>>>()?)?, at, end, length)
    }

    /// The data and holes that the lines in front of a file's bytes list (form 1.0); lines and
    /// bytes begin at `at` in `span` and take `held` bytes together.
    pub(crate) fn of_lines(span: &Span, at: u64, held: u64, length: u64) -> Result<Self> {
        let list = span.part(at, held.min(LIST)).ok_or_else(damaged)?;
        let list = list.read_all(LIST).map_err(|_| damaged())?;
        let mut rest = list.as_slice();
        let mut number = || -> Result<u64> {
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
            let text = std::str::from_utf8(&rest[..end]).map_err(|_| damaged())?;
            rest = &rest[end + 1..];
            text.parse().map_err(|_| damaged())
        };
        let mut numbers = Vec::new();
        // A missing number ends the list before this limit does.
        for _ in 0..number()?.saturating_mul(2) {
            numbers.push(number()?);
        }
        let taken = ((list.len() - rest.len()) as u64).next_multiple_of(BLOCK);
        Self::new(&pairs(&numbers)?, at + taken, at + held, length)
    }

    /// From places in the file and lengths; their bytes follow each other from `from` to `end` at
    /// most.
    fn new(parts: &[(u64, u64)], mut from: u64, end: u64, length: u64) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut last = 0;
        for &(at, size) in parts.iter().filter(|(_, size)| *size > 0) {
            // Only the last piece may end within a block.
            let whole = from.is_multiple_of(BLOCK);
            let (stop, used) = (at.checked_add(size), from.checked_add(size));
            match (stop, used) {
                (Some(stop), Some(used))
                    if whole && at >= last && stop <= length && used <= end =>
                {
                    pieces.push(Piece { at, from, length: size });
                    (last, from) = (stop, used);
                }
                _ => return Err(damaged()),
            }
        }
        Ok(Self { length, pieces })
    }
}

fn pairs(numbers: &[u64]) -> Result<Vec<(u64, u64)>> {
    let pairs = numbers.chunks_exact(2);
    match pairs.remainder() {
        [] => Ok(pairs.map(|pair| (pair[0], pair[1])).collect()),
        _ => Err(damaged()),
    }
}

/// The keys of a PAX header that are about holes.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The file's own name: the entry's is another one, for programs that do not support holes.
    pub name: Option<Vec<u8>>,
    major: Option<String>,
    size: Option<u64>,
    map: Option<String>,
    count: bool,
}

impl Keys {
    /// Takes a key in.
    pub(crate) fn take(&mut self, key: &str, value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match key.strip_prefix("GNU.sparse.") {
            Some("name") => self.name = Some(value.to_vec()),
            Some("major") => self.major = Some(text()),
            Some("size" | "realsize") => self.size = text().parse().ok(),
            Some("map") => self.map = Some(text()),
            Some("numblocks") => self.count = true,
            _ => {}
        }
    }

    /// Returns whether the entry is of a file with holes.
    pub(crate) fn tell_of_holes(&self) -> bool {
        self.major.is_some() || self.map.is_some() || self.count
    }

    /// The holes of the file whose entry has `held` bytes at `at` in `span`, if it has any.
    pub(crate) fn holes(&self, span: &Span, at: u64, held: u64) -> Result<Option<Holes>> {
        let size = || self.size.ok_or_else(damaged);
        match (self.major.as_deref(), &self.map) {
            (Some("1"), _) => Holes::of_lines(span, at, held, size()?).map(Some),
            (None | Some("0"), Some(map)) => {
                let end = at.checked_add(held).filter(|end| *end <= span.length);
                Holes::of_map(map, at, end.ok_or_else(damaged)?, size()?).map(Some)
            }
            (None, None) if !self.count => Ok(None),
            _ => {
                Err("its list of holes is in a form that is not known (the old GNU form, 0.1 and \
                      1.0 are)"
                    .into())
            }
        }
    }
}
