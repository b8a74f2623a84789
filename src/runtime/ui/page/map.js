// The map: all indexes of a Job, by state.
//
// An index is one byte here, and one pixel of a picture that is drawn larger or smaller. The colours differ in lightness, and
// cells that are large enough have a sign. A failed index that is too small to be seen has a pale halo: the full colour covers
// its own cell only, so its share of the map is true.

import { $, drawn, say, setText, soon } from "./common.js";

export const STATES = ["waiting", "pending", "running", "succeeded", "failed", "backoff"];
const CODE = Object.fromEntries(STATES.map((state, code) => [state, code]));
const WORDS = { waiting: "waiting", pending: "pending", running: "running", succeeded: "succeeded", failed: "failed", backoff: "in backoff" };

const SIGNS = 10; // CSS pixels: cells of this size have signs
const AXIS = 36; // CSS pixels between two numbers of the axis
const HIGH = 16; // CSS pixels: rows of this height have a number each

// The signs of states, in a square of 16: a cross, a ring, a slash, a dot. States without one differ in lightness.
const SIGN = {
  pending: "M4 12 L12 4",
  running: "M8 8 h.01",
  failed: "M4 4 L12 12 M12 4 L4 12",
  backoff: "M8 4 A4 4 0 1 1 7.99 4",
};

const MEANING = { pending: "pending: its Pod is being created, or does not run yet" };

const MARK = 4; // CSS pixels: the side of a failed index' halo
const MARKS_SHARE = 0.2; // of the map that halos cover at most, if fewer indexes than that have failed
const MARKS = 30_000; // more are drawn as plain cells: they can be seen anyway
const CELL = 28; // CSS pixels of a cell, where there are few
const MOST = 40; // of a cell that is zoomed in

let states = new Uint8Array(0);
let counts = STATES.map(() => 0);
let chosen = null;
let picture = null; // one pixel for each index
let columns = 1;
let dirty = null; // rows of the picture that have changed
let failedKnown = null; // the failed indexes, until one changes
let rangesKnown = null; // the same as ranges
let isOver = false;
let signs = new Map(); // bitmaps of signs, by state and size
let view = { x: 0, y: 0, scale: 1 };
let palette = [];
let onChoose = () => {};
let onMove = () => {};

export const size = () => states.length;
export const chosenIndex = () => chosen;
export const wordOf = (index) => wordOfState(STATES[states[index]]);
export const countOf = (state) => counts[CODE[state]];

export function failedIndexes() {
  if (failedKnown) return failedKnown;
  failedKnown = [];
  states.forEach((code, index) => code === CODE.failed && failedKnown.push(index));
  return failedKnown;
}

// The failed indexes in the API's notation: "7", "70-75".
export function failedRanges() {
  if (rangesKnown) return rangesKnown;
  const runs = [];
  for (const index of failedIndexes()) {
    const run = runs.at(-1);
    if (run?.[1] === index - 1) run[1] = index;
    else runs.push([index, index]);
  }
  rangesKnown = runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
  return rangesKnown;
}

// An index without a Pod of a Job that is over does not wait.
export function setOver(now) {
  if (now === isOver) return;
  isOver = now;
  drawLegend();
}

const wordOfState = (state) => (isOver && state === "waiting" ? "not started" : WORDS[state]);

export function begin(completions) {
  states = new Uint8Array(completions);
  counts = STATES.map(() => 0);
  counts[CODE.waiting] = completions;
  chosen = null;
  failedKnown = null;
  rangesKnown = null;
  dirty = { first: 0, last: -1 };
  fit();
  drawLegend();
}

// `came` has for each state the indexes that have come to it, as runs (changes.rs).
export function change(came) {
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
    failedKnown = null;
    rangesKnown = null;
  }
  soon(drawLegend);
  soon(draw);
}

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

// ---- the view

// Gives the picture the shape of the canvas, with a round number of columns. The canvas of few indexes is flat.
function fit() {
  const canvas = $("map");
  canvas.style.height = "";
  const wide = Math.max(1, Math.floor((canvas.clientWidth || 4) / CELL));
  const round = wide > 20 ? wide - (wide % 10) : wide;
  const few = Math.max(1, Math.ceil(states.length / round));
  if (few * CELL < canvas.clientHeight) {
    columns = round;
    canvas.style.height = `${few * CELL + 2}px`;
    return begun(few);
  }
  const shape = (canvas.clientWidth || 4) / (canvas.clientHeight || 3);
  const ideal = Math.sqrt(states.length * shape);
  const step = ideal > 300 ? 50 : ideal > 20 ? 10 : 1;
  columns = Math.max(1, Math.round(ideal / step) * step);
  begun(Math.max(1, Math.ceil(states.length / columns)));
}

