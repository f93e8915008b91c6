#include "config.h"
#include "plan/check_live.h"
#include "plan/places.h"

/* Kahn's algorithm on the marked graph: what is left never fires. A step of
 * 10^6 firings has some 4 * 10^6 places, so none is stored: five integers per
 * firing, and per place one look at the count of who waits. */

/* ---- firings ---- */

static void fill_slots(plan_live *x, int32_t role)
{
    const plan_checking *c = x->c;
    const plan_role *r = &c->p->roles[role];
    int32_t m = c->p->micro_batches, n = plan_n_sections(r);
    int32_t *last = fs_new(c->scratch, int32_t, n);
    plan_live_slot *slots = &x->slots[x->slot_base[role]];
    int32_t *rows = &x->rows[(int64_t)x->row_base[role] * m];
    for (int32_t i = 0; i < n; i++)
        last[i] = -1;
    for (int32_t s = 0; s < r->n_slots; s++) {
        int32_t section = plan_slot_section(r, &r->slots[s]);
        bool once = plan_phase_once(r->slots[s].phase);
        plan_slot_tasks tasks = plan_check_tasks_in(c, role, s);
        int32_t first = tasks.first;
        plan_live_slot *slot = &slots[s];
        slot->n = tasks.end - first;
        slot->first = x->base[role] + c->slot_base[role][s];
        slot->task = x->task_base[role] + first;
        slot->micro_batch = once ? 0 : r->slots[s].micro_batch;
        rows[section * m + slot->micro_batch] = slot->first;
        last[section] = s;
        for (int32_t i = 0; i < slot->n; i++)
            x->slot_of[slot->first + i] = x->slot_base[role] + s;
    }
    for (int32_t i = 0; i < n; i++)
        if (last[i] >= 0)
            slots[last[i]].last = true;
}

static void order_streams(plan_live *x, int32_t role)
{
    const plan_role *r = &x->c->p->roles[role];
    int32_t *last = fs_new(x->c->scratch, int32_t, r->n_streams);
    const plan_task *tasks = r->tasks - x->task_base[role];
    for (int32_t s = 0; s < r->n_streams; s++)
        last[s] = -1;
    for (int32_t f = x->base[role]; f < x->base[role + 1]; f++) {
        const plan_live_slot *slot = &x->slots[x->slot_of[f]];
        int32_t *before = &last[tasks[slot->task + f - slot->first].stream];
        if (*before >= 0)
            x->after[*before] = f;
        x->after[f] = -1;
        *before = f;
    }
}

static bool in_window(const plan_checking *c, int32_t role, int32_t slot)
{
    return c->cut && slot >= c->cut->window_first[role] &&
           slot < c->cut->window_end[role];
}

/* What keeps its place waits for the last firing of its leader before it; of a
 * stream's in a row the first alone, for the others stand behind that. One that
 * no firing of the step leads waits for a step before. */
static void order_places(plan_live *x, int32_t role)
{
    const plan_role *r = &x->c->p->roles[role];
    int32_t *last = fs_new(x->c->scratch, int32_t, r->n_streams);
    int32_t *leader = fs_new(x->c->scratch, int32_t, r->n_streams);
    int32_t *behind = fs_new(x->c->scratch, int32_t, r->n_streams);
    const plan_task *tasks = r->tasks - x->task_base[role];
    plan_stream_leaders(r, leader);
    for (int32_t s = 0; s < r->n_streams; s++)
        last[s] = behind[s] = -1;
    for (int32_t f = x->base[role]; f < x->base[role + 1]; f++) {
        const plan_live_slot *slot = &x->slots[x->slot_of[f]];
        int32_t task = slot->task + f - slot->first;
        int32_t stream = tasks[task].stream, ahead;
        last[stream] = f;
        if (!plan_task_keeps_place(r, leader, task - x->task_base[role]))
            continue;
        ahead = last[leader[stream]];
        if (ahead < 0 || ahead == behind[stream])
            continue;
        behind[stream] = ahead;
        x->next_led[f] = x->led[ahead];
        x->led[ahead] = f;
        x->n_led++;
        x->n_led_again +=
            in_window(x->c, role, x->slot_of[f] - x->slot_base[role]);
    }
}

/* The j-th issue of every role on a line is one transition. */
static void join_issues(plan_live *x, int32_t line, int32_t a, int32_t b)
{
    const plan_checking *c = x->c;
    const plan_issue_list *la = &c->issues[a * c->n_lines + line];
    const plan_issue_list *lb = &c->issues[b * c->n_lines + line];
    for (int32_t i = 0; i < la->n && i < lb->n; i++) {
        int32_t fa = x->base[a] +
                     plan_check_firing(c, a, la->at[i].slot, la->at[i].task);
        int32_t fb = x->base[b] +
                     plan_check_firing(c, b, lb->at[i].slot, lb->at[i].task);
        x->meets[fb] = fa;
        x->next_met[fb] = x->next_met[fa];
        x->next_met[fa] = fb;
    }
}

