/* Search on compact graphs (ir/compact.h). Of a network of very many layers the
 * graph in full is made once the search has ended; until then the network with
 * few layers, some of which stand for several, is taken for it. Kept are those
 * about each place where a cut by time may lie, and between these places two
 * groups, so that a stage's layers may be of two kinds. That it is what the
 * network in full is with so many layers less is proven when there is a plan
 * (ir_compact_open), and what the plan takes is counted afresh. Where that does
 * not agree, or compact graphs cannot say what is asked, graphs in full are
 * searched. */
#include "config.h"
#include "cli/making.h"

#include "cli/sizes.h"
#include "ir/compact.h"
#include "ir/recompute.h"
#include "search/layout.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers of the network that is looked at first; kept beside each place and at
 * each end; what is worth it; a group, and what is none. */
enum { PROBE = 8, BESIDE = 4, AT_EACH_END = 3, WORTH = 3, GROUP = 3 };
enum { FEWEST = 2 * GROUP + 2 };
#define CLAIM_TOLERANCE (16 * DBL_EPSILON)

struct cli_expanded {
    const plan_strategy *of; /* of a compact graph */
    const ir_graph *graph;   /* NULL: it cannot be */
    plan_strategy *strategy;
};

/* ---- the model with other layers ---- */

static const char *find_layers(const char *model)
{
    const char *at = strstr(model, ",layers=");
    return strncmp(model, "zoo:", 4) == 0 && at ? at + strlen(",layers=")
                                                : NULL;
}

/* 0: it says none. */
static int32_t layers_of(const char *model)
{
    const char *at = find_layers(model);
    char *end = NULL;
    const long n = at ? strtol(at, &end, 10) : 0;
    return at && end > at && (*end == ',' || !*end) && n > 0 && n < INT32_MAX
               ? (int32_t)n
               : 0;
}

static plan_origin with_layers(const cli_making *m, int32_t n)
{
    plan_origin origin = m->origin;
    const char *at = find_layers(origin.model);
    origin.model =
        fs_printf(m->c->arena, "%.*s%d%s", (int)(at - origin.model),
                  origin.model, n, at + strspn(at, "0123456789"));
    return origin;
}

/* ---- where cuts may lie ---- */

/* Seconds on one device of what comes before the layers, of one, and of what
 * comes behind them. */
typedef struct profile {
    double before, layer, after;
} profile;

static profile profile_of(const cost_model *cost, const ir_graph *graph)
{
    const ir_layers *layers = graph->layers;
    const ir_layer_run *run = &layers->runs.at[0];
    const plan_stage one = {.mesh = {0}};
    const ir_nd_sig plain = {0};
    profile sum = {0};
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const int32_t owner = node->phase == IR_BACKWARD ? node->forward : v;
        if (node->phase == IR_UPDATE || owner < 0)
            continue;
        const double s = cost_node_seconds(cost, graph, v, &plain, &one);
        if (layers->run[v] >= 0)
            sum.layer += s / run->copies;
        else if (owner < run->node[0])
            sum.before += s;
        else
            sum.after += s;
    }
    return sum;
}

/* Layers, by number, which are kept. */
typedef struct keeping {
    int32_t n;
    bool *keep;
} keeping;

static void keep_from(keeping *k, double first, double last)
{
    const int32_t from = first < 0 ? 0 : (int32_t)first;
    for (int32_t c = from; c <= (int32_t)last && c < k->n; c++)
        k->keep[c] = true;
}

/* In how many layers the first `part` of all seconds are. */
static double place_of(const profile *p, int32_t layers, double part)
{
    const double all = p->before + layers * p->layer + p->after;
    return (part * all - p->before) / p->layer;
}

static void keep_places(const cli_making *m, const profile *few,
                        const profile *many, keeping *k)
{
    const int32_t devices = m->cluster->n_devices, said = m->recipe.pp;
    keep_from(k, 0, AT_EACH_END - 1);
    keep_from(k, k->n - AT_EACH_END, k->n - 1);
    for (int32_t p = 2; p <= devices; p++)
        for (int32_t i = 1;
             i < p && devices % p == 0 && (said <= 0 || said == p); i++) {
            const double a = place_of(few, k->n, (double)i / p),
                         b = place_of(many, k->n, (double)i / p);
            keep_from(k, fmin(a, b) - BESIDE, fmax(a, b) + BESIDE);
        }
}

/* How often each layer that is kept counts; how many these are. */
static int32_t count_layers(const keeping *k, int32_t *times)
{
    int32_t n = 0;
    for (int32_t c = 0, end; c < k->n; c = end) {
        for (end = c; end < k->n && k->keep[end] == k->keep[c];)
            end++;
        const int32_t row = end - c,
                      kept = k->keep[c] || row < FEWEST ? row : 2 * GROUP;
        for (int32_t i = 0; i < kept; i++)
            times[n + i] = 1;
        if (kept < row) {
            times[n + 1] += (row - kept) / 2;
            times[n + GROUP + 1] += row - kept - (row - kept) / 2;
        }
        n += kept;
    }
    return n;
}

