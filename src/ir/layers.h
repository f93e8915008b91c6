/* Runs of equal layers of a training graph: stretches of copies of one block,
 * each with all that belongs to it, forward, backward, computed again, summed
 * up, clipped and updated, its variables and constants included.
 *
 * Exact. Position p of every copy of a run has the same op, phase, attributes
 * (but for seeds), shapes and element types; the values of constants and the
 * first values of variables may differ. Each of its inputs comes from
 *   - the same position of its own copy, in all copies, or
 *   - one and the same tensor outside, in all copies, or
 *   - the same position of the copy before it in a chain that goes through all
 *     copies (a link): but for the copy where the chain begins, which reads
 *     anything of that shape.
 * Chains go forth or back from copy to neighbouring copy; sums over parameters
 * may go through the copies in any order. What is read from outside is of the
 * first copy, of the last, or the end of a chain; what else a node or tensor
 * refers to (forward, next, again_of) is at the same position of its own copy,
 * or one and the same outside. So leaving out copies between the first and the
 * last, each chain going past them, gives a legal graph: the one that the
 * network with so many layers less has.
 *
 * Copies of which this does not hold are outside: those at the rim that lack a
 * node or have one more, those read from elsewhere (the run is cut there). */
#ifndef FS_IR_LAYERS_H
#define FS_IR_LAYERS_H

#include "ir/graph.h"

typedef struct ir_layer_run {
    int32_t copies;      /* at least 3, in the order of the forward pass */
    int32_t length;      /* nodes of a copy, sources included */
    const int32_t *node; /* [copies * length], of a copy in the graph's order */
    const char *scope;   /* what forward names of the first copy begin with */
    /* [length * IR_MAX_OUT] of output s of position p: where the chain that
     * leaves copies here enters them, position * IR_MAX_IN + input; -1 */
    const int32_t *enter;
} ir_layer_run;

typedef struct ir_layers {
    const ir_graph *graph;
    FS_VEC(ir_layer_run) runs; /* by their first node */
    int32_t *run;              /* [node] -1: outside */
    int32_t *copy, *position;  /* [node] within the run */
    int32_t covered;           /* nodes of all runs */
} ir_layers;

/* Borrows the graph. Time and memory grow with the graph as it is long. */
void ir_find_layers(const ir_graph *graph, fs_arena *arena, ir_layers *out);
/* graph->layers, found when first asked for. */
const ir_layers *ir_graph_layers(ir_graph *graph);

/* A graph with some copies left out. */
typedef struct ir_folded {
    ir_graph *graph; /* in the arena given (not ir_graph_destroy); names, data
                        and programs of chains are borrowed from the original */
    int32_t *from;   /* [folded node] the original one */
    int32_t *rep;    /* [original node] the folded node of its position in the
                        nearest kept copy, its own or one before it */
    int32_t *times;  /* [folded node] originals that it is the rep of */
} ir_folded;

/* Keeps copy c of run r where keep[r][c] says so, and all that is outside, in
 * the graph's order and under its names; chains go past what is left out.
 * FS_INVALID, nothing written: a first or last copy is not to be kept. */
fs_status ir_fold(const ir_layers *layers, const bool *const *keep,
                  fs_arena *arena, fs_err *err, ir_folded *out);

#endif
