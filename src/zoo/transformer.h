/* Parts of transformers. Activations are (samples, length, hidden). */
#ifndef FS_ZOO_TRANSFORMER_H
#define FS_ZOO_TRANSFORMER_H

#include "zoo/model.h"

typedef struct zoo_transformer {
    ir_graph *g;
    const char *stack; /* of its blocks; NULL: "blocks" */
    int64_t samples, seq, hidden;
    int64_t heads, kv_heads; /* kv_heads < heads: each is read by several */
    int64_t head, ffn;       /* widths: of a head, of the feed-forward */
    ir_op_kind activation;
    bool gated;    /* feed-forward: activation(x G) * (x U), as SwiGLU */
    bool unbiased; /* linear layers have no bias */
    bool rms;      /* RMS norm: gain, no centring, no bias */
    double epsilon;
    double spread, project;    /* weights start from N(0, spread), those of
                                  projections onto the residual stream from
                                  N(0, project) */
    double scale;              /* of scores */
    const unsigned char *mask; /* (1, 1, seq, seq): 1 where a query may not
                                  look; NULL: everywhere it may */
    const float *minus_infinity;
    const float *cosine, *sine; /* (seq, head): rotary positions; or NULL */
    int32_t bias; /* (1, heads, seq, seq) added to scores; or -1 */
} zoo_transformer;

/* head, kv_heads, ffn, scale, spread, epsilon as GPT-2 has them; faults when
 * hidden does not divide into heads. */
bool zoo_transformer_open(zoo_transformer *t);
/* Bytes shared by the blocks: so that no edge joins them but the residual
 * stream, each has constants of its own. */
void zoo_transformer_causal(zoo_transformer *t);
/* Angles position * base^(-2 i / head), i < head / 2; element i turns with
 * element i + head / 2. */
void zoo_transformer_rotate(zoo_transformer *t, double base);

int32_t zoo_norm(const zoo_transformer *t, int32_t x, zoo_part part);
/* Of x to `memory` (-1: to itself, with the mask, positions and bias), under
 * the part's name. */
int32_t zoo_attention(const zoo_transformer *t, int32_t x, int32_t memory,
                      zoo_part part);
int32_t zoo_feed_forward(const zoo_transformer *t, int32_t x, int64_t block);
/* Pre-norm: x + attention(norm x), then y + feed_forward(norm y). */
int32_t zoo_transformer_block(const zoo_transformer *t, int32_t x,
                              int64_t block);

#endif
