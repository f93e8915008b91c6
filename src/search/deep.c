/* A stage of many equal layers, lowered with few of them. Of copies in a row
 * that are alike to the last path (plan_strategy.like) what a register holds
 * when is the same from copy to copy, so that with one copy more each moment
 * outside the copies left out has as many bytes more as with the one before:
 * two plans with few copies tell the most that is live at once in the whole
 * (between copies that are left out moments lie between those of the last ones
 * kept, as lives are affine in the copy). Offsets are guessed: what copies hold
 * beyond those kept can be stacked, so the whole is taken to fit where the few
 * fit within what that leaves. */
#include "config.h"
#include "search/deep.h"

#include "ir/compact.h"
#include "plan/fullest.h"
#include "plan/lower.h"
#include "search/built.h"
#include "search/known.h"
#include "search/layout.h"

#include <string.h>

/* Copies kept at each end of those in a row, whose first and last ones meet
 * others; what is worth it; firings that are looked at. */
enum { AT_EACH_END = 3, WORTH = 4, MOST_FIRINGS = 1 << 22 };

/* Copies in a row that are alike, and lie in one stage. */
typedef struct row {
    int32_t run, first, n, stage;
    int32_t meant;  /* n, or more, of a compact graph */
    int32_t number; /* among those of its role */
} row;

typedef struct deep {
    const search_problem *problem;
    const ir_graph *graph;
    const plan_strategy *s;
    const ir_layers *layers;
    plan_pipeline pipe;
    fs_arena *arena;
    FS_VEC(row) rows;
    int32_t most_rows; /* of one role */
} deep;

/* A plan with few copies. */
typedef struct few {
    ir_folded folded;
    plan_strategy *s;
    plan *lowered;
} few;

/* ---- copies that are alike ---- */

/* -1: it lies in several. */
static int32_t stage_of_copy(const deep *d, const ir_layer_run *run, int32_t c)
{
    const int32_t *node = &run->node[c * run->length];
    const int32_t stage = d->s->stage_of[node[0]];
    for (int32_t p = 1; p < run->length; p++)
        if (d->s->stage_of[node[p]] != stage)
            return -1;
    return stage;
}

static bool is_as_before(const deep *d, const ir_layer_run *run, int32_t c)
{
    const int32_t *node = &run->node[c * run->length],
                  *before = node - run->length;
    for (int32_t p = 0; p < run->length; p++)
        if (d->s->like[node[p]] != d->s->like[before[p]])
            return false;
    return true;
}

static int32_t left_out(const row *r)
{
    return r->meant - 2 * AT_EACH_END;
}

static void add_row(deep *d, row r)
{
    for (int32_t c = r.first; c < r.first + r.n; c++)
        r.meant += ir_copy_times(d->layers, r.run, c);
    if (r.stage < 0 || left_out(&r) < 2 || r.n < 2 * AT_EACH_END + 1)
        return;
    for (int32_t k = 0; k < d->rows.n; k++)
        r.number += d->pipe.role_of[d->rows.at[k].stage] ==
                    d->pipe.role_of[r.stage];
    d->most_rows = r.number + 1 > d->most_rows ? r.number + 1 : d->most_rows;
    fs_push(d->arena, &d->rows, r);
}

static void find_rows(deep *d)
{
    for (int32_t k = 0; k < d->layers->runs.n; k++) {
        const ir_layer_run *run = &d->layers->runs.at[k];
        for (int32_t c = 0, end; c < run->copies; c = end) {
            for (end = c + 1; end < run->copies && is_as_before(d, run, end);)
                end++;
            add_row(d, (row){k, c, end - c, stage_of_copy(d, run, c), 0, 0});
        }
    }
}

