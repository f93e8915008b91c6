/* Why nothing is lost: micro-batches ascend in each section, so that of the
 * slots of one section as many stand before slot s + slots as before slot s and
 * micro_batches more, for each s from `first` on. So a piece is live at s if
 * and only if that of micro_batches later is at s + slots, and they lie in the
 * same buffer if its register's count divides them. */
#include "config.h"

#include "plan/shorten.h"

#include "ir/op_util.h"

/* A repetition of more micro-batches is not looked for: schedules go by one, or
 * by as many as there are roles. */
enum { MOST_APART = 1 << 12 };

/* ---- what repeats ---- */

/* Is slot s + by that of slot s, so many micro-batches later? */
static bool repeats(const plan_role *role, int32_t s, int32_t by, int32_t later)
{
    const plan_slot *a = &role->slots[s], *b = a + by;

    return a->phase == b->phase && a->chunk == b->chunk &&
           b->micro_batch == a->micro_batch + later;
}

/* In the middle, for a whole repetition. */
static bool repeats_once(const plan_role *role, int32_t by, int32_t later)
{
    const int32_t middle = role->n_slots / 2;

    for (int32_t s = middle; s < middle + by; s++)
        if (!repeats(role, s, by, later))
            return false;
    return true;
}

/* As far as it goes; neither the first slot nor the last is of a micro-batch.
 */
static void extend(const plan_role *role, plan_period *p)
{
    const int32_t by = p->slots, last = role->n_slots - 2;

    p->first = p->end = role->n_slots / 2;
    while (p->first > 1 && repeats(role, p->first - 1, by, p->micro_batches))
        p->first--;
    while (p->end + by <= last && repeats(role, p->end, by, p->micro_batches))
        p->end++;
    p->end += by;
}

static void find_shortest(const plan_role *role, int32_t each, plan_period *p)
{
    for (int32_t d = 1; d <= MOST_APART; d++) {
        if (role->n_slots / 2 + 2 * (int64_t)d * each > role->n_slots - 1)
            return;
        if (!repeats_once(role, d * each, d))
            continue;
        p->micro_batches = d;
        p->slots = d * each;
        extend(role, p);
        return;
    }
}

/* Those of which every section's slot lies within: a repetition has slots of
 * all sections. */
static void find_range(const plan_role *role, plan_period *p, fs_arena *scratch)
{
    const int32_t n = plan_n_sections(role);
    bool *seen = fs_new(scratch, bool, n);
    int32_t *last = fs_new(scratch, int32_t, n);

    p->low = 0;
    p->high = INT32_MAX;
    for (int32_t s = p->first; s < p->first + p->slots; s++) {
        const int32_t mb = role->slots[s].micro_batch;
        const int32_t k = plan_slot_section(role, &role->slots[s]);
        if (!seen[k] && mb > p->low)
            p->low = mb;
        seen[k] = true;
    }
    for (int32_t s = p->end - p->slots; s < p->end; s++)
        last[plan_slot_section(role, &role->slots[s])] =
            role->slots[s].micro_batch + 1;
    for (int32_t k = 0; k < n; k++)
        if (last[k] > 0 && last[k] < p->high)
            p->high = last[k];
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    return a / ir_common_divisor(a, b) * b;
}

plan_period plan_period_of(const plan_role *role, int32_t micro_batches,
                           int32_t multiple)
{
    const int32_t n = role->n_slots - 2, each = n / micro_batches;
    plan_period p = {0};

    if (n < 1 || n % micro_batches || multiple < 1)
        return p;
    find_shortest(role, each, &p);
    if (p.slots == 0)
        return p;
    const int64_t all = common_multiple(p.micro_batches, multiple);
    if (all > (p.end - p.first) / each)
        return (plan_period){0};
    p.micro_batches = (int32_t)all;
    p.slots = (int32_t)all * each;
    fs_arena *scratch = fs_arena_create();
    find_range(role, &p, scratch);
    fs_arena_destroy(scratch);
    return p;
}

/* ---- left out ---- */

int32_t plan_period_times(const plan_period *period, int32_t keep)
{
    const int32_t more = period->high - period->low - keep;

    return period->slots > 0 && more > 0 ? more / period->micro_batches : 0;
}

