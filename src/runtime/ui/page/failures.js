// A Job's failed Pods by cause. They are read when the page knows of failures, again while this part of the page is seen,
// and on request.

import { $, box, count, element, say, setText, smallTable } from "./common.js";
import { clockOf, now, timeElement } from "./times.js";

const RANGES = 4; // shown of one cause

// Causes are read again at most this often, if more Pods have failed: it may be thousands of Pods.
const AGE = 30_000;

// Of a Job that is over they are read once more this soon: its last failures came with the end.
const AGE_AT_END = 3_000;

// As many Pods are read for the page's first look, until this part is seen: they name the commonest cause.
const SAMPLE = 1_000;

// What the kernel or the runtime says by an exit code above 128: it is that signal.
const SIGNALS = { 129: "SIGHUP", 130: "SIGINT", 132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM" };

let job = null; // { path, choose, failedIndexes, onRead }
let read = null; // { causes, pods, counted, goOn, without, at, failed, pages, isSample }
let failedNow = 0;
let asked = 0;
let isSeen = false;
let isReading = false;
let failedAt = -Infinity; // when the last attempt to read them failed
let isIndexed = false;
let isOver = false;

export function begin(of) {
  job = of;
  read = null;
  failedNow = 0;
  asked++;
  isReading = false;
  failedAt = -Infinity;
  draw("");
}

export function update({ failed, indexed, result }) {
  failedNow = failed ?? 0;
  isIndexed = indexed;
  isOver = result != null;
  readIfWanted();
  drawNote();
}

export function start() {
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    readIfWanted();
  }).observe($("failures"));
  document.addEventListener("visibilitychange", readIfWanted);
  $("read").addEventListener("click", () => ask(""));
  $("read-on").addEventListener("click", () => ask(read.goOn));
}

// The most frequent cause: { words, hint, pods, of, indexes, nodes, last }; null as long as none is known.
export function commonest() {
  const [first] = causesByCount();
  if (!first) return null;
  const of = read.goOn ? `the ${say(read.pods)} failed Pods read` : count(read.pods, "failed Pod");
  return { ...first, words: first.cause, hint: hintOf(first), of, indexes: first.indexes.size };
}

function readIfWanted() {
  if (document.hidden || !job || isReading || failedNow === 0) return;
  if (now() - failedAt < AGE) return;
  if (read == null) return ask("", !isSeen);
  if (read.isSample && read.pages === 1 && read.goOn && isSeen) return ask("");
  // Further pages that were read on request would be lost.
  const isOld = (!read.goOn || read.isSample) && read.pages === 1 && failedNow !== read.failed;
  if (isOld && now() - read.at > (isOver ? AGE_AT_END : AGE) && (isSeen || isOver)) ask("", !isSeen);
}

async function ask(goOn, isSample = false) {
  const number = ++asked;
  isReading = true;
  await readPage(goOn, isSample, number);
  if (number !== asked) return;
  isReading = false;
  job.onRead();
  readIfWanted();
}

async function readPage(goOn, isSample, number) {
  const failed = failedNow;
  $("failures-state").textContent = "Loading …";
  const query = isSample ? `?limit=${SAMPLE}` : goOn ? `?continue=${encodeURIComponent(goOn)}` : "";
  const answer = await fetch(`/ui/jobs/${job.path}/failures${query}`).catch((error) => error);
  if (number !== asked) return;
  if (!answer.ok) {
    failedAt = now();
    const why = answer.text ? await answer.text() : String(answer);
    if (number === asked) draw(`The failed Pods cannot be read: ${why}`);
    return;
  }
  const answered = await answer.json();
  if (number !== asked) return;
  failedAt = -Infinity;
  // The causes of before are shown until there are others.
  if (goOn === "") read = { causes: new Map(), pods: 0, counted: 0, goOn: "", without: 0, at: now(), failed, pages: 0, isSample };
  read.pages++;
  read.pods += answered.pods;
  read.counted = answered.counted;
  read.goOn = answered.continue;
  for (const cause of answered.causes) add(cause);
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
    exitCode: cause.exitCode,
    reason: cause.reason,
    container: cause.container,
    pods: (known?.pods ?? 0) + cause.pods,
    indexes,
    isCut: cause.moreRanges > 0 || known?.isCut,
    nodes: new Set([...(known?.nodes ?? []), ...(cause.nodes ?? [])]),
    hasMoreNodes: cause.moreNodes > 0 || known?.hasMoreNodes,
    last: isNewer ? cause.last : known.last,
  });
}

function ranges(text) {
  return text.split(",").filter(Boolean).map((range) => {
    const [first, last] = range.split("-").map(Number);
    return [first, last ?? first];
  });
}

const causesByCount = () => (read ? [...read.causes.values()].sort((one, other) => other.pods - one.pods) : []);

// What an exit code means, where that is known. The kubelet reports OOMKilled as the reason.
function hintOf({ exitCode, reason }) {
  const signal = SIGNALS[exitCode];
  if (!signal) return "";
  if (exitCode !== 137 || reason === "OOMKilled") return signal;
  return reason ? signal : `${signal}, not reported as OOMKilled`;
}

// The node's name if there is one only.
export function nodesOf({ nodes, hasMoreNodes }) {
  if (nodes.size === 1 && !hasMoreNodes) return [...nodes][0];
  return nodes.size ? `${say(nodes.size)}${hasMoreNodes ? " or more" : ""} nodes` : "";
}

function draw(state) {
  $("failures-state").textContent = state;
  $("read").textContent = read ? "Refresh" : "Load";
  $("read-on").hidden = !read?.goOn;
  const causes = causesByCount();
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
  if (read.goOn) notes.push("There are more.");
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
    { title: "Cause", cell: causeOf },
    { title: "Pods", isNumber: true, cell: ({ pods }) => say(pods) },
    { title: "Indexes", cell: indexesOf },
    { title: "Last", cell: ({ last }) => timeElement(last.at) },
    { title: "Nodes", cell: (cause) => element("span", nodesOf(cause), { title: [...cause.nodes].join(", ") }) },
    { title: "Termination message of the last", cell: ({ last }) => last.message ?? "", className: "message" },
  ];
  return smallTable("Failures by cause", isIndexed ? columns : columns.filter(({ title }) => title !== "Indexes"), causes);
}

function causeOf(cause) {
  const hint = hintOf(cause);
  return box("span", [element("span", cause.cause, { className: "strong" }), ...(hint ? [element("span", ` ${hint}`, { className: "faint" })] : [])]);
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
