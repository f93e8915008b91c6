/* Every strategy of small problems, one by one, for every cut into stages: none
 * costs less, fits in less or, lowered and simulated, takes less than what is
 * said of all. Of problems too large for that some strategies and cuts are
 * drawn. */
#include "config.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/fit.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/shares.h"

#include "base/hash.h"
#include "ir/recompute.h"
#include "plan/check.h"
#include "plan/lower.h"
#include "plan/schedule.h"
#include "search_cluster.h"
#include "search_draw.h"
#include "sim/sim.h"
#include "tap.h"

enum {
    CASES = 300,
    MOST_GRAPHS = 2,
    MOST = 3000,    /* strategies of a configuration, looked at all */
    DRAWN = 60,     /* else */
    SIMULATED = 12, /* of a configuration */
    MOST_CUTS = 12,
    OTHERS = 300, /* strategies of a cut that is not the search's */
    STEPS = 8
};
#define ROUNDING 1e-12

typedef struct every_case {
    uint64_t seed;
    const char *cluster, *schedule;
    bool train, wide, again;
    int32_t ops, n_graphs;
    int64_t rows;
    double share; /* of the bytes that the fastest plan takes; 0: no limit */
} every_case;

static every_case draw_case(uint64_t seed)
{
    static const char *const clusters[] = {"1x2:cpu", "2x1:a100-sxm4-80g",
                                           "1x4:l4",  "1x6:cpu",
                                           "2x3:l4",  "1x6:l4"};
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1",
                                            "dynamic"};
    uint64_t rng = fs_mix(seed);
    every_case c = {.seed = seed};
    c.cluster = clusters[fs_rand_below(&rng, 6)];
    c.schedule = schedules[fs_rand_below(&rng, 4)];
    c.train = fs_rand_below(&rng, 3) == 0;
    c.ops = c.train ? (int32_t)fs_rand_below(&rng, 2)
                    : 1 + (int32_t)fs_rand_below(&rng, 6);
    c.n_graphs = c.train ? MOST_GRAPHS : 1;
    c.rows = 64 << (2 * fs_rand_below(&rng, 4));
    c.wide = !c.train && fs_rand_below(&rng, 3) == 0;
    if (c.wide)
        c.rows = 1 + fs_rand_below(&rng, 2);
    if (fs_rand_below(&rng, 2))
        c.share = 0.6 + 0.5 * fs_rand_unit(&rng);
    c.again = c.train && fs_rand_below(&rng, 2);
    return c;
}

typedef struct asked {
    fs_arena *arena;
    ir_graph *graph[MOST_GRAPHS];
    search_graph graphs[MOST_GRAPHS];
    search_problem problem;
    hw_cluster *cluster;
    uint64_t rng;
} asked;

static void open_case(asked *a, const every_case *c)
{
    fs_err err = {0};
    *a = (asked){.arena = fs_arena_create(), .rng = fs_mix(c->seed + 2)};
    a->cluster = open_cluster(c->cluster, a->arena);
    for (int32_t k = 0; k < c->n_graphs; k++) {
        uint64_t rng = fs_mix(c->seed + 1);
        const search_draw draw = {c->train, c->ops, c->rows, 1 << k, c->wide};
        a->graph[k] = search_draw_graph(&rng, &draw);
        if (c->again)
            FS_ASSERT(ir_recompute(a->graph[k], ".", &err) == FS_OK);
        a->graphs[k] =
            (search_graph){a->graph[k]->micro_batches, a->graph[k], NULL};
    }
    a->problem =
        (search_problem){.cluster = a->cluster,
                         .cost = cost_model_create(a->cluster, a->arena),
                         .n_graphs = c->n_graphs,
                         .graphs = a->graphs,
                         .engine = "ilp",
                         .schedule = c->schedule,
                         .fix_mesh = {.n = -1},
                         .max_mesh_axes = 1,
                         .time_limit_s = 600,
                         .in_full = true,
                         .reduce = true};
}

static void close_case(asked *a, const every_case *c)
{
    for (int32_t k = 0; k < c->n_graphs; k++)
        ir_graph_destroy(a->graph[k]);
    fs_arena_destroy(a->arena);
}

typedef struct tally {
    int64_t looked_at, simulated;
    int cases, whole, limited, none;
    int64_t cuts;
    int bad_sum, bad_below, bad_best, bad_bound, bad_sim, bad_refusal,
        bad_unsound, bad_even, bad_all;
    int raised; /* configurations whose bound of all cuts has these in it */
    int64_t cuts_apart; /* more that is computed again is parted there */
    int64_t bounded; /* simulated, where a bound of all simulations is known */
    double nearest;  /* that of one of these */
    int lost, worse; /* with a limit: a plan that fits was there */
    double worst;
} tally;

/* Of all strategies of a case. */
typedef struct seen {
    double cost_s, fitting_s;
    bool whole;
} seen;

