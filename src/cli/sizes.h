/* Training graphs of one model for several micro-batch counts: the first is
 * made in full, others of it and of few of their layers (ir/resize.h), where
 * layers repeat. */
#ifndef FS_CLI_SIZES_H
#define FS_CLI_SIZES_H

#include "cli/cli.h"

typedef struct cli_sizes cli_sizes;

cli_sizes *cli_sizes_create(const plan_origin *origin);
/* The models made are their owners', the first of them the one that others
 * borrow from: it goes last. */
void cli_sizes_destroy(cli_sizes *sizes); /* NULL is allowed */

/* As cli_model_train does. */
fs_status cli_sizes_train(cli *c, cli_sizes *sizes, int32_t m, cli_model *out);
/* The same of n counts, as many of them as there are before the first that
 * fails: *n_made; the status is that one's. Of sizes that have made none. */
fs_status cli_sizes_train_all(cli *c, cli_sizes *sizes, int32_t n,
                              const int32_t *counts, int32_t *n_made,
                              cli_model *out);

/* ---- model.c ---- */
/* The network, with a loss unless it is for inference, for m micro-batches;
 * FS_INVALID: it cannot be trained so. */
fs_status cli_model_network(cli *c, const plan_origin *origin, int32_t m,
                            cli_model *out);
/* Its training, or its step of inference; `whole` is the network for the whole
 * batch, NULL: it is opened when it is wanted. */
fs_status cli_model_add_step(cli *c, const plan_origin *o, int32_t m,
                             const cli_model *whole, cli_model *model);

#endif
