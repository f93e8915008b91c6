/* A chain dealt out to stages: the best of all cuts where every label is kept,
 * and with few labels what comparing all partial cuts keeps, in their order. */
#include "config.h"

#include "search/cuts/deal.h"

#include "base/hash.h"

#include "tap.h"

#include <math.h>

enum { MOST_PIECES = 14, MOST_STAGES = 5, MOST_LABELS = 4 };

typedef struct drawn {
    search_deal_chain chain;
    double micro[MOST_STAGES * (MOST_PIECES + 1)];
    double step[MOST_STAGES * (MOST_PIECES + 1)];
    double in[MOST_STAGES * (MOST_PIECES + 1)];
    double back[MOST_STAGES * (MOST_PIECES + 1)];
} drawn;

/* Few different lengths: many cuts cost the same. */
static void draw(uint64_t *seed, drawn *d)
{
    const int32_t n = 4 + (int32_t)fs_rand_below(seed, MOST_PIECES - 3);
    const int32_t stages = 1 + (int32_t)fs_rand_below(seed, MOST_STAGES - 1);
    for (int32_t k = 0; k < stages; k++)
        for (int32_t j = 0; j <= n; j++) {
            const int32_t at = k * (n + 1) + j;
            const double a = (double)fs_rand_below(seed, 3);
            const double b = (double)fs_rand_below(seed, 2);
            d->micro[at] = j == 0 ? 0 : d->micro[at - 1] + a;
            d->step[at] = j == 0 ? 0 : d->step[at - 1] + b;
            d->in[at] = k == 0 ? 0 : (double)fs_rand_below(seed, 3) / 2;
            d->back[at] = k == stages - 1 ? 0 : (double)fs_rand_below(seed, 2);
        }
    d->chain = (search_deal_chain){
        n,     stages,   1 + (int32_t)fs_rand_below(seed, 20),
        0.75,  d->micro, d->step,
        d->in, d->back};
}

/* ---- the obvious way: whole prefixes, compared where they end ---- */

typedef struct prefix {
    int32_t begin[MOST_STAGES];
    double cost;
} prefix;

/* As if the chain ended there. */
static double cost_of(const search_deal_chain *c, const int32_t *begin,
                      int32_t stages, int32_t end)
{
    double sum = 0, slowest = 0, step = 0;
    for (int32_t k = 0; k < stages; k++) {
        const int32_t i = k * (c->n + 1) + begin[k];
        const int32_t j =
            k * (c->n + 1) + (k + 1 < stages ? begin[k + 1] : end);
        const double a = c->micro[j] - c->micro[i] + c->in[i] + c->back[j];
        sum += a;
        slowest = fmax(slowest, a);
        step = fmax(step, c->step[j] - c->step[i]);
    }
    return c->fill * sum + (c->micro_batches - c->fill) * slowest + step;
}

typedef struct cell {
    prefix at[MOST_LABELS];
    int32_t n;
} cell;

static void keep_ref(cell *to, int32_t most, const prefix *made)
{
    if (to->n == most && to->at[most - 1].cost <= made->cost)
        return;
    int32_t k = to->n < most ? to->n++ : most - 1;
    for (; k > 0 && to->at[k - 1].cost > made->cost; k--)
        to->at[k] = to->at[k - 1];
    to->at[k] = *made;
}

static cell deal_ref(const search_deal_chain *c, int32_t most)
{
    static cell cells[MOST_STAGES + 1][MOST_PIECES + 1];
    memset(cells, 0, sizeof cells);
    cells[0][0].n = 1;
    for (int32_t k = 0; k < c->n_stages; k++)
        for (int32_t j = k + 1; j <= c->n; j++)
            for (int32_t i = k; i < j; i++)
                for (int32_t l = 0; l < cells[k][i].n; l++) {
                    prefix made = cells[k][i].at[l];
                    made.begin[k] = i;
                    made.cost = cost_of(c, made.begin, k + 1, j);
                    keep_ref(&cells[k + 1][j], most, &made);
                }
    return cells[c->n_stages][c->n];
}

static void test_ref(uint64_t seed)
{
    int32_t wrong = 0, several = 0;
    for (int32_t i = 0; i < 3000; i++) {
        fs_arena *arena = fs_arena_create();
        const int32_t most = 1 + (int32_t)fs_rand_below(&seed, MOST_LABELS);
        search_deal made[MOST_LABELS];
        int64_t steps = 0;
        drawn d;
        draw(&seed, &d);
        const int32_t n = search_deal_best(&d.chain, most, arena, &steps, made);
        const cell ref = deal_ref(&d.chain, most);
        wrong += n != ref.n;
        several += n > 1;
        for (int32_t l = 0; l < n && l < ref.n; l++) {
            const size_t bytes = (size_t)d.chain.n_stages * sizeof(int32_t);
            wrong += made[l].cost != ref.at[l].cost ||
                     memcmp(made[l].begin, ref.at[l].begin, bytes) != 0;
            wrong += made[l].cost != search_deal_cost(&d.chain, made[l].begin);
        }
        fs_arena_destroy(arena);
    }
    tap_equal_int(wrong, 0, "what all partial cuts give, in that order");
    tap_ok(several > 100, "of 3000 chains %d had several cuts", several);
}

int main(void)
{
    test_ref(tap_seed(5));
    return tap_done();
}
