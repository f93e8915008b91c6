#include "config.h"
#include "cli/data.h"

#include "onnx/import.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *input_file(fs_arena *arena, const char *dir, int32_t k)
{
    return fs_printf(arena, "%s/input_%d.pb", dir, k);
}

/* Of all micro-batches together. */
static ir_shape whole_shape(const ir_graph *graph, const ir_tensor *x)
{
    ir_shape shape = x->shape;
    if (x->batch_axis >= 0 && graph->micro_batches > 1)
        shape.dim[x->batch_axis] *= graph->micro_batches;
    return shape;
}

static fs_status read_one(const ir_graph *graph, const ir_tensor *x,
                          const char *file, fs_arena *arena, fs_err *err,
                          const void **out)
{
    onnx_const read;
    char had[160], wanted[160];
    const ir_shape shape = whole_shape(graph, x);
    FS_TRY(onnx_read_tensor(file, arena, err, &read));
    if (read.dtype != x->dtype || !ir_shape_equal(&read.shape, &shape))
        return fs_fail(err, FS_INVALID, "%s is %s %s; input %s is %s %s", file,
                       ir_dtype_name(read.dtype),
                       ir_shape_text(had, &read.shape), x->name,
                       ir_dtype_name(x->dtype), ir_shape_text(wanted, &shape));
    *out = read.data;
    return FS_OK;
}

fs_status cli_inputs_read(const cli_model *model, const char *dir,
                          fs_arena *arena, fs_err *err, cli_inputs *out)
{
    const ir_graph *graph = model->graph;
    *out = (cli_inputs){0};
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (x->role != IR_INPUT)
            continue;
        if (out->n == CLI_MAX_INPUTS)
            return fs_fail(err, FS_INVALID, "%s: more than %d inputs", dir,
                           CLI_MAX_INPUTS);
        FS_TRY(read_one(graph, x, input_file(arena, dir, out->n), arena, err,
                        &out->data[out->n]));
        out->names[out->n++] = x->name;
    }
    return FS_OK;
}

static bool is_folder(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

static fs_status refuse_options(const char *dir, const exec_data_options *said,
                                fs_err *err)
{
    if (!said->shuffle && !said->augment && !said->normalize && !said->columns)
        return FS_OK;
    return fs_fail(
        err, FS_INVALID,
        "%s: --shuffle, --augment, --normalize and --columns are for "
        "files of samples, not for a folder of tensors",
        dir);
}

fs_status cli_data_open(const cli_model *model, const char *spec,
                        const exec_data_options *options, fs_arena *arena,
                        fs_err *err, exec_data *out)
{
    cli_inputs in;
    if (!is_folder(spec))
        return exec_data_open_with(spec, model->graph, options, arena, err,
                                   out);
    FS_TRY(refuse_options(spec, options, err));
    FS_TRY(cli_inputs_read(model, spec, arena, err, &in));
    return exec_data_fixed(in.n, in.names, in.data, model->graph, arena, err,
                           out);
}
