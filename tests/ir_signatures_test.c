/* Signatures of every op: local shapes agree, the product over mesh axes. */
#include "config.h"

#include "op_cases.h"
#include "ir/build.h"
#include "ir/window.h"
#include "tap.h"

enum { TRIALS = 40 };

static const ir_mesh meshes[] = {
    {1, {2}}, {1, {3}}, {2, {2, 2}}, {2, {3, 2}}, {3, {2, 1, 2}}};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

/* ---- local shapes ---- */

/* Logical position of element `at` of a piece. */
static int64_t place(const ir_shape *piece, const int64_t *offset,
                     const ir_shape *whole, int64_t at)
{
    int64_t result = 0, step = 1;
    for (int32_t i = whole->rank - 1; i >= 0; i--) {
        result += (at % piece->dim[i] + offset[i]) * step;
        at /= piece->dim[i];
        step *= whole->dim[i];
    }
    return result;
}

/* A view moves nothing: element e of the input's piece is element e of the
 * output's. */
static bool same_elements(const ir_io *whole, const ir_io *local,
                          const int64_t *in_at, const int64_t *out_at)
{
    int64_t n = ir_shape_count(&local->in[0]);
    if (n != ir_shape_count(&local->out[0]))
        return false;
    for (int64_t e = 0; e < n; e++)
        if (place(&local->in[0], in_at, &whole->in[0], e) !=
            place(&local->out[0], out_at, &whole->out[0], e))
            return false;
    return true;
}

/* ---- windows ---- */

static bool slides(const ir_node *node)
{
    return node->op == IR_OP_conv || node->op == IR_OP_max_pool ||
           node->op == IR_OP_max_pool_index || node->op == IR_OP_avg_pool;
}

static bool slides_back(const ir_node *node)
{
    return node->op == IR_OP_conv_data_grad ||
           node->op == IR_OP_conv_filter_grad ||
           node->op == IR_OP_max_pool_grad || node->op == IR_OP_avg_pool_grad;
}

static bool is_pool(const ir_node *node)
{
    return node->op != IR_OP_conv;
}

/* Elements from the first to the last that a window reaches. */
static int64_t reach_of(const ir_node *node, const ir_io *io, int32_t k)
{
    int64_t size =
        is_pool(node) ? node->i[IR_WINDOW_SIZE + k] : io->in[1].dim[2 + k];
    int64_t dilation = node->op == IR_OP_avg_pool ? 1
                       : is_pool(node) ? node->i[IR_WINDOW_DILATION + k]
                                       : node->i[IR_WINDOW_SPREAD + k];
    return (size - 1) * dilation + 1;
}

/* The elements that the windows of y's piece reach, as far as there are any,
 * lie in x's piece: a device pads only where the tensor ends. */
static bool windows_inside(const ir_node *node, const ir_io *whole,
                           const ir_io *local, const int64_t *x_at,
                           const int64_t *y_at)
{
    for (int32_t k = 0; k < whole->in[0].rank - 2; k++) {
        const int64_t stride = node->i[IR_WINDOW_STRIDE + k];
        const int64_t pad = node->i[IR_WINDOW_BEFORE + k], at = 2 + k;
        const int64_t length = local->out[0].dim[at];
        int64_t low = y_at[at] * stride - pad;
        int64_t high =
            (y_at[at] + length - 1) * stride - pad + reach_of(node, whole, k);
        low = low < 0 ? 0 : low;
        high = high > whole->in[0].dim[at] ? whole->in[0].dim[at] : high;
        if (low < high &&
            (low < x_at[at] || high > x_at[at] + local->in[0].dim[at]))
            return false;
    }
    return true;
}

/* On one device: `infer` of the inputs' pieces gives the outputs' pieces. Of
 * the gradients of windows kernels_sbp_test asks more. */
