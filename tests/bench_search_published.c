/* make bench-search: published search times beside ours. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOOL, MODEL, SECONDS, INCLUDES, SPACE, SOURCE, WORDS, FIELDS };

/* Splits a line of CSV in place; "" within quotes is not needed there. */
static int split(char *line, char *field[FIELDS])
{
    int n = 0;
    for (char *at = line; n < FIELDS; at++) {
        const bool quoted = *at == '"';
        at += quoted;
        field[n++] = at;
        at += strcspn(at, quoted ? "\"\n" : ",\n");
        if (quoted && *at == '"')
            *at++ = '\0';
        const bool more = *at == ',';
        *at = '\0';
        if (!more)
            break;
    }
    return n;
}

static void tell(char *const field[FIELDS], const bench_run *r)
{
    double theirs_s = (double)NAN;
    bench_verdict v = {{0}};
    sscanf(field[SECONDS], "%lf", &theirs_s);
    printf("| %s | %s |", field[TOOL], field[MODEL]);
    bench_cell("%g", theirs_s);
    bench_cell("%.2f", r->wall_s);
    bench_cell("%.2f", r->cpu_s);
    bench_cell("%.2f", 100 * r->gap);
    bench_cell("%.3g", theirs_s / r->wall_s);
    bench_must(&v, r->gap <= .01, "gap");
    bench_must(&v, r->wall_s <= 5, "seconds");
    bench_tell(&v);
    printf(" %s | %s | %s |", field[INCLUDES], field[SPACE], field[SOURCE]);
    bench_tell_command(r);
}

/* Rows of one command follow each other, so that it is run once. */
void bench_published(void)
{
    char line[2000], last[600] = "";
    char *field[FIELDS];
    bench_run r = {0};
    FILE *file = bench_wants("published", "published")
                     ? fopen(bench_home("datasets/search_times.csv"), "r")
                     : NULL;
    if (!file)
        return;
    bench_table("Published search times",
                "Target: ours 5 s each, to a proven gap of 1 %. Ours needs no "
                "devices and compiles and measures nothing; it searches what "
                "`space` of its answer says and proves a gap, which none of "
                "the others does. Theirs ran on other machines.",
                "| tool | on | theirs s | ours, wall s | ours, CPU s | our gap "
                "% | times | verdict | theirs includes | theirs searches | "
                "source | our command |");
    while (fgets(line, sizeof line, file)) {
        if (split(line, field) != FIELDS || strcmp(field[TOOL], "tool") == 0)
            continue;
        if (strcmp(last, field[WORDS]) != 0)
            r = bench_search(0, field[WORDS]);
        snprintf(last, sizeof last, "%s", field[WORDS]);
        tell(field, &r);
    }
    fclose(file);
}