plan_role plan_role_shorten(const plan_role *role, const plan_period *period,
                            int32_t times, fs_arena *arena)
{
    const int32_t out = times * period->slots;
    const int32_t later = times * period->micro_batches;
    plan_role is = *role;

    if (times == 0)
        return is;
    is.n_slots = role->n_slots - out;
    is.slots = fs_new(arena, plan_slot, is.n_slots);
    for (int32_t s = 0; s < is.n_slots; s++) {
        const bool before = s < period->first;
        is.slots[s] = role->slots[before ? s : s + out];
        is.slots[s].micro_batch -=
            before || is.slots[s].phase == PLAN_BEGIN ? 0 : later;
    }
    return is;
}

/* ---- of all roles ---- */

bool plan_repetition_of(const plan *p, fs_arena *arena, plan_repetition *out)
{
    plan_repetition all = {1, 0, p->micro_batches,
                           fs_new(arena, plan_period, p->n_roles)};

    for (int32_t r = 0; r < p->n_roles; r++) {
        all.periods[r] = plan_period_of(&p->roles[r], p->micro_batches, 1);
        if (all.periods[r].micro_batches > all.micro_batches)
            all.micro_batches = all.periods[r].micro_batches;
    }
    for (int32_t r = 0; r < p->n_roles; r++) {
        plan_period *its = &all.periods[r];
        if (its->micro_batches != all.micro_batches)
            *its = plan_period_of(&p->roles[r], p->micro_batches,
                                  all.micro_batches);
        if (its->micro_batches != all.micro_batches)
            return false;
        all.low = its->low > all.low ? its->low : all.low;
        all.high = its->high < all.high ? its->high : all.high;
    }
    *out = all;
    return true;
}

int32_t plan_repetition_times(const plan_repetition *r, int32_t keep)
{
    const plan_period all = {.micro_batches = r->micro_batches,
                             .slots = 1,
                             .low = r->low,
                             .high = r->high};

    return plan_period_times(&all, keep);
}

plan plan_leave_out(const plan *p, const plan_repetition *r, int32_t times,
                    fs_arena *arena)
{
    plan is = *p;

    if (times == 0)
        return is;
    is.micro_batches -= times * r->micro_batches;
    is.roles = fs_new(arena, plan_role, p->n_roles);
    for (int32_t i = 0; i < p->n_roles; i++)
        is.roles[i] =
            plan_role_shorten(&p->roles[i], &r->periods[i], times, arena);
    return is;
}

/* Micro-batches after which all that shares is in the same buffers; 0: more
 * than there are. */
static int32_t turns_of(const plan_role *role, int32_t micro_batches)
{
    int64_t turns = 1;

    for (int32_t i = 0; i < role->n_registers && turns <= micro_batches; i++) {
        const plan_register *r = &role->registers[i];
        if (!r->own_memory && !r->persistent && !r->per_step)
            turns = common_multiple(turns, r->count);
    }
    return turns <= micro_batches ? (int32_t)turns : 0;
}

plan_short_role plan_role_shorten_lives(const plan_role *role,
                                        int32_t micro_batches, fs_arena *arena)
{
    /* What lives all step long begins and ends in a repetition at either end;
     * two remain between them. */
    enum { KEEP = 4 };
    const plan_period p =
        plan_period_of(role, micro_batches, turns_of(role, micro_batches));
    const int32_t times = p.slots > 0 && p.micro_batches < micro_batches / KEEP
                              ? plan_period_times(&p, KEEP * p.micro_batches)
                              : 0;
    const int32_t left_out = times * p.micro_batches;

    return (plan_short_role){plan_role_shorten(role, &p, times, arena),
                             micro_batches - left_out, left_out,
                             p.end - times * p.slots};
}

/* ---- all of one section, then all of another ---- */

/* From slot `first` on micro-batches 0 to m - 1 of one section. */
static bool is_run(const plan_role *role, int32_t first, int32_t m)
{
    const int32_t section = plan_slot_section(role, &role->slots[first]);

    for (int32_t k = 0; k < m; k++)
        if (role->slots[first + k].micro_batch != k ||
            plan_slot_section(role, &role->slots[first + k]) != section)
            return false;
    return true;
}

