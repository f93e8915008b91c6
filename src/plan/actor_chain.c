#include "config.h"
#include "plan/actor_chain.h"

#include "plan/actor_parts.h"

struct plan_chains {
    const plan_chain **of; /* [tasks * PLAN_CHAIN_VARIANTS] */
};

typedef struct chaining {
    const plan_actors *a;
    const plan_role *role;
    const bool *joins;
    fs_arena *arena;
    plan_chains *out;
    bool *lone;        /* [registers] one stream alone makes and reads it */
    int32_t *last_use; /* [registers] the last reader in the stream's section */
    bool first, last;  /* firing of the step */
    /* Of the chain at work: */
    bool *listed;
    bool *reads, *makes;     /* [registers] */
    int32_t *old_use, *use;  /* [registers] of the piece made before, in it */
    FS_VEC(int32_t) touched; /* registers, as they come */
    FS_VEC(int32_t) members; /* tasks */
} chaining;

static bool once(const plan_actor_register *r)
{
    return r->per_step || r->persistent;
}

/* ---- may a role have chains? ---- */

/* A micro-batch comes to the sections in ascending order, so that the last
 * consumer of a piece is the last of the list. */
static bool sections_ascend(const plan_actors *a, fs_arena *arena)
{
    int32_t *seen = fs_new(arena, int32_t, a->plan->micro_batches);
    int32_t end = -1;
    for (int32_t s = 0; s < a->role->n_slots; s++) {
        const plan_slot *slot = &a->role->slots[s];
        if (plan_phase_once(slot->phase))
            continue;
        if (a->section[s] < seen[slot->micro_batch])
            return false;
        seen[slot->micro_batch] = a->section[s];
    }
    for (int32_t i = 0; i < a->n_sections; i++) {
        if (a->last_slot[i] < 0)
            continue;
        if (a->last_slot[i] < end)
            return false;
        end = a->last_slot[i];
    }
    return true;
}

static bool has_one_compute_stream(const plan_role *role)
{
    int32_t n = 0;
    for (int32_t s = 0; s < role->n_streams; s++)
        n += role->streams[s].kind == PLAN_STREAM_COMPUTE;
    return n == 1;
}

static void find_lone(chaining *c)
{
    for (int32_t r = 0; r < c->role->n_registers; r++) {
        const plan_register *reg = &c->role->registers[r];
        c->lone[r] = true;
        if (reg->producer < 0)
            continue; /* nobody waits for it, nobody lets it go */
        const int32_t stream = c->role->tasks[reg->producer].stream;
        for (int32_t i = 0; i < reg->n_consumers; i++)
            c->lone[r] &= c->role->tasks[reg->consumers[i]].stream == stream;
    }
}

/* ---- where chains end ---- */

static const int32_t *ins(const chaining *c, int32_t t)
{
    return c->a->in_out + c->a->tasks[t].first;
}

static const int32_t *outs(const chaining *c, int32_t t)
{
    return ins(c, t) + c->a->tasks[t].n_in;
}

/* May the task have to wait for another stream, when those of the chain before
 * it have run? */
static bool waits(const chaining *c, int32_t t)
{
    const plan_actor_task *task = &c->a->tasks[t];
    const int32_t stream = c->role->tasks[t].stream;
    for (int32_t i = 0; i < task->n_in; i++) {
        const plan_actor_register *r = &c->a->registers[ins(c, t)[i]];
        if (r->producer >= 0 && c->role->tasks[r->producer].stream != stream &&
            !c->reads[ins(c, t)[i]] && (c->first || !once(r)))
            return true;
    }
    for (int32_t i = 0; i < task->n_out; i++)
        if (!c->lone[outs(c, t)[i]] &&
            (c->first || !once(&c->a->registers[outs(c, t)[i]])))
            return true;
    return false;
}

/* May another stream go on when the task has completed? */
static bool is_awaited(const chaining *c, int32_t t)
{
    const plan_actor_task *task = &c->a->tasks[t];
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = ins(c, t)[i];
        if (!c->lone[reg] && c->last_use[reg] == t &&
            (c->last || !once(&c->a->registers[reg])))
            return true;
    }
    for (int32_t i = 0; i < task->n_out; i++)
        if (!c->lone[outs(c, t)[i]] &&
            (c->last || !once(&c->a->registers[outs(c, t)[i]])))
            return true;
    return false;
}

/* Tasks beside the stream that wait until it has passed what stands before
 * them. */
static bool is_passed(const chaining *c, int32_t from, int32_t to)
{
    for (int32_t t = from + 1; t < to; t++)
        if (c->a->tasks[t].keeps_place)
            return true;
    return false;
}

/* ---- what one does ---- */

static void touch(chaining *c, int32_t reg)
{
    if (c->listed[reg])
        return;
    c->listed[reg] = true;
    fs_push(c->arena, &c->touched, reg);
}

