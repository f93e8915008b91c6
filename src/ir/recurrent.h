/* Recurrent cells: what their op, kernel and importer agree on.
 *
 * One direction of one layer over T steps of B samples, H units:
 *   recurrent: gates (T,B,G,H), R (G,H,H), first (B,S,H), extra (E,H)
 *              [, lengths (B)] -> y (T,B,H), last (B,S,H), saved (T,B,K,H)
 *   recurrent_grad: dy, dlast, R, first, extra, y, saved [, lengths]
 *              -> dgates, dR, dfirst, dextra
 * gates holds what the input and the biases add to each gate, in ONNX's order
 * (LSTM i o f c, GRU z r h). States are h, then c. extra is the recurrent bias
 * of the last gate; of an LSTM the peepholes i o f. saved holds the gates'
 * values, then an LSTM's c, a GRU's second operand of h's last product. */
#ifndef FS_IR_RECURRENT_H
#define FS_IR_RECURRENT_H

#include "ir/op.h"

typedef enum ir_cell { IR_CELL_RNN, IR_CELL_GRU, IR_CELL_LSTM } ir_cell;

typedef struct ir_cell_sizes {
    int32_t gates, states, extra, saved; /* G, S, E, K */
} ir_cell_sizes;

static inline ir_cell_sizes ir_cell_of(int64_t cell)
{
    return cell == IR_CELL_RNN   ? (ir_cell_sizes){1, 1, 1, 1}
           : cell == IR_CELL_GRU ? (ir_cell_sizes){3, 1, 1, 4}
                                 : (ir_cell_sizes){4, 2, 3, 5};
}

typedef enum ir_activation_kind {
#define IR_ACTIVATION(id, ...) IR_ACTIVATION_##id,
#include "ir/activations.def"
#undef IR_ACTIVATION
    IR_ACTIVATION_COUNT
} ir_activation_kind;

/* Attributes: i[]; f[2 k], f[2 k + 1] are alpha and beta of activation k. */
enum {
    IR_CELL_KIND,
    IR_CELL_REVERSE, /* from each sample's last step to its first */
    IR_CELL_VARIANT, /* GRU: the reset gate acts after the product; LSTM: the
                        forget gate is 1 - i */
    IR_CELL_F,       /* three activation kinds, ONNX's f g h */
    IR_CELL_CLIP = 6 /* f[]: gates are cut off there; 0: they are not */
};

#endif
