// One Job: its state, its facts, its indexes or Pods, its conditions and Warnings.

import { $, box, command, copyButton, count, element, say, setText, smallTable, soon } from "./common.js";
import * as address from "./address.js";
import { badge, bar, barLegend, durationElement, duration, indexesFailed, leftWords, noteOf, pace, paceWords, podsFailed, prepare, progress, stateName } from "./facts.js";
import * as failures from "./failures.js";
import { listen } from "./listen.js";
import * as map from "./map.js";
import * as pods from "./pods.js";
import * as rate from "./rate.js";
import { exactSpan, lively, now, span, timeElement } from "./times.js";

// An obstacle that lasts this long is shown; most are over in a moment.
const PAUSED = 10_000;
const SHOWN_WARNINGS = 2; // at the top, of different reasons; all are further below
const SHOWN_RANGES = 12; // of failed indexes; the copy has all

let path = null; // of the Job that is shown
let job = null;
let object = null; // what only the API server knows of it
let wanted = {}; // the index and the zoom of the address, until the indexes have arrived
let pausedSince = null;
let rangesDrawn = null;
let handlers = {};

export function show({ path: now, parameters }) {
  wanted = parameters;
  if (now === path) return job && apply();
  path = now;
  job = null;
  object = null;
  pausedSince = null;
  const name = path.split("/").map(decodeURIComponent).join("/");
  document.title = `${name} – lakh`;
  setText($("job-title"), name);
  clear();
  for (const id of ["trouble", "with-indexes", "without-indexes", "failures", "more"]) $(id).hidden = true;
  setText($("summary"), "Reading …");
  failures.begin({ path, failedIndexes: map.failedIndexes, choose: (index) => map.choose(index, true), onRead: () => soon(draw) });
  pods.begin(path);
  listen(`/ui/jobs/${path}`, { job: take, gone: () => {
    job = null;
    clear();
    handlers.missing(name);
  } });
}

export function leave() {
  path = null;
  job = null;
  clear();
}

// Texts that change with time are about the Job that is shown, so they go with it.
function clear() {
  rangesDrawn = null;
  for (const id of ["job-badge", "summary", "job-bar", "bar-legend", "trouble", "facts", "chosen", "failed-indexes"]) $(id).replaceChildren();
}

function take({ job: changed, completions, anew, came }) {
  if (path == null) return;
  const isOther = job?.uid !== changed.uid;
  if (!job) handlers.found();
  job = prepare(changed, isOther ? null : job);
  const isIndexed = completions != null;
  $("with-indexes").hidden = !isIndexed;
  $("without-indexes").hidden = isIndexed;
  for (const id of ["failures", "more"]) $(id).hidden = false;
  if (isOther) rate.begin();
  if (anew || (isIndexed && completions !== map.size())) {
    map.begin(completions ?? 0);
    pods.showIndex(path, null);
    map.change(came);
    apply();
  } else {
    map.change(came);
    if (map.chosenIndex() != null) soon(() => pods.showIndex(path, map.chosenIndex(), false));
  }
  map.setOver(job.result != null);
  if (isIndexed && job.perIndex) job.failedIndexes ??= map.countOf("failed");
  if (isOther || object?.generation !== job.generation) readObject();
  if (!isIndexed) pods.update(job);
  failures.update(job);
  rate.update(job);
  soon(draw);
}

// Shows the index and the zoom that the address asks for.
function apply() {
  if (map.size() === 0) return;
  const index = Number.parseInt(wanted.index, 10);
  if (index >= 0 && index < map.size()) {
    if (index !== map.chosenIndex()) {
      map.choose(index, true);
      $("chosen").scrollIntoView({ block: "nearest" });
    }
  } else if (map.chosenIndex() != null) map.choose(null, false);
  // Last: choosing an index moves the map to it.
  map.goTo(wanted);
}

async function readObject() {
  const of = { path, generation: job.generation };
  object = of;
  const answer = await fetch(`/ui/jobs/${path}/object`).catch(() => null);
  if (!answer?.ok || object !== of) return;
  object = { ...of, ...(await answer.json()) };
  soon(draw);
}

