/* Other engines' ways to a plan. Where memory decides the plan that is best by
 * the network need not fit, and which one does hangs on what an engine happens
 * to choose, as does how stages are cut again by it. So while a gap is left
 * engines without proof (rivals.def) get a part of the work, each to search the
 * whole problem as if on its own: what they find in that the search is not
 * worse than. */
#include "config.h"
#include "search/attempt.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/lay_out.h"
#include "search/cuts/cut.h"
#include "search/cuts/recut.h"
#include "search/narrow.h"
#include "search/space.h"

#include <math.h>
#include <string.h>

static const char *const rivals[] = {
#define SEARCH_RIVAL(engine) #engine,
#include "search/rivals.def"
#undef SEARCH_RIVAL
};

enum { N_RIVALS = sizeof rivals / sizeof *rivals };
/* The one that cuts unevenly; its work, and what that is taken to be for each
 * node and device. */
#define UNEVEN "alpa"
#define UNEVEN_WORK_S 1
enum { UNEVEN_STEPS = 200000 };
/* So much may be won by other cuts. */
#define MUCH_GAP 0.01

/* The ranks that the stages of a plan begin at; NULL: they are no runs. */
static int32_t *begins_of(search_level0 *z, const ir_graph *graph,
                          const plan_strategy *s)
{
    const search_ranks *ranks = search_ranks_of(z, graph);
    int32_t *begin = fs_new(z->scratch, int32_t, s->n_stages);
    for (int32_t r = 0, k = -1; r < ranks->n; r++) {
        const int32_t stage = s->stage_of[ranks->order[r]];
        if (stage == k)
            continue;
        if (stage != k + 1)
            return NULL;
        begin[++k] = r;
    }
    return begin;
}

/* Its stages as those of a configuration that balances seconds? */
static bool is_cut_so(search_level0 *z, const search_candidate *c,
                      const int32_t *begin)
{
    search_candidate anew;
    bool same = search_lay_out_anew(z, c, &anew);
    if (same) {
        const search_ranks *ranks = search_ranks_of(z, anew.layout.graph);
        for (int32_t k = 0; k < c->n_stages; k++)
            same &= anew.layout.stage_of[ranks->order[begin[k]]] == k &&
                    (k == 0 ||
                     anew.layout.stage_of[ranks->order[begin[k] - 1]] == k - 1);
    }
    fs_arena_destroy(anew.arena);
    return same;
}

static const ir_mesh *own_meshes(search_level0 *z, const plan_strategy *s)
{
    ir_mesh *mesh = fs_new(z->arena, ir_mesh, s->n_stages);
    bool differ = false;
    for (int32_t i = 0; i < s->n_stages; i++) {
        mesh[i] = s->stages[i].mesh;
        differ |= !plan_same_mesh(&mesh[0], &mesh[i]);
    }
    return differ ? mesh : NULL;
}

/* The configuration of a rival's plan, whose stages may be cut otherwise than
 * those of all others. */
static search_candidate *place_of(search_level0 *z, const search_result *found)
{
    const plan_strategy *s = found->strategy;
    const int32_t n = z->all.n;
    search_candidate *c = search_candidate_of(z, found);
    const int32_t *begin = begins_of(z, found->graph, s);
    const ir_mesh *mesh = own_meshes(z, s);
    if (!begin || z->problem->stage_of || z->problem->n_layers ||
        (!mesh && is_cut_so(z, c, begin)))
        return c;
    search_part *part = fs_new(z->scratch, search_part, 1);
    *part = (search_part){++z->n_parts, begin, mesh, false};
    search_candidate *one = search_add_part(z, c, part);
    if (n + 2 == z->all.n) /* its own cut was not asked for */
        z->all.at[n] = z->all.at[--z->all.n];
    return one;
}

/* Of a plan that was searched without limits. */
static bool fits_here(search_level0 *z, search_candidate *c,
                      const search_result *found)
{
    const plan_strategy *s = found->strategy;
    search_candidate anew;
    bool fits = search_lay_out_anew(z, c, &anew);
    if (fits) {
        int64_t *limit = fs_new(anew.arena, int64_t, s->n_stages);
        int64_t *bytes = fs_new(anew.arena, int64_t, s->n_stages);
        search_stage_limits(z, &anew.layout, limit);
        fits = search_fits(z->problem, found->graph, limit, found->strategy,
                           bytes);
    }
    fs_arena_destroy(anew.arena);
    return fits;
}

/* Its plan, and whether it was searched within the limits; what was not may
 * exceed them. */
static void take_found(search_level0 *z, search_result *found, bool within)
{
    if (z->kept.from && found->iteration_s >= z->kept.cost_s)
        return;
    const int32_t n = z->all.n;
    search_candidate *c = place_of(z, found);
    if (within || fits_here(z, c, found))
        search_keep_found(z, c, found);
    else
        z->all.n = n; /* nothing is known of its cut, were it new */
}

static search_problem posed(const search_level0 *z, const char *engine,
                            double most_steps)
{
    search_problem one = search_part_of(z);
    one.engine = engine;
    one.recut = z->problem->recut;
    one.fix_schedule = z->problem->fix_schedule;
    one.n_schedules = z->problem->n_schedules;
    one.progress = NULL; /* it proves nothing */
    one.end = &z->end;
    one.most_steps = most_steps;
    return one;
}

