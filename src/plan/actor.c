#include "config.h"
#include "plan/actor.h"
#include "plan/actor_parts.h"
#include "plan/places.h"

#include <inttypes.h>

static int32_t first_task(const plan_actors *a, int32_t stream, int32_t slot)
{
    return a->first_on_stream[stream * a->n_sections + a->section[slot]];
}

/* Moves the cursor to the first task of the stream at or after its slot; a
 * stream without tasks is at its end at once. */
static void settle_cursor(const plan_actors *a, int32_t stream)
{
    plan_cursor *c = &a->cursor[stream];
    int32_t n_slots = a->role->n_slots;
    for (int32_t passed = 0; passed <= n_slots; passed++) {
        if (c->slot == n_slots) {
            c->slot = 0;
            c->step++;
        }
        if (c->step >= a->steps || n_slots == 0)
            break;
        c->task = first_task(a, stream, c->slot);
        if (c->task >= 0) {
            const int32_t section = a->section[c->slot];
            c->piece =
                c->step * a->plan->micro_batches + a->micro_batch[c->slot];
            c->ends = PLAN_EACH |
                      (c->slot == a->first_slot[section] ? PLAN_FIRST : 0) |
                      (c->slot == a->last_slot[section] ? PLAN_LAST : 0);
            return;
        }
        c->slot++;
    }
    c->task = -1;
}

static bool stands_before(const int32_t *list, int32_t at)
{
    for (int32_t i = 0; i < at; i++)
        if (list[i] == list[at])
            return true;
    return false;
}

static bool once(const plan_register *r)
{
    return r->per_step || r->persistent;
}

/* Those of micro-batches, or the others. */
static int32_t list_some(plan_actors *a, const int32_t *regs, int32_t n_regs,
                         bool others, int32_t at)
{
    for (int32_t i = 0; i < n_regs; i++)
        if (once(&a->role->registers[regs[i]]) == others &&
            !stands_before(regs, i))
            a->in_out[at++] = regs[i];
    return at;
}

/* What a task reads and writes, from here on in the list of all; returns where
 * it ends. */
static int32_t list_uses(plan_actors *a, const plan_task *task,
                         plan_actor_uses *uses, int32_t at)
{
    uses->first = at;
    at = list_some(a, task->in, task->n_in, false, at);
    uses->n_in_each = at - uses->first;
    at = list_some(a, task->in, task->n_in, true, at);
    uses->n_in = at - uses->first;
    at = list_some(a, task->out, task->n_out, false, at);
    uses->n_out_each = at - uses->first - uses->n_in;
    at = list_some(a, task->out, task->n_out, true, at);
    uses->n_out = at - uses->first - uses->n_in;
    return at;
}

/* Of n registers those that are counted. */
static int16_t list_counted(plan_actors *a, const int32_t *regs, int32_t n,
                            int32_t at)
{
    const int32_t first = at;
    for (int32_t i = 0; i < n; i++)
        if (!a->ordered[regs[i]])
            a->counting[at++] = regs[i];
    FS_ASSERT(at - first <= INT16_MAX);
    return (int16_t)(at - first);
}

static void list_of_tasks(plan_actors *a, fs_arena *arena)
{
    const plan_role *role = a->role;
    int32_t n = 0, n_counting = 0, n_held = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        n += role->tasks[t].n_in + role->tasks[t].n_out;
    a->in_out = fs_new(arena, int32_t, n);
    a->counting = fs_new(arena, int32_t, n);
    a->holding = fs_new(arena, int32_t, n);
    n = 0;
    for (int32_t t = 0; t < role->n_tasks; t++) {
        plan_actor_uses *uses = &a->uses[t];
        plan_actor_task *task = &a->tasks[t];
        n = list_uses(a, &role->tasks[t], uses, n);
        const int32_t *in = a->in_out + uses->first, *out = in + uses->n_in;
        task->first = n_counting;
        task->n_in = list_counted(a, in, uses->n_in_each, n_counting);
        n_counting += task->n_in;
        task->n_out = list_counted(a, out, uses->n_out_each, n_counting);
        n_counting += task->n_out;
        task->keeps_place = plan_task_keeps_place(role, a->leader, t);
        if (task->n_in + task->n_out > 0 || task->keeps_place)
            task->ends = PLAN_COUNTS;
        uses->held = n_held;
        for (int32_t i = uses->n_in_each; i < uses->n_in; i++)
            if (role->registers[in[i]].producer >= 0)
                a->holding[n_held++] = in[i];
        uses->n_held = n_held - uses->held;
        if (uses->n_in > uses->n_in_each || uses->n_out > uses->n_out_each)
            task->ends |= PLAN_FIRST | PLAN_LAST;
    }
    a->n_counting = n_counting;
}

