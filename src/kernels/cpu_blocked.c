/* Batch normalisation and sums of floats that lie blocked: a block's channels
 * stand side by side and fill a vector. */
#include "config.h"

#include "base/wide.h"
#include "kernels/layout.h"

#include <math.h>
#include <string.h>

enum { LANES = KERNEL_BLOCK };

/* Elements of sample n's block b: [s][LANES]. */
#define BLOCK_AT(data, d, n, b)                                                \
    ((data) + (((n) * (d).blocks + (b)) * (d).s) * LANES)

/* total[k] += sums over samples and positions of `term`, of which x[k] and
 * z[k] are elements; by sample, and four positions at a time. */
#define BLOCK_SUM(total, d, b, x_data, z_data, term)                           \
    for (int64_t n = 0; n < (d).n; n++) {                                      \
        float part[4][LANES] = {{0}};                                          \
        const float *restrict x = BLOCK_AT(x_data, d, n, b);                   \
        const float *restrict z = BLOCK_AT(z_data, d, n, b);                   \
        (void)z;                                                               \
        int64_t j = 0;                                                         \
        for (; j + 4 <= (d).s; j += 4, x += 4 * LANES, z += 4 * LANES)         \
            for (int i = 0; i < 4; i++)                                        \
                for (int k = 0; k < LANES; k++)                                \
                    part[i][k] += term(x[i * LANES + k], z[i * LANES + k], k); \
        for (; j < (d).s; j++, x += LANES, z += LANES)                         \
            for (int k = 0; k < LANES; k++)                                    \
                part[0][k] += term(x[k], z[k], k);                             \
        for (int k = 0; k < LANES; k++)                                        \
            (total)[k] +=                                                      \
                (part[0][k] + part[1][k]) + (part[2][k] + part[3][k]);         \
    }

FS_CLONES static void square_blocks(const kernel_call *call)
{
    const kernel_blocks d = kernel_blocks_of(&call->in[0].shape);
    const float *data = call->in[0].data;
#define TERM(x, z, k) (((x)-centre[k]) * ((z)-centre[k]))
    for (int64_t b = 0; b < d.blocks; b++) {
        float centre[LANES], total[LANES] = {0};
        memcpy(centre, (const float *)call->in[1].data + b * LANES,
               sizeof centre);
        BLOCK_SUM(total, d, b, data, data, TERM)
        memcpy((float *)call->out[0].data + b * LANES, total, sizeof total);
    }
#undef TERM
}

FS_CLONES static void param_grad_blocks(const kernel_call *call)
{
    const kernel_blocks d = kernel_blocks_of(&call->in[0].shape);
    const float *dy = call->in[0].data, *data = call->in[1].data;
    const float *var = call->in[3].data;
    float *dgain = call->out[0].data, *dbias = call->out[1].data;
#define TERM(x, z, k) ((x) * ((z)-centre[k]))
#define PLAIN(x, z, k) (x)
    for (int64_t b = 0; b < d.blocks; b++) {
        float centre[LANES], products[LANES] = {0}, plain[LANES] = {0};
        memcpy(centre, (const float *)call->in[2].data + b * LANES,
               sizeof centre);
        BLOCK_SUM(products, d, b, dy, data, TERM)
        BLOCK_SUM(plain, d, b, dy, dy, PLAIN)
        for (int k = 0; k < LANES; k++) {
            const int64_t c = b * LANES + k;
            dgain[c] = products[k] / sqrtf(var[c] + (float)call->f[0]);
            dbias[c] = plain[k];
        }
    }
#undef TERM
#undef PLAIN
}

/* Over all blocks: y[k] = `value` of x[k], z[k] and numbers per channel that
 * `set` makes for k and its channel c. */
