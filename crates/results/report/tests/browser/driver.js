// What a reader does with a page's plots, and what the page then shows: as JSON in #seen.

const seen = { errors: [] };
window.addEventListener("error", (event) => seen.errors.push(event.message));

/** An event of the pointer at a place in units of a drawing. */
function pointer(svg, type, x, y) {
  const box = svg.getBoundingClientRect();
  const scale = box.width / svg.viewBox.baseVal.width;
  const [clientX, clientY] = [box.left + x * scale, box.top + y * scale];
  const init = { bubbles: true, clientX, clientY, button: 0, pointerId: 1, pointerType: "mouse" };
  svg.dispatchEvent(new PointerEvent(type, init));
}

/** All numbers by which a figure is drawn, and the texts of its axes. */
function drawn(figure) {
  const numbers = (text) => (text ?? "").match(/-?\d+(\.\d+)?/g)?.map(Number) ?? [];
  const marks = [...figure.querySelectorAll("[data-v],[data-x],[data-box]")];
  const places = marks.map((mark) => {
    // Dots on one place may be told once.
    const kept = mark.dataset.kind === "dots" ? [...new Set(mark.getAttribute("d").match(/M[^M]*/g))].sort().join("") : mark.getAttribute("d");
    return ["x", "x1", "x2", "width", "cx", "cy"].flatMap((name) => numbers(mark.getAttribute(name))).concat(numbers(kept));
  });
  const texts = [...figure.querySelectorAll("[data-axis] text")].map((text) => text.textContent);
  return { places, texts };
}

/** How far two drawings are apart, at the most; what differs in kind is very far. */
function apart(one, other) {
  if (one.texts.join() !== other.texts.join()) return `${one.texts} / ${other.texts}`;
  let far = 0;
  one.places.forEach((places, mark) => {
    const others = other.places[mark];
    if (places.length !== others.length) far = Math.max(far, 1e6 + Math.abs(places.length - others.length));
    else places.forEach((place, index) => { far = Math.max(far, Math.abs(place - others[index])); });
  });
  return far;
}

const titled = (text) => [...document.querySelectorAll("figure")].find((figure) => figure.querySelector("figcaption").textContent.includes(text));
const tip = (figure) => { const box = figure.querySelector(".tip"); return box.hidden ? null : box.textContent; };
const labels = (figure, axis) => [...figure.querySelectorAll(`.${axis}-axis text`)].map((text) => text.textContent);

/** The whole course of a reader at one plot of points. */
function used(figure) {
  const svg = figure.querySelector("svg");
  const [left, top, right, bottom] = svg.dataset.frame.split(" ").map(Number);
  const dots = figure.querySelector("[data-kind=dots]");
  const first = drawn(figure);
  const course = {};
  const [x, y] = dots.getAttribute("d").match(/M(\S+) (\S+?)h/).slice(1).map(Number);
  pointer(svg, "pointermove", x, y);
  course.tip = tip(figure);
  const lines = () => [...document.querySelectorAll(".cursor[visibility=visible]")].map((line) => line.closest("figure").querySelector("figcaption").textContent);
  course.linked = lines();
  pointer(svg, "pointerleave", x, y);
  course.gone = tip(figure);
  course.unlinked = lines();
  const count = () => (dots.getAttribute("d").match(/M/g) ?? []).length;
  const all = (svg.dispatchEvent(new MouseEvent("dblclick", { bubbles: true })), count());
  pointer(svg, "pointerdown", left + 10, (top + bottom) / 2);
  pointer(svg, "pointermove", left + (right - left) / 4, (top + bottom) / 2);
  course.choosing = Boolean(svg.querySelector(".zoom"));
  pointer(svg, "pointerup", left + (right - left) / 4, (top + bottom) / 2);
  course.zoomed = { share: count() / all, labels: labels(figure, "x"), before: first.texts };
  const peer = titled("I/Os per second");
  course.zoomed.peer = peer && labels(peer, "x");
  svg.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
  course.reset = apart(first, drawn(figure));
  course.peer = peer && labels(peer, "x");
  const [entry] = figure.querySelectorAll(".legend button");
  entry.click();
  course.hidden = [dots.style.display, entry.getAttribute("aria-pressed")];
  entry.click();
  course.shown = [dots.style.display, entry.getAttribute("aria-pressed")];
  const scales = [...figure.querySelectorAll(".tools button")];
  course.scales = scales.map((button) => button.textContent);
  scales[1].click();
  course.switched = { button: scales[1].textContent, labels: labels(figure, "y") };
  scales[1].click();
  course.back = apart(first, drawn(figure));
  return course;
}