static void list_registers(plan_actors *a, fs_arena *arena)
{
    const plan_role *role = a->role;
    int32_t buffers = 0;
    a->counted = fs_new(arena, int32_t, role->n_registers);
    for (int32_t r = 0; r < role->n_registers; r++) {
        const plan_register *reg = &role->registers[r];
        a->registers[r] =
            (plan_actor_register){.producer = reg->producer,
                                  .count = reg->count,
                                  .n_consumers = reg->n_consumers,
                                  .bytes = reg->persistent ? 0 : reg->bytes,
                                  .per_step = reg->per_step,
                                  .persistent = reg->persistent,
                                  .once = once(reg)};
        if (a->ordered[r])
            continue;
        a->registers[r].first_buffer = buffers;
        a->counted[a->n_counted++] = r;
        buffers += reg->count;
    }
    a->readers = fs_new(arena, int32_t, buffers);
}

/* The last to read a piece lets go of it; if nobody does, who makes it. */
static void add_releases(plan_actors *a)
{
    for (int32_t r = 0; r < a->role->n_registers; r++) {
        const plan_register *reg = &a->role->registers[r];
        const int32_t n = reg->n_consumers;
        if (a->ordered[r])
            a->tasks[n > 0 ? reg->consumers[n - 1] : reg->producer].releases +=
                reg->bytes;
    }
}

static void add_claims(plan_actors *a)
{
    for (int32_t t = 0; t < a->role->n_tasks; t++) {
        plan_actor_uses *uses = &a->uses[t];
        const int32_t *out = a->in_out + uses->first + uses->n_in;
        for (int32_t i = 0; i < uses->n_out; i++) {
            const int64_t bytes = a->registers[out[i]].bytes;
            a->tasks[t].claims += i < uses->n_out_each ? bytes : 0;
            uses->claims_first += bytes;
        }
    }
}

static void link_tasks(plan_actors *a)
{
    const plan_role *role = a->role;
    for (int32_t i = 0; i < role->n_streams * a->n_sections; i++)
        a->first_on_stream[i] = -1;
    for (int32_t t = role->n_tasks - 1; t >= 0; t--) {
        const plan_task *task = &role->tasks[t];
        int32_t *first = &a->first_on_stream[task->stream * a->n_sections +
                                             plan_task_section(role, task)];
        a->tasks[t].next = *first;
        a->tasks[t].ends |= *first < 0 ? PLAN_TURNS : 0;
        *first = t;
    }
}

static void find_slots(plan_actors *a)
{
    for (int32_t i = 0; i < a->n_sections; i++)
        a->first_slot[i] = a->last_slot[i] = -1;
    for (int32_t s = 0; s < a->role->n_slots; s++) {
        const plan_slot *slot = &a->role->slots[s];
        int32_t section = plan_slot_section(a->role, slot);
        a->section[s] = section;
        a->micro_batch[s] = slot->phase == PLAN_BEGIN ? 0
                            : slot->phase == PLAN_END
                                ? a->plan->micro_batches - 1
                                : slot->micro_batch;
        if (a->first_slot[section] < 0)
            a->first_slot[section] = s;
        a->last_slot[section] = s;
    }
}

/* A piece of `reg` is complete: its consumers may read it. Returns the bytes
 * that none of them holds. */
static inline int64_t hand_on(plan_actors *a, int32_t reg)
{
    const plan_actor_register *r = &a->registers[reg];
    int64_t piece = a->produced[reg]++;
    if (r->n_consumers == 0) {
        a->released[reg]++;
        return r->bytes;
    }
    a->readers[plan_actor_buffer(r, piece)] = r->n_consumers;
    return 0;
}

