#include "config.h"
#include "plan/check_parts.h"
#include "plan/memory.h"
#include "plan/shorten.h"
#include "plan/text_parts.h"

#include "base/crew.h"

#include <inttypes.h>
#include <stdlib.h>

/* Buffers that share bytes are touched only by tasks that keep their place in
 * the program of one compute stream (plan/places.h), which is a total order, so
 * that "live at once" is a question of positions in it, the same in every step;
 * all other buffers are always live. What two compute streams share is apart
 * from each other: nothing orders them. */
enum { LEVELS = 6 };
/* More than any device has, and far enough from where sums overflow. */
static const int64_t MOST_BYTES = (int64_t)1 << 61;

#define WRONG(c, ...) plan_check_add((c), PLAN_FINDING_MEMORY, __VA_ARGS__)

/* Bytes in use from position start to end (both inclusive). */
typedef struct life {
    int64_t start, end;
    int64_t offset, bytes;
    int32_t reg; /* -1 - stream: that stream's scratch */
    int32_t copy;
    int32_t slot; /* where it starts, for messages */
} life;

typedef struct memory_check {
    plan_checking *c;
    fs_arena *scratch; /* of this role: what they take does not add up */
    int32_t role;
    const plan_role *r;
    plan_places places;
    int32_t first_out, left_out; /* micro-batches: plan_short_runs */
    FS_VEC(life) always, lives;  /* lives: of one stream at a time */
    int64_t *offsets;            /* [n_offsets] where lives begin, ascending */
    int32_t n_offsets;
    const life **active;    /* [n_offsets] none overlaps the next */
    uint64_t *bits[LEVELS]; /* of 64 each, a level below; the lowest: active */
    int32_t words[LEVELS];
} memory_check;

/* ---- sizes ---- */

static void check_device(plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    const hw_group *before = NULL;
    if (r->arena_bytes > c->report->peak_bytes_max)
        c->report->peak_bytes_max = r->arena_bytes;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const hw_group *group = hw_group_of(c->cluster, r->first_rank + i);
        if (group == before)
            continue;
        before = group;
        if (group->device.memory_bytes > 0 &&
            (double)r->arena_bytes > group->device.memory_bytes)
            WRONG(c, "rank %d needs %" PRId64 " bytes, its device %s has %.0f",
                  r->first_rank + i, r->arena_bytes, group->device.name,
                  group->device.memory_bytes);
    }
}

static bool inside(const memory_check *x, int64_t offset, int64_t bytes)
{
    int64_t end;
    return offset >= 0 && bytes >= 0 &&
           !__builtin_add_overflow(offset, bytes, &end) &&
           end <= x->r->arena_bytes;
}

/* ---- what lives when ---- */

static const char *register_name(const memory_check *x, int32_t reg)
{
    return x->c->graph->tensors.at[x->r->registers[reg].tensor].name;
}

static void misaligned(const memory_check *x, const char *what, int64_t offset)
{
    WRONG(x->c,
          "%s: %s starts at byte %" PRId64 ", no multiple of %d: kernels "
          "read whole vectors",
          plan_check_ranks_text(x->c, x->role), what, offset, PLAN_ALIGN);
}

static void add_scratch(memory_check *x)
{
    for (int32_t s = 0; s < x->r->n_streams; s++) {
        int64_t most = 0;
        for (int32_t t = 0; t < x->r->n_tasks; t++)
            if (x->r->tasks[t].stream == s &&
                x->r->tasks[t].scratch_bytes > most)
                most = x->r->tasks[t].scratch_bytes;
        if (!inside(x, x->r->stream_scratch[s], most)) {
            WRONG(x->c, "%s: the scratch of stream %d lies outside the arena",
                  plan_check_ranks_text(x->c, x->role), s);
            continue;
        }
        if (x->r->stream_scratch[s] % PLAN_ALIGN)
            misaligned(x, "a stream's scratch", x->r->stream_scratch[s]);
        life l = {
            .offset = x->r->stream_scratch[s], .bytes = most, .reg = -1 - s};
        fs_push(x->scratch, &x->always, l);
    }
}

/* What a task packs its pieces into, or its kernel needs: the same figure that
 * lowering reserves. */
