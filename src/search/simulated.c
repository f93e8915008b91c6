/* What no plan of the space takes less than when simulated. Moves run beside
 * compute, and what readers want alike is converted once. What is left is that
 * a step of m micro-batches keeps the compute stream of stage i busy for m a_i
 * + b_i, so that of p stages, however they are cut,
 *
 *   T >= max_i (m a_i + b_i) >= (m a + b) / p
 *
 * for a, b of the whole graph on the devices of one stage. Where devices share
 * cores, what computes is stretched as if all did all the time: a node's cores
 * have so much to do. Of a tensor that n edges read, conversions take no less
 * than the dearest edge's, hence than the mean of all.
 *
 * And fill and drain: where each stage has devices of its own, and its stream
 * all that it computes in order, let a chain of nodes lead forward from a piece
 * and back to it, each of which reads the one before. The first micro-batch
 * comes to a stage k of the chain by what of it lies in stages before, the last
 * one leaves by that way; between these k computes all m, but for what one may
 * do before the chain comes and one behind it; and the next step begins when
 * the last one is back. With W_i seconds of the chain in stage i
 *
 *   T >= sum_(i <= k) W_i + (m - 1) a_k.
 *
 * The least T of all cuts that keep both, by seconds of nodes, is found by
 * bisection: fewest stages are those that end as late as T allows. */
#include "config.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/crew.h"
#include "search/cuts/cut.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/shares.h"
#include "search/space.h"

#include "ir/compact.h"
#include "plan/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the work done until then, and some where that was little. */
#define SHARE 0.03
#define LEAST_WORK_S 0.02
/* Of what is missing, less than this is not worth the work, where that is
 * enough for fewer than one in FEW. */
enum { FEW = 20 };
#define LITTLE_GAIN 0.1

/* How far a bound was raised: by what all meshes of a number of stages have in
 * common, by seconds of nodes, of edges. */
typedef enum sim_level { NOTHING, SHARES, NODES, EDGES } sim_level;

/* Configurations that are alike but for what no bound here depends on. */
typedef struct sim_space {
    const search_candidate *c;
    sim_level level;
    double bound_s;
} sim_space;

/* All of a graph and a number of stages, whatever their meshes. */
typedef struct sim_family {
    const sim_space *first;
    double bound_s;
} sim_family;

typedef struct sim_bounds {
    search_level0 *z;
    fs_arena *arena;
    FS_VEC(sim_family) families;
    FS_VEC(sim_space) all;
} sim_bounds;

bool search_is_crowded(const search_level0 *z)
{
    const hw_cluster *cluster = z->problem->cluster;
    for (int32_t g = 0; g < cluster->n_groups; g++)
        if (hw_core_share(&cluster->groups[g],
                          cluster->groups[g].devices_per_node) > 1)
            return true;
    return false;
}

/* Are its stages even, so that its cut does not matter? */
static bool is_even(const search_level0 *z, const search_candidate *c)
{
    return !z->problem->stage_mesh && z->problem->cluster->n_groups == 1 &&
           !(c->part && c->part->mesh);
}

/* Has a stream all that its stage computes, in order? By any schedule that the
 * configuration may have. */
static bool is_in_order(const search_level0 *z, const search_candidate *c)
{
    const search_problem *p = z->problem;
    const char *const one = c->schedule ? c->schedule : p->schedule;
    const bool any = !c->schedule && p->n_schedules > 0;
    const char *const *names = any ? p->schedules : &one;
    bool all = true;
    for (int32_t k = 0; k < (any ? p->n_schedules : 1); k++) {
        const plan_schedule *s = plan_schedule_find(names[k]);
        all = all && s->passes == 1 && !s->splits;
    }
    return all;
}

static bool is_alike(const search_level0 *z, const search_candidate *c,
                     const search_candidate *of)
{
    return is_even(z, c) && is_even(z, of) && c->graph == of->graph &&
           c->n_stages == of->n_stages && c->depth == of->depth &&
           plan_same_mesh(&c->mesh, &of->mesh) &&
           is_in_order(z, c) == is_in_order(z, of);
}

