/* A loop over bags of rows, which is how PyTorch exports an EmbeddingBag:
 *
 *     turn i:  rows = ids[starts[i] : ends[i]]
 *              y[i] = sum | mean | max of table[rows] (* weights of the rows)
 *
 * It becomes one lookup of all rows and one reduction. Bags of one length,
 * known at import, are an axis to reduce; others are added up where they belong
 * (scatter_nd). Offsets that are data are counted: row p is in bag j when
 * 1 + j offsets are at most p; they must grow, as EmbeddingBag asks. A bag
 * without rows is zero, as PyTorch has it. */
#include "config.h"
#include "onnx/bags.h"
#include "onnx/operators.h"
#include "onnx/scope.h"

#include <float.h>
#include <string.h>

enum { MOST_NODES = 32 }; /* of a body that may be one */

/* The parts of such a loop, by name; `weights` may be NULL. */
typedef struct bags {
    const char *table, *ids, *starts, *ends, *weights;
    ir_op_kind kind; /* IR_OP_reduce_sum, or .._max */
    bool mean;
    int64_t n; /* bags */
} bags;

/* ---- recognising ---- */

typedef struct pattern {
    onnx_ctx *c;
    const onnx_proto *body;
} pattern;

/* The node of the body that makes `name`, when it is an `op` of at least n
 * inputs; else NULL. */
static const onnx_node *made_by(const pattern *p, const char *name,
                                const char *op, int32_t n)
{
    for (int32_t i = 0; i < p->body->nodes.n; i++) {
        const onnx_node *node = &p->body->nodes.at[i];
        if (node->out.n > 0 && strcmp(node->out.at[0], name) == 0)
            return strcmp(node->op, op) == 0 && node->in.n >= n ? node : NULL;
    }
    return NULL;
}

/* Does the value exist outside the loop? */
static bool is_outer(const pattern *p, const char *name)
{
    int32_t id = onnx_find(p->c, name);
    return id >= 0 && !p->c->values.at[id].refused &&
           !p->c->values.at[id].sequence;
}

static const onnx_attr *attr_of(const onnx_node *node, const char *name)
{
    for (int32_t i = 0; i < node->attrs.n; i++)
        if (strcmp(node->attrs.at[i].name, name) == 0)
            return &node->attrs.at[i];
    return NULL;
}

/* Is `name` the known list (or scalar) [wanted]? */
static bool is_one(const pattern *p, const char *name, int64_t wanted)
{
    onnx_const value;
    fs_err unread = {0};
    const onnx_node *made = made_by(p, name, "Constant", 0);
    const onnx_attr *attr = made ? attr_of(made, "value") : NULL;
    if (made) {
        if (!attr || !attr->t ||
            onnx_tensor_load(p->c->model, attr->t, p->c->arena, &unread,
                             &value) != FS_OK)
            return false;
    } else {
        int32_t id = is_outer(p, name) ? onnx_find(p->c, name) : -1;
        if (id < 0 || !p->c->values.at[id].is_known)
            return false;
        value = p->c->values.at[id].known;
    }
    return onnx_const_count(&value) == 1 &&
           onnx_const_real(&value, 0) == (double)wanted;
}

/* Axes by attribute or by input i. */
static bool has_axis(const pattern *p, const onnx_node *node, int32_t i,
                     int64_t wanted)
{
    const onnx_attr *attr = attr_of(node, "axes");
    if (attr)
        return attr->ints.n == 1 && attr->ints.at[0] == wanted;
    return i < node->in.n && is_one(p, node->in.at[i], wanted);
}

static bool is_axis_0(const onnx_node *node)
{
    const onnx_attr *attr = attr_of(node, "axis");
    return !attr || attr->i == 0;
}

/* name = [list[turn]]: which list it is; NULL when it is something else. */
static const char *picked_from(const pattern *p, const char *name)
{
    const onnx_node *list = made_by(p, name, "Unsqueeze", 1);
    const onnx_node *pick =
        list ? made_by(p, list->in.at[0], "Gather", 2) : NULL;
    if (!pick || !is_axis_0(pick) || !has_axis(p, list, 1, 0) ||
        strcmp(pick->in.at[1], p->body->inputs.at[0].name) != 0)
        return NULL;
    return is_outer(p, pick->in.at[0]) ? pick->in.at[0] : NULL;
}

