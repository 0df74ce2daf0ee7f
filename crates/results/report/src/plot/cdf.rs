//! Distribution functions.

use super::axis::{Axis, Fitted, Quantity, Scale};
use super::canvas::{number, Canvas, Key, Kind};
use super::{Markup, Stroke, COLOURS};

/// One distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct CdfSeries {
    /// Its name.
    pub name: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// Stroke with which it is drawn.
    pub stroke: Stroke,
    /// (value, share of values not above it), both rising, the last share 1.
    pub points: Vec<(f64, f64)>,
    /// (name, value, share) of places to point at, such as percentiles.
    pub marks: Vec<(String, f64, f64)>,
}

/// Distribution functions in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    /// The plot's title.
    pub title: String,
    /// The axis of the values.
    pub x: Axis,
    /// True if the upper end is stretched: 90 %, 99 %, 99.9 % and so on are equally far from each
    /// other.
    pub tail: bool,
    /// The distributions, later ones on top.
    pub series: Vec<CdfSeries>,
}

impl Cdf {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        let keys: Vec<Key<'_>> = self
            .series
            .iter()
            .map(|series| (series.name.as_str(), series.colour, series.stroke.class().trim_start()))
            .collect();
        let kind =
            if self.tail { "upper tail of the distribution" } else { "distribution function" };
        let x = self.x.fit(self.series.iter().flat_map(|s| s.points.iter().map(|point| point.0)));
        let y = self.shares();
        let mut canvas = Canvas::new(&self.title, kind, &keys, &y);
        canvas.x_axis(&x);
        canvas.y_axis(&y);
        if self.series.iter().all(|series| series.points.is_empty()) {
            canvas.nothing();
        }
        for (number, series) in self.series.iter().enumerate() {
            let class = format!("stroke c{}{}", series.colour % COLOURS, series.stroke.class());
            let finite: Vec<_> =
                series.points.iter().copied().filter(|(value, _)| value.is_finite()).collect();
            let data = steps(&canvas, &finite, &x, &y);
            canvas.series(&class, number, Kind::Steps, &finite, "", &data);
        }
        for (number, series) in self.series.iter().enumerate() {
            for (name, value, share) in series.marks.iter().filter(|mark| mark.1.is_finite()) {
                let text = format!("{} {name}: {}", series.name, self.x.quantity.show(*value));
                let place = (canvas.x(x.place(*value)), canvas.y(y.place(*share)));
                canvas.hit(place, (*value, *share), series.colour, number, &text);
            }
        }
        canvas.finish()
    }

    fn shares(&self) -> Fitted {
        let axis = Axis::new("Share at or below", Scale::Tail, Quantity::Share);
        if !self.tail {
            return axis.whole();
        }
        let shares = self.series.iter().flat_map(|series| series.points.iter());
        axis.fit(shares.map(|(_, share)| *share).filter(|share| *share < 1.0).chain([0.0]))
    }
}

/// Up at each value, level between them.
fn steps(canvas: &Canvas, points: &[(f64, f64)], x: &Fitted, y: &Fitted) -> String {
    let mut data = String::new();
    let mut last = (String::new(), number(canvas.y(0.0)));
    for &(value, share) in points {
        let (across, up) = (number(canvas.x(x.place(value))), number(canvas.y(y.place(share))));
        if data.is_empty() {
            data = format!("M{across} {}", last.1);
        } else if across != last.0 {
            data.push_str(&format!("H{across}"));
        }
        if up != last.1 {
            data.push_str(&format!("V{up}"));
        }
        last = (across, up);
    }
    data
}
