"use strict";
// Draws the reports of the page. One run, or two (A solid, B dashed); nothing is fetched.

const runs = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const tip = document.getElementById("tip");
const isPair = runs.length > 1;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// 12345 as "12,345", 0.1234 as "0.123".
function told(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3;
  return Number(value.toFixed(digits)).toLocaleString("en");
}

function short(value) {
  if (value >= 1e6) return told(value / 1e6) + "M";
  if (value >= 1e4) return told(value / 1e3) + "k";
  return told(value);
}

// Round steps of which about `count` make up `max`.
function steps(max, count) {
  const rough = max / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, n) => n * step);
}

function card(title, text, wide) {
  const made = element("section", { class: wide ? "card wide" : "card" });
  made.append(element("h2", {}, title), element("p", { class: "soft" }, text));
  return made;
}

function showTip(event, lines) {
  tip.replaceChildren(...lines.map((line) => element("div", {}, line)));
  tip.hidden = false;
  const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
  tip.style.left = (right ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16) + "px";
  tip.style.top = Math.min(event.clientY + 12, window.innerHeight - tip.offsetHeight - 8) + "px";
}

function hideTip() { tip.hidden = true; }

// A chart of lines. A series has a name, a colour, the number of its run, and points [x, y].
function chart({ title, text, series, xUnit, yUnit, wide, phases }) {
  const lines = series.filter((one) => one.points.length > 1);
  if (lines.length === 0) return [];
  const [width, height] = wide ? [1120, 300] : [540, 250];
  const [left, right, top, bottom] = [58, 14, 22, 34];
  const all = lines.flatMap((one) => one.points);
  const xMax = Math.max(...all.map(([x]) => x)) || 1;
  const ySteps = steps(Math.max(...all.map(([, y]) => y)) || 1, 4);
  const yMax = ySteps[ySteps.length - 1];
  const toX = (x) => left + (x / xMax) * (width - left - right);
  const toY = (y) => height - bottom - (y / yMax) * (height - top - bottom);

  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const y of ySteps) {
    svg.append(drawn("line", { class: "gridline", x1: left, x2: width - right, y1: toY(y), y2: toY(y) }));
    svg.append(drawn("text", { x: left - 8, y: toY(y) + 4, "text-anchor": "end" }, short(y)));
  }
  svg.append(drawn("text", { x: left - 8, y: 10, "text-anchor": "end" }, yUnit));
  const xSteps = steps(xMax, wide ? 10 : 5).filter((x) => x <= xMax);
  for (const x of xSteps) {
    svg.append(drawn("text", { x: toX(x), y: height - bottom + 18, "text-anchor": "middle" }, short(x)));
  }
  svg.append(drawn("text", { x: width - right, y: height - 2, "text-anchor": "end" }, xUnit));
  for (const [name, x] of phases || []) {
    svg.append(drawn("line", { class: "phase", x1: toX(x), x2: toX(x), y1: top, y2: height - bottom }));
    svg.append(drawn("text", { x: toX(x) - 5, y: top - 4, "text-anchor": "end" }, name));
  }
  for (const one of lines) {
    const path = one.points.map(([x, y], n) => `${n ? "L" : "M"}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`);
    const classes = one.run === 1 ? "series second" : "series";
    svg.append(drawn("path", { class: classes, d: path.join(""), style: `stroke: var(${one.colour})` }));
  }
  const cursor = drawn("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
  svg.append(cursor);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const x = Math.min(Math.max(((at - left) / (width - left - right)) * xMax, 0), xMax);
    cursor.setAttribute("x1", toX(x));
    cursor.setAttribute("x2", toX(x));
    cursor.setAttribute("visibility", "visible");
    const values = lines.map((one) => `${one.name}: ${told(nearest(one.points, x)[1])} ${yUnit}`);
    showTip(event, [`${told(x)} ${xUnit}`, ...values]);
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });

  const made = card(title, text, wide);
  const legend = lines.map((one) => element("span", {},
    element("i", { style: `border-color: var(${one.colour})`, class: one.run === 1 ? "second" : "" }), one.name));
  made.append(element("div", { class: "legend" }, ...legend), svg);
  return [made];
}

function nearest(points, x) {
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= x) low = middle; else high = middle;
  }
  return x - points[low][0] < points[high][0] - x ? points[low] : points[high];
}

// Series of samples: pairs of name and value of a sample; samples without a value are left out.
function ofSamples(values) {
  return runs.flatMap(({ letter, report }, run) => values.map(([name, value], n) => ({
    name: letter ? `${letter} ${name}` : name,
    colour: `--s${n % 6}`,
    run,
    points: report.samples.map((sample) => [sample.seconds, value(sample)]).filter(([, y]) => y != null),
  })));
}

