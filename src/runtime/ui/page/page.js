// The page: a list of Jobs or of CronJobs, or one Job. The address selects the view.

import { $, element, setText } from "./common.js";
import * as address from "./address.js";
import * as failures from "./failures.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as login from "./login.js";
import * as times from "./times.js";

const VIEWS = { jobs: "jobs", cronjobs: "cron-jobs", job: "job" };

let list = "#"; // the list as it was seen last, with its filter

function route() {
  const now = address.read();
  for (const [view, id] of Object.entries(VIEWS)) $(id).hidden = view !== now.view;
  $("nothing").hidden = true;
  $("totals").hidden = now.view === "job";
  $("to-jobs").ariaCurrent = now.view === "jobs" ? "page" : "false";
  $("to-cron-jobs").ariaCurrent = now.view === "cronjobs" ? "page" : "false";
  if (now.view === "job") {
    $("back").href = list;
    jobs.leave();
    job.show(now);
  } else {
    list = location.hash || "#";
    job.leave();
    jobs.show(now);
  }
}

// Says in the middle of the page why there is nothing to see.
function showNothing(title, words) {
  for (const id of Object.values(VIEWS)) $(id).hidden = true;
  $("nothing").hidden = false;
  setText($("nothing-title"), title);
  $("nothing-words").replaceChildren(...words.map((text) => element("p", text)));
  $("nothing-back").href = list;
  document.title = `${title} – lakh`;
}

async function showCluster() {
  const answer = await fetch("/ui/cluster").catch(() => null);
  if (!answer?.ok) return;
  const { name, server, version, lakh, now } = await answer.json();
  times.setServerTime(now);
  setText($("cluster"), `${name ? `Cluster ${name} · ` : ""}${server.replace(/^https?:\/\//, "").replace(/\/$/, "")} · ${version ? `Kubernetes ${version}` : "version unknown"}`);
  $("cluster").title = `API server ${server}, lakh ${lakh}`;
}

times.start();
jobs.start();
job.start({
  found: () => {
    $("job").hidden = false;
    $("nothing").hidden = true;
  },
  missing: (name) => showNothing(`No Job ${name}`, [
    "This controller knows no Job of that name.",
    "The Job may be deleted, in another namespace, or belong to another replica.",
  ]),
});
failures.start();
addEventListener("hashchange", () => $("content").hidden || route());
login.start({
  begin: () => {
    showCluster();
    route();
  },
  forbid: (status, why) => {
    const words = why ? why[0].toUpperCase() + why.slice(1) : "";
    if (status === 404) showNothing("Not found", ["There is no such page.", words]);
    else showNothing("Not allowed", [`${words}.`, "Log in with another token, or ask for the right to list Jobs there."]);
  },
});
