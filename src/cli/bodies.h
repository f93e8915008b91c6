/* What stands in the bodies of requests and answers: tensors by the sample, as
 * JSON or as they lie in memory. From any thread; all text is a client's. */
#ifndef FS_CLI_BODIES_H
#define FS_CLI_BODIES_H

#include "cli/batches.h"

/* What is wrong with a request: an object for the client (`error`, and where it
 * is of an input, `input` and `element`). */
typedef struct cli_complaint {
    int status; /* of HTTP */
    json_t *told;
} cli_complaint;
void cli_complain(cli_complaint *out, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The longest body that a request may need. */
int64_t cli_body_most_bytes(const cli_served *served, bool raw);
/* {"inputs": {NAME: one sample, a list of samples, or all elements in one
 * list}}, or the one input's elements: into request->n and ->in. FS_INVALID:
 * `out` says what is wrong, and the request holds nothing. */
fs_status cli_body_read(const cli_served *served, const char *body,
                        size_t bytes, bool raw, cli_request *request,
                        cli_complaint *out);
/* {"outputs": {NAME: a list of samples}}; malloc's. What is no number is null.
 */
char *cli_body_write(const cli_served *served, const cli_request *request,
                     size_t *bytes);
/* What the request holds, but itself. */
void cli_request_free(const cli_served *served, cli_request *request);

#endif
