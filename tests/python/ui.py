"""The page at /ui in a real browser, as people use it: ui.py LAKH BROWSER.

Checks what does not hang on the machine's speed, and prints times. With LAKH_PICTURES=FOLDER it puts pictures there.
"""

import atexit
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
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
        self.config = str(config)
        self.server = re.search(r"server: (\S+)", config.read_text()).group(1)

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.server + path, data, kind, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def create(self, name, completions, parallelism, annotations=None, **spec):
        job = self.job(name, completions, parallelism, annotations, **spec)
        self.call("POST", "/apis/batch/v1/namespaces/default/jobs", job)

    @staticmethod
    def job(name, completions, parallelism, annotations=None, **spec):
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
        template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
        spec |= {"completions": completions, "parallelism": parallelism, "template": template}
        spec.setdefault("completionMode", "Indexed")
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}

    def schedule(self, name, schedule, annotations=None, job=None, namespace="default", **more):
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
        template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
        spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": template, **(job or {})}}, **more}
        body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}
        return self.call("POST", f"/apis/batch/v1/namespaces/{namespace}/cronjobs", body)

    def limit(self, namespace, pods):
        """Makes a namespace with a quota of Pods."""
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(pods)}}}
        self.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)

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
    return int(index), state.replace("in backoff", "backoff").replace("not started", "waiting")


def check_colours(page):
    box = page.locator("#map").bounding_box()
    seen = set()
    for part in range(1, 40):
        x, y = box["width"] / 2 + part * 3, box["height"] * part / 40
        index, state = pointed_at(page, x, y)
        # A failed index that is small is chosen by its halo, too.
        allowed = [colour(page, state)] + ([colour(page, "halo")] if state == "failed" else [])
        assert pixel(page, x, y) in allowed, f"index {index}, {state}"
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


# Text that is printed over other text, sticks out of the window, or is cut from above or below.
LAYOUT = """(width) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const boxes = [], problems = [];
  while (walker.nextNode()) {
    const { currentNode: node } = walker;
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest(".skip, select") || !parent.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const { left, top, right, bottom } of range.getClientRects()) {
      const box = { left, top, right, bottom, node };
      // What an ancestor clips cannot be seen.
      for (let up = parent; up; up = up.parentElement) {
        if (getComputedStyle(up).overflowX === "visible") continue;
        const clip = up.getBoundingClientRect();
        box.left = Math.max(box.left, clip.left);
        box.right = Math.min(box.right, clip.right);
        box.top = Math.max(box.top, clip.top);
        box.bottom = Math.min(box.bottom, clip.bottom);
      }
      const text = node.data.trim().slice(0, 60);
      if (box.right - box.left < 1) continue;
      if (bottom - top - (box.bottom - box.top) > 4) problems.push(`cut: ${text}`);
      if (box.left < -1 || box.right > width + 1) problems.push(`outside: ${text}`);
      boxes.push(box);
    }
  }
  for (const badge of document.querySelectorAll("td .badge")) {
    if (badge.getBoundingClientRect().right > badge.closest("td").getBoundingClientRect().right) problems.push(`cut: ${badge.textContent}`);
  }
  boxes.sort((one, other) => one.top - other.top);
  boxes.forEach((one, place) => {
    for (let next = place + 1; next < boxes.length && boxes[next].top < one.bottom - 3; next++) {
      const other = boxes[next];
      if (one.node === other.node) continue;
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 3 && Math.min(one.bottom, other.bottom) - other.top > 3)
        problems.push(`over each other: ${one.node.data.trim().slice(0, 60)} / ${other.node.data.trim().slice(0, 60)}`);
    }
  });
  return problems;
}"""


def check_layout(page, what):
    """No text is printed over another, outside of the window, or cut."""
    width = page.viewport_size["width"]
    problems = page.evaluate(LAYOUT, width)
    assert not problems, f"{what} at {width}: {problems[:8]}"
    assert page.evaluate("document.documentElement.scrollWidth") <= width, what


def layouts(browser, cluster, views):
    """All views on a desk and on a telephone."""
    for width, height in [(1_440, 900), (390, 844)]:
        page = open_page(browser, cluster.page, viewport={"width": width, "height": height})
        for view in views:
            page.goto(f"{cluster.page}#{view}")
            page.wait_for_timeout(1_500)
            check_layout(page, view or "the list")
            small = page.evaluate("""() => [...document.querySelectorAll("button")].filter((it) => it.checkVisibility()).filter((it) =>
              it.getBoundingClientRect().height < 32).map((it) => it.textContent)""")
            assert width > 1_000 or not small, f"{view}: buttons that are too small to be touched: {small}"
        check_quiet(page, cluster.page)
        page.context.close()


