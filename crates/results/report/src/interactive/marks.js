// The marks of a plot: read from their `data-` attributes, drawn again on other axes.

/** A page with this script has a plot. */
const SVG = document.querySelector("svg").namespaceURI;
/** About how wide a character of a label is, as in plot/canvas.rs. */
const CHARACTER = 6.5;

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const numbers = (text) => (text ? text.split(" ").map(Number) : []);
const short = (value) => String(Math.round(value * 10) / 10);

/** A series' points: x is told as the distance from the point before. */
function pointsOf(text) {
  const values = numbers(text);
  const points = [];
  let x = 0;
  for (let index = 0; index + 1 < values.length; index += 2) {
    x += values[index];
    points.push([x, values[index + 1]]);
  }
  return points;
}

/** The figures beside each point of a scatter: name, kind, values. */
function detailsOf(text) {
  if (!text) return [];
  return text.split(";").map((detail) => {
    const [name, quantity, values] = detail.split("|");
    return { name, quantity, unit: "", values: numbers(values) };
  });
}

const SHAPES = {
  line: (places) => {
    // A point alone is a dash, as in lines.rs.
    if (places.length === 1) return `M${short(places[0][0] - 3)} ${short(places[0][1])}H${short(places[0][0] + 3)}`;
    return places.map(([x, y], index) => `${index ? "L" : "M"}${short(x)} ${short(y)}`).join("");
  },
  steps: (places, frame) => {
    let [across, up] = ["", short(frame.bottom)];
    const step = ([cx, cy]) => {
      const [x, y] = [short(cx), short(cy)];
      const level = across === "" ? `M${x} ${up}` : x === across ? "" : `H${x}`;
      const rise = y === up ? "" : `V${y}`;
      [across, up] = [x, y];
      return level + rise;
    };
    return places.map(step).join("");
  },
  // Dots beyond the frame would look out of it by half their width.
  dots: (places, frame) =>
    places.filter(([x, y]) => frame.holds(x, y)).map(([x, y]) => `M${short(x)} ${short(y)}h0`).join(""),
};

/** A line, steps or dots. */
class Path {
  constructor(element) {
    this.element = element;
    this.kind = element.dataset.kind;
    this.points = pointsOf(element.dataset.v);
    this.details = detailsOf(element.dataset.d);
    this.across = this.points.map((point) => point[0]);
    this.up = this.points.map((point) => point[1]);
  }

  draw({ frame, x, y }) {
    const places = this.points.map((point) => [frame.x(x.place(point[0])), frame.y(y.place(point[1]))]);
    this.element.setAttribute("d", SHAPES[this.kind](places, frame));
  }

  /** What one of its points is. */
  tell(index, name, { x, y }) {
    const [across, up] = this.points[index];
    if (y.quantity === "share") return `${name}: ${show(y, up)} at or below ${show(x, across)}`;
    const details = this.details.map((each) => `\n${each.name} ${show(each, each.values[index])}`);
    return `${name}: ${show(y, up)} at ${show(x, across)}${details.join("")}`;
  }
}

/** A place that tells its text: a percentile, say. */
class Spot {
  constructor(element) {
    this.element = element;
    this.points = [numbers(element.dataset.v)];
    [this.across, this.up] = [[], []];
  }

  draw({ frame, x, y }) {
    const [across, up] = [frame.x(x.place(this.points[0][0])), frame.y(y.place(this.points[0][1]))];
    this.element.setAttribute("cx", short(across));
    this.element.setAttribute("cy", short(up));
    this.element.style.visibility = frame.holds(across, up) ? "" : "hidden";
  }

  tell() {
    return this.element.dataset.t;
  }
}

/** A box, or the figure beside one. */
class Box {
  constructor(element) {
    this.element = element;
    this.across = numbers(element.dataset.x);
    this.up = [];
    this.row = element.dataset.row;
    [this.from, this.to] = this.across;
  }

