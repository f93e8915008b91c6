/* Candidates for a block's length are the distances between nodes that look
 * alike together with what precedes them; each is tested exactly over the
 * whole stretch, the one that covers most is taken, and what it leaves on both
 * sides is looked at again. Where that covers little, copies are looked for
 * that read again the weights of those before: layers that share their weights,
 * in turn. */
#include "config.h"
#include "ir/blocks_parts.h"

#include "base/hash.h"
#include "ir/op.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 4, CANDIDATES = 6, DEEPEST = 40, TRIALS = 8 };
static const struct {
    int32_t width;
    bool told; /* by what is read again, where looks leave much uncovered */
} windows[WINDOWS] = {{1, false}, {4, false}, {16, false}, {4, true}};

static uint64_t look_of(const ir_block_finder *f, const ir_node *node)
{
    uint64_t h = ir_node_look(node);
    for (int32_t k = 0; k < node->n_in; k++) {
        const ir_tensor *t = &f->graph->tensors.at[node->in[k]];
        h = ir_tensor_look(t, h ^ ((uint64_t)ir_blocks_role(t) << 40));
    }
    return h;
}

/* Weights, and what is made of them alone. */
static bool is_steady(const ir_block_finder *f, int32_t tensor)
{
    const ir_tensor *t = &f->graph->tensors.at[tensor];
    const int32_t number = f->number[t->producer];
    return number < 0 ? t->role != IR_INPUT : f->steady[number];
}

static void note_readings(ir_block_finder *f, int32_t number)
{
    const ir_node *node = ir_blocks_node(f, number);
    f->look[number] = f->told[number] = look_of(f, node);
    f->steady[number] = true;
    for (int32_t k = 0; k < node->n_in; k++) {
        const int32_t t = node->in[k];
        const bool steady = is_steady(f, t);
        if (steady && f->home[t] >= 0)
            f->told[number] = fs_mix(f->told[number] ^ (uint64_t)t);
        f->steady[number] = f->steady[number] && steady;
        f->reader[t] = number;
        if (f->home[t] < 0)
            f->home[t] = number;
    }
}

static void number_nodes(ir_block_finder *f)
{
    const ir_graph *g = f->graph;
    ir_blocks *out = f->out;
    f->number = fs_new(f->arena, int32_t, g->nodes.n);
    out->node = fs_new(f->arena, int32_t, g->nodes.n);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        f->number[v] = -1;
        if (ir_op_class_of(g->nodes.at[v].op) == IR_CLASS_SOURCE)
            continue;
        f->number[v] = out->n_nodes;
        out->node[out->n_nodes++] = v;
    }
    f->look = fs_new(f->arena, uint64_t, out->n_nodes);
    f->told = fs_new(f->arena, uint64_t, out->n_nodes);
    f->steady = fs_new(f->arena, bool, out->n_nodes);
    f->windows = fs_new(f->arena, uint64_t, out->n_nodes);
    f->reader = fs_new(f->arena, int32_t, g->tensors.n);
    f->home = fs_new(f->arena, int32_t, g->tensors.n);
    f->repeat = fs_new(f->arena, int32_t, out->n_nodes);
    f->step = fs_new(f->arena, int32_t, out->n_nodes);
    f->begin = INT32_MAX;
    f->entry = fs_new(f->arena, ir_block_place, g->tensors.n);
    for (int32_t t = 0; t < g->tensors.n; t++)
        f->entry[t].repeat = -1;
    f->stand_in = fs_new(f->arena, int32_t, g->tensors.n);
    f->stands_for = fs_new(f->arena, int32_t, g->tensors.n);
    memset(f->stand_in, 0xff, (size_t)g->tensors.n * sizeof *f->stand_in);
    memset(f->stands_for, 0xff, (size_t)g->tensors.n * sizeof *f->stands_for);
    memset(f->reader, 0xff, (size_t)g->tensors.n * sizeof *f->reader);
    memset(f->home, 0xff, (size_t)g->tensors.n * sizeof *f->home);
    memset(f->repeat, 0xff, (size_t)out->n_nodes * sizeof *f->repeat);
    for (int32_t i = 0; i < out->n_nodes; i++)
        note_readings(f, i);
    /* A marked output is read after everything. */
    for (int32_t k = 0; k < g->outputs.n; k++)
        f->reader[g->outputs.at[k]] = out->n_nodes;
}

