/* Why nothing fits: how much would do, where how much of what is too much, and
 * what of a recipe would take less that it does not use yet. */
#include "config.h"
#include "cli/making.h"

#include "base/clock.h"
#include "plan/fullest.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
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

/* ---- the smallest plan, role by role ---- */

/* What the devices of a role hold at most, and may. */
typedef struct holding {
    const plan_role *role;
    plan_fullest full;
    int64_t limit_bytes;
} holding;

typedef struct smallest {
    const plan *plan;
    int32_t n;
    holding *of;         /* [n] roles */
    const holding *most; /* the fullest; NULL: there is no plan */
} smallest;

/* A JSON key: "optimizer_state". */
static const char *term_key(plan_term term, fs_arena *arena)
{
    char *key = fs_strdup(arena, plan_term_name(term));
    for (char *at = key; *at; at++)
        if (*at == ' ')
            *at = '_';
    return key;
}

/* Lowered as plan_check counts it. */
static void lower_smallest(const cli_making *m, smallest *out)
{
    const search_result *found = &m->found;
    fs_arena *arena = m->c->arena;
    fs_err err = {0};
    plan *lowered;
    *out = (smallest){0};
    if (!found->misfit)
        return;
    const plan_lower_options options =
        cli_making_lowering(m, found->misfit_graph, found->misfit);
    if (plan_lower(found->misfit_graph, m->cluster, found->misfit, &options,
                   arena, &err, &lowered) != FS_OK)
        return;
    out->plan = lowered;
    out->n = lowered->n_roles;
    out->of = fs_new(arena, holding, out->n);
    out->most = &out->of[0];
    for (int32_t r = 0; r < out->n; r++) {
        const plan_role *role = &lowered->roles[r];
        out->of[r] =
            (holding){role, plan_fullest_of(found->misfit_graph, lowered, r),
                      found->misfit_limit[role->stages[0]]};
        if (role->arena_bytes > out->most->role->arena_bytes)
            out->most = &out->of[r];
    }
}

static const char *moment_text(const cli_making *m, const holding *h)
{
    return plan_fullest_text(m->found.misfit_graph, h->role, &h->full,
                             m->c->arena);
}

static json_t *holding_json(const cli_making *m, const holding *h)
{
    fs_arena *arena = m->c->arena;
    const plan_term over = plan_fullest_over(&h->full, h->limit_bytes);
    const int64_t more = h->role->arena_bytes - h->limit_bytes;
    json_t *bytes = json_object();
    for (int32_t k = 0; k < PLAN_TERMS; k++)
        json_object_set_new(bytes, term_key((plan_term)k, arena),
                            json_integer(h->full.bytes[k]));
    json_t *row =
        json_pack("{s:i, s:i, s:i, s:I, s:I, s:I, s:o, s:s}", "stage",
                  (int)h->role->stages[0], "first_device",
                  (int)h->role->first_rank, "devices", (int)h->role->n_ranks,
                  "limit_bytes", (json_int_t)h->limit_bytes, "arena_bytes",
                  (json_int_t)h->role->arena_bytes, "over_bytes",
                  (json_int_t)(more > 0 ? more : 0), "bytes", bytes,
                  "fullest_at", moment_text(m, h));
    fs_json_set_int(row, "bound_bytes", h->role->bound_bytes);
    json_object_set_new(row, "over",
                        over < PLAN_TERMS ? json_string(term_key(over, arena))
                                          : json_null());
    return row;
}

static void put_bytes(json_t *object, const char *key, int64_t bytes)
{
    json_object_set_new(object, key,
                        bytes > 0 ? json_integer(bytes) : json_null());
}

static void put_json(const cli_making *m, const smallest *s)
{
    json_t *result = m->c->result, *stages = json_array();
    for (int32_t r = 0; r < s->n; r++)
        json_array_append_new(stages, holding_json(m, &s->of[r]));
    put_bytes(result, "needed_bytes", m->found.need_bytes);
    put_bytes(result, "smallest_bytes",
              s->most ? s->most->role->arena_bytes : 0);
    json_object_set_new(result, "stages", stages);
}

/* ---- for people ---- */

static bool same_holding(const holding *a, const holding *b)
{
    return a->limit_bytes == b->limit_bytes &&
           memcmp(a->full.bytes, b->full.bytes, sizeof a->full.bytes) == 0;
}