  draw({ frame, x }) {
    const [from, to] = [this.from, this.to].map((value) => frame.x(x.place(value)));
    if (this.element.tagName === "text") {
      this.element.setAttribute("x", short(to + 5));
      this.element.style.visibility = to < frame.left || to > frame.right ? "hidden" : "";
      return;
    }
    this.element.setAttribute("x", short(from));
    this.element.setAttribute("width", this.to > this.from ? short(Math.max(to - from, 1)) : "0");
  }
}

/** A line between two times. */
class Segment {
  constructor(element) {
    this.element = element;
    this.across = numbers(element.dataset.x);
    this.up = [];
  }

  draw({ frame, x }) {
    this.across.forEach((value, index) => this.element.setAttribute(`x${index + 1}`, short(frame.x(x.place(value)))));
  }
}

/** A dot in a row. */
class Dot {
  constructor(element) {
    this.element = element;
    this.across = numbers(element.dataset.x);
    this.up = [];
  }

  draw({ frame, x }) {
    const at = frame.x(x.place(this.across[0]));
    this.element.setAttribute("cx", short(at));
    this.element.style.visibility = at < frame.left - 1 || at > frame.right + 1 ? "hidden" : "";
  }
}

/** The lines of a box plot. */
class Whiskers {
  constructor(element) {
    this.element = element;
    this.across = numbers(element.dataset.box);
    this.up = [];
    this.heights = numbers(element.dataset.y);
  }

  draw({ frame, x }) {
    const [low, first, median, third, high] = this.across.map((value) => short(frame.x(x.place(value))));
    const [top, middle, bottom] = this.heights;
    const box = `M${first} ${top}V${bottom}H${third}V${top}H${first}M${median} ${top}V${bottom}`;
    const ends = `M${low} ${top}V${bottom}M${high} ${top}V${bottom}`;
    this.element.setAttribute("d", `M${low} ${middle}H${first}M${third} ${middle}H${high}${box}${ends}`);
  }
}

function markOf(element) {
  if (element.dataset.box) return new Whiskers(element);
  if (element.tagName === "line") return new Segment(element);
  if (element.dataset.x) return element.tagName === "circle" ? new Dot(element) : new Box(element);
  return element.dataset.kind ? new Path(element) : new Spot(element);
}

/** Parts of one bar stand one behind the other, without those that are hidden. */
function stack(marks) {
  const ends = new Map();
  for (const mark of marks.filter((each) => each.row !== undefined)) {
    const [from, to] = mark.across;
    const begin = mark.element.tagName === "text" ? 0 : (ends.get(mark.row) ?? 0);
    if (mark.element.tagName === "text") {
      mark.to = ends.get(mark.row) ?? 0;
    } else {
      mark.from = begin;
      mark.to = mark.hidden ? begin : begin + to - from;
      ends.set(mark.row, mark.to);
    }
  }
}

/** An axis' grid and labels. */
function drawAxis(group, axis, frame, across) {
  const parts = [];
  let free = -Infinity;
  for (const [value, label] of axis.ticks()) {
    if (across) {
      const x = frame.x(axis.place(value));
      const half = (label.length * CHARACTER) / 2;
      parts.push(make("path", { class: "grid", d: `M${short(x)} ${frame.bottom}V${frame.top}` }));
      if (x - half > free) {
        const at = Math.min(x, frame.width - half - 1);
        parts.push(make("text", { class: "middle", x: short(at), y: frame.bottom + 16 }, label));
        free = x + half + 6;
      }
    } else {
      const y = frame.y(axis.place(value));
      parts.push(make("path", { class: "grid", d: `M${frame.left} ${short(y)}H${frame.right}` }));
      parts.push(make("text", { class: "end", x: frame.left - 6, y: short(y + 4) }, label));
    }
  }
  if (across) {
    const middle = (frame.left + frame.right) / 2;
    parts.push(make("text", { class: "axis middle", x: middle, y: frame.height - 7 }, axis.caption));
    parts.push(make("path", { class: "frame", d: `M${frame.left} ${frame.bottom}H${frame.right}` }));
  } else {
    const turned = `translate(11 ${(frame.top + frame.bottom) / 2}) rotate(-90)`;
    parts.push(make("text", { class: "axis middle", transform: turned }, axis.caption));
  }
  group.replaceChildren(...parts);
}
