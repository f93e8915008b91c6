/* Which algorithms collectives use. */
#ifndef FS_COST_CHOICE_H
#define FS_COST_CHOICE_H

#include "cost/cost.h"
#include "plan/algorithms.h"

/* All-reduces are done so, where they may, and not by what is quickest. */
void cost_model_reduce_by(cost_model *model, plan_algorithm algorithm);
/* By what a collective is done: what its step's cost is of. */
plan_algorithm cost_algorithm(const cost_model *model, const plan_stage *stage,
                              const plan_box_step *step);
plan_choice cost_choice(const cost_model *model, const plan *p,
                        fs_arena *arena);

#endif
