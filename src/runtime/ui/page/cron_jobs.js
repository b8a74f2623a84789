// The list of all CronJobs, with their next runs.

import { $, box, element, linkTo, say, setText, soon } from "./common.js";
import { Table } from "./table.js";
import { absolute, timeElement } from "./times.js";

const SHOWN = 2; // runs; the cell's title has all

const cronJobs = new Map();
let table = null;

export function start() {
  const columns = [
    { id: "state", title: "State", of: (it) => stateOf(it).rank, cell: badge },
    { id: "job", title: "CronJob", of: (it) => it.name, cell: (it) => [box("span", [it.name], { className: "line strong" }), box("span", [it.namespace], { className: "line faint" })] },
    {
      id: "schedule", title: "Schedule", of: (it) => it.schedule,
      cell: (it) => [element("code", it.schedule, { className: "line" }), element("span", it.words ?? "", { className: "line faint", title: it.words ?? "" })],
    },
    { id: "zone", title: "Time zone", of: (it) => it.timeZone ?? "", cell: (it) => it.timeZone ?? "UTC" },
    { id: "last", title: "Last run", of: (it) => it.last ?? "", cell: (it) => (it.last ? timeElement(it.last) : "never"), down: true },
    { id: "active", title: "Active Jobs", of: (it) => it.active.length, cell: active, down: true },
    { id: "next", title: "Next runs", of: (it) => it.next[0] ?? "~", cell: next },
  ];
  table = new Table({ table: "cron-table", head: "cron-head", body: "cron-body", rowClass: (it) => (it.problem ? "failed" : "") }, columns, "state", arrange);
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
  setText($("cron-count"), say(cronJobs.size));
  $("no-cron-jobs").hidden = cronJobs.size > 0;
  $("cron-table").hidden = cronJobs.size === 0;
  table.arrange([...cronJobs.values()]);
}

function stateOf(it) {
  if (it.problem) return { rank: 0, name: "failed", text: "Cannot run", sign: "✕" };
  if (it.suspend) return { rank: 2, name: "suspended", text: "Suspended", sign: "‖" };
  return { rank: 1, name: "running", text: "On", sign: "●" };
}

function badge(it) {
  const { name, text, sign } = stateOf(it);
  return box("span", [element("span", sign, { ariaHidden: "true" }), ` ${text}`], { className: `badge ${name}` });
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
  const links = it.active.flatMap((name, place) => [place ? ", " : "", linkTo(it.namespace, name)]);
  return links.length ? box("span", links, { className: "line" }) : "–";
}
