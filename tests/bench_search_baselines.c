/* make bench-search: the search beside every baseline, each run by itself under
 * the same cost model. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first ones in every run. */
static const char *const baselines[] = {
    "megatron", "alpa",  "greedy",          "deduce",  "mcmc", "exhaustive",
    "horovod",  "gpipe", "mesh-tensorflow", "hugectr", "fsdp"};
enum {
    BASELINES = sizeof baselines / sizeof *baselines,
    USUAL_BASELINES = 6,
    EXHAUSTIVE = 5,
    MOST = 400
};

/* Every model of the zoo, of few and narrow layers, or images of few pixels. */
static const struct {
    const char *name, *words;
    int batch;
} small[] = {
    {"mlp", "mlp", 256},
    {"gpt", "gpt,layers=2,hidden=512,heads=8,seq=256,vocab=4096", 256},
    {"bert", "bert,layers=2,hidden=512,heads=8,seq=256,vocab=4096", 256},
    {"llama",
     "llama,layers=2,hidden=512,heads=8,kv_heads=4,ffn=1376,seq=256,"
     "vocab=4096",
     256},
    {"moe", "moe,layers=2,hidden=512,heads=8,seq=256,vocab=4096", 256},
    {"t5",
     "t5,layers=1,hidden=512,heads=8,head=64,ffn=2048,seq=256,target=256,"
     "vocab=4096",
     256},
    {"vit", "vit,layers=2,hidden=512,heads=8,ffn=2048", 256},
    {"resnet", "resnet,depth=18,width=32,size=64,classes=100", 256},
    {"vgg", "vgg,depth=11,size=64,classes=100,hidden=1024", 256},
    {"mobilenet", "mobilenet,size=64,classes=100", 256},
    {"efficientnet", "efficientnet,size=64,classes=100", 256},
    {"unet", "unet,depth=2,size=64", 256},
    {"wide_deep", "wide_deep,rows=100000,layers=3,fields=8", 4096},
    {"dlrm", "dlrm,tables=4,rows=1000000", 4096},
    {"insightface", "insightface,size=32,classes=1000", 256},
    {"lstm", "lstm,layers=1", 256},
    {"gru", "gru,layers=1", 256},
};
enum { SMALL = sizeof small / sizeof *small };

static const char *const clusters[] = {"1x2", "1x8", "4x8", "16x8"};

typedef struct tally {
    double margin[BASELINES][MOST]; /* INFINITY: it found no plan */
    int problems, worse, unsolved, proven;
    int n_baselines;
    bool refused; /* by the oracle, at this model */
} tally;

static void tell_margin(double margin)
{
    if (isnan(margin))
        printf(" - |");
    else if (isinf(margin))
        printf(" no plan |");
    else
        printf(" %+.3g |", 100 * margin);
}

/* The difference that rounding may make. */
static bool is_worse(double margin)
{
    return margin < -1e-9;
}

static void tell_problem(tally *t, const char *name, const bench_run *ours)
{
    bench_verdict v = {{0}};
    double least = INFINITY;
    printf("| %s |", name);
    bench_cell("%.5g", ours->step_s);
    bench_cell("%.2f", 100 * ours->gap);
    bench_cell("%.2f", ours->wall_s);
    for (int b = 0; b < t->n_baselines; b++) {
        const double margin = t->margin[b][t->problems];
        least = fmin(least, margin);
        tell_margin(margin);
        if (is_worse(margin))
            bench_must(&v, false, baselines[b]);
    }
    t->worse += is_worse(least);
    t->proven += ours->gap <= .001;
    t->unsolved += !isfinite(ours->step_s);
    if (!isfinite(ours->step_s))
        printf(" %s |", ours->answer);
    else
        bench_tell(&v);
    bench_tell_command(ours);
}

