/* Parts of plan_check; not for other folders. Each part appends findings; all
 * but the first take a plan whose structure was found sound. */
#ifndef FS_PLAN_CHECK_PARTS_H
#define FS_PLAN_CHECK_PARTS_H

#include "ir/works.h"
#include "plan/check.h"
#include "plan/schedule.h"
#include "plan/text.h"

enum { PLAN_MOST_FINDINGS = 20 }; /* of a report */

/* One firing that goes over a line: a communicator or a channel. */
typedef struct plan_issue {
    int32_t slot, task;
} plan_issue;
typedef FS_VEC(plan_issue) plan_issue_list;

typedef struct plan_checking {
    const ir_graph *graph;
    const hw_cluster *cluster;
    const plan *p;
    fs_arena *arena, *scratch; /* of the report, of the check */
    plan_report *report;
    ir_works works;
    plan_pipeline pipe; /* once the strategy is sound; and */
    /* Filled once the structure is sound: */
    int32_t *role_of_rank;
    int32_t **slot_base; /* [roles][slots] firings before the slot; one role's
                            firings are numbered in program order */
    int32_t *n_firings;  /* [roles] */
    int32_t **section_first; /* [roles][sections + 1] first task of a section */
    int32_t n_lines;         /* communicators, then channels */
    plan_issue_list *issues; /* [roles * n_lines] in program order */
    /* Of a plan with repetitions left out (check_short.c), or NULL: */
    struct plan_check_cut *cut;
    const struct plan_check_lives *lives; /* [roles] */
} plan_checking;

/* What tells that a plan is live however often its middle is repeated. Given:
 * the micro-batches of a repetition, those that any role's program repeats. */
typedef struct plan_check_cut {
    int32_t micro_batches, low, high;
    int32_t *window_first; /* [roles] slots of a repetition in the middle: */
    int32_t *window_end;
    bool holds;
    int64_t n_transitions, n_places; /* of a repetition */
} plan_check_cut;

/* A role's program as its memory is looked at, which keeps its registers. */
typedef struct plan_check_lives {
    plan p;
    int32_t first_out, left_out; /* of two runs (plan_short_runs) */
} plan_check_lives;

bool plan_check_full(const plan_checking *c); /* no room for more findings */
void plan_check_add(plan_checking *c, plan_finding_kind kind,
                    const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "relu h (ranks 0-3, forward of micro-batch 2)"; slot -1: without the firing.
 */
const char *plan_check_task_text(const plan_checking *c, int32_t role,
                                 int32_t slot, int32_t task);
const char *plan_check_ranks_text(const plan_checking *c, int32_t role);
/* "communicator 0 (stage 1, axis 0)". */
const char *plan_check_line_text(const plan_checking *c, int32_t line);

void plan_check_structure(plan_checking *c);
/* Of one role whose tasks and registers are sound: its slots are those of the
 * schedule; its streams are those that its tasks and channels need. */
void plan_check_program(plan_checking *c, int32_t role);
void plan_check_streams(plan_checking *c, int32_t role);
/* Fills the lower half of plan_checking; false (with a finding) when the plan
 * unrolls to more than can be walked. */
bool plan_check_unroll(plan_checking *c);
/* The firings of a role, which are added to the total; false: too many. */
bool plan_check_number(plan_checking *c, int32_t role, int64_t *total);
/* Looks at the plan with repetitions left out, where that says the same of all
 * of it. True: it is sound, and the report says so. False: nothing is said. */
bool plan_check_short(plan_checking *c);
/* The same of memory alone. */
bool plan_check_short_memory(plan_checking *c);
/* For every role the smallest role that it meets on this line, over however
 * many others; -1 when it has no part in it. */
void plan_check_partners(const plan_checking *c, int32_t line, int32_t *root);

void plan_check_strategy(plan_checking *c);
void plan_check_sbp(plan_checking *c);
void plan_check_order(plan_checking *c);
void plan_check_live(plan_checking *c);
void plan_check_memory(plan_checking *c);

/* The tasks that run in a slot: first to end - 1. */
typedef struct plan_slot_tasks {
    int32_t first, end;
} plan_slot_tasks;
plan_slot_tasks plan_check_tasks_in(const plan_checking *c, int32_t role,
                                    int32_t slot);

/* The firing of `task` in a slot, and the first and last of the step or that
 * of a micro-batch (tasks that run once per step: the one they have). */
int32_t plan_check_firing(const plan_checking *c, int32_t role, int32_t slot,
                          int32_t task);
int32_t plan_check_firing_at(const plan_checking *c, int32_t role, int32_t task,
                             int32_t micro_batch);

#endif