static bool device_agrees(const ir_node *node, const ir_io *whole,
                          const ir_nd_sig *sig, const ir_mesh *mesh,
                          int32_t rank)
{
    int32_t coords[IR_MAX_MESH];
    int64_t in_at[IR_MAX_RANK] = {0}, out_at[IR_MAX_RANK] = {0};
    ir_io local = *whole, inferred;
    ir_mesh_coords(mesh, rank, coords);
    for (int32_t i = node->n_in - 1; i >= 0; i--)
        ir_local_piece(&whole->in[i], &sig->in[i], mesh, coords, &local.in[i],
                       in_at);
    for (int32_t i = node->n_out - 1; i >= 0; i--)
        ir_local_piece(&whole->out[i], &sig->out[i], mesh, coords,
                       &local.out[i], out_at);
    if (slides(node))
        return windows_inside(node, whole, &local, in_at, out_at);
    if (slides_back(node))
        return true;
    ir_node on_device = op_case_local(node, &local);
    inferred = local;
    if (ir_op_table[node->op]->infer(&on_device, &inferred, NULL) != FS_OK)
        return false;
    for (int32_t i = 0; i < node->n_out; i++)
        if (!ir_shape_equal(&inferred.out[i], &local.out[i]))
            return false;
    return node->op != IR_OP_reshape ||
           same_elements(whole, &local, in_at, out_at);
}

/* A halo is what an op borrows, never what it makes. */
static bool makes_no_halo(const ir_node *node, const ir_nd_sig *sig,
                          const ir_mesh *mesh)
{
    for (int32_t k = 0; k < node->n_out; k++)
        for (int32_t a = 0; a < mesh->n; a++)
            if (ir_sbp_has_halo(sig->out[k].at[a]))
                return false;
    return true;
}

static bool all_devices_agree(const ir_graph *g, const ir_node *node,
                              const ir_nd_sig *sig, const ir_mesh *mesh)
{
    ir_io whole;
    ir_node_io(g, node, &whole);
    for (int32_t r = 0; r < ir_mesh_size(mesh); r++)
        if (!device_agrees(node, &whole, sig, mesh, r))
            return false;
    return makes_no_halo(node, sig, mesh) &&
           ir_signature_legal(g, node, mesh, sig);
}

static void print_sig(const ir_graph *g, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh)
{
    char sbp[64], shape[160];
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        bool in = i < node->n_in;
        int32_t k = in ? i : i - node->n_in;
        int32_t t = in ? node->in[k] : node->out[k];
        printf("# %s %d: %s %s\n", in ? "in" : "out", k,
               ir_shape_text(shape, &g->tensors.at[t].shape),
               ir_nd_sbp_text(sbp, in ? &sig->in[k] : &sig->out[k], mesh->n));
    }
}

/* Checks one random node on all meshes; counts signatures, returns faults. */
static int32_t check_node(const ir_graph *g, const ir_node *node,
                          int64_t *n_checked)
{
    int32_t wrong = 0;
    for (int32_t m = 0; m < N_MESHES; m++) {
        ir_nd_sig_list list;
        ir_signatures(g, node, &meshes[m], g->arena, &list);
        for (int32_t s = 0; s < list.n; s++) {
            if (all_devices_agree(g, node, &list.at[s], &meshes[m]))
                continue;
            if (!wrong++)
                print_sig(g, node, &list.at[s], &meshes[m]);
        }
        *n_checked += list.n;
    }
    return wrong;
}

static int32_t source_node(ir_graph *g, ir_op_kind op, uint64_t *seed)
{
    ir_shape shape = {.rank = (int32_t)fs_rand_below(seed, 4)};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = 1 + fs_rand_below(seed, 7);
    ir_init zero = {0};
    int32_t t = op == IR_OP_input ? ir_input(g, "x", IR_F32, shape, -1)
                : op == IR_OP_variable
                    ? ir_parameter(g, "x", IR_F32, shape, zero)
                    : ir_constant(g, "x", IR_F32, shape, NULL);
    return g->tensors.at[t].producer;
}

