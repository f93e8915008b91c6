/* A step of many micro-batches is checked, packed and measured by one of few:
 * held against looking at every firing, on drawn plans that are sound and on
 * the same with one figure spoilt. */
#include "config.h"

#include "base/hash.h"
#include "plan/check.h"
#include "plan/fullest.h"
#include "plan/schedule.h"
#include "plan/shorten.h"

#include "plan_build.h"
#include "tap.h"

#include <stdlib.h>
#include <time.h>

enum { CASES = 120, GPIPE = 1000, GPIPE_CASES = 40, SPOILT = 6, WIDTH = 16 };

typedef struct tally {
    int32_t plans, short_ones, spoilt, found, differ;
} tally;

/* A linear layer per stage; what some made joins a later one. */
static ir_graph *drawn_mlp(int32_t n, int32_t m, uint64_t *seed)
{
    ir_graph *g = ir_graph_create("shorten");
    ir_train_options options = ir_train_defaults();
    ir_init init = {.kind = IR_INIT_NORMAL, .spread = 0.1, .seed = 1};
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {4, WIDTH}}, 0);
    int32_t y = ir_input(g, "y", IR_I64, (ir_shape){1, {4}}, 0), early = x;
    const int32_t from = (int32_t)fs_rand_below(seed, n);
    const int32_t to = (int32_t)fs_rand_below(seed, n);
    fs_err err = {0};
    char name[16];

    for (int32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "w%d", (int)i);
        x = ir_matmul(
            g, x,
            ir_parameter(g, name, IR_F32, (ir_shape){2, {WIDTH, WIDTH}}, init),
            false, false);
        early = i == from ? x : early;
        x = i == to && to > from ? ir_binary(g, IR_OP_mul, x, early) : x;
        x = ir_unary(g, IR_OP_relu, x);
    }
    g->loss = ir_cross_entropy(g, x, y);
    options.micro_batches = m;
    g->batch = 4 * (int64_t)m;
    if (ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
    return g;
}

static bool same_reports(const plan_report *a, const plan_report *b)
{
    bool same =
        a->n == b->n && a->live == b->live && a->deadlocks == b->deadlocks &&
        a->n_transitions == b->n_transitions && a->n_places == b->n_places &&
        a->peak_bytes_max == b->peak_bytes_max;
    for (int32_t i = 0; same && i < a->n; i++)
        same = strcmp(a->findings[i].text, b->findings[i].text) == 0;
    return same;
}

static void compare(const ir_graph *g, const hw_cluster *cluster, const plan *p,
                    uint64_t number, tally *t, plan_report *report)
{
    fs_arena *arena = fs_arena_create();
    plan_report ref;
    plan_check(g, cluster, p, arena, report);
    plan_check_ref(g, cluster, p, arena, &ref);
    if (!same_reports(report, &ref)) {
        t->differ++;
        printf("# FS_SEED=%llu, %s, %d micro-batches: %d findings, %lld "
               "transitions, %lld places; of all %d, %lld, %lld\n",
               (unsigned long long)number, p->strategy->schedule,
               (int)p->micro_batches, (int)report->n,
               (long long)report->n_transitions, (long long)report->n_places,
               (int)ref.n, (long long)ref.n_transitions,
               (long long)ref.n_places);
    }
    fs_arena_destroy(arena);
}

/* A figure of a register is another one, and stays so no longer. */
static void spoil(const ir_graph *g, const hw_cluster *cluster, plan *p,
                  uint64_t number, uint64_t *seed, tally *t)
{
    plan_role *role = &p->roles[fs_rand_below(seed, p->n_roles)];
    plan_register *r = &role->registers[fs_rand_below(seed, role->n_registers)];
    const plan_register was = *r;
    const int64_t bound = role->bound_bytes;
    int64_t *offset = &r->offset[fs_rand_below(seed, r->count)];
    const int64_t lay = *offset;
    plan_report report;
    switch (fs_rand_below(seed, 3)) {
    case 0:
        r->count = r->count > 1 ? r->count - 1 : r->count;
        break;
    case 1:
        *offset = (int64_t)fs_rand_below(seed, 64) * 64 % (lay + 64);
        break;
    default:
        role->bound_bytes += r->bytes;
    }
    compare(g, cluster, p, number, t, &report);
    t->spoilt++;
    t->found += report.n > 0;
    *offset = lay;
    *r = was;
    role->bound_bytes = bound;
}