/* ---- compact graphs ---- */

/* Where what is asked hangs on the graph in full, or is not folded. */
static bool suits(const cli_making *m)
{
    const cli *c = m->c;
    const cli_args *a = &c->args;
    const search_recipe *r = &m->recipe;
    const char *schedule = r->schedule ? r->schedule : a->schedule;
    uint32_t without;
    cli own = *c;
    return !m->compact.off && !m->by_hand && !m->any_states &&
           strcmp(cli_making_engine(m), "ilp") == 0 &&
           cli_parse_no_reduce(&own, &without) == FS_OK &&
           !(a->no_reduce && !a->no_reduce[0]) &&
           !(without & (SEARCH_LAYERS | SEARCH_COMPACT)) &&
           !cli_making_takes_more(m) && !a->pareto && r->pins.n == 0 && r->n_layers == 0 &&
           r->dp_each.n == 0 && r->interleave <= 1 &&
           (!schedule || strcmp(schedule, "1f1b") == 0) &&
           m->cluster->n_groups == 1 &&
           !(m->origin.compress && m->origin.compress[0]);
}

/* One run of all layers, but for some at its ends: how many. -1: it is not. */
static int32_t rim_of(const ir_graph *graph, int32_t layers)
{
    const ir_layers *found = graph->layers;
    return found->runs.n == 1 ? layers - found->runs.at[0].copies : -1;
}

/* False: there are none of all counts. */
static bool train(cli_making *m, const plan_origin *origin, int32_t n,
                  const int32_t *counts, cli_model *models)
{
    cli own = *m->c;
    int32_t n_made = 0;
    own.err = (fs_err){0};
    cli_sizes *sizes = cli_sizes_create(origin);
    const bool all = cli_sizes_train_all(&own, sizes, n, counts, &n_made,
                                         models) == FS_OK;
    cli_sizes_destroy(sizes);
    bool plain = all;
    for (int32_t k = 0; k < n_made; k++)
        plain &= !models[k].statistics; /* of which all are counted */
    for (int32_t k = 0; !plain && k < n_made; k++)
        cli_model_close(&models[k]);
    return plain;
}

/* Which layers are kept, by the network with few of them; 0: that is not known,
 * or not worth it. */
static int32_t choose(cli_making *m, const cost_model *cost, int32_t layers,
                      int32_t n, const int32_t *counts, int32_t *times,
                      int32_t *rim)
{
    const plan_origin origin = with_layers(m, PROBE);
    const int32_t ends[] = {counts[0], counts[n - 1]};
    const int32_t n_ends = n > 1 ? 2 : 1;
    cli_model probes[2] = {0};
    profile at[2];
    if (!train(m, &origin, n_ends, ends, probes))
        return 0;
    *rim = -1;
    for (int32_t k = 0; k < n_ends; k++) {
        ir_graph_layers(probes[k].graph);
        *rim = rim_of(probes[k].graph, PROBE);
        if (*rim < 0)
            break;
        at[k] = profile_of(cost, probes[k].graph);
    }
    for (int32_t k = n_ends - 1; k >= 0; k--)
        cli_model_close(&probes[k]);
    if (*rim < 0 || *rim + GROUP >= PROBE)
        return 0;
    keeping keep = {layers - *rim,
                    fs_new(m->c->arena, bool, layers - *rim)};
    keep_places(m, &at[0], &at[n_ends - 1], &keep);
    const int32_t kept = count_layers(&keep, times);
    return WORTH * kept <= layers ? kept : 0;
}

bool cli_compact_build(cli_making *m, const cost_model *cost, int32_t n,
                       const int32_t *counts)
{
    const int32_t layers = layers_of(m->origin.model);
    int32_t rim;
    if (layers < WORTH * PROBE || !suits(m))
        return false;
    int32_t *times = fs_new(m->c->arena, int32_t, layers);
    const int32_t kept = choose(m, cost, layers, n, counts, times, &rim);
    if (kept == 0)
        return false;
    const plan_origin origin = with_layers(m, kept + rim);
    if (!train(m, &origin, n, counts, m->models))
        return false;
    m->compact.on = true;
    m->n_models = n;
    for (int32_t k = 0; k < n; k++) {
        ir_graph *graph = m->models[k].graph;
        ir_graph_layers(graph);
        m->compact.on &= rim_of(graph, kept + rim) == rim;
    }
    for (int32_t k = 0; m->compact.on && k < n; k++) {
        ir_graph *graph = m->models[k].graph;
        ir_compact_make(graph, times);
        graph->like = graph->like ? graph->like : graph;
    }
    m->compact.kept = kept;
    for (int32_t k = n - 1; k >= 0 && !m->compact.on; k--)
        cli_model_close(&m->models[k]);
    return m->compact.on;
}

