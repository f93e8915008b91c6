/* The usual recipes by enumeration. All of a family, with every degree and
 * micro-batch count that the problem leaves free, are ranked by a closed form
 * (ledger.c); the first are costed in full, as the problem with that recipe:
 * network, engine, lowering where memory may not do. That ends when no recipe
 * of the last few was better than the best, or none is left. */
#include "config.h"
#include "search/planner.h"

#include "base/clock.h"
#include "base/crew.h"
#include "search/known.h"
#include "search/cuts/ledger.h"
#include "search/level0.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Recipes in a row that are not better: so many, or so many nodes of networks;
 * prices per recipe. */
enum { PATIENCE = 8, PATIENCE_NODES = 30000, ROUNDS = 1 };
/* Recipes that are costed at once, with the same plan to beat. */
enum { AT_ONCE = 2 };

typedef struct family {
    const char *name, *axes;
    int32_t zero_from, zero_to, tables;
    const char *schedule;
} family;

static const family families[] = {
#define SEARCH_FAMILY(name, axes, zero_from, zero_to, tables, schedule)        \
    {name, axes, zero_from, zero_to, tables, schedule},
#include "search/families.def"
#undef SEARCH_FAMILY
};

enum { N_FAMILIES = sizeof families / sizeof families[0] };

/* A recipe as ranked. */
typedef struct ranked {
    search_recipe recipe;
    const search_graph *graph;
    search_estimate estimate;
    int32_t order; /* in which it was listed */
    bool done;     /* costed in full, or not needed */
} ranked;

typedef struct recipes {
    const search_problem *problem;
    fs_arena *arena;
    search_ledger ledger;
    const family *family;
    const search_graph *graph;
    FS_VEC(ranked) all;
    FS_VEC(search_config) costed;
    int64_t start_ns;
    fs_end end;
    int64_t steps; /* of work done */
    bool late;     /* a clock had a say */
    const ranked *best;
    const cost_model *cost[AT_ONCE]; /* of each of those costed at once */
    search_book *book[AT_ONCE];
    fs_arena *own[AT_ONCE];  /* NULL: they are the problem's */
    int32_t n_more;          /* that did not fit, */
    double more, least_more; /* and were so much fuller than estimated, in the
                                mean, and at least */
} recipes;

static bool has(const recipes *p, char axis)
{
    return strchr(p->family->axes, axis) != NULL;
}

/* What the problem's own recipe says, or else may be said. */
static bool free_to(int32_t given, int32_t free, int32_t wanted)
{
    return given == free || given == wanted;
}

/* ---- tables of embeddings ---- */

static void add_name(fs_text *text, const char *name)
{
    for (; *name; name++)
        fs_text_add(text, strchr("\\^$.[]|()*+?{}", *name) ? "\\%c" : "%c",
                    *name);
}

/* Parameters that a look-up reads as they lie, long enough to be cut. */
static bool pin_tables(recipes *p, search_recipe *r)
{
    const ir_graph *graph = p->graph->graph;
    fs_text names = {.arena = p->arena};
    bool *seen = fs_new(p->arena, bool, graph->tensors.n);
    int32_t n = 0;
    fs_text_add(&names, "^(");
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->op != IR_OP_gather || node->phase != IR_FORWARD)
            continue;
        const int32_t t = node->in[0];
        const ir_shape *shape = &graph->tensors.at[t].shape;
        if (graph->tensors.at[t].role != IR_PARAM || seen[t] ||
            shape->dim[p->family->tables] < p->problem->cluster->n_devices)
            continue;
        seen[t] = true;
        if (n++)
            fs_text_add(&names, "|");
        add_name(&names, graph->tensors.at[t].name);
    }
    fs_text_add(&names, ")$");
    search_pin *pin = fs_new(p->arena, search_pin, 1);
    *pin = (search_pin){
        names.at, names.at, {.kind = IR_S, .axis = (int8_t)p->family->tables}};
    r->pins = (search_pins){1, pin};
    return n > 0;
}

/* ---- enumeration ---- */

static void add(recipes *p, const search_recipe *recipe)
{
    search_recipe r = *recipe;
    fs_err ignored = {0};
    if (search_recipe_complete(p->problem->cluster, p->graph->graph->batch,
                               true, &ignored, &r) != FS_OK)
        return;
    const search_roles roles = search_recipe_roles(&r);
    const ir_mesh mesh = search_roles_mesh(&roles);
    const ir_mesh *fixed = &p->problem->fix_mesh;
    if (fixed->n >= 0 && !plan_same_mesh(fixed, &mesh))
        return;
    if (search_ledger_open(&p->ledger, &r))
        fs_push(p->arena, &p->all,
                (ranked){.recipe = r, .graph = p->graph, .order = p->all.n});
}

