// The page: a table of Jobs, or one Job with a map of its indexes.
//
// It hears of changes by server-sent events (stream.rs, changes.rs) and draws at most once a frame. An index is one byte
// here, and one pixel of a picture that is drawn large or small as one looks closer or from afar.

const STATES = ["waiting", "pending", "running", "succeeded", "failed", "backoff"];
const CODE = Object.fromEntries(STATES.map((state, code) => [state, code]));
const WORDS = { waiting: "waiting", pending: "pending", running: "running", succeeded: "succeeded", failed: "failed", backoff: "in backoff" };

const $ = (id) => document.getElementById(id);
const element = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text ?? "" }, more);
const number = new Intl.NumberFormat("en");
const say = (count) => (count == null ? "–" : number.format(count));

// ---- what is heard

let source = null;

function listen(path, handlers) {
  source?.close();
  source = new EventSource(path);
  source.onopen = () => ($("connection").textContent = "live");
  source.onerror = () => ($("connection").textContent = "the controller does not answer; trying again");
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => {
      $("connection").textContent = name === "busy" ? "the controller is busy" : "live";
      handle?.(JSON.parse(event.data));
    });
  }
}

// Runs of indexes, as changes.rs writes them.
function forRuns(text, each) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  let at = 0;
  const next = () => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  };
  let index = 0;
  while (at < bytes.length) {
    const head = next();
    const start = index + Math.floor(head / 2);
    index = start + (head % 2 ? next() + 2 : 1);
    each(start, index);
  }
}

let drawing = new Set();
function soon(draw) {
  if (drawing.size === 0) {
    requestAnimationFrame(() => {
      const all = drawing;
      drawing = new Set();
      for (const each of all) each();
    });
  }
  drawing.add(draw);
}

// ---- all Jobs

const ROW = 30;
const COLUMNS = [
  ["namespace", "Namespace", (job) => job.namespace],
  ["name", "Name", (job) => job.name],
  ["state", "State", stateOf],
  ["progress", "Progress", (job) => (job.completions ? job.succeeded / job.completions : job.succeeded)],
  ["succeeded", "Succeeded", (job) => job.succeeded ?? 0],
  ["failed", "Failed", (job) => job.failed ?? 0],
  ["active", "Active", (job) => job.active ?? 0],
  ["waits", "Waits for", (job) => job.waitsFor ?? ""],
];
const NUMBERS = new Set(["succeeded", "failed", "active"]);
const jobs = new Map();
let order = [];
let sort = { column: "namespace", up: true };

function stateOf(job) {
  return job.result ?? (job.suspend && job.state === "at work" ? "suspended" : job.state);
}

function hearJobs({ jobs: changed, gone }) {
  for (const job of changed) jobs.set(job.uid, job);
  for (const uid of gone) jobs.delete(uid);
  arrange();
}

function arrange() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = $("state").value;
  const fits = (job) => {
    const state = stateOf(job);
    const known = ["at work", "suspended", "Complete", "Failed"].includes(state);
    const name = `${job.namespace}/${job.name}`.toLowerCase();
    return (!wanted || (wanted === "other" ? !known : state === wanted)) && words.every((word) => name.includes(word));
  };
  const of = COLUMNS.find(([id]) => id === sort.column)[2];
  const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
  const keyed = [...jobs.values()].filter(fits).map((job) => [of(job), `${job.namespace}/${job.name}`, job]);
  keyed.sort((one, other) => (sort.up ? 1 : -1) * compare(one[0], other[0]) || compare(one[1], other[1]));
  order = keyed.map(([, , job]) => job);
  const all = jobs.size === order.length ? say(jobs.size) : `${say(order.length)} of ${say(jobs.size)}`;
  $("jobs-count").textContent = `(${all})`;
  $("no-jobs").hidden = jobs.size > 0;
  soon(drawRows);
}

function drawHead() {
  $("head").replaceChildren(...COLUMNS.map(([id, title]) => {
    const cell = element("th", "", { scope: "col", className: NUMBERS.has(id) ? "number" : "" });
    const is = sort.column === id;
    cell.setAttribute("aria-sort", is ? (sort.up ? "ascending" : "descending") : "none");
    const button = element("button", title + (is ? (sort.up ? " ▲" : " ▼") : ""), { type: "button" });
    button.onclick = () => {
      sort = { column: id, up: is ? !sort.up : !NUMBERS.has(id) && id !== "progress" };
      drawHead();
      arrange();
      $("head").children[COLUMNS.findIndex(([other]) => other === id)].firstChild.focus();
    };
    cell.append(button);
    return cell;
  }));
}