/* ---- one strategy ---- */

typedef struct place {
    asked *a;
    const every_case *c;
    search_level0 *z;
    search_candidate *of;
    const search_result *found;
    tally *t;
    seen *seen;
    int32_t simulated;
    double even_s; /* however the stages are cut */
    bool other;    /* cut otherwise than by the search, */
    bool apart;    /* where more that is computed again is parted */
} place;

static void complain(const place *p, const char *what, double got,
                     double wanted)
{
    printf("# FS_CASE=%llu, %d stages, m %d: %s: %.17g, %.17g\n",
           (unsigned long long)p->c->seed, p->of->n_stages,
           p->of->graph->micro_batches, what, got, wanted);
}

static bool beyond(double bound, double cost)
{
    return bound > cost * (1 + ROUNDING);
}

/* Stages that only go forward, and passes with streams of their own, run ahead
 * of others by several steps, so that a run's last but one is not like those
 * before. */
static bool is_steady(const place *p, const plan_strategy *s)
{
    return s->n_stages == 1 ||
           (p->c->train && plan_schedule_find(s->schedule)->passes == 1);
}

/* Lowered, proven sound and played, it takes at least what cost_least says, and
 * what the search says of all plans. */
static void simulate(place *p, const plan_strategy *s)
{
    const ir_graph *graph = p->of->layout.graph;
    fs_arena *arena = fs_arena_create();
    plan_lower_options options = plan_lower_defaults();
    const sim_options how = {.steps = STEPS, .straggler = 1};
    const cost_model *model = p->a->problem.cost;
    fs_err err = {0};
    plan_report report;
    sim_result sim;
    plan *lowered;
    options.refine = false;
    if (plan_lower(graph, p->a->cluster, s, &options, arena, &err, &lowered) !=
            FS_OK ||
        plan_check(graph, p->a->cluster, lowered, arena, &report) != FS_OK ||
        sim_run(graph, lowered, p->a->cluster,
                cost_timing(model, graph, lowered, arena), &how, arena, &err,
                &sim) != FS_OK) {
        complain(p, err.status ? err.text : "unsound", 0, 0);
        p->t->bad_unsound++;
    } else {
        const double least = cost_least(model, graph, s, &options);
        p->t->simulated++;
        if (least > sim.iteration_s * (1 + 1e-9)) {
            complain(p, "bound, simulated", least, sim.iteration_s);
            p->t->bad_sim++;
        }
        const double all = p->found->sim_bound_s;
        p->t->nearest = fmax(p->t->nearest, all / sim.iteration_s);
        p->t->bounded += all > 0;
        if (!p->apart && all > sim.iteration_s * (1 + 1e-9)) {
            complain(p, "bound of all, simulated", all, sim.iteration_s);
            p->t->bad_all++;
        }
    }
    fs_arena_destroy(arena);
}

/* Does it fit, when lowered? */
static bool fits(place *p, plan_strategy *s)
{
    int64_t limit[8], bytes[8];
    for (int32_t i = 0; i < s->n_stages; i++)
        limit[i] = search_device_bytes(&p->a->problem, &s->stages[i]);
    return search_fits(&p->a->problem, p->of->layout.graph, limit, s, bytes);
}

static void look_at(place *p, const int32_t *value)
{
    const search_net *net = &p->of->built.net;
    const double by_net = search_net_cost(net, value);
    cost_summary by_model = {0};
    fs_err err = {0};
    if (isinf(by_net))
        return;
    fs_arena *arena = fs_arena_create();
    plan_strategy *s = search_strategy(&p->a->problem, &p->of->built,
                                       &p->of->layout, NULL, value, arena);
    s->batch = p->of->layout.graph->batch;
    if (cost_strategy(p->a->problem.cost, p->of->layout.graph, s, arena, &err,
                      &by_model) != FS_OK ||
        fabs(by_model.iteration_s - by_net) > 1e-15 * by_net) {
        complain(p, "network, cost model", by_net, by_model.iteration_s);
        p->t->bad_sum++;
    }
    p->t->looked_at++;
    if (!p->apart && beyond(p->even_s, by_net)) {
        complain(p, "bound of all cuts, strategy", p->even_s, by_net);
        p->t->bad_even++;
    }
    if (!p->other)
        p->seen->cost_s = fmin(p->seen->cost_s, by_net);
    if (!p->other && by_net < p->seen->fitting_s && fits(p, s))
        p->seen->fitting_s = by_net;
    if (is_steady(p, s) && p->simulated++ < SIMULATED)
        simulate(p, s);
    fs_arena_destroy(arena);
}

/* ---- all of a configuration ---- */

static double count(const search_net *net)
{
    double n = 1;
    for (int32_t i = 0; i < net->n_nodes; i++)
        n *= net->nodes[i].n;
    return n;
}