static void add_variants(recipes *p, search_recipe r)
{
    const search_recipe *given = p->problem->recipe;
    for (int32_t zero = p->family->zero_from; zero <= p->family->zero_to;
         zero++)
        for (int32_t seq = 0;
             seq <= (r.tp > 1 && p->ledger.streams && has(p, 'S')); seq++) {
            if (given && (!free_to(given->zero, -1, zero) ||
                          !free_to(given->seq_parallel, -1, seq)))
                continue;
            r.zero = zero;
            r.seq_parallel = seq;
            add(p, &r);
        }
}

static void add_experts(recipes *p, search_recipe r)
{
    const search_recipe *given = p->problem->recipe;
    for (int32_t ep = 1; ep <= r.dp; ep++) {
        if (r.dp % ep || (given && !free_to(given->ep, 0, ep)) ||
            (ep > 1 && !(p->ledger.experts && has(p, 'E'))))
            continue;
        r.ep = ep;
        add_variants(p, r);
    }
}

/* The problem's own words, and what a family adds. */
static search_recipe begin(recipes *p)
{
    const search_problem *problem = p->problem;
    search_recipe r = problem->recipe ? *problem->recipe : search_recipe_free();
    r.micro_batch = 0;
    r.micro_batches = p->graph->micro_batches;
    r.interleave = problem->interleave;
    r.n_layers = problem->n_layers;
    r.layers = problem->layers;
    r.schedule = p->family->schedule ? p->family->schedule : problem->schedule;
    r.cp = r.cp ? r.cp : 1;
    return r;
}

static void add_degrees(recipes *p)
{
    const search_problem *problem = p->problem;
    const search_recipe *given = problem->recipe;
    const int32_t devices = problem->cluster->n_devices;
    search_recipe r = begin(p);
    const char *schedule = r.schedule;
    if (p->family->tables >= 0 && (r.pins.n > 0 || !pin_tables(p, &r)))
        return;
    for (int32_t pp = 1; pp <= (has(p, 'P') ? devices : 1); pp++)
        for (int32_t tp = 1;
             devices % pp == 0 && tp <= (has(p, 'T') ? devices / pp : 1);
             tp++) {
            if (devices % (pp * tp * r.cp) ||
                !free_to(problem->fix_stages, 0, pp) ||
                (given && !free_to(given->tp, 0, tp)))
                continue;
            r.pp = pp;
            r.tp = tp;
            r.schedule = pp > 1 ? schedule : problem->schedule;
            r.dp = devices / (pp * tp * r.cp);
            if (!given || free_to(given->dp, 0, r.dp))
                add_experts(p, r);
        }
}

/* One that others' words rule out is left out. */
static void add_family(recipes *p, const family *f)
{
    p->family = f;
    if (f->schedule && p->problem->fix_schedule &&
        strcmp(p->problem->schedule, f->schedule) != 0)
        return;
    for (int32_t g = 0; g < p->problem->n_graphs; g++) {
        p->graph = &p->problem->graphs[g];
        add_degrees(p);
    }
}

/* ---- ranking ---- */

/* Recipes of different paces. */
typedef struct paces {
    const search_ledger *ledger;
    FS_VEC(const search_recipe *) of;
} paces;

static bool same_pace(const search_recipe *a, const search_recipe *b)
{
    return a->pp == b->pp && a->micro_batches == b->micro_batches &&
           strcmp(a->schedule, b->schedule) == 0;
}

static void pace_one(void *ctx, int32_t hand, int32_t k)
{
    const paces *all = ctx;
    (void)hand;
    search_ledger_pace(all->ledger, all->of.at[k]);
}

static void pace_all(recipes *p, fs_arena *scratch)
{
    paces all = {.ledger = &p->ledger};
    for (int32_t k = 0; k < p->all.n; k++) {
        const search_recipe *r = &p->all.at[k].recipe;
        int32_t had = 0;
        while (had < all.of.n && !same_pace(all.of.at[had], r))
            had++;
        if (had == all.of.n)
            fs_push(scratch, &all.of, r);
    }
    fs_crew_run(pace_one, &all, fs_crew_hands(), all.of.n);
}

/* Recipes are estimated by several hands, some at a time: each has a cost model
 * of its own, which remembers. */
enum { AT_A_TIME = 64 };
typedef struct estimating {
    recipes *p;
    search_problem *problem; /* [hands] */
    search_ledger *ledger;
} estimating;

