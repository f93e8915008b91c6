/* Cases that the conformance command runs: of training (model.onnx,
 * test_data_set_0, grad/, train.json) and of the ONNX backend tests
 * (model.onnx, test_data_set_*; or, all in one folder, NAME.onnx and
 * NAME_output_N.pb). Internal to cli/. */
#ifndef FS_CLI_CONFORMANCE_H
#define FS_CLI_CONFORMANCE_H

#include "cli/cli.h"

#include "cli/outcome.h"
#include "exec/exec.h"
#include "onnx/import.h"
#include "search/recipe/recipe.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { CONFORMANCE_CURVES = 4 };

/* What --plan says of training cases. */
typedef struct conformance_recipe {
    const char *text;
    search_recipe parts;
    int32_t ranks;
    hw_cluster *cluster; /* this host with so many */
} conformance_recipe;

typedef struct conformance_case {
    cli *c;
    const char *dir;   /* of its files; of a flat one NAME.onnx itself */
    const char *model; /* the path of it */
    bool flat;
    exec_world *world;
    hw_cluster *cluster;              /* of one device */
    const conformance_recipe *recipe; /* NULL without --plan */
    bool training;
    fs_arena *arena;
    double worst_loss, worst_gradient, worst_curve; /* relative; NAN: none */
    int32_t curve_steps[CONFORMANCE_CURVES]; /* compared; 0: not recorded */
    int32_t gradients;
    cli_LIST padding;    /* "table=row", found in the record */
    double worst_output; /* largest |a - b| / (atol + rtol |b|); NAN: none */
    const char *op;      /* of a model of one node, else "" */
    int32_t gradient; /* 1: of some float input there is one; 0: there ought to
                         be; -1: no float input leads to a float output */
    int32_t splits;   /* the fewest ways to cut a node on one mesh axis */
    bool refused;  /* for what is not supported, whose reason is the error's */
    char why[512]; /* first failure, "" when all passed */
} conformance_case;

/* Notes the first failure. */
void conformance_failed(conformance_case *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Does the importer say no to what the model asks for, and name it? A file
 * that it could not read is a case that failed. */
bool conformance_is_unsupported(const char *path, bool readable,
                                const char *why);
bool conformance_has(const conformance_case *t, const char *name);
/* A plan of one rank: nothing split, nothing boxed. */
fs_status conformance_plan(conformance_case *t, const ir_graph *graph,
                           plan **out);

/* What differs from the record is noted in t->why; errors are for cases that
 * could not be run. */
fs_status conformance_train(conformance_case *t);
/* FS_INVALID names --plan. */
fs_status conformance_recipe_open(cli *c, const char *text,
                                  conformance_recipe *out);
/* Trains `model` (no training graph yet) under t->recipe: `out` is as of a run,
 * with the gradients that were asked for, and *model becomes the plan's.
 * t->refused when there is no such plan. */
fs_status conformance_on_ranks(conformance_case *t, cli_model *model,
                               int64_t steps, bool gradients, cli_outcome *out);
/* What train.json calls the i-th curve. */
const char *conformance_curve(int i);
fs_status conformance_infer(conformance_case *t);

/* ---- what an operator can do, over all cases of it ---- */
typedef struct conformance_ops conformance_ops;
conformance_ops *conformance_ops_new(fs_arena *arena);
/* `status` is the case's: "passed", "failed", "refused". */
void conformance_ops_add(conformance_ops *ops, const conformance_case *t,
                         const char *op, const char *status);
/* As a table, as JSON (an object by name), as tab-separated lines. */
void conformance_ops_print(conformance_ops *ops, FILE *out);
json_t *conformance_ops_json(conformance_ops *ops);
fs_status conformance_ops_write(conformance_ops *ops, const char *path,
                                fs_err *err);

#endif
