// Flame graphs: in which functions processors were, in a stretch of time that the reader chooses.

/** Height of a frame, and the narrowest that is drawn, in pixels. */
const ROW = 18;
const NARROWEST = 2;

/** A time of so many nanoseconds. */
const duration = (ns) => {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, size]) => ns >= size) ?? ["ns", 1];
  return `${(ns / size).toPrecision(4)} ${unit}`;
};

const add = (place, name, more) => place.appendChild(Object.assign(document.createElement(name), more));

class FlameGraph {
  constructor(place) {
    Object.assign(this, JSON.parse(place.dataset.flame));
    this.root = null;
    this.view = null;
    this.choose(place);
    this.ends = ["from", "to"].map((word, number) => {
      const label = add(place, "label", { textContent: `${word} ` });
      const last = this.counts.length;
      const input = add(label, "input", { type: "range", min: 0, max: last, value: number * last });
      this[word] = add(label, "span", {});
      input.addEventListener("input", () => this.draw());
      return input;
    });
    this.told = add(place, "output", {});
    this.stack = add(place, "div", { className: "stack" });
    addEventListener("resize", () => this.draw());
    this.draw();
  }

  /** A choice among all samples and those of each view. */
  choose(place) {
    if (!this.views.length) return;
    const label = add(place, "label", { textContent: "samples " });
    const select = add(label, "select", {});
    add(select, "option", { textContent: "of all times", value: "" });
    this.views.forEach(({ name }, number) => add(select, "option", { textContent: `while ${name}`, value: number }));
    select.addEventListener("change", () => {
      this.view = select.value === "" ? null : this.views[Number(select.value)].counts;
      for (const end of this.ends) end.disabled = this.view !== null;
      this.draw();
    });
  }

  /** Samples of each node with what it calls, between the two ends, or those of a view. */
  sum(from, to) {
    const whole = new Float64Array(this.nodes.length);
    for (const counts of this.view ? [this.view] : this.counts.slice(from, to)) {
      for (let place = 0; place < counts.length; place += 2) whole[counts[place]] += counts[place + 1];
    }
    // A caller has a smaller number.
    for (let node = this.nodes.length - 1; node >= 0; node -= 1) {
      const [parent] = this.nodes[node];
      if (parent !== node) whole[parent] += whole[node];
    }
    return whole;
  }

  draw() {
    const [one, other] = this.ends.map((end) => Number(end.value));
    const [from, to] = [Math.min(one, other), Math.max(one, other)];
    const time = (place) => duration(this.begin + place * this.stretch);
    [this.from.textContent, this.to.textContent] = [time(one), time(other)];
    const whole = this.sum(from, to);
    const children = new Map();
    this.nodes.forEach(([parent], node) => {
      const caller = parent === node ? -1 : parent;
      if (whole[node] > 0) children.set(caller, [...(children.get(caller) ?? []), node]);
    });
    const roots = this.root === null ? children.get(-1) ?? [] : [this.root];
    const all = roots.reduce((sum, node) => sum + whole[node], 0);
    this.stack.replaceChildren();
    this.tell(all === 0 ? "No processor was busy then." : "");
    const width = this.stack.clientWidth;
    let depths = 0;
    const place = (nodes, left, depth) => {
      for (const node of [...nodes].sort((a, b) => whole[b] - whole[a])) {
        const wide = (whole[node] / all) * width;
        if (wide < NARROWEST) continue;
        depths = Math.max(depths, depth + 1);
        this.frame(node, [left, depth, wide], whole[node], all);
        place(children.get(node) ?? [], left, depth + 1);
        left += wide;
      }
    };
    if (all > 0) place(roots, 0, 0);
    this.stack.style.height = `${depths * ROW}px`;
  }

  frame(node, [left, depth, wide], count, all) {
    const name = this.names[this.nodes[node][1]];
    const text = `${name}: ${duration(count * this.interval)}, ${((100 * count) / all).toFixed(1)} %`;
    const frame = add(this.stack, "button", { type: "button", textContent: wide > 30 ? name : "", title: text });
    Object.assign(frame.style, { left: `${left}px`, top: `${depth * ROW}px`, width: `${wide}px` });
    frame.setAttribute("aria-label", text);
    for (const event of ["pointerenter", "focus"]) frame.addEventListener(event, () => this.tell(text));
    frame.addEventListener("click", () => {
      const [parent] = this.nodes[node];
      // A click on the lowest frame goes back to its caller.
      this.root = this.root === node ? (parent === node ? null : parent) : node;
      this.draw();
      this.tell(text);
    });
  }

  tell(text) {
    this.told.textContent = text || "Each frame is a function, what it calls is below it; a click shows it alone.";
  }
}

for (const place of document.querySelectorAll(".flame")) new FlameGraph(place);
