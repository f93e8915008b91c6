/* `sim --straggler [R:]X --jitter SIGMA`: ranks that are slower than they
 * should be, always or now and then. */
#include "config.h"
#include "cli/simulate.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a single firing: more is no jitter. */
#define MOST_JITTER 2.0
#define MOST_SLOWER 1e6

static fs_status read_straggler(cli *c, const cli_plan *p, sim_options *out)
{
    const char *said = c->args.straggler, *factor = said;
    const char *colon = said ? strchr(said, ':') : NULL;
    char *end;
    long long rank = 0;
    if (!said)
        return FS_OK;
    if (colon) {
        rank = strtoll(said, &end, 10);
        if (end == said || end != colon)
            return fs_fail(&c->err, FS_INVALID,
                           "--straggler wants X, or R:X with a rank R, not "
                           "'%s'",
                           said);
        factor = colon + 1;
    }
    const double x = strtod(factor, &end);
    if (end == factor || *end || !(x >= 1 && x <= MOST_SLOWER))
        return fs_fail(&c->err, FS_INVALID,
                       "--straggler %s: more than 1 is wanted (%g at most), as "
                       "many times slower the rank computes",
                       said, MOST_SLOWER);
    if (x == 1)
        return fs_fail(&c->err, FS_INVALID,
                       "--straggler %s: that changes nothing: it would compute "
                       "as fast as the others",
                       said);
    const plan_role *last = &p->plan->roles[p->plan->n_roles - 1];
    const int32_t ranks = last->first_rank + last->n_ranks;
    if (rank < 0 || rank >= ranks)
        return fs_fail(&c->err, FS_INVALID,
                       "--straggler %s: the plan has ranks 0 to %d", said,
                       ranks - 1);
    out->straggler = x;
    out->straggler_rank = (int32_t)rank;
    return FS_OK;
}

fs_status cli_read_disturbed(cli *c, const cli_plan *p, sim_options *out)
{
    const double jitter = isnan(c->args.jitter) ? 0 : c->args.jitter;
    if (jitter > MOST_JITTER)
        return fs_fail(&c->err, FS_INVALID,
                       "--jitter %g: a relative deviation of at most %g is "
                       "taken",
                       jitter, MOST_JITTER);
    if (c->args.jitter == 0) /* NAN: it was not asked for */
        return fs_fail(&c->err, FS_INVALID,
                       "--jitter 0: that changes nothing: steps without jitter "
                       "are alike");
    if (jitter > 0 && out->steps < 3)
        return fs_fail(&c->err, FS_INVALID,
                       "--steps %lld with --jitter: 3 at least, for the first "
                       "and the last are not like the others",
                       (long long)out->steps);
    out->straggler = 1;
    out->jitter = jitter;
    out->seed = cli_seed(c, &p->model.origin);
    return read_straggler(c, p, out);
}

void cli_tell_jitter(cli *c, const sim_result *sim, double quiet_s)
{
    const double n = (double)(sim->last_step - sim->first_step + 1);
    double square = 0, least = INFINITY, most = 0;
    for (int64_t k = sim->first_step; k <= sim->last_step; k++) {
        const double off_s = sim->step_s[k] - sim->iteration_s;
        square += off_s * off_s;
        least = fmin(least, sim->step_s[k]);
        most = fmax(most, sim->step_s[k]);
    }
    const double deviation_s = n > 1 ? sqrt(square / (n - 1)) : 0;
    char a[32], b[32], d[32], e[32], f[32];
    json_object_set_new(c->result, "jitter",
                        json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:f}",
                                  "sigma", c->args.jitter, "steps",
                                  (json_int_t)n, "mean_s", sim->iteration_s,
                                  "deviation_s", deviation_s, "min_s", least,
                                  "max_s", most, "quiet_iteration_s", quiet_s));
    cli_say(c,
            "jitter          %s +- %s over %.0f steps (%s to %s); without "
            "%s\n",
            fs_human_seconds(a, sim->iteration_s),
            fs_human_seconds(b, deviation_s), n, fs_human_seconds(d, least),
            fs_human_seconds(e, most), fs_human_seconds(f, quiet_s));
}
