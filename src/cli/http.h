/* The server: HTTP on one address, in front of batches. The only file that
 * knows the library (libmicrohttpd) is http.c. */
#ifndef FS_CLI_HTTP_H
#define FS_CLI_HTTP_H

#include "cli/batches.h"

typedef struct cli_http cli_http;

/* --listen and --port: an open socket, and its address as a client writes it
 * ("127.0.0.1:8080", the port that was chosen for 0). FS_INVALID: the text is
 * no address, or the address is taken. */
fs_status cli_http_listen(cli *c, int *socket, const char **address);
/* Takes the socket. A thread answers from now on; until the batches are set
 * every request for answers is told to come again. */
fs_status cli_http_open(const cli_served *served, int socket, fs_err *err,
                        cli_http **out);
void cli_http_serve(cli_http *http, cli_batches *batches);
/* For cli_batches_options.done. */
void cli_http_done(cli_request *request);
/* When all requests that were taken are done: waits until their answers are
 * sent (some seconds for clients that do not read), then closes. */
void cli_http_close(cli_http *http);

#endif
