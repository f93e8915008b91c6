"""Prints TAP: bench_verdicts.py on a small made-up answer, and whether the
tables of datasets/validation that make bench-sim reads are whole.

    bench_verdicts_check.py SOURCES DATASETS
"""
import os
import re
import shutil
import sys
import tempfile

import bench_verdicts as v

done, bad = 0, 0


def ok(fact, holds, *found):
    global done, bad
    done, bad = done + 1, bad + (not holds)
    for line in [] if holds else found:
        print(f"# {line}")
    print(f"{'ok' if holds else 'not ok'} {done} - {fact}")


# ---- verdicts ----

RUNS = [{"id": name, "source": source, "arch": arch, "gpus": gpus}
        for name, source, arch, gpus in [
            ("a", "One", "gpt", "8"), ("b", "One", "gpt", "16"),
            ("c", "Two", "cnn", "1"), ("d", "Two", "cnn", "8")]]


def detail(name, error, memory=None, told_from=None):
    one = {"id": name, "error": error, "mem_error": memory}
    return dict(one, told_from=told_from) if told_from else one


ANSWER = {
    "source_mape": 0.07, "coverage": 0.9,
    "per_source": {"One": {"rows": 2}, "Two": {"rows": 1}, "No": {"rows": 0}},
    "details": [detail("a", -0.02, 0.1), detail("b", 0.04), detail("c", None),
                detail("d", 0.10, told_from="c")]}


def bound(figure, sign, wanted, **more):
    return dict({"bound": figure, "case": "", "figure": figure, "rows": "",
                 "key": "", "sign": sign, "wanted": str(wanted), "unit": "%"},
                **more)


def found():
    f = v.Found()
    f.published = v.Published(ANSWER, RUNS)
    f.left_out = [{"mape": 0.07}, {"mape": 0.11}]
    f.constants = [{"constant": "x", "fitted_on": "One"},
                   {"constant": "x", "fitted_on": "One|Two"},
                   {"constant": "y", "fitted_on": "One"},
                   {"constant": "z", "fitted_on": ""}]
    f.bench = [{"key": "k", "what": "small", "value": 12.0},
               {"key": "k", "what": "large", "value": 7.5}]
    f.bytes = [("sim", 0), ("search", 0)]
    return f


def says(fact, bounds, text, f=None):
    (row,) = v.verdicts(bounds, f or found())
    ok(f"{fact}: {text}", row[2] == text, row)


def test_verdicts():
    says("an average above its bound", [bound("source_mape", "<=", 6)],
         "fails: reached 7 %, wanted 6 %")
    says("at its bound", [bound("source_mape", "<=", 7)],
         "holds: reached 7 %")
    says("a share above its bound", [bound("coverage", ">=", 85)],
         "holds: reached 90 %")
    says("rows that are selected",
         [bound("mape", "<=", 3, rows="source~On; arch!~cnn")],
         "holds: reached 3 % (2 rows)")
    says("rows told from another",
         [bound("mape", "<=", 5, rows="told_from_gpus~^1$")],
         "fails: reached 10 % (1 rows), wanted 5 %")
    says("memory", [bound("mem_mape", "<=", 5)],
         "fails: reached 10 % (1 rows), wanted 5 %")
    says("the worst of cases",
         [bound("mape", "<=", 6, case="p", rows="source~One"),
          bound("mape", "<=", 6, case="q", rows="source~Two")],
         "fails in 1 of 2 cases: reached 10 % (q, 1 rows), wanted 6 %")
    says("a case without rows is not measured, whatever the others are",
         [bound("mape", "<=", 6, rows="source~One"),
          bound("mape", "<=", 6, rows="source~Nobody")], "not measured")
    says("each left out", [bound("left_out", "<=", 8)],
         "fails: reached 9 %, wanted 8 %")
    says("a constant of two files is one; one of two sources is of both",
         [bound("constants", "<=", 2, unit="")], "holds: reached 2 (One)")
    says("a benchmark's worst row",
         [bound("bench", ">=", 10, key="k", unit="M/s")],
         "fails in 1 of 2 cases: reached 7.5 M/s (large), wanted 10 M/s")
    says("bytes", [bound("same_bytes", "<=", 0, unit="")],
         "holds: reached 0 in all 2 cases")
    for figure in ("source_mape", "mape", "left_out", "constants", "bench",
                   "same_bytes"):
        says(f"{figure} that was not measured", [bound(figure, "<=", 1)],
             "not measured", v.Found())
    text = v.verdicts_table(v.verdicts(
        [bound("source_mape", "<=", 6), bound("coverage", ">=", 85),
         bound("bench", "<=", 1, key="nothing")], found()))
    ok("they are counted", text.endswith(
        "Of 3 bounds 1 hold, 1 fail, 1 not measured."), text)


