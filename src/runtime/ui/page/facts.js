// Facts of a Job that both the list and the Job's own page show, in the words of `lakh status`.

import { box, count, element, say } from "./common.js";
import { lively, now, rate, span, spanUp } from "./times.js";

// Rank: trouble first. Group: the button above the list that selects it.
const STATES = {
  failed: { text: "Failed", rank: 0, group: "failed", sign: "✕" },
  failing: { text: "Failing", rank: 1, group: "failed", sign: "✕" },
  stalled: { text: "Stalled", rank: 2, group: "stalled", sign: "!" },
  refused: { text: "Pods refused", rank: 2.5, group: "stalled", sign: "!" },
  running: { text: "Running", rank: 3, group: "running", sign: "●" },
  pending: { text: "Pending", rank: 3, group: "running", sign: "○" },
  completing: { text: "Completing", rank: 3, group: "running", sign: "●" },
  deleting: { text: "Deleting", rank: 4, group: "other", sign: "–" },
  fresh: { text: "Not started", rank: 4, group: "other", sign: "○" },
  suspended: { text: "Suspended", rank: 5, group: "suspended", sign: "‖" },
  external: { text: "External", rank: 6, group: "other", sign: "→" },
  unseen: { text: "Not seen", rank: 6, group: "other", sign: "–" },
  complete: { text: "Complete", rank: 7, group: "complete", sign: "✓" },
  deleted: { text: "Deleted", rank: 8, group: "other", sign: "–" },
};

// A Job whose Pods have not become ready for this long is stalled.
const UNREADY = 60_000;

// A Job that has had no active Pod for this long is stalled.
const IDLE = 5_000;

// The pace is that of this time at most, observed in steps; as `lakh status --watch` does.
const WINDOW = 60_000;
const STEP = 3_000;
const LEAST = 5_000;

// Why Pods that are wanted are not created (`blocked.by`).
const BLOCKED = {
  "pod creation backoff": (job) => `backoff after ${job.failed ? count(job.failed, "failed Pod") : "failures"}`,
  "pod creation retry": () => "the API server did not answer the last creation",
  "index backoff": () => "the indexes that are left back off after failures",
  gang: () => "the Pods start together, and the Workload or PodGroup is not ready",
  "lost creations": () => "creations without an answer may still happen",
};

// Reads the times of a Job that has arrived, and remembers its progress.
export function prepare(job, before) {
  job.at = Object.fromEntries(["created", "started", "ended"].map((name) => [name, job[name] ? Date.parse(job[name]) : null]));
  job.at.attempt = job.blocked?.until ? Date.parse(job.blocked.until) : null;
  const isSame = before && before.started === job.started;
  job.observed = isSame ? before.observed : [];
  job.idleSince = job.active > 0 ? null : (before?.idleSince ?? now());
  const last = job.observed.at(-1);
  if (last == null || now() - last[0] >= STEP) {
    job.observed.push([now(), job.succeeded ?? 0]);
    while (job.observed[1] && now() - job.observed[1][0] >= WINDOW) job.observed.shift();
  }
  return job;
}

export function stateOf(job) {
  return STATES[stateName(job)];
}

export function stateName(job) {
  if (job.result) return job.result === "Failed" ? "failed" : "complete";
  if (job.state === "gone") return "deleted";
  if (job.state === "managed by another controller") return "external";
  if (job.state.startsWith("not seen")) return "unseen";
  if (job.deleting) return "deleting";
  if (job.verdict) return job.verdict === "Failed" ? "failing" : "completing";
  if (job.suspend) return "suspended";
  if (job.contested) return "stalled";
  if (!job.started) return "fresh";
  const isUnready = !job.succeeded && !job.failed && !job.ready;
  if (isIdle(job)) return "stalled";
  if (isRefused(job)) return "refused";
  if (job.active > 0 && isUnready) return now() - job.at.started > UNREADY ? "stalled" : "pending";
  return "running";
}

const isRefused = (job) => job.blocked?.by === "refusal";

// Between two Pods there may be a moment without one, and Pods that are being created need some time.
function isIdle(job) {
  if (job.active) return false;
  const creates = job.creating > 0 && !isRefused(job);
  return creates ? now() - job.idleSince > UNREADY : job.blocked != null || now() - job.idleSince > IDLE;
}

export function badge(job) {
  const name = stateName(job);
  const { text, sign } = STATES[name];
  const made = element("span", "", { className: `badge ${name}` });
  made.append(element("span", sign, { ariaHidden: "true" }), ` ${text}`);
  return made;
}

