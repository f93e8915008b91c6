#include "config.h"
#include "sim/critical.h"

#include "plan/places.h"

#include <math.h>
#include <stdlib.h>

typedef FS_VEC(int32_t) list;

/* The trace by whom and when. */
typedef struct finder {
    const plan *p;
    const plan_timing *timing;
    const plan_event *events;
    int32_t n;
    fs_arena *arena;
    int64_t first_step, n_steps;
    int32_t *role;         /* [events] */
    int32_t *slot;         /* [events] in the role's program */
    int32_t *before;       /* [events] the one before on its stream; -1 */
    int32_t *of_stream;    /* [events] index in streams */
    int32_t *first_stream; /* [roles + 1] */
    list *streams;         /* events of each, in order */
    list *lines;           /* events of each communicator, then channel */
    int32_t *of_line;      /* [events] index in its line's list */
    int32_t *members;      /* [lines] roles that meet there */
    int64_t **first;       /* [roles][tasks] into firing */
    int32_t *firing;       /* the event of each task, step, micro-batch; -1 */
    int32_t **leader;      /* [roles][streams] */
} finder;

/* What may have been waited for, and the best of it so far. */
typedef struct cause {
    int64_t at_ns;  /* who began then */
    int32_t below;  /* only events of the trace before this one */
    int32_t event;  /* -1: none yet */
    int64_t end_ns; /* of that */
    sim_why why;
} cause;

/* ---- names ---- */

const char *sim_class_name(sim_class what)
{
    static const char *const names[SIM_COLLECTIVE] = {
        "forward", "backward", "weight gradients", "update",        "boxing",
        "loading", "slowed",   "waiting",          "point-to-point"};
    return what < SIM_COLLECTIVE
               ? names[what]
               : plan_box_name((plan_box_kind)(what - SIM_COLLECTIVE));
}

sim_class sim_class_of(const plan_task *task)
{
    static const sim_class phases[PLAN_PHASES] = {
        SIM_UPDATE, SIM_FORWARD, SIM_BACKWARD, SIM_WEIGHT, SIM_UPDATE};
    if (task->channel >= 0)
        return SIM_POINT_TO_POINT;
    if (task->kind == PLAN_LOAD)
        return SIM_LOADING;
    if (task->kind != PLAN_BOX)
        return phases[task->phase];
    return task->comm >= 0 ? (sim_class)(SIM_COLLECTIVE + (int)task->box.kind)
                           : SIM_BOXING;
}

const char *sim_why_name(sim_why why)
{
    static const char *const names[SIM_WHYS] = {"begin",  "data",   "stream",
                                                "buffer", "place",  "turn",
                                                "line",   "nothing"};
    return names[why];
}

/* ---- the trace by whom and when ---- */

static const plan_task *task_of(const finder *f, int32_t e)
{
    return &f->p->roles[f->role[e]].tasks[f->events[e].task];
}

static int32_t line_of(const finder *f, const plan_task *task)
{
    return task->channel >= 0 ? f->p->n_comms + task->channel : task->comm;
}

static int32_t n_lines(const plan *p)
{
    return p->n_comms + p->n_channels;
}

static int32_t role_of_rank(const plan *p, int32_t rank)
{
    return (int32_t)(plan_role_of_rank(p, rank) - p->roles);
}

static int64_t per_step(const finder *f, const plan_task *task)
{
    return plan_phase_once(task->phase) ? 1 : f->p->micro_batches;
}

/* The event of a task's firing; -1: it is not traced. */
static int32_t firing_of(const finder *f, int32_t role, int32_t task,
                         int64_t step, int64_t micro_batch)
{
    const plan_task *t = &f->p->roles[role].tasks[task];
    const int64_t n = per_step(f, t);
    if (step < f->first_step || step >= f->first_step + f->n_steps)
        return -1;
    return f->firing[f->first[role][task] + (step - f->first_step) * n +
                     (n == 1 ? 0 : micro_batch)];
}

