/* A simulation before its first instant: what is told of tasks once and for
 * all, and dense state. */
#include "config.h"
#include "sim/beside.h"
#include "sim/noise.h"
#include "sim/watch.h"

/* ---- tasks ---- */

static double seconds_of(const simulation *s, int32_t r, int32_t t)
{
    const plan_role *role = &s->p->roles[r];
    const double seconds = s->timing->demand[r][t].total_s;
    const int32_t behind = s->options->straggler_rank - role->first_rank;
    return s->options->straggler > 1 && behind >= 0 && behind < role->n_ranks &&
                   role->tasks[t].kind == PLAN_COMPUTE
               ? seconds * s->options->straggler
               : seconds;
}

static sim_task task_of(const simulation *s, int32_t r, int32_t t)
{
    const plan_role *role = &s->p->roles[r];
    const plan_task *task = &role->tasks[t];
    const plan_demand *demand = &s->timing->demand[r][t];
    return (sim_task){
        .demand_ps = sim_ps_of(s->seconds[r][t]),
        .line = task->channel >= 0 ? s->p->n_comms + task->channel : task->comm,
        .on_core = demand->on_core && sim_cores_shared(&s->resources, r),
        .loads = task->kind == PLAN_LOAD,
        .computes = plan_task_computes(task),
        .communicates = task->comm >= 0 || task->channel >= 0};
}

static void make_tasks(simulation *s)
{
    s->tasks = fs_new(s->arena, sim_task *, s->p->n_roles);
    s->seconds = fs_new(s->arena, double *, s->p->n_roles);
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const int32_t n = s->p->roles[r].n_tasks;
        s->tasks[r] = fs_new_lines(s->arena, sim_task, n);
        s->seconds[r] = fs_new(s->arena, double, n);
        for (int32_t t = 0; t < n; t++) {
            s->seconds[r][t] = seconds_of(s, r, t);
            s->tasks[r][t] = task_of(s, r, t);
        }
    }
}

/* ---- lines ---- */

static void make_lines(simulation *s)
{
    int32_t n = s->p->n_comms + s->p->n_channels;
    int32_t *seen = fs_new(s->arena, int32_t, n); /* 1 + last role */
    s->lines = fs_new(s->arena, sim_line, n);
    for (int32_t r = 0; r < s->p->n_roles; r++)
        for (int32_t t = 0; t < s->p->roles[r].n_tasks; t++) {
            int32_t line = s->tasks[r][t].line;
            if (line < 0 || seen[line] == r + 1)
                continue;
            seen[line] = r + 1;
            s->lines[line].n_members++;
        }
    for (int32_t i = 0; i < n; i++)
        s->lines[i].arrived = fs_new(s->arena, int32_t, s->lines[i].n_members);
}

/* ---- roles ---- */

static int64_t firings_of(const plan_role *role, int32_t micro_batches)
{
    int64_t n = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        n += plan_phase_once(role->tasks[t].phase) ? 1 : micro_batches;
    return n;
}

static void make_roles(simulation *s)
{
    const plan *p = s->p;
    s->actors = fs_new(s->arena, plan_actors *, p->n_roles);
    s->first_stream = fs_new(s->arena, int32_t, p->n_roles + 1);
    s->touched = fs_new(s->arena, int32_t, p->n_roles);
    s->woken = fs_new(s->arena, uint64_t, p->n_roles);
    s->meters = fs_new_lines(s->arena, sim_meter, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        /* Who watches bytes by their class asks for all counts. */
        s->actors[r] =
            (sim_watches(s) ? plan_actors_create : plan_actors_create_ordered)(
                p, role, s->steps, s->arena);
        s->first_stream[r + 1] = s->first_stream[r] + role->n_streams;
        s->touched[s->n_touched++] = r;
        s->woken[r] = UINT64_MAX;
        s->meters[r].live_bytes = sim_standing_bytes(role);
        s->meters[r].peak_bytes = s->meters[r].live_bytes;
        s->firings += firings_of(role, p->micro_batches);
    }
    s->left = fs_new(s->arena, int64_t, s->steps);
    s->end_ns = fs_new(s->arena, int64_t, s->steps);
    s->at_end = fs_new(s->arena, sim_meter *, s->steps);
    for (int64_t k = 0; k < s->steps; k++) {
        s->left[k] = s->firings;
        s->at_end[k] = fs_new_lines(s->arena, sim_meter, p->n_roles);
    }
}

