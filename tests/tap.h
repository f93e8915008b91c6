/* TAP for C tests: `plan` comes last. A failed check prints both values. */
#ifndef FS_TESTS_TAP_H
#define FS_TESTS_TAP_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_n, tap_failed;

#define tap_ok(condition, ...)                                                 \
    do {                                                                       \
        int tap_good = !!(condition);                                          \
        printf("%sok %d - ", tap_good ? "" : "not ", ++tap_n);                 \
        printf(__VA_ARGS__);                                                   \
        printf("\n");                                                          \
        if (!tap_good) {                                                       \
            tap_failed++;                                                      \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);           \
        }                                                                      \
        fflush(stdout);                                                        \
    } while (0)

#define tap_equal_int(got, wanted, ...)                                        \
    do {                                                                       \
        long long tap_g = (long long)(got), tap_w = (long long)(wanted);       \
        tap_ok(tap_g == tap_w, __VA_ARGS__);                                   \
        if (tap_g != tap_w)                                                    \
            printf("# got %lld, wanted %lld\n", tap_g, tap_w);                 \
    } while (0)

#define tap_equal_text(got, wanted, ...)                                       \
    do {                                                                       \
        const char *tap_g = (got), *tap_w = (wanted);                          \
        int tap_same = strcmp(tap_g, tap_w) == 0;                              \
        tap_ok(tap_same, __VA_ARGS__);                                         \
        if (!tap_same)                                                         \
            printf("# got    '%s'\n# wanted '%s'\n", tap_g, tap_w);            \
    } while (0)

/* |got - wanted| <= tolerance * max(|wanted|, tiny). */
#define tap_near(got, wanted, tolerance, ...)                                  \
    do {                                                                       \
        double tap_g = (got), tap_w = (wanted);                                \
        int tap_close =                                                        \
            fabs(tap_g - tap_w) <= (tolerance)*fmax(fabs(tap_w), 1e-30);       \
        tap_ok(tap_close, __VA_ARGS__);                                        \
        if (!tap_close)                                                        \
            printf("# got %.9g, wanted %.9g\n", tap_g, tap_w);                 \
    } while (0)

#define tap_skip(why, ...)                                                     \
    do {                                                                       \
        printf("ok %d - ", ++tap_n);                                           \
        printf(__VA_ARGS__);                                                   \
        printf(" # SKIP %s\n", why);                                           \
    } while (0)

/* What should hold and is known not to yet: it fails without failing the test,
 * and the day it holds the test asks for this mark to go. */
#define tap_todo(condition, why, ...)                                          \
    do {                                                                       \
        printf("%sok %d - ", (condition) ? "" : "not ", ++tap_n);              \
        printf(__VA_ARGS__);                                                   \
        printf(" # TODO %s\n", why);                                           \
        fflush(stdout);                                                        \
    } while (0)

/* Seed of random tests: FS_SEED in the environment, else `usual`; printed. */
static inline unsigned long long tap_seed(unsigned long long usual)
{
    const char *text = getenv("FS_SEED");
    unsigned long long seed = text ? strtoull(text, NULL, 0) : usual;
    printf("# seed %llu (FS_SEED=%llu repeats it)\n", seed, seed);
    return seed;
}

static inline int tap_done(void)
{
    printf("1..%d\n", tap_n);
    return tap_failed ? 1 : 0;
}

#endif
