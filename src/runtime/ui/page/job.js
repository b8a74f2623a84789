// One Job: its state, its facts, its indexes or Pods, its conditions and Warnings.

import { $, box, command, count, element, say, setText, smallTable, soon } from "./common.js";
import * as address from "./address.js";
import { badge, bar, durationElement, duration, indexesFailed, leftWords, noteOf, pace, paceWords, podsFailed, prepare, progress, stateName } from "./facts.js";
import * as failures from "./failures.js";
import { listen } from "./listen.js";
import * as map from "./map.js";
import * as pods from "./pods.js";
import * as rate from "./rate.js";
import { exactSpan, lively, now, span, timeElement } from "./times.js";

// An obstacle that lasts this long is shown; most are over in a moment.
const PAUSED = 10_000;
const SHOWN_WARNINGS = 2; // at the top, of different reasons; all are further below

let path = null; // of the Job that is shown
let job = null;
let object = null; // what only the API server knows of it
let wanted = {}; // the index and the zoom of the address, until the indexes have arrived
let pausedSince = null;
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
  for (const id of ["job-badge", "summary", "job-bar", "facts", "chosen"]) $(id).replaceChildren();
  for (const id of ["trouble", "with-indexes", "without-indexes", "failures", "more"]) $(id).hidden = true;
  setText($("summary"), "Reading …");
  failures.begin({ path, failedIndexes: map.failedIndexes, choose: (index) => map.choose(index, true) });
  pods.begin(path);
  listen(`/ui/jobs/${path}`, { job: take, gone: () => {
    job = null;
    handlers.missing(name);
  } });
}

export function leave() {
  path = null;
  job = null;
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
  drawSummary();
  drawTrouble();
  drawFacts();
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
  if (job.failedIndexes) words.push(element("span", `${indexesFailed(job)} failed for good`, { className: "trouble" }));
  else if (job.failed) words.push(element("span", `${podsFailed(job)} failed`, { className: "trouble" }));
  if (!isOver && pace(job).rate) words.push(lively(() => [paceWords(job), leftWords(job)].filter(Boolean).join(", ")));
  $("summary").replaceChildren(...words.flatMap((part, place) => (place ? [element("span", " · ", { className: "between" }), part] : [part])));
}

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
  const isHeld = (job.heldUpBy ?? []).length > 0;
  pausedSince = isHeld ? (pausedSince ?? now()) : null;
  if (isHeld && now() - pausedSince > PAUSED) lines.push(element("p", `The controller has paused this Job: ${job.heldUpBy[0]}.`));
  if (!job.result) {
    const newest = new Map((job.warnings ?? []).toReversed().map((warning) => [warning.reason, warning]));
    lines.push(...[...newest.values()].toReversed().slice(0, SHOWN_WARNINGS).map(warningLine));
  }
  if (isFailed || state === "stalled") lines.push(box("p", ["For the cause, run ", command(`lakh why ${job.name} -n ${job.namespace}`)]));
  $("trouble").hidden = lines.length === 0;
  $("trouble").className = isFailed ? "trouble-box" : "trouble-box mild";
  replaceIfOther($("trouble"), lines);
}

const warningLine = ({ reason, message, last }) => box("p", [element("strong", `Warning ${reason}`), ", ", timeElement(last), `: ${message}`]);

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
    ["Pace", lively(() => paceWords(job))],
    ...(isOver ? [] : [["Time left", lively(() => leftWords(job).replace(" left", "") || "not known")]]),
    ["Completions", job.completions == null ? "not set: a work queue" : say(job.completions) + (job.indexed ? ", indexed" : "")],
    ["Parallelism", say(job.parallelism)],
    ["Pods active", [say(job.active ?? 0), job.active ? `${say(job.ready ?? 0)} ready` : "", known?.terminating ? `${say(known.terminating)} terminating` : ""].filter(Boolean).join(", ")],
    // A retried index has failed Pods and need not fail itself.
    [job.perIndex ? "Pods failed, all attempts" : "Pods failed", say(job.failed ?? 0)],
  ];
  if (job.perIndex) facts.push(["Indexes failed for good", say(job.failedIndexes ?? 0)]);
  if (job.activeDeadlineSeconds != null) facts.push(["Deadline", deadline()]);
  if (object?.images) facts.push(...objectFacts());
  if (job.managedBy) facts.push(["Managed by", job.managedBy]);
  $("facts").replaceChildren(...facts.map(([name, value]) => {
    const isWide = name.startsWith("Image") || name === "Managed by";
    return box("div", [element("dt", name), box("dd", [value].flat())], { className: isWide ? "wide-fact" : "" });
  }));
}

function deadline() {
  const limit = job.activeDeadlineSeconds * 1_000;
  if (job.result || !job.at.started || isSuspended()) return `${span(limit)} after the start`;
  return timeElement(new Date(job.at.started + limit).toISOString());
}

function objectFacts() {
  const { images, moreImages, owner, queue, serviceAccount, backoffLimit, backoffLimitPerIndex, maxFailedIndexes, ttlSecondsAfterFinished } = object;
  const several = images.length > 1;
  const names = images.map(({ container, image }) => element("code", several ? `${container}: ${image}` : image, { className: "image" }));
  const facts = [[several ? "Images" : "Image", [...names, moreImages ? ` and ${say(moreImages)} more` : ""]]];
  const isCron = owner?.kind === "CronJob";
  if (owner) facts.push(["Owner", isCron ? element("a", `CronJob ${owner.name}`, { href: "#cronjobs" }) : `${owner.kind} ${owner.name}`]);
  if (queue) facts.push(["Queue", queue]);
  if (backoffLimitPerIndex != null) {
    const most = maxFailedIndexes == null ? "" : `; at most ${say(maxFailedIndexes)} failed indexes`;
    facts.push(["Retries", `${say(backoffLimitPerIndex)} for each index${most}`]);
  } else facts.push(["Retries", say(backoffLimit)]);
  facts.push(["Service account", serviceAccount]);
  if (ttlSecondsAfterFinished != null) facts.push(["Kept", `${span(ttlSecondsAfterFinished * 1_000)} after its end`]);
  return facts;
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
  replaceIfOther($("warnings"), warnings.map(warningLine));
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
