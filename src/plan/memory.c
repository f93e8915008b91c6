#include "config.h"

#include "plan/memory.h"

#include <stdlib.h>
#include <string.h>

/* A buffer is live from its producer's start to its last consumer's end, each
 * at a position (slot, task) of the stage's program. Buffers that only the
 * compute stream touches run through that program in order, so their bytes may
 * be shared when no two of their intervals meet.
 *
 * Piece q of a register lies in buffer q mod count. Where count does not divide
 * the number of micro-batches, buffers change micro-batches from step to step,
 * so the program is unrolled until all of them repeat. */
enum {
    MAX_UNROLL = 64,
    MAX_LIFTS = 40,     /* improvements per order, */
    LIFT_WORK = 1 << 23 /* fewer when this many comparisons are done first */
};

/* Where two lists of intervals meet: slots that overlap for sure, or slots in
 * which only positions decide (a ends where b starts, or the reverse). */
enum {
    MEET_ALWAYS = 1,
    MEET_END_START = 2, /* a's end slot is b's start slot */
    MEET_START_END = 4, /* a's start slot is b's end slot */
    MEET_BOTH = 8       /* both: one common slot */
};

typedef struct span {
    int32_t start, end; /* slots of the unrolled program, inclusive */
} span;

/* Buffers with the same intervals by slots; they differ by positions only. */
typedef struct span_group {
    plan_phase first, last;
    bool per_step;
    int32_t count, copy;
    int32_t n;
    span *spans; /* ascending, disjoint */
} span_group;

typedef struct buffer {
    int32_t reg, copy, group;
    int32_t start, end; /* task positions */
    int64_t bytes, offset;
} buffer;

typedef struct memory {
    const plan_role *role;
    int32_t m, unroll;
    fs_arena *arena; /* scratch */
    int32_t *slot;   /* [phases][m] index in role->slots */
    FS_VEC(span_group) groups;
    uint8_t *meet; /* [groups][groups] */
    FS_VEC(buffer) buffers;
    const buffer **placed; /* by offset */
    bool first_fit;        /* the lowest gap, not the smallest */
    int64_t height;        /* of the lowest placement so far */
} memory;

/* ---- lifetimes ---- */

static int32_t last_task(const plan_register *r)
{
    return r->n_consumers ? r->consumers[r->n_consumers - 1] : r->producer;
}

static int32_t slot_of(const memory *mem, plan_phase phase, int32_t mb)
{
    return mem->slot[phase * mem->m + mb];
}

static void index_slots(memory *mem)
{
    mem->slot = fs_new(mem->arena, int32_t, (int64_t)PLAN_PHASES * mem->m);
    for (int32_t s = 0; s < mem->role->n_slots; s++) {
        plan_slot slot = mem->role->slots[s];
        mem->slot[slot.phase * mem->m + slot.micro_batch] = s;
    }
}

static int32_t first_slot(const plan_role *role, plan_phase phase)
{
    int32_t s = 0;

    while (role->slots[s].phase != phase)
        s++;
    return s;
}

static int32_t last_slot(const plan_role *role, plan_phase phase)
{
    int32_t s = role->n_slots - 1;

    while (role->slots[s].phase != phase)
        s--;
    return s;
}

/* Does piece q = step m + mb lie in this copy? */
static bool holds(const span_group *g, int32_t m, int32_t step, int32_t mb)
{
    return ((int64_t)step * m + mb) % g->count == g->copy;
}

static void fill_spans(const memory *mem, span_group *g)
{
    const plan_role *role = mem->role;
    int32_t per_step = g->per_step ? 1 : mem->m;
    int32_t n_slots = role->n_slots;

    g->spans = fs_new(mem->arena, span, (int64_t)per_step * mem->unroll);
    for (int32_t u = 0; u < mem->unroll; u++)
        for (int32_t mb = 0; mb < per_step; mb++) {
            span s;
            if (g->per_step)
                s = (span){first_slot(role, g->first),
                           last_slot(role, g->last)};
            else if (holds(g, mem->m, u, mb))
                s = (span){slot_of(mem, g->first, mb),
                           slot_of(mem, g->last, mb)};
            else
                continue;
            g->spans[g->n++] =
                (span){s.start + u * n_slots, s.end + u * n_slots};
        }
}

static int32_t find_group(memory *mem, const plan_register *r, int32_t copy)
{
    span_group g = {.first = mem->role->tasks[r->producer].phase,
                    .last = mem->role->tasks[last_task(r)].phase,
                    .per_step = r->per_step,
                    .count = r->count,
                    .copy = copy};

    for (int32_t i = 0; i < mem->groups.n; i++) {
        const span_group *h = &mem->groups.at[i];
        if (h->first == g.first && h->last == g.last &&
            h->per_step == g.per_step && h->count == g.count &&
            h->copy == g.copy)
            return i;
    }
    fill_spans(mem, &g);
    fs_push(mem->arena, &mem->groups, g);
    return mem->groups.n - 1;
}

