"""What `make bench-sim` says at its end: figures that it measured beside the
bounds of datasets/validation/bounds.csv, and the tables that it prints of them.
Nothing here runs anything.

A figure of a bound is one of
  source_mape, coverage   of `validate --json`,
  mape, mem_mape          of those of its rows that `rows` selects,
  left_out                of validate_left_out.py,
  constants               counted from constants.csv,
  bench                   of the rows with that `key` of tests/bench_sim,
  same_bytes              of runs with different numbers of threads.
A bound has one row, or one for each case; a case that a bench measures several
times is several. It holds where the worst of them does.

`rows` selects rows of a table: "column~REGEX; column!~REGEX", all of which must
match; besides the table's own columns there are told_from and told_from_gpus
of rows that are told from another.
"""
import csv
import json
import re


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def table(header, rows):
    """Markdown; cells are text, or None."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join("" if c is None else str(c) for c in row) + " |"
              for row in rows]
    return "\n".join(lines)


def percent(value, sign=False):
    return None if value is None else f"{100 * value:{'+' if sign else ''}.1f}"


# ---- rows ----


def selects(selector, row):
    for term in filter(None, (t.strip() for t in selector.split(";"))):
        column, no, pattern = re.fullmatch(r"(\w+)(!?)~(.*)", term).groups()
        if bool(re.search(pattern, row[column])) == bool(no):
            return False
    return True


class Published:
    """What was predicted of a table of runs, row by row."""

    def __init__(self, answer, runs):
        self.answer = answer
        of = {row["id"]: row for row in runs}
        self.rows = []
        for one in answer["details"]:
            told = one.get("told_from", "")
            row = dict(of.get(one["id"], {}), told_from=told,
                       told_from_gpus=of[told]["gpus"] if told else "")
            self.rows.append((row, one))

    def figures(self, selector, key):
        """Of the selected rows, those that are not null."""
        return [one[key] for row, one in self.rows
                if one[key] is not None and selects(selector, row)]

    def mape(self, selector, key="error"):
        found = self.figures(selector, key)
        return mean(map(abs, found)), len(found)


# ---- constants ----


def value_at(root, path):
    """Of "node/inner/latency_s"; "list[match=DLPerf]/jitter" is of the first
    such element that has what follows."""
    if not path:
        return root
    step, _, rest = path.partition("/")
    name, *condition = re.split(r"[\[\]=]", step)
    if not condition:
        return value_at(root[name], rest)
    for element in root[name]:
        if element.get(condition[0]) == condition[1]:
            try:
                return value_at(element, rest)
            except KeyError:
                pass
    raise KeyError(path)


def constants(datasets):
    """Rows of constants.csv with the value that the file has."""
    rows = read_csv(f"{datasets}/validation/constants.csv")
    for row in rows:
        row["value"] = value_at(read_json(f"{datasets}/{row['file']}"),
                                row["path"])
    return rows


def constants_of(rows, source):
    """Names: one that several files have is one constant."""
    return sorted({row["constant"] for row in rows
                   if row["fitted_on"] and re.search(row["fitted_on"], source)})


def constants_table(rows, sources):
    fitted = table(
        ["constant", "file", "value", "unit", "fitted on", "rows"],
        [[row["constant"], f"`{row['file']}`: `{row['path']}`",
          f"{row['value']:g}", row["unit"], row["of"], row["rows"]]
         for row in rows])
    count = table(
        ["source", "constants", "which"],
        [[source, len(of), "; ".join(of)] for source in sources
         for of in [constants_of(rows, source)]])
    return fitted + "\n\n" + count


def estimates(frameworks):
    """Figures of framework files that nobody measured and no row was used for:
    by name, whose."""
    found = {}
    for f in frameworks:
        for key, text in f["sources"].items():
            if text.startswith("an estimate") and key in f:
                found.setdefault(key, []).append(f"{f['name']} {f[key]:g}")
    return found


# ---- tables of published runs ----


def sources_table(answer):
    rows = []
    for name, s in answer["per_source"].items():
        if not s["rows"]:
            continue
        rows.append([name, f"{s['rows']} of {s['stated']}", percent(s["mape"]),
                     percent(s["bias"], True), percent(s["worst"]),
                     percent(s["nearest_row_mape"]), s["mem_rows"] or None,
                     percent(s["mem_mape"]),
                     percent(s["nearest_row_mem_mape"])])
    return table(["source", "rows", "time: error", "mean", "worst",
                  "nearest row", "memory: rows", "error", "nearest row"], rows)


def headline(answer):
    oom = answer["out_of_memory"]
    ran = oom["ran"] + oom["false_alarms"]
    simulated = sum(s["simulated"] for s in answer["per_source"].values())
    return (
        f"Over rows {percent(answer['mape'])} %, averaged over sources "
        f"{percent(answer['source_mape'])} %, without the {simulated} rows that "
        f"nobody ran {percent(answer['runs_mape'])} %; memory "
        f"{percent(answer['mem_mape'])} %. {percent(answer['coverage'])} % of "
        f"the rows that state their configuration are predicted. Order of "
        f"plans: {len(answer['groups'])} groups of three rows and more, "
        f"Kendall's tau {answer['tau']:.2f} in the mean, the plan predicted "
        f"fastest is {percent(answer['regret'])} % slower than the fastest. Of "
        f"{ran} rows that ran {oom['false_alarms']} are predicted not to fit.")


PARTS = [
    ("vTrain, one node (no runs)", "source~vTrain; source_ref~single"),
    ("vTrain, several nodes", "source~vTrain; source_ref~multi"),
    ("Megatron-LM of SC'21", "source~Narayanan; framework~Megatron"),
    ("Megatron-LM of Korthikanti et al.", "source~Korthikanti"),
    ("ZeRO-3 of SC'21", "source~Narayanan; framework~ZeRO"),
    ("FSDP on A100", "framework~FSDP; gpu~A100"),
    ("FSDP on H100", "framework~FSDP; gpu~H100"),
    ("GPT by OneFlow (DLPerf)", "source~DLPerf; model~GPT; framework~OneFlow"),
    ("GPT by Megatron-LM (DLPerf)",
     "source~DLPerf; model~GPT; framework~Megatron"),
    ("1F1B (Qi et al.)", "source~Qi et al; schedule~^1F1B$"),
    ("1F1B, interleaved (Qi et al.)", "source~Qi et al; schedule~^1F1B-I"),
    ("zero bubble (Qi et al.)", "source~Qi et al; schedule~^ZB"),
    ("CNN and BERT told from one device", "told_from_gpus~^1$"),
    ("CNN and BERT told from several", "told_from_gpus!~^1?$"),
    ("CNN and BERT by themselves", "arch~cnn|bert; told_from~^$"),
]


def parts_table(published):
    rows = []
    for name, selector in PARTS:
        error, n = published.mape(selector)
        memory, n_memory = published.mape(selector, "mem_error")
        if n or n_memory:
            rows.append([name, n, percent(error),
                         percent(mean(published.figures(selector, "error")),
                                 True),
                         n_memory or None, percent(memory)])
    return table(["part", "rows", "time: error", "mean", "memory: rows",
                  "error"], rows)


KINDS = ["products", "attention", "rest", "updates", "collectives", "per_step",
         "moves"]


def shares_table(published):
    """Where the predicted time goes, by source: what an error can be of."""
    sums = {}
    for row, one in published.rows:
        if not one["predicted_s"]:
            continue
        of = sums.setdefault(row["source"], [0] * (len(KINDS) + 1))
        parts = [one["parts"][k] / one["predicted_s"] for k in KINDS]
        for k, part in enumerate(parts):
            of[k] += part
        of[-1] += 1
    return table(["source"] + [k.replace("_", " ") for k in KINDS],
                 [[name] + [f"{100 * x / of[-1]:.0f}" for x in of[:-1]]
                  for name, of in sums.items()])


def own_error(rows, column, measured):
    """Of a tool whose prediction stands in its rows' notes."""
    found = []
    for row in rows:
        told = re.search(rf"{column}=([\d.]+)", row["notes"])
        if told and row[measured]:
            found.append(abs(float(told.group(1)) / float(row[measured]) - 1))
    return mean(found)


