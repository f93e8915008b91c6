#include "config.h"
#include "cli/sizes.h"

#include "base/crew.h"
#include "ir/resize.h"

#include <pthread.h>
#include <stdatomic.h>

/* A model that others are made of: those alike but for sizes. */
typedef struct base {
    ir_graph *few;         /* with few layers, */
    const ir_graph *graph; /* with all; NULL: not made yet, */
    ir_sizes made;         /* and both; a NULL graph: none can be made of it */
} base;

struct cli_sizes {
    plan_origin origin;
    fs_arena *arena;
    pthread_mutex_t opening;
    bool opened;           /* the whole batch's network: */
    cli_model whole;       /* in full, */
    cli_model few_of_them; /* and with few layers */
    FS_VEC(base) bases;
};

cli_sizes *cli_sizes_create(const plan_origin *origin)
{
    fs_arena *arena = fs_arena_create();
    cli_sizes *sizes = fs_new(arena, cli_sizes, 1);
    *sizes = (cli_sizes){.origin = *origin,
                         .arena = arena,
                         .opening = PTHREAD_MUTEX_INITIALIZER};
    return sizes;
}

void cli_sizes_destroy(cli_sizes *sizes)
{
    if (!sizes)
        return;
    for (int32_t k = 0; k < sizes->bases.n; k++)
        ir_graph_destroy(sizes->bases.at[k].few);
    ir_graph_destroy(sizes->few_of_them.graph);
    cli_model_close(&sizes->whole);
    pthread_mutex_destroy(&sizes->opening);
    fs_arena_destroy(sizes->arena);
}

/* Once for all. Without a graph: it cannot be, which each is told by itself. */
static void open_whole(cli_sizes *sizes, const cli *c)
{
    cli own = *c;
    own.err = (fs_err){0};
    pthread_mutex_lock(&sizes->opening);
    if (!sizes->opened &&
        cli_model_open(&own, &sizes->origin, sizes->origin.batch,
                       &sizes->whole) == FS_OK)
        sizes->few_of_them.graph = ir_shorten(sizes->whole.graph);
    sizes->opened = true;
    pthread_mutex_unlock(&sizes->opening);
}

/* One of the models on its way: the network with all its layers and, trained,
 * with few; where there are none (NULL), and of a base, trained. */
typedef struct draft {
    int32_t m;
    cli_model model;
    ir_graph *few; /* a base's is the base's; NULL once the model is done */
    int32_t base;  /* of this, or what this is; -1: none yet */
    bool is_base;
} draft;

/* NULL: others are to be made in full. Messages are those of the full one. */
static ir_graph *train_few(const cli_sizes *sizes, const cli *c, const draft *d)
{
    cli own = *c;
    own.err = (fs_err){0};
    if (d->m > 1 && !sizes->few_of_them.graph)
        return NULL;
    cli_model few = {.graph = ir_shorten(d->model.graph)};
    if (!few.graph)
        return NULL;
    const bool made = cli_model_add_step(&own, &sizes->origin, d->m,
                                         &sizes->few_of_them, &few) == FS_OK &&
                      !few.statistics; /* of which all are counted */
    if (!made)
        cli_model_close(&few);
    return few.graph;
}

static fs_status train_in_full(const cli_sizes *sizes, cli *c, draft *d)
{
    const cli_model *whole =
        d->m > 1 && sizes->whole.graph ? &sizes->whole : NULL;
    const fs_status status =
        cli_model_add_step(c, &sizes->origin, d->m, whole, &d->model);
    if (status != FS_OK)
        cli_model_close(&d->model);
    return status;
}

static void drop(draft *d)
{
    if (!d->is_base)
        ir_graph_destroy(d->few);
    cli_model_close(&d->model);
}

static fs_status begin(cli_sizes *sizes, cli *c, draft *d)
{
    FS_TRY(cli_model_network(c, &sizes->origin, d->m, &d->model));
    if (d->m > 1)
        open_whole(sizes, c);
    d->few = train_few(sizes, c, d);
    return d->few ? FS_OK : train_in_full(sizes, c, d);
}

/* The base that it is like, or one that it becomes. */
static void find_base(cli_sizes *sizes, draft *d)
{
    for (int32_t k = 0; k < sizes->bases.n && d->few; k++)
        if (ir_sizes_alike(sizes->bases.at[k].few, d->few)) {
            d->base = k;
            return;
        }
    if (!d->few)
        return;
    d->is_base = true;
    d->base = sizes->bases.n;
    fs_push(sizes->arena, &sizes->bases, (base){.few = d->few});
}

static fs_status make_base(cli_sizes *sizes, cli *c, draft *d)
{
    FS_TRY(train_in_full(sizes, c, d));
    base *b = &sizes->bases.at[d->base];
    b->graph = d->model.graph;
    if (!ir_sizes_open(d->model.graph, b->few, sizes->arena, &b->made))
        b->made.graph = NULL;
    return FS_OK;
}

