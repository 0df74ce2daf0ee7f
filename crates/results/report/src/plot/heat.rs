//! A map of shares: resources below each other, time to the right, the fuller
//! the darker.

use super::axis::{Axis, Quantity};
use super::canvas::{Canvas, Span};
use super::Markup;
use crate::page::Resolution;

/// Limits on the rows and columns that are drawn, and the least of them in the coarsest resolution;
/// of more, means of neighbours are drawn.
const ROWS: usize = 64;
const COLUMNS: usize = 128;
const MIN_CELLS: usize = 8;
/// Number of distinct shades.
const SHADES: f64 = 20.0;
/// Room for the frame above the first row and below the last.
const AROUND: f64 = 54.0;
/// Height of all rows together, at least and at most.
const TALL: (f64, f64) = (60.0, 260.0);
/// Limit on the height of a row.
const THICK: f64 = 18.0;
/// Room for the numbers of the rows.
const LEFT: f64 = 64.0;

/// Shares from 0 to 1 over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The plot's title.
    pub title: String,
    /// Name of a row, such as `channel`.
    pub row: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The width of a column on it.
    pub width: f64,
    /// Beginning of the first column; what lies before 0 is left out.
    pub origin: f64,
    /// The shares by row and column.
    pub values: Vec<Vec<f64>>,
}

impl Heat {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        self.draw_in(Resolution::default())
    }

    /// Draws it in some resolution.
    pub fn draw_in(&self, resolution: Resolution) -> Markup {
        // Columns before the axis' zero.
        let before = (-self.origin / self.width).floor().max(0.0) as usize;
        let origin = self.origin + before as f64 * self.width;
        let kept = |row: &Vec<f64>| row.get(before..).unwrap_or_default().to_vec();
        let values: Vec<Vec<f64>> = self.values.iter().map(kept).collect();
        let columns = values.iter().map(Vec::len).max().unwrap_or(0);
        let (most_rows, most_columns) =
            (resolution.of(ROWS, MIN_CELLS), resolution.of(COLUMNS, MIN_CELLS));
        let (per_row, per_column) =
            (values.len().div_ceil(most_rows).max(1), columns.div_ceil(most_columns).max(1));
        let rows: Vec<Vec<f64>> = values
            .chunks(per_row)
            .map(|rows| {
                let mean = |from: usize| {
                    let to = (from + per_column).min(columns);
                    let all = rows.iter().flat_map(|row| row.get(from..to.min(row.len())));
                    let sum: f64 = all.flatten().filter(|share| share.is_finite()).sum();
                    sum / (rows.len() * (to - from)) as f64
                };
                (0..columns).step_by(per_column).map(mean).collect()
            })
            .collect();
        let count = rows.len().max(1) as f64;
        let tall = (count * THICK).clamp(TALL.0, TALL.1);
        let legend = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (Quantity::Share.show(share), share));
        let description = format!("share by {}", self.row);
        let mut canvas = Canvas::shaded(&self.title, &description, &legend, tall + AROUND, LEFT);
        let end = origin + self.width * columns as f64;
        // The last column may end after the time that all plots show.
        let end = self.x.common.map_or(end, |common| end.min(common as f64));
        let axis = self.x.fit([0.0, end.max(0.0)].into_iter()).fixed();
        canvas.x_axis(&axis);
        if rows.is_empty() || columns == 0 {
            canvas.nothing();
            return canvas.finish();
        }
        let (top, bottom) = (canvas.y(1.0), canvas.y(0.0));
        let thick = (bottom - top) / count;
        // Numbers of rows where there is room for them.
        let each = (12.0 / thick).ceil().max(1.0) as usize;
        let wide = self.width * per_column as f64;
        for (index, row) in rows.iter().enumerate() {
            let y = top + index as f64 * thick;
            let number = index * per_row;
            if index % each == 0 {
                canvas.text(LEFT - 6.0, y + thick / 2.0 + 4.0, "end", &number.to_string());
            }
            let shade = |share: f64| (share.clamp(0.0, 1.0) * SHADES).round();
            let mut from = 0;
            // Neighbours of one shade are one box.
            for part in row.chunk_by(|a, b| shade(*a) == shade(*b)) {
                let at = |column: usize| origin + column as f64 * wide;
                let (begin, end) = (at(from).max(0.0), at(from + part.len()).min(axis.high));
                from += part.len();
                let opacity = shade(part[0]) / SHADES;
                if opacity == 0.0 || end <= begin {
                    continue;
                }
                let (left, right) = (canvas.x(axis.place(begin)), canvas.x(axis.place(end)));
                let right = right.min(canvas.x(1.0));
                let (when, until) = (self.x.quantity.show(begin), self.x.quantity.show(end));
                let percent = (opacity * 100.0).round();
                canvas.cell(
                    [left, y, (right - left).max(0.0), thick],
                    Some(Span { from: begin, to: end, ..Span::default() }),
                    opacity,
                    &format!("{} {number}, {when} to {until}: {percent} %", self.row),
                );
            }
        }
        canvas.finish()
    }
}
