/* The SBP algebra: how a logical tensor lies on the devices of a mesh.
 * S(i): cut along axis i in balanced pieces (the first `dim mod n` pieces get
 * one more); B: every device holds the whole; P(r): every device holds a
 * tensor of full shape, the value is their reduction r. On a mesh of N axes
 * there is one entry per axis; axis 0 cuts first, axis 1 cuts the piece again
 * (OneFlow, arXiv 2110.15032, section 3). */
#ifndef FS_IR_SBP_H
#define FS_IR_SBP_H

#include "ir/tensor.h"

enum { IR_MAX_MESH = 4 };

typedef enum ir_sbp_kind { IR_B, IR_S, IR_PSUM, IR_PMAX, IR_PMIN } ir_sbp_kind;

typedef struct ir_sbp {
    uint8_t kind; /* ir_sbp_kind */
    uint8_t axis; /* of S, else 0 */
} ir_sbp;

typedef struct ir_nd_sbp {
    ir_sbp at[IR_MAX_MESH]; /* unused entries are B */
} ir_nd_sbp;

/* A mesh: `n` axes (0 axes is one device), row-major device order. */
typedef struct ir_mesh {
    int32_t n;
    int32_t dim[IR_MAX_MESH];
} ir_mesh;

#define IR_SBP_B ((ir_sbp){IR_B, 0})
#define IR_SBP_S(i) ((ir_sbp){IR_S, (uint8_t)(i)})
#define IR_SBP_P ((ir_sbp){IR_PSUM, 0})

bool ir_sbp_equal(ir_sbp a, ir_sbp b);
bool ir_sbp_is_partial(ir_sbp a);
bool ir_nd_sbp_equal(const ir_nd_sbp *a, const ir_nd_sbp *b, int32_t n_axes);
int32_t ir_mesh_size(const ir_mesh *mesh);
/* Coordinates of device `rank` (0 .. size-1) of the mesh. */
void ir_mesh_coords(const ir_mesh *mesh, int32_t rank,
                    int32_t coords[IR_MAX_MESH]);
int32_t ir_mesh_rank(const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH]);

/* "B", "S(1)", "P", "P(max)"; N axes as "(S(0),B)". A mesh of 0 axes: "()". */
char *ir_nd_sbp_text(char out[64], const ir_nd_sbp *sbp, int32_t n_axes);
/* Reads what ir_nd_sbp_text writes. */
fs_status ir_nd_sbp_parse(const char *text, int32_t n_axes, fs_err *err,
                          ir_nd_sbp *out);

/* May a tensor of this shape lie so on this mesh? Every S axis exists and the
 * piece is at least as long as it is cut. */
bool ir_nd_sbp_fits(const ir_nd_sbp *sbp, const ir_shape *shape,
                    const ir_mesh *mesh);

/* The piece of device `coords`: its shape and, per tensor axis, its offset in
 * the logical tensor (offset may be NULL). */
void ir_local_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                    const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH],
                    ir_shape *local, int64_t offset[IR_MAX_RANK]);
/* The largest piece (device 0 of the mesh). */
ir_shape ir_largest_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                          const ir_mesh *mesh);

/* Balanced split of `total` in n: start and length of piece i. */
void ir_split(int64_t total, int32_t n, int32_t i, int64_t *start,
              int64_t *length);

#endif
