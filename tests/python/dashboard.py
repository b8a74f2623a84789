"""The dashboard in deploy/monitoring with a run of 100,000 Pods: dashboard.py LAKH PROMETHEUS BROWSER PAGE.

Has a Prometheus scrape two replicas of lakh at work, asks it what the dashboard's panels ask, and fails if a query fails
or finds nothing. Grafana's own components draw the panels in a browser, without a Grafana server: PAGE is a copy of
tests/dashboard that npm has installed and built. With LAKH_PICTURES=FOLDER it puts a picture there.
"""

import atexit
import io
import json
import math
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from PIL import Image
from playwright.sync_api import sync_playwright

LAKH, PROMETHEUS, BROWSER, PAGE = sys.argv[1:]
PICTURES = os.environ.get("LAKH_PICTURES")
DASHBOARD = pathlib.Path(__file__).parents[2] / "deploy/monitoring/dashboard.json"

PODS = 100_000
# A Pod costs two calls, to make it and to let go of it: so many a second take about three minutes.
CALLS_A_SECOND = 1_200
LIMIT = 600
# Seconds between two scrapes. Grafana is told it with the data source.
SCRAPE = 2
# Small Jobs come one after the other, so that what is measured of new Jobs is measured all the time.
SMALL_JOB_EVERY = 2
# Of the picture: everybody who has the repository has it.
WIDTH, MOST_BYTES = 1600, 250_000
# What the browser asks for, and where it is below PAGE: icons and letters have the addresses that Grafana's server has.
SITE = "http://dashboard.test/"
FILES = {
    "page.js": "built/page.js",
    "page.css": "built/page.css",
    "public/build/img/": "node_modules/@grafana/ui/dist/public/img/",
    "public/fonts/inter/Inter-Regular.woff2": "node_modules/@fontsource/inter/files/inter-latin-400-normal.woff2",
    "public/fonts/inter/Inter-Medium.woff2": "node_modules/@fontsource/inter/files/inter-latin-500-normal.woff2",
}
HTML = """<!doctype html><meta charset="utf-8">
<link rel="stylesheet" href="page.css"><script defer src="page.js"></script>"""
# What the run has none of, by the panel's title and the query's name.
MAY_BE_EMPTY = {("Other controllers, unreadable objects", "C"): "the API server has no objects that cannot be read"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(url, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def wait_for(what, holds, limit=30):
    end = time.time() + limit
    while not holds():
        assert time.time() < end, f"never: {what}"
        time.sleep(0.2)


def is_answered(url):
    try:
        with urllib.request.urlopen(url):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


class Run:
    """A cluster without controllers, two replicas of lakh that work on it, and a Prometheus that scrapes them."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []
        atexit.register(self.end)
        config = self.path("config")
        # Calls are refused now and then, for the panels about them; lakh sends less for a second then.
        refused = "refuse=429,verbs=create,resources=pods,client=lakh/,probability=0.0002"
        local = ["local", "--controllers=-job,-cronjob,-ttl", "--pod-duration=4s", f"--fault={refused}"]
        self.start("local", LAKH, *local, f"--kubeconfig-out={config}")
        wait_for("a kubeconfig", lambda: config.exists() and "current-context" in config.read_text())
        self.server = re.search(r"server: (\S+)", config.read_text()).group(1)
        self.ports = []
        for name in ("lakh-0", "lakh-1"):
            port = free_port()
            controller = ["controller", f"--kubeconfig={config}", "--mode=replace", f"--listen=127.0.0.1:{port}"]
            self.start(name, LAKH, *controller, f"--qps={CALLS_A_SECOND}")
            wait_for(f"{name} is ready", lambda: is_answered(f"http://127.0.0.1:{port}/readyz"))
            self.ports.append((name, port))
        self.begin = time.time()
        self.scrape()

    def path(self, name):
        return pathlib.Path(self.folder.name, name)

    def start(self, name, program, *args):
        with open(self.path(f"{name}.log"), "w") as log:
            self.processes.append(subprocess.Popen([program, *args], stdout=log, stderr=log))

    def scrape(self):
        # As the README has Pods scraped: a target each, with its namespace.
        targets = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name, "namespace": "lakh-system"}}
            for name, port in self.ports
        ]
        config = {
            "global": {"scrape_interval": f"{SCRAPE}s"},
            "scrape_configs": [{"job_name": "lakh", "static_configs": targets}],
        }
        # JSON is YAML.
        self.path("prometheus.yaml").write_text(json.dumps(config))
        port = free_port()
        self.prometheus = f"http://127.0.0.1:{port}"
        options = [f"--config.file={self.path('prometheus.yaml')}", f"--storage.tsdb.path={self.path('data')}"]
        self.start("prometheus", PROMETHEUS, *options, f"--web.listen-address=127.0.0.1:{port}")
        wait_for("Prometheus", lambda: is_answered(f"{self.prometheus}/-/ready"))

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        self.processes = []
        self.folder.cleanup()

    def create(self, kind, name, spec, annotations=None):
        metadata = {"name": name, "annotations": annotations or {}}
        body = {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
        call(f"{self.server}/apis/batch/v1/namespaces/default/{kind.lower()}s", body)

    def is_over(self, name):
        status = call(f"{self.server}/apis/batch/v1/namespaces/default/jobs/{name}")["status"]
        ends = {"Complete", "Failed"}
        return any(condition["type"] in ends for condition in status.get("conditions", []))

    def ask(self, path, **what):
        """Prometheus' answer, which must be one without errors and warnings."""
        url = f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(what, doseq=True)}"
        try:
            answer = call(url)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{what}: {error.read().decode()}") from error
        assert answer["status"] == "success" and not answer.get("warnings"), (what, answer)
        return answer["data"]


def job(completions, parallelism, annotations=None, **spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    common = {"completionMode": "Indexed", "completions": completions, "parallelism": parallelism}
    return {**common, "template": template, **spec}


def on_exit_code(action, code):
    return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [code]}}]}


