/* A search over the graphs that stand, and a lowered plan that fits. */
#include "config.h"
#include "cli/making.h"

#include "base/clock.h"
#include "cli/guard.h"

#include <math.h>
#include <string.h>

enum { MEMORY_ROUNDS = 6, USUAL_AXES = 2 };

/* Predictions err by more. */
#define USUAL_GAP 1e-3

static void show_line(void *ctx, const char *line)
{
    (void)ctx;
    fs_progress("%s", line);
}

/* Of a limit, what one of several searches has. */
static double share_of(const cli_making *m)
{
    return m->time_share > 0 ? m->time_share : 1;
}

static double time_limit(const cli_making *m)
{
    const cli_args *a = &m->c->args;
    if (!isnan(a->time_limit))
        return share_of(m) * a->time_limit;
    return share_of(m) * (m->by_hand || !isnan(a->work_limit) ? 1e8 : 60);
}

/* In steps; 0: as much as there is time for. */
static double work_limit(const cli_making *m)
{
    const double said = m->c->args.work_limit;
    return isnan(said) ? 0 : fmax(1, share_of(m) * said * FS_STEPS_PER_S);
}

double cli_making_gap(const cli_making *m)
{
    return isnan(m->c->args.gap) ? USUAL_GAP : m->c->args.gap;
}

const char *cli_making_engine(const cli_making *m)
{
    return m->c->args.engine ? m->c->args.engine : "ilp";
}

/* Baselines and the oracle run on their own. */
static const char *start_of(const cli_making *m)
{
    const char *said = m->c->args.start;
    if (m->by_hand || strcmp(cli_making_engine(m), "ilp") != 0)
        return NULL;
    return said && strcmp(said, "none") == 0 ? NULL : said ? said : "megatron";
}

/* The bare flag leaves them to search_problem.reduce. */
fs_status cli_parse_no_reduce(cli *c, uint32_t *without)
{
    const char *names = c->args.no_reduce;
    *without = 0;
    if (!names || !names[0])
        return FS_OK;
    fs_status status = search_reductions_parse(names, &c->err, without);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--no-reduce");
    return status;
}

static fs_status pose(cli_making *m, cost_model *cost, search_problem *out)
{
    cli *c = m->c;
    m->cost = cost;
    *out = (search_problem){
        .cluster = m->cluster,
        .cost = cost,
        .n_graphs = m->n_graphs,
        .graphs = m->graphs,
        .engine = cli_making_engine(m),
        .start = start_of(m),
        .schedule = "1f1b",
        .fix_schedule = m->recipe.schedule != NULL,
        .fix_mesh = {.n = -1},
        .gap = cli_making_gap(m),
        .max_mesh_axes = c->args.axes > 0 ? (int32_t)c->args.axes : USUAL_AXES,
        .in_full = true,
        /* A plan by hand claims no bound: proving one would only take time. */
        .effort_s = m->by_hand ? 2 : 0,
        .recut = !m->by_hand,
        .reduce = !c->args.no_reduce || c->args.no_reduce[0],
        .progress = show_line,
        .stop = m->stop,
        .any_plan = m->any_plan,
        .time_limit_s = time_limit(m),
        .most_steps = work_limit(m),
        .again = cli_making_chooses(m) ? cli_making_again : NULL,
        .casts = cli_making_chooses(m) ? cli_making_casts : NULL,
        .again_ctx = m,
        .overlap = c->args.overlap,
        .buckets = cli_making_buckets(m),
        .outgrown = m->compact.on ? &m->compact.outgrown : NULL,
    };
    out->placed = m->placed = plan_known_create(c->arena);
    FS_TRY(cli_parse_no_reduce(c, &out->without));
    FS_TRY(cli_ranks_begin(m, out));
    out->memory_bytes = m->origin.memory_bytes;
    search_recipe_apply(&m->recipe, c->arena, out);
    if (!m->by_hand && !m->recipe.schedule && c->args.schedule)
        FS_TRY(cli_parse_schedules(c, out));
    return FS_OK;
}

cli_model cli_making_model(const cli_making *m)
{
    cli_model model = m->models[(m->found.of - m->graphs) % m->n_models];
    model.graph = (ir_graph *)m->found.graph; /* who has it only reads */
    return model;
}

/* Search answers with plans that fit when lowered with the default options.
 * Streams that overlap, buckets and tensors that share nothing take more: while
 * the arena of the plan so lowered is too large, search is asked again with a
 * smaller share of the limit. */
typedef struct hunt {
    search_problem problem;
    double low, high;   /* shares: infeasible up to, too large from */
    double bound_s;     /* proven by the first round, for the whole limit */
    int64_t smallest;   /* arena found */
    double limit_bytes; /* that it was held against */
    fs_end end;
    double search_s; /* of all rounds */
} hunt;