// ---- drawing

function draw() {
  if (!job) return;
  document.title = `${job.name} – lakh`;
  $("job-badge").replaceChildren(badge(job));
  $("job-bar").replaceChildren(bar(job));
  $("bar-legend").replaceChildren(...barLegend(job));
  drawSummary();
  drawTrouble();
  drawFacts();
  drawFailedIndexes();
  drawConditions();
  drawWarnings();
  drawInternals();
}

const isSuspended = () => stateName(job) === "suspended";

function drawSummary() {
  const words = [];
  const isOver = job.result != null;
  if (job.started && !isSuspended()) words.push(lively(() => `${isOver ? "after" : "for"} ${span(duration(job))}`));
  words.push(element("span", progress(job)));
  if (job.failedIndexes) words.push(element("span", `${indexesFailed(job)} failed`, { className: "trouble" }));
  else if (job.failed) words.push(element("span", `${podsFailed(job)} failed`, { className: "trouble" }));
  if (!isOver && pace(job).rate) words.push(lively(() => [rateWords(), leftWords(job)].filter(Boolean).join(", ")));
  $("summary").replaceChildren(...words.flatMap((part, place) => (place ? [element("span", " · ", { className: "between" }), part] : [part])));
}

// "222 completions a second".
const rateWords = () => paceWords(job).replace(" ", " completions ");

function drawTrouble() {
  const state = stateName(job);
  const lines = [];
  const isFailed = state === "failed" || state === "failing";
  if (isFailed) {
    const ends = job.conditions?.filter(({ type, status }) => status === "True" && ["Failed", "FailureTarget"].includes(type)) ?? [];
    const verdict = ends.at(-1) ?? job.overview?.verdict;
    if (verdict) lines.push(box("p", [element("strong", verdict.reason), `: ${verdict.message}`]));
  }
  const note = noteOf(job);
  if (note && !isFailed && state !== "external") lines.push(box("p", [lively(() => noteOf(job))]));
  const cause = failures.commonest();
  if (cause && (isFailed || state === "stalled")) lines.push(...causeLines(cause));
  const isHeld = (job.heldUpBy ?? []).length > 0;
  pausedSince = isHeld ? (pausedSince ?? now()) : null;
  if (isHeld && now() - pausedSince > PAUSED) lines.push(element("p", `The controller has paused this Job: ${job.heldUpBy[0]}.`));
  if (!job.result) {
    // The note has the message of a refusal.
    const isSaid = ({ reason }) => reason === "FailedCreate" && job.blocked?.by === "refusal" && job.blocked.message;
    const newest = new Map(groupsOf(job.warnings ?? []).filter((warning) => !isSaid(warning)).toReversed().map((warning) => [warning.reason, warning]));
    lines.push(...[...newest.values()].toReversed().slice(0, SHOWN_WARNINGS).map(warningLine));
  }
  if (!cause && (isFailed || state === "stalled")) lines.push(box("p", ["For more, run ", command(`lakh why ${job.name} -n ${job.namespace}`)]));
  $("trouble").hidden = lines.length === 0;
  $("trouble").className = isFailed ? "trouble-box" : "trouble-box mild";
  replaceIfOther($("trouble"), lines);
}

// What most of the failed Pods ended of, and the command that prints the log of the last one.
function causeLines(cause) {
  const { words, hint, pods: number, of, indexes, last } = cause;
  const nodes = failures.nodesOf(cause);
  const where = [indexes ? count(indexes, "index", "indexes") : "", nodes ? `on ${nodes}` : ""].filter(Boolean).join(", ");
  const what = element("strong", `${words[0].toUpperCase()}${words.slice(1)}${hint ? ` (${hint})` : ""}`);
  const lines = [box("p", [what, `: ${say(number)} of ${of}${where ? `, ${where}` : ""}.`, last.message ? ` Last termination message: ${last.message}` : ""])];
  lines.push(box("p", ["Log of the last: ", command(pods.logs(job.namespace, last.pod, cause.container))]));
  return lines;
}