def work(run):
    """The Jobs, until the big one has ended and what that gave has been scraped."""
    shown = {"lakh.dev/job-metrics": "true"}
    # So that the panels begin with nothing.
    time.sleep(5 * SCRAPE)
    again = {"sim.lakh.dev/fail-indexes": "30000-30999", "sim.lakh.dev/fail-attempts": "1"}
    policy = {"backoffLimitPerIndex": 2, "podFailurePolicy": on_exit_code("Count", 1)}
    run.create("Job", "frames", job(PODS, 5_000, again, **policy), shown)
    run.create("Job", "held", job(10, 10, suspend=True))
    run.create("Job", "theirs", job(10, 10, managedBy="example.com/other"))
    each = job(5, 5, ttlSecondsAfterFinished=15)
    run.create("CronJob", "minutes", {"schedule": "* * * * *", "jobTemplate": {"spec": each}})
    lost = {"sim.lakh.dev/fail-indexes": "0-9", "sim.lakh.dev/exit-code": "42"}
    policy = {"backoffLimitPerIndex": 3, "podFailurePolicy": on_exit_code("FailIndex", 42)}
    run.create("Job", "thumbnails", job(2_000, 100, lost, **policy), shown)
    begun, number = time.time(), 0
    while not run.is_over("frames"):
        assert time.time() < begun + LIMIT, "the big Job does not end"
        run.create("Job", f"page-{number}", job(1, 1, ttlSecondsAfterFinished=15))
        number += 1
        time.sleep(SMALL_JOB_EVERY)
    print(f"{PODS:,} Pods took {time.time() - begun:.0f} s, with {number} small Jobs beside them")
    time.sleep(10 * SCRAPE)


class Asker:
    """Asks what Grafana would, with the same values for its variables."""

    def __init__(self, run, dashboard):
        self.run = run
        # Grafana asks for times that are multiples of the step, which is at least the time between two scrapes.
        self.step = SCRAPE
        self.begin = int(run.begin) // self.step * self.step
        self.end = int(time.time()) // self.step * self.step
        self.values = {
            "__range": f"{self.end - self.begin}s",
            "__rate_interval": f"{max(self.step + SCRAPE, 4 * SCRAPE)}s",
        }
        self.chosen = []
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                self.choose(variable)

    def choose(self, variable):
        """All values of a variable: by its own pattern for all, or else each of them."""
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
        found = self.run.ask(f"label/{label}/values", **{"match[]": self.filled(selector)}, start=self.begin, end=self.end)
        assert found, f"the variable {variable['name']} has no values"
        every = "|".join(re.sub(r"[\\^$*+?.()|{}\[\]]", lambda match: "\\\\" + match.group(), value) for value in found)
        pattern = variable.get("allValue") or (f"({every})" if len(found) > 1 else every)
        self.values[variable["name"]] = pattern
        self.chosen.append((variable["label"], ", ".join(found)))

    def filled(self, expression):
        return re.sub(r"\$(\w+)", lambda match: self.values[match.group(1)], expression)

    def series(self, panel, target):
        query = self.filled(target["expr"])
        answer = self.run.ask("query_range", query=query, start=self.begin, end=self.end, step=self.step)
        return [Series(target, result) for result in answer["result"]]


