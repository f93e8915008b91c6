/* Optimizer states in fewer bytes: said, or left to the search, which then has
 * each training graph in every precision of them (ir/states.def). */
#include "config.h"
#include "cli/making.h"

#include "cli/part.h"
#include "cli/states.h"
#include "ir/narrow_states.h"
#include "ir/op_util.h"
#include "ir/train.h"

#include <string.h>

static const char *const kinds[] = {
#define IR_STATES(name, dtype) name,
#include "ir/states.def"
#undef IR_STATES
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };
_Static_assert((int)N_KINDS == (int)CLI_MAX_STATES, "room for each kind");

static bool is_any(const char *states)
{
    return strcmp(states, "any") == 0;
}

/* Before a graph is made, as far as it can be told. */
static fs_status check(const plan_origin *o, fs_err *err)
{
    ir_optimizer optimizer;
    ir_dtype dtype = IR_F32;
    if (!is_any(o->states))
        FS_TRY(cli_part(o, "states", err,
                        ir_states_parse(o->states, err, &dtype)));
    if (!is_any(o->states) && dtype == IR_F32)
        return FS_OK;
    FS_TRY(cli_part(o, "optimizer", err,
                    ir_optimizer_parse(o->optimizer, err, &optimizer)));
    if (ir_optimizer_has_states(optimizer))
        return FS_OK;
    return cli_part_fail(o, "states", err,
                         "%s has no effect: optimizer %s keeps no states",
                         o->states, o->optimizer);
}

fs_status cli_making_take_states(cli_making *m)
{
    fs_err *err = &m->c->err;
    plan_origin *o = &m->origin;
    FS_TRY(check(o, err));
    m->any_states = is_any(o->states);
    if (!m->any_states)
        return FS_OK;
    if (m->by_hand)
        return cli_part_fail(o, "states", err,
                             "any is for search, which chooses; plan wants "
                             "fp32 or bf16");
    return FS_OK;
}

static fs_status narrow(const plan_origin *o, const char *kind, ir_graph *graph,
                        fs_err *err)
{
    ir_dtype dtype;
    FS_TRY(cli_part(o, "states", err, ir_states_parse(kind, err, &dtype)));
    if (dtype == IR_F32)
        return FS_OK;
    if (ir_narrow_states(graph, dtype) == 0)
        return cli_part_fail(o, "states", err,
                             "%s has no effect: %s has no states that take "
                             "more bytes",
                             kind, graph->name);
    return graph->err.status == FS_OK
               ? FS_OK
               : cli_part_fail(o, "states", err, "%s", graph->err.text);
}

fs_status cli_model_states(const plan_origin *o, ir_graph *graph, fs_err *err)
{
    if (!o->states)
        return FS_OK;
    FS_TRY(check(o, err));
    return narrow(o, o->states, graph, err);
}

void cli_tell_states(cli *c, const char *states, const ir_graph *graph)
{
    const char *said = states ? states : kinds[0];
    int64_t bytes = 0;
    char text[32];
    fs_json_set_text(c->result, "states", said);
    if (strcmp(said, kinds[0]) == 0)
        return;
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (graph->tensors.at[t].role == IR_STATE)
            bytes += ir_shape_bytes(&graph->tensors.at[t].shape,
                                    graph->tensors.at[t].dtype);
    cli_say(c, "states          %s: %s of optimizer states in all\n", said,
            fs_human_bytes(text, (double)bytes));
}

/* ---- all of them ---- */

/* All else is as in the graph, whose states are of the first kind. */
static fs_status with_kind(cli_making *m, const ir_graph *graph, int32_t kind,
                           const ir_graph **out)
{
    *out = graph;
    if (kind == 0)
        return FS_OK;
    ir_graph *copy = ir_graph_copy(graph, m->narrow);
    *out = copy;
    return narrow(&m->origin, kinds[kind], copy, &m->c->err);
}

void cli_making_begin_states(cli_making *m)
{
    if (!m->any_states)
        return;
    m->narrow = fs_arena_create();
    m->origin.states = kinds[0];
}

fs_status cli_making_add_states(cli_making *m)
{
    const int32_t n = m->n_models;
    m->n_graphs = n;
    if (!m->any_states)
        return FS_OK;
    m->n_graphs = N_KINDS * n;
    for (int32_t k = 0; k < m->n_graphs; k++) {
        const search_graph *of = &m->graphs[k % n];
        const ir_graph *graph;
        FS_TRY(with_kind(m, of->graph, k / n, &graph));
        m->graphs[k] = (search_graph){of->micro_batches, graph, kinds[k / n]};
    }
    return FS_OK;
}

const ir_graph *cli_making_with_states(cli_making *m, const ir_graph *graph,
                                       const search_graph *of)
{
    const int32_t kind = (int32_t)(of - m->graphs) / m->n_models;
    const ir_graph *made;
    return with_kind(m, graph, kind, &made) == FS_OK ? made : NULL;
}

void cli_making_end_states(cli_making *m)
{
    fs_arena_destroy(m->narrow);
    m->narrow = NULL;
}
