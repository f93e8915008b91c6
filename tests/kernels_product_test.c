/* Packed products: each set of tiles that runs here against sums in double, on
 * random sizes, orders and places; bits that hang on nothing but the terms. */
#include "config.h"

#include "kernels/product.h"

#include "base/hash.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 150, GUARD = 7 };

typedef struct operands {
    kernel_packed p;
    float *a, *b, *c, *bias;
    void *room;
} operands;

static float draw(uint64_t *seed)
{
    return (float)(fs_rand_below(seed, 2001) - 1000) / 700.0f;
}

static float *draw_many(int64_t n, uint64_t *seed)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = draw(seed);
    return x;
}

/* Sizes around the tiles' and the stretches' ends, and beyond a block. */
static int64_t draw_size(uint64_t *seed)
{
    static const int64_t most[] = {4, 40, 300, 900};
    return 1 + fs_rand_below(seed, most[fs_rand_below(seed, 4)]);
}

static operands draw_operands(const kernel_tiles *t, uint64_t *seed)
{
    operands o = {.p = {.m = draw_size(seed),
                        .n = draw_size(seed),
                        .k = draw_size(seed),
                        .ta = fs_rand_below(seed, 2) == 1,
                        .tb = fs_rand_below(seed, 2) == 1}};
    kernel_packed *p = &o.p;
    if (fs_rand_below(seed, 12) == 0) {
        p->m = 1000 + draw_size(seed); /* several blocks of rows */
        p->n = 1 + p->n / 8;
        p->k = 1 + p->k / 8;
    }
    p->a_step = (p->ta ? p->m : p->k) + fs_rand_below(seed, 3);
    p->b_step = (p->tb ? p->k : p->n) + fs_rand_below(seed, 3);
    p->c_step = p->n + fs_rand_below(seed, 3);
    p->a = o.a = draw_many((p->ta ? p->k : p->m) * p->a_step, seed);
    p->b = o.b = draw_many((p->tb ? p->n : p->k) * p->b_step, seed);
    p->c = o.c = draw_many(p->m * p->c_step, seed);
    if (fs_rand_below(seed, 2) == 1)
        p->bias = o.bias = draw_many(p->n, seed);
    o.room = malloc((size_t)kernel_packed_room(t, p->m, p->k) + GUARD);
    return o;
}

static void release(operands *o)
{
    free(o->a);
    free(o->b);
    free(o->c);
    free(o->bias);
    free(o->room);
}

static float a_at(const kernel_packed *p, int64_t i, int64_t k)
{
    return p->ta ? p->a[k * p->a_step + i] : p->a[i * p->a_step + k];
}

static float b_at(const kernel_packed *p, int64_t k, int64_t j)
{
    return p->tb ? p->b[j * p->b_step + k] : p->b[k * p->b_step + j];
}

/* Against sums in double, relative to the sum of the terms' sizes. */
static double worst_error(const kernel_packed *p)
{
    double worst = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias ? (double)p->bias[j] : 0;
            double size = 1e-3 + fabs(sum);
            for (int64_t k = 0; k < p->k; k++) {
                const double term =
                    (double)a_at(p, i, k) * (double)b_at(p, k, j);
                sum += term;
                size += fabs(term);
            }
            worst =
                fmax(worst, fabs((double)p->c[i * p->c_step + j] - sum) / size);
        }
    return worst;
}

/* Does an element alone have the bits that it has among all? */
static bool alone_too(const kernel_tiles *t, const operands *o, uint64_t *seed)
{
    kernel_packed one = o->p;
    const int64_t i = fs_rand_below(seed, one.m);
    const int64_t j = fs_rand_below(seed, one.n);
    float value = 0;
    one.a += one.ta ? i : i * one.a_step;
    one.b += one.tb ? j * one.b_step : j;
    one.bias = one.bias ? one.bias + j : NULL;
    one.m = one.n = 1;
    one.c = &value;
    kernel_packed_run(t, &one, o->room);
    return memcmp(&value, &o->p.c[i * o->p.c_step + j], sizeof value) == 0;
}

/* What stands between C's rows and behind the room stays. */
static bool keeps_around(const operands *o, const float *before, int64_t room)
{
    const kernel_packed *p = &o->p;
    const char *end = (const char *)o->room + room;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = p->n; j < p->c_step; j++)
            if (p->c[i * p->c_step + j] != before[i * p->c_step + j])
                return false;
    for (int i = 0; i < GUARD; i++)
        if (end[i] != (char)(91 + i))
            return false;
    return true;
}

static void count_rest(void *ctx)
{
    ++*(int *)ctx;
}

/* A product of some milliseconds lets others have their turn every 100 us or
 * so, and its bits are those of one that nobody waits for. */
static void check_rests(const kernel_tiles *t, uint64_t *seed)
{
    enum { M = 150, N = 500, K = 600 };
    int rests = 0;
    kernel_packed p = {
        .m = M, .n = N, .k = K, .a_step = K, .b_step = N, .c_step = N};
    float *a = draw_many(M * K, seed), *b = draw_many(K * N, seed);
    float *c = draw_many(M * N, seed), *d = draw_many(M * N, seed);
    void *room = malloc((size_t)kernel_packed_room(t, M, K));
    p.a = a;
    p.b = b;
    p.c = c;
    kernel_packed_run(t, &p, room);
    p.c = d;
    p.rest = count_rest;
    p.rest_ctx = &rests;
    kernel_packed_run(t, &p, room);
    tap_ok(rests >= 2 * M * N * K / 10000000,
           "%s: a product rests at least once in 10 Mflop (%d times)", t->name,
           rests);
    tap_ok(memcmp(c, d, sizeof(float[M * N])) == 0,
           "%s: resting changes no bits", t->name);
    free(a);
    free(b);
    free(c);
    free(d);
    free(room);
}

static void check_tiles(const kernel_tiles *t, uint64_t *seed)
{
    double worst = 0;
    bool alone = true, kept = true;
    for (int i = 0; i < TRIALS; i++) {
        operands o = draw_operands(t, seed);
        const int64_t room = kernel_packed_room(t, o.p.m, o.p.k);
        const size_t bytes = (size_t)(o.p.m * o.p.c_step) * sizeof(float);
        float *before = malloc(bytes);
        memcpy(before, o.c, bytes);
        for (int k = 0; k < GUARD; k++)
            ((char *)o.room)[room + k] = (char)(91 + k);
        kernel_packed_run(t, &o.p, o.room);
        worst = fmax(worst, worst_error(&o.p));
        kept = kept && keeps_around(&o, before, room);
        for (int k = 0; k < 4; k++)
            alone = alone && alone_too(t, &o, seed);
        free(before);
        release(&o);
    }
    tap_ok(worst < 1e-5, "%s: %d products equal sums in double (%.1e)", t->name,
           TRIALS, worst);
    tap_ok(alone, "%s: an element alone has the same bits", t->name);
    tap_ok(kept, "%s: nothing is written between rows or beyond the room",
           t->name);
}

int main(void)
{
    uint64_t seed = tap_seed(20261128);
    int n;
    const kernel_tiles *t = kernel_tiles_list(&n);
    for (int i = 0; i < n; i++)
        if (!t[i].runs || t[i].runs()) {
            check_tiles(&t[i], &seed);
            check_rests(&t[i], &seed);
        } else {
            tap_skip("not on this processor", "%s", t[i].name);
        }
    return tap_done();
}
