/* Control flow: what is known at import is run now, turn by turn, so that the
 * graph holds only what the operators in the bodies append. */
#include "config.h"
#include "onnx/bags.h"
#include "onnx/join.h"
#include "onnx/operators.h"
#include "onnx/scope.h"

#include <string.h>

/* One flag from input i; *known is false when it depends on the data. */
static fs_status read_flag(onnx_ctx *c, int32_t i, bool *known, bool *out)
{
    *known = *out = true;
    if (!onnx_has(c, i))
        return FS_OK;
    if (!onnx_value_of(c, i))
        return FS_INVALID;
    const onnx_const *value = onnx_known(c, i);
    *known = value != NULL;
    if (value && onnx_const_count(value) != 1)
        return onnx_fail(c, "its condition must be one flag");
    *out = value && onnx_const_real(value, 0) != 0;
    return FS_OK;
}

/* Outputs of a branch, in a scope of its own. */
static fs_status run_branch(onnx_ctx *c, const char *name, onnx_value *out)
{
    const onnx_subgraph *body;
    FS_TRY(onnx_subgraph_of(c, name, &body));
    if (body->read->outputs.n != c->node->out.n)
        return onnx_fail(c, "%s has %d outputs, the node %d", name,
                         body->read->outputs.n, c->node->out.n);
    FS_TRY(
        onnx_enter(c, fs_printf(c->arena, "%s/%.4s", c->graph->scope, name)));
    fs_status status = onnx_define_initializers(c, body);
    if (status == FS_OK)
        status = onnx_import_body(c, body);
    for (int32_t i = 0; i < c->node->out.n && status == FS_OK; i++)
        status = onnx_body_output(c, body, i, &out[i]);
    onnx_leave(c);
    return status;
}

/* The condition is data: both branches are computed, each element taken from
 * one of them. */
static fs_status select_branch(onnx_ctx *c, onnx_value *yes, onnx_value *no)
{
    ir_graph *g = c->graph;
    int32_t cond = onnx_in(c, 0);
    if (cond < 0)
        return FS_INVALID;
    cond = ir_reshape(g, cond, (ir_shape){0});
    for (int32_t i = 0; i < c->node->out.n; i++) {
        if (yes[i].sequence || no[i].sequence)
            return onnx_fail(c, "a condition that depends on the data chooses "
                                "between sequences, which is not supported");
        int32_t a = onnx_tensor_of(c, &yes[i]), b = onnx_tensor_of(c, &no[i]);
        ir_shape sa = ir_shape_of(g, a), sb = ir_shape_of(g, b);
        if (!ir_shape_equal(&sa, &sb))
            return onnx_fail(c, "its condition depends on the data and its "
                                "branches differ in shape, which is not "
                                "supported");
        FS_TRY(onnx_set(c, i, ir_where(g, cond, a, b)));
    }
    return FS_OK;
}

fs_status onnx_import_if(onnx_ctx *c)
{
    bool known, cond;
    int32_t n = c->node->out.n;
    onnx_value *yes = fs_new(c->arena, onnx_value, n);
    onnx_value *no = fs_new(c->arena, onnx_value, n);
    FS_TRY(read_flag(c, 0, &known, &cond));
    if (!known || cond)
        FS_TRY(run_branch(c, "then_branch", yes));
    if (!known || !cond)
        FS_TRY(run_branch(c, "else_branch", no));
    if (!known)
        return select_branch(c, yes, no);
    for (int32_t i = 0; i < n; i++)
        FS_TRY(onnx_put(c, i, cond ? &yes[i] : &no[i]));
    return FS_OK;
}

/* A loop being unrolled. */
typedef struct loop {
    const onnx_subgraph *body;
    int32_t n_carried, n_scans;
    onnx_value *carried;
    onnx_value_list *scans; /* what each turn left, per scan output */
    int64_t trips;
    bool goes_on;
} loop;

static onnx_value known_value(onnx_ctx *c, ir_dtype dtype, int64_t value)
{
    onnx_value out = {.tensor = -1, .is_known = true, .known.dtype = dtype};
    if (dtype == IR_BOOL)
        value = value != 0;
    out.known.data = fs_memdup(c->arena, &value, sizeof value);
    return out;
}

static fs_status read_trips(onnx_ctx *c, loop *l)
{
    const onnx_const *trips;
    bool known;
    l->trips = INT64_MAX;
    if (onnx_has(c, 0)) {
        FS_TRY(onnx_need(c, 0, "the trip count", &trips));
        if (onnx_const_count(trips) != 1)
            return onnx_fail(c, "its trip count must be one number");
        l->trips = onnx_const_int(trips, 0);
    }
    FS_TRY(read_flag(c, 1, &known, &l->goes_on));
    return known ? FS_OK
                 : onnx_fail(c, "its condition depends on the data; it must be "
                                "known at import");
}