static int64_t scratch_needed(const memory_check *x, const plan_task *task)
{
    const plan_strategy *s = x->c->p->strategy;
    if (task->kind == PLAN_BOX && plan_box_is_collective(task->box.kind))
        return plan_box_scratch(&x->c->graph->tensors.at[task->tensor],
                                plan_role_mesh(x->c->p, x->r), &task->box);
    if (task->kind == PLAN_RECV) {
        const plan_cross cross = plan_task_cross(x->c->graph, x->c->p, task);
        return plan_cross_scratch(&cross);
    }
    if (task->kind != PLAN_COMPUTE)
        return 0;
    return ir_work_of(&x->c->works, x->c->graph,
                      &x->c->graph->nodes.at[task->node], &s->sig[task->node],
                      plan_role_mesh(x->c->p, x->r))
        ->scratch_bytes;
}

/* A task that is given less scratch than it needs writes elsewhere. */
static void check_task_scratch(const memory_check *x)
{
    for (int32_t t = 0; t < x->r->n_tasks; t++) {
        const plan_task *task = &x->r->tasks[t];
        int64_t needed = scratch_needed(x, task);
        if (task->scratch_bytes < needed)
            WRONG(x->c,
                  "%s has %" PRId64 " bytes of scratch and needs %" PRId64,
                  plan_check_task_text(x->c, x->role, -1, t),
                  task->scratch_bytes, needed);
    }
}

/* Of what may share: the compute stream in whose program its producer keeps its
 * place, and so should all that touch it; -1: none. */
static int32_t stream_of(const memory_check *x, int32_t reg)
{
    return x->places.stream[x->r->registers[reg].producer];
}

/* The first task that touches the register at no place, or to no known end, of
 * the program of its producer's compute stream; -1 when there is none. */
static int32_t foreign_task(const memory_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    int32_t stream = stream_of(x, reg);
    if (stream < 0 || (g->n_consumers == 0 && x->places.end[g->producer] < 0))
        return g->producer;
    for (int32_t i = 0; i < g->n_consumers; i++)
        if (x->places.stream[g->consumers[i]] != stream ||
            x->places.end[g->consumers[i]] < 0)
            return g->consumers[i];
    return -1;
}

static bool may_share(const memory_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    return !g->own_memory && !g->persistent;
}

/* The last firing beside which a piece is touched, by its producer or, for then
 * that is done, by a consumer. */
static int32_t end_of(const memory_check *x, const plan_register *g, int32_t mb)
{
    int32_t end = -1;
    for (int32_t i = 0; i < g->n_consumers; i++) {
        int32_t last = x->places.end[g->consumers[i]];
        int32_t at = plan_check_firing_at(x->c, x->role, last, mb);
        end = at > end ? at : end;
    }
    return end >= 0 ? end
                    : plan_check_firing_at(x->c, x->role,
                                           x->places.end[g->producer], mb);
}

static void add_piece(memory_check *x, int32_t reg, int32_t mb)
{
    const plan_register *g = &x->r->registers[reg];
    int32_t m = x->c->p->micro_batches;
    int32_t first = g->per_step ? 0 : mb, last = g->per_step ? m - 1 : mb;
    int32_t in_step = mb < x->first_out ? mb : mb + x->left_out;
    int32_t copy = plan_buffer_of(g, in_step, in_step);
    life l = {
        .offset = g->offset[copy], .bytes = g->bytes, .reg = reg, .copy = copy};
    l.start = plan_check_firing_at(x->c, x->role, g->producer, first);
    l.end = end_of(x, g, last);
    l.slot = mb;
    fs_push(x->scratch, &x->lives, l);
}

/* Buffers from copy i on that lie one behind the other go as one, where what is
 * wrong with them is told elsewhere. */
static int32_t count_row(const memory_check *x, const plan_register *g,
                         int32_t i, int32_t end)
{
    int32_t n = 1;
    while (x->left_out > 0 && i + n < end &&
           g->offset[i + n] == g->offset[i + n - 1] + g->bytes)
        n++;
    return n;
}

static void add_always(memory_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    for (int32_t i = 0, n; i < g->count; i += n) {
        n = count_row(x, g, i, g->count);
        life l = {.offset = g->offset[i],
                  .bytes = n * g->bytes,
                  .reg = reg,
                  .copy = i};
        fs_push(x->scratch, &x->always, l);
    }
}