static void make_firings(finder *f)
{
    int64_t n = 0;
    f->first = fs_new(f->arena, int64_t *, f->p->n_roles);
    for (int32_t r = 0; r < f->p->n_roles; r++) {
        const plan_role *role = &f->p->roles[r];
        f->first[r] = fs_new(f->arena, int64_t, role->n_tasks);
        for (int32_t t = 0; t < role->n_tasks; t++) {
            f->first[r][t] = n;
            n += f->n_steps * per_step(f, &role->tasks[t]);
        }
    }
    f->firing = fs_new(f->arena, int32_t, n);
    for (int64_t i = 0; i < n; i++)
        f->firing[i] = -1;
    for (int32_t e = 0; e < f->n; e++) {
        const plan_event *v = &f->events[e];
        const int64_t each = per_step(f, task_of(f, e));
        f->firing[f->first[f->role[e]][v->task] +
                  (v->step - f->first_step) * each +
                  (each == 1 ? 0 : v->micro_batch)] = e;
    }
}

/* Slots of a role by section and micro-batch. */
static int32_t *slots_of(const finder *f, const plan_role *role)
{
    const int32_t m = f->p->micro_batches;
    int32_t *slots =
        fs_new(f->arena, int32_t, (int64_t)plan_n_sections(role) * m);
    for (int32_t s = 0; s < role->n_slots; s++) {
        const plan_slot *slot = &role->slots[s];
        const int32_t section = plan_slot_section(role, slot);
        if (!plan_phase_once(slot->phase))
            slots[section * m + slot->micro_batch] = s;
        for (int32_t b = 0; b < m && plan_phase_once(slot->phase); b++)
            slots[section * m + b] = s;
    }
    return slots;
}

static void make_roles(finder *f)
{
    const plan *p = f->p;
    int32_t **slots = fs_new(f->arena, int32_t *, p->n_roles);
    f->role = fs_new(f->arena, int32_t, f->n);
    f->slot = fs_new(f->arena, int32_t, f->n);
    f->leader = fs_new(f->arena, int32_t *, p->n_roles);
    f->first_stream = fs_new(f->arena, int32_t, p->n_roles + 1);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        slots[r] = slots_of(f, role);
        f->leader[r] = fs_new(f->arena, int32_t, role->n_streams);
        plan_stream_leaders(role, f->leader[r]);
        f->first_stream[r + 1] = f->first_stream[r] + role->n_streams;
    }
    for (int32_t e = 0; e < f->n; e++) {
        const plan_event *v = &f->events[e];
        f->role[e] = role_of_rank(p, v->rank);
        const plan_role *role = &p->roles[f->role[e]];
        const int32_t section = plan_task_section(role, &role->tasks[v->task]);
        f->slot[e] =
            slots[f->role[e]][section * p->micro_batches + v->micro_batch];
    }
}

static void make_streams(finder *f)
{
    f->streams = fs_new(f->arena, list, f->first_stream[f->p->n_roles] + 1);
    f->before = fs_new(f->arena, int32_t, f->n);
    f->of_stream = fs_new(f->arena, int32_t, f->n);
    for (int32_t e = 0; e < f->n; e++) {
        list *s =
            &f->streams[f->first_stream[f->role[e]] + f->events[e].stream];
        f->before[e] = s->n ? s->at[s->n - 1] : -1;
        f->of_stream[e] = s->n;
        fs_push(f->arena, s, e);
    }
}

static void make_lines(finder *f)
{
    const int32_t n = n_lines(f->p);
    int32_t *seen = fs_new(f->arena, int32_t, n); /* 1 + last role */
    f->lines = fs_new(f->arena, list, n + 1);
    f->members = fs_new(f->arena, int32_t, n + 1);
    f->of_line = fs_new(f->arena, int32_t, f->n);
    for (int32_t r = 0; r < f->p->n_roles; r++)
        for (int32_t t = 0; t < f->p->roles[r].n_tasks; t++) {
            const int32_t line = line_of(f, &f->p->roles[r].tasks[t]);
            if (line >= 0 && seen[line] != r + 1)
                f->members[line]++;
            if (line >= 0)
                seen[line] = r + 1;
        }
    for (int32_t e = 0; e < f->n; e++) {
        const int32_t line = line_of(f, task_of(f, e));
        if (line < 0)
            continue;
        f->of_line[e] = f->lines[line].n;
        fs_push(f->arena, &f->lines[line], e);
    }
}