/* name = list[starts[turn] : ends[turn]]; starts and ends as elsewhere in the
 * body, when they were seen before. */
static const char *cut_from(const pattern *p, const char *name, bags *b)
{
    const onnx_node *cut = made_by(p, name, "Slice", 4);
    const char *starts = cut ? picked_from(p, cut->in.at[1]) : NULL;
    const char *ends = cut ? picked_from(p, cut->in.at[2]) : NULL;
    if (!starts || !ends || !is_one(p, cut->in.at[3], 0) || cut->in.n > 4 ||
        !is_outer(p, cut->in.at[0]))
        return NULL;
    if (b->starts &&
        (strcmp(b->starts, starts) != 0 || strcmp(b->ends, ends) != 0))
        return NULL;
    b->starts = starts;
    b->ends = ends;
    return cut->in.at[0];
}

static bool find_rows(const pattern *p, const char *name, bags *b)
{
    const onnx_node *rows = made_by(p, name, "Gather", 2);
    if (!rows || !is_axis_0(rows) || !is_outer(p, rows->in.at[0]))
        return false;
    b->table = rows->in.at[0];
    b->ids = cut_from(p, rows->in.at[1], b);
    return b->ids != NULL;
}

/* Rows, or rows times their weights as a column. */
static bool find_terms(const pattern *p, const char *name, bags *b)
{
    const onnx_node *mul = made_by(p, name, "Mul", 2);
    if (!mul)
        return find_rows(p, name, b);
    const onnx_node *column = made_by(p, mul->in.at[1], "Unsqueeze", 1);
    if (!column || !has_axis(p, column, 1, 1) ||
        !find_rows(p, mul->in.at[0], b))
        return false;
    b->weights = cut_from(p, column->in.at[0], b);
    return b->weights != NULL;
}

