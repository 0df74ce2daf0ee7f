//! The answer that a page begins with: one sentence, three tiles, what repeats it, one table.

use super::pairs::pairs;
use crate::escape::escape;
use crate::repeat::Repeat;
use crate::verdict::Verdict;
use crate::{table::Table, table::Tone};

/// The head of a page, the same on all pages.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// The answer in one sentence.
    pub sentence: String,
    /// The answer in a word or two, for the first tile.
    pub verdict: String,
    /// Tone of the answer.
    pub tone: Tone,
    /// The other two tiles: name and figure.
    pub tiles: [(String, String); 2],
    /// Explanation of the answer, a paragraph each.
    pub notes: Vec<String>,
    /// The section that shows the answer's example: a text, and the section's anchor.
    pub link: Option<(String, String)>,
    /// Remarks without which the answer misleads, a paragraph each.
    pub remarks: Vec<String>,
    /// The command that repeats it, where that is known.
    pub repeat: Option<Repeat>,
    /// The table's caption, which may be empty.
    pub caption: String,
    /// The figures on which the answer rests; left out where it has no rows.
    pub table: Table,
}

impl Head {
    /// A head with a case's verdict, without remarks and table.
    pub fn answering(verdict: Verdict, tiles: [(&str, String); 2]) -> Self {
        let Verdict { word, tone, sentence } = verdict;
        Self {
            sentence,
            verdict: word,
            tone,
            tiles: tiles.map(|(name, figure)| (name.to_owned(), figure)),
            ..Self::default()
        }
    }

    /// Adds a table under a caption, which may be empty.
    #[must_use]
    pub fn with(mut self, caption: impl Into<String>, table: Table) -> Self {
        self.caption = caption.into();
        self.table = table;
        self
    }

    /// Adds the command that repeats the results.
    #[must_use]
    pub fn repeated_by(mut self, repeat: Option<Repeat>) -> Self {
        self.repeat = repeat;
        self
    }

    pub(super) fn to_html(&self, out: &mut String) {
        out.push_str("<section class=\"head\">\n");
        out.push_str(&format!("<p class=\"sentence\">{}</p>\n", escape(&self.sentence)));
        let verdict = ("Verdict".to_owned(), self.verdict.clone());
        let tiles = [verdict, self.tiles[0].clone(), self.tiles[1].clone()];
        pairs(out, &["facts", "tiles", self.tone.class()].join(" "), &tiles);
        if let Some((text, anchor)) = &self.link {
            let (text, anchor) = (escape(text), escape(anchor));
            out.push_str(&format!("<p class=\"note\"><a href=\"#{anchor}\">{text}</a></p>\n"));
        }
        for note in &self.notes {
            out.push_str(&format!("<p class=\"note\">{}</p>\n", escape(note)));
        }
        for remark in &self.remarks {
            out.push_str(&format!("<p class=\"remark\">{}</p>\n", escape(remark)));
        }
        if let Some(repeat) = &self.repeat {
            repeat.to_html(out);
        }
        if !self.table.rows.is_empty() {
            if !self.caption.is_empty() {
                out.push_str(&format!("<p class=\"caption\">{}</p>\n", escape(&self.caption)));
            }
            self.table.to_html(out);
        }
        out.push_str("</section>\n");
    }
}
