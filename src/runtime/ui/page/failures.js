// A Job's failed Pods by cause. They are read while this part of the page is seen, and on request.

import { $, box, count, element, say, setText, smallTable } from "./common.js";
import { clockOf, now, timeElement } from "./times.js";

const RANGES = 4; // shown of one cause

// Causes are read again at most this often, if more Pods have failed: it may be thousands of Pods.
const AGE = 30_000;

let job = null; // { path, choose, failedIndexes }
let read = null; // { causes, pods, counted, goOn, without, at, failed, pages }
let failedNow = 0;
let asked = 0;
let isSeen = false;
let isReading = false;
let isIndexed = false;
let isOver = false;

export function begin(of) {
  job = of;
  read = null;
  failedNow = 0;
  asked++;
  isReading = false;
  draw("");
}

export function update({ failed, indexed, result }) {
  failedNow = failed ?? 0;
  isIndexed = indexed;
  isOver = result != null;
  readIfSeen();
  drawNote();
}

export function start() {
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    readIfSeen();
  }).observe($("failures"));
  $("read").addEventListener("click", () => ask(""));
  $("read-on").addEventListener("click", () => ask(read.goOn));
}

function readIfSeen() {
  if (!isSeen || document.hidden || !job || isReading || failedNow === 0) return;
  // Further pages that were read on request would be lost.
  const isOld = read && !read.goOn && read.pages === 1 && failedNow !== read.failed && now() - read.at > AGE;
  if (read == null || isOld) ask("");
}

async function ask(goOn) {
  const number = ++asked;
  isReading = true;
  await readPage(goOn, number);
  if (number === asked) isReading = false;
}

async function readPage(goOn, number) {
  const before = read;
  if (goOn === "") read = { causes: new Map(), pods: 0, counted: 0, goOn: "", without: 0, at: now(), failed: failedNow, pages: 0 };
  // The causes of before are shown until there are others.
  if (before && goOn === "") $("failures-state").textContent = "Reading …";
  else draw("Reading …");
  const query = goOn ? `?continue=${encodeURIComponent(goOn)}` : "";
  const answer = await fetch(`/ui/jobs/${job.path}/failures${query}`).catch((error) => error);
  if (number !== asked) return;
  if (!answer.ok) {
    const why = answer.text ? await answer.text() : String(answer);
    return draw(`The failures cannot be read: ${why}`);
  }
  const told = await answer.json();
  if (number !== asked) return;
  read.pages++;
  read.pods += told.pods;
  read.counted = told.counted;
  read.goOn = told.continue;
  for (const cause of told.causes) add(cause);
  read.without = read.goOn ? 0 : withoutPods();
  draw("");
}

// The same cause may be in several pages.
function add(cause) {
  const known = read.causes.get(cause.cause);
  const indexes = known?.indexes ?? new Set();
  for (const [first, last] of ranges(cause.indexes)) {
    for (let index = first; index <= last; index++) indexes.add(index);
  }
  const isNewer = !known || cause.last.at > known.last.at;
  read.causes.set(cause.cause, {
    cause: cause.cause,
    pods: (known?.pods ?? 0) + cause.pods,
    indexes,
    isCut: cause.moreRanges > 0 || known?.isCut,
    last: isNewer ? cause.last : known.last,
  });
}

function ranges(text) {
  return text.split(",").filter(Boolean).map((range) => {
    const [first, last] = range.split("-").map(Number);
    return [first, last ?? first];
  });
}

function draw(state) {
  $("failures-state").textContent = state;
  $("read").textContent = read ? "Read again" : "Read";
  $("read-on").hidden = !read?.goOn;
  const causes = read ? [...read.causes.values()].sort((one, other) => other.pods - one.pods) : [];
  $("causes").replaceChildren(...(causes.length ? [tableOf(causes)] : []));
  drawNote();
}

function drawNote() {
  const notes = [];
  $("failures-tools").hidden = failedNow === 0 && !read;
  if (failedNow === 0 && !read) notes.push(isOver ? "No Pod failed." : "No Pod has failed.");
  if (read && $("failures-state").textContent === "") notes.push(...whatIsRead());
  setText($("failures-note"), notes.join(" "));
}

function whatIsRead() {
  const has = (number) => (number === 1 ? "has" : "have");
  const notes = [`As of ${clockOf(new Date(read.at))}: ${count(read.pods, "failed Pod")} ${read.pods === 1 ? "is" : "are"} there.`];
  if (read.goOn) notes.push("There are more: read on.");
  const gone = read.counted - read.pods;
  if (!read.goOn && gone > 0) notes.push(`${say(gone)} more that ${has(gone)} failed ${gone === 1 ? "is" : "are"} gone; the cause is not known.`);
  if (read.without > 0) notes.push(`${count(read.without, "failed index", "failed indexes")} ${has(read.without)} no Pod left.`);
  const since = failedNow - read.failed;
  if (since > 0) notes.push(`${say(since)} more ${has(since)} failed since.`);
  return notes;
}

function withoutPods() {
  const causes = [...read.causes.values()];
  if (causes.some(({ isCut }) => isCut)) return 0;
  const has = (index) => causes.some(({ indexes }) => indexes.has(index));
  return job.failedIndexes().filter((index) => !has(index)).length;
}

function tableOf(causes) {
  const columns = [
    { title: "Cause", cell: ({ cause }) => cause, className: "strong" },
    { title: "Pods", isNumber: true, cell: ({ pods }) => say(pods) },
    { title: "Indexes", cell: indexesOf },
    { title: "Last", cell: ({ last }) => timeElement(last.at) },
    { title: "On node", cell: ({ last }) => last.node },
    { title: "Message of the last", cell: ({ last }) => last.message ?? "", className: "message" },
  ];
  return smallTable("Failures by cause", isIndexed ? columns : columns.filter(({ title }) => title !== "Indexes"), causes);
}

function indexesOf({ cause, indexes, isCut }) {
  if (indexes.size === 0) return "";
  const sorted = [...indexes].sort((one, other) => one - other);
  const runs = [];
  for (const index of sorted) {
    const run = runs.at(-1);
    if (run?.[1] === index - 1) run[1] = index;
    else runs.push([index, index]);
  }
  const words = runs.slice(0, RANGES).map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  const more = runs.length > RANGES || isCut ? ", …" : "";
  const button = element("button", "Show", { type: "button", ariaLabel: `Show index ${sorted[0]}, which failed by ${cause}` });
  button.onclick = () => job.choose(sorted[0]);
  const all = `${say(indexes.size)}${isCut ? " or more" : ""}`;
  return box("span", [`${all}: ${words.join(", ")}${more} `, button]);
}
