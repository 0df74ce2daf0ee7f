//! A self-contained page: headings, prose, tables and plots in one HTML file
//! that needs nothing else, prints, and follows the reader's choice of light
//! or dark. Its plots can be pointed at, zoomed, and shown with another scale.

mod described;
mod head;
mod io_times;
mod pairs;
mod resolution;

use std::path::Path;

pub use crate::escape::escape;
use crate::plot::Markup;
use crate::published_vs_measured::{figures_plots, figures_table, Figure};
use crate::repeat::command;
use crate::table::Table;
use pairs::pairs;
use stasis_results::files::{make_folder, write_whole};
use stasis_results::ResultsError;

pub use head::Head;
pub use io_times::IoTimes;
pub use resolution::{thinned, Resolution, MAX_PAGE_SIZE};

/// Scripts that make plots interactive, in one scope together. Without them plots can still be
/// read.
const PLOTS: [&str; 4] = [
    include_str!("interactive/axis.js"),
    include_str!("interactive/marks.js"),
    include_str!("interactive/take.js"),
    include_str!("interactive/figure.js"),
];

/// Script that gives each command line a button which copies it.
const COPY: &str = include_str!("interactive/copy.js");

/// Script that draws flame graphs, each of a stretch of time that the reader chooses.
const FLAME: &str = include_str!("interactive/flame.js");

/// Writes a page's HTML into `folder`, which is made if it is not there.
///
/// # Errors
/// Where the folder or the file cannot be written.
pub fn write(folder: &Path, name: &str, html: &str) -> Result<(), ResultsError> {
    make_folder(folder)?;
    write_whole(&folder.join(name), html.as_bytes())
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// Plain text; an empty line begins a new paragraph.
    Prose(String),
    /// Facts as (what, figure), shown large.
    Facts(Vec<(String, String)>),
    /// A table with a caption, which may be empty.
    Table(String, Table),
    /// Plots, side by side where there is room.
    Plots(Vec<Markup>),
    /// Published and measured figures, as a table and as bars.
    Figures(Vec<Figure>),
    /// A text in its own lines under a title, shown when the reader asks for it.
    Details(String, String),
    /// A text in its own lines below a caption.
    Lines(String, String),
    /// A command line, with a button that copies it.
    Command(String),
    /// Terms and their meanings.
    Terms(Vec<(String, String)>),
    /// A flame graph.
    Flame(Flame),
    /// Parts of the time of single I/Os, folded.
    Ios(Vec<IoTimes>),
}

/// Samples as a tree of calls by stretches of time, for `flame.js`: `names`; `nodes`, each with its
/// caller's number (its own at a root), which is not greater, and its name's; `begin`, `stretch` and
/// `interval` in ns; `counts`, of each stretch the numbers of nodes and their samples in turn.
#[derive(Debug, Clone)]
pub struct Flame(pub serde_json::Value);

/// A part of a page.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Its contents.
    pub blocks: Vec<Block>,
    /// True if it is shown only when the reader asks for it.
    pub folded: bool,
    /// Anchor by which a link on the page leads to it; empty where none does.
    pub anchor: String,
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Folds the section: it is shown only when the reader asks for it.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }

    /// Gives the section an anchor, which links on the page lead to.
    #[must_use]
    pub fn anchored(mut self, anchor: impl Into<String>) -> Self {
        self.anchor = anchor.into();
        self
    }

    /// Appends `block` to the section.
    #[must_use]
    pub fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

/// A page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// A line under the title.
    pub subtitle: String,
    /// The answer that it begins with.
    pub head: Option<Head>,
    /// Its parts.
    pub sections: Vec<Section>,
}