static void list_spaces(sim_bounds *b)
{
    for (int32_t k = 0; k < b->z->all.n; k++) {
        const search_candidate *c = b->z->all.at[k];
        int32_t at = 0;
        while (at < b->all.n && !is_alike(b->z, c, b->all.at[at].c))
            at++;
        if (at == b->all.n)
            fs_push(b->arena, &b->all, (sim_space){.c = c});
        b->all.at[at].bound_s = fmax(b->all.at[at].bound_s, c->sim_s);
        if (c->sim_nodes)
            b->all.at[at].level = NODES;
    }
}

/* ---- nodes ---- */

static double least_of(const search_net_node *node)
{
    double least = INFINITY;
    for (int32_t s = 0; s < node->n; s++)
        least = fmin(least, node->cost[s]);
    return least;
}

/* All of the graph on the devices of one stage, at rates of devices that are
 * all at work. False: time was over. */
static bool lay_out_even(search_level0 *z, search_candidate *c)
{
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    c->shown.any_cut = 0;
    c->shown.fill = 0;
    c->shown.rates = search_rates_for(z, 1, 1);
    c->shown.end = z->end;
    return search_build_nodes(z->problem, &c->shown, c->arena, &c->built);
}

/* Where its own cut is one of few: each stage's, and, where cores are shared by
 * more devices than there are, the mean over all devices. */
static double floor_of_cut(search_level0 *z, search_candidate *c)
{
    fs_err ignored = {0};
    const bool crowded = search_is_crowded(z);
    if ((crowded && z->problem->cluster->n_groups > 1) ||
        search_lay_out_cut(z, c, &ignored) != FS_OK)
        return 0;
    c->shown.seconds_only = true;
    c->shown.rates = search_rates_for(z, 1, 1);
    c->shown.end = z->end;
    if (!search_build_nodes(z->problem, &c->shown, c->arena, &c->built))
        return 0;
    const search_net *net = &c->built.loose;
    double *sum = fs_new(c->arena, double, net->n_stages), most = 0, all = 0;
    for (int32_t v = 0; v < net->n_nodes; v++) {
        const search_net_node *node = &net->nodes[v];
        const double least =
            least_of(node) * (node->per_step ? 1 : net->micro_batches);
        const int32_t stage = c->shown.stage_of[v];
        sum[node->stage] += least;
        all += ir_mesh_size(&c->shown.stages[stage].mesh) * least;
    }
    for (int32_t i = 0; i < net->n_stages; i++)
        most = fmax(most, sum[i]);
    return crowded ? all / z->problem->cluster->n_devices : most;
}

/* ---- any cut ---- */

/* Of a graph, and all like it: what a micro-batch goes through, one node after
 * the other. */
struct search_passage {
    const ir_graph *graph;
    int32_t n, *node;
    int32_t *piece; /* [nodes] 2 * rank, + 1 when per step; -1: of none */
};

/* Of chains from one node the longest to each. */
typedef struct chain_finder {
    const ir_graph *graph;
    const search_ranks *ranks;
    int32_t *length, *from; /* [nodes] 0: none leads there */
} chain_finder;

/* Forward to pieces behind, and from a piece's forward to its backward nodes
 * and to those of pieces before. */
static bool leads_on(const chain_finder *f, int32_t u, int32_t v)
{
    const ir_phase maker = f->graph->nodes.at[u].phase,
                   reader = f->graph->nodes.at[v].phase;
    const int32_t from = f->ranks->rank[u], to = f->ranks->rank[v];
    if (from < 0 || to < 0)
        return false;
    if (maker == IR_FORWARD)
        return reader == IR_FORWARD ? from <= to
                                    : reader == IR_BACKWARD && from == to;
    return maker == IR_BACKWARD && reader == IR_BACKWARD && to <= from;
}

static void walk_from(chain_finder *f, int32_t first)
{
    const ir_graph *graph = f->graph;
    memset(f->length, 0, (size_t)graph->nodes.n * sizeof *f->length);
    f->length[first] = 1;
    for (int32_t v = first + 1; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t u = graph->tensors.at[node->in[k]].producer;
            if (!f->length[u] || f->length[u] < f->length[v] ||
                !leads_on(f, u, v))
                continue;
            f->length[v] = f->length[u] + 1;
            f->from[v] = u;
        }
    }
}

static void take_chain(const chain_finder *f, int32_t last, search_passage *out)
{
    if (f->length[last] <= out->n)
        return;
    out->n = f->length[last];
    for (int32_t k = out->n - 1, v = last; k >= 0; k--, v = f->from[v])
        out->node[k] = v;
}

