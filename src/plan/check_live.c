#include "config.h"
#include "plan/check_parts.h"

#include <inttypes.h>

/* The marked graph of one step. Transitions are firings; firings that meet (a
 * collective, a send and its receive) are one. Places are what a firing waits
 * for. A place that leads into a later step holds a token at the start (the
 * first step needs nothing of a step before) and is left out: the graph is
 * live iff what remains has no cycle. */

typedef enum place_kind { DATA, CREDIT, STREAM } place_kind;

/* `to` waits for `from`. */
typedef struct place {
    int32_t from, to; /* firings, numbered over all roles */
    int32_t reg;      /* of DATA and CREDIT */
    uint8_t kind;
} place;

typedef struct live_check {
    plan_checking *c;
    int32_t *base;  /* [roles + 1] first firing of a role */
    int32_t *meets; /* [firings] union-find of firings that meet */
    int32_t n;
    FS_VEC(place) places;
    int64_t n_places; /* those with a token too */
} live_check;

static int32_t find(int32_t *parent, int32_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

static void add_place(live_check *x, place_kind kind, int32_t reg, int32_t from,
                      int32_t to)
{
    place p = {from, to, reg, (uint8_t)kind};
    fs_push(x->c->scratch, &x->places, p);
}

/* ---- places ---- */

static int32_t firing(const live_check *x, int32_t role, int32_t task,
                      int32_t micro_batch)
{
    return x->base[role] + plan_check_firing_at(x->c, role, task, micro_batch);
}

/* One consumer of a register that changes per micro-batch. */
static void add_micro_places(live_check *x, int32_t role, int32_t reg,
                             int32_t reader)
{
    const plan_register *g = &x->c->p->roles[role].registers[reg];
    int32_t m = x->c->p->micro_batches;
    for (int32_t mb = 0; mb < m; mb++) {
        add_place(x, DATA, reg, firing(x, role, g->producer, mb),
                  firing(x, role, reader, mb));
        if (g->count < m - mb)
            add_place(x, CREDIT, reg, firing(x, role, reader, mb),
                      firing(x, role, g->producer, mb + g->count));
    }
    x->n_places += 2 * (int64_t)m;
}

/* One consumer of a per-step register: the piece is complete after the
 * producer's last firing and free after the consumer's last. The next piece is
 * written in a later step, but that of a variable in this one. */
static void add_step_places(live_check *x, int32_t role, int32_t reg,
                            int32_t reader)
{
    const plan_register *g = &x->c->p->roles[role].registers[reg];
    int32_t m = x->c->p->micro_batches;
    x->n_places += 2;
    if (!g->persistent)
        add_place(x, DATA, reg, firing(x, role, g->producer, m - 1),
                  firing(x, role, reader, 0));
    else if (g->count == 1)
        add_place(x, CREDIT, reg, firing(x, role, reader, m - 1),
                  firing(x, role, g->producer, 0));
}

static void add_register_places(live_check *x, int32_t role)
{
    const plan_role *r = &x->c->p->roles[role];
    for (int32_t reg = 0; reg < r->n_registers; reg++) {
        const plan_register *g = &r->registers[reg];
        if (g->producer < 0)
            continue;
        for (int32_t i = 0; i < g->n_consumers; i++) {
            if (g->per_step || g->persistent)
                add_step_places(x, role, reg, g->consumers[i]);
            else
                add_micro_places(x, role, reg, g->consumers[i]);
        }
    }
}

static void add_stream_places(live_check *x, int32_t role)
{
    const plan_role *r = &x->c->p->roles[role];
    int32_t *last = fs_new(x->c->scratch, int32_t, r->n_streams);
    for (int32_t s = 0; s < r->n_streams; s++)
        last[s] = -1;
    for (int32_t slot = 0; slot < r->n_slots; slot++) {
        const int32_t *first = x->c->phase_first[role];
        plan_phase phase = r->slots[slot].phase;
        for (int32_t t = first[phase]; t < first[phase + 1]; t++) {
            int32_t *before = &last[r->tasks[t].stream];
            int32_t at = x->base[role] + plan_check_firing(x->c, role, slot, t);
            if (*before >= 0)
                add_place(x, STREAM, -1, *before, at);
            *before = at;
            x->n_places++;
        }
    }
}

/* The j-th issue of every role on a line is one firing. */
static void join_meetings(live_check *x)
{
    const plan_checking *c = x->c;
    int32_t *root = fs_new(c->scratch, int32_t, c->p->n_roles);
    for (int32_t line = 0; line < c->n_lines; line++) {
        plan_check_partners(c, line, root);
        for (int32_t r = 0; r < c->p->n_roles; r++) {
            if (root[r] < 0 || root[r] == r)
                continue;
            const plan_issue_list *a = &c->issues[root[r] * c->n_lines + line];
            const plan_issue_list *b = &c->issues[r * c->n_lines + line];
            for (int32_t i = 0; i < a->n && i < b->n; i++) {
                int32_t fa =
                    plan_check_firing(c, root[r], a->at[i].slot, a->at[i].task);
                int32_t fb =
                    plan_check_firing(c, r, b->at[i].slot, b->at[i].task);
                x->meets[find(x->meets, x->base[r] + fb)] =
                    find(x->meets, x->base[root[r]] + fa);
            }
        }
    }
}

/* ---- Kahn's algorithm; what is left holds a cycle ---- */

typedef struct adjacency {
    int32_t *first, *list; /* places by the transition they lead from */
} adjacency;

static adjacency index_places(live_check *x)
{
    fs_arena *arena = x->c->scratch;
    adjacency out = {fs_new(arena, int32_t, x->n + 1),
                     fs_new(arena, int32_t, x->places.n)};
    for (int32_t i = 0; i < x->places.n; i++)
        out.first[find(x->meets, x->places.at[i].from) + 1]++;
    for (int32_t i = 0; i < x->n; i++)
        out.first[i + 1] += out.first[i];
    int32_t *at =
        fs_memdup(arena, out.first, (size_t)(x->n + 1) * sizeof *out.first);
    for (int32_t i = 0; i < x->places.n; i++)
        out.list[at[find(x->meets, x->places.at[i].from)]++] = i;
    return out;
}

/* waits[t] stays above 0 for the transitions that can never fire. */
static bool fire_all(live_check *x, const adjacency *out, int32_t *waits)
{
    int32_t *queue = fs_new(x->c->scratch, int32_t, x->n);
    int32_t head = 0, tail = 0, transitions = 0;
    for (int32_t i = 0; i < x->places.n; i++)
        waits[find(x->meets, x->places.at[i].to)]++;
    for (int32_t i = 0; i < x->n; i++) {
        if (find(x->meets, i) != i)
            continue;
        transitions++;
        if (waits[i] == 0)
            queue[tail++] = i;
    }
    while (head < tail) {
        int32_t t = queue[head++];
        for (int32_t i = out->first[t]; i < out->first[t + 1]; i++) {
            int32_t to = find(x->meets, x->places.at[out->list[i]].to);
            if (--waits[to] == 0)
                queue[tail++] = to;
        }
    }
    x->c->report->n_transitions = transitions;
    return head == transitions;
}

/* ---- the counterexample ---- */

/* A transition on some cycle: walk backwards, from one that never fires to one
 * it waits for, until the walk meets itself. */
static int32_t find_on_cycle(live_check *x, const int32_t *waits)
{
    int32_t *because = fs_new(x->c->scratch, int32_t, x->n);
    char *seen = fs_new(x->c->scratch, char, x->n);
    int32_t at = -1;
    for (int32_t i = 0; i < x->places.n; i++) {
        int32_t from = find(x->meets, x->places.at[i].from);
        int32_t to = find(x->meets, x->places.at[i].to);
        if (waits[from] > 0 && waits[to] > 0) {
            because[to] = from;
            at = to;
        }
    }
    while (!seen[at]) {
        seen[at] = 1;
        at = because[at];
    }
    return at;
}

/* Places of a shortest cycle through `start`, in the order in which tokens
 * would flow. */
static int32_t *shortest_cycle(live_check *x, const adjacency *out,
                               int32_t start, int32_t *length)
{
    fs_arena *arena = x->c->scratch;
    int32_t *by = fs_new(arena, int32_t, x->n); /* 1 + place, 0: not seen */
    int32_t *queue = fs_new(arena, int32_t, x->n);
    int32_t head = 0, tail = 0;
    queue[tail++] = start;
    while (head < tail && !by[start]) {
        int32_t t = queue[head++];
        for (int32_t i = out->first[t]; i < out->first[t + 1]; i++) {
            int32_t to = find(x->meets, x->places.at[out->list[i]].to);
            if (by[to])
                continue;
            by[to] = out->list[i] + 1;
            queue[tail++] = to;
        }
    }
    int32_t n = 0, t = start;
    do {
        t = find(x->meets, x->places.at[by[t] - 1].from);
        n++;
    } while (t != start);
    int32_t *cycle = fs_new(arena, int32_t, n);
    *length = n;
    for (t = start; n > 0; t = find(x->meets, x->places.at[cycle[n]].from))
        cycle[--n] = by[t] - 1;
    return cycle;
}

static const char *firing_text(const live_check *x, int32_t f)
{
    const plan_checking *c = x->c;
    int32_t role = 0, slot = 0;
    while (f >= x->base[role + 1])
        role++;
    const plan_role *r = &c->p->roles[role];
    f -= x->base[role];
    for (int32_t s = 0; s < r->n_slots; s++) {
        plan_phase phase = r->slots[s].phase;
        int32_t n =
            c->phase_first[role][phase + 1] - c->phase_first[role][phase];
        if (f >= c->slot_base[role][s] && f < c->slot_base[role][s] + n)
            slot = s;
    }
    int32_t first = c->phase_first[role][r->slots[slot].phase];
    return plan_check_task_text(c, role, slot,
                                first + f - c->slot_base[role][slot]);
}

static const char *reason_text(const live_check *x, const place *p)
{
    const plan_checking *c = x->c;
    int32_t role = 0;
    if (p->kind == STREAM)
        return "stream order";
    while (p->from >= x->base[role + 1])
        role++;
    const plan_register *g = &c->p->roles[role].registers[p->reg];
    const char *name = c->graph->tensors.at[g->tensor].name;
    if (p->kind == DATA)
        return fs_printf(c->scratch, "data: %s, register %d", name, p->reg);
    return fs_printf(c->scratch, "credit: %s, register %d, %d buffer%s", name,
                     p->reg, g->count, g->count == 1 ? "" : "s");
}

/* One wait per line, from a firing back to the one it waits for. Firings of one
 * transition meet each other; runs of stream order are told by their ends. */
static void describe_cycle(live_check *x, const int32_t *cycle, int32_t n)
{
    fs_text text = {.arena = x->c->scratch};
    fs_text_add(&text, "deadlock: a cycle of waits without a token:");
    for (int32_t i = n - 1; i >= 0; i--) {
        const place *p = &x->places.at[cycle[i]];
        int32_t skipped = 0, to = p->to;
        while (p->kind == STREAM && i > 0) {
            const place *before = &x->places.at[cycle[i - 1]];
            if (before->kind != STREAM || before->to != p->from)
                break;
            p = before;
            skipped++;
            i--;
        }
        fs_text_add(&text, "\n  %s waits for %s (%s", firing_text(x, to),
                    firing_text(x, p->from), reason_text(x, p));
        fs_text_add(&text, skipped ? ", %d between)" : ")", skipped);
        const place *next = &x->places.at[cycle[i > 0 ? i - 1 : n - 1]];
        if (next->to != p->from)
            fs_text_add(&text, "\n  %s meets %s (rendezvous)",
                        firing_text(x, p->from), firing_text(x, next->to));
    }
    plan_check_add(x->c, PLAN_FINDING_LIVENESS, "%s", text.at);
}

void plan_check_live(plan_checking *c)
{
    live_check x = {.c = c};
    int32_t n_roles = c->p->n_roles, length;
    x.base = fs_new(c->scratch, int32_t, n_roles + 1);
    for (int32_t r = 0; r < n_roles; r++)
        x.base[r + 1] = x.base[r] + c->n_firings[r];
    x.n = x.base[n_roles];
    x.meets = fs_new(c->scratch, int32_t, x.n);
    for (int32_t i = 0; i < x.n; i++)
        x.meets[i] = i;
    join_meetings(&x);
    for (int32_t r = 0; r < n_roles; r++) {
        add_register_places(&x, r);
        add_stream_places(&x, r);
    }
    adjacency out = index_places(&x);
    int32_t *waits = fs_new(c->scratch, int32_t, x.n);
    c->report->n_places = x.n_places;
    c->report->live = fire_all(&x, &out, waits);
    if (c->report->live)
        return;
    int32_t start = find_on_cycle(&x, waits);
    int32_t *cycle = shortest_cycle(&x, &out, start, &length);
    describe_cycle(&x, cycle, length);
}
