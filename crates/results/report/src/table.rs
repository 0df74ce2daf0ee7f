//! One kind of table, for the terminal and for pages.

use std::collections::BTreeMap;

use crate::escape::escape;

/// Which side of a column its cells keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// Heading over it and its neighbours of the same group, on pages.
    pub group: Option<String>,
    /// Which side its cells keep to.
    pub align: Align,
}

impl Column {
    /// A column of words.
    pub fn left(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), group: None, align: Align::Left }
    }

    /// A column of figures.
    pub fn right(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), group: None, align: Align::Right }
    }

    /// Puts the column under a heading that it shares with others.
    #[must_use]
    pub fn under(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }
}

/// A judgement that pages show in colour, beside words or signs that say the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// None.
    #[default]
    Neutral,
    /// As it should be, or better.
    Good,
    /// Not as it should be, or worse.
    Bad,
}

impl Tone {
    /// The class of the page's style; empty for none.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Neutral => "",
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}

/// Columns of a table that a phone has room for.
const MAX_COLUMNS_OF_PHONES: usize = 3;

/// A table of texts. Missing cells are empty, cells beyond the columns are
/// left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Its columns; the first names the row.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// The judgement on cells that have one, by row and column.
    pub tones: BTreeMap<(usize, usize), Tone>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Judges a cell of the last row.
    pub fn judge(&mut self, column: usize, tone: Tone) {
        if let Some(row) = self.rows.len().checked_sub(1) {
            self.tones.insert((row, column), tone);
        }
    }

    fn cell(row: &[String], column: usize) -> &str {
        row.get(column).map_or("", String::as_str)
    }

    /// Aligned text with two spaces between columns; every line ends with a
    /// newline. Control characters (terminals obey them) are replaced.
    pub fn to_text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|c| c.heading.clone()).collect();
        let lines: Vec<Vec<String>> = std::iter::once(&headings)
            .chain(&self.rows)
            .map(|row| (0..headings.len()).map(|c| printable(Self::cell(row, c))).collect())
            .collect();
        let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max();
        let widths: Vec<usize> = (0..headings.len()).map(|c| width(c).unwrap_or(0)).collect();
        let mut out = String::new();
        for line in &lines {
            let mut text = String::new();
            for ((cell, column), width) in line.iter().zip(&self.columns).zip(&widths) {
                let padding = " ".repeat(width - cell.chars().count());
                match column.align {
                    Align::Left => text.extend([cell.as_str(), &padding, "  "]),
                    Align::Right => text.extend([&padding, cell.as_str(), "  "]),
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }

    pub(crate) fn to_html(&self, out: &mut String) {
        // On a phone the rows of a table with more columns stand one below the other, each cell with
        // its column's name.
        let names: Option<Vec<String>> = (self.columns.len() > MAX_COLUMNS_OF_PHONES).then(|| {
            let name = |column: &Column| match &column.group {
                Some(group) => escape(&format!("{group}: {}", column.heading)),
                None => escape(&column.heading),
            };
            self.columns.iter().map(name).collect()
        });
        let class = if names.is_some() { "wide rows" } else { "wide" };
        out.push_str(&format!("<div class=\"{class}\"><table><thead>"));
        if self.columns.iter().any(|column| column.group.is_some()) {
            out.push_str("<tr class=\"groups\">");
            for run in self.columns.chunk_by(|a, b| a.group == b.group) {
                let group = run[0].group.as_deref().unwrap_or("");
                let name = escape(group);
                let class =
                    if group.is_empty() { "" } else { " class=\"group\" scope=\"colgroup\"" };
                out.push_str(&format!("<th colspan=\"{}\"{class}>{name}</th>", run.len()));
            }
            out.push_str("</tr>");
        }
        out.push_str("<tr>");
        for (index, column) in self.columns.iter().enumerate() {
            let class = self.class(index, Tone::Neutral);
            out.push_str(&format!("<th scope=\"col\"{class}>{}</th>", escape(&column.heading)));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (number, row) in self.rows.iter().enumerate() {
            out.push_str("<tr>");
            for index in 0..self.columns.len() {
                let tone = self.tones.get(&(number, index)).copied().unwrap_or_default();
                let (cell, class) = (escape(Self::cell(row, index)), self.class(index, tone));
                out.push_str(&match (index, &names) {
                    (0, _) => format!("<th scope=\"row\"{class}>{cell}</th>"),
                    (_, Some(names)) => {
                        format!("<td{class} data-c=\"{}\">{cell}</td>", names[index])
                    }
                    (_, None) => format!("<td{class}>{cell}</td>"),
                });
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }

    /// Right-aligned columns, those that begin a group, and judged cells.
    fn class(&self, index: usize, tone: Tone) -> String {
        let column = &self.columns[index];
        let previous = index.checked_sub(1).map(|previous| &self.columns[previous].group);
        let begins = column.group.is_some() && previous != Some(&column.group);
        let classes = [
            if column.align == Align::Right { "figure" } else { "" },
            if begins { "begins" } else { "" },
            tone.class(),
        ];
        let classes: Vec<_> = classes.into_iter().filter(|class| !class.is_empty()).collect();
        match classes.is_empty() {
            true => String::new(),
            false => format!(" class=\"{}\"", classes.join(" ")),
        }
    }
}

/// A text without characters that a terminal obeys instead of showing.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::left("drive"),
            Column::right("p50").under("read"),
            Column::right("p99").under("read"),
        ]);
        table.push(vec!["a".into(), "1".into(), "1,000".into()]);
        table.push(vec!["\u{1b}[31m<b>".into(), "22".into()]);
        table
    }

    #[test]
    fn text_is_aligned_and_harmless() {
        assert_eq!(
            table().to_text(),
            "drive     p50    p99\na           1  1,000\n\u{fffd}[31m<b>   22\n"
        );
    }

    #[test]
    fn pages_get_groups_and_escaped_cells() {
        let mut html = String::new();
        table().to_html(&mut html);
        assert!(html.contains("<th colspan=\"2\" class=\"group\" scope=\"colgroup\">read</th>"));
        assert!(html.contains("[31m&lt;b&gt;</th>"));
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn judged_cells_have_their_class() {
        let mut table = table();
        table.judge(2, Tone::Bad);
        let mut html = String::new();
        table.to_html(&mut html);
        assert!(html.contains("<td class=\"figure bad\"></td>"), "{html}");
        assert_eq!(html.matches("bad").count(), 1);
    }

    #[test]
    fn cells_of_tables_that_are_wide_have_the_names_of_their_columns() {
        let mut table = table();
        let mut html = String::new();
        table.to_html(&mut html);
        assert!(!html.contains("data-c="), "{html}");
        table.columns.push(Column::right("p99.9 <").under("read"));
        html.clear();
        table.to_html(&mut html);
        assert!(html.contains("data-c=\"read: p99.9 &lt;\"></td>"), "{html}");
    }

    #[test]
    fn a_group_may_be_the_first_column() {
        let mut html = String::new();
        Table::new(vec![Column::right("x").under("g")]).to_html(&mut html);
        assert!(html.contains("figure begins"));
    }
}
