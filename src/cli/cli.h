/* Inside cli/: one invocation. The only place with process-wide state. */
#ifndef FS_CLI_CLI_H
#define FS_CLI_CLI_H

#include "base/json.h"
#include "cost/cost.h"
#include "plan/check.h"
#include "plan/text.h"
#include "store/store.h"
#include <stdio.h>

typedef const char *cli_TEXT;
typedef const char *cli_SOME;
typedef const char *cli_MAYBE; /* NULL, "" or digits */
typedef bool cli_FLAG;
typedef int64_t cli_COUNT;
typedef double cli_REAL;
typedef FS_VEC(const char *) cli_LIST;

enum { CLI_MOST_OPERANDS = 256 }; /* plans to calibrate, at most */

typedef struct cli_args {
#define CLI_OPTION(field, flag, kind, ...) cli_##kind field;
#include "cli/options.def"
#undef CLI_OPTION
    int n_operands;
    const char *operands[CLI_MOST_OPERANDS];
} cli_args;

typedef struct cli {
    const char *program; /* how it was started, for starting ranks */
    const char *command;
    const char *command_line;
    const char *data_dir; /* datasets: FS_DATA, or where it was installed */
    cli_args args;
    fs_arena *arena;
    ir_tables *tables; /* that graphs of the zoo share */
    fs_err err;
    fs_err late;              /* of a database that failed after the answer */
    store_db *db;             /* NULL with --db none */
    int64_t run;              /* row of this command, 0 before it began */
    json_t *result;           /* the object that --json prints */
    bool quiet;               /* nothing on stdout (ranks other than 0) */
    bool mute;                /* no message either: rank 0 gives the job's */
    struct exec_world *world; /* of a rank; main leaves it last of all */
    struct cli_guard *guard;  /* guard.h */
    bool interrupted;         /* while ranks ran: the command is to end */
    const char *scratch;      /* folder of temporary files, "" while none */
    const char **unfinished;  /* outputs while they are written, up to NULL */
    const struct cli_machine *here; /* machine.h; NULL: nobody asked yet */
    FS_VEC(const char *) told_machines;
} cli;

/* Fills args; FS_INVALID names the flag and the command's usage. *help is set
 * when --help was among them. */
fs_status cli_parse(cli *c, int argc, char **argv, bool *help);
/* For a command that another one does on its way: nothing is said but how
 * collectives are done, which counts for all that a command prices; it is
 * silent and keeps nothing. Its result is the caller's to release. */
cli cli_within(const cli *c);
void cli_usage(FILE *out);
void cli_help(const cli *c, FILE *out); /* of c->command */

/* "16G", "512MiB", "1e9" -> bytes. */
fs_status cli_parse_bytes(const char *text, fs_err *err, int64_t *out);
/* Seconds that a variable of the environment says, `usual` where it says none:
 * FS_INVALID for what are none, or not more than 0. */
fs_status cli_env_seconds(const char *name, double usual, fs_err *err,
                          double *out);
fs_status cli_check_kernels(cli *c); /* FS_INVALID: --kernels names none */
/* FS_INVALID, naming `path`, when no file could be written there. */
fs_status cli_check_writable(cli *c, const char *path);

/* FS_INVALID: `output` would destroy what the command reads, `model` or
 * `cluster`. */
fs_status cli_check_output(cli *c, const char *output, const char *model,
                           const char *cluster);
