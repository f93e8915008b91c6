/* The mixed integer program, through GLPK. Binaries x[i,s] choose values;
 * y[e,s,t] >= 0 stands for the pair (s, t) of edge e and is tied to x by row
 * and column sums (the local polytope: the clause form y >= x + x' - 1 gives a
 * useless relaxation). A variable for each maximum, a row for each memory
 * limit:
 *
 *   min  fill sum_i A_i + (m - fill) Amax + Bmax
 *   sum_s x[i,s] = 1                        for each node
 *   sum_t y[e,s,t] = x[u,s], sum_s y[e,s,t] = x[v,t]
 *   A_i <= Amax, B_i <= Bmax                for each stage
 *   sum bytes x + sum bytes y <= limit      for each limit that could be
 *
 * An edge with an end of one value needs no y: its cost is the other end's.
 *
 * Costs are scaled to about 1000, bytes to the limit: GLPK's tolerances are
 * absolute. Its environment is freed at the end. */
#include "config.h"
#include "search/engine/milp.h"

#include "search/engine/engine.h"
#include "search/engine/prices.h"

#include "base/clock.h"

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct milp {
    const search_milp_task *task;
    const search_net *net;
    fs_arena *arena;
    glp_prob *lp;
    double scale; /* cost -> objective */
    int32_t *x;   /* [node] column of its first value - 1; values that are
                     forbidden have a column fixed at 0 */
    int32_t *y;   /* [edge] column of its first finite pair - 1; -1: an
                     end has one value, so that the other end's columns
                     bear the cost */
    double *load; /* [x column - 1][2 n_stages] what a value costs */
    int32_t a_max, b_max;
    int n_entries, room;
    int *row, *column;
    double *entry;
    bool offered, open;
    double bound;  /* best proven, in objective units */
    int64_t steps; /* of work */
    int pivots;    /* of which these were counted */
} milp;

static bool has_pairs(const search_net *net, const search_net_edge *edge)
{
    return net->nodes[edge->u].n > 1 && net->nodes[edge->v].n > 1;
}

int64_t search_milp_columns(const search_net *net)
{
    int64_t n = 2;
    for (int32_t i = 0; i < net->n_nodes; i++)
        n += net->nodes[i].n;
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        if (has_pairs(net, edge))
            n += (int64_t)net->nodes[edge->u].n * net->nodes[edge->v].n;
    }
    return n;
}

static void put(milp *p, int row, int column, double value)
{
    if (value == 0)
        return;
    if (p->n_entries + 2 > p->room) {
        int room = 2 * p->room + 1024;
        size_t had = (size_t)p->room, want = (size_t)room;
        p->row = fs_regrow(p->arena, p->row, had, want, sizeof *p->row);
        p->column =
            fs_regrow(p->arena, p->column, had, want, sizeof *p->column);
        p->entry = fs_regrow(p->arena, p->entry, had, want, sizeof *p->entry);
        p->room = room;
    }
    int k = ++p->n_entries; /* GLPK counts from 1 */
    p->row[k] = row;
    p->column[k] = column;
    p->entry[k] = value;
}

static double *edge_row(const search_net *net, const search_net_edge *edge,
                        int32_t s)
{
    return edge->cost + (int64_t)s * net->nodes[edge->v].n;
}

/* Typical size of a finite cost, so that the objective is about 1000. */
static double objective_scale(const milp *p)
{
    double size = p->task->upper;
    if (!isfinite(size) || size <= 0)
        size = fabs(search_net_floor(p->net, p->arena));
    if (!isfinite(size) || size <= 0)
        return 1;
    return 1000 / size;
}

static void add_values(milp *p)
{
    const search_net *net = p->net;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        p->x[i] = glp_get_num_cols(p->lp);
        if (node->n)
            glp_add_cols(p->lp, node->n);
        for (int32_t s = 0; s < node->n; s++) {
            glp_set_col_kind(p->lp, p->x[i] + s + 1, GLP_BV);
            if (!isfinite(node->cost[s]))
                glp_set_col_bnds(p->lp, p->x[i] + s + 1, GLP_FX, 0, 0);
        }
    }
}