/* Is what stands for more in the rows? Then the few stand for themselves. */
static bool is_in_rows(const deep *d)
{
    int64_t missed = 0;
    for (int32_t v = 0; v < d->graph->nodes.n; v++)
        missed += d->graph->nodes.at[v].more;
    for (int32_t k = 0; k < d->rows.n; k++)
        missed -= (int64_t)(d->rows.at[k].meant - d->rows.at[k].n) *
                  d->layers->runs.at[d->rows.at[k].run].length;
    return missed == 0;
}

static bool is_worth_it(const deep *d)
{
    int64_t out = 0;
    for (int32_t k = 0; k < d->rows.n; k++)
        out += (int64_t)left_out(&d->rows.at[k]) *
               d->layers->runs.at[d->rows.at[k].run].length;
    const int64_t n =
        ir_is_compact(d->graph) ? d->graph->meant : d->graph->nodes.n;
    return (n - out) * WORTH <= n;
}

/* ---- plans of few ---- */

/* One copy more is kept of the rows of that number. */
static bool **choose_copies(const deep *d, int32_t more)
{
    const ir_layers *l = d->layers;
    bool **keep = fs_new(d->arena, bool *, l->runs.n);
    for (int32_t k = 0; k < l->runs.n; k++) {
        keep[k] = fs_new(d->arena, bool, l->runs.at[k].copies);
        memset(keep[k], true, (size_t)l->runs.at[k].copies);
    }
    for (int32_t k = 0; k < d->rows.n; k++) {
        const row *r = &d->rows.at[k];
        const int32_t from = r->first + AT_EACH_END + (r->number == more);
        memset(&keep[r->run][from], false,
               (size_t)(r->first + r->n - AT_EACH_END - from));
    }
    return keep;
}

static plan_strategy *few_of(const deep *d, const ir_folded *folded)
{
    const ir_graph *graph = folded->graph;
    const plan_strategy *all = d->s;
    plan_strategy *s = plan_strategy_new(graph, all->n_stages, d->arena);
    s->schedule = all->schedule;
    memcpy(s->stages, all->stages, (size_t)s->n_stages * sizeof *s->stages);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t was = folded->from[v];
        const int32_t n = s->first_edge[v + 1] - s->first_edge[v];
        s->stage_of[v] = all->stage_of[was];
        s->sig[v] = all->sig[was];
        for (int32_t k = 0; k < n; k++) {
            plan_boxing *path = &s->edge[s->first_edge[v] + k];
            *path = all->edge[all->first_edge[was] + k];
            if (path->sharing)
                path->sharing = search_sharing_of(graph, v);
        }
    }
    return s;
}

/* Without offsets where there is no limit. */
static bool lower(const deep *d, const int64_t *limit, few *f)
{
    plan_lower_options options = plan_lower_defaults();
    fs_err ignored = {0};
    int64_t *none = fs_new(d->arena, int64_t, d->s->n_stages);
    for (int32_t i = 0; i < d->s->n_stages; i++)
        none[i] = 1;
    options.refine = false;
    options.asks_fit = true;
    options.enough_bytes = limit ? limit : none;
    return plan_lower(f->folded.graph, d->problem->cluster, f->s, &options,
                      d->arena, &ignored, &f->lowered) == FS_OK;
}

static bool make_few(const deep *d, int32_t more, few *f)
{
    fs_err ignored = {0};
    const bool *const *keep = (const bool *const *)choose_copies(d, more);
    if (ir_fold(d->layers, keep, d->arena, &ignored, &f->folded) != FS_OK)
        return false;
    f->s = few_of(d, &f->folded);
    return lower(d, NULL, f);
}

/* ---- what one copy more takes ---- */

/* Tasks of a role by the nodes that run, or whose tensor is boxed or moved. */
typedef struct tasks {
    int32_t *first; /* [nodes + 1] */
    int32_t *list;
} tasks;

static int32_t node_of(const ir_graph *graph, const plan_task *t)
{
    return t->node >= 0 ? t->node : graph->tensors.at[t->tensor].producer;
}