const warningLine = ({ reason, message, last, times }) =>
  box("p", [element("strong", `Warning ${reason}`), times > 1 ? ` (${say(times)} times, the last ` : ", ", timeElement(last), times > 1 ? ")" : "", `: ${message}`]);

// Many Events become one, which begins with this.
const COMBINED = "(combined from similar events): ";

// Warnings that differ by names and numbers only are one: the newest, with the sum of their counts.
function groupsOf(warnings) {
  const groups = new Map();
  for (const { message: whole, ...more } of warnings) {
    const warning = { ...more, message: whole.replace(COMBINED, "") };
    const key = `${warning.reason} ${warning.message.replace(/"[^"]*"/g, '""').replace(/\d+/g, "0")}`;
    const known = groups.get(key);
    if (known) known.times += warning.count ?? 1;
    else groups.set(key, { ...warning, times: warning.count ?? 1 });
  }
  return [...groups.values()];
}

// A part that says the same stays, with the selection and the focus in it.
function replaceIfOther(place, children) {
  const text = (parts) => [...parts].map((part) => part.textContent).join("\n");
  if (text(place.children) !== text(children)) place.replaceChildren(...children);
}

function drawFacts() {
  const known = job.overview?.pods;
  const isOver = job.result != null;
  const time = (text) => (text ? timeElement(text) : "–");
  const facts = [
    ["Created", time(job.created)],
    ["Started", time(job.started)],
    ...(isOver ? [["Ended", time(job.ended)]] : []),
    ["Duration", durationElement(job, exactSpan)],
    ["Completion rate", lively(() => paceWords(job))],
    ...(isOver ? [] : [["Time left", lively(() => leftWords(job).replace(" left", "") || "not known")]]),
    ["Completions", job.completions == null ? "not set: a work queue" : say(job.completions) + (job.indexed ? ", indexed" : "")],
    ["Parallelism", say(job.parallelism)],
    ["Pods active", [say(job.active ?? 0), job.active ? `${say(job.ready ?? 0)} ready` : "", job.creating ? `${say(job.creating)} being created` : "", known?.terminating ? `${say(known.terminating)} terminating` : ""].filter(Boolean).join(", ")],
    // A retried index has failed Pods and need not fail itself.
    [job.perIndex ? "Pods failed, all attempts" : "Pods failed", say(job.failed ?? 0)],
  ];
  if (job.perIndex) facts.push(["Failed indexes", say(job.failedIndexes ?? 0)]);
  if (job.activeDeadlineSeconds != null) facts.push(["activeDeadlineSeconds", deadline()]);
  if (object?.images) facts.push(...objectFacts());
  if (job.managedBy) facts.push(["Managed by", job.managedBy]);
  $("facts").replaceChildren(...facts.map(([name, value]) => {
    const isWide = name.startsWith("Image") || name === "Managed by";
    return box("div", [element("dt", name), box("dd", [value].flat())], { className: isWide ? "wide-fact" : "" });
  }));
}

function deadline() {
  const limit = job.activeDeadlineSeconds * 1_000;
  const words = say(job.activeDeadlineSeconds);
  if (job.result || !job.at.started || isSuspended()) return limit < 120_000 ? `${words} s` : `${words} s (${span(limit)})`;
  return [`${words} s, ends `, timeElement(new Date(job.at.started + limit).toISOString())];
}

function objectFacts() {
  const { images, moreImages, owner, queue, serviceAccount, backoffLimit, backoffLimitPerIndex, maxFailedIndexes, ttlSecondsAfterFinished } = object;
  const several = images.length > 1;
  const names = images.map(({ container, image }) => element("code", several ? `${container}: ${image}` : image, { className: "image" }));
  const isCron = owner?.kind === "CronJob";
  const facts = [["Owner", isCron ? element("a", `CronJob ${owner.name}`, { href: "#cronjobs" }) : owner ? `${owner.kind} ${owner.name}` : "none"]];
  facts.push([several ? "Images" : "Image", [...names, moreImages ? ` and ${say(moreImages)} more` : ""]]);
  if (queue) facts.push(["Queue", queue]);
  if (backoffLimitPerIndex != null) {
    facts.push(["backoffLimitPerIndex", say(backoffLimitPerIndex)]);
    if (maxFailedIndexes != null) facts.push(["maxFailedIndexes", say(maxFailedIndexes)]);
  } else facts.push(["backoffLimit", say(backoffLimit)]);
  facts.push(["Service account", serviceAccount]);
  if (ttlSecondsAfterFinished != null) facts.push(["ttlSecondsAfterFinished", `${say(ttlSecondsAfterFinished)} s`]);
  return facts;
}