static void add_pairs(milp *p)
{
    const search_net *net = p->net;
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        p->y[e] = has_pairs(net, edge) ? glp_get_num_cols(p->lp) : -1;
        for (int32_t s = 0; p->y[e] >= 0 && s < net->nodes[edge->u].n; s++)
            for (int32_t t = 0; t < net->nodes[edge->v].n; t++)
                if (isfinite(edge_row(net, edge, s)[t]))
                    glp_set_col_bnds(p->lp, glp_add_cols(p->lp, 1), GLP_LO, 0,
                                     0);
    }
}

static void add_maxima(milp *p)
{
    p->a_max = glp_add_cols(p->lp, 2);
    p->b_max = p->a_max + 1;
    glp_set_col_bnds(p->lp, p->a_max, GLP_FR, 0, 0);
    glp_set_col_bnds(p->lp, p->b_max, GLP_FR, 0, 0);
    glp_set_obj_coef(p->lp, p->a_max, p->net->micro_batches - p->net->fill);
    glp_set_obj_coef(p->lp, p->b_max, 1);
}

static int32_t stage_row(int32_t stage, bool per_step)
{
    return 2 * stage + (per_step ? 2 : 1);
}

/* A pair's cost goes to its stage's row and, per micro-batch, to the sum. */
static void charge_pair(milp *p, int column, const search_net_edge *edge,
                        double cost)
{
    put(p, stage_row(edge->stage, edge->per_step), column, p->scale * cost);
    if (!edge->per_step)
        glp_set_obj_coef(p->lp, column,
                         p->net->fill * search_net_like(p->net, edge->stage) *
                             p->scale * cost);
}

/* A value's cost, which may have several parts. */
static void charge_value(milp *p, int column, int32_t stage, bool per_step,
                         double cost)
{
    if (isfinite(cost))
        p->load[(column - 1) * 2 * p->net->n_stages +
                stage_row(stage, per_step) - 1] += p->scale * cost;
    else
        glp_set_col_bnds(p->lp, column, GLP_FX, 0, 0);
}

/* What values cost, once it is summed. */
static void add_load(milp *p, int n_values)
{
    int rows = 2 * p->net->n_stages;
    for (int c = 1; c <= n_values; c++) {
        double micro = 0;
        for (int r = 0; r < rows; r++) {
            double cost = p->load[(c - 1) * rows + r];
            put(p, r + 1, c, cost);
            if (r % 2 == 0)
                micro += search_net_like(p->net, r / 2) * cost;
        }
        glp_set_obj_coef(p->lp, c, p->net->fill * micro);
    }
}

static void add_stage_rows(milp *p)
{
    const search_net *net = p->net;
    glp_add_rows(p->lp, 2 * net->n_stages);
    for (int32_t i = 0; i < net->n_stages; i++) {
        glp_set_row_bnds(p->lp, 2 * i + 1, GLP_UP, 0, 0);
        glp_set_row_bnds(p->lp, 2 * i + 2, GLP_UP, 0, 0);
        put(p, 2 * i + 1, p->a_max, -1);
        put(p, 2 * i + 2, p->b_max, -1);
    }
}

static void add_node_rows(milp *p)
{
    const search_net *net = p->net;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        int row = glp_add_rows(p->lp, 1);
        glp_set_row_bnds(p->lp, row, GLP_FX, 1, 1);
        for (int32_t s = 0; s < node->n; s++) {
            put(p, row, p->x[i] + s + 1, 1);
            charge_value(p, p->x[i] + s + 1, node->stage, node->per_step,
                         node->cost[s]);
        }
    }
}

