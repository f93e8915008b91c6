/* make bench-search: what its tables share. Each row is a command that a user
 * would type, in a process of its own. */
#ifndef FS_TESTS_BENCH_SEARCH_H
#define FS_TESTS_BENCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* NAN: not said. */
typedef struct bench_run {
    char command[600]; /* as told, without where its output goes */
    char why[160];     /* of its message, when there is one */
    int status;        /* -1: it did not end by itself */
    double wall_s, cpu_s, megabytes; /* of the process, from its start to its
                                        end; at most resident, in 1e6 */
    double graphs_s, first_s, search_s;
    double step_s, gap, every_cut, sim_gap;
    double peak_bytes;     /* of the fullest device */
    int32_t configs, open; /* in the space; of these, not pruned */
    char answer[16];       /* optimal, feasible, infeasible, limit */
    bool late;             /* a clock had a say */
} bench_run;

/* `flowsearch WORDS`, with --json and --db none, or this one. */
void bench_use_database(const char *name);
bench_run bench_do(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* The same for `search`, with BENCH_LIMIT or `limit_s` (0: the usual one). */
bench_run bench_search(double limit_s, const char *words);
json_t *bench_answer(void); /* of the last one; the caller's, or NULL */

/* BENCH_SEARCH is in the name of the table or of the row. */
bool bench_wants(const char *table, const char *row);
const char *bench_env(const char *name, const char *usual);
const char *bench_home(const char *below);    /* in the source tree */
const char *bench_scratch(const char *below); /* static, as all here */

/* A heading with the load of the machine, a line of targets, the columns. */
void bench_table(const char *title, const char *target, const char *columns);
void bench_cell(const char *format, double value);
double bench_figure(const json_t *from, const char *key);
/* Seconds from the start until there was a plan. */
double bench_first(const bench_run *r);

/* A verdict is a text of all that is not as it must be. */
typedef struct bench_verdict {
    char text[120];
} bench_verdict;
void bench_must(bench_verdict *verdict, bool holds, const char *what);
void bench_tell(const bench_verdict *verdict); /* a cell */
void bench_tell_command(const bench_run *r);   /* the last cell, and `why` */

void bench_targets(void);
void bench_plain(void);
void bench_growth(void);
void bench_published(void);
void bench_baselines(void);
void bench_ranks(void);
void bench_solve(void);
/* A cost network of about so many nodes; false: it could not be written. */
bool bench_draw_network(const char *path, int32_t n, uint64_t seed);

#endif
