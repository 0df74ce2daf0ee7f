//! Plots as inline SVG: distribution functions, scatters, lines, bars, boxes,
//! dots, maps and lanes.
//!
//! Plots take their colours from the style of [`crate::page::Page`], which has a set for light and
//! one for dark that readers with impaired colour vision can distinguish (after Okabe and Ito,
//! "Color Universal Design", 2008). Marks show their figures when pointed at. Values that are not
//! finite are left out.
//!
//! A plot shows everything without a script. The data behind a plot stands beside it in `data-`
//! attributes, from which the page's script (`interactive/`) draws it again: a part of it, with
//! another scale, without some of its series.

mod axis;
mod bars;
mod boxes;
mod canvas;
mod cdf;
mod dots;
mod grid;
mod heat;
mod lanes;
mod lines;
mod scatter;

pub use axis::{Axis, Quantity, Scale};
pub use bars::{Bar, Bars, Segment};
pub use boxes::{Boxes, Group};
pub use cdf::{Cdf, CdfSeries};
pub use dots::{Dot, Dots, Row};
pub use grid::Grid;
pub use heat::Heat;
pub use lanes::{Arrow, Lane, Lanes, Mark, Stretch, Strip};
pub use lines::{Line, Lines};
pub use scatter::{Detail, Scatter, ScatterSeries};

/// A plot as it stands in a page. Only plots are made into it, so that nothing
/// unescaped gets there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markup {
    html: String,
    /// The title of a plot that shows nothing.
    without: Option<String>,
}

impl Markup {
    /// The HTML.
    pub fn as_str(&self) -> &str {
        &self.html
    }

    /// Returns the plot's title if nothing was recorded for the plot to show.
    pub fn without_marks(&self) -> Option<&str> {
        self.without.as_deref()
    }
}

/// Number of colours; further series begin with the first again.
pub const COLOURS: usize = 6;

/// Stroke of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// A thin line.
    Thin,
    /// A wide, pale line: a thin one on top of it is seen even where both
    /// take the same way.
    Band,
    /// A thin, dashed line.
    Dashed,
}

impl Stroke {
    fn class(self) -> &'static str {
        match self {
            Self::Thin => "",
            Self::Band => " band",
            Self::Dashed => " dashed",
        }
    }
}

#[cfg(test)]
mod tests;
