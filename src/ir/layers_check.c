/* Proves which of the guessed copies are equal (layers.h says what that is).
 *
 * Copies [first, end) are held against what a middle one is, position by
 * position. Those that differ are left out, and what remains on both sides is
 * looked at again, until all that is looked at is equal. */
#include "config.h"
#include "ir/layers_parts.h"

#include "ir/op.h"
#include "ir/recompute.h"

#include <stdlib.h>
#include <string.h>

/* Ends a search for equal copies where it would not end soon. */
enum { DEEPEST = 8 };

/* Where an input comes from. */
typedef enum origin_kind { OWN, OUTSIDE, LINK } origin_kind;
typedef struct origin {
    origin_kind kind;
    int32_t a, slot; /* position and its output; the tensor and 0 */
} origin;

typedef struct span {
    ir_layer_finder *f;
    fs_arena *arena;
    int32_t run, first, end; /* copies */
    int32_t length;
    int32_t *node;  /* [(end - first) * length] by position */
    bool *differs;  /* [end - first] */
    origin *origin; /* [length * IR_MAX_IN] */
    int32_t *enter; /* [length * IR_MAX_OUT] as ir_layer_run */
    int32_t *tail;  /* [length * IR_MAX_OUT] the copy where the chain ends */
    int32_t *from;  /* [end - first] of a chain, the copy before each; -1 */
    int32_t *stamp; /* [end - first] */
} span;

static int32_t copies_of(const span *s)
{
    return s->end - s->first;
}

/* Node at position p of copy c, counted from the first of the span. */
static int32_t node_at(const span *s, int32_t c, int32_t p)
{
    return s->node[(size_t)c * (size_t)s->length + (size_t)p];
}

static const ir_node *look_at(const span *s, int32_t c, int32_t p)
{
    return &s->f->graph->nodes.at[node_at(s, c, p)];
}

static bool is_inside(const span *s, int32_t v)
{
    return s->f->run[v] == s->run && s->f->copy[v] >= s->first &&
           s->f->copy[v] < s->end;
}

static int32_t copy_of(const span *s, int32_t v)
{
    return s->f->copy[v] - s->first;
}

static bool at_rim(const span *s, int32_t c)
{
    return c == 0 || c == copies_of(s) - 1;
}

/* ---- positions ---- */

typedef struct marked {
    uint64_t mark;
    int32_t position;
} marked;

static int by_mark(const void *a, const void *b)
{
    const marked *x = a, *y = b;
    return (x->mark > y->mark) - (x->mark < y->mark);
}

/* The middle copy's nodes, in the graph's order, and the same by marks. */
static marked *list_marks(const span *s)
{
    const ir_layer_finder *f = s->f;
    const int32_t *node = f->member + f->begin[(s->first + s->end) / 2];
    marked *list = fs_new(s->arena, marked, s->length);
    for (int32_t p = 0; p < s->length; p++)
        list[p] = (marked){f->mark[node[p]], p};
    return list;
}

/* Puts the nodes of copy c to their positions; false: not each has one. */
static bool place_copy(span *s, int32_t c, const marked *order,
                       const marked *sorted)
{
    ir_layer_finder *f = s->f;
    const int32_t begin = f->begin[s->first + c];
    int32_t *node = s->node + (size_t)c * (size_t)s->length;
    if (f->begin[s->first + c + 1] - begin != s->length)
        return false;
    for (int32_t p = 0; p < s->length; p++)
        node[p] = -1;
    for (int32_t i = 0; i < s->length; i++) {
        const int32_t v = f->member[begin + i];
        const marked key = {f->mark[v], 0};
        const marked *at =
            order[i].mark == key.mark
                ? &order[i]
                : bsearch(&key, sorted, (size_t)s->length, sizeof key, by_mark);
        if (!at || node[at->position] >= 0)
            return false;
        node[at->position] = v;
        f->position[v] = at->position;
    }
    return true;
}

static void place_copies(span *s)
{
    marked *order = list_marks(s);
    marked *sorted =
        fs_memdup(s->arena, order, (size_t)s->length * sizeof *order);
    qsort(sorted, (size_t)s->length, sizeof *sorted, by_mark);
    for (int32_t c = 0; c < copies_of(s); c++)
        s->differs[c] = !place_copy(s, c, order, sorted);
}

/* ---- position by position ---- */

static origin origin_of(const span *s, int32_t copy, int32_t tensor)
{
    const ir_tensor *t = &s->f->graph->tensors.at[tensor];
    if (!is_inside(s, t->producer))
        return (origin){OUTSIDE, tensor, 0};
    return (origin){copy_of(s, t->producer) == copy ? OWN : LINK,
                    s->f->position[t->producer], t->slot};
}

static bool same_origin(const origin *a, const origin *b)
{
    return a->kind == b->kind && a->a == b->a && a->slot == b->slot;
}