static tasks tasks_of(const few *f, const plan_role *role, fs_arena *arena)
{
    const ir_graph *graph = f->folded.graph;
    const int32_t n = graph->nodes.n;
    tasks all = {fs_new(arena, int32_t, n + 2),
                 fs_new(arena, int32_t, role->n_tasks)};
    for (int32_t t = 0; t < role->n_tasks; t++)
        all.first[node_of(graph, &role->tasks[t]) + 2]++;
    for (int32_t v = 0; v < n; v++)
        all.first[v + 2] += all.first[v + 1];
    for (int32_t t = 0; t < role->n_tasks; t++)
        all.list[all.first[node_of(graph, &role->tasks[t]) + 1]++] = t;
    return all;
}

/* [tasks of a's role] which of b's is the same, b having the same nodes and
 * more; NULL: they do not agree. */
static int32_t *pair_tasks(const few *a, const few *b, int32_t role,
                           fs_arena *arena)
{
    const plan_role *x = &a->lowered->roles[role],
                    *y = &b->lowered->roles[role];
    const tasks in_a = tasks_of(a, x, arena), in_b = tasks_of(b, y, arena);
    int32_t *same = fs_new(arena, int32_t, x->n_tasks), w = 0;
    for (int32_t v = 0; v < a->folded.graph->nodes.n; v++, w++) {
        while (b->folded.from[w] != a->folded.from[v])
            w++;
        const int32_t *s = &in_a.list[in_a.first[v]],
                      *t = &in_b.list[in_b.first[w]];
        const int32_t n = in_a.first[v + 1] - in_a.first[v];
        if (n != in_b.first[w + 1] - in_b.first[w])
            return NULL;
        for (int32_t k = 0; k < n; k++) {
            if (x->tasks[s[k]].kind != y->tasks[t[k]].kind ||
                x->tasks[s[k]].phase != y->tasks[t[k]].phase ||
                x->tasks[s[k]].chunk != y->tasks[t[k]].chunk)
                return NULL;
            same[s[k]] = t[k];
        }
    }
    return same;
}

static int64_t most_of(const plan_lives *lives)
{
    int64_t most = 0;
    for (int32_t i = 0; i < lives->n; i++)
        most = lives->bytes[i] > most ? lives->bytes[i] : most;
    return most;
}

/* Copies left out of the rows of that number, of a role. */
static int64_t copies_out(const deep *d, int32_t role, int32_t number)
{
    for (int32_t k = 0; k < d->rows.n; k++) {
        const row *r = &d->rows.at[k];
        if (r->number == number && d->pipe.role_of[r->stage] == role)
            return left_out(r);
    }
    return 0;
}

/* Adds what they take to what `a` does, beside each of its firings, and
 * always. */
static bool add_copies(const few *a, const few *b, int32_t role, int64_t times,
                       const plan_lives *in_a, plan_lives *sum, int64_t *own)
{
    const plan_role *x = &a->lowered->roles[role],
                    *y = &b->lowered->roles[role];
    fs_arena *scratch = fs_arena_create();
    const plan_lives in_b = plan_lives_of(b->lowered, role, scratch);
    const int32_t *same = pair_tasks(a, b, role, scratch);
    const bool agree = same && x->n_slots == y->n_slots;
    for (int32_t s = 0; agree && s < x->n_slots; s++) {
        const int32_t k = plan_slot_section(x, &x->slots[s]);
        for (int32_t t = in_a->first_task[k]; t < in_a->first_task[k + 1];
             t++) {
            const int32_t at = in_a->before[s] + t - in_a->first_task[k];
            const int32_t as =
                in_b.before[s] + same[t] - in_b.first_task[k];
            sum->bytes[at] += times * (in_b.bytes[as] - in_a->bytes[at]);
        }
    }
    *own += times * (y->bound_bytes - most_of(&in_b) -
                     (x->bound_bytes - most_of(in_a)));
    fs_arena_destroy(scratch);
    return agree;
}