static plan_actors *create(const plan *p, const plan_role *role, int64_t steps,
                           bool ordered, fs_arena *arena)
{
    plan_actors *a = fs_new_lines(arena, plan_actors, 1);
    a->plan = p;
    a->role = role;
    a->steps = steps;
    a->ordered = fs_new(arena, bool, role->n_registers);
    a->produced = fs_new(arena, int64_t, role->n_registers);
    a->released = fs_new(arena, int64_t, role->n_registers);
    a->registers = fs_new_lines(arena, plan_actor_register, role->n_registers);
    a->tasks = fs_new_lines(arena, plan_actor_task, role->n_tasks);
    a->uses = fs_new(arena, plan_actor_uses, role->n_tasks);
    a->cursor = fs_new(arena, plan_cursor, role->n_streams);
    a->leader = fs_new(arena, int32_t, role->n_streams);
    plan_stream_leaders(role, a->leader);
    for (int32_t s = 0; s < role->n_streams; s++)
        a->n_compute += role->streams[s].kind == PLAN_STREAM_COMPUTE;
    a->n_sections = plan_n_sections(role);
    a->section = fs_new(arena, int32_t, role->n_slots);
    a->micro_batch = fs_new(arena, int32_t, role->n_slots);
    a->first_on_stream =
        fs_new(arena, int32_t, (int64_t)role->n_streams * a->n_sections);
    a->first_slot = fs_new(arena, int32_t, a->n_sections);
    a->last_slot = fs_new(arena, int32_t, a->n_sections);
    find_slots(a);
    if (ordered)
        plan_actors_find_ordered(a, arena);
    list_of_tasks(a, arena);
    list_registers(a, arena);
    add_claims(a);
    add_releases(a);
    for (int32_t r = 0; r < role->n_registers; r++)
        if (role->registers[r].persistent && role->registers[r].producer >= 0)
            hand_on(a, r); /* a variable has piece 0 from the start */
    link_tasks(a);
    for (int32_t s = 0; s < role->n_streams; s++)
        settle_cursor(a, s);
    return a;
}

plan_actors *plan_actors_create(const plan *p, const plan_role *role,
                                int64_t steps, fs_arena *arena)
{
    return create(p, role, steps, false, arena);
}

plan_actors *plan_actors_create_ordered(const plan *p, const plan_role *role,
                                        int64_t steps, fs_arena *arena)
{
    return create(p, role, steps, true, arena);
}

static bool same_task(const plan_actor_task *x, const plan_actor_task *y)
{
    return x->first == y->first && x->next == y->next && x->n_in == y->n_in &&
           x->n_out == y->n_out && x->keeps_place == y->keeps_place &&
           x->ends == y->ends && x->claims == y->claims &&
           x->releases == y->releases;
}

void plan_actors_share(plan_actors *a, const plan_actors *other)
{
    bool same = a->role->n_tasks == other->role->n_tasks &&
                a->n_counting == other->n_counting;
    for (int32_t i = 0; same && i < a->n_counting; i++)
        same = a->counting[i] == other->counting[i];
    for (int32_t t = 0; same && t < a->role->n_tasks; t++)
        same = same_task(&a->tasks[t], &other->tasks[t]);
    if (!same)
        return;
    a->tasks = other->tasks;
    a->counting = other->counting;
}

int64_t plan_actor_piece(const plan_actors *a, int32_t stream, int32_t reg,
                         bool writes)
{
    return plan_actor_piece_of(&a->cursor[stream], &a->registers[reg], writes);
}

int64_t plan_actor_offset(const plan_actors *a, int32_t stream, int32_t reg,
                          bool writes)
{
    const plan_register *r = &a->role->registers[reg];
    return r->offset[plan_buffer_of(
        r, plan_actor_piece(a, stream, reg, writes),
        r->per_step ? 0 : plan_actor_micro_batch(a, stream))];
}

/* It keeps a place: has all that the leader runs before it in the program been
 * done? */
static bool has_place(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream], *ahead;
    ahead = &a->cursor[a->leader[stream]];
    if (ahead->task < 0 || ahead->step != c->step)
        return ahead->task < 0 || ahead->step > c->step;
    return ahead->slot != c->slot ? ahead->slot > c->slot
                                  : ahead->task > c->task;
}

