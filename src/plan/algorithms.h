/* Which algorithm each collective of a plan uses: a table beside the plan, as
 * its timing is, made by cost of the plan and its cluster; what it prices is
 * what runs. */
#ifndef FS_PLAN_ALGORITHMS_H
#define FS_PLAN_ALGORITHMS_H

#include "plan/plan.h"

/* The rows of algorithms.def. */
typedef enum plan_algorithm {
#define PLAN_ALGORITHM(name, where, runs) PLAN_BY_##name,
#include "plan/algorithms.def"
#undef PLAN_ALGORITHM
    PLAN_ALGORITHMS
} plan_algorithm;

const char *plan_algorithm_name(plan_algorithm algorithm);
bool plan_algorithm_runs(plan_algorithm algorithm);
/* Of those that run; false when none is called so. */
bool plan_algorithm_find(const char *name, plan_algorithm *out);
/* "direct, ring, ..", those that run. */
const char *plan_algorithm_names(fs_arena *arena);

/* May it be done otherwise than directly? An all-reduce of more than a few
 * bytes; and a sum of 16-bit floats is a float until its last term, so that
 * only who has all terms rounds once. */
bool plan_box_varies(const plan_box_step *step, int32_t members);
enum { PLAN_FEW_BYTES = 64 };

typedef struct plan_choice {
    uint8_t **of; /* [roles][tasks] plan_algorithm; of what is no collective
                     PLAN_ALGORITHMS */
} plan_choice;
plan_choice plan_choice_new(const plan *p, fs_arena *arena);
uint64_t plan_choice_digest(const plan *p, const plan_choice *choice);

#endif
