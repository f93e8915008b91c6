/* Learning-rate schedules: their factors, and what is refused. */
#include "config.h"

#include "ir/rate.h"

#include "tap.h"

static double factor(const char *text, int64_t step)
{
    ir_rate rate;
    ir_node node = {.op = IR_OP_sgd};
    fs_err err = {0};
    if (ir_rate_parse(text, &err, &rate) != FS_OK)
        return NAN;
    ir_rate_set(&node, &rate);
    return ir_rate_factor(&node, step);
}

static void is(const char *text, int64_t step, double wanted)
{
    double got = factor(text, step);
    tap_ok(fabs(got - wanted) < 1e-12, "%s: step %lld", text, (long long)step);
    if (!(fabs(got - wanted) < 1e-12))
        printf("# %g, wanted %g\n", got, wanted);
}

static void refused(const char *text, const char *why)
{
    ir_rate rate;
    fs_err err = {0};
    tap_ok(ir_rate_parse(text, &err, &rate) == FS_INVALID &&
               strstr(err.text, why),
           "refused: %s", text);
    printf("# %s\n", err.text);
}

/* Both ways, and through a node. */
static void test_text(void)
{
    static const char *const texts[] = {"", "constant,warmup=5",
                                        "linear,steps=10",
                                        "cosine,steps=1000,warmup=100"};
    fs_arena *arena = fs_arena_create();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ir_rate rate;
        ir_node node = {.op = IR_OP_sgd};
        fs_err err = {0};
        if (ir_rate_parse(texts[i], &err, &rate) != FS_OK)
            rate = (ir_rate){0};
        ir_rate_set(&node, &rate);
        rate = ir_rate_of(&node);
        tap_equal_text(ir_rate_text(&rate, arena), texts[i],
                       "written as it was read");
    }
    fs_arena_destroy(arena);
}

int main(void)
{
    test_text();
    is("", 7, 1);
    is("constant", 0, 1);
    is("constant,warmup=4", 0, 0.25);
    is("constant,warmup=4", 3, 1);
    is("constant,warmup=4", 100, 1);
    is("linear,steps=10", 0, 1);
    is("linear,steps=10", 5, 0.5);
    is("linear,steps=10", 10, 0);
    is("linear,steps=10,warmup=2", 1, 1);
    is("linear,warmup=2,steps=10", 6, 0.5);
    is("cosine,steps=10", 0, 1);
    is("cosine,steps=10", 5, 0.5);
    is("cosine,steps=12,warmup=4", 6, 0.5 * (1 + sqrt(0.5)));
    is("cosine,steps=10", 1000, 0);
    refused("step,steps=10", "constant, linear or cosine");
    refused("linear", "wants steps=N");
    refused("linear,steps=5,warmup=5", "more than its 5");
    refused("cosine,steps=-1", "steps=-1");
    refused("cosine,steps=", "steps=");
    refused("cosine,step=5", "step=5");
    refused("cosine,steps=5x", "steps=5x");
    return tap_done();
}
