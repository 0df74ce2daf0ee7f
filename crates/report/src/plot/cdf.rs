//! Distribution functions.

use super::axis::{Axis, Fitted, Scale, Tick};
use super::canvas::{number, Canvas, Key};
use super::{Markup, Stroke, COLOURS};

/// One distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct CdfSeries {
    /// Its name.
    pub name: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// How it is drawn.
    pub stroke: Stroke,
    /// (value, share of values not above it), both rising, the last share 1.
    pub points: Vec<(f64, f64)>,
    /// (name, value, share) of places to point at, such as percentiles.
    pub marks: Vec<(String, f64, f64)>,
}

/// Distribution functions in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    /// What the plot shows.
    pub title: String,
    /// The axis of the values.
    pub x: Axis,
    /// Whether the upper end is stretched: 90 %, 99 %, 99.9 % and so on are equally
    /// far from each other.
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
        for series in &self.series {
            let class = format!("stroke c{}{}", series.colour % COLOURS, series.stroke.class());
            canvas.path(&class, &self.steps(&canvas, series, &x, &y));
        }
        for series in &self.series {
            for (name, value, share) in series.marks.iter().filter(|mark| mark.1.is_finite()) {
                let text = format!("{} {name}: {}", series.name, self.x.quantity.show(*value));
                let (cx, cy) =
                    (canvas.x(x.place(*value)), canvas.y(y.place(self.height(*share, &y))));
                canvas.hit(cx, cy, series.colour, &text);
            }
        }
        canvas.finish()
    }

    /// Up at each value, level between them.
    fn steps(&self, canvas: &Canvas, series: &CdfSeries, x: &Fitted, y: &Fitted) -> String {
        let mut data = String::new();
        let mut last = (String::new(), number(canvas.y(0.0)));
        for &(value, share) in series.points.iter().filter(|(value, _)| value.is_finite()) {
            let (across, up) = (
                number(canvas.x(x.place(value))),
                number(canvas.y(y.place(self.height(share, y)))),
            );
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

    /// A share on the vertical axis.
    fn height(&self, share: f64, y: &Fitted) -> f64 {
        if !self.tail {
            return share;
        }
        // The maximum, of share 1, would stand at infinity: it stands at the top.
        if share >= 1.0 {
            y.high
        } else {
            -(1.0 - share).log10()
        }
    }

    fn shares(&self) -> Fitted {
        if !self.tail {
            let ticks = [0.0, 0.25, 0.5, 0.75, 1.0];
            let ticks = ticks.map(|value| Tick { value, label: format!("{} %", value * 100.0) });
            let caption = "Share at or below".to_owned();
            return Fitted {
                low: 0.0,
                high: 1.0,
                scale: Scale::Linear,
                ticks: ticks.into(),
                caption,
            };
        }
        let rarest = self
            .series
            .iter()
            .flat_map(|series| series.points.iter())
            .filter(|(_, share)| *share < 1.0)
            .map(|(_, share)| -(1.0 - share).log10())
            .fold(1.0, f64::max);
        let high = (rarest + 0.3).min(12.0);
        let ticks = (0..=high.floor() as usize)
            .map(|nines| Tick { value: nines as f64, label: nines_label(nines) })
            .collect();
        Fitted {
            low: 0.0,
            high,
            scale: Scale::Linear,
            ticks,
            caption: "Share at or below".to_owned(),
        }
    }
}

/// 0 %, 90 %, 99 %, 99.9 %, ...
fn nines_label(nines: usize) -> String {
    match nines {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more - 2)),
    }
}
