// What all parts of the page share: elements, words, what is heard, and when is drawn.

export const $ = (id) => document.getElementById(id);
export const element = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text ?? "" }, more);
const number = new Intl.NumberFormat("en");
export const say = (count) => (count == null ? "–" : number.format(count));

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
const RETRY = 5_000;

export const onRefused = { call: () => {} };

export function hush() {
  source?.close();
  source = null;
  clearTimeout(again);
}

export function listen(path, handlers, begin = () => {}) {
  hush();
  const now = new EventSource(path);
  source = now;
  now.onopen = () => {
    // Who hears anew hears all.
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
      handle(JSON.parse(event.data));
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

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const date = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const year = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const DAY = 86_400_000;

export function timeOfDay(time) {
  return seconds.format(time);
}

export function moment(time) {
  const now = new Date();
  if (time.toDateString() === now.toDateString()) return clock.format(time);
  const day = Math.abs(time - now) < 300 * DAY ? date : year;
  return `${day.format(time)}, ${clock.format(time)}`;
}

export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${say(Math.round(seconds / 86_400))} days`;
}
