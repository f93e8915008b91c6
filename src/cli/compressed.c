/* What a plan compresses, and what that saves: bytes that all ranks send in a
 * step for the gradients that are compressed, and what they would send for
 * the gradients as they are. */
#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "ir/compress.h"

#include <math.h>

/* Of all ranks of the mesh: an all-reduce goes in two halves, all else once,
 * and what is one's own stays. */
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
    return (step->kind == PLAN_ALL_REDUCE ? 2 : 1) * once * ir_mesh_size(mesh);
}

/* Boxing by bytes alone. */
static double price(void *ctx, const plan_stage *stage,
                    const plan_box_step *step)
{
    (void)ctx;
    return 1e-6 + sent_bytes(&stage->mesh, step);
}

/* The tensor that a parameter's compression begins with. */
static int32_t gradient_of(const ir_graph *graph, int32_t param)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (ir_compresses(graph, node) == param)
            return node->in[0];
    }
    return -1;
}

/* The optimizer's node. */
static int32_t update_of(const ir_graph *graph, int32_t param)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (ir_op_class_of(node->op) == IR_CLASS_UPDATE && node->n_in > 1 &&
            node->in[0] == param)
            return v;
    }
    return -1;
}

/* Of boxing the gradient as it is to where its update wants it. */
static double plain_bytes(const cli_plan *p, int32_t param, plan_boxer *boxer)
{
    const ir_graph *graph = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    const ir_tensor *t = &graph->tensors.at[gradient_of(graph, param)];
    const int32_t update = update_of(graph, param);
    return plan_boxer_find(boxer, t, &s->stages[s->stage_of[t->producer]],
                           &s->sig[t->producer].out[t->slot],
                           &s->sig[update].in[1], NULL);
}

/* Is the tensor made on the way of a compressed gradient, or such a gradient?
 */
static bool on_the_way(const ir_graph *graph, int32_t tensor,
                       const bool *gradient)
{
    const ir_node *node = &graph->nodes.at[graph->tensors.at[tensor].producer];
    return gradient[tensor] || ir_compresses(graph, node) >= 0;
}

static double moved_bytes(const cli_plan *p, const bool *gradient)
{
    double sum = 0;
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        const ir_mesh *mesh = plan_role_mesh(p->plan, role);
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_task *task = &role->tasks[i];
            if (task->kind == PLAN_BOX &&
                on_the_way(p->model.graph, task->tensor, gradient))
                sum += sent_bytes(mesh, &task->box);
        }
    }
    return sum;
}

void cli_tell_compressed(cli *c, const cli_plan *p)
{
    const ir_graph *graph = p->model.graph;
    const char *how = p->model.origin.compress;
    fs_arena *arena = c->arena;
    bool *gradient = fs_new(arena, bool, graph->tensors.n);
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = price}, arena);
    int32_t packed = 0, params = 0;
    double plain = 0;
    char a[32], b[32];
    if (!how || !how[0])
        return;
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        if (graph->tensors.at[t].role != IR_PARAM)
            continue;
        params++;
        if (ir_compressed(graph, t) < 0)
            continue;
        packed++;
        gradient[gradient_of(graph, t)] = true;
        plain += plain_bytes(p, t, boxer);
    }
    const double moved = moved_bytes(p, gradient);
    fs_json_set_text(c->result, "compress", how);
    fs_json_set_int(c->result, "compressed_gradients", packed);
    fs_json_set_int(c->result, "uncompressed_gradients", params - packed);
    fs_json_set_real(c->result, "compressed_bytes", moved);
    fs_json_set_real(c->result, "plain_bytes", plain);
    cli_say(c,
            "compress        %s: %d of %d gradients; for them %s move per step "
            "instead of %s\n",
            how, packed, params, fs_human_bytes(a, moved),
            fs_human_bytes(b, plain));
}