static finder make_finder(const plan *p, const plan_timing *timing,
                          const plan_trace *trace, fs_arena *arena)
{
    finder f = {.p = p,
                .timing = timing,
                .events = trace->events.at,
                .n = trace->events.n,
                .arena = arena,
                .first_step = INT64_MAX};
    int64_t last_step = 0;
    for (int32_t e = 0; e < f.n; e++) {
        const int64_t step = f.events[e].step;
        f.first_step = step < f.first_step ? step : f.first_step;
        last_step = step > last_step ? step : last_step;
    }
    f.n_steps = last_step - f.first_step + 1;
    make_roles(&f);
    make_firings(&f);
    make_streams(&f);
    make_lines(&f);
    return f;
}

/* ---- what a firing waited for ---- */

/* Whoever ended when it could begin; of several the first that is named; else
 * who ended last. */
static void consider(const finder *f, cause *c, int32_t e, sim_why why)
{
    if (e < 0 || e >= c->below || f->events[e].end_ns > c->at_ns ||
        (c->event >= 0 && f->events[e].end_ns <= c->end_ns))
        return;
    *c = (cause){c->at_ns, c->below, e, f->events[e].end_ns, why};
}

static bool is_tight(const cause *c)
{
    return c->event >= 0 && c->end_ns == c->at_ns;
}

/* The last firing of a task in a step. */
static int32_t last_firing(const finder *f, int32_t role, int32_t task,
                           int64_t step)
{
    const int64_t n = per_step(f, &f->p->roles[role].tasks[task]);
    int32_t last = -1;
    for (int64_t b = 0; b < n; b++) {
        const int32_t e = firing_of(f, role, task, step, b);
        last = e > last ? e : last;
    }
    return last;
}

static void consider_reads(const finder *f, cause *c, int32_t e)
{
    const plan_event *v = &f->events[e];
    const int32_t r = f->role[e];
    const plan_task *task = task_of(f, e);
    for (int32_t i = 0; i < task->n_in; i++) {
        const plan_register *g = &f->p->roles[r].registers[task->in[i]];
        if (g->producer < 0)
            continue;
        if (g->persistent)
            consider(f, c, last_firing(f, r, g->producer, v->step - 1),
                     SIM_BY_DATA);
        else if (g->per_step)
            consider(f, c, last_firing(f, r, g->producer, v->step),
                     SIM_BY_DATA);
        else
            consider(f, c,
                     firing_of(f, r, g->producer, v->step, v->micro_batch),
                     SIM_BY_DATA);
    }
}

/* Those who let go of the piece that lay where this one is to lie. */
static void consider_writes(const finder *f, cause *c, int32_t e)
{
    const plan_event *v = &f->events[e];
    const int32_t r = f->role[e], m = f->p->micro_batches;
    const plan_task *task = task_of(f, e);
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_register *g = &f->p->roles[r].registers[task->out[i]];
        const bool once = g->persistent || g->per_step;
        const int64_t piece =
            (once ? v->step + g->persistent : v->step * m + v->micro_batch) -
            g->count;
        for (int32_t k = 0; k < g->n_consumers && piece >= 0; k++)
            consider(
                f, c,
                once ? last_firing(f, r, g->consumers[k], piece)
                     : firing_of(f, r, g->consumers[k], piece / m, piece % m),
                SIM_BY_BUFFER);
    }
}

