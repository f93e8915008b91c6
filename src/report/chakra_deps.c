/* One step of a role as firings and what each of them waits for: the rules of
 * plan/actor.h, as lists. Pieces of the step before are there from the start.
 */
#include "config.h"
#include "report/chakra.h"

#include "plan/places.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const plan *p;
    const plan_role *role;
    fs_arena *arena;
    report_firings out;
    int32_t **index; /* [tasks][micro-batches] firing; -1: not yet */
    int32_t *last;   /* [tasks] its latest firing; -1: none yet */
    int32_t *stream; /* [streams] likewise */
    int32_t *leader; /* [streams] */
    double *end_s;   /* [streams] sum of demands */
    int64_t *end_us; /* [streams] rounded */
} walk;

/* Each once; nothing that has not fired yet. */
static void wait_for(walk *w, report_list *list, int32_t firing)
{
    if (firing < 0)
        return;
    for (int32_t i = 0; i < list->n; i++)
        if (list->at[i] == firing)
            return;
    fs_push(w->arena, list, firing);
}

static void add_reads(walk *w, report_firing *f)
{
    const plan_task *task = &w->role->tasks[f->task];
    for (int32_t i = 0; i < task->n_in; i++) {
        const plan_register *r = &w->role->registers[task->in[i]];
        if (r->producer < 0 || r->persistent || r->producer == f->task)
            continue;
        wait_for(w, &f->data,
                 r->per_step ? w->last[r->producer]
                             : w->index[r->producer][f->micro_batch]);
    }
}

/* Whoever read the piece that lies where this one is to lie. */
static void add_writes(walk *w, report_firing *f)
{
    const plan_task *task = &w->role->tasks[f->task];
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_register *r = &w->role->registers[task->out[i]];
        const int32_t before = f->micro_batch - r->count;
        if (r->per_step || (!r->persistent && before < 0))
            continue;
        for (int32_t k = 0; k < r->n_consumers; k++) {
            const int32_t reader = r->consumers[k];
            wait_for(w, &f->control,
                     r->persistent ? w->last[reader]
                                   : w->index[reader][before]);
        }
    }
}

static void add_order(walk *w, report_firing *f)
{
    const plan_task *task = &w->role->tasks[f->task];
    wait_for(w, &f->data, w->stream[task->stream]);
    if (plan_task_keeps_place(w->role, w->leader, f->task))
        wait_for(w, &f->control, w->stream[w->leader[task->stream]]);
}

static int by_number(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void sort(report_list *list)
{
    if (list->n > 1)
        qsort(list->at, (size_t)list->n, sizeof *list->at, by_number);
}

static void fire(walk *w, int32_t task, int32_t micro_batch, double seconds)
{
    report_firing *f = &w->out.at[w->out.n];
    const plan_task *t = &w->role->tasks[task];
    f->task = task;
    f->micro_batch = micro_batch;
    add_reads(w, f);
    add_writes(w, f);
    add_order(w, f);
    sort(&f->data);
    sort(&f->control);
    w->end_s[t->stream] += seconds;
    const int64_t end_us = (int64_t)(w->end_s[t->stream] * 1e6 + 0.5);
    f->duration_us = end_us - w->end_us[t->stream];
    w->end_us[t->stream] = end_us;
    w->index[task][micro_batch] = w->out.n;
    w->last[task] = w->stream[t->stream] = w->out.n++;
}

static int32_t *none(fs_arena *arena, int32_t n)
{
    int32_t *list = fs_new(arena, int32_t, n);
    memset(list, 0xff, (size_t)n * sizeof *list);
    return list;
}

static int32_t count(const plan *p, const plan_role *role)
{
    int32_t n = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        n += plan_phase_once(role->tasks[t].phase) ? 1 : p->micro_batches;
    return n;
}

/* Tasks of each section, in order. */
static report_list *sections(const plan_role *role, fs_arena *arena)
{
    report_list *list = fs_new(arena, report_list, plan_n_sections(role));
    for (int32_t t = 0; t < role->n_tasks; t++)
        fs_push(arena, &list[plan_task_section(role, &role->tasks[t])], t);
    return list;
}

report_firings report_firings_of(const plan *p, int32_t role,
                                 const plan_timing *timing, fs_arena *arena)
{
    const plan_role *r = &p->roles[role];
    walk w = {.p = p,
              .role = r,
              .arena = arena,
              .index = fs_new(arena, int32_t *, r->n_tasks),
              .last = none(arena, r->n_tasks),
              .stream = none(arena, r->n_streams),
              .leader = fs_new(arena, int32_t, r->n_streams),
              .end_s = fs_new(arena, double, r->n_streams),
              .end_us = fs_new(arena, int64_t, r->n_streams)};
    w.out.at = fs_new(arena, report_firing, count(p, r));
    for (int32_t t = 0; t < r->n_tasks; t++)
        w.index[t] = none(arena, p->micro_batches);
    plan_stream_leaders(r, w.leader);
    const report_list *of = sections(r, arena);
    for (int32_t s = 0; s < r->n_slots; s++) {
        const plan_slot *slot = &r->slots[s];
        const report_list *tasks = &of[plan_slot_section(r, slot)];
        const int32_t b = plan_phase_once(slot->phase) ? 0 : slot->micro_batch;
        for (int32_t i = 0; i < tasks->n; i++)
            fire(&w, tasks->at[i], b,
                 timing->demand[role][tasks->at[i]].total_s);
    }
    return w.out;
}
