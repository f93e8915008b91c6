/* Offsets of buffers: whatever lives, no two that are live at once share a
 * byte; the height is the least one on small instances, and the bound on
 * instances that are made to fill their capacity. */
#include "config.h"

#include "plan/offsets.h"
#include "plan/task.h"

#include "tap.h"

enum { UNIT = PLAN_ALIGN, MOST_STEPS = 1 << 25 };

typedef struct instance {
    fs_arena *arena;
    plan_packing p;
} instance;

static instance make_for(int32_t n_sections, int32_t most)
{
    instance x = {.arena = fs_arena_create(), .p = {.n_sections = n_sections}};

    x.p.buffers = fs_new(x.arena, plan_buffer, most);
    return x;
}

static instance make(int32_t n_sections)
{
    return make_for(n_sections, 1024);
}

static void add(instance *x, int64_t units, int32_t n, const plan_span *spans)
{
    x->p.buffers[x->p.n++] = (plan_buffer){
        .bytes = units * UNIT,
        .copies = 1,
        .n_spans = n,
        .spans = fs_memdup(x->arena, spans, (size_t)n * sizeof *spans)};
}

/* ---- is it one, and is it the least? ---- */

static bool meet(const plan_buffer *a, const plan_buffer *b)
{
    for (int32_t i = 0; i < a->n_spans; i++)
        for (int32_t k = 0; k < b->n_spans; k++)
            if (a->spans[i].start <= b->spans[k].end &&
                b->spans[k].start <= a->spans[i].end)
                return true;
    return false;
}

static int32_t faults_of(const plan_packing *p)
{
    int32_t faults = p->height_bytes < p->bound_bytes;

    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *a = &p->buffers[i];
        faults += a->offset < 0 || a->offset % UNIT ||
                  a->offset + a->bytes > p->height_bytes;
        for (int32_t k = 0; k < i; k++) {
            const plan_buffer *b = &p->buffers[k];
            faults += meet(a, b) && a->offset < b->offset + b->bytes &&
                      b->offset < a->offset + a->bytes;
        }
    }
    return faults;
}

/* Every placement at every multiple of the unit below `capacity`. */
static bool exists(const plan_packing *p, int32_t n, int64_t *offset,
                   int64_t capacity)
{
    if (n == p->n)
        return true;
    for (offset[n] = 0; offset[n] + p->buffers[n].bytes <= capacity;
         offset[n] += UNIT) {
        bool free = true;
        for (int32_t k = 0; k < n && free; k++)
            free = !meet(&p->buffers[n], &p->buffers[k]) ||
                   offset[n] >= offset[k] + p->buffers[k].bytes ||
                   offset[k] >= offset[n] + p->buffers[n].bytes;
        if (free && exists(p, n + 1, offset, capacity))
            return true;
    }
    return false;
}

static int64_t least_ref(const plan_packing *p)
{
    int64_t offset[16], capacity = p->bound_bytes;

    while (!exists(p, 0, offset, capacity))
        capacity += UNIT;
    return capacity;
}

/* ---- small ones ---- */

/* Lives of one or two spans. */
static instance draw(uint64_t *seed, int32_t n, int32_t n_sections,
                     int32_t most)
{
    instance x = make(n_sections);

    for (int32_t i = 0; i < n; i++) {
        int32_t cut[4], spans = 1 + (fs_rand_below(seed, 3) == 0);
        for (int32_t k = 0; k < 4; k++)
            cut[k] = (int32_t)fs_rand_below(seed, n_sections);
        for (int32_t k = 0; k < 4; k++)
            for (int32_t l = 0; l < k; l++)
                if (cut[l] > cut[k]) {
                    int32_t swap = cut[k];
                    cut[k] = cut[l];
                    cut[l] = swap;
                }
        plan_span at[2] = {{cut[0], cut[1]}, {cut[2], cut[3]}};
        if (spans == 2 && cut[2] <= cut[1] + 1)
            spans = 1;
        add(&x, 1 + fs_rand_below(seed, most), spans, at);
    }
    plan_offsets_bound(&x.p);
    return x;
}

static void test_small(uint64_t seed)
{
    int32_t faults = 0, higher = 0, gaps = 0, wrong = 0;

    for (int32_t i = 0; i < 400; i++) {
        instance x = draw(&seed, 4 + (int32_t)fs_rand_below(&seed, 4), 7, 4);
        int64_t least = least_ref(&x.p), steps = INT32_MAX;
        plan_offsets_place(&x.p);
        plan_offsets_refine(&x.p, 0, (plan_effort){steps, 1});
        faults += faults_of(&x.p);
        higher += x.p.height_bytes != least;
        gaps += least > x.p.bound_bytes;
        wrong += least > x.p.bound_bytes &&
                 plan_offsets_fit(&x.p, least - UNIT, &steps) != PLAN_FIT_NONE;
        wrong += plan_offsets_fit(&x.p, least, &steps) != PLAN_FIT_FOUND;
        faults += faults_of(&x.p);
        fs_arena_destroy(x.arena);
    }
    tap_equal_int(faults, 0, "small lives: no two live at once share a byte");
    tap_equal_int(higher, 0, "the height is the least there is");
    tap_equal_int(wrong, 0, "a unit less is refuted, it itself is found");
    tap_ok(gaps > 3, "of 400, %d need more than is live at once", gaps);
}

