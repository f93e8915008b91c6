#include "config.h"
#include "cli/interval.h"

#include "base/clock.h"
#include "cost/residuals.h"

#include <stdlib.h>
#include <string.h>

const char *cli_network_kind(const ir_graph *graph)
{
    int32_t convolutions = 0, scores = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_op_class op_class = ir_op_class_of(graph->nodes.at[v].op);
        convolutions += op_class == IR_CLASS_CONV;
        scores += op_class == IR_CLASS_ATTENTION ||
                  graph->nodes.at[v].op == IR_OP_softmax;
    }
    return scores > convolutions ? "transformer"
           : convolutions        ? "cnn"
                                 : "other";
}

/* ---- of this host: runs in the database ---- */

typedef struct ratios {
    fs_arena *arena;
    FS_VEC(double) at;
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
}

/* The last run of each plan on this host. */
static bool own_runs(cli *c, const cli_plan *p, cost_residual *out)
{
    ratios r = {.arena = c->arena};
    fs_err ignored = {0};
    if (!c->db || !p->cluster->host)
        return false;
    for (const char *at = p->cluster->host; *at; at++)
        if (*at == '\'')
            return false;
    const char *sql = fs_printf(
        c->arena,
        "SELECT m.value / p.value FROM runs r"
        " JOIN figures p ON p.run = r.id AND p.name = 'predicted_step_s'"
        " JOIN figures m ON m.run = r.id AND m.name = 'step_median_s'"
        " WHERE r.command = 'run' AND r.status = 0 AND r.host = '%s'"
        " AND r.id IN (SELECT max(id) FROM runs WHERE command = 'run'"
        "  AND status = 0 GROUP BY plan_digest)",
        p->cluster->host);
    if (store_query(c->db, sql, take_ratio, &r, &ignored) != FS_OK)
        return false;
    *out = cost_residual_of(r.at.at, r.at.n, c->arena);
    return out->rows > 0;
}

/* ---- of described clusters: published runs ---- */

static bool published(cli *c, const cli_plan *p, cost_residual *out)
{
    cost_residuals all;
    fs_err ignored = {0};
    const hw_cluster *cluster = p->cluster;
    if (cost_residuals_read(
            fs_printf(c->arena, "%s/residuals.json", c->data_dir), c->arena,
            &ignored, &all) != FS_OK)
        return false;
    const cost_residual *found = cost_residuals_find(
        &all, cli_network_kind(p->model.graph), cluster->groups[0].device.name,
        cost_scale_name(cluster->n_devices, cluster->n_nodes));
    if (!found)
        return false;
    *out = *found;
    return true;
}

/* "transformer, a100-sxm4-80g, one node" */
static const char *regime_text(cli *c, const cost_residual *r)
{
    const char *const parts[] = {r->network, r->device, r->scale};
    fs_text text = {.arena = c->arena};
    for (int k = 0; k < 3; k++)
        if (parts[k])
            fs_text_add(&text, "%s%s", text.n ? ", " : "", parts[k]);
    return text.n ? text.at : "any network anywhere";
}

void cli_tell_interval(cli *c, const cli_plan *p, double iteration_s)
{
    const bool local = p->cluster->groups[0].cores_per_node > 0;
    cost_residual r = {0};
    char low[32], high[32];
    if (local ? !own_runs(c, p, &r) : !published(c, p, &r))
        return;
    const char *of =
        local ? "runs of this database on this host"
              : fs_printf(c->arena, "published runs (%s)", regime_text(c, &r));
    json_object_set_new(
        c->result, "interval",
        json_pack("{s:f, s:f, s:i, s:s}", "low_s", r.low * iteration_s,
                  "high_s", r.high * iteration_s, "rows", r.rows, "of", of));
    cli_say(c,
            "uncertain       %s to %s: eight of ten of %d %s took %.3g to "
            "%.3g times what is predicted of them\n",
            fs_human_seconds(low, r.low * iteration_s),
            fs_human_seconds(high, r.high * iteration_s), r.rows, of, r.low,
            r.high);
}