static void make_streams(simulation *s)
{
    int32_t n = s->first_stream[s->p->n_roles];
    s->role_of = fs_new(s->arena, int32_t, n);
    s->lanes = fs_new_lines(s->arena, sim_lane, n);
    s->jobs = fs_new_lines(s->arena, sim_job, n);
    s->heap = sim_heap_make(n, s->arena);
    for (int32_t r = 0; r < s->p->n_roles; r++)
        for (int32_t i = s->first_stream[r]; i < s->first_stream[r + 1]; i++) {
            s->role_of[i] = r;
            s->jobs[i].role = r;
            s->jobs[i].stream = i - s->first_stream[r];
            s->lanes[i] =
                (sim_lane){.actors = s->actors[r],
                           .cursor = &s->actors[r]->cursor[s->jobs[i].stream],
                           .tasks = s->tasks[r],
                           .meter = &s->meters[r],
                           .head = {.ready_ns = -1}};
        }
}

/* ---- who may go on ---- */

/* Those that actors wake, and who waits for its turn on the line. */
static void find_wakes(simulation *s)
{
    const int32_t n_lines = s->p->n_comms + s->p->n_channels;
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const plan_role *role = &s->p->roles[r];
        uint64_t *on_line = fs_new(s->arena, uint64_t, n_lines);
        for (int32_t t = 0; t < role->n_tasks; t++)
            if (s->tasks[r][t].line >= 0)
                on_line[s->tasks[r][t].line] |=
                    plan_stream_bit(role->tasks[t].stream);
        for (int32_t t = 0; t < role->n_tasks; t++) {
            const int32_t line = s->tasks[r][t].line;
            s->tasks[r][t].wakes =
                plan_actor_wakes_of(s->actors[r], t).by[true] |
                (line < 0 ? 0 : on_line[line]);
        }
    }
}

static void find_slowed(simulation *s)
{
    for (int32_t r = 0; r < s->p->n_roles; r++)
        for (int32_t t = 0; t < s->p->roles[r].n_tasks; t++)
            s->tasks[r][t].slowed = s->tasks[r][t].computes &&
                                    s->tasks[r][t].line < 0 &&
                                    sim_beside_slowest(s, r) < PLAN_RATE_FULL;
}

/* ---- chains ---- */

/* A line is its role's own, and of one stream. */
static bool *own_lines(const simulation *s, int32_t r)
{
    const plan_role *role = &s->p->roles[r];
    const int32_t n = s->p->n_comms + s->p->n_channels;
    bool *own = fs_new(s->arena, bool, n);
    int32_t *stream = fs_new(s->arena, int32_t, n); /* 1 + the first seen */
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const int32_t line = s->tasks[r][t].line;
        if (line < 0)
            continue;
        own[line] = s->lines[line].n_members == 1 &&
                    (stream[line] == 0 ||
                     (own[line] && stream[line] == role->tasks[t].stream + 1));
        stream[line] = role->tasks[t].stream + 1;
    }
    return own;
}

/* Chains are of what shares nothing with other roles. */
static plan_paces *paces_of(const simulation *s, int32_t r)
{
    const plan_role *role = &s->p->roles[r];
    const bool *own = own_lines(s, r);
    plan_paces *paces = fs_new(s->arena, plan_paces, 1);
    int64_t *demand_ps = fs_new(s->arena, int64_t, role->n_tasks);
    bool shares = false;
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const sim_task *task = &s->tasks[r][t];
        const bool on_line = task->line >= 0;
        if (task->on_core ||
            (on_line && (task->line >= s->p->n_comms || !own[task->line] ||
                         s->shared[task->line] == SIM_WITH_OTHERS)))
            continue;
        demand_ps[t] = task->demand_ps;
        shares |= on_line && s->shared[task->line] == SIM_WITH_ROLE;
    }
    *paces = (plan_paces){demand_ps, shares, sim_beside_slowest(s, r)};
    return paces;
}

/* [roles]; NULL: there are to be no chains. */
static plan_paces **find_paces(const simulation *s)
{
    plan_paces **paces = fs_new(s->arena, plan_paces *, s->p->n_roles);
    /* What is drawn or watched firing by firing has none. */
    if (s->options->in_full || s->noise || s->watch)
        return NULL;
    for (int32_t r = 0; r < s->p->n_roles; r++)
        paces[r] = paces_of(s, r);
    return paces;
}

