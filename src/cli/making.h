/* Inside make_plan: a plan while it is made, and the parts that make and tell
 * it. */
#ifndef FS_CLI_MAKING_H
#define FS_CLI_MAKING_H

#include "base/clock.h"
#include "cli/compressed.h"
#include "cli/sizes.h"
#include "cost/regret.h"
#include "search/front.h"
#include "search/plans.h"
#include "search/recipe/recipe.h"
#include "sim/sim.h"

enum { CLI_MAX_GRAPHS = 16, CLI_MAX_STATES = 2, CLI_MAX_PLANS = 64 };

/* Plans that were kept beside the best (rank.c). */
typedef struct cli_ranks {
    search_ranking asked;
    const search_problem *problem;
    cost_uncertainty within;
    int32_t least; /* the plan of least regret */
    cost_regret regret[CLI_MAX_PLANS];
    int64_t peak_bytes[CLI_MAX_PLANS]; /* -1: not lowered */
    double sim_s[CLI_MAX_PLANS];       /* INFINITY: not simulated */
    double rank_s;     /* spent on all that, behind the search */
    fs_end search_end; /* when the search's time is over */
    fs_end end;        /* and the ranking's; */
    bool begun;        /* which has begun, */
    int32_t n_late;    /* and did not come to so many plans */
} cli_ranks;

typedef struct cli_expanded cli_expanded;

/* Search on compact graphs (compact.c). */
typedef struct cli_compact {
    bool on, off;             /* models are; they are not to be */
    int32_t kept;             /* layers that they have */
    search_outgrown outgrown; /* these could not say it: they are not to be */
    double search_s;          /* spent on that */
    fs_end end;               /* of both searches */
    cli_model whole[CLI_MAX_GRAPHS]; /* of the same counts, where wanted */
    FS_VEC(cli_expanded) plans;
} cli_compact;

typedef struct cli_making {
    cli *c;
    search_recipe recipe;
    bool by_hand;
    bool roughly; /* offsets that fit will do, none are looked for that are
                     lower */
    plan_origin origin;
    hw_cluster *cluster;
    const cost_model *cost; /* once a search is posed */
    int32_t n_models;
    cli_model models[CLI_MAX_GRAPHS];
    int32_t n_graphs; /* of the models; n_models of each kind of states: */
    search_graph graphs[CLI_MAX_GRAPHS * CLI_MAX_STATES];
    bool any_states;  /* their precision is to be chosen */
    fs_arena *narrow; /* of graphs that are not a model's; NULL */
    cli_model again[CLI_MAX_GRAPHS]; /* of the same counts, with copies of what
                                        may be computed again, where wanted */
    cli_sizes *again_sizes;          /* that makes these; NULL */
    cli_model casts[CLI_MAX_GRAPHS]; /* the same of casts alone, */
    cli_sizes *casts_sizes;          /* that makes these; NULL */
    const char *policy; /* that chose these; NULL: none was wanted, "": none
                           suits the network */
    double graphs_s;    /* spent on building them */
    search_result found;
    const atomic_bool *stop; /* set: a plan now, as good as it is; NULL */
    atomic_bool *any_plan;   /* there is one; NULL: by hand */
    plan_known *placed;      /* placements that search and ranking found */
    int32_t ahead;           /* plan_lower_options.prefetch of what is made */
    int stopped;             /* the signal that ended the search; 0: none */
    double time_share;       /* of the limit, that a search has; 0: all */
    cli_compressed packed;   /* with --compress */
    cli_ranks ranks;
    cli_compact compact;
    struct cli_front *front; /* with --pareto */
    struct cli_idle *idle;   /* with --allow-idle */
} cli_making;

/* ---- idle.c ---- */
/* With --allow-idle: the part of the cluster that the recipe wants, or on which
 * `attempt` finds the best plan, takes its place. */