class Series:
    """A line as Prometheus told it, under the name that the query gives it."""

    def __init__(self, target, result):
        self.ref_id, self.labels, self.values = target["refId"], result["metric"], result["values"]
        form = target["legendFormat"]
        self.name = re.sub(r"{{\s*(\w+)\s*}}", lambda match: self.labels.get(match.group(1), ""), form)
        # A quantile of nothing is NaN.
        self.numbers = [number for _, text in self.values if math.isfinite(number := float(text))]

    def for_page(self):
        """As page.tsx takes it."""
        return {"refId": self.ref_id, "name": self.name, "labels": self.labels, "values": self.values}


def answer_browser(route):
    """What the page asks for, from files. The browser makes an error of what they do not have."""
    path = route.request.url.removeprefix(SITE)
    if path == "":
        return route.fulfill(body=HTML, content_type="text/html")
    for name, place in FILES.items():
        if path == name or name.endswith("/") and path.startswith(name):
            return route.fulfill(path=pathlib.Path(PAGE, place + path.removeprefix(name)))
    return route.fulfill(status=404)


def draw(run):
    """A picture of the dashboard as Grafana's components draw it, without an error of the page."""
    plots = sum(panel["type"] == "timeseries" for panel in run["dashboard"]["panels"])
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        window = chromium.new_page(viewport={"width": WIDTH, "height": 900})
        errors = []
        window.on("pageerror", lambda error: errors.append(str(error)))
        window.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        window.route("**/*", answer_browser)
        window.goto(SITE)
        window.evaluate("run => draw(run)", run)
        plotted, without_icon = window.locator(".timeseries canvas"), window.locator("svg:empty")
        # A panel has its plot when it has measured how high its legend is; icons are fetched one by one.
        wait_for("all is drawn", lambda: errors or plotted.count() == plots and without_icon.count() == 0)
        taken = Image.open(io.BytesIO(window.screenshot(full_page=True))).convert("RGB")
        chromium.close()
    assert not errors, "\n".join(errors)
    return taken


def keep(taken):
    path = pathlib.Path(PICTURES, "dashboard.png")
    # As many colours as a palette can have, in two passes so that areas keep theirs. It is a third as large then.
    taken.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2).save(path, optimize=True)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path} has {size:,} bytes"


def check_numbers(series_by_title):
    """The big Job is on the dashboard as it was."""
    for title, name in (("Pods by Job", "default/frames succeeded"), ("Indexes by Job", "default/frames completed")):
        [series] = [series for series in series_by_title[title] if series.name == name]
        assert series.numbers[-1] == PODS, f"{title}: {series.numbers[-1]} {name}"


def main():
    dashboard = json.loads(DASHBOARD.read_text())
    run = Run()
    work(run)
    asker = Asker(run, dashboard)
    series_by_panel, empty, asked = {}, [], 0
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        found = series_by_panel[panel["id"]] = []
        for target in panel["targets"]:
            series = asker.series(panel, target)
            asked += 1
            found += series
            if not any(one.numbers for one in series) and (panel["title"], target["refId"]) not in MAY_BE_EMPTY:
                empty.append(f"{panel['title']}: nothing is found by {asker.filled(target['expr'])}")
    assert not empty, "\n".join(empty)
    check_numbers({panel["title"]: series_by_panel.get(panel["id"]) for panel in dashboard["panels"]})
    series = {str(panel): [one.for_page() for one in found] for panel, found in series_by_panel.items()}
    span = {"begin": asker.begin, "end": asker.end, "step": asker.step}
    picture = draw({"dashboard": dashboard, "series": series, "chosen": asker.chosen, **span})
    if PICTURES:
        keep(picture)
    print(f"{asked} queries of {len(series_by_panel)} panels were answered with numbers")


main()
