/* What the tasks of a chain need and do together. */
#include "config.h"
#include "plan/actor_chain_parts.h"

#include <string.h>

#include <stdlib.h>

/* ---- what it touches ---- */

static void touch(chaining *c, int32_t reg)
{
    if (c->listed[reg])
        return;
    c->listed[reg] = true;
    fs_push(c->arena, &c->touched, reg);
}

void chain_forget(chaining *c)
{
    for (int32_t i = 0; i < c->touched.n; i++) {
        const int32_t reg = c->touched.at[i];
        c->listed[reg] = c->reads[reg] = c->makes[reg] = false;
        c->old_use[reg] = c->use[reg] = 0;
        c->made_ns[reg] = c->read_ns[reg] = 0;
        c->noted[reg] = 0;
    }
    for (int32_t k = 0; k < c->members.n; k++)
        c->joined[c->members.at[k].task] = false;
    c->touched.n = c->members.n = 0;
    c->end_ns[0] = c->end_ns[1] = 0;
    c->at_end[0] = c->at_end[1] = -1;
    c->awaited_ns = INT64_MAX;
}

/* ---- how fast they are ---- */

typedef struct running {
    int64_t left_ps, rate, updated_ns;
} running;

static int64_t end_of(const running *r)
{
    return r->updated_ns + plan_pace_ns(r->left_ps, r->rate);
}

static void set_rate(running *r, int64_t at_ns, int64_t rate)
{
    if (r->rate == rate || end_of(r) <= at_ns)
        return;
    if (r->updated_ns < at_ns) {
        r->left_ps = plan_pace_left(r->left_ps, r->rate, at_ns - r->updated_ns);
        r->updated_ns = at_ns;
    }
    r->rate = rate;
}

/* Of those that have joined, the first collective that may run then or later:
 * they stand in the order in which they run. */
static int32_t first_beside(const chaining *c, int64_t at_ns)
{
    int32_t k = c->members.n, first = k;
    while (--k >= 0) {
        if (!chain_is_beside(c, c->members.at[k].task))
            continue;
        if (c->members.at[k].end_ns <= at_ns)
            break;
        first = k;
    }
    return first;
}

/* What computes meets the collectives that stand before it in the program:
 * those behind it begin when it is done. A rate that is the same again at an
 * instant has not changed. */
int64_t chain_end_of(const chaining *c, int32_t t, int64_t start_ns)
{
    running r = {c->paces->demand_ps[t], PLAN_RATE_FULL, start_ns};
    int64_t until_ns = start_ns;
    if (c->beside < 0 || chain_is_beside(c, t) || chain_slows(c, t) ||
        c->role->tasks[t].channel >= 0)
        return end_of(&r);
    for (int32_t k = first_beside(c, start_ns); k < c->members.n; k++) {
        const chain_member *m = &c->members.at[k];
        if (!chain_is_beside(c, m->task) || !chain_slows(c, m->task))
            continue;
        if (m->start_ns > until_ns)
            set_rate(&r, until_ns, PLAN_RATE_FULL);
        set_rate(&r, m->start_ns, c->paces->beside_rate);
        until_ns = m->end_ns;
    }
    set_rate(&r, until_ns, PLAN_RATE_FULL);
    return end_of(&r);
}

/* ---- its members ---- */

void chain_join(chaining *c, int32_t t, int64_t start_ns, int64_t end_ns)
{
    const plan_actor_uses *task = &c->a->uses[t];
    const chain_member member = {t, start_ns, end_ns};
    fs_push(c->arena, &c->members, member);
    c->joined[t] = true;
    c->end_ns[chain_is_beside(c, t)] = end_ns;
    c->at_end[chain_is_beside(c, t)] = t;
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = chain_ins(c, t)[i];
        const plan_actor_register *r = &c->a->registers[reg];
        touch(c, reg);
        c->reads[reg] = true;
        if (c->read_ns[reg] < end_ns)
            c->read_ns[reg] = end_ns;
        if (r->producer >= 0 && r->producer != t && (c->last || !chain_once(r)))
            (c->makes[reg] ? c->use : c->old_use)[reg]++;
    }
    for (int32_t i = 0; i < task->n_out; i++) {
        const int32_t reg = chain_outs(c, t)[i];
        touch(c, reg);
        if (!c->last && chain_once(&c->a->registers[reg]))
            continue;
        c->makes[reg] = true;
        c->made_ns[reg] = end_ns;
    }
}