/* ---- candidates ---- */

static int32_t *place_of(ir_block_finder *f, uint64_t window)
{
    uint64_t mask = (uint64_t)f->room - 1, at = fs_mix(window) & mask;
    while (f->last[at] >= 0 && f->key[at] != window)
        at = (at + 1) & mask;
    f->key[at] = window;
    return &f->last[at];
}

static void hash_windows(ir_block_finder *f, int32_t first, int32_t end, int w)
{
    const uint64_t *look = windows[w].told ? f->told : f->look;
    for (int32_t i = first; i < end; i++) {
        uint64_t h = 0;
        for (int32_t k = 0; k < windows[w].width && i - k >= first; k++)
            h = fs_mix(h ^ look[i - k]);
        f->windows[i] = h;
    }
}

static void vote(ir_block_finder *f, int32_t first, int32_t end, int w)
{
    int32_t n = end - first;
    f->room = 16;
    while (f->room < 2 * n)
        f->room *= 2;
    memset(f->last, 0xff, (size_t)f->room * sizeof *f->last);
    hash_windows(f, first, end, w);
    for (int32_t i = first + windows[w].width - 1; i < end; i++) {
        int32_t *last = place_of(f, f->windows[i]);
        if (*last >= 0) {
            int32_t apart = i - *last;
            if (f->votes[apart]++ == 0)
                f->voted[f->n_voted++] = apart;
        }
        *last = i;
    }
}

/* The distances with most votes; forgets the votes. */
static int32_t list_candidates(ir_block_finder *f, int32_t out[CANDIDATES])
{
    int32_t n = 0;
    for (; n < CANDIDATES; n++) {
        int32_t best = -1;
        for (int32_t k = 0; k < f->n_voted; k++)
            if (f->votes[f->voted[k]] > 0 &&
                (best < 0 || f->votes[f->voted[k]] > f->votes[best] ||
                 (f->votes[f->voted[k]] == f->votes[best] &&
                  f->voted[k] < best)))
                best = f->voted[k];
        if (best < 0)
            break;
        out[n] = best;
        f->votes[best] = 0;
    }
    for (int32_t k = 0; k < f->n_voted; k++)
        f->votes[f->voted[k]] = 0;
    f->n_voted = 0;
    return n;
}

/* ---- what is read from outside a copy ---- */

static bool read_outside(const ir_block_finder *f, int32_t number, int32_t slot,
                         int32_t copy_end)
{
    return f->reader[ir_blocks_node(f, number)->out[slot]] >= copy_end;
}

/* Is the same read from outside copies c and 0? */
static bool exports_alike(const ir_block_finder *f, const ir_repeat *r,
                          int32_t c)
{
    int32_t begin = r->first + c * r->length;
    for (int32_t j = 0; j < r->length; j++)
        for (int32_t k = 0; k < ir_blocks_node(f, r->first + j)->n_out; k++)
            if (read_outside(f, r->first + j, k, r->first + r->length) !=
                read_outside(f, begin + j, k, begin + r->length))
                return false;
    return true;
}

/* Do copies c and c + 1 read one and the same tensor of the stretch? It lies
 * a copy further back for the second. */
static bool share_inside(const ir_block_finder *f, const ir_repeat *r,
                         int32_t c)
{
    int32_t begin = r->first + c * r->length;
    for (int32_t i = begin; i < begin + r->length; i++) {
        const ir_node *a = ir_blocks_node(f, i),
                      *b = ir_blocks_node(f, i + r->length);
        for (int32_t k = 0; k < a->n_in; k++)
            if (a->in[k] == b->in[k] &&
                f->number[f->graph->tensors.at[a->in[k]].producer] >= r->first)
                return true;
    }
    return false;
}

/* Cuts the stretch where a copy exports other things than the first (the last
 * of all is not asked) or reads what the one before it reads. */
static void cut_differences(const ir_block_finder *f, ir_repeat *r)
{
    for (int32_t c = 0; c + 1 < r->copies; c++) {
        bool exports = c == 0 || exports_alike(f, r, c);
        if (!exports || share_inside(f, r, c)) {
            r->copies = c + 1;
            return;
        }
    }
}

