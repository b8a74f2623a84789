// The list of all Jobs: those in trouble first.

import { $, box, element, linkTo, say, setText, soon } from "./common.js";
import * as address from "./address.js";
import * as cronJobs from "./cron_jobs.js";
import { badge, bar, duration, durationElement, indexesFailed, leftWords, noteOf, pace, paceWords, podsFailed, prepare, progress, share, stateName, stateOf } from "./facts.js";
import { listen } from "./listen.js";
import { Table } from "./table.js";
import { lively, timeElement } from "./times.js";

// Above the list there is a button for each.
const GROUPS = { "": "All", failed: "Failed", stalled: "Stalled", running: "Running", suspended: "Suspended", complete: "Complete", other: "Other states" };

// The states in the last group are named, if there are at most so many.
const NAMED = 2;

const TAIL = 10; // characters of a name that are always shown

// Some Jobs become stalled by time alone.
const ARRANGE = 10_000;

const jobs = new Map();
let byName = null; // made when a CronJob looks for its Jobs
let table = null;
let group = "";
let isListening = false;

export function show({ view, parameters }) {
  document.title = "lakh";
  if (view === "jobs") {
    group = parameters.state in GROUPS ? parameters.state : "";
    $("filter").value = parameters.q ?? "";
  }
  soon(arrange);
  soon(cronJobs.arrange);
  if (isListening) return;
  isListening = true;
  listen("/ui/jobs", { jobs: take, cronjobs: cronJobs.take, seen: showRights }, () => {
    jobs.clear();
    byName = null;
    cronJobs.forget();
  });
}

// A Job by its namespace and name, if the list has it.
export function find(namespace, name) {
  if (byName == null) byName = new Map([...jobs.values()].map((job) => [job.id, job]));
  return byName.get(`${namespace}/${name}`);
}

export function leave() {
  isListening = false;
}

// Lines of a cell: the second is faint.
const lines = (first, second) => [box("span", [first].flat(), { className: "line" }), box("span", [second ?? ""].flat(), { className: "line faint" })];

export function start() {
  const columns = [
    { id: "state", title: "State", of: trouble, cell: badge },
    {
      id: "job", title: "Job", of: (job) => job.name,
      cell: (job) => lines(nameOf(job), [job.namespace, note(job)]),
    },
    { id: "progress", title: "Progress", down: true, of: share, cell: (job) => [bar(job), element("span", progress(job, ""), { className: "line" })] },
    { id: "failed", title: "Failed", isNumber: true, down: true, of: (job) => Math.max(job.failedIndexes ?? 0, job.failed ?? 0), cell: failed },
    { id: "active", title: "Active Pods", isNumber: true, down: true, of: (job) => job.active ?? 0, cell: active },
    { id: "pace", title: "Completion rate", isNumber: true, down: true, of: (job) => pace(job).rate ?? 0, cell: (job) => lines(lively(() => paceWords(job)), lively(() => leftWords(job))) },
    { id: "duration", title: "Duration", isNumber: true, down: true, of: (job) => duration(job) ?? 0, cell: (job) => durationElement(job) },
    { id: "age", title: "Created", isNumber: true, down: true, of: (job) => job.at.created ?? 0, cell: (job) => (job.created ? timeElement(job.created) : "–") },
  ];
  const rowClass = (job) => stateName(job);
  table = new Table({ table: "table", head: "head", body: "body", sort: "sort", rowClass }, columns, "state", arrange);
  $("filter").addEventListener("input", () => {
    remember();
    soon(arrange);
  });
  $("groups").append(...Object.entries(GROUPS).map(([name, title]) => {
    const button = element("button", title, { type: "button", className: `group ${name}` });
    button.onclick = () => {
      group = name;
      remember();
      arrange();
    };
    return button;
  }));
  setInterval(() => jobs.size && !document.hidden && soon(arrange), ARRANGE);
  cronJobs.start(find);
}

function remember() {
  address.write({ q: $("filter").value, state: group });
}

// Trouble first; among equals the newest.
function trouble(job) {
  return stateOf(job).rank * 1e14 - (job.at.ended ?? job.at.started ?? job.at.created ?? 0);
}

// Where a name is too long, its middle is left out: the names of a series differ at their ends.
function nameOf(job) {
  const link = linkTo(job.namespace, job.name, "");
  link.title = job.id;
  link.append(element("span", job.name.slice(0, -TAIL), { className: "head" }), element("span", job.name.slice(-TAIL)));
  return link;
}

function note(job) {
  const text = noteOf(job);
  return text ? box("span", [" · ", lively(() => noteOf(job), "span", { className: "note", title: text })]) : "";
}

function failed(job) {
  const cell = (first, second) => lines(element("span", first, { className: "trouble" }), second);
  if (job.failedIndexes) return cell(indexesFailed(job), `${podsFailed(job)}`);
  return job.failed ? cell(podsFailed(job)) : "–";
}

function active(job) {
  const unready = job.active > 0 && job.ready != null && job.ready < job.active;
  return lines(job.active ? say(job.active) : "–", unready ? `${say(job.ready)} ready` : "");
}

function take({ new: changed, gone, more }) {
  for (const job of changed) {
    job.id = `${job.namespace}/${job.name}`;
    job.low = job.id.toLowerCase();
    jobs.set(job.uid, prepare(job, jobs.get(job.uid)));
  }
  for (const uid of gone) jobs.delete(uid);
  byName = null;
  soon(cronJobs.arrange);
  // The first of many are shown at once, and the rest together.
  if (!more || table.order.length === 0) soon(arrange);
}

function arrange() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...jobs.values()];
  const counts = Object.fromEntries(Object.keys(GROUPS).map((name) => [name, 0]));
  let pods = 0;
  const others = new Set();
  const fits = (job) => {
    const { group: of, text } = stateOf(job);
    if (of === "other") others.add(text);
    counts[of]++;
    pods += job.active ?? 0;
    return (!group || of === group) && words.every((word) => job.low.includes(word));
  };
  table.arrange(all.filter(fits));
  counts[""] = all.length;
  Object.entries(GROUPS).forEach(([name, title], place) => {
    const button = $("groups").children[place];
    const isNamed = name === "other" && others.size > 0 && others.size <= NAMED;
    setText(button, `${isNamed ? [...others].sort().join(", ") : title} ${say(counts[name])}`);
    button.ariaPressed = String(group === name);
    button.hidden = counts[name] === 0 && group !== name && name !== "";
  });
  setText($("jobs-count"), table.order.length === all.length ? say(all.length) : `${say(table.order.length)} of ${say(all.length)}`);
  setText($("totals"), `${say(all.length)} Jobs · ${say(counts.failed)} failed · ${say(pods)} Pods active`);
  const isEmpty = table.order.length === 0;
  $("no-jobs").hidden = !isEmpty;
  if (isEmpty) setText($("no-jobs"), all.length ? "No Job fits the filter." : "This controller knows no Job.");
}

// Says of which namespaces a viewer with a token sees Jobs and CronJobs; nothing of a viewer who sees all.
function showRights({ jobs: ofJobs, cronJobs: ofCronJobs }) {
  const words = (seen, kind) => {
    if (seen == null) return [];
    const names = seen.namespaces.join(", ");
    const text = names ? `You may list ${kind} in ${names}.` : `You may not list ${kind} in any namespace that has some.`;
    return [text, ...(seen.areMany ? ["lakh asks for your rights in 200 namespaces; there are more."] : [])];
  };
  setText($("seen"), [...words(ofJobs, "Jobs"), ...words(ofCronJobs, "CronJobs")].join(" "));
  $("seen").hidden = $("seen").textContent === "";
}
