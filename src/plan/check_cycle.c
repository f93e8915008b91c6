#include "config.h"
#include "plan/check_live.h"

/* The counterexample: a cycle of waits, as few lines of text as can be. A line
 * tells one wait, a run of stream order by its ends, or a meeting. So the walk
 * goes over states (firing, how it was reached): a step along a stream after
 * another costs nothing, each other step one, and no meeting follows another.
 * Breadth first from one state after the other, each time only as far as would
 * be shorter than what is known; after MOST_STEPS no better one is looked for.
 */

typedef enum reached {
    BY_WIRE,
    BY_STREAM,
    BY_MEETING,
    BY_PLACE,
    N_REACHED
} reached;

enum { MOST_STEPS = 1 << 25, MOST_LINES = 60 };

typedef FS_VEC(int32_t) state_list;

typedef struct cycle_search {
    plan_live *x;
    int32_t *cost;        /* [n * N_REACHED] from the start; -1: not reached */
    int32_t *parent;      /* [n * N_REACHED] */
    state_list now, next; /* reached at this cost, at one more */
    state_list touched;
    int32_t start, most; /* what reaches the start again at less than `most` */
    int64_t steps;
    state_list best; /* states of the best cycle, along the flow of tokens */
} cycle_search;

static void visit(cycle_search *y, int32_t from, int32_t to, reached how,
                  int32_t step)
{
    int32_t cost = y->cost[from] + step, state = to * N_REACHED + (int32_t)how;
    y->steps++;
    if (y->x->waits[y->x->meets[to]] == 0 || cost >= y->most)
        return;
    if (state == y->start) {
        y->most = cost;
        y->parent[state] = from;
        return;
    }
    if (y->cost[state] >= 0 && y->cost[state] <= cost)
        return;
    if (y->cost[state] < 0)
        fs_push(y->x->c->scratch, &y->touched, state);
    y->cost[state] = cost;
    y->parent[state] = from;
    if (step == 0)
        fs_push(y->x->c->scratch, &y->now, state);
    else
        fs_push(y->x->c->scratch, &y->next, state);
}

static void expand(cycle_search *y, int32_t state)
{
    const plan_live *x = y->x;
    int32_t f = state / N_REACHED;
    reached how = (reached)(state % N_REACHED);
    const plan_live_slot *slot = &x->slots[x->slot_of[f]];
    int32_t task = slot->task + f - slot->first;
    for (int32_t w = x->first_wire[task]; w < x->first_wire[task + 1]; w++) {
        int32_t to = plan_live_end(x, slot, &x->wires[w]);
        if (to >= 0)
            visit(y, state, to, BY_WIRE, 1);
    }
    if (x->after[f] >= 0)
        visit(y, state, x->after[f], BY_STREAM, how != BY_STREAM);
    for (int32_t g = x->led[f]; g; g = x->next_led[g])
        visit(y, state, g, BY_PLACE, 1);
    for (int32_t g = x->next_met[f]; g != f && how != BY_MEETING;
         g = x->next_met[g])
        visit(y, state, g, BY_MEETING, 1);
}

static void keep_cycle(cycle_search *y)
{
    y->best.n = 0;
    int32_t state = y->start;
    do {
        fs_push(y->x->c->scratch, &y->best, state);
        state = y->parent[state];
    } while (state != y->start);
}

/* Is there a cycle through this state that is shorter than the best? */
static void search_from(cycle_search *y, int32_t start)
{
    int32_t before = y->most;
    y->start = start;
    y->now.n = y->next.n = y->touched.n = 0;
    y->cost[start] = 0;
    fs_push(y->x->c->scratch, &y->now, start);
    for (int32_t cost = 0; y->now.n > 0 && cost < y->most; cost++) {
        while (y->now.n > 0) {
            int32_t state = y->now.at[--y->now.n];
            if (y->cost[state] == cost)
                expand(y, state);
        }
        state_list empty = y->now;
        y->now = y->next;
        y->next = empty;
    }
    if (y->most < before)
        keep_cycle(y);
    for (int32_t i = 0; i < y->touched.n; i++)
        y->cost[y->touched.at[i]] = -1;
    y->cost[start] = -1;
}

/* A firing on some cycle: back from one that never fires to one that it waits
 * for, until the walk meets itself. */
static int32_t find_on_cycle(plan_live *x)
{
    int32_t *because = fs_new(x->c->scratch, int32_t, x->n);
    char *seen = fs_new(x->c->scratch, char, x->n);
    int32_t at = -1;
    for (int32_t f = 0; f < x->n; f++) {
        const plan_live_slot *slot = &x->slots[x->slot_of[f]];
        int32_t task = slot->task + f - slot->first;
        if (x->waits[x->meets[f]] == 0)
            continue;
        at = x->meets[f];
        if (x->after[f] >= 0)
            because[x->meets[x->after[f]]] = at;
        for (int32_t g = x->led[f]; g; g = x->next_led[g])
            because[x->meets[g]] = at;
        for (int32_t w = x->first_wire[task]; w < x->first_wire[task + 1];
             w++) {
            int32_t to = plan_live_end(x, slot, &x->wires[w]);
            if (to >= 0)
                because[x->meets[to]] = at;
        }
    }
    while (!seen[at]) {
        seen[at] = 1;
        at = because[at];
    }
    return at;
}