function begun(rows) {
  picture = new OffscreenCanvas(columns, rows);
  dirty = { first: 0, last: rows - 1 };
  showAll();
}

function whole() {
  return Math.min($("map").clientWidth / picture.width, $("map").clientHeight / picture.height);
}

function showAll() {
  const { clientWidth: width, clientHeight: height } = $("map");
  const scale = Math.min(whole(), CELL);
  // Few indexes begin at the left, as the text around them does.
  view = { scale, x: scale === CELL ? 0 : (width - picture.width * scale) / 2, y: (height - picture.height * scale) / 2 };
  moved();
}

// How far the view is zoomed in, and the index in its middle: the same on a screen of another size.
export function place() {
  const { clientWidth: width, clientHeight: height } = $("map");
  const zoom = view.scale / Math.min(whole(), CELL);
  if (zoom < 1.05) return { zoom: null, at: null };
  const [column, line] = [(width / 2 - view.x) / view.scale, (height / 2 - view.y) / view.scale].map(Math.floor);
  const at = Math.max(0, Math.min(states.length - 1, line * columns + Math.max(0, Math.min(columns - 1, column))));
  return { zoom: zoom.toFixed(1), at };
}

export function goTo({ zoom, at }) {
  showAll();
  const [times, middle] = [Number.parseFloat(zoom), Number.parseInt(at, 10)];
  if (!(times > 1) || !(middle >= 0)) return;
  const { clientWidth: width, clientHeight: height } = $("map");
  const scale = Math.min(MOST, view.scale * times);
  const [column, line] = [middle % columns, Math.floor(middle / columns)];
  view = { scale, x: width / 2 - (column + 0.5) * scale, y: height / 2 - (line + 0.5) * scale };
  moved();
}

function zoomBy(by, x, y) {
  const scale = Math.min(MOST, Math.max(Math.min(whole(), 1), view.scale * by));
  const grown = scale / view.scale;
  view = { scale, x: x - (x - view.x) * grown, y: y - (y - view.y) * grown };
  moved();
}

function moveBy(x, y) {
  view = { ...view, x: view.x + x, y: view.y + y };
  moved();
}

function moved() {
  // One finger scrolls the page while all of the map is in sight, and moves the map otherwise.
  $("map").style.touchAction = view.scale > whole() * 1.05 ? "none" : "pan-y";
  soon(draw);
  onMove();
}

// ---- drawing

function drawLegend() {
  STATES.forEach((state, code) => {
    const button = $("legend").children[code].firstChild;
    setText(button.lastChild, `${wordOfState(state)} ${say(counts[code])}`);
    button.disabled = counts[code] === 0;
  });
  const words = STATES.map((state, code) => `${say(counts[code])} ${wordOfState(state)}`).join(", ");
  $("map").setAttribute("aria-label", `Map of ${say(states.length)} indexes: ${words}`);
}

