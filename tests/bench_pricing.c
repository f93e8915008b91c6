/* A sweep over recipes as one would write them: all degrees of data, tensor and
 * pipeline parallelism that multiply to the devices (or fewer), micro-batches
 * of 1 to 8 samples per rank, batches of 128 to 4,096, schedules, what is
 * computed again, ZeRO 0 to 3, with the stream between blocks cut along the
 * sequence or whole. Signatures are those that search completes a recipe with
 * on two ranks of each axis. */
#include "config.h"
#include "bench_pricing.h"

#include "base/hash.h"
#include "pricing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PATTERNS = 16, MOST_SAMPLES = 1024, MOST_EACH = 8, CHECKED = 24 };

static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "zb-h2",
                                        "dynamic"};
static const int32_t batches[] = {128,  192,  256,  384,  512, 768,
                                  1024, 1536, 2048, 3072, 4096};
static const char *const again[] = {"", "selective", "block"};

#define COUNT(list) ((int32_t)(sizeof(list) / sizeof *(list)))

/* One recipe but for its degrees: which of the two axes there are. */
typedef struct pattern {
    bool dp, tp;
    int32_t zero, seq;
    const plan_strategy *strategy;
} pattern;

typedef struct sweep {
    const pricing_case *c;
    hw_cluster *cluster;
    const cost_model *model;
    cost_pipes *pipes;
    fs_arena *arena;
    pricing_network network;
    int32_t n_stages; /* of the fold */
    pattern patterns[MOST_PATTERNS];
    int32_t n_patterns;
    ir_graph *few;
    cost_fold *first, *fold;
    uint64_t rng;
    int64_t until; /* plans to the next one that is checked */
    pricing_figures f;
} sweep;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- patterns ---- */

static void add_pattern(sweep *s, pattern p)
{
    fs_arena *scratch = fs_arena_create();
    pricing_network least = s->network;
    least.samples = p.dp ? 2 : 1;
    ir_graph *graph = pricing_graph(&least, PRICING_LAYERS * s->n_stages);
    const char *recipe =
        fs_printf(scratch, "dp=%d,tp=%d%s%s", 1 + p.dp, 1 + p.tp,
                  p.dp ? fs_printf(scratch, ",zero=%d", p.zero) : "",
                  p.tp ? fs_printf(scratch, ",seq-parallel=%d", p.seq) : "");
    const char *cluster = fs_printf(scratch, "%dx%d:a100-sxm4-80g", s->n_stages,
                                    (1 + p.dp) * (1 + p.tp));
    p.strategy = pricing_pattern(graph, s->n_stages, recipe, cluster,
                                 s->c->datasets, s->arena);
    bool known = false;
    for (int32_t k = 0; k < s->n_patterns; k++)
        known |= plan_same_strategy(s->patterns[k].strategy, p.strategy);
    s->f.same += known;
    if (!known)
        s->patterns[s->n_patterns++] = p;
    s->f.patterns++;
    ir_graph_destroy(graph);
    fs_arena_destroy(scratch);
}

static void add_patterns(sweep *s)
{
    const double begin_s = cpu_s();
    s->n_patterns = 0;
    for (int32_t axes = 0; axes < 4; axes++)
        for (int32_t zero = 0; zero < (axes & 1 ? 4 : 1); zero++)
            for (int32_t seq = 0; seq < (axes & 2 ? 2 : 1); seq++)
                add_pattern(
                    s, (pattern){axes & 1, (axes & 2) > 0, zero, seq, NULL});
    s->f.patterns_s += cpu_s() - begin_s;
}

/* ---- prices ---- */

