/* make bench-search: the search beside every baseline, each run by itself under
 * the same cost model. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
/* For everybody as much, in steps: the same rows on every machine, beside
 * whatever it runs. */
#define LIMIT "--work-limit 20"

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
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

typedef struct tally {
    double margin[BASELINES][MOST]; /* INFINITY: it found no plan */
    int problems, worse, unsolved, proven;
    int n_baselines;
    bool refused;  /* by the oracle, at this model */
    int asked, of; /* searches, for who waits */
    double began_s;
} tally;

/* ---- rows on disk: what was asked before is not asked again ---- */

#define CSV_COLUMNS                                                            \
    "date,commit,model,cluster,batch,limit_bytes,engine,status,late,step_s,"   \
    "gap,peak_bytes,wall_s,cpu_s,command"

/* One question: its row's first columns but for date and commit. */
typedef struct question {
    const char *model, *cluster, *words;
    int batch;
    double limit_bytes; /* 0: the device's own */
} question;

static void name_row(const question *q, const char *engine, char *key, size_t n)
{
    snprintf(key, n, ",%s,%s,%d,%.0f,%s,", q->model, q->cluster, q->batch,
             q->limit_bytes, engine);
}

/* Of the source tree; "" outside of one. */
static const char *commit(void)
{
    static char text[40];
    char command[1200];
    snprintf(command, sizeof command,
             "git -C '%s' describe --always --dirty --exclude '*' 2>/dev/null",
             bench_home(""));
    FILE *pipe = *text ? NULL : popen(command, "r");
    if (pipe && !fgets(text, sizeof text, pipe))
        text[0] = '\0';
    if (pipe)
        pclose(pipe);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* A figure that is not there is an empty cell. */
static double figure_of(const char *cell)
{
    return *cell ? strtod(cell, NULL) : (double)NAN;
}

static void read_row(char *cells, bench_run *r)
{
    char *cell[7];
    for (int k = 0; k < 7; k++) {
        cell[k] = cells;
        cells += strcspn(cells, ",");
        *cells++ = '\0';
    }
    snprintf(r->answer, sizeof r->answer, "%s", cell[0]);
    r->late = *cell[1] == '1';
    r->step_s = figure_of(cell[2]);
    r->gap = figure_of(cell[3]);
    r->peak_bytes = fmax(0, figure_of(cell[4]));
    r->wall_s = figure_of(cell[5]);
    r->cpu_s = figure_of(cell[6]);
    cells += *cells == '"'; /* it has commas */
    snprintf(r->command, sizeof r->command, "%.*s", (int)strcspn(cells, "\"\n"),
             cells);
}

/* The last row that answers with the same limit, in the file BENCH_CSV. */
static bool is_known(const question *q, const char *engine, bench_run *r)
{
    char line[1200], key[200];
    bool found = false;
    const char *path = bench_env("BENCH_CSV", "");
    FILE *file = *path ? fopen(path, "r") : NULL;
    name_row(q, engine, key, sizeof key);
    while (file && fgets(line, sizeof line, file)) {
        char *at = strstr(line, key);
        if (!at)
            continue;
        bench_run row = {0};
        read_row(at + strlen(key), &row);
        if (!strstr(row.command, LIMIT))
            continue;
        *r = row;
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

static void put_figure(FILE *file, const char *format, double value)
{
    if (isfinite(value))
        fprintf(file, format, value);
    fprintf(file, ",");
}

static void keep_row(const question *q, const char *engine, const bench_run *r)
{
    char key[200], date[40];
    const time_t now = time(NULL);
    const char *path = bench_env("BENCH_CSV", "");
    FILE *file = *path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    if (ftell(file) == 0)
        fprintf(file, "%s\n", CSV_COLUMNS);
    name_row(q, engine, key, sizeof key);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(file, "%s,%s%s%s,%d,", date, commit(), key,
            *r->answer ? r->answer : "fault", r->late);
    put_figure(file, "%.17g", r->step_s);
    put_figure(file, "%.6g", r->gap);
    put_figure(file, "%.0f", r->peak_bytes > 0 ? r->peak_bytes : (double)NAN);
    put_figure(file, "%.2f", r->wall_s);
    put_figure(file, "%.2f", r->cpu_s);
    fprintf(file, "\"%s\"\n", r->command);
    fclose(file);
}

static void tell_progress(tally *t, const question *q, const char *engine)
{
    fprintf(stderr, "baselines: %d of %d at most, %.0f s: %s, %s%s, %s\n",
            ++t->asked, t->of, difftime(time(NULL), 0) - t->began_s, q->model,
            q->cluster, q->limit_bytes > 0 ? " within less" : "", engine);
}

/* By `engine` and with these options, from the file when it is there. */
static bench_run answer(tally *t, const question *q, const char *engine,
                        const char *options)
{
    char words[700];
    bench_run r = {.status = -1};
    tell_progress(t, q, engine);
    if (is_known(q, engine, &r))
        return r;
    snprintf(words, sizeof words, "%s %s " LIMIT, q->words, options);
    r = bench_search(0, words);
    keep_row(q, engine, &r);
    return r;
}

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
static double ask(tally *t, int b, const question *q, const bench_run *ours)
{
    char options[60];
    if (b == EXHAUSTIVE && t->refused)
        return (double)NAN;
    snprintf(options, sizeof options, "--engine %s", baselines[b]);
    const bench_run r = answer(t, q, baselines[b], options);
    t->refused |= b == EXHAUSTIVE && !isfinite(r.step_s);
    if (!isfinite(r.step_s))
        return b == EXHAUSTIVE ? (double)NAN : INFINITY;
    /* -1: it has a plan and ours has none. */
    return isfinite(ours->step_s) ? r.step_s / ours->step_s - 1 : -1;
}

/* Returns what ours found: the best by the formula, which is what they are
 * compared by. */
static bench_run problem(tally *t, const question *q)
{
    char name[100];
    const bench_run ours = answer(t, q, "ilp", "--keep 1");
    for (int b = 0; b < t->n_baselines; b++)
        t->margin[b][t->problems] = ask(t, b, q, &ours);
    if (q->limit_bytes > 0)
        snprintf(name, sizeof name, "%s, %s, %.1f MB", q->model, q->cluster,
                 q->limit_bytes / 1e6);
    else
        snprintf(name, sizeof name, "%s, %s", q->model, q->cluster);
    tell_problem(t, name, &ours);
    t->problems++;
    return ours;
}

/* Within the devices' own memory, then within 0.6 of what that plan took. */
static void model_on(tally *t, size_t m, const char *cluster)
{
    char words[500];
    question q = {small[m].name, cluster, words, small[m].batch, 0};
    snprintf(words, sizeof words,
             "zoo:%s --cluster %s:a100-sxm4-80g --batch %d --gap 0",
             small[m].words, cluster, small[m].batch);
    const bench_run r = problem(t, &q);
    if (r.peak_bytes <= 0)
        return;
    const size_t n = strlen(words);
    q.limit_bytes = floor(.6 * r.peak_bytes);
    snprintf(words + n, sizeof words - n, " --memory %.0f", q.limit_bytes);
    problem(t, &q);
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

/* In the list of words that this variable has, or it has none. */
static bool is_listed(const char *variable, const char *word)
{
    const char *at = bench_env(variable, "");
    const size_t n = strlen(word);
    if (!*at)
        return true;
    for (; *at; at += strcspn(at, ", ")) {
        at += strspn(at, ", ");
        if (strcspn(at, ", ") == n && !strncmp(at, word, n))
            return true;
    }
    return false;
}

static bool model_wanted(size_t m)
{
    return bench_wants("baselines", small[m].name) &&
           is_listed("BENCH_MODELS", small[m].name);
}

static void count(tally *t)
{
    int models = 0, on = 0;
    for (size_t m = 0; m < SMALL; m++)
        models += model_wanted(m);
    for (size_t c = 0; c < CLUSTERS; c++)
        on += is_listed("BENCH_CLUSTERS", clusters[c]);
    t->of = 2 * models * on * (t->n_baselines + 1);
    t->began_s = difftime(time(NULL), 0);
}

static void begin_table(const tally *t)
{
    char columns[400] = "| model, cluster, limit | step s | gap % | wall s |";
    for (int b = 0; b < t->n_baselines; b++)
        snprintf(columns + strlen(columns), sizeof columns - strlen(columns),
                 " %s |", baselines[b]);
    strcat(columns, " verdict | command of ours |");
    bench_table("Baselines",
                "Margins in %: by how much a step of the baseline's plan takes "
                "longer than ours, each run by itself with as much work, 20 s "
                "(steps, not a clock's). Never below 0. A second row is under "
                "0.6 of the memory of the first "
                "one's plan. Every model of the zoo, made small.",
                columns);
}

void bench_baselines(void)
{
    tally *t = calloc(1, sizeof *t);
    t->n_baselines = *bench_env("BENCH_ALL", "") ? BASELINES : USUAL_BASELINES;
    count(t);
    if (t->of)
        begin_table(t);
    for (size_t m = 0; m < SMALL; m++) {
        t->refused = false;
        for (size_t c = 0; model_wanted(m) && c < CLUSTERS; c++)
            if (is_listed("BENCH_CLUSTERS", clusters[c]))
                model_on(t, m, clusters[c]);
    }
    if (t->of)
        summary(t);
    free(t);
}