/* Tensors that leave the first copy, when it begins at `first`. */
static int32_t count_exports(const ir_block_finder *f, int32_t first,
                             int32_t length)
{
    int32_t n = 0;
    for (int32_t j = 0; j < length; j++)
        for (int32_t k = 0; k < ir_blocks_node(f, first + j)->n_out; k++)
            n += read_outside(f, first + j, k, first + length);
    return n;
}

/* Nodes [first, first + run) are each alike the one `length` further on; what
 * is looked at begins at `low` and ends before `end`. */
typedef struct stretch {
    int32_t low, end, first, run, length;
} stretch;

/* A copy more before a stretch that begins where the least leaves a copy. */
static bool add_first_copy(ir_block_finder *f, const stretch *s, int32_t least,
                           ir_repeat *r)
{
    int32_t trials = 0, slack = s->run % s->length;
    for (int32_t k = slack; k >= 0 && trials < TRIALS; k--) {
        int32_t begin = s->first + k - s->length;
        if (begin < s->low || count_exports(f, s->first + k, s->length) > least)
            continue;
        trials++;
        if (ir_blocks_first_copy(f, begin, s->length)) {
            r->first = begin;
            r->copies++;
            return true;
        }
    }
    return false;
}

/* The stretch may begin at several places: at the one where the least leaves
 * a copy. */
static ir_repeat align(ir_block_finder *f, const stretch *s)
{
    ir_repeat r = {s->first, s->length, s->run / s->length + 1, NULL, NULL};
    int32_t slack = s->run % s->length, least = INT32_MAX;
    for (int32_t k = 0; k <= slack; k++) {
        int32_t n = count_exports(f, s->first + k, s->length);
        if (n < least) {
            least = n;
            r.first = s->first + k;
        }
    }
    add_first_copy(f, s, least, &r);
    cut_differences(f, &r);
    return r;
}

/* Of two copies the first reads from elsewhere, and only a part of them is the
 * stretch: it may be their middle, or their end. */
static ir_repeat align_two(ir_block_finder *f, const stretch *s)
{
    ir_repeat r = {.length = s->length};
    int32_t least = INT32_MAX;
    for (int32_t k = 0; k < 2 * TRIALS; k++) {
        int32_t begin = s->first - k / 2;
        if (k % 2)
            begin += s->run - s->length;
        if (begin < s->low || begin + 2 * s->length > s->end)
            continue;
        int32_t n = count_exports(f, begin, s->length);
        if (n < least && ir_blocks_first_copy(f, begin, s->length)) {
            least = n;
            r.first = begin;
            r.copies = 2;
        }
    }
    cut_differences(f, &r);
    return r;
}

static int64_t covered(const ir_repeat *r)
{
    return r->copies > 1 ? (int64_t)r->copies * r->length : 0;
}

/* The best stretch of copies of this length within [first, end), of those that
 * cover more than `least`. */
static ir_repeat try_length(ir_block_finder *f, int32_t first, int32_t end,
                            int32_t length, int64_t least)
{
    ir_repeat best = {0};
    const int32_t shortest = (length + 3) / 4;
    int32_t until = first; /* as far as nodes look like those further on */
    for (int32_t i = first; i + length < end; i++) {
        int32_t run = 0;
        until = until > i ? until : i;
        while (until + length < end &&
               f->look[until] == f->look[until + length])
            until++;
        if (until - i < shortest || until - i + 2 * length <= least) {
            i = until; /* no stretch begins before */
            continue;
        }
        memset(f->step, 0, (size_t)f->out->repeats.n * sizeof *f->step);
        while (i + run + length < end && ir_blocks_alike(f, i + run, length))
            run++;
        const stretch s = {first, end, i, run, length};
        ir_repeat r = {0};
        if (run >= length && run + 2 * length > least)
            r = align(f, &s);
        else if (run < length && run >= shortest && 2 * length > least)
            r = align_two(f, &s);
        if (covered(&r) > least) {
            best = r;
            least = covered(&r);
        }
        i += run;
    }
    return best;
}

/* Lengths that were tried already of what is looked at. */
typedef struct trials {
    int32_t n, length[WINDOWS * CANDIDATES];
} trials;