#define EACH_BLOCK(d, x_data, z_data, y_data, set, value)                      \
    for (int64_t b = 0; b < (d).blocks; b++) {                                 \
        for (int k = 0; k < LANES; k++) {                                      \
            const int64_t c = b * LANES + k;                                   \
            set;                                                               \
        }                                                                      \
        for (int64_t n = 0; n < (d).n; n++) {                                  \
            const float *restrict x = BLOCK_AT(x_data, d, n, b);               \
            const float *restrict z = BLOCK_AT(z_data, d, n, b);               \
            (void)z;                                                           \
            float *restrict y = BLOCK_AT(y_data, d, n, b);                     \
            for (int64_t j = 0; j < (d).s; j++)                                \
                for (int k = 0; k < LANES; k++) {                              \
                    const int64_t at = j * LANES + k;                          \
                    y[at] = (value);                                           \
                }                                                              \
        }                                                                      \
    }

FS_CLONES static void norm_blocks(const kernel_call *call)
{
    const kernel_blocks d = kernel_blocks_of(&call->in[0].shape);
    const float *data = call->in[0].data;
    const float *gain = call->in[1].data, *bias = call->in[2].data;
    const float *mean = call->in[3].data, *var = call->in[4].data;
    float slope[LANES], shift[LANES], centre[LANES];
    EACH_BLOCK(d, data, data, (float *)call->out[0].data,
               slope[k] = gain[c] / sqrtf(var[c] + (float)call->f[0]);
               shift[k] = bias[c];
               centre[k] = mean[c], (x[at] - centre[k]) * slope[k] + shift[k])
}

FS_CLONES static void norm_grad_blocks(const kernel_call *call)
{
    const kernel_blocks d = kernel_blocks_of(&call->in[0].shape);
    const float *dy = call->in[0].data;
    const float *gain = call->in[1].data, *var = call->in[2].data;
    const bool full = call->n_in == 7;
    const float *data = full ? call->in[3].data : dy;
    const float *mean = full ? call->in[4].data : var;
    const float *dgain = full ? call->in[5].data : var;
    const float *dbias = full ? call->in[6].data : var;
    const float share = full ? (float)call->f[1] : 0;
    float slope[LANES], shift[LANES], turn[LANES], centre[LANES];
    EACH_BLOCK(d, dy, data, (float *)call->out[0].data,
               const float rstd = 1 / sqrtf(var[c] + (float)call->f[0]);
               slope[k] = gain[c] * rstd; shift[k] = dbias[c] * share;
               turn[k] = dgain[c] * share * rstd;
               centre[k] = mean[c],
               slope[k] * (x[at] - shift[k] - (z[at] - centre[k]) * turn[k]))
}

/* Of channels, or of a sample's channels. */
FS_CLONES static void sum_blocks(const kernel_call *call)
{
    const kernel_blocks d = kernel_blocks_of(&call->in[0].shape);
    const float *data = call->in[0].data;
    float *out = call->out[0].data;
    const bool by_sample = !(call->node->i[0] & 1);
    const kernel_blocks one = {by_sample ? 1 : d.n, d.blocks, d.s};
#define PLAIN(x, z, k) (x)
    for (int64_t m = 0; m < d.n / one.n; m++, out += d.blocks * LANES)
        for (int64_t b = 0; b < d.blocks; b++) {
            const float *from = data + m * d.blocks * d.s * LANES;
            float total[LANES] = {0};
            BLOCK_SUM(total, one, b, from, from, PLAIN)
            memcpy(out + b * LANES, total, sizeof total);
        }
#undef PLAIN
}

#define KERNEL_BLOCKS(op, body)                                                \
    static fs_status op##_blocks_run(void *state, const kernel_call *call,     \
                                     fs_err *err)                              \
    {                                                                          \
        (void)state, (void)err;                                                \
        body(call);                                                            \
        return FS_OK;                                                          \
    }                                                                          \
    const kernel kernel_blocked_##op = {.variant = "blocked",                  \
                                        .run = op##_blocks_run}
KERNEL_BLOCKS(centred_square, square_blocks);
KERNEL_BLOCKS(batch_norm, norm_blocks);
KERNEL_BLOCKS(batch_norm_grad, norm_grad_blocks);
KERNEL_BLOCKS(batch_norm_param_grad, param_grad_blocks);
KERNEL_BLOCKS(reduce_sum, sum_blocks);
