#include "config.h"

#include "plan/offsets.h"

#include <stdlib.h>
#include <string.h>

/* Branch and bound over placements that are let down: each buffer lies on the
 * ground or on one that it meets in time, and they are placed in ascending
 * order of offset, so that what is placed is known by its tops.
 *
 * A node takes the lowest offset that a buffer still can have, and there the
 * section with the fewest bytes to spare, then the fewest buffers that could
 * lie so low: one of these does, or that section's next buffer lies higher.
 *
 * A partial placement is given up when in some section the lowest place that
 * any of its buffers still has, and the bytes of them all, exceed the capacity.
 * What shares no section with the rest is searched on its own. */

typedef struct saved {
    int64_t top;
    int32_t section, buffer; /* -1: it was only raised */
} saved;

typedef struct search {
    const plan_packing *p;
    fs_arena *arena;
    int64_t capacity, steps;
    int32_t *rank;    /* [n] a static order, for ties */
    int32_t *twin;    /* [n] the equal buffer before it; -1 */
    int64_t *offset;  /* [n]; -1: not placed */
    int64_t *at;      /* [n] of what is open: on the tops below it */
    int32_t *parent;  /* [n] union-find of what shares sections */
    int64_t *top;     /* [sections] of what is placed */
    int64_t *left;    /* [sections] bytes of what is not */
    int64_t *lowest;  /* [sections] least place of what is not */
    int32_t *owner;   /* [sections] an open buffer of it */
    int32_t *choices; /* [sections] buffers that could lie lowest */
    FS_VEC(saved) trail;
    FS_VEC(int32_t) open; /* a stack: each node's parts of it */
} search;

/* Buffers that are not placed: a part of the stack `open`. */
typedef struct part {
    int32_t first, n;
} part;

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define EACH_SECTION(b, k, s)                                                  \
    for (int32_t k = 0; k < (b)->n_spans; k++)                                 \
        for (int32_t s = (b)->spans[k].start; s <= (b)->spans[k].end; s++)

/* ---- placing and taking back ---- */

static void raise(search *x, int32_t section, int64_t to, int32_t buffer)
{
    fs_push(x->arena, &x->trail, (saved){x->top[section], section, buffer});
    x->top[section] = to;
}

static void put(search *x, int32_t buffer, int64_t at)
{
    const plan_buffer *b = &x->p->buffers[buffer];

    x->offset[buffer] = at;
    EACH_SECTION(b, k, s)
    {
        raise(x, s, at + b->bytes, buffer);
        x->left[s] -= b->bytes;
    }
}

static void take_back(search *x, int32_t length)
{
    while (x->trail.n > length) {
        const saved *v = &x->trail.at[--x->trail.n];
        x->top[v->section] = v->top;
        if (v->buffer < 0)
            continue;
        x->left[v->section] += x->p->buffers[v->buffer].bytes;
        x->offset[v->buffer] = -1;
    }
}

/* ---- a node: what is open ---- */

static int32_t root_of(search *x, int32_t b)
{
    while (x->parent[b] != b)
        b = x->parent[b] = x->parent[x->parent[b]];
    return b;
}

/* Where each open buffer would lie now, and the lowest such place by section;
 * returns how many parts share no section. */
static int32_t look(search *x, part open)
{
    const int32_t *list = &x->open.at[open.first];
    int32_t parts = open.n;

    for (int32_t i = 0; i < open.n; i++) {
        const plan_buffer *b = &x->p->buffers[list[i]];
        int64_t top = 0;
        EACH_SECTION(b, k, s)
        {
            top = max64(top, x->top[s]);
            x->lowest[s] = INT64_MAX;
            x->owner[s] = -1;
            --x->steps;
        }
        x->at[list[i]] = top;
        x->parent[list[i]] = list[i];
    }
    for (int32_t i = 0; i < open.n; i++) {
        const plan_buffer *b = &x->p->buffers[list[i]];
        int64_t at = x->at[list[i]];
        int32_t root = list[i];
        EACH_SECTION(b, k, s)
        {
            x->lowest[s] = min64(x->lowest[s], at);
            if (x->owner[s] >= 0) {
                int32_t other = root_of(x, x->owner[s]);
                parts -= other != root;
                x->parent[other] = root;
            }
            x->owner[s] = root;
        }
    }
    return parts;
}

static bool too_high(const search *x, part open)
{
    const int32_t *list = &x->open.at[open.first];

    for (int32_t i = 0; i < open.n; i++) {
        const plan_buffer *b = &x->p->buffers[list[i]];
        EACH_SECTION(b, k, s)
        if (x->lowest[s] + x->left[s] > x->capacity)
            return true;
    }
    return false;
}

/* ---- branching ---- */

/* The lowest place of what is open, and the next one: what does not lie there
 * lies on the end of something, or on a top that is higher. */