static void bytes_cell(report_table *t, int64_t bytes)
{
    char text[32];
    if (bytes > 0)
        report_table_cell(t, "%s", fs_human_bytes(text, (double)bytes));
    else
        report_table_cell(t, "-");
}

/* "stage 0", "stages 0 and 2", "stages 1 to 6". */
static const char *holders_text(const holding *first, const holding *last,
                                fs_arena *arena)
{
    if (first == last)
        return plan_role_stages_text(first->role, arena);
    return fs_printf(arena, "%s to %s",
                     plan_role_stages_text(first->role, arena),
                     plan_role_stages_text(last->role, arena));
}

static void holding_row(const holding *first, const holding *last,
                        const bool any[PLAN_TERMS], report_table *t)
{
    const plan_term over = plan_fullest_over(&first->full, first->limit_bytes);
    report_table_cell(t, "%s", holders_text(first, last, t->arena));
    for (int32_t k = 0; k < PLAN_TERMS; k++)
        if (any[k])
            bytes_cell(t, first->full.bytes[k]);
    bytes_cell(t, first->role->arena_bytes);
    bytes_cell(t, first->limit_bytes);
    report_table_cell(t, "%s", over < PLAN_TERMS ? plan_term_name(over) : "-");
}

/* One row for neighbours that hold the same; terms that none has are left out.
 */
static void print_holdings(const cli_making *m, const smallest *s)
{
    const char *header[PLAN_TERMS + 4];
    bool any[PLAN_TERMS] = {false};
    report_table t = {.arena = m->c->arena, .header = header};
    for (int32_t k = 0; k < PLAN_TERMS; k++)
        for (int32_t r = 0; r < s->n; r++)
            any[k] |= s->of[r].full.bytes[k] > 0;
    header[t.n_columns++] = "per device";
    for (int32_t k = 0; k < PLAN_TERMS; k++)
        if (any[k])
            header[t.n_columns++] = plan_term_name((plan_term)k);
    header[t.n_columns++] = "sum";
    header[t.n_columns++] = "it has";
    header[t.n_columns++] = "over with";
    for (int32_t r = 0, last; r < s->n; r = last + 1) {
        for (last = r;
             last + 1 < s->n && same_holding(&s->of[r], &s->of[last + 1]);)
            last++;
        holding_row(&s->of[r], &s->of[last], any, &t);
    }
    report_table_print(&t, stdout);
}

static int by_need(const void *a, const void *b)
{
    const search_config *x = *(const search_config *const *)a,
                        *y = *(const search_config *const *)b;
    return (x->need_bytes > y->need_bytes) - (x->need_bytes < y->need_bytes);
}

/* By number of devices per stage: of the configurations that memory forbids
 * those that need least. */
static void print_needs(const cli_making *m)
{
    enum { FEW = 8 };
    static const char *const header[] = {"stages", "mesh", "micro-batches",
                                         "recompute", "needs at least"};
    const search_result *f = &m->found;
    fs_arena *arena = m->c->arena;
    const search_config **list =
        fs_new(arena, const search_config *, f->n_configs + 1);
    report_table t = {.arena = arena, .n_columns = 5, .header = header};
    int32_t n = 0;
    for (int32_t k = 0; k < f->n_configs; k++)
        if (f->configs[k].need_bytes > 0)
            list[n++] = &f->configs[k];
    if (n < 2)
        return;
    qsort(list, (size_t)n, sizeof *list, by_need);
    for (int32_t k = 0; k < n && k < FEW; k++) {
        report_table_cell(&t, "%d", list[k]->n_stages);
        report_table_cell(
            &t, "%s", cli_meshes_text(arena, list[k]->mesh, list[k]->n_meshes));
        report_table_cell(&t, "%d", list[k]->micro_batches);
        report_table_cell(&t, "%s", list[k]->again ? "chosen" : "as asked");
        bytes_cell(&t, list[k]->need_bytes);
    }
    report_table_print(&t, stdout);
    if (n > FEW)
        cli_say(m->c, "(and %d more that need as much or more)\n", n - FEW);
    cli_say(m->c, "\n");
}