/* An edge without pairs: its cost is that of the end with a choice. */
static void charge_edge(milp *p, const search_net_edge *edge)
{
    const search_net *net = p->net;
    int32_t nu = net->nodes[edge->u].n, nv = net->nodes[edge->v].n;
    for (int32_t s = 0; s < nu; s++)
        for (int32_t t = 0; t < nv; t++)
            charge_value(
                p, nu > 1 ? p->x[edge->u] + s + 1 : p->x[edge->v] + t + 1,
                edge->stage, edge->per_step, edge_row(net, edge, s)[t]);
}

static void add_pair_rows(milp *p, const search_net_edge *edge, int column)
{
    const search_net *net = p->net;
    int32_t nu = net->nodes[edge->u].n, nv = net->nodes[edge->v].n;
    int first = glp_add_rows(p->lp, nu + nv);
    for (int32_t k = 0; k < nu + nv; k++)
        glp_set_row_bnds(p->lp, first + k, GLP_FX, 0, 0);
    for (int32_t s = 0; s < nu; s++)
        put(p, first + s, p->x[edge->u] + s + 1, -1);
    for (int32_t t = 0; t < nv; t++)
        put(p, first + nu + t, p->x[edge->v] + t + 1, -1);
    for (int32_t s = 0; s < nu; s++)
        for (int32_t t = 0; t < nv; t++) {
            double cost = edge_row(net, edge, s)[t];
            if (!isfinite(cost))
                continue;
            column++;
            put(p, first + s, column, 1);
            put(p, first + nu + t, column, 1);
            charge_pair(p, column, edge, cost);
        }
}

static void add_edge_rows(milp *p)
{
    for (int32_t e = 0; e < p->net->n_edges; e++)
        if (p->y[e] >= 0)
            add_pair_rows(p, &p->net->edges[e], p->y[e]);
        else
            charge_edge(p, &p->net->edges[e]);
}

static const int64_t *bytes_of(const search_load *loads, int32_t n,
                               int32_t limit)
{
    for (int32_t k = 0; k < n; k++)
        if (loads[k].limit == limit)
            return loads[k].bytes;
    return NULL;
}

static double most_of(const int64_t *bytes, int64_t n)
{
    int64_t most = n ? bytes[0] : 0;
    for (int64_t k = 1; k < n; k++)
        most = bytes[k] > most ? bytes[k] : most;
    return (double)most;
}

static double most_bytes(const search_net *net, int32_t limit)
{
    double most = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        const int64_t *bytes = bytes_of(node->loads, node->n_loads, limit);
        most += bytes ? most_of(bytes, node->n) : 0;
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        const int64_t *bytes = bytes_of(edge->loads, edge->n_loads, limit);
        int64_t n = (int64_t)net->nodes[edge->u].n * net->nodes[edge->v].n;
        most += bytes ? most_of(bytes, n) : 0;
    }
    return most;
}

/* Bytes of an edge go to its pairs' columns (finite ones have one), or to the
 * values of the end that has a choice. */
static void load_edge(milp *p, int32_t e, const int64_t *bytes, double *load)
{
    const search_net *net = p->net;
    const search_net_edge *edge = &net->edges[e];
    int32_t nu = net->nodes[edge->u].n, nv = net->nodes[edge->v].n;
    int column = p->y[e];
    for (int32_t s = 0; s < nu; s++)
        for (int32_t t = 0; t < nv; t++) {
            double size = (double)bytes[(int64_t)s * nv + t];
            if (p->y[e] < 0)
                load[nu > 1 ? p->x[edge->u] + s + 1 : p->x[edge->v] + t + 1] +=
                    size;
            else if (isfinite(edge_row(net, edge, s)[t]))
                load[++column] += size;
        }
}

static void add_memory_row(milp *p, int32_t limit, double *load)
{
    const search_net *net = p->net;
    double unit = fmax(1, (double)net->limit_bytes[limit]);
    int row = glp_add_rows(p->lp, 1), n = glp_get_num_cols(p->lp);
    memset(load, 0, ((size_t)n + 1) * sizeof *load);
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        const int64_t *bytes = bytes_of(node->loads, node->n_loads, limit);
        for (int32_t s = 0; bytes && s < node->n; s++)
            load[p->x[i] + s + 1] += (double)bytes[s];
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        const int64_t *bytes = bytes_of(edge->loads, edge->n_loads, limit);
        if (bytes)
            load_edge(p, e, bytes, load);
    }
    glp_set_row_bnds(p->lp, row, GLP_UP, 0,
                     (double)net->limit_bytes[limit] / unit);
    for (int c = 1; c <= n; c++)
        put(p, row, c, load[c] / unit);
}

