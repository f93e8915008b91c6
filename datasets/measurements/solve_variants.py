"""Cost networks that are harder than those they are made of (solve.md):
python3 solve_variants.py DIR_OF_A_P_V OUT. Public networks that are not at hand
have fewer edges that forbid pairs, so that reductions leave thousands of nodes;
these leave such edges out too, all of them or each with a probability."""
import gzip
import json
import random
import sys

FORBIDS = 10**18


def load(name):
    with gzip.open(f"{sys.argv[1]}/{name}.json.gz") as file:
        return json.load(file)


def save(name, file):
    with gzip.open(f"{sys.argv[2]}/{name}.json.gz", "wt", compresslevel=1) as out:
        json.dump(file, out)


def leave_out(file, share, seed):
    draws = random.Random(seed)
    edges = file["problem"]["edges"]
    kept = [k for k, table in enumerate(edges["costs"])
            if max(table) < FORBIDS or draws.random() >= share]
    for key in ("nodes", "costs"):
        edges[key] = [edges[key][k] for k in kept]


def square(file, slack, seed):
    """A second mesh axis: pairs of strategies."""
    draws = random.Random(seed)
    nodes, edges = file["problem"]["nodes"], file["problem"]["edges"]
    dom = [len(costs) for costs in nodes["costs"]]
    events = {}
    for i, (costs, bytes_) in enumerate(zip(nodes["costs"], nodes["usages"])):
        scale, most = draws.uniform(.5, 1.5), max(bytes_) or 1
        both = [min(int(a + scale * b), FORBIDS) if max(a, b) < FORBIDS
                else FORBIDS for a in costs for b in costs]
        if min(both) >= FORBIDS:
            both[0] = 0
        nodes["costs"][i] = both
        nodes["usages"][i] = [a * b // most for a in bytes_ for b in bytes_]
        begin, end = nodes["intervals"][i]
        least = min(nodes["usages"][i])
        events[begin] = events.get(begin, 0) + least
        events[end] = events.get(end, 0) - least
    for k, (u, v) in enumerate(edges["nodes"]):
        table, scale = edges["costs"][k], draws.choice((.5, .7, 1, 1.4))
        edges["costs"][k] = [int(table[a * dom[v] + x] +
                                 scale * table[b * dom[v] + y])
                             for a in range(dom[u]) for b in range(dom[u])
                             for x in range(dom[v]) for y in range(dom[v])]
    held = peak = 0
    for time in sorted(events):
        held += events[time]
        peak = max(peak, held)
    file["problem"]["usage_limit"] = int(peak * slack)


for name, source, share, seed in (("A-all", "A", 1, 1), ("P-all", "P", 1, 1),
                                  ("A-half", "A", .5, 3), ("A-15", "A", .15, 1),
                                  ("V-all", "V", 1, 1)):
    variant = load(source)
    leave_out(variant, share, seed)
    save(name, variant)
variant = load("P")
leave_out(variant, 1, 1)
square(variant, 1.3, 7)
save("P-square", variant)
