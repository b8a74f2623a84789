// Pods as tables: those of the chosen index, and those of a Job without indexes.

import { $, box, command, count, element, say, setText, smallTable, soon } from "./common.js";
import * as map from "./map.js";
import { clockOf, now, timeElement } from "./times.js";

// The list of a Job's Pods is read again at most this often, while it is seen and Pods change.
const AGE = 10_000;

const each = (pod, of) => pod.containers.map(of).filter((it) => it != null && it !== "").join(", ");
const failedFirst = (pod) => pod.containers.find((it) => it.exitCode) ?? pod.containers[0];

function times(pod) {
  const ends = pod.containers.map((it) => it.finished).filter(Boolean).sort();
  return [pod.created, ends.at(-1)];
}

const COLUMNS = [
  { title: "Pod", cell: (pod) => pod.name, className: "strong" },
  { title: "Phase", cell: (pod) => element("span", pod.deleting ? `${pod.phase}, being deleted` : pod.phase, { className: pod.phase === "Failed" ? "trouble" : "" }) },
  { title: "Exit code", isNumber: true, cell: (pod) => each(pod, (it) => it.exitCode) },
  { title: "Reason", cell: (pod) => pod.reason ?? each(pod, (it) => it.reason) },
  { title: "Node", cell: (pod) => pod.node ?? "" },
  { title: "Created", cell: (pod) => (pod.created ? timeElement(pod.created) : "") },
  { title: "Ended", cell: (pod) => (times(pod)[1] ? timeElement(times(pod)[1]) : "") },
  { title: "Message", cell: (pod) => pod.message ?? each(pod, (it) => it.message), className: "message" },
];

export const logs = (namespace, pod, container) => `kubectl logs -n ${namespace} ${pod}${container ? ` -c ${container}` : ""}`;

function logsOf(namespace, pod) {
  const container = failedFirst(pod);
  const previous = container && container.exitCode == null && container.restarts > 0 ? " --previous" : "";
  return logs(namespace, pod.name, pod.containers.length > 1 ? container.name : "") + previous;
}

async function read(path) {
  const answer = await fetch(path).catch((error) => error);
  if (answer.ok) return { found: await answer.json() };
  return { problem: answer.text ? await answer.text() : String(answer) };
}

// ---- the chosen index

let asked = 0;
let shownIndex = null;

export async function showIndex(path, index, asks) {
  const place = $("chosen");
  const number = asks || index !== shownIndex ? ++asked : asked;
  if (index == null) {
    shownIndex = null;
    return place.replaceChildren();
  }
  if (!asks) {
    if (index !== shownIndex) place.replaceChildren(element("p", "", { className: "strong" }));
    shownIndex = index;
    return setText(place.firstChild, lineOf(index));
  }
  shownIndex = index;
  place.replaceChildren(element("p", lineOf(index), { className: "strong" }), element("p", "Reading its Pods …", { className: "faint" }));
  const { found, problem } = await read(`/ui/jobs/${path}/indexes/${index}`);
  if (number !== asked) return;
  if (problem) return place.lastChild.replaceWith(element("p", `Its Pods cannot be read: ${problem}`, { className: "trouble" }));
  const { pods, record } = found;
  const namespace = decodeURIComponent(path.split("/")[0]);
  const rows = pods.length ? [smallTable(`Pods of index ${index}`, COLUMNS, pods, (pod) => command(logsOf(namespace, pod)))] : [goneWords(record)];
  place.lastChild.replaceWith(...rows);
}

const lineOf = (index) => `Index ${index}: ${map.wordOf(index)}`;

function goneWords(record) {
  if (!record) return element("p", "No Pod of this index is left, so there is no log to read.");
  const { tries, last } = record;
  if (!last) return element("p", `Its Pods are gone. The controller saw ${count(tries, "Pod")}.`);
  const words = [last.outcome, last.exitCode == null ? "" : `exit code ${last.exitCode}`, last.reason, last.node && `on ${last.node}`].filter(Boolean).join(", ");
  const from = last.started ? [", from ", timeElement(last.started)] : [];
  const to = last.ended ? [", to ", timeElement(last.ended)] : [];
  return box("p", [`Its Pods are gone. The controller saw ${count(tries, "Pod")}; the last one that ended: ${words}`, ...from, ...to, "."]);
}

// ---- the Pods of a Job without indexes

let job = null; // its path, and its counts when its Pods were read
let isSeen = false;

export function begin(path) {
  job = { path, counts: "", read: "", at: 0, number: 0 };
  $("pods-table").replaceChildren();
  setText($("pods-note"), "");
}

export function update({ active, succeeded, failed, ready }) {
  job.counts = [active, succeeded, failed, ready].join();
  readIfSeen();
}

function readIfSeen() {
  if (!isSeen || document.hidden || !job || $("without-indexes").hidden) return;
  if (job.counts !== job.read && now() - job.at >= AGE) readPods();
}

async function readPods() {
  const of = job;
  of.at = now();
  of.read = of.counts;
  const number = ++of.number;
  setText($("pods-state"), "Loading …");
  const { found, problem } = await read(`/ui/jobs/${of.path}/pods`);
  if (of !== job || number !== of.number) return;
  setText($("pods-state"), problem ? `The Pods cannot be read: ${problem}` : "");
  if (!found) return;
  const namespace = decodeURIComponent(of.path.split("/")[0]);
  const pods = found.groups.flatMap((group) => group.pods);
  const columns = [...COLUMNS, { title: "Logs", cell: (pod) => command(logsOf(namespace, pod), "Copy kubectl logs"), className: "logs" }];
  $("pods-table").replaceChildren(...(pods.length ? [smallTable("Pods", columns, pods)] : []));
  const cut = found.groups.filter(({ more }) => more).map((group) => `${say(group.pods.length)} ${group.name} ones`);
  const words = [`As of ${clockOf(new Date(now()))}.`];
  if (pods.length === 0) words.push("No Pod of this Job is left.");
  if (cut.length) words.push(`There are more Pods: this list has ${cut.join(" and ")}.`);
  setText($("pods-note"), words.join(" "));
}

export function start() {
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    readIfSeen();
  }).observe($("without-indexes"));
  $("pods-read").addEventListener("click", () => soon(readPods));
  setInterval(readIfSeen, AGE / 2);
}