/* ---- needs and effects ---- */

enum { NOTED_READ = 1, NOTED_WRITE = 2, NOTED_MADE = 4 };

static void note(chaining *c, int32_t reg, uint8_t what, int32_t *list,
                 int32_t *n)
{
    if (!(c->noted[reg] & what))
        list[(*n)++] = reg;
    c->noted[reg] |= what;
}

/* Does the chain itself let go of what the step before made, before the task
 * makes it anew? Whoever else reads it has done so by then. */
static bool is_freed(const chaining *c, int32_t reg, int32_t t)
{
    const plan_register *r = &c->role->registers[reg];
    const int32_t reader =
        r->n_consumers > 0 ? r->consumers[r->n_consumers - 1] : t;
    return c->beside < 0 && c->lone[reg] && c->joined[reader] &&
           c->place[reader] < c->place[t] && (c->last || !r->per_step);
}

/* What a task behind the head needs that is not made on the way. */
static void note_needs(chaining *c, int32_t t, plan_chain *chain)
{
    const plan_actor_uses *task = &c->a->uses[t];
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = chain_ins(c, t)[i];
        const plan_actor_register *r = &c->a->registers[reg];
        if (r->producer >= 0 && !c->a->ordered[reg] &&
            !(c->noted[reg] & NOTED_MADE) && (c->first || !chain_once(r)))
            note(c, reg, NOTED_READ, chain->reads, &chain->n_reads);
    }
    for (int32_t i = 0; i < task->n_out; i++) {
        const int32_t reg = chain_outs(c, t)[i];
        if (!c->a->ordered[reg] && !is_freed(c, reg, t) &&
            (c->first || !chain_once(&c->a->registers[reg])))
            note(c, reg, NOTED_WRITE, chain->writes, &chain->n_writes);
    }
}

static void find_needs(chaining *c, plan_chain *chain)
{
    chain->reads = fs_new(c->arena, int32_t, c->touched.n);
    chain->writes = fs_new(c->arena, int32_t, c->touched.n);
    for (int32_t k = 0; k < chain->n; k++) {
        const int32_t t = c->members.at[k].task;
        if (k > 0) /* the head sees for itself */
            note_needs(c, t, chain);
        for (int32_t i = 0; i < c->a->uses[t].n_out; i++) {
            const int32_t reg = chain_outs(c, t)[i];
            if (c->last || !chain_once(&c->a->registers[reg]))
                c->noted[reg] |= NOTED_MADE;
        }
    }
}

static void find_effects(chaining *c, plan_chain *chain)
{
    chain->inner = fs_new(c->arena, int32_t, c->touched.n);
    chain->made = fs_new(c->arena, plan_chain_use, c->touched.n);
    chain->read = fs_new(c->arena, plan_chain_use, c->touched.n);
    for (int32_t i = 0; i < c->touched.n; i++) {
        const int32_t reg = c->touched.at[i];
        const int32_t left = c->a->registers[reg].n_consumers - c->use[reg];
        const plan_actor_register *r = &c->a->registers[reg];
        if (c->a->ordered[reg])
            continue;
        if (c->old_use[reg] > 0)
            chain->read[chain->n_read++] = (plan_chain_use){
                reg, c->old_use[reg], c->lone[reg] ? 0 : r->bytes};
        if (c->makes[reg] && left > 0)
            chain->made[chain->n_made++] = (plan_chain_use){reg, left, 0};
        else if (c->makes[reg])
            chain->inner[chain->n_inner++] = reg;
    }
}

