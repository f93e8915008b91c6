/* Inside `validate`: a table of measured runs, what each row means to us, what
 * is predicted of it, and how far off that is. */
#ifndef FS_CLI_VALIDATE_H
#define FS_CLI_VALIDATE_H

#include "cli/cli.h"
#include "cli/validate_row.h"
#include "cost/framework.h"
#include "search/recipe/recipe.h"

/* What a row asks: `skip` says why it cannot be asked. */
typedef struct validate_case {
    const validate_row *row;
    const char *skip;
    const char *model;       /* zoo:.. */
    double table;            /* parameters of its table of words; 0: none */
    const char *cluster;     /* 2x8:NAME */
    double outer_bps;        /* of a node, where the row tells; 0 */
    double outer_efficiency; /* of that wire; 0: as usual */
    int32_t nics;
    bool tf32; /* products of floats run in tf32 */
    search_recipe recipe;
    const struct validate_source *source; /* NULL: nothing special */
    const cost_framework *framework; /* NULL: as our runtime would run it */
    double host_cores;               /* of a node; 0: not told */
    const char *precision, *recompute, *optimizer;
    int64_t batch;
    double measured_s; /* NAN: no time is told */
    double measured_bytes;
    bool of_process;     /* these are the whole process's */
    bool simulated;      /* by another simulator: nothing that was measured */
    bool out_of_memory;  /* is what was measured */
    const char *assumed; /* what the row does not tell and was taken; "" */
} validate_case;
/* What is known of a source's runs beyond its rows: constants that were fitted
 * to it, few, and listed, and facts that its scripts and reports tell. Of
 * several that are of a row, what follows goes before. */
typedef struct validate_source {
    const char *match; /* part of the source's name, or of where in it */
    const char *of_framework, *of_model,
        *of_precision; /* parts of a row's; NULL: any */
    const cost_framework *framework, *instead_of; /* in the place of; NULL */
    double outer_efficiency; /* of the wire between nodes; 0: as usual */
    double jitter;           /* cost_framework's; NAN: as the framework's */
    double host_cores;       /* of a node; 0: not told */
    bool simulated;          /* what it tells was put together, not run */
    const char *with;        /* JSON: figures of the framework; NULL */
    /* What its software reaches of a device's products; NULL: what is usual */
    const char *device;
    double matmul_efficiency;
    double attention_efficiency; /* the framework's there; 0: as usual */
    int32_t n_constants;
    const char *fitted_on; /* NULL: facts */
} validate_source;

/* Devices and clusters that rows name. */
typedef struct validate_machines validate_machines;
validate_machines *validate_machines_create(const char *data_dir,
                                            fs_arena *arena);

/* All of the data folder. */
typedef struct validate_frameworks {
    int32_t n, n_sources;
    cost_framework *at;
    validate_source *sources; /* of validation/sources.json */
    validate_machines *machines;
    bool as_sim; /* without what is fitted to sources, as `sim` predicts */
} validate_frameworks;
fs_status validate_open_frameworks(const char *data_dir, fs_arena *arena,
                                   fs_err *err, validate_frameworks *out);
void validate_understand(const validate_row *row,
                         const validate_frameworks *frameworks, fs_arena *arena,
                         validate_case *out);

/* Where a step's time goes, on the devices that have most to do. */
typedef enum validate_part {
    VALIDATE_PRODUCTS, /* of matrices, convolutions */
    VALIDATE_ATTENTION,
    VALIDATE_REST, /* of forward and backward passes */
    VALIDATE_UPDATES,
    VALIDATE_COLLECTIVES, /* per micro-batch */
    VALIDATE_PER_STEP,    /* collectives per step */
    VALIDATE_MOVES,       /* between stages */
    VALIDATE_PARTS
} validate_part;

typedef struct validate_prediction {
    const char *failed; /* there is none: why; NULL */
    int32_t anchor; /* the row of fewest devices that it was told from; -1 */
    bool is_anchor; /* others were told from it: what it says is no error */
    double iteration_s, formula_s;
    double host_s; /* the least, decoding the images of a node on its host */
    double part_s[VALIDATE_PARTS];
    int64_t bytes;         /* of the fullest device: allocated, */
    int64_t process_bytes; /* and taken by the process */
    int64_t limit;         /* what it has */
    double wall_s;         /* it took */
} validate_prediction;
/* By a plan that is made, lowered and simulated; in the hand's own `c`. Its
 * kernels take `pace` times as long as predicted. */
void validate_predict(cli *c, const validate_case *t, double pace,
                      fs_arena *arena, validate_prediction *out);

/* Convolutional networks and BERT on data parallel ranks are told from what was
 * measured of as many samples per device on the fewest devices (of several such
 * rows the first): what is predicted to come on top where kernels take as many
 * times longer as they did there. How fast a framework's kernels are is then
 * measured, not predicted, as with every simulator that profiles a device
 * first. */
void validate_find_anchors(const validate_case *cases, int32_t n,
                           validate_prediction *predicted);
/* Of an anchor, or a row told from one: as many times as long as predicted;
 * others: 1. */
double validate_pace(const validate_case *cases,
                     const validate_prediction *predicted, int32_t i);
/* `paced`: predictions with those paces. */
void validate_tell_from(const validate_case *cases, int32_t n,
                        const validate_prediction *paced,
                        validate_prediction *predicted);

/* The runs of the databases that are the operands, each plan's beside what was
 * predicted of it. */
fs_status validate_runs(cli *c);

#endif