/* Goes it through the copies of each group alike? Then it leads through those
 * that the middle one stands for, too. */
static bool is_periodic(const search_passage *p, fs_arena *scratch)
{
    const ir_layers *layers = p->graph->layers;
    bool *on = fs_new(scratch, bool, p->graph->nodes.n);
    for (int32_t k = 0; k < p->n; k++)
        on[p->node[k]] = true;
    for (int32_t v = 0; v < p->graph->nodes.n; v++) {
        if (ir_times(&p->graph->nodes.at[v]) == 1)
            continue;
        const ir_layer_run *run = &layers->runs.at[layers->run[v]];
        const int32_t i =
            layers->copy[v] * run->length + layers->position[v];
        if (on[run->node[i - run->length]] != on[v] ||
            on[run->node[i + run->length]] != on[v])
            return false;
    }
    return true;
}

/* The longest that ends in the piece where it begins, one of the first few. */
static search_passage *find_passage(const search_ranks *ranks, fs_arena *arena)
{
    enum { FIRST = 4 };
    const ir_graph *graph = ranks->graph;
    fs_arena *scratch = fs_arena_create();
    chain_finder f = {graph, ranks, fs_new(scratch, int32_t, graph->nodes.n),
                      fs_new(scratch, int32_t, graph->nodes.n)};
    search_passage *found = fs_new(arena, search_passage, 1);
    *found = (search_passage){graph, 0, fs_new(arena, int32_t, graph->nodes.n),
                              fs_new(arena, int32_t, graph->nodes.n)};
    for (int32_t v = 0; v < graph->nodes.n; v++)
        found->piece[v] = ranks->rank[v] < 0 ? -1
                                             : 2 * ranks->rank[v] +
                                                   cost_node_per_step(graph, v);
    for (int32_t r = 0; r < FIRST && r < ranks->n; r++) {
        walk_from(&f, ranks->order[r]);
        for (int32_t v = 0; v < graph->nodes.n; v++)
            if (ranks->rank[v] == r && graph->nodes.at[v].phase == IR_BACKWARD)
                take_chain(&f, v, found);
    }
    if (ir_is_compact(graph) && !is_periodic(found, scratch))
        found->n = 0;
    fs_arena_destroy(scratch);
    return found;
}

static const search_passage *passage_of(search_level0 *z, const ir_graph *graph)
{
    const search_ranks *ranks = search_ranks_of(z, graph);
    for (int32_t k = 0; k < z->passages.n; k++)
        if (z->passages.at[k]->graph == ranks->graph)
            return z->passages.at[k];
    search_passage *made = find_passage(ranks, z->scratch);
    fs_push(z->scratch, &z->passages, made);
    return made;
}

/* Seconds of a piece, of all before it: per micro-batch, per step, and of the
 * chain. */
typedef struct sim_load {
    double by_rate[2], chain;
} sim_load;

typedef struct sim_loads {
    int32_t n;
    sim_load *before; /* [n + 1] */
} sim_loads;

/* Of each node of the graph; of those that one of the layout stands for its
 * tables are the sum. On a core of its own, if all devices at work make it so
 * many times slower. */
static double *seconds_of_nodes(const search_candidate *c, double slower)
{
    const search_net *net = &c->built.loose;
    const int32_t n = c->graph->graph->nodes.n;
    const int32_t *rep = c->shown.view ? c->shown.view->rep : NULL;
    double *one = fs_new(c->arena, double, net->n_nodes);
    double *s = fs_new(c->arena, double, n);
    for (int32_t v = 0; v < net->n_nodes; v++)
        one[v] = least_of(&net->nodes[v]) / search_times(&c->shown, v) / slower;
    for (int32_t v = 0; v < n; v++)
        s[v] = one[rep ? rep[v] : v];
    return s;
}

