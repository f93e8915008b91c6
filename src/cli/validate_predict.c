/* What is predicted of a row: its plan is made by hand, lowered, simulated. */
#include "config.h"
#include "cli/validate.h"

#include "base/clock.h"
#include "cli/make_plan.h"
#include "cli/predict.h"

#include <math.h>

/* Room for any plan: whether it fits is an answer here, no condition. */
static const double any_bytes = 0x1p50;

static fs_status open_cluster(cli *c, const validate_case *t, hw_cluster **out,
                              int64_t *limit)
{
    FS_TRY(hw_cluster_open(t->cluster, c->data_dir, c->arena, &c->err, out));
    hw_cluster *cluster = *out;
    hw_device *device = &cluster->groups[0].device;
    if (t->outer_bps > 0) { /* as much of the wire as of the usual one */
        const double usable = 0.9;
        cluster->outer.bandwidth_bps = usable * t->outer_bps;
        cluster->nics_per_node = t->nics;
    }
    if (t->tf32 && device->tf32_flops > 0)
        device->fp32_flops = device->tf32_flops;
    *limit = (int64_t)device->memory_bytes;
    device->memory_bytes = any_bytes;
    hw_cluster_finish(cluster);
    return FS_OK;
}

/* Bytes are those that are live at once: where they lie is the framework's. */
static fs_status use(cli *c, const cli_plan *p, double formula_s, void *ctx)
{
    validate_prediction *out = ctx;
    sim_result sim;
    FS_TRY(cli_predict(c, p, NULL, &sim));
    out->iteration_s = sim.iteration_s;
    out->formula_s = formula_s;
    for (int32_t r = 0; r < p->plan->n_roles; r++)
        if (p->plan->roles[r].bound_bytes > out->bytes)
            out->bytes = p->plan->roles[r].bound_bytes;
    return FS_OK;
}

static fs_status predict(cli *c, const validate_case *t,
                         validate_prediction *out)
{
    hw_cluster *cluster;
    plan_origin origin = cli_origin(c, t->model, t->cluster);
    origin.batch = t->batch;
    origin.precision = t->precision;
    origin.recompute = t->recompute;
    origin.optimizer = t->optimizer;
    FS_TRY(open_cluster(c, t, &cluster, &out->limit));
    return cli_plan_unwritten(c, &origin, &t->recipe, cluster, use, out);
}

void validate_predict(cli *c, const validate_case *t, fs_arena *arena,
                      validate_prediction *out)
{
    const int64_t start_ns = fs_now_ns();
    cli own = *c;
    cli_args_absent(&own.args);
    ir_tables tables = ir_tables_in(fs_arena_create());
    own.arena = fs_arena_create();
    own.tables = &tables;
    own.err = (fs_err){0};
    own.db = NULL;
    own.result = json_object();
    own.quiet = own.mute = true;
    *out = (validate_prediction){.iteration_s = NAN, .formula_s = NAN};
    if (predict(&own, t, out) != FS_OK)
        out->failed = fs_strdup(arena, own.err.text);
    json_decref(own.result);
    fs_arena_destroy(own.arena);
    fs_arena_destroy(tables.arena);
    out->wall_s = 1e-9 * (double)(fs_now_ns() - start_ns);
}
