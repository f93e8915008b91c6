/* Samples drawn from the seed. */
#include "config.h"
#include "exec/data_kinds.h"

#include "exec/piece.h"
#include "ir/element.h"

#include <string.h>

typedef struct drawn_input {
    const char *name;
    int64_t limit;           /* integers: values below it */
    int64_t sample_elements; /* elements of one sample */
    ir_shape whole;
} drawn_input;

typedef struct drawn_data {
    uint64_t seed;
    int32_t n;
    drawn_input *input;
} drawn_data;

typedef struct draw {
    uint64_t seed;
    ir_dtype dtype;
    int64_t limit, first; /* first: counter of the micro-batch's element 0 */
    void *out;
} draw;

static void draw_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    const draw *d = ctx;
    for (int64_t i = 0; i < length; i++) {
        uint64_t counter = (uint64_t)(d->first + whole + i);
        double unit = fs_draw_unit(d->seed, counter);
        int64_t value = (int64_t)(unit * (double)d->limit);
        int64_t at = local + i;
        if (ir_dtype_is_float(d->dtype))
            ir_element_set_real(d->dtype, d->out, at,
                                fs_draw_normal(d->seed, counter));
        else if (d->dtype == IR_BOOL)
            ir_element_set_int(d->dtype, d->out, at, unit < 0.5);
        else
            ir_element_set_int(d->dtype, d->out, at, value);
    }
}

static fs_status fill_drawn(void *ctx, const char *name, int64_t sample,
                            ir_dtype dtype, const ir_shape *local,
                            const int64_t *offset, int32_t batch_axis,
                            void *out, fs_err *err)
{
    const drawn_data *drawn = ctx;
    for (int32_t i = 0; i < drawn->n; i++) {
        const drawn_input *in = &drawn->input[i];
        if (strcmp(in->name, name) != 0)
            continue;
        int64_t first = batch_axis < 0 ? 0 : sample * in->sample_elements;
        draw d = {fs_hash_text(fs_mix(drawn->seed), name), dtype, in->limit,
                  first, out};
        exec_piece_rows(&in->whole, local, offset, draw_row, &d);
        return FS_OK;
    }
    return fs_fail(err, FS_FAULT, "input '%s' is not in the graph", name);
}

bool exec_is_drawn(const char *spec)
{
    return strcmp(spec, "synthetic") == 0;
}

fs_status exec_open_drawn(const exec_opening *o, fs_err *err, exec_data *out)
{
    FS_TRY(exec_check_options(o, 0, err));
    const exec_inputs inputs = exec_list_inputs(o->graph, o->arena);
    drawn_data *drawn = fs_new(o->arena, drawn_data, 1);
    drawn->seed = o->options->seed;
    drawn->n = inputs.n;
    drawn->input = fs_new(o->arena, drawn_input, inputs.n);
    for (int32_t i = 0; i < inputs.n; i++) {
        const ir_tensor *t = inputs.at[i];
        int64_t limit = exec_count_values(o->graph, t, o->arena);
        int64_t samples = t->batch_axis >= 0 ? t->shape.dim[t->batch_axis] : 1;
        drawn_input in = {t->name, limit > 0 ? limit : 2,
                          ir_shape_count(&t->shape) / samples, t->shape};
        drawn->input[i] = in;
    }
    *out = (exec_data){
        .ctx = drawn, .fill = fill_drawn, .digest = fs_mix(drawn->seed)};
    return FS_OK;
}
