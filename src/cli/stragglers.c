/* Ranks whose kernels take longer than those of the ranks that do the same; of
 * a stage of one rank, than they would at the pace of the other stages. */
#include "config.h"
#include "cli/watch.h"

#include "base/clock.h"

#include <stdlib.h>

/* So many times what the others take, and so much of a step: below that nobody
 * waits for it. A pace is beside what was predicted, which may be off. */
#define LEAST_RATIO 1.5
#define LEAST_PACE 2.0
#define LEAST_SHARE 0.1
#define LEAST_S 1e-3
enum { LEAST_STEPS = 8 };

static double kernels_s(const cli_watch *w, int32_t rank)
{
    const exec_record *r = exec_records_at(&w->records, rank);
    const int64_t steps = r->steps_done - r->first_step;
    return steps > 0 ? 1e-9 * (double)r->compute_ns / (double)steps : 0;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *all, int32_t n)
{
    qsort(all, (size_t)n, sizeof *all, compare);
    return n > 0 ? all[n / 2] : 0;
}

/* The median of the others of its role. */
static double others_s(const cli_watch *w, const plan_role *role, int32_t rank)
{
    double *all = fs_new(w->arena, double, role->n_ranks);
    int32_t n = 0;
    for (int32_t r = role->first_rank; r < role->first_rank + role->n_ranks;
         r++)
        if (r != rank)
            all[n++] = kernels_s(w, r);
    return median(all, n);
}

/* ---- at the pace of others ---- */

/* Of a step. */
static double predicted_s(const cli_watch *w, const plan_timing *timing,
                          int32_t role)
{
    const plan *p = w->p->plan;
    double sum = 0;
    for (int32_t t = 0; t < p->roles[role].n_tasks; t++) {
        const plan_task *task = &p->roles[role].tasks[t];
        const double times =
            plan_phase_once(task->phase) ? 1 : p->micro_batches;
        if (plan_task_computes(task))
            sum += times * timing->demand[role][t].total_s;
    }
    return sum;
}

/* How many times as long as predicted the ranks of other roles take. */
static double pace_of_others(const cli_watch *w, const double *predicted,
                             int32_t role)
{
    double *all = fs_new(w->arena, double, w->records.n);
    int32_t n = 0;
    for (int32_t i = 0; i < w->p->plan->n_roles; i++) {
        const plan_role *other = &w->p->plan->roles[i];
        for (int32_t k = 0; i != role && k < other->n_ranks; k++)
            if (predicted[i] > 0)
                all[n++] = kernels_s(w, other->first_rank + k) / predicted[i];
    }
    return median(all, n);
}

static double *predict_all(const cli_watch *w)
{
    const plan *p = w->p->plan;
    const plan_timing *timing =
        cost_timing(w->p->cost, w->p->model.graph, p, w->arena);
    double *predicted = fs_new(w->arena, double, p->n_roles);
    for (int32_t i = 0; i < p->n_roles; i++)
        predicted[i] = predicted_s(w, timing, i);
    return predicted;
}

/* ---- telling ---- */

static bool is_slow(double own, double others, double ratio, double step_s)
{
    return others > 0 && own > ratio * others && own - others > LEAST_S &&
           own - others > LEAST_SHARE * step_s;
}

static void tell(cli_watch *w, int32_t rank, double own, double others,
                 bool alone, json_t *list)
{
    char a[32], b[32];
    cli_say(w->c,
            alone ? "rank %d is slow: its kernels take %s a step, %s at the "
                    "pace of the other stages, beside what was predicted (no "
                    "rank does the same)\n"
                  : "rank %d is slow: its kernels take %s a step, those of the "
                    "ranks that do the same %s\n",
            rank, fs_human_seconds(a, own), fs_human_seconds(b, others));
    json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:f, s:b}", "rank",
                                          rank, "kernels_s", own, "others_s",
                                          others, "ratio", own / others,
                                          "by_prediction", alone));
}

void cli_watch_stragglers(cli_watch *w, json_t *told)
{
    json_t *list = json_array();
    const double step_s = w->steps > 0 ? w->stepping_s / (double)w->steps : 0;
    const double *predicted = predict_all(w);
    for (int32_t i = 0; w->done >= LEAST_STEPS && i < w->p->plan->n_roles;
         i++) {
        const plan_role *role = &w->p->plan->roles[i];
        const bool alone = role->n_ranks == 1;
        for (int32_t k = 0; k < role->n_ranks; k++) {
            const int32_t rank = role->first_rank + k;
            const double own = kernels_s(w, rank);
            const double others =
                alone ? predicted[i] * pace_of_others(w, predicted, i)
                      : others_s(w, role, rank);
            if (is_slow(own, others, alone ? LEAST_PACE : LEAST_RATIO, step_s))
                tell(w, rank, own, others, alone, list);
        }
    }
    if (json_array_size(list) > 0)
        json_object_set(told, "stragglers", list);
    json_decref(list);
}