static bool next(const search_net *net, int32_t *value)
{
    for (int32_t i = 0; i < net->n_nodes; i++) {
        if (++value[i] < net->nodes[i].n)
            return true;
        value[i] = 0;
    }
    return false;
}

/* Where not all are looked at, the one of which an engine says that it is best.
 */
static void look_at_best(place *p)
{
    search_candidate *of = p->of;
    const search_budget budget = {
        .deadline = fs_deadline_after(FS_STEPS_PER_S, &of->steps, p->z->end),
        .cutoff = INFINITY,
        .reduce = true};
    search_solution found;
    fs_err err = {0};
    if (search_engine_find("ilp")(&of->built.net, &budget, p->a->arena, &err,
                                  &found) == FS_OK)
        look_at(p, found.value);
}

static void look_at_all(place *p)
{
    search_net *net = &p->of->built.net;
    int32_t *value = fs_new(p->a->arena, int32_t, net->n_nodes);
    for (int32_t k = 0; k < net->n_limits; k++)
        net->limit_bytes[k] = INT64_MAX;
    if (count(net) <= (p->other ? OTHERS : MOST)) {
        do
            look_at(p, value);
        while (next(net, value));
        return;
    }
    p->seen->whole &= p->other;
    look_at_best(p);
    for (int32_t k = 0; k < DRAWN; k++) {
        for (int32_t i = 0; i < net->n_nodes; i++)
            value[i] = (int32_t)fs_rand_below(&p->a->rng, net->nodes[i].n);
        look_at(p, value);
    }
}

static void look_at_cut(place *p)
{
    search_candidate *of = p->of;
    fs_err err = {0};
    of->arena = p->a->arena;
    of->whole = true;
    if (search_lay_out(p->z, of, &err) != FS_OK)
        return;
    of->shown.end = p->z->end;
    if (search_build_nodes(&p->a->problem, &of->shown, of->arena, &of->built) &&
        of->built.empty < 0 && search_build_edges(of->arena, &of->built))
        look_at_all(p);
}

/* Where stages begin, of n ranks. */
static const int32_t *draw_cut(place *p, int32_t n)
{
    const int32_t stages = p->of->n_stages;
    int32_t *begin = fs_new(p->a->arena, int32_t, stages), at = 0;
    for (int32_t r = 1; r < n; r++)
        if (fs_rand_below(&p->a->rng, n - r) < stages - 1 - at)
            begin[++at] = r;
    return begin;
}

static void look_at_configuration(place *p)
{
    search_candidate even = *p->of;
    const search_ranks *ranks =
        search_ranks_of(p->z, search_graph_of(p->z, p->of));
    even.whole = true;
    search_look(p->z, &even);
    search_weigh(p->z, &even);
    const double weighed_s = even.any_cut_s;
    search_weigh_every_cut(p->z, &even);
    p->t->raised += even.any_cut_s > weighed_s * (1 + ROUNDING);
    p->even_s = even.any_cut_s;
    look_at_cut(p);
    p->other = true;
    p->simulated = 0;
    for (int32_t k = 0;
         k < MOST_CUTS && p->of->n_stages > 1 && p->of->n_stages <= ranks->n;
         k++) {
        search_part *part = fs_new(p->a->arena, search_part, 1);
        *part = (search_part){.begin = draw_cut(p, ranks->n)};
        p->of->part = NULL;
        p->apart = !search_part_of_bound(p->z, p->of, part);
        p->of->part = part;
        p->t->cuts++;
        p->t->cuts_apart += p->apart;
        look_at_cut(p);
    }
}

static seen look_at_space(asked *a, const every_case *c,
                          const search_result *found, tally *t)
{
    seen all = {INFINITY, INFINITY, true};
    search_level0 z = {.problem = &a->problem,
                       .arena = a->arena,
                       .scratch = a->arena,
                       .start_ns = fs_now_ns(),
                       .best_s = INFINITY};
    a->problem.known = search_known_create();
    z.end = fs_end_after(z.start_ns, 1e8, NULL);
    search_rates_for(&z, 1, 1);
    for (int32_t k = 0; k < found->n_configs; k++) {
        const search_config *config = &found->configs[k];
        search_candidate of = {.n_stages = config->n_stages,
                               .depth = config->depth,
                               .mesh = config->mesh[0],
                               .share = 1};
        for (int32_t g = 0; g < c->n_graphs; g++)
            if (a->graphs[g].micro_batches == config->micro_batches)
                of.graph = &a->graphs[g];
        place p = {.a = a,
                   .c = c,
                   .z = &z,
                   .of = &of,
                   .found = found,
                   .t = t,
                   .seen = &all};
        look_at_configuration(&p);
    }
    search_known_destroy(a->problem.known);
    a->problem.known = NULL;
    return all;
}

/* ---- a case ---- */

