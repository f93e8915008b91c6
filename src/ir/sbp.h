/* The SBP algebra: how a logical tensor lies on the devices of a mesh.
 * S(i): cut along axis i in balanced pieces (the first `dim mod n` pieces get
 * one more); B: every device holds the whole; P(r): every device holds a
 * tensor of full shape, the value is their reduction r. On a mesh of N axes
 * there is one entry per axis; axis 0 cuts first, axis 1 cuts the piece again
 * (OneFlow, arXiv 2110.15032, section 3).
 *
 * S(i) with a halo, S(i)-b+a: the balanced piece and what it borrows from its
 * neighbours along the mesh axis, b elements before it and a behind, none at
 * the tensor's ends. Pieces overlap, so it is how windows want their input and
 * never what an op makes; only a boxing step leads there. */
#ifndef FS_IR_SBP_H
#define FS_IR_SBP_H

#include "ir/tensor.h"

enum { IR_MAX_MESH = 4, IR_MAX_HALO = 255 };

typedef enum ir_sbp_kind { IR_B, IR_S, IR_PSUM, IR_PMAX, IR_PMIN } ir_sbp_kind;

typedef struct ir_sbp {
    uint8_t kind;          /* ir_sbp_kind */
    uint8_t axis;          /* of S, else 0 */
    uint8_t before, after; /* of S with a halo, else 0 */
} ir_sbp;

typedef struct ir_nd_sbp {
    ir_sbp at[IR_MAX_MESH]; /* unused entries are B */
} ir_nd_sbp;

/* A mesh: `n` axes (0 axes is one device), row-major device order. */
typedef struct ir_mesh {
    int32_t n;
    int32_t dim[IR_MAX_MESH];
} ir_mesh;

#define IR_SBP_B ((ir_sbp){.kind = IR_B})
#define IR_SBP_S(i) ((ir_sbp){.kind = IR_S, .axis = (uint8_t)(i)})
#define IR_SBP_P ((ir_sbp){.kind = IR_PSUM})
#define IR_SBP_PMAX ((ir_sbp){.kind = IR_PMAX})
#define IR_SBP_PMIN ((ir_sbp){.kind = IR_PMIN})

bool ir_sbp_equal(ir_sbp a, ir_sbp b);
bool ir_sbp_is_partial(ir_sbp a);
/* P(max) or P(min). */
bool ir_sbp_is_extreme(ir_sbp a);
bool ir_sbp_has_halo(ir_sbp a);
/* Do both cut the same tensor axis, with or without a halo? */
bool ir_sbp_same_cut(ir_sbp a, ir_sbp b);
bool ir_nd_sbp_equal(const ir_nd_sbp *a, const ir_nd_sbp *b, int32_t n_axes);
int32_t ir_mesh_size(const ir_mesh *mesh);
/* Coordinates of device `rank` (0 .. size-1) of the mesh. */
void ir_mesh_coords(const ir_mesh *mesh, int32_t rank,
                    int32_t coords[IR_MAX_MESH]);
int32_t ir_mesh_rank(const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH]);

/* "B", "S(1)", "S(2)-1+1", "P", "P(max)"; N axes as "(S(0),B)". A mesh of 0
 * axes: "()". */
char *ir_nd_sbp_text(char out[64], const ir_nd_sbp *sbp, int32_t n_axes);
/* Reads what ir_nd_sbp_text writes. */
fs_status ir_nd_sbp_parse(const char *text, int32_t n_axes, fs_err *err,
                          ir_nd_sbp *out);

/* May a tensor of this shape lie so on this mesh? Every S axis exists and the
 * piece is at least as long as it is cut; no piece is shorter than a halo that
 * is borrowed from it, and what has a halo is cut by one mesh axis only. */
bool ir_nd_sbp_fits(const ir_nd_sbp *sbp, const ir_shape *shape,
                    const ir_mesh *mesh);

/* The piece of device `coords`: its shape and, per tensor axis, its offset in
 * the logical tensor (offset may be NULL). */
void ir_local_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                    const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH],
                    ir_shape *local, int64_t offset[IR_MAX_RANK]);
/* A box of a logical tensor: how long, and where it begins. */
typedef struct ir_piece {
    ir_shape shape;
    int64_t offset[IR_MAX_RANK];
} ir_piece;
ir_piece ir_piece_of(const ir_shape *shape, const ir_nd_sbp *sbp,
                     const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH]);
/* What two boxes of one tensor share; false when that is nothing. */
bool ir_piece_common(const ir_piece *a, const ir_piece *b, ir_piece *out);
/* No piece is longer: that of device 0; with a halo that of a device within, as
 * if it were as long as device 0's. */
ir_shape ir_largest_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                          const ir_mesh *mesh);

/* Balanced split of `total` in n: start and length of piece i. */
void ir_split(int64_t total, int32_t n, int32_t i, int64_t *start,
              int64_t *length);
/* The same with the halo that `cut` (S) has. */
void ir_split_halo(int64_t total, int32_t n, int32_t i, ir_sbp cut,
                   int64_t *start, int64_t *length);

#endif