/* What the oracle has refused of a model it is not asked of more devices. */
static double ask(tally *t, int b, const char *words, const bench_run *ours)
{
    char each[700];
    if (b == EXHAUSTIVE && t->refused)
        return (double)NAN;
    snprintf(each, sizeof each, "%s --engine %s", words, baselines[b]);
    const bench_run r = bench_search(5, each);
    t->refused |= b == EXHAUSTIVE && !isfinite(r.step_s);
    if (!isfinite(r.step_s))
        return b == EXHAUSTIVE ? (double)NAN : INFINITY;
    /* -1: it has a plan and ours has none. */
    return isfinite(ours->step_s) ? r.step_s / ours->step_s - 1 : -1;
}

/* `words` without an engine. Returns what ours found. */
static bench_run problem(tally *t, const char *name, const char *words)
{
    char each[700];
    /* the best by the formula, which is what they are compared by */
    snprintf(each, sizeof each, "%s --keep 1", words);
    const bench_run ours = bench_search(5, each);
    for (int b = 0; b < t->n_baselines; b++)
        t->margin[b][t->problems] = ask(t, b, words, &ours);
    tell_problem(t, name, &ours);
    t->problems++;
    return ours;
}

/* Within the devices' own memory, then within 0.6 of what that plan took. */
static void model_on(tally *t, size_t m, const char *cluster)
{
    char name[100], words[500];
    snprintf(name, sizeof name, "%s, %s", small[m].name, cluster);
    snprintf(words, sizeof words,
             "zoo:%s --cluster %s:a100-sxm4-80g --batch %d --gap 0",
             small[m].words, cluster, small[m].batch);
    const bench_run r = problem(t, name, words);
    if (r.peak_bytes <= 0)
        return;
    const size_t n = strlen(words);
    snprintf(words + n, sizeof words - n, " --memory %.0f",
             floor(.6 * r.peak_bytes));
    snprintf(name, sizeof name, "%s, %s, %.0f MB", small[m].name, cluster,
             .6 * r.peak_bytes / 1e6);
    problem(t, name, words);
}

/* Those that were not asked last. */
static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return (isnan(x) != 0) - (isnan(y) != 0);
    return (x > y) - (x < y);
}

static void summary(tally *t)
{
    printf("\n| baseline | least margin %% | median %% | greatest %% | no plan "
           "|\n|---|---|---|---|---|\n");
    for (int b = 0; b < t->n_baselines; b++) {
        int n = 0, none = 0;
        qsort(t->margin[b], (size_t)t->problems, sizeof(double), ascending);
        while (n < t->problems && isfinite(t->margin[b][n]))
            n++;
        while (n + none < t->problems && isinf(t->margin[b][n + none]))
            none++;
        printf("| %s |", baselines[b]);
        tell_margin(n ? t->margin[b][0] : (double)NAN);
        tell_margin(n ? t->margin[b][n / 2] : (double)NAN);
        tell_margin(n ? t->margin[b][n - 1] : (double)NAN);
        printf(" %d |\n", none);
    }
    printf("\n%d problems: worse than a baseline on %d, without a plan on %d, "
           "proven to 0.1 %% on %d.\n",
           t->problems, t->worse, t->unsolved, t->proven);
}

void bench_baselines(void)
{
    char columns[400] = "| model, cluster, limit | step s | gap % | wall s |";
    tally *t = calloc(1, sizeof *t);
    bool begun = false;
    t->n_baselines = *bench_env("BENCH_ALL", "") ? BASELINES : USUAL_BASELINES;
    for (int b = 0; b < t->n_baselines; b++)
        snprintf(columns + strlen(columns), sizeof columns - strlen(columns),
                 " %s |", baselines[b]);
    strcat(columns, " verdict | command of ours |");
    for (size_t m = 0; m < SMALL; m++) {
        if (!bench_wants("baselines", small[m].name))
            continue;
        if (!begun)
            bench_table(
                "Baselines",
                "Margins in %: by how much a step of the baseline's plan takes "
                "longer than ours, each run by itself for 5 s at most. Never "
                "below 0. A second row is under 0.6 of the memory of the first "
                "one's plan. Every model of the zoo, made small.",
                columns);
        begun = true;
        t->refused = false;
        for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++)
            model_on(t, m, clusters[c]);
    }
    if (begun)
        summary(t);
    free(t);
}
