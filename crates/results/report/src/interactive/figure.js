// A figure of the page: what the pointer tells, zoom, hidden series, scales.

/** How near a point is taken for the one pointed at, and how far the pointer is drawn to zoom (units of the drawing). */
const NEAR = 24;
const DRAWN = 8;
/** All figures of the page. */
const FIGURES = [];

/** The rectangle in which values are. */
class Frame {
  constructor(svg) {
    const { width, height } = svg.viewBox.baseVal;
    const [left, top, right, bottom] = numbers(svg.dataset.frame);
    Object.assign(this, { width, height, left, top, right, bottom, first: left });
  }

  x(place) {
    return this.left + place * (this.right - this.left);
  }

  y(place) {
    return this.bottom - place * (this.bottom - this.top);
  }

  holds(x, y) {
    return x >= this.left - 1 && x <= this.right + 1 && y >= this.top - 1 && y <= this.bottom + 1;
  }
}

class Figure {
  constructor(figure, number) {
    this.figure = figure;
    this.svg = figure.querySelector("svg");
    this.frame = new Frame(this.svg);
    this.title = figure.querySelector("figcaption").textContent;
    this.groups = ["x", "y"].map((name) => this.svg.querySelector(`.${name}-axis`));
    [this.x, this.y] = this.groups.map((group) => group && new Axis(JSON.parse(group.dataset.axis)));
    this.marks = [...this.svg.querySelectorAll("[data-v],[data-x],[data-box]")].map(markOf);
    this.names = [...figure.querySelectorAll(".legend [data-s]")].map((entry) => entry.textContent);
    this.hidden = new Set();
    // The page's own tips stand in for the browser's.
    for (const title of this.svg.querySelectorAll("title")) {
      title.parentNode.dataset.t = title.textContent;
      title.remove();
    }
    this.clip(number);
    this.tip = figure.appendChild(Object.assign(document.createElement("div"), { className: "tip", hidden: true }));
    this.tip.setAttribute("role", "status");
    this.cursor = this.svg.appendChild(make("path", { class: "cursor", visibility: "hidden" }));
    this.here = this.svg.appendChild(make("circle", { class: "here", r: 5, visibility: "hidden" }));
    this.legend();
    this.tools();
    takeAway(this);
    this.listen();
    figure.classList.add("live");
  }

  /** Nothing is drawn beyond the frame. */
  clip(number) {
    const { left, top, right, bottom } = this.frame;
    const clip = make("clipPath", { id: `frame-${number}` });
    // Half of a line's width lies beyond an end of the axis.
    this.hole = make("rect", { x: left - 4, y: top - 4, width: right - left + 8, height: bottom - top + 8 });
    clip.append(this.hole);
    this.svg.prepend(clip);
    for (const { element } of this.marks.filter((mark) => mark.element.tagName !== "text")) {
      element.setAttribute("clip-path", `url(#frame-${number})`);
    }
  }

