#include "config.h"
#include "ir/sbp.h"

#include <stdio.h>
#include <string.h>

bool ir_sbp_equal(ir_sbp a, ir_sbp b)
{
    return a.kind == b.kind &&
           (a.kind != IR_S ||
            (a.axis == b.axis && a.before == b.before && a.after == b.after));
}

bool ir_sbp_is_partial(ir_sbp a)
{
    return a.kind >= IR_PSUM;
}

bool ir_sbp_is_extreme(ir_sbp a)
{
    return a.kind == IR_PMAX || a.kind == IR_PMIN;
}

bool ir_sbp_has_halo(ir_sbp a)
{
    return a.kind == IR_S && (a.before || a.after);
}

bool ir_sbp_same_cut(ir_sbp a, ir_sbp b)
{
    return a.kind == IR_S && b.kind == IR_S && a.axis == b.axis;
}

bool ir_nd_sbp_equal(const ir_nd_sbp *a, const ir_nd_sbp *b, int32_t n_axes)
{
    for (int32_t i = 0; i < n_axes; i++)
        if (!ir_sbp_equal(a->at[i], b->at[i]))
            return false;
    return true;
}

int32_t ir_mesh_size(const ir_mesh *mesh)
{
    int32_t size = 1;
    for (int32_t i = 0; i < mesh->n; i++)
        size *= mesh->dim[i];
    return size;
}

void ir_mesh_coords(const ir_mesh *mesh, int32_t rank,
                    int32_t coords[IR_MAX_MESH])
{
    for (int32_t i = IR_MAX_MESH - 1; i >= 0; i--) {
        int32_t dim = i < mesh->n ? mesh->dim[i] : 1;
        coords[i] = rank % dim;
        rank /= dim;
    }
}

int32_t ir_mesh_rank(const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH])
{
    int32_t rank = 0;
    for (int32_t i = 0; i < mesh->n; i++)
        rank = rank * mesh->dim[i] + coords[i];
    return rank;
}

static size_t write_sbp(char *out, size_t room, ir_sbp sbp)
{
    static const char *const names[] = {[IR_B] = "B",
                                        [IR_PSUM] = "P",
                                        [IR_PMAX] = "P(max)",
                                        [IR_PMIN] = "P(min)"};
    if (ir_sbp_has_halo(sbp))
        return (size_t)snprintf(out, room, "S(%d)-%d+%d", sbp.axis, sbp.before,
                                sbp.after);
    if (sbp.kind == IR_S)
        return (size_t)snprintf(out, room, "S(%d)", sbp.axis);
    return (size_t)snprintf(out, room, "%s", names[sbp.kind]);
}

char *ir_nd_sbp_text(char out[64], const ir_nd_sbp *sbp, int32_t n_axes)
{
    size_t n = 0;
    if (n_axes == 1) {
        write_sbp(out, 64, sbp->at[0]);
        return out;
    }
    out[n++] = '(';
    for (int32_t i = 0; i < n_axes; i++) {
        if (i)
            out[n++] = ',';
        n += write_sbp(out + n, 64 - n, sbp->at[i]);
    }
    out[n++] = ')';
    out[n] = '\0';
    return out;
}

/* A number of at most IR_MAX_HALO behind `sign`, without leading zeros. */
static bool read_width(const char **at, char sign, uint8_t *out)
{
    const char *t = *at;
    int32_t n = 0, digits = 0;
    if (*t++ != sign)
        return false;
    for (; *t >= '0' && *t <= '9' && digits < 4; t++, digits++)
        n = 10 * n + (*t - '0');
    if (digits == 0 || (digits > 1 && t[-digits] == '0') || n > IR_MAX_HALO)
        return false;
    *at = t;
    *out = (uint8_t)n;
    return true;
}

/* "-b+a" behind S(i), not both 0; or nothing. */
static bool read_halo(const char **at, ir_sbp *out)
{
    if (**at != '-')
        return true;
    return read_width(at, '-', &out->before) &&
           read_width(at, '+', &out->after) && ir_sbp_has_halo(*out);
}

/* Reads one entry and moves *at behind it. */
static bool read_sbp(const char **at, ir_sbp *out)
{
    static const struct {
        const char *text;
        ir_sbp_kind kind;
    } names[] = {
        {"B", IR_B}, {"P(max)", IR_PMAX}, {"P(min)", IR_PMIN}, {"P", IR_PSUM}};
    const char *t = *at;
    if (t[0] == 'S' && t[1] == '(' && t[2] >= '0' && t[2] < '0' + IR_MAX_RANK &&
        t[3] == ')') {
        *out = IR_SBP_S(t[2] - '0');
        *at += 4;
        return read_halo(at, out);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].text);
        if (strncmp(t, names[i].text, length) == 0) {
            *out = (ir_sbp){.kind = (uint8_t)names[i].kind};
            *at += length;
            return true;
        }
    }
    return false;
}