/* A random node of the op in a fresh graph; the caller destroys the graph. */
static const ir_node *random_node(ir_op_kind op, uint64_t *seed, ir_graph **out)
{
    ir_graph *g = *out = ir_graph_create("case");
    int32_t v;
    if (ir_op_class_of(op) == IR_CLASS_SOURCE) {
        v = source_node(g, op, seed);
    } else if (op == IR_OP_output) {
        source_node(g, IR_OP_input, seed);
        ir_mark_output(g, 0);
        v = g->nodes.n - 1;
    } else {
        op_case c = {.graph = g,
                     .op = op,
                     .real = IR_F32,
                     .other_type = true,
                     .seed = seed};
        v = op_case_build(&c);
    }
    if (v < 0)
        printf("# %s: %s\n", ir_op_table[op]->name, g->err.text);
    return v < 0 ? NULL : &g->nodes.at[v];
}

static void test_local_shapes(uint64_t *seed)
{
    for (int32_t op = 0; op < IR_OP_COUNT; op++) {
        int32_t wrong = 0;
        int64_t n = 0;
        for (int32_t k = 0; k < TRIALS; k++) {
            ir_graph *g;
            const ir_node *node = random_node((ir_op_kind)op, seed, &g);
            wrong += node ? check_node(g, node, &n) : 1;
            ir_graph_destroy(g);
        }
        tap_equal_int(wrong, 0, "%s: pieces fit together under %lld signatures",
                      ir_op_table[op]->name, (long long)n);
    }
}

/* ---- the table ---- */

static bool has_duplicates(const ir_node *node, const ir_nd_sig_list *list,
                           int32_t n_axes)
{
    for (int32_t a = 0; a < list->n; a++)
        for (int32_t b = a + 1; b < list->n; b++) {
            bool same = true;
            for (int32_t i = 0; i < node->n_in; i++)
                same &= ir_nd_sbp_equal(&list->at[a].in[i], &list->at[b].in[i],
                                        n_axes);
            for (int32_t i = 0; i < node->n_out; i++)
                same &= ir_nd_sbp_equal(&list->at[a].out[i],
                                        &list->at[b].out[i], n_axes);
            if (same)
                return true;
        }
    return false;
}

static bool is_all_b(const ir_node *node, const ir_nd_sig *sig, int32_t n_axes)
{
    ir_nd_sbp b = {0};
    bool all = true;
    for (int32_t i = 0; i < node->n_in; i++)
        all &= ir_nd_sbp_equal(&sig->in[i], &b, n_axes);
    for (int32_t i = 0; i < node->n_out; i++)
        all &= ir_nd_sbp_equal(&sig->out[i], &b, n_axes);
    return all;
}

static bool work_is_sane(const ir_graph *g, const ir_node *node)
{
    ir_work whole, part;
    ir_nd_sig_list list;
    ir_mesh one = {0}, two = {1, {2}};
    ir_node_work(g, node, &(ir_nd_sig){0}, &one, &whole);
    if (whole.flop < 2 * whole.macs ||
        (ir_op_is_dense(node->op) && whole.flop > 0 && whole.macs == 0))
        return false;
    ir_signatures(g, node, &two, g->arena, &list);
    for (int32_t s = 0; s < list.n; s++) {
        ir_node_work(g, node, &list.at[s], &two, &part);
        if (part.flop > whole.flop || part.flop < 0 || part.macs > whole.macs ||
            part.macs < 0 || part.read_bytes > whole.read_bytes ||
            part.read_bytes < 0 || part.written_bytes > whole.written_bytes)
            return false;
    }
    return true;
}

static void test_rows(uint64_t *seed)
{
    for (int32_t op = 0; op < IR_OP_COUNT; op++) {
        ir_graph *g;
        ir_nd_sig_list none, list;
        const ir_op *row = ir_op_table[op];
        const ir_node *node = random_node((ir_op_kind)op, seed, &g);
        ir_signatures(g, node, &(ir_mesh){0}, g->arena, &none);
        ir_signatures(g, node, &meshes[2], g->arena, &list);
        tap_ok(ir_op_by_name(row->name) == (ir_op_kind)op &&
                   node->n_out == ir_op_outputs(node),
               "%s: found by its name", row->name);
        tap_ok(none.n == 1 && is_all_b(node, &list.at[0], 2) &&
                   !has_duplicates(node, &list, 2),
               "%s: all-B first, nothing twice, one signature on one device",
               row->name);
        tap_ok(work_is_sane(g, node),
               "%s: a piece is no more work than the "
               "whole",
               row->name);
        ir_graph_destroy(g);
    }
    tap_equal_int(ir_op_by_name("nonesuch"), IR_OP_COUNT,
                  "an unknown name is no op");
}

