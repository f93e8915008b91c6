/* make bench-search: what one search takes, on known networks, on one without
 * repetition, and as networks and clusters grow. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP .01

typedef struct target {
    const char *name, *words;
    double first_s, gap_s, megabytes; /* INFINITY: not asked for */
} target;

static const target targets[] = {
    {"gpt3-175b",
     "zoo:gpt3-175b --cluster 128x8:a100-sxm4-80g --batch 1536 "
     "--precision bf16 --gap 0.01",
     1, 10, 1000},
    {"gpt3-175b, blocks again",
     "zoo:gpt3-175b --cluster 128x8:a100-sxm4-80g --batch 1536 "
     "--precision bf16 --recompute block --gap 0.01",
     1, 10, 1000},
    {"llama3-8b",
     "zoo:llama3-8b --cluster 8x8:h100-sxm5-80g --batch 256 "
     "--precision bf16 --gap 0.01",
     INFINITY, 5, INFINITY},
    {"llama3-8b, nothing again",
     "zoo:llama3-8b --cluster 8x8:h100-sxm5-80g --batch 256 "
     "--precision bf16 --recompute none --gap 0.01",
     INFINITY, 5, INFINITY},
    {"bert-large",
     "zoo:bert-large --cluster 4x8:a100-sxm4-80g --batch 512 "
     "--precision bf16 --gap 0.01",
     INFINITY, 5, INFINITY},
    {"resnet50",
     "zoo:resnet50 --cluster 4x8:a100-sxm4-80g --batch 1024 "
     "--precision bf16 --gap 0.01",
     INFINITY, 5, INFINITY},
    {"wide-deep",
     "zoo:wide-deep --cluster 4x8:a100-sxm4-80g --batch 16384 --gap 0.01",
     INFINITY, 5, INFINITY},
    {"moe-52b",
     "zoo:moe-52b --cluster 8x8:a100-sxm4-80g --batch 512 "
     "--precision bf16 --gap 0.01",
     INFINITY, 5, INFINITY},
};

#define COLUMNS                                                                \
    "first s | graphs s | search s | wall s | CPU s | MB | step s | gap % | "  \
    "every cut % | sim gap % | configurations | open | "

static void tell_run(const bench_run *r)
{
    bench_cell("%.2f", bench_first(r));
    bench_cell("%.2f", r->graphs_s);
    bench_cell("%.2f", r->search_s);
    bench_cell("%.2f", r->wall_s);
    bench_cell("%.2f", r->cpu_s);
    bench_cell("%.0f", r->megabytes);
    bench_cell("%.5g", r->step_s);
    bench_cell("%.2f", 100 * r->gap);
    bench_cell("%.2f", 100 * r->every_cut);
    bench_cell("%.2f", 100 * r->sim_gap);
    bench_cell("%.0f", r->configs);
    bench_cell("%.0f", r->open);
}

static void tell_target(const target *t, const bench_run *r)
{
    bench_verdict v = {{0}};
    printf("| %s |", t->name);
    tell_run(r);
    bench_must(&v, r->gap <= GAP, "gap");
    bench_must(&v, r->wall_s <= t->gap_s, "seconds");
    bench_must(&v, bench_first(r) <= t->first_s || isinf(t->first_s),
               "first plan");
    bench_must(&v, r->megabytes <= t->megabytes, "memory");
    printf(" gap 1 %% in %g s", t->gap_s);
    if (isfinite(t->first_s))
        printf(", first plan in %g s", t->first_s);
    if (isfinite(t->megabytes))
        printf(", %g MB", t->megabytes);
    printf(" |");
    bench_tell(&v);
    bench_tell_command(r);
}

void bench_targets(void)
{
    bool begun = false;
    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
        if (!bench_wants("targets", targets[k].name))
            continue;
        if (!begun)
            bench_table("Targets",
                        "A plan with a proven gap of 1 % at most. `first`: "
                        "seconds until there was a plan, graphs included; "
                        "seconds of the verdict are `wall`.",
                        "| model | " COLUMNS "target | verdict | command |");
        begun = true;
        const bench_run r = bench_search(0, targets[k].words);
        tell_target(&targets[k], &r);
    }
}

/* ---- a network without repetition ---- */

/* Operators of the network; training has about three times as many. */
static const int plain_ops[] = {1700, 5000};