// The failed indexes as text, in the API's notation.
function drawFailedIndexes() {
  const list = map.failedRanges();
  if (list === rangesDrawn) return;
  rangesDrawn = list;
  const shown = list.slice(0, SHOWN_RANGES).join(", ");
  const more = list.length - SHOWN_RANGES;
  const text = element("span", `${shown}${more > 0 ? ` and ${count(more, "more range")}` : ""}`, { className: "ranges" });
  const all = list.join(",");
  const parts = [element("span", `Failed ${map.countOf("failed") === 1 ? "index" : "indexes"}: `, { className: "faint" }), text, " ", copyButton(all, text, "Copy all", "Copy all failed indexes")];
  $("failed-indexes").replaceChildren(...(list.length ? [box("p", parts)] : []));
}

const CONDITION_COLUMNS = [
  { title: "Condition", cell: (it) => it.type, className: "strong" },
  { title: "Status", cell: (it) => it.status },
  { title: "Since", cell: (it) => (it.since ? timeElement(it.since) : "") },
  { title: "Reason", cell: (it) => it.reason },
  { title: "Message", cell: (it) => it.message, className: "message" },
];

function drawConditions() {
  const conditions = job.conditions ?? [];
  $("conditions-title").hidden = conditions.length === 0;
  replaceIfOther($("conditions"), conditions.length ? [smallTable("Conditions", CONDITION_COLUMNS, conditions)] : []);
}

function drawWarnings() {
  const warnings = job.warnings ?? [];
  $("warnings-title").hidden = warnings.length === 0;
  replaceIfOther($("warnings"), groupsOf(warnings).map(warningLine));
}

// What the controller waits for by itself: for its developers.
function drawInternals() {
  if (!$("internals").open) return;
  const known = job.overview;
  const lines = (job.heldUpBy ?? []).map((text) => element("li", `Paused: ${text}`));
  for (const wait of known?.waits ?? []) lines.push(box("li", [`Waits for ${wait.for}, until `, timeElement(wait.until)]));
  if (known) {
    const { beingCreated, missing, endedAndNotYetNamed, withFinalizer } = known.pods;
    lines.push(element("li", `Pods: ${say(missing)} missing, ${say(beingCreated)} being created, ${say(endedAndNotYetNamed)} ended and not in the status yet, ${say(withFinalizer)} with finalizer`));
    if (known.statusWriteUnderWay) lines.push(element("li", "A status write is in flight"));
  }
  lines.push(element("li", `${count(job.podsKnown ?? 0, "Pod")} known, ${count(job.writesPending ?? 0, "write")} pending, state “${job.state}”, resourceVersion ${job.resourceVersion ?? "–"}`));
  $("internals-list").replaceChildren(...lines);
}

// ---- start

function remember() {
  if (path && job) address.write({ index: map.chosenIndex(), ...map.place() });
}

export function start(given) {
  handlers = given;
  map.start({
    onChoose: (index, asks) => {
      remember();
      pods.showIndex(path, index, asks);
    },
    onMove: remember,
  });
  pods.start();
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const index = Number.parseInt($("index").value, 10);
    if (index >= 0 && index < map.size()) return map.choose(index, true);
    map.choose(null, false);
    $("chosen").replaceChildren(element("p", `There is no such index: the last one is ${say(map.size() - 1)}.`));
  });
  $("internals").addEventListener("toggle", () => soon(draw));
  addEventListener("resize", () => soon(rate.draw));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => soon(rate.draw));
}
