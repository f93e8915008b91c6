/* A model of the zoo: its keys and its builder, and what builders share. */
#ifndef FS_ZOO_MODEL_H
#define FS_ZOO_MODEL_H

#include "ir/build.h"

enum { ZOO_MAX_KEYS = 20 };

typedef struct zoo_key {
    const char *name;
    int64_t usual, low, high; /* default and range */
} zoo_key;

/* What a key needs to say something. */
typedef struct zoo_need {
    int32_t with;       /* that this one is above 1; 0: nothing */
    const char *within; /* not to be more than this one; NULL: nothing */
} zoo_need;

typedef struct zoo_model {
    const char *name;
    zoo_key keys[ZOO_MAX_KEYS];   /* up to the first without a name */
    zoo_need needs[ZOO_MAX_KEYS]; /* of each */
    /* value[k] belongs to keys[k]; faults go to graph->err. */
    void (*build)(ir_graph *graph, const int64_t *value, int64_t samples);
} zoo_model;

#define ZOO_MODEL(name) extern const zoo_model zoo_model_##name;
#include "zoo/zoo.def"
#undef ZOO_MODEL

/* ---- names ---- */

/* A part of a network, as "attn/q": of block N of a stack (NULL: "blocks"),
 * or (block < 0) of the whole. */
typedef struct zoo_part {
    int64_t block;
    const char *name, *stack;
} zoo_part;
zoo_part zoo_whole(const char *name);
zoo_part zoo_block(const char *stack, int64_t block, const char *name);
/* Nodes appended next are called "/STACK.N/part/OP" or "/part/OP". */
void zoo_scope(ir_graph *graph, zoo_part part);

/* ---- variables ---- */

ir_init zoo_normal(double spread);
ir_init zoo_constant(double value);
/* Within 1 / sqrt(fan in): what PyTorch's linear layers start from. */
ir_init zoo_uniform(int64_t fan_in);
/* Parameter "STACK.N.part.what" or "part.what", with dots for slashes. */
int32_t zoo_parameter(ir_graph *graph, zoo_part part, const char *what,
                      ir_shape shape, ir_init init);
/* A variable that is not trained. */
int32_t zoo_buffer(ir_graph *graph, zoo_part part, const char *what,
                   ir_shape shape, ir_init init);
/* f32 of rank 1, 2. */
ir_shape zoo_vector(int64_t n);
ir_shape zoo_matrix(int64_t rows, int64_t columns);

/* ---- layers; all set the scope ---- */

/* x (.., in) -> (.., out): weight (out, in) drawn by `weight`, bias by `bias`
 * unless there is none. */
typedef struct zoo_linear_spec {
    zoo_part part;
    int64_t in, out;
    ir_init weight, bias;
    bool unbiased;
} zoo_linear_spec;
int32_t zoo_linear(ir_graph *graph, int32_t x, const zoo_linear_spec *spec);
/* The same, weight and bias within 1 / sqrt(in). */
int32_t zoo_dense(ir_graph *graph, int32_t x, zoo_part part, int64_t out);
/* ids (..) -> (.., width): rows of a table (rows, width) from N(0, spread);
 * *table is the parameter. */
typedef struct zoo_table {
    zoo_part part;
    int64_t rows, width;
    double spread;
    int32_t parameter;
} zoo_table;
int32_t zoo_embed(ir_graph *graph, int32_t ids, zoo_table *table);

/* Integers below what their readers take, one row of `length` per sample. */
int32_t zoo_ids(ir_graph *graph, const char *name, int64_t samples,
                int64_t length);
/* Of a graph that is made for its outputs: marks x as one, under that name, and
 * what follows, a loss, is left out. False: the loss is wanted. */
bool zoo_answer(ir_graph *graph, int32_t x, const char *name);
/* Inputs "labels" (samples), mean cross-entropy of logits (samples, classes):
 * sets the graph's loss. */
void zoo_classify(ir_graph *graph, int32_t logits);
/* The same of a yes or no: input "labels" (samples, 1) of bool. */
void zoo_decide(ir_graph *graph, int32_t logits);

#endif