static int32_t meet_of(span a, span b)
{
    if (a.start > b.end || b.start > a.end)
        return 0;
    if (a.end == b.start && a.start == b.end)
        return MEET_BOTH;
    if (a.end == b.start)
        return MEET_END_START;
    if (a.start == b.end)
        return MEET_START_END;
    return MEET_ALWAYS;
}

static uint8_t meet_groups(const span_group *g, const span_group *h)
{
    int32_t meet = 0, i = 0, k = 0;

    while (i < g->n && k < h->n) {
        meet |= meet_of(g->spans[i], h->spans[k]);
        if (g->spans[i].end < h->spans[k].end)
            i++;
        else
            k++;
    }
    return (uint8_t)meet;
}

static void fill_meets(memory *mem)
{
    int32_t n = mem->groups.n;

    mem->meet = fs_new(mem->arena, uint8_t, (int64_t)n * n);
    for (int32_t g = 0; g < n; g++)
        for (int32_t h = 0; h < n; h++)
            mem->meet[g * n + h] =
                meet_groups(&mem->groups.at[g], &mem->groups.at[h]);
}

/* Are the two ever live at once? */
static bool conflict(const memory *mem, const buffer *a, const buffer *b)
{
    uint8_t meet = mem->meet[a->group * mem->groups.n + b->group];

    return (meet & MEET_ALWAYS) ||
           ((meet & MEET_END_START) && b->start <= a->end) ||
           ((meet & MEET_START_END) && a->start <= b->end) ||
           ((meet & MEET_BOTH) && a->start <= b->end && b->start <= a->end);
}

/* ---- which registers share ---- */

static bool only_compute(const plan_role *role, const plan_register *r)
{
    if (r->producer < 0 || role->tasks[r->producer].stream != 0)
        return false;
    for (int32_t c = 0; c < r->n_consumers; c++)
        if (role->tasks[r->consumers[c]].stream != 0)
            return false;
    return true;
}

static int32_t gcd(int32_t a, int32_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/* Steps until a register's buffers hold the same micro-batches again. */
static int32_t period_of(const plan_register *r, int32_t m)
{
    return r->per_step ? 1 : r->count / gcd(r->count, m);
}

/* Steps until all shared registers repeat; `own`: those that cannot share. */
static int32_t choose(const plan_role *role, int32_t m, bool *own)
{
    int32_t unroll = 1;
    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        int32_t period = period_of(r, m);
        int64_t joint = (int64_t)unroll / gcd(unroll, period) * period;
        own[i] = r->persistent || !only_compute(role, r) || joint > MAX_UNROLL;
        if (!own[i])
            unroll = (int32_t)joint;
    }
    return unroll;
}

void plan_memory_choose(const plan_role *role, int32_t micro_batches, bool *own)
{
    choose(role, micro_batches, own);
}

static void choose_shared(memory *mem, bool share, plan_role *role)
{
    bool *own = fs_new(mem->arena, bool, role->n_registers);
    mem->unroll = share ? choose(role, mem->m, own) : 1;
    for (int32_t i = 0; i < role->n_registers; i++)
        role->registers[i].own_memory = !share || own[i];
}

static void list_buffers(memory *mem)
{
    for (int32_t i = 0; i < mem->role->n_registers; i++) {
        const plan_register *r = &mem->role->registers[i];
        for (int32_t c = 0; c < r->count && !r->own_memory; c++)
            fs_push(mem->arena, &mem->buffers,
                    (buffer){.reg = i,
                             .copy = c,
                             .group = find_group(mem, r, c),
                             .start = r->producer,
                             .end = last_task(r),
                             .bytes = r->bytes});
    }
    fill_meets(mem);
}

/* ---- placing: in a given order ---- */

typedef int buffer_order(const void *a, const void *b);

static int by_place(const buffer *a, const buffer *b)
{
    if (a->reg != b->reg)
        return a->reg < b->reg ? -1 : 1;
    return (a->copy > b->copy) - (a->copy < b->copy);
}

static int by_bytes(const void *a, const void *b)
{
    const buffer *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return by_place(x, y);
}

/* Length of life: buffers that cross phases before the others. */
static int64_t life(const buffer *b)
{
    return (int64_t)b->end - b->start + 1;
}

static int by_life(const void *a, const void *b)
{
    const buffer *x = a, *y = b;

    return life(x) != life(y) ? (life(x) > life(y) ? -1 : 1) : by_bytes(a, b);
}

static int by_volume(const void *a, const void *b)
{
    const buffer *x = a, *y = b;
    double v = (double)life(x) * (double)x->bytes;
    double w = (double)life(y) * (double)y->bytes;

    return v != w ? (v > w ? -1 : 1) : by_bytes(a, b);
}