/** The parts of an I/O's time that a click on one of the slowest opens, and whether the keyboard is there. */
function opened(figure) {
  const svg = figure.querySelector("svg");
  const slow = [...figure.querySelectorAll("[data-kind=dots]")].at(-1);
  const order = Number(slow.dataset.d.split(";").find((detail) => detail.startsWith("order|")).split("|")[2].split(" ")[0]);
  const [x, y] = slow.getAttribute("d").match(/M(\S+) (\S+?)h/).slice(1).map(Number);
  for (const type of ["pointerdown", "pointerup"]) pointer(svg, type, x, y);
  const [times, ...others] = [...document.querySelectorAll("details[data-orders][open]")];
  if (!times || others.length) return null;
  const shown = times.checkVisibility() && document.activeElement === times.querySelector("summary");
  return { order, orders: times.dataset.orders, shown, parts: [...times.querySelectorAll("li")].map((part) => part.textContent) };
}

/** What a reader takes away of a figure, by the files' names: texts, and of a picture its size and its beginning. */
async function taken(figure) {
  const files = {};
  const texts = new Map();
  // At once, without waiting: a headless browser's time may be over before the file is read.
  window.Blob = class { constructor(parts) { this.text = parts.join(""); } };
  URL.createObjectURL = (blob) => { texts.set(`blob:${texts.size}`, blob.text); return `blob:${texts.size - 1}`; };
  HTMLCanvasElement.prototype.toBlob = function (then, type) {
    then(new Blob([`${this.width} x ${this.height} ${this.toDataURL(type).slice(0, 60)}`]));
  };
  const saved = new Promise((resolve) => {
    HTMLAnchorElement.prototype.click = function () {
      files[this.download] = texts.get(this.href);
      if (Object.keys(files).length === 3) resolve();
    };
    setTimeout(resolve, 5000);
  });
  figure.querySelectorAll(".take button").forEach((button) => button.click());
  await saved;
  return files;
}

window.addEventListener("load", async () => {
  try {
    seen.live = document.querySelectorAll("figure.live").length;
    seen.figures = document.querySelectorAll("figure").length;
    // Drawn by the script, every plot is what was there without it.
    seen.again = [...document.querySelectorAll("figure")].map((figure) => {
      const before = drawn(figure);
      figure.querySelector("svg").dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
      return [figure.querySelector("figcaption").textContent, apart(before, drawn(figure))];
    });
    seen.wide = document.documentElement.scrollWidth > window.innerWidth;
    const cloud = titled("over time: ");
    if (cloud) seen.used = used(cloud);
    if (cloud) seen.opened = opened(cloud);
    const curve = titled("Its upper tail") ?? titled("Upper tail");
    if (curve) {
      const spot = curve.querySelector(".hit") ?? curve.querySelector("path[data-kind]");
      const [x, y] = spot.getAttribute("cx") ? [spot.getAttribute("cx"), spot.getAttribute("cy")].map(Number) : spot.getAttribute("d").match(/M(\S+) (\S+?)V/).slice(1).map(Number);
      pointer(curve.querySelector("svg"), "pointermove", x, y);
      seen.curve = tip(curve);
      pointer(curve.querySelector("svg"), "pointerleave", x, y);
    }
    const bar = document.querySelector("rect.fill[data-x]");
    if (bar) {
      const box = bar.getBoundingClientRect();
      bar.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left, clientY: box.top }));
      seen.bar = tip(bar.closest("figure"));
      pointer(bar.ownerSVGElement, "pointerleave", 0, 0);
      seen.takenBars = await taken(bar.closest("figure"));
    }
    if (cloud) seen.taken = await taken(cloud);
  } catch (error) {
    seen.errors.push(String(error.stack ?? error));
  }
  const out = document.createElement("pre");
  out.id = "seen";
  out.hidden = true;
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