/* ---- matmul, by the paper ---- */

static const ir_node *matmul_of(ir_graph *g, int64_t m, int64_t k, int64_t n)
{
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(2, (int64_t[]){m, k}), 0);
    int32_t w =
        ir_input(g, "w", IR_F32, ir_shape_make(2, (int64_t[]){k, n}), -1);
    int32_t y = ir_matmul(g, x, w, false, false);
    return &g->nodes.at[g->tensors.at[y].producer];
}

static bool is_legal(const ir_graph *g, const ir_node *node,
                     const ir_mesh *mesh, const char *x, const char *w,
                     const char *y)
{
    ir_nd_sig sig = {0};
    FS_ASSERT(ir_nd_sbp_parse(x, mesh->n, NULL, &sig.in[0]) == FS_OK);
    FS_ASSERT(ir_nd_sbp_parse(w, mesh->n, NULL, &sig.in[1]) == FS_OK);
    FS_ASSERT(ir_nd_sbp_parse(y, mesh->n, NULL, &sig.out[0]) == FS_OK);
    return ir_signature_legal(g, node, mesh, &sig);
}

static void test_matmul(void)
{
    static const char *const rows[][3] = {
        {"S(0)", "B", "S(0)"}, {"B", "S(1)", "S(1)"}, {"S(1)", "S(0)", "P"},
        {"P", "B", "P"},       {"B", "P", "P"},       {"B", "B", "B"}};
    ir_graph *g = ir_graph_create("matmul");
    const ir_node *node = matmul_of(g, 8, 8, 8);
    const ir_mesh line = {1, {2}}, square = {2, {2, 2}}, thin = {2, {1, 2}};
    ir_nd_sig_list list;
    ir_signatures(g, node, &line, g->arena, &list);
    tap_equal_int(list.n, 6, "matmul: six signatures on one axis");
    for (int32_t i = 0; i < 6; i++)
        tap_ok(is_legal(g, node, &line, rows[i][0], rows[i][1], rows[i][2]),
               "matmul: %s x %s -> %s", rows[i][0], rows[i][1], rows[i][2]);
    ir_signatures(g, node, &square, g->arena, &list);
    tap_equal_int(list.n, 36, "matmul: 6 x 6 signatures on two axes");
    tap_ok(is_legal(g, node, &square, "(S(0),B)", "(B,S(1))", "(S(0),S(1))"),
           "matmul: data and column parallel, OneFlow table 3 row 1");
    tap_ok(is_legal(g, node, &square, "(S(0),S(1))", "(B,S(0))", "(S(0),P)"),
           "matmul: data and row parallel, OneFlow table 3 row 2");
    tap_ok(!is_legal(g, node, &square, "(P,B)", "(P,B)", "(P,B)"),
           "matmul: two partial operands on one axis are refused");
    ir_signatures(g, node, &thin, g->arena, &list);
    tap_equal_int(list.n, 6, "an axis of length 1 only gets B");
    tap_ok(!is_legal(g, node, &thin, "(S(0),B)", "(B,B)", "(S(0),B)"),
           "and a cut along it is not legal");
    ir_graph_destroy(g);
}

static void test_filter(void)
{
    ir_graph *g = ir_graph_create("small");
    const ir_node *node = matmul_of(g, 2, 8, 1);
    const ir_mesh square = {2, {2, 2}};
    ir_nd_sig_list list;
    ir_signatures(g, node, &square, g->arena, &list);
    /* 2 rows cannot be cut twice, 1 column not at all: of {S(0)B, S(1)S(0),
     * PB, BP, BB} squared only the pair S(0)B, S(0)B is lost. */
    tap_equal_int(list.n, 5 * 5 - 1, "axes shorter than their cut are dropped");
    ir_graph_destroy(g);
}