static void print_smallest(const cli_making *m, const smallest *s)
{
    const plan_strategy *strategy = m->found.misfit;
    char text[32];
    cli_say(m->c,
            "smallest plan   %s per device: %d stage%s of mesh %s, %d "
            "micro-batch%s, %s\n",
            fs_human_bytes(text, (double)s->most->role->arena_bytes),
            strategy->n_stages, strategy->n_stages == 1 ? "" : "s",
            cli_stage_meshes_text(m->c->arena, strategy),
            strategy->micro_batches, strategy->micro_batches == 1 ? "" : "es",
            strategy->schedule);
    cli_say(m->c, "fullest         %s at %s\n",
            plan_role_stages_text(s->most->role, m->c->arena),
            moment_text(m, s->most));
    print_holdings(m, s);
}

/* ---- the message ---- */

static const char *terms_text(const holding *h, fs_arena *arena)
{
    fs_text text = {.arena = arena};
    char bytes[32];
    for (int32_t k = 0; k < PLAN_TERMS; k++)
        if (h->full.bytes[k] > 0)
            fs_text_add(&text, "%s%s %s", text.n ? ", " : "",
                        plan_term_name((plan_term)k),
                        fs_human_bytes(bytes, (double)h->full.bytes[k]));
    return text.at;
}

/* What that plan is enough for: lowered with other options it would take more.
 */
static const char *known_to_do(const cli_making *m, int64_t bytes)
{
    double most = 0;
    if (cli_making_takes_more(m))
        return "";
    for (int32_t g = 0; g < m->cluster->n_groups; g++)
        most = fmax(most, m->cluster->groups[g].device.memory_bytes);
    if ((double)bytes <= most)
        return fs_printf(m->c->arena, ": --memory %lld is known to do",
                         (long long)bytes);
    return fs_printf(m->c->arena, ": devices of %lld bytes are known to do",
                     (long long)bytes);
}

/* "the smallest plan found takes 3 GiB and is over with its activations:
 * --memory 3221225472 is known to do". */
static void say_smallest(cli_making *m, const smallest *s)
{
    const plan_term over =
        plan_fullest_over(&s->most->full, s->most->limit_bytes);
    const int64_t bytes = s->most->role->arena_bytes;
    char taken[32];
    fs_err before = m->c->err;
    m->c->err = (fs_err){0};
    fs_fail(&m->c->err, FS_NO, "%s; the smallest %s %s%s%s%s", before.text,
            strcmp(m->found.status, "limit") == 0 ? "of them takes"
                                                  : "plan found takes",
            fs_human_bytes(taken, (double)bytes),
            over < PLAN_TERMS ? " and is over with its " : "",
            over < PLAN_TERMS ? plan_term_name(over) : "",
            known_to_do(m, bytes));
}

static fs_status fail_recipe(cli_making *m, const smallest *s)
{
    const holding *h = s->most;
    char taken[32], had[32];
    m->c->err = (fs_err){0};
    if (m->found.need_bytes > 0)
        return fs_fail(
            &m->c->err, FS_NO,
            "memory: the recipe does not fit: each of its plans needs at least "
            "%s on some device%s; %s",
            fs_human_bytes(taken, (double)m->found.need_bytes),
            h ? fs_printf(m->c->arena, ", the smallest one found takes %s",
                          fs_human_bytes(had, (double)h->role->arena_bytes))
              : "",
            levers(m));
    return fs_fail(
        &m->c->err, FS_NO,
        "memory: the recipe does not fit: the plan that comes nearest takes %s "
        "on each device of %s, which has %s (%s); %s",
        fs_human_bytes(taken, (double)h->role->arena_bytes),
        plan_role_stages_text(h->role, m->c->arena),
        fs_human_bytes(had, (double)h->limit_bytes), terms_text(h, m->c->arena),
        levers(m));
}

fs_status cli_making_misfit(cli_making *m)
{
    const search_result *found = &m->found;
    const bool prints = !m->c->args.json && !m->c->quiet;
    smallest s;
    if (found->need_bytes == 0 && !found->misfit)
        return FS_NO;
    lower_smallest(m, &s);
    put_json(m, &s);
    if (prints)
        print_needs(m);
    if (prints && s.most)
        print_smallest(m, &s);
    if (m->by_hand && (found->need_bytes > 0 || s.most))
        return fail_recipe(m, &s);
    if (s.most)
        say_smallest(m, &s);
    return FS_NO;
}