/* One that is no base. */
static fs_status complete(cli_sizes *sizes, cli *c, draft *d)
{
    if (!d->few)
        return FS_OK;
    const base *of = &sizes->bases.at[d->base];
    ir_graph *few = d->few;
    ir_graph *graph = of->made.graph ? ir_resize(&of->made, few) : NULL;
    d->few = NULL;
    if (!graph) {
        ir_graph_destroy(few);
        return train_in_full(sizes, c, d);
    }
    ir_graph_join(graph, few);
    ir_graph_join(graph, d->model.graph);
    d->model.graph = graph;
    d->model.lender = of->graph;
    return FS_OK;
}

fs_status cli_sizes_train(cli *c, cli_sizes *sizes, int32_t m, cli_model *out)
{
    draft d = {.m = m, .base = -1};
    FS_TRY(begin(sizes, c, &d));
    find_base(sizes, &d);
    FS_TRY(d.is_base ? make_base(sizes, c, &d) : complete(sizes, c, &d));
    *out = d.model;
    return FS_OK;
}

/* ---- of several micro-batch counts ---- */

typedef struct part {
    fs_status status;
    fs_err err;
    draft draft;
} part;

typedef struct parts {
    cli *c;
    cli_sizes *sizes;
    int32_t n;
    part *at;
    atomic_int failed; /* the first so far; n */
} parts;

static void note_failed(parts *all, int32_t k)
{
    int before = atomic_load(&all->failed);
    while (k < before &&
           !atomic_compare_exchange_weak(&all->failed, &before, k))
        ;
}

/* Each with a message of its own; nobody asks any more for what is behind one
 * that failed. */
typedef fs_status part_step(cli_sizes *sizes, cli *c, draft *d);
static void do_part(parts *all, int32_t k, part_step *step)
{
    part *p = &all->at[k];
    cli own = *all->c;
    own.err = (fs_err){0};
    p->status = step(all->sizes, &own, &p->draft);
    p->err = own.err;
    if (p->status != FS_OK)
        note_failed(all, k);
}

static bool is_asked_for(const parts *all, int32_t k)
{
    return k < atomic_load(&all->failed);
}

static fs_status make_one(cli_sizes *sizes, cli *c, draft *d)
{
    return cli_model_train(c, &sizes->origin, d->m, &d->model);
}

/* The first is a base, if it has layers, whatever the others are. */
static fs_status begin_first(cli_sizes *sizes, cli *c, draft *d)
{
    FS_TRY(begin(sizes, c, d));
    find_base(sizes, d);
    return d->is_base ? make_base(sizes, c, d) : FS_OK;
}

static void begin_part(void *ctx, int32_t hand, int32_t k)
{
    parts *all = ctx;
    (void)hand;
    if (is_asked_for(all, k))
        do_part(all, k, k == 0 ? begin_first : begin);
}

static void base_part(void *ctx, int32_t hand, int32_t k)
{
    parts *all = ctx;
    (void)hand;
    if (k > 0 && is_asked_for(all, k) && all->at[k].draft.is_base)
        do_part(all, k, make_base);
}

static void complete_part(void *ctx, int32_t hand, int32_t k)
{
    parts *all = ctx;
    (void)hand;
    if (is_asked_for(all, k) && !all->at[k].draft.is_base)
        do_part(all, k, complete);
}

static void make_all(parts *all)
{
    if (all->n == 1) {
        do_part(all, 0, make_one);
        return;
    }
    const int32_t hands = fs_crew_hands();
    fs_crew_run(begin_part, all, hands, all->n);
    for (int32_t k = 1; k < all->n; k++)
        find_base(all->sizes, &all->at[k].draft);
    fs_crew_run(base_part, all, hands, all->n);
    fs_crew_run(complete_part, all, hands, all->n);
}

static fs_status take_parts(const parts *all, int32_t *n_made, cli_model *out)
{
    const int32_t failed = atomic_load(&all->failed);
    *n_made = failed;
    for (int32_t k = 0; k < failed; k++)
        out[k] = all->at[k].draft.model;
    for (int32_t k = failed; k < all->n; k++)
        if (all->at[k].status == FS_OK)
            drop(&all->at[k].draft);
    if (failed == all->n)
        return FS_OK;
    all->c->err = all->at[failed].err;
    return all->at[failed].status;
}

fs_status cli_sizes_train_all(cli *c, cli_sizes *sizes, int32_t n,
                              const int32_t *counts, int32_t *n_made,
                              cli_model *out)
{
    fs_arena *scratch = fs_arena_create();
    parts all = {.c = c, .sizes = sizes, .n = n};
    all.at = fs_new(scratch, part, n);
    for (int32_t k = 0; k < n; k++)
        all.at[k] = (part){FS_NO, {0}, {.m = counts[k], .base = -1}};
    atomic_init(&all.failed, n);
    make_all(&all);
    const fs_status status = take_parts(&all, n_made, out);
    fs_arena_destroy(scratch);
    return status;
}