static bool reshape_legal(int64_t from_rows, const int64_t to[3],
                          const ir_mesh *mesh)
{
    ir_graph *g = ir_graph_create("reshape");
    int32_t x = ir_input(g, "x", IR_F32,
                         ir_shape_make(2, (int64_t[]){from_rows, 5}), 0);
    int32_t y = ir_reshape(g, x, ir_shape_make(3, to));
    const ir_node *node = &g->nodes.at[g->tensors.at[y].producer];
    ir_nd_sig sig = {0};
    for (int32_t i = 0; i < mesh->n; i++)
        sig.in[0].at[i] = sig.out[0].at[i] = IR_SBP_S(0);
    bool legal = ir_signature_legal(g, node, mesh, &sig);
    ir_graph_destroy(g);
    return legal;
}

static void test_reshape(void)
{
    const ir_mesh two = {1, {2}}, square = {2, {2, 2}}, three = {1, {3}};
    tap_ok(reshape_legal(12, (int64_t[]){6, 2, 5}, &two),
           "reshape 12x5 -> 6x2x5: two devices get 6x5 = 3x2x5");
    tap_ok(!reshape_legal(12, (int64_t[]){6, 2, 5}, &square),
           "but 2 x 2 devices would cut rows of 6 unevenly");
    tap_ok(reshape_legal(12, (int64_t[]){6, 2, 5}, &three), "three may");
    tap_ok(reshape_legal(5, (int64_t[]){5, 1, 5}, &two),
           "an axis that stays as long as it is may be cut unevenly");
}

/* ---- windows, by their halos ---- */

/* One spatial axis: x of `length`, windows of `size` by `stride`, padded by
 * `pad`; the op's node in a fresh graph. */
static const ir_node *window_of(ir_op_kind op, const int64_t of[4],
                                ir_graph **out)
{
    ir_graph *g = *out = ir_graph_create("window");
    const bool conv = op == IR_OP_conv || op == IR_OP_conv_data_grad ||
                      op == IR_OP_conv_filter_grad;
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    attr[IR_WINDOW_STRIDE] = of[2];
    attr[IR_WINDOW_BEFORE] = attr[IR_WINDOW_AFTER] = of[3];
    attr[IR_WINDOW_SIZE] = conv ? 1 : of[1];
    attr[IR_WINDOW_GROUPS] = conv;
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){3, {2, 2, of[0]}}, 0);
    int32_t w = ir_input(g, "w", IR_F32, (ir_shape){3, {2, 2, of[1]}}, -1);
    attr[IR_WINDOW_DILATION] =
        op == IR_OP_max_pool || op == IR_OP_max_pool_grad;
    const bool mean = op == IR_OP_avg_pool_grad;
    int32_t y =
        conv ? ir_conv(g, x, w, attr)
             : ir_pool(g, mean ? IR_OP_avg_pool : IR_OP_max_pool, x, attr);
    ir_node node = {.op = op, .n_in = 2, .in = {y, w}};
    memcpy(node.i, attr, sizeof attr);
    if (op == IR_OP_conv || op == IR_OP_max_pool)
        return &g->nodes.at[g->tensors.at[y].producer];
    if (op == IR_OP_conv_filter_grad)
        node.in[1] = x;
    if (conv || mean)
        node.i[IR_WINDOW_LENGTH] = op == IR_OP_conv_filter_grad ? of[1] : of[0];
    if (!conv) {
        node.n_in = mean ? 1 : 3;
        node.in[1] = x;
        node.in[2] = y;
    }
    return &g->nodes.at[g->tensors.at[ir_append(g, &node)].producer];
}