static void try_rival(search_level0 *z, const char *engine, double most_steps)
{
    const search_problem one = posed(z, engine, most_steps);
    search_result found = {0};
    if (search_run_part(z, &one, &found))
        take_found(z, &found, true);
}

/* Without the limit: what is best of all may fit, and cuts that lead to it are
 * those that nobody takes for better within. */
static void try_without_limit(search_level0 *z, double most_steps)
{
    search_problem one = posed(z, z->problem->engine, most_steps);
    search_result found = {0};
    one.memory_bytes = 0;
    if (z->problem->memory_bytes > 0 && search_run_part(z, &one, &found))
        take_found(z, &found, false);
}

/* Where little is proven of other cuts a plan may be worse than what a worse
 * one would have led to: who asks for no more of a gap than is usual is not to
 * have one worse than a rival's. */
static bool may_know_cuts(search_level0 *z)
{
    static const search_problem usual; /* of no gap */
    const search_problem *p = z->problem;
    return p->start && !p->rounds && !p->outgrown && z->kept.from &&
           p->n_schedules < 2 && /* simulation chooses among these */
           search_wants_cuts(z) && !search_over(z) &&
           z->asked->gap <= search_first_gap(&usual) &&
           search_every_cut_open(z, search_near(z->kept.cost_s, MUCH_GAP));
}

/* Nothing is proven of the best plan's cut where a rival found it, or a glance,
 * nor of the same with what is computed again: it would leave the search
 * without any proof. */
fs_status search_prove_best_cut(search_level0 *z, fs_err *err)
{
    enum { PASSES = 4 };
    const search_part *part = z->kept.from ? z->kept.from->part : NULL;
    if (!part)
        return FS_OK;
    z->best = NULL;
    z->best_s = z->kept.cost_s;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        for (int32_t pass = 1;
             pass < PASSES && c->part == part && !c->settled &&
             (c->record.lower_bound_s <= 0 || !c->solved) && !search_over(z);
             pass++)
            FS_TRY(search_solve_few(z, &c, 1, pass, err));
    }
    if (z->best)
        search_keep_best(z);
    return FS_OK;
}

fs_status search_try_rivals(search_level0 *z, fs_err *err)
{
    const double end = search_rivals_end(z);
    for (int32_t k = 0; k < N_RIVALS && !search_over(z); k++) {
        const double left = end - (double)search_steps(z);
        if (left > 1)
            try_rival(z, rivals[k], fmax(1, left / (N_RIVALS - k)));
    }
    return search_prove_best_cut(z, err);
}

/* Recipes cut stages evenly; where memory refuses some, runs of layers of other
 * lengths may fit where none of theirs does, and a good plan to begin with is
 * worth more than what that takes, of small networks on few devices. */
void search_start_uneven(search_level0 *z)
{
    const double size = (double)z->problem->graphs->graph->nodes.n *
                        z->problem->cluster->n_devices;
    search_problem one = search_part_of(z);
    search_start_end(z, &one);
    const double most =
        fmin(2 * one.soon_steps, UNEVEN_WORK_S * FS_STEPS_PER_S);
    if (z->refused && search_wants_cuts(z) && !search_over(z) &&
        size * UNEVEN_STEPS < most)
        try_rival(z, UNEVEN, most);
}

/* A space of more axes takes so much longer that its best plan may be worse
 * than what the usual one in it has: that is searched first, for this part of
 * the work and of the time. */
#define USUAL_PART 0.3
#define USUAL_PROOF 0.01
enum { USUAL_AXES = 2 };

void search_start_usual(search_level0 *z)
{
    const search_problem *p = z->problem;
    search_problem one = search_part_of(z);
    search_result found = {0};
    if (p->max_mesh_axes <= USUAL_AXES || p->n_schedules > 1 ||
        p->fix_mesh.n > USUAL_AXES || p->stage_mesh || p->rounds ||
        z->engine != search_ilp || search_over(z))
        return;
    const fs_end end = fs_end_share(&z->end, USUAL_PART);
    one.start = p->start;
    one.recut = p->recut;
    one.progress = p->progress;
    one.max_mesh_axes = USUAL_AXES;
    one.gap = fmax(p->gap, USUAL_PROOF);
    one.most_steps = USUAL_PART * search_most_steps(p);
    one.end = &end;
    if (!search_run_part(z, &one, &found))
        return;
    z->refused |= found.memory_decides;
    take_found(z, &found, true);
    z->first_s = found.first_s;
}

/* As much work as was done for each, or a part of this where no more than the
 * usual is asked for. */
#define USUAL_RIVALS_S 6
static double part_of(const search_level0 *z, double done)
{
    const double usual = FS_STEPS_PER_S * USUAL_RIVALS_S / N_RIVALS;
    if (z->asked->gap >= search_first_gap(z->asked))
        done = fmin(done, usual);
    return fmin(done, (double)(z->most_steps - search_steps(z)));
}

bool search_ask_rivals(search_level0 *z)
{
    const double best_s = z->kept.cost_s, done = (double)search_steps(z);
    if (z->memory_decides && may_know_cuts(z))
        try_without_limit(z, part_of(z, done));
    for (int32_t k = 0; k < N_RIVALS && may_know_cuts(z); k++)
        try_rival(z, rivals[k], part_of(z, done));
    return z->kept.cost_s < best_s;
}