/* Most that is live at once in the whole. False: that is not known. */
static bool find_bound(const deep *d, const few *a, const few *b, int32_t role,
                       int64_t *bytes)
{
    const plan_role *r = &a->lowered->roles[role];
    const int32_t number = d->pipe.role_of[r->stages[0]];
    if ((int64_t)r->n_tasks * d->s->micro_batches > MOST_FIRINGS)
        return false;
    fs_arena *scratch = fs_arena_create();
    const plan_lives in_a = plan_lives_of(a->lowered, role, scratch);
    plan_lives sum = in_a;
    sum.bytes = fs_memdup(scratch, in_a.bytes,
                          ((size_t)in_a.n + 1) * sizeof *sum.bytes);
    int64_t own = r->bound_bytes - most_of(&in_a);
    bool known = true;
    for (int32_t k = 0; known && k < d->most_rows; k++)
        known = add_copies(a, &b[k], role, copies_out(d, number, k), &in_a,
                           &sum, &own);
    *bytes = own + most_of(&sum);
    fs_arena_destroy(scratch);
    return known;
}

/* Of a role's stages the least limit. */
static int64_t limit_of(const plan_role *role, const int64_t *limit)
{
    int64_t least = limit[role->stages[0]];
    for (int32_t c = 1; c < role->n_chunks; c++)
        least = limit[role->stages[c]] < least ? limit[role->stages[c]] : least;
    return least;
}

static search_depths fit_few(const deep *d, const int64_t *limit, few *a,
                             const few *b)
{
    int64_t *left = fs_new(d->arena, int64_t, d->s->n_stages);
    const plan *p = a->lowered;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        const int64_t most = limit_of(role, limit);
        int64_t bound;
        if (!find_bound(d, a, b, r, &bound))
            return SEARCH_NOT_DEEP;
        if (bound > most)
            return SEARCH_DEEP_OVER;
        for (int32_t c = 0; c < role->n_chunks; c++)
            left[role->stages[c]] = most - (bound - role->bound_bytes);
    }
    if (!lower(d, left, a))
        return SEARCH_NOT_DEEP;
    for (int32_t r = 0; r < a->lowered->n_roles; r++) {
        const plan_role *role = &a->lowered->roles[r];
        if (role->arena_bytes > left[role->stages[0]])
            return SEARCH_NOT_DEEP;
    }
    return SEARCH_DEEP_FITS;
}

/* ---- the whole ---- */

static const ir_layers *layers_of(const search_problem *problem,
                                  const ir_graph *graph)
{
    if (ir_is_compact(graph))
        return graph->layers;
    for (int32_t k = 0; problem->known && k < problem->n_graphs; k++)
        if (problem->graphs[k].graph == graph)
            return search_known_layers(problem->known, graph);
    return NULL;
}

search_depths search_fits_deep(const search_problem *problem,
                               const ir_graph *graph, const int64_t *limit,
                               const plan_strategy *strategy)
{
    deep d = {.problem = problem,
              .graph = graph,
              .s = strategy,
              .layers = strategy->like ? layers_of(problem, graph) : NULL};
    search_depths told = SEARCH_NOT_DEEP;
    if (!d.layers || d.layers->runs.n == 0)
        return told;
    d.arena = fs_arena_create();
    d.pipe = plan_pipeline_of(strategy->stages, strategy->n_stages,
                              strategy->schedule, strategy->micro_batches,
                              d.arena);
    find_rows(&d);
    if (is_in_rows(&d) && is_worth_it(&d)) {
        few a = {0}, *b = fs_new(d.arena, few, d.most_rows);
        bool made = make_few(&d, -1, &a);
        for (int32_t k = 0; made && k < d.most_rows; k++)
            made = make_few(&d, k, &b[k]);
        if (made)
            told = fit_few(&d, limit, &a, b);
    }
    fs_arena_destroy(d.arena);
    return told;
}