static void place(plan_packing *p)
{
    plan_offsets_place(p);
    plan_offsets_refine(p, 0, (plan_effort){1 << 26, 1});
}

static void test_larger(uint64_t seed)
{
    int32_t faults = 0, differ = 0;

    for (int32_t i = 0; i < 30; i++) {
        int32_t n = 20 + (int32_t)fs_rand_below(&seed, 200);
        instance x = draw(&seed, n, 60, 30);
        plan_packing again = x.p;
        again.buffers =
            fs_memdup(x.arena, x.p.buffers, (size_t)n * sizeof *x.p.buffers);
        place(&x.p);
        place(&again);
        faults += faults_of(&x.p);
        for (int32_t k = 0; k < n; k++)
            differ += x.p.buffers[k].offset != again.buffers[k].offset;
        fs_arena_destroy(x.arena);
    }
    tap_equal_int(faults, 0, "larger ones: no two live at once share a byte");
    tap_equal_int(differ, 0, "the same lives get the same offsets");
}

/* ---- hard ones, filled to the last byte ---- */

typedef struct box {
    int32_t from, to, low, high; /* time, bytes */
} box;

typedef struct tiling {
    box at[600];
    int32_t n;
    uint64_t seed;
} tiling;

static int32_t within(tiling *t, int32_t from, int32_t to)
{
    return from + 1 + (int32_t)fs_rand_below(&t->seed, to - from - 1);
}

static void halve(tiling *t, int32_t i, bool in_time)
{
    box a = t->at[i], b = a;

    if (in_time)
        a.to = b.from = within(t, a.from, a.to);
    else
        a.high = b.low = within(t, a.low, a.high);
    t->at[i] = a;
    t->at[t->n++] = b;
}

/* Four boxes around a fifth: no cut goes through from side to side. */
static void wheel(tiling *t, int32_t i)
{
    box b = t->at[i];
    int32_t x = within(t, b.from, b.to - 1), y = within(t, b.low, b.high - 1);
    int32_t u = within(t, x, b.to), v = within(t, y, b.high);

    t->at[i] = (box){b.from, u, b.low, y};
    t->at[t->n++] = (box){u, b.to, b.low, v};
    t->at[t->n++] = (box){x, b.to, v, b.high};
    t->at[t->n++] = (box){b.from, x, y, b.high};
    t->at[t->n++] = (box){x, u, y, v};
}

static int64_t area(const box *b)
{
    return (int64_t)(b->to - b->from) * (b->high - b->low);
}

static void cut_one(tiling *t, int32_t wheels)
{
    int32_t i = (int32_t)fs_rand_below(&t->seed, t->n);

    for (int32_t k = 0; k < 2; k++) {
        int32_t other = (int32_t)fs_rand_below(&t->seed, t->n);
        i = area(&t->at[other]) > area(&t->at[i]) ? other : i;
    }
    if (t->at[i].to - t->at[i].from < 4 || t->at[i].high - t->at[i].low < 4)
        return;
    if (fs_rand_below(&t->seed, 100) < wheels)
        wheel(t, i);
    else
        halve(t, i, fs_rand_below(&t->seed, 2) == 0);
}

static int by_size(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(box));
}

/* Sections before time t: something begins in each. */
static int32_t sections_before(const tiling *t, int32_t time)
{
    bool begins[1024] = {false};
    int32_t n = 0;

    for (int32_t i = 0; i < t->n; i++)
        begins[t->at[i].from] = true;
    for (int32_t k = 0; k < time; k++)
        n += begins[k];
    return n;
}

/* Lives are known, places forgotten; they fill 1024 units at any time. */
static instance tile(uint64_t seed, int32_t n, int32_t wheels)
{
    tiling *t = calloc(1, sizeof *t);
    instance x;

    *t = (tiling){.at = {{0, 1024, 0, 1024}}, .n = 1, .seed = seed};
    while (t->n < n)
        cut_one(t, wheels);
    qsort(t->at, (size_t)t->n, sizeof *t->at, by_size);
    x = make(sections_before(t, 1024));
    for (int32_t i = 0; i < t->n; i++) {
        plan_span at = {sections_before(t, t->at[i].from),
                        sections_before(t, t->at[i].to) - 1};
        add(&x, t->at[i].high - t->at[i].low, 1, &at);
    }
    free(t);
    plan_offsets_bound(&x.p);
    return x;
}

