/* Importing dropout and random numbers. */
#include "config.h"
#include "onnx/operators.h"

/* One number from input i, `usual` when it is absent. */
static fs_status get_number(onnx_ctx *c, int32_t i, const char *what,
                            double usual, double *out)
{
    const onnx_const *value;
    *out = usual;
    if (!onnx_has(c, i))
        return FS_OK;
    FS_TRY(onnx_need(c, i, what, &value));
    if (onnx_const_count(value) != 1)
        return onnx_fail(c, "%s must be one number", what);
    *out = onnx_const_real(value, 0);
    return FS_OK;
}

/* Random masks are not part of the training step, so a dropout that would
 * drop is left out, and the user is told: once, by the driver. */
fs_status onnx_import_dropout(onnx_ctx *c)
{
    double ratio, training = 0;
    FS_TRY(
        get_number(c, 1, "the ratio", onnx_attr_real(c, "ratio", 0.5), &ratio));
    if (c->opset >= 12)
        FS_TRY(get_number(c, 2, "training_mode", 0, &training));
    if (training != 0 && ratio > 0) {
        c->n_dropped++;
        c->dropped = ratio > c->dropped ? ratio : c->dropped;
    }
    FS_TRY(onnx_refuse_output(c, 1, "the mask of a dropout is not kept"));
    return onnx_alias(c, 0, 0);
}
