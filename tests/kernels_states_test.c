/* Updates whose states are held in 16 bits: computed as the kernel in double
 * computes from the same numbers, the states rounded once to the nearest. */
#include "config.h"

#include "ir/element.h"
#include "kernels/kernel.h"

#include "base/hash.h"
#include "tap.h"

#include <stdlib.h>

typedef struct instance {
    ir_node node;
    kernel_call call;
} instance;

static bool is_state(const ir_op *op, int32_t in)
{
    return in >= 2 && in < 2 + op->states;
}

static void add_arg(kernel_arg *arg, ir_dtype dtype, int64_t n)
{
    *arg = (kernel_arg){.dtype = dtype, .shape = {1, {n}}};
    arg->data =
        aligned_alloc(64, (size_t)(n * ir_dtype_bytes(dtype) + 63) / 64 * 64);
}

/* Results stand where the inputs do when `in_place`. */
static void make(instance *c, ir_op_kind kind, const ir_dtype dtype[2],
                 int64_t n, bool in_place)
{
    const ir_op *op = ir_op_table[kind];
    *c = (instance){.node = {.op = kind,
                             .n_in = 2 + op->states,
                             .n_out = 1 + op->states,
                             .i = {1},
                             .f = {0.01, 0.1, 0.9, 0.95, 1e-8}}};
    c->call =
        (kernel_call){.n_in = c->node.n_in, .n_out = c->node.n_out, .step = 4};
    for (int32_t i = 0; i < c->call.n_in; i++)
        add_arg(&c->call.in[i], dtype[is_state(op, i)], n);
    for (int32_t i = 0; i < c->call.n_out; i++)
        if (in_place)
            c->call.out[i] = c->call.in[i ? i + 1 : 0];
        else
            add_arg(&c->call.out[i], dtype[i > 0], n);
}

static void destroy(instance *c, bool in_place)
{
    for (int32_t i = 0; i < c->call.n_in; i++)
        free(c->call.in[i].data);
    for (int32_t i = 0; i < c->call.n_out && !in_place; i++)
        free(c->call.out[i].data);
}

/* The same numbers in both, which each can hold; the last state is a sum of
 * squares. */
static void fill(instance *narrow, instance *exact, int64_t n, uint64_t *seed)
{
    for (int32_t k = 0; k < narrow->call.n_in; k++)
        for (int64_t i = 0; i < n; i++) {
            const kernel_arg *a = &narrow->call.in[k], *b = &exact->call.in[k];
            const bool square = k >= 2 && k == narrow->call.n_in - 1;
            const double x =
                square ? 0.01 + fs_rand_unit(seed) : fs_rand_unit(seed) - 0.5;
            ir_element_set_real(a->dtype, a->data, i, x);
            ir_element_set_real(b->dtype, b->data, i,
                                ir_element_real(a->dtype, a->data, i));
        }
}

static fs_status run(instance *c, fs_err *err)
{
    const kernel *chosen;
    void *state, *scratch = NULL;
    c->call.node = &c->node;
    c->call.f = c->node.f;
    FS_TRY(kernel_choose(&c->call, "auto", err, &chosen, &state));
    if (chosen->scratch)
        scratch = aligned_alloc(64, (size_t)(chosen->scratch(&c->call) + 63) /
                                        64 * 64);
    c->call.scratch = scratch;
    const fs_status status = chosen->run(state, &c->call, err);
    if (chosen->release)
        chosen->release(state);
    free(scratch);
    return status;
}

/* The worst relative difference of an output, its digits' last half taken
 * away. */
static double worst_of(const kernel_arg *a, const kernel_arg *exact, int64_t n)
{
    const double half = a->dtype == IR_BF16  ? 0x1p-8
                        : a->dtype == IR_F16 ? 0x1p-11
                                             : 0;
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = ir_element_real(a->dtype, a->data, i);
        const double y = ir_element_real(exact->dtype, exact->data, i);
        const double off = fabs(x - y) - half * fabs(y);
        worst = fmax(worst, isnan(off) ? INFINITY : off / (1 + fabs(y)));
    }
    return worst;
}

static void check(ir_op_kind kind, ir_dtype states, int64_t n, bool in_place)
{
    const ir_dtype narrow[2] = {IR_F32, states}, exact[2] = {IR_F64, IR_F64};
    const char *name = ir_op_table[kind]->name;
    instance a, b;
    fs_err err = {0};
    uint64_t seed = fs_hash_text(20261124, name);
    make(&a, kind, narrow, n, in_place);
    make(&b, kind, exact, n, false);
    fill(&a, &b, n, &seed);
    const bool ran = run(&a, &err) == FS_OK && run(&b, &err) == FS_OK;
    double worst = ran ? 0 : INFINITY;
    for (int32_t i = 0; ran && i < a.call.n_out; i++)
        worst = fmax(worst, worst_of(&a.call.out[i], &b.call.out[i], n));
    tap_ok(worst < 1e-6,
           "%s, states %s, %lld elements%s: as in double, rounded once", name,
           ir_dtype_name(states), (long long)n, in_place ? ", in place" : "");
    printf("# off by %.3g%s%s\n", worst, err.status ? ": " : "", err.text);
    destroy(&a, in_place);
    destroy(&b, false);
}

int main(void)
{
    enum { FEW = 37, TILES = 700001 }; /* copies of these take several tiles */
    int32_t n = 0;
    for (int32_t op = 0; op < IR_OP_COUNT; op++) {
        if (ir_op_table[op]->states == 0)
            continue;
        n++;
        check((ir_op_kind)op, IR_BF16, FEW, false);
        check((ir_op_kind)op, IR_BF16, TILES, false);
        check((ir_op_kind)op, IR_BF16, TILES, true);
        check((ir_op_kind)op, IR_F16, FEW, true);
    }
    tap_ok(n > 0, "%d ops have states", n);
    return tap_done();
}
