#include "config.h"

#include "base/hash.h"
#include "plan/memory_life.h"
#include "plan/shorten.h"

#include <stdlib.h>
#include <string.h>

/* A buffer is live from its producer's start to its last consumer's end, each
 * at a position (slot, task) of the role's program. What touches buffers of a
 * compute stream's region keeps its place in that program (plan/places.h), so
 * their bytes may be shared when no two of their lives meet.
 *
 * Most slots of many micro-batches tell the same: what is live in them, was so
 * before. Only slots that no other one covers are kept; m may be large at no
 * cost. */
enum { COVER_WORK = 1 << 26 };

/* How a group of buffers is live in a slot. */
enum {
    LIVE_ALL = 1,
    LIVE_FROM = 2, /* from the producer to the slot's end */
    LIVE_TO = 4,   /* from the slot's begin to the last consumer */
    LIVE_WITHIN = 8
};

/* Buffers with the same lives by slots; they differ by positions only. The
 * copies of a register are groups in a row. */
typedef struct group {
    int32_t
        first; /* section of the program: of the producer, and of the last */
    int32_t last,
        weight; /* consumers but those of WEIGHT, of those; -1: none */
    bool per_step;
    int32_t count, copy;
    int32_t left_out; /* held beside its copies: what is left out of the
                         program, as one more behind them */
} group;

typedef struct lives {
    const plan_role *role;
    int32_t stream, m;
    int32_t first_out, left_out; /* micro-batches that are (plan_short_runs) */
    plan_places places;
    fs_arena *arena;
    fs_arena *scratch;
    int32_t n_areas;    /* sections of the program */
    int32_t *area;      /* [tasks] theirs */
    int32_t *slot;      /* [areas][m] index in role->slots */
    int32_t *last_slot; /* [areas] of the step */
    FS_VEC(group) groups;
    int32_t *group_of;    /* [registers] its first copy's */
    uint8_t *live;        /* [slots][groups] how */
    FS_VEC(int32_t) kept; /* slots of the program */
    int32_t *base;        /* [kept] first section */
    int32_t *section;     /* [tasks] of its area */
    int32_t *sections;    /* [areas] how many */
    FS_VEC(plan_span) spans;
} lives;

/* Those that share in the stream's region are of it alone
 * (plan_memory_stream). */
static bool shares(const lives *x, const plan_register *r)
{
    return !r->own_memory && x->places.stream[r->producer] == x->stream;
}

/* The last task of an area beside which the register is still touched, or -1.
 * A producer that has consumers is done when they start. */
static int32_t last_in(const lives *x, const plan_register *r, int32_t area)
{
    int32_t last = -1, at;

    for (int32_t c = 0; c < r->n_consumers; c++) {
        at = r->consumers[c];
        if (x->area[at] == area && x->places.end[at] > last)
            last = x->places.end[at];
    }
    if (last >= 0 || x->area[r->producer] != area)
        return last;
    at = x->places.end[r->producer];
    return at < 0 ? r->producer : at;
}

static void find_areas(lives *x)
{
    const plan_role *role = x->role;

    x->n_areas = plan_n_sections(role);
    x->area = fs_new(x->scratch, int32_t, role->n_tasks);
    for (int32_t t = 0; t < role->n_tasks; t++)
        x->area[t] = plan_task_section(role, &role->tasks[t]);
}