/* Pieces may be let go of in another order than they were made in. */
static void consider_any_release(const finder *f, cause *c, int32_t e)
{
    const int32_t r = f->role[e];
    const plan_task *task = task_of(f, e);
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_register *g = &f->p->roles[r].registers[task->out[i]];
        for (int32_t k = 0; k < g->n_consumers; k++)
            for (int64_t s = 0; s < f->n_steps; s++)
                for (int32_t b = 0; b < f->p->micro_batches; b++)
                    consider(
                        f, c,
                        firing_of(f, r, g->consumers[k], f->first_step + s, b),
                        SIM_BY_BUFFER);
    }
}

/* In the role's program: does event a stand before b? */
static bool stands_before(const finder *f, int32_t a, int32_t b)
{
    const plan_event *x = &f->events[a], *y = &f->events[b];
    if (x->step != y->step)
        return x->step < y->step;
    return f->slot[a] != f->slot[b] ? f->slot[a] < f->slot[b]
                                    : x->task < y->task;
}

static void consider_place(const finder *f, cause *c, int32_t e)
{
    const int32_t r = f->role[e];
    const int32_t leader = f->leader[r][f->events[e].stream];
    if (!plan_task_keeps_place(&f->p->roles[r], f->leader[r],
                               f->events[e].task))
        return;
    const list *s = &f->streams[f->first_stream[r] + leader];
    int32_t low = 0, high = s->n; /* the first that does not */
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (stands_before(f, s->at[middle], e))
            low = middle + 1;
        else
            high = middle;
    }
    consider(f, c, low ? s->at[low - 1] : -1, SIM_BY_PLACE);
}

/* The last of a list, in order of their ends, that ended by a time. */
static int32_t last_ended(const finder *f, const list *s, int64_t at_ns,
                          int32_t below)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->at[middle] < below && f->events[s->at[middle]].end_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? s->at[low - 1] : -1;
}

static void consider_turn(const finder *f, cause *c, int32_t e)
{
    const int32_t r = f->role[e];
    const plan_role *role = &f->p->roles[r];
    if (!plan_task_computes(task_of(f, e)))
        return;
    for (int32_t s = 0; s < role->n_streams; s++)
        if (role->streams[s].kind == PLAN_STREAM_COMPUTE &&
            s != f->events[e].stream)
            consider(f, c,
                     last_ended(f, &f->streams[f->first_stream[r] + s],
                                c->at_ns, c->below),
                     SIM_BY_TURN);
}

/* Who of them came last: itself, if nobody came after it. */
static int32_t last_of_meeting(const finder *f, int32_t e, int32_t *below)
{
    const int32_t line = line_of(f, task_of(f, e));
    *below = e;
    if (line < 0)
        return e;
    const int32_t n = f->members[line];
    const int32_t first = f->of_line[e] / n * n;
    int32_t last = e;
    *below = f->lines[line].at[first];
    for (int32_t i = first; i < first + n && i < f->lines[line].n; i++) {
        const int32_t other = f->lines[line].at[i];
        if (f->events[other].ready_ns > f->events[last].ready_ns)
            last = other;
    }
    return last;
}

static cause cause_of(const finder *f, int32_t e, int32_t below)
{
    cause c = {f->events[e].start_ns, below, -1, 0, SIM_BY_BEGIN};
    const int32_t line = line_of(f, task_of(f, e));
    consider_reads(f, &c, e);
    consider(f, &c, f->before[e], SIM_BY_STREAM);
    consider_writes(f, &c, e);
    consider_place(f, &c, e);
    if (line < 0)
        consider_turn(f, &c, e);
    else
        consider(f, &c, last_ended(f, &f->lines[line], c.at_ns, below),
                 SIM_BY_LINE);
    if (!is_tight(&c))
        consider_any_release(f, &c, e);
    if (c.event >= 0 && !is_tight(&c))
        c.why = SIM_BY_NOTHING;
    return c;
}

/* ---- the path ---- */

