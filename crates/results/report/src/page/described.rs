//! A page from its description in JSON: for programs that have something to show and draw no plots,
//! such as the Python package.

use serde::Deserialize;

use super::{Block, Page, Section};
use crate::plot::{Axis, Cdf, CdfSeries, Line, Lines, Markup, Quantity, Scale, Stroke, COLOURS};
use crate::table::{Column, Table};

impl Page {
    /// The page that a text in JSON describes (docs/reference/results.md#pages-of-your-own).
    ///
    /// # Errors
    /// With line and column, if the text is no JSON or no page.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Described>(text).map(Self::from)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    title: String,
    #[serde(default)]
    subtitle: String,
    sections: Vec<DescribedSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedSection {
    #[serde(default)]
    heading: String,
    blocks: Vec<DescribedBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DescribedBlock {
    Prose(String),
    Facts(Vec<(String, String)>),
    Table(DescribedTable),
    Plots(Vec<DescribedPlot>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedTable {
    #[serde(default)]
    caption: String,
    columns: Vec<String>,
    /// How many columns, from the first, are words; the others are figures.
    #[serde(default = "one")]
    words: usize,
    rows: Vec<Vec<String>>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum DescribedPlot {
    /// Points are a value and the share of values not above it, both rising.
    Distribution {
        title: String,
        x: DescribedAxis,
        series: Vec<Series>,
    },
    Lines {
        title: String,
        x: DescribedAxis,
        y: DescribedAxis,
        series: Vec<Series>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedAxis {
    label: String,
    #[serde(default)]
    quantity: DescribedQuantity,
    #[serde(default)]
    scale: DescribedScale,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum DescribedQuantity {
    /// In ns.
    Time,
    Bytes,
    /// In bytes a second.
    Bandwidth,
    /// From 0 to 1.
    Share,
    #[default]
    Number,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum DescribedScale {
    #[default]
    Linear,
    FromZero,
    Log,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

impl From<Described> for Page {
    fn from(described: Described) -> Self {
        let section = |DescribedSection { heading, blocks }| Section {
            heading,
            blocks: blocks.into_iter().map(Block::from).collect(),
            folded: false,
        };
        Self {
            title: described.title,
            subtitle: described.subtitle,
            sections: described.sections.into_iter().map(section).collect(),
        }
    }
}

impl From<DescribedBlock> for Block {
    fn from(described: DescribedBlock) -> Self {
        match described {
            DescribedBlock::Prose(text) => Self::Prose(text),
            DescribedBlock::Facts(facts) => Self::Facts(facts),
            DescribedBlock::Table(DescribedTable { caption, columns, words, rows }) => {
                let named = columns.into_iter().enumerate().map(|(index, name)| {
                    if index < words {
                        Column::left(name)
                    } else {
                        Column::right(name)
                    }
                });
                Self::Table(caption, Table { columns: named.collect(), rows })
            }
            DescribedBlock::Plots(plots) => {
                Self::Plots(plots.into_iter().map(DescribedPlot::draw).collect())
            }
        }
    }
}

impl DescribedPlot {
    fn draw(self) -> Markup {
        match self {
            Self::Distribution { title, x, series } => {
                let series = series.into_iter().enumerate().map(|(index, one)| CdfSeries {
                    name: one.name,
                    colour: index % COLOURS,
                    stroke: stroke(index),
                    points: one.points,
                    marks: Vec::new(),
                });
                Cdf { title, x: x.into(), tail: false, series: series.collect() }.draw()
            }
            Self::Lines { title, x, y, series } => {
                let lines = series.into_iter().enumerate().map(|(index, one)| Line {
                    name: one.name,
                    colour: index % COLOURS,
                    stroke: stroke(index),
                    points: one.points,
                });
                Lines { title, x: x.into(), y: y.into(), lines: lines.collect() }.draw()
            }
        }
    }
}

/// Series of the same colour differ in their stroke.
fn stroke(index: usize) -> Stroke {
    if (index / COLOURS).is_multiple_of(2) {
        Stroke::Thin
    } else {
        Stroke::Dashed
    }
}

impl From<DescribedAxis> for Axis {
    fn from(DescribedAxis { label, quantity, scale }: DescribedAxis) -> Self {
        let quantity = match quantity {
            DescribedQuantity::Time => Quantity::Time,
            DescribedQuantity::Bytes => Quantity::Bytes,
            DescribedQuantity::Bandwidth => Quantity::Bandwidth,
            DescribedQuantity::Share => Quantity::Share,
            DescribedQuantity::Number => Quantity::Number(""),
        };
        let scale = match scale {
            DescribedScale::Linear => Scale::Linear,
            DescribedScale::FromZero => Scale::FromZero,
            DescribedScale::Log => Scale::Log,
        };
        Self::new(label, scale, quantity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"{"title": "A <study>", "sections": [{"heading": "ssd: read", "blocks": [
        {"prose": "Two points."}, {"facts": [["points", "2"]]},
        {"table": {"caption": "by seed", "columns": ["seed", "why", "p99"], "words": 2, "rows": [["1", "x", "2 µs"]]}},
        {"plots": [
            {"distribution": {"title": "latency", "x": {"label": "Latency", "quantity": "time", "scale": "log"},
                "series": [{"name": "seed = 1", "points": [[100, 0.5], [200, 1]]}]}},
            {"lines": {"title": "by depth", "x": {"label": "depth"},
                "y": {"label": "p99", "quantity": "time", "scale": "from-zero"},
                "series": [{"name": "p99", "points": [[1, 10.5], [2, 1e6]]}]}}]}]}]}"#;

    #[test]
    fn a_page_is_what_its_description_says() {
        let html = Page::from_json(PAGE).unwrap().to_html();
        for part in [
            "<h1>A &lt;study&gt;</h1>",
            "<p>Two points.</p>",
            "<dt>points</dt><dd>2</dd>",
            "<td>x</td><td class=\"figure\">2 µs</td>",
            "data-kind=\"steps\" data-v=\"100 0.5 100 1\"",
            "data-kind=\"line\" data-v=\"1 10.5 1 1000000\"",
            "<script>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn what_is_no_page_is_told_with_its_place() {
        for (from, to, said) in [
            ("\"prose\"", "\"verse\"", "unknown variant `verse`, expected one of `prose`"),
            ("\"title\": \"A", "\"name\": \"A", "unknown field `name`"),
            ("[[1, 10.5]", "[[1]", "invalid length 1"),
            ("\"log\"", "\"bog\"", "unknown variant `bog`"),
            ("[[1, 10.5]", "[[1, NaN]", "expected value at line 9"),
        ] {
            assert!(PAGE.contains(from));
            let error = Page::from_json(&PAGE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(" line "), "{error}");
        }
    }

    #[test]
    fn colours_that_come_again_are_dashed() {
        let series: Vec<_> =
            (0..8).map(|index| format!(r#"{{"name": "s{index}", "points": [[1, 1]]}}"#)).collect();
        let text = format!(
            r#"{{"title": "", "sections": [{{"blocks": [{{"plots": [{{"lines": {{"title": "",
            "x": {{"label": ""}}, "y": {{"label": ""}}, "series": [{}]}}}}]}}]}}]}}"#,
            series.join(",")
        );
        let html = Page::from_json(&text).unwrap().to_html();
        assert_eq!(html.matches("class=\"stroke c0 dashed\"").count(), 1);
        assert_eq!(html.matches("class=\"stroke c0\"").count(), 1);
    }
}
