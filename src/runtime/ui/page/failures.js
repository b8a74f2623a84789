// What a Job's Pods failed of, by cause. It is read while somebody sees this part of the page, and when they ask.

import { $, element, moment, say, timeOfDay } from "./common.js";

const RANGES = 4; // shown of one cause

// How old what was read is before it is read again by itself, if more has failed: it may be thousands of Pods.
const AGE = 30_000;

let job = null; // { path, choose, failedIndexes }
let read = null; // { causes, pods, counted, goOn, without, at, failed, pages }
let failedNow = 0;
let asked = 0;
let isSeen = false;
let isReading = false;

export function begin(of) {
  job = of;
  read = null;
  failedNow = 0;
  asked++;
  isReading = false;
  draw("");
}

export function hear({ failed }) {
  failedNow = failed ?? 0;
  readIfSeen();
  drawNote();
}

export function follow() {
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    readIfSeen();
  }).observe($("failures"));
  $("read").addEventListener("click", () => ask(""));
  $("read-on").addEventListener("click", () => ask(read.goOn));
}

function readIfSeen() {
  if (!isSeen || document.hidden || !job || isReading || failedNow === 0) return;
  // Who has read on would lose it.
  const isOld = read && !read.goOn && read.pages === 1 && failedNow !== read.failed && Date.now() - read.at > AGE;
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
  if (goOn === "") read = { causes: new Map(), pods: 0, counted: 0, goOn: "", without: 0, at: new Date(), failed: failedNow, pages: 0 };
  // What was read before is shown until there is more.
  if (before && goOn === "") $("failures-state").textContent = "reading …";
  else draw("reading …");
  const query = goOn ? `?continue=${encodeURIComponent(goOn)}` : "";
  const answer = await fetch(`/ui/jobs/${job.path}/failures${query}`).catch((error) => error);
  if (number !== asked) return;
  if (!answer.ok) {
    const why = answer.text ? await answer.text() : String(answer);
    return draw(`Failures are not known: ${why}`);
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
  if (failedNow === 0 && !read) notes.push("No Pod has failed.");
  if (read && $("failures-state").textContent === "") notes.push(...whatIsRead());
  $("failures-note").textContent = notes.join(" ");
}

function whatIsRead() {
  const notes = [`As of ${timeOfDay(read.at)}: ${say(read.pods)} failed ${read.pods === 1 ? "Pod is" : "Pods are"} there.`];
  if (read.goOn) notes.push("There are more: read on.");
  const gone = read.counted - read.pods;
  if (!read.goOn && gone > 0) notes.push(`${say(gone)} more that ${gone === 1 ? "has failed is" : "have failed are"} gone: why they failed is not known.`);
  if (read.without > 0) notes.push(`${say(read.without)} failed ${read.without === 1 ? "index has" : "indexes have"} no Pod left.`);
  const since = failedNow - read.failed;
  if (since > 0) notes.push(`${say(since)} more ${since === 1 ? "has" : "have"} failed since.`);
  return notes;
}

function withoutPods() {
  const causes = [...read.causes.values()];
  if (causes.some(({ isCut }) => isCut)) return 0;
  const has = (index) => causes.some(({ indexes }) => indexes.has(index));
  return job.failedIndexes().filter((index) => !has(index)).length;
}

function tableOf(causes) {
  const scroll = element("div", "", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Failures by cause" });
  const table = element("table");
  const head = element("tr");
  for (const [title, kind] of [["Cause", ""], ["Pods", "number"], ["Indexes", ""], ["Last", ""], ["On node", ""], ["Message of the last", ""]]) {
    head.append(element("th", title, { scope: "col", className: kind }));
  }
  table.append(element("thead"), element("tbody"));
  table.tHead.append(head);
  for (const cause of causes) {
    const line = element("tr");
    const { at, pod, node, message } = cause.last;
    const when = element("time", moment(new Date(at)), { dateTime: at, title: pod });
    line.append(
      element("th", cause.cause, { scope: "row" }), element("td", say(cause.pods), { className: "number" }), indexesOf(cause),
      cellOf(when), element("td", node), element("td", message ?? "", { className: "message" }),
    );
    table.tBodies[0].append(line);
  }
  scroll.append(table);
  return scroll;
}

function cellOf(child) {
  const cell = element("td");
  cell.append(child);
  return cell;
}

function indexesOf({ cause, indexes, isCut }) {
  const cell = element("td");
  if (indexes.size === 0) return cell;
  const sorted = [...indexes].sort((one, other) => one - other);
  const runs = [];
  for (const index of sorted) {
    const run = runs.at(-1);
    if (run?.[1] === index - 1) run[1] = index;
    else runs.push([index, index]);
  }
  const words = runs.slice(0, RANGES).map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  const more = runs.length > RANGES || isCut ? ", …" : "";
  const button = element("button", "Show", { type: "button", ariaLabel: `Show index ${sorted[0]}, which failed of ${cause}` });
  button.onclick = () => job.choose(sorted[0]);
  const count = `${say(indexes.size)}${isCut ? " or more" : ""}`;
  cell.append(`${count}: ${words.join(", ")}${more} `, button);
  return cell;
}
