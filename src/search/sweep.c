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

/* One kind of recipe: which of the two axes there are, and what search makes of
 * it on some meshes. */
typedef struct pattern {
    bool dp, tp;
    int32_t zero, seq;
    FS_VEC(plan_strategy *) made; /* each another; none: */
    const char *why;              /* this is why */
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

/* ---- what there is ---- */

static bool is_of_fold(const sweeping *w, int32_t n_stages)
{
    const int32_t few =
        n_stages < COST_SHEET_STAGES ? n_stages : COST_SHEET_STAGES;
    return few == w->n_stages && open_or(w->fix.pp, n_stages);
}

/* Has it sheets in so many stages? */
static bool is_priced(const sweeping *w, int32_t n_stages)
{
    const search_sweep *s = w->s;
    return is_of_fold(w, n_stages) &&
           (s->fewer || s->devices % n_stages == 0) &&
           s->layers % n_stages == 0 &&
           s->layers / n_stages >= SEARCH_SWEEP_LAYERS;
}

static bool is_of_kind(const sweeping *w, const search_sweep_size *size)
{
    return (size->counts[size->n_counts - 1] == 1) == w->alone;
}

/* ---- patterns ---- */

fs_status search_sweep_complete(const cost_model *cost, const ir_graph *graph,
                                search_recipe recipe, fs_arena *arena,
                                fs_err *err, plan_strategy **out)
{
    const hw_cluster *cluster = cost_cluster(cost);
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
                              .cost = cost,
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

static search_recipe recipe_of(const sweeping *w, const pattern *p, int32_t dp,
                               int32_t tp)
{
    search_recipe r = search_recipe_free();
    search_layers *each = fs_new(w->ours, search_layers, w->n_stages);
    for (int32_t i = 0; i < w->n_stages; i++)
        each[i].blocks = SEARCH_SWEEP_LAYERS;
    r.dp = dp;
    r.tp = tp;
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

/* Signatures and paths are the same on meshes of any lengths. */
static void forget_lengths(plan_strategy *s)
{
    for (int32_t i = 0; i < s->n_stages; i++) {
        for (int32_t a = 0; a < s->stages[i].mesh.n; a++)
            s->stages[i].mesh.dim[a] = 2;
        s->stages[i].first_device = i * ir_mesh_size(&s->stages[i].mesh);
    }
}

static void keep(sweeping *w, pattern *p, plan_strategy *made)
{
    forget_lengths(made);
    for (int32_t k = 0; k < p->made.n; k++)
        if (plan_same_strategy(p->made.at[k], made)) {
            w->s->figures.same++;
            return;
        }
    fs_push(w->ours, &p->made, made);
}

/* On as few devices as that has, in whole nodes where stages are. */
static const cost_model *model_for(const sweeping *w, int32_t mesh)
{
    const hw_cluster *all = w->s->cluster;
    const int32_t each = all->groups[0].devices_per_node,
                  devices = mesh * w->n_stages;
    const hw_cluster *part =
        mesh % each == 0
            ? hw_cluster_part(all, devices / each, each, all->name, w->ours)
            : hw_cluster_part(all, w->n_stages, mesh, all->name, w->ours);
    return cost_model_on(w->s->cost, part, w->ours);
}

static void complete(sweeping *w, pattern *p, int32_t dp, int32_t tp,
                     int32_t each)
{
    const double begin_s = cpu_s();
    fs_err err = {0};
    plan_strategy *made;
    ir_graph *graph = make_graph(w, dp * each, &err);
    if (graph && search_sweep_complete(model_for(w, dp * tp), graph,
                                       recipe_of(w, p, dp, tp), w->ours, &err,
                                       &made) == FS_OK)
        keep(w, p, made);
    else if (p->made.n == 0)
        p->why = fs_strdup(w->arena, err.text);
    ir_graph_destroy(graph);
    w->s->figures.patterns++;
    w->s->figures.patterns_s += cpu_s() - begin_s;
}

/* The longest that so many devices have room for, of powers of two from 2 on.
 */
static int32_t longest(int32_t devices)
{
    int32_t length = 2;
    while (length <= devices / 2)
        length *= 2;
    return length;
}

/* A mesh to complete a recipe on. */
typedef struct sample {
    int32_t dp, tp;
} sample;

enum { MOST_MESHES = 3 };

/* Those of all recipes of the kind; n: how many these are, of which no more
 * than MOST_MESHES are told. */
static int32_t list_own(const sweeping *w, const pattern *p, sample *out)
{
    const search_sweep *s = w->s;
    int32_t n = 0;
    for (int32_t pp = 1; pp <= s->devices; pp++)
        for (int32_t tp = 1 + p->tp;
             is_priced(w, pp) && tp <= (p->tp ? s->devices / pp : 1); tp++) {
            const int32_t dp = s->devices / pp / tp;
            if (s->devices % (pp * tp) || (dp > 1) != p->dp ||
                !open_or(w->fix.dp, dp) || !open_or(w->fix.tp, tp))
                continue;
            if (n < MOST_MESHES)
                out[n] = (sample){dp, tp};
            n++;
        }
    return n;
}

/* Tensor parallelism in a whole node, in half of one and among two, beside as
 * much of the cluster as there is. What is best on some other mesh is one of
 * these, but for next to nothing (src/search/SWEEP.md). */
static int32_t list_usual(const sweeping *w, const pattern *p, sample *out)
{
    const int32_t node = w->s->cluster->groups[0].devices_per_node;
    const int32_t tps[] = {node > 2 ? node : 2, node > 4 ? node / 2 : 2, 2};
    for (int32_t k = 0; k < MOST_MESHES; k++) {
        const int32_t tp = p->tp ? tps[k] : 1;
        const int32_t room = w->s->devices / w->n_stages / tp;
        out[k] = (sample){!p->dp             ? 1
                          : !p->tp && k == 2 ? 2
                                             : longest(room),
                          tp};
    }
    return MOST_MESHES;
}

/* Of a rank: all there are of a single micro-batch, else few or more. */
static int32_t samples_each(const sweeping *w, const sample *at, int32_t turn)
{
    for (int32_t k = 0; w->alone && k < w->s->n_sizes; k++)
        if (is_of_kind(w, &w->s->sizes[k]))
            return w->s->sizes[k].samples / at->dp;
    return turn % 2 ? 4 : 1;
}

static void complete_some(sweeping *w, pattern *p)
{
    sample at[MOST_MESHES];
    const int32_t own = list_own(w, p, at);
    const bool few = own <= MOST_MESHES;
    const int32_t n = few ? own : list_usual(w, p, at);
    for (int32_t k = 0; k < n; k++) {
        const int32_t each = samples_each(w, &at[k], few ? 0 : k);
        if (each < 1)
            continue;
        complete(w, p, at[k].dp, at[k].tp, each);
        if (few && !w->alone)
            complete(w, p, at[k].dp, at[k].tp, samples_each(w, &at[k], 1));
    }
}

static void add_pattern(sweeping *w, pattern p)
{
    if ((1 + p.dp) * (1 + p.tp) * w->n_stages > w->s->cluster->n_devices)
        return; /* there is no such recipe */
    if (w->s->quick)
        complete(w, &p, 1 + p.dp, 1 + p.tp, 1);
    else
        complete_some(w, &p);
    if (p.made.n)
        p.why = NULL;
    else if (!p.why)
        p.why = "no mesh of the kind has a price";
    w->patterns[w->n_patterns++] = p;
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

static void add_patterns(sweeping *w)
{
    w->n_patterns = 0;
    for (int32_t axes = 0; axes < 4; axes++)
        for (int32_t zero = 0; zero < (axes & 1 ? 4 : 1); zero++)
            for (int32_t seq = 0; seq < (axes & 2 ? 2 : 1); seq++) {
                const pattern p = {.dp = axes & 1,
                                   .tp = (axes & 2) > 0,
                                   .zero = zero,
                                   .seq = seq,
                                   .why = w->unfit};
                if (!is_asked(w, &p))
                    continue;
                if (w->unfit)
                    w->patterns[w->n_patterns++] = p;
                else
                    add_pattern(w, p);
            }
}

/* ---- prices ---- */

/* What all recipes of a mesh in so many stages share. */
typedef struct place {
    const pattern *of;
    const search_sweep_size *size;
    cost_sheet **sheet; /* [of->made.n] of each strategy, or NULL */
    const char *why;    /* there is none */
    int32_t dp, tp;
} place;

static int64_t most_bytes(const cost_price *p)
{
    int64_t most = 0;
    for (int32_t i = 0; i < p->n_stages; i++)
        most = p->peak_bytes[i] > most ? p->peak_bytes[i] : most;
    return most;
}

/* What fits goes first, then what is faster. */
static bool is_better(const search_sweep *s, const cost_price *a,
                      const cost_price *b)
{
    const bool fits_a = (double)most_bytes(a) <= s->limit_bytes,
               fits_b = (double)most_bytes(b) <= s->limit_bytes;
    return fits_a == fits_b ? a->iteration_s < b->iteration_s : fits_a;
}

/* -1: none has a price. */
static int32_t price_best(sweeping *w, const place *at, const cost_degrees *d,
                          fs_err *err, cost_price *out)
{
    int32_t best = -1;
    for (int32_t k = 0; k < at->of->made.n; k++) {
        cost_price price;
        if (!at->sheet[k] ||
            cost_sheet_price(at->sheet[k], d, err, &price) != FS_OK ||
            (best >= 0 && !is_better(w->s, &price, out)))
            continue;
        *out = price;
        best = k;
    }
    return best;
}

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
    if (!at->why) {
        const int32_t k = price_best(w, at, d, &err, &price);
        one.few = w->few;
        one.degrees = d;
        one.price = k >= 0 ? &price : NULL;
        one.pattern = k >= 0 ? at->of->made.at[k] : NULL;
        one.why = k >= 0 ? NULL : err.text;
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
        s->mesh_done(s->ctx, at.sheet[0], &d, at.size);
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

/* Of other numbers of samples as of the first. NULL, or why there is none. */
static const char *open_fold(sweeping *w, int32_t samples, fs_arena *arena)
{
    fs_err err = {0};
    const plan_strategy *any = NULL;
    for (int32_t k = 0; k < w->n_patterns && !any; k++)
        any = w->patterns[k].made.n ? w->patterns[k].made.at[0] : NULL;
    w->few = NULL;
    if (!any)
        return NULL; /* each says why */
    const double begin_s = cpu_s();
    w->few = make_graph(w, samples, &err);
    const double made_s = cpu_s();
    w->s->figures.graphs_s += made_s - begin_s;
    const cost_folding of = {w->few, w->n_stages, any->stage_of};
    const fs_status status =
        !w->few    ? err.status
        : w->first ? cost_fold_like(w->first, w->few, arena, &err, &w->fold)
                   : cost_fold_create(w->s->cost, w->pipes, &of, w->ours, &err,
                                      &w->fold);
    w->s->figures.sheets_s += cpu_s() - made_s;
    if (status != FS_OK)
        return fs_strdup(w->arena, err.text);
    if (!w->first) {
        w->first = w->fold;
        w->first_few = w->few;
    }
    return NULL;
}

static void open_sheet(sweeping *w, const char *unfit, fs_arena *arena,
                       place *at)
{
    int32_t n = 0;
    const double begin_s = cpu_s();
    at->why = at->of->why ? at->of->why : unfit;
    at->sheet = fs_new(arena, cost_sheet *, at->of->made.n + 1);
    for (int32_t k = 0; !at->why && k < at->of->made.n; k++) {
        fs_err why = {0};
        if (cost_sheet_create(w->fold, at->of->made.at[k], arena, &why,
                              &at->sheet[k]) == FS_OK)
            n++;
        else if (n == 0 && k == at->of->made.n - 1)
            at->why = fs_strdup(w->arena, why.text);
        else
            at->sheet[k] = NULL;
    }
    w->s->figures.sheets += n;
    w->s->figures.sheets_s += cpu_s() - begin_s;
}

/* Has a recipe of the kind that many samples? */
static bool applies(const sweeping *w, const pattern *of, int32_t samples)
{
    return of->dp ? samples > 1
                  : !w->s->most_each || samples <= w->s->most_each;
}

static void price_size(sweeping *w, const search_sweep_size *size)
{
    fs_arena *arena = fs_arena_create();
    const char *unfit = open_fold(w, size->samples, arena);
    for (int32_t k = 0; k < w->n_patterns; k++) {
        place at = {.of = &w->patterns[k], .size = size};
        if (!applies(w, at.of, size->samples))
            continue;
        open_sheet(w, unfit, arena, &at);
        price_pattern(w, at);
    }
    if (w->few != w->first_few)
        ir_graph_destroy(w->few);
    fs_arena_destroy(arena);
}

/* NULL: some recipe in stages of this fold may have a price. */
static const char *find_unfit(const sweeping *w)
{
    for (int32_t p = 1; p <= w->s->devices; p++)
        if (is_priced(w, p))
            return NULL;
    return "no number of stages suits the layers";
}

static void price_fold(sweeping *w)
{
    const search_sweep *s = w->s;
    int32_t n = 0;
    for (int32_t k = 0; k < s->n_sizes; k++)
        n += is_of_kind(w, &s->sizes[k]);
    if (n == 0)
        return;
    w->ours = fs_arena_create();
    w->first = NULL;
    w->few = w->first_few = NULL;
    w->unfit = find_unfit(w);
    add_patterns(w);
    for (int32_t k = 0; k < s->n_sizes; k++)
        if (is_of_kind(w, &s->sizes[k]))
            price_size(w, &s->sizes[k]);
    ir_graph_destroy(w->first_few);
    fs_arena_destroy(w->ours);
}

void search_sweep_run(search_sweep *s)
{
    sweeping w = {.s = s,
                  .fix = s->fix ? *s->fix : search_recipe_free(),
                  .arena = fs_arena_create()};
    w.pipes = cost_pipes_create(w.arena);
    for (int32_t r = 0; r < s->n_recompute; r++)
        for (w.n_stages = 1; w.n_stages <= COST_SHEET_STAGES; w.n_stages++)
            for (int32_t m = 0; m < 2; m++) {
                w.recompute = s->recompute[r];
                w.alone = m == 0;
                price_fold(&w);
            }
    fs_arena_destroy(w.arena);
}
