//! Points.

use super::axis::Axis;
use super::canvas::{number, Canvas, Key};
use super::{Markup, COLOURS};

/// Points that show their figures when pointed at, per series: the highest.
const MARKED: usize = 150;

/// One set of points.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterSeries {
    /// Its name.
    pub name: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Points in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// What the plot shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The sets of points, later ones on top.
    pub series: Vec<ScatterSeries>,
}

impl Scatter {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        let keys: Vec<Key<'_>> =
            self.series.iter().map(|s| (s.name.as_str(), s.colour, "dot")).collect();
        let kind = format!("{} over {}", self.y.label, self.x.label);
        let all = || self.series.iter().flat_map(|series| series.points.iter());
        let (x, y) = (self.x.fit(all().map(|p| p.0)), self.y.fit(all().map(|p| p.1)));
        let mut canvas = Canvas::new(&self.title, &kind, &keys, &y);
        canvas.x_axis(&x);
        canvas.y_axis(&y);
        if all().next().is_none() {
            canvas.nothing();
        }
        for series in &self.series {
            let mut finite: Vec<_> =
                series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
            // One path of round dots is a tenth of the size of as many circles.
            let mut data = String::with_capacity(finite.len() * 12);
            let mut last = (String::new(), String::new());
            for &&(across, up) in &finite {
                let dot = (number(canvas.x(x.place(across))), number(canvas.y(y.place(up))));
                if dot != last {
                    data.push_str(&format!("M{} {}h0", dot.0, dot.1));
                    last = dot;
                }
            }
            canvas.path(&format!("cloud c{}", series.colour % COLOURS), &data);
            finite.sort_by(|a, b| b.1.total_cmp(&a.1));
            for &&(across, up) in finite.iter().take(MARKED) {
                let (when, what) = (self.x.quantity.show(across), self.y.quantity.show(up));
                let text = format!("{}: {what} at {when}", series.name);
                let (cx, cy) = (canvas.x(x.place(across)), canvas.y(y.place(up)));
                canvas.hit(cx, cy, series.colour, &text);
            }
        }
        canvas.finish()
    }
}
