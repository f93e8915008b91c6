/* Recipes by what they share: a graph of few layers by what is computed again
 * and the number of stages (one, two, three for all others), completed recipes
 * by which axes there are, sheets by samples, tables of a sheet by mesh. So
 * these are the loops, from the outside in. */
#include "config.h"
#include "search/sweep.h"

#include "plan/schedule.h"
#include "search/known.h"

#include <time.h>

enum { MOST_PATTERNS = 16 };

/* One kind of recipe: which of the two axes there are. */
typedef struct pattern {
    bool dp, tp;
    int32_t zero, seq;
    const plan_strategy *strategy; /* NULL: */
    const char *why;               /* there is none */
} pattern;

typedef struct sweeping {
    search_sweep *s;
    search_recipe fix;
    cost_pipes *pipes;
    fs_arena *arena; /* of all; */
    fs_arena *ours;  /* of one fold, */
    const char *recompute;
    int32_t n_stages;  /* which has so many, */
    bool alone;        /* for one micro-batch, or for several */
    const char *unfit; /* why none of its recipes has a price; NULL */
    pattern patterns[MOST_PATTERNS];
    int32_t n_patterns;
    ir_graph *few, *first_few;
    cost_fold *first, *fold;
} sweeping;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool open_or(int32_t said, int32_t value)
{
    return said <= 0 || said == value;
}

/* ---- patterns ---- */

fs_status search_sweep_complete(const hw_cluster *cluster,
                                const ir_graph *graph, search_recipe recipe,
                                fs_arena *arena, fs_err *err,
                                plan_strategy **out)
{
    const search_graph one = {graph->micro_batches, graph, NULL};
    search_result found = {0};
    hw_cluster *on = hw_cluster_part(cluster, cluster->groups[0].nodes,
                                     cluster->groups[0].devices_per_node,
                                     cluster->name, arena);
    on->groups[0].device.memory_bytes = 1e15; /* it is not of so few devices */
    recipe.micro_batches = graph->micro_batches;
    FS_TRY(search_recipe_complete(on, graph->batch, true, err, &recipe));
    FS_TRY(search_recipe_check(&recipe, graph, err));
    search_problem problem = {.cluster = on,
                              .cost = cost_model_create(on, arena),
                              .n_graphs = 1,
                              .graphs = &one,
                              .engine = "ilp",
                              .schedule = "1f1b",
                              .fix_mesh = {.n = -1},
                              .max_mesh_axes = 2,
                              .most_steps = 1e12,
                              .gap = 1e-3,
                              .rounds = 1,
                              .reduce = true};
    problem.known = search_known_create();
    search_recipe_apply(&recipe, arena, &problem);
    const fs_status status = search_run(&problem, arena, err, &found);
    search_known_destroy(problem.known);
    FS_TRY(status);
    if (!found.strategy)
        return fs_fail(err, FS_INVALID, "search completes none");
    *out = found.strategy;
    return FS_OK;
}

static search_recipe recipe_of(const sweeping *w, const pattern *p)
{
    search_recipe r = search_recipe_free();
    search_layers *each = fs_new(w->ours, search_layers, w->n_stages);
    for (int32_t i = 0; i < w->n_stages; i++)
        each[i].blocks = SEARCH_SWEEP_LAYERS;
    r.dp = 1 + p->dp;
    r.tp = 1 + p->tp;
    r.pp = w->n_stages;
    r.zero = p->zero;
    r.seq_parallel = p->seq;
    r.n_layers = w->n_stages > 1 ? w->n_stages : 0;
    r.layers = each;
    return r;
}

static ir_graph *make_graph(sweeping *w, int32_t samples, fs_err *err)
{
    const search_sweep_graph of = {.recompute = w->recompute,
                                   .layers = SEARCH_SWEEP_LAYERS * w->n_stages,
                                   .samples = samples,
                                   .micro_batches = w->alone ? 1 : 4};
    return w->s->graph(w->s->ctx, &of, err);
}

