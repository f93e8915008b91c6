/* Einsum: operands are taken from left to right, two at a time. Axes that
 * nobody wants any more are summed; those of both become batch axes of a
 * matrix product, or its contracted one. Diagonals are slices by steps. */
#include "config.h"
#include "onnx/operators.h"

#include <string.h>

enum { MAX_OPERANDS = 16 };

/* An operand, or what was made of several: a letter per axis. The axes of an
 * ellipsis are '0' to '7', the last one '0'. */
typedef struct term {
    int32_t x;
    int32_t n;
    char label[IR_MAX_RANK];
} term;

typedef struct einsum {
    onnx_ctx *c;
    ir_graph *g;
    int32_t n;
    term in[MAX_OPERANDS];
    int32_t n_out;
    char out[IR_MAX_RANK];
} einsum;

static int32_t find(const char *labels, int32_t n, char label)
{
    for (int32_t i = 0; i < n; i++)
        if (labels[i] == label)
            return i;
    return -1;
}

static bool is_letter(char label)
{
    return (label >= 'a' && label <= 'z') || (label >= 'A' && label <= 'Z');
}

static fs_status bad_equation(einsum *e, const char *why)
{
    return onnx_fail(e->c, "equation \"%.120s\": %s",
                     onnx_attr_text(e->c, "equation", ""), why);
}

/* Labels of one operand up to a comma or an arrow; `rank` axes, -1 when the
 * text says how many: then an ellipsis stands for `dots`. */
static fs_status read_labels(einsum *e, const char **at, int32_t rank,
                             int32_t dots, char *label, int32_t *n)
{
    const char *text = *at;
    size_t length = strcspn(text, ",-");
    int32_t letters = 0;
    for (size_t i = 0; i < length; i++)
        letters += is_letter(text[i]);
    if (rank >= 0)
        dots = rank - letters;
    *n = 0;
    for (size_t i = 0; i < length; i++) {
        bool ellipsis = strncmp(text + i, "...", 3) == 0;
        if (*n + (ellipsis ? dots : 1) > IR_MAX_RANK || dots < 0)
            return bad_equation(e, "an operand's axes do not fit its letters");
        if (is_letter(text[i]))
            label[(*n)++] = text[i];
        for (int32_t k = dots - 1; ellipsis && k >= 0; k--)
            label[(*n)++] = (char)('0' + k);
        if (ellipsis)
            i += 2;
        else if (!is_letter(text[i]) && text[i] != ' ')
            return bad_equation(e, "only letters, commas, an arrow and "
                                   "ellipses are meant");
    }
    *at = text + length;
    return rank < 0 || *n == rank
               ? FS_OK
               : bad_equation(e, "an operand's axes do not fit its letters");
}

/* How often a label stands in all operands. */
static int32_t count_label(const einsum *e, char label)
{
    int32_t times = 0;
    for (int32_t k = 0; k < e->n; k++)
        for (int32_t i = 0; i < e->in[k].n; i++)
            times += e->in[k].label[i] == label;
    return times;
}

static fs_status add_output(einsum *e, char label, bool adds)
{
    if (adds && e->n_out == IR_MAX_RANK)
        return bad_equation(e, "a result of too many dimensions");
    if (adds)
        e->out[e->n_out++] = label;
    return FS_OK;
}

/* Without an arrow: the ellipsis, then the letters that stand once, sorted. */
static fs_status usual_output(einsum *e)
{
    for (char label = '7'; label >= '0'; label--)
        FS_TRY(add_output(e, label, count_label(e, label) > 0));
    for (char label = 'A'; label <= 'z'; label++)
        FS_TRY(add_output(e, label,
                          is_letter(label) && count_label(e, label) == 1));
    return FS_OK;
}

static fs_status read_operands(einsum *e, const char **at)
{
    e->n = e->c->node->in.n;
    if (e->n < 1 || e->n > MAX_OPERANDS)
        return onnx_fail(e->c, "%d operands; 1 to %d are supported", e->n,
                         MAX_OPERANDS);
    for (int32_t k = 0; k < e->n; k++) {
        term *t = &e->in[k];
        t->x = onnx_in(e->c, k);
        if (t->x < 0)
            return FS_INVALID;
        if (k > 0 && *(*at)++ != ',')
            return bad_equation(e, "it names fewer operands than there are");
        FS_TRY(read_labels(e, at, ir_shape_of(e->g, t->x).rank, 0, t->label,
                           &t->n));
    }
    return FS_OK;
}