// Only the rows that can be seen are in the document.
function drawRows() {
  const box = $("rows");
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
  const last = Math.min(order.length, first + Math.ceil(box.clientHeight / ROW) + 20);
  const focused = document.activeElement?.closest?.("#body a")?.getAttribute("href");
  const space = (rows) => {
    const row = element("tr");
    const cell = element("td", "", { colSpan: COLUMNS.length });
    cell.style.height = `${rows * ROW}px`;
    cell.style.padding = "0";
    row.append(cell);
    row.setAttribute("aria-hidden", "true");
    return rows > 0 ? [row] : [];
  };
  $("body").replaceChildren(...space(first), ...order.slice(first, last).map(row), ...space(order.length - last));
  if (focused) $("body").querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function row(job) {
  const line = element("tr");
  for (const [id, , of] of COLUMNS) {
    const cell = element("td", NUMBERS.has(id) ? say(of(job)) : of(job), { className: NUMBERS.has(id) ? "number" : "" });
    if (id === "name") {
      cell.replaceChildren(element("a", job.name, { href: `#${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}` }));
    }
    if (id === "progress") cell.replaceChildren(bar(job), document.createTextNode(part(job)));
    line.append(cell);
  }
  return line;
}

function part(job) {
  return job.completions ? ` ${Math.floor((100 * (job.succeeded ?? 0)) / job.completions)} %` : "";
}

function bar(job) {
  const box = element("span", "", { className: "bar" });
  box.setAttribute("aria-hidden", "true");
  const all = job.completions || (job.succeeded ?? 0) + (job.active ?? 0) || 1;
  const svg = drawn("svg", { viewBox: `0 0 ${all} 1`, preserveAspectRatio: "none" });
  let at = 0;
  for (const [kind, count] of [["good", job.succeeded], ["bad", job.failedIndexes], ["busy", job.active]]) {
    svg.append(drawn("rect", { class: kind, x: at, y: 0, width: count ?? 0, height: 1 }));
    at += count ?? 0;
  }
  box.append(svg);
  return box;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// ---- one Job

let path = null; // of the Job that is shown
let states = new Uint8Array(0);
let counts = STATES.map(() => 0);
let chosen = null;
let ended = []; // [time, how many have ended], for the throughput
let picture = null; // one pixel for each index
let columns = 1;
let dirty = null; // rows of the picture that have changed
let view = { x: 0, y: 0, scale: 1 };
let palette = [];

function hearJob({ job, completions, anew, came }) {
  if (anew || completions !== states.length) begin(completions ?? 0, anew);
  for (const [state, runs] of Object.entries(came)) {
    const code = CODE[state];
    forRuns(runs, (start, end) => {
      for (let index = start; index < end; index++) {
        counts[states[index]]--;
        states[index] = code;
      }
      counts[code] += end - start;
      dirty.first = Math.min(dirty.first, Math.floor(start / columns));
      dirty.last = Math.max(dirty.last, Math.floor((end - 1) / columns));
    });
  }
  $("with-indexes").hidden = completions == null;
  $("without-indexes").hidden = completions != null;
  tell(job);
  note(job);
  soon(drawLegend);
  soon(drawMap);
  if (chosen != null) soon(() => tellChosen(false));
}

function begin(completions, anew) {
  states = new Uint8Array(completions);
  counts = STATES.map(() => 0);
  counts[CODE.waiting] = completions;
  dirty = { first: 0, last: -1 };
  if (anew) ended = [];
  fit();
}

// A shape like the canvas', in columns that are easy to count.
function fit() {
  const canvas = $("map");
  const shape = (canvas.clientWidth || 4) / (canvas.clientHeight || 3);
  const ideal = Math.sqrt(states.length * shape);
  const step = ideal > 100 ? 50 : ideal > 20 ? 10 : 1;
  columns = Math.max(1, Math.round(ideal / step) * step);
  const rows = Math.max(1, Math.ceil(states.length / columns));
  picture = new OffscreenCanvas(columns, rows);
  dirty = { first: 0, last: rows - 1 };
  showAll();
}

function showAll() {
  const { clientWidth: width, clientHeight: height } = $("map");
  const scale = Math.min(width / picture.width, height / picture.height);
  view = { scale, x: (width - picture.width * scale) / 2, y: (height - picture.height * scale) / 2 };
  soon(drawMap);
}

function tell(job) {
  $("job-title").textContent = `${job.namespace}/${job.name}`;
  document.title = `${job.name} – lakh`;
  const pods = job.overview?.pods;
  const words = [stateOf(job)];
  words.push(`${say(job.succeeded)} succeeded${part(job)}`, `${say(job.failed)} Pods failed`, `${say(job.active)} active`);
  if (pods) words.push(`${say(pods.ready)} ready`, `${say(pods.terminating)} terminating`);
  $("summary").textContent = words.join(", ");
  const notes = [...(job.heldUpBy ?? [])];
  for (const wait of job.overview?.waits ?? []) notes.push(`waits for ${wait.for}, until ${wait.until}`);
  const verdict = job.overview?.verdict;
  if (verdict) notes.push(`${verdict.condition}: ${verdict.reason}: ${verdict.message}`);
  for (const { reason, message, last } of job.warnings ?? []) notes.push(`Warning ${reason} (${last}): ${message}`);
  const before = [...$("notes").children].map((item) => item.textContent);
  if (before.join("\n") !== notes.join("\n")) $("notes").replaceChildren(...notes.map((text) => element("li", text)));
}

function drawLegend() {
  STATES.forEach((state, code) => {
    const item = $("legend").children[code] ?? $("legend").appendChild(legendItem(state));
    item.lastChild.textContent = `${WORDS[state]} ${say(counts[code])}`;
  });
  const told = STATES.map((state, code) => `${say(counts[code])} ${WORDS[state]}`).join(", ");
  $("map").setAttribute("aria-label", `Map of ${say(states.length)} indexes: ${told}`);
}

function legendItem(state) {
  const item = element("li");
  const swatch = drawn("svg", { viewBox: "0 0 1 1", "aria-hidden": "true" });
  swatch.append(drawn("rect", { width: 1, height: 1, class: state }));
  item.append(swatch, document.createTextNode(""));
  return item;
}

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = STATES.map((state) => {
    const hex = style.getPropertyValue(`--${state}`).trim().slice(1);
    const [red, green, blue] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
    // As the bytes lie in memory: red, green, blue, opacity.
    return new Uint32Array(new Uint8Array([red, green, blue, 255]).buffer)[0];
  });
  if (dirty) dirty = { first: 0, last: picture.height - 1 };
}

function paint() {
  const rows = dirty.last - dirty.first + 1;
  if (rows <= 0) return;
  const context = picture.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const start = dirty.first * columns;
  const end = Math.min(states.length, start + pixels.length);
  for (let index = start; index < end; index++) pixels[index - start] = palette[states[index]];
  context.putImageData(image, 0, dirty.first);
  dirty = { first: picture.height, last: -1 };
}

function drawMap() {
  if (!picture) return;
  paint();
  const canvas = $("map");
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = view.scale < 1;
  context.drawImage(picture, view.x, view.y, picture.width * view.scale, picture.height * view.scale);
  if (view.scale >= 7) drawGrid(context, width, height);
  if (chosen != null) {
    const [column, line] = [chosen % columns, Math.floor(chosen / columns)];
    const size = Math.max(view.scale, 6);
    const grow = (size - view.scale) / 2;
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 2;
    context.strokeRect(view.x + column * view.scale - grow, view.y + line * view.scale - grow, size, size);
  }
}

function drawGrid(context, width, height) {
  context.strokeStyle = getComputedStyle(document.body).backgroundColor;
  context.lineWidth = 1;
  context.beginPath();
  for (let column = Math.max(0, Math.ceil(-view.x / view.scale)); column <= columns; column++) {
    const x = view.x + column * view.scale;
    if (x > width) break;
    context.moveTo(x, 0);
    context.lineTo(x, height);
  }
  for (let line = Math.max(0, Math.ceil(-view.y / view.scale)); line <= picture.height; line++) {
    const y = view.y + line * view.scale;
    if (y > height) break;
    context.moveTo(0, y);
    context.lineTo(width, y);
  }
  context.stroke();
}

function zoom(by, x, y) {
  const least = Math.min($("map").clientWidth / picture.width, $("map").clientHeight / picture.height);
  const scale = Math.min(40, Math.max(Math.min(least, 1), view.scale * by));
  const grown = scale / view.scale;
  view = { scale, x: x - (x - view.x) * grown, y: y - (y - view.y) * grown };
  soon(drawMap);
}

function move(x, y) {
  view = { ...view, x: view.x + x, y: view.y + y };
  soon(drawMap);
}

function indexAt(x, y) {
  const [column, line] = [Math.floor((x - view.x) / view.scale), Math.floor((y - view.y) / view.scale)];
  const index = line * columns + column;
  return column >= 0 && column < columns && line >= 0 && index < states.length ? index : null;
}

function choose(index, asks) {
  chosen = index;
  if (index != null) {
    $("index").value = index;
    // Where it cannot be seen, it comes into sight.
    const [x, y] = [view.x + (index % columns) * view.scale, view.y + Math.floor(index / columns) * view.scale];
    const { clientWidth: width, clientHeight: height } = $("map");
    if (x < 0 || y < 0 || x + view.scale > width || y + view.scale > height) move(width / 2 - x, height / 2 - y);
  }
  soon(drawMap);
  tellChosen(asks);
}

let asked = 0;
async function tellChosen(asks) {
  const box = $("chosen");
  if (chosen == null) return box.replaceChildren();
  const line = `Index ${chosen}: ${WORDS[STATES[states[chosen]]]}`;
  if (!asks) {
    if (box.dataset.index !== String(chosen)) box.replaceChildren();
    box.dataset.index = chosen;
    if (box.firstChild?.textContent !== line) {
      box.firstChild?.nodeName === "P" ? (box.firstChild.textContent = line) : box.prepend(element("p", line));
    }
    return;
  }
  box.dataset.index = chosen;
  box.replaceChildren(element("p", line), element("p", "asking for its Pods …"));
  const number = ++asked;
  const answer = await fetch(`/ui/jobs/${path}/indexes/${chosen}`).catch((error) => error);
  if (number !== asked) return;
  const problem = answer.ok ? null : answer.text ? await answer.text() : String(answer);
  if (problem) return box.lastChild.replaceWith(element("p", `Its Pods are not known: ${problem}`));
  const { pods, record } = await answer.json();
  box.lastChild.replaceWith(pods.length === 0 && record ? recorded(record) : podTable(pods));
}

function recorded({ tries, last }) {
  const words = last ? [
    last.outcome, last.exitCode == null ? "" : `exit code ${last.exitCode}`, last.reason, last.node && `on ${last.node}`,
    last.started && `from ${last.started}`, last.ended && `to ${last.ended}`,
  ].filter(Boolean).join(", ") : "";
  return element("p", `Its Pods are gone. The controller saw ${tries} of them${words && `; the last that ended: ${words}`}.`);
}

function podTable(pods) {
  if (pods.length === 0) return element("p", "It has no Pods, or none that are still there.");
  const scroll = element("div", "", { className: "scroll" });
  const table = element("table");
  const head = element("tr");
  for (const title of ["Pod", "Phase", "Exit code", "Reason", "Node", "Created", "Ended", "Message"]) head.append(element("th", title, { scope: "col" }));
  table.append(element("thead"), element("tbody"));
  table.tHead.append(head);
  for (const pod of pods) {
    const each = (of) => pod.containers.map(of).filter((it) => it != null).join(", ");
    const phase = pod.deleting ? `${pod.phase}, being deleted` : pod.phase;
    const line = element("tr");
    for (const text of [
      pod.name, phase, each((it) => it.exitCode), pod.reason ?? each((it) => it.reason), pod.node ?? "",
      pod.created, each((it) => it.finished), pod.message ?? each((it) => it.message),
    ]) line.append(element("td", text));
    table.tBodies[0].append(line);
  }
  scroll.append(table);
  return scroll;
}

// ---- throughput

function note(job) {
  const now = performance.now() / 1000;
  ended.push([now, (job.succeeded ?? 0) + (job.failed ?? 0)]);
  if (ended.length > 2400) ended = ended.filter((_, place) => place % 2 === 0 || place === ended.length - 1);
  soon(drawRate);
}

function drawRate() {
  const canvas = $("rate");
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const begin = ended[0]?.[0] ?? 0;
  const span = Math.max(10, (ended.at(-1)?.[0] ?? 0) - begin);
  // A second at least to a step, else it shows how often was looked.
  const step = Math.max(1, span / (width / 3));
  const points = [];
  let from = ended[0];
  for (const at of ended) {
    if (at[0] - from[0] < step) continue;
    points.push([(at[0] + from[0]) / 2, (at[1] - from[1]) / (at[0] - from[0])]);
    from = at;
  }
  const most = Math.max(1, ...points.map(([, rate]) => rate));
  context.fillStyle = style.getPropertyValue("--faint");
  context.font = "12px system-ui, sans-serif";
  context.fillText(`${say(Math.round(most))}/s`, 6, 14);
  context.fillText(`${Math.round(span)} s`, width - 40, height - 6);
  context.strokeStyle = style.getPropertyValue("--running");
  context.lineWidth = 1.5;
  context.beginPath();
  points.forEach(([time, rate], place) => {
    const [x, y] = [((time - begin) / span) * width, height - 4 - (rate / most) * (height - 24)];
    place === 0 ? context.moveTo(x, y) : context.lineTo(x, y);
  });
  context.stroke();
  const last = points.at(-1)?.[1] ?? 0;
  canvas.setAttribute("aria-label", `Throughput since this page was opened: ${say(Math.round(last))} per second now, ${say(Math.round(most))} at most`);
}

// ---- what people do

function route() {
  const words = location.hash.slice(1).split("/");
  path = words.length === 2 && words.every(Boolean) ? words.join("/") : null;
  $("jobs").hidden = path != null;
  $("job").hidden = path == null;
  chosen = null;
  $("chosen").replaceChildren();
  if (path == null) {
    document.title = "lakh";
    jobs.clear();
    listen("/ui/jobs", { jobs: hearJobs, busy: null });
    return;
  }
  $("job-title").textContent = words.map(decodeURIComponent).join("/");
  $("summary").textContent = "";
  begin(0, true);
  drawLegend();
  const gone = () => ($("summary").textContent = "No such Job is known.");
  listen(`/ui/jobs/${path}`, { job: hearJob, gone, busy: null });
}

function follow() {
  const map = $("map");
  const pointers = new Map();
  let moved = 0;
  let apart = 0;
  const place = (event) => {
    const box = map.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  map.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), ...place(event));
  }, { passive: false });
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) moved = 0;
    apart = distance(pointers);
  });
  map.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const before = pointers.get(event.pointerId);
    if (before) {
      pointers.set(event.pointerId, [x, y]);
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      move((x - before[0]) / pointers.size, (y - before[1]) / pointers.size);
      if (pointers.size === 2) {
        const now = distance(pointers);
        if (apart > 0) zoom(now / apart, x, y);
        apart = now;
      }
    }
    const index = indexAt(x, y);
    $("tip").hidden = index == null || moved > 4 && pointers.size > 0;
    if (index != null) {
      $("tip").textContent = `${index}: ${WORDS[STATES[states[index]]]}`;
      $("tip").style.left = `${Math.max(0, Math.min(x + 12, map.clientWidth - 140))}px`;
      $("tip").style.top = `${Math.max(0, y - 34)}px`;
    }
  });
  const up = (event) => {
    const was = pointers.delete(event.pointerId);
    if (was && moved <= 4 && event.type === "pointerup") choose(indexAt(...place(event)), true);
  };
  map.addEventListener("pointerup", up);
  map.addEventListener("pointercancel", up);
  map.addEventListener("pointerleave", () => ($("tip").hidden = true));
  map.addEventListener("keydown", (event) => {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const [x, y] = arrows[event.key] ?? [0, 0];
    const middle = [map.clientWidth / 2, map.clientHeight / 2];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (x || y) {
      if (event.shiftKey) move(-x * 60, -y * 60);
      else if (states.length) choose(Math.max(0, Math.min(states.length - 1, (chosen ?? 0) + x + y * columns)), false);
    } else if (event.key === "+" || event.key === "=") zoom(1.5, ...middle);
    else if (event.key === "-") zoom(1 / 1.5, ...middle);
    else if (event.key === "0") showAll();
    else if (event.key === "Enter" && chosen != null) choose(chosen, true);
    else if (event.key === "Escape") choose(null, false);
    else return;
    event.preventDefault();
  });
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const index = Number.parseInt($("index").value, 10);
    if (index < states.length) {
      choose(index, true);
    } else {
      choose(null, false);
      $("chosen").replaceChildren(element("p", `There is no such index: they go from 0 to ${states.length - 1}.`));
    }
  });
  $("next").addEventListener("click", () => {
    const code = CODE[$("next-state").value];
    const from = chosen ?? -1;
    let found = states.indexOf(code, from + 1);
    if (found < 0) found = states.indexOf(code);
    if (found >= 0) choose(found, true);
    else $("chosen").replaceChildren(element("p", `No index is ${WORDS[STATES[code]]}.`));
  });
  $("next-state").append(...["failed", "backoff", "pending", "running", "waiting", "succeeded"].map((state) => element("option", WORDS[state], { value: state })));
  $("filter").addEventListener("input", arrange);
  $("state").addEventListener("input", arrange);
  $("rows").addEventListener("scroll", () => soon(drawRows));
  addEventListener("hashchange", route);
  addEventListener("resize", () => {
    if (path == null) return soon(drawRows);
    fit();
    soon(drawRate);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readPalette();
    soon(drawMap);
    soon(drawRate);
  });
}

function distance(pointers) {
  const [one, other] = [...pointers.values()];
  return other ? Math.hypot(one[0] - other[0], one[1] - other[1]) : 0;
}

readPalette();
drawHead();
follow();
route();