def others_table(others, published):
    """`published`: by the name of their table, what was predicted, and runs."""
    rows = []
    for tool in others:
        ours, runs = published[tool["table"]]
        key = "error" if tool["of"] == "time" else "mem_error"
        error, n = ours.mape(tool["rows"], key)
        theirs = tool["error_pct"]
        if theirs.startswith("pred_"):
            measured = "iter_time_s" if key == "error" else "peak_mem_gb"
            theirs = percent(own_error(
                [r for r in runs if selects(tool["rows"], r)], theirs,
                measured))
        rows.append([tool["tool"], tool["of"], tool["their_rows"] or "?",
                     theirs, n, percent(error) or "plans not told",
                     tool["how"], tool["source"]])
    return table(["tool", "of", "its rows", "its error", "of these here",
                  "our error", "how", "from"], rows)


def skipped_table(answer):
    reasons = {}
    for one in answer["skipped"]:
        reasons.setdefault(one["reason"], []).append(one["id"])
    return table(["rows", "skipped because", "which"],
                 [[len(ids), reason, ", ".join(ids[:5]) +
                   (" .." if len(ids) > 5 else "")]
                  for reason, ids in sorted(reasons.items(),
                                            key=lambda x: -len(x[1]))])


def worst_table(published, n=10):
    rows = [(row, one) for row, one in published.rows
            if one["error"] is not None]
    rows.sort(key=lambda x: -abs(x[1]["error"]))
    return table(["row", "source", "network", "framework", "devices",
                  "measured s", "predicted s", "error"],
                 [[one["id"], row["source"], row["model"], row["framework"],
                   one["cluster"], f"{one['measured_s']:.4g}",
                   f"{one['predicted_s']:.4g}", percent(one["error"], True)]
                  for row, one in rows[:n]])