static sim_loads loads_of(search_level0 *z, const search_candidate *c,
                          const double *seconds)
{
    const ir_graph *graph = c->graph->graph;
    const search_passage *passage = passage_of(z, graph);
    const search_ranks *ranks = search_ranks_of(z, graph);
    const int32_t n = ranks->n_meant;
    sim_load *of = fs_new(c->arena, sim_load, ranks->n);
    sim_load *before = fs_new(c->arena, sim_load, (size_t)n + 1);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t piece = passage->piece[v];
        if (piece >= 0)
            of[piece / 2].by_rate[piece % 2] += seconds[v];
    }
    const int32_t n_chain = is_in_order(z, c) ? passage->n : 0;
    for (int32_t k = 0; k < n_chain; k++) {
        const int32_t v = passage->node[k];
        of[passage->piece[v] / 2].chain += seconds[v];
    }
    for (int32_t r = 0; r < n; r++) {
        const sim_load *one = &of[ranks->meant[r]];
        for (int32_t k = 0; k < 2; k++)
            before[r + 1].by_rate[k] = before[r].by_rate[k] + one->by_rate[k];
        before[r + 1].chain = before[r].chain + one->chain;
    }
    return (sim_loads){n, before};
}

/* May one stage have these pieces, the chain having come after `way`? */
static bool may_have(const sim_loads *loads, double m, int32_t first,
                     int32_t end, double most, double way)
{
    const sim_load *from = &loads->before[first], *to = &loads->before[end];
    const double micro = to->by_rate[0] - from->by_rate[0],
                 step = to->by_rate[1] - from->by_rate[1],
                 chain = to->chain - from->chain;
    return m * micro + step <= most &&
           (chain <= 0 || way + chain + (m - 1) * micro <= most);
}

/* The piece behind those that one stage may have from `first` on; `way` grows
 * by the chain's seconds in it. */
static int32_t end_of_stage(const sim_loads *loads, double m, int32_t first,
                            double most, double *way)
{
    int32_t end = first, beyond = loads->n + 1;
    while (beyond - end > 1) {
        const int32_t middle = end + (beyond - end) / 2;
        if (may_have(loads, m, first, middle, most, *way))
            end = middle;
        else
            beyond = middle;
    }
    *way += loads->before[end].chain - loads->before[first].chain;
    return end;
}

static bool may_take(const sim_loads *loads, double m, int32_t p, double most)
{
    double way = 0;
    int32_t end = 0;
    for (int32_t i = 0; i < p && end < loads->n; i++)
        end = end_of_stage(loads, m, end, most, &way);
    return end == loads->n;
}

/* As near to the least that it may take as this, and differences of sums. */
#define NEAR 1e-4
#define ROUNDING 1e-9

static double least_of_cuts(const sim_loads *loads, double m, int32_t p,
                            double from)
{
    const sim_load *all = &loads->before[loads->n];
    double least = from,
           most = from + m * all->by_rate[0] + all->by_rate[1] + all->chain;
    while (most > (1 + NEAR) * least) {
        const double middle = (least + most) / 2;
        if (may_take(loads, m, p, middle))
            most = middle;
        else
            least = middle;
    }
    return fmax(from, least * (1 - ROUNDING));
}

double search_sim_floor(search_level0 *z, const search_candidate *c)
{
    const hw_group *group = &z->problem->cluster->groups[0];
    const double least =
        search_even_load(&c->built, search_groups(c), search_is_crowded(z));
    if (c->n_stages == 1 || c->depth > 1 || isinf(least) || least <= 0)
        return least;
    const sim_loads loads = loads_of(
        z, c,
        seconds_of_nodes(c, hw_core_share(group, group->devices_per_node)));
    return least_of_cuts(&loads, c->graph->micro_batches, c->n_stages, least);
}

static double floor_of_shares(search_level0 *z, search_candidate *c)
{
    search_share_floor(z, c);
    if (c->n_stages == 1 || c->depth > 1 || c->sim_s <= 0)
        return c->sim_s;
    const sim_loads loads =
        loads_of(z, c, search_share_seconds(z, c, c->arena));
    return least_of_cuts(&loads, c->graph->micro_batches, c->n_stages,
                         c->sim_s);
}

/* Once for all meshes. */
static double bound_of_shares(sim_bounds *b, const sim_space *space,
                              search_candidate *c)
{
    const search_candidate *of = space->c;
    if (!is_even(b->z, of))
        return 0;
    for (int32_t k = 0; k < b->families.n; k++) {
        const search_candidate *first = b->families.at[k].first->c;
        if (first->graph == of->graph && first->n_stages == of->n_stages &&
            first->depth == of->depth &&
            search_parts_of(b->z, first) == search_parts_of(b->z, of) &&
            is_in_order(b->z, first) == is_in_order(b->z, of))
            return b->families.at[k].bound_s;
    }
    const sim_family made = {space, floor_of_shares(b->z, c)};
    fs_push(b->arena, &b->families, made);
    return made.bound_s;
}

