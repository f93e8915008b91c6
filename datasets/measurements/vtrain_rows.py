#!/usr/bin/env python3
"""Whether rows of published_runs.csv are what somebody measured: steps that were
run do not lie on straight lines.

    vtrain_rows.py DATASETS [VTRAIN]    # VTRAIN: a copy of VIA-Research/vTrain

Of the rows that differ in nothing but the number of micro-batches, three or
more: how far those between lie from the line through the first and the last.
And of rows of one stage that differ in nothing but the data parallel ranks: the
difference of their steps beside that of the entries for all of a rank's
gradients (16-bit) in trace/a100/AR_GPU*_LUT, rounded to whole MiB.
"""
import csv
import sys
from collections import defaultdict
from fractions import Fraction

SAME = ("source_ref", "hidden", "layers", "tp", "pp", "micro_batch")


def rows_of(datasets):
    with open(f"{datasets}/validation/published_runs.csv", newline="") as f:
        for row in csv.DictReader(f):
            if "vTrain" in row["source"]:
                row["source_ref"] = row["source_ref"].split(" line")[0]
                yield row


def microseconds(row):
    return round(float(row["iter_time_s"]) * 1e6)


def families(rows, key, differs):
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[k] for k in key)].append(
            (int(row[differs]), microseconds(row)))
    return {k: sorted(v) for k, v in found.items()}


def lines(rows):
    off = defaultdict(list)
    key = SAME + ("dp",)
    for k, at in families(rows, key, "grad_accum").items():
        if len(at) < 3 or at[0][0] == at[-1][0]:
            continue
        slope = Fraction(at[-1][1] - at[0][1], at[-1][0] - at[0][0])
        off[k[0]] += [abs(float(t - at[0][1] - slope * (n - at[0][0])))
                      for n, t in at[1:-1]]
    for name, d in off.items():
        print(f"{name}: {len(d)} rows between others, at most {max(d):.2f} us "
              "off their line")


def gradients(hidden, layers, tp):
    """MiB of a rank's, as vTrain counts them (src/predictor.py)."""
    h, part = hidden, hidden // tp
    layer = 4 * h + 3 * h * part + 3 * h // tp + h * part + h
    layer += 2 * 4 * h * part + 4 * h // tp + h
    words = 50257 // tp * h
    return round(2 * (2 * words + 1024 * h + layers * layer) / 2**20)


def table(folder, ranks):
    with open(f"{folder}/trace/a100/AR_GPU{ranks}_1M_1024M_LUT") as f:
        entries = [line.split(",") for line in list(f)[1:]]
    return {int(e[0]) // 2**20: int(e[-2]) / 1e3 for e in entries}


def tables(rows, folder):
    luts = {n: table(folder, n) for n in (2, 4, 8)}
    worst, count = 0, 0
    rows = [r for r in rows if "single" in r["source_ref"] and r["pp"] == "1"]
    key = SAME + ("grad_accum",)
    for k, at in families(rows, key, "dp").items():
        mib = gradients(*(int(k[i]) for i in (1, 2, 3)))
        at = [(n, t) for n, t in at if n > 1]
        for (a, ta), (b, tb) in zip(at, at[1:]):
            if mib <= 1024:
                told = luts[b][mib] - luts[a][mib]
                worst, count = max(worst, abs(tb - ta - told)), count + 1
    print(f"data parallel ranks: {count} differences, at most {worst:.2f} us "
          "from those of the tables")


def main():
    rows = list(rows_of(sys.argv[1]))
    lines(rows)
    if len(sys.argv) > 2:
        tables(rows, sys.argv[2])


main()