static inline bool may_read_all(const plan_actors *a, const plan_cursor *c,
                                const int32_t *regs, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!plan_actor_may_read(a, c, regs[i]))
            return false;
    return true;
}

static inline bool may_write_all(const plan_actors *a, const plan_cursor *c,
                                 const int32_t *regs, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!plan_actor_may_write(a, c, regs[i]))
            return false;
    return true;
}

static bool has_come(const plan_actors *a, const plan_cursor *c)
{
    const plan_actor_task *task = &a->tasks[c->task];
    const int32_t *in = a->counting + task->first;
    if (task->keeps_place && !has_place(a, (int32_t)(c - a->cursor)))
        return false;
    return may_read_all(a, c, in, task->n_in) &&
           may_write_all(a, c, in + task->n_in, task->n_out);
}

/* What the first firing of a step found of the step is there since. */
static bool has_step(const plan_actors *a, const plan_cursor *c)
{
    const plan_actor_uses *uses = &a->uses[c->task];
    const int32_t *out =
        a->in_out + uses->first + uses->n_in + uses->n_out_each;
    return may_read_all(a, c, a->holding + uses->held, uses->n_held) &&
           may_write_all(a, c, out, uses->n_out - uses->n_out_each);
}

bool plan_actor_has_all(const plan_actors *a, const plan_cursor *c)
{
    const plan_actor_task *task = &a->tasks[c->task];
    return (!(task->ends & PLAN_COUNTS) || has_come(a, c)) &&
           (!(task->ends & c->ends & PLAN_FIRST) || has_step(a, c));
}

/* By the place of their heads in the role's program. */
static bool goes_before(const plan_actors *a, int32_t stream, int32_t other)
{
    const plan_cursor *x = &a->cursor[stream], *y = &a->cursor[other];
    return x->step != y->step ? x->step < y->step : x->slot < y->slot;
}

bool plan_actor_turn_among(const plan_actors *a, int32_t stream)
{
    const plan_role *role = a->role;
    if (!plan_task_computes(&role->tasks[a->cursor[stream].task]))
        return true;
    for (int32_t s = 0; s < role->n_streams; s++) {
        int32_t head = a->cursor[s].task;
        if (s == stream || role->streams[s].kind != PLAN_STREAM_COMPUTE ||
            head < 0 || !plan_task_computes(&role->tasks[head]))
            continue;
        if (a->cursor[s].busy ||
            (plan_actor_ready(a, s) && goes_before(a, s, stream)))
            return false;
    }
    return true;
}

/* A consumer that reads a per-step register every micro-batch lets go of it
 * after its last. */
static inline int64_t release(plan_actors *a, const plan_cursor *c, int32_t reg)
{
    const plan_actor_register *r = &a->registers[reg];
    if (r->producer < 0 || r->producer == c->task)
        return 0;
    int32_t *left =
        &a->readers[plan_actor_buffer(r, plan_actor_made_piece(c, r, false))];
    if (--*left > 0)
        return 0;
    a->released[reg]++;
    return r->bytes;
}

void plan_actor_go_on(plan_actors *a, int32_t stream, int32_t next)
{
    plan_cursor *c = &a->cursor[stream];
    c->busy = false;
    c->task = next;
    if (next >= 0)
        return;
    c->slot++;
    settle_cursor(a, stream);
}

/* What happens once per step. */
static int64_t end_step(plan_actors *a, const plan_cursor *c)
{
    const plan_actor_uses *uses = &a->uses[c->task];
    const int32_t *held = a->holding + uses->held;
    const int32_t *out = a->in_out + uses->first + uses->n_in;
    int64_t bytes = 0;
    for (int32_t i = 0; i < uses->n_held; i++)
        bytes += release(a, c, held[i]);
    for (int32_t i = uses->n_out_each; i < uses->n_out; i++)
        bytes += hand_on(a, out[i]);
    return bytes;
}