/* ---- over time ---- */

static int by_end(const void *a, const void *b)
{
    const plan_chain_part *x = a, *y = b;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

/* Whoever begins behind the first does so when another ends. */
static void find_parts(chaining *c, plan_chain *chain)
{
    plan_chain_part *parts = fs_new(c->arena, plan_chain_part, chain->n);
    int32_t n = 0;
    for (int32_t k = 0; k < chain->n; k++)
        parts[k] = (plan_chain_part){
            .end_ns = c->members.at[k].end_ns, .task = -1, .beside = -1};
    qsort(parts, (size_t)chain->n, sizeof *parts, by_end);
    for (int32_t k = 0; k < chain->n; k++)
        if (k == 0 || parts[k].end_ns > parts[n - 1].end_ns)
            parts[n++] = parts[k];
    chain->parts = parts;
    chain->n_parts = n;
}

static int64_t claimed(const chaining *c, int32_t t)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < c->a->uses[t].n_out; i++) {
        const plan_register *r = &c->role->registers[chain_outs(c, t)[i]];
        if (!r->persistent && (c->first || !r->per_step))
            bytes += r->bytes;
    }
    return bytes;
}

/* The one that ends then. */
static int32_t part_at(const plan_chain *chain, int64_t end_ns)
{
    int32_t low = 0, high = chain->n_parts;
    while (low < high) {
        const int32_t i = (low + high) / 2;
        if (chain->parts[i].end_ns < end_ns)
            low = i + 1;
        else
            high = i;
    }
    return low;
}

static void run_members(const chaining *c, plan_chain *chain)
{
    for (int32_t k = 0; k < chain->n; k++) {
        const chain_member *m = &c->members.at[k];
        const bool beside = chain_is_beside(c, m->task);
        int32_t i = m->start_ns > 0 ? part_at(chain, m->start_ns) + 1 : 0;
        chain->parts[i].claims += claimed(c, m->task);
        for (; i < chain->n_parts && chain->parts[i].end_ns <= m->end_ns; i++)
            *(beside ? &chain->parts[i].beside : &chain->parts[i].task) =
                m->task;
    }
}

/* Pieces that the group lets go of in the chain, and of which it knows
 * beforehand who reads them last. */
static void release_pieces(const chaining *c, plan_chain *chain)
{
    for (int32_t k = 0; k < c->touched.n; k++) {
        const int32_t reg = c->touched.at[k];
        const plan_register *r = &c->role->registers[reg];
        if (!c->lone[reg] || r->producer < 0 || r->persistent ||
            (!c->last && r->per_step))
            continue;
        const bool is_read = r->n_consumers > 0;
        if (c->joined[is_read ? r->consumers[r->n_consumers - 1] : r->producer])
            chain
                ->parts[part_at(chain,
                                is_read ? c->read_ns[reg] : c->made_ns[reg])]
                .releases += r->bytes;
    }
}

plan_chain *chain_make(chaining *c)
{
    plan_chain *chain = fs_new(c->arena, plan_chain, 1);
    chain->n = c->members.n;
    chain->next = c->a->tasks[c->at_end[0]].next;
    chain->beside = chain->first_beside = chain->next_beside = -1;
    memcpy(chain->quiet, c->quiet, sizeof chain->quiet);
    for (int32_t k = chain->n - 1; k >= 0 && c->at_end[1] >= 0; k--)
        if (chain_is_beside(c, c->members.at[k].task))
            chain->first_beside = c->members.at[k].task;
    if (c->at_end[1] >= 0) {
        chain->beside = c->beside;
        chain->next_beside = c->a->tasks[c->at_end[1]].next;
    }
    find_needs(c, chain);
    find_effects(c, chain);
    find_parts(c, chain);
    run_members(c, chain);
    release_pieces(c, chain);
    return chain;
}