// Why the Job is in trouble or does not proceed, in a short sentence; empty if it proceeds.
export function noteOf(job) {
  const state = stateName(job);
  if (state === "failed" || state === "failing") return job.reason ?? "";
  if (state === "external") return job.managedBy ? `managed by ${job.managedBy}` : "managed by another controller";
  if (job.contested) return "another controller works on this Job";
  if (isRefused(job) && (state === "refused" || state === "stalled")) return refusal(job);
  const creates = job.creating > 0 ? `${count(job.creating, "Pod")} being created` : "";
  if (state === "stalled" && !job.active) return ["no active Pod", creates || blockedBy(job)].filter(Boolean).join(": ");
  if (state === "stalled" || (state === "running" && job.active > 0 && job.ready === 0)) return `${say(job.ready ?? 0)} of ${count(job.active, "Pod")} ready`;
  if (state === "running" && job.missing > 0 && job.blocked?.by.startsWith("pod creation")) return `${count(job.missing, "Pod")} missing: ${blockedBy(job)}`;
  return "";
}

const nextAttempt = (job, what) => (job.at.attempt > now() ? `; ${what} in ${spanUp(job.at.attempt - now())}` : "");

function blockedBy(job) {
  const words = BLOCKED[job.blocked?.by];
  return words ? `${words(job)}${nextAttempt(job, "next Pod")}` : "";
}

// "10 Pods not created: exceeded quota: …; next attempt in 13 s". The message is that of the Event FailedCreate.
function refusal(job) {
  const wanted = job.missing + (job.creating ?? 0);
  const message = job.blocked.message?.replace(/^.*?Error creating: /, "").replace(/^pods "[^"]*" is forbidden: /, "");
  return `${count(wanted, "Pod")} not created: ${message ?? "the API server refuses to create Pods"}${nextAttempt(job, "next attempt")}`;
}

// "8,150 of 100,000 succeeded (8 %)". Rounded down: 100 % is all of them.
export function progress(job, verb = " succeeded") {
  const succeeded = job.succeeded ?? 0;
  if (job.completions == null) return `${say(succeeded)}${verb}`;
  const percent = Math.floor((100 * succeeded) / Math.max(1, job.completions));
  return `${say(succeeded)} of ${say(job.completions)}${verb} (${percent} %)`;
}

export function share(job) {
  return job.completions ? (job.succeeded ?? 0) / job.completions : (job.succeeded ?? 0);
}

export const podsFailed = (job) => count(job.failed ?? 0, "Pod");
export const indexesFailed = (job) => count(job.failedIndexes ?? 0, "index", "indexes");

// { rate, left }: successes a second, and the seconds that the rest takes. Null where they cannot be known.
export function pace(job) {
  const [time, before] = job.observed[0] ?? [now(), 0];
  const watched = now() - time;
  const more = (job.succeeded ?? 0) - before;
  if (job.ended == null && watched >= LEAST && more > 0) return withLeft(more / (watched / 1000), job);
  const took = job.at.started && !job.wasSuspended ? ((job.at.ended ?? now()) - job.at.started) / 1000 : 0;
  if (took < 1 || !job.succeeded) return { rate: null, left: null };
  return withLeft(job.succeeded / took, job);
}

function withLeft(perSecond, job) {
  const done = (job.succeeded ?? 0) + (job.perIndex ? (job.failedIndexes ?? 0) : 0);
  const left = (job.completions ?? 0) - done;
  const isGoing = !job.result && job.active > 0 && left > 0;
  return { rate: perSecond, left: isGoing ? left / perSecond : null };
}

export function paceWords(job) {
  const { rate: perSecond } = pace(job);
  return perSecond == null ? "–" : rate(perSecond);
}

export function leftWords(job) {
  const { left } = pace(job);
  return left == null ? "" : `about ${spanUp(left * 1000)} left`;
}

export function duration(job) {
  return job.at.started ? (job.at.ended ?? now()) - job.at.started : null;
}

export function durationElement(job, words = span) {
  return lively(() => (job.at.started ? words(duration(job)) : "–"));
}

const WORDS_OF_PARTS = { succeeded: "succeeded", failed: "failed", running: "active, not counted as progress" };

const partsOf = (job) => [["succeeded", job.succeeded], ["failed", job.perIndex ? job.failedIndexes : 0], ["running", job.active]];

// Says what the parts of a bar are.
export function barLegend(job) {
  const parts = partsOf(job).filter(([, number]) => number);
  return parts.map(([name, number]) => box("span", [element("span", "", { className: `swatch ${name}`, ariaHidden: "true" }), `${say(number)} ${WORDS_OF_PARTS[name]}`]));
}

// Succeeded, failed and active as shares of one bar. Shares too small to see are drawn two pixels wide (page.css).
export function bar(job) {
  const state = stateName(job);
  const parts = partsOf(job);
  const title = parts.filter(([, number]) => number).map(([name, number]) => `${say(number)} ${WORDS_OF_PARTS[name]}`).join(", ");
  const made = element("span", "", { className: `bar ${state}`, ariaHidden: "true", title });
  const known = parts.reduce((sum, [, number]) => sum + (number ?? 0), 0);
  const all = Math.max(job.completions ?? 0, known, 1);
  for (const [name, number] of parts) {
    if (!number) continue;
    const part = element("span", "", { className: name });
    part.style.width = `${(100 * number) / all}%`;
    made.append(part);
  }
  return made;
}