/* When what is left out of two runs is held. */
static plan_span span_out(const memory_check *x)
{
    const int32_t *base = x->c->slot_base[x->role];
    const int32_t first = 1 + x->first_out;
    return (plan_span){base[first], base[first + x->c->p->micro_batches] - 1};
}

static void add_left_out(memory_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    const plan_span held = span_out(x);
    const int32_t end = x->first_out + x->left_out;
    for (int32_t i = x->first_out, n; i < end; i += n) {
        n = count_row(x, g, i, end);
        life l = {.start = held.start,
                  .end = held.end,
                  .offset = g->offset[i],
                  .bytes = n * g->bytes,
                  .reg = reg,
                  .copy = i};
        fs_push(x->scratch, &x->lives, l);
    }
}

/* Do a register's buffers lie in the arena as they should? */
static void check_placed(memory_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    for (int32_t i = 0; i < g->count; i++)
        if (!inside(x, g->offset[i], g->bytes)) {
            WRONG(x->c,
                  "%s: buffer %d of register %d (%s), %" PRId64
                  " bytes at %" PRId64 ", lies outside the arena of "
                  "%" PRId64 " bytes",
                  plan_check_ranks_text(x->c, x->role), i, reg,
                  register_name(x, reg), g->bytes, g->offset[i],
                  x->r->arena_bytes);
            return;
        }
    for (int32_t i = 0; i < g->count; i++)
        if (g->offset[i] % PLAN_ALIGN)
            misaligned(x, register_name(x, reg), g->offset[i]);
    if (!may_share(x, reg))
        add_always(x, reg);
}

/* What shares on a stream. */
static void add_lives(memory_check *x, int32_t stream)
{
    x->lives.n = 0;
    for (int32_t i = 0; i < x->r->n_registers; i++) {
        bool once = x->r->registers[i].per_step;
        if (!may_share(x, i) || stream_of(x, i) != stream)
            continue;
        for (int32_t mb = 0; mb < (once ? 1 : x->c->p->micro_batches); mb++)
            add_piece(x, i, mb);
        if (x->left_out > 0 && plan_register_is_held(x->r, &x->r->registers[i]))
            add_left_out(x, i);
    }
}

/* ---- the sweep ---- */

static const char *life_text(const memory_check *x, const life *l)
{
    int64_t end = l->offset + l->bytes;
    if (l->reg < 0)
        return fs_printf(x->scratch,
                         "scratch of stream %d (bytes %" PRId64 " to %" PRId64
                         ")",
                         -1 - l->reg, l->offset, end);
    return fs_printf(x->scratch,
                     "register %d, buffer %d, %s (bytes %" PRId64 " to %" PRId64
                     ")",
                     l->reg, l->copy, register_name(x, l->reg), l->offset, end);
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Places of lives in the order of offsets, none active. */
static void lay_offsets(memory_check *x)
{
    fs_arena *arena = x->scratch;
    int32_t n = 0, distinct = 0;
    x->offsets = fs_new(arena, int64_t, x->lives.n + x->always.n + 1);
    for (int32_t i = 0; i < x->always.n; i++)
        x->offsets[n++] = x->always.at[i].offset;
    for (int32_t i = 0; i < x->lives.n; i++) {
        const life *l = &x->lives.at[i];
        if (l->slot < x->r->registers[l->reg].count) /* then in turns */
            x->offsets[n++] = l->offset;
    }
    if (n > 0)
        qsort(x->offsets, (size_t)n, sizeof *x->offsets, by_value);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || x->offsets[i] != x->offsets[distinct - 1])
            x->offsets[distinct++] = x->offsets[i];
    x->n_offsets = distinct;
    x->active = fs_new(arena, const life *, distinct + 1);
    for (int32_t k = 0, words = distinct; k < LEVELS; k++) {
        words = words / 64 + 1;
        x->words[k] = words;
        x->bits[k] = fs_new(arena, uint64_t, words);
    }
}

