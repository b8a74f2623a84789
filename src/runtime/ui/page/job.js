// One Job with a map of its indexes.
//
// An index is one byte here, and one pixel of a picture that is drawn large or small as one looks closer or from afar.

import { $, drawn, element, listen, say, soon } from "./common.js";
import * as failures from "./failures.js";
import { part, stateOf } from "./jobs.js";

const STATES = ["waiting", "pending", "running", "succeeded", "failed", "backoff"];
const CODE = Object.fromEntries(STATES.map((state, code) => [state, code]));
const WORDS = { waiting: "waiting", pending: "pending", running: "running", succeeded: "succeeded", failed: "failed", backoff: "in backoff" };

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

export function show(shown) {
  path = shown;
  $("job-title").textContent = path.split("/").map(decodeURIComponent).join("/");
  $("summary").textContent = "";
  $("notes").replaceChildren();
  chosen = null;
  $("chosen").replaceChildren();
  begin(0, true);
  drawLegend();
  failures.begin({ path, failedIndexes, choose: (index) => choose(index, true) });
  const gone = () => ($("summary").textContent = "No such Job is known.");
  listen(`/ui/jobs/${path}`, { job: hearJob, gone });
}

export function forget() {
  path = null;
}

function failedIndexes() {
  const failed = [];
  states.forEach((code, index) => code === CODE.failed && failed.push(index));
  return failed;
}

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
  failures.hear(job);
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

export function follow() {
  readPalette();
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
        // Around what lies between the fingers.
        const now = distance(pointers);
        if (apart > 0) zoom(now / apart, ...middle(pointers));
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
    const centre = [map.clientWidth / 2, map.clientHeight / 2];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (x || y) {
      if (event.shiftKey) move(-x * 60, -y * 60);
      else if (states.length) choose(Math.max(0, Math.min(states.length - 1, (chosen ?? 0) + x + y * columns)), false);
    } else if (event.key === "+" || event.key === "=") zoom(1.5, ...centre);
    else if (event.key === "-") zoom(1 / 1.5, ...centre);
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
  addEventListener("resize", () => {
    if (path == null) return;
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

function middle(pointers) {
  const [one, other] = [...pointers.values()];
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
}
