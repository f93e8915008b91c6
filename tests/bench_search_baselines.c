/* make bench-search: the search beside every baseline, each run by itself under
 * the same cost model. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const baselines[] = {
    "megatron", "horovod", "gpipe",     "mesh-tensorflow",
    "hugectr",  "fsdp",    "alpa",      "greedy",
    "deduce",   "mcmc",    "exhaustive"};
enum { BASELINES = sizeof baselines / sizeof *baselines, MOST = 400 };

/* Models of the zoo at their usual sizes; `few`: in the short run. */
static const struct {
    const char *name;
    int batch;
    bool few;
} models[] = {
    {"mlp", 256, true},
    {"gpt", 256, true},
    {"bert", 256, true},
    {"moe", 256, true},
    {"resnet,depth=18", 256, true},
    {"wide_deep", 4096, true},
    {"llama", 256, false},
    {"t5", 256, false},
    {"resnet", 256, false},
    {"vgg", 256, false},
    {"vit", 256, false},
    {"mobilenet", 256, false},
    {"efficientnet", 256, false},
    {"unet", 64, false},
    {"dlrm", 4096, false},
    {"insightface", 256, false},
    {"lstm", 256, false},
    {"gru", 256, false},
};

static const char *const clusters[] = {"1x2", "1x8", "4x8", "16x8"};

typedef struct tally {
    double margin[BASELINES][MOST]; /* INFINITY: it found no plan */
    int problems, worse, unsolved, proven;
    bool all;
    int n_baselines, n_clusters;
    double limit_s;
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

/* `words` without an engine. Returns what ours found. */
static bench_run problem(tally *t, const char *name, const char *words)
{
    char each[700];
    const bench_run ours = bench_search(t->limit_s, words);
    for (int b = 0; b < t->n_baselines; b++) {
        snprintf(each, sizeof each, "%s --engine %s", words, baselines[b]);
        const bench_run r = bench_search(t->limit_s, each);
        double *margin = &t->margin[b][t->problems];
        *margin = isfinite(r.step_s) ? r.step_s / ours.step_s - 1 : INFINITY;
        if (isfinite(r.step_s) && !isfinite(ours.step_s))
            *margin = -1; /* it has a plan and ours has none */
    }
    tell_problem(t, name, &ours);
    t->problems++;
    return ours;
}

/* Within the devices' own memory, then within 0.6 of what that plan took. */
static void model_on(tally *t, size_t m, const char *cluster)
{
    char name[100], words[500];
    snprintf(name, sizeof name, "%s, %s", models[m].name, cluster);
    snprintf(words, sizeof words,
             "zoo:%s --cluster %s:a100-sxm4-80g --batch %d", models[m].name,
             cluster, models[m].batch);
    const bench_run r = problem(t, name, words);
    if (r.peak_bytes <= 0)
        return;
    const size_t n = strlen(words);
    snprintf(words + n, sizeof words - n, " --memory %.0f",
             floor(.6 * r.peak_bytes));
    snprintf(name, sizeof name, "%s, %.0f MB", models[m].name,
             .6 * r.peak_bytes / 1e6);
    problem(t, name, words);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summary(tally *t)
{
    printf("\n| baseline | least margin %% | median %% | greatest %% | no plan "
           "|\n|---|---|---|---|---|\n");
    for (int b = 0; b < t->n_baselines; b++) {
        int n = 0;
        qsort(t->margin[b], (size_t)t->problems, sizeof(double), ascending);
        while (n < t->problems && isfinite(t->margin[b][n]))
            n++;
        printf("| %s |", baselines[b]);
        tell_margin(n ? t->margin[b][0] : (double)NAN);
        tell_margin(n ? t->margin[b][n / 2] : (double)NAN);
        tell_margin(n ? t->margin[b][n - 1] : (double)NAN);
        printf(" %d |\n", t->problems - n);
    }
    printf("\n%d problems: worse than a baseline on %d, without a plan on %d, "
           "proven to 0.1 %% on %d.\n",
           t->problems, t->worse, t->unsolved, t->proven);
}

void bench_baselines(void)
{
    char columns[400] = "| model, cluster or limit | step s | gap % | wall s |";
    tally *t = calloc(1, sizeof *t);
    t->all = *bench_env("BENCH_ALL", "") != '\0';
    t->n_baselines = t->all ? BASELINES : BASELINES - 1;
    t->n_clusters = t->all ? 4 : 3;
    t->limit_s = t->all ? 20 : 5;
    if (bench_wants("baselines", "baselines")) {
        for (int b = 0; b < t->n_baselines; b++)
            snprintf(columns + strlen(columns),
                     sizeof columns - strlen(columns), " %s |", baselines[b]);
        strcat(columns, " verdict | command of ours |");
        bench_table("Baselines",
                    "Margins in %: by how much a step of the baseline's plan "
                    "takes longer than ours. Never below 0. A second row is "
                    "under 0.6 of the memory of the first one's plan.",
                    columns);
        for (size_t m = 0; m < sizeof models / sizeof *models; m++)
            for (int c = 0; c < t->n_clusters && (t->all || models[m].few); c++)
                model_on(t, m, clusters[c]);
        summary(t);
    }
    free(t);
}