// A click on a state shows the next index in it.
function legendItem(state) {
  const swatch = drawn("svg", { viewBox: "0 0 16 16", "aria-hidden": "true", class: state });
  swatch.append(drawn("rect", { width: 16, height: 16, rx: 3 }));
  if (SIGN[state]) swatch.append(drawn("path", { d: SIGN[state] }));
  const button = Object.assign(document.createElement("button"), { type: "button", title: `Show the next index that is ${MEANING[state] ?? WORDS[state]}` });
  button.append(swatch, document.createElement("span"));
  button.onclick = () => {
    const code = CODE[state];
    let found = states.indexOf(code, (chosen ?? -1) + 1);
    if (found < 0) found = states.indexOf(code);
    if (found >= 0) choose(found, true);
  };
  const item = document.createElement("li");
  item.append(button);
  return item;
}

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  signs = new Map();
  palette = STATES.map((state) => {
    const hex = style.getPropertyValue(`--${state}`).trim().slice(1);
    const [red, green, blue] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
    // The bytes of a pixel in memory: red, green, blue, opacity.
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

function draw() {
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
  // A pixel that stands for several indexes has the mean of their colours.
  context.imageSmoothingEnabled = view.scale < 1;
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, view.x, view.y, picture.width * view.scale, picture.height * view.scale);
  if (view.scale >= 7) drawGrid(context, width, height);
  drawMarks(context, width, height);
  if (view.scale >= SIGNS) drawSigns(context, width, height);
  drawAxis();
  if (chosen != null) drawChosen(context);
}

// The side of a failed index' halo. Halos cover at most a fifth of the map, or the share that has failed.
function markSize() {
  const failed = counts[CODE.failed];
  if (failed === 0 || failed > MARKS) return view.scale;
  const share = failed / states.length;
  return Math.max(view.scale, Math.min(MARK, view.scale * Math.sqrt(Math.max(share, MARKS_SHARE) / share)));
}

// The halos in a pale colour, and on them the cells in the full one.
function drawMarks(context, width, height) {
  const side = markSize();
  if (side <= view.scale) return;
  const style = getComputedStyle(document.documentElement);
  const grow = (side - view.scale) / 2;
  context.fillStyle = style.getPropertyValue("--halo");
  const ratio = devicePixelRatio;
  const outwards = (from, to) => [Math.floor(from * ratio) / ratio, (Math.ceil(to * ratio) - Math.floor(from * ratio)) / ratio];
  forFailed((x, y, long) => {
    const [[left, wide], [top, high]] = [outwards(x - grow, x + long + grow), outwards(y - grow, y - grow + side)];
    if (left < width && top < height && left + wide > 0 && top + high > 0) context.fillRect(left, top, wide, high);
  });
  // On whole pixels: a part of a pixel would be pale, too.
  const snap = (from, size) => {
    const start = Math.round(from * ratio);
    return [start / ratio, Math.max(1, Math.round((from + size) * ratio) - start) / ratio];
  };
  context.fillStyle = style.getPropertyValue("--failed");
  forFailed((x, y, long) => {
    if (x >= width || y >= height || x + long <= 0 || y + side <= 0) return;
    const [[left, wide], [top, high]] = [snap(x, long), snap(y, view.scale)];
    context.fillRect(left, top, wide, high);
  });
}

// Each run of failed indexes in a row: its place and its width.
function forFailed(each) {
  const failed = failedIndexes();
  for (let place = 0; place < failed.length; place++) {
    const first = failed[place];
    const line = Math.floor(first / columns);
    while (failed[place + 1] === failed[place] + 1 && Math.floor(failed[place + 1] / columns) === line) place++;
    each(view.x + (first % columns) * view.scale, view.y + line * view.scale, (failed[place] - first + 1) * view.scale);
  }
}

// The signs of the visible cells.
function drawSigns(context, width, height) {
  const [left, right] = [Math.max(0, Math.floor(-view.x / view.scale)), Math.min(columns, Math.ceil((width - view.x) / view.scale))];
  const [top, bottom] = [Math.max(0, Math.floor(-view.y / view.scale)), Math.min(picture.height, Math.ceil((height - view.y) / view.scale))];
  for (let line = top; line < bottom; line++) {
    const end = Math.min(states.length, line * columns + right);
    for (let index = line * columns + left; index < end; index++) {
      const state = STATES[states[index]];
      if (!SIGN[state]) continue;
      context.drawImage(signOf(state), view.x + (index % columns) * view.scale, view.y + line * view.scale, view.scale, view.scale);
    }
  }
}

function signOf(state) {
  const side = Math.ceil(view.scale * devicePixelRatio);
  const key = `${state} ${side}`;
  const known = signs.get(key);
  if (known) return known;
  if (signs.size > 100) signs.clear();
  const made = new OffscreenCanvas(side, side);
  const context = made.getContext("2d");
  context.scale(side / 16, side / 16);
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue(state === "pending" ? "--on-pending" : "--paper");
  context.lineWidth = 2;
  context.lineCap = "round";
  if (state === "running") context.lineWidth = 5;
  context.stroke(new Path2D(SIGN[state]));
  signs.set(key, made);
  return made;
}

// Round indexes at the left of the map, beside the rows that have them.
function drawAxis() {
  const canvas = $("axis");
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--faint");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  const step = betweenNumbers();
  const numbers = [];
  for (let index = 0; index < states.length; index += step) {
    const y = view.y + (Math.floor(index / columns) + 0.5) * view.scale;
    if (y < 0 || y > height) continue;
    numbers.push(index);
    context.fillText(say(index), width - 6, Math.max(6, Math.min(height - 6, y)));
    context.fillRect(width - 4, Math.round(y), 4, 1);
  }
  canvas.dataset.numbers = numbers.join(" ");
  setText($("map-row"), states.length > columns ? `A row is ${say(columns)} indexes.` : "");
}

// A round number of indexes: not less than a row, and far enough apart to be read.
function betweenNumbers() {
  // High rows have their own first index each.
  if (view.scale >= HIGH) return columns;
  const least = columns * Math.max(1, AXIS / view.scale);
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) if (digit * power >= least) return digit * power;
  }
}

function drawChosen(context) {
  const [column, line] = [chosen % columns, Math.floor(chosen / columns)];
  const side = Math.max(view.scale, 8);
  const grow = (side - view.scale) / 2;
  const corner = [view.x + column * view.scale - grow, view.y + line * view.scale - grow];
  const style = getComputedStyle(document.documentElement);
  for (const [colour, wide] of [["--paper", 5], ["--ink", 2]]) {
    context.strokeStyle = style.getPropertyValue(colour);
    context.lineWidth = wide;
    context.strokeRect(...corner, side, side);
  }
}