  /** Entries of the legend become buttons that hide their series. */
  legend() {
    for (const entry of this.figure.querySelectorAll(".legend [data-s]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = entry.className;
      button.title = "hide or show it";
      button.setAttribute("aria-pressed", "true");
      button.append(...entry.childNodes);
      entry.replaceWith(button);
      button.addEventListener("click", () => {
        const series = entry.dataset.s;
        const shown = this.hidden.delete(series);
        if (!shown) this.hidden.add(series);
        button.setAttribute("aria-pressed", String(shown));
        this.draw();
      });
    }
  }

  /** A button for each axis that can have another scale. */
  tools() {
    const tools = Object.assign(document.createElement("div"), { className: "tools" });
    for (const [name, axis, way] of [["x", this.x, "horizontal"], ["y", this.y, "vertical"]]) {
      if (!axis || axis.fixed) continue;
      const button = Object.assign(document.createElement("button"), { type: "button" });
      const label = () => {
        button.textContent = `${name}: ${axis.scale}`;
        button.title = `the ${way} axis is ${axis.scale}; make it ${axis.other}`;
      };
      button.addEventListener("click", () => {
        const before = axis.scale;
        axis.scale = axis.other;
        const values = this.marks.flatMap((mark) => (name === "x" ? mark.across : mark.up));
        if (!axis.fit(values)) axis.scale = before;
        label();
        this.draw();
      });
      label();
      tools.append(button);
    }
    this.svg.before(tools);
  }

  draw() {
    for (const mark of this.marks) {
      mark.hidden = this.hidden.has(mark.element.dataset.s);
      mark.element.style.display = mark.hidden ? "none" : "";
    }
    stack(this.marks);
    this.widen();
    this.groups.forEach((group, index) => group && drawAxis(group, [this.x, this.y][index], this.frame, index === 0));
    this.marks.forEach((mark) => mark.draw(this));
    this.leave();
  }

  /** Room for the labels of the vertical axis, as in plot/canvas.rs. */
  widen() {
    if (!this.y) return;
    const longest = Math.max(0, ...this.y.ticks().map(([, label]) => label.length));
    const { frame } = this;
    frame.left = Math.max(frame.first, longest * CHARACTER + 28);
    this.hole.setAttribute("x", frame.left - 4);
    this.hole.setAttribute("width", frame.right - frame.left + 8);
  }

  /** The other figures whose horizontal axis is this one's: the same time. */
  peers() {
    if (!this.x?.common) return [];
    return FIGURES.filter((other) => other !== this && other.x?.common && other.x.label === this.x.label);
  }

  /** Shows a value of the common axis as a line; none without one. */
  mark(value) {
    const place = value === undefined ? -1 : this.x.place(value);
    const { top, bottom } = this.frame;
    this.cursor.setAttribute("visibility", place >= 0 && place <= 1 ? "visible" : "hidden");
    this.cursor.setAttribute("d", `M${short(this.frame.x(place))} ${bottom}V${top}`);
  }

  reset() {
    for (const other of this.peers()) {
      other.x.fit(other.marks.flatMap((mark) => mark.across));
      other.draw();
    }
    for (const [axis, of] of [[this.x, "across"], [this.y, "up"]]) axis?.fit(this.marks.flatMap((mark) => mark[of]));
    this.draw();
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointermove", (event) => (this.drag ? this.drawn(event) : this.point(event)));
    svg.addEventListener("pointerleave", () => {
      for (const each of [this, ...this.peers()]) each.mark(undefined);
      this.leave();
    });
    svg.addEventListener("dblclick", () => this.reset());
    svg.addEventListener("pointerdown", (event) => {
      const [x, y] = this.at(event);
      if (!this.x || event.button !== 0 || event.pointerType === "touch" || !this.frame.holds(x, y)) return;
      this.leave();
      this.drag = { x, y, box: svg.appendChild(make("rect", { class: "zoom" })) };
      // Events that a script made have no pointer to capture.
      try { svg.setPointerCapture(event.pointerId); } catch { /* the zoom ends where the pointer leaves */ }
    });
    svg.addEventListener("pointerup", (event) => this.dropped(event));
    svg.addEventListener("pointercancel", () => this.drag?.box.remove() ?? delete this.drag);
  }

  /** Where the pointer is, in units of the drawing. */
  at(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = this.frame.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  /** The part that is being chosen: of one axis where the pointer went along it. */
  chosen(event) {
    const { frame, drag } = this;
    const [x, y] = this.at(event);
    const within = (value, low, high) => Math.min(Math.max(value, low), high);
    const across = [drag.x, within(x, frame.left, frame.right)].sort((a, b) => a - b);
    const up = [drag.y, within(y, frame.top, frame.bottom)].sort((a, b) => a - b);
    const [wide, tall] = [across[1] - across[0] >= DRAWN, up[1] - up[0] >= DRAWN && Boolean(this.y)];
    return {
      across: wide ? across : [frame.left, frame.right],
      up: tall ? up : [frame.top, frame.bottom],
      any: wide || tall,
    };
  }

  drawn(event) {
    const { across, up, any } = this.chosen(event);
    const box = { x: across[0], y: up[0], width: across[1] - across[0], height: any ? up[1] - up[0] : 0 };
    for (const [name, value] of Object.entries(box)) this.drag.box.setAttribute(name, value);
  }

  dropped(event) {
    if (!this.drag) return;
    const { across, up, any } = this.chosen(event);
    this.drag.box.remove();
    delete this.drag;
    if (!any) {
      this.open(event);
      return;
    }
    const { left, right, top, bottom } = this.frame;
    this.x.zoom((across[0] - left) / (right - left), (across[1] - left) / (right - left));
    this.y?.zoom((bottom - up[1]) / (bottom - top), (bottom - up[0]) / (bottom - top));
    for (const other of this.peers()) {
      if (other.x.scale !== this.x.scale) continue;
      [other.x.low, other.x.high] = [this.x.low, this.x.high];
      other.draw();
    }
    this.draw();
  }

  /** Opens where the time of the I/O at the pointer went, if the page has that. */
  open(event) {
    const found = this.y && this.nearest(...this.at(event));
    const orders = found?.mark.details?.find((detail) => detail.name === "order");
    if (!orders) return;
    const one = `details[data-orders~="${orders.values[found.index]}"]`;
    const times = this.figure.closest("section").querySelector(one);
    for (let place = times; place; place = place.parentElement.closest("details")) place.open = true;
    times?.querySelector("summary").focus();
  }

  /** The nearest point that is shown: its place, and what it is. */
  nearest(x, y) {
    let found = { distance: NEAR };
    // Points that have details tell more than their named ones do.
    const detailed = this.marks.some((mark) => mark.details?.length);
    for (const mark of this.marks) {
      if (mark.hidden || !mark.points || (detailed && mark instanceof Spot)) continue;
      // A spot is one of a line's points that has a name.
      const less = mark instanceof Spot ? 0.5 : 0;
      for (let index = 0; index < mark.points.length; index += 1) {
        const [across, up] = mark.points[index];
        const [cx, cy] = [this.frame.x(this.x.place(across)), this.frame.y(this.y.place(up))];
        const distance = Math.hypot(cx - x, cy - y) - less;
        if (distance < found.distance && this.frame.holds(cx, cy)) found = { distance, mark, index, cx, cy };
      }
    }
    return found.mark && found;
  }

  point(event) {
    const [x, y] = this.at(event);
    if (this.x?.common) {
      const { left, right } = this.frame;
      const value = this.frame.holds(x, y) ? this.x.value((x - left) / (right - left)) : undefined;
      for (const each of [this, ...this.peers()]) each.mark(value);
    }
    const box = !event.target.dataset.v && event.target.dataset.t;
    if (box) {
      this.here.setAttribute("visibility", "hidden");
      return this.tell(box, x, y);
    }
    const found = this.y && this.nearest(x, y);
    if (!found) return this.leave();
    const { mark, index, cx, cy } = found;
    this.here.setAttribute("cx", cx);
    this.here.setAttribute("cy", cy);
    this.here.setAttribute("visibility", "visible");
    return this.tell(mark.tell(index, this.names[mark.element.dataset.s] ?? "", this), cx, cy);
  }

  /** Shows a text beside a place, on the side where there is room. */
  tell(text, x, y) {
    this.tip.textContent = text;
    this.tip.hidden = false;
    const [svg, figure] = [this.svg, this.figure].map((element) => element.getBoundingClientRect());
    const scale = svg.width / this.frame.width;
    const [left, top] = [svg.left - figure.left + x * scale, svg.top - figure.top + y * scale];
    const beside = left > svg.width / 2 ? left - this.tip.offsetWidth - 12 : left + 12;
    this.tip.style.left = `${Math.max(beside, 0)}px`;
    this.tip.style.top = `${top + 12}px`;
  }

  leave() {
    this.tip.hidden = true;
    this.here.setAttribute("visibility", "hidden");
  }
}

document.querySelectorAll("figure").forEach((figure, number) => {
  if (figure.querySelector("svg[data-frame]")) FIGURES.push(new Figure(figure, number));
});
