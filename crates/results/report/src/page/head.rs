//! The answer that a page begins with: one sentence, three tiles, one table.

use super::pairs;
use crate::escape::escape;
use crate::table::{Table, Tone};

/// The head of a page, the same on all pages.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// The answer in one sentence.
    pub sentence: String,
    /// The answer in a word or two, for the first tile.
    pub verdict: String,
    /// Whether the answer is good.
    pub tone: Tone,
    /// The other two tiles: name and figure.
    pub tiles: [(String, String); 2],
    /// Remarks without which the answer misleads, a paragraph each.
    pub remarks: Vec<String>,
    /// The table's caption, which may be empty.
    pub caption: String,
    /// The figures on which the answer rests; left out where it has no rows.
    pub table: Table,
}

impl Head {
    /// A head without remarks and table.
    pub fn new(
        (verdict, tone): (impl Into<String>, Tone),
        sentence: impl Into<String>,
        tiles: [(&str, String); 2],
    ) -> Self {
        Self {
            sentence: sentence.into(),
            verdict: verdict.into(),
            tone,
            tiles: tiles.map(|(name, figure)| (name.to_owned(), figure)),
            ..Self::default()
        }
    }

    /// The same with a table under a caption, which may be empty.
    #[must_use]
    pub fn with(mut self, caption: impl Into<String>, table: Table) -> Self {
        self.caption = caption.into();
        self.table = table;
        self
    }

    pub(super) fn to_html(&self, out: &mut String) {
        out.push_str("<section class=\"head\">\n");
        out.push_str(&format!("<p class=\"sentence\">{}</p>\n", escape(&self.sentence)));
        let verdict = ("Verdict".to_owned(), self.verdict.clone());
        let tiles = [verdict, self.tiles[0].clone(), self.tiles[1].clone()];
        pairs(out, &["facts", "tiles", self.tone.class()].join(" "), &tiles);
        for remark in &self.remarks {
            out.push_str(&format!("<p class=\"remark\">{}</p>\n", escape(remark)));
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