/* What two of three copies in the middle say. */
static void note_origins(span *s)
{
    const int32_t middle = copies_of(s) / 2;
    for (int32_t p = 0; p < s->length; p++)
        for (int32_t k = 0; k < look_at(s, middle, p)->n_in; k++) {
            origin said[3];
            for (int32_t c = 0; c < 3; c++) {
                const ir_node *node = look_at(s, middle - 1 + c, p);
                said[c] = k < node->n_in
                              ? origin_of(s, middle - 1 + c, node->in[k])
                              : (origin){OUTSIDE, -1, 0};
            }
            const bool first = same_origin(&said[0], &said[1]) ||
                               same_origin(&said[0], &said[2]);
            s->origin[p * IR_MAX_IN + k] = said[first ? 0 : 1];
        }
}

static bool same_type(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && ir_shape_equal(&a->shape, &b->shape);
}

static bool same_node(const ir_graph *g, const ir_node *a, const ir_node *b)
{
    int64_t attr[2][IR_MAX_ATTR];
    if (a->op != b->op || a->phase != b->phase || a->n_in != b->n_in ||
        a->n_out != b->n_out || memcmp(a->f, b->f, sizeof a->f) != 0)
        return false;
    ir_structural_attrs(a, attr[0]);
    ir_structural_attrs(b, attr[1]);
    if (memcmp(attr[0], attr[1], sizeof attr[0]) != 0)
        return false;
    for (int32_t k = 0; k < a->n_in; k++)
        if (!same_type(&g->tensors.at[a->in[k]], &g->tensors.at[b->in[k]]))
            return false;
    for (int32_t k = 0; k < a->n_out; k++) {
        const ir_tensor *x = &g->tensors.at[a->out[k]];
        const ir_tensor *y = &g->tensors.at[b->out[k]];
        if (!same_type(x, y) || x->role != y->role ||
            x->batch_axis != y->batch_axis)
            return false;
    }
    return true;
}

/* Do nodes v of copy c and w of copy d refer alike to nodes a and b? */
static bool same_reference(const span *s, int32_t c, int32_t a, int32_t d,
                           int32_t b)
{
    if (a < 0 || b < 0 || !is_inside(s, a) || !is_inside(s, b))
        return a == b;
    return copy_of(s, a) == c && copy_of(s, b) == d &&
           s->f->position[a] == s->f->position[b];
}

static bool same_tensor_reference(const span *s, int32_t c, int32_t a,
                                  int32_t d, int32_t b)
{
    const ir_tensor *t = s->f->graph->tensors.at;
    if (a < 0 || b < 0)
        return a == b;
    return t[a].slot == t[b].slot &&
           same_reference(s, c, t[a].producer, d, t[b].producer);
}

static bool same_references(const span *s, int32_t c, const ir_node *a,
                            int32_t d, const ir_node *b)
{
    const ir_tensor *t = s->f->graph->tensors.at;
    if (!same_reference(s, c, a->forward, d, b->forward))
        return false;
    for (int32_t k = 0; k < a->n_out; k++)
        if (!same_tensor_reference(s, c, t[a->out[k]].next, d,
                                   t[b->out[k]].next) ||
            !same_tensor_reference(s, c, t[a->out[k]].again_of, d,
                                   t[b->out[k]].again_of))
            return false;
    return true;
}

static bool same_inputs(const span *s, int32_t c, int32_t p)
{
    const ir_node *node = look_at(s, c, p);
    for (int32_t k = 0; k < node->n_in; k++) {
        const origin *wanted = &s->origin[p * IR_MAX_IN + k];
        const origin is = origin_of(s, c, node->in[k]);
        if (wanted->kind != LINK && !same_origin(wanted, &is))
            return false;
    }
    return true;
}

static void compare_copies(span *s)
{
    const int32_t middle = copies_of(s) / 2;
    for (int32_t c = 0; c < copies_of(s); c++)
        for (int32_t p = 0; p < s->length && !s->differs[c]; p++) {
            const ir_node *a = look_at(s, middle, p), *b = look_at(s, c, p);
            s->differs[c] = !same_node(s->f->graph, a, b) ||
                            !same_references(s, middle, a, c, b) ||
                            !same_inputs(s, c, p);
        }
}

/* ---- chains ---- */

/* From which copy comes what copy c reads as input k of position p, by the
 * chain; -1: from elsewhere. */
static void follow_link(span *s, int32_t p, int32_t k)
{
    const origin *by = &s->origin[p * IR_MAX_IN + k];
    for (int32_t c = 0; c < copies_of(s); c++) {
        const int32_t t = look_at(s, c, p)->in[k];
        const origin is = origin_of(s, c, t);
        s->from[c] = same_origin(by, &is)
                         ? copy_of(s, s->f->graph->tensors.at[t].producer)
                         : -1;
    }
}