static void forget(chaining *c)
{
    for (int32_t i = 0; i < c->touched.n; i++) {
        const int32_t reg = c->touched.at[i];
        c->listed[reg] = c->reads[reg] = c->makes[reg] = false;
        c->old_use[reg] = c->use[reg] = 0;
    }
    c->touched.n = c->members.n = 0;
}

/* The task completes behind those before it. */
static void join(chaining *c, int32_t t)
{
    const plan_actor_task *task = &c->a->tasks[t];
    fs_push(c->arena, &c->members, t);
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = ins(c, t)[i];
        const plan_actor_register *r = &c->a->registers[reg];
        touch(c, reg);
        c->reads[reg] = true;
        if (r->producer >= 0 && r->producer != t && (c->last || !once(r)))
            (c->makes[reg] ? c->use : c->old_use)[reg]++;
    }
    for (int32_t i = 0; i < task->n_out; i++) {
        const int32_t reg = outs(c, t)[i];
        touch(c, reg);
        if (c->last || !once(&c->a->registers[reg]))
            c->makes[reg] = true;
    }
}

static void add(int32_t *list, int32_t *n, int32_t reg)
{
    for (int32_t i = 0; i < *n; i++)
        if (list[i] == reg)
            return;
    list[(*n)++] = reg;
}

/* What the head does not need itself, and is not made on the way. */
static void find_needs(chaining *c, plan_chain *chain)
{
    bool *made = fs_new(c->arena, bool, c->role->n_registers);
    int32_t most = 0;
    for (int32_t k = 0; k < chain->n; k++) {
        const plan_actor_task *task = &c->a->tasks[c->members.at[k]];
        most += task->n_in + task->n_out;
    }
    chain->reads = fs_new(c->arena, int32_t, most);
    chain->writes = fs_new(c->arena, int32_t, most);
    for (int32_t k = 0; k < chain->n; k++) {
        const int32_t t = c->members.at[k];
        const plan_actor_task *task = &c->a->tasks[t];
        for (int32_t i = 0; i < task->n_in && k > 0; i++) {
            const plan_actor_register *r = &c->a->registers[ins(c, t)[i]];
            if (r->producer >= 0 && !made[ins(c, t)[i]] &&
                (c->first || !once(r)))
                add(chain->reads, &chain->n_reads, ins(c, t)[i]);
        }
        for (int32_t i = 0; i < task->n_out; i++) {
            const plan_actor_register *r = &c->a->registers[outs(c, t)[i]];
            if (k > 0 && (c->first || !once(r)))
                add(chain->writes, &chain->n_writes, outs(c, t)[i]);
            made[outs(c, t)[i]] |= c->last || !once(r);
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
        if (c->old_use[reg] > 0)
            chain->read[chain->n_read++] = (plan_chain_use){
                reg, c->old_use[reg], c->lone[reg] ? 0 : r->bytes};
        if (c->makes[reg] && left > 0)
            chain->made[chain->n_made++] = (plan_chain_use){reg, left, 0};
        else if (c->makes[reg])
            chain->inner[chain->n_inner++] = reg;
    }
}

static int64_t claimed(const chaining *c, int32_t t)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < c->a->tasks[t].n_out; i++) {
        const plan_register *r = &c->role->registers[outs(c, t)[i]];
        if (!r->persistent && (c->first || !r->per_step))
            bytes += r->bytes;
    }
    return bytes;
}

/* Of registers whose last reader is known beforehand. */
static int64_t let_go(const chaining *c, int32_t t)
{
    const plan_actor_task *task = &c->a->tasks[t];
    int64_t bytes = 0;
    for (int32_t i = 0; i < task->n_in + task->n_out; i++) {
        const int32_t reg = ins(c, t)[i];
        const plan_register *r = &c->role->registers[reg];
        const bool reads = i < task->n_in;
        const bool is_last =
            reads ? r->n_consumers > 0 && r->consumers[r->n_consumers - 1] == t
                  : r->n_consumers == 0;
        if (c->lone[reg] && is_last && r->producer >= 0 && !r->persistent &&
            (c->last || !r->per_step))
            bytes += r->bytes;
    }
    return bytes;
}

static void end_chain(chaining *c)
{
    if (c->members.n > 1) {
        plan_chain *chain = fs_new(c->arena, plan_chain, 1);
        const int32_t n = c->members.n, head = c->members.at[0];
        chain->n = n;
        chain->next = c->a->tasks[c->members.at[n - 1]].next;
        chain->claims = fs_new(c->arena, int64_t, n);
        chain->releases = fs_new(c->arena, int64_t, n);
        for (int32_t k = 0; k < n; k++) {
            chain->claims[k] = claimed(c, c->members.at[k]);
            chain->releases[k] = let_go(c, c->members.at[k]);
        }
        find_needs(c, chain);
        find_effects(c, chain);
        c->out->of[head * PLAN_CHAIN_VARIANTS + 2 * c->first + c->last] = chain;
    }
    forget(c);
}