static bool find_reduction(const pattern *p, const char *name, bags *b)
{
    static const char *const ops[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
    for (int32_t k = 0; k < 3; k++) {
        const onnx_node *node = made_by(p, name, ops[k], 1);
        const onnx_attr *keep = node ? attr_of(node, "keepdims") : NULL;
        if (!node)
            continue;
        b->kind = k == 2 ? IR_OP_reduce_max : IR_OP_reduce_sum;
        b->mean = k == 1;
        return keep && keep->i == 0 && has_axis(p, node, 1, 0) &&
               find_terms(p, node->in.at[0], b);
    }
    return false;
}

/* The loop ends by its count alone. */
static bool goes_on(const pattern *p, const char *name)
{
    for (int32_t i = 0; i < MOST_NODES; i++) {
        const onnx_node *made = made_by(p, name, "Cast", 1);
        made = made ? made : made_by(p, name, "Identity", 1);
        if (!made)
            break;
        name = made->in.at[0];
    }
    int32_t id = onnx_find(p->c, name);
    return strcmp(name, p->body->inputs.at[1].name) == 0 ||
           (id >= 0 && p->c->values.at[id].is_known &&
            onnx_const_count(&p->c->values.at[id].known) == 1 &&
            onnx_const_real(&p->c->values.at[id].known, 0) != 0);
}

static bool find_bags(const pattern *p, bags *b)
{
    const onnx_proto *body = p->body;
    if (body->nodes.n > MOST_NODES || body->inputs.n != 2 ||
        body->outputs.n != 2 || body->initializers.n > 0)
        return false;
    return goes_on(p, body->outputs.at[0].name) &&
           find_reduction(p, body->outputs.at[1].name, b);
}

/* ---- building ---- */

/* What the bags are made of in the graph. */
typedef struct parts {
    onnx_ctx *c;
    const bags *bags;
    int32_t rows;  /* (rows of all bags, D..), weighted */
    int32_t at;    /* bag of each row, counted from `first` (rows, 1) */
    int32_t count; /* rows of each bag (n), float; -1: not wanted */
    int64_t first; /* bags before the first: of rows in none */
    int64_t n_all; /* with those before and after */
} parts;

static int32_t tensor_named(onnx_ctx *c, const char *name)
{
    return onnx_tensor_of(c, &c->values.at[onnx_find(c, name)]);
}

static int32_t integers(onnx_ctx *c, const char *what, ir_shape shape,
                        const int64_t *at)
{
    return ir_constant(c->graph,
                       fs_printf(c->arena, "%s/%s", c->graph->scope, what),
                       IR_I64, shape, at);
}

static int32_t look_up(ir_graph *g, int32_t table, int32_t ids)
{
    ir_shape in = ir_shape_of(g, table);
    ir_node node = {.op = IR_OP_gather, .n_in = 2, .in = {table, ids}};
    node.i[0] = in.dim[0];
    node.i[1] = 1;
    return ir_append(g, &node);
}

/* Rows of the table by ids of any shape, times their weights. */
static int32_t take_rows(const parts *p, int32_t ids, int32_t weights)
{
    ir_graph *g = p->c->graph;
    int32_t rows = look_up(g, tensor_named(p->c, p->bags->table), ids);
    if (weights < 0)
        return rows;
    ir_shape in = ir_shape_of(g, weights), whole = ir_shape_of(g, rows);
    while (in.rank >= 0 && in.rank < whole.rank)
        in.dim[in.rank++] = 1;
    return ir_binary(g, IR_OP_mul, rows, ir_reshape(g, weights, in));
}

/* x filled with a number, in the rows' type. */
static int32_t filled(const parts *p, ir_shape shape, double value)
{
    ir_graph *g = p->c->graph;
    if (p->rows < 0)
        return -1;
    return ir_cast(g, ir_fill(g, shape, value), g->tensors.at[p->rows].dtype);
}

/* x joined into `to` at positions `at` (.., 1): 1 adds, 4 takes the largest. */
static int32_t scatter(ir_graph *g, int32_t to, int32_t at, int32_t x,
                       int64_t kind)
{
    ir_node node = {.op = IR_OP_scatter_nd, .n_in = 3, .in = {to, at, x}};
    ir_shape shape = ir_shape_of(g, to);
    node.i[1] = shape.dim[0];
    node.i[9] = kind;
    return ir_append(g, &node);
}

/* A column (n, 1, ..) of as many axes as the rows have. */
static int32_t as_column(const parts *p, int32_t x, int64_t n)
{
    ir_shape shape = ir_shape_of(p->c->graph, p->rows);
    for (int32_t i = 1; i < shape.rank; i++)
        shape.dim[i] = 1;
    shape.dim[0] = n;
    return ir_reshape(p->c->graph, x, shape);
}

static int32_t join_rows(const parts *p)
{
    ir_graph *g = p->c->graph;
    const bool sums = p->bags->kind == IR_OP_reduce_sum;
    const int64_t n = p->bags->n;
    ir_shape shape = ir_shape_of(g, p->rows);
    if (p->rows < 0)
        return -1;
    shape.dim[0] = p->n_all;
    int32_t y = scatter(g, filled(p, shape, sums ? 0 : -(double)FLT_MAX), p->at,
                        p->rows, sums ? 1 : 4);
    if (p->n_all > n)
        y = ir_slice(g, y, 0, p->first, n);
    if (sums && !p->bags->mean)
        return y;
    int32_t count = as_column(p, p->count, n);
    int32_t one = filled(p, (ir_shape){0}, 1),
            none = filled(p, (ir_shape){0}, 0);
    if (sums)
        return ir_binary(g, IR_OP_div, y, ir_binary(g, IR_OP_max, count, one));
    return ir_where(g, ir_binary(g, IR_OP_less, none, count), y, none);
}

/* ---- offsets known at import ---- */

typedef struct ranges {
    int64_t *at;      /* positions in ids, bag by bag */
    int64_t *bag;     /* of each */
    int64_t *length;  /* of each bag */
    int64_t n;        /* positions */
    bool even, whole; /* bags of one length; all ids in their order */
} ranges;

static int64_t clip_end(const onnx_const *list, int64_t i, int64_t n)
{
    int64_t at = onnx_const_int(list, i);
    at = at < -n ? 0 : at < 0 ? at + n : at;
    return at > n ? n : at;
}

static fs_status list_ranges(onnx_ctx *c, const onnx_const *const ends[2],
                             int64_t n_bags, int64_t n_ids, ranges *out)
{
    void *at, *bag;
    int64_t n = 0;
    *out = (ranges){.even = true};
    out->length = fs_new(c->arena, int64_t, n_bags);
    for (int64_t i = 0; i < n_bags; i++) {
        int64_t length =
            clip_end(ends[1], i, n_ids) - clip_end(ends[0], i, n_ids);
        out->length[i] = length > 0 ? length : 0;
        out->even = out->even && out->length[i] == out->length[0];
        n += out->length[i]; /* each at most n_ids: of int32_t, both */
    }
    const ir_shape shape = ir_shape_make(1, &n);
    FS_TRY(onnx_const_new(c, IR_I64, &shape, &at));
    FS_TRY(onnx_const_new(c, IR_I64, &shape, &bag));
    out->at = at;
    out->bag = bag;
    out->whole = n == n_ids;
    for (int64_t i = 0; i < n_bags; i++)
        for (int64_t k = 0; k < out->length[i]; k++) {
            out->at[out->n] = clip_end(ends[0], i, n_ids) + k;
            out->bag[out->n] = i;
            out->whole = out->whole && out->at[out->n] == out->n;
            out->n++;
        }
    return FS_OK;
}

/* Elements of a list that the bags want, bag by bag. */
static int32_t pick_elements(onnx_ctx *c, const char *name, const ranges *r)
{
    if (!name)
        return -1;
    int32_t x = tensor_named(c, name);
    return r->whole
               ? x
               : look_up(c->graph, x,
                         integers(c, "places", ir_shape_make(1, &r->n), r->at));
}

static int32_t reduce_even(parts *p, const ranges *r, int32_t ids,
                           int32_t weights)
{
    ir_graph *g = p->c->graph;
    const ir_shape shape =
        ir_shape_make(2, (int64_t[]){p->bags->n, r->length[0]});
    ids = ir_reshape(g, ids, shape);
    if (weights >= 0)
        weights = ir_reshape(g, weights, shape);
    int32_t rows = take_rows(p, ids, weights);
    return p->bags->mean ? ir_reduce_mean(g, rows, 2, false)
                         : ir_reduce(g, p->bags->kind, rows, 2, false);
}

static int32_t reduce_known(parts *p, const ranges *r)
{
    onnx_ctx *c = p->c;
    int32_t ids = pick_elements(c, p->bags->ids, r);
    int32_t weights = pick_elements(c, p->bags->weights, r);
    if (r->even)
        return reduce_even(p, r, ids, weights);
    const int64_t n = p->bags->n, column[] = {r->n, 1};
    p->rows = take_rows(p, ids, weights);
    if (p->rows < 0)
        return -1;
    p->n_all = n;
    p->at = integers(c, "bags", ir_shape_make(2, column), r->bag);
    p->count = ir_cast(c->graph,
                       integers(c, "lengths", ir_shape_make(1, &n), r->length),
                       c->graph->tensors.at[p->rows].dtype);
    return join_rows(p);
}

/* ---- offsets that are data ---- */

/* Is `ends` the list `starts` without its first element? */
static bool is_tail(const ir_graph *g, int32_t starts, int32_t ends)
{
    if (starts < 0 || ends < 0)
        return false;
    const ir_node *cut = &g->nodes.at[g->tensors.at[ends].producer];
    return cut->op == IR_OP_slice && cut->in[0] == starts && cut->i[0] == 0 &&
           cut->i[1] == 1 && cut->i[3] <= 1 && cut->i[3] >= 0 &&
           g->tensors.at[starts].shape.rank == 1;
}

/* Row p is in bag j of the n when j + 1 of the n + 1 offsets are at most p. */
static int32_t reduce_data(parts *p, int32_t starts, int32_t ends)
{
    onnx_ctx *c = p->c;
    ir_graph *g = c->graph;
    const int64_t n = p->bags->n;
    const int32_t ids = tensor_named(c, p->bags->ids);
    const int64_t rows = ir_shape_of(g, ids).dim[0], places = rows + 1;
    const ir_shape line = ir_shape_make(1, &places);
    ir_shape column = ir_shape_of(g, starts);
    column.dim[column.rank++] = 1;
    int32_t zeros = ir_cast(g, ir_fill(g, line, 0), IR_I64);
    column.rank = 1;
    int32_t ones = ir_cast(g, ir_fill(g, column, 1), IR_I64);
    column.rank = 2;
    int32_t marks = scatter(g, zeros, ir_reshape(g, starts, column), ones, 1);
    ir_node sum = {.op = IR_OP_cum_sum, .n_in = 1, .in = {marks}};
    int32_t bag = ir_slice(g, ir_append(g, &sum), 0, 0, rows);
    p->rows = take_rows(
        p, ids, p->bags->weights ? tensor_named(c, p->bags->weights) : -1);
    if (p->rows < 0)
        return -1;
    p->at = ir_reshape(g, bag, ir_shape_make(2, (int64_t[]){rows, 1}));
    p->first = 1;
    p->n_all = n + 2;
    int32_t first = ir_slice(g, starts, 0, 0, n);
    p->count = ir_cast(g, ir_binary(g, IR_OP_sub, ends, first),
                       g->tensors.at[p->rows].dtype);
    return join_rows(p);
}

/* ---- the loop ---- */

static const onnx_value *value_named(const onnx_ctx *c, const char *name)
{
    return &c->values.at[onnx_find(c, name)];
}

static ir_shape shape_named(const onnx_ctx *c, const char *name)
{
    const onnx_value *value = value_named(c, name);
    return value->tensor >= 0 ? ir_shape_of(c->graph, value->tensor)
                              : value->known.shape;
}

static ir_dtype dtype_named(const onnx_ctx *c, const char *name)
{
    const onnx_value *value = value_named(c, name);
    return value->tensor >= 0 ? c->graph->tensors.at[value->tensor].dtype
                              : value->known.dtype;
}

/* Lists of as many elements as they are asked for; a float table. */
static bool fits(const onnx_ctx *c, const bags *b)
{
    const ir_shape ids = shape_named(c, b->ids),
                   table = shape_named(c, b->table);
    const ir_shape starts = shape_named(c, b->starts),
                   ends = shape_named(c, b->ends);
    const ir_dtype dtype = dtype_named(c, b->table);
    if (ids.rank != 1 || starts.rank != 1 || ends.rank != 1 || table.rank < 1 ||
        table.rank >= IR_MAX_RANK || b->n < 1 || b->n > ends.dim[0] ||
        b->n > starts.dim[0] || b->n > INT32_MAX || ids.dim[0] < 1 ||
        ids.dim[0] > INT32_MAX || ir_shape_count(&table) < 1)
        return false;
    if (b->weights) {
        const ir_shape weights = shape_named(c, b->weights);
        if (!ir_shape_equal(&weights, &ids) || table.rank != 2 ||
            dtype_named(c, b->weights) != dtype)
            return false;
    }
    return ir_dtype_is_float(dtype) && ir_dtype_computes(dtype);
}

static fs_status import_known(parts *p, int32_t *y)
{
    onnx_ctx *c = p->c;
    const bags *b = p->bags;
    const onnx_const *ends[2] = {&value_named(c, b->starts)->known,
                                 &value_named(c, b->ends)->known};
    ranges r;
    FS_TRY(list_ranges(c, ends, b->n, shape_named(c, b->ids).dim[0], &r));
    if (r.n == 0) {
        ir_shape shape = shape_named(c, b->table);
        shape.dim[0] = b->n;
        *y = ir_cast(c->graph, ir_fill(c->graph, shape, 0),
                     dtype_named(c, b->table));
        return FS_OK;
    }
    *y = reduce_known(p, &r);
    return FS_OK;
}

fs_status onnx_import_bags(onnx_ctx *c, const onnx_subgraph *body,
                           int64_t trips, bool *done)
{
    const pattern p_of = {c, body->read};
    bags b = {.n = trips};
    int32_t y;
    *done = find_bags(&p_of, &b) && fits(c, &b);
    if (!*done)
        return FS_OK;
    parts p = {.c = c, .bags = &b, .rows = -1, .at = -1, .count = -1};
    if (value_named(c, b.starts)->is_known &&
        value_named(c, b.ends)->is_known) {
        FS_TRY(import_known(&p, &y));
        return onnx_set(c, 0, y);
    }
    int32_t starts = tensor_named(c, b.starts), ends = tensor_named(c, b.ends);
    if (!is_tail(c->graph, starts, ends) ||
        ir_shape_of(c->graph, starts).dim[0] != b.n + 1)
        return onnx_fail(c,
                         "an EmbeddingBag whose offsets (\"%.80s\", \"%.80s\") "
                         "depend on the data and are not one list and its "
                         "tail, which is not supported",
                         b.starts, b.ends);
    return onnx_set(c, 0, reduce_data(&p, starts, ends));
}