def check_cron_jobs(page):
    page.click("#to-cron-jobs")
    wait_for("the CronJobs", lambda: page.locator("#cron-body tr").count() == 3)
    rows = page.locator("#cron-body tr").all()
    nightly, often, paused = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]
    assert "On" in nightly[0] and nightly[1].split("\n") == ["nightly", "default"], nightly
    assert nightly[2].startswith("30 2 * * *") and nightly[3:5] == ["Europe/Berlin", "Allow"], nightly
    assert re.fullmatch(r"never; created (now|\d+ \w+ ago)", nightly[5]), nightly
    assert re.fullmatch(r"in \d+ h, in \d+ h", nightly[7]), nightly
    # In the viewer's own zone, which is the one of this machine.
    title = rows[0].locator("td").nth(7).locator("span").first.get_attribute("title")
    assert len(title.splitlines()) == 5, title
    assert re.match(r"in \d+ (s|min),", often[7]), often
    assert "Suspended" in paused[0] and paused[7] == "none while it is suspended", paused
    check_times(page)
    check_accessible(page, "the CronJobs")
    page.click("#to-jobs")
    wait_for("the Jobs", lambda: page.locator("#jobs").is_visible())


def address(page):
    return page.evaluate("location.hash")


def check_times(page):
    """All times are written in one way: relative, with the absolute local time in the title."""
    times = page.locator("main time:visible").all()
    assert times, "there are times"
    for time_element in times:
        text, title = time_element.inner_text(), time_element.get_attribute("title")
        assert re.fullmatch(r"now|[\d,]+ (s|min|h|days) ago|in [\d,]+ (s|min|h|days)", text), text
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d", title), title
    text = page.locator("main").inner_text()
    assert not re.search(r"\dT\d\d:\d\d|\d\d:\d\d (AM|PM)", text), text


def check_spans(page):
    """Time that is left is rounded up, and one duration has one text."""
    script = """import("/ui/times.js").then(({ spanUp, exactSpan, span }) =>
      [spanUp(299_001), spanUp(7_100_000), span(299_001), exactSpan(107_000), span(107_000), exactSpan(334_000)])"""
    assert page.evaluate(script) == ["5 min", "119 min", "4 min", "107 s", "107 s", "5 min 34 s"]