static void add_memory_rows(milp *p)
{
    const search_net *net = p->net;
    int n = glp_get_num_cols(p->lp);
    double *load = fs_new(p->arena, double, (size_t)n + 1);
    for (int32_t k = 0; k < net->n_limits; k++)
        if (most_bytes(net, k) > (double)net->limit_bytes[k])
            add_memory_row(p, k, load);
}

static void build(milp *p)
{
    glp_set_obj_dir(p->lp, GLP_MIN);
    add_values(p);
    int n_values = glp_get_num_cols(p->lp);
    p->load = fs_new(p->arena, double,
                     (size_t)n_values * 2 * (size_t)p->net->n_stages);
    add_pairs(p);
    add_maxima(p);
    add_stage_rows(p);
    add_node_rows(p);
    add_edge_rows(p);
    add_load(p, n_values);
    add_memory_rows(p);
    glp_load_matrix(p->lp, p->n_entries, p->row, p->column, p->entry);
}

/* ---- solving ---- */

/* Columns of an assignment. */
static double *columns_of(const milp *p, const int32_t *value)
{
    const search_net *net = p->net;
    double *x = fs_new(p->arena, double, glp_get_num_cols(p->lp) + 1);
    search_sums sums = search_sums_new(net, p->arena);
    for (int32_t i = 0; i < net->n_nodes; i++)
        x[p->x[i] + value[i] + 1] = 1;
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        int column = p->y[e];
        for (int32_t s = 0; column >= 0 && s < net->nodes[edge->u].n; s++)
            for (int32_t t = 0; t < net->nodes[edge->v].n; t++)
                if (isfinite(edge_row(net, edge, s)[t]) && ++column &&
                    s == value[edge->u] && t == value[edge->v])
                    x[column] = 1;
    }
    search_net_sums(net, value, &sums);
    for (int32_t i = 0; i < net->n_stages; i++) {
        x[p->a_max] = fmax(x[p->a_max], p->scale * sums.micro_s[i]);
        x[p->b_max] = fmax(x[p->b_max], p->scale * sums.step_s[i]);
    }
    return x;
}

/* ---- what GLPK does, in steps ---- */

/* Of one iteration of the simplex method, or one look at a row of its tableau:
 * for each row and column, and for each entry of the matrix. */
enum { LINE_STEPS = 7, ENTRY_STEPS = 2 };

static int64_t pivot_steps(glp_prob *lp)
{
    const int64_t lines = (int64_t)glp_get_num_rows(lp) + glp_get_num_cols(lp);
    return LINE_STEPS * lines + ENTRY_STEPS * (int64_t)glp_get_num_nz(lp) + 1;
}

static void spend(milp *p, int64_t steps)
{
    p->steps += steps;
    fs_deadline_spend(&p->task->deadline, steps);
}

/* Iterations since it was counted last. */
static void count_pivots(milp *p, glp_prob *lp)
{
    const int now = glp_get_it_cnt(lp);
    spend(p, (now - p->pivots) * pivot_steps(lp));
    p->pivots = now;
}

/* Before GLPK branches it looks at the row of each column that is no whole
 * number. */
static void count_branching(milp *p, glp_tree *tree, glp_prob *lp)
{
    int64_t n = 0;
    for (int c = glp_get_num_cols(lp); c > 0; c--)
        n += glp_ios_can_branch(tree, c);
    spend(p, n * pivot_steps(lp));
}

/* GLPK calls this at each node: the bound of the whole tree is that of its
 * best active node; a known assignment is offered once. */