/* Steps that lead from the copy `step` before. */
static int32_t count_steps(const span *s, int32_t step)
{
    int32_t n = 0;
    for (int32_t c = 0; c < copies_of(s); c++)
        n += s->from[c] >= 0 && s->from[c] == c - step;
    return n;
}

/* One path through all copies, whose results come in its order. */
static bool is_path(span *s, int32_t position, int32_t *tail)
{
    const int32_t n = copies_of(s);
    int32_t heads = 0;
    memset(s->stamp, 0, (size_t)n * sizeof *s->stamp);
    for (int32_t c = 0; c < n; c++) {
        const int32_t from = s->from[c];
        heads += from < 0;
        if (from >= 0 && (s->stamp[from]++ || node_at(s, from, position) >=
                                                  node_at(s, c, position)))
            return false;
    }
    for (int32_t c = 0; c < n; c++)
        if (!s->stamp[c])
            *tail = c;
    return heads == 1;
}

/* Copies that stand where the chain goes neither forth nor back. */
static void mark_strays(span *s)
{
    const int32_t forth = count_steps(s, 1), back = count_steps(s, -1);
    const int32_t step = forth >= back ? 1 : -1;
    const int32_t head = step > 0 ? 0 : copies_of(s) - 1;
    bool any = false;
    for (int32_t c = 0; c < copies_of(s); c++)
        if (c != head && s->from[c] != c - step)
            any = s->differs[c] = true;
    if (!any) /* out of order */
        memset(s->differs, true, (size_t)copies_of(s));
}

/* Inputs that the same output enters by read one tensor in each copy, but for
 * the copy that the chain begins with when it is always kept. */
static void join_entries(span *s, int32_t p, int32_t k, int32_t *enter)
{
    if (*enter < 0) {
        *enter = p * IR_MAX_IN + k;
        return;
    }
    const int32_t q = *enter / IR_MAX_IN, slot = *enter % IR_MAX_IN;
    for (int32_t c = 0; c < copies_of(s); c++)
        if ((s->from[c] >= 0 || !at_rim(s, c)) &&
            look_at(s, c, p)->in[k] != look_at(s, c, q)->in[slot])
            s->differs[c] = true;
}

static void check_links(span *s)
{
    const int32_t middle = copies_of(s) / 2;
    for (int32_t p = 0; p < s->length; p++)
        for (int32_t k = 0; k < look_at(s, middle, p)->n_in; k++) {
            const origin *by = &s->origin[p * IR_MAX_IN + k];
            if (by->kind != LINK)
                continue;
            const int32_t out = by->a * IR_MAX_OUT + by->slot;
            follow_link(s, p, k);
            if (is_path(s, by->a, &s->tail[out]))
                join_entries(s, p, k, &s->enter[out]);
            else
                mark_strays(s);
        }
}

/* ---- who else reads what is inside ---- */

/* May a node that is not at the same position of all copies read it? */
static bool may_be_read(const span *s, int32_t tensor)
{
    const ir_tensor *t = &s->f->graph->tensors.at[tensor];
    const int32_t c = copy_of(s, t->producer);
    const int32_t out = s->f->position[t->producer] * IR_MAX_OUT + t->slot;
    return at_rim(s, c) || (s->enter[out] >= 0 && s->tail[out] == c);
}

/* What a chain begins with: anything that is there when the copy is; and who
 * comes next reads it when the copy is not. */
static void check_heads(span *s, int32_t p, int32_t k)
{
    const origin *by = &s->origin[p * IR_MAX_IN + k];
    for (int32_t c = 0; c < copies_of(s); c++) {
        const int32_t t = look_at(s, c, p)->in[k];
        const origin is = origin_of(s, c, t);
        if (same_origin(by, &is))
            continue;
        if (!at_rim(s, c) && node_at(s, c, by->a) < node_at(s, c, p))
            s->differs[c] = true;
        if (is.kind == OUTSIDE)
            continue;
        if (is.kind == OWN ? !at_rim(s, c) : !may_be_read(s, t))
            s->differs[c] = true;
    }
}

static bool read_from_outside(const span *s, int32_t c, int32_t tensor)
{
    const ir_layer_finder *f = s->f;
    bool read = f->pinned[tensor], referred = false;
    const int32_t by[2] = {f->held_by[tensor], f->again[tensor]};
    for (int32_t k = 0; k < 2; k++)
        referred |=
            by[k] == IR_LAYERS_SEVERAL || (by[k] >= 0 && !is_inside(s, by[k]));
    for (int32_t k = f->uses.first[tensor]; k < f->uses.first[tensor + 1]; k++)
        read |= !is_inside(s, f->uses.list[k]);
    return (referred && !at_rim(s, c)) || (read && !may_be_read(s, tensor));
}