def test_pages(sources):
    import bench_sim
    page = ("x\n<!-- make bench-sim: a -->\nold\n<!-- end -->\ny\n"
            "<!-- make bench-sim: b -->\nkept\n<!-- end -->\n")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.md")
        with open(path, "w", encoding="utf-8") as f:
            f.write(page)
        bench_sim.rewrite_page(path, {"a": "new"})
        with open(path, encoding="utf-8") as f:
            text = f.read()
    ok("a page gets the tables of a run, no others",
       text == page.replace("old", "new"), text)
    for name in ("sim.md", "validate.md"):
        with open(f"{sources}/datasets/measurements/{name}",
                  encoding="utf-8") as f:
            text = f.read()
        ok(f"{name}: each mark has its end",
           len(re.findall("<!-- make bench-sim: ", text)) > 0 and
           text.count("<!-- make bench-sim: ") == text.count("<!-- end -->"))
    ok("seconds that it took are no part of an answer",
       bench_sim.timeless('{"a": 1,\n "wall_s": 0.5,\n "b": 2}') ==
       bench_sim.timeless('{"a": 1,\n "wall_s": 0.75,\n "b": 2}'))


# ---- tables ----


def fitted_of_frameworks(datasets):
    """(file, name) of figures whose source says that they were fitted."""
    for name in sorted(os.listdir(f"{datasets}/frameworks")):
        f = v.read_json(f"{datasets}/frameworks/{name}")
        for key, text in f["sources"].items():
            if re.match("fitted", text):
                yield f"frameworks/{name}", key


def fitted_of_sources(datasets):
    for s in v.read_json(f"{datasets}/validation/sources.json")["sources"]:
        if "fitted_on" not in s or s["fitted_on"].startswith("nothing"):
            continue
        for key, value in list(s.items()) + list(s.get("with", {}).items()):
            if isinstance(value, float) and key != "host_cores":
                yield s, key, value


def test_constants(datasets):
    rows = v.constants(datasets)
    paths = {(row["file"], row["path"]) for row in rows}
    for file, key in fitted_of_frameworks(datasets):
        ok(f"constants.csv has {key} of {file}", any(
            f == file and p.split("/")[0] == key for f, p in paths))
    for s, key, value in fitted_of_sources(datasets):
        names = {f"={s[k]}]" for k in ("match", "of_framework") if k in s}
        ok(f"constants.csv has {key} of {s['match']}", any(
            r["file"] == "validation/sources.json" and r["value"] == value and
            r["path"].endswith(key) and any(n in r["path"] for n in names) or
            r["constant"].startswith("vTrain's profiler") and
            s["match"] == "ground_truth_single.csv" for r in rows))
    for name in sorted(os.listdir(f"{datasets}/clusters")):
        path = f"{datasets}/clusters/{name}"
        with open(path, encoding="utf-8") as f:
            if re.search(r"published_runs\.csv", f.read()):
                ok(f"constants.csv has one of {name}",
                   any(f == f"clusters/{name}" for f, _ in paths))
    return rows


def test_left_out(datasets, rows):
    import validate_left_out
    for entry in v.read_json(f"{datasets}/validation/left_out.json")["sources"]:
        with tempfile.TemporaryDirectory() as root:
            for folder in validate_left_out.FOLDERS:
                shutil.copytree(f"{datasets}/{folder}", f"{root}/{folder}")
            validate_left_out.apply(root, entry)
            said = {(f"{f}.json", one["path"]) for one in entry["set"]
                    for f in one["files"]}
            for row in rows:
                if row["of"] != "steps" or not row["fitted_on"] or \
                        not re.search(row["fitted_on"], entry["source"]):
                    continue
                try:
                    value = v.value_at(v.read_json(f"{root}/{row['file']}"),
                                       row["path"])
                except KeyError:
                    value = None
                unused = row["file"] == "frameworks/vtrain-profile.json" and \
                    entry.get("as_runs") == "ground_truth_single.csv"
                ok(f"{entry['source']} left out: {row['constant']} is another",
                   value != row["value"] or unused or
                   (row["file"], row["path"]) in said or
                   row["rows"].startswith("as of"), value, row["value"])


def test_tables(datasets):
    runs = {name: v.read_csv(f"{datasets}/validation/{name}")
            for name in ("published_runs.csv", "planner_runs.csv")}
    for row in v.read_csv(f"{datasets}/validation/bounds.csv"):
        n = sum(v.selects(row["rows"], dict(r, told_from="", told_from_gpus="2"
                                            if "!" in row["rows"] else "1"))
                for r in runs["published_runs.csv"])
        ok(f"bounds.csv: {row['bound']}, {row['case']}: of some rows",
           n > 0 and row["sign"] in ("<=", ">=") and float(row["wanted"]) >= 0)
        ok("its figure is known", row["figure"] and
           v.cases_of(row, v.Found()) is None)
    for row in v.read_csv(f"{datasets}/validation/others.csv"):
        n = sum(v.selects(row["rows"], r) for r in runs[row["table"]])
        ok(f"others.csv: {row['tool']}: {row['rows']}: {n} rows",
           n > 0 and row["source"] and row["how"])


def main():
    sources, datasets = sys.argv[1], sys.argv[2]
    sys.path.insert(0, f"{sources}/datasets/measurements")
    test_verdicts()
    test_pages(sources)
    test_left_out(datasets, test_constants(datasets))
    test_tables(datasets)
    print(f"1..{done}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