static void join_meetings(plan_live *x)
{
    const plan_checking *c = x->c;
    int32_t *root = fs_new(c->scratch, int32_t, c->p->n_roles);
    for (int32_t f = 0; f < x->n; f++)
        x->meets[f] = x->next_met[f] = f;
    for (int32_t line = 0; line < c->n_lines; line++) {
        plan_check_partners(c, line, root);
        for (int32_t r = 0; r < c->p->n_roles; r++)
            if (root[r] >= 0 && root[r] != r)
                join_issues(x, line, root[r], r);
    }
}

/* ---- wires ---- */

/* Wires are counted where they lead from, then put in. */
typedef struct wiring {
    plan_live *x;
    int32_t role;
    int32_t *at; /* [tasks of all roles] how many, then where to put the next */
    bool counts;
} wiring;

static void add_wire(const wiring *w, int32_t from, plan_live_wire wire,
                     int32_t to)
{
    int32_t *at = &w->at[w->x->task_base[w->role] + from];
    if (w->counts) {
        ++*at;
        return;
    }
    const plan_role *r = &w->x->c->p->roles[w->role];
    int32_t section = plan_task_section(r, &r->tasks[to]);
    wire.row = w->x->row_base[w->role] + section;
    wire.delta = to - w->x->c->section_first[w->role][section];
    w->x->wires[(*at)++] = wire;
}

/* What stands between the producer of a register and one reader, there and
 * back. What changes once per step is complete after the producer's last firing
 * and free after the reader's last; its next piece is written in a later step,
 * but that of a variable in this one. */
static void wire_reader(const wiring *w, int32_t reg, int32_t reader)
{
    const plan_register *g = &w->x->c->p->roles[w->role].registers[reg];
    plan_live_wire data = {.reg = reg}, credit = {.reg = reg};
    if (g->persistent) {
        credit.shift = PLAN_LIVE_CREDIT;
        if (g->count == 1)
            add_wire(w, reader, credit, g->producer);
        return;
    }
    data.shift = g->per_step ? PLAN_LIVE_DATA : 0;
    credit.shift = g->count;
    add_wire(w, g->producer, data, reader);
    if (!g->per_step && g->count < w->x->c->p->micro_batches)
        add_wire(w, reader, credit, g->producer);
}

static void wire_roles(wiring *w)
{
    const plan *p = w->x->c->p;
    for (w->role = 0; w->role < p->n_roles; w->role++) {
        const plan_role *r = &p->roles[w->role];
        for (int32_t reg = 0; reg < r->n_registers; reg++)
            for (int32_t i = 0; i < r->registers[reg].n_consumers; i++)
                if (r->registers[reg].producer >= 0)
                    wire_reader(w, reg, r->registers[reg].consumers[i]);
    }
}

static void lay_wires(plan_live *x, int32_t n_tasks)
{
    fs_arena *arena = x->c->scratch;
    wiring w = {x, 0, fs_new(arena, int32_t, n_tasks), true};
    x->first_wire = fs_new(arena, int32_t, n_tasks + 1);
    wire_roles(&w);
    for (int32_t t = 0; t < n_tasks; t++) {
        x->first_wire[t + 1] = x->first_wire[t] + w.at[t];
        w.at[t] = x->first_wire[t];
    }
    x->wires = fs_new(arena, plan_live_wire, x->first_wire[n_tasks]);
    w.counts = false;
    wire_roles(&w);
}

/* ---- Kahn's algorithm ---- */

/* How many places of each transition wait for a firing of this step. */
static void count_waits(plan_live *x)
{
    for (int32_t s = 0; s < x->slot_base[x->c->p->n_roles]; s++) {
        const plan_live_slot *slot = &x->slots[s];
        for (int32_t i = 0; i < slot->n; i++) {
            const plan_live_wire *w = &x->wires[x->first_wire[slot->task + i]];
            const plan_live_wire *end =
                &x->wires[x->first_wire[slot->task + i + 1]];
            for (; w < end; w++) {
                int32_t to = plan_live_end(x, slot, w);
                if (to >= 0)
                    x->waits[x->meets[to]]++;
            }
        }
    }
    for (int32_t f = 0; f < x->n; f++) {
        if (x->after[f] >= 0)
            x->waits[x->meets[x->after[f]]]++;
        for (int32_t g = x->led[f]; g; g = x->next_led[g])
            x->waits[x->meets[g]]++;
    }
}