function drawGrid(context, width, height) {
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--paper");
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

// ---- choosing

function cellAt(x, y) {
  const [column, line] = [Math.floor((x - view.x) / view.scale), Math.floor((y - view.y) / view.scale)];
  const index = line * columns + column;
  return column >= 0 && column < columns && line >= 0 && index < states.length ? index : null;
}

// The index at a point of the canvas: that of the mark there, or of the cell.
function indexAt(x, y) {
  const exact = cellAt(x, y);
  const side = markSize();
  if (side <= view.scale || states[exact] === CODE.failed) return exact;
  const reach = (side - view.scale) / 2;
  const steps = Math.ceil(reach / view.scale);
  const [column, line] = [Math.floor((x - view.x) / view.scale), Math.floor((y - view.y) / view.scale)];
  // The mark that is drawn last lies on top.
  for (let below = steps; below >= -steps; below--) {
    for (let right = steps; right >= -steps; right--) {
      const [near, row] = [column + right, line + below];
      const index = row * columns + near;
      if (near < 0 || near >= columns || row < 0 || states[index] !== CODE.failed) continue;
      const [left, top] = [view.x + near * view.scale - reach, view.y + row * view.scale - reach];
      if (x >= left && x < left + side && y >= top && y < top + side) return index;
    }
  }
  return exact;
}

// `asks`: its Pods are to be read, too.
export function choose(index, asks) {
  chosen = index;
  if (index != null) {
    $("index").value = index;
    // An index out of sight comes into sight.
    const [x, y] = [view.x + (index % columns) * view.scale, view.y + Math.floor(index / columns) * view.scale];
    const { clientWidth: width, clientHeight: height } = $("map");
    if (x < 0 || y < 0 || x + view.scale > width || y + view.scale > height) moveBy(width / 2 - x, height / 2 - y);
  }
  soon(draw);
  onChoose(index, asks);
}

function distance(pointers) {
  const [one, other] = [...pointers.values()];
  return other ? Math.hypot(one[0] - other[0], one[1] - other[1]) : 0;
}

function middle(pointers) {
  const [one, other] = [...pointers.values()];
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
}

function showTip(x, y, index) {
  $("tip").hidden = index == null;
  if (index == null) return;
  setText($("tip"), `${index}: ${wordOf(index)}`);
  $("tip").style.left = `${$("map").offsetLeft + Math.max(0, Math.min(x + 12, $("map").clientWidth - 150))}px`;
  $("tip").style.top = `${y > 40 ? y - 36 : y + 24}px`;
}

export function start(handlers) {
  ({ onChoose, onMove } = handlers);
  $("legend").append(...STATES.map(legendItem));
  drawLegend();
  readPalette();
  const map = $("map");
  const pointers = new Map();
  let travelled = 0;
  let apart = 0;
  const pointOf = (event) => {
    const bounds = map.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  };
  map.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 300), ...pointOf(event));
  }, { passive: false });
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, pointOf(event));
    if (pointers.size === 1) travelled = 0;
    apart = distance(pointers);
  });
  map.addEventListener("pointermove", (event) => {
    const [x, y] = pointOf(event);
    const before = pointers.get(event.pointerId);
    if (before) {
      pointers.set(event.pointerId, [x, y]);
      travelled += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      moveBy((x - before[0]) / pointers.size, (y - before[1]) / pointers.size);
      if (pointers.size === 2) {
        // Around the middle between the fingers.
        const now = distance(pointers);
        if (apart > 0) zoomBy(now / apart, ...middle(pointers));
        apart = now;
      }
    }
    showTip(x, y, travelled > 4 && pointers.size > 0 ? null : indexAt(x, y));
  });
  const up = (event) => {
    const was = pointers.delete(event.pointerId);
    if (was && travelled <= 4 && event.type === "pointerup") choose(indexAt(...pointOf(event)), true);
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
      if (event.shiftKey) moveBy(-x * 60, -y * 60);
      else if (states.length) choose(Math.max(0, Math.min(states.length - 1, (chosen ?? 0) + x + y * columns)), false);
    } else if (event.key === "+" || event.key === "=") zoomBy(1.5, ...centre);
    else if (event.key === "-") zoomBy(1 / 1.5, ...centre);
    else if (event.key === "0") showAll();
    else if (event.key === "Enter" && chosen != null) choose(chosen, true);
    else if (event.key === "Escape") choose(null, false);
    else return;
    event.preventDefault();
  });
  $("whole").addEventListener("click", showAll);
  addEventListener("resize", () => {
    if (map.clientWidth === 0) return;
    const before = picture && states.length ? place() : {};
    fit();
    goTo(before);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readPalette();
    soon(draw);
  });
}