static void plain(int ops)
{
    char words[1400], make[1400];
    const target t = {"", "", INFINITY, 20, INFINITY};
    snprintf(make, sizeof make, "'%s/tests/make_plain' %d '%s'",
             bench_env("FS_BUILDDIR", "."), ops, bench_scratch("plain.onnx"));
    if (system(make) != 0)
        return;
    const bench_run about = bench_do("model '%s' --batch 4096 --loss mse",
                                     bench_scratch("plain.onnx"));
    json_t *answer = bench_answer();
    snprintf(words, sizeof words,
             "'%s' --cluster 1x8:a100-sxm4-80g --batch 4096 --loss mse "
             "--gap 0.01",
             bench_scratch("plain.onnx"));
    bench_run r = bench_search(0, words);
    snprintf(r.command, sizeof r.command,
             "make_plain %d plain.onnx; flowsearch search plain.onnx "
             "--cluster 1x8:a100-sxm4-80g --batch 4096 --loss mse --gap 0.01",
             ops);
    printf("| %d | %.0f |", ops, bench_figure(answer, "ops"));
    json_decref(answer);
    (void)about;
    tell_run(&r);
    bench_verdict v = {{0}};
    bench_must(&v, r.gap <= GAP, "gap");
    bench_must(&v, r.wall_s <= t.gap_s, "seconds");
    bench_tell(&v);
    bench_tell_command(&r);
}

void bench_plain(void)
{
    if (!bench_wants("plain", "plain"))
        return;
    bench_table("A network without repetition on 8 devices",
                "Target: gap of 1 % in 20 s for 5,000 operators, be it those "
                "of the network or of its training graph, which has about "
                "three times as many.",
                "| operators | with variables | " COLUMNS
                "verdict | command |");
    for (size_t k = 0; k < sizeof plain_ops / sizeof *plain_ops; k++)
        plain(plain_ops[k]);
}

/* ---- growth ---- */

typedef struct series {
    const char *what, *format;
    int at[4];
    int from; /* the first that the ratio spans */
    double most;
} series;

static const series all_series[] = {
    {"layers of a GPT of width 1024, 8 devices",
     "zoo:gpt,layers=%d,hidden=1024,heads=16,seq=1024,vocab=50257 "
     "--cluster 1x8:a100-sxm4-80g --batch 64 --precision bf16 "
     "--recompute block --gap 0.01",
     {12, 96, 960},
     1,
     1.5},
    {"layers of GPT-3 175B's width, 1024 devices",
     "zoo:gpt3-175b,layers=%d --cluster 128x8:a100-sxm4-80g --batch 1536 "
     "--precision bf16 --recompute block --gap 0.01",
     {12, 96, 960},
     1,
     1.5},
    {"nodes of 8 devices, a GPT of 12 layers",
     "zoo:gpt,layers=12,hidden=1024,heads=16,seq=1024,vocab=50257 "
     "--cluster %dx8:a100-sxm4-80g --batch 16384 --precision bf16 "
     "--recompute block --gap 0.01",
     {1, 8, 128, 2048},
     0,
     3},
};

static void grow(const series *s)
{
    double from_s = (double)NAN, from_cpu_s = (double)NAN;
    for (int k = 0; k < 4 && s->at[k] > 0; k++) {
        char words[400], text[80];
        snprintf(words, sizeof words, s->format, s->at[k]);
        const bench_run r = bench_search(0, words);
        const double took_s = r.graphs_s + r.search_s;
        const bool last = k == 3 || s->at[k + 1] == 0;
        bench_verdict v = {{0}};
        printf("| %s | %d |", s->what, s->at[k]);
        tell_run(&r);
        if (k == s->from)
            from_s = took_s, from_cpu_s = r.cpu_s;
        bench_cell("%.2f", took_s / from_s);
        bench_cell("%.2f", r.cpu_s / from_cpu_s);
        snprintf(text, sizeof text, "more than %g times", s->most);
        bench_must(&v, !last || took_s <= s->most * from_s, text);
        bench_must(&v, r.gap <= GAP, "gap");
        bench_tell(&v);
        bench_tell_command(&r);
    }
}

void bench_growth(void)
{
    bool begun = false;
    for (size_t k = 0; k < sizeof all_series / sizeof *all_series; k++) {
        if (!bench_wants("growth", all_series[k].what))
            continue;
        if (!begun)
            bench_table("Growth",
                        "Seconds for graphs and search to a gap of 1 % grow "
                        "with what is different: 96 to 960 layers at most 1.5 "
                        "times, 8 to 16,384 devices at most 3 times.",
                        "| what grows | to | " COLUMNS
                        "times | times, CPU | verdict | command |");
        begun = true;
        grow(&all_series[k]);
    }
}
