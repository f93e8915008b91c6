/* Shares of time under failures: against playing them. */
#include "config.h"

#include "base/hash.h"
#include "sim/goodput.h"

#include "tap.h"

/* Exponential with this mean. */
static double gap(uint64_t *seed, double mean_s)
{
    return -mean_s * log1p(-fs_rand_unit(seed));
}

typedef struct played {
    double useful_s, checkpoint_s, rework_s, restart_s;
} played;

/* One segment until its state is written. */
static void play(const sim_failures *f, double work_s, uint64_t *seed,
                 played *sum)
{
    const double segment_s = work_s + f->checkpoint_s;
    for (;;) {
        double fails_s = gap(seed, f->mtbf_s);
        if (fails_s >= segment_s)
            break;
        sum->rework_s += fails_s;
        while ((fails_s = gap(seed, f->mtbf_s)) < f->restart_s)
            sum->restart_s += fails_s;
        sum->restart_s += f->restart_s;
    }
    sum->useful_s += work_s;
    sum->checkpoint_s += f->checkpoint_s;
}

/* Shares of many segments; *error: about the standard error of a share, from
 * batches. */
static sim_goodput play_many(const sim_failures *f, double work_s,
                             uint64_t seed, double *error)
{
    enum { BATCHES = 100, SEGMENTS = 2000 };
    double mean = 0, square = 0;
    played all = {0};
    for (int b = 0; b < BATCHES; b++) {
        played p = {0};
        for (int i = 0; i < SEGMENTS; i++)
            play(f, work_s, &seed, &p);
        const double share = p.useful_s / (p.useful_s + p.checkpoint_s +
                                           p.rework_s + p.restart_s);
        mean += share / BATCHES;
        square += share * share / BATCHES;
        all.useful_s += p.useful_s;
        all.checkpoint_s += p.checkpoint_s;
        all.rework_s += p.rework_s;
        all.restart_s += p.restart_s;
    }
    *error = sqrt(fmax(square - mean * mean, 0) / BATCHES) + 1e-6;
    const double sum =
        all.useful_s + all.checkpoint_s + all.rework_s + all.restart_s;
    return (sim_goodput){all.useful_s / sum, all.checkpoint_s / sum,
                         all.rework_s / sum, all.restart_s / sum};
}

static void test_played(uint64_t seed)
{
    static const struct {
        double mtbf_s, checkpoint_s, restart_s, work_s;
    } cases[] = {{10000, 60, 300, 1000},
                 {1000, 60, 300, 400},
                 {1000, 0, 30, 100},
                 {300, 100, 200, 500},
                 {1e6, 30, 600, 7000}};
    for (int i = 0; i < 5; i++) {
        const sim_failures f = {cases[i].mtbf_s, cases[i].checkpoint_s,
                                cases[i].restart_s};
        const double work_s = cases[i].work_s;
        double error;
        const sim_goodput is = sim_goodput_of(&f, work_s);
        const sim_goodput was = play_many(&f, work_s, seed + i, &error);
        printf("# useful %.5f played %.5f +- %.5f; rework %.5f %.5f, restart "
               "%.5f %.5f\n",
               is.useful, was.useful, error, is.rework, was.rework, is.restart,
               was.restart);
        tap_ok(fabs(is.useful - was.useful) < 4 * error &&
                   fabs(is.checkpoint - was.checkpoint) < 4 * error &&
                   fabs(is.rework - was.rework) < 4 * error &&
                   fabs(is.restart - was.restart) < 4 * error,
               "MTBF %g s, checkpoint %g, restart %g, work %g: the shares are "
               "those of 200000 played segments",
               f.mtbf_s, f.checkpoint_s, f.restart_s, work_s);
        tap_near(is.useful + is.checkpoint + is.rework + is.restart, 1, 1e-12,
                 "and add up to 1");
    }
}

/* The exact interval is the best of a fine grid; the others come near where
 * checkpoints are short. */
static void test_best(uint64_t seed)
{
    int worse = 0, steps_worse = 0, far = 0;
    for (int i = 0; i < 300; i++) {
        const sim_failures f = {pow(10, 1 + 6 * fs_rand_unit(&seed)),
                                pow(10, -2 + 4 * fs_rand_unit(&seed)),
                                1000 * fs_rand_unit(&seed)};
        const double exact_s = sim_interval_exact(&f);
        const double best = sim_goodput_of(&f, exact_s).useful;
        for (double by = 0.25; by < 4; by *= 1.01)
            worse +=
                sim_goodput_of(&f, by * exact_s).useful > best * (1 + 1e-12);
        const double step_s = exact_s / 8 * fs_rand_unit(&seed) + 1e-3;
        const double steps = sim_interval_steps(&f, step_s);
        const double with = sim_goodput_of(&f, steps * step_s).useful;
        for (int k = 1; k < 200; k++)
            steps_worse +=
                sim_goodput_of(&f, k * step_s).useful > with * (1 + 1e-12);
        if (f.checkpoint_s < 1e-3 * f.mtbf_s)
            far += fabs(sim_interval_daly(&f) / exact_s - 1) > 1e-3 ||
                   fabs(sim_interval_young(&f) / exact_s - 1) > 0.05;
    }
    tap_equal_int(worse, 0,
                  "no interval of a fine grid is better than the "
                  "exact one, of 300 random systems");
    tap_equal_int(steps_worse, 0,
                  "no whole number of steps is better than "
                  "the one chosen");
    tap_equal_int(far, 0,
                  "Daly's is within 0.1 %% of it, Young's within 5 %%, "
                  "where checkpoints are short");
}

/* Daly 2006, figures 3 to 5: checkpoints of 5 minutes, restarts of 10; MTBF and
 * the best interval in minutes. */
static void test_published(void)
{
    static const struct {
        double mtbf, best, room;
    } figures[] = {{24 * 60, 117, 0.5}, {6 * 60, 57, 0.5}, {15, 9.1, 0.05}};
    for (int i = 0; i < 3; i++) {
        const sim_failures f = {60 * figures[i].mtbf, 300, 600};
        tap_ok(fabs(sim_interval_daly(&f) / 60 - figures[i].best) <=
                   figures[i].room,
               "MTBF of %g minutes: Daly's interval is the published %g",
               figures[i].mtbf, figures[i].best);
        printf("# %.3f; exact %.3f\n", sim_interval_daly(&f) / 60,
               sim_interval_exact(&f) / 60);
    }
}

static void test_ends(void)
{
    const sim_failures often = {1, 10, 10}, free = {1000, 0, 10};
    const sim_goodput none = sim_goodput_of(&often, 1e6);
    tap_ok(none.useful == 0 && none.rework == 1,
           "where no segment ever ends all is rework");
    tap_near(sim_interval_exact(&free), 0, 1e-12,
             "checkpoints that cost nothing are best taken always");
    tap_near(sim_interval_steps(&free, 5), 1, 0, "after each step");
    const sim_failures rare = {1e12, 10, 10};
    tap_near(sim_goodput_of(&rare, 90).useful, 0.9, 1e-6,
             "without failures checkpoints alone cost");
}

int main(void)
{
    const uint64_t seed = tap_seed(1974);
    test_played(seed);
    test_best(seed + 100);
    test_published();
    test_ends();
    return tap_done();
}