static void chain_section(chaining *c, int32_t stream, int32_t section)
{
    const plan_actors *a = c->a;
    const int32_t first = a->first_on_stream[stream * a->n_sections + section];
    int32_t before = -1;
    for (int32_t t = first; t >= 0; t = a->tasks[t].next)
        for (int32_t i = 0; i < a->tasks[t].n_in; i++)
            c->last_use[ins(c, t)[i]] = t;
    for (int32_t t = first; t >= 0; before = t, t = a->tasks[t].next) {
        if (before >= 0 && (!c->joins[before] || !c->joins[t] || waits(c, t) ||
                            is_awaited(c, before) || is_passed(c, before, t)))
            end_chain(c);
        join(c, t);
    }
    end_chain(c);
}

plan_chains *plan_chains_create(const plan_actors *a, const bool *joins,
                                fs_arena *arena)
{
    const int32_t n = a->role->n_registers;
    if (!has_one_compute_stream(a->role) || !sections_ascend(a, arena))
        return NULL;
    chaining c = {.a = a,
                  .role = a->role,
                  .joins = joins,
                  .arena = arena,
                  .out = fs_new(arena, plan_chains, 1),
                  .lone = fs_new(arena, bool, n),
                  .last_use = fs_new(arena, int32_t, n),
                  .listed = fs_new(arena, bool, n),
                  .reads = fs_new(arena, bool, n),
                  .makes = fs_new(arena, bool, n),
                  .old_use = fs_new(arena, int32_t, n),
                  .use = fs_new(arena, int32_t, n)};
    c.out->of = fs_new(arena, const plan_chain *,
                       (int64_t)a->role->n_tasks *PLAN_CHAIN_VARIANTS);
    find_lone(&c);
    bool *seen =
        fs_new(arena, bool, (int64_t)a->n_sections *PLAN_CHAIN_VARIANTS);
    for (int32_t slot = 0; slot < a->role->n_slots; slot++) {
        const int32_t section = a->section[slot];
        c.first = slot == a->first_slot[section];
        c.last = slot == a->last_slot[section];
        bool *done =
            &seen[section * PLAN_CHAIN_VARIANTS + 2 * c.first + c.last];
        for (int32_t s = 0; s < a->role->n_streams && !*done; s++)
            if (a->role->streams[s].kind == PLAN_STREAM_COMPUTE)
                chain_section(&c, s, section);
        *done = true;
    }
    return c.out;
}

/* ---- stepping them ---- */

const plan_chain *plan_chain_of(const plan_chains *chains, int32_t task,
                                int32_t variant)
{
    return chains->of[task * PLAN_CHAIN_VARIANTS + variant];
}

int32_t plan_actor_variant(const plan_actors *a, int32_t stream)
{
    return 2 * plan_actor_first_firing(a, stream) +
           plan_actor_last_firing(a, stream);
}

bool plan_actor_chain_ready(const plan_actors *a, int32_t stream,
                            const plan_chain *chain)
{
    const plan_cursor *c = &a->cursor[stream];
    for (int32_t i = 0; i < chain->n_reads; i++)
        if (!plan_actor_may_read(a, c, chain->reads[i]))
            return false;
    for (int32_t i = 0; i < chain->n_writes; i++)
        if (!plan_actor_may_write(a, c, chain->writes[i]))
            return false;
    return true;
}

int64_t plan_actor_chain_done(plan_actors *a, int32_t stream,
                              const plan_chain *chain)
{
    plan_cursor *c = &a->cursor[stream];
    int64_t bytes = 0;
    for (int32_t i = 0; i < chain->n_read; i++) {
        const plan_chain_use *use = &chain->read[i];
        const plan_actor_register *r = &a->registers[use->reg];
        int32_t *left = &a->readers[plan_actor_buffer(
            r, plan_actor_piece_of(a, c, r, false))];
        *left -= use->n;
        if (*left == 0) {
            a->released[use->reg]++;
            bytes += use->bytes;
        }
    }
    for (int32_t i = 0; i < chain->n_inner; i++) {
        a->produced[chain->inner[i]]++;
        a->released[chain->inner[i]]++;
    }
    for (int32_t i = 0; i < chain->n_made; i++) {
        const plan_chain_use *use = &chain->made[i];
        const int64_t piece = a->produced[use->reg]++;
        a->readers[plan_actor_buffer(&a->registers[use->reg], piece)] = use->n;
    }
    plan_actor_go_on(a, stream, chain->next);
    return bytes;
}