static inline void tell(const plan_live *x, int32_t to, int32_t *free,
                        int32_t *n_free)
{
    if (to >= 0 && --x->waits[x->meets[to]] == 0)
        free[(*n_free)++] = x->meets[to];
}

static inline void fire(const plan_live *x, int32_t f, int32_t *free,
                        int32_t *n_free)
{
    const plan_live_slot *slot = &x->slots[x->slot_of[f]];
    int32_t task = slot->task + f - slot->first;
    const plan_live_wire *end = &x->wires[x->first_wire[task + 1]];
    for (const plan_live_wire *w = &x->wires[x->first_wire[task]]; w < end; w++)
        tell(x, plan_live_end(x, slot, w), free, n_free);
    tell(x, x->after[f], free, n_free);
    for (int32_t g = x->led[f]; g; g = x->next_led[g])
        tell(x, g, free, n_free);
}

/* waits[t] stays above 0 for the transitions that can never fire. What became
 * free last fires first: it is what lies in the cache. */
static bool fire_all(plan_live *x)
{
    int32_t *free = fs_new(x->c->scratch, int32_t, x->n);
    int32_t *order = x->c->cut ? fs_new(x->c->scratch, int32_t, x->n) : NULL;
    int32_t n_free = 0, transitions = 0, fired = 0;
    for (int32_t f = 0; f < x->n; f++) {
        if (x->meets[f] != f)
            continue;
        transitions++;
        if (x->waits[f] == 0)
            free[n_free++] = f;
    }
    for (; n_free > 0; fired++) {
        int32_t first = free[--n_free], f = first;
        if (order)
            order[fired] = first;
        do {
            fire(x, f, free, &n_free);
            f = x->next_met[f];
        } while (f != first);
    }
    x->c->report->n_transitions = transitions;
    if (order && fired == transitions)
        plan_check_find_cut(x, order, fired);
    return fired == transitions;
}

/* ---- the whole ---- */

/* Places, those with a token too. */
static int64_t count_places(const plan_live *x)
{
    const plan *p = x->c->p;
    int64_t n = x->n + x->n_led;
    for (int32_t role = 0; role < p->n_roles; role++)
        for (int32_t i = 0; i < p->roles[role].n_registers; i++) {
            const plan_register *g = &p->roles[role].registers[i];
            bool once = g->per_step || g->persistent;
            if (g->producer >= 0)
                n +=
                    2 * (int64_t)g->n_consumers * (once ? 1 : p->micro_batches);
        }
    return n;
}

static void lay_roles(plan_live *x)
{
    plan_checking *c = x->c;
    int32_t n = c->p->n_roles;
    x->base = fs_new(c->scratch, int32_t, n + 1);
    x->task_base = fs_new(c->scratch, int32_t, n + 1);
    x->slot_base = fs_new(c->scratch, int32_t, n + 1);
    x->row_base = fs_new(c->scratch, int32_t, n + 1);
    for (int32_t r = 0; r < n; r++) {
        x->base[r + 1] = x->base[r] + c->n_firings[r];
        x->task_base[r + 1] = x->task_base[r] + c->p->roles[r].n_tasks;
        x->slot_base[r + 1] = x->slot_base[r] + c->p->roles[r].n_slots;
        x->row_base[r + 1] = x->row_base[r] + plan_n_sections(&c->p->roles[r]);
    }
    x->n = x->base[n];
    x->slots = fs_new(c->scratch, plan_live_slot, x->slot_base[n]);
    x->rows = fs_new(c->scratch, int32_t,
                     (size_t)x->row_base[n] * (size_t)c->p->micro_batches);
    x->slot_of = fs_new(c->scratch, int32_t, x->n);
    x->after = fs_new(c->scratch, int32_t, x->n);
    x->led = fs_new(c->scratch, int32_t, x->n);
    x->next_led = fs_new(c->scratch, int32_t, x->n);
    x->meets = fs_new(c->scratch, int32_t, x->n);
    x->next_met = fs_new(c->scratch, int32_t, x->n);
    x->waits = fs_new(c->scratch, int32_t, x->n);
}

void plan_check_live(plan_checking *c)
{
    plan_live x = {.c = c};
    int32_t n_roles = c->p->n_roles;
    lay_roles(&x);
    for (int32_t r = 0; r < n_roles; r++) {
        fill_slots(&x, r);
        order_streams(&x, r);
        order_places(&x, r);
    }
    join_meetings(&x);
    lay_wires(&x, x.task_base[n_roles]);
    count_waits(&x);
    c->report->n_places = count_places(&x);
    c->report->live = fire_all(&x);
    c->report->deadlocks = !c->report->live;
    if (!c->report->live)
        plan_check_cycle(&x);
}
