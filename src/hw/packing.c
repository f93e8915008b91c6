/* Of x, and of how much goes by each way: max x, with
 *   for each demand: demand * x - sum of its ways <= 0,
 *   for each link:   sum of what crosses it <= bps.
 * A basis of slacks begins. The right-hand sides are shifted by amounts that
 * nothing else is equal to, so that no step is without gain and the search
 * ends; the last basis is evaluated without them. */
#include "config.h"
#include "hw/packing.h"

#include "base/status.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { STEPS_PER_ROW = 60 };
#define TOLERANCE 1e-10 /* of prices, whose sum is about 1 */
#define PIVOT 1e-9
#define SHIFT 1e-8 /* of the widest link */

typedef enum column_kind { SLACK, RATE, WAY } column_kind;

typedef struct column {
    column_kind kind;
    int32_t of;  /* SLACK: row; WAY: demand */
    double *use; /* WAY: [n_links] */
} column;

typedef struct tableau {
    const hw_packing *p;
    fs_arena *arena;
    int32_t n; /* rows: links, then demands */
    double widest;
    double *inverse;      /* [n * n] */
    double *value, *step; /* [n] */
    column *basis;        /* [n] */
    int32_t rate_row;     /* -1: the rate is 0 */
    double *use;          /* [n_links] scratch */
} tableau;

static double demand_of(const hw_packing *p, int32_t d)
{
    return p->demand ? p->demand[d] : 1;
}

static tableau begin(const hw_packing *p, fs_arena *arena)
{
    tableau t = {
        .p = p, .arena = arena, .n = p->n_links + p->n_demands, .rate_row = -1};
    const size_t n = (size_t)t.n;
    t.inverse = fs_new(arena, double, n *n);
    t.value = fs_new(arena, double, n);
    t.step = fs_new(arena, double, n);
    t.basis = fs_new(arena, column, n);
    t.use = fs_new(arena, double, p->n_links);
    for (int32_t i = 0; i < p->n_links; i++)
        t.widest = fmax(t.widest, p->bps[i]);
    for (int32_t i = 0; i < t.n; i++) {
        const double golden = 0.6180339887498949 * (i + 1);
        t.inverse[i * t.n + i] = 1;
        t.basis[i] = (column){SLACK, i, NULL};
        t.value[i] = SHIFT * (1 + golden - floor(golden));
        if (i < p->n_links)
            t.value[i] += p->bps[i] / t.widest;
    }
    return t;
}

/* What one unit of a column takes of each row, in terms of the basis. */
static void solve_step(tableau *t, const column *c)
{
    const hw_packing *p = t->p;
    for (int32_t i = 0; i < t->n; i++) {
        const double *row = &t->inverse[i * t->n];
        double sum = 0;
        if (c->kind == SLACK)
            sum = row[c->of];
        for (int32_t d = 0; c->kind == RATE && d < p->n_demands; d++)
            sum += row[p->n_links + d] * demand_of(p, d);
        for (int32_t k = 0; c->kind == WAY && k < p->n_links; k++)
            sum += row[k] * c->use[k];
        if (c->kind == WAY)
            sum -= row[p->n_links + c->of];
        t->step[i] = sum;
    }
}

/* The first row that runs out. */
static int32_t leaving(const tableau *t)
{
    int32_t out = -1;
    double least = INFINITY;
    for (int32_t i = 0; i < t->n; i++) {
        if (t->step[i] <= PIVOT)
            continue;
        const double ratio = t->value[i] / t->step[i];
        if (ratio < least) {
            least = ratio;
            out = i;
        }
    }
    return out;
}

static void pivot(tableau *t, int32_t row, column c)
{
    double *own = &t->inverse[row * t->n];
    const double by = 1 / t->step[row];
    for (int32_t k = 0; k < t->n; k++)
        own[k] *= by;
    t->value[row] *= by;
    for (int32_t i = 0; i < t->n; i++) {
        const double times = t->step[i];
        if (i == row || times == 0)
            continue;
        for (int32_t k = 0; k < t->n; k++)
            t->inverse[i * t->n + k] -= times * own[k];
        t->value[i] = fmax(t->value[i] - times * t->value[row], 0);
    }
    if (t->rate_row == row)
        t->rate_row = -1;
    if (c.kind == RATE)
        t->rate_row = row;
    t->basis[row] = c;
}

/* The column that gains most; false: none does. `prices` are the duals. */
static bool entering(tableau *t, const double *prices, column *out)
{
    const hw_packing *p = t->p;
    double most = TOLERANCE, rate = 1;
    for (int32_t d = 0; d < p->n_demands; d++)
        rate -= prices[p->n_links + d] * demand_of(p, d);
    if (t->rate_row < 0 && rate > most) {
        most = rate;
        *out = (column){RATE, 0, NULL};
    }
    for (int32_t i = 0; i < t->n; i++)
        if (-prices[i] > most) {
            most = -prices[i];
            *out = (column){SLACK, i, NULL};
        }
    for (int32_t d = 0; d < p->n_demands; d++) {
        double length = 0;
        memset(t->use, 0, (size_t)p->n_links * sizeof *t->use);
        p->pick(p->ctx, d, prices, t->use);
        for (int32_t k = 0; k < p->n_links; k++)
            length += prices[k] * t->use[k];
        if (prices[p->n_links + d] - length <= most)
            continue;
        most = prices[p->n_links + d] - length;
        *out = (column){
            WAY, d,
            fs_memdup(t->arena, t->use, (size_t)p->n_links * sizeof *t->use)};
    }
    return most > TOLERANCE;
}

static double *prices_of(const tableau *t, double *prices)
{
    for (int32_t k = 0; k < t->n; k++)
        prices[k] = t->rate_row < 0 ? 0 : t->inverse[t->rate_row * t->n + k];
    return prices;
}

/* The value of a row without the shifts. */
static double value_of(const tableau *t, int32_t row)
{
    double sum = 0;
    for (int32_t k = 0; k < t->p->n_links; k++)
        sum += t->inverse[row * t->n + k] * t->p->bps[k];
    return sum;
}

double hw_pack(const hw_packing *p, double *load)
{
    fs_arena *scratch = fs_arena_create();
    tableau t = begin(p, scratch);
    double *prices = fs_new(scratch, double, t.n);
    column c = {SLACK, 0, NULL};
    for (int32_t i = 0; i < STEPS_PER_ROW * t.n; i++) {
        if (!entering(&t, prices_of(&t, prices), &c))
            break;
        solve_step(&t, &c);
        const int32_t row = leaving(&t);
        FS_ASSERT(row >= 0); /* each way crosses a link */
        pivot(&t, row, c);
    }
    FS_ASSERT(t.rate_row >= 0);
    const double rate = value_of(&t, t.rate_row);
    for (int32_t k = 0; load && k < p->n_links; k++) {
        load[k] = 0;
        for (int32_t i = 0; i < t.n; i++)
            if (t.basis[i].kind == WAY)
                load[k] += fmax(value_of(&t, i), 0) / rate * t.basis[i].use[k];
    }
    fs_arena_destroy(scratch);
    return rate;
}
