/* How many registers there are beyond what a schedule needs: one stream may run
 * as far ahead of another. More of them only take memory and save waiting, so
 * what search proves holds for any number of them. */
#include "config.h"
#include "cli/making.h"

#include "cli/predict.h"

#include <math.h>
#include <string.h>

enum { USUAL = 1 };
static const int32_t any[] = {USUAL, 2, 4, 8};
enum { N_ANY = sizeof any / sizeof *any };

static bool chooses(const cli_making *m)
{
    return m->c->args.registers && strcmp(m->c->args.registers, "any") == 0;
}

fs_status cli_check_registers(cli *c)
{
    const char *said = c->args.registers;
    if (!said || strcmp(said, "any") == 0 || strcmp(said, "usual") == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID, "--registers %.40s: usual or any",
                   said);
}

/* Lowered, but for arenas, which may be larger, and simulated as the plan that
 * is chosen will be. INFINITY: it does not fit. */
static double simulate(const cli_making *m, const search_problem *problem,
                       const search_plan *p, int32_t ahead, int64_t *bytes)
{
    fs_arena *scratch = fs_arena_create();
    fs_err ignored = {0};
    plan *lowered;
    sim_result sim = {.iteration_s = INFINITY};
    *bytes = -1;
    if (cli_making_try(m, problem, p, ahead, scratch, &ignored, &lowered) ==
        FS_OK) {
        plan_timing *timing =
            cost_timing(problem->cost, p->graph, lowered, scratch);
        const sim_options options = {
            .steps = CLI_SIM_STEPS, .straggler = 1, .end = cli_ranks_end(m)};
        *bytes = cli_largest_arena(lowered);
        if (!cli_making_fits(problem, lowered) ||
            sim_run(p->graph, lowered, m->cluster, timing, &options, scratch,
                    &ignored, &sim) != FS_OK)
            sim.iteration_s = INFINITY;
    }
    fs_arena_destroy(scratch);
    return sim.iteration_s;
}

double cli_simulate_ahead(const cli_making *m, const search_problem *problem,
                          const search_plan *p, int32_t *ahead, int64_t *bytes)
{
    double best_s = simulate(m, problem, p, USUAL, bytes);
    int32_t best = USUAL;
    for (int32_t k = 1; chooses(m) && isfinite(best_s) && k < N_ANY; k++) {
        int64_t taken;
        const double s = simulate(m, problem, p, any[k], &taken);
        if (!(s < best_s))
            continue;
        best_s = s;
        best = any[k];
        *bytes = taken;
    }
    if (ahead)
        *ahead = best;
    return best_s;
}

int32_t cli_ahead_of(const cli_making *m, const search_problem *problem,
                     const search_plan *p)
{
    int32_t ahead = USUAL;
    int64_t bytes;
    if (chooses(m))
        cli_simulate_ahead(m, problem, p, &ahead, &bytes);
    return ahead;
}