static bool read_sbps(const char *at, int32_t n_axes, ir_nd_sbp *out)
{
    bool brackets = n_axes != 1;
    if (brackets && *at++ != '(')
        return false;
    for (int32_t i = 0; i < n_axes; i++) {
        if (i && *at++ != ',')
            return false;
        if (!read_sbp(&at, &out->at[i]))
            return false;
    }
    if (brackets && *at++ != ')')
        return false;
    return *at == '\0';
}

fs_status ir_nd_sbp_parse(const char *text, int32_t n_axes, fs_err *err,
                          ir_nd_sbp *out)
{
    ir_nd_sbp result = {0};
    if (n_axes < 0 || n_axes > IR_MAX_MESH || !read_sbps(text, n_axes, &result))
        return fs_fail(err, FS_INVALID,
                       "'%.60s' is no SBP on %d mesh axes (such as \"B\", "
                       "\"S(0)\", \"P\"; on two axes \"(S(0),B)\")",
                       text, n_axes);
    *out = result;
    return FS_OK;
}

/* Is the axis that mesh axis `i` cuts with a halo cut by another one too? */
static bool halo_cut_again(const ir_nd_sbp *sbp, int32_t n_axes, int32_t i)
{
    for (int32_t k = 0; k < n_axes; k++)
        if (k != i && ir_sbp_same_cut(sbp->at[k], sbp->at[i]))
            return ir_sbp_has_halo(sbp->at[i]);
    return false;
}

bool ir_nd_sbp_fits(const ir_nd_sbp *sbp, const ir_shape *shape,
                    const ir_mesh *mesh)
{
    ir_shape smallest = *shape;
    for (int32_t i = 0; i < mesh->n; i++) {
        ir_sbp at = sbp->at[i];
        if (at.kind != IR_S)
            continue;
        if (at.axis >= shape->rank || smallest.dim[at.axis] < mesh->dim[i])
            return false;
        smallest.dim[at.axis] /= mesh->dim[i];
        if (smallest.dim[at.axis] < at.before ||
            smallest.dim[at.axis] < at.after || halo_cut_again(sbp, mesh->n, i))
            return false;
    }
    return true;
}

void ir_split(int64_t total, int32_t n, int32_t i, int64_t *start,
              int64_t *length)
{
    int64_t base = total / n, extra = total % n;
    *start = i * base + (i < extra ? i : extra);
    *length = base + (i < extra);
}

void ir_split_halo(int64_t total, int32_t n, int32_t i, ir_sbp cut,
                   int64_t *start, int64_t *length)
{
    ir_split(total, n, i, start, length);
    int64_t before = *start < cut.before ? *start : cut.before;
    int64_t behind = total - *start - *length;
    *start -= before;
    *length += before + (behind < cut.after ? behind : cut.after);
}

void ir_local_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                    const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH],
                    ir_shape *local, int64_t offset[IR_MAX_RANK])
{
    ir_shape piece = *shape;
    int64_t from[IR_MAX_RANK] = {0};
    for (int32_t i = 0; i < mesh->n; i++) {
        if (sbp->at[i].kind != IR_S)
            continue;
        int32_t axis = sbp->at[i].axis;
        int64_t start;
        ir_split_halo(piece.dim[axis], mesh->dim[i], coords[i], sbp->at[i],
                      &start, &piece.dim[axis]);
        from[axis] += start;
    }
    *local = piece;
    if (offset)
        memcpy(offset, from, sizeof from);
}

ir_piece ir_piece_of(const ir_shape *shape, const ir_nd_sbp *sbp,
                     const ir_mesh *mesh, const int32_t coords[IR_MAX_MESH])
{
    ir_piece piece;
    ir_local_piece(shape, sbp, mesh, coords, &piece.shape, piece.offset);
    return piece;
}

bool ir_piece_common(const ir_piece *a, const ir_piece *b, ir_piece *out)
{
    *out = *a;
    for (int32_t d = 0; d < a->shape.rank; d++) {
        const int64_t from =
            a->offset[d] > b->offset[d] ? a->offset[d] : b->offset[d];
        const int64_t end_a = a->offset[d] + a->shape.dim[d];
        const int64_t end_b = b->offset[d] + b->shape.dim[d];
        const int64_t end = end_a < end_b ? end_a : end_b;
        if (end <= from)
            return false;
        out->offset[d] = from;
        out->shape.dim[d] = end - from;
    }
    return true;
}

ir_shape ir_largest_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                          const ir_mesh *mesh)
{
    ir_shape piece = *shape;
    for (int32_t i = 0; i < mesh->n; i++) {
        ir_sbp at = sbp->at[i];
        if (at.kind != IR_S)
            continue;
        int64_t whole = piece.dim[at.axis], start, length;
        ir_split(whole, mesh->dim[i], 0, &start, &length);
        if (mesh->dim[i] > 2) /* one within borrows on both sides */
            length += at.before + at.after;
        else
            length += at.before > at.after ? at.before : at.after;
        piece.dim[at.axis] = length < whole ? length : whole;
    }
    return piece;
}
