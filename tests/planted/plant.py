#!/usr/bin/env python3
"""Plants the defects of defects.toml, one at a time, and says what finds each.

`--check` only sees whether every defect can still be planted: its snippet stands in its file just once.

Else all defects are planted at once into a copy of the tree, each behind a switch that is read from the environment
when the process starts, so that there is one build for all of them. Without a defect everything must pass. Then each
defect is switched on by itself: first for the simulation, then for the tests, lowest rung first, up to one that fails.
What was found is kept at once, by defect, so that `--resume` goes on where a run broke off, and `--only` looks at some
again. docs/planted-defects.md gets the table of all that was found. Needs Python 3.11 and its standard library.

Must not: change anything in the tree itself but that table.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFECTS = ROOT / "tests/planted/defects.toml"
TABLE = ROOT / "docs/planted-defects.md"
COPY = ROOT / "target/planted"
RESULTS = ROOT / "target/planted-results.json"

# In the copy's model, which every crate can ask.
SWITCH = """
/// Which planted defect is switched on.
pub fn planted(number: u32) -> bool {
    static ON: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        let number = std::env::var("LAKH_PLANTED").unwrap_or_default();
        number.parse().unwrap_or(0)
    });
    *ON == number
}
"""

# Checks of the source itself have nothing to say of a copy that was changed on purpose.
SKIPPED = ["architecture::", "citations::"]

# A unit test by where it is, and one of random histories.
WALLS = "intake::tests::no_tenant_reaches_over_a_wall"

# Where the switch goes.
MODEL = "crates/model/src/lib.rs"

# From the lowest rung up: the test binary, what of it, what is left out because it runs no planted code or takes long, and
# which code it runs.
RUNGS = [
    ("unit", "lakh_model", [], [], "crates/model/"),
    ("unit", "lakh_record", [], [], "crates/record/"),
    ("unit", "lakh_core", [], [], "crates/core/"),
    ("unit", "lakh_wire", [], [], "crates/wire/"),
    ("unit", "lakh_client", [], [], "crates/client/"),
    ("unit", "lakh_controller", [], [WALLS], ""),
    ("golden case", "rules", ["golden::"], [], "crates/core/"),
    ("random history", "rules", ["properties::"], [], "crates/core/"),
    ("random history", "lakh_controller", [WALLS], [], ""),
    ("exhaustive", "rules", ["exhaustive::"], ["exhaustive::protocol::"], "crates/core/src/decide/"),
    ("unit", "lakh", [], [], "src/"),
]

# A run that takes longer hangs.
LONGEST = 600


def read():
    with DEFECTS.open("rb") as file:
        defects = tomllib.load(file)["defect"]
    for number, defect in enumerate(defects, 1):
        defect["number"] = number
        defect["edits"] = defect.pop("edit", None) or [defect]
    return defects


def spaced(snippet):
    """A pattern for the snippet, however it is broken into lines."""
    return r"\s+".join(re.escape(word) for word in snippet.split())


def only(snippet, text, start, end, where):
    found = [match.span() for match in re.compile(spaced(snippet)).finditer(text, start, end)]
    if len(found) != 1:
        sys.exit(f"{where}: stands there {len(found)} times and not once:\n{snippet}")
    return found[0]


def plant(defects):
    """The changed text of each file, by its path."""
    places = {}
    for defect in defects:
        for edit in defect["edits"]:
            path = edit.get("file", defect.get("file"))
            where = f"{DEFECTS.name}: {defect['name']!r} in {path}"
            text = (ROOT / path).read_text()
            start, end = 0, len(text)
            if "within" in edit:
                start, end = only(edit["within"], text, start, end, where)
            start, end = only(edit["original"], text, start, end, where)
            defect_text = edit["defect"]
            # Of a condition only what stands between `if` and the brace can be one of two.
            found = text[start:end]
            if found.startswith("if ") and not found.endswith("}"):
                start, defect_text = start + len("if "), defect_text.removeprefix("if ")
                if found.endswith("{"):
                    end, defect_text = end - len(" {"), defect_text.removesuffix(" {")
            is_model = path.startswith("crates/model/")
            switch = ("crate" if is_model else "lakh_model") + f"::planted({defect['number']})"
            planted = f"if {switch} {{ {defect_text} }} else "
            places.setdefault(path, {}).setdefault((start, end), []).append((planted, where))
    changed = {}
    for path, edits in places.items():
        text, last, wheres = (ROOT / path).read_text(), sys.maxsize, ""
        for (start, end), planted in sorted(edits.items(), reverse=True):
            if end > last:
                sys.exit(f"{wheres} and {planted[0][1]} overlap")
            last, wheres = start, planted[0][1]
            original = text[start:end]
            guarded = "".join(one for one, _ in planted) + f"{{ {original} }}"
            if not original.endswith((";", "}")):
                guarded = f"({guarded})"
            text = text[:start] + guarded + text[end:]
        changed[path] = text
    return changed


def copy_tree(changed):
    """Brings the copy up to date, and leaves alone what has not changed, so that builds are short."""
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    wanted = {path for path in tracked.stdout.splitlines() if (ROOT / path).is_file()}
    for path in wanted:
        body = (ROOT / path).read_bytes()
        if path in changed:
            body = changed[path].encode()
        if path == MODEL:
            body += SWITCH.encode()
        target = COPY / path
        if not target.exists() or target.read_bytes() != body:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(body)
            shutil.copymode(ROOT / path, target)
    known = {str(path.relative_to(COPY)) for path in COPY.rglob("*") if path.is_file()}
    for path in known - wanted:
        (COPY / path).unlink()


def build():
    """The test binaries, by name."""
    packages = ["lakh"] + [f"lakh-{path.name}" for path in sorted((ROOT / "crates").iterdir())]
    command = ["cargo", "test", "--release", "--locked", "--lib", "--test", "sim", "--test", "rules"]
    command += [word for package in packages for word in ("-p", package)]
    # It is built once for few runs.
    for package in packages:
        command += ["--config", f'profile.release.package.{package}.opt-level=1']
    command += ["--no-run", "--message-format=json-render-diagnostics"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")}
    # Its warnings are about what was planted.
    built = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"{built.stderr}\nthe copy with the defects does not build")
    messages = map(json.loads, built.stdout.splitlines())
    return {one["target"]["name"]: one["executable"] for one in messages if one.get("executable") and one["profile"]["test"]}


def run(binary, arguments, number, **settings):
    environment = os.environ | {"LAKH_PLANTED": str(number), "RUST_BACKTRACE": "0"} | settings
    try:
        ran = subprocess.run([binary, *arguments], cwd=COPY, env=environment, capture_output=True, text=True, errors="replace", timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return None
    return ran.returncode, ran.stdout + ran.stderr


def simulate(binaries, number, seeds):
    """What the simulation says: nothing, or the judge and after how many seeds."""
    for played, settings in [
        ("fresh_seeds", {"SIM_SEEDS": str(seeds)}),
        ("elections", {"SIM_ELECTIONS": str(max(seeds // 3, 1))}),
        ("third_parties", {"SIM_THIRD_PARTIES": str(max(seeds // 3, 1))}),
    ]:
        ran = run(binaries["sim"], ["--exact", played, "--nocapture"], number, SIM_BASE="1", SIM_FIRST="1", **settings)
        if ran is None:
            return "no end", None, ""
        code, told = ran
        found = re.search(r"^SIM_(?:SEED|ELECTION|THIRD_PARTY)=(\d+) \[.*?\]: (\w+): (.*)$", told, re.MULTILINE)
        if found:
            return found[2], int(found[1]), found[3]
        if code != 0:
            return "crash", None, told[-300:]
    return None


def test(binaries, number, files):
    """The first rung on which something fails: its name, and the names of what fails there."""
    for rung, binary, names, left_out, code in RUNGS:
        if not any(path.startswith(code) for path in files):
            continue
        skipped = [word for name in SKIPPED + left_out for word in ("--skip", name)]
        ran = run(binaries[binary], [*names, *skipped], number)
        if ran is None:
            return rung, ["no end"]
        code, told = ran
        if code != 0:
            # A golden case says which it is; any other test has its name.
            failed = re.findall(r'^\S*/golden/(\S+\.case)\S* "(.+)"', told, re.MULTILINE)
            failed = [f"{file}: {title}" for file, title in failed]
            failed = failed or re.findall(r"^test (\S+).* \.\.\. FAILED", told, re.MULTILINE)
            failed = failed or re.findall(r"^    (\S+::\S+)$", told, re.MULTILINE)
            return rung, sorted(set(failed)) or ["crash"]
    return None


def files_of(defect):
    return sorted({edit.get("file", defect.get("file")) for edit in defect["edits"]})


def look_at(binaries, defect, seeds, quick):
    number = defect["number"]
    found = simulate(binaries, number, seeds)
    failed = None if found and quick else test(binaries, number, files_of(defect))
    what = found and f"{found[0]}, {found[1]}: {found[2][:200]}"
    print(f"{number:>3} {defect['name']}: simulation {what}; tests {failed}", flush=True)
    return {"simulation": found, "test": failed, "seeds": seeds, "quick": quick}


class Results:
    """What was found, by the defect's name and what it changes; kept in a file as it comes."""

    def __init__(self):
        self.kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}

    @staticmethod
    def key(defect):
        edits = [[edit.get(part) for part in ("file", "within", "original", "defect")] for edit in defect["edits"]]
        return json.dumps([defect["name"], defect.get("file"), edits])

    def of(self, defect):
        return self.kept.get(self.key(defect))

    def keep(self, defect, result):
        self.kept[self.key(defect)] = result
        whole = RESULTS.with_suffix(".new")
        whole.write_text(json.dumps(self.kept, indent=1))
        whole.replace(RESULTS)


