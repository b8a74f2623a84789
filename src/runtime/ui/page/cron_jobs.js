// The list of all CronJobs, with the state of their Jobs and their next runs.

import { $, box, element, linkTo, say, setText, soon } from "./common.js";
import { stateOf as stateOfJob } from "./facts.js";
import { Table } from "./table.js";
import { absolute, timeElement } from "./times.js";

const SHOWN = 2; // runs; the cell's title has all
const SHOWN_JOBS = 3; // links to active Jobs

const cronJobs = new Map();
let table = null;
let findJob = () => undefined;

// `find` gives a Job of the list by its namespace and name.
export function start(find) {
  findJob = find;
  const columns = [
    { id: "state", title: "State", of: (it) => stateOf(it).rank, cell: badge },
    { id: "job", title: "CronJob", of: (it) => it.name, cell: (it) => [box("span", [it.name], { className: "line strong" }), box("span", [it.namespace], { className: "line faint" })] },
    {
      id: "schedule", title: "Schedule", of: (it) => it.schedule,
      cell: (it) => [element("code", it.schedule, { className: "line" }), element("span", it.words ?? "", { className: "line faint", title: it.words ?? "" })],
    },
    { id: "zone", title: "Time zone", of: (it) => it.timeZone ?? "", cell: (it) => it.timeZone ?? "UTC" },
    { id: "policy", title: "Concurrency", of: (it) => it.concurrencyPolicy, cell: (it) => it.concurrencyPolicy },
    { id: "last", title: "Last run", of: (it) => it.last ?? "", cell: last, down: true },
    { id: "active", title: "Active Jobs", of: (it) => it.active.length, cell: active, down: true },
    { id: "next", title: "Next runs", of: (it) => it.next[0] ?? "~", cell: next },
  ];
  table = new Table({ table: "cron-table", head: "cron-head", body: "cron-body", rowClass: (it) => stateOf(it).row ?? "" }, columns, "state", arrange);
}

export function forget() {
  cronJobs.clear();
}

export function take({ new: changed, gone }) {
  for (const it of changed) cronJobs.set(it.uid, { ...it, id: `${it.namespace}/${it.name}` });
  for (const uid of gone) cronJobs.delete(uid);
  soon(arrange);
}

export function arrange() {
  if ($("cron-jobs").hidden) return;
  for (const [uid, it] of cronJobs) cronJobs.set(uid, withJobs(it));
  setText($("cron-count"), say(cronJobs.size));
  $("no-cron-jobs").hidden = cronJobs.size > 0;
  $("cron-table").hidden = cronJobs.size === 0;
  table.arrange([...cronJobs.values()]);
}

// With the states of its Jobs. The same object if they are as before: its row stays then.
function withJobs(it) {
  const known = new Map();
  for (const name of [...it.active, ...(it.lastJob ? [it.lastJob.name] : [])]) {
    const job = findJob(it.namespace, name);
    if (job) known.set(name, stateOfJob(job).text);
  }
  const key = JSON.stringify([...known]);
  return key === (it.jobsKey ?? "[]") ? it : { ...it, jobsKey: key, jobs: known };
}

// The state of the Job of the last run: the page's word for it, or its result.
const lastState = (it) => it.jobs?.get(it.lastJob?.name) ?? it.lastJob?.result ?? "";

const TROUBLE = new Set(["Stalled", "Pods refused"]);

const stalledJobs = (it) => it.active.filter((name) => TROUBLE.has(it.jobs?.get(name)));

function stateOf(it) {
  if (it.problem) return { rank: 0, name: "failed", text: "Cannot run", sign: "✕", row: "failed" };
  if (["Failed", "Failing"].includes(lastState(it))) return { rank: 1, name: "failing", text: "Last failed", sign: "✕", row: "failing" };
  if (stalledJobs(it).length) return { rank: 2, name: "stalled", text: "Job stalled", sign: "!", row: "stalled" };
  if (it.suspend) return { rank: 4, name: "suspended", text: "Suspended", sign: "‖" };
  return { rank: 3, name: "running", text: "On", sign: "●" };
}

function badge(it) {
  const { name, text, sign } = stateOf(it);
  return box("span", [element("span", sign, { ariaHidden: "true" }), ` ${text}`], { className: `badge ${name}` });
}

function last(it) {
  const made = it.created ? ["never; created ", timeElement(it.created)] : ["never"];
  const when = box("span", it.last ? [timeElement(it.last)] : made, { className: "line" });
  const state = lastState(it);
  if (!state) return [when];
  const words = [element("span", state, { className: ["Failed", "Failing"].includes(state) ? "trouble strong" : "" }), ": ", linkTo(it.namespace, it.lastJob.name, shortName(it))];
  return [when, box("span", words, { className: "line small", title: `${state}: ${it.lastJob.name}` })];
}

// The name of the last Job without that of its CronJob, which is in the same row.
function shortName({ name, lastJob }) {
  return lastJob.name.startsWith(`${name}-`) ? `…${lastJob.name.slice(name.length)}` : lastJob.name;
}

function next(it) {
  if (it.problem) return element("span", it.problem, { className: "trouble", title: it.problem });
  if (it.suspend) return "none while it is suspended";
  if (it.next.length === 0) return "none in the next five years";
  const title = it.next.map((text) => absolute(new Date(text))).join("\n");
  const times = it.next.slice(0, SHOWN).flatMap((text, place) => [place ? ", " : "", timeElement(text)]);
  return box("span", times, { title });
}

function active(it) {
  const links = it.active.slice(0, SHOWN_JOBS).flatMap((name, place) => [place ? ", " : "", linkTo(it.namespace, name)]);
  if (links.length === 0) return "–";
  const more = it.active.length - SHOWN_JOBS;
  if (more > 0) links.push(` and ${say(more)} more`);
  const stalled = stalledJobs(it).length;
  const note = stalled ? [element("span", `${say(stalled)} of ${say(it.active.length)} stalled`, { className: "line small trouble" })] : [];
  return [box("span", links, { className: "line", title: it.active.join(", ") }), ...note];
}