static fs_status open_loop(onnx_ctx *c, loop *l)
{
    FS_TRY(onnx_subgraph_of(c, "body", &l->body));
    const onnx_proto *body = l->body->read;
    l->n_carried = c->node->in.n - 2;
    l->n_scans = body->outputs.n - 1 - l->n_carried;
    if (l->n_carried < 0 || l->n_scans < 0 ||
        body->inputs.n != l->n_carried + 2 ||
        c->node->out.n > l->n_carried + l->n_scans)
        return onnx_fail(c,
                         "%d inputs and %d outputs do not fit a body of %d "
                         "and %d",
                         c->node->in.n, c->node->out.n, body->inputs.n,
                         body->outputs.n);
    l->carried = fs_new(c->arena, onnx_value, l->n_carried);
    l->scans = fs_new(c->arena, onnx_value_list, l->n_scans);
    for (int32_t i = 0; i < l->n_carried; i++)
        FS_TRY(onnx_take(c, 2 + i, &l->carried[i]));
    return read_trips(c, l);
}

static fs_status read_condition(onnx_ctx *c, loop *l)
{
    onnx_value value = {0};
    FS_TRY(onnx_body_output(c, l->body, 0, &value));
    bool known = value.is_known || value.is_given || value.is_weight;
    if (!known || onnx_const_count(&value.known) != 1)
        return onnx_fail(c, "its body's condition depends on the data; it "
                            "must be known at import");
    l->goes_on = onnx_const_real(&value.known, 0) != 0;
    return FS_OK;
}

static fs_status turn(onnx_ctx *c, loop *l, int64_t at)
{
    const onnx_proto *body = l->body->read;
    onnx_value count = known_value(c, IR_I64, at);
    onnx_value flag = known_value(c, IR_BOOL, 1), scan = {0};
    FS_TRY(onnx_spend(c));
    FS_TRY(onnx_define(c, body->inputs.at[0].name, &count));
    FS_TRY(onnx_define(c, body->inputs.at[1].name, &flag));
    for (int32_t i = 0; i < l->n_carried; i++)
        FS_TRY(onnx_define(c, body->inputs.at[2 + i].name, &l->carried[i]));
    FS_TRY(onnx_import_body(c, l->body));
    FS_TRY(read_condition(c, l));
    for (int32_t i = 0; i < l->n_carried; i++)
        FS_TRY(onnx_body_output(c, l->body, 1 + i, &l->carried[i]));
    for (int32_t i = 0; i < l->n_scans; i++) {
        FS_TRY(onnx_body_output(c, l->body, 1 + l->n_carried + i, &scan));
        fs_push(c->arena, &l->scans[i], scan);
    }
    return FS_OK;
}

/* Turns share the body's initializers: those stand in a scope around them. */
static fs_status run_turns(onnx_ctx *c, loop *l)
{
    FS_TRY(onnx_define_initializers(c, l->body));
    for (int64_t i = 0; i < l->trips && l->goes_on; i++) {
        FS_TRY(onnx_enter(
            c, fs_printf(c->arena, "%s/%lld", c->graph->scope, (long long)i)));
        fs_status status = turn(c, l, i);
        onnx_leave(c);
        FS_TRY(status);
    }
    return FS_OK;
}

/* Of no turns: an empty value, as far as the body says its type. */
static fs_status no_turns(onnx_ctx *c, const onnx_value_info *info,
                          onnx_value *out)
{
    ir_shape shape = {.rank = 1};
    ir_dtype dtype;
    FS_TRY(onnx_dtype_parse(info->dtype, "a scan output", c->err, &dtype));
    for (int32_t i = 0; i < info->rank && shape.rank < IR_MAX_RANK; i++)
        shape.dim[shape.rank++] =
            info->dim[i].value < 0 ? 0 : info->dim[i].value;
    *out = (onnx_value){.tensor = -1, .is_known = true};
    out->known = (onnx_const){dtype, shape, fs_alloc(c->arena, 1, 8)};
    return FS_OK;
}