static int by_time(const void *a, const void *b)
{
    const buffer *x = a, *y = b;

    return x->start != y->start ? (x->start < y->start ? -1 : 1)
                                : by_bytes(a, b);
}

/* The smallest gap that holds `b` among the placed ones, which are sorted by
 * offset, or the lowest; above all of them when there is no gap. */
static int64_t find_gap(const memory *mem, const buffer *b,
                        const buffer *const *placed, int32_t n)
{
    int64_t top = 0, best = -1, best_size = INT64_MAX;

    for (int32_t i = 0; i < n; i++) {
        const buffer *p = placed[i];
        if (!conflict(mem, b, p))
            continue;
        int64_t gap = p->offset - top;
        if (gap >= b->bytes && gap < best_size) {
            best = top;
            best_size = gap;
            if (mem->first_fit)
                break;
        }
        top = top > p->offset + p->bytes ? top : p->offset + p->bytes;
    }
    return best >= 0 ? best : top;
}

static void insert_placed(const buffer **placed, int32_t n, const buffer *b)
{
    while (n > 0 && placed[n - 1]->offset > b->offset) {
        placed[n] = placed[n - 1];
        n--;
    }
    placed[n] = b;
}

static int64_t place_in_order(const memory *mem, buffer *buffers)
{
    int32_t n = mem->buffers.n;
    int64_t height = 0;

    for (int32_t i = 0; i < n; i++) {
        buffer *b = &buffers[i];
        b->offset = find_gap(mem, b, mem->placed, i);
        insert_placed(mem->placed, i, b);
        height = height > b->offset + b->bytes ? height : b->offset + b->bytes;
    }
    return height;
}

/* Takes a placement over when it is lower than the best so far. */
static void keep_lower(memory *mem, const buffer *trial, int64_t height)
{
    if (height >= mem->height)
        return;
    mem->height = height;
    for (int32_t i = 0; i < mem->buffers.n; i++)
        mem->buffers.at[i] = trial[i];
}

/* The first buffer that reaches the top goes to the front of the order. */
static void lift_highest(buffer *buffers, int32_t n, int64_t height)
{
    int32_t i = 0;
    buffer highest;

    while (i < n - 1 && buffers[i].offset + buffers[i].bytes < height)
        i++;
    highest = buffers[i];
    memmove(&buffers[1], &buffers[0], (size_t)i * sizeof *buffers);
    buffers[0] = highest;
}

/* The lowest of four orders by best fit and by first fit, each improved by
 * placing what sticks out first and starting over (Joslin and Clements 1999,
 * squeaky wheel optimization), as long as the bound is not met. */
static void place_shared(memory *mem, int64_t bound)
{
    enum { N_ORDERS = 4 };
    static buffer_order *const orders[N_ORDERS] = {by_bytes, by_life, by_volume,
                                                   by_time};
    int32_t n = mem->buffers.n;
    int64_t rounds = n ? LIFT_WORK / ((int64_t)n * n) : 0, height;
    buffer *trial = fs_new(mem->arena, buffer, n);

    mem->placed = fs_new(mem->arena, const buffer *, n);
    mem->height = n ? INT64_MAX : 0;
    for (size_t k = 0; k < 2 * N_ORDERS; k++) {
        for (int32_t i = 0; i < n; i++)
            trial[i] = mem->buffers.at[i];
        qsort(trial, (size_t)n, sizeof *trial, orders[k % N_ORDERS]);
        mem->first_fit = k >= N_ORDERS;
        height = place_in_order(mem, trial);
        keep_lower(mem, trial, height);
        for (int64_t r = 0; r < rounds && r < MAX_LIFTS; r++) {
            if (mem->height == bound)
                return;
            lift_highest(trial, n, height);
            height = place_in_order(mem, trial);
            keep_lower(mem, trial, height);
        }
    }
}

/* ---- the bound: most bytes live at once ---- */