/* What is said of one is said of all that come out the same. */
static bool is_known(const sweeping *w, const pattern *p)
{
    bool known = false;
    for (int32_t k = 0; p->strategy && k < w->n_patterns; k++)
        known |= w->patterns[k].strategy &&
                 plan_same_strategy(w->patterns[k].strategy, p->strategy);
    return known;
}

static fs_status add_pattern(sweeping *w, pattern p, fs_err *err)
{
    const hw_cluster *on = hw_cluster_part(
        w->s->cluster, w->n_stages, (1 + p.dp) * (1 + p.tp), "part", w->ours);
    const double begin_s = cpu_s();
    ir_graph *graph = make_graph(w, p.dp ? 2 : 1, err);
    if (!graph)
        return err->status;
    fs_err why = {0};
    plan_strategy *made;
    if (search_sweep_complete(on, graph, recipe_of(w, &p), w->ours, &why,
                              &made) == FS_OK)
        p.strategy = made;
    else
        p.why = fs_strdup(w->arena, why.text);
    const bool known = is_known(w, &p);
    w->s->figures.same += known;
    w->s->figures.patterns++;
    w->s->figures.patterns_s += cpu_s() - begin_s;
    if (!known)
        w->patterns[w->n_patterns++] = p;
    ir_graph_destroy(graph);
    return FS_OK;
}

/* Are there recipes of the kind, by what is given? */
static bool is_asked(const sweeping *w, const pattern *p)
{
    const search_recipe *f = &w->fix;
    return !(p->dp && f->dp == 1) && !(!p->dp && f->dp > 1) &&
           !(p->tp && f->tp == 1) && !(!p->tp && f->tp > 1) &&
           (f->zero < 0 || f->zero == p->zero) &&
           (f->seq_parallel < 0 || f->seq_parallel == p->seq);
}

static fs_status add_patterns(sweeping *w, fs_err *err)
{
    w->n_patterns = 0;
    for (int32_t axes = 0; axes < 4; axes++)
        for (int32_t zero = 0; zero < (axes & 1 ? 4 : 1); zero++)
            for (int32_t seq = 0; seq < (axes & 2 ? 2 : 1); seq++) {
                const pattern p = {axes & 1, (axes & 2) > 0, zero,
                                   seq,      NULL,           w->unfit};
                if (!is_asked(w, &p))
                    continue;
                if (w->unfit)
                    w->patterns[w->n_patterns++] = p;
                else
                    FS_TRY(add_pattern(w, p, err));
            }
    return FS_OK;
}

/* ---- prices ---- */

/* What all recipes of a mesh in so many stages share. */
typedef struct place {
    const pattern *of;
    const search_sweep_size *size;
    cost_sheet *sheet; /* NULL: */
    const char *why;   /* there is none */
    int32_t dp, tp;
} place;

static void visit(sweeping *w, const place *at, const cost_degrees *d)
{
    fs_err err = {0};
    cost_price price;
    search_swept one = {.recompute = w->recompute,
                        .schedule = d->schedule,
                        .dp = at->dp,
                        .tp = at->tp,
                        .pp = d->n_stages,
                        .layers = d->layers,
                        .zero = at->of->zero,
                        .seq_parallel = at->of->seq,
                        .micro_batches = d->micro_batches,
                        .why = at->why};
    if (at->sheet && !at->why) {
        one.few = w->few;
        one.pattern = at->of->strategy;
        one.degrees = d;
        if (cost_sheet_price(at->sheet, d, &err, &price) == FS_OK)
            one.price = &price;
        else
            one.why = err.text;
    }
    w->s->visit(w->s->ctx, &one);
}

/* Where there is one stage, none waits for another: one order is enough. */
static bool is_order(const search_sweep *s, int32_t k, const cost_degrees *d)
{
    return d->n_stages > 1 ||
           (k == 0 && !plan_schedule_find(s->schedules[k])->splits);
}