static void watch(glp_tree *tree, void *info)
{
    milp *p = info;
    const search_milp_task *task = p->task;
    glp_prob *lp = glp_ios_get_prob(tree);
    count_pivots(p, lp);
    if (glp_ios_reason(tree) == GLP_IBRANCH)
        count_branching(p, tree, lp);
    if (fs_deadline_over(&task->deadline)) {
        p->open = true;
        glp_ios_terminate(tree);
        return;
    }
    if (glp_ios_reason(tree) == GLP_IHEUR && !p->offered && task->start) {
        p->offered = true;
        glp_ios_heur_sol(tree, columns_of(p, task->start));
    }
    if (glp_ios_reason(tree) != GLP_ISELECT)
        return;
    int best = glp_ios_best_node(tree);
    if (best == 0)
        return;
    double bound = glp_ios_node_bound(tree, best);
    if (bound > p->bound)
        p->bound = bound;
    double enough = fmin(task->cutoff, task->upper) * p->scale;
    if (glp_mip_status(p->lp) == GLP_FEAS)
        enough = fmin(enough, search_near(glp_mip_obj_val(p->lp), task->gap));
    if (p->bound >= enough - SEARCH_TOLERANCE / 10 * fabs(enough))
        glp_ios_terminate(tree);
}

static int millis_left(const milp *p)
{
    return (int)fmax(1, fmin(1e3 * fs_end_left(&p->task->deadline.end), 1e9));
}

static int pivots_left(const milp *p)
{
    const int64_t left = fs_deadline_steps_left(&p->task->deadline);
    return (int)fmin((double)(left / pivot_steps(p->lp)), INT_MAX);
}

/* Returns GLPK's status of the relaxation. */
static int solve_relaxation(milp *p)
{
    glp_smcp parm;
    glp_init_smcp(&parm);
    parm.msg_lev = GLP_MSG_OFF;
    parm.presolve = GLP_ON;
    parm.tm_lim = millis_left(p);
    parm.it_lim = pivots_left(p);
    int code = glp_simplex(p->lp, &parm);
    p->open |= code == GLP_ETMLIM || code == GLP_EITLIM;
    count_pivots(p, p->lp);
    if (code == GLP_ENOPFS)
        return GLP_NOFEAS;
    return code == 0 ? glp_get_status(p->lp) : GLP_UNDEF;
}

static void solve_integer(milp *p)
{
    glp_iocp parm;
    glp_init_iocp(&parm);
    parm.msg_lev = GLP_MSG_OFF;
    parm.br_tech = GLP_BR_DTH;
    parm.bt_tech = GLP_BT_BLB;
    parm.cov_cuts = parm.mir_cuts = GLP_ON;
    parm.tol_obj = SEARCH_TOLERANCE;
    parm.tm_lim = millis_left(p);
    parm.cb_func = watch;
    parm.cb_info = p;
    const int code = glp_intopt(p->lp, &parm);
    p->open |= code == GLP_ETMLIM;
    if (code == 0 && glp_mip_status(p->lp) == GLP_OPT)
        p->bound = fmax(p->bound, glp_mip_obj_val(p->lp));
}

static void read_values(const milp *p, int32_t *value)
{
    for (int32_t i = 0; i < p->net->n_nodes; i++)
        for (int32_t s = 0; s < p->net->nodes[i].n; s++)
            if (glp_mip_col_val(p->lp, p->x[i] + s + 1) > 0.5)
                value[i] = s;
}

/* Takes what GLPK found when it is better; no status is trusted, the cost is
 * computed afresh. */
static void take_solution(milp *p, search_solution *out)
{
    int status = glp_mip_status(p->lp);
    if (status != GLP_OPT && status != GLP_FEAS)
        return;
    int32_t *value = fs_new(p->arena, int32_t, p->net->n_nodes);
    read_values(p, value);
    double cost = search_net_cost(p->net, value);
    if (cost < out->cost) {
        out->cost = cost;
        memcpy(out->value, value, (size_t)p->net->n_nodes * sizeof *value);
    }
}