/* What plan_fullest_of says holds of all firings: none holds more bytes, and
 * none before it as many. */
static bool is_fullest(const ir_graph *g, const plan *p, int32_t r)
{
    fs_arena *arena = fs_arena_create();
    const plan_role *role = &p->roles[r];
    const plan_fullest f = plan_fullest_of(g, p, r);
    const plan_lives lives = plan_lives_of(p, r, arena);
    int32_t first = 0;
    for (int32_t i = 1; i < lives.n; i++)
        first = lives.bytes[i] > lives.bytes[first] ? i : first;
    bool same = f.task < 0;
    for (int32_t s = 0; f.task >= 0 && s < role->n_slots; s++) {
        const int32_t k = plan_slot_section(role, &role->slots[s]);
        if (k == plan_task_section(role, &role->tasks[f.task]) &&
            role->slots[s].micro_batch == f.micro_batch)
            same |= lives.before[s] + f.task - lives.first_task[k] == first;
    }
    fs_arena_destroy(arena);
    return same;
}

/* Numbers from GPIPE on: of gpipe, with more micro-batches than are placed one
 * by one. */
static void try_case(uint64_t number, tally *t)
{
    static const char *const schedules[] = {"1f1b",  "interleaved", "zb-h1",
                                            "zb-h2", "dynamic",     "gpipe"};
    uint64_t seed = fs_mix(number + 28);
    const bool gpipe = number >= GPIPE;
    const char *schedule = schedules[gpipe ? 5 : fs_rand_below(&seed, 6)];
    const plan_placing placing = plan_schedule_find(schedule)->placing;
    const int32_t chunks = placing == PLAN_PLACED_ONCE ? 1 : 2;
    const int32_t pp = chunks + (int32_t)fs_rand_below(&seed, 4);
    const int32_t m = (gpipe ? 65 : 1) + (int32_t)fs_rand_below(&seed, 160);
    fs_arena *arena = fs_arena_create();
    ir_graph *g = drawn_mlp(pp * chunks, m, &seed);
    hw_cluster *cluster = build_cluster(pp * chunks, arena);
    build_recipe recipe = {.pp = pp * chunks, .schedule = schedule};
    plan_lower_options o = plan_lower_defaults();
    fs_err err = {0};
    plan *p;
    plan_report report;

    plan_strategy *s = build_strategy(g, &recipe, arena);
    for (int32_t i = 0; i < s->n_stages && chunks > 1; i++)
        s->stages[i].first_device = plan_placing_role(placing, pp, i);
    o.prefetch = (int32_t)fs_rand_below(&seed, 3);
    o.overlap = fs_rand_below(&seed, 2);
    o.share_memory = fs_rand_below(&seed, 4) > 0;
    o.refine = false;
    if (plan_lower(g, cluster, s, &o, arena, &err, &p) == FS_OK) {
        compare(g, cluster, p, number, t, &report);
        t->plans++;
        t->short_ones += report.left_out > 0;
        for (int32_t k = 0; k < SPOILT; k++)
            spoil(g, cluster, p, number, &seed, t);
        for (int32_t r = 0; r < p->n_roles; r++)
            if (!is_fullest(g, p, r)) {
                printf("# FS_SEED=%llu: role %d is fullest elsewhere\n",
                       (unsigned long long)number, (int)r);
                t->differ++;
            }
    } else {
        printf("# FS_SEED=%llu: %s\n", (unsigned long long)number, err.text);
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* The program of a role by hand: what repeats, and what is left of it. */
static void test_period(void)
{
    fs_arena *arena = fs_arena_create();
    const plan_turn turn = {1, 4, 1, 1000};
    plan_slot *slots = fs_new(arena, plan_slot, 2002);
    plan_role role = {.n_chunks = 1, .n_slots = 2002, .slots = slots};
    slots[2001] = (plan_slot){PLAN_END, 999, 0};
    plan_schedule_1f1b(&turn, slots + 1);
    const plan_period p = plan_period_of(&role, 1000, 6);
    const int32_t times = plan_period_times(&p, 12);
    const plan_role is = plan_role_shorten(&role, &p, times, arena);
    tap_ok(p.micro_batches == 6 && p.slots == 12 && p.low <= 3 && p.high >= 997,
           "1f1b repeats with each micro-batch: %d to %d", (int)p.low,
           (int)p.high);
    const plan_turn fewer = {1, 4, 1, 1000 - 6 * times};
    plan_slot *due = fs_new(arena, plan_slot, is.n_slots);
    plan_schedule_1f1b(&fewer, due + 1);
    bool same = is.n_slots == 2 * fewer.micro_batches + 2;
    for (int32_t s = 1; same && s < is.n_slots - 1; s++)
        same = is.slots[s].phase == due[s].phase &&
               is.slots[s].micro_batch == due[s].micro_batch;
    tap_ok(same, "left out %d times it is that of %d micro-batches", (int)times,
           (int)fewer.micro_batches);
    fs_arena_destroy(arena);
}

typedef struct many {
    int32_t stages, micro_batches;
    const char *schedule;
    plan_report report;
    double gap; /* plan_role_gap of the first role; 1: no sound plan */
    bool sound;
} many;

/* Lowers and checks a plan of so many micro-batches, within seconds. */
static void try_many(many *m)
{
    uint64_t seed = 1;
    fs_arena *arena = fs_arena_create();
    ir_graph *g = drawn_mlp(m->stages, m->micro_batches, &seed);
    hw_cluster *cluster = build_cluster(m->stages, arena);
    build_recipe recipe = {.pp = m->stages, .schedule = m->schedule};
    plan_lower_options o = plan_lower_defaults();
    fs_err err = {0};
    plan *p = NULL;
    const clock_t begin = clock();
    m->sound = plan_lower(g, cluster, build_strategy(g, &recipe, arena), &o,
                          arena, &err, &p) == FS_OK &&
               plan_check(g, cluster, p, arena, &m->report) == FS_OK;
    const double s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    m->gap = m->sound ? plan_role_gap(&p->roles[0]) : 1;
    tap_ok(m->sound, "%s of %d micro-batches: %lld firings (%s)", m->schedule,
           m->micro_batches, (long long)m->report.n_transitions, err.text);
    tap_ok(s < 20, "lowered and checked in %.2f s", s);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* Nothing grows with the count of micro-batches but the list of slots. */
static void test_million(void)
{
    many m = {.stages = 4, .micro_batches = 1000000, .schedule = "zb-h1"};
    try_many(&m);
    tap_ok(m.report.left_out > 999000, "%d micro-batches are left out",
           (int)m.report.left_out);
}

/* What gpipe holds of each micro-batch is placed, and looked at, as one. */
static void test_gpipe(void)
{
    many m = {.stages = 2, .micro_batches = 100000, .schedule = "gpipe"};
    try_many(&m);
    tap_ok(m.gap < 1e-3, "offsets at most %.2g above what is held", m.gap);
}

int main(void)
{
    const char *one = getenv("FS_SEED");
    tally t = {0};
    test_period();
    for (int32_t k = 0; k < (one ? 1 : CASES); k++)
        try_case(one ? strtoull(one, NULL, 10) : (uint64_t)k, &t);
    for (uint64_t k = 0; k < (one ? 0 : GPIPE_CASES); k++)
        try_case(GPIPE + k, &t);
    tap_ok(t.differ == 0,
           "what is said of few micro-batches holds of all: %d "
           "differ of %d plans and %d spoilt ones, of which %d "
           "were found",
           (int)t.differ, (int)t.plans, (int)t.spoilt, (int)t.found);
    tap_ok(one || (t.plans > CASES / 2 && t.short_ones > CASES / 4 &&
                   t.found > CASES),
           "most are so checked: %d of %d", (int)t.short_ones, (int)t.plans);
    test_million();
    test_gpipe();
    return tap_done();
}
