/* Shapes, balanced splits, SBP text, pieces. */
#include "config.h"

#include "base/hash.h"
#include "ir/sbp.h"
#include "tap.h"

static const ir_dtype dtypes[] = {IR_F32, IR_F64, IR_I32, IR_I64, IR_BOOL};

static ir_shape shape1(int64_t a)
{
    return ir_shape_make(1, &a);
}

static void test_shapes(void)
{
    char text[160];
    fs_err err = {0};
    int64_t huge[3] = {(int64_t)1 << 31, (int64_t)1 << 20, (int64_t)1 << 10};
    int64_t fits[3] = {(int64_t)1 << 31, (int64_t)1 << 20, (int64_t)1 << 8};
    ir_shape big = ir_shape_make(3, huge), largest = ir_shape_make(3, fits);
    ir_shape zero = shape1(0), scalar = {0};
    int64_t bytes = 0;
    for (size_t i = 0; i < 5; i++)
        bytes += ir_dtype_bytes(dtypes[i]);
    tap_equal_int(bytes, 4 + 8 + 4 + 8 + 1, "every dtype has its bytes");
    tap_equal_text(ir_shape_text(text, &largest), "2147483648x1048576x256",
                   "a shape's text joins its dimensions");
    tap_equal_text(ir_shape_text(text, &scalar), "scalar",
                   "a shape without dimensions is a scalar");
    tap_equal_int(ir_shape_count(&scalar), 1, "a scalar has one element");
    tap_equal_int(ir_shape_check(&largest, "t", &err), FS_OK,
                  "2^59 elements can be counted in bytes");
    tap_equal_int(ir_shape_check(&big, "t", &err), FS_INVALID,
                  "2^61 elements overflow and are refused");
    tap_ok(strstr(err.text, "t: a tensor of shape 2147483648x1048576x1024"),
           "the message names tensor and shape: %s", err.text);
    err = (fs_err){0};
    tap_equal_int(ir_shape_check(&zero, "t", &err), FS_INVALID,
                  "a dimension of 0 is refused");
}

static void test_broadcast(void)
{
    fs_err err = {0};
    ir_shape a = ir_shape_make(3, (int64_t[]){4, 1, 3}), out;
    ir_shape b = ir_shape_make(2, (int64_t[]){5, 3});
    ir_shape wanted = ir_shape_make(3, (int64_t[]){4, 5, 3});
    ir_shape c = ir_shape_make(1, (int64_t[]){2});
    tap_ok(ir_shape_broadcast(&a, &b, &err, &out) == FS_OK &&
               ir_shape_equal(&out, &wanted),
           "4x1x3 and 5x3 broadcast to 4x5x3");
    tap_equal_int(ir_shape_broadcast(&a, &c, &err, &out), FS_INVALID,
                  "4x1x3 and 2 do not broadcast");
    tap_equal_text(err.text, "shapes 4x1x3 and 2 do not broadcast: 3 against 2",
                   "the message gives both lengths");
}

