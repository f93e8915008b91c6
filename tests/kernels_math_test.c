/* The vectorisable functions against the double ones of libm. */
#include "config.h"

#include "kernels/math.h"

#include "tap.h"

typedef float single(float x);
typedef double exact(double x);

static float run_exp(float x)
{
    return kernel_expf(x);
}

static float run_tanh(float x)
{
    return kernel_tanhf(x);
}

static float run_erf(float x)
{
    return kernel_erff(x);
}

static float run_sigmoid(float x)
{
    return kernel_sigmoidf(x);
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Units in the last place of the float nearest to `wanted`. */
static double ulps(float got, double wanted)
{
    const float nearest = (float)wanted;
    if (got == nearest)
        return 0;
    const double unit =
        (double)nextafterf(fabsf(nearest), INFINITY) - (double)fabsf(nearest);
    return fabs((double)got - wanted) / unit;
}

/* Over every `step`th float of both signs with magnitude in [low, high]. */
static double worst_ulps(single *got, exact *wanted, float low, float high)
{
    enum { STEP = 997 };
    double worst = 0;
    uint32_t from, to;
    memcpy(&from, &low, sizeof from);
    memcpy(&to, &high, sizeof to);
    for (uint32_t bits = from; bits <= to; bits += STEP) {
        float x;
        memcpy(&x, &bits, sizeof x);
        worst = fmax(worst, ulps(got(x), wanted((double)x)));
        worst = fmax(worst, ulps(got(-x), wanted(-(double)x)));
    }
    return worst;
}

static void check(const char *name, single *got, exact *wanted, float high)
{
    const double worst = worst_ulps(got, wanted, 1e-30f, high);
    tap_ok(worst <= 2.5, "%s: within 2.5 units in the last place", name);
    printf("# worst %.3f\n", worst);
    tap_ok(isnan(got(NAN)), "%s: NaN stays NaN", name);
    tap_ok(got(0) == (float)wanted(0), "%s: exact at 0", name);
    tap_ok(got(INFINITY) == (float)wanted(INFINITY) &&
               got(-INFINITY) == (float)wanted(-INFINITY),
           "%s: the limits at the infinities", name);
}

int main(void)
{
    check("exp", run_exp, exp, 87);
    check("tanh", run_tanh, tanh, 20);
    check("erf", run_erf, erf, 10);
    check("sigmoid", run_sigmoid, exact_sigmoid, 80);
    tap_ok(kernel_expf(89) == INFINITY && kernel_expf(1e30f) == INFINITY,
           "exp: overflows to infinity");
    tap_ok(kernel_expf(-104) == 0 && kernel_expf(-1e30f) == 0,
           "exp: underflows to 0");
    tap_ok(fabs((double)kernel_expf(-100) - exp(-100)) <= 1.5e-45,
           "exp: subnormal results");
    return tap_done();
}