int64_t plan_actor_pass_on(plan_actors *a, plan_cursor *c)
{
    const plan_actor_task *task = &a->tasks[c->task];
    const int32_t *in = a->counting + task->first, *out = in + task->n_in;
    int64_t bytes = task->releases;
    for (int32_t i = 0; i < task->n_in; i++)
        bytes += release(a, c, in[i]);
    for (int32_t i = 0; i < task->n_out; i++)
        bytes += hand_on(a, out[i]);
    if (task->ends & c->ends & PLAN_LAST)
        bytes += end_step(a, c);
    plan_actor_go_on(a, (int32_t)(c - a->cursor), task->next);
    return bytes;
}

/* Of the newest piece. */
static int32_t *readers_of(plan_actors *a, int32_t reg)
{
    const plan_actor_register *r = &a->registers[reg];
    FS_ASSERT(r->persistent && r->producer >= 0 && r->count == 1);
    return &a->readers[plan_actor_buffer(r, a->produced[reg] - 1)];
}

void plan_actor_hold(plan_actors *a, int32_t reg)
{
    int32_t *left = readers_of(a, reg);
    if (a->released[reg] == a->produced[reg]) { /* nobody reads it */
        a->released[reg]--;
        *left = 0;
    }
    ++*left;
}

void plan_actor_let_go(plan_actors *a, int32_t reg)
{
    if (--*readers_of(a, reg) == 0)
        a->released[reg]++;
}

bool plan_actors_finished(const plan_actors *a)
{
    for (int32_t s = 0; s < a->role->n_streams; s++)
        if (a->cursor[s].task >= 0)
            return false;
    return true;
}

static void explain_input(const plan_actors *a, const ir_graph *graph,
                          int32_t stream, int32_t reg, fs_text *out)
{
    const plan_register *r = &a->role->registers[reg];
    fs_text_add(
        out,
        "; it waits for piece %" PRId64 " of %s (register %d, "
        "%" PRId64 " produced) from %s",
        plan_actor_piece(a, stream, reg, false),
        graph->tensors.at[r->tensor].name, reg, a->produced[reg],
        plan_task_name(graph, &a->role->tasks[r->producer], out->arena));
}

static void explain_output(const plan_actors *a, const ir_graph *graph,
                           int32_t stream, int32_t reg, fs_text *out)
{
    const plan_register *r = &a->role->registers[reg];
    fs_text_add(out,
                "; it has no free buffer for piece %" PRId64 " of %s (register "
                "%d, count %d, %" PRId64 " released): held by",
                plan_actor_piece(a, stream, reg, true),
                graph->tensors.at[r->tensor].name, reg, r->count,
                a->released[reg]);
    for (int32_t i = 0; i < r->n_consumers; i++)
        fs_text_add(out, "%s %s", i ? "," : "",
                    plan_task_name(graph, &a->role->tasks[r->consumers[i]],
                                   out->arena));
}

void plan_actor_explain(const plan_actors *a, const ir_graph *graph,
                        int32_t stream, fs_text *out)
{
    const plan_cursor *c = &a->cursor[stream];
    if (c->task < 0) {
        fs_text_add(out, "stream %d is at its end", stream);
        return;
    }
    const plan_task *task = &a->role->tasks[c->task];
    fs_text_add(out, "%s (rank %d, step %" PRId64 ", %s, micro-batch %d)",
                plan_task_name(graph, task, out->arena), a->role->first_rank,
                c->step, plan_phase_name(task->phase),
                plan_actor_micro_batch(a, stream));
    if (c->busy) {
        fs_text_add(out, " has fired and not completed");
        return;
    }
    if (a->tasks[c->task].keeps_place && !has_place(a, stream))
        fs_text_add(out,
                    "; it keeps its place in the program, where stream %d "
                    "has not come to yet",
                    a->leader[stream]);
    for (int32_t i = 0; i < task->n_in; i++)
        if (!a->ordered[task->in[i]] && !plan_actor_may_read(a, c, task->in[i]))
            explain_input(a, graph, stream, task->in[i], out);
    for (int32_t i = 0; i < task->n_out; i++)
        if (!a->ordered[task->out[i]] &&
            !plan_actor_may_write(a, c, task->out[i]))
            explain_output(a, graph, stream, task->out[i], out);
    if (plan_actor_ready(a, stream))
        fs_text_add(out, " may fire");
}