static void check_readers(span *s, int32_t c)
{
    const ir_layer_finder *f = s->f;
    for (int32_t p = 0; p < s->length && !s->differs[c]; p++) {
        const int32_t v = node_at(s, c, p);
        const ir_node *node = look_at(s, c, p);
        for (int32_t k = 0; k < node->n_out; k++)
            s->differs[c] |= read_from_outside(s, c, node->out[k]);
        for (int32_t k = f->kid_first[v]; k < f->kid_first[v + 1]; k++)
            s->differs[c] |= !at_rim(s, c) && !is_inside(s, f->kid[k]);
    }
}

static void check_outside(span *s)
{
    const int32_t middle = copies_of(s) / 2;
    for (int32_t p = 0; p < s->length; p++)
        for (int32_t k = 0; k < look_at(s, middle, p)->n_in; k++)
            if (s->origin[p * IR_MAX_IN + k].kind == LINK)
                check_heads(s, p, k);
    for (int32_t c = 0; c < copies_of(s); c++)
        check_readers(s, c);
}

/* ---- the whole ---- */

static bool any_differs(const span *s)
{
    for (int32_t c = 0; c < copies_of(s); c++)
        if (s->differs[c])
            return true;
    return false;
}

/* The common beginning of the first copy's forward names, up to a separator. */
static const char *scope_of(const span *s)
{
    const char *name = NULL;
    size_t n = 0;
    for (int32_t p = 0; p < s->length; p++) {
        const ir_node *node = look_at(s, 0, p);
        if (node->phase != IR_FORWARD ||
            ir_op_class_of(node->op) == IR_CLASS_SOURCE ||
            ir_changes_precision(s->f->graph, node))
            continue;
        n = name ? n : strlen(node->name);
        name = name ? name : node->name;
        for (size_t k = 0; k < n; k++)
            if (node->name[k] != name[k])
                n = k;
    }
    while (n && name[n - 1] != '/' && name[n - 1] != '.')
        n--;
    return fs_strndup(s->f->kept, name ? name : "", n);
}

static void keep_run(const span *s)
{
    ir_layers *out = s->f->out;
    const size_t n = (size_t)copies_of(s) * (size_t)s->length;
    const size_t n_out = (size_t)s->length * IR_MAX_OUT;
    const ir_layer_run run = {
        .copies = copies_of(s),
        .length = s->length,
        .node = fs_memdup(s->f->kept, s->node, n * sizeof *s->node),
        .scope = scope_of(s),
        .enter = fs_memdup(s->f->kept, s->enter, n_out * sizeof *s->enter)};
    for (size_t i = 0; i < n; i++)
        out->run[s->node[i]] = out->runs.n;
    fs_push(s->f->kept, &out->runs, run);
}

static void check_all(span *s)
{
    place_copies(s);
    if (any_differs(s))
        return;
    note_origins(s);
    compare_copies(s);
    if (any_differs(s))
        return;
    check_links(s);
    if (any_differs(s))
        return;
    check_outside(s);
}

static span open_span(ir_layer_finder *f, int32_t run, int32_t first,
                      int32_t end)
{
    span s = {.f = f, .run = run, .first = first, .end = end};
    const int32_t middle = (first + end) / 2, n = end - first;
    s.arena = fs_arena_create();
    s.length = f->begin[middle + 1] - f->begin[middle];
    const size_t n_out = (size_t)s.length * IR_MAX_OUT;
    s.node = fs_new(s.arena, int32_t, (size_t)n * (size_t)s.length);
    s.differs = fs_new(s.arena, bool, n);
    s.origin = fs_new(s.arena, origin, s.length * IR_MAX_IN);
    s.enter = fs_new(s.arena, int32_t, n_out);
    s.tail = fs_new(s.arena, int32_t, n_out);
    s.from = fs_new(s.arena, int32_t, n);
    s.stamp = fs_new(s.arena, int32_t, n);
    memset(s.enter, 0xff, n_out * sizeof *s.enter);
    return s;
}

static void check_span(ir_layer_finder *f, int32_t run, const int32_t range[2],
                       int32_t depth)
{
    if (range[1] - range[0] < IR_LAYERS_LEAST || depth == DEEPEST)
        return;
    span s = open_span(f, run, range[0], range[1]);
    check_all(&s);
    if (!any_differs(&s))
        keep_run(&s);
    for (int32_t c = 0, end; any_differs(&s) && c < copies_of(&s); c = end) {
        for (end = c; end < copies_of(&s) && !s.differs[end];)
            end++;
        check_span(f, run, (int32_t[]){range[0] + c, range[0] + end},
                   depth + 1);
        end++;
    }
    fs_arena_destroy(s.arena);
}

void ir_layers_check(ir_layer_finder *f, int32_t run, int32_t first,
                     int32_t end)
{
    check_span(f, run, (int32_t[]){first, end}, 0);
}