def linear(hexadecimal):
    parts = [int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


# What is left of red, green and blue without red or green cones. Source: Machado, Oliveira and Fernandes, 2009, severity 1.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


def oklab(red, green, blue):
    red, green, blue = (min(1, max(0, part)) for part in (red, green, blue))
    cones = [
        0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue,
        0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue,
        0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue,
    ]
    long, middle, short = (cone ** (1 / 3) for cone in cones)
    return (
        0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short,
    )


def check_palette(page):
    """No two states look alike to eyes without red or green cones."""
    script = "(states) => states.map((state) => getComputedStyle(document.documentElement).getPropertyValue(`--${state}`).trim())"
    colours = dict(zip(STATES, page.evaluate(script, STATES), strict=True))
    for kind, matrix in BLINDNESS.items():
        seen = {}
        for state, colour in colours.items():
            parts = linear(colour)
            seen[state] = oklab(*(sum(row[at] * parts[at] for at in range(3)) for row in matrix))
        for one in STATES:
            for other in STATES:
                apart = sum((a - b) ** 2 for a, b in zip(seen[one], seen[other], strict=True)) ** 0.5
                assert one == other or apart > 0.1, f"{kind}: {one} and {other} are {apart:.3f} apart"
    # Nor without colours. The two that matter most have signs and a contrast of 2.
    light = {state: sum(part * share for part, share in zip(linear(it), (0.2126, 0.7152, 0.0722))) + 0.05 for state, it in colours.items()}
    for one in STATES:
        for other in STATES:
            contrast = max(light[one], light[other]) / min(light[one], light[other])
            least = 2 if {one, other} == {"failed", "backoff"} else 1.25
            assert one == other or contrast >= least, f"{one} and {other} have a contrast of {contrast:.2f}"


def check_fits(page, width):
    """Nothing of the list is cut at the window's edge, and each row shows all facts."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # In one look: a row of a Job that changes is another one.
    script = """(width) => [...document.querySelectorAll("#body tr:not(.space)")].flatMap((row) =>
      ["state", "job", "progress", "failed", "pace", "duration", "age"].flatMap((name) => {
        const cell = row.querySelector(`td.of-${name}`);
        const { left, right, width: wide } = cell.getBoundingClientRect();
        const isCut = cell.scrollHeight > cell.clientHeight + 1 || left < 0 || right > width || wide === 0;
        return isCut ? [`${name}: ${cell.textContent}`] : [];
      }))"""
    assert page.evaluate(script, width) == [], "cells are cut"


def check_logs(page, place):
    """The command that prints a Pod's log is there, and can be copied."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    name = page.locator(f"{place} tbody td").first.inner_text()
    page.locator(f"{place} .command button").first.click()
    wanted = f"kubectl logs -n default {name}"
    wait_for("it is copied", lambda: page.evaluate("navigator.clipboard.readText()") == wanted)


def check_link(browser, page):
    """The address holds the index and the zoom, and shows the same in another window."""
    page.fill("#index", "70000")
    page.press("#index", "Enter")
    wait_for("the index", lambda: "Index 70000: failed" in page.locator("#chosen").inner_text())
    page.locator("#map").focus()
    for _ in range(5):
        page.keyboard.press("+")
    wait_for("the address", lambda: re.search(r"\?index=70000&zoom=[\d.]+&at=\d+$", address(page)))
    zoom, at = re.search(r"zoom=([\d.]+)&at=(\d+)", address(page)).groups()
    other = open_page(browser, page.evaluate("location.href"), viewport={"width": 1000, "height": 700})
    wait_for("the same index", lambda: "Index 70000: failed" in other.locator("#chosen").inner_text())
    wait_for("its Pods", lambda: other.locator("#chosen table").count() == 1)
    other.wait_for_timeout(500)
    same_zoom, same_at = re.search(r"zoom=([\d.]+)&at=(\d+)", address(other)).groups()
    assert abs(float(zoom) - float(same_zoom)) < 0.2, address(other)
    assert abs(int(at) - int(same_at)) < 1_500, f"{address(page)} became {address(other)}"
    page.locator("#map").focus()
    page.keyboard.press("0")
    wait_for("no zoom", lambda: "zoom" not in address(page))


def check_mark(page):
    """A single failed index can be seen in the map of all: a block of its colour or its halo, three pixels wide and high at least."""
    script = """(colours) => {
      const map = document.getElementById("map");
      const { data, width } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
      const is = (place) => colours.some((colour) => colour.every((part, at) => data[4 * place + at] === part));
      let best = 0;
      const from = Math.floor(map.height * 0.6);
      for (let y = from; y < map.height - 3; y++) for (let x = 0; x < width - 3; x++) {
        let all = true;
        for (let down = 0; down < 3 && all; down++) for (let right = 0; right < 3 && all; right++) all = is((y + down) * width + x + right);
        if (all) best++;
      }
      return best;
    }"""
    assert page.evaluate(script, [colour(page, "failed"), colour(page, "halo")]) >= 1, "the failed index cannot be seen"


def check_share(page, share):
    """The full colour of failures covers as much of the map as there are failures, where all others have succeeded."""
    script = """([red, green]) => {
      const map = document.getElementById("map");
      const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
      const dot = (one, other) => one.reduce((sum, part, place) => sum + part * other[place], 0);
      const way = red.map((part, place) => part - green[place]);
      let failed = 0, all = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] < 255) continue;
        all++;
        const gone = green.map((part, place) => data[at + place] - part);
        if (dot(gone, way) > dot(way, way) / 2) failed++;
      }
      return failed / all;
    }"""
    shown = page.evaluate(script, [colour(page, "failed"), colour(page, "succeeded")])
    assert 0.75 * share < shown < 1.25 * share, f"{share:.4f} failed, and {shown:.4f} of the map says so"


def check_failed_ranges(page, copied, shown):
    """The failed indexes are there as text, and can be copied."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    wait_for("the failed indexes", lambda: shown in page.locator("#failed-indexes").inner_text())
    page.locator("#failed-indexes button").click()
    wait_for("they are copied", lambda: page.evaluate("navigator.clipboard.readText()") == copied)


def check_sums(page):
    """The counts of the map and those of the Pods fit each other, at each moment."""
    script = """() => {
      const text = (of) => of.textContent.replaceAll(",", "");
      const state = (name) => Number([...document.querySelectorAll("#legend li")].map(text).find((it) => it.startsWith(name)).split(" ").at(-1));
      const fact = text([...document.querySelectorAll("#facts > div")].find((it) => it.textContent.startsWith("Pods active")));
      const of = (pattern) => Number(fact.match(pattern)?.[1] ?? 0);
      return [state("pending") + state("running"), of(/active([0-9]+)/), of(/([0-9]+) being created/)];
    }"""
    creating = 0
    for _ in range(40):
        indexes, active, created = page.evaluate(script)
        assert indexes == active + created, f"{indexes} indexes, {active} Pods active and {created} being created"
        creating = max(creating, created)
        page.wait_for_timeout(100)
    return creating


def check_failures(page):
    page.locator("#failures").scroll_into_view_if_needed()
    wait_for("the causes", lambda: "2,001 failed Pods are" in page.locator("#failures-note").inner_text())
    cause = page.locator("#causes tbody tr").inner_text()
    assert "exit code 1" in cause and "2,001" in cause and "500–2499, 70000" in cause, cause
    assert re.search(r"[\d,]+ nodes|hollow-\d+", cause), cause
    note = page.locator("#failures-note").inner_text()
    assert "2,001 failed Pods are there" in note and "gone" not in note, note
    page.locator("#causes button").click()
    wait_for("its first index", lambda: "Index 500: failed" in page.locator("#chosen").inner_text())
    check_accessible(page, "failures")
    picture(page, "failures")
    # One that is gone is missed.
    selector = urllib.parse.quote("batch.kubernetes.io/job-completion-index=70000")
    pods = page.cluster.call("GET", f"/api/v1/namespaces/default/pods?labelSelector={selector}")["items"]
    for pod in pods:
        page.cluster.call("DELETE", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
    page.locator("#read").click()
    gone = r"1 more that \w+ failed \w+ gone.* 1 failed \w+ \w+ no Pod left"
    wait_for("that it is gone", lambda: re.search(gone, page.locator("#failures-note").inner_text()))


def check_read_once(page):
    """The failures of a Job that is over are read by themselves: first some, and all of them once that part is seen."""
    reads = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/failures'))"
    wait_for("the causes", lambda: page.locator("#causes tbody tr").count() == 1)
    assert "1,000" in page.locator("#causes").inner_text()
    page.locator("#causes").evaluate("(element) => element.parentElement.scrollIntoView()")
    wait_for("all of them", lambda: "2,001" in page.locator("#causes").inner_text())
    page.wait_for_timeout(500)
    took = page.evaluate(f"{reads}.map(({{ duration }}) => duration)")
    assert len(took) == 2, took
    print(f"the causes of 1,000 and of 2,001 failed Pods: {took[0]:.0f} and {took[1]:.0f} ms")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "failures-narrow")


def check_touch(browser, link):
    """Two fingers zoom, one moves, and a tap chooses, as a browser on a telephone reports them."""
    page = open_page(browser, link, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    wait_for("the map", lambda: page.locator("#legend li").count() and count(page, "failed") == 2_001)
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    middle_x, middle_y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)

    def touch(kind, *points):
        points = [{"x": x, "y": y, "id": place} for place, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})

    def tapped(x, y):
        touch("Start", (x, y))
        touch("End")
        wait_for("an index", lambda: re.match(r"Index \d+:", page.locator("#chosen").inner_text() or ""))
        page.wait_for_timeout(100)
        return int(re.match(r"Index (\d+):", page.locator("#chosen").inner_text()).group(1))

    def apart():
        """How many indexes lie between two places of a row."""
        return tapped(middle_x + 60, middle_y) - tapped(middle_x, middle_y)

    def pinch(start, end):
        steps = 12
        touch("Start", (middle_x - start, middle_y), (middle_x + start, middle_y))
        for step in range(1, steps + 1):
            half = start + (end - start) * step / steps
            touch("Move", (middle_x - half, middle_y), (middle_x + half, middle_y))
        touch("End")
        page.wait_for_timeout(100)

    far, in_middle = apart(), tapped(middle_x, middle_y)
    pinch(20, 100)
    near = apart()
    assert far / 8 < near < far / 3, f"five times as large: {far} became {near}"
    # What was between the fingers stays there, but for a row or two.
    row = tapped(middle_x, middle_y + 40) - tapped(middle_x, middle_y)
    moved = abs(tapped(middle_x, middle_y) - in_middle)
    assert moved <= max(2 * abs(row), 2 * far), f"it moved by {moved}"
    before = tapped(middle_x, middle_y)
    touch("Start", (middle_x, middle_y))
    for step in range(1, 9):
        touch("Move", (middle_x - 10 * step, middle_y))
    touch("End")
    assert tapped(middle_x, middle_y) > before, "it was dragged to the left"
    pinch(100, 20)
    assert apart() > 3 * near
    assert page.evaluate("visualViewport.scale") == 1, "the map zooms, not the page"
    check_quiet(page, link.split("#")[0])


def a_hundred_thousand(browser):
    cluster = Cluster("--pod-duration", "3s", "--pod-exit-code", "0")
    link = cluster.page
    fails = {"sim.lakh.dev/fail-indexes": "500-2499,70000"}
    cluster.create("big", 100_000, 10_000, fails, backoffLimitPerIndex=0)
    cluster.create("small", 20, 5)
    cluster.create("held", 20, 5, suspend=True)
    cluster.schedule("nightly", "30 2 * * *", timeZone="Europe/Berlin")
    cluster.schedule("often", "*/5 * * * *")
    cluster.schedule("paused", "0 6 * * 1", suspend=True)
    page = open_page(browser, link, viewport={"width": 1280, "height": 900})
    page.cluster = cluster
    wait_for("three Jobs", lambda: page.locator("#body a").count() == 3)
    assert "Suspended" in page.locator("#body").inner_text()
    wait_for("the totals", lambda: re.match(r"3 Jobs · 0 failed · [\d,]+ Pods active", page.locator("#totals").inner_text()))
    wait_for("the cluster", lambda: "Kubernetes v" in page.locator("#cluster").inner_text())
    check_palette(page)
    check_cron_jobs(page)
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
    check_sums(page)
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
    check_logs(page, "#chosen")
    page.locator("#map").focus()
    page.keyboard.press("0")

    wait_for("the end", lambda: cluster.is_over("big"), 600)
    wait_for("all", lambda: count(page, "succeeded") == 100_000 - 2_001)
    assert (count(page, "failed"), count(page, "waiting")) == (2_001, 0)
    print(f"bytes for 100,000 indexes from start to end: {sum(heard):,}")
    assert sum(heard) < 2 << 20, "it heard too much"
    assert check_colours(page) == {"succeeded", "failed"}
    # By the mouse, too: the next failed one.
    page.locator("#legend button").nth(STATES.index("failed")).click()
    wait_for("the next that failed", lambda: "Index 1235: failed" in page.locator("#chosen").inner_text())
    check_job_that_is_over(page)
    check_link(browser, page)
    check_failures(page)
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
    check_mark(narrow)
    check_read_once(narrow)
    check_layout(narrow, "a Job of 100,000")
    check_touch(browser, f"{link}#default/big")
    check_quiet(dark, link)
    cluster.end()


def fact(page, name):
    return page.locator("#facts > div", has=page.get_by_text(name, exact=True)).locator("dd").inner_text()


def check_job_that_is_over(page):
    """`big` has failed, and its page says so first, with the facts that `lakh status` has."""
    wait_for("its end", lambda: "Failed" in page.locator("#job-badge").inner_text())
    trouble = page.locator("#trouble").inner_text()
    assert "FailedIndexes" in trouble, trouble
    # Of the first thousand, until that part of the page is seen.
    cause = r"Exit code 1: (2,001 of 2,001 failed Pods, 2,001 indexes|1,000 of the 1,000 failed Pods read, 1,000 indexes)"
    wait_for("the cause", lambda: re.search(cause, page.locator("#trouble").inner_text()))
    assert "kubectl logs -n default big-" in page.locator("#trouble").inner_text()
    check_failed_ranges(page, "500-2499,70000", "500-2499, 70000")
    assert page.locator("#axis").get_attribute("data-numbers").startswith("0 "), "the map has numbers"
    red = page.evaluate("getComputedStyle(document.querySelector('#job-badge .badge')).backgroundColor")
    assert red == "rgb({}, {}, {})".format(*colour(page, "failed")), red
    status = subprocess.run([LAKH, "status", "big", "--kubeconfig", page.cluster.config], capture_output=True, text=True).stdout
    state, said = re.match(r"default/big: (.*?), (.*)\n", status).groups()
    summary = page.locator("#summary").inner_text().replace(",", "")
    assert said in summary, f"{said} / {summary}"
    assert state.removeprefix("Failed ") in summary, f"{state} / {summary}"
    assert fact(page, "Failed indexes") == "2,001"
    assert int(fact(page, "Pods failed, all attempts").replace(",", "")) >= 2_001
    assert fact(page, "Parallelism") == "10,000" and fact(page, "Image") == "busybox"
    for name in ["Created", "Started", "Ended"]:
        assert re.search(r"^now$| ago$", fact(page, name)), name
    assert re.fullmatch(r"(\d+ min )?\d+ s", fact(page, "Duration")), fact(page, "Duration")
    conditions = page.locator("#conditions").inner_text()
    assert "FailureTarget" in conditions and "Job has failed indexes" in conditions, conditions
    # The controller's own waits are for its developers.
    assert "resourceVersion" not in page.locator("main").inner_text()
    page.click("#internals summary")
    wait_for("the internals", lambda: "resourceVersion" in page.locator("#internals-list").inner_text())
    page.click("#internals summary")
    check_times(page)


def check_runs(page, cluster):
    """CronJobs say how their Jobs fare."""
    cluster.limit("stuck", 0)
    cluster.schedule("j-fails", "* * * * *", {"sim.lakh.dev/exit-code": "3"}, {"backoffLimit": 0})
    cluster.schedule("k-stuck", "* * * * *", namespace="stuck")
    cluster.schedule("l-long", "* * * * *", {"sim.lakh.dev/duration": "1h"})
    page.goto(f"{cluster.page}#cronjobs")
    row = page.locator("#cron-body tr")

    def state(name, text):
        wait_for(name, lambda: text in row.filter(has_text=name).inner_text(), 90)

    state("j-fails", "Last failed")
    assert re.search(r"Failed: …-\d+", row.filter(has_text="j-fails").inner_text())
    state("k-stuck", "Job stalled")
    assert re.search(r"\d+ of \d+ stalled", row.filter(has_text="k-stuck").inner_text())
    state("l-long", "Running: …-")
    link = row.filter(has_text="l-long").locator("a").first
    assert "underline" in link.evaluate("(it) => getComputedStyle(it).textDecorationLine")
    check_times(page)
    check_accessible(page, "CronJobs in trouble")
    link.click()
    wait_for("the Job of a run", lambda: "l-long-" in page.locator("#job-title").inner_text())
    wait_for("its owner", lambda: "CronJob l-long" in page.locator("#facts").inner_text())


def numbers(browser):
    """What the parts of a Job's page say of one moment is the same."""
    cluster = Cluster("--pod-duration", "500ms")
    scattered = ",".join(str(index) for index in range(50, 20_000, 200))
    cluster.create("many", 20_000, 3_000, {"sim.lakh.dev/fail-indexes": scattered}, backoffLimitPerIndex=0)
    page = open_page(browser, f"{cluster.page}#default/many", viewport={"width": 1280, "height": 900})
    wait_for("Pods run", lambda: page.locator("#legend li").count() and count(page, "running") > 100)
    assert check_sums(page) > 0, "no Pod was being created when it was looked at"
    wait_for("the end", lambda: cluster.is_over("many"), 300)
    wait_for("all failures", lambda: count(page, "failed") == 100)
    phone = open_page(browser, f"{cluster.page}#default/many", viewport={"width": 390, "height": 844})
    wait_for("the map", lambda: phone.locator("#legend li").count() and count(phone, "failed") == 100)
    phone.wait_for_timeout(500)
    check_share(phone, 100 / 20_000)
    # They are read before that part of the page is seen.
    wait_for("the causes", lambda: phone.locator("#causes tbody tr").count() == 1)
    check_mark(phone)
    check_layout(phone, "scattered failures")
    check_quiet(page, cluster.page)
    cluster.end()


def mixed(browser):
    """A list with trouble in it, and pages of Jobs that are unlike each other."""
    cluster = Cluster("--pod-duration", "1s")
    fails = {"sim.lakh.dev/exit-code": "3"}
    long = {"sim.lakh.dev/duration": "1h"}
    cluster.create("a-complete", 5, 5)
    cluster.create("b-running", 50, 10, long)
    cluster.create("c-held", 5, 5, suspend=True)
    cluster.create("d-failed", 10, 2, fails, backoffLimitPerIndex=0)
    killed = {"sim.lakh.dev/exit-code": "137"}
    cluster.create("e-work-queue", 6, 3, killed, completionMode="NonIndexed", backoffLimit=2)
    cluster.create("f-elsewhere", 5, 5, managedBy="example.com/other")
    cluster.limit("full", 0)
    cluster.call("POST", "/apis/batch/v1/namespaces/full/jobs", cluster.job("g-over-quota", 5, 5))
    cluster.limit("tight", 2)
    cluster.call("POST", "/apis/batch/v1/namespaces/tight/jobs", cluster.job("h-short", 5, 5, long))
    cluster.create("i-max-failed", 50, 2, fails, backoffLimitPerIndex=0, maxFailedIndexes=1)
    for name in ["a-complete", "d-failed", "e-work-queue", "i-max-failed"]:
        wait_for(name, lambda name=name: cluster.is_over(name))
    page = open_page(browser, cluster.page, viewport={"width": 1440, "height": 900})
    order = ["Failed", "Failed", "Failed", "Stalled", "Pods refused", "Running", "Suspended", "External", "Complete"]
    badges = page.locator("#body .badge")

    def states():
        return [re.sub(r"^\W+", "", text) for text in badges.all_inner_texts()]

    wait_for("trouble first", lambda: states() == order)
    red = page.evaluate("getComputedStyle(document.querySelector('#body .badge')).backgroundColor")
    assert red == "rgb({}, {}, {})".format(*colour(page, "failed")), red
    text = page.locator("#body").inner_text()
    assert "FailedIndexes" in text and "BackoffLimitExceeded" in text and "10 indexes" in text, text
    assert "managed by example.com/other" in text and "status write" not in text, text
    none = r"5 Pods not created: exceeded quota: pods, requested: pods=1, used: pods=0, limited: pods=0; next attempt in \d+ s"
    wait_for("another try", lambda: re.search(none, page.locator("#body tr.stalled").inner_text()))
    assert "3 Pods not created: exceeded quota" in page.locator("#body tr.refused").inner_text()
    assert "External 1" in page.locator("#groups").inner_text()
    bar = page.locator("#body tr", has_text="b-running").locator(".bar")
    assert bar.get_attribute("title") == "10 active, not counted as progress"
    check_fits(page, 1_440)
    check_times(page)
    check_accessible(page, "a mixed list")
    page.click(".group.failed")
    wait_for("the failed ones", lambda: states() == ["Failed"] * 3)
    wait_for("the filter is in the address", lambda: address(page) == "#?state=failed")
    phone = open_page(browser, cluster.page, viewport={"width": 390, "height": 844}, color_scheme="dark")
    wait_for("the cards", lambda: phone.locator("#body .badge").count() == 9)
    check_fits(phone, 390)
    check_palette(phone)
    check_accessible(phone, "cards in the dark")

    page.goto(f"{cluster.page}#default/e-work-queue")
    wait_for("its Pods", lambda: page.locator("#pods-table tbody tr").count() >= 3)
    assert page.locator("#pods-table tbody tr").first.locator("td").nth(1).inner_text() == "Failed"
    assert "busybox" in fact(page, "Image") and fact(page, "Pods failed") != "0"
    check_logs(page, "#pods-table")
    # There is nothing to show of a Job that was over before.
    assert not page.locator("#throughput").is_visible()
    number = fact(page, "Pods failed")
    cause = rf"Exit code 137 \(SIGKILL, not reported as OOMKilled\): {number} of {number} failed Pods, on (\d+ nodes|hollow-\d+)\."
    wait_for("the cause", lambda: re.search(cause, page.locator("#trouble").inner_text()))
    assert re.search(r"kubectl logs -n default e-work-queue-\w+", page.locator("#trouble").inner_text())
    nodes = set(page.locator("#pods-table td[data-label=Node]").all_inner_texts())
    told = page.locator("#causes td[data-label=Nodes]").inner_text()
    assert told == (f"{len(nodes)} nodes" if len(nodes) > 1 else nodes.pop()), told
    assert fact(page, "backoffLimit") == "2" and fact(page, "Owner") == "none"
    page.goto(f"{cluster.page}#default/i-max-failed")
    wait_for("what has not started", lambda: re.search(r"not started \d+", page.locator("#legend").inner_text()))
    assert fact(page, "maxFailedIndexes") == "1" and fact(page, "backoffLimitPerIndex") == "0"
    page.goto(f"{cluster.page}#default/d-failed")
    check_failed_ranges(page, "0-9", "0-9")
    assert page.locator("#axis").get_attribute("data-numbers") == "0"
    page.goto(f"{cluster.page}#default/e-work-queue")
    wait_for("its Pods", lambda: page.locator("#pods-table tbody tr").count() >= 3)
    check_times(page)
    check_accessible(page, "a Job without indexes")
    page.goto(f"{cluster.page}#default/b-running")
    wait_for("another Job", lambda: "default/b-running" in page.locator("#job-title").inner_text())
    wait_for("it runs", lambda: "Running" in page.locator("#job-badge").inner_text() and count(page, "running") == 10)
    assert not page.locator("#without-indexes").is_visible() and not page.locator("#trouble").is_visible()

    views = ["", "cronjobs", "default/b-running", "default/d-failed", "default/e-work-queue", "full/g-over-quota", "tight/h-short", "default/none"]
    check_runs(page, cluster)
    layouts(browser, cluster, views)
    page.goto(f"{cluster.page}#tight/h-short")
    wait_for("one Warning of many", lambda: re.search(r"FailedCreate \(\d+ times, the last ", page.locator("#warnings").inner_text()))
    assert page.locator("#warnings p").count() == 1
    check_spans(page)

    page.goto(f"{cluster.page}#default/no-such-job")
    wait_for("a word", lambda: page.locator("#nothing-title").inner_text() == "No Job default/no-such-job")
    box = page.locator("#nothing").bounding_box()
    assert abs(box["x"] + box["width"] / 2 - 720) < 40 and box["y"] > 100, box
    for part in ["#job", "#jobs", "#map", "#facts"]:
        assert not page.locator(part).is_visible(), part
    cluster.create("no-such-job", 1, 1, long)
    wait_for("it is there now", lambda: page.locator("#job").is_visible() and not page.locator("#nothing").is_visible())
    check_quiet(page, cluster.page)
    check_quiet(phone, cluster.page)
    # As the controller answers a viewer without the right (ui_tokens.rs).
    refusal = "you may not list jobs.batch in namespace secret"
    page.route("**/ui/jobs/secret/*", lambda route: route.fulfill(status=403, body=refusal))
    page.goto(f"{cluster.page}#secret/job")
    wait_for("a refusal", lambda: page.locator("#nothing-title").inner_text() == "Not allowed")
    assert "You may not list jobs.batch in namespace secret." in page.locator("#nothing").inner_text()
    assert not page.locator("#job").is_visible()
    page.click("#nothing-back")
    wait_for("the list again", lambda: page.locator("#body .badge").count() > 0)
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
    path = "/apis/batch/v1/namespaces/default/jobs"
    connection = http.client.HTTPConnection(cluster.server.removeprefix("http://"))

    def send(method, path, body, kind="application/json"):
        connection.request(method, path, json.dumps(body), {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        assert answer.status < 300, answer.status

    for number in range(10_000):
        send("POST", path, cluster.job(f"job-{number:05}", 5, 1, suspend=True))
    page = open_page(browser, cluster.page, viewport={"width": 1280, "height": 900})
    wait_for("all Jobs", lambda: "10,000" in page.locator("#jobs-count").inner_text())
    assert page.locator("#body tr").count() < 100

    def longest(what, act):
        act()
        page.wait_for_timeout(1_000)
        took = page.evaluate("window.longest")
        page.evaluate("window.longest = 0")
        # A browser tells of none under 50 ms.
        print(f"the longest task while 10,000 Jobs are {what}: {f'{took:.0f} ms' if took else 'under 50 ms'}")
        # What is aimed at is 50 ms, on a machine that does nothing else.
        assert took < 100, what

    def scroll_a_little():
        """Rows that stay in sight are not made anew."""
        page.evaluate("""async () => {
          const frames = async () => { for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame); };
          scrollTo(0, 5000);
          await frames();
          const stays = document.getElementById("body").children[20];
          scrollBy(0, 250);
          await frames();
          if (!stays.isConnected) throw Error("a row was made anew");
          if (document.getElementById("body").children[15] !== stays) throw Error("it is not where it was");
        }""")

    def scroll():
        page.evaluate("""async () => {
          for (let step = 0; step < 120; step++) {
            scrollBy(0, 4200);
            await new Promise(requestAnimationFrame);
          }
          scrollTo(0, 1e9);
        }""")
        # Jobs of one second are sorted by name, so which one is the last hangs on how fast they were created.
        wait_for("the last", lambda: page.evaluate("document.getElementById('body').lastElementChild.className !== 'space'"))

    def type_filter():
        page.locator("#filter").press_sequentially("job-0123", delay=60)
        wait_for("ten", lambda: "10 of 10,000" in page.locator("#jobs-count").inner_text())
        page.fill("#filter", "")
        wait_for("all", lambda: page.locator("#jobs-count").inner_text() == "10,000")

    def sort():
        for _ in range(2):
            page.locator("#head button", has_text="Job").click()
            page.wait_for_timeout(300)

    def update():
        resume = {"spec": {"suspend": False}}

        def change():
            for number in range(0, 10_000, 10):
                send("PATCH", f"{path}/job-{number:05}", resume, "application/merge-patch+json")

        changes = threading.Thread(target=change)
        changes.start()
        wait_for("some are at work", lambda: page.locator(".group.running").is_visible())
        page.click(".group.running")
        wait_for("a thousand at work", lambda: "1,000 of 10,000" in page.locator("#jobs-count").inner_text())
        changes.join()
        page.locator("#groups button").first.click()

    longest("shown first", lambda: None)
    longest("scrolled a little", scroll_a_little)
    longest("scrolled", scroll)
    longest("filtered", type_filter)
    longest("sorted", sort)
    longest("changed, 1,000 of them", update)
    check_quiet(page, cluster.page)
    cluster.end()


class Guarded:
    """A cluster with tokens, and a controller that shows the page to who brings one."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        tokens = pathlib.Path(self.folder.name, "tokens")
        tokens.write_text('masters-token,ann,1,"system:masters"\nreaders-token,bob,2,"readers"\n')
        config = pathlib.Path(self.folder.name, "config")
        local = [LAKH, "local", "--token-file", str(tokens), "--kubeconfig-out", str(config)]
        self.processes = [subprocess.Popen(local, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        atexit.register(self.end)
        while not config.exists() or "current-context" not in config.read_text():
            time.sleep(0.05)
        controller = [LAKH, "controller", "--kubeconfig", str(config), "--listen", "127.0.0.1:0", "--log-format", "json"]
        shown = ["--ui-listen", "127.0.0.1:0", "--ui-plain-http"]
        process = subprocess.Popen([*controller, *shown], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        lines = (json.loads(line) for line in process.stderr)
        line = next(line for line in lines if "the page is shown" in json.dumps(line))
        port = re.search(r"127\.0\.0\.1:(\d+)", json.dumps(line)).group(1)
        self.page = f"http://localhost:{port}/ui"
        threading.Thread(target=process.stderr.read, daemon=True).start()

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def with_a_token(browser):
    guarded = Guarded()
    page = open_page(browser, guarded.page, viewport={"width": 1280, "height": 900})
    wait_for("the login", lambda: page.locator("#login").is_visible())
    assert not page.locator("#content").is_visible()
    check_accessible(page, "the login")
    page.keyboard.type("nobodys-token")
    page.keyboard.press("Enter")
    wait_for("a refusal", lambda: "does not accept this token" in page.locator("#login-problem").inner_text())
    # That is what the browser itself says of an answer 401.
    page.problems = [problem for problem in page.problems if "401" not in problem]
    picture(page, "login")
    page.fill("#token", "readers-token")
    page.keyboard.press("Enter")
    wait_for("the Jobs", lambda: page.locator("#content").is_visible())
    assert page.locator("#user").inner_text() == "bob"
    # By its name in the kubeconfig.
    wait_for("the cluster", lambda: page.locator("#cluster").inner_text().startswith("Cluster "))
    wait_for("that none is there", lambda: page.locator("#no-jobs").is_visible())
    assert page.evaluate("document.cookie") == "", "no script can read it"
    [cookie] = page.context.cookies()
    kept = (cookie["httpOnly"], cookie["secure"], cookie["sameSite"])
    assert kept == (True, True, "Strict"), cookie
    page.reload()
    wait_for("the Jobs again", lambda: page.locator("#content").is_visible())
    page.click("#logout")
    wait_for("who are you", lambda: page.locator("#login").is_visible())
    assert page.context.cookies() == []
    narrow = open_page(browser, guarded.page, viewport={"width": 390, "height": 844}, color_scheme="dark")
    wait_for("who are you", lambda: narrow.locator("#login").is_visible())
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
    check_accessible(narrow, "the login in the dark")
    page.problems = [problem for problem in page.problems if "401" not in problem]
    check_quiet(page, guarded.page)
    guarded.end()


with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
    mixed(chromium)
    numbers(chromium)
    a_hundred_thousand(chromium)
    a_million(chromium)
    many_jobs(chromium)
    with_a_token(chromium)
    chromium.close()
print("ok")