/* Turn by turn. */
static fs_status unroll(onnx_ctx *c, loop *l)
{
    onnx_value joined = {0};
    FS_TRY(onnx_enter(c, c->graph->scope));
    fs_status status = run_turns(c, l);
    onnx_leave(c);
    FS_TRY(status);
    for (int32_t i = 0; i < l->n_carried; i++)
        FS_TRY(onnx_put(c, i, &l->carried[i]));
    for (int32_t i = 0; i < l->n_scans; i++) {
        int32_t at = l->n_carried + i;
        if (!onnx_wants(c, at))
            continue;
        if (l->scans[i].n)
            FS_TRY(onnx_stack(c, &l->scans[i], 0, &joined));
        else
            FS_TRY(no_turns(c, &l->body->read->outputs.at[1 + at], &joined));
        FS_TRY(onnx_put(c, at, &joined));
    }
    return FS_OK;
}

fs_status onnx_import_loop(onnx_ctx *c)
{
    loop l = {0};
    bool is_bags = false;
    FS_TRY(open_loop(c, &l));
    if (l.goes_on && onnx_wants(c, 0))
        FS_TRY(onnx_import_bags(c, l.body, l.trips, &is_bags));
    return is_bags ? FS_OK : unroll(c, &l);
}

/* ---- Scan ---- */

typedef struct scan {
    const onnx_subgraph *body;
    int32_t n_states, n_in, n_out;
    onnx_value *states, *in;
    onnx_value_list *out;
    int64_t length;
} scan;

/* Entry i of an attribute's list; 0 without the list. */
static int64_t entry(const onnx_ctx *c, const char *name, int32_t i)
{
    const onnx_attr *attr = onnx_attr_find(c, name);
    return attr && i < attr->ints.n ? attr->ints.at[i] : 0;
}

static fs_status value_shape(onnx_ctx *c, const onnx_value *value,
                             ir_shape *out)
{
    if (value->sequence)
        return onnx_fail(c, "a sequence where a tensor is wanted");
    *out = value->tensor >= 0 ? ir_shape_of(c->graph, value->tensor)
                              : value->known.shape;
    return FS_OK;
}

static fs_status scan_axis(onnx_ctx *c, scan *s, int32_t i, int32_t *axis)
{
    ir_shape shape = {0};
    FS_TRY(value_shape(c, &s->in[i], &shape));
    return onnx_axis(c, entry(c, "scan_input_axes", i), shape.rank, axis);
}

static fs_status scan_turn(onnx_ctx *c, scan *s, int64_t at)
{
    const onnx_proto *body = s->body->read;
    onnx_value value = {0};
    FS_TRY(onnx_spend(c));
    for (int32_t i = 0; i < s->n_states; i++)
        FS_TRY(onnx_define(c, body->inputs.at[i].name, &s->states[i]));
    for (int32_t i = 0; i < s->n_in; i++) {
        int32_t axis;
        bool backwards = entry(c, "scan_input_directions", i) != 0;
        FS_TRY(scan_axis(c, s, i, &axis));
        FS_TRY(onnx_pick(c, &s->in[i], axis,
                         backwards ? s->length - 1 - at : at, &value));
        FS_TRY(onnx_define(c, body->inputs.at[s->n_states + i].name, &value));
    }
    FS_TRY(onnx_import_body(c, s->body));
    for (int32_t i = 0; i < s->n_states; i++)
        FS_TRY(onnx_body_output(c, s->body, i, &s->states[i]));
    for (int32_t i = 0; i < s->n_out; i++) {
        FS_TRY(onnx_body_output(c, s->body, s->n_states + i, &value));
        fs_push(c->arena, &s->out[i], value);
    }
    return FS_OK;
}

static fs_status scan_turns(onnx_ctx *c, scan *s)
{
    FS_TRY(onnx_define_initializers(c, s->body));
    for (int64_t i = 0; i < s->length; i++) {
        FS_TRY(onnx_enter(
            c, fs_printf(c->arena, "%s/%lld", c->graph->scope, (long long)i)));
        fs_status status = scan_turn(c, s, i);
        onnx_leave(c);
        FS_TRY(status);
    }
    return FS_OK;
}

/* Elements of the scan outputs in the order that each wants. */
static fs_status join_scans(onnx_ctx *c, scan *s, onnx_value *out)
{
    for (int32_t i = 0; i < s->n_out; i++) {
        onnx_value_list *list = &s->out[i];
        ir_shape shape;
        int32_t axis;
        if (list->n == 0)
            return onnx_fail(c, "it has nothing to scan");
        if (entry(c, "scan_output_directions", i))
            for (int32_t a = 0, b = list->n - 1; a < b; a++, b--) {
                onnx_value swap = list->at[a];
                list->at[a] = list->at[b];
                list->at[b] = swap;
            }
        FS_TRY(value_shape(c, &list->at[0], &shape));
        FS_TRY(onnx_axis(c, entry(c, "scan_output_axes", i), shape.rank + 1,
                         &axis));
        FS_TRY(onnx_stack(c, list, axis, &out[i]));
    }
    return FS_OK;
}

