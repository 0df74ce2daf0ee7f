//! What all plots share: the frame with its grid and axes, the legend, and
//! numbers as SVG wants them.

use super::axis::Fitted;
use super::{Markup, COLOURS};
use crate::page::escape;

/// Size in units of the drawing, which are about CSS pixels.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
/// Room for the labels of the vertical axis at least, and for its title beside them.
const LEFT: f64 = 64.0;
const TITLE: f64 = 22.0;
/// Room at the right; a label at the axis' end takes half of its width there.
const RIGHT: f64 = 14.0;
/// Between the vertical axis and its labels.
const GAP: f64 = 6.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;

/// An entry of a legend: name, colour, CSS class of its sample.
pub(super) type Key<'a> = (&'a str, usize, &'static str);

/// A drawing under way.
pub(super) struct Canvas {
    out: String,
    width: f64,
    height: f64,
    left: f64,
    bottom: f64,
}

impl Canvas {
    /// A canvas of the usual size, with room for the labels of `y`.
    pub(super) fn new(title: &str, description: &str, keys: &[Key<'_>], y: &Fitted) -> Self {
        let labels = y.ticks.iter().map(|tick| text_width(&tick.label));
        let left = labels.fold(0.0, f64::max) + TITLE + GAP;
        Self::sized(title, description, keys, HEIGHT, left.max(LEFT))
    }

    /// A canvas of another height and left margin.
    pub(super) fn sized(
        title: &str,
        description: &str,
        keys: &[Key<'_>],
        height: f64,
        left: f64,
    ) -> Self {
        let mut out = format!("<figure><figcaption>{}</figcaption>", escape(title));
        if !keys.is_empty() {
            out.push_str("<div class=\"legend\">");
            for (name, colour, class) in keys {
                let (name, colour) = (escape(name), colour % COLOURS);
                out.push_str(&format!(
                    "<span class=\"c{colour}\"><i class=\"{class}\"></i>{name}</span>"
                ));
            }
            out.push_str("</div>");
        }
        out.push_str(&format!(
            "\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&format!("{title}: {description}"))
        ));
        Self { out, width: WIDTH, height, left, bottom: BOTTOM }
    }

    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.width - self.left - RIGHT)
    }

    pub(super) fn y(&self, place: f64) -> f64 {
        self.height - self.bottom - place * (self.height - TOP - self.bottom)
    }

    /// The horizontal axis with its grid.
    pub(super) fn x_axis(&mut self, axis: &Fitted) {
        let (top, bottom) = (self.y(1.0), self.y(0.0));
        let mut free_from = f64::NEG_INFINITY;
        for tick in &axis.ticks {
            let x = self.x(axis.place(tick.value));
            self.path("grid", &format!("M{} {}V{}", number(x), number(bottom), number(top)));
            // A label stands only where the one before leaves room.
            let half = text_width(&tick.label) / 2.0;
            if x - half > free_from {
                let x = x.min(self.width - half - 1.0);
                self.text(x, bottom + 16.0, "middle", &tick.label);
                free_from = x + half + 6.0;
            }
        }
        let (x, y) = (self.x(0.5), self.height - 7.0);
        self.text(x, y, "axis middle", &axis.caption);
        let (left, right) = (self.x(0.0), self.x(1.0));
        self.path("frame", &format!("M{} {}H{}", number(left), number(bottom), number(right)));
    }

    /// The vertical axis with its grid.
    pub(super) fn y_axis(&mut self, axis: &Fitted) {
        let (left, right) = (self.x(0.0), self.x(1.0));
        for tick in &axis.ticks {
            let y = self.y(axis.place(tick.value));
            self.path("grid", &format!("M{} {}H{}", number(left), number(y), number(right)));
            self.text(left - GAP, y + 4.0, "end", &tick.label);
        }
        let middle = number(self.y(0.5));
        self.out.push_str(&format!(
            "<text class=\"axis middle\" transform=\"translate(11 {middle}) rotate(-90)\">{}</text>\n",
            escape(&axis.caption)
        ));
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (number(x), number(y), escape(text));
        self.out.push_str(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    pub(super) fn path(&mut self, class: &str, data: &str) {
        self.out.push_str(&format!("<path class=\"{class}\" d=\"{data}\"/>\n"));
    }

    /// A place that shows `text` when pointed at.
    pub(super) fn hit(&mut self, x: f64, y: f64, colour: usize, text: &str) {
        let (x, y, colour, text) = (number(x), number(y), colour % COLOURS, escape(text));
        self.out.push_str(&format!(
            "<circle class=\"hit c{colour}\" cx=\"{x}\" cy=\"{y}\" r=\"6\"><title>{text}</title></circle>\n"
        ));
    }

    /// A filled box that shows `text` when pointed at.
    pub(super) fn bar(&mut self, place: [f64; 4], colour: usize, text: &str) {
        self.rectangle("fill", place, colour, text);
    }

    /// The same, so pale that what lies behind and before it is seen.
    pub(super) fn shade(&mut self, place: [f64; 4], colour: usize, text: &str) {
        self.rectangle("fill shade", place, colour, text);
    }

    /// A box of the first colour, with an opacity of its own.
    pub(super) fn cell(&mut self, place: [f64; 4], opacity: f64, text: &str) {
        let [x, y, width, height] = place.map(number);
        let text = escape(text);
        self.out.push_str(&format!(
            "<rect class=\"fill c0\" fill-opacity=\"{opacity:.2}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{height}\"><title>{text}</title></rect>\n"
        ));
    }

    fn rectangle(&mut self, class: &str, place: [f64; 4], colour: usize, text: &str) {
        let [x, y, width, height] = place.map(number);
        let (colour, text) = (colour % COLOURS, escape(text));
        self.out.push_str(&format!(
            "<rect class=\"{class} c{colour}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
             <title>{text}</title></rect>\n"
        ));
    }

    /// A line in the middle of an empty plot.
    pub(super) fn nothing(&mut self) {
        let (x, y) = (self.x(0.5), self.y(0.5));
        self.text(x, y, "middle", "nothing recorded");
    }

    pub(super) fn finish(mut self) -> Markup {
        self.out.push_str("</svg></figure>\n");
        Markup(self.out)
    }
}

/// A coordinate in as few characters as a tenth of a pixel takes.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// About how wide a label is.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.5
}

/// A text of at most `limit` characters.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}