static void estimate_some(void *ctx, int32_t hand, int32_t k)
{
    const estimating *all = ctx;
    recipes *p = all->p;
    for (int32_t i = k * AT_A_TIME; i < (k + 1) * AT_A_TIME && i < p->all.n;
         i++)
        p->all.at[i].estimate =
            search_ledger_ask(&all->ledger[hand], &p->all.at[i].recipe);
}

static void estimate_all(recipes *p, fs_arena *scratch)
{
    const int32_t times = (p->all.n + AT_A_TIME - 1) / AT_A_TIME,
                  most = fs_crew_hands(), hands = times < most ? times : most;
    estimating all = {p, fs_new(scratch, search_problem, hands),
                      fs_new(scratch, search_ledger, hands)};
    for (int32_t h = 0; h < hands; h++) {
        all.problem[h] = *p->problem;
        all.ledger[h] = p->ledger;
        all.ledger[h].problem = &all.problem[h];
        if (h > 0)
            all.problem[h].cost = cost_model_like(p->problem->cost, scratch);
    }
    fs_crew_run(estimate_some, &all, hands, times);
    int32_t n = 0;
    for (int32_t k = 0; k < p->all.n; k++)
        if (isfinite(p->all.at[k].estimate.iteration_s))
            p->all.at[n++] = p->all.at[k];
    p->all.n = n;
}

/* ---- in full ---- */

static int by_estimate(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    const bool over_x = x->estimate.fullest > 1,
               over_y = y->estimate.fullest > 1;
    if (over_x != over_y)
        return over_x - over_y;
    const double dx = over_x ? x->estimate.fullest : x->estimate.iteration_s;
    const double dy = over_x ? y->estimate.fullest : y->estimate.iteration_s;
    if (dx < dy || dx > dy)
        return dx < dy ? -1 : 1;
    return x->order - y->order;
}

/* Families overlap. */
static bool same_recipe(const ranked *a, const ranked *b)
{
    const search_recipe *x = &a->recipe, *y = &b->recipe;
    return a->graph == b->graph && x->dp == y->dp && x->tp == y->tp &&
           x->pp == y->pp && x->cp == y->cp && x->ep == y->ep &&
           x->zero == y->zero && x->seq_parallel == y->seq_parallel &&
           strcmp(x->schedule, y->schedule) == 0 && x->pins.at == y->pins.at;
}

static bool listed_before(const recipes *p, int32_t k)
{
    const ranked *item = &p->all.at[k];
    for (int32_t j = k - 1; j >= 0; j--) {
        const ranked *before = &p->all.at[j];
        if (before->estimate.iteration_s < item->estimate.iteration_s ||
            before->estimate.fullest < item->estimate.fullest)
            return false;
        if (same_recipe(before, item))
            return true;
    }
    return false;
}

static void keep_records(recipes *p, const search_result *found)
{
    for (int32_t c = 0; c < found->n_configs; c++)
        fs_push(p->arena, &p->costed, found->configs[c]);
}

/* A recipe that is costed. */
typedef struct costing {
    ranked *item;
    search_problem one; /* the problem with this recipe */
    fs_arena *arena;
    search_result found;
    fs_status status;
    fs_err err;
} costing;

/* Cost models and tables of boxing remember: each of those costed at once has
 * its own. */
static void own_tables(recipes *p, int32_t k)
{
    if (p->cost[k])
        return;
    p->cost[k] = p->problem->cost;
    p->book[k] = p->problem->book;
    if (k == 0)
        return;
    p->own[k] = fs_arena_create();
    p->cost[k] = cost_model_like(p->problem->cost, p->own[k]);
    p->book[k] = fs_new(p->own[k], search_book, 1);
    p->book[k]->arena = p->own[k];
}

static fs_status pose(recipes *p, costing *c)
{
    const ranked *item = c->item;
    const search_pins *pins = &item->recipe.pins;
    const search_pin **pin_of;
    c->one.engine = "ilp";
    c->one.start = NULL;
    c->one.n_graphs = 1;
    c->one.graphs = item->graph;
    c->one.rounds = ROUNDS;
    c->one.progress = NULL; /* its bounds are of one recipe */
    c->one.end = p->costed.n > 0 ? &p->end : NULL; /* a plan, however late */
    if (c->one.most_steps > 0)
        c->one.most_steps -= (double)p->steps;
    const search_marks *marks =
        search_known_marks(p->problem->known, item->graph->graph);
    FS_TRY(search_recipe_check_marked(&item->recipe, marks, &c->err));
    FS_TRY(
        search_pins_find(pins, item->graph->graph, c->arena, &c->err, &pin_of));
    search_recipe_apply(&item->recipe, c->arena, &c->one);
    return FS_OK;
}

