//! A store goes to the form in which it outlives its controller, and comes from it.

use crate::kept::KeptPairs;

use super::index_pages::IndexPages;
use super::key::Key;
use super::{Content, Place, Store};

fn in_hexadecimal(key: &Key) -> String {
    key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hexadecimal(text: &str) -> Option<Key> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |pair: &[u8]| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    Key::new(&digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?)
}

impl Store {
    /// Returns the store's state.
    pub fn kept(&self) -> KeptPairs {
        let pair = |(key, place): (&Key, &Place)| (in_hexadecimal(key), place.offset, place.length);
        let (free, open) = self.log.kept();
        let pages = self.pages.as_ref();
        KeptPairs {
            pairs: self.index.iter().map(pair).collect(),
            free,
            open,
            pages: pages.map_or(Vec::new(), IndexPages::in_log),
            cached: pages.map_or(Vec::new(), IndexPages::in_memory),
        }
    }

    /// An empty store takes over a state.
    ///
    /// # Errors
    /// The reason why it cannot be in that state.
    pub fn restore(&mut self, kept: &KeptPairs) -> Result<(), &'static str> {
        self.log.restore(&kept.free, kept.open)?;
        let layout = self.layout;
        if kept.pairs.len() > layout.max_keys as usize {
            return Err("it has more pairs than keys");
        }
        for (key, offset, length) in &kept.pairs {
            let key = of_hexadecimal(key).ok_or("a key is none")?;
            let place = Place { offset: *offset, length: *length };
            if place.length > layout.max_value || (place.length == 0 && place.offset != 0) {
                return Err("a value has no such length or place");
            }
            if self.index.insert(key, place).is_some() {
                return Err("a key is there twice");
            }
            let bytes = layout.rounded(place.length);
            if bytes > 0 {
                self.values.insert(place.offset, Content::Value(key));
                self.live += bytes;
                self.log.take_over(place.offset, bytes)?;
            }
        }
        match &mut self.pages {
            Some(pages) => pages.restore(&kept.pages, &kept.cached)?,
            None if kept.pages.is_empty() && kept.cached.is_empty() => {}
            None => return Err("memory has all of its index, and pages are in the log"),
        }
        for &(page, offset) in &kept.pages {
            self.values.insert(offset, Content::Page(page));
            self.log.take_over(offset, layout.index.map_or(0, |index| index.page))?;
        }
        if self.live > layout.capacity {
            return Err("its values have no room");
        }
        let values = kept.pairs.iter().filter(|(.., length)| *length > 0).count();
        let mut before = 0;
        for (offset, bytes) in self.values(0..u64::MAX) {
            if offset < before {
                return Err("two values lie in one place");
            }
            before = offset + bytes;
        }
        match self.values.len() == values + kept.pages.len() {
            true => Ok(()),
            false => Err("two values begin in one place"),
        }
    }
}