static void check(sweep *s, const pattern *of, const cost_degrees *d,
                  const cost_price *p)
{
    fs_arena *scratch = fs_arena_create();
    ir_graph *whole = pricing_graph(&s->network, s->network.layers);
    const plan_strategy *out =
        pricing_whole(s->few, of->strategy, whole, d, scratch);
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

static bool fits(const sweep *s, const cost_price *p)
{
    bool fit = true;
    for (int32_t i = 0; i < p->n_stages; i++)
        fit = fit && (double)p->peak_bytes[i] <=
                         s->cluster->groups[0].device.memory_bytes;
    return fit;
}

/* All plans of a sheet on a mesh; returns how many. */
static int64_t price_mesh(sweep *s, cost_sheet *sheet, const pattern *of,
                          cost_degrees d, bool anew)
{
    int64_t n = 0;
    const int32_t n_schedules = d.n_stages > 1 ? COUNT(schedules) : 1;
    for (int32_t b = 0; b < COUNT(batches); b++)
        for (int32_t k = 0; k < n_schedules; k++) {
            fs_err err = {0};
            cost_price p;
            if (batches[b] % s->network.samples)
                continue;
            d.micro_batches = batches[b] / s->network.samples;
            d.schedule = schedules[k];
            if (cost_sheet_price(sheet, &d, &err, &p) != FS_OK) {
                s->f.refused += anew;
                continue;
            }
            n++;
            if (!anew)
                continue;
            s->f.fit += fits(s, &p);
            if (s->until-- > 0)
                continue;
            const double begin_s = cpu_s();
            check(s, of, &d, &p);
            s->f.prices_s -= cpu_s() - begin_s;
            s->until = fs_rand_below(&s->rng, s->c->fewer ? 60000 : 12000);
        }
    return n;
}

/* Plans of a mesh in so many stages, and once more with all that is known. */
static void price_stages(sweep *s, const pattern *of, cost_sheet *sheet,
                         cost_degrees d)
{
    const int32_t stages = d.n_stages < 3 ? d.n_stages : 3;
    if (stages != s->n_stages || s->network.layers % d.n_stages ||
        s->network.layers / d.n_stages < PRICING_LAYERS)
        return;
    d.layers = s->network.layers / d.n_stages;
    const double begin_s = cpu_s();
    s->f.plans += price_mesh(s, sheet, of, d, true);
    const double middle_s = cpu_s();
    s->f.again += price_mesh(s, sheet, of, d, false);
    s->f.prices_s += middle_s - begin_s;
    s->f.again_s += cpu_s() - middle_s;
}

static void price_sheet(sweep *s, const pattern *of, cost_sheet *sheet)
{
    const int32_t samples = s->network.samples, most = s->c->devices;
    for (int32_t dp = 1 + of->dp; dp <= (of->dp ? samples : 1); dp *= 2)
        for (int32_t tp = 1 + of->tp; tp <= (of->tp ? most / dp : 1); tp *= 2) {
            cost_degrees d = {.mesh = {of->dp + of->tp, {dp, tp}}};
            if (!of->dp)
                d.mesh.dim[0] = tp;
            if (samples % dp || samples / dp > MOST_EACH)
                continue;
            s->f.meshes++;
            d.n_stages = most / (dp * tp);
            if (!s->c->fewer)
                price_stages(s, of, sheet, d);
            for (int32_t p = 1; s->c->fewer && p <= d.n_stages; p++) {
                cost_degrees some = d;
                some.n_stages = p;
                price_stages(s, of, sheet, some);
            }
        }
}

static bool applies(const sweep *s, const pattern *of)
{
    return of->dp ? s->network.samples > 1 : s->network.samples <= MOST_EACH;
}

/* Of other numbers of samples as of the first. */
static void open_fold(sweep *s, fs_arena *arena)
{
    fs_err err = {0};
    const double begin_s = cpu_s();
    s->few = pricing_graph(&s->network, PRICING_LAYERS * s->n_stages);
    const double made_s = cpu_s();
    const cost_folding of = {s->few, s->n_stages,
                             s->patterns[0].strategy->stage_of};
    const fs_status status =
        s->first ? cost_fold_like(s->first, s->few, arena, &err, &s->fold)
                 : cost_fold_create(s->model, s->pipes, &of, s->arena, &err,
                                    &s->fold);
    if (status != FS_OK)
        printf("# %s\n", err.text);
    if (!s->first)
        s->first = s->fold;
    s->f.graphs_s += made_s - begin_s;
    s->f.sheets_s += cpu_s() - made_s;
}

static void price_samples(sweep *s, int32_t samples)
{
    fs_arena *arena = fs_arena_create();
    s->network.samples = samples;
    open_fold(s, arena);
    for (int32_t k = 0; k < s->n_patterns; k++) {
        const pattern *of = &s->patterns[k];
        cost_sheet *sheet;
        fs_err err = {0};
        if (!applies(s, of))
            continue;
        const double begin_s = cpu_s();
        if (cost_sheet_create(s->fold, of->strategy, arena, &err, &sheet) !=
            FS_OK) {
            printf("# %s\n", err.text);
            continue;
        }
        s->f.sheets_s += cpu_s() - begin_s;
        s->f.sheets++;
        price_sheet(s, of, sheet);
    }
    if (s->fold != s->first)
        ir_graph_destroy(s->few);
    fs_arena_destroy(arena);
}

pricing_figures pricing_run(const pricing_case *c)
{
    sweep s = {.c = c, .arena = fs_arena_create(), .rng = 1};
    fs_err err = {0};
    s.network = (pricing_network){c->spec, "", c->layers, 1};
    if (hw_cluster_open(c->cluster, c->datasets, s.arena, &err, &s.cluster) !=
        FS_OK) {
        printf("# %s\n", err.text);
        return s.f;
    }
    s.model = cost_model_create(s.cluster, s.arena);
    s.pipes = cost_pipes_create(s.arena);
    for (int32_t r = 0; r < COUNT(again); r++)
        for (s.n_stages = 1; s.n_stages <= COST_SHEET_STAGES; s.n_stages++) {
            s.network.recompute = again[r];
            add_patterns(&s);
            s.first = NULL;
            for (int32_t n = 1; n <= MOST_SAMPLES; n *= 2)
                price_samples(&s, n);
        }
    fs_arena_destroy(s.arena);
    return s.f;
}