static int64_t alone_ns(const finder *f, int32_t e)
{
    double most = f->timing->demand[f->role[e]][f->events[e].task].total_s;
    const int32_t line = line_of(f, task_of(f, e));
    if (line >= 0) {
        const int32_t n = f->members[line];
        const int32_t first = f->of_line[e] / n * n;
        for (int32_t i = first; i < first + n && i < f->lines[line].n; i++) {
            const int32_t k = f->lines[line].at[i];
            most = fmax(
                most, f->timing->demand[f->role[k]][f->events[k].task].total_s);
        }
    }
    return (int64_t)ceil(most * 1e9) + 1;
}

static void add_link(const finder *f, sim_critical *out, const sim_link *link)
{
    const double seconds = (double)(link->to_ns - link->from_ns) * 1e-9;
    const double slowed_s = (double)link->slowed_ns * 1e-9;
    sim_sum *sum = &out->path[sim_class_of(task_of(f, link->event))];
    sum->seconds += seconds - slowed_s;
    sum->firings++;
    out->path[SIM_SLOWED].seconds += slowed_s;
    out->path[SIM_SLOWED].firings += slowed_s > 0;
    out->why[link->why]++;
    out->meetings += link->last != link->event;
}

/* The event with which the step that was measured ended. */
static int32_t last_of_step(const finder *f, int64_t step)
{
    int32_t last = -1;
    for (int32_t e = 0; e < f->n; e++)
        if (f->events[e].step == step &&
            (last < 0 || f->events[e].end_ns >= f->events[last].end_ns))
            last = e;
    return last;
}

/* Backwards; what is before `begin_ns` belongs to the step before. */
static void follow(const finder *f, sim_critical *out, int32_t e)
{
    FS_VEC(sim_link) links = {0};
    int64_t to_ns = out->end_ns;
    while (e >= 0 && to_ns > out->begin_ns) {
        sim_link link = {.event = e};
        int32_t below;
        const int64_t start_ns = f->events[e].start_ns;
        link.to_ns = f->events[e].end_ns < to_ns ? f->events[e].end_ns : to_ns;
        link.from_ns = start_ns > out->begin_ns ? start_ns : out->begin_ns;
        const int64_t slowed_ns =
            f->events[e].end_ns - start_ns - alone_ns(f, e);
        link.slowed_ns = slowed_ns > 0 ? slowed_ns : 0;
        if (link.slowed_ns > link.to_ns - link.from_ns)
            link.slowed_ns = link.to_ns - link.from_ns;
        out->waiting_s += (double)(to_ns - link.to_ns) * 1e-9;
        link.last = last_of_meeting(f, e, &below);
        const cause c = cause_of(f, link.last, below);
        link.why = start_ns <= out->begin_ns ? SIM_BY_BEGIN : c.why;
        fs_push(f->arena, &links, link);
        to_ns = link.from_ns;
        e = c.event;
    }
    out->waiting_s += (double)(to_ns - out->begin_ns) * 1e-9;
    out->n_links = links.n;
    out->links = fs_new(f->arena, sim_link, links.n);
    for (int32_t i = 0; i < links.n; i++)
        out->links[i] = links.at[links.n - 1 - i];
}

static int by_seconds(const void *a, const void *b)
{
    const sim_on_path *x = a, *y = b;
    if (x->sum.seconds != y->sum.seconds)
        return x->sum.seconds > y->sum.seconds ? -1 : 1;
    return x->role != y->role ? x->role - y->role : x->task - y->task;
}

static void sum_up(const finder *f, sim_critical *out)
{
    int32_t n = 0, *first = fs_new(f->arena, int32_t, f->p->n_roles);
    for (int32_t r = 0; r < f->p->n_roles; r++) {
        first[r] = n;
        n += f->p->roles[r].n_tasks;
    }
    int32_t *at = fs_new(f->arena, int32_t, n); /* 1 + index in tasks */
    out->tasks = fs_new(f->arena, sim_on_path, out->n_links);
    for (int32_t i = 0; i < out->n_links; i++) {
        const sim_link *link = &out->links[i];
        const int32_t r = f->role[link->event];
        const int32_t task = f->events[link->event].task;
        int32_t *place = &at[first[r] + task];
        add_link(f, out, link);
        if (*place == 0) {
            out->tasks[out->n_tasks] = (sim_on_path){.role = r, .task = task};
            *place = ++out->n_tasks;
        }
        sim_sum *sum = &out->tasks[*place - 1].sum;
        sum->seconds += (double)(link->to_ns - link->from_ns) * 1e-9;
        sum->firings++;
    }
    out->path[SIM_WAITING].seconds = out->waiting_s;
    qsort(out->tasks, (size_t)out->n_tasks, sizeof *out->tasks, by_seconds);
}