static int32_t place_of(const memory_check *x, int64_t offset)
{
    int32_t low = 0, high = x->n_offsets;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (x->offsets[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The active place at or after this one, or at or before it; -1: none. */
static int32_t next_active(const memory_check *x, int32_t at)
{
    for (int32_t k = 0; k < LEVELS && at >> 6 < x->words[k]; k++) {
        uint64_t left = x->bits[k][at >> 6] >> (at & 63);
        if (left) {
            at += __builtin_ctzll(left);
            while (k-- > 0)
                at = at << 6 | __builtin_ctzll(x->bits[k][at]);
            return at;
        }
        at = (at >> 6) + 1;
    }
    return -1;
}

static int32_t last_active(const memory_check *x, int32_t at)
{
    for (int32_t k = 0; k < LEVELS && at >= 0; k++) {
        uint64_t left = x->bits[k][at >> 6] << (63 - (at & 63));
        if (left) {
            at -= __builtin_clzll(left);
            while (k-- > 0)
                at = at << 6 | (63 - __builtin_clzll(x->bits[k][at]));
            return at;
        }
        at = (at >> 6) - 1;
    }
    return -1;
}

/* NULL when it was put in; else the one it overlaps. */
static const life *insert(memory_check *x, const life *l)
{
    int32_t at = place_of(x, l->offset), other = next_active(x, at);
    if (other >= 0 && x->offsets[other] < l->offset + l->bytes)
        return x->active[other];
    other = last_active(x, at);
    if (other >= 0 && x->offsets[other] + x->active[other]->bytes > l->offset)
        return x->active[other];
    x->active[at] = l;
    for (int32_t k = 0; k < LEVELS; k++, at >>= 6)
        x->bits[k][at >> 6] |= (uint64_t)1 << (at & 63);
    return NULL;
}

static void drop(memory_check *x, const life *l)
{
    int32_t at = place_of(x, l->offset);
    for (int32_t k = 0; k < LEVELS; k++, at >>= 6) {
        x->bits[k][at >> 6] &= ~((uint64_t)1 << (at & 63));
        if (x->bits[k][at >> 6])
            return;
    }
}

/* The bytes of an overlap, and, of shared ones, from which task on. */
static void report_overlap(const memory_check *x, const life *a, const life *b)
{
    const char *ranks = plan_check_ranks_text(x->c, x->role);
    const life *shared = a->reg >= 0 && may_share(x, a->reg) ? a : NULL;
    if (!shared) {
        WRONG(x->c, "%s: %s and %s overlap", ranks, life_text(x, a),
              life_text(x, b));
        return;
    }
    int32_t t = x->r->registers[shared->reg].producer;
    WRONG(x->c,
          "%s: %s and %s overlap and are both live from %s, micro-batch "
          "%d, on",
          ranks, life_text(x, a), life_text(x, b),
          plan_check_task_text(x->c, x->role, -1, t), shared->slot);
}

static int64_t start_of(const life *l)
{
    return l->start;
}

static int64_t last_of(const life *l)
{
    return l->end;
}

/* Lives by the firing that `at` says, in time that grows as they do. */
static const life **in_order(const memory_check *x, int64_t at(const life *))
{
    const int32_t n = x->lives.n, n_firings = x->c->n_firings[x->role];
    int32_t *next = fs_new(x->scratch, int32_t, (int64_t)n_firings + 1);
    const life **list = fs_new(x->scratch, const life *, n);
    for (int32_t i = 0; i < n; i++)
        next[at(&x->lives.at[i]) + 1]++;
    for (int32_t f = 0; f < n_firings; f++)
        next[f + 1] += next[f];
    for (int32_t i = 0; i < n; i++)
        list[next[at(&x->lives.at[i])]++] = &x->lives.at[i];
    return list;
}

/* Stops at the first overlap: what follows from it tells nothing. */
static void sweep(memory_check *x)
{
    const int32_t n = x->lives.n;
    const life *const *starts = in_order(x, start_of);
    const life *const *ends = in_order(x, last_of);
    int32_t ended = 0;
    lay_offsets(x);
    const life *other = NULL, *l = NULL;
    for (int32_t i = 0; i < x->always.n && !other; i++) {
        l = &x->always.at[i];
        if (l->bytes > 0)
            other = insert(x, l);
    }
    for (int32_t i = 0; i < n && !other; i++) {
        l = starts[i];
        for (; ends[ended]->end < l->start; ended++)
            if (ends[ended]->bytes > 0)
                drop(x, ends[ended]);
        if (l->bytes > 0)
            other = insert(x, l);
    }
    if (other)
        report_overlap(x, l, other);
}

/* ---- streams apart ---- */

static int by_offset(const void *a, const void *b)
{
    const life *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->reg != y->reg ? x->reg - y->reg : x->copy - y->copy;
}

static void report_unordered(const memory_check *x, const life *a,
                             const life *b)
{
    int32_t ta = x->r->registers[a->reg].producer;
    int32_t tb = x->r->registers[b->reg].producer;
    WRONG(x->c,
          "%s: %s and %s overlap, but %s and %s run on two streams (%d and "
          "%d), which nothing orders",
          plan_check_ranks_text(x->c, x->role), life_text(x, a),
          life_text(x, b), plan_check_task_text(x->c, x->role, -1, ta),
          plan_check_task_text(x->c, x->role, -1, tb), stream_of(x, a->reg),
          stream_of(x, b->reg));
}

/* By ascending offset; per stream what reaches furthest so far. */
static void check_apart(memory_check *x)
{
    int32_t n_compute = 0;
    for (int32_t s = 0; s < x->r->n_streams; s++)
        n_compute += x->r->streams[s].kind == PLAN_STREAM_COMPUTE;
    if (n_compute < 2)
        return;
    const life **far = fs_new(x->scratch, const life *, x->r->n_streams);
    x->lives.n = 0;
    for (int32_t i = 0; i < x->r->n_registers; i++)
        for (int32_t k = 0; may_share(x, i) && k < x->r->registers[i].count;
             k++) {
            const plan_register *g = &x->r->registers[i];
            life l = {
                .offset = g->offset[k], .bytes = g->bytes, .reg = i, .copy = k};
            fs_push(x->scratch, &x->lives, l);
        }
    if (x->lives.n > 0)
        qsort(x->lives.at, (size_t)x->lives.n, sizeof *x->lives.at, by_offset);
    for (int32_t i = 0; i < x->lives.n; i++) {
        const life *l = &x->lives.at[i];
        int32_t own = stream_of(x, l->reg);
        for (int32_t s = 0; l->bytes > 0 && s < x->r->n_streams; s++)
            if (s != own && far[s] &&
                far[s]->offset + far[s]->bytes > l->offset) {
                report_unordered(x, far[s], l);
                return;
            }
        if (!far[own] ||
            l->offset + l->bytes > far[own]->offset + far[own]->bytes)
            far[own] = l;
    }
}

/* "another stream than compute", or where it is another pass's. */
static const char *other_stream_text(const memory_check *x, int32_t reg,
                                     int32_t task)
{
    const plan_task *t = &x->r->tasks[task];
    if (x->r->streams[t->stream].kind != PLAN_STREAM_COMPUTE)
        return "another stream than compute";
    return fs_printf(
        x->scratch, "another stream (%d) than %s (%d)", t->stream,
        plan_check_task_text(x->c, x->role, -1, x->r->registers[reg].producer),
        stream_of(x, reg));
}

/* What is touched from two streams shares with nothing. */
static void check_foreign(memory_check *x, int32_t reg)
{
    int32_t t = may_share(x, reg) ? foreign_task(x, reg) : -1;
    if (t < 0)
        return;
    const plan_register *g = &x->r->registers[reg];
    const char *other = other_stream_text(x, reg, t);
    for (int32_t i = 0; i < x->r->n_registers; i++) {
        const plan_register *h = &x->r->registers[i];
        bool meets = false;
        for (int32_t a = 0; a < g->count && i != reg; a++)
            for (int32_t b = 0; b < h->count && b < 64 && a < 64; b++)
                meets |= g->bytes > 0 && h->bytes > 0 &&
                         g->offset[a] < h->offset[b] + h->bytes &&
                         h->offset[b] < g->offset[a] + g->bytes;
        if (!meets)
            continue;
        WRONG(x->c,
              "%s: registers %d (%s) and %d (%s) share bytes, but %s runs on "
              "%s",
              plan_check_ranks_text(x->c, x->role), reg, register_name(x, reg),
              i, register_name(x, i),
              plan_check_task_text(x->c, x->role, -1, t), other);
        return;
    }
    WRONG(x->c,
          "%s: register %d (%s) must have memory of its own, for %s runs on %s",
          plan_check_ranks_text(x->c, x->role), reg, register_name(x, reg),
          plan_check_task_text(x->c, x->role, -1, t), other);
}

/* ---- the account ---- */

/* Either what can share does, or nothing does. */
static void check_own(const memory_check *x)
{
    bool shares = false;
    bool *own = fs_new(x->scratch, bool, x->r->n_registers);
    plan_memory_choose(x->r, &x->places, own);
    for (int32_t i = 0; i < x->r->n_registers; i++)
        shares = shares || !x->r->registers[i].own_memory;
    for (int32_t i = 0; shares && i < x->r->n_registers; i++)
        if (x->r->registers[i].own_memory != own[i])
            WRONG(x->c, "%s: register %d (%s) %s memory of its own",
                  plan_check_ranks_text(x->c, x->role), i, register_name(x, i),
                  own[i] ? "must have" : "can share bytes, others do; it has");
}

/* Bytes of the arena by kind; the shared region is what nothing else takes. */
static void check_kinds(const memory_check *x, int64_t *own_bytes)
{
    int64_t bytes[PLAN_BYTES_KINDS] = {0}, taken = 0;
    for (int32_t i = 0; i < x->r->n_registers; i++) {
        const plan_register *g = &x->r->registers[i];
        if (g->own_memory)
            bytes[plan_memory_kind(x->c->graph, x->r, g)] +=
                g->count * g->bytes;
    }
    for (int32_t s = 0; s < x->r->n_streams; s++)
        bytes[PLAN_BYTES_SCRATCH] += plan_memory_scratch(x->r, s);
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        taken += bytes[k];
    *own_bytes = taken;
    if (taken <= x->r->arena_bytes)
        plan_memory_count_shared(x->r, x->r->arena_bytes - taken, bytes);
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        if (bytes[k] != x->r->bytes[k])
            WRONG(x->c,
                  "%s: the plan counts %" PRId64 " bytes as %s, its registers "
                  "and tasks %" PRId64,
                  plan_check_ranks_text(x->c, x->role), x->r->bytes[k],
                  plan_bytes_kind_name((plan_bytes_kind)k), bytes[k]);
}

/* Most bytes of a stream's shared registers that are live at once in its
 * program. */
static int64_t live_most(const memory_check *x, int32_t stream)
{
    int32_t n = x->c->n_firings[x->role], m = x->c->p->micro_batches;
    int64_t *change = fs_new(x->scratch, int64_t, n + 1);
    int64_t live = 0, most = 0;
    for (int32_t i = 0; i < x->r->n_registers; i++) {
        const plan_register *g = &x->r->registers[i];
        if (g->own_memory || stream_of(x, i) != stream)
            continue;
        for (int32_t mb = 0; mb < (g->per_step ? 1 : m); mb++) {
            change[plan_check_firing_at(x->c, x->role, g->producer, mb)] +=
                g->bytes;
            change[end_of(x, g, g->per_step ? m - 1 : mb) + 1] -= g->bytes;
        }
        if (x->left_out > 0 && plan_register_is_held(x->r, g)) {
            change[span_out(x).start] += x->left_out * g->bytes;
            change[span_out(x).end + 1] -= x->left_out * g->bytes;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    return most;
}

/* What a rank allocates is used to its end. */
static void check_top(const memory_check *x)
{
    int64_t top = 0;
    for (int32_t i = 0; i < x->r->n_registers; i++)
        for (int32_t k = 0; k < x->r->registers[i].count; k++) {
            int64_t end =
                x->r->registers[i].offset[k] + x->r->registers[i].bytes;
            top = end > top ? end : top;
        }
    for (int32_t s = 0; s < x->r->n_streams; s++) {
        int64_t end = x->r->stream_scratch[s] + plan_memory_scratch(x->r, s);
        top = end > top ? end : top;
    }
    if (x->r->arena_bytes > top)
        WRONG(x->c,
              "%s: an arena of %" PRId64 " bytes, of which those from "
              "%" PRId64 " on are nobody's",
              plan_check_ranks_text(x->c, x->role), x->r->arena_bytes, top);
}

/* What the plan says of itself; of a layout that was found sound, so that no
 * sum exceeds the arena by more than what aligns it. */
static void check_account(const memory_check *x)
{
    int64_t own_bytes, bound;
    int32_t before = x->c->report->n;
    check_own(x);
    check_top(x);
    if (x->c->report->n != before)
        return;
    check_kinds(x, &own_bytes);
    bound = own_bytes;
    for (int32_t s = 0; s < x->r->n_streams; s++)
        if (x->r->streams[s].kind == PLAN_STREAM_COMPUTE)
            bound += live_most(x, s);
    if (bound != x->r->bound_bytes)
        WRONG(x->c,
              "%s: the plan says that no placement takes less than %" PRId64
              " bytes; that is %" PRId64,
              plan_check_ranks_text(x->c, x->role), x->r->bound_bytes, bound);
}

static void check_role_in(plan_checking *c, int32_t role, fs_arena *scratch)
{
    memory_check x = {.c = c,
                      .scratch = scratch,
                      .role = role,
                      .r = &c->p->roles[role],
                      .places = plan_places_of(&c->p->roles[role], scratch)};
    if (c->lives) {
        x.first_out = c->lives[role].first_out;
        x.left_out = c->lives[role].left_out;
    }
    int32_t before = c->report->n;
    check_task_scratch(&x);
    add_scratch(&x);
    for (int32_t i = 0; i < x.r->n_registers && !plan_check_full(c); i++)
        check_placed(&x, i);
    for (int32_t i = 0; i < x.r->n_registers && c->report->n == before; i++)
        check_foreign(&x, i);
    if (c->report->n == before)
        check_apart(&x);
    for (int32_t s = 0; s < x.r->n_streams && c->report->n == before; s++)
        if (s == 0 || x.r->streams[s].kind == PLAN_STREAM_COMPUTE) {
            add_lives(&x, s);
            sweep(&x);
        }
    if (c->report->n == before && x.r->arena_bytes <= MOST_BYTES)
        check_account(&x);
}

static void check_role(plan_checking *c, int32_t role)
{
    fs_arena *scratch = fs_arena_create();
    const plan *whole = c->p;
    if (c->lives)
        c->p = &c->lives[role].p;
    check_role_in(c, role, scratch);
    c->p = whole;
    fs_arena_destroy(scratch);
}

/* ---- roles at once ---- */

enum { MOST_HANDS = 8 };

typedef struct hand {
    plan_checking c; /* with a report of its own */
    plan_report report;
    plan_finding findings[PLAN_MOST_FINDINGS];
} hand;

static void check_by_hand(void *ctx, int32_t number, int32_t role)
{
    hand *h = &((hand *)ctx)[number];
    if (h->report.n == 0)
        check_role(&h->c, role);
}

/* Roles say nothing of each other, so hands share them; what is wrong is told
 * by one hand, in the order of roles. */
static bool all_sound(const plan_checking *c)
{
    hand hands[MOST_HANDS] = {0};
    int32_t n = fs_crew_hands(), found = 0;
    n = n < MOST_HANDS ? n : MOST_HANDS;
    for (int32_t k = 0; k < n; k++) {
        hand *h = &hands[k];
        h->c = *c;
        h->c.arena = h->c.scratch = fs_arena_create();
        h->c.works = (ir_works){.arena = h->c.scratch};
        h->report.findings = h->findings;
        h->c.report = &h->report;
    }
    fs_crew_run(check_by_hand, hands, n, c->p->n_roles);
    for (int32_t k = 0; k < n; k++) {
        found += hands[k].report.n;
        fs_arena_destroy(hands[k].c.scratch);
    }
    return found == 0;
}

void plan_check_memory(plan_checking *c)
{
    bool runs =
        true; /* lives are told by a program that runs, in right sizes */
    for (int32_t i = 0; i < c->report->n; i++)
        runs = runs && c->report->findings[i].kind == PLAN_FINDING_ORDER;
    for (int32_t r = 0; r < c->p->n_roles; r++)
        check_device(c, r);
    if (!runs || (c->p->n_roles > 1 && c->report->n == 0 && all_sound(c)))
        return;
    for (int32_t r = 0; r < c->p->n_roles && !plan_check_full(c); r++)
        check_role(c, r);
}
