"""The page at /ui in a real browser, as people use it: ui.py LAKH BROWSER.

Checks what does not hang on the machine's speed, and prints times. With LAKH_PICTURES=FOLDER it puts pictures there.
"""

import atexit
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

LAKH, BROWSER = sys.argv[1:]
PICTURES = os.environ.get("LAKH_PICTURES")
STATES = ["waiting", "pending", "running", "succeeded", "failed", "backoff"]

# What the browser is told to note from the first moment on.
WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""


class Cluster:
    """`lakh local`, and what is asked of it."""

    def __init__(self, *args):
        self.folder = tempfile.TemporaryDirectory()
        config = pathlib.Path(self.folder.name, "config")
        command = [LAKH, "local", "--ui", "--kubeconfig-out", str(config), *args]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        atexit.register(self.end)
        links = (re.search(r"http://localhost:\d+/ui", line) for line in self.process.stderr)
        self.page = next(link for link in links if link).group()
        while not config.exists() or "current-context" not in config.read_text():
            time.sleep(0.05)
        self.server = re.search(r"server: (\S+)", config.read_text()).group(1)

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.server + path, data, kind, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def create(self, name, completions, parallelism, annotations=None, **spec):
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
        template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
        spec |= {"completions": completions, "parallelism": parallelism, "template": template}
        spec |= {"completionMode": "Indexed"}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        self.call("POST", "/apis/batch/v1/namespaces/default/jobs", job)

    def is_over(self, name):
        status = self.call("GET", f"/apis/batch/v1/namespaces/default/jobs/{name}")["status"]
        ends = {"Complete", "Failed"}
        return any(condition["type"] in ends for condition in status.get("conditions", []))

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def count(page, state):
    text = page.locator("#legend li").nth(STATES.index(state)).inner_text()
    return int(re.search(r"([\d,]+)$", text).group(1).replace(",", ""))


def wait_for(what, holds, limit=60):
    end = time.time() + limit
    while not holds():
        assert time.time() < end, f"never: {what}"
        time.sleep(0.1)


def colour(page, state):
    script = "(state) => getComputedStyle(document.documentElement).getPropertyValue('--' + state).trim()"
    hexadecimal = page.evaluate(script, state)
    return [int(hexadecimal[at : at + 2], 16) for at in (1, 3, 5)]


def pixel(page, x, y):
    script = """([x, y]) => {
      const ratio = devicePixelRatio;
      return [...document.getElementById("map").getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data].slice(0, 3);
    }"""
    return page.evaluate(script, [x, y])


def pointed_at(page, x, y):
    """Which index is there, and in which state, as the page says."""
    page.locator("#map").hover(position={"x": x, "y": y})
    index, state = page.locator("#tip").inner_text().split(": ")
    return int(index), state.replace("in backoff", "backoff")


def check_colours(page):
    box = page.locator("#map").bounding_box()
    seen = set()
    for part in range(1, 40):
        x, y = box["width"] / 2 + part * 3, box["height"] * part / 40
        index, state = pointed_at(page, x, y)
        assert pixel(page, x, y) == colour(page, state), f"index {index}, {state}"
        seen.add(state)
    return seen


def check_accessible(page, what):
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    told = [(each["id"], each["nodes"][0]["html"][:120]) for each in serious]
    assert not serious, f"{what}: {told}"


def picture(page, name):
    if PICTURES:
        page.screenshot(path=pathlib.Path(PICTURES, f"{name}.png"))


def open_page(browser, link, **more):
    context = browser.new_context(bypass_csp=False, **more)
    page = context.new_page()
    page.problems, page.hosts = [], set()
    # Its warnings are about how this test reads pixels.
    page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.hosts.add(re.match(r"\w+:(//[^/]*)?", request.url).group()))
    page.add_init_script(WATCH)
    page.goto(link)
    return page


def check_quiet(page, link):
    assert not page.problems, page.problems
    here = link.removesuffix("/ui")
    assert page.hosts <= {here, "data:"}, page.hosts