static bool solve(milp *p, search_solution *out)
{
    build(p);
    int status = solve_relaxation(p);
    if (status == GLP_NOFEAS || status == GLP_INFEAS)
        return false;
    if (status != GLP_OPT)
        return true;
    p->bound = glp_get_obj_val(p->lp);
    solve_integer(p);
    take_solution(p, out);
    /* GLPK's sums carry errors of about 1e-12: its bound is not sharper. */
    out->lower_bound = fmin(out->cost, p->bound / p->scale -
                                           1e-11 * fabs(p->bound / p->scale));
    return glp_mip_status(p->lp) != GLP_NOFEAS || isfinite(out->cost);
}

fs_status search_milp(const search_milp_task *task, fs_arena *arena,
                      fs_err *err, search_solution *out)
{
    const search_net *net = task->net;
    fs_arena *scratch = fs_arena_create();
    milp p = {.task = task,
              .net = net,
              .arena = scratch,
              .scale = 1,
              .x = fs_new(scratch, int32_t, net->n_nodes),
              .y = fs_new(scratch, int32_t, net->n_edges),
              .bound = -INFINITY};
    *out = (search_solution){.value = fs_new(arena, int32_t, net->n_nodes),
                             .cost = INFINITY,
                             .lower_bound = -INFINITY};
    if (task->start) {
        memcpy(out->value, task->start,
               (size_t)net->n_nodes * sizeof *out->value);
        out->cost = search_net_cost(net, task->start);
    }
    int talk = glp_term_out(GLP_OFF);
    p.lp = glp_create_prob();
    p.scale = objective_scale(&p);
    bool feasible = solve(&p, out);
    out->steps = p.steps;
    out->open = p.open;
    glp_delete_prob(p.lp);
    glp_term_out(talk);
    glp_free_env();
    fs_arena_destroy(scratch);
    if (!feasible && !isfinite(out->cost))
        return fs_fail(err, FS_NO, "no assignment is legal and fits memory");
    return FS_OK;
}

/* ---- the next prices (bundle.c), a linear program ---- */

static double unit_of(const search_net *net, int32_t limit)
{
    return fmax(1, (double)net->limit_bytes[limit]);
}

/* A column in [at - reach, at + reach], from 0 up to `most`. */
static void add_column(glp_prob *lp, double at, double reach, double most)
{
    int c = glp_add_cols(lp, 1);
    double low = fmax(0, at - reach), high = fmin(most, at + reach);
    glp_set_col_bnds(lp, c, low < high ? GLP_DB : GLP_FX, low, high);
}

/* Columns: the bound, a price per stage for each maximum, one per limit (of
 * its bytes together, in units of scale). */
static void add_columns(const search_bundle *b, glp_prob *lp)
{
    const search_net *net = b->net;
    int32_t n = net->n_stages;
    glp_set_obj_dir(lp, GLP_MAX);
    glp_set_obj_coef(lp, glp_add_cols(lp, 1), 1);
    glp_set_col_bnds(lp, 1, GLP_FR, 0, 0);
    for (int32_t i = 0; i < n; i++)
        add_column(lp, b->centre.micro[i], b->reach, 1);
    for (int32_t i = 0; i < n; i++)
        add_column(lp, b->centre.step[i], b->reach, 1);
    for (int32_t k = 0; k < net->n_limits; k++)
        add_column(lp, b->centre.bytes[k] * unit_of(net, k) / b->scale,
                   b->reach, INFINITY);
}

static void add_simplex(const search_bundle *b, glp_prob *lp, int first,
                        int *column, double *entry)
{
    int32_t n = b->net->n_stages;
    int row = glp_add_rows(lp, 1);
    for (int32_t i = 1; i <= n; i++) {
        column[i] = first + i - 1;
        entry[i] = 1;
    }
    glp_set_row_bnds(lp, row, GLP_FX, 1, 1);
    glp_set_mat_row(lp, row, n, column, entry);
}