static int64_t live_bytes_max(const memory *mem)
{
    const plan_role *role = mem->role;
    int64_t width = (int64_t)role->n_tasks + 1, live = 0, most = 0;
    int64_t n = width * role->n_slots;
    int64_t *change = fs_new(mem->arena, int64_t, n);

    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        span_group g = {.per_step = r->per_step, .count = 1};
        if (r->own_memory)
            continue;
        g.first = role->tasks[r->producer].phase;
        g.last = role->tasks[last_task(r)].phase;
        for (int32_t mb = 0; mb < (r->per_step ? 1 : mem->m); mb++) {
            int64_t s = r->per_step ? first_slot(role, g.first)
                                    : slot_of(mem, g.first, mb);
            int64_t e = r->per_step ? last_slot(role, g.last)
                                    : slot_of(mem, g.last, mb);
            change[s * width + r->producer] += r->bytes;
            change[e * width + last_task(r) + 1] -= r->bytes;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    return most;
}

/* ---- the arena ---- */

plan_bytes_kind plan_memory_kind(const ir_graph *graph, const plan_role *role,
                                 const plan_register *r)
{
    ir_role tensor_role = graph->tensors.at[r->tensor].role;

    if (r->persistent)
        return tensor_role == IR_STATE   ? PLAN_BYTES_STATE
               : tensor_role == IR_CONST ? PLAN_BYTES_CONST
                                         : PLAN_BYTES_PARAM;
    if (!r->per_step)
        return PLAN_BYTES_ACTIVATION;
    return role->tasks[r->producer].phase == PLAN_BEGIN ? PLAN_BYTES_PARAM
                                                        : PLAN_BYTES_GRADIENT;
}

static int64_t align_up(int64_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Once the sum of everything fits an int64, so does every part of it. */
static fs_status check_sizes(const plan_role *role, fs_err *err)
{
    int64_t total = 0, bytes;

    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (r->bytes < 0 ||
            __builtin_mul_overflow(r->bytes, (int64_t)r->count, &bytes) ||
            __builtin_add_overflow(total, bytes, &total))
            return fs_fail(err, FS_INVALID,
                           "stage %d: the bytes of its "
                           "registers overflow",
                           (int)role->stage);
    }
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].scratch_bytes < 0 ||
            role->tasks[t].scratch_bytes > INT64_MAX / 2 - PLAN_ALIGN ||
            __builtin_add_overflow(
                total, role->tasks[t].scratch_bytes + PLAN_ALIGN, &total))
            return fs_fail(err, FS_INVALID,
                           "stage %d: the bytes of its "
                           "scratch overflow",
                           (int)role->stage);
    return FS_OK;
}

static void place_own(const ir_graph *graph, plan_role *role)
{
    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        if (!r->own_memory)
            continue;
        for (int32_t c = 0; c < r->count; c++) {
            r->offset[c] = role->arena_bytes;
            role->arena_bytes += r->bytes;
        }
        role->bytes[plan_memory_kind(graph, role, r)] += r->count * r->bytes;
    }
}

int64_t plan_memory_scratch(const plan_role *role, int32_t stream)
{
    int64_t most = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].stream == stream &&
            role->tasks[t].scratch_bytes > most)
            most = role->tasks[t].scratch_bytes;
    return align_up(most);
}

static void place_scratch(plan_role *role)
{
    for (int32_t s = 0; s < role->n_streams; s++) {
        int64_t bytes = plan_memory_scratch(role, s);
        role->stream_scratch[s] = role->arena_bytes;
        role->arena_bytes += bytes;
        role->bytes[PLAN_BYTES_SCRATCH] += bytes;
    }
}

/* The shared region is counted as gradients as far as sums of gradients fill
 * it (they are all live at the end of the backward pass), the rest as
 * activations. */
void plan_memory_count_shared(const plan_role *role, int64_t height,
                              int64_t bytes[PLAN_BYTES_KINDS])
{
    int64_t gradients = 0;

    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (!r->own_memory && r->per_step &&
            role->tasks[r->producer].phase == PLAN_BACKWARD)
            gradients += r->bytes;
    }
    gradients = gradients < height ? gradients : height;
    bytes[PLAN_BYTES_GRADIENT] += gradients;
    bytes[PLAN_BYTES_ACTIVATION] += height - gradients;
}

fs_status plan_memory_assign(const ir_graph *graph, bool share, fs_arena *arena,
                             fs_err *err, plan_role *role)
{
    memory mem = {.role = role, .m = graph->micro_batches};
    int64_t live;

    FS_TRY(check_sizes(role, err));
    role->stream_scratch = fs_new(arena, int64_t, role->n_streams);
    for (int32_t i = 0; i < role->n_registers; i++)
        role->registers[i].offset =
            fs_new(arena, int64_t, role->registers[i].count);
    role->arena_bytes = 0;
    memset(role->bytes, 0, sizeof role->bytes);
    mem.arena = fs_arena_create();
    index_slots(&mem);
    choose_shared(&mem, share, role);
    list_buffers(&mem);
    live = live_bytes_max(&mem);
    place_shared(&mem, live);
    place_own(graph, role);
    place_scratch(role);
    role->bound_bytes = role->arena_bytes + live;
    for (int32_t i = 0; i < mem.buffers.n; i++) {
        const buffer *b = &mem.buffers.at[i];
        role->registers[b->reg].offset[b->copy] = role->arena_bytes + b->offset;
    }
    role->arena_bytes += mem.height;
    plan_memory_count_shared(role, mem.height, role->bytes);
    fs_arena_destroy(mem.arena);
    return FS_OK;
}
