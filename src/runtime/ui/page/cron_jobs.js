// All CronJobs, with their next runs by the viewer's own clock.

import { $, element, linkTo, moment, say, soon, span } from "./common.js";
import { Table } from "./table.js";

const SHOWN = 2; // runs; all that are known are in the cell's title
const cronJobs = new Map();
let table = null;

// How long something is away changes though nothing is heard.
const REDRAW = 10_000;

export function follow() {
  const columns = [
    { id: "namespace", title: "Namespace", of: (it) => it.namespace },
    { id: "name", title: "Name", of: (it) => it.name },
    { id: "schedule", title: "Schedule", of: (it) => it.schedule, cell: (it) => element("span", it.schedule, { title: it.words ?? "" }) },
    { id: "zone", title: "Time zone", of: (it) => it.timeZone ?? "", cell: (it) => it.timeZone ?? "UTC" },
    { id: "state", title: "State", of: stateOf, cell: (it) => element("span", stateOf(it), { title: it.problem ?? "" }) },
    { id: "last", title: "Last run", of: (it) => it.last ?? "", cell: last, down: true },
    { id: "active", title: "Active Jobs", of: (it) => it.active.length, cell: active, down: true },
    { id: "next", title: "Next runs", of: (it) => it.next[0] ?? "~", cell: next },
  ];
  table = new Table({ box: "cron-rows", head: "cron-head", body: "cron-body" }, columns, "namespace", arrange);
  setInterval(() => cronJobs.size && !document.hidden && soon(table.drawAnew), REDRAW);
  addEventListener("resize", () => soon(table.drawRows));
}

export function forget() {
  cronJobs.clear();
}

export function hear({ new: changed, gone }) {
  for (const it of changed) cronJobs.set(it.uid, { ...it, id: `${it.namespace}/${it.name}` });
  for (const uid of gone) cronJobs.delete(uid);
  soon(arrange);
}

function arrange() {
  $("cron-jobs").hidden = cronJobs.size === 0;
  $("cron-count").textContent = `(${say(cronJobs.size)})`;
  table.arrange([...cronJobs.values()]);
}

function stateOf(it) {
  return it.problem ? "cannot run" : it.suspend ? "suspended" : "on";
}

function last(it) {
  if (!it.last) return "never";
  const time = new Date(it.last);
  return element("time", `${moment(time)} (${span(Date.now() - time)} ago)`, { dateTime: it.last });
}

function next(it) {
  if (it.problem) return it.problem;
  if (it.suspend) return "none while it is suspended";
  if (it.next.length === 0) return "none in the next five years";
  const times = it.next.map((text) => new Date(text));
  const [first, ...others] = times.slice(0, SHOWN).map(moment);
  const away = times[0] - Date.now();
  const when = away > 0 ? `in ${span(away)}` : "now";
  return element("span", [`${first} (${when})`, ...others].join("; "), { title: times.map((time) => time.toString()).join("\n") });
}

function active(it) {
  return it.active.flatMap((name, place) => [...(place ? [", "] : []), linkTo(it.namespace, name)]);
}
