#!/usr/bin/env python3
"""make bench-sim: all that predictions promise, measured, and a verdict a bound.

    bench_sim.py SOURCES BUILD

BENCH_SIM: which parts, in their order (all): speed local published left-out
bytes. What is timed comes first, alone; all else takes the cores that there
are. Verdicts are of all parts: figures are kept in BUILD/bench-sim.json, and
those of a part that is not run are of the last time, if program and data are
the same. BENCH_PAGES=rewrite: tables of datasets/measurements/sim.md and validate.md
are those of this run. Ends with status 0 whatever the verdicts are.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import bench_verdicts as v

PARTS = ["speed", "local", "published", "left-out", "bytes"]
HOW_LONG = {"speed": "a minute or two, timed", "local": "15 minutes, timed",
            "published": "1.5 minutes of two cores",
            "left-out": "3 minutes of two cores", "bytes": "a minute"}


class Bench:
    name = "bench-sim"

    def __init__(self, source, build):
        self.source, self.build = source, build
        self.datasets = os.environ.get("FS_DATA", f"{source}/datasets")
        self.program = f"{build}/flowsearch"
        self.found = v.Found()
        self.tables = {}  # of pages, by name
        self.missing = []
        self.begin = time.monotonic()

    def say(self, text):
        took = int(time.monotonic() - self.begin)
        print(f"{self.name} {took // 60}:{took % 60:02d}  {text}",
              file=sys.stderr, flush=True)

    def show(self, title, name, text):
        self.tables[name] = text
        print(f"\n## {title}\n\n{text}", flush=True)

    def run(self, *words, cores=None, data=None):
        """Standard output of flowsearch; its progress goes to a terminal."""
        bind = cores and (lambda: os.sched_setaffinity(0, cores))
        env = {**os.environ, "FS_DATA": data or self.datasets}
        return subprocess.run([self.program, *words, "--db", "none"], env=env,
                              stdout=subprocess.PIPE, text=True, check=True,
                              preexec_fn=bind).stdout

    def validate(self, name, *words):
        path = f"{self.datasets}/validation/{name}"
        return (v.Published(json.loads(self.run("validate", path, "--json",
                                                *words)), v.read_csv(path)))


# ---- parts ----


def speed(b):
    path = f"{b.build}/tests/bench_sim.tsv"
    lines = [f"Load when it began: {os.getloadavg()[0]:.1f}.\n", "\n"]
    print(f"\n## Speed of the simulator and of prices\n\n{lines[0]}", flush=True)
    with subprocess.Popen([f"{b.build}/tests/bench_sim", path],
                          stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line)
            if "SimGrid is not there" in line and not b.missing:
                b.missing.append("SimGrid (Debian: libsimgrid-dev)")
    b.tables["speed"] = "".join(lines).strip()
    with open(path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    b.found.bench = [{"key": key, "what": what, "value": float(value)}
                     for key, what, value in rows]


def local(b):
    print("\n## Predictions beside runs on this machine\n", flush=True)
    subprocess.run([os.environ.get("MAKE", "make"), "--no-print-directory",
                    "-C", b.build, "bench-local"], check=True)


def published(b):
    found = b.found.published = b.validate("published_runs.csv")
    planners = b.validate("planner_runs.csv")
    answer = found.answer
    b.show("Predictions beside published runs", "sources",
           v.sources_table(answer))
    b.show("Over all of them", "headline", v.headline(answer))
    b.show("By part", "parts", v.parts_table(found))
    b.show("Where the predicted time goes, percent of a step", "shares",
           v.shares_table(found))
    b.show("Who else gets what on the same rows", "others", v.others_table(
        v.read_csv(f"{b.datasets}/validation/others.csv"),
        {name: (one, v.read_csv(f"{b.datasets}/validation/{name}"))
         for name, one in [("published_runs.csv", found),
                           ("planner_runs.csv", planners)]}))
    constants(b, [name for name, s in answer["per_source"].items()
                  if s["rows"]])
    b.show("Worst rows", "worst", v.worst_table(found))
    b.show("Rows that are not predicted", "skipped", v.skipped_table(answer))


def constants(b, sources):
    rows = b.found.constants = v.constants(b.datasets)
    folder = f"{b.datasets}/frameworks"
    frameworks = [v.read_json(f"{folder}/{name}")
                  for name in sorted(os.listdir(folder))
                  if name.endswith(".json")]
    guessed = "; ".join(f"`{key}` ({', '.join(whose)})" for key, whose in
                        v.estimates(frameworks).items())
    b.show("Constants that were fitted", "constants",
           v.constants_table(rows, sources) +
           "\n\nEstimates, for which no row was used: " + guessed + ".")


def left_out(b):
    sys.path.insert(0, f"{b.source}/datasets/measurements")
    import validate_left_out
    b.found.left_out = validate_left_out.left_out(b.program, b.datasets, b.say)
    told = v.read_json(f"{b.datasets}/uncertainty.json")["iteration"]
    b.show("Each source left out", "left-out",
           v.left_out_table(b.found.left_out) +
           f" (`search` and `plan` take {v.percent(told)} % from "
           "`datasets/uncertainty.json`.)")


def timeless(text):
    """An answer without the seconds that it took."""
    return re.sub(r'"(wall_s|price_s|plan_s|complete_s|plans_per_s)": [^,}\n]*', "",
                  text)


GPT = "zoo:gpt,layers=8,hidden=512,heads=8,vocab=1024,seq=128"
THERE = ["--cluster", "2x4:a100-sxm4-80g", "--batch", "64"]


def answers(b, folder, cores):
    """Of commands that run several threads, and of a simulation with a seed."""
    plan, trace = f"{folder}/plan", f"{folder}/trace"

    def run(*words):
        return timeless(b.run(*words, cores=cores)).replace(folder, "")

    def sim(seed):
        return run("sim", plan, "--jitter", "0.05", "--straggler", "3:1.2",
                   "--seed", seed, "--trace", trace, "--json")

    def text(path):
        with open(path, encoding="utf-8") as f:
            return f.read()
    run("search", GPT, *THERE, "-o", plan)
    found = {"search: the plan": text(plan)}
    found["sim with another seed"] = sim("8")
    found["sim with jitter and a straggler"] = sim("7")
    found["its trace"] = text(trace)
    found["sweep"] = run("sweep", GPT, *THERE, "--json")
    found["validate, rows of Qi et al."] = run(
        "validate", f"{b.datasets}/validation/published_runs.csv", "--source",
        "Qi et al", "--json")
    return found


def same_bytes(b):
    """Answers and files with one thread, two, all; and that a seed counts."""
    cores = sorted(os.sched_getaffinity(0))
    counts = sorted({1, 2, min(8, len(cores))} & set(range(1, len(cores) + 1)))
    by_count = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in counts:
            b.say(f"with {n} of {len(cores)} cores")
            by_count[n] = answers(b, folder, cores[:n])
    first = by_count[1]
    rows = [(what, sum(by_count[n][what] != first[what] for n in counts))
            for what in first]
    rows.append(("two seeds that give one answer",
                 int(first["sim with another seed"] ==
                     first["sim with jitter and a straggler"])))
    if len(counts) < 2:
        b.missing.append("a second core (whether threads change an answer)")
    else:
        b.found.bytes = rows
    b.show(f"The same with {', '.join(map(str, counts))} threads", "bytes",
           v.table(["what", "differs", "verdict"],
                   [[what, n, "FAILS" if n else "holds"] for what, n in rows]))


RUN = {"speed": speed, "local": local, "published": published,
       "left-out": left_out, "bytes": same_bytes}


# ---- what was measured before ----


def digest(b, part):
    """Of what its figures hang on."""
    files = [f"{b.build}/tests/bench_sim" if part == "speed" else b.program]
    for folder in ("clusters", "collectives", "frameworks", "validation"):
        files += [f"{b.datasets}/{folder}/{name}" for name in
                  sorted(os.listdir(f"{b.datasets}/{folder}"))
                  if name not in ("bounds.csv", "others.csv")]
    found = hashlib.sha256()
    for path in files:
        if os.path.exists(path):
            with open(path, "rb") as f:
                found.update(f.read())
    return found.hexdigest()


def keep(b, kept, part):
    figures = {"speed": lambda: b.found.bench,
               "published": lambda: b.found.published.answer,
               "left-out": lambda: b.found.left_out,
               "bytes": lambda: b.found.bytes}.get(part, lambda: None)()
    if figures is None:
        return
    kept[part] = {"when": time.strftime("%d %B %Y, %H:%M"),
                  "digest": digest(b, part), "figures": figures}
    with open(f"{b.build}/bench-sim.json", "w", encoding="utf-8") as f:
        json.dump(kept, f)


def kept_before(b):
    try:
        kept = v.read_json(f"{b.build}/bench-sim.json")
    except (OSError, ValueError):
        return {}
    return {part: one for part, one in kept.items()
            if one["digest"] == digest(b, part)}


def restore(b, kept, ran):
    """Of parts that did not run now; which, and of when."""
    told = []
    for part in PARTS:
        if part in ran or part not in kept:
            continue
        figures = kept[part]["figures"]
        told.append(f"{part}: {kept[part]['when']}")
        if part == "speed":
            b.found.bench = figures
        elif part == "left-out":
            b.found.left_out = figures
        elif part == "bytes":
            b.found.bytes = figures
        elif part == "published":
            b.found.published = v.Published(figures, v.read_csv(
                f"{b.datasets}/validation/published_runs.csv"))
            b.found.constants = v.constants(b.datasets)
    return told


# ---- pages ----


def rewrite_page(path, tables):
    """Between <!-- make bench-sim: NAME --> (or bench-exec) and <!-- end -->."""
    with open(path, encoding="utf-8") as f:
        page = f.read()

    def anew(found):
        name = found.group(2)
        return (found.group(1) + "\n" + tables[name] + "\n" + found.group(3)
                if name in tables else found.group(0))
    changed = re.sub(r"(<!-- make bench-\w+: (\S+) -->)\n.*?(<!-- end -->)",
                     anew, page, flags=re.S)
    if changed != page:
        with open(path, "w", encoding="utf-8") as f:
            f.write(changed)


def main():
    b = Bench(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    asked = (os.environ.get("BENCH_SIM") or " ".join(PARTS)).split()
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        print(f"BENCH_SIM: no part '{unknown[0]}' (parts: {' '.join(PARTS)})",
              file=sys.stderr)
        return 2
    parts = [part for part in PARTS if part in asked]
    kept, ran = kept_before(b), []
    for k, part in enumerate(parts):
        b.say(f"part {k + 1} of {len(parts)}: {part} ({HOW_LONG[part]})")
        try:
            RUN[part](b)
            keep(b, kept, part)
            ran.append(part)
        except (subprocess.CalledProcessError, OSError, ValueError,
                KeyError) as fault:
            b.missing.append(f"{part}: {fault}")
            print(f"\n{part} failed: {fault}", flush=True)
    if b.missing:
        print(f"\nNot there: {'; '.join(b.missing)}.")
    before = restore(b, kept, ran)
    text = v.verdicts_table(v.verdicts(
        v.read_csv(f"{b.datasets}/validation/bounds.csv"), b.found))
    if before:
        text += f"\n\nNot of this run: {'; '.join(before)}."
    b.show("Verdicts", "verdicts", text)
    if os.environ.get("BENCH_PAGES") == "rewrite":
        for page in ("sim.md", "validate.md"):
            rewrite_page(f"{b.datasets}/measurements/{page}", b.tables)
    b.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