impl Page {
    /// Writes the page into `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// Where the folder or the file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), ResultsError> {
        write(folder, name, &self.to_html())
    }

    /// The page as an HTML file. All texts are escaped.
    pub fn to_html(&self) -> String {
        let mut out = String::with_capacity(64 << 10);
        let title = escape(&self.title);
        out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
        out.push_str(&format!("<title>{title}</title>\n<style>\n"));
        out.push_str(include_str!("page.css"));
        out.push_str(&format!("</style>\n</head>\n<body>\n<header><h1>{title}</h1>\n"));
        if !self.subtitle.is_empty() {
            out.push_str(&format!("<p>{}</p>\n", escape(&self.subtitle)));
        }
        out.push_str("</header>\n<main>\n");
        if let Some(head) = &self.head {
            head.to_html(&mut out);
        }
        for section in &self.sections {
            let heading = match section.heading.as_str() {
                "" => String::new(),
                heading => format!("<h2>{}</h2>\n", escape(heading)),
            };
            let id = match section.anchor.as_str() {
                "" => String::new(),
                anchor => format!(" id=\"{}\"", escape(anchor)),
            };
            let [begin, end] = match section.folded {
                true => [
                    format!(
                        "<section{id}>\n<details class=\"fold\"><summary>{heading}</summary>\n"
                    ),
                    "</details>\n</section>\n".to_owned(),
                ],
                false => [format!("<section{id}>\n{heading}"), "</section>\n".to_owned()],
            };
            out.push_str(&begin);
            section.blocks.iter().for_each(|block| block.to_html(&mut out));
            out.push_str(&end);
        }
        out.push_str("</main>\n");
        let [has_plots, has_commands, has_flames] =
            ["<svg ", "<pre class=\"command\"", "<div class=\"flame\""]
                .map(|mark| out.contains(mark));
        let mut script = |parts: &[&str]| {
            out.push_str("<script>\n\"use strict\";\n(() => {\n");
            parts.iter().for_each(|part| out.push_str(part));
            out.push_str("})();\n</script>\n");
        };
        if has_plots {
            script(&PLOTS);
        }
        if has_commands {
            script(&[COPY]);
        }
        if has_flames {
            script(&[FLAME]);
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

impl Block {
    fn to_html(&self, out: &mut String) {
        match self {
            Self::Prose(text) => {
                for paragraph in text.split("\n\n").filter(|text| !text.trim().is_empty()) {
                    out.push_str(&format!("<p>{}</p>\n", escape(paragraph.trim())));
                }
            }
            Self::Details(title, text) => out.push_str(&format!(
                "<details><summary>{}</summary><pre>{}</pre></details>\n",
                escape(title),
                escape(text)
            )),
            Self::Lines(caption, text) => out.push_str(&format!(
                "<p class=\"caption\">{}</p>\n<pre class=\"lines\">{}</pre>\n",
                escape(caption),
                escape(text)
            )),
            Self::Command(text) => out.push_str(&command(text)),
            Self::Facts(facts) => pairs(out, "facts", facts),
            Self::Terms(terms) => pairs(out, "terms", terms),
            Self::Table(caption, table) => {
                if !caption.is_empty() {
                    out.push_str(&format!("<p class=\"caption\">{}</p>\n", escape(caption)));
                }
                table.to_html(out);
            }
            Self::Plots(drawn) => plots(out, drawn),
            Self::Ios(ios) => io_times::to_html(ios, out),
            Self::Flame(Flame(data)) => out.push_str(&format!(
                "<div class=\"flame\" data-flame=\"{}\"></div>\n",
                escape(&data.to_string())
            )),
            Self::Figures(figures) => {
                figures_table(figures).to_html(out);
                plots(out, &figures_plots(figures));
            }
        }
    }
}

fn plots(out: &mut String, plots: &[Markup]) {
    if plots.is_empty() {
        return;
    }
    let (empty, drawn): (Vec<_>, Vec<_>) =
        plots.iter().partition(|plot| plot.without_marks().is_some());
    if !drawn.is_empty() {
        out.push_str("<div class=\"plots\">\n");
        drawn.iter().for_each(|plot| out.push_str(plot.as_str()));
        out.push_str("</div>\n");
    }
    let titles: Vec<_> = empty.iter().filter_map(|plot| plot.without_marks()).map(escape).collect();
    if !titles.is_empty() {
        let titles = titles.join("; ");
        out.push_str(&format!(
            "<p class=\"caption\">Not drawn, as nothing was recorded: {titles}.</p>\n"
        ));
    }
}