static void cost_one(void *ctx, int32_t hand, int32_t k)
{
    costing *c = (costing *)ctx + k;
    (void)hand;
    if (c->status == FS_OK)
        c->status = search_run(&c->one, c->arena, &c->err, &c->found);
}

/* The first recipe has what there is. */
static bool over(recipes *p)
{
    const double most = p->problem->most_steps, soon = p->problem->soon_steps;
    const bool any = p->best || p->problem->below_s > 0;
    if ((most > 0 && (double)p->steps >= most) ||
        (any && soon > 0 && (double)p->steps >= soon))
        return true;
    const bool late = p->costed.n > 0 && fs_end_reached(&p->end);
    p->late |= late;
    return late;
}

static int32_t patience(const recipes *p)
{
    const int32_t nodes = p->problem->graphs[0].graph->nodes.n;
    const int32_t n = PATIENCE_NODES / (nodes + 1);
    return n > PATIENCE ? n : PATIENCE;
}

/* What did not fit, or could not, says how much fuller plans are than their
 * estimates. */
static void learn(recipes *p, const ranked *item, const search_result *found)
{
    const double estimate = item->estimate.fullest;
    if (found->strategy || !(found->fullness > 0) || !(estimate > 0))
        return;
    const double more = found->fullness / estimate;
    p->least_more = p->n_more ? fmin(p->least_more, more) : more;
    p->more += (more - p->more) / ++p->n_more;
}

/* A plan is wanted first, then the fastest. */
static bool seems_to_fit(const recipes *p, const ranked *item)
{
    const double more = p->best ? p->least_more : p->more;
    return fmax(1, more) * item->estimate.fullest <= 1;
}

/* The first in rank that seems to fit by what was learnt, or the one that
 * exceeds least; -1: none is left. */
static int32_t next_ranked(const recipes *p)
{
    int32_t least = -1;
    for (int32_t k = 0; k < p->all.n; k++) {
        const ranked *item = &p->all.at[k];
        if (item->done)
            continue;
        if (seems_to_fit(p, item))
            return k;
        if (least < 0 ||
            item->estimate.fullest < p->all.at[least].estimate.fullest)
            least = k;
    }
    return least;
}

static void say(const recipes *p, int32_t k, double best_s)
{
    char line[160], spent[32], best[32];
    if (!p->problem->progress)
        return;
    snprintf(
        line, sizeof line, "%s: best %s; recipe %d of %d",
        fs_human_seconds(spent, 1e-9 * (double)(fs_now_ns() - p->start_ns)),
        isfinite(best_s) ? fs_human_seconds(best, best_s) : "none yet", k + 1,
        p->all.n);
    p->problem->progress(p->problem->progress_ctx, line);
}

/* The next of them; how many. */
static int32_t take_next(recipes *p, costing *list, int32_t most, double best_s)
{
    int32_t n = 0, k;
    while (n < most && (k = next_ranked(p)) >= 0 && !over(p)) {
        ranked *item = &p->all.at[k];
        item->done = true;
        if (listed_before(p, k))
            continue;
        say(p, k, best_s);
        list[n] = (costing){
            .item = item, .one = *p->problem, .arena = fs_arena_create()};
        own_tables(p, n);
        list[n].one.cost = p->cost[n];
        list[n].one.book = p->book[n];
        list[n].one.below_s = best_s;
        list[n].status = pose(p, &list[n]);
        n++;
    }
    return n;
}

/* What follows from one that is costed; false: it was not better. */
static bool conclude(recipes *p, costing *c, double *best_s, fs_err *why,
                     search_result *best)
{
    search_result *found = &c->found;
    fs_arena_join(p->arena, c->arena);
    learn(p, c->item, found);
    keep_records(p, found);
    p->steps += found->steps;
    p->late |= found->late;
    if (c->status != FS_OK && !why->text[0])
        *why = c->err;
    if (c->status != FS_OK || found->iteration_s >= *best_s)
        return false;
    found->first_s = best->strategy
                         ? best->first_s
                         : 1e-9 * (double)(fs_now_ns() - p->start_ns);
    *best = *found;
    *best_s = found->iteration_s;
    p->best = c->item;
    return true;
}

