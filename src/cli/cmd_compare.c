/* Two plans of one model, side by side: what was chosen otherwise, then what
 * that costs where. */
#include "config.h"
#include "cli/compare.h"

#include "base/clock.h"
#include "cli/machine.h"
#include "cli/making.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

/* ---- settings ---- */

typedef struct setting {
    const char *name, *a, *b;
} setting;

enum { MOST_SETTINGS = 24 };

typedef struct settings {
    int32_t n;
    setting at[MOST_SETTINGS];
} settings;

static const char *or_none(const char *text)
{
    return text && text[0] ? text : "none";
}

static void add(settings *list, const char *name, const char *a, const char *b)
{
    FS_ASSERT(list->n < MOST_SETTINGS);
    if (strcmp(a, b) != 0)
        list->at[list->n++] = (setting){name, a, b};
}

static void add_number(settings *list, fs_arena *arena, const char *name,
                       int64_t a, int64_t b)
{
    add(list, name, fs_printf(arena, "%lld", (long long)a),
        fs_printf(arena, "%lld", (long long)b));
}

/* Blocks are those of the graph before what is computed again was bound to the
 * stages, which splits some. */
static const char *layers(cli *c, const cli_side *s)
{
    const ir_graph *bound = s->p.model.graph;
    const plan_strategy *strategy = s->p.plan->strategy;
    const plan_origin *o = &s->p.model.origin;
    cli_model whole;
    if (!(o->recompute && o->recompute[0]) && !(o->again && o->again[0]))
        return cli_layers_text(c->arena, bound, bound, strategy);
    if (cli_model_train(c, o, strategy->micro_batches, &whole) != FS_OK) {
        c->err = (fs_err){0};
        return "unknown";
    }
    const char *text = cli_layers_text(c->arena, whole.graph, bound, strategy);
    cli_model_close(&whole);
    return text;
}

static const char *meshes(const cli_side *s, fs_arena *arena)
{
    return cli_stage_meshes_text(arena, s->p.plan->strategy);
}

static const char *stage_devices(const cli_side *s, fs_arena *arena)
{
    const char *text = cli_stage_devices_text(arena, s->p.plan->strategy);
    return text ? text : "in order";
}

static const char *recomputed(const plan_origin *o, fs_arena *arena)
{
    if (o->again && o->again[0])
        return fs_printf(arena, "chosen from %s, %d kept", o->again, o->n_kept);
    return o->recompute && o->recompute[0] ? o->recompute : "none";
}

static const char *memory_limit(const plan_origin *o, fs_arena *arena)
{
    char text[32];
    if (o->memory_bytes == 0)
        return "the device's";
    return fs_printf(arena, "%s (--memory)",
                     fs_human_bytes(text, (double)o->memory_bytes));
}

static const char *compression(const plan_origin *o, fs_arena *arena)
{
    if (!o->compress || !o->compress[0])
        return "none";
    return fs_printf(arena, "%s of %d gradients", o->compress, o->n_compressed);
}

static const char *cluster(const cli_side *s, fs_arena *arena)
{
    const plan_origin *o = &s->p.model.origin;
    char digest[17];
    fs_hex(s->p.plan->cluster_digest, digest);
    return fs_printf(arena, "%s (%s)", o->cluster, digest);
}

/* Collectives of several tensors, of all roles. */
static int32_t count_buckets(const plan *p)
{
    int32_t n = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            n += p->roles[r].tasks[i].n_parts > 0;
    return n;
}

/* How the devices are used. */
static void add_shape(const cli_comparing *k, settings *list)
{
    fs_arena *arena = k->c->arena;
    const plan_strategy *a = k->a.p.plan->strategy, *b = k->b.p.plan->strategy;
    if (k->a.p.plan->cluster_digest != k->b.p.plan->cluster_digest)
        add(list, "cluster", cluster(&k->a, arena), cluster(&k->b, arena));
    add_number(list, arena, "devices", k->a.p.cluster->n_devices,
               k->b.p.cluster->n_devices);
    add_number(list, arena, "batch", a->batch, b->batch);
    add_number(list, arena, "micro-batches", a->micro_batches,
               b->micro_batches);
    add(list, "schedule", a->schedule, b->schedule);
    add(list, "overlap", plan_overlaps(k->a.p.plan) ? "yes" : "no",
        plan_overlaps(k->b.p.plan) ? "yes" : "no");
    add_number(list, arena, "buckets", count_buckets(k->a.p.plan),
               count_buckets(k->b.p.plan));
    add_number(list, arena, "stages", a->n_stages, b->n_stages);
    add_number(list, arena, "stages per device group",
               a->n_stages / k->a.p.plan->n_roles,
               b->n_stages / k->b.p.plan->n_roles);
    add(list, "mesh", meshes(&k->a, arena), meshes(&k->b, arena));
    add(list, "devices of stages", stage_devices(&k->a, arena),
        stage_devices(&k->b, arena));
    add(list, "layers", layers(k->c, &k->a), layers(k->c, &k->b));
    add(list, "memory limit", memory_limit(&k->a.p.model.origin, arena),
        memory_limit(&k->b.p.model.origin, arena));
}