def cell(found):
    if found is None:
        return "–"
    judge, seeds, _ = found
    return judge if seeds is None else f"{judge}, {seeds}"


def table(defects, results):
    lines = []
    looks = [results.of(defect) for defect in defects]
    for defect, look in zip(defects, looks):
        judge, tests = ("?", "?") if look is None else (cell(look["simulation"]), "–")
        if look and look["test"]:
            rung, names = look["test"]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            tests = f"{rung}: `{names[0].replace('tests::', '')}`{more}"
        paths = ", ".join(f"`{path}`" for path in files_of(defect))
        lines.append(f"| {defect['number']} | {defect['about']} | {paths} | {judge} | {tests} |")
    looks = [look for look in looks if look]
    by_simulation = sum(look["simulation"] is not None for look in looks)
    by_any = sum(look["simulation"] is not None or look["test"] is not None for look in looks)
    seeds = max(look["seeds"] for look in looks)
    body = (ROOT / "tests/planted/head.md").read_text().strip()
    counts = (f"Of {len(defects)} defects {by_any} are found, {by_simulation} of them by the simulation alone "
              f"(at most {seeds} seeds, from seed 1 on).")
    if len(looks) < len(defects):
        counts += f"\nAt {len(defects) - len(looks)} nobody has looked yet."
    if any(look["quick"] for look in looks):
        counts += "\nTests were run only on what the simulation did not find."
    head = "| | defect | file | judge of the simulation, and its seed | test |\n|---|---|---|---|---|"
    TABLE.write_text("\n\n".join([body, counts, "\n".join([head, *lines])]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only see whether all can be planted")
    parser.add_argument("--seeds", type=int, default=2000, help="how many the simulation plays at most")
    parser.add_argument("--only", help="names of the defects to look at, or parts of them, with commas")
    parser.add_argument("--resume", action="store_true", help="leave out what an earlier run has looked at")
    parser.add_argument("--quick", action="store_true", help="run tests only on what the simulation does not find")
    parser.add_argument("--jobs", type=int, default=1, help="how many defects are looked at at once")
    options = parser.parse_args()
    defects = read()
    changed = plant(defects)
    if options.check:
        print(f"{len(defects)} defects can be planted")
        return
    copy_tree(changed)
    binaries = build()
    results = Results()
    parts = (options.only or "").split(",")
    chosen = [one for one in defects if any(part in one["name"] for part in parts)]
    left = [one for one in chosen if not (options.resume and results.of(one))]
    reached = [path for one in left for path in files_of(one)]
    clean = left and (simulate(binaries, 0, options.seeds), test(binaries, 0, reached))
    if clean and clean != (None, None):
        sys.exit(f"without a defect, too, something fails: {clean}")

    def look(defect):
        results.keep(defect, look_at(binaries, defect, options.seeds, options.quick))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(look, left))
    table(defects, results)
    missed = [one["name"] for one in chosen if not (results.of(one)["simulation"] or results.of(one)["test"])]
    if missed:
        sys.exit("nothing finds: " + ", ".join(missed))


if __name__ == "__main__":
    main()
