/* A cost network in the public format that looks like those of the public set:
 * a chain of equal layers, forth and back, whose nodes have strategies that
 * split what they hold; what is made on the way forth is held until the way
 * back has come there, or for some steps; links cost what it takes to go from
 * one strategy to another, some only let equal ones pass. Drawn, so that there
 * may be as many nodes as the largest of that set has. */
#include "config.h"
#include "tests/bench_search.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYER = 40, MAX_VALUES = 9 };
#define FORBIDS INT64_C(1000000000000000000)

/* One node of a layer, the same in each. */
typedef struct kind {
    int32_t dom, back; /* strategies; how far the second link goes back */
    bool kept, tied;   /* held until the way back; the first link forbids */
    int32_t parts[MAX_VALUES]; /* into how many a strategy splits */
    int64_t cost[MAX_VALUES], bytes;
    int32_t lasts;
} kind;

static void draw_kinds(uint64_t *rng, kind *kinds)
{
    static const int32_t doms[] = {1, 2, 4, 4, 4, 9, 9};
    for (int32_t j = 0; j < LAYER; j++) {
        kind *k = &kinds[j];
        k->dom = doms[fs_rand_below(rng, 7)];
        k->back = 2 + (int32_t)fs_rand_below(rng, 12);
        k->kept = fs_rand_below(rng, 4) == 0;
        k->tied = fs_rand_below(rng, 3) == 0;
        k->lasts = 1 + (int32_t)fs_rand_below(rng, 30);
        k->bytes = 1000 + (int64_t)fs_rand_below(rng, 100000);
        for (int32_t s = 0; s < k->dom; s++) {
            k->parts[s] = 1 << (s % 4);
            k->cost[s] = (int64_t)fs_rand_below(rng, 1000) * k->parts[s];
        }
    }
}

typedef struct sketch {
    FILE *file;
    int32_t n;
    kind kinds[LAYER];
} sketch;

static const kind *kind_of(const sketch *d, int32_t i)
{
    return &d->kinds[(2 * i < d->n ? i : d->n - 1 - i) % LAYER];
}

static int32_t end_of(const sketch *d, int32_t i)
{
    const kind *k = kind_of(d, i);
    const int32_t end = k->kept && 2 * i < d->n ? d->n - i : i + 1 + k->lasts;
    return end < d->n ? end : d->n;
}

static void put_list(const sketch *d, int32_t i, bool bytes)
{
    const kind *k = kind_of(d, i);
    for (int32_t s = 0; s < k->dom; s++)
        fprintf(d->file, "%s%" PRId64,
                s   ? ","
                : i ? ",["
                    : "[",
                bytes ? k->bytes / k->parts[s] : k->cost[s]);
    fprintf(d->file, "]");
}

/* Links of a node, each to one before it. */
static int32_t links_of(const sketch *d, int32_t i, int32_t *to)
{
    const kind *k = kind_of(d, i);
    int32_t n = 0;
    if (i > 0)
        to[n++] = i - 1;
    if (2 * i >= d->n && k->kept && d->n - 1 - i < i - 1)
        to[n++] = d->n - 1 - i;
    else if (i > k->back)
        to[n++] = i - k->back;
    return n;
}

static void put_table(const sketch *d, int32_t from, int32_t i, bool first)
{
    const kind *a = kind_of(d, from), *b = kind_of(d, i);
    const bool forbids = first && b->tied && a->dom == b->dom;
    for (int32_t s = 0; s < a->dom; s++)
        for (int32_t x = 0; x < b->dom; x++) {
            const int64_t way =
                a->bytes / a->parts[s] * (1 + (s + 2 * x) % 3) / 16;
            fprintf(d->file, "%s%" PRId64, s || x ? "," : "[",
                    s == x    ? INT64_C(0)
                    : forbids ? FORBIDS
                              : way);
        }
    fprintf(d->file, "]");
}

static void put_links(const sketch *d, bool tables)
{
    bool any = false;
    for (int32_t i = 0; i < d->n; i++) {
        int32_t to[2];
        const int32_t n = links_of(d, i, to);
        for (int32_t l = 0; l < n; l++, any = true) {
            fprintf(d->file, "%s", any ? "," : "");
            if (tables)
                put_table(d, to[l], i, l == 0);
            else
                fprintf(d->file, "[%d,%d]", to[l], i);
        }
    }
}

/* A little more than what all hold at least. */
static int64_t limit_of(const sketch *d)
{
    int64_t *change = calloc((size_t)d->n + 1, sizeof *change);
    int64_t held = 0, peak = 0;
    for (int32_t i = 0; i < d->n && change; i++) {
        const kind *k = kind_of(d, i);
        int32_t most = 1;
        for (int32_t s = 0; s < k->dom; s++)
            most = k->parts[s] > most ? k->parts[s] : most;
        change[i] += k->bytes / most;
        change[end_of(d, i)] -= k->bytes / most;
    }
    for (int32_t t = 0; t < d->n && change; t++) {
        held += change[t];
        peak = held > peak ? held : peak;
    }
    free(change);
    return peak + peak / 5;
}

bool bench_draw_network(const char *path, int32_t n, uint64_t seed)
{
    sketch d = {.file = fopen(path, "w"), .n = n};
    uint64_t rng = fs_mix(seed);
    if (!d.file)
        return false;
    draw_kinds(&rng, d.kinds);
    fprintf(d.file, "{\"problem\":{\"name\":\"drawn\",\"nodes\":{"
                    "\"intervals\":[");
    for (int32_t i = 0; i < n; i++)
        fprintf(d.file, "%s[%d,%d]", i ? "," : "", i, end_of(&d, i));
    fprintf(d.file, "],\"costs\":[");
    for (int32_t i = 0; i < n; i++)
        put_list(&d, i, false);
    fprintf(d.file, "],\"usages\":[");
    for (int32_t i = 0; i < n; i++)
        put_list(&d, i, true);
    fprintf(d.file, "]},\"edges\":{\"nodes\":[");
    put_links(&d, false);
    fprintf(d.file, "],\"costs\":[");
    put_links(&d, true);
    fprintf(d.file, "]},\"usage_limit\":%" PRId64 "}}\n", limit_of(&d));
    return fclose(d.file) == 0;
}
