/* A sweep over recipes as one would write them (search/sweep.h): all degrees of
 * data, tensor and pipeline parallelism that multiply to the devices (or
 * fewer), micro-batches of 1 to 8 samples per rank, batches of 128 to 4,096,
 * schedules, what is computed again, ZeRO 0 to 3, with the stream between
 * blocks cut along the sequence or whole. */
#include "config.h"
#include "bench_pricing.h"

#include "base/hash.h"
#include "pricing.h"
#include "search/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SAMPLES = 1024, MOST_SIZES = 11, MOST_EACH = 8 };

static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "zb-h2",
                                        "dynamic"};
static const int32_t batches[] = {128,  192,  256,  384,  512, 768,
                                  1024, 1536, 2048, 3072, 4096};
static const char *const again[] = {"", "selective", "block"};

#define COUNT(list) ((int32_t)(sizeof(list) / sizeof *(list)))

typedef struct pricing {
    const pricing_case *c;
    hw_cluster *cluster;
    const cost_model *model;
    fs_arena *arena;
    uint64_t rng;
    int64_t until;   /* plans to the next one that is checked */
    double checks_s; /* spent on these */
    pricing_figures f;
} pricing;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of several micro-batches, however many. */
static ir_graph *graph_of(void *ctx, const search_sweep_graph *of, fs_err *err)
{
    const pricing *s = ctx;
    const pricing_network network = {s->c->spec, of->recompute, s->c->layers,
                                     of->samples};
    (void)err;
    return pricing_graph(&network, of->layers);
}

/* ---- prices ---- */

static void check(pricing *s, const search_swept *one)
{
    fs_arena *scratch = fs_arena_create();
    const cost_degrees *d = one->degrees;
    const cost_price *p = one->price;
    const pricing_network network = {
        s->c->spec, one->recompute, s->c->layers,
        (int32_t)(one->few->batch / one->few->micro_batches)};
    ir_graph *whole = pricing_graph(&network, s->c->layers);
    const plan_strategy *out =
        pricing_whole(one->few, one->pattern, whole, d, scratch);
    cost_summary sum;
    fs_err err = {0};
    const double begin_s = cpu_s();
    if (cost_strategy(s->model, whole, out, scratch, &err, &sum) != FS_OK) {
        printf("# %s\n", err.text);
        s->f.wrong++;
    } else {
        s->f.whole_s += cpu_s() - begin_s;
        s->f.off = fmax(s->f.off, fabs(p->iteration_s / sum.iteration_s - 1));
        int64_t most = 0;
        for (int32_t i = 1; i < d->n_stages - 1; i++)
            most = sum.peak_bytes[i] > most ? sum.peak_bytes[i] : most;
        s->f.wrong +=
            p->peak_bytes[0] != sum.peak_bytes[0] ||
            p->peak_bytes[p->n_stages - 1] != sum.peak_bytes[d->n_stages - 1] ||
            (p->n_stages == 3 && p->peak_bytes[1] != most);
    }
    s->f.checked++;
    ir_graph_destroy(whole);
    fs_arena_destroy(scratch);
}

static bool fits(const pricing *s, const cost_price *p)
{
    bool fit = true;
    for (int32_t i = 0; i < p->n_stages; i++)
        fit = fit && (double)p->peak_bytes[i] <=
                         s->cluster->groups[0].device.memory_bytes;
    return fit;
}

static void take(void *ctx, const search_swept *one)
{
    pricing *s = ctx;
    if (!one->price) {
        s->f.refused += one->degrees != NULL;
        return;
    }
    s->f.plans++;
    s->f.fit += fits(s, one->price);
    if (s->until-- > 0)
        return;
    const double begin_s = cpu_s();
    check(s, one);
    s->checks_s += cpu_s() - begin_s;
    s->until = fs_rand_below(&s->rng, s->c->fewer ? 60000 : 12000);
}

/* All plans of a mesh once more, with all that is known. */
static void repeat(void *ctx, cost_sheet *sheet, const cost_degrees *of,
                   const search_sweep_size *size)
{
    pricing *s = ctx;
    cost_degrees d = *of;
    const int32_t n_schedules = d.n_stages > 1 ? COUNT(schedules) : 1;
    const double begin_s = cpu_s();
    for (int32_t b = 0; b < size->n_counts; b++)
        for (int32_t k = 0; k < n_schedules; k++) {
            fs_err err = {0};
            cost_price p;
            d.micro_batches = size->counts[b];
            d.schedule = schedules[k];
            s->f.again += cost_sheet_price(sheet, &d, &err, &p) == FS_OK;
        }
    s->f.again_s += cpu_s() - begin_s;
}

/* ---- all of them ---- */

static int32_t make_sizes(fs_arena *arena, search_sweep_size *sizes)
{
    int32_t n = 0;
    for (int32_t samples = 1; samples <= MOST_SAMPLES; samples *= 2) {
        int32_t *counts = fs_new(arena, int32_t, COUNT(batches)), n_counts = 0;
        for (int32_t b = 0; b < COUNT(batches); b++)
            if (batches[b] % samples == 0)
                counts[n_counts++] = batches[b] / samples;
        sizes[n++] = (search_sweep_size){samples, n_counts, counts};
    }
    return n;
}

static void run(pricing *s)
{
    search_sweep_size sizes[MOST_SIZES];
    search_sweep sweep = {.cluster = s->cluster,
                          .cost = s->model,
                          .layers = s->c->layers,
                          .devices = s->c->devices,
                          .fewer = s->c->fewer,
                          .most_each = MOST_EACH,
                          .quick = true,
                          .n_recompute = COUNT(again),
                          .recompute = again,
                          .n_schedules = COUNT(schedules),
                          .schedules = schedules,
                          .n_sizes = make_sizes(s->arena, sizes),
                          .sizes = sizes,
                          .ctx = s,
                          .graph = graph_of,
                          .visit = take,
                          .mesh_done = repeat};
    const search_sweep_figures *f = &sweep.figures;
    const double begin_s = cpu_s();
    search_sweep_run(&sweep);
    s->f.prices_s = cpu_s() - begin_s - f->patterns_s - f->graphs_s -
                    f->sheets_s - s->checks_s - s->f.again_s;
    s->f.patterns = f->patterns;
    s->f.same = f->same;
    s->f.sheets = f->sheets;
    s->f.meshes = f->meshes;
    s->f.patterns_s = f->patterns_s;
    s->f.graphs_s = f->graphs_s;
    s->f.sheets_s = f->sheets_s;
}

pricing_figures pricing_run(const pricing_case *c)
{
    pricing s = {.c = c, .arena = fs_arena_create(), .rng = 1};
    fs_err err = {0};
    if (hw_cluster_open(c->cluster, c->datasets, s.arena, &err, &s.cluster) !=
        FS_OK) {
        printf("# %s\n", err.text);
        return s.f;
    }
    s.model = cost_model_create(s.cluster, s.arena);
    run(&s);
    fs_arena_destroy(s.arena);
    return s.f;
}
