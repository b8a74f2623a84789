// The throughput chart: Pods (of an Indexed Job: indexes that succeeded, and failed Pods) that ended, since the page was opened.

import { $, say, setText, soon } from "./common.js";
import { clockOf, exactSpan, now, rate } from "./times.js";
import { duration } from "./facts.js";

const HEIGHT = 120;
const BARS = 90; // at most; a bar stands for whole seconds
const LEAST = 5_000; // milliseconds: less is no history
const KEPT = 1_200; // samples; then every second one is dropped

let samples = []; // [time, ended]
let last = null; // the Job

export function begin() {
  samples = [];
  last = null;
}

export function update(job) {
  last = job;
  const ended = (job.succeeded ?? 0) + (job.failed ?? 0);
  samples.push([now(), ended]);
  if (samples.length > KEPT) samples = samples.filter((_, place) => place % 2 === 0 || place === samples.length - 1);
  soon(draw);
}

export function draw() {
  if (!last) return;
  const took = samples.at(-1)[0] - samples[0][0];
  const gained = samples.at(-1)[1] - samples[0][1];
  // Of a Job that was over when the page was opened there is no history.
  const hasHistory = took >= LEAST && gained > 0;
  $("throughput").hidden = !hasHistory;
  if (!hasHistory) return;
  setText($("rate-note"), words());
  drawBars();
}

function words() {
  const time = duration(last);
  const average = time >= 1_000 && last.succeeded && !last.wasSuspended ? `${rate(last.succeeded / (time / 1_000))} succeeded on average over ${exactSpan(time)}` : "";
  const since = `since this page was opened at ${clockOf(new Date(samples[0][0]))}`;
  return [`Pods that ended, per second, ${since}`, average].filter(Boolean).join("; ") + ".";
}

// Bars of the same number of whole seconds each.
function barsOf() {
  const [begin, end] = [samples[0][0], samples.at(-1)[0]];
  const step = Math.max(1, Math.ceil((end - begin) / 1_000 / BARS)) * 1_000;
  const bars = [];
  let place = 0;
  let before = samples[0][1];
  for (let to = begin + step; to <= end; to += step) {
    while (samples[place + 1] && samples[place + 1][0] <= to) place++;
    bars.push(((samples[place][1] - before) * 1_000) / step);
    before = samples[place][1];
  }
  return { bars: bars.map((value) => Math.max(0, value)), step };
}

function drawBars() {
  const { bars, step } = barsOf();
  const canvas = $("rate");
  const ratio = devicePixelRatio;
  const width = canvas.clientWidth;
  canvas.width = width * ratio;
  canvas.height = HEIGHT * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const most = Math.max(1, ...bars);
  const [left, top, bottom] = [8, 20, HEIGHT - 20];
  context.strokeStyle = style.getPropertyValue("--line");
  context.beginPath();
  for (const y of [top, bottom]) {
    context.moveTo(left, y + 0.5);
    context.lineTo(width - 8, y + 0.5);
  }
  context.stroke();
  const each = (width - 16) / Math.max(20, bars.length);
  context.fillStyle = style.getPropertyValue("--running");
  bars.forEach((value, place) => {
    const high = (value / most) * (bottom - top);
    context.fillRect(left + place * each, bottom - high, Math.max(1, each - 1), high);
  });
  context.fillStyle = style.getPropertyValue("--faint");
  context.font = "12px system-ui, sans-serif";
  context.fillText(`${rate(most)} at most`, left, 14);
  context.fillText(clockOf(new Date(samples[0][0])), left, HEIGHT - 5);
  const end = clockOf(new Date(samples.at(-1)[0]));
  const place = Math.min(width - 8 - context.measureText(end).width, Math.max(left + 80, left + bars.length * each - context.measureText(end).width));
  context.fillText(end, place, HEIGHT - 5);
  canvas.setAttribute("aria-label", `Pods that ended per second: ${say(Math.round(bars.at(-1) ?? 0))} now, ${say(Math.round(most))} at most; a bar is ${step / 1_000} s`);
}