static void price_stages(sweeping *w, place at, cost_degrees d)
{
    const search_sweep *s = w->s;
    const bool whole = s->layers % d.n_stages == 0;
    d.layers = s->layers / d.n_stages;
    if (!whole)
        at.why = "stages do not all have as many layers";
    else if (d.layers < SEARCH_SWEEP_LAYERS)
        at.why = "stages have fewer than three layers";
    if (at.why && s->fewer)
        return;
    for (int32_t b = 0; b < at.size->n_counts; b++)
        for (int32_t k = 0; k < s->n_schedules; k++) {
            d.micro_batches = at.size->counts[b];
            d.schedule = s->schedules[k];
            if (is_order(s, k, &d))
                visit(w, &at, &d);
        }
    if (s->mesh_done && !at.why)
        s->mesh_done(s->ctx, at.sheet, &d, at.size);
}

static bool is_of_fold(const sweeping *w, int32_t n_stages)
{
    const int32_t few =
        n_stages < COST_SHEET_STAGES ? n_stages : COST_SHEET_STAGES;
    return few == w->n_stages && open_or(w->fix.pp, n_stages);
}

static void price_mesh(sweeping *w, const place *at)
{
    const search_sweep *s = w->s;
    const int32_t samples = at->size->samples, each = samples / at->dp;
    cost_degrees d = {.mesh = {at->of->dp + at->of->tp, {at->dp, at->tp}}};
    if (!at->of->dp)
        d.mesh.dim[0] = at->tp;
    if (samples % at->dp || (s->most_each && each > s->most_each) ||
        !open_or((int32_t)w->fix.micro_batch, each))
        return;
    w->s->figures.meshes++;
    const int32_t most = s->devices / (at->dp * at->tp);
    for (int32_t p = s->fewer ? 1 : most; p <= most; p++) {
        d.n_stages = p;
        if (is_of_fold(w, p))
            price_stages(w, *at, d);
    }
}

/* Lengths that an axis may have of so many devices. */
static bool is_length(const sweeping *w, int32_t length, int32_t devices)
{
    return w->s->fewer ? (length & (length - 1)) == 0 : devices % length == 0;
}

static void price_pattern(sweeping *w, place at)
{
    const int32_t devices = w->s->devices;
    const bool dp = at.of->dp, tp = at.of->tp;
    for (at.dp = 1 + dp; at.dp <= (dp ? devices : 1); at.dp++)
        for (at.tp = 1 + tp;
             is_length(w, at.dp, devices) && open_or(w->fix.dp, at.dp) &&
             at.tp <= (tp ? devices / at.dp : 1);
             at.tp++)
            if (is_length(w, at.tp, devices / at.dp) &&
                open_or(w->fix.tp, at.tp))
                price_mesh(w, &at);
}

/* ---- folds ---- */

/* Of other numbers of samples as of the first. */
static fs_status open_fold(sweeping *w, int32_t samples, fs_arena *arena,
                           fs_err *err)
{
    const plan_strategy *any = NULL;
    for (int32_t k = 0; k < w->n_patterns && !any; k++)
        any = w->patterns[k].strategy;
    const double begin_s = cpu_s();
    w->few = any ? make_graph(w, samples, err) : NULL;
    w->s->figures.graphs_s += cpu_s() - begin_s;
    w->fold = NULL;
    if (!any)
        return FS_OK;
    if (!w->few)
        return err->status;
    fs_err why = {0};
    const double made_s = cpu_s();
    const cost_folding of = {w->few, w->n_stages, any->stage_of};
    const fs_status status =
        w->first ? cost_fold_like(w->first, w->few, arena, &why, &w->fold)
                 : cost_fold_create(w->s->cost, w->pipes, &of, w->ours, &why,
                                    &w->fold);
    w->s->figures.sheets_s += cpu_s() - made_s;
    if (status != FS_OK) {
        w->fold = NULL;
        w->unfit = fs_strdup(w->arena, why.text);
    } else if (!w->first) {
        w->first = w->fold;
        w->first_few = w->few;
    }
    return FS_OK;
}