/* ---- in full ---- */

/* A graph in full, for each node of which there is one of a compact graph. */
typedef struct full {
    ir_graph *graph;
    int32_t *rep; /* [nodes] */
} full;

/* [nodes of `bound`] What they were before their graph was bound to stages:
 * names are the same, in the same order. */
static int32_t *nodes_before(const ir_graph *graph, const ir_graph *bound,
                             fs_arena *arena)
{
    int32_t *before = fs_new(arena, int32_t, bound->nodes.n), v = 0;
    for (int32_t i = 0; i < bound->nodes.n; i++, v++) {
        while (strcmp(graph->nodes.at[v].name, bound->nodes.at[i].name) != 0)
            v++;
        before[i] = v;
    }
    return before;
}

/* The same, bound to the stages of a plan of the compact graph that was: nodes
 * that were dropped then are of the stage of their forward node. False: other
 * nodes are dropped of this one. */
static bool bind(const full *all, const ir_graph *compact, const search_plan *p,
                 fs_arena *arena, fs_arena *scratch, full *out)
{
    const int32_t n = all->graph->nodes.n;
    const int32_t *before = nodes_before(compact, p->graph, scratch);
    int32_t *behind = fs_new(scratch, int32_t, compact->nodes.n);
    int32_t *stage_of = fs_new(scratch, int32_t, n);
    memset(behind, 0xff, (size_t)compact->nodes.n * sizeof *behind);
    for (int32_t i = 0; i < p->graph->nodes.n; i++)
        behind[before[i]] = i;
    for (int32_t v = 0; v < n; v++) {
        const int32_t u = all->rep[v];
        const int32_t at =
            behind[u] >= 0 ? behind[u] : behind[compact->nodes.at[u].forward];
        stage_of[v] = p->strategy->stage_of[at];
    }
    out->graph = ir_graph_copy(all->graph, arena);
    ir_recompute_bind(out->graph, stage_of);
    const int32_t *was = nodes_before(all->graph, out->graph, scratch);
    out->rep = fs_new(scratch, int32_t, out->graph->nodes.n);
    for (int32_t v = 0; v < out->graph->nodes.n; v++) {
        out->rep[v] = behind[all->rep[was[v]]];
        if (out->rep[v] < 0)
            return false;
    }
    return true;
}

/* [nodes of the compact graph] The first that it is the rep of. */
static int32_t *first_of(const full *all, int32_t n, fs_arena *arena)
{
    int32_t *first = fs_new(arena, int32_t, n);
    for (int32_t v = all->graph->nodes.n - 1; v >= 0; v--)
        first[all->rep[v]] = v;
    return first;
}

/* NULL: a node reads other than its own. */
static plan_strategy *spread(const full *all, const plan_strategy *few,
                             fs_arena *arena, fs_arena *scratch)
{
    const int32_t n = all->graph->nodes.n;
    const int32_t *first = first_of(all, few->n_nodes, scratch);
    plan_strategy *s = plan_strategy_new(all->graph, few->n_stages, arena);
    s->schedule = fs_strdup(arena, few->schedule);
    memcpy(s->stages, few->stages, (size_t)s->n_stages * sizeof *s->stages);
    int32_t *like = few->like ? fs_new(arena, int32_t, n) : NULL;
    s->like = like;
    for (int32_t v = 0; v < n; v++) {
        const int32_t u = all->rep[v];
        const int32_t n_edges = s->first_edge[v + 1] - s->first_edge[v];
        if (few->first_edge[u + 1] - few->first_edge[u] != n_edges)
            return NULL;
        s->stage_of[v] = few->stage_of[u];
        s->sig[v] = few->sig[u];
        if (like)
            like[v] = few->like[u] == u && first[u] != v ? v
                                                         : first[few->like[u]];
        for (int32_t k = 0; k < n_edges; k++) {
            plan_boxing *path = &s->edge[s->first_edge[v] + k];
            *path = few->edge[few->first_edge[u] + k];
            if (path->sharing)
                path->sharing = search_sharing_of(all->graph, v);
        }
    }
    return s;
}

static const ir_graph *whole_of(cli_making *m, int32_t k)
{
    cli_model *whole = &m->compact.whole[k];
    cli own = *m->c;
    own.err = (fs_err){0};
    if (!whole->graph)
        cli_model_train(&own, &m->origin, m->graphs[k].micro_batches, whole);
    return whole->graph;
}

