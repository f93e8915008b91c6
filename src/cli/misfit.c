/* Why a recipe does not fit: where, how much of what, and what of the recipe
 * would take less that it does not use yet. */
#include "config.h"
#include "cli/making.h"

#include "base/clock.h"

#include <string.h>

static void add_lever(fs_text *text, const char *lever)
{
    fs_text_add(text, "%s%s", text->n ? ", " : "", lever);
}

/* The next number of micro-batches that divides the batch, 0: none. */
static int64_t more_micro_batches(const cli_making *m)
{
    const search_recipe *r = &m->recipe;
    const int64_t batch = m->origin.batch, dp = r->dp > 1 ? r->dp : 1;
    for (int64_t k = r->micro_batches + 1; k <= batch / dp; k++)
        if (batch % k == 0 && batch / k % dp == 0)
            return k;
    return 0;
}

static bool recomputes_most(const cli_making *m)
{
    const char *said = m->origin.recompute ? m->origin.recompute : "";
    return strcmp(said, "block") == 0 || strcmp(said, "full") == 0;
}

/* What the recipe leaves out. */
static const char *levers(const cli_making *m)
{
    const search_recipe *r = &m->recipe;
    fs_arena *arena = m->c->arena;
    fs_text text = {.arena = arena};
    const int64_t more = more_micro_batches(m);
    if (more)
        add_lever(&text, fs_printf(arena, "more micro-batches (%lld)",
                                   (long long)more));
    if (!recomputes_most(m))
        add_lever(&text, "--recompute block");
    if ((r->dp > 1 || r->cp > 1) && r->zero < 3)
        add_lever(&text, fs_printf(arena, "--zero %d", r->zero + 1));
    if (r->tp > 1 && r->seq_parallel != 1)
        add_lever(&text, "--seq-parallel");
    if (text.n)
        return fs_printf(arena,
                         "what of a recipe takes less and is not in use: %s",
                         text.at);
    return "the recipe uses all that takes less: more devices or a smaller "
           "batch would help";
}

static const char *kinds_text(const plan_role *role, fs_arena *arena)
{
    fs_text text = {.arena = arena};
    char bytes[32];
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        if (role->bytes[k] > 0)
            fs_text_add(&text, "%s%s %s", text.n ? ", " : "",
                        plan_bytes_kind_name((plan_bytes_kind)k),
                        fs_human_bytes(bytes, (double)role->bytes[k]));
    return text.at;
}

static const plan_role *fullest(const plan *p)
{
    const plan_role *most = &p->roles[0];
    for (int32_t r = 1; r < p->n_roles; r++)
        if (p->roles[r].arena_bytes > most->arena_bytes)
            most = &p->roles[r];
    return most;
}

static fs_status fail_where(cli_making *m, const plan *p)
{
    const plan_role *role = fullest(p);
    char taken[32], had[32];
    m->c->err = (fs_err){0};
    return fs_fail(
        &m->c->err, FS_NO,
        "memory: the recipe does not fit: the plan that comes nearest "
        "takes %s on each device of %s, which has %s (%s); %s",
        fs_human_bytes(taken, (double)role->arena_bytes),
        plan_role_stages_text(role, m->c->arena),
        fs_human_bytes(had, (double)m->found.misfit_limit),
        kinds_text(role, m->c->arena), levers(m));
}

fs_status cli_making_misfit(cli_making *m)
{
    cli *c = m->c;
    const search_result *found = &m->found;
    plan *lowered;
    fs_err err = {0};
    plan_lower_options options = plan_lower_defaults();
    if (found->need_bytes > 0) {
        char need[32];
        c->err = (fs_err){0};
        return fs_fail(&c->err, FS_NO,
                       "memory: the recipe does not fit: each of its plans "
                       "needs at least %s on some device; %s",
                       fs_human_bytes(need, (double)found->need_bytes),
                       levers(m));
    }
    if (!found->misfit ||
        plan_lower(found->misfit_graph, m->cluster, found->misfit, &options,
                   c->arena, &err, &lowered) != FS_OK)
        return FS_NO;
    return fail_where(m, lowered);
}
