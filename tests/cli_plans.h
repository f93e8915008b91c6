/* Plans that are made and run as a user does, and what tests read off them. */
#ifndef FS_TESTS_CLI_PLANS_H
#define FS_TESTS_CLI_PLANS_H

#include "tests/run_cli.h"

#include <math.h>

/* Plans as `words` say (a command and its options but -o) and runs that with
 * `options`. NULL, and said why, when either failed. */
static inline cli_answer *cli_plan_and_run(const char *words,
                                           const char *options)
{
    cli_answer *a = cli("%s -o \"$D/plan.json\" --json", words);
    if (a->status == 0)
        a = cli("run \"$D/plan.json\" %s --json", options);
    if (a->status == 0)
        return a;
    cli_show(a);
    return NULL;
}

/* The losses of such a run; false when there are not so many. */
static inline bool cli_train(const char *words, const char *data, int steps,
                             double *losses)
{
    char options[300];
    snprintf(options, sizeof options, "--data %s --steps %d", data, steps);
    const cli_answer *a = cli_plan_and_run(words, options);
    const json_t *list = a ? json_object_get(a->json, "losses") : NULL;
    if ((int)json_array_size(list) != steps)
        return false;
    for (int i = 0; i < steps; i++)
        losses[i] = json_number_value(json_array_get(list, (size_t)i));
    return true;
}

/* The largest relative difference of n losses. */
static inline double cli_losses_off(const double *got, const double *wanted,
                                    int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        const double off = fabs(got[i] - wanted[i]) / fabs(wanted[i]);
        most = fmax(most, isnan(off) ? (double)INFINITY : off);
    }
    return most;
}

/* The bytes of the rank that needs most. */
static inline json_int_t cli_largest_peak(const cli_answer *a)
{
    const json_t *peaks = json_object_get(a->json, "peak_bytes");
    json_int_t most = 0;
    for (size_t r = 0; r < json_array_size(peaks); r++) {
        const json_int_t bytes = json_integer_value(json_array_get(peaks, r));
        most = bytes > most ? bytes : most;
    }
    return most;
}

#endif
