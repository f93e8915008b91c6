/* Loss scaling. With g the gradients of all parameters and s the scale:
 *
 *   ok      = sum of g^2 <= the largest float     (not when any is NaN or inf)
 *   w.next  = ok ? update(w, g / s) : w           every parameter and state
 *   s.next  = ok ? (good + 1 < N ? s : 2 s) : s / 2
 *
 * The sum of squares is a partial value where gradients are cut, so that each
 * rank looks at what it holds and all ranks judge alike. */
#include "config.h"
#include "ir/loss_scale.h"
#include "ir/train.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const double usual_scale = 65536;
enum { USUAL_STEPS = 2000 };

fs_status ir_precision_parse(const char *text, fs_err *err, ir_dtype *out)
{
    static const struct {
        const char *name;
        ir_dtype dtype;
    } known[] = {{"fp32", IR_F32}, {"bf16", IR_BF16}, {"fp16", IR_F16}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strcmp(text, known[k].name) == 0) {
            *out = known[k].dtype;
            return FS_OK;
        }
    return fs_fail(err, FS_INVALID,
                   "precision '%.40s' is unknown: fp32, bf16 or fp16", text);
}

/* ---- what the user says ---- */

/* A number from `least` to what a float holds, up to a comma or the end. */
static bool read_number(const char *text, double least, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || (*end && *end != ',') ||
        !(value >= least && value <= FLT_MAX))
        return false;
    *out = value;
    return true;
}

static fs_status parse_item(const char *item, fs_err *err, ir_loss_scale *out)
{
    double steps;
    if (strncmp(item, "from=", 5) == 0 &&
        read_number(item + 5, FLT_MIN, &out->from))
        return FS_OK;
    if (strncmp(item, "steps=", 6) == 0 && read_number(item + 6, 1, &steps) &&
        steps <= 1e9) {
        out->steps = (int64_t)steps;
        return FS_OK;
    }
    return fs_fail(err, FS_INVALID,
                   "loss scale: '%.40s' is neither from=X above 0 nor steps=N "
                   "of 1 or more",
                   item);
}

fs_status ir_loss_scale_parse(const char *text, ir_dtype narrow, fs_err *err,
                              ir_loss_scale *out)
{
    ir_loss_scale scale = {usual_scale, true, USUAL_STEPS};
    if (!text[0]) {
        *out = narrow == IR_F16 ? scale : (ir_loss_scale){0};
        return FS_OK;
    }
    if (narrow == IR_F32)
        return fs_fail(err, FS_INVALID,
                       "loss scale %.40s: gradients of fp32 need none", text);
    if (strcspn(text, ",") != 7 || strncmp(text, "dynamic", 7) != 0) {
        scale.dynamic = false;
        if (!read_number(text, FLT_MIN, &scale.from) || strchr(text, ','))
            return fs_fail(err, FS_INVALID,
                           "loss scale '%.40s': dynamic or a number above 0 "
                           "is wanted",
                           text);
    }
    for (const char *at = strchr(text, ','); at; at = strchr(at + 1, ','))
        FS_TRY(parse_item(at + 1, err, &scale));
    *out = scale;
    return FS_OK;
}

/* ---- nodes ---- */

static int32_t number(ir_graph *g, double value)
{
    return ir_number(g, IR_F32, value);
}

static int32_t add_state(ir_graph *g, const char *what, double value)
{
    ir_variable_spec spec = {.role = IR_STATE,
                             .dtype = IR_F32,
                             .init = {IR_INIT_CONSTANT, value, 0, 0}};
    return ir_variable(g, fs_printf(g->arena, "loss_scale%s", what), &spec);
}

double ir_scaler_share(const ir_graph *graph, const ir_loss_scale *how,
                       const ir_loss_group *group)
{
    if (group->value < 0 || how->from <= 0)
        return 1;
    const ir_tensor *sum = &graph->tensors.at[group->value];
    const ir_node *node = &graph->nodes.at[sum->producer];
    if (node->op != IR_OP_reduce_sum)
        return 1;
    return (double)ir_shape_count(&sum->shape) /
           (double)ir_shape_count(&graph->tensors.at[node->in[0]].shape) /
           group->runs;
}

static int32_t end_of(const ir_graph *graph, const char *state)
{
    const int32_t t = ir_graph_find(graph, state);
    return t >= 0 && graph->tensors.at[t].role == IR_STATE
               ? graph->tensors.at[t].next
               : -1;
}