def a_hundred_thousand(browser):
    cluster = Cluster("--pod-duration", "3s", "--pod-exit-code", "0")
    link = cluster.page
    fails = {"sim.lakh.dev/fail-indexes": "500-2499,70000"}
    cluster.create("big", 100_000, 10_000, fails, backoffLimitPerIndex=0)
    cluster.create("small", 20, 5)
    cluster.create("held", 20, 5, suspend=True)
    page = open_page(browser, link, viewport={"width": 1280, "height": 900})
    wait_for("three Jobs", lambda: page.locator("#body a").count() == 3)
    assert "suspended" in page.locator("#body").inner_text()
    check_accessible(page, "the table")
    page.wait_for_timeout(1_500)
    picture(page, "jobs")
    page.fill("#filter", "big")
    wait_for("one Job", lambda: page.locator("#body a").count() == 1)

    # From here on only by keys.
    page.locator("#body a").focus()
    heard = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.dataReceived", lambda event: heard.append(event["dataLength"]))
    page.keyboard.press("Enter")
    wait_for("the map", lambda: "default/big" in page.locator("#job-title").inner_text())
    wait_for("Pods run", lambda: count(page, "running") + count(page, "succeeded") > 1_000)
    page.evaluate("window.longest = 0")
    page.wait_for_timeout(3_000)
    print(f"the longest task while 100,000 indexes change: {page.evaluate('window.longest'):.0f} ms")
    check_accessible(page, "a Job")
    wait_for("failures", lambda: count(page, "failed") >= 2_000)
    picture(page, "map")
    page.locator("#map").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    wait_for("an index", lambda: "Index 1:" in page.locator("#chosen").inner_text())
    page.locator("#index").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("1234")
    page.keyboard.press("Enter")
    wait_for("its Pods", lambda: page.locator("#chosen table").count() == 1)
    told = page.locator("#chosen").inner_text()
    assert "Index 1234: failed" in told and "Failed" in told, told
    assert re.search(r"\b1\b", page.locator("#chosen tbody td").nth(2).inner_text()), told
    page.locator("#map").focus()
    page.keyboard.press("0")

    wait_for("the end", lambda: cluster.is_over("big"), 180)
    wait_for("all", lambda: count(page, "succeeded") == 100_000 - 2_001)
    assert (count(page, "failed"), count(page, "waiting")) == (2_001, 0)
    print(f"bytes for 100,000 indexes from start to end: {sum(heard):,}")
    assert sum(heard) < 2 << 20, "it heard too much"
    assert check_colours(page) == {"succeeded", "failed"}
    # By the mouse, too: a click on a failed one.
    page.locator("#next-state").select_option("failed")
    page.click("#next")
    wait_for("the next that failed", lambda: "Index 1235: failed" in page.locator("#chosen").inner_text())
    check_quiet(page, link)
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    print(f"first paint: {page.evaluate(paint):.0f} ms")

    dark = open_page(browser, f"{link}#default/big", color_scheme="dark", viewport={"width": 1280, "height": 900})
    wait_for("the map", lambda: dark.locator("#legend li").count() and count(dark, "failed") == 2_001)
    dark.wait_for_timeout(500)
    check_colours(dark)
    check_accessible(dark, "a Job in the dark")
    picture(dark, "map-dark")
    narrow = open_page(browser, f"{link}#default/big", viewport={"width": 390, "height": 844})
    wait_for("the map", lambda: narrow.locator("#legend li").count() and count(narrow, "failed") == 2_001)
    wide = narrow.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390, f"it is {wide} wide"
    picture(narrow, "map-narrow")
    check_quiet(dark, link)
    cluster.end()


def a_million(browser):
    cluster = Cluster("--pod-duration", "1h")
    cluster.create("huge", 1_000_000, 1_000)
    page = open_page(browser, f"{cluster.page}#default/huge", viewport={"width": 1280, "height": 900})
    wait_for("the map", lambda: page.locator("#legend li").count() and count(page, "waiting") > 900_000)
    frames = """async () => {
      const map = document.getElementById("map");
      const box = map.getBoundingClientRect();
      const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
      const begun = performance.now();
      let frames = 0;
      while (performance.now() - begun < 3000) {
        const deltaY = Math.floor(frames / 30) % 2 ? 40 : -40;
        map.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: x + (frames % 50), clientY: y, cancelable: true }));
        await new Promise(requestAnimationFrame);
        frames++;
      }
      return frames / 3;
    }"""
    print(f"frames a second while 1,000,000 indexes are zoomed: {page.evaluate(frames):.0f}")
    check_quiet(page, cluster.page)
    cluster.end()


def many_jobs(browser):
    cluster = Cluster("--pod-duration", "1h")
    for number in range(2_000):
        cluster.create(f"job-{number:04}", 5, 1, suspend=True)
    page = open_page(browser, cluster.page, viewport={"width": 1280, "height": 900})
    wait_for("all Jobs", lambda: "2,000" in page.locator("#jobs-count").inner_text())
    assert page.locator("#body tr").count() < 100
    page.evaluate("document.getElementById('rows').scrollTop = 1e9")
    wait_for("the last", lambda: "job-1999" in page.locator("#body").inner_text())
    check_quiet(page, cluster.page)
    cluster.end()


with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
    a_hundred_thousand(chromium)
    a_million(chromium)
    many_jobs(chromium)
    chromium.close()
print("ok")
