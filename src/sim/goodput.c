#include "config.h"
#include "sim/goodput.h"

#include <math.h>

sim_goodput sim_goodput_of(const sim_failures *f, double work_s)
{
    const double rate = 1 / f->mtbf_s;
    const double segment_s = work_s + f->checkpoint_s;
    const double failures = expm1(rate * segment_s); /* of a segment */
    const double restart_s = failures * expm1(rate * f->restart_s) / rate;
    const double all_s = failures / rate + restart_s;
    if (!isfinite(all_s))
        return (sim_goodput){.rework = 1};
    const double rework_s = failures / rate - segment_s;
    return (sim_goodput){.useful = work_s / all_s,
                         .checkpoint = f->checkpoint_s / all_s,
                         .rework = rework_s > 0 ? rework_s / all_s : 0,
                         .restart = restart_s / all_s};
}

/* x + log(1 - x), without what cancels where x is small. */
static double below_zero(double x)
{
    double sum = 0, power = x * x;
    if (x > 1e-2)
        return x + log1p(-x);
    for (int k = 2; k < 12; k++, power *= x)
        sum -= power / k;
    return sum;
}

/* The derivative of E(w) / w is 0 where x + log(1 - x) + f C is, x = f w: it
 * falls from f C at 0 on. */
double sim_interval_exact(const sim_failures *f)
{
    const double c = f->checkpoint_s / f->mtbf_s;
    double low = 0, high = 1;
    for (int i = 0; i < 200; i++) {
        const double x = low + (high - low) / 2;
        if (below_zero(x) + c > 0)
            low = x;
        else
            high = x;
    }
    return low * f->mtbf_s;
}

double sim_interval_young(const sim_failures *f)
{
    return sqrt(2 * f->checkpoint_s * f->mtbf_s);
}

double sim_interval_daly(const sim_failures *f)
{
    const double c = f->checkpoint_s / (2 * f->mtbf_s);
    if (c >= 1)
        return f->mtbf_s;
    return sim_interval_young(f) * (1 + sqrt(c) / 3 + c / 9) - f->checkpoint_s;
}

double sim_interval_steps(const sim_failures *f, double step_s)
{
    const double steps = fmax(floor(sim_interval_exact(f) / step_s), 1);
    const double here = sim_goodput_of(f, steps * step_s).useful;
    const double next = sim_goodput_of(f, (steps + 1) * step_s).useful;
    return next > here ? steps + 1 : steps;
}
