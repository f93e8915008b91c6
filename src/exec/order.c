/* The order of samples, and what is drawn for each: functions of seed, epoch
 * and sample, so that any rank may begin anywhere. */
#include "config.h"
#include "exec/samples.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* A Feistel network permutes [0, 4^b); what lands outside [0, n) is permuted
 * again until it does not: less than four times in the mean (Black and Rogaway,
 * "Ciphers with Arbitrary Finite Domains", 2002, section 3 and 5). */
int64_t exec_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t i)
{
    enum { ROUNDS = 6 };
    const uint64_t key = fs_mix(fs_mix(seed) ^ (uint64_t)epoch);
    uint32_t bits = 1;
    while (bits < 31 && ((uint64_t)1 << (2 * bits)) < (uint64_t)n)
        bits++;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t at = (uint64_t)i;
    do {
        uint64_t left = at >> bits, right = at & mask;
        for (uint64_t k = 0; k < ROUNDS; k++) {
            const uint64_t next =
                left ^ (fs_mix(key + (k << 56) + right) & mask);
            left = right;
            right = next;
        }
        at = left << bits | right;
    } while (at >= (uint64_t)n);
    return (int64_t)at;
}

static fs_status parse_word(const char *word, size_t n, fs_err *err,
                            exec_augment *out)
{
    char *end;
    if (n == 4 && strncmp(word, "flip", n) == 0) {
        out->flip = true;
        return FS_OK;
    }
    if (n > 5 && strncmp(word, "crop=", 5) == 0 && word[5] >= '0' &&
        word[5] <= '9') {
        out->pad = strtoll(word + 5, &end, 10);
        if (end == word + n && out->pad > 0)
            return FS_OK;
    }
    return fs_fail(err, FS_INVALID,
                   "--augment: '%.*s' is none of flip and crop=PAD", (int)n,
                   word);
}

fs_status exec_augment_parse(const char *text, fs_err *err, exec_augment *out)
{
    for (const char *at = text; at;) {
        const size_t n = strcspn(at, ",");
        FS_TRY(parse_word(at, n, err, out));
        at = at[n] ? at + n + 1 : NULL;
    }
    return FS_OK;
}

exec_warp exec_augment_draw(const exec_augment *augment, int64_t sample)
{
    enum { DRAWS = 3 };
    const uint64_t seed = fs_hash_text(fs_mix(augment->seed), "augment");
    const uint64_t at = (uint64_t)sample * DRAWS;
    const double places = (double)(2 * augment->pad + 1);
    exec_warp warp = {.flip = augment->flip && fs_draw_unit(seed, at) < 0.5};
    warp.down = (int64_t)(fs_draw_unit(seed, at + 1) * places) - augment->pad;
    warp.right = (int64_t)(fs_draw_unit(seed, at + 2) * places) - augment->pad;
    return warp;
}