/* ---- communication that nothing hides ---- */

/* Something begins (1) or ends (-1). */
typedef struct edge {
    int64_t at_ns;
    int32_t change, what; /* a class; of what computes SIM_CLASSES */
} edge;
typedef FS_VEC(edge) edges;

static int by_time(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->what != y->what ? x->what - y->what : x->change - y->change;
}

static int64_t clipped(int64_t ns, const sim_critical *c)
{
    return ns < c->begin_ns ? c->begin_ns : ns > c->end_ns ? c->end_ns : ns;
}

static void add_edges(const finder *f, const sim_critical *c, edges *all)
{
    for (int32_t e = 0; e < f->n; e++) {
        const plan_task *task = task_of(f, e);
        const bool moves = task->comm >= 0 || task->channel >= 0;
        const int32_t what =
            moves ? (int32_t)sim_class_of(task) : (int32_t)SIM_CLASSES;
        const int64_t from_ns = clipped(f->events[e].start_ns, c);
        const int64_t to_ns = clipped(f->events[e].end_ns, c);
        if (from_ns == to_ns || (!moves && !plan_task_computes(task)))
            continue;
        fs_push(f->arena, &all[f->role[e]], (edge){from_ns, 1, what});
        fs_push(f->arena, &all[f->role[e]], (edge){to_ns, -1, what});
    }
}

static void sweep(edges *all, double part, sim_critical *out)
{
    int32_t running[SIM_CLASSES + 1] = {0}, kinds = 0;
    if (all->n == 0)
        return;
    qsort(all->at, (size_t)all->n, sizeof *all->at, by_time);
    for (int32_t i = 0; i < all->n; i++) {
        const edge *now = &all->at[i];
        const int64_t passed_ns = i ? now->at_ns - all->at[i - 1].at_ns : 0;
        const double seconds = part * (double)passed_ns * 1e-9;
        for (int32_t k = 0; k < SIM_CLASSES && passed_ns > 0; k++) {
            if (running[k] == 0)
                continue;
            out->whole_s[k] += seconds;
            if (running[SIM_CLASSES] == 0)
                out->exposed[k].seconds += seconds / kinds;
        }
        const int32_t was = running[now->what] > 0;
        running[now->what] += now->change;
        if (now->what < SIM_CLASSES) {
            kinds += (running[now->what] > 0) - was;
            out->exposed[now->what].firings += now->change > 0;
        }
    }
}

static void find_exposed(const finder *f, sim_critical *out)
{
    const plan *p = f->p;
    edges *all = fs_new(f->arena, edges, p->n_roles);
    double ranks = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        ranks += p->roles[r].n_ranks;
    add_edges(f, out, all);
    for (int32_t r = 0; r < p->n_roles; r++)
        sweep(&all[r], p->roles[r].n_ranks / ranks, out);
}

sim_critical sim_critical_of(const plan *p, const plan_timing *timing,
                             const plan_trace *trace, const sim_result *result,
                             fs_arena *arena)
{
    sim_critical out = {0};
    if (trace->events.n == 0)
        return out;
    const finder f = make_finder(p, timing, trace, arena);
    const int64_t measured = result->last_step;
    const int32_t last = last_of_step(&f, measured);
    out.end_ns = f.events[last].end_ns;
    out.begin_ns = out.end_ns - (int64_t)(result->step_s[measured] * 1e9 + 0.5);
    follow(&f, &out, last);
    sum_up(&f, &out);
    find_exposed(&f, &out);
    return out;
}