static bool is_of_runs(const plan_role *role, int32_t m)
{
    return role->n_slots == 2 * m + 2 && is_run(role, 1, m) &&
           is_run(role, m + 1, m);
}

bool plan_is_of_runs(const plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        if (!is_of_runs(&p->roles[r], p->micro_batches))
            return false;
    return true;
}

plan plan_leave_out_last(const plan *p, int32_t left_out, fs_arena *arena)
{
    plan is = *p;

    is.micro_batches -= left_out;
    is.roles =
        fs_memdup(arena, p->roles, (size_t)p->n_roles * sizeof *is.roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        plan_slot *slots = fs_new(arena, plan_slot, role->n_slots);
        int32_t n = 0;
        for (int32_t s = 0; s < role->n_slots; s++) {
            slots[n] = role->slots[s];
            if (s == role->n_slots - 1)
                slots[n].micro_batch -= left_out;
            n += slots[n].micro_batch < is.micro_batches;
        }
        is.roles[r].slots = slots;
        is.roles[r].n_slots = n;
    }
    return is;
}

/* From one section to the next. */
bool plan_register_is_held(const plan_role *role, const plan_register *r)
{
    if (r->own_memory || r->persistent || r->per_step)
        return false;
    for (int32_t c = 0; c < r->n_consumers; c++)
        if (plan_task_section(role, &role->tasks[r->consumers[c]]) !=
            plan_task_section(role, &role->tasks[r->producer]))
            return true;
    return false;
}

/* Of what is not held; 0: what is held has not a buffer for each micro-batch,
 * or there are more turns than micro-batches. */
static int32_t turns_beside_held(const plan_role *role, int32_t m)
{
    int64_t turns = 1;

    for (int32_t i = 0; i < role->n_registers && turns <= m; i++) {
        const plan_register *r = &role->registers[i];
        if (r->own_memory || r->persistent || r->per_step)
            continue;
        if (!plan_register_is_held(role, r))
            turns = common_multiple(turns, r->count);
        else if (r->count != m)
            return 0;
    }
    return turns <= m ? (int32_t)turns : 0;
}

static void leave_out_run(const plan_role *role, int32_t m, fs_arena *arena,
                          plan_short_runs *x)
{
    plan_role *is = &x->role;
    int32_t n = 0;

    is->slots = fs_new(arena, plan_slot, role->n_slots - 2 * x->left_out);
    for (int32_t s = 0; s < role->n_slots; s++) {
        plan_slot slot = role->slots[s];
        const bool once = s == 0 || s == role->n_slots - 1;
        const int32_t mb = slot.micro_batch;
        if (!once && mb >= x->first && mb < x->first + x->left_out)
            continue;
        slot.micro_batch -= mb >= x->first + x->left_out ? x->left_out : 0;
        is->slots[n++] = slot;
    }
    is->n_slots = n;
    is->registers =
        fs_memdup(arena, role->registers,
                  (size_t)role->n_registers * sizeof *is->registers);
    for (int32_t i = 0; i < role->n_registers; i++)
        if (plan_register_is_held(role, &role->registers[i]))
            is->registers[i].count = m - x->left_out;
}

/* A micro-batch that is left out has beside it what the next one has that takes
 * the same turns, or, on the way down, the one before; as many of them are kept
 * on either side at least. */
plan_short_runs plan_role_shorten_runs(const plan_role *role, int32_t m,
                                       fs_arena *arena)
{
    /* On either side: with fewer, placements of the few would be worse than
     * those that are found with all of them. */
    enum { KEEP = 32 };
    plan_short_runs x = {.role = *role, .micro_batches = m};

    if (m <= 2 * KEEP || !is_of_runs(role, m))
        return x;
    const int32_t turns = turns_beside_held(role, m);
    if (turns == 0 || turns > m / 4)
        return x;
    x.first = (KEEP + turns - 1) / turns * turns;
    x.left_out = (m - 2 * x.first) / turns * turns;
    if (x.left_out <= 0)
        return (plan_short_runs){.role = *role, .micro_batches = m};
    x.micro_batches = m - x.left_out;
    leave_out_run(role, m, arena, &x);
    return x;
}