/* One scan from s->states and s->in; out[]: states, then scan outputs. */
static fs_status run_scan(onnx_ctx *c, scan *s, onnx_value *out)
{
    s->out = fs_new(c->arena, onnx_value_list, s->n_out);
    for (int32_t i = 0; i < s->n_in; i++) {
        ir_shape shape;
        int32_t axis;
        FS_TRY(value_shape(c, &s->in[i], &shape));
        FS_TRY(scan_axis(c, s, i, &axis));
        if (i > 0 && shape.dim[axis] != s->length)
            return onnx_fail(c, "its scan inputs differ in length");
        s->length = shape.dim[axis];
    }
    FS_TRY(onnx_enter(c, c->graph->scope));
    fs_status status = scan_turns(c, s);
    onnx_leave(c);
    FS_TRY(status);
    memcpy(out, s->states, (size_t)s->n_states * sizeof *out);
    return join_scans(c, s, out + s->n_states);
}

/* Opset 8: input 0 gives lengths, and every value has a batch axis 0. */
static fs_status run_batched(onnx_ctx *c, const scan *whole, onnx_value *out)
{
    int32_t n = whole->n_states + whole->n_out,
            n_taken = whole->n_states + whole->n_in;
    onnx_value_list *list = fs_new(c->arena, onnx_value_list, n);
    ir_shape shape;
    if (onnx_has(c, 0) || n_taken == 0)
        return onnx_fail(c, "sequence_lens is not supported");
    FS_TRY(value_shape(c, whole->n_in ? &whole->in[0] : &whole->states[0],
                       &shape));
    int64_t batch = shape.rank ? shape.dim[0] : 0;
    for (int64_t b = 0; b < batch; b++) {
        scan s = *whole;
        onnx_value *made = fs_new(c->arena, onnx_value, n);
        s.states = fs_new(c->arena, onnx_value, s.n_states);
        s.in = fs_new(c->arena, onnx_value, s.n_in);
        for (int32_t i = 0; i < s.n_states; i++)
            FS_TRY(onnx_pick(c, &whole->states[i], 0, b, &s.states[i]));
        for (int32_t i = 0; i < s.n_in; i++)
            FS_TRY(onnx_pick(c, &whole->in[i], 0, b, &s.in[i]));
        FS_TRY(onnx_spend(c));
        FS_TRY(run_scan(c, &s, made));
        for (int32_t i = 0; i < n; i++)
            fs_push(c->arena, &list[i], made[i]);
    }
    for (int32_t i = 0; i < n; i++)
        FS_TRY(onnx_stack(c, &list[i], 0, &out[i]));
    return FS_OK;
}

fs_status onnx_import_scan(onnx_ctx *c)
{
    scan s = {0};
    int32_t first = c->opset < 9;
    FS_TRY(onnx_subgraph_of(c, "body", &s.body));
    int64_t n_in = onnx_attr_int(c, "num_scan_inputs", 0);
    int32_t n = c->node->in.n - first;
    if (n_in < 1 || n_in > n || s.body->read->inputs.n != n)
        return onnx_fail(c,
                         "%d inputs of which %lld are scanned do not fit "
                         "its body",
                         n, (long long)n_in);
    s.n_in = (int32_t)n_in;
    s.n_states = n - s.n_in;
    s.n_out = s.body->read->outputs.n - s.n_states;
    if (s.n_out < 0 || c->node->out.n > s.n_states + s.n_out)
        return onnx_fail(c, "%d outputs do not fit its body", c->node->out.n);
    s.states = fs_new(c->arena, onnx_value, s.n_states);
    s.in = fs_new(c->arena, onnx_value, s.n_in);
    for (int32_t i = 0; i < n; i++)
        FS_TRY(
            onnx_take(c, first + i,
                      i < s.n_states ? &s.states[i] : &s.in[i - s.n_states]));
    onnx_value *out = fs_new(c->arena, onnx_value, s.n_states + s.n_out);
    FS_TRY(first ? run_batched(c, &s, out) : run_scan(c, &s, out));
    for (int32_t i = 0; i < c->node->out.n; i++)
        FS_TRY(onnx_put(c, i, &out[i]));
    return FS_OK;
}
