/* What a recipe's filter knows of a graph. Internal to this folder. */
#ifndef FS_SEARCH_RECIPE_PARTS_H
#define FS_SEARCH_RECIPE_PARTS_H

#include "ir/op.h"
#include "search/recipe/recipe.h"

enum { SEARCH_NO_AXIS = -1 };

/* All of it is read off the graph's structure and its ops' signatures; no name
 * and no model is known. */
typedef struct search_marks {
    const ir_graph *graph;
    bool *weight;    /* [tensor] read as a weight, itself or through views */
    bool *data;      /* [tensor] depends on an input that has samples */
    int32_t *sample; /* [tensor] the axis of its samples, or none */
    int32_t *place;  /* [tensor] the axis of the places of a sequence, of the
                        rows of an image, or none */
    bool *stream;    /* [tensor] what norms take and make, and what elementwise
                        ops make of it: the residual stream between blocks */
    bool *between;   /* [node] is such an op or norm */
    bool *sums;      /* [node] is part of a sum of gradients of one tensor,
                        of which several are products */
    bool *expert;   /* [tensor] a weight per expert, or its optimizer's state */
    int32_t *part;  /* [tensor] of a weight between blocks, as it lies, as it is
                       read and of its gradient, the axis that tensor parallelism
                       cuts: by columns what reads the stream, by rows what makes
                       it (Megatron-LM, arXiv 1909.08053, section 3); or none */
    int32_t *owner; /* [tensor] with such a part: the weight's variable */
} search_marks;

void search_marks_make(const ir_graph *graph, fs_arena *arena,
                       search_marks *out);

/* Fills `part` and `owner`; all else is. In recipe_cuts.c. */
void search_mark_parts(search_marks *marks, fs_arena *arena);
/* Its output is its input in another form, or a part of it. */
bool search_is_view(const ir_node *node);
/* Does the node use that input as a weight: one that no sample went into? */
bool search_reads_weight(const search_marks *marks, const ir_node *node,
                         int32_t slot);

/* ---- axes of the mesh ---- */

/* Stages that differ; 0: they do not. */
int32_t search_recipe_unequal(const search_recipe *recipe);

typedef enum search_role {
    SEARCH_AXIS_FREE,
    SEARCH_AXIS_DATA,    /* ranks have samples of their own */
    SEARCH_AXIS_EXPERTS, /* the same, and share the experts */
    SEARCH_AXIS_PLACES,  /* ranks have places of their own */
    SEARCH_AXIS_TENSOR   /* ranks have parts of the weights */
} search_role;

/* The first axes of a mesh, in order; the rest is free. */
typedef struct search_roles {
    int32_t n;
    search_role role[IR_MAX_MESH];
    int32_t length[IR_MAX_MESH];
} search_roles;

/* Of one stage. */
search_roles search_recipe_roles(const search_recipe *recipe);
search_role search_role_of(const search_roles *roles, int32_t axis);
ir_mesh search_roles_mesh(const search_roles *roles);
/* Are they the first axes of this mesh? */
bool search_roles_fit(const search_roles *roles, const ir_mesh *mesh);

/* Along which of a tensor's axes (a bit each) each axis of the mesh is to cut
 * it; 0: a recipe does not ask for it. */
typedef struct search_cuts {
    uint32_t along[IR_MAX_MESH];
} search_cuts;

/* Of what node v keeps (a variable, an accumulator): ZeRO, experts, and of
 * weights tensor parallelism. */
search_cuts search_cuts_wanted(const search_recipe *recipe,
                               const search_roles *roles,
                               const search_marks *marks, int32_t v,
                               const ir_mesh *mesh);
/* Those of them that a tensor of this shape has room for at once: one axis of
 * it may take several of the mesh when it is as long as their product, several
 * may take one each. Where not all have, what leaves less choice goes first,
 * then the longer axis. */
search_cuts search_cuts_possible(const search_cuts *wanted,
                                 const ir_shape *shape, const ir_mesh *mesh);
/* Along which axes `ranks` of tensor parallelism may cut a weight; 0: along
 * none. */
uint32_t search_weight_cuts(const search_marks *marks, int32_t tensor,
                            int32_t ranks);

/* search_recipe_check of the graph of the marks. */
fs_status search_recipe_check_marked(const search_recipe *recipe,
                                     const search_marks *marks, fs_err *err);

/* FS_INVALID: of all that zero or tp is to cut, nothing can be. */
fs_status search_recipe_check_cuts(const search_recipe *recipe,
                                   const search_marks *marks, fs_err *err);

/* FS_INVALID: a part that is given changes nothing beside the others. What is
 * free has any number. */
fs_status search_recipe_effects(const search_recipe *recipe, fs_err *err);

#endif