/* Sizes of the instances of "MiniMalloc", ASPLOS 2023, all full like theirs. */
static void test_full(void)
{
    static const struct {
        uint64_t seed;
        int32_t n, wheels;
    } tilings[] = {{1, 154, 0},  {2, 154, 0},  {3, 154, 0},  {1, 154, 20},
                   {2, 154, 20}, {3, 154, 20}, {4, 250, 0},  {5, 250, 0},
                   {4, 250, 20}, {6, 250, 20}, {10, 454, 0}, {11, 454, 0}};

    for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
        instance x = tile(tilings[i].seed, tilings[i].n, tilings[i].wheels);
        int64_t steps = MOST_STEPS;
        plan_fit fit = plan_offsets_fit(&x.p, x.p.bound_bytes, &steps);
        tap_ok(x.p.bound_bytes == 1024 * UNIT && fit == PLAN_FIT_FOUND &&
                   faults_of(&x.p) == 0,
               "%d buffers, %d %% wheels, full at any time: placed at capacity "
               "(%lld steps)",
               x.p.n, tilings[i].wheels, (long long)(MOST_STEPS - steps));
        fs_arena_destroy(x.arena);
    }
}

/* Of a register with more buffers than a step has pieces. */
static void test_unused(void)
{
    static const plan_span spans[] = {{0, 1}, {1, 2}};
    instance x = make(3);
    int64_t steps = MOST_STEPS;

    add(&x, 2, 1, &spans[0]);
    add(&x, 1, 0, spans);
    add(&x, 3, 1, &spans[1]);
    tap_ok(plan_offsets_fit(&x.p, 5 * UNIT, &steps) == PLAN_FIT_FOUND &&
               faults_of(&x.p) == 0,
           "a buffer that nothing ever fills is placed too");
    fs_arena_destroy(x.arena);
}

/* ---- many layers ---- */

/* Each layer's forward pass has what is soon gone and what its backward pass
 * reads, that has as much again and a sum of gradients for the step's end. */
static instance stack_layers(int32_t layers)
{
    enum { OPS = 6, EACH = 2 * OPS + 2 };
    const int32_t n_sections = 2 * layers * OPS + 1;
    instance x = make_for(n_sections, EACH * layers);

    for (int32_t l = 0; l < layers; l++) {
        const int32_t fore = l * OPS, back = (2 * layers - 1 - l) * OPS;
        for (int32_t k = 0; k < OPS; k++) {
            const int32_t a = fore + k, b = back + k;
            add(&x, 2 + 5 * k % 7, 1, &(plan_span){a, a + 1});
            add(&x, 3 + 4 * k % 9, 1, &(plan_span){b, b + 1});
        }
        add(&x, 2, 1, &(plan_span){fore + OPS / 2, back + 1});
        add(&x, 3, 1, &(plan_span){back + OPS / 2, n_sections - 1});
    }
    plan_offsets_bound(&x.p);
    return x;
}

/* By how much it is higher than the bound, in units. */
static int64_t placed_above(int32_t layers, int32_t *faults)
{
    instance x = stack_layers(layers);

    plan_offsets_place(&x.p);
    if (faults)
        *faults = faults_of(&x.p);
    const int64_t above = (x.p.height_bytes - x.p.bound_bytes) / UNIT;
    fs_arena_destroy(x.arena);
    return above;
}

static void test_layers(void)
{
    enum { FEW = 20, MANY = 10000 };
    int32_t faults;

    tap_equal_int(placed_above(FEW, &faults), 0,
                  "equal layers are placed at their bound");
    tap_equal_int(faults, 0, "and none live at once share a byte");
    tap_equal_int(placed_above(MANY, NULL), 0, "however many they are");
}

/* ---- found before ---- */

static plan_packing copy_of(const instance *x, fs_arena *arena)
{
    plan_packing p = x->p;

    p.buffers = fs_memdup(arena, p.buffers, (size_t)p.n * sizeof *p.buffers);
    return p;
}

static bool same_placement(const plan_packing *a, const plan_packing *b)
{
    bool same = a->height_bytes == b->height_bytes;

    for (int32_t i = 0; i < a->n; i++)
        same = same && a->buffers[i].offset == b->buffers[i].offset;
    return same;
}

/* Whatever was asked before, of this packing or another one. */
static void test_known(uint64_t seed)
{
    enum { PACKINGS = 6, ASKED = 12, BUFFERS = 300, SECTIONS = 40 };
    fs_arena *arena = fs_arena_create();
    plan_known *known = plan_known_create(arena);
    int32_t other = 0;

    for (int32_t k = 0; k < PACKINGS; k++) {
        instance x = draw(&seed, BUFFERS, SECTIONS, 9);
        plan_offsets_bound(&x.p);
        for (int32_t i = 0; i < ASKED; i++) {
            plan_packing anew = copy_of(&x, arena), told = copy_of(&x, arena);
            const int64_t percent = 98 + fs_rand_below(&seed, 40);
            anew.enough_bytes = told.enough_bytes =
                i == 0 ? 1 : x.p.bound_bytes / 100 * percent;
            plan_offsets_place(&anew);
            plan_offsets_place_known(&told, known);
            other += !same_placement(&anew, &told);
        }
        fs_arena_destroy(x.arena);
    }
    tap_equal_int(other, 0, "what was found before is what would be found");
    fs_arena_destroy(arena);
}

int main(void)
{
    uint64_t seed = tap_seed(3);

    test_small(seed);
    test_larger(seed + 1);
    test_full();
    test_unused();
    test_layers();
    test_known(seed);
    return tap_done();
}
