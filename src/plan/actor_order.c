/* Registers that need no counting: one stream alone makes and reads them, and
 * its program says in which order. Whoever comes to a task of it then finds the
 * piece made and a buffer free, for else the stream would wait for itself. */
#include "config.h"
#include "plan/actor_parts.h"

/* Firings of a section make pieces that those of another let go of, or read:
 * how many there are at most at once, in one step; 0: some come out of turn.
 * Within a section its order is that of its tasks. */
static int32_t most_at_once(const plan_actors *a, int32_t makes, int32_t reads)
{
    int32_t made = 0, gone = 0, most = 0;
    for (int32_t s = 0; s < a->role->n_slots; s++) {
        if (a->section[s] == makes) {
            if (a->micro_batch[s] != made++)
                return 0;
            most = made - gone > most ? made - gone : most;
        }
        if (a->section[s] == reads &&
            (a->micro_batch[s] != gone++ || gone > made))
            return 0;
    }
    return made == a->plan->micro_batches && gone == made ? most : 0;
}

typedef struct ordering {
    const plan_actors *a;
    int32_t *most; /* [n_sections * n_sections], -1: not asked for */
} ordering;

static int32_t most_of(ordering *o, int32_t makes, int32_t reads)
{
    const plan_role *role = o->a->role;
    const int32_t from = plan_task_section(role, &role->tasks[makes]);
    const int32_t to = plan_task_section(role, &role->tasks[reads]);
    int32_t *most = &o->most[from * o->a->n_sections + to];
    if (*most < 0)
        *most = most_at_once(o->a, from, to);
    return from == to && makes >= reads ? 0 : *most;
}

/* Each task of them comes before the last, and behind the producer. */
static bool is_ordered(ordering *o, const plan_register *r)
{
    const plan_task *tasks = o->a->role->tasks;
    if (r->per_step || r->persistent || r->producer < 0)
        return false;
    const int32_t last =
        r->n_consumers > 0 ? r->consumers[r->n_consumers - 1] : -1;
    for (int32_t i = 0; i < r->n_consumers; i++) {
        const int32_t reader = r->consumers[i];
        if (tasks[reader].stream != tasks[r->producer].stream ||
            most_of(o, r->producer, reader) == 0 ||
            (reader != last && most_of(o, reader, last) == 0))
            return false;
    }
    return last < 0 ? !plan_phase_once(tasks[r->producer].phase)
                    : most_of(o, r->producer, last) <= r->count;
}

void plan_actors_find_ordered(plan_actors *a, fs_arena *arena)
{
    const int32_t n = a->n_sections * a->n_sections;
    ordering o = {a, fs_new(arena, int32_t, n)};
    for (int32_t i = 0; i < n; i++)
        o.most[i] = -1;
    for (int32_t r = 0; r < a->role->n_registers; r++)
        a->ordered[r] = is_ordered(&o, &a->role->registers[r]);
}