static fs_status read_equation(einsum *e)
{
    const char *at = onnx_attr_text(e->c, "equation", "");
    int32_t dots = 0;
    FS_TRY(read_operands(e, &at));
    if (*at == '\0')
        return usual_output(e);
    if (strncmp(at, "->", 2) != 0)
        return bad_equation(e, "it names more operands than there are");
    at += 2;
    for (int32_t k = 0; k < e->n; k++)
        for (int32_t i = 0; i < e->in[k].n; i++)
            if (e->in[k].label[i] <= '7' && e->in[k].label[i] - '0' >= dots)
                dots = e->in[k].label[i] - '0' + 1;
    FS_TRY(read_labels(e, &at, -1, dots, e->out, &e->n_out));
    if (*at)
        return bad_equation(e, "something follows the result");
    for (int32_t i = 0; i < e->n_out; i++) {
        bool known = false;
        for (int32_t k = 0; k < e->n; k++)
            known |= find(e->in[k].label, e->in[k].n, e->out[i]) >= 0;
        if (!known || find(e->out, i, e->out[i]) >= 0)
            return bad_equation(e, "a letter of the result is new or stands "
                                   "twice");
    }
    return FS_OK;
}

static int64_t length_of(const einsum *e, const term *t, int32_t axis)
{
    return ir_shape_of(e->g, t->x).dim[axis];
}

static void drop_label(term *t, int32_t axis)
{
    memmove(t->label + axis, t->label + axis + 1,
            (size_t)(t->n - axis - 1) * sizeof *t->label);
    t->n--;
}

/* The axes in the order of `label`, all of the term's. */
static void arrange(einsum *e, term *t, const char *label)
{
    int32_t perm[IR_MAX_RANK];
    bool moved = false;
    for (int32_t i = 0; i < t->n; i++) {
        perm[i] = find(t->label, t->n, label[i]);
        moved |= perm[i] != i;
    }
    if (moved)
        t->x = ir_transpose(e->g, t->x, perm);
    memcpy(t->label, label, (size_t)t->n);
}

/* Axes a < b carry one letter: side by side at the end they are a square,
 * whose diagonal is every n + 1st element. */
static fs_status take_diagonal(einsum *e, term *t, int32_t a, int32_t b)
{
    int32_t perm[IR_MAX_RANK], k = 0, last = t->n - 2;
    ir_shape shape = ir_shape_of(e->g, t->x);
    int64_t n = shape.dim[a];
    char letter = t->label[a];
    if (n != shape.dim[b])
        return bad_equation(e, "a letter has two lengths");
    for (int32_t i = 0; i < t->n; i++)
        if (i != a && i != b)
            perm[k++] = i;
    perm[k++] = a;
    perm[k++] = b;
    t->x = ir_transpose(e->g, t->x, perm);
    shape = ir_shape_of(e->g, t->x);
    if (shape.rank < 0)
        return FS_INVALID;
    shape.rank--;
    shape.dim[last] = n * n;
    t->x = ir_slice_by(e->g, ir_reshape(e->g, t->x, shape), last,
                       (int64_t[]){0, n, n + 1});
    drop_label(t, b);
    drop_label(t, a);
    t->label[t->n++] = letter;
    return FS_OK;
}

static fs_status take_diagonals(einsum *e, term *t)
{
    for (int32_t b = 1; b < t->n; b++) {
        int32_t a = find(t->label, b, t->label[b]);
        if (a < 0)
            continue;
        FS_TRY(take_diagonal(e, t, a, b));
        b = 0;
    }
    return FS_OK;
}

/* Is the letter in the result, or in an operand from `next` on? */
static bool is_wanted(const einsum *e, int32_t next, char label)
{
    for (int32_t k = next; k < e->n; k++)
        if (find(e->in[k].label, e->in[k].n, label) >= 0)
            return true;
    return find(e->out, e->n_out, label) >= 0;
}

/* Sums axes that neither `other` nor anyone later has. */
static void sum_unwanted(einsum *e, term *t, const term *other, int32_t next)
{
    uint32_t mask = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (!is_wanted(e, next, t->label[i]) &&
            (!other || find(other->label, other->n, t->label[i]) < 0))
            mask |= 1u << i;
    if (!mask)
        return;
    t->x = ir_reduce_sum(e->g, t->x, mask, false);
    for (int32_t i = t->n - 1; i >= 0; i--)
        if (mask >> i & 1)
            drop_label(t, i);
}

/* A length of 1 against a longer one: the axis is the other's alone. */
static fs_status drop_ones(einsum *e, term *t, const term *other)
{
    for (int32_t i = t->n - 1; i >= 0; i--) {
        int32_t at = find(other->label, other->n, t->label[i]);
        if (at < 0 || length_of(e, t, i) == length_of(e, other, at))
            continue;
        if (length_of(e, other, at) == 1)
            continue; /* the other drops it */
        if (length_of(e, t, i) != 1)
            return bad_equation(e, "a letter has two lengths");
        ir_shape shape = ir_shape_of(e->g, t->x);
        memmove(shape.dim + i, shape.dim + i + 1,
                (size_t)(shape.rank - i - 1) * sizeof *shape.dim);
        shape.rank--;
        t->x = ir_reshape(e->g, t->x, shape);
        drop_label(t, i);
    }
    return FS_OK;
}

/* Letters of a pair by what becomes of them. */
typedef struct roles {
    char batch[IR_MAX_RANK], rows[IR_MAX_RANK], inner[IR_MAX_RANK],
        columns[IR_MAX_RANK];
    int32_t n_batch, n_rows, n_inner, n_columns;
} roles;

