// Times and durations. A time is relative ("3 min ago"), with the absolute local time in its title; the button in the
// header swaps the two. Texts that depend on the time of day are computed again each second.

import { $, element, say, setText } from "./common.js";

const DAY = 86_400_000;
const KEPT = "lakh-times";

let ahead = 0; // of the controller's clock, in milliseconds
let isAbsolute = false;
const texts = new WeakMap(); // of elements that change with time

export const now = () => Date.now() + ahead;

// Clocks that differ by the rounding of a second are the same.
export function setServerTime(text) {
  const difference = Date.parse(text) - Date.now();
  ahead = Math.abs(difference) > 3_000 ? difference : 0;
}

// As `lakh status` says it (src/cli/words.rs).
export function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`;
  return `${say(Math.floor(seconds / 86_400))} days`;
}

// Time that is left, rounded up: nothing is promised too early.
export function spanUp(milliseconds) {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const unit = seconds < 120 ? 1 : seconds < 7_200 ? 60 : seconds < 172_800 ? 3_600 : 86_400;
  return span(Math.ceil(seconds / unit) * unit * 1000);
}

// To the second: "5 min 34 s". Below two minutes as `span` says it: one time has one text.
export function exactSpan(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return span(milliseconds);
  const parts = [[Math.floor(seconds / 86_400), "days"], [Math.floor(seconds / 3_600) % 24, "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  const first = parts.findIndex(([number]) => number > 0);
  return first < 0 ? "0 s" : parts.slice(first, first + 2).map(([number, unit]) => `${number} ${unit}`).join(" ");
}

// As `lakh status` says it, with grouped digits.
export function rate(perSecond) {
  const [number, unit] = perSecond >= 1 ? [perSecond, "a second"] : perSecond * 60 >= 1 ? [perSecond * 60, "a minute"] : [perSecond * 3_600, "an hour"];
  return `${number >= 100 ? say(Math.round(number)) : number.toFixed(1)} ${unit}`;
}

const two = (number) => String(number).padStart(2, "0");

function dayOf(time) {
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}

export function clockOf(time) {
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

// "2026-11-28 16:14:52 +01:00", by the viewer's clock.
export function absolute(time) {
  const offset = -time.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${dayOf(time)} ${clockOf(time)} ${zone}`;
}

function relative(time) {
  const past = now() - time;
  if (Math.abs(past) < 1_000) return "now";
  return past > 0 ? `${span(past)} ago` : `in ${spanUp(-past)}`;
}

function words(time) {
  if (!isAbsolute) return relative(time);
  return Math.abs(now() - time) < DAY / 2 ? clockOf(time) : `${dayOf(time)} ${clockOf(time).slice(0, 5)}`;
}

// An element whose text is computed again each second.
export function lively(text, name = "span", more = {}) {
  const made = element(name, text(), more);
  made.classList.add("lively");
  texts.set(made, text);
  return made;
}

// A time of the API, as all parts of the page show it.
export function timeElement(text) {
  const time = new Date(text);
  return lively(() => words(time), "time", { dateTime: text, title: absolute(time) });
}

function update() {
  if (document.hidden) return;
  for (const each of document.querySelectorAll(".lively")) setText(each, texts.get(each)());
}

export function start() {
  try {
    isAbsolute = localStorage.getItem(KEPT) === "absolute";
  } catch { /* The browser keeps nothing; the page works without. */ }
  const button = $("times");
  const show = () => (button.textContent = isAbsolute ? "Times: clock" : "Times: relative");
  button.title = "Show times as relative or by the clock";
  button.addEventListener("click", () => {
    isAbsolute = !isAbsolute;
    try {
      localStorage.setItem(KEPT, isAbsolute ? "absolute" : "relative");
    } catch { /* As above. */ }
    show();
    update();
  });
  show();
  setInterval(update, 1_000);
}