/* What each device of a stage may take. */
static double limit_of_stage(const search_problem *problem,
                             const plan_stage *stage)
{
    double least =
        problem->memory_bytes > 0 ? (double)problem->memory_bytes : INFINITY;
    for (int32_t k = 0; k < ir_mesh_size(&stage->mesh); k++) {
        int32_t device = stage->first_device + k;
        least = fmin(
            least, hw_group_of(problem->cluster, device)->device.memory_bytes);
    }
    return least;
}

static double limit_of(const search_problem *problem, const plan *p,
                       const plan_role *role)
{
    return limit_of_stage(problem, &p->strategy->stages[role->stages[0]]);
}

bool cli_making_fits(const search_problem *problem, const plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        if ((double)p->roles[r].arena_bytes >
            limit_of(problem, p, &p->roles[r]))
            return false;
    return true;
}

/* The fullest role's arena as a fraction of its limit. */
static double fullness(hunt *h, const plan *p)
{
    double worst = 0;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        double limit = limit_of(&h->problem, p, role);
        double full = (double)role->arena_bytes / limit;
        if (full <= worst)
            continue;
        worst = full;
        h->limit_bytes = limit;
    }
    return worst;
}

int64_t cli_largest_arena(const plan *p)
{
    int64_t most = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        if (p->roles[r].arena_bytes > most)
            most = p->roles[r].arena_bytes;
    return most;
}

static fs_status lower_with(const cli_making *m, const search_plan *p,
                            int32_t ahead, const int64_t *enough,
                            fs_arena *arena, fs_err *err, plan **out)
{
    plan_lower_options options = cli_making_lowering(m, p->graph, p->strategy);

    options.progress = show_line;
    options.enough_bytes = enough;
    options.prefetch = ahead;
    options.known = m->placed;
    return plan_lower(p->graph, m->cluster, p->strategy, &options, arena, err,
                      out);
}

fs_status cli_making_try(const cli_making *m, const search_problem *problem,
                         const search_plan *p, int32_t ahead, fs_arena *arena,
                         fs_err *err, plan **out)
{
    const plan_strategy *s = p->strategy;
    int64_t *enough = fs_new(arena, int64_t, s->n_stages);
    for (int32_t i = 0; i < s->n_stages; i++)
        enough[i] = (int64_t)limit_of_stage(problem, &s->stages[i]);
    return lower_with(m, p, ahead, enough, arena, err, out);
}

static fs_status lower(cli_making *m, const search_problem *problem, plan **out)
{
    const search_plan best = {.graph = m->found.graph,
                              .strategy = m->found.strategy};
    m->ahead = cli_ahead_of(m, problem, &best);
    if (m->roughly)
        return cli_making_try(m, problem, &best, m->ahead, m->c->arena,
                              &m->c->err, out);
    FS_TRY(lower_with(m, &best, m->ahead, NULL, m->c->arena, &m->c->err, out));
    /* Offsets stop at what is little above the bound; a limit may be nearer. */
    if (cli_making_fits(problem, *out))
        return FS_OK;
    return cli_making_try(m, problem, &best, m->ahead, m->c->arena, &m->c->err,
                          out);
}

/* An interrupt that comes later, while the plan is lowered, stops no search. */
static void note_stop(cli_making *m)
{
    m->stopped = cli_guard_asked(m->c);
}

/* By work; the clock has a say where that takes much longer than it should. */
static void limit_round(const cli_making *m, hunt *h, bool first)
{
    const double share = first ? 1.0 / 2 : 1.0 / 6, limit_s = time_limit(m);
    h->problem.time_limit_s = limit_s;
    h->problem.most_steps = work_limit(m);
    h->problem.most_steps = share * search_most_steps(&h->problem);
    h->problem.time_limit_s = (first ? 1.5 : 2) * share * limit_s;
}

/* The search keeps what fits when it is lowered as usual: other rounds are for
 * other options. */
static bool may_not_fit(const cli_making *m)
{
    return !m->by_hand && cli_making_takes_more(m);
}

/* One search, one lowering. `*fits` with FS_OK, or the next share to try. Only
 * the first round's proof is told: later ones get less time. */
static fs_status hunt_once(cli_making *m, hunt *h, bool first, plan **out,
                           bool *fits)
{
    cli *c = m->c;
    double share = h->problem.memory_share;
    fs_err err = {0};
    *fits = false;
    if (h->problem.memory_bytes > 0 && may_not_fit(m))
        limit_round(m, h, first);
    fs_status status = search_run(&h->problem, c->arena, &err, &m->found);
    m->ranks.begun = false;
    h->search_s += m->found.search_s;
    if (h->problem.most_steps > 0)
        h->problem.most_steps =
            fmax(1, h->problem.most_steps - (double)m->found.steps);
    if (status == FS_NO && !first) {
        h->low = share;
        h->problem.memory_share = (h->low + h->high) / 2;
        return FS_OK;
    }
    if (status != FS_OK)
        return fs_fail(&c->err, status, "%s", err.text);
    note_stop(m);
    FS_TRY(cli_ranks_pick(m));
    if (first)
        h->bound_s = m->found.lower_bound_s;
    FS_TRY(lower(m, &h->problem, out));
    double full = fullness(h, *out);
    *fits = full <= 1;
    if (cli_largest_arena(*out) < h->smallest)
        h->smallest = cli_largest_arena(*out);
    h->high = share;
    h->problem.memory_share = share / full * 0.97;
    if (h->problem.memory_share <= h->low)
        h->problem.memory_share = (h->low + h->high) / 2;
    return FS_OK;
}

