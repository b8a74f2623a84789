// The address after "#": the view, and its parameters. A copied address shows the same.
//
// "#" is all Jobs, "#cronjobs" all CronJobs, "#NAMESPACE/NAME" a Job.

const WAIT = 200;
let writing = 0;

export function read() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const parameters = Object.fromEntries(new URLSearchParams(query));
  const words = path.split("/");
  if (words.length === 2 && words.every(Boolean)) return { view: "job", path, parameters };
  return { view: path === "cronjobs" ? "cronjobs" : "jobs", path, parameters };
}

// Writes the parameters of the present view; those without a value are left out. The browser's history does not grow.
export function write(parameters) {
  clearTimeout(writing);
  const { path } = read();
  writing = setTimeout(() => {
    if (read().path !== path) return;
    const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
    const query = new URLSearchParams(given).toString().replaceAll("%2C", ",");
    history.replaceState(null, "", `#${path}${query ? `?${query}` : ""}`);
  }, WAIT);
}