function processNames() {
  return [...new Set(runs.flatMap(({ report }) => report.processes.map((process) => process.name)))];
}

function ofProcesses(value) {
  return ofSamples(processNames().map((name) => [name, (sample) => sample.processes[name] && value(sample.processes[name])]));
}

// Processors in use: CPU time from one sample to the next, by the time between.
function cpuSeries() {
  const series = ofProcesses((process) => process.cpuSeconds);
  // Linux counts CPU time in hundredths of a second: over less than half a second it only flickers.
  const window = 0.5;
  for (const one of series) {
    const spent = one.points;
    let from = 0;
    one.points = spent.flatMap(([x, y], n) => {
      while (from + 1 < n && x - spent[from + 1][0] >= window) from += 1;
      return n > 0 && x > spent[from][0] ? [[x, (y - spent[from][1]) / (x - spent[from][0])]] : [];
    });
  }
  return series;
}

function ofPercentiles(...kinds) {
  return runs.flatMap(({ letter, report }, run) => kinds.map(([name, key], n) => ({
    name: letter ? `${letter} ${name}` : name,
    colour: `--s${n}`,
    run,
    points: report[key].percentiles.map((value, percent) => [percent, value]),
  })));
}

// Where phases end, but for the last.
function phaseEnds() {
  if (isPair) return [];
  let at = 0;
  return runs[0].report.phases.slice(0, -1).map(({ name, seconds }) => [name, (at += seconds)]);
}

// Dark to bright, readable on both grounds and for all eyes.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function ramp(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const [low, part] = [Math.min(Math.floor(at), RAMP.length - 2), at - Math.min(Math.floor(at), RAMP.length - 2)];
  return RAMP[low].map((from, n) => Math.round(from + (RAMP[low + 1][n] - from) * part));
}

function heatMap({ letter, report }) {
  const { completions, perCell, done } = report.indexes;
  const columns = Math.min(done.length, 125);
  const rows = Math.ceil(done.length / columns);
  const end = Math.max(...done.map((at) => at || 0), 1e-9);
  const canvas = element("canvas", { width: columns, height: rows, role: "img", "aria-label": "when each index was done" });
  canvas.style.height = Math.min(Math.max(rows * 7, 28), 280) + "px";
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  done.forEach((at, cell) => {
    const colour = at == null ? [150, 150, 150] : ramp(at / end);
    image.data.set([...colour, at == null ? 90 : 255], cell * 4);
  });
  context.putImageData(image, 0, 0);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const cell = Math.floor(((event.clientY - box.top) / box.height) * rows) * columns + column;
    if (!(cell in done)) return hideTip();
    const [first, last] = [cell * perCell, Math.min((cell + 1) * perCell, completions) - 1];
    const which = first === last ? `index ${first}` : `indexes ${first} to ${last}`;
    showTip(event, [which, done[cell] == null ? "not all done" : `done after ${told(done[cell])} s`]);
  });
  canvas.addEventListener("pointerleave", hideTip);
  const each = perCell === 1 ? "Each cell is one index" : `Each cell is ${perCell} neighbouring indexes, by its last`;
  const made = card(`When each index was done${letter ? ", " + letter : ""}`,
    `${each}; from left to right, then down. Grey was never done.`, true);
  const colours = [0, 0.25, 0.5, 0.75, 1].map((share) => `rgb(${ramp(share)})`);
  const scale = element("div", { class: "scale" }, "0 s",
    element("div", { style: `background: linear-gradient(90deg, ${colours})` }), `${told(end)} s`);
  made.append(canvas, scale);
  return made;
}

function headline() {
  const made = element("header");
  const titles = runs.map(({ letter, report }) => `${letter ? letter + ": " : ""}${report.scenario} by ${report.settings.controller}`);
  made.append(element("h1", {}, titles.join("  ·  ")));
  for (const { letter, report } of runs) {
    const { settings, outcome, machine } = report;
    const facts = [
      `${settings.size.toLocaleString("en")} Pods`, `parallelism ${settings.parallelism.toLocaleString("en")}`,
      `cluster ${settings.cluster}`, settings.callLatencyMs ? `${settings.callLatencyMs} ms added to each call` : "",
      settings.podDurationMs ? `Pods of ${settings.podDurationMs} ms` : "Pods of no duration",
      ...settings.controllerFlags, `${machine.processors} processors`, report.started,
    ];
    made.append(element("p", { class: "soft" }, (letter ? letter + ": " : "") + facts.filter(Boolean).join(" · ")));
    const came = `Jobs: ${outcome.jobsComplete.toLocaleString("en")} Complete, ${outcome.jobsFailed.toLocaleString("en")} Failed. `
      + `Pods: ${outcome.podsSucceeded.toLocaleString("en")} succeeded, ${outcome.podsFailed.toLocaleString("en")} failed, `
      + `${outcome.podsCounted.toLocaleString("en")} counted.`;
    made.append(element("p", {}, came));
    if (outcome.timedOut) made.append(element("p", { class: "bad" }, "The time ran out before the end."));
    if (machine.debugBuild) made.append(element("p", { class: "bad" }, "A debug build: the figures say nothing."));
  }
  return made;
}