/* What a later round proves holds for its smaller share only. */
static void bound_by_first(cli_making *m, const hunt *h)
{
    search_result *f = &m->found;
    if (f->lower_bound_s <= h->bound_s)
        return;
    f->lower_bound_s = h->bound_s;
    f->gap = fmax(0, (f->iteration_s - h->bound_s) / f->iteration_s);
    if (f->gap > 1e-9)
        f->status = "feasible";
}

static fs_status too_large(cli_making *m, const hunt *h)
{
    char had[32], found[32];
    bool late = fs_end_reached(&h->end);
    m->found.status = "limit";
    return fs_fail(&m->c->err, FS_NO,
                   "memory: %s within %s per device, which is no proof that "
                   "there is none; the smallest takes %s; more devices or a "
                   "smaller batch would help%s",
                   late ? "time ran out before a plan was found that keeps"
                        : "no plan was found that keeps",
                   fs_human_bytes(had, h->limit_bytes),
                   fs_human_bytes(found, (double)h->smallest),
                   late ? ", and so would more time" : "");
}

static fs_status hunt_rounds(cli_making *m, hunt *h, plan **out)
{
    bool fits = false;
    for (int32_t k = 0; k < MEMORY_ROUNDS; k++) {
        if (k > 0 && fs_end_reached(&h->end))
            break;
        FS_TRY(hunt_once(m, h, k == 0, out, &fits));
        if (fits)
            break;
    }
    if (!fits)
        return too_large(m, h);
    bound_by_first(m, h);
    m->found.search_s = h->search_s;
    return FS_OK;
}

static fs_status search_once(cli_making *m, search_problem *problem, plan **out)
{
    cli *c = m->c;
    const bool compact = m->compact.on;
    const fs_status status = search_run(problem, c->arena, &c->err, &m->found);
    if (compact && status == FS_NO) /* why is told of graphs in full */
        atomic_store(&m->compact.outgrown, true);
    FS_TRY(status);
    m->ranks.begun = false;
    if (!cli_compact_take(m, problem->cost))
        return FS_NO;
    FS_TRY(cli_ranks_pick(m));
    FS_TRY(cli_front_find(m, problem));
    note_stop(m);
    FS_TRY(lower(m, problem, out));
    if (!compact || cli_making_fits(problem, *out))
        return FS_OK;
    atomic_store(&m->compact.outgrown, true); /* that it fits was a guess */
    return FS_NO;
}

/* Was it an interrupt that ended the search before there was a plan? */
static fs_status none_yet(cli_making *m, int64_t start_ns)
{
    char text[64], after[32];
    const int number = cli_guard_asked(m->c);
    if (!number)
        return FS_NO;
    cli_guard_text(number, text, sizeof text);
    fs_human_seconds(after, 1e-9 * (double)(fs_now_ns() - start_ns));
    m->c->err = (fs_err){0};
    fs_fail(&m->c->err, FS_FAULT,
            "%s after %s of search, before a plan was found", text, after);
    json_object_set_new(m->c->result, "fault", json_string(m->c->err.text));
    return FS_FAULT;
}

fs_status cli_making_find(cli_making *m, cost_model *cost, plan **out)
{
    const int64_t start_ns = fs_now_ns();
    hunt h = {.high = 1,
              .smallest = INT64_MAX,
              .end = fs_end_after(fs_now_ns(), time_limit(m), m->stop)};
    FS_TRY(pose(m, cost, &h.problem));
    m->ranks.search_end = h.end;
    h.problem.memory_share = 1;
    h.problem.end = cli_making_takes_more(m) ? &h.end : NULL;
    cli_compact_limit(m, time_limit(m), &h.problem);
    fs_status status = cli_making_takes_more(m)
                           ? hunt_rounds(m, &h, out)
                           : search_once(m, &h.problem, out);
    if (atomic_load(&m->compact.outgrown)) /* what is said does not count */
        return FS_NO;
    if (status == FS_NO)
        status = cli_making_misfit(m);
    fs_progress("%s", "");
    cli_making_take_again(m);
    if (status == FS_NO && strcmp(m->found.status, "limit") == 0)
        status = none_yet(m, start_ns);
    return status;
}