ir_loss_scale_ends ir_loss_scale_find(const ir_graph *graph)
{
    return (ir_loss_scale_ends){end_of(graph, "loss_scale.skipped"),
                                end_of(graph, "loss_scale")};
}

ir_scaler ir_scaler_begin(ir_graph *graph, const ir_loss_scale *how,
                          const ir_loss_group *first)
{
    ir_scaler s = {*how, 1, -1, -1, -1, -1};
    if (how->from <= 0)
        return s;
    s.share = ir_scaler_share(graph, how, first);
    s.scale = how->dynamic ? add_state(graph, "", how->from)
                           : number(graph, how->from);
    s.skipped = add_state(graph, ".skipped", 0);
    if (how->dynamic)
        s.good = add_state(graph, ".good", 0);
    return s;
}

static int32_t factor(ir_graph *graph, const ir_scaler *s, double share)
{
    return share < 1 ? ir_scale(graph, s->scale, share, 0) : s->scale;
}

int32_t ir_scaler_loss(ir_graph *graph, const ir_scaler *s,
                       const ir_loss_group *group)
{
    const int32_t loss = group->value;
    if (s->scale < 0 || loss < 0)
        return loss;
    ir_dtype dtype = graph->tensors.at[loss].dtype;
    const double share = ir_scaler_share(graph, &s->how, group);
    int32_t scale = ir_cast(graph, factor(graph, s, share), dtype);
    scale = ir_reshape(graph, scale, ir_shape_of(graph, loss));
    return ir_binary(graph, IR_OP_mul, loss, scale);
}

static void enter(ir_graph *graph, const ir_scaler *s)
{
    graph->phase = IR_UPDATE;
    graph->forward = graph->tensors.at[s->skipped].producer;
    graph->scope = "loss_scale";
}

void ir_scaler_undo(ir_graph *graph, const ir_scaler *s, int32_t n,
                    ir_update_pair *pairs)
{
    if (s->scale < 0)
        return;
    enter(graph, s);
    const int32_t scale = factor(graph, s, s->share);
    for (int32_t k = 0; k < n && graph->err.status == FS_OK; k++) {
        const ir_tensor *grad = &graph->tensors.at[pairs[k].grad];
        ir_node whole = {.op = IR_OP_div, .n_in = 2, .in = {pairs[k].grad}};
        whole.name = fs_printf(graph->arena, "%s.unscaled", grad->name);
        ir_dtype dtype = grad->dtype;
        ir_enter_update(graph, pairs[k].param);
        whole.in[1] = ir_cast(graph, scale, dtype);
        pairs[k].grad = ir_append(graph, &whole);
    }
}

void ir_scaler_judge(ir_graph *graph, ir_scaler *s, int32_t squares)
{
    if (s->scale < 0)
        return;
    enter(graph, s);
    squares = ir_cast(graph, squares, IR_F32);
    s->ok = ir_binary(graph, IR_OP_less_equal, squares, number(graph, FLT_MAX));
}

int32_t ir_scaler_choose(ir_graph *graph, const ir_scaler *s, int32_t variable,
                         int32_t next)
{
    return s->ok < 0 ? next : ir_where(graph, s->ok, next, variable);
}

static void carry(ir_graph *graph, int32_t variable, int32_t next)
{
    if (next < 0)
        return;
    graph->tensors.at[variable].next = next;
    ir_graph_rename(
        graph, next,
        fs_printf(graph->arena, "%s.next", graph->tensors.at[variable].name));
}

void ir_scaler_end(ir_graph *graph, const ir_scaler *s)
{
    if (s->scale < 0)
        return;
    enter(graph, s);
    int32_t out = ir_where(graph, s->ok, number(graph, 0), number(graph, 1));
    carry(graph, s->skipped, ir_binary(graph, IR_OP_add, s->skipped, out));
    if (!s->how.dynamic)
        return;
    int32_t good = ir_scale(graph, s->good, 1, 1);
    int32_t full = ir_binary(graph, IR_OP_less_equal,
                             number(graph, (double)s->how.steps), good);
    int32_t zero = number(graph, 0);
    int32_t scale = ir_where(graph, full, ir_scale(graph, s->scale, 2, 0),
                             ir_scale(graph, s->scale, 1, 0));
    good = ir_where(graph, full, zero, good);
    carry(graph, s->good, ir_where(graph, s->ok, good, zero));
    carry(graph, s->scale,
          ir_where(graph, s->ok, scale, ir_scale(graph, s->scale, 0.5, 0)));
}
