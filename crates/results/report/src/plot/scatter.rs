//! Points.

use super::axis::{Axis, Quantity};
use super::canvas::{exact, number, Canvas, Key, Kind};
use super::{Markup, COLOURS};

/// Points of all series that show their figures without a script: the highest of each.
const MARKED: usize = 300;

/// One set of points.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterSeries {
    /// Its name.
    pub name: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Other facts about a point, shown when it is pointed at.
    pub details: Vec<Detail>,
    /// True if the points are marks of times only: their height says nothing.
    pub is_of_times: bool,
}

/// A figure of each point.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub quantity: Quantity,
    /// The figures, in the order of the points.
    pub values: Vec<f64>,
}

impl ScatterSeries {
    /// The details of the points of these numbers, for the page's script.
    fn described(&self, points: &[usize]) -> String {
        let described = self.details.iter().map(|detail| {
            let value = |point: &usize| detail.values.get(*point).copied().unwrap_or(f64::NAN);
            let values: Vec<_> = points.iter().map(|point| exact(value(point))).collect();
            let quantity = match detail.quantity {
                Quantity::Bytes => "bytes",
                Quantity::Time => "time",
                _ => "number",
            };
            format!("{}|{quantity}|{}", detail.name, values.join(" "))
        });
        described.collect::<Vec<_>>().join(";")
    }
}

/// Points in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// The plot's title.
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
        let name = |series: &ScatterSeries| match series.is_of_times {
            true => format!("{} (their times; their height has no meaning)", series.name),
            false => series.name.clone(),
        };
        let names: Vec<_> = self.series.iter().map(name).collect();
        let named = self.series.iter().zip(&names);
        let keys: Vec<Key<'_>> =
            named.map(|(series, name)| (name.as_str(), series.colour, "dot")).collect();
        let all = self.series.iter().flat_map(|series| series.points.iter());
        let (mut canvas, x, y) = Canvas::of_points(&self.title, &keys, (&self.x, &self.y), all);
        for (index, series) in self.series.iter().enumerate() {
            let is_finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
            let kept: Vec<usize> = (0..series.points.len())
                .filter(|point| is_finite(&series.points[*point]))
                .collect();
            let mut finite: Vec<_> = kept.iter().map(|point| series.points[*point]).collect();
            // One path of round dots is a tenth of the size of as many circles.
            let mut data = String::with_capacity(finite.len() * 12);
            let mut last = (String::new(), String::new());
            for &(across, up) in &finite {
                let dot = (number(canvas.x(x.place(across))), number(canvas.y(y.place(up))));
                if dot != last {
                    data.push_str(&format!("M{} {}h0", dot.0, dot.1));
                    last = dot;
                }
            }
            let class = format!("cloud c{}", series.colour % COLOURS);
            let details = series.described(&kept);
            canvas.series(&class, index, Kind::Dots, &finite, &details, &data);
            finite.sort_by(|a, b| b.1.total_cmp(&a.1));
            for &(across, up) in finite.iter().take(MARKED / self.series.len()) {
                let (when, height) = (self.x.quantity.show(across), self.y.quantity.show(up));
                let text = match series.is_of_times {
                    true => format!("{} at {when}", series.name),
                    false => format!("{}: {height} at {when}", series.name),
                };
                let place = (canvas.x(x.place(across)), canvas.y(y.place(up)));
                canvas.hit(place, (across, up), series.colour, index, &text);
            }
        }
        canvas.finish()
    }
}
