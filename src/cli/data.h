/* What `run --data` and the cases of `conformance` feed. */
#ifndef FS_CLI_DATA_H
#define FS_CLI_DATA_H

#include "cli/cli.h"
#include "exec/exec.h"

enum { CLI_MAX_INPUTS = 8 };

/* A folder's tensors, by the names of the model's inputs. */
typedef struct cli_inputs {
    int32_t n;
    const char *names[CLI_MAX_INPUTS];
    const void *data[CLI_MAX_INPUTS];
} cli_inputs;

/* Reads dir/input_N.pb, N = 0, 1, .. (the layout of the ONNX backend tests):
 * the model's inputs in its order, each of the whole batch. FS_INVALID names
 * the file that is missing or does not fit. */
fs_status cli_inputs_read(const cli_model *model, const char *dir,
                          fs_arena *arena, fs_err *err, cli_inputs *out);
/* Such a folder (the same tensors every step), else what exec_data_open_with
 * knows. */
fs_status cli_data_open(const cli_model *model, const char *spec,
                        const exec_data_options *options, fs_arena *arena,
                        fs_err *err, exec_data *out);

/* ---- run_data.c ---- */
/* What `run --data` and the options beside it say. */
fs_status cli_run_data_open(cli *c, const cli_plan *p, exec_data *out);
/* The same, to be closed again: FS_INVALID says what is wrong, notes are told.
 */
fs_status cli_run_data_check(cli *c, const cli_plan *p);
enum { CLI_DATA_WORDS = 10 };
/* The options as words of a command line; returns how many. */
int cli_run_data_words(cli *c, const char **words);

#endif