static bool tried(trials *t, int32_t length)
{
    for (int32_t k = 0; k < t->n; k++)
        if (t->length[k] == length)
            return true;
    t->length[t->n++] = length;
    return false;
}

static ir_repeat best_repeat(ir_block_finder *f, int32_t first, int32_t end)
{
    ir_repeat best = {0};
    trials so_far = {0};
    for (int w = 0; w < WINDOWS; w++) {
        int32_t length[CANDIDATES];
        if (end - first < 2 * windows[w].width ||
            (windows[w].told && 2 * covered(&best) >= end - first))
            continue;
        vote(f, first, end, w);
        int32_t n = list_candidates(f, length);
        for (int32_t k = 0; k < n; k++) {
            if (tried(&so_far, length[k]))
                continue;
            /* a shorter one may cover as much */
            const bool shorter = best.copies > 1 && length[k] < best.length;
            ir_repeat r =
                try_length(f, first, end, length[k], covered(&best) - shorter);
            if (covered(&r) > 0)
                best = r;
        }
    }
    return best;
}

/* ---- the whole ---- */

/* The common beginning of the names in copy 0, up to a separator. */
static const char *scope_of(const ir_block_finder *f, const ir_repeat *r)
{
    const char *name = ir_blocks_node(f, r->first)->name;
    size_t n = name ? strlen(name) : 0;
    for (int32_t j = 1; j < r->length && n; j++) {
        const char *other = ir_blocks_node(f, r->first + j)->name;
        size_t k = 0;
        while (other && k < n && other[k] == name[k])
            k++;
        n = other ? k : 0;
    }
    while (n && name[n - 1] != '/' && name[n - 1] != '.')
        n--;
    return fs_strndup(f->arena, name ? name : "", n);
}

/* A block of one node is worth nothing unless it is long. */
static bool worthwhile(const ir_repeat *r)
{
    return r->copies > 1 && r->length > 1;
}

static void keep(ir_block_finder *f, ir_repeat *r)
{
    r->name = ir_blocks_node(f, r->first)->name;
    r->scope = scope_of(f, r);
    for (int32_t i = 0; i < r->copies * r->length; i++)
        f->repeat[r->first + i] = f->out->repeats.n;
    ir_blocks_note_entries(f, r, f->out->repeats.n);
    fs_push(f->arena, &f->out->repeats, *r);
}

static void search_between(ir_block_finder *f, int32_t first, int32_t end,
                           int32_t depth)
{
    if (end - first < 4 || depth == DEEPEST)
        return;
    ir_repeat r = best_repeat(f, first, end);
    if (!worthwhile(&r))
        return;
    keep(f, &r);
    search_between(f, first, r.first, depth + 1);
    search_between(f, r.first + r.copies * r.length, end, depth + 1);
}

static int by_first(const void *a, const void *b)
{
    const ir_repeat *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Phase after phase: each reads what the ones before repeat. */
static void search_phases(ir_block_finder *f)
{
    for (int32_t i = 0, end; i < f->out->n_nodes; i = end) {
        for (end = i; end < f->out->n_nodes; end++)
            if (ir_blocks_node(f, end)->phase != ir_blocks_node(f, i)->phase)
                break;
        search_between(f, i, end, 0);
    }
    if (f->out->repeats.n)
        qsort(f->out->repeats.at, (size_t)f->out->repeats.n,
              sizeof *f->out->repeats.at, by_first);
}

void ir_find_blocks(const ir_graph *graph, fs_arena *arena, ir_blocks *out)
{
    *out = (ir_blocks){0};
    ir_block_finder f = {.graph = graph, .out = out, .arena = arena};
    number_nodes(&f);
    int32_t room = 16;
    while (room < 2 * out->n_nodes)
        room *= 2;
    f.last = fs_new(arena, int32_t, room);
    f.key = fs_new(arena, uint64_t, room);
    f.votes = fs_new(arena, int32_t, out->n_nodes + 1);
    f.voted = fs_new(arena, int32_t, out->n_nodes + 1);
    search_phases(&f);
}

int32_t ir_blocks_covered(const ir_blocks *blocks)
{
    int32_t n = 0;
    for (int32_t k = 0; k < blocks->repeats.n; k++)
        n += blocks->repeats.at[k].copies * blocks->repeats.at[k].length;
    return n;
}
