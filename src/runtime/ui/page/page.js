// The page: a table of Jobs and CronJobs, or one Job with a map of its indexes. What is to be seen, the address says.

import { $ } from "./common.js";
import * as failures from "./failures.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as login from "./login.js";

function route() {
  const words = location.hash.slice(1).split("/");
  const path = words.length === 2 && words.every(Boolean) ? words.join("/") : null;
  $("jobs").hidden = path != null;
  $("job").hidden = path == null;
  if (path == null) {
    job.forget();
    jobs.show();
  } else {
    job.show(path);
  }
}

jobs.follow();
job.follow();
failures.follow();
addEventListener("hashchange", () => $("content").hidden || route());
login.follow(route);
