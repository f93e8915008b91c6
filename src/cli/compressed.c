#include "config.h"
#include "cli/compressed.h"

#include "base/clock.h"
#include "ir/compress.h"
#include "ir/op.h"

#include <math.h>

/* ---- what moves ---- */

/* Which parameter's gradient a tensor is, or a form of it on its way from the
 * backward pass to the update. */
typedef struct ways {
    const ir_graph *graph;
    int32_t *of; /* [tensor] the parameter, -1 */
} ways;

/* What keeps its entries apart, one for one. */
static bool passes(const ir_node *node)
{
    const ir_op_class kind = ir_op_class_of(node->op);
    return node->phase != IR_FORWARD &&
           (kind == IR_CLASS_POINTWISE || kind == IR_CLASS_VIEW ||
            kind == IR_CLASS_COPY);
}

static int64_t entries(const ir_graph *graph, int32_t tensor)
{
    return ir_shape_count(&graph->tensors.at[tensor].shape);
}

static void walk_back(ways *w, int32_t tensor, int32_t param)
{
    const ir_graph *graph = w->graph;
    const ir_node *node = &graph->nodes.at[graph->tensors.at[tensor].producer];
    const bool packs = ir_compresses(graph, node) == param;
    if (w->of[tensor] >= 0 || tensor == param)
        return;
    w->of[tensor] = param;
    for (int32_t k = 0; (packs || passes(node)) && k < node->n_in; k++)
        if (packs || entries(graph, node->in[k]) == entries(graph, param))
            walk_back(w, node->in[k], param);
}

static ways find_ways(const ir_graph *graph, fs_arena *arena)
{
    ways w = {graph, fs_new(arena, int32_t, graph->tensors.n)};
    for (int32_t t = 0; t < graph->tensors.n; t++)
        w.of[t] = -1;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (ir_op_class_of(node->op) == IR_CLASS_UPDATE && node->n_in > 1 &&
            graph->tensors.at[node->in[0]].role == IR_PARAM)
            walk_back(&w, node->in[1], node->in[0]);
    }
    return w;
}

/* By one rank: an all-reduce goes in two halves, all else once, and what is
 * one's own stays. */
static double sent_bytes(const ir_mesh *mesh, const plan_box_step *step)
{
    double members = 1;
    if (!plan_box_is_collective(step->kind))
        return 0;
    for (int32_t a = 0; a < mesh->n; a++)
        members *= step->axes >> a & 1 ? mesh->dim[a] : 1;
    const double most = fmax((double)step->bytes_in, (double)step->bytes_out);
    const double once = step->kind == PLAN_HALO
                            ? (double)(step->bytes_out - step->bytes_in)
                            : most * (members - 1) / members;
    return (step->kind == PLAN_ALL_REDUCE ? 2 : 1) * once;
}

static bool reduces(const ir_mesh *mesh, const plan_box_step *step)
{
    for (int32_t a = 0; a < mesh->n; a++)
        if (step->axes >> a & 1 && plan_box_is_collective(step->kind) &&
            ir_sbp_is_partial(step->from.at[a]))
            return true;
    return false;
}

/* Of each tensor that is a parameter: for its gradient. */
typedef struct moves {
    double *bytes; /* of all ranks in a step */
    bool *reduced;
} moves;

static void add_task(const plan *p, const plan_role *role,
                     const plan_task *task, const plan_box_step *box,
                     int32_t param, moves *out)
{
    const ir_mesh *mesh = plan_role_mesh(p, role);
    const bool once = task->phase == PLAN_BEGIN || task->phase == PLAN_END;
    const double times = (once ? 1 : p->micro_batches) * role->n_ranks;
    out->bytes[param] += times * sent_bytes(mesh, box);
    out->reduced[param] |= reduces(mesh, box);
}

static moves find_moves(const cli_plan *p, fs_arena *arena)
{
    const ir_graph *graph = p->model.graph;
    const ways w = find_ways(graph, arena);
    moves out = {fs_new(arena, double, graph->tensors.n),
                 fs_new(arena, bool, graph->tensors.n)};
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_task *task = &role->tasks[i];
            const int32_t n =
                task->kind == PLAN_BOX ? plan_task_n_parts(task) : 0;
            for (int32_t k = 0; k < n; k++) {
                const plan_part part = plan_task_part(task, k);
                if (w.of[part.tensor] >= 0)
                    add_task(p->plan, role, task, &part.box, w.of[part.tensor],
                             &out);
            }
        }
    }
    return out;
}

/* ---- what is taken ---- */

static bool is_trained(const ir_graph *graph, int32_t tensor)
{
    const ir_tensor *t = &graph->tensors.at[tensor];
    return t->role == IR_PARAM && t->next >= 0;
}