/* A graph with its layers is no copy that was bound to stages. */
static bool find_full(cli_making *m, const search_plan *p, fs_arena *scratch,
                      full *out)
{
    const int32_t k = (int32_t)(p->of - m->graphs);
    const bool bound = !p->graph->layers;
    const ir_graph *compact = bound ? m->graphs[k].graph : p->graph;
    ir_folded folded;
    *out = (full){(ir_graph *)whole_of(m, k), NULL};
    if (!out->graph || !ir_compact_open(out->graph, compact, scratch, &folded))
        return false;
    out->rep = folded.rep;
    const full all = *out;
    return !bound || bind(&all, compact, p, m->c->arena, scratch, out);
}

static void expand(cli_making *m, const cost_model *cost, const search_plan *p,
                   cli_expanded *out)
{
    fs_arena *scratch = fs_arena_create();
    full all;
    if (find_full(m, p, scratch, &all))
        out->strategy = spread(&all, p->strategy, m->c->arena, scratch);
    const double s =
        out->strategy ? cost_strategy_seconds(cost, all.graph, out->strategy)
                      : INFINITY;
    if (fabs(s - p->iteration_s) <= CLAIM_TOLERANCE * s && isfinite(s))
        out->graph = all.graph;
    fs_arena_destroy(scratch);
}

bool cli_compact_expand(cli_making *m, const cost_model *cost, search_plan *p)
{
    cli_compact *compact = &m->compact;
    if (!compact->on)
        return true;
    const cli_expanded *known = NULL;
    for (int32_t k = 0; k < compact->plans.n; k++)
        if (compact->plans.at[k].of == p->strategy)
            known = &compact->plans.at[k];
    if (!known) {
        cli_expanded made = {.of = p->strategy};
        expand(m, cost, p, &made);
        fs_push(m->c->arena, &compact->plans, made);
        known = &compact->plans.at[compact->plans.n - 1];
    }
    if (!known->graph) {
        atomic_store(&compact->outgrown, true);
        return false;
    }
    p->graph = known->graph;
    p->strategy = known->strategy;
    return true;
}

/* What stages of the best plan hold is told with its configuration. */
static void tell_bytes(const search_result *f, const ir_graph *graph,
                       const plan_strategy *s, fs_arena *arena)
{
    int64_t *bytes = fs_new(arena, int64_t, s->n_stages);
    cost_strategy_bytes(graph, s, bytes);
    for (int32_t k = 0; k < f->n_configs; k++) {
        search_config *c = &f->configs[k];
        if (c->n_stages != s->n_stages || c->micro_batches != s->micro_batches ||
            !plan_same_mesh(c->mesh, &s->stages[0].mesh))
            continue;
        for (int32_t i = 0; i < s->n_stages; i++)
            c->peak_bytes = bytes[i] > c->peak_bytes ? bytes[i] : c->peak_bytes;
        return;
    }
}

/* Of the counts that plans are of. */
static void take_models(cli_making *m)
{
    cli_compact *compact = &m->compact;
    for (int32_t k = m->n_models - 1; k >= 0; k--) {
        cli_model_close(&m->models[k]);
        m->models[k] = compact->whole[k];
        m->graphs[k].graph = compact->whole[k].graph;
        compact->whole[k] = (cli_model){0};
    }
    compact->on = false;
}

bool cli_compact_take(cli_making *m, const cost_model *cost)
{
    search_result *f = &m->found;
    if (!m->compact.on)
        return true;
    if (atomic_load(&m->compact.outgrown))
        return false;
    search_plan best = {.of = f->of,
                        .graph = f->graph,
                        .strategy = f->strategy,
                        .iteration_s = f->iteration_s};
    bool all = cli_compact_expand(m, cost, &best);
    for (int32_t k = 0; k < f->n_plans; k++)
        all = all && cli_compact_expand(m, cost, (search_plan *)&f->plans[k]);
    if (!all)
        return false;
    f->graph = best.graph;
    f->strategy = best.strategy;
    tell_bytes(f, f->n_plans ? f->plans[0].graph : f->graph,
               f->n_plans ? f->plans[0].strategy : f->strategy, m->c->arena);
    take_models(m);
    fs_json_set_int(m->c->result, "layers_searched", m->compact.kept);
    return true;
}

void cli_compact_limit(cli_making *m, double limit_s, search_problem *problem)
{
    fs_end *end = &m->compact.end;
    const int64_t now_ns = fs_now_ns();
    if (!m->compact.off) {
        *end = fs_end_after(now_ns, limit_s, m->stop);
        return;
    }
    const fs_end half = fs_end_after(now_ns, limit_s / 2, m->stop);
    if (end->wall_ns < half.wall_ns)
        *end = half;
    problem->end = end;
}

void cli_compact_close(cli_making *m)
{
    cli_compact *compact = &m->compact;
    for (int32_t k = 0; k < CLI_MAX_GRAPHS; k++)
        cli_model_close(&compact->whole[k]);
    compact->on = false;
    compact->plans.n = 0;
}
