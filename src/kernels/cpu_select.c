/* where: an element-wise op that moves more than reals. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* Rows of `where` by size of element; step[] of c, a, b is 0 or 1. The output
 * may be a or b: a variable that keeps its value. */
#define WHERE_ROW(name, type)                                                  \
    FS_CLONES static void name(void *out, const uint8_t *restrict c,       \
                                   const void *in[2], const int64_t row[4])    \
    {                                                                          \
        const type *a = in[0], *b = in[1];                                     \
        type *to = out;                                                        \
        const int64_t n = row[0];                                              \
        if (row[1] && row[2] && row[3]) {                                      \
            FS_IVDEP                                                       \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = c[i] ? a[i] : b[i];                                    \
        } else {                                                               \
            FS_IVDEP                                                       \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = c[row[1] * i] ? a[row[2] * i] : b[row[3] * i];         \
        }                                                                      \
    }
WHERE_ROW(where_row_1, uint8_t)
WHERE_ROW(where_row_2, uint16_t)
WHERE_ROW(where_row_4, uint32_t)
WHERE_ROW(where_row_8, uint64_t)

static fs_status where_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    const kernel_loop loop = kernel_loop_broadcast(call);
    const int64_t row[4] = {kernel_row(&loop), kernel_step(&loop, 1),
                            kernel_step(&loop, 2), kernel_step(&loop, 3)};
    const int64_t bytes = ir_dtype_bytes(call->out[0].dtype);
    const uint8_t *c = call->in[0].data;
    const char *a = call->in[1].data, *b = call->in[2].data;
    char *out = call->out[0].data;
    kernel_walk w = {{0}, {0}};
    do {
        const void *in[2] = {a + w.at[2] * bytes, b + w.at[3] * bytes};
        void *to = out + w.at[0] * bytes;
        if (bytes == 8)
            where_row_8(to, c + w.at[1], in, row);
        else if (bytes == 4)
            where_row_4(to, c + w.at[1], in, row);
        else if (bytes == 2)
            where_row_2(to, c + w.at[1], in, row);
        else
            where_row_1(to, c + w.at[1], in, row);
    } while (kernel_next(&loop, &w));
    return FS_OK;
}
KERNEL_REFERENCE(where, NULL);