/* ---- roles that are alike ---- */

/* From a line of all to one of the role's, in the order of their tasks. `of`:
 * [lines] all 0, as it is again afterwards. */
static int32_t *number_lines(const simulation *s, int32_t r, int32_t *of)
{
    const int32_t n_tasks = s->p->roles[r].n_tasks;
    int32_t *lines = fs_new(s->arena, int32_t, n_tasks), n = 0;
    for (int32_t t = 0; t < n_tasks; t++) {
        int32_t *line = &s->tasks[r][t].line;
        if (*line >= 0 && of[*line] == 0) {
            lines[n] = *line;
            of[*line] = ++n;
        }
        *line = *line < 0 ? -1 : of[*line] - 1;
    }
    while (n-- > 0)
        of[lines[n]] = 0;
    return lines;
}

static bool same_task(const sim_task *x, const sim_task *y)
{
    return x->demand_ps == y->demand_ps && x->wakes == y->wakes &&
           x->line == y->line && x->on_core == y->on_core &&
           x->loads == y->loads && x->computes == y->computes &&
           x->communicates == y->communicates && x->slowed == y->slowed;
}

static bool same_tasks(const simulation *s, int32_t r, int32_t other)
{
    const int32_t n = s->p->roles[r].n_tasks;
    bool same = s->p->roles[other].n_tasks == n;
    for (int32_t t = 0; same && t < n; t++)
        same = same_task(&s->tasks[r][t], &s->tasks[other][t]);
    return same;
}

/* The stages of a pipeline run the same, but for those at its ends: of what is
 * told of tasks the cache then holds a few tables, however deep it is. */
static void share_tables(simulation *s)
{
    FS_VEC(int32_t) distinct = {0};
    int32_t *of = fs_new(s->arena, int32_t, s->p->n_comms + s->p->n_channels);
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const int32_t *lines = number_lines(s, r, of);
        int32_t k = 0;
        while (k < distinct.n && !same_tasks(s, r, distinct.at[k]))
            k++;
        if (k == distinct.n)
            fs_push(s->arena, &distinct, r);
        s->tasks[r] = s->tasks[distinct.at[k]];
        plan_actors_share(s->actors[r], s->actors[distinct.at[k]]);
        for (int32_t i = s->first_stream[r]; i < s->first_stream[r + 1]; i++) {
            s->lanes[i].tasks = s->tasks[r];
            s->lanes[i].acts = s->actors[r]->tasks;
            s->lanes[i].lines = lines;
        }
    }
}

/* Of one of them are the chains of all. */
static void make_chains(simulation *s, plan_paces **paces)
{
    const int32_t n_roles = s->p->n_roles;
    s->chains = fs_new(s->arena, plan_chains *, n_roles);
    s->spans = fs_new(s->arena, sim_spans *, n_roles);
    for (int32_t r = 0; r < n_roles && paces; r++) {
        int32_t k = 0;
        while (k < r && !(s->tasks[k] == s->tasks[r] && s->chains[k] &&
                          plan_chains_serve(s->chains[k], s->actors[r],
                                            paces[r], s->arena)))
            k++;
        if (k == r)
            s->chains[r] = plan_chains_create(s->actors[r], paces[r], s->arena);
        if (k == r && s->chains[r])
            s->spans[r] = fs_new(s->arena, sim_spans,
                                 s->p->roles[r].n_tasks * PLAN_CHAIN_VARIANTS);
        s->chains[r] = s->chains[k];
        s->spans[r] = s->spans[k];
    }
}

void sim_make(simulation *s, const hw_cluster *cluster)
{
    sim_resources_make(&s->resources, s->p, cluster, s->arena);
    s->flows = sim_routes_make(s->p, cluster, s->arena, &s->shared);
    make_tasks(s);
    make_roles(s);
    make_streams(s);
    make_lines(s);
    find_wakes(s);
    s->watch = sim_watch_create(s);
    s->noise = sim_noise_create(s);
    s->beside = sim_beside_create(s, cluster);
    find_slowed(s);
    plan_paces **paces = find_paces(s);
    share_tables(s);
    make_chains(s, paces);
    s->repeats = sim_repeats_create(s);
}