static double floor_of_nodes(search_level0 *z, search_candidate *c)
{
    if (!is_even(z, c))
        return floor_of_cut(z, c);
    return lay_out_even(z, c) ? search_sim_floor(z, c) : 0;
}

/* ---- edges ---- */

/* What is computed again is read instead of what it stands for, so that nothing
 * is said of what backward reads of forward. Moves between stages run beside
 * compute: nothing is said of what a cut may cross. */
static bool is_counted(const ir_graph *graph, const search_ranks *ranks,
                       const search_candidate *c, int32_t u, int32_t v)
{
    const ir_node *maker = &graph->nodes.at[u];
    const bool kept = maker->phase == IR_FORWARD &&
                      graph->nodes.at[v].phase == IR_BACKWARD &&
                      maker->op != IR_OP_variable;
    return !kept && (c->n_stages == 1 || ranks->rank[u] == ranks->rank[v]);
}

/* What is outside the layers all read that a copy stands for; each what is of
 * its own copy or of the next. */
static int32_t readers_of(const ir_graph *graph, int32_t tensor, int32_t v)
{
    const ir_layers *layers = graph->layers;
    const int32_t u = graph->tensors.at[tensor].producer;
    const int32_t times = ir_times(&graph->nodes.at[v]);
    return times > 1 && layers->run[u] == layers->run[v] ? 1 : times;
}

/* Edges that read each tensor. */
static int32_t *count_readers(const ir_graph *graph, fs_arena *arena)
{
    int32_t *n = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++)
            n[graph->nodes.at[v].in[k]] +=
                readers_of(graph, graph->nodes.at[v].in[k], v);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (graph->tensors.at[t].next >= 0)
            n[graph->tensors.at[t].next]++;
    return n;
}

/* What an edge of the view stands for has the most readers of all of these, or
 * is not counted. */
static void note_edge(int32_t *readers, int32_t n)
{
    if (*readers < 0 || n == 0 || (*readers > 0 && n > *readers))
        *readers = n;
}

static int32_t **find_readers(search_level0 *z, const search_candidate *c)
{
    const ir_graph *graph = c->graph->graph, *seen = c->shown.graph;
    const search_ranks *ranks = search_ranks_of(z, graph);
    const int32_t *n = count_readers(graph, c->arena);
    int32_t **readers = fs_new(c->arena, int32_t *, seen->nodes.n);
    int32_t *const *known = c->shown.readers; /* what cuts part */
    for (int32_t v = 0; v < seen->nodes.n; v++) {
        readers[v] = fs_new(c->arena, int32_t, seen->nodes.at[v].n_in + 1);
        for (int32_t k = 0; k <= seen->nodes.at[v].n_in; k++)
            readers[v][k] = -1;
    }
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const int32_t rep = c->shown.view ? c->shown.view->rep[v] : v;
        const bool loops = node->op == IR_OP_variable;
        for (int32_t k = 0; k < node->n_in + loops; k++) {
            const int32_t t = k < node->n_in
                                  ? node->in[k]
                                  : graph->tensors.at[node->out[0]].next;
            const int32_t u = t < 0 ? v : graph->tensors.at[t].producer;
            note_edge(&readers[rep][k],
                      t >= 0 && is_counted(graph, ranks, c, u, v) ? n[t] : 0);
        }
    }
    for (int32_t v = 0; v < seen->nodes.n; v++)
        for (int32_t k = 0; k <= seen->nodes.at[v].n_in; k++)
            readers[v][k] = readers[v][k] < 0 || (known && known[v][k] == 0)
                                ? 0
                                : readers[v][k];
    return readers;
}

static double bound_of_edges(search_level0 *z, search_candidate *c)
{
    if (!is_even(z, c) || search_is_crowded(z) || z->problem->overlap ||
        !is_in_order(z, c) || !lay_out_even(z, c))
        return 0;
    if (c->built.empty >= 0)
        return INFINITY;
    c->shown.readers = find_readers(z, c);
    return search_build_edges(c->arena, &c->built) ? search_even_bound(z, c)
                                                   : 0;
}

/* ---- the least of all ---- */

