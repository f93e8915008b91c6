#include "config.h"
#include "cli/interval.h"

#include "base/clock.h"
#include "cli/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *cli_network_kind(const ir_graph *graph)
{
    int32_t convolutions = 0, scores = 0;
    bool picks = false;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_op_kind op = graph->nodes.at[v].op;
        const ir_op_class op_class = ir_op_class_of(op);
        convolutions += op_class == IR_CLASS_CONV;
        scores += op_class == IR_CLASS_ATTENTION || op == IR_OP_softmax;
        picks |= op == IR_OP_top_k;
    }
    if (scores > convolutions)
        return picks ? "experts" : "transformer";
    return convolutions ? "cnn" : "other";
}

/* ---- of ranks of a host: runs in the database ---- */

typedef struct ratios {
    fs_arena *arena;
    FS_VEC(double) at;
    int32_t left_out; /* plans that never ran so that they count */
} ratios;

static void take_ratio(void *ctx, int n, const char *const *columns,
                       const char *const *values)
{
    ratios *r = ctx;
    (void)n;
    (void)columns;
    const double ratio = values[0] ? strtod(values[0], NULL) : 0;
    if (ratio > 0)
        fs_push(r->arena, &r->at, ratio);
    else
        r->left_out++;
}

/* The last run of each plan that ran on the machine of these figures and was
 * predicted with them; no number where a plan has none. By fingerprint: a host
 * that keeps its name may have got another kernel, or fewer cores. */
static const char *own_query(fs_arena *arena, const char *machine)
{
    return fs_printf(
        arena,
        "SELECT (SELECT m.value / p.value FROM runs r"
        "  JOIN figures p ON p.run = r.id AND p.name = 'predicted_step_s'"
        "  JOIN figures m ON m.run = r.id AND m.name = 'step_median_s'"
        "  WHERE r.command = 'run' AND r.status = 0"
        "  AND r.plan_digest = d.plan_digest"
        "  AND json_extract(r.json, '$.machine') = '%s'"
        "  AND json_extract(r.json, '$.figures_of') = '%s'"
        "  ORDER BY r.id DESC LIMIT 1)"
        " FROM (SELECT DISTINCT plan_digest FROM runs WHERE command = 'run'"
        "  AND status = 0 AND plan_digest IS NOT NULL) d",
        machine, machine);
}

/* Whose runs these are, in words. */
static const char *where_text(cli *c, const hw_cluster *cluster)
{
    bool own = false;
    cli_machine_is_here(c, cluster, &own);
    return own ? "this host"
               : cli_machine_name(c->arena, cluster->machine, cluster->host);
}

static void own_runs(cli *c, const cli_plan *p, cli_interval *out)
{
    ratios r = {.arena = c->arena};
    fs_err ignored = {0};
    const char *machine = p->cluster->machine;
    out->why = "runs on this host are looked for in the database, and there is "
               "none";
    if (!c->db)
        return;
    out->why = "the plan does not say of which machine its figures are";
    if (!machine)
        return;
    if (store_query(c->db, own_query(c->arena, machine), take_ratio, &r,
                    &ignored) != FS_OK)
        return;
    const char *where = where_text(c, p->cluster);
    const char *left =
        r.left_out ? fs_printf(c->arena,
                               "; %d left out, which ran on other machines, or "
                               "were predicted with others' figures, or do not "
                               "say",
                               r.left_out)
                   : "";
    out->r = cost_residual_of(r.at.at, r.at.n, c->arena);
    out->of = fs_printf(c->arena, "plans that ran on %s (any network%s)", where,
                        left);
    out->why = fs_printf(c->arena,
                         "%d plan%s of the %d that it takes ha%s run on %s "
                         "so far (the last run of each counts%s)",
                         r.at.n, r.at.n == 1 ? "" : "s", COST_FEWEST_RESIDUALS,
                         r.at.n == 1 ? "s" : "ve", where, left);
}

/* ---- of described clusters: published runs ---- */

/* "transformer, 16-bit, a100-sxm4-80g, one node, megatron-lm" */
static const char *regime_text(cli *c, const cost_residual *r)
{
    const char *const parts[] = {r->network, r->precision, r->device, r->scale,
                                 r->framework};
    fs_text text = {.arena = c->arena};
    for (int k = 0; k < 5; k++)
        if (parts[k])
            fs_text_add(&text, "%s%s", text.n ? ", " : "", parts[k]);
    return text.at;
}

/* Does the device have the figures of the data folder's file of that name? A
 * file of one's own may give it others. */
static bool is_as_shipped(cli *c, const hw_device *device)
{
    hw_cluster *shipped;
    fs_err ignored = {0};
    if (hw_cluster_open(fs_printf(c->arena, "1x1:%s", device->name),
                        c->data_dir, c->arena, &ignored, &shipped) != FS_OK)
        return false;
    const hw_device *other = &shipped->groups[0].device;
    return device->bf16_flops == other->bf16_flops &&
           device->fp16_flops == other->fp16_flops &&
           device->fp32_flops == other->fp32_flops &&
           device->memory_bps == other->memory_bps &&
           device->matmul_efficiency == other->matmul_efficiency;
}

