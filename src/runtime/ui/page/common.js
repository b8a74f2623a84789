// What all parts of the page share: elements, words, what is heard, and when is drawn.

export const $ = (id) => document.getElementById(id);
export const element = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text ?? "" }, more);
// Without Intl, which takes 20 ms to begin with.
export const say = (count) => (count == null ? "–" : String(count).replace(/\B(?=(\d{3})+$)/g, ","));

export function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function linkTo(namespace, name, text) {
  return element("a", text ?? name, { href: `#${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` });
}

// ---- what is heard, by server-sent events (stream.rs)

let source = null;
let again = 0;
let heard = []; // what is to be read yet, with who reads it
const RETRY = 5_000;

// How long is read at a stretch, in milliseconds: all Jobs come at once, and a browser must draw and hear keys meanwhile.
const READ_FOR = 8;

const reading = new MessageChannel(); // unlike timers it is not slowed down
reading.port1.onmessage = () => {
  const until = performance.now() + READ_FOR;
  while (heard.length > 0 && performance.now() < until) {
    const [handle, data] = heard.shift();
    handle(JSON.parse(data));
  }
  if (heard.length > 0) reading.port2.postMessage(null);
};

function hear(handle, data) {
  if (heard.length === 0) reading.port2.postMessage(null);
  heard.push([handle, data]);
}

export const onRefused = { call: () => {} };

export function hush() {
  source?.close();
  source = null;
  heard = [];
  clearTimeout(again);
}

export function listen(path, handlers, begin = () => {}) {
  hush();
  const now = new EventSource(path);
  source = now;
  now.onopen = () => {
    // Who hears anew hears all.
    heard = [];
    begin();
    $("connection").textContent = "live";
  };
  now.onerror = async () => {
    if (source !== now) return;
    $("connection").textContent = "the controller does not answer; trying again";
    if (now.readyState !== EventSource.CLOSED) return;
    // It was refused, and the browser does not say why.
    again = setTimeout(() => listen(path, handlers, begin), RETRY);
    const answer = await fetch(path, { headers: { Accept: "text/event-stream" } }).catch(() => null);
    if (source !== now || answer == null) return;
    if (answer.status === 401 || answer.status === 403) {
      hush();
      onRefused.call(answer.status, await answer.text());
    } else if (!answer.ok) {
      $("connection").textContent = `${await answer.text()}; trying again`;
    } else {
      answer.body.cancel();
    }
  };
  now.addEventListener("refused", (event) => {
    hush();
    onRefused.call(401, JSON.parse(event.data));
  });
  now.addEventListener("busy", (event) => {
    $("connection").textContent = JSON.parse(event.data) ?? "the controller is busy";
  });
  for (const [name, handle] of Object.entries(handlers)) {
    now.addEventListener(name, (event) => {
      $("connection").textContent = "live";
      hear(handle, event.data);
    });
  }
}

// ---- when is drawn: once a frame at most

let drawing = new Set();

export function soon(draw) {
  if (drawing.size === 0) {
    requestAnimationFrame(() => {
      const all = drawing;
      drawing = new Set();
      for (const each of all) each();
    });
  }
  drawing.add(draw);
}

// ---- times, by the viewer's own clock and zone

// To make one takes milliseconds, and a page without times needs none.
function formatted(options) {
  let format = null;
  return (time) => (format ??= new Intl.DateTimeFormat(undefined, options)).format(time);
}

const clock = formatted({ hour: "2-digit", minute: "2-digit" });
const date = formatted({ weekday: "short", day: "numeric", month: "short" });
const year = formatted({ year: "numeric", month: "short", day: "numeric" });
export const timeOfDay = formatted({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = 86_400_000;

export function moment(time) {
  const now = new Date();
  if (time.toDateString() === now.toDateString()) return clock(time);
  const day = Math.abs(time - now) < 300 * DAY ? date : year;
  return `${day(time)}, ${clock(time)}`;
}

export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${say(Math.round(seconds / 86_400))} days`;
}