static void test_text(void)
{
    static const char *const good[] = {
        "B", "S(0)", "S(7)", "P", "P(max)", "P(min)", "S(2)-1+1", "S(3)-0+255"};
    static const char *const bad[] = {
        "",       "S",         "S(8)",      "S(0",       "P()",
        "B ",     "b",         "(B)",       "P(sum)",    "S(2)-",
        "S(2)-1", "S(2)+1",    "S(2)-0+0",  "S(2)-1+",   "S(2)-1+256",
        "B-1+1",  "S(2)-01+1", "S(2)-1+1 ", "S(2)--1+1", "S(2)-99999+1"};
    char text[64];
    ir_nd_sbp sbp;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        tap_ok(ir_nd_sbp_parse(good[i], 1, NULL, &sbp) == FS_OK &&
                   strcmp(ir_nd_sbp_text(text, &sbp, 1), good[i]) == 0,
               "%s is read and written alike", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tap_equal_int(ir_nd_sbp_parse(bad[i], 1, NULL, &sbp), FS_INVALID,
                      "'%s' is no SBP", bad[i]);
    tap_ok(ir_nd_sbp_parse("(S(0),P(max),B)", 3, NULL, &sbp) == FS_OK &&
               strcmp(ir_nd_sbp_text(text, &sbp, 3), "(S(0),P(max),B)") == 0,
           "three axes are read and written alike");
    tap_ok(ir_nd_sbp_parse("(S(2)-255+255,S(3)-255+255,S(4)-255+255,"
                           "S(5)-255+255)",
                           4, NULL, &sbp) == FS_OK &&
               strlen(ir_nd_sbp_text(text, &sbp, 4)) < 64,
           "four halos are read and written: %s", text);
    tap_ok(ir_nd_sbp_parse("()", 0, NULL, &sbp) == FS_OK &&
               strcmp(ir_nd_sbp_text(text, &sbp, 0), "()") == 0,
           "a mesh without axes is ()");
    tap_equal_int(ir_nd_sbp_parse("(B,B)", 3, NULL, &sbp), FS_INVALID,
                  "two entries for three axes are refused");
}

/* Lengths of the pieces of `total` under S(0) on every axis, as "2,1,2,1". */
static char *lengths(char out[64], int64_t total, const ir_mesh *mesh)
{
    ir_nd_sbp sbp = {{IR_SBP_S(0), IR_SBP_S(0)}};
    ir_shape shape = shape1(total), local;
    size_t n = 0;
    for (int32_t r = 0; r < ir_mesh_size(mesh); r++) {
        int32_t coords[IR_MAX_MESH];
        ir_mesh_coords(mesh, r, coords);
        ir_local_piece(&shape, &sbp, mesh, coords, &local, NULL);
        n += (size_t)snprintf(out + n, 64 - n, "%s%lld", r ? "," : "",
                              (long long)local.dim[0]);
    }
    return out;
}

static void test_uneven(void)
{
    char text[64];
    ir_mesh line = {1, {4}}, square = {2, {2, 2}};
    ir_nd_sbp twice = {{IR_SBP_S(0), IR_SBP_S(0)}};
    ir_shape three = shape1(3), four = shape1(4);
    tap_equal_text(lengths(text, 6, &line), "2,2,1,1",
                   "6 on 4 devices: the first pieces get one more");
    tap_equal_text(lengths(text, 6, &square), "2,1,2,1",
                   "6 on 2 x 2 devices: the second axis cuts the piece again");
    tap_ok(!ir_nd_sbp_fits(&twice, &three, &square),
           "3 cannot be cut by 2 and 2 again");
    tap_ok(ir_nd_sbp_fits(&twice, &four, &square), "4 can");
    tap_ok(!ir_nd_sbp_fits(&(ir_nd_sbp){{IR_SBP_S(1)}}, &four, &line),
           "an axis that does not exist cannot be cut");
}

static ir_nd_sbp without_halo(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    ir_nd_sbp plain = *sbp;
    for (int32_t a = 0; a < mesh->n; a++)
        plain.at[a].before = plain.at[a].after = 0;
    return plain;
}

/* A piece is that of the layout without halos and, where it does not end with
 * the tensor, all that is borrowed. */
static bool halo_around(const ir_shape *shape, const ir_nd_sbp *sbp,
                        const ir_mesh *mesh, const int32_t *coords,
                        const ir_shape *local)
{
    const ir_nd_sbp plain = without_halo(sbp, mesh);
    int64_t offset[IR_MAX_RANK];
    ir_shape own;
    ir_local_piece(shape, &plain, mesh, coords, &own, offset);
    for (int32_t a = 0; a < mesh->n; a++) {
        const ir_sbp cut = sbp->at[a];
        if (cut.kind != IR_S)
            continue;
        const int32_t i = cut.axis;
        if (offset[i] > 0)
            own.dim[i] += cut.before;
        if (offset[i] + own.dim[i] - (offset[i] > 0 ? cut.before : 0) <
            shape->dim[i])
            own.dim[i] += cut.after;
    }
    return ir_shape_equal(&own, local);
}

/* Every element of a random shape lies in exactly the pieces it should. */
static bool pieces_cover(const ir_shape *shape, const ir_nd_sbp *sbp,
                         const ir_mesh *mesh)
{
    int64_t covered = 0, copies = 1;
    for (int32_t i = 0; i < mesh->n; i++)
        if (sbp->at[i].kind != IR_S)
            copies *= mesh->dim[i];
    ir_shape largest = ir_largest_piece(shape, sbp, mesh);
    for (int32_t r = 0; r < ir_mesh_size(mesh); r++) {
        int32_t coords[IR_MAX_MESH];
        int64_t offset[IR_MAX_RANK];
        ir_shape local;
        ir_mesh_coords(mesh, r, coords);
        if (ir_mesh_rank(mesh, coords) != r)
            return false;
        ir_local_piece(shape, sbp, mesh, coords, &local, offset);
        if (!halo_around(shape, sbp, mesh, coords, &local))
            return false;
        for (int32_t i = 0; i < shape->rank; i++)
            if (local.dim[i] < 1 || local.dim[i] > largest.dim[i] ||
                offset[i] + local.dim[i] > shape->dim[i])
                return false;
        const ir_nd_sbp plain = without_halo(sbp, mesh);
        ir_local_piece(shape, &plain, mesh, coords, &local, NULL);
        covered += ir_shape_count(&local);
    }
    return covered == copies * ir_shape_count(shape);
}

static void test_pieces(void)
{
    uint64_t seed = tap_seed(7);
    int32_t wrong = 0, tried = 0;
    while (tried < 2000) {
        ir_shape shape = {.rank = 1 + (int32_t)fs_rand_below(&seed, 3)};
        ir_mesh mesh = {.n = 1 + (int32_t)fs_rand_below(&seed, 3)};
        ir_nd_sbp sbp = {0};
        for (int32_t i = 0; i < shape.rank; i++)
            shape.dim[i] = 1 + fs_rand_below(&seed, 13);
        for (int32_t i = 0; i < mesh.n; i++) {
            mesh.dim[i] = 1 + (int32_t)fs_rand_below(&seed, 3);
            if (fs_rand_below(&seed, 3))
                sbp.at[i] = IR_SBP_S(fs_rand_below(&seed, shape.rank));
            if (sbp.at[i].kind == IR_S && fs_rand_below(&seed, 3) == 0) {
                sbp.at[i].before = (uint8_t)fs_rand_below(&seed, 3);
                sbp.at[i].after = (uint8_t)fs_rand_below(&seed, 3);
            }
        }
        if (!ir_nd_sbp_fits(&sbp, &shape, &mesh))
            continue;
        wrong += !pieces_cover(&shape, &sbp, &mesh);
        tried++;
    }
    tap_equal_int(wrong, 0, "%d random layouts: pieces lie inside and add up",
                  tried);
}

/* Offsets and lengths of the pieces of 10 under S(0) with this halo. */
static char *halo_pieces(char out[64], const char *sbp_text, int32_t devices)
{
    ir_mesh mesh = {1, {devices}};
    ir_shape shape = shape1(10), local;
    ir_nd_sbp sbp = {0};
    size_t n = 0;
    ir_nd_sbp_parse(sbp_text, 1, NULL, &sbp);
    for (int32_t r = 0; r < devices; r++) {
        const int32_t coords[IR_MAX_MESH] = {r};
        int64_t offset[IR_MAX_RANK];
        ir_local_piece(&shape, &sbp, &mesh, coords, &local, offset);
        n += (size_t)snprintf(out + n, 64 - n, "%s%lld:%lld", r ? " " : "",
                              (long long)offset[0], (long long)local.dim[0]);
    }
    return out;
}

static void test_halo(void)
{
    char text[64];
    ir_mesh line = {1, {3}}, pair = {1, {2}}, square = {2, {2, 2}};
    ir_shape ten = shape1(10), plane = ir_shape_make(2, (int64_t[]){10, 10});
    ir_nd_sbp one, wide, twice, corners;
    ir_nd_sbp_parse("S(0)-1+2", 1, NULL, &one);
    ir_nd_sbp_parse("S(0)-0+4", 1, NULL, &wide);
    ir_nd_sbp_parse("(S(0)-1+1,S(0))", 2, NULL, &twice);
    ir_nd_sbp_parse("(S(0)-1+1,S(1)-1+1)", 2, NULL, &corners);
    tap_equal_text(halo_pieces(text, "S(0)", 3), "0:4 4:3 7:3",
                   "10 on 3 devices without a halo");
    tap_equal_text(halo_pieces(text, "S(0)-1+2", 3), "0:6 3:6 6:4",
                   "a halo is borrowed where there is a neighbour");
    tap_equal_text(halo_pieces(text, "S(0)-2+0", 2), "0:5 3:7",
                   "on one side only");
    tap_equal_int(ir_largest_piece(&ten, &one, &line).dim[0], 7,
                  "no piece is longer than 4 and 3 borrowed");
    tap_equal_int(ir_largest_piece(&ten, &one, &pair).dim[0], 7,
                  "of two devices each borrows on one side");
    tap_ok(!ir_nd_sbp_fits(&wide, &ten, &line) &&
               ir_nd_sbp_fits(&wide, &ten, &pair),
           "a neighbour lends no more than it has");
    tap_ok(!ir_nd_sbp_fits(&twice, &plane, &square),
           "what has a halo is not cut again");
    tap_ok(ir_nd_sbp_fits(&corners, &plane, &square),
           "two axes may have one each");
    tap_ok(!ir_sbp_equal(one.at[0], IR_SBP_S(0)) &&
               ir_sbp_same_cut(one.at[0], IR_SBP_S(0)),
           "a halo is another SBP of the same cut");
}

int main(void)
{
    test_shapes();
    test_broadcast();
    test_text();
    test_uneven();
    test_pieces();
    test_halo();
    return tap_done();
}