static roles roles_of(const einsum *e, const term *a, const term *b,
                      int32_t next)
{
    roles r = {.n_batch = 0};
    for (int32_t i = 0; i < a->n; i++) {
        char label = a->label[i];
        if (find(b->label, b->n, label) < 0)
            r.rows[r.n_rows++] = label;
        else if (is_wanted(e, next, label))
            r.batch[r.n_batch++] = label;
        else
            r.inner[r.n_inner++] = label;
    }
    for (int32_t i = 0; i < b->n; i++)
        if (find(a->label, a->n, b->label[i]) < 0)
            r.columns[r.n_columns++] = b->label[i];
    return r;
}

/* Axes [from, from + n) become one. */
static int32_t merge(ir_graph *g, int32_t x, int32_t from, int32_t n)
{
    ir_shape shape = ir_shape_of(g, x);
    if (shape.rank < 0 || (n == 0 && shape.rank == IR_MAX_RANK))
        return n == 0 && shape.rank >= 0
                   ? ir_graph_fail(g, "more than %d dimensions", IR_MAX_RANK)
                   : -1;
    int64_t length = 1;
    for (int32_t i = from; i < from + n; i++)
        length *= shape.dim[i];
    memmove(shape.dim + from + 1, shape.dim + from + n,
            (size_t)(shape.rank - from - n) * sizeof *shape.dim);
    shape.dim[from] = length;
    shape.rank += 1 - n;
    return ir_reshape(g, x, shape);
}

static void order_labels(char *out, int32_t *n, const char *from, int32_t more)
{
    memcpy(out + *n, from, (size_t)more);
    *n += more;
}

/* (batch.., rows, inner) times (batch.., inner, columns). Without batch axes
 * the rows stay apart: a matrix on the right serves them all. */
static fs_status multiply(einsum *e, term *a, term *b, int32_t next)
{
    ir_graph *g = e->g;
    roles r = roles_of(e, a, b, next);
    char label[2 * IR_MAX_RANK];
    int32_t n = 0;
    if (r.n_batch + r.n_rows + r.n_columns > IR_MAX_RANK)
        return onnx_fail(e->c, "a product of more than %d dimensions",
                         IR_MAX_RANK);
    ir_shape sa = ir_shape_of(g, a->x), sb = ir_shape_of(g, b->x), out = {0};
    for (int32_t i = 0; i < r.n_batch; i++)
        out.dim[out.rank++] = sa.dim[find(a->label, a->n, r.batch[i])];
    for (int32_t i = 0; i < r.n_rows; i++)
        out.dim[out.rank++] = sa.dim[find(a->label, a->n, r.rows[i])];
    for (int32_t i = 0; i < r.n_columns; i++)
        out.dim[out.rank++] = sb.dim[find(b->label, b->n, r.columns[i])];
    order_labels(label, &n, r.batch, r.n_batch);
    order_labels(label, &n, r.rows, r.n_rows);
    order_labels(label, &n, r.inner, r.n_inner);
    arrange(e, a, label);
    n = r.n_batch;
    order_labels(label, &n, r.inner, r.n_inner);
    order_labels(label, &n, r.columns, r.n_columns);
    arrange(e, b, label);
    bool apart = r.n_batch == 0 && r.n_rows > 0;
    int32_t x = merge(g, a->x, r.n_batch + r.n_rows, r.n_inner);
    int32_t y = merge(g, b->x, r.n_batch + r.n_inner, r.n_columns);
    x = apart ? x : merge(g, x, r.n_batch, r.n_rows);
    y = merge(g, y, r.n_batch, r.n_inner);
    a->x = r.n_inner ? ir_matmul(g, x, y, false, false)
                     : ir_binary(g, IR_OP_mul, x, y);
    a->x = ir_reshape(g, a->x, out);
    a->n = 0;
    order_labels(a->label, &a->n, r.batch, r.n_batch);
    order_labels(a->label, &a->n, r.rows, r.n_rows);
    order_labels(a->label, &a->n, r.columns, r.n_columns);
    return a->x >= 0 ? FS_OK : FS_INVALID;
}

fs_status onnx_import_einsum(onnx_ctx *c)
{
    einsum e = {.c = c, .g = c->graph};
    FS_TRY(read_equation(&e));
    for (int32_t k = 0; k < e.n; k++)
        FS_TRY(take_diagonals(&e, &e.in[k]));
    term *t = &e.in[0];
    for (int32_t k = 1; k < e.n; k++) {
        term *b = &e.in[k];
        FS_TRY(drop_ones(&e, t, b));
        FS_TRY(drop_ones(&e, b, t));
        sum_unwanted(&e, t, b, k + 1);
        sum_unwanted(&e, b, t, k + 1);
        FS_TRY(multiply(&e, t, b, k + 1));
    }
    sum_unwanted(&e, t, NULL, e.n);
    if (t->n != e.n_out)
        return bad_equation(&e, "an axis of the result is lost");
    arrange(&e, t, e.out);
    return onnx_set(c, 0, t->x);
}