/* Nobody measured what is no real machine's. */
static const char *of_nobody(cli *c, const hw_cluster *cluster)
{
    if (c->args.set.n > 0)
        return "nobody measured a cluster changed by --set";
    if (c->args.straggler)
        return "published runs are of ranks that do alike (--straggler)";
    if (c->args.jitter > 0)
        return "published runs were predicted without --jitter, and have what "
               "they had of it";
    if (cluster->n_groups > 1)
        return "no published run is of devices of several kinds";
    if (!is_as_shipped(c, &cluster->groups[0].device))
        return fs_printf(c->arena,
                         "no published run is of a device with the figures of "
                         "this %s",
                         cluster->groups[0].device.name);
    return NULL;
}

static fs_status published(cli *c, const cli_plan *p, const char *framework,
                           cli_interval *out)
{
    cost_residuals all;
    const hw_cluster *cluster = p->cluster;
    const hw_device *device = &cluster->groups[0].device;
    const char *file = fs_printf(c->arena, "%s/residuals.json", c->data_dir);
    const cost_measured asked = {
        .network = cli_network_kind(p->model.graph),
        .precision =
            cost_precision_name(p->model.origin.precision, device->uses_tf32),
        .device = device->name,
        .scale = cost_scale_name(cluster->n_devices, cluster->n_nodes),
        .framework = framework};
    out->why = of_nobody(c, cluster);
    if (out->why)
        return FS_OK;
    if (access(file, F_OK) != 0) {
        out->why = fs_printf(c->arena, "there is no %s", file);
        return FS_OK;
    }
    FS_TRY(cost_residuals_read(file, c->arena, &c->err, &all));
    const cost_residual *found = cost_residuals_find(&all, &asked);
    const cost_residual like = {.network = asked.network,
                                .precision = asked.precision,
                                .device = asked.device};
    out->why =
        fs_printf(c->arena, "fewer than %d published runs resemble it (%s)",
                  COST_FEWEST_RESIDUALS, regime_text(c, &like));
    if (!found)
        return FS_OK;
    out->r = *found;
    out->of =
        fs_printf(c->arena, "published runs (%s%s)", regime_text(c, found),
                  !framework          ? "; by other runtimes than this one"
                  : !found->framework ? "; most by other frameworks than that"
                                      : "");
    return FS_OK;
}

fs_status cli_interval_of(cli *c, const cli_plan *p, const char *framework,
                          cli_interval *out)
{
    *out = (cli_interval){0};
    if (p->cluster->groups[0].cores_per_node < 1)
        return published(c, p, framework, out);
    own_runs(c, p, out);
    if (c->args.set.n > 0 || c->args.straggler || c->args.jitter > 0 ||
        framework)
        *out = (cli_interval){.why = "runs on this host were of it as it is"};
    return FS_OK;
}

/* Where most runs of a regime took longer, or shorter, than predicted the
 * prediction is none of the times to expect; it is told as it is, for what a
 * plan gains over another holds all the same. */
static void say_interval(cli *c, const cli_interval *interval,
                         double iteration_s)
{
    const cost_residual *r = &interval->r;
    const bool within = r->low <= 1 && r->high >= 1;
    char low[32], middle[32], high[32], predicted[32];
    fs_human_seconds(low, r->low * iteration_s);
    fs_human_seconds(middle, r->median * iteration_s);
    fs_human_seconds(high, r->high * iteration_s);
    if (within)
        cli_say(c, "uncertain       %s to %s, in the middle %s: ", low, high,
                middle);
    else
        cli_say(c,
                "expect          %s to %s, in the middle %s, and not the %s "
                "predicted, which is too %s: ",
                low, high, middle, fs_human_seconds(predicted, iteration_s),
                r->low > 1 ? "short" : "long");
    cli_say(c,
            "eight of ten of %d %s took %.4g to %.4g times what is predicted "
            "of them, the median %.4g\n",
            r->rows, interval->of, r->low, r->high, r->median);
}

void cli_interval_tell(cli *c, const cli_interval *interval, double iteration_s)
{
    const cost_residual *r = &interval->r;
    if (!r->rows) {
        json_object_set_new(c->result, "interval_unknown",
                            fs_json_string(interval->why));
        cli_say(c, "uncertain       by how much is not known: %s\n",
                interval->why);
        return;
    }
    json_object_set_new(
        c->result, "interval",
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:i, s:s}", "low_s",
                  r->low * iteration_s, "median_s", r->median * iteration_s,
                  "high_s", r->high * iteration_s, "low", r->low, "median",
                  r->median, "high", r->high, "has_predicted",
                  r->low <= 1 && r->high >= 1, "rows", r->rows, "of",
                  interval->of));
    say_interval(c, interval, iteration_s);
}