static bool window_legal(ir_op_kind op, const int64_t of[4], int32_t devices,
                         const char *const sbp[4])
{
    ir_graph *g;
    const ir_node *node = window_of(op, of, &g);
    const ir_mesh mesh = {1, {devices}};
    ir_nd_sig sig = {0};
    for (int32_t k = 0; k < node->n_in; k++)
        FS_ASSERT(ir_nd_sbp_parse(sbp[k], 1, NULL, &sig.in[k]) == FS_OK);
    FS_ASSERT(ir_nd_sbp_parse(sbp[3], 1, NULL, &sig.out[0]) == FS_OK);
    bool legal = ir_signature_legal(g, node, &mesh, &sig);
    ir_graph_destroy(g);
    return legal;
}

static void test_windows(void)
{
    static const struct {
        ir_op_kind op;
        int64_t of[4]; /* length, size, stride, pad */
        int32_t devices;
        const char *sbp[4]; /* inputs, output last */
        bool legal;
        const char *text;
    } rows[] = {
        {IR_OP_conv,
         {8, 3, 1, 1},
         2,
         {"S(2)-1+1", "B", "", "S(2)"},
         true,
         "a window of 3 borrows 1 on either side"},
        {IR_OP_conv,
         {8, 3, 1, 1},
         2,
         {"S(2)", "B", "", "S(2)"},
         false,
         "and is not without"},
        {IR_OP_conv,
         {8, 3, 1, 1},
         8,
         {"S(2)-1+1", "B", "", "S(2)"},
         true,
         "down to pieces of 1"},
        {IR_OP_conv,
         {8, 5, 1, 2},
         8,
         {"S(2)-2+2", "B", "", "S(2)"},
         false,
         "not to pieces shorter than what is borrowed"},
        {IR_OP_conv,
         {8, 3, 2, 1},
         4,
         {"S(2)-1+0", "B", "", "S(2)"},
         true,
         "by 2 only before"},
        {IR_OP_conv,
         {12, 3, 2, 1},
         4,
         {"S(2)-1+0", "B", "", "S(2)"},
         false,
         "6 windows on 4 devices part otherwise than 12 elements"},
        {IR_OP_conv,
         {8, 5, 1, 0},
         2,
         {"S(2)-4+4", "B", "", "S(2)"},
         true,
         "without padding pieces of y begin ever earlier"},
        {IR_OP_conv,
         {8, 2, 2, 0},
         2,
         {"S(2)", "B", "", "S(2)"},
         true,
         "side by side nothing is borrowed"},
        {IR_OP_conv_data_grad,
         {8, 3, 2, 1},
         2,
         {"S(2)-0+1", "B", "", "S(2)"},
         true,
         "dx borrows the windows that reach into it"},
        {IR_OP_conv_filter_grad,
         {8, 3, 1, 1},
         2,
         {"S(2)", "S(2)-1+1", "", "P"},
         true,
         "dw is partial, of x with a halo"},
        {IR_OP_max_pool_grad,
         {8, 3, 2, 1},
         2,
         {"S(2)-0+1", "S(2)-1+2", "S(2)-0+1", "S(2)"},
         true,
         "dx borrows dy and y, and the x that their windows saw"},
        {IR_OP_max_pool_grad,
         {10, 5, 2, 2},
         2,
         {"S(2)-1+1", "S(2)-4+3", "S(2)-1+1", "S(2)"},
         false,
         "dy holds the windows of each dx, but x not all that these saw"},
        {IR_OP_avg_pool_grad,
         {10, 5, 2, 2},
         2,
         {"S(2)-1+1", "", "", "S(2)"},
         true,
         "which of an average nobody asks"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        tap_ok(window_legal(rows[k].op, rows[k].of, rows[k].devices,
                            rows[k].sbp) == rows[k].legal,
               "%s: %s", ir_op_table[rows[k].op]->name, rows[k].text);
}

int main(void)
{
    uint64_t seed = tap_seed(20240315);
    test_local_shapes(&seed);
    test_rows(&seed);
    test_matmul();
    test_filter();
    test_reshape();
    test_windows();
    return tap_done();
}
