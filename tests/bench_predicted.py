"""The part `sim` of `make bench-exec`: steps as predicted beside steps as run.

Round by round each network is calibrated once more, planned with all that is
known by then, simulated, run: a prediction is made before its run, and what
disturbs the machine for a while disturbs some of both."""
import json
import os
import re
import statistics

import bench_verdicts as v
from bench_networks import NETWORKS, Flowsearch, words_of

MOST_ERROR = 0.08
SECONDS, ALONE_PASSES = 4, 3
FIGURES = "predicted"  # the database: of this program alone
RECIPES = {"search": ["search"], "dp 2": ["plan", "--dp", "2"]}


class Predicted:
    """A plan's predictions and runs, one of each a round."""

    def __init__(self, b, network, recipe):
        self.b = b
        self.ours = Flowsearch(b, network, RECIPES[recipe], FIGURES)
        self.predicted, self.measured, self.replayed = [], [], []
        self.off = {}  # by kind of task: seconds, one a round
        self.steps = max(8, min(200, int(SECONDS / self.simulate())))

    def simulate(self):
        return json.loads(self.b.flowsearch(
            "sim", self.ours.plan, "--json", figures=FIGURES))["iteration_s"]

    def turn(self):
        self.ours.make()
        self.predicted.append(self.simulate())
        told = self.ours.run(self.steps)
        self.measured.append(told["step_s"]["median"])
        self.replayed.append(told["replayed_step_s"] / self.measured[-1] - 1)
        for one in told["residuals"]:
            self.off.setdefault(one["what"], []).append(
                one["predicted_s"] - one["measured_s"])

    def error(self):
        return (statistics.median(self.predicted) /
                statistics.median(self.measured) - 1)

    def furthest(self, n=3):
        """What of a step was off most: its name, by how much of the step."""
        off = {what: statistics.median(s) / statistics.median(self.measured)
               for what, s in self.off.items()}
        return ", ".join(f"{what} {100 * off[what]:+.1f}" for what in
                         sorted(off, key=lambda w: -abs(off[w]))[:n])


def rounds_of(b, networks):
    b.flowsearch("calibrate", "local", "--passes", str(ALONE_PASSES),
                 figures=FIGURES)
    plans = {}
    for k in range(int(os.environ.get("BENCH_ROUNDS", "3"))):
        for network in networks:
            b.flowsearch("calibrate", *words_of(network), "--passes", "1",
                         figures=FIGURES)
            for recipe in RECIPES:
                key = network[0], recipe
                if key not in plans:
                    plans[key] = Predicted(b, network, recipe)
                one = plans[key]
                one.turn()
                b.say(f"round {k + 1}, {', '.join(key)}: predicted "
                      f"{1e3 * one.predicted[-1]:.1f}, ran "
                      f"{1e3 * one.measured[-1]:.1f} ms")
    return plans


def sim(b):
    asked = os.environ.get("BENCH_NETWORKS", "")
    if os.path.exists(f"{b.folder}/{FIGURES}.db"):
        os.remove(f"{b.folder}/{FIGURES}.db")
    plans = rounds_of(b, [n for n in NETWORKS if re.search(asked, n[0])])
    rows = [[*key, f"{1e3 * statistics.median(p.predicted):.1f}",
             f"{1e3 * statistics.median(p.measured):.1f}",
             f"{100 * p.error():+.1f}",
             f"{100 * statistics.median(p.replayed):+.1f}", p.furthest()]
            for key, p in plans.items()]
    middle = statistics.median(abs(p.error()) for p in plans.values())
    b.show("Steps as predicted", "sim",
           v.table(["network", "plan", "predicted, ms", "run, ms", "error, %",
                    "the simulator's own, %",
                    "furthest off, in % of the step"], rows) +
           f"\n\nMedian error {100 * middle:.1f} % (at most "
           f"{100 * MOST_ERROR:.0f} %: "
           f"{'holds' if middle <= MOST_ERROR else 'FAILS'}), medians of "
           "rounds: each calibrates, plans, simulates, then runs. The "
           "simulator's own: with the run's durations in place of the "
           "predicted ones.")
