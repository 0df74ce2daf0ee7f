//! Which page of a block is of which type.
//!
//! Cells that hold several bits hold a bit of several pages, and the pages
//! differ in how long they take. A pattern such as `LLLLLuLLu(LLuu)*` names each
//! page's type with a letter, from page 0 on; what stands in `(...)*` repeats to
//! the end of the block, where it may be cut short, or to what follows it.

/// Types that a pattern can have.
pub const MAX_TYPES: usize = 8;

/// Named patterns, with the patterns that they stand for.
pub const PRESETS: [(&str, &str); 4] =
    [("slc", "(L)*"), ("mlc", "(Lu)*"), ("tlc", "(Lmu)*"), ("qlc", "(Lmut)*")];

/// A page's type: the place of its letter in [`CellPattern::letters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PageType(pub u8);

/// The types of a block's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellPattern {
    letters: Vec<char>,
    types: Vec<PageType>,
}

/// An invalid pattern, or one that does not fit the block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// There is no letter in it, or in its brackets.
    #[error("`cells` = `{pattern}` names no page type{}: write a name ({}) or a letter for each page, such as `LLLLLuLLu(LLuu)*`", if *.brackets { " in its brackets" } else { "" }, names())]
    Empty {
        /// The pattern given.
        pattern: String,
        /// True if the brackets are empty.
        brackets: bool,
    },
    /// A sign that has no meaning where it stands.
    #[error(
        "`cells` = `{pattern}`: `{sign}` at {} cannot stand there; one part may repeat, as in `LLLLLuLLu(LLuu)*`", .at + 1
    )]
    Sign {
        /// The pattern given.
        pattern: String,
        /// The misplaced sign.
        sign: char,
        /// Its position, counted from 0.
        at: usize,
    },
    /// Brackets without their `*`, or not closed.
    #[error("`cells` = `{pattern}`: what repeats is written `(...)*`; did you mean `{nearest}`?")]
    Brackets {
        /// The pattern given.
        pattern: String,
        /// The nearest valid pattern.
        nearest: String,
    },
    /// More types than there are times for.
    #[error("`cells` = `{pattern}` names more than {MAX_TYPES} page types")]
    Types {
        /// The pattern given.
        pattern: String,
    },
    /// The pattern does not fill the block.
    #[error("`cells` = `{pattern}` cannot fill a block of {pages} pages: {reason}; the nearest `pages` that works is {nearest}")]
    Length {
        /// The pattern given.
        pattern: String,
        /// Pages of the block.
        pages: u32,
        /// Why the pattern cannot fill the block.
        reason: String,
        /// The nearest number of pages that it fills.
        nearest: u32,
    },
}

fn names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

/// The letters of a pattern in its three parts.
#[derive(Default)]
struct Parts {
    before: Vec<char>,
    repeated: Option<Vec<char>>,
    after: Vec<char>,
}

fn parts(pattern: &str) -> Result<Parts, PatternError> {
    let own = || pattern.to_owned();
    let mut parts = Parts::default();
    let mut open = false;
    let mut signs = pattern.chars().enumerate().peekable();
    while let Some((at, sign)) = signs.next() {
        match sign {
            _ if sign.is_ascii_alphabetic() => {
                match (&mut parts.repeated, open) {
                    (Some(repeated), true) => repeated.push(sign),
                    (Some(_), false) => parts.after.push(sign),
                    (None, _) => parts.before.push(sign),
                };
            }
            '(' if parts.repeated.is_none() => {
                (parts.repeated, open) = (Some(Vec::new()), true);
            }
            ')' if open => {
                if signs.next_if(|&(_, next)| next == '*').is_none() {
                    let (head, tail) = pattern.split_at(at + 1);
                    let nearest = format!("{head}*{tail}");
                    return Err(PatternError::Brackets { pattern: own(), nearest });
                }
                open = false;
            }
            _ => return Err(PatternError::Sign { pattern: own(), sign, at }),
        }
    }
    if open {
        let nearest = format!("{pattern})*");
        return Err(PatternError::Brackets { pattern: own(), nearest });
    }
    let brackets = parts.repeated.as_ref().is_some_and(Vec::is_empty);
    if brackets || (parts.repeated.is_none() && parts.before.is_empty()) {
        return Err(PatternError::Empty { pattern: own(), brackets });
    }
    Ok(parts)
}

