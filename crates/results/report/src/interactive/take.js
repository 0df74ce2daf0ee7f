// A plot to take away: its drawing as SVG and PNG, its figures as CSV.

/** Pixels of a PNG for each unit of the drawing. */
const DENSITY = 3;
/** What a drawing's look is made of: away from the page no style sheet has it. */
const LOOK = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "visibility",
];
/** Heights of the title and of a row of the legend, and the place of an entry's name beside its sample. */
const TITLE_ROW = 26;
const LEGEND_ROW = 18;
const SAMPLE = 18;

/** The plot as one SVG, with title and legend, without what is hidden. */
function drawing({ figure, svg, frame, title }) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const copy = svg.cloneNode(true);
  const [own, copied] = [svg, copy].map((root) => [...root.querySelectorAll("*")]);
  own.forEach((element, index) => {
    const style = getComputedStyle(element);
    const into = copied[index];
    if (style.display === "none" || element.matches(".hit,.here,.zoom,.cursor")) return into.remove();
    for (const { name } of [...into.attributes]) if (name === "class" || name.startsWith("data-")) into.removeAttribute(name);
    for (const name of LOOK) into.style.setProperty(name, style.getPropertyValue(name));
    return undefined;
  });
  const font = getComputedStyle(figure).fontFamily;
  const head = make("g", { style: `font-family: ${font}` });
  head.append(make("text", { x: 0, y: 15, style: `font-size: 14px; font-weight: 600; fill: ${colour("--ink")}` }, title));
  let [x, y] = [0, TITLE_ROW];
  for (const entry of figure.querySelectorAll(".legend > *")) {
    if (entry.getAttribute("aria-pressed") === "false") continue;
    const width = SAMPLE + entry.textContent.length * CHARACTER + 14;
    if (x > 0 && x + width > frame.width) [x, y] = [0, y + LEGEND_ROW];
    const style = getComputedStyle(entry.querySelector("i"));
    const line = parseFloat(style.borderTopWidth);
    const [fill, tall] = line > 0 ? [style.borderTopColor, line] : [style.backgroundColor, 9];
    head.append(make("rect", { x, y: y + 5 - tall / 2, width: 12, height: tall, style: `fill: ${fill}; opacity: ${style.opacity}` }));
    head.append(make("text", { x: x + SAMPLE, y: y + 9, style: `font-size: 12px; fill: ${colour("--soft")}` }, entry.textContent));
    x += width;
  }
  const above = (x > 0 ? y + LEGEND_ROW : TITLE_ROW) + 4;
  const body = make("g", { transform: `translate(0 ${above})` });
  body.append(...copy.childNodes);
  const [width, height] = [frame.width, frame.height + above];
  const out = make("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height });
  out.append(make("rect", { width, height, style: `fill: ${colour("--paper")}` }), head, body);
  return { text: new XMLSerializer().serializeToString(out), width, height };
}

/** A plot's figures as rows: of points their values in the axes' smallest units, of boxes and dots what they tell. */
function figuresOf({ svg, marks, names, x, y }) {
  const unit = (axis) => (axis.quantity === "share" ? "share" : unitOf(axis, 0)[0]);
  const named = (axis) => (unit(axis) ? `${axis.label} (${unit(axis)})` : axis.label);
  const paths = marks.filter((mark) => mark instanceof Path && !mark.hidden);
  if (paths.length) {
    const details = paths.find((path) => path.details.length)?.details ?? [];
    const detailed = details.map((each) => (each.quantity === "bytes" ? `${each.name} (B)` : each.name));
    const rows = paths.flatMap((path) => path.points.map(([across, up], index) => {
      const more = details.map((_, place) => path.details[place]?.values[index] ?? "");
      return [names[path.element.dataset.s] ?? "", across, up, ...more];
    }));
    return [["series", named(x), named(y), ...detailed], ...rows];
  }
  const rows = [...svg.querySelectorAll("[data-t]")].filter((element) => element.style.display !== "none").map((element) => {
    const [told, ...about] = element.dataset.t.split("\n");
    const split = told.lastIndexOf(": ");
    const [from = "", to = ""] = numbers(element.dataset.x);
    return [told.slice(0, split), told.slice(split + 2), from, to, about.join(" ")];
  });
  const ends = x ? ["from", "to"].map((end) => `${end}: ${named(x)}`) : ["from", "to"];
  return [["what", "figure", ...ends, "more"], ...rows];
}

function csvOf(rows) {
  const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll("\"", "\"\"")}"` : value);
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/** Gives the reader a file. */
function save(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function picture({ text, width, height }, name) {
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: width * DENSITY, height: height * DENSITY });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob), "image/png");
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

/** Buttons below a plot that save it. */
function takeAway(plot) {
  const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  const section = plot.figure.closest("section")?.querySelector("h2")?.textContent ?? "";
  const name = slug([section, plot.title].join(" ")) || "plot";
  const ways = {
    SVG: () => save(`${name}.svg`, new Blob([drawing(plot).text], { type: "image/svg+xml" })),
    PNG: () => picture(drawing(plot), `${name}.png`),
    CSV: () => save(`${name}.csv`, new Blob([csvOf(figuresOf(plot))], { type: "text/csv" })),
  };
  const row = Object.assign(document.createElement("div"), { className: "take" });
  for (const [way, act] of Object.entries(ways)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: way });
    button.title = way === "CSV" ? "save the plot's figures" : "save the plot as it is now";
    button.addEventListener("click", act);
    row.append(button);
  }
  plot.svg.after(row);
}