static void judge(tally *t, const place *p, fs_status status)
{
    const search_result *r = p->found;
    const seen *s = p->seen;
    const bool limited = p->a->problem.memory_bytes > 0;
    if (beyond(r->lower_bound_s, s->fitting_s)) {
        complain(p, "bound, a plan that fits", r->lower_bound_s, s->fitting_s);
        t->bad_bound++;
    }
    if (strcmp(r->status, "infeasible") == 0 && isfinite(s->fitting_s)) {
        complain(p, "refused, a plan that fits", 0, s->fitting_s);
        t->bad_refusal++;
    }
    if (status != FS_OK) {
        t->none++;
        t->lost += isfinite(s->fitting_s);
        if (isfinite(s->fitting_s))
            complain(p, "no plan, one that fits", 0, s->fitting_s);
        return;
    }
    if (!s->whole)
        return;
    t->whole++;
    if (beyond(s->fitting_s, r->iteration_s)) {
        complain(p, "best of all, found", s->fitting_s, r->iteration_s);
        t->bad_below++;
    }
    const double by = r->iteration_s / s->fitting_s - 1;
    if (by > ROUNDING && (!limited || strcmp(r->status, "optimal") == 0)) {
        complain(p, "found, best of all", r->iteration_s, s->fitting_s);
        t->bad_best++;
    }
    t->worse += by > ROUNDING;
    t->worst = fmax(t->worst, by);
}

static void try_case(tally *t, const every_case *c)
{
    asked a;
    search_result found = {.iteration_s = INFINITY};
    fs_err err = {0};
    open_case(&a, c);
    fs_status status = search_run(&a.problem, a.arena, &err, &found);
    FS_ASSERT(status == FS_OK);
    if (c->share > 0) {
        int64_t peak = 0;
        for (int32_t k = 0; k < found.n_configs; k++)
            peak = found.configs[k].peak_bytes > peak
                       ? found.configs[k].peak_bytes
                       : peak;
        a.problem.memory_bytes = 1 + (int64_t)(c->share * (double)peak);
        found = (search_result){.iteration_s = INFINITY};
        status = search_run(&a.problem, a.arena, &err, &found);
        t->limited++;
    }
    t->cases++;
    seen all = look_at_space(&a, c, &found, t);
    search_candidate none = {.graph = &a.graphs[0]};
    const place p = {
        .a = &a, .c = c, .of = &none, .found = &found, .t = t, .seen = &all};
    judge(t, &p, status);
    close_case(&a, c);
}

/* FS_CASE=SEED: one case; FS_CASES=N: so many. */
int main(void)
{
    const char *one = getenv("FS_CASE"), *many = getenv("FS_CASES");
    const uint64_t seed = one ? strtoull(one, NULL, 10) : 100000 * tap_seed(5);
    const int32_t n = one ? 1 : many ? atoi(many) : CASES;
    tally t = {0};
    for (int32_t i = 0; i < n; i++) {
        const every_case c = draw_case(seed + (uint64_t)i);
        try_case(&t, &c);
    }
    printf("# %d problems, %d of them whole, %d with a limit: %lld strategies, "
           "%lld simulated, of %lld other cuts too, %lld of which part more; "
           "no plan in %d, where one "
           "fits in %d; worse than "
           "one that fits in %d, by %.3g %% at most\n",
           t.cases, t.whole, t.limited, (long long)t.looked_at,
           (long long)t.simulated, (long long)t.cuts, (long long)t.cuts_apart,
           t.none, t.lost, t.worse, 100 * t.worst);
    tap_equal_int(t.bad_sum, 0, "networks cost what their strategies cost");
    tap_equal_int(t.bad_below, 0, "what is found is one of all strategies");
    tap_equal_int(t.bad_best, 0, "what is called best of all is that");
    tap_equal_int(t.bad_bound, 0, "no plan that fits is below the bound");
    tap_equal_int(t.bad_refusal, 0, "what is refused has no plan that fits");
    tap_equal_int(t.bad_even, 0,
                  "no strategy of any cut is below the bound of "
                  "all cuts");
    tap_ok(one || t.raised > n / 10, "what cuts add raises that of %d",
           t.raised);
    printf("# %lld simulated where a bound of all simulations is known, which "
           "is %.3f of one\n",
           (long long)t.bounded, t.nearest);
    tap_equal_int(t.bad_all, 0,
                  "no plan, however it is cut, simulates faster than the bound "
                  "of all");
    tap_ok(one || t.bounded > n, "which is known of most");
    tap_equal_int(t.bad_unsound, 0, "each lowered plan is sound and runs");
    tap_equal_int(t.bad_sim, 0, "no plan simulates faster than its bound");
    tap_ok(one || t.whole > n / 6, "%d of %d spaces were looked at whole",
           t.whole, n);
    return tap_done();
}