def left_out_table(rows):
    cells = []
    for row in rows:
        cells.append([row["source"], row["rows"], percent(row["mape"]),
                      percent(row["bias"], True), row["why"]])
        if row["simulated"]:
            cells.append(["of which runs", row["rows"] - row["simulated"],
                          percent(row["runs_mape"]), None, None])
    average = percent(mean(r["mape"] for r in rows))
    alone = percent(mean(r["runs_mape"] for r in rows))
    return (table(["source", "rows", "error", "mean", "constants instead"],
                  cells) +
            f"\n\nAveraged over sources **{average} %**; of rows that ran "
            f"alone {alone} %.")


# ---- verdicts ----


class Found:
    """All that was measured; what was not is None."""

    published = None  # Published
    left_out = None   # list, as validate_left_out.py --json
    constants = None  # as constants()
    bench = None      # [{"key", "what", "value"}]
    bytes = None      # [(what, differences)]


def cases_of(bound, found):
    """[(what, value)] of one row of bounds.csv; None: it was not measured."""
    figure, case = bound["figure"], bound["case"]
    if figure in ("source_mape", "coverage"):
        value = found.published and found.published.answer[figure]
        return None if value is None else [(case, 100 * value)]
    if figure in ("mape", "mem_mape"):
        if not found.published:
            return None
        key = "error" if figure == "mape" else "mem_error"
        value, n = found.published.mape(bound["rows"], key)
        what = f"{case}, {n} rows" if case else f"{n} rows"
        return [(what, 100 * value)] if n else None
    if figure == "left_out":
        value = found.left_out and mean(r["mape"] for r in found.left_out)
        return [(case, 100 * value)] if value else None
    if figure == "constants":
        if not (found.constants and found.published):
            return None
        return [(source, len(constants_of(found.constants, source)))
                for source, s in found.published.answer["per_source"].items()
                if s["rows"]]
    if figure == "bench":
        rows = [r for r in found.bench or [] if r["key"] == bound["key"]]
        return [(r["what"], r["value"]) for r in rows] or None
    if figure == "same_bytes":
        return found.bytes or None
    raise ValueError(f"bounds.csv: no figure '{figure}'")


def number(value):
    return f"{value:.4g}" if abs(value) < 100 else f"{value:.0f}"


def verdict(bound, cases):
    """(text, whether it holds); of the worst case."""
    wanted, most = float(bound["wanted"]), bound["sign"] == "<="
    unit = " " + bound["unit"] if bound["unit"] else ""
    if not cases:
        return "not measured", None
    cases = [(what, round(value, 9)) for what, value in cases]
    what, value = (max if most else min)(cases, key=lambda c: c[1])
    fails = [c for c in cases
             if not (c[1] <= wanted if most else c[1] >= wanted)]
    at = f" ({what})" if what else ""
    if len(cases) > 1 and len({c[1] for c in cases}) == 1:
        at = f" in all {len(cases)} cases"
    if not fails:
        return f"holds: reached {number(value)}{unit}{at}", True
    some = f" in {len(fails)} of {len(cases)} cases" if len(cases) > 1 else ""
    return (f"fails{some}: reached {number(value)}{unit}{at}, wanted "
            f"{number(wanted)}{unit}", False)


def verdicts(bounds, found):
    """[(bound, wanted, verdict, whether it holds)]"""
    by_bound = {}
    for bound in bounds:
        by_bound.setdefault(bound["bound"], []).append(bound)
    out = []
    for name, rows in by_bound.items():
        cases = []
        for row in rows:
            found_cases = cases_of(row, found)
            cases += found_cases or []
            if not found_cases:
                cases = None
                break
        unit = " " + rows[0]["unit"] if rows[0]["unit"] else ""
        text, holds = verdict(rows[0], cases)
        out.append((name, f"{rows[0]['sign']} {rows[0]['wanted']}{unit}", text,
                    holds))
    return out


def verdicts_table(rows):
    def count(what):
        return sum(1 for row in rows if row[3] is what)

    missing = f", {count(None)} not measured" if count(None) else ""
    return (table(["bound", "wanted", "verdict"], [row[:3] for row in rows]) +
            f"\n\nOf {len(rows)} bounds {count(True)} hold, {count(False)} "
            f"fail{missing}.")
