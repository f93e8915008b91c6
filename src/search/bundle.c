/* Prices by the boxstep method (Marsten, Hogan, Blankenship, Operations
 * Research 23(3), 1975): every assignment met is a plane above the bound as a
 * function of the prices; the next prices are where the lowest plane is
 * highest, in a box about the best prices known. A box whose planes end inside
 * it proves that no prices do better. Subgradients, which need no LP, can stay
 * where they began when a stage's time jumps with the price. */
#include "config.h"
#include "search/engine.h"

#include <glpk.h>
#include <math.h>
#include <string.h>

search_prices search_prices_new(const search_net *net, fs_arena *arena)
{
    int32_t n = net->n_stages;
    search_prices p = {fs_new(arena, double, n), fs_new(arena, double, n),
                       fs_new(arena, double, net->n_limits)};
    for (int32_t i = 0; i < n; i++)
        p.micro[i] = p.step[i] = 1.0 / n;
    return p;
}

void search_prices_copy(const search_net *net, search_prices *to,
                        const search_prices *from)
{
    size_t bytes = (size_t)net->n_stages * sizeof(double);
    memcpy(to->micro, from->micro, bytes);
    memcpy(to->step, from->step, bytes);
    memcpy(to->bytes, from->bytes, (size_t)net->n_limits * sizeof(double));
}

void search_bundle_add(search_bundle *b, const search_sums *sums)
{
    const search_net *net = b->net;
    size_t stages = (size_t)net->n_stages * sizeof(double);
    search_sums copy = {fs_memdup(b->arena, sums->micro_s, stages),
                        fs_memdup(b->arena, sums->step_s, stages),
                        fs_memdup(b->arena, sums->bytes,
                                  (size_t)net->n_limits * sizeof(int64_t))};
    fs_push(b->arena, &b->planes, copy);
}

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
        entry[++c] = -(net->micro_batches - 1) * sums->micro_s[i] / b->scale;
        fixed += sums->micro_s[i] / b->scale;
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

double search_bundle_next(const search_bundle *b, search_prices *out)
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
    glp_smcp parm;
    glp_init_smcp(&parm);
    parm.msg_lev = GLP_MSG_OFF;
    if (glp_simplex(lp, &parm) == 0 && glp_get_status(lp) == GLP_OPT) {
        bound = glp_get_obj_val(lp) * b->scale;
        read_prices(b, lp, out);
    }
    glp_delete_prob(lp);
    glp_term_out(talk);
    glp_free_env();
    fs_arena_destroy(scratch);
    return bound;
}
