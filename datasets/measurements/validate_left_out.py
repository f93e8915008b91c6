#!/usr/bin/env python3
"""Each source of published runs predicted with no constant that was fitted on
it: those of datasets/validation/left_out.json take their place.

    validate_left_out.py FLOWSEARCH DATASETS [--json FILE]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

FOLDERS = ("clusters", "collectives", "frameworks", "validation")


def facts_of(source):
    """Of an entry of sources.json: which rows it is of, what they ran."""
    return {k: source[k] for k in source
            if k in ("match", "instead_of", "framework", "host_cores",
                     "fitted_on") or k.startswith("of_")}


def forget(sources, match, instead):
    """Constants fitted on rows of that source; `instead`: theirs now."""
    left = [facts_of(s) if match in s["match"] and "fitted_on" in s else s
            for s in sources]
    if instead:
        left.append({"match": match, **instead, "fitted_on": "elsewhere"})
    return left


def as_runs(sources, match):
    """What is known of how those rows came about is forgotten, but that nobody
    ran them."""
    left = [s for s in sources if s["match"] != match]
    left.append({"match": match, "simulated": True, "fitted_on": "elsewhere"})
    return left


def rewrite(path, change):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    change(data)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f)


def put(root, one):
    *parents, last = one["path"].split("/")
    for name in one["files"]:
        def change(data):
            for parent in parents:
                data = data[parent]
            data[last] = one["value"]
        rewrite(f"{root}/{name}.json", change)


def apply(root, entry):
    """To a copy of the data folder."""
    for one in entry["set"]:
        put(root, one)

    def change(data):
        if "as_runs" in entry:
            data["sources"] = as_runs(data["sources"], entry["as_runs"])
        if "forget" in entry:
            data["sources"] = forget(data["sources"], entry["forget"],
                                     entry.get("instead"))
    rewrite(f"{root}/validation/sources.json", change)


def predict(program, datasets, entry):
    with tempfile.TemporaryDirectory() as root:
        for folder in FOLDERS:
            shutil.copytree(f"{datasets}/{folder}", f"{root}/{folder}")
        apply(root, entry)
        out = subprocess.run(
            [program, "validate", f"{datasets}/validation/published_runs.csv",
             "--db", "none", "--json", "--source",
             re.escape(entry["source"])],
            env={**os.environ, "FS_DATA": root}, stdout=subprocess.PIPE,
            text=True, check=True).stdout
    (row,) = json.loads(out)["per_source"].values()
    return {"source": entry["source"], "why": entry["why"], **row}


def left_out(program, datasets, say):
    """One after the other: each takes all cores."""
    with open(f"{datasets}/validation/left_out.json", encoding="utf-8") as f:
        entries = json.load(f)["sources"]
    rows = []
    for k, entry in enumerate(entries):
        begin = time.monotonic()
        say(f"left out: {entry['source']} ({k + 1} of {len(entries)}) ..")
        row = predict(program, datasets, entry)
        rows.append(row)
        say(f"left out: {entry['source']}: {row['rows']} rows, "
            f"{100 * row['mape']:.1f} %, {time.monotonic() - begin:.0f} s")
    return rows


def say_there(text):
    print(text, file=sys.stderr, flush=True)


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    "..", "..", "tests"))
    import bench_verdicts
    rows = left_out(os.path.abspath(sys.argv[1]), sys.argv[2], say_there)
    print(bench_verdicts.left_out_table(rows))
    if sys.argv[3:4] == ["--json"]:
        with open(sys.argv[4], "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
