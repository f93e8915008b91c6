#include "config.h"
#include "ir/words.h"

#include <string.h>

void ir_put_attributes(ir_words *words, const ir_node *node)
{
    int64_t at[IR_MAX_ATTR + IR_MAX_REAL];
    int32_t n = IR_MAX_ATTR + IR_MAX_REAL;
    ir_structural_attrs(node, at);
    memcpy(at + IR_MAX_ATTR, node->f, sizeof node->f);
    while (n > 0 && at[n - 1] == 0)
        n--;
    ir_put_word(words, n);
    for (int32_t k = 0; k < n; k++)
        ir_put_word(words, at[k]);
}

void ir_put_shape(ir_words *words, const ir_shape *shape, ir_dtype dtype)
{
    ir_put_pair(words, (int32_t)dtype, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++)
        ir_put_word(words, shape->dim[d]);
}

void ir_put_mesh(ir_words *words, const ir_mesh *mesh)
{
    ir_put_word(words, mesh->n);
    for (int32_t a = 0; a < mesh->n; a++)
        ir_put_word(words, mesh->dim[a]);
}

void ir_put_sbp(ir_words *words, const ir_nd_sbp *sbp, int32_t axes)
{
    for (int32_t a = 0; a < axes; a++) {
        const ir_sbp *at = &sbp->at[a];
        ir_put_pair(words, at->kind << 8 | at->axis,
                    at->before << 16 | at->after);
    }
}