static double raised(sim_bounds *b, sim_space *space, search_candidate *c)
{
    return ++space->level == SHARES ? bound_of_shares(b, space, c)
                                    : floor_of_nodes(b->z, c);
}

static search_candidate begin_raising(const sim_space *space)
{
    search_candidate c = search_anew(space->c);
    c.again = false;
    c.whole = !space->c->view;
    return c;
}

static void end_raising(sim_bounds *b, sim_space *space, search_candidate *c,
                        double bound_s)
{
    space->bound_s = fmax(space->bound_s, bound_s);
    b->z->other_steps += c->steps + c->built.steps;
    fs_arena_destroy(c->arena);
}

static void raise_one(sim_bounds *b, sim_space *space)
{
    search_candidate c = begin_raising(space);
    const double bound_s = raised(b, space, &c);
    end_raising(b, space, &c, bound_s);
}

/* A crew's job. */
static void find_edges(search_level0 *z, search_candidate *c)
{
    c->sim_s = bound_of_edges(z, c);
}

/* Edges take longest: two at once. */
enum { AT_ONCE = 2 };
static void raise_edges(sim_bounds *b, sim_space **list, int32_t n)
{
    search_candidate made[AT_ONCE], *jobs[AT_ONCE];
    for (int32_t k = 0; k < n; k++) {
        made[k] = begin_raising(list[k]);
        jobs[k] = &made[k];
    }
    search_crew_run(b->z, find_edges, jobs, n);
    for (int32_t k = 0; k < n; k++) {
        list[k]->level = EDGES;
        end_raising(b, list[k], &made[k], made[k].sim_s);
    }
}

/* But for one; NULL: there is none. */
static sim_space *least_but(const sim_bounds *b, const sim_space *but)
{
    sim_space *least = NULL;
    for (int32_t k = 0; k < b->all.n; k++)
        if (&b->all.at[k] != but &&
            (!least || b->all.at[k].bound_s < least->bound_s))
            least = &b->all.at[k];
    return least;
}

/* Its edges, too, unless the work ends: one that has them is not less. */
static bool is_due(const sim_bounds *b, const sim_space *space)
{
    for (int32_t k = 0; space && space->level == NODES && k < b->all.n; k++)
        if (b->all.at[k].level == EDGES &&
            b->all.at[k].bound_s > space->bound_s)
            return true;
    return false;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least of all rises no further than to the first that the work is not
 * enough for, by what one took: is that some of what is missing? */
static bool pays(const sim_bounds *b, double each, double left)
{
    const double many = left / fmax(each, 1), best_s = b->z->kept.cost_s;
    const int32_t n = b->all.n;
    double *bound_s = fs_new(b->arena, double, n);
    if (FEW * many >= n)
        return true;
    for (int32_t k = 0; k < n; k++)
        bound_s[k] = b->all.at[k].bound_s;
    qsort(bound_s, (size_t)n, sizeof *bound_s, by_size);
    return bound_s[(int32_t)many] - bound_s[0] >
           LITTLE_GAIN * (best_s - bound_s[0]);
}

double search_sim_bound(search_level0 *z)
{
    sim_bounds b = {.z = z, .arena = fs_arena_create()};
    const double done = (double)search_steps(z);
    double most = done + fmax(SHARE * done, LEAST_WORK_S * FS_STEPS_PER_S);
    sim_space *least[AT_ONCE];
    bool first = true;
    list_spaces(&b);
    while ((least[0] = least_but(&b, NULL))) {
        if (least[0]->level == EDGES || fs_end_reached(&z->end) ||
            (least[0]->level == NODES && (double)search_steps(z) >= most))
            break;
        if (least[0]->level == NODES) {
            const double before = (double)search_steps(z);
            const int32_t n =
                1 + is_due(&b, least[1] = least_but(&b, least[0]));
            raise_edges(&b, least, n);
            const double now = (double)search_steps(z);
            if (first && !pays(&b, (now - before) / n, most - now))
                break;
            first = false;
            continue;
        }
        const double before = (double)search_steps(z);
        raise_one(&b, least[0]);
        if (least[0]->level == NODES) /* as if it had been looked at */
            most += (double)search_steps(z) - before;
    }
    least[0] = least_but(&b, NULL);
    const double bound_s = least[0] ? least[0]->bound_s : 0;
    fs_arena_destroy(b.arena);
    return isfinite(bound_s) ? bound_s : 0;
}