function tiles() {
  const wanted = ["wall time", "Pods", "CPU per Pod, controller", "peak memory, controller",
    "Pod finished to counted, p99", "Job to first Pod, p99"];
  const made = element("div", { class: "tiles" });
  for (const name of wanted) {
    const values = runs.flatMap(({ letter, figures }) => figures.filter((figure) => figure.name === name)
      .map((figure) => element("div", { class: "value" }, ...(letter ? [element("span", { class: "letter" }, letter)] : []), figure.told)));
    if (values.length > 0) made.append(element("div", { class: "tile" }, element("div", { class: "name" }, name), ...values));
  }
  return made;
}

function table() {
  const names = [...new Set(runs.flatMap(({ figures }) => figures.map((figure) => figure.name)))];
  const made = element("table");
  if (isPair) {
    made.append(element("tr", {}, element("th", {}, ""), ...["A", "B", "B / A"].map((head) => element("th", { class: "figure" }, head))));
  }
  for (const name of names) {
    const found = runs.map(({ figures }) => figures.find((figure) => figure.name === name));
    const cells = found.map((figure) => figure ? figure.told : "–");
    if (isPair) cells.push(found.every(Boolean) && found[0].value ? (found[1].value / found[0].value).toFixed(2) : "–");
    made.append(element("tr", {}, element("td", {}, name), ...cells.map((cell) => element("td", { class: "figure" }, cell))));
  }
  const section = card("All figures", "Calls are counted by the API server, whoever made them.", true);
  section.append(made);
  return section;
}

function phasesTable() {
  const phases = runs.flatMap(({ letter, report }) => report.phases.length < 2 ? []
    : report.phases.map(({ name, seconds }) => [letter ? `${letter} ${name}` : name, `${told(seconds)} s`]));
  if (phases.length === 0) return [];
  const section = card("Parts of the run", "One after the other.", true);
  section.append(element("table", {}, ...phases.map(([name, time]) =>
    element("tr", {}, element("td", {}, name), element("td", { class: "figure" }, time)))));
  return [section];
}

const grid = element("div", { class: "grid" });
grid.append(
  ...chart({
    title: "Progress", text: "Pods by what has become of them. Counted: finished, and the finalizer is off.",
    series: ofSamples([["created", (s) => s.created], ["succeeded", (s) => s.succeeded], ["counted", (s) => s.counted],
      ["active", (s) => s.active], ["failed", (s) => s.failed || null]]),
    xUnit: "s", yUnit: "Pods", wide: true, phases: phaseEnds(),
  }),
  ...chart({
    title: "Writes in the controller", text: "Writes that wait for their turn or are under way.",
    series: ofSamples([["writes", (s) => s.writesPending]]), xUnit: "s", yUnit: "writes",
  }),
  ...chart({
    title: "Pod finished to counted, over time", text: "Of the Pods that were counted since the sample before.",
    series: ofSamples([["p50", (s) => s.countedP50Ms], ["p99", (s) => s.countedP99Ms]]), xUnit: "s", yUnit: "ms",
  }),
  ...chart({
    title: "Latencies by percentile", text: "So many percent waited at most so long.",
    series: ofPercentiles(["Pod finished to counted", "finishedToCounted"],
      ...(runs.some(({ report }) => report.createdToFirstPod.count > 1) ? [["Job to first Pod", "createdToFirstPod"]] : [])),
    xUnit: "percent", yUnit: "ms",
  }),
  ...chart({
    title: "Memory", text: "Resident memory of each process.",
    series: ofProcesses((process) => process.rssMib), xUnit: "s", yUnit: "MiB",
  }),
  ...chart({
    title: "Memory of the controller", text: "The same, by itself.",
    series: ofSamples([["controller", (s) => s.processes.controller && s.processes.controller.rssMib]]),
    xUnit: "s", yUnit: "MiB",
  }),
  ...chart({
    title: "Processors in use", text: "CPU time by wall time of each process, over half a second.",
    series: cpuSeries(), xUnit: "s", yUnit: "CPUs",
  }),
  ...phasesTable(),
  ...runs.filter(({ report }) => report.indexes).map(heatMap),
  table(),
);
page.append(headline(), tiles(), grid);