typedef struct level {
    int64_t at, next;
    int32_t section;
} level;

static bool scarcer(const search *x, int32_t s, int32_t than)
{
    int64_t a, b;

    if (than < 0)
        return true;
    a = x->capacity - x->left[s];
    b = x->capacity - x->left[than];
    if (a != b)
        return a < b;
    if (x->choices[s] != x->choices[than])
        return x->choices[s] < x->choices[than];
    return s < than;
}

static level find_level(search *x, part open)
{
    const int32_t *list = &x->open.at[open.first];
    level l = {INT64_MAX, INT64_MAX, -1};

    for (int32_t i = 0; i < open.n; i++) {
        l.at = min64(l.at, x->at[list[i]]);
        l.next = min64(l.next, x->at[list[i]] + x->p->buffers[list[i]].bytes);
    }
    for (int32_t pass = 0; pass < 3; pass++)
        for (int32_t i = 0; i < open.n; i++) {
            const plan_buffer *b = &x->p->buffers[list[i]];
            if (x->at[list[i]] > l.at)
                l.next = min64(l.next, x->at[list[i]]);
            else
                EACH_SECTION(b, k, s)
                {
                    if (pass == 0)
                        x->choices[s] = 0;
                    else if (pass == 1)
                        x->choices[s]++;
                    else if (scarcer(x, s, l.section))
                        l.section = s;
                }
        }
    return l;
}

static bool lives_in(const plan_buffer *b, int32_t section)
{
    for (int32_t k = 0; k < b->n_spans; k++)
        if (b->spans[k].start <= section && section <= b->spans[k].end)
            return true;
    return false;
}

static int32_t by_rank_of(const search *x, int32_t a, int32_t b)
{
    return x->rank[a] - x->rank[b];
}

/* Pushes the buffers that may lie lowest in the level's section, best first;
 * of equal ones the first. */
static part list_choices(search *x, part open, const level *l)
{
    part choices = {x->open.n, 0};

    for (int32_t i = 0; i < open.n; i++) {
        int32_t b = x->open.at[open.first + i], at;
        if (x->at[b] != l->at || !lives_in(&x->p->buffers[b], l->section) ||
            (x->twin[b] >= 0 && x->offset[x->twin[b]] < 0))
            continue;
        fs_push(x->arena, &x->open, b);
        at = choices.first + choices.n++;
        for (; at > choices.first && by_rank_of(x, x->open.at[at - 1], b) > 0;
             at--)
            x->open.at[at] = x->open.at[at - 1];
        x->open.at[at] = b;
    }
    return choices;
}

static plan_fit solve(search *x, part open);

static plan_fit try_choice(search *x, part open, int32_t buffer, int64_t at)
{
    int32_t length = x->trail.n;
    part rest = {x->open.n, 0};
    plan_fit fit;

    put(x, buffer, at);
    for (int32_t i = 0; i < open.n; i++) {
        int32_t b = x->open.at[open.first + i];
        if (b != buffer)
            fs_push(x->arena, &x->open, b);
    }
    rest.n = x->open.n - rest.first;
    fit = solve(x, rest);
    x->open.n = rest.first;
    if (fit != PLAN_FIT_FOUND)
        take_back(x, length);
    return fit;
}

static plan_fit branch(search *x, part open)
{
    int32_t length = x->trail.n;
    level l = find_level(x, open);
    part choices = list_choices(x, open, &l);
    plan_fit fit = PLAN_FIT_NONE;

    for (int32_t i = 0; i < choices.n && fit == PLAN_FIT_NONE; i++)
        fit = try_choice(x, open, x->open.at[choices.first + i], l.at);
    x->open.n = choices.first;
    if (fit != PLAN_FIT_NONE || l.next + x->left[l.section] > x->capacity)
        return fit;
    raise(x, l.section, l.next, -1);
    fit = solve(x, open);
    if (fit != PLAN_FIT_FOUND)
        take_back(x, length);
    return fit;
}

/* Each part on its own: they meet nowhere. */
static plan_fit solve_parts(search *x, part open)
{
    int32_t stack = x->open.n;
    plan_fit fit = PLAN_FIT_FOUND;

    for (int32_t i = 0; i < open.n; i++)
        fs_push(x->arena, &x->open, root_of(x, x->open.at[open.first + i]));
    for (int32_t i = 0; i < open.n && fit == PLAN_FIT_FOUND; i++) {
        int32_t root = x->open.at[stack + i];
        part one = {x->open.n, 0};
        for (int32_t k = i; k < open.n && root >= 0; k++)
            if (x->open.at[stack + k] == root) {
                fs_push(x->arena, &x->open, x->open.at[open.first + k]);
                x->open.at[stack + k] = -1;
            }
        one.n = x->open.n - one.first;
        fit = solve(x, one);
        x->open.n = one.first;
    }
    x->open.n = stack;
    return fit;
}

