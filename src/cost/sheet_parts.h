/* Inside cost/sheet: what its files share. */
#ifndef FS_COST_SHEET_PARTS_H
#define FS_COST_SHEET_PARTS_H

#include "cost/memory_parts.h"
#include "cost/numbers.h"
#include "cost/sheet.h"
#include "cost/sheet_lists.h"

/* A pipeline of any number of stages, and by which numbers of slots each of its
 * fold's stages holds what it holds: the one between those of which one does
 * not know that another holds more. */
typedef struct sheet_pipe {
    double fill;
    FS_VEC(int32_t) slots[COST_SHEET_STAGES];
} sheet_pipe;

/* Of stages that hold alike the first that was met: number `stage` of the fold,
 * in a pipeline where the fold's are these. */
typedef struct sheet_slots {
    const cost_slots *slots;
    int32_t stage, place[COST_SHEET_STAGES];
} sheet_slots;

/* Of folds of one, two or three stages: [stages - 1]. */
typedef struct sheet_pipes {
    cost_numbers pipe_of, slots_of;
    FS_VEC(sheet_pipe) all;
    FS_VEC(sheet_slots) slots;
} sheet_pipes;
struct cost_pipes {
    fs_arena *arena;
    sheet_pipes of[COST_SHEET_STAGES];
};

/* -1: not asked for yet. */
typedef FS_VEC(double) sheet_seconds;

struct cost_fold {
    const cost_model *model;
    const ir_graph *graph;
    fs_arena *arena;
    int32_t n_stages, layers; /* of each stage */
    const int32_t *stage_of;
    int32_t *run, *equal;      /* cost_standing's */
    int32_t *copy;             /* [nodes] place of its layer in the stage; -1 */
    const int32_t *first_edge; /* plan_strategy's */
    bool *anew;                /* [edges] may be made anew */
    fs_arena *pipes_arena;
    sheet_pipes *pipes;
    FS_VEC(cost_moments) moments;
    FS_VEC(int32_t) asked; /* programs of home, by what they were asked for */
    cost_numbers moments_of, program_of;
    cost_fold *home;      /* of the first of folds that are alike, */
    cost_numbers made_of; /* which has their programs */
    FS_VEC(sheet_program) programs;
    cost_numbers shape_of; /* of its programs */
    FS_VEC(sheet_shape) shapes;
    const cost_memory *like; /* of its own graph, for its lists */
    cost_numbers kinds_of;   /* graphs that are alike in kinds, */
    int32_t kinds;           /* of which this is one */
    FS_VEC(sheet_lists *) lists;
    cost_numbers term_of; /* of all lists of home */
    int32_t n_alike, of;  /* its folds; which of these */
    cost_numbers mesh_of;
    FS_VEC(sheet_seconds) seconds; /* [meshes][term_of] */
};

/* Is it of a layer that stands for any number? */
static inline bool sheet_is_between(const cost_fold *fold, int32_t v)
{
    return fold->copy[v] == 1;
}

/* Layers that the middle one of a stage stands for. */
static inline int32_t sheet_times(const cost_fold *fold, int32_t layers)
{
    return layers - fold->layers + 1;
}

/* Which tensors have one shape, and which nodes one work: the number of all
 * that home's folds have so. */
int32_t sheet_kinds(const cost_fold *fold);

/* The pipeline of that number of stages; FS_INVALID: of another placing. */
fs_status sheet_find_pipe(cost_fold *fold, const cost_degrees *degrees,
                          fs_err *err, const sheet_pipe **out);
/* The program under these slots; its number. */
int32_t sheet_find_program(cost_fold *fold, const cost_degrees *degrees,
                           int32_t slots);

/* Bytes of a content on a mesh, once they were asked for. */
typedef struct sheet_sizes {
    cost_sizes of;
    bool known, scratch;
} sheet_sizes;

/* On a mesh, all that does not hang on numbers of anything else. */
typedef struct sheet_instance {
    ir_mesh mesh;
    bool made, legal;
    plan_strategy strategy; /* the sheet's, on it */
    plan_stage stages[COST_SHEET_STAGES];
    double once[2 * COST_SHEET_STAGES], between[2 * COST_SHEET_STAGES];
    double *seconds;    /* [terms] */
    sheet_sizes *sizes; /* [contents] */
    int64_t *peaks;     /* [programs] -1: not known */
    int32_t n_peaks;
    int32_t n_stages; /* so many lie alike; 0: none were asked about */
} sheet_instance;

struct cost_sheet {
    cost_fold *fold;
    plan_strategy strategy; /* with what is like what */
    fs_arena *arena;
    sheet_lists *lists;
    sheet_instance instance;
};

/* Those of its strategy, once they are known; else they are made. */
sheet_lists *sheet_known_lists(const cost_fold *fold,
                               const plan_strategy *strategy);
void sheet_make_lists(cost_sheet *sheet, const plan_strategy *strategy,
                      const int32_t *like);
/* The fullest moment of a program. */
int64_t sheet_peak(cost_sheet *sheet, int32_t program);

#endif
