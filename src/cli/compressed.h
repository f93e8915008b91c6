/* Which gradients a plan compresses: those that it reduces over ranks and that
 * then move in fewer bytes. Both are read off plans: of the one without
 * compression and of the one with it. */
#ifndef FS_CLI_COMPRESSED_H
#define FS_CLI_COMPRESSED_H

#include "cli/cli.h"

typedef enum cli_taken {
    CLI_TAKEN,
    CLI_NOT_REDUCED, /* no ranks have parts of its sum */
    CLI_NOT_SMALLER, /* as many bytes would move for it, or more */
    CLI_TAKEN_KINDS
} cli_taken;

/* A trained parameter; bytes that all ranks send for its gradient in a step. */
typedef struct cli_gradient {
    const char *param;
    cli_taken taken;
    double plain_bytes, bytes; /* without, with compression */
} cli_gradient;

typedef struct cli_compressed {
    int32_t n;
    cli_gradient *at;
} cli_compressed;

/* From a plan without compression: takes what it reduces over ranks. */
void cli_compressed_begin(const cli_plan *plain, fs_arena *arena,
                          cli_compressed *out);
/* From a plan with what is taken: drops what moves in no fewer bytes. Returns
 * how many it dropped. */
int32_t cli_compressed_drop(cli_compressed *k, const cli_plan *p,
                            fs_arena *arena);
/* Names of what is taken, into the origin; returns how many. */
int32_t cli_compressed_names(const cli_compressed *k, fs_arena *arena,
                             plan_origin *origin);
/* FS_INVALID, with reasons: nothing is left to be compressed. */
fs_status cli_compressed_refuse(cli *c, const cli_compressed *k,
                                const char *how, int32_t zero);
/* What a plan compresses, and its bytes; with `k` (else NULL) what it does not
 * and why, and the bytes without. */
void cli_tell_compressed(cli *c, const cli_plan *p, const cli_compressed *k);

#endif