static void search_all(cycle_search *y)
{
    plan_live *x = y->x;
    int32_t first = find_on_cycle(x), f = first;
    do {
        for (int32_t how = 0; how < N_REACHED; how++)
            search_from(y, f * N_REACHED + how);
        f = x->next_met[f];
    } while (f != first);
    for (f = 0; f < x->n && y->most > 2 && y->steps < MOST_STEPS; f++) {
        if (x->waits[x->meets[f]] == 0)
            continue;
        search_from(y, f * N_REACHED + BY_WIRE);
        if (x->next_met[f] != f)
            search_from(y, f * N_REACHED + BY_MEETING);
    }
}

/* ---- as text ---- */

static int32_t role_of(const plan_live *x, int32_t f)
{
    int32_t role = 0;
    while (f >= x->base[role + 1])
        role++;
    return role;
}

static int32_t task_of(const plan_live *x, int32_t f)
{
    const plan_live_slot *slot = &x->slots[x->slot_of[f]];
    return slot->task + f - slot->first - x->task_base[role_of(x, f)];
}

static const char *firing_text(const plan_live *x, int32_t f)
{
    int32_t role = role_of(x, f);
    return plan_check_task_text(x->c, role, x->slot_of[f] - x->slot_base[role],
                                task_of(x, f));
}

/* Why `to` waits for `from`, of two that a wire leads between. */
static const char *wire_text(const plan_live *x, int32_t from, int32_t to)
{
    const plan_live_slot *slot = &x->slots[x->slot_of[from]];
    int32_t w = x->first_wire[slot->task + from - slot->first];
    while (plan_live_end(x, slot, &x->wires[w]) != to)
        w++;
    const plan_live_wire *wire = &x->wires[w];
    const plan_register *g =
        &x->c->p->roles[role_of(x, from)].registers[wire->reg];
    const char *name = x->c->graph->tensors.at[g->tensor].name;
    if (wire->shift == 0 || wire->shift == PLAN_LIVE_DATA)
        return fs_printf(x->c->scratch, "data: %s, register %d", name,
                         wire->reg);
    return fs_printf(x->c->scratch, "credit: %s, register %d, %d buffer%s",
                     name, wire->reg, g->count, g->count == 1 ? "" : "s");
}

static const char *meeting_text(const plan_live *x, int32_t f)
{
    const plan *p = x->c->p;
    const plan_task *task = &p->roles[role_of(x, f)].tasks[task_of(x, f)];
    int32_t line = task->channel >= 0 ? p->n_comms + task->channel : task->comm;
    return fs_printf(x->c->scratch, "rendezvous on %s",
                     plan_check_line_text(x->c, line));
}

/* The line of best.at[i], which ends before *next; states stand against the
 * flow of tokens, as waits are told. */
static void tell_wait(const cycle_search *y, int32_t *i, fs_text *text)
{
    const plan_live *x = y->x;
    const state_list *list = &y->best;
    int32_t to = list->at[*i] / N_REACHED, skipped = -1, from;
    reached how = (reached)(list->at[*i] % N_REACHED), before;
    do {
        int32_t state = list->at[++*i % list->n];
        from = state / N_REACHED;
        before = (reached)(state % N_REACHED);
        skipped++;
    } while (how == BY_STREAM && before == BY_STREAM && *i < list->n);
    fs_text_add(text, "\n  %s %s %s (%s", firing_text(x, to),
                how == BY_MEETING ? "meets" : "waits for", firing_text(x, from),
                how == BY_STREAM    ? "stream order"
                : how == BY_PLACE   ? "place in the program"
                : how == BY_MEETING ? meeting_text(x, to)
                                    : wire_text(x, from, to));
    fs_text_add(text, skipped ? ", %d between)" : ")", skipped);
}

/* A run of stream order is told as one, so it must not begin inside one. */
static void rotate(cycle_search *y)
{
    state_list turned = {0};
    int32_t at = 0, n = y->best.n;
    for (int32_t i = 0; i < n; i++)
        if (y->best.at[i] % N_REACHED != BY_STREAM)
            at = i;
    for (int32_t i = 0; i < n; i++)
        fs_push(y->x->c->scratch, &turned, y->best.at[(at + i) % n]);
    y->best = turned;
}

static void tell(cycle_search *y)
{
    fs_text text = {.arena = y->x->c->scratch};
    int32_t lines = 0, i = 0;
    rotate(y);
    fs_text_add(&text, "deadlock: a cycle of waits without a token:");
    while (i < y->best.n && lines++ < MOST_LINES)
        tell_wait(y, &i, &text);
    if (i < y->best.n)
        fs_text_add(&text, "\n  and so on, back to the first");
    plan_check_add(y->x->c, PLAN_FINDING_LIVENESS, "%s", text.at);
}

void plan_check_cycle(plan_live *x)
{
    fs_arena *arena = x->c->scratch;
    size_t n = (size_t)x->n * N_REACHED;
    cycle_search y = {.x = x, .most = INT32_MAX};
    y.cost = fs_new(arena, int32_t, n);
    y.parent = fs_new(arena, int32_t, n);
    for (size_t i = 0; i < n; i++)
        y.cost[i] = -1;
    search_all(&y);
    tell(&y);
}
