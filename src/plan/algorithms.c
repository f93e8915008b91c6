#include "config.h"
#include "plan/algorithms.h"

#include "base/hash.h"
#include "base/text.h"

#include <string.h>

typedef struct algorithm_row {
    const char *name;
    bool runs;
} algorithm_row;

enum { SAID = false, RUNS = true };
static const algorithm_row table[] = {
#define PLAN_ALGORITHM(name, where, runs) {#name, runs},
#include "plan/algorithms.def"
#undef PLAN_ALGORITHM
};

const char *plan_algorithm_name(plan_algorithm algorithm)
{
    return table[algorithm].name;
}

bool plan_algorithm_runs(plan_algorithm algorithm)
{
    return table[algorithm].runs;
}

bool plan_algorithm_find(const char *name, plan_algorithm *out)
{
    for (int i = 0; i < PLAN_ALGORITHMS; i++)
        if (table[i].runs && strcmp(table[i].name, name) == 0) {
            *out = (plan_algorithm)i;
            return true;
        }
    return false;
}

const char *plan_algorithm_names(fs_arena *arena)
{
    fs_text names = {.arena = arena};
    for (int i = 0; i < PLAN_ALGORITHMS; i++)
        if (table[i].runs)
            fs_text_add(&names, "%s%s", names.at ? ", " : "", table[i].name);
    return names.at;
}

bool plan_box_varies(const plan_box_step *step, int32_t members)
{
    return step->kind == PLAN_ALL_REDUCE && step->element_bytes != 2 &&
           step->bytes_in > PLAN_FEW_BYTES &&
           step->bytes_in >= (int64_t)members * step->element_bytes;
}

plan_choice plan_choice_new(const plan *p, fs_arena *arena)
{
    plan_choice out = {fs_new(arena, uint8_t *, p->n_roles)};
    for (int32_t r = 0; r < p->n_roles; r++) {
        out.of[r] = fs_new(arena, uint8_t, p->roles[r].n_tasks + 1);
        memset(out.of[r], PLAN_ALGORITHMS, (size_t)p->roles[r].n_tasks + 1);
    }
    return out;
}

uint64_t plan_choice_digest(const plan *p, const plan_choice *choice)
{
    uint64_t digest = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        digest = fs_hash(digest, choice->of[r], (size_t)p->roles[r].n_tasks);
    return digest;
}
