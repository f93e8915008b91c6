/* The kernels of compressed gradients: what is picked of pieces and what is
 * left add up to the whole, and columns become orthonormal. */
#include "config.h"

#include "base/hash.h"
#include "kernels/kernel.h"
#include "tests/tap.h"

#include <math.h>
#include <string.h>

enum { ROWS = 7, COLUMNS = 11, N = ROWS * COLUMNS, PARTS = 3 };

static kernel_arg arg_of(void *data, ir_dtype dtype, ir_shape shape)
{
    return (kernel_arg){.data = data, .dtype = dtype, .shape = shape};
}

static void run(const kernel_call *call)
{
    fs_err err = {0};
    FS_ASSERT(kernel_reference(call->node->op)->run(NULL, call, &err) == FS_OK);
}

/* ---- the largest entries ---- */

typedef struct picked {
    int64_t k;
    double x[N], rest[N], values[N + 2]; /* room for more than there are */
    int32_t places[N + 2];
} picked;

/* Of rows `first` .. of a matrix. */
static void pick(picked *p, int64_t first, int64_t rows)
{
    const ir_node node = {.op = IR_OP_sparsify, .i = {p->k, COLUMNS, IR_I32}};
    const ir_shape piece = {2, {rows, COLUMNS}}, sent = {1, {p->k}};
    kernel_call call = {.node = &node, .n_in = 1, .n_out = 3};
    call.in[0] = arg_of(p->x, IR_F64, piece);
    call.in[0].offset[0] = first;
    call.out[0] = arg_of(p->values, IR_F64, sent);
    call.out[1] = arg_of(p->places, IR_I32, sent);
    call.out[2] = arg_of(p->rest, IR_F64, piece);
    run(&call);
}

static void join(const picked *p, double *out)
{
    const ir_node node = {.op = IR_OP_densify, .i = {ROWS, COLUMNS, COLUMNS}};
    const ir_shape sent = {1, {p->k}};
    picked copy = *p;
    kernel_call call = {.node = &node, .n_in = 2, .n_out = 1};
    call.in[0] = arg_of(copy.values, IR_F64, sent);
    call.in[1] = arg_of(copy.places, IR_I32, sent);
    call.out[0] = arg_of(out, IR_F64, (ir_shape){2, {ROWS, COLUMNS}});
    run(&call);
}

static void draw(double *x, int64_t n, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = fs_rand_below(seed, 4) ? 2 * fs_rand_unit(seed) - 1
                                      : (double)fs_rand_below(seed, 3) - 1;
}

/* Each part holds some of every entry, or rows of its own. */
static bool adds_up(bool partial, uint64_t *seed)
{
    double whole[N] = {0}, sum[N] = {0};
    bool largest = true;
    for (int64_t part = 0; part < PARTS; part++) {
        const int64_t first = partial ? 0 : part * ROWS / PARTS;
        const int64_t end = partial ? ROWS : (part + 1) * ROWS / PARTS;
        const int64_t at = first * COLUMNS, n = (end - first) * COLUMNS;
        picked p = {.k = 1 + fs_rand_below(seed, n + 2)};
        double dense[N], least = INFINITY, most = 0;
        draw(p.x, n, seed);
        pick(&p, first, end - first);
        join(&p, dense);
        for (int64_t i = 0; i < n; i++) {
            whole[at + i] += p.x[i];
            sum[at + i] += p.rest[i];
            most = fmax(most, fabs(p.rest[i]));
        }
        for (int64_t i = 0; i < N; i++)
            sum[i] += dense[i];
        for (int64_t i = 0; i < p.k; i++)
            least = fmin(least, fabs(p.values[i]));
        largest &= p.k > n || least >= most;
    }
    for (int64_t i = 0; i < N; i++)
        if (fabs(whole[i] - sum[i]) > 1e-14)
            return false;
    return largest;
}

static void test_picks(uint64_t seed)
{
    int wrong[2] = {0};
    for (int trial = 0; trial < 400; trial++)
        wrong[trial % 2] += !adds_up(trial % 2, &seed);
    tap_equal_int(wrong[0], 0, "sparsify of rows: the largest, none lost");
    tap_equal_int(wrong[1], 0, "sparsify of a partial sum: likewise");
    picked p = {.k = 2, .x = {1, 5, NAN, -3}};
    pick(&p, 0, 1);
    tap_ok(p.values[0] == 5 && isnan(p.values[1]) && p.rest[2] == 0 &&
               p.rest[3] == -3,
           "what is no number is picked, so that it is seen");
}

/* ---- an orthonormal basis ---- */

static double off_orthonormal(const double *q, int64_t rows, int64_t columns)
{
    double worst = 0;
    for (int64_t a = 0; a < columns; a++)
        for (int64_t b = 0; b < columns; b++) {
            double sum = 0;
            for (int64_t i = 0; i < rows; i++)
                sum += q[i * columns + a] * q[i * columns + b];
            worst = fmax(worst, fabs(sum - (a == b)));
        }
    return worst;
}

static void orthonormal(double *x, double *q, int64_t rows, int64_t columns)
{
    const ir_node node = {.op = IR_OP_orthonormal};
    const ir_shape shape = {2, {rows, columns}};
    kernel_call call = {.node = &node, .n_in = 1, .n_out = 1};
    call.in[0] = arg_of(x, IR_F64, shape);
    call.out[0] = arg_of(q, IR_F64, shape);
    run(&call);
}

static void test_bases(uint64_t seed)
{
    double x[N], q[N], worst = 0, lost = 0;
    for (int trial = 0; trial < 300; trial++) {
        const int64_t columns = 1 + fs_rand_below(&seed, ROWS);
        const int64_t depends = trial % 3 ? -1 : columns - 1;
        draw(x, ROWS * columns, &seed);
        for (int64_t i = 0; depends > 0 && i < ROWS; i++)
            x[i * columns + depends] = x[i * columns] * (1 + 1e-13 * (double)i);
        orthonormal(x, q, ROWS, columns);
        worst = fmax(worst, off_orthonormal(q, ROWS, columns));
        double along = 0, length = 0; /* column 0 stays in their span */
        for (int64_t i = 0; i < ROWS; i++) {
            along += x[i * columns] * q[i * columns];
            length += x[i * columns] * x[i * columns];
        }
        if (length > 0)
            lost = fmax(lost, fabs(sqrt(length) - along));
    }
    tap_ok(worst < 1e-12, "columns are orthonormal, dependent ones too (%.1e)",
           worst);
    tap_ok(lost < 1e-12, "the first only changes its length (%.1e)", lost);
    memset(x, 0, sizeof x);
    orthonormal(x, q, ROWS, ROWS);
    tap_ok(off_orthonormal(q, ROWS, ROWS) < 1e-14,
           "zeros become unit vectors, so that a basis recovers");
    x[3] = INFINITY;
    orthonormal(x, q, ROWS, 1);
    tap_ok(isnan(q[0]) || isnan(q[3]), "an infinite entry is not hidden");
}

int main(void)
{
    const uint64_t seed = tap_seed(20261123);
    test_picks(seed);
    test_bases(seed);
    return tap_done();
}