static int32_t later(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* The last consumer is that with the largest index, but for those of WEIGHT:
 * their slots may lie anywhere behind their own backward. */
static group group_of_register(const lives *x, const plan_register *r)
{
    group g = {.first = x->area[r->producer],
               .last = -1,
               .weight = -1,
               .per_step = r->per_step,
               .count = r->count};

    for (int32_t c = -1; c < r->n_consumers; c++) {
        int32_t task = c < 0 ? r->producer : r->consumers[c];
        bool weight = x->role->tasks[task].phase == PLAN_WEIGHT;
        int32_t *at = weight ? &g.weight : &g.last;
        *at = later(*at, x->area[task]);
    }
    if (!g.per_step && g.last != g.first)
        g.left_out = x->left_out;
    return g;
}

/* ---- groups ---- */

/* In a row. */
static int32_t n_of(const group *g)
{
    return g->count + (g->left_out > 0);
}

static int32_t find_group(lives *x, const plan_register *r)
{
    group g = group_of_register(x, r);
    int32_t found = x->groups.n;

    for (int32_t i = 0; i < x->groups.n; i += n_of(&x->groups.at[i])) {
        const group *h = &x->groups.at[i];
        if (h->first == g.first && h->last == g.last && h->weight == g.weight &&
            h->per_step == g.per_step && h->count == g.count)
            return i;
    }
    for (; g.copy < n_of(&g); g.copy++)
        fs_push(x->scratch, &x->groups, g);
    return found;
}

static void find_groups(lives *x)
{
    x->group_of = fs_new(x->scratch, int32_t, x->role->n_registers);
    for (int32_t i = 0; i < x->role->n_registers; i++)
        if (shares(x, &x->role->registers[i]))
            x->group_of[i] = find_group(x, &x->role->registers[i]);
}

/* ---- slots ---- */

static int32_t slot_of(const lives *x, int32_t area, int32_t mb)
{
    return x->slot[(int64_t)area * x->m + mb];
}

/* What runs once per step stands at micro-batch 0. */
static void index_slots(lives *x)
{
    x->slot = fs_new(x->scratch, int32_t, (int64_t)x->n_areas * x->m);
    x->last_slot = fs_new(x->scratch, int32_t, x->n_areas);
    for (int32_t s = 0; s < x->role->n_slots; s++) {
        const plan_slot *slot = &x->role->slots[s];
        int32_t area = plan_slot_section(x->role, slot);
        int32_t mb = plan_phase_once(slot->phase) ? 0 : slot->micro_batch;
        x->slot[(int64_t)area * x->m + mb] = s;
        x->last_slot[area] = s;
    }
}

/* The slot in which a piece ends; micro-batches ascend in every area. */
static int32_t end_of(const lives *x, const group *g, int32_t mb)
{
    int32_t areas[2] = {g->last, g->weight}, end = -1;

    for (int32_t i = 0; i < 2; i++)
        if (areas[i] >= 0)
            end = later(end, g->per_step ? x->last_slot[areas[i]]
                                         : slot_of(x, areas[i], mb));
    return end;
}

static void mark(lives *x, int32_t g, int32_t from, int32_t to)
{
    int32_t n = x->groups.n;

    if (from == to) {
        x->live[(int64_t)from * n + g] |= LIVE_WITHIN;
        return;
    }
    x->live[(int64_t)from * n + g] |= LIVE_FROM;
    x->live[(int64_t)to * n + g] |= LIVE_TO;
    for (int32_t s = from + 1; s < to; s++)
        x->live[(int64_t)s * n + g] |= LIVE_ALL;
}

/* From the first micro-batch behind them to the end of the last before. */
static void mark_left_out(lives *x, int32_t at)
{
    const group *g = &x->groups.at[at];
    const int32_t to = end_of(x, g, x->first_out - 1);

    for (int32_t s = slot_of(x, g->first, x->first_out); s <= to; s++)
        x->live[(int64_t)s * x->groups.n + at] |= LIVE_ALL;
}

static void mark_group(lives *x, int32_t at)
{
    const group *g = &x->groups.at[at];
    int32_t pieces = g->per_step ? 1 : x->m;

    if (g->copy == g->count) {
        mark_left_out(x, at);
        return;
    }
    for (int32_t mb = g->copy; mb < pieces; mb += g->count)
        mark(x, at, slot_of(x, g->first, mb), end_of(x, g, mb));
}

static void mark_lives(lives *x)
{
    int64_t slots = x->role->n_slots;

    index_slots(x);
    x->live = fs_new(x->scratch, uint8_t, slots * x->groups.n);
    for (int32_t g = 0; g < x->groups.n; g++)
        mark_group(x, g);
}

/* ---- the slots that count ---- */

static const uint8_t *row(const lives *x, int32_t slot)
{
    return &x->live[(int64_t)slot * x->groups.n];
}

static int32_t area_of(const lives *x, int32_t slot)
{
    return plan_slot_section(x->role, &x->role->slots[slot]);
}

/* Is all that is live in slot a also live in slot b? */
static bool covers(const lives *x, int32_t b, int32_t a)
{
    const uint8_t *under = row(x, a), *over = row(x, b);

    if (area_of(x, a) != area_of(x, b))
        return false;
    for (int32_t g = 0; g < x->groups.n; g++) {
        uint8_t want = under[g] & ~over[g];
        if (!want || (over[g] & LIVE_ALL))
            continue;
        if (want != LIVE_WITHIN || !(over[g] & (LIVE_FROM | LIVE_TO)))
            return false;
    }
    return true;
}

typedef struct hashed {
    uint64_t hash;
    int32_t slot;
} hashed;

static int by_hash(const void *a, const void *b)
{
    const hashed *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Slots, each the first of those like it. */
static hashed *distinct_slots(lives *x, int32_t *n)
{
    int32_t slots = x->role->n_slots;
    hashed *list = fs_new(x->scratch, hashed, slots);

    for (int32_t s = 0; s < slots; s++)
        list[s] = (hashed){
            fs_hash((uint64_t)area_of(x, s), row(x, s), (size_t)x->groups.n),
            s};
    qsort(list, (size_t)slots, sizeof *list, by_hash);
    *n = 0;
    for (int32_t i = 0; i < slots; i++) {
        const hashed *before = *n ? &list[*n - 1] : NULL;
        if (!before || before->hash != list[i].hash ||
            !covers(x, before->slot, list[i].slot) ||
            !covers(x, list[i].slot, before->slot))
            list[(*n)++] = list[i];
    }
    return list;
}

static int by_slot(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* Of slots that cover each other the first stays. */
static bool is_covered(const lives *x, const hashed *list, int32_t n, int32_t i)
{
    for (int32_t k = 0; k < n; k++)
        if (k != i && covers(x, list[k].slot, list[i].slot) &&
            (k < i || !covers(x, list[i].slot, list[k].slot)))
            return true;
    return false;
}

static void keep_slots(lives *x)
{
    int32_t n;
    hashed *list = distinct_slots(x, &n);
    bool few = (int64_t)n * n <= COVER_WORK / (x->groups.n + 1);

    for (int32_t i = 0; i < n; i++)
        if (!few || !is_covered(x, list, n, i))
            fs_push(x->scratch, &x->kept, list[i].slot);
    qsort(x->kept.at, (size_t)x->kept.n, sizeof *x->kept.at, by_slot);
}

/* ---- sections ---- */

/* Between the last end and the next start of buffers nothing changes. */
static void cut_areas(lives *x)
{
    const plan_role *role = x->role;
    bool *starts = fs_new(x->scratch, bool, role->n_tasks);
    bool *ends = fs_new(x->scratch, bool, role->n_tasks), ended = false;

    x->section = fs_new(x->scratch, int32_t, role->n_tasks);
    x->sections = fs_new(x->scratch, int32_t, x->n_areas);
    for (int32_t i = 0; i < role->n_registers; i++)
        if (shares(x, &role->registers[i])) {
            group g = group_of_register(x, &role->registers[i]);
            starts[role->registers[i].producer] = true;
            if (g.last >= 0)
                ends[last_in(x, &role->registers[i], g.last)] = true;
            if (g.weight >= 0)
                ends[last_in(x, &role->registers[i], g.weight)] = true;
        }
    for (int32_t t = 0; t < role->n_tasks; t++) {
        int32_t *n = &x->sections[x->area[t]];
        if (*n == 0 || (starts[t] && ended)) {
            ++*n;
            ended = false;
        }
        x->section[t] = *n - 1;
        ended = ended || ends[t];
    }
}

static void lay_sections(lives *x, plan_packing *p)
{
    x->base = fs_new(x->scratch, int32_t, x->kept.n);
    for (int32_t k = 0; k < x->kept.n; k++) {
        x->base[k] = p->n_sections;
        p->n_sections += x->sections[area_of(x, x->kept.at[k])];
    }
}

/* ---- buffers ---- */

/* Adds to the buffer's spans, the last of which may go on. */
static void add_span(lives *x, int32_t first, int32_t start, int32_t end)
{
    plan_span *last = x->spans.n > first ? &x->spans.at[x->spans.n - 1] : NULL;

    if (last && last->end + 1 >= start)
        last->end = end;
    else
        fs_push(x->arena, &x->spans, (plan_span){start, end});
}

static void add_slot(lives *x, int32_t first, int32_t k, uint8_t live,
                     const plan_register *r)
{
    int32_t base = x->base[k], start = x->section[r->producer];
    int32_t area = area_of(x, x->kept.at[k]), n = x->sections[area];
    int32_t last = last_in(x, r, area), end = last < 0 ? 0 : x->section[last];

    if (n == 0) /* nothing runs there */
        return;
    if (live & LIVE_ALL) {
        add_span(x, first, base, base + n - 1);
        return;
    }
    if (live & LIVE_TO)
        add_span(x, first, base, base + end);
    if (live & LIVE_WITHIN)
        add_span(x, first, base + start, base + end);
    if (live & LIVE_FROM)
        add_span(x, first, base + start, base + n - 1);
}

/* Which copies of the whole program these are. */
static plan_life_of copies_of(const lives *x, int32_t reg, int32_t copy)
{
    const group *g = &x->groups.at[x->group_of[reg]];

    if (copy == g->count)
        return (plan_life_of){reg, x->first_out, g->left_out};
    return (plan_life_of){reg, copy + (copy < x->first_out ? 0 : g->left_out),
                          1};
}

static void add_buffer(lives *x, int32_t reg, int32_t copy, plan_packing *p,
                       plan_life_of *of)
{
    const plan_register *r = &x->role->registers[reg];
    const plan_life_of its = copies_of(x, reg, copy);
    int32_t first = x->spans.n, g = x->group_of[reg] + copy;

    if (r->bytes == 0)
        return;
    for (int32_t k = 0; k < x->kept.n; k++) {
        uint8_t live = row(x, x->kept.at[k])[g];
        if (live)
            add_slot(x, first, k, live, r);
    }
    of[p->n] = its;
    p->buffers[p->n++] = (plan_buffer){.bytes = its.n * r->bytes,
                                       .copies = r->count,
                                       .copy = copy,
                                       .n_spans = x->spans.n - first};
}

static int32_t count_buffers(const lives *x)
{
    int32_t n = 0;

    for (int32_t i = 0; i < x->role->n_registers; i++)
        if (shares(x, &x->role->registers[i]))
            n += n_of(&x->groups.at[x->group_of[i]]);
    return n;
}

static plan_life_of *add_buffers(lives *x, plan_packing *p)
{
    int32_t n = count_buffers(x);
    plan_life_of *of = fs_new(x->arena, plan_life_of, n);
    const plan_span *at;

    p->buffers = fs_new(x->arena, plan_buffer, n);
    for (int32_t i = 0; i < x->role->n_registers; i++)
        if (shares(x, &x->role->registers[i]))
            for (int32_t c = 0; c < n_of(&x->groups.at[x->group_of[i]]); c++)
                add_buffer(x, i, c, p, of);
    at = x->spans.at;
    for (int32_t i = 0; i < p->n; i++) {
        p->buffers[i].spans = at;
        at += p->buffers[i].n_spans;
    }
    return of;
}

void plan_life_pack(const plan_stream_program *program, fs_arena *arena,
                    plan_packing *packing, plan_life_of **of)
{
    lives x = {.stream = program->stream,
               .arena = arena,
               .scratch = fs_arena_create()};
    const plan_short_role shorter =
        plan_role_shorten_lives(program->role, program->m, x.scratch);

    const plan_short_runs runs =
        plan_role_shorten_runs(&shorter.role, shorter.micro_batches, x.scratch);

    x.role = &runs.role;
    x.m = runs.micro_batches;
    x.first_out = runs.first;
    x.left_out = runs.left_out;
    *packing = (plan_packing){0};
    x.places = plan_places_of(x.role, x.scratch);
    find_areas(&x);
    find_groups(&x);
    mark_lives(&x);
    keep_slots(&x);
    cut_areas(&x);
    lay_sections(&x, packing);
    *of = add_buffers(&x, packing);
    fs_arena_destroy(x.scratch);
}