/* One at a time until there is a plan. */
static void cost_all(recipes *p, fs_err *why, search_result *best)
{
    double best_s = p->problem->below_s > 0 ? p->problem->below_s : INFINITY;
    const int32_t few = patience(p);
    int32_t idle = 0, n;
    costing list[AT_ONCE];
    while (idle < few &&
           (n = take_next(p, list, isfinite(best_s) ? AT_ONCE : 1, best_s))) {
        fs_crew_run(cost_one, list, fs_crew_hands(), n);
        for (int32_t k = 0; k < n; k++) {
            const bool counts = list[k].found.n_configs > 0;
            if (conclude(p, &list[k], &best_s, why, best))
                idle = 0;
            else
                idle += counts && (best->strategy || p->problem->below_s > 0);
        }
    }
}

static const char *best_text(const recipes *p)
{
    if (!p->best)
        return "";
    const search_recipe *r = &p->best->recipe;
    fs_text text = {.arena = p->arena};
    fs_text_add(&text, "; the best: pp=%d,dp=%d,tp=%d", r->pp, r->dp, r->tp);
    if (r->cp > 1)
        fs_text_add(&text, ",cp=%d", r->cp);
    if (r->ep > 1)
        fs_text_add(&text, ",ep=%d", r->ep);
    fs_text_add(&text, ",zero=%d%s,micro-batches=%d,schedule=%s", r->zero,
                r->seq_parallel == 1 ? ",seq-parallel=1" : "", r->micro_batches,
                r->schedule);
    if (r->pins.n)
        fs_text_add(&text, ", pins %s", r->pins.at[0].text);
    return text.at;
}

/* Has memory, by the closed form, no room for one that would be faster? */
static bool memory_decides(const recipes *p, const search_result *out)
{
    bool any = !out->strategy || p->n_more > 0;
    for (int32_t k = 0; k < p->all.n; k++) {
        const search_estimate *e = &p->all.at[k].estimate;
        any |= e->fullest > 1 && p->best &&
               e->iteration_s < p->best->estimate.iteration_s;
    }
    return any;
}

static void fill(recipes *p, const search_planner *self, int64_t start_ns,
                 search_result *out)
{
    out->configs = p->costed.at;
    out->n_configs = p->costed.n;
    for (int32_t k = 0; k < p->costed.n; k++)
        out->configs[k].lower_bound_s = 0;
    out->lower_bound_s = 0;
    out->gap = 1;
    out->memory_decides = memory_decides(p, out);
    out->steps = p->steps;
    out->late = p->late;
    out->search_s = 1e-9 * (double)(fs_now_ns() - start_ns);
    out->space = fs_printf(
        p->arena, "%s (%s): %d recipes ranked, %d costed in full%s", self->name,
        self->source, p->all.n, p->costed.n, best_text(p));
}

fs_status search_plan_recipes(const search_planner *self,
                              const search_problem *problem, fs_arena *arena,
                              fs_err *err, search_result *out)
{
    const int64_t start_ns = fs_now_ns();
    const double limit =
        problem->time_limit_s > 0 ? problem->time_limit_s : 1e8;
    recipes p = {.problem = problem,
                 .arena = arena,
                 .start_ns = start_ns,
                 .end = fs_end_after(start_ns, limit, problem->stop)};
    if (problem->end && problem->end->wall_ns < p.end.wall_ns)
        p.end = *problem->end;
    fs_err why = {0};
    *out = (search_result){.status = "infeasible", .iteration_s = INFINITY};
    if (problem->stage_mesh || problem->n_graphs == 0 ||
        (problem->filter.allow && !problem->recipe))
        return fs_fail(err, FS_NO, "%s plans equal stages, by recipes only",
                       self->name);
    fs_arena *scratch = fs_arena_create();
    search_ledger_make(problem, problem->graphs[problem->n_graphs - 1].graph,
                       scratch, &p.ledger);
    for (int32_t f = 0; f < N_FAMILIES; f++)
        if (strcmp(self->name, families[0].name) == 0 ||
            strcmp(self->name, families[f].name) == 0)
            add_family(&p, &families[f]);
    pace_all(&p, scratch);
    estimate_all(&p, scratch);
    fs_arena_destroy(scratch);
    if (p.all.n)
        qsort(p.all.at, (size_t)p.all.n, sizeof *p.all.at, by_estimate);
    cost_all(&p, &why, out);
    for (int32_t k = 0; k < AT_ONCE; k++)
        fs_arena_destroy(p.own[k]);
    fill(&p, self, start_ns, out);
    if (out->strategy) {
        out->status = "feasible";
        return FS_OK;
    }
    out->iteration_s = INFINITY;
    out->status = "limit";
    return fs_fail(err, FS_NO, "%s: none of %d recipes gave a plan%s%.500s",
                   self->name, p.all.n, why.text[0] ? "; the first: " : "",
                   why.text);
}