void cli_compressed_begin(const cli_plan *plain, fs_arena *arena,
                          cli_compressed *out)
{
    const ir_graph *graph = plain->model.graph;
    const moves m = find_moves(plain, arena);
    *out = (cli_compressed){0, fs_new(arena, cli_gradient, graph->tensors.n)};
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (is_trained(graph, t))
            out->at[out->n++] = (cli_gradient){
                .param = fs_strdup(arena, graph->tensors.at[t].name),
                .taken = m.reduced[t] ? CLI_TAKEN : CLI_NOT_REDUCED,
                .plain_bytes = m.bytes[t]};
}

int32_t cli_compressed_drop(cli_compressed *k, const cli_plan *p,
                            fs_arena *arena)
{
    const ir_graph *graph = p->model.graph;
    const moves m = find_moves(p, arena);
    int32_t dropped = 0;
    for (int32_t i = 0; i < k->n; i++) {
        cli_gradient *g = &k->at[i];
        const int32_t t = ir_graph_find(graph, g->param);
        if (g->taken != CLI_TAKEN)
            continue;
        g->bytes = m.bytes[t];
        if (ir_compressed(graph, t) >= 0 && g->bytes < g->plain_bytes)
            continue;
        g->taken = CLI_NOT_SMALLER;
        dropped++;
    }
    return dropped;
}

int32_t cli_compressed_names(const cli_compressed *k, fs_arena *arena,
                             plan_origin *origin)
{
    origin->n_compressed = 0;
    origin->compressed = fs_new(arena, const char *, k->n);
    for (int32_t i = 0; i < k->n; i++)
        if (k->at[i].taken == CLI_TAKEN)
            origin->compressed[origin->n_compressed++] = k->at[i].param;
    return origin->n_compressed;
}

static int32_t count(const cli_compressed *k, cli_taken taken)
{
    int32_t n = 0;
    for (int32_t i = 0; i < k->n; i++)
        n += k->at[i].taken == taken;
    return n;
}

fs_status cli_compressed_refuse(cli *c, const cli_compressed *k,
                                const char *how, int32_t zero)
{
    const int32_t large = count(k, CLI_NOT_SMALLER);
    if (large == 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--compress %s has no effect: in this plan ranks add up "
                       "none of the %d gradients; leave it out",
                       how, k->n);
    return fs_fail(
        &c->err, FS_INVALID,
        "--compress %s has no effect: ranks add up %d of the %d gradients, and "
        "compressed, none of these moves fewer bytes in the fastest plan%s; "
        "leave it out",
        how, large, k->n,
        zero >= 2 ? " (from zero=2 on they are reduced in each micro-batch, "
                    "before they are compressed)"
                  : "");
}

/* ---- telling ---- */

static json_t *names_of(const cli_compressed *k, cli_taken taken)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < k->n; i++)
        if (k->at[i].taken == taken)
            json_array_append_new(list, fs_json_string(k->at[i].param));
    return list;
}

static void tell_others(cli *c, const cli_compressed *k, double plain)
{
    const int32_t apart = count(k, CLI_NOT_REDUCED);
    const int32_t large = count(k, CLI_NOT_SMALLER);
    fs_json_set_real(c->result, "plain_bytes", plain);
    json_object_set_new(c->result, "compressed", names_of(k, CLI_TAKEN));
    json_object_set_new(c->result, "not_reduced", names_of(k, CLI_NOT_REDUCED));
    json_object_set_new(c->result, "not_smaller", names_of(k, CLI_NOT_SMALLER));
    if (apart + large > 0)
        cli_say(c,
                "                of the others ranks add up %d, which "
                "compressed move no fewer bytes\n",
                large);
}

void cli_tell_compressed(cli *c, const cli_plan *p, const cli_compressed *k)
{
    const ir_graph *graph = p->model.graph;
    const char *how = p->model.origin.compress;
    int32_t packed = 0, params = 0;
    double plain = 0, moved = 0;
    char a[32], b[32];
    if (!how || !how[0])
        return;
    const moves m = find_moves(p, c->arena);
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        const bool taken = is_trained(graph, t) && ir_compressed(graph, t) >= 0;
        params += is_trained(graph, t);
        packed += taken;
        moved += taken ? m.bytes[t] : 0;
    }
    for (int32_t i = 0; k && i < k->n; i++)
        plain += k->at[i].taken == CLI_TAKEN ? k->at[i].plain_bytes : 0;
    fs_json_set_text(c->result, "compress", how);
    fs_json_set_int(c->result, "compressed_gradients", packed);
    fs_json_set_int(c->result, "uncompressed_gradients", params - packed);
    fs_json_set_real(c->result, "compressed_bytes", moved);
    cli_say(c,
            "compress        %s: %d of %d gradients; for them %s move per step",
            how, packed, params, fs_human_bytes(a, moved));
    if (k)
        cli_say(c, ", %s without", fs_human_bytes(b, plain));
    cli_say(c, "\n");
    if (k)
        tell_others(c, k, plain);
}
