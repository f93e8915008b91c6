/* The recipes that look best, planned: what `plan` says of each, to the byte. A
 * sheet prices the best of a few strategies of a recipe's kind and counts what
 * is live at least (src/search/SWEEP.md). */
#include "config.h"
#include "cli/sweep.h"

#include "cli/make_plan.h"
#include "cli/making.h"
#include "cli/predict.h"

#include <stdlib.h>
#include <string.h>

static fs_status take_plan(cli *c, const cli_plan *p, double formula_s,
                           void *ctx)
{
    cli_sweep_row *row = ctx;
    sim_result sim;
    FS_TRY(cli_predict(c, p, NULL, &sim));
    row->priced_s = row->iteration_s;
    row->iteration_s = formula_s;
    row->sim_s = sim.iteration_s;
    row->peak_bytes = cli_largest_arena(p->plan);
    row->planned = true;
    return FS_OK;
}

static search_recipe recipe_of(const cli_sweep_row *row, fs_arena *arena)
{
    search_recipe r = search_recipe_free();
    search_layers *each = fs_new(arena, search_layers, row->pp);
    for (int32_t i = 0; i < row->pp; i++)
        each[i].blocks = row->layers;
    r.dp = row->dp;
    r.tp = row->tp;
    r.pp = row->pp;
    r.micro_batches = row->micro_batches;
    r.schedule = row->schedule;
    r.zero = row->zero;
    r.seq_parallel = row->seq_parallel;
    r.n_layers = row->pp > 1 ? row->pp : 0;
    r.layers = each;
    return r;
}

/* As the command `plan` of these flags, with nothing else said. */
static fs_status make_plan(const cli_sweep *s, cli_sweep_row *row)
{
    cli own = cli_within(s->c);
    plan_origin origin = s->origin;
    ir_tables tables = ir_tables_in(fs_arena_create());
    own.arena = fs_arena_create();
    own.tables = &tables;
    if (row->recompute[0])
        origin.recompute = row->recompute;
    if (s->c->args.memory)
        origin.memory_bytes = (int64_t)s->limit_bytes;
    const search_recipe recipe = recipe_of(row, own.arena);
    const fs_status status = cli_plan_unwritten(
        &own, &origin, &recipe, s->cluster, false, take_plan, row);
    if (status != FS_OK)
        s->c->err = own.err;
    json_decref(own.result);
    fs_arena_destroy(own.arena);
    fs_arena_destroy(tables.arena);
    return status;
}

static void count_again(cli_sweep *s, int before, int now)
{
    s->n_fit += (now > 0) - (before > 0);
    s->n_may += (now < 0) - (before < 0);
}

/* Does it fit? What search finds no room for, or cannot have, does not. */
static bool plan_row(cli_sweep *s, cli_sweep_row *row)
{
    const int before = row->fits;
    const fs_status status = make_plan(s, row);
    if (status != FS_OK && status != FS_NO && !s->unplanned)
        s->unplanned = fs_strdup(s->c->arena, s->c->err.text);
    s->c->err = (fs_err){0};
    row->fits = status == FS_OK && (double)row->peak_bytes <= s->limit_bytes;
    count_again(s, before, row->fits);
    return row->fits;
}

static int by_seconds(const void *a, const void *b)
{
    const cli_sweep_row *x = *(const cli_sweep_row *const *)a,
                        *y = *(const cli_sweep_row *const *)b;
    if (x->iteration_s != y->iteration_s)
        return x->iteration_s < y->iteration_s ? -1 : 1;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes < y->peak_bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The same price under another schedule. */
static bool says_it_again(const cli_sweep_row *a, const cli_sweep_row *b)
{
    return a->iteration_s == b->iteration_s && a->peak_bytes == b->peak_bytes &&
           a->dp == b->dp && a->tp == b->tp && a->pp == b->pp &&
           a->micro_batches == b->micro_batches &&
           a->recompute == b->recompute && a->zero == b->zero &&
           a->seq_parallel == b->seq_parallel;
}

void cli_sweep_find_best(cli_sweep *s)
{
    cli_sweep_row **fit = fs_new(s->c->arena, cli_sweep_row *, s->rows.n + 1);
    cli_sweep_row last = {0};
    const int wanted = s->fix.schedule && s->n_may ? -1 : 1;
    int32_t n = 0, n_planned = 0;
    for (int32_t i = 0; i < s->rows.n; i++)
        if (s->rows.at[i].fits == wanted)
            fit[n++] = &s->rows.at[i];
    qsort(fit, (size_t)n, sizeof *fit, by_seconds);
    for (int32_t i = 0; i < n && n_planned < CLI_SWEEP_PLANNED; i++) {
        const bool again = says_it_again(&last, fit[i]);
        last = *fit[i];
        if (again)
            continue;
        fs_progress("planning recipe %d", n_planned + 1);
        if (plan_row(s, fit[i]))
            s->best[n_planned++] = fit[i];
    }
    qsort(s->best, (size_t)n_planned, sizeof *s->best, by_seconds);
    s->n_best = n_planned < CLI_SWEEP_BEST ? n_planned : CLI_SWEEP_BEST;
}
