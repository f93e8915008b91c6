/* Inside `explain`: why the plan is as it is, for an op or a stage. */
#ifndef FS_CLI_EXPLAIN_H
#define FS_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "search/variant.h"

typedef struct cli_explaining {
    cli *c;
    const cli_plan *p;
    cost_summary cost;
    int64_t memory_bytes; /* limit per device besides its own: --memory, or
                             what the plan was made within; 0 */
} cli_explaining;

json_t *cli_tree_json(const plan_breakdown *tree);
fs_status cli_explain_op(const cli_explaining *e, const char *name);
fs_status cli_explain_stage(const cli_explaining *e, int64_t stage);

/* ---- explain_next.c: what else there is ---- */

/* A plan with something otherwise, all else chosen anew. */
typedef struct cli_other {
    const char *what;
    search_variant variant;
    fs_status status; /* FS_NO: none */
    const char *why;  /* there is none */
    search_result found;
    double iteration_s, bound_s; /* NAN: none */
    double free_s;    /* where memory is no limit; then, NULL if that fits: */
    const char *over; /* "stage 0 would take 3 GiB of 2 GiB, .." */
    bool open;        /* what fits was not looked for */
} cli_other;
/* Of a variant of the plan, whose cluster, cost and strategy are filled in:
 * where memory is no limit, and, if that does not fit, what does. */
void cli_other_begin(const cli_explaining *e, cli_other *other);
void cli_other_finish(const cli_explaining *e, cli_other *other);
/* "next_best" and the like. */
json_t *cli_other_json(const cli_explaining *e, const cli_other *other);
/* What binds: told as lines, and added to the list of "binds". */
typedef struct cli_binds {
    const cli_explaining *e;
    json_t *list;
} cli_binds;
void cli_bind(cli_binds *binds, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Does the stage set the pace, and how much room is there? */
void cli_bind_pace(cli_binds *binds, int32_t stage);
/* Does something else keep the plan from taking what its stages could? */
void cli_bind_told(cli_binds *binds, double anew_s);
/* How full are the stage's devices, and when? */
void cli_bind_memory(cli_binds *binds, int32_t stage);

/* "+1.3 %". */
const char *cli_against(const cli_explaining *e, double seconds);
/* "stage 0 would take 3 GiB of 2 GiB, over with activations at .."; NULL: the
 * strategy's plan fits. */
const char *cli_over_text(const cli_explaining *e, const ir_graph *graph,
                          const plan_strategy *strategy);
/* Who says the limit: "of --memory", "that the plan was made within". */
const char *cli_limit_source(const cli_explaining *e);
/* What a device of a role may hold. */
int64_t cli_role_limit(const cli_explaining *e, const plan_role *role);

#endif