static void open_sheet(sweeping *w, fs_arena *arena, place *at)
{
    fs_err why = {0};
    const double begin_s = cpu_s();
    at->why = at->of->why ? at->of->why : w->unfit;
    if (!at->why && cost_sheet_create(w->fold, at->of->strategy, arena, &why,
                                      &at->sheet) != FS_OK)
        at->why = fs_strdup(w->arena, why.text);
    w->s->figures.sheets += at->why == NULL;
    w->s->figures.sheets_s += cpu_s() - begin_s;
}

/* Has a recipe of the kind that many samples? */
static bool applies(const sweeping *w, const pattern *of, int32_t samples)
{
    return of->dp ? samples > 1
                  : !w->s->most_each || samples <= w->s->most_each;
}

static fs_status price_size(sweeping *w, const search_sweep_size *size,
                            fs_err *err)
{
    fs_arena *arena = fs_arena_create();
    const char *unfit = w->unfit;
    const fs_status status = open_fold(w, size->samples, arena, err);
    for (int32_t k = 0; status == FS_OK && k < w->n_patterns; k++) {
        place at = {.of = &w->patterns[k], .size = size};
        if (!applies(w, at.of, size->samples))
            continue;
        open_sheet(w, arena, &at);
        price_pattern(w, at);
    }
    w->unfit = unfit;
    if (w->few && w->few != w->first_few)
        ir_graph_destroy(w->few);
    fs_arena_destroy(arena);
    return status;
}

/* NULL: some recipe in stages of this fold may have a price. */
static const char *find_unfit(const sweeping *w)
{
    const search_sweep *s = w->s;
    for (int32_t p = 1; p <= s->devices; p++)
        if (is_of_fold(w, p) && (s->fewer || s->devices % p == 0) &&
            s->layers % p == 0 && s->layers / p >= SEARCH_SWEEP_LAYERS)
            return NULL;
    return "no number of stages suits the layers";
}

static bool is_of_kind(const sweeping *w, const search_sweep_size *size)
{
    return (size->counts[size->n_counts - 1] == 1) == w->alone;
}

static fs_status price_fold(sweeping *w, fs_err *err)
{
    const search_sweep *s = w->s;
    int32_t n = 0;
    for (int32_t k = 0; k < s->n_sizes; k++)
        n += is_of_kind(w, &s->sizes[k]);
    if (n == 0)
        return FS_OK;
    w->ours = fs_arena_create();
    w->first = NULL;
    w->few = w->first_few = NULL;
    w->unfit = find_unfit(w);
    fs_status status = add_patterns(w, err);
    for (int32_t k = 0; status == FS_OK && k < s->n_sizes; k++)
        if (is_of_kind(w, &s->sizes[k]))
            status = price_size(w, &s->sizes[k], err);
    ir_graph_destroy(w->first_few);
    fs_arena_destroy(w->ours);
    return status;
}

fs_status search_sweep_run(search_sweep *s, fs_err *err)
{
    sweeping w = {.s = s,
                  .fix = s->fix ? *s->fix : search_recipe_free(),
                  .arena = fs_arena_create()};
    fs_status status = FS_OK;
    w.pipes = cost_pipes_create(w.arena);
    for (int32_t r = 0; r < s->n_recompute; r++)
        for (w.n_stages = 1; w.n_stages <= COST_SHEET_STAGES; w.n_stages++)
            for (int32_t m = 0; m < 2 && status == FS_OK; m++) {
                w.recompute = s->recompute[r];
                w.alone = m == 0;
                status = price_fold(&w, err);
            }
    fs_arena_destroy(w.arena);
    return status;
}
