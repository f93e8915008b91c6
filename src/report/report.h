/* What people look at: pictures through libcgraph and libgvc, the trace for
 * Perfetto, tables. */
#ifndef FS_REPORT_REPORT_H
#define FS_REPORT_REPORT_H

#include "plan/timing.h"

#include <stdio.h>

/* Counts of what was drawn. */
typedef struct report_drawn {
    int32_t nodes, edges;
} report_drawn;

/* The format is the file's ending: svg png pdf dot. Written through a
 * temporary file. Another ending is FS_INVALID. */
/* The network: forward ops, clustered by block, coloured by op class. */
fs_status report_draw_graph(const ir_graph *graph, const char *file,
                            fs_err *err, report_drawn *out);
/* The plan on the forward network: clustered by stage and block, nodes coloured
 * by SBP of their output, each boxing step and move of a forward pass once as
 * an edge's label with its bytes (what a rank holds before or after, whichever
 * is more), a note per stage that counts all its communication by phase.
 * Repeated equal blocks are folded ("x3"). */
fs_status report_draw_plan(const ir_graph *graph, const plan *p,
                           const char *file, fs_err *err, report_drawn *out);
/* The cluster in the manner of lstopo. */
fs_status report_draw_cluster(const hw_cluster *cluster, const char *file,
                              fs_err *err, report_drawn *out);
/* The timeline of a trace as SVG (ranks and streams as rows, tasks as boxes
 * coloured by kind, micro-batch numbers), drawn with Graphviz' own neato -n
 * positions through libgvc. What the picture spans, from the first kernel to
 * the last end, is added to the title: steps overlap, so that it may be more
 * than a step's time. */
fs_status report_draw_timeline(const plan *p, const plan_trace *trace,
                               const char *title, const char *file, fs_err *err,
                               report_drawn *out);
/* FS_INVALID: of another ending. */
fs_status report_check_picture(const char *file, fs_err *err);

/* Points of a front, fastest first, with what is proven of each. */
typedef struct report_front_point {
    double x, seconds, bound_s;
    const char *label;
} report_front_point;
typedef enum report_unit { REPORT_BYTES, REPORT_USD } report_unit;
typedef struct report_front {
    const char *title, *x_name;
    report_unit what; /* x is */
    int32_t n;
    const report_front_point *points;
} report_front;
/* Each front a panel. */
fs_status report_draw_fronts(const report_front *fronts, int32_t n,
                             const char *file, fs_err *err, report_drawn *out);
/* Times predicted against those measured, by series; all above 0. */
typedef struct report_scatter_point {
    double measured_s, predicted_s;
    int32_t series;
} report_scatter_point;
typedef struct report_scatter {
    const char *title;
    int32_t n, n_series;
    const report_scatter_point *points;
    const char *const *series; /* names */
} report_scatter;
fs_status report_draw_scatter(const report_scatter *scatter, const char *file,
                              fs_err *err, report_drawn *out);
/* "compute", "send to stage 1": a name for each stream of a rank. */
const char *report_stream_name(const plan *p, int32_t rank, int32_t stream,
                               fs_arena *arena);
/* Chrome / Perfetto trace JSON: a process per rank, a thread per stream. Both
 * a predicted and a measured trace may be given (either may be NULL). */
fs_status report_trace_json(const ir_graph *graph, const plan *p,
                            const plan_trace *predicted,
                            const plan_trace *measured, const char *file,
                            fs_err *err);
/* The same of a simulated trace that is too large to be kept: it is written as
 * it is handed over (plan_trace.take, with the stream as its ctx). Of live
 * bytes each new peak is told, where of a whole one the peak is. */
typedef struct report_stream report_stream;
fs_status report_stream_open(const ir_graph *graph, const plan *p,
                             const char *file, fs_arena *arena, fs_err *err,
                             report_stream **out);
void report_stream_take(void *stream, const plan_trace *piece,
                        int64_t first_ns);
/* keep: the file stands then; else nothing stays. */
fs_status report_stream_close(report_stream *s, bool keep, fs_err *err);

/* Tables: columns padded to their widest cell, numbers right-aligned. */
typedef struct report_table {
    fs_arena *arena;
    int32_t n_columns;
    const char *const *header;
    FS_VEC(const char *) cells; /* row by row */
} report_table;
void report_table_cell(report_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void report_table_print(const report_table *table, FILE *out);
/* A breakdown as an indented tree with shares and bars. */
void report_tree_print(const plan_breakdown *tree, const char *unit,
                       int32_t depth, FILE *out);

#endif
