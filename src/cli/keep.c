/* What a run is of, kept in the database once by digest. Faults are late: what
 * the command found stands. */
#include "config.h"
#include "cli/cli.h"

#include "ir/op_util.h"

#include <stdlib.h>

static void keep_cluster(cli *c, const hw_cluster *cluster)
{
    json_t *root = hw_cluster_to_json(cluster);
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    store_cluster(c->db, cluster->digest, text, &c->late);
    free(text);
}

static void keep_model(cli *c, const cli_model *model)
{
    const ir_graph *graph = model->graph;
    store_model_facts facts = {.path = model->origin.model,
                               .name = graph->name};
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (x->role != IR_PARAM)
            continue;
        int64_t n = ir_shape_count(&x->shape);
        int64_t bytes = ir_shape_bytes(&x->shape, x->dtype);
        facts.params = ir_add_sat(facts.params, n);
        facts.param_bytes = ir_add_sat(facts.param_bytes, bytes);
    }
    store_model(c->db, graph->digest, &facts, &c->late);
}

void cli_keep(cli *c, const cli_model *model, const hw_cluster *cluster)
{
    if (cli_keeps(c) && model)
        keep_model(c, model);
    if (cli_keeps(c) && cluster)
        keep_cluster(c, cluster);
}

fs_status cli_begin_plan(cli *c, const cli_plan *p)
{
    const plan_origin *o = &p->model.origin;
    FS_TRY(cli_begin(c, o->model, o->cluster));
    FS_TRY(cli_digests(c, p->plan->model_digest, p->plan->cluster_digest,
                       p->plan->digest));
    cli_keep(c, &p->model, p->cluster);
    return FS_OK;
}
