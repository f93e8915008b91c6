/* A model of the zoo: its keys and its builder, and what builders share. */
#ifndef FS_ZOO_MODEL_H
#define FS_ZOO_MODEL_H

#include "ir/build.h"

enum { ZOO_MAX_KEYS = 8 };

typedef struct zoo_key {
    const char *name;
    int64_t usual, low, high; /* default and range */
} zoo_key;

typedef struct zoo_model {
    const char *name;
    zoo_key keys[ZOO_MAX_KEYS]; /* up to the first without a name */
    /* value[k] belongs to keys[k]; faults go to graph->err. */
    void (*build)(ir_graph *graph, const int64_t *value, int64_t samples);
} zoo_model;

#define ZOO_MODEL(name) extern const zoo_model zoo_model_##name;
#include "zoo/zoo.def"
#undef ZOO_MODEL

/* A part of a network, as "attn/q": of a block, or (block < 0) of the whole. */
typedef struct zoo_part {
    int64_t block;
    const char *name;
} zoo_part;
/* Nodes appended next are called "/blocks.N/part/OP" or "/part/OP". */
void zoo_scope(ir_graph *graph, zoo_part part);
/* Parameter "blocks.N.part.what" or "part.what", with dots for slashes. */
int32_t zoo_parameter(ir_graph *graph, zoo_part part, const char *what,
                      ir_shape shape, ir_init init);
/* x (.., in) -> (.., out): weight (out, in) drawn by `weight`, bias by `bias`.
 * Also sets the scope. */
typedef struct zoo_linear_spec {
    zoo_part part;
    int64_t in, out;
    ir_init weight, bias;
} zoo_linear_spec;
int32_t zoo_linear(ir_graph *graph, int32_t x, const zoo_linear_spec *spec);

#endif