/* How the training graph was made. */
static void add_training(const cli_comparing *k, settings *list)
{
    fs_arena *arena = k->c->arena;
    const plan_origin *a = &k->a.p.model.origin, *b = &k->b.p.model.origin;
    add(list, "loss", or_none(a->loss), or_none(b->loss));
    add(list, "optimizer", a->optimizer, b->optimizer);
    add(list, "precision", a->precision ? a->precision : "fp32",
        b->precision ? b->precision : "fp32");
    add(list, "states", a->states ? a->states : "fp32",
        b->states ? b->states : "fp32");
    add(list, "loss-scale", or_none(a->loss_scale), or_none(b->loss_scale));
    add(list, "recompute", recomputed(a, arena), recomputed(b, arena));
    add(list, "compress", compression(a, arena), compression(b, arena));
    add(list, "clip-norm", fs_printf(arena, "%g", a->clip_norm),
        fs_printf(arena, "%g", b->clip_norm));
    add(list, "rewrite", or_none(a->rewrite), or_none(b->rewrite));
    add(list, "dropout", a->dropout ? "yes" : "no", b->dropout ? "yes" : "no");
}

static void compare_settings(cli_comparing *k)
{
    static const char *const header[] = {"setting", "A", "B"};
    report_table t = {.arena = k->c->arena, .n_columns = 3, .header = header};
    settings list = {0};
    add_shape(k, &list);
    add_training(k, &list);
    for (int32_t i = 0; i < list.n; i++) {
        const setting *s = &list.at[i];
        json_array_append_new(k->differences,
                              json_pack("{s:s, s:s, s:o, s:o}", "kind",
                                        "setting", "name", s->name, "a",
                                        fs_json_string(s->a), "b",
                                        fs_json_string(s->b)));
        report_table_cell(&t, "%s", s->name);
        report_table_cell(&t, "%s", s->a);
        report_table_cell(&t, "%s", s->b);
    }
    if (list.n == 0)
        cli_say(k->c, "\nsettings: all alike\n");
    else if (!k->c->args.json) {
        cli_say(k->c, "\n");
        report_table_print(&t, stdout);
    }
}

/* ---- both ---- */

static json_t *side_json(const cli_side *s)
{
    char digest[17];
    fs_hex(s->p.plan->digest, digest);
    return json_pack("{s:o, s:s, s:f, s:f}", "plan", fs_json_string(s->file),
                     "plan_digest", digest, "iteration_s", s->cost.iteration_s,
                     "sim_iteration_s", s->p.model.origin.sim_iteration_s);
}

static void tell_side(const cli *c, const char *name, const cli_side *s)
{
    char formula[32], simulated[32];
    const double sim_s = s->p.model.origin.sim_iteration_s;
    cli_say(c, "%s  %s: %s by the formula%s%s\n", name, s->file,
            fs_human_seconds(formula, s->cost.iteration_s),
            sim_s > 0 ? ", simulated " : "",
            sim_s > 0 ? fs_human_seconds(simulated, sim_s) : "");
}

static void tell_verdict(const cli_comparing *k)
{
    const double a = k->a.cost.iteration_s, b = k->b.cost.iteration_s;
    const bool same =
        k->a.p.plan->digest && k->a.p.plan->digest == k->b.p.plan->digest;
    char text[32];
    fs_json_set_bool(k->c->result, "same_plan", same);
    if (same)
        cli_say(k->c, "   they are the same plan\n");
    else if (fabs(b - a) <= 1e-9 * a)
        cli_say(k->c, "   by the formula they take the same time\n");
    else
        cli_say(k->c, "   B takes %s %s per step (%+.3g %%)\n",
                fs_human_seconds(text, fabs(b - a)), b > a ? "more" : "less",
                100 * (b / a - 1));
}

static fs_status compare(cli_comparing *k)
{
    cli *c = k->c;
    cli_side *sides[] = {&k->a, &k->b};
    for (int32_t i = 0; i < 2; i++)
        FS_TRY(cost_strategy(sides[i]->p.cost, sides[i]->p.model.graph,
                             sides[i]->p.plan->strategy, c->arena, &c->err,
                             &sides[i]->cost));
    k->differences = json_array();
    json_object_set_new(c->result, "a", side_json(&k->a));
    json_object_set_new(c->result, "b", side_json(&k->b));
    json_object_set_new(c->result, "differences", k->differences);
    tell_side(c, "A", &k->a);
    tell_side(c, "B", &k->b);
    tell_verdict(k);
    compare_settings(k);
    cli_compare_costs(k);
    cli_compare_ops(k);
    return FS_OK;
}

/* Ops of other models have nothing to do with each other. */
static fs_status check_model(cli_comparing *k)
{
    char a[17], b[17];
    if (k->a.p.plan->model_digest == k->b.p.plan->model_digest)
        return FS_OK;
    fs_hex(k->a.p.plan->model_digest, a);
    fs_hex(k->b.p.plan->model_digest, b);
    return fs_fail(&k->c->err, FS_INVALID,
                   "%s is a plan of %s (model_digest %s), %s one of %s (%s); "
                   "two plans of one model are compared",
                   k->a.file, k->a.p.model.origin.model, a, k->b.file,
                   k->b.p.model.origin.model, b);
}

fs_status cli_cmd_compare(cli *c)
{
    if (c->args.n_operands != 2)
        return fs_fail(&c->err, FS_INVALID, "compare wants two PLANs, A and B");
    cli_comparing k = {
        .c = c, .a.file = c->args.operands[0], .b.file = c->args.operands[1]};
    FS_TRY(cli_plan_open(c, k.a.file, &k.a.p));
    fs_status status = cli_plan_open(c, k.b.file, &k.b.p);
    if (status == FS_OK) {
        status = check_model(&k);
        if (status == FS_OK)
            status = cli_machine_tell(c, k.a.file, k.a.p.cluster);
        if (status == FS_OK)
            status = cli_machine_tell(c, k.b.file, k.b.p.cluster);
        if (status == FS_OK)
            status = cli_begin_plan(c, &k.a.p);
        if (status == FS_OK)
            status = compare(&k);
        cli_plan_close(&k.b.p);
    }
    cli_plan_close(&k.a.p);
    return status;
}
