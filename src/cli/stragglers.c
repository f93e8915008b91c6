/* Ranks whose kernels take longer than those of the ranks that do the same. */
#include "config.h"
#include "cli/watch.h"

#include "base/clock.h"

#include <stdlib.h>

/* So many times what the others take, and so much of a step: below that nobody
 * waits for it. */
#define LEAST_RATIO 1.5
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

/* The median of the others of its role. */
static double others_s(const cli_watch *w, const plan_role *role, int32_t rank)
{
    double *all = fs_new(w->arena, double, role->n_ranks);
    int32_t n = 0;
    for (int32_t r = role->first_rank; r < role->first_rank + role->n_ranks;
         r++)
        if (r != rank)
            all[n++] = kernels_s(w, r);
    qsort(all, (size_t)n, sizeof *all, compare);
    return n > 0 ? all[n / 2] : 0;
}

static void tell(cli_watch *w, int32_t rank, double own, double others,
                 json_t *list)
{
    char a[32], b[32];
    cli_say(w->c,
            "rank %d is slow: its kernels take %s a step, those of the ranks "
            "that do the same %s\n",
            rank, fs_human_seconds(a, own), fs_human_seconds(b, others));
    json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:f}", "rank", rank,
                                          "kernels_s", own, "others_s", others,
                                          "ratio", own / others));
}

void cli_watch_stragglers(cli_watch *w, json_t *told)
{
    json_t *list = json_array();
    const double step_s = w->steps > 0 ? w->stepping_s / (double)w->steps : 0;
    for (int32_t i = 0; w->done >= LEAST_STEPS && i < w->p->plan->n_roles;
         i++) {
        const plan_role *role = &w->p->plan->roles[i];
        for (int32_t k = 0; role->n_ranks > 1 && k < role->n_ranks; k++) {
            const int32_t rank = role->first_rank + k;
            const double own = kernels_s(w, rank);
            const double others = others_s(w, role, rank);
            if (others > 0 && own > LEAST_RATIO * others &&
                own - others > LEAST_S && own - others > LEAST_SHARE * step_s)
                tell(w, rank, own, others, list);
        }
    }
    if (json_array_size(list) > 0)
        json_object_set(told, "stragglers", list);
    json_decref(list);
}