impl CellPattern {
    /// Reads a pattern, or the name of one ([`PRESETS`]), for blocks of `pages`
    /// pages.
    ///
    /// # Errors
    /// [`PatternError`], with the fault and the nearest pattern that works.
    pub fn parse(word: &str, pages: u32) -> Result<Self, PatternError> {
        let word = word.trim();
        let preset = PRESETS.iter().find(|(name, _)| *name == word);
        let pattern = preset.map_or(word, |(_, pattern)| pattern);
        let Parts { before, repeated, after } = parts(pattern)?;
        let fixed = before.len() + after.len();
        let length = |reason: &str, nearest: usize| PatternError::Length {
            pattern: pattern.to_owned(),
            pages,
            reason: reason.to_owned(),
            nearest: nearest as u32,
        };
        let room = pages as usize;
        let cells: Vec<char> = match repeated {
            None if fixed != room => {
                return Err(length("nothing in it repeats, as `(...)*` would", fixed))
            }
            None => before,
            Some(_) if fixed > room => return Err(length("what does not repeat is longer", fixed)),
            Some(repeated) => {
                let filled = repeated.iter().copied().cycle().take(room - fixed);
                before.into_iter().chain(filled).chain(after).collect()
            }
        };
        // Every letter of the pattern has a type, even if the block ends before it.
        let mut letters = Vec::new();
        for letter in pattern.chars().filter(char::is_ascii_alphabetic) {
            if !letters.contains(&letter) {
                letters.push(letter);
            }
        }
        if letters.len() > MAX_TYPES {
            return Err(PatternError::Types { pattern: pattern.to_owned() });
        }
        let number = |cell: &char| letters.iter().position(|letter| letter == cell);
        let types = cells.iter().filter_map(number).map(|index| PageType(index as u8)).collect();
        Ok(Self { letters, types })
    }

    /// The letters of the types, in the order in which the pattern names them.
    pub fn letters(&self) -> &[char] {
        &self.letters
    }

    /// The type of a letter.
    pub fn type_of(&self, letter: char) -> Option<PageType> {
        self.letters.iter().position(|&known| known == letter).map(|index| PageType(index as u8))
    }

    /// The type of a page; of the last one beyond the block.
    pub fn page_type(&self, page: u32) -> PageType {
        let last = self.types.len().saturating_sub(1);
        self.types.get((page as usize).min(last)).copied().unwrap_or_default()
    }

    /// Pages of a block.
    pub fn pages(&self) -> u32 {
        self.types.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(pattern: &str, pages: u32) -> String {
        let cells = CellPattern::parse(pattern, pages).unwrap();
        (0..pages).map(|page| cells.letters()[usize::from(cells.page_type(page).0)]).collect()
    }

    #[test]
    fn patterns_fill_the_block() {
        assert_eq!(spelled("LLLLLuLLu(LLuu)*", 16), "LLLLLuLLuLLuuLLu");
        assert_eq!(spelled("L(Lu)*uu", 8), "LLuLuLuu");
        assert_eq!(spelled("L(Lu)*uu", 3), "Luu");
        assert_eq!(spelled("Lu", 2), "Lu");
        assert_eq!(spelled("slc", 3), "LLL");
        assert_eq!(spelled("tlc", 7), "LmuLmuL");
        assert_eq!(spelled("qlc", 5), "LmutL");
        // FEMU's block of 512 pages, by a separate formula.
        let cells = CellPattern::parse("LLLLLuLLu(LLuu)*", 512).unwrap();
        for page in 0..512 {
            let upper = page == 5 || page == 8 || (page >= 9 && (page - 9) % 4 >= 2);
            assert_eq!(cells.page_type(page), PageType(u8::from(upper)), "{page}");
        }
        assert_eq!((cells.type_of('u'), cells.type_of('x')), (Some(PageType(1)), None));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_what_works() {
        for (pattern, pages, says) in [
            ("LuLu", 512, "the nearest `pages` that works is 4"),
            ("LLLLLuLLu(LLuu)*", 8, "the nearest `pages` that works is 9"),
            ("LL(LLuu)", 512, "did you mean `LL(LLuu)*`?"),
            ("LL(LLuu", 512, "did you mean `LL(LLuu)*`?"),
            ("LL(L(u)*)*", 512, "`(` at 5"),
            ("L2u", 512, "`2` at 2"),
            ("L()*", 512, "in its brackets"),
            ("", 512, "slc, mlc, tlc, qlc"),
            ("(abcdefghi)*", 512, "more than 8"),
            ("(L)*(u)*", 512, "`(` at 5"),
            ("(\u{e9})*", 512, "at 2"),
        ] {
            let error = CellPattern::parse(pattern, pages).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
