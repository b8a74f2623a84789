// All Jobs, and all CronJobs below them, as they change.

import { $, element, linkTo, listen, say, soon } from "./common.js";
import * as cronJobs from "./cron_jobs.js";
import { Table } from "./table.js";

const KNOWN = new Set(["at work", "suspended", "Complete", "Failed"]);
const jobs = new Map();
let table = null;

export function stateOf(job) {
  return job.result ?? (job.suspend && job.state === "at work" ? "suspended" : job.state);
}

export function part(job) {
  return job.completions ? ` ${Math.floor((100 * (job.succeeded ?? 0)) / job.completions)} %` : "";
}

export function show() {
  document.title = "lakh";
  listen("/ui/jobs", { jobs: hear, cronjobs: cronJobs.hear, seen: tellSeen }, () => {
    jobs.clear();
    cronJobs.forget();
  });
}

export function follow() {
  const number = (id, title) => ({ id, title, isNumber: true, down: true, of: (job) => job[id] ?? 0, cell: (job) => say(job[id] ?? 0) });
  const columns = [
    { id: "namespace", title: "Namespace", of: (job) => job.namespace },
    { id: "name", title: "Name", of: (job) => job.name, cell: (job) => linkTo(job.namespace, job.name) },
    { id: "state", title: "State", of: stateOf },
    {
      id: "progress",
      title: "Progress",
      down: true,
      of: (job) => (job.completions ? (job.succeeded ?? 0) / job.completions : (job.succeeded ?? 0)),
      cell: (job) => [bar(job), part(job)],
    },
    number("succeeded", "Succeeded"),
    number("failed", "Failed"),
    number("active", "Active"),
    { id: "waits", title: "Waits for", of: (job) => job.waitsFor ?? "" },
  ];
  table = new Table({ box: "rows", head: "head", body: "body" }, columns, "namespace", arrange);
  $("filter").addEventListener("input", () => soon(arrange));
  $("state").addEventListener("input", () => soon(arrange));
  addEventListener("resize", () => soon(table.drawRows));
  cronJobs.follow();
}

function hear({ new: changed, gone, more }) {
  for (const job of changed) {
    job.id = `${job.namespace}/${job.name}`;
    job.low = job.id.toLowerCase();
    jobs.set(job.uid, job);
  }
  for (const uid of gone) jobs.delete(uid);
  // Of many at once the first are shown at once, and the rest together.
  if (!more || table.order.length === 0) soon(arrange);
}

function arrange() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = $("state").value;
  const fits = (job) => {
    const state = stateOf(job);
    const isOfState = !wanted || (wanted === "other" ? !KNOWN.has(state) : state === wanted);
    return isOfState && words.every((word) => job.low.includes(word));
  };
  table.arrange([...jobs.values()].filter(fits));
  const shown = table.order.length;
  $("jobs-count").textContent = `(${jobs.size === shown ? say(shown) : `${say(shown)} of ${say(jobs.size)}`})`;
  $("no-jobs").hidden = jobs.size > 0;
}

// Of whom nothing is hidden nothing is said.
function tellSeen({ jobs: ofJobs, cronJobs: ofCronJobs }) {
  const say = (seen, what) => {
    if (seen == null) return [];
    const names = seen.namespaces.join(", ");
    const where = names ? `of these namespaces: ${names}` : "of no namespace in which there are some";
    return [`You see ${what} ${where}.`, ...(seen.areMany ? ["There are more namespaces than lakh asks about."] : [])];
  };
  $("seen").textContent = [...say(ofJobs, "Jobs"), ...say(ofCronJobs, "CronJobs")].join(" ");
  $("seen").hidden = $("seen").textContent === "";
}

function bar(job) {
  const box = element("span", "", { className: "bar", ariaHidden: "true" });
  const all = job.completions || (job.succeeded ?? 0) + (job.active ?? 0) || 1;
  const stops = [];
  let at = 0;
  for (const [state, count] of [["succeeded", job.succeeded], ["failed", job.failedIndexes], ["running", job.active]]) {
    if (!count) continue;
    const start = at;
    at += (100 * count) / all;
    stops.push(`var(--${state}) ${start}% ${at}%`);
  }
  if (stops.length > 0) box.style.background = `linear-gradient(to right, ${stops.join()}, var(--waiting) 0)`;
  return box;
}
