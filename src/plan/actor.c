#include "config.h"
#include "plan/actor.h"
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
        if (c->task >= 0)
            return;
        c->slot++;
    }
    c->task = -1;
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
        a->next_on_stream[t] = *first;
        *first = t;
    }
}

static void find_slots(plan_actors *a)
{
    for (int32_t i = 0; i < a->n_sections; i++)
        a->first_slot[i] = a->last_slot[i] = -1;
    for (int32_t s = 0; s < a->role->n_slots; s++) {
        int32_t section = plan_slot_section(a->role, &a->role->slots[s]);
        a->section[s] = section;
        if (a->first_slot[section] < 0)
            a->first_slot[section] = s;
        a->last_slot[section] = s;
    }
}

/* A piece of `reg` is complete: its consumers may read it. */
static void hand_on(plan_actors *a, int32_t reg)
{
    const plan_register *r = &a->role->registers[reg];
    int64_t piece = a->produced[reg]++;
    if (r->n_consumers == 0) {
        a->released[reg]++;
        return;
    }
    a->readers[a->first_buffer[reg] + (int32_t)(piece % r->count)] =
        r->n_consumers;
}

plan_actors *plan_actors_create(const plan *p, const plan_role *role,
                                int64_t steps, fs_arena *arena)
{
    plan_actors *a = fs_new(arena, plan_actors, 1);
    a->plan = p;
    a->role = role;
    a->steps = steps;
    a->produced = fs_new(arena, int64_t, role->n_registers);
    a->released = fs_new(arena, int64_t, role->n_registers);
    a->first_buffer = fs_new(arena, int32_t, role->n_registers);
    a->cursor = fs_new(arena, plan_cursor, role->n_streams);
    a->leader = fs_new(arena, int32_t, role->n_streams);
    plan_stream_leaders(role, a->leader);
    a->next_on_stream = fs_new(arena, int32_t, role->n_tasks);
    a->n_sections = plan_n_sections(role);
    a->section = fs_new(arena, int32_t, role->n_slots);
    a->first_on_stream =
        fs_new(arena, int32_t, (int64_t)role->n_streams * a->n_sections);
    a->first_slot = fs_new(arena, int32_t, a->n_sections);
    a->last_slot = fs_new(arena, int32_t, a->n_sections);
    int32_t buffers = 0;
    for (int32_t r = 0; r < role->n_registers; r++) {
        a->first_buffer[r] = buffers;
        buffers += role->registers[r].count;
    }
    a->readers = fs_new(arena, int32_t, buffers);
    for (int32_t r = 0; r < role->n_registers; r++)
        if (role->registers[r].persistent && role->registers[r].producer >= 0)
            hand_on(a, r); /* a variable has piece 0 from the start */
    link_tasks(a);
    find_slots(a);
    for (int32_t s = 0; s < role->n_streams; s++)
        settle_cursor(a, s);
    return a;
}

int32_t plan_actor_head(const plan_actors *a, int32_t stream)
{
    return a->cursor[stream].task;
}

int32_t plan_actor_micro_batch(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    if (c->task < 0)
        return 0;
    const plan_slot *slot = &a->role->slots[c->slot];
    if (slot->phase == PLAN_BEGIN)
        return 0;
    return slot->phase == PLAN_END ? a->plan->micro_batches - 1
                                   : slot->micro_batch;
}

bool plan_actor_first_firing(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    return c->slot == a->first_slot[a->section[c->slot]];
}

bool plan_actor_last_firing(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    return c->slot == a->last_slot[a->section[c->slot]];
}

int64_t plan_actor_piece(const plan_actors *a, int32_t stream, int32_t reg,
                         bool writes)
{
    const plan_register *r = &a->role->registers[reg];
    int64_t step = a->cursor[stream].step;
    if (r->persistent)
        return r->producer >= 0 ? step + writes : 0;
    if (r->per_step)
        return step;
    return step * a->plan->micro_batches + plan_actor_micro_batch(a, stream);
}

int64_t plan_actor_offset(const plan_actors *a, int32_t stream, int32_t reg,
                          bool writes)
{
    const plan_register *r = &a->role->registers[reg];
    return r->offset[plan_buffer_of(
        r, plan_actor_piece(a, stream, reg, writes),
        r->per_step ? 0 : plan_actor_micro_batch(a, stream))];
}