/* Of cli_begin, for what begins no run. */
fs_status cli_check_outputs(cli *c, const char *model, const char *cluster);
/* The i-th file that `run --pictures` writes, NULL after the last. */
const char *cli_picture_file(const cli *c, int i);
/* The i-th file that `run --data` reads, NULL after the last. */
const char *cli_run_data_file(const cli *c, int i);
/* stdout for people: nothing with --json. */
void cli_say(const cli *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- database: every command that computes writes a run ---- */
const char *cli_db_path(const cli *c); /* "none": there is none */
/* First refuses (FS_INVALID) an output that would destroy an input, `model`,
 * `cluster` or another output of the command. */
fs_status cli_begin(cli *c, const char *model, const char *cluster);
fs_status cli_digests(cli *c, uint64_t model, uint64_t cluster,
                      uint64_t plan_digest);
/* Are there rows to write of what was found? No more after a first fault: what
 * a command found stands without the database, so that its faults from then on
 * are c->late, told at the end, and end the command with FS_FAULT. */
bool cli_keeps(const cli *c);
void cli_figure(cli *c, const char *name, double value, const char *unit);

/* ---- models ---- */
struct ir_train_options;
/* What the user said about the model and its training. */
typedef struct cli_model {
    plan_origin origin;
    struct onnx_model *mapping; /* NULL for the zoo */
    ir_graph *graph;
    const ir_graph *lender; /* whose names and data it borrows; NULL: none */
    fs_arena *arena;        /* of the notes */
    fs_text notes;
    json_t *statistics; /* ops whose statistics are each micro-batch's own:
                           [{op, nodes, first}]; NULL: none */
} cli_model;
/* A line that names them, and "statistics_per_micro_batch". */
void cli_tell_statistics(cli *c, const cli_model *model);
/* --rewrite, or what --no-rewrite says. */
const char *cli_rewrites(const cli_args *args);
uint64_t cli_seed(const cli *c, const plan_origin *o); /* --seed, or its own */
plan_origin cli_origin(const cli *c, const char *model, const char *cluster);
/* Imports for `samples` samples per micro-batch (0: as exported). */
fs_status cli_model_open(cli *c, const plan_origin *origin, int64_t samples,
                         cli_model *out);
/* With backward and update, unless it is for inference, for m micro-batches;
 * FS_NO: only one is legal. */
fs_status cli_model_train(cli *c, const plan_origin *origin, int32_t m,
                          cli_model *out);
#define CLI_ADD_A_LOSS                                                         \
    "add one with --loss (cross-entropy, mse, l1, bce, bce-logits or margin)"
/* Fills in what --precision, --loss-scale and --compress say of training. */
fs_status cli_read_precision(const plan_origin *o, fs_err *err,
                             struct ir_train_options *out);
/* Adds the training graph to a model already open. */
fs_status cli_model_gradients(cli *c, cli_model *model);
void cli_model_close(cli_model *model);
bool cli_is_model(const char *spec);
bool cli_is_cluster(const char *spec);

bool cli_am_rank(void); /* that this program, or the user's mpirun, started */

/* ---- plans ---- */
typedef struct cli_plan {
    cli_model model;
    hw_cluster *cluster;
    const plan *plan;
    cost_model *cost;
} cli_plan;
/* Reads the file, makes its graph again, checks digests. */
fs_status cli_plan_open(cli *c, const char *path, cli_plan *out);
void cli_plan_close(cli_plan *p);
/* cli_begin, and the row's digests, for a command on a plan. */
fs_status cli_begin_plan(cli *c, const cli_plan *p);
/* Keeps what the run is of, each once by digest; either may be NULL. */
void cli_keep(cli *c, const cli_model *model, const hw_cluster *cluster);
/* FS_INVALID: there is none, or a second one, which is named. */
fs_status cli_check_one_plan(cli *c);
/* For commands with one operand, a PLAN: opens it, begins the run with its
 * digests, calls body, closes it. */
fs_status cli_with_plan(cli *c, fs_status (*body)(cli *c, const cli_plan *p));
/* plan_check, its findings told and in the result; FS_NO: there are some. */
fs_status cli_plan_prove(cli *c, const cli_plan *p, plan_report *report);
/* The same for a command that shows a plan, sound or not. */
void cli_tell_unsound(cli *c, const cli_plan *p);
/* How far offsets are from their bound: told and in the result. */
void cli_tell_offsets(cli *c, const cli_plan *p);
/* Puts plan_digest into the result; tells it too. */
void cli_plan_digest(cli *c, const cli_plan *p);
void cli_say_digest(const cli *c, const cli_plan *p);

#define CLI_COMMAND(name, ...) fs_status cli_cmd_##name(cli *c);
#include "cli/commands.def"
#undef CLI_COMMAND

#endif