static void add_plane(const search_bundle *b, const search_sums *sums,
                      glp_prob *lp, int *column, double *entry)
{
    const search_net *net = b->net;
    int32_t n = net->n_stages;
    int row = glp_add_rows(lp, 1), c = 1;
    double fixed = 0;
    entry[c] = 1;
    for (int32_t i = 0; i < n; i++) {
        entry[++c] =
            -(net->micro_batches - net->fill) * sums->micro_s[i] / b->scale;
        fixed +=
            net->fill * search_net_like(net, i) * sums->micro_s[i] / b->scale;
    }
    for (int32_t i = 0; i < n; i++)
        entry[++c] = -sums->step_s[i] / b->scale;
    for (int32_t k = 0; k < net->n_limits; k++)
        entry[++c] =
            -((double)(sums->bytes[k] - net->limit_bytes[k]) / unit_of(net, k));
    for (int k = 1; k <= c; k++)
        column[k] = k;
    glp_set_row_bnds(lp, row, GLP_UP, 0, fixed);
    glp_set_mat_row(lp, row, c, column, entry);
}

/* Prices of the optimum; what is as good as 0 is 0, since priced bytes make
 * the network denser. */
static void read_prices(const search_bundle *b, glp_prob *lp,
                        search_prices *out)
{
    const search_net *net = b->net;
    int32_t n = net->n_stages;
    double micro = 0, step = 0;
    for (int32_t i = 0; i < n; i++) {
        micro += out->micro[i] = fmax(0, glp_get_col_prim(lp, 2 + i));
        step += out->step[i] = fmax(0, glp_get_col_prim(lp, 2 + n + i));
    }
    for (int32_t i = 0; i < n; i++) {
        out->micro[i] /= micro;
        out->step[i] /= step;
    }
    for (int32_t k = 0; k < net->n_limits; k++) {
        double price = glp_get_col_prim(lp, 2 + 2 * n + k);
        out->bytes[k] = price > 1e-9 ? price * b->scale / unit_of(net, k) : 0;
    }
}

/* GLPK's simplex method may go round in circles where planes are nearly the
 * same, and looks at no clock for long: so many pivots for each row and column
 * are more than it otherwise takes, and the other way round has other ties. */
enum { LINE_PIVOTS = 20 };

static bool solve_bundle(glp_prob *lp)
{
    static const int methods[] = {GLP_PRIMAL, GLP_DUALP};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        glp_smcp parm;
        glp_init_smcp(&parm);
        parm.msg_lev = GLP_MSG_OFF;
        parm.meth = methods[k];
        parm.it_lim =
            LINE_PIVOTS * (glp_get_num_rows(lp) + glp_get_num_cols(lp));
        glp_std_basis(lp);
        const int code = glp_simplex(lp, &parm);
        if (code == 0)
            return glp_get_status(lp) == GLP_OPT;
    }
    return false;
}

double search_bundle_next(const search_bundle *b, search_prices *out,
                          int64_t *steps)
{
    const search_net *net = b->net;
    int n = 1 + 2 * net->n_stages + net->n_limits;
    fs_arena *scratch = fs_arena_create();
    int *column = fs_new(scratch, int, n + 1);
    double *entry = fs_new(scratch, double, n + 1), bound = INFINITY;
    int talk = glp_term_out(GLP_OFF);
    glp_prob *lp = glp_create_prob();
    add_columns(b, lp);
    add_simplex(b, lp, 2, column, entry);
    add_simplex(b, lp, 2 + net->n_stages, column, entry);
    for (int32_t k = 0; k < b->planes.n; k++)
        add_plane(b, &b->planes.at[k], lp, column, entry);
    if (solve_bundle(lp)) {
        bound = glp_get_obj_val(lp) * b->scale;
        read_prices(b, lp, out);
    }
    *steps += (glp_get_it_cnt(lp) + glp_get_num_rows(lp)) * pivot_steps(lp);
    glp_delete_prob(lp);
    glp_term_out(talk);
    glp_free_env();
    fs_arena_destroy(scratch);
    return bound;
}