fs_status cli_idle_begin(cli_making *m, fs_status (*attempt)(cli_making *m));
/* Lowers the bound of what was found to that of all parts. */
void cli_idle_bound(cli_making *m);
void cli_idle_json(const cli_making *m);
void cli_idle_tell(const cli_making *m);

/* ---- compact.c ---- */
/* Compact graphs of so many micro-batch counts, as m->models; false: where the
 * network is not as deep as that, or who asks wants more than they can say. */
bool cli_compact_build(cli_making *m, const cost_model *cost, int32_t n,
                       const int32_t *counts);
/* The same plan on the graph in full. False, and they are outgrown: the graph
 * is not what was meant, or the plan takes other seconds. Nothing to do where
 * graphs are in full. */
bool cli_compact_expand(cli_making *m, const cost_model *cost, search_plan *p);
/* What was found is said of graphs in full, which take the place of m->models.
 */
bool cli_compact_take(cli_making *m, const cost_model *cost);
/* A search of graphs in full has what compact ones left of the time, or half of
 * it. */
void cli_compact_limit(cli_making *m, double limit_s, search_problem *problem);
void cli_compact_close(cli_making *m);

/* ---- schedules.c ---- */
/* Is it a list, or any? */
bool cli_several_schedules(const char *schedule);
/* --schedule's list: of schedules, with how many stages each has on a group of
 * devices. FS_INVALID: there is no such one, or none for a single group. */
fs_status cli_parse_schedules(cli *c, search_problem *out);

/* ---- buckets.c ---- */
fs_status cli_check_buckets(cli *c);
/* Do collectives go together? */
bool cli_making_buckets(const cli_making *m);
/* Do plans take more memory than search thinks, which lowers as usual? */
bool cli_making_takes_more(const cli_making *m);
/* By the command's options. */
plan_lower_options cli_making_lowering(const cli_making *m,
                                       const ir_graph *graph,
                                       const plan_strategy *strategy);

/* ---- ahead.c ---- */
fs_status cli_check_registers(cli *c);
/* Simulated seconds of a plan with the command's registers: usual, or as many
 * (*ahead, unless NULL: plan_lower_options.prefetch) as make it fastest within
 * the problem's limits; *bytes: its largest arena, -1: not lowered. INFINITY:
 * it does not fit. */
double cli_simulate_ahead(const cli_making *m, const search_problem *problem,
                          const search_plan *p, int32_t *ahead, int64_t *bytes);
int32_t cli_ahead_of(const cli_making *m, const search_problem *problem,
                     const search_plan *p);

/* ---- states.c ---- */
/* What the origin says of states, checked; any: for the search to say. */
fs_status cli_making_take_states(cli_making *m);
/* Before the models are made, */
void cli_making_begin_states(cli_making *m);
/* m->graphs, of those that the models have, in each precision of states that is
 * to choose from, */
fs_status cli_making_add_states(cli_making *m);
void cli_making_end_states(cli_making *m);
/* A graph with the states of `of`, one of m->graphs, but else as `graph`. */
const ir_graph *cli_making_with_states(cli_making *m, const ir_graph *graph,
                                       const search_graph *of);

/* ---- hunt.c ---- */
/* Bytes of the role that takes most. */
int64_t cli_largest_arena(const plan *p);
const char *cli_making_engine(const cli_making *m);
double cli_making_gap(const cli_making *m); /* that is asked for */
/* The reductions that --no-reduce names; none with the bare flag. */
fs_status cli_parse_no_reduce(cli *c, uint32_t *without);
/* problem->again and problem->casts (again.c): ctx is the making. */
search_again_fn cli_making_again, cli_making_casts;
void cli_making_close_again(cli_making *m);
/* What an attempt before chose is not this one's. */
void cli_making_forget_again(cli_making *m);
/* Is what is computed again left open? Then nothing is where memory has no
 * say, not even casts. */