static plan_fit solve(search *x, part open)
{
    int32_t parts;

    if (open.n == 0)
        return PLAN_FIT_FOUND;
    if (x->steps <= 0)
        return PLAN_FIT_UNKNOWN;
    parts = look(x, open);
    if (too_high(x, open))
        return PLAN_FIT_NONE;
    return parts > 1 ? solve_parts(x, open) : branch(x, open);
}

/* ---- the static order ---- */

typedef struct ranked {
    double first, second;
    int32_t start, buffer;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;

    if (x->first != y->first)
        return x->first > y->first ? -1 : 1;
    if (x->second != y->second)
        return x->second > y->second ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static ranked rank_of(const plan_buffer *b, int32_t buffer, int32_t order)
{
    double life = 0, bytes = (double)b->bytes;

    for (int32_t k = 0; k < b->n_spans; k++)
        life += b->spans[k].end - b->spans[k].start + 1;
    switch (order) {
    case 0:
        return (ranked){life, bytes, b->spans[0].start, buffer};
    case 1:
        return (ranked){bytes, life, b->spans[0].start, buffer};
    default:
        return (ranked){life * bytes, life, b->spans[0].start, buffer};
    }
}

static bool equal(const plan_buffer *a, const plan_buffer *b)
{
    return a->bytes == b->bytes && a->n_spans == b->n_spans &&
           memcmp(a->spans, b->spans, (size_t)a->n_spans * sizeof *a->spans) ==
               0;
}

static void rank_buffers(search *x, int32_t order)
{
    const plan_packing *p = x->p;
    ranked *list = fs_new(x->arena, ranked, p->n);

    for (int32_t i = 0; i < p->n; i++)
        list[i] = rank_of(&p->buffers[i], i, order);
    qsort(list, (size_t)p->n, sizeof *list, by_rank);
    for (int32_t i = 0; i < p->n; i++) {
        int32_t b = list[i].buffer, before = i ? list[i - 1].buffer : -1;
        x->rank[b] = i;
        x->twin[b] =
            i && equal(&p->buffers[before], &p->buffers[b]) ? before : -1;
    }
}

static search start(const plan_packing *p, int64_t capacity)
{
    fs_arena *arena = fs_arena_create();
    search x = {.p = p, .arena = arena, .capacity = capacity};

    x.rank = fs_new(arena, int32_t, p->n);
    x.twin = fs_new(arena, int32_t, p->n);
    x.offset = fs_new(arena, int64_t, p->n);
    x.at = fs_new(arena, int64_t, p->n);
    x.parent = fs_new(arena, int32_t, p->n);
    x.top = fs_new(arena, int64_t, p->n_sections);
    x.left = fs_new(arena, int64_t, p->n_sections);
    x.lowest = fs_new(arena, int64_t, p->n_sections);
    x.owner = fs_new(arena, int32_t, p->n_sections);
    x.choices = fs_new(arena, int32_t, p->n_sections);
    return x;
}

/* A buffer more than there are pieces lives nowhere: no level holds it. */
static void open_all(search *x)
{
    const plan_packing *p = x->p;

    memset(x->top, 0, (size_t)p->n_sections * sizeof *x->top);
    memset(x->left, 0, (size_t)p->n_sections * sizeof *x->left);
    x->open.n = x->trail.n = 0;
    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[i];
        x->offset[i] = b->n_spans ? -1 : 0;
        EACH_SECTION(b, k, s)
        x->left[s] += b->bytes;
        if (b->n_spans)
            fs_push(x->arena, &x->open, i);
    }
}

static void take_over(const search *x, plan_packing *p)
{
    p->height_bytes = 0;
    for (int32_t i = 0; i < p->n; i++) {
        p->buffers[i].offset = x->offset[i];
        p->height_bytes =
            max64(p->height_bytes, x->offset[i] + p->buffers[i].bytes);
    }
}

/* Where one order goes astray early another may not: they take turns, each
 * turn with twice the steps. */
plan_fit plan_offsets_fit(plan_packing *p, int64_t capacity, int64_t *steps)
{
    enum { ORDERS = 3, FIRST_STEPS = 1 << 18 };
    search x = start(p, capacity);
    plan_fit fit = PLAN_FIT_UNKNOWN;

    for (int32_t k = 0; *steps > 0 && fit == PLAN_FIT_UNKNOWN; k++) {
        int64_t turn = (int64_t)FIRST_STEPS << (k / ORDERS);
        turn = min64(turn, *steps);
        x.steps = turn;
        rank_buffers(&x, k % ORDERS);
        open_all(&x);
        fit = solve(&x, (part){0, x.open.n});
        *steps -= turn - x.steps;
    }
    if (fit == PLAN_FIT_FOUND)
        take_over(&x, p);
    fs_arena_destroy(x.arena);
    return fit;
}
