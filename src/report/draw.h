/* Inside report/: one picture through libcgraph and libgvc. */
#ifndef FS_REPORT_DRAW_H
#define FS_REPORT_DRAW_H

#include "report/report.h"

#include <graphviz/cgraph.h>

typedef struct draw {
    Agraph_t *graph;
    fs_arena *arena;
    report_drawn drawn;
} draw;

/* The format of a file by its ending; FS_INVALID names the known ones. */
fs_status draw_format(const char *file, fs_err *err, const char **format);
/* A graph whose objects keep the order in which they are made. */
Agraph_t *draw_open(const char *name);
void draw_begin(draw *d, const char *name);
/* Sets an attribute of a graph, node or edge. */
void draw_set(void *object, const char *name, const char *value);
/* The value is Graphviz' HTML (a table). */
void draw_set_html(void *object, const char *name, const char *value);
void draw_setf(draw *d, void *object, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Agnode_t *draw_node(draw *d, Agraph_t *in, const char *name);
Agedge_t *draw_edge(draw *d, Agnode_t *from, Agnode_t *to);
Agraph_t *draw_cluster(draw *d, Agraph_t *in, const char *name,
                       const char *label);
/* Lays out with `engine` ("dot", "nop2"), writes, and frees everything. */
fs_status draw_finish(draw *d, const char *engine, const char *file,
                      fs_err *err, report_drawn *out);

/* Charts ("nop2"): a node of that shape at a place, in points; with a label it
 * grows as that wants. */
typedef struct draw_box {
    double x, y, width, height;
} draw_box;
Agnode_t *draw_put(draw *d, const char *shape, const char *label, draw_box at);
/* In one colour, without a label. */
Agnode_t *draw_put_filled(draw *d, const char *shape, const char *colour,
                          draw_box at);

/* Fill colour for SBPs: one colour per mesh axis ("#aaa:#bbb" is a blend). */
const char *draw_sbp_colour(draw *d, const ir_nd_sbp *sbp, int32_t n_axes);
const char *draw_class_colour(ir_op_class op_class);

/* Blocks: "/blocks.3/attn/MatMul" belongs to "blocks.3"; "" when there is
 * none. */
const char *draw_block_of(fs_arena *arena, const char *node_name);
/* The last part of a node's name. */
const char *draw_short_name(const char *node_name);

#endif