static bool may_read(const plan_actors *a, int32_t stream, int32_t reg)
{
    return a->role->registers[reg].producer < 0 ||
           a->produced[reg] > plan_actor_piece(a, stream, reg, false);
}

/* Holds too for the later firings of an accumulation: the buffer it claimed
 * stays claimed, for the piece is not handed on before the last. */
static bool may_write(const plan_actors *a, int32_t stream, int32_t reg)
{
    int64_t piece = plan_actor_piece(a, stream, reg, true);
    return a->released[reg] >= piece - a->role->registers[reg].count + 1;
}

/* Has all that the leader runs before it in the program been done? */
static bool has_place(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream], *ahead;
    if (!plan_task_keeps_place(a->role, a->leader, c->task))
        return true;
    ahead = &a->cursor[a->leader[stream]];
    if (ahead->task < 0 || ahead->step != c->step)
        return ahead->task < 0 || ahead->step > c->step;
    return ahead->slot != c->slot ? ahead->slot > c->slot
                                  : ahead->task > c->task;
}

bool plan_actor_ready(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    if (c->task < 0 || c->busy || !has_place(a, stream))
        return false;
    const plan_task *task = &a->role->tasks[c->task];
    for (int32_t i = 0; i < task->n_in; i++)
        if (!may_read(a, stream, task->in[i]))
            return false;
    for (int32_t i = 0; i < task->n_out; i++)
        if (!may_write(a, stream, task->out[i]))
            return false;
    return true;
}

/* By the place of their heads in the role's program. */
static bool goes_before(const plan_actors *a, int32_t stream, int32_t other)
{
    const plan_cursor *x = &a->cursor[stream], *y = &a->cursor[other];
    return x->step != y->step ? x->step < y->step : x->slot < y->slot;
}

bool plan_actor_turn(const plan_actors *a, int32_t stream)
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

void plan_actor_fire(plan_actors *a, int32_t stream)
{
    FS_ASSERT(plan_actor_ready(a, stream));
    a->cursor[stream].busy = true;
}

/* A consumer that reads a per-step register every micro-batch lets go of it
 * after its last. */
static void release(plan_actors *a, int32_t stream, int32_t reg)
{
    const plan_register *r = &a->role->registers[reg];
    if (r->producer < 0 || r->producer == a->cursor[stream].task)
        return;
    bool per_step = r->per_step || r->persistent;
    if (per_step && !plan_actor_last_firing(a, stream))
        return;
    int64_t piece = plan_actor_piece(a, stream, reg, false);
    int32_t *left =
        &a->readers[a->first_buffer[reg] + (int32_t)(piece % r->count)];
    if (--*left == 0)
        a->released[reg]++;
}

static bool stands_before(const int32_t *list, int32_t at)
{
    for (int32_t i = 0; i < at; i++)
        if (list[i] == list[at])
            return true;
    return false;
}

void plan_actor_done(plan_actors *a, int32_t stream)
{
    plan_cursor *c = &a->cursor[stream];
    FS_ASSERT(c->busy);
    const plan_task *task = &a->role->tasks[c->task];
    for (int32_t i = 0; i < task->n_in; i++)
        if (!stands_before(task->in, i))
            release(a, stream, task->in[i]);
    bool last = plan_actor_last_firing(a, stream);
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_register *r = &a->role->registers[task->out[i]];
        if (last || !(r->per_step || r->persistent))
            hand_on(a, task->out[i]);
    }
    c->busy = false;
    c->task = a->next_on_stream[c->task];
    if (c->task < 0) {
        c->slot++;
        settle_cursor(a, stream);
    }
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
    if (!has_place(a, stream))
        fs_text_add(out,
                    "; it keeps its place in the program, where stream %d "
                    "has not come to yet",
                    a->leader[stream]);
    for (int32_t i = 0; i < task->n_in; i++)
        if (!may_read(a, stream, task->in[i]))
            explain_input(a, graph, stream, task->in[i], out);
    for (int32_t i = 0; i < task->n_out; i++)
        if (!may_write(a, stream, task->out[i]))
            explain_output(a, graph, stream, task->out[i], out);
    if (plan_actor_ready(a, stream))
        fs_text_add(out, " may fire");
}