bool cli_making_any(const cli_making *m);
/* And is it chosen? An oracle does not. */
bool cli_making_chooses(const cli_making *m);
/* The origin says how the found plan's graph is made. */
void cli_making_take_again(cli_making *m);
/* Searches all graphs of `m` (m->found) and lowers what it found. */
fs_status cli_making_find(cli_making *m, cost_model *cost, plan **out);
/* One of its plans, lowered with the command's options, whose arenas are looked
 * at until they keep the problem's limits, no further. */
fs_status cli_making_try(const cli_making *m, const search_problem *problem,
                         const search_plan *p, int32_t ahead, fs_arena *arena,
                         fs_err *err, plan **out);
/* Does it keep the problem's limits? */
bool cli_making_fits(const search_problem *problem, const plan *p);
/* The best, with the graph as the plan has it; not to be closed. */
cli_model cli_making_model(const cli_making *m);

/* ---- rank.c ---- */
/* problem->ranking, by --keep and the data that the choice hangs on; none for a
 * plan by hand. */
fs_status cli_ranks_begin(cli_making *m, search_problem *problem);
/* When it ends at the latest; NULL: it has not begun. */
const fs_end *cli_ranks_end(const cli_making *m);
/* The one that was asked for by its number becomes the answer. */
fs_status cli_ranks_pick(cli_making *m);
/* Regrets of the plans that were found; one alone was not ranked: what is
 * known of it lowered and simulated. */
void cli_ranks_finish(cli_making *m, const cli_plan *chosen,
                      const sim_result *sim);
void cli_ranks_json(const cli_making *m);
void cli_ranks_tell(const cli_making *m);

/* ---- front.c ---- */
/* Options of --pareto; before anything is computed. */
fs_status cli_front_check(cli *c);
/* With --pareto: the fronts of what m->found is the answer to, which becomes
 * that of the point picked. */
fs_status cli_front_find(cli_making *m, const search_problem *problem);
void cli_front_json(const cli_making *m);
void cli_front_tell(const cli_making *m);
fs_status cli_front_draw(const cli_making *m);

/* ---- misfit.c ---- */
/* A search said FS_NO: where memory is why, tells how much would do and what of
 * the smallest plan is over; of a recipe the message becomes its own. */
fs_status cli_making_misfit(cli_making *m);

/* ---- tell_plan.c ---- */
/* "2x2", or of stages that differ "4/2". */
const char *cli_meshes_text(fs_arena *arena, const ir_mesh *mesh, int32_t n);
const char *cli_stage_meshes_text(fs_arena *arena, const plan_strategy *s);
/* "2 of 2x2, m 4, 1f1b, layers 6/6, devices 2-3, 0-1": how one plan differs
 * from others; `whole`: its graph before it was bound to stages (NULL: nobody
 * has it any more). */
const char *cli_shape_text(fs_arena *arena, const ir_graph *whole,
                           const ir_graph *bound, const plan_strategy *s);
/* The last two as keys, where they say anything. */
void cli_shape_json(json_t *row, fs_arena *arena, const ir_graph *whole,
                    const ir_graph *bound, const plan_strategy *s);
/* "2-3, 0-1", the devices of each stage; NULL: they are in order. */
const char *cli_stage_devices_text(fs_arena *arena, const plan_strategy *s);
/* Of a graph that was bound to the stages, in the form that --layers takes. */
const char *cli_layers_text(fs_arena *arena, const ir_graph *graph,
                            const ir_graph *bound, const plan_strategy *s);
/* Configurations and how far each was proven, digests of what was asked. */
void cli_making_question(const cli_making *m);
/* There is none: the same keys as with one, null where they have no value. */
void cli_making_no_plan(const cli_making *m);
void cli_making_json(const cli_making *m, const cli_plan *p,
                     const sim_result *sim);
void cli_making_tell(const cli_making *m, const cli_plan *p,
                     const sim_result *sim, const plan_report *proof);

#endif
