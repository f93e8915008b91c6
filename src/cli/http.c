#include "config.h"
#include "cli/http.h"

#include "base/clock.h"
#include "cli/bodies.h"
#include "cli/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_CONNECTIONS = 512,
    MOST_BODIES_BYTES = 256 << 20, /* that arrive at once, or one alone */
    DRAIN_NS = 50000000,
    TOO_LARGE = 413 /* whose name has changed in the library */
};
/* A request has arrived in whole by then, or its connection is closed. */
static const double patience_s = 10;

struct cli_http {
    const cli_served *served;
    struct MHD_Daemon *daemon;
    _Atomic(cli_batches *) batches;
    atomic_int active; /* requests with bodies */
    int64_t bodies_bytes;
    double patience_s;
};

/* A request with a body. */
typedef struct exchange {
    cli_http *http;
    struct MHD_Connection *connection;
    char *body;
    size_t n, room;
    bool raw, encoded, too_large;
    bool unasked; /* no route takes its body, which is thrown away */
    int64_t began_ns;
    enum { ARRIVES, WAITS, DONE } state;
    cli_accepted accepted;
    cli_request request;
} exchange;

/* ---- answers ---- */

typedef struct header {
    const char *name, *value;
} header;

static enum MHD_Result send_text(struct MHD_Connection *connection, int status,
                                 char *text, size_t bytes, const char *type,
                                 const header *more)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (more)
        MHD_add_response_header(response, more->name, more->value);
    const enum MHD_Result sent =
        MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return sent;
}

/* Takes the object. */
static enum MHD_Result send_json(struct MHD_Connection *connection, int status,
                                 json_t *told, const header *more)
{
    char *text = json_dumps(told, JSON_COMPACT);
    json_decref(told);
    return send_text(connection, status, text, strlen(text), "application/json",
                     more);
}

static enum MHD_Result send_error(struct MHD_Connection *connection, int status,
                                  const header *more, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static enum MHD_Result send_error(struct MHD_Connection *connection, int status,
                                  const header *more, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return send_json(connection, status,
                     json_pack("{s:o}", "error", fs_json_string(text)), more);
}

static enum MHD_Result send_later(struct MHD_Connection *connection,
                                  int64_t seconds, const char *why)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, seconds);
    const header retry = {MHD_HTTP_HEADER_RETRY_AFTER, text};
    return send_error(connection, MHD_HTTP_SERVICE_UNAVAILABLE, &retry, "%s",
                      why);
}

/* ---- what is asked with GET ---- */

static cli_batches_counts *count(cli_http *http)
{
    cli_batches_counts *counts = fs_malloc(sizeof *counts);
    cli_batches *batches = atomic_load(&http->batches);
    memset(counts, 0, sizeof *counts);
    if (batches)
        cli_batches_count(batches, counts);
    return counts;
}

static enum MHD_Result get_health(cli_http *http,
                                  struct MHD_Connection *connection)
{
    static const char *const words[] = {[CLI_STARTS] = "starting",
                                        [CLI_SERVES] = "ok",
                                        [CLI_ENDS] = "stopping",
                                        [CLI_FAILED] = "failed"};
    cli_batches_counts *counts = count(http);
    const cli_serving state = counts->state;
    free(counts);
    return send_json(connection,
                     state == CLI_SERVES ? MHD_HTTP_OK
                                         : MHD_HTTP_SERVICE_UNAVAILABLE,
                     json_pack("{s:s}", "status", words[state]), NULL);
}

static enum MHD_Result get_model(cli_http *http,
                                 struct MHD_Connection *connection)
{
    return send_json(connection, MHD_HTTP_OK, cli_served_json(http->served),
                     NULL);
}

static enum MHD_Result get_metrics(cli_http *http,
                                   struct MHD_Connection *connection)
{
    size_t bytes;
    cli_batches_counts *counts = count(http);
    char *text = cli_metrics_write(http->served, counts, &bytes);
    free(counts);
    return send_text(connection, MHD_HTTP_OK, text, bytes,
                     "text/plain; version=0.0.4; charset=utf-8", NULL);
}

/* ---- requests for answers ---- */

static const char *header_of(struct MHD_Connection *connection,
                             const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool speaks_raw(const char *type)
{
    static const char raw[] = "application/octet-stream";
    return type && strncasecmp(type, raw, sizeof raw - 1) == 0;
}

/* Compressed, say: what arrives is taken as it is. */
static bool is_encoded(const char *coding)
{
    return coding && *coding && strcasecmp(coding, "identity") != 0;
}

static int64_t most_bytes(const exchange *x)
{
    return cli_body_most_bytes(x->http->served, x->raw);
}

static enum MHD_Result refuse_length(const exchange *x)
{
    return send_error(x->connection, TOO_LARGE, NULL,
                      "the body is longer than %" PRId64 " bytes, what %" PRId64
                      " samples, the batch of the plan, may take at most",
                      most_bytes(x), x->http->served->batch);
}

static void free_exchange(exchange *x)
{
    cli_http *http = x->http;
    http->bodies_bytes -= (int64_t)x->room;
    cli_request_free(http->served, &x->request);
    free(x->body);
    free(x);
    atomic_fetch_sub(&http->active, 1);
}

static exchange *begin_exchange(cli_http *http,
                                struct MHD_Connection *connection, void **ctx)
{
    exchange *x = fs_malloc(sizeof *x);
    *x = (exchange){
        .http = http,
        .connection = connection,
        .raw = speaks_raw(header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE)),
        .encoded =
            is_encoded(header_of(connection, MHD_HTTP_HEADER_CONTENT_ENCODING)),
        .began_ns = fs_now_ns()};
    x->request.ctx = x;
    atomic_fetch_add(&http->active, 1);
    *ctx = x;
    return x;
}

static enum MHD_Result
begin_infer(cli_http *http, struct MHD_Connection *connection, void **ctx)
{
    const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const exchange *x = begin_exchange(http, connection, ctx);
    /* Before it is sent, to a client that asks first. */
    if (length && strtoull(length, NULL, 10) > (uint64_t)most_bytes(x))
        return refuse_length(x);
    return MHD_YES;
}

static bool make_room(exchange *x, size_t bytes)
{
    cli_http *http = x->http;
    size_t room = x->room ? x->room : 4096;
    while (room < x->n + bytes)
        room *= 2;
    if (room == x->room)
        return true;
    const int64_t others = http->bodies_bytes - (int64_t)x->room;
    if (others > 0 && others + (int64_t)room > MOST_BODIES_BYTES)
        return false;
    char *body = realloc(x->body, room);
    if (!body)
        return false;
    http->bodies_bytes += (int64_t)(room - x->room);
    x->body = body;
    x->room = room;
    return true;
}

/* What is too large or encoded is read on, and thrown away, so that the client
 * comes to read why. */
static enum MHD_Result take_part(exchange *x, const char *data, size_t *size)
{
    if (1e-9 * (double)(fs_now_ns() - x->began_ns) > x->http->patience_s)
        return MHD_NO;
    if (x->n + *size > (size_t)most_bytes(x))
        x->too_large = true;
    if (!x->too_large && !x->unasked && !x->encoded) {
        if (!make_room(x, *size))
            return MHD_NO;
        memcpy(x->body + x->n, data, *size);
        x->n += *size;
    }
    *size = 0;
    return MHD_YES;
}

/* The connection sleeps until its request is done, which may be before the
 * request was taken. */
static enum MHD_Result ask(exchange *x)
{
    cli_batches *batches = atomic_load(&x->http->batches);
    cli_complaint wrong;
    if (x->too_large)
        return refuse_length(x);
    if (x->encoded)
        return send_error(
            x->connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL,
            "Content-Encoding: %.100s is not understood: send the body as it "
            "is",
            header_of(x->connection, MHD_HTTP_HEADER_CONTENT_ENCODING));
    if (!batches)
        return send_later(x->connection, 1, "the server starts");
    if (cli_body_read(x->http->served, x->body ? x->body : "", x->n, x->raw,
                      &x->request, &wrong) != FS_OK)
        return send_json(x->connection, wrong.status, wrong.told, NULL);
    free(x->body);
    x->body = NULL;
    x->http->bodies_bytes -= (int64_t)x->room;
    x->room = 0;
    x->state = WAITS;
    MHD_suspend_connection(x->connection);
    x->accepted = cli_batches_take(batches, &x->request);
    if (x->accepted != CLI_ACCEPTED)
        cli_http_done(&x->request);
    return MHD_YES;
}

void cli_http_done(cli_request *request)
{
    exchange *x = request->ctx;
    x->state = DONE;
    MHD_resume_connection(x->connection);
}

static enum MHD_Result send_raw(exchange *x)
{
    const cli_served_tensor *t = &x->http->served->out[0];
    char shape[160];
    size_t n = (size_t)snprintf(shape, sizeof shape, "%s %" PRId64,
                                ir_dtype_name(t->dtype), x->request.n);
    if (x->http->served->n_out != 1)
        return send_error(x->connection, MHD_HTTP_NOT_ACCEPTABLE, NULL,
                          "the network has %d outputs, and one can be sent as "
                          "it lies in memory: accept JSON",
                          x->http->served->n_out);
    for (int32_t i = 0; i < t->sample.rank; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, ",%" PRId64,
                              t->sample.dim[i]);
    const header tensor = {"X-Tensor", shape};
    char *data = x->request.out[0];
    x->request.out[0] = NULL;
    return send_text(x->connection, MHD_HTTP_OK, data,
                     (size_t)(x->request.n * t->bytes),
                     "application/octet-stream", &tensor);
}

static enum MHD_Result answer(exchange *x)
{
    size_t bytes;
    if (x->accepted == CLI_QUEUE_FULL)
        return send_later(x->connection,
                          cli_batches_retry_s(atomic_load(&x->http->batches)),
                          "too many requests wait");
    if (x->accepted == CLI_ENDING)
        return send_later(x->connection, 1, "the server stops");
    if (x->accepted == CLI_DOWN)
        return send_error(x->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
                          "the ranks have failed");
    if (!x->request.answered)
        return send_error(x->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
                          "%s", x->request.cause);
    if (speaks_raw(header_of(x->connection, MHD_HTTP_HEADER_ACCEPT)))
        return send_raw(x);
    char *text = cli_body_write(x->http->served, &x->request, &bytes);
    return send_text(x->connection, MHD_HTTP_OK, text, bytes,
                     "application/json", NULL);
}

static enum MHD_Result go_on(exchange *x, const char *data, size_t *size)
{
    if (*size > 0)
        return take_part(x, data, size);
    return x->state == DONE ? answer(x) : ask(x);
}

/* ---- routes ---- */

typedef enum MHD_Result get_fn(cli_http *http,
                               struct MHD_Connection *connection);
static const struct route {
    const char *url;
    get_fn *get; /* NULL: asks for answers, with POST */
} routes[] = {{"/v1/infer", NULL},
              {"/infer", NULL},
              {"/v1/model", get_model},
              {"/healthz", get_health},
              {"/metrics", get_metrics}};
enum { N_ROUTES = sizeof routes / sizeof routes[0] };

static enum MHD_Result route(cli_http *http, struct MHD_Connection *connection,
                             const char *url, const char *method, void **ctx)
{
    int i = 0;
    while (i < N_ROUTES && strcmp(routes[i].url, url) != 0)
        i++;
    if (i == N_ROUTES)
        return send_error(connection, MHD_HTTP_NOT_FOUND, NULL,
                          "there is no %.200s; there are POST /v1/infer, GET "
                          "/v1/model, /healthz and /metrics",
                          url);
    get_fn *get = routes[i].get;
    const header allow = {MHD_HTTP_HEADER_ALLOW, get ? "GET, HEAD" : "POST"};
    const bool gets = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (get ? !gets : strcmp(method, "POST") != 0)
        return send_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &allow,
                          "%s takes %s", url, allow.value);
    return get ? get(http, connection) : begin_infer(http, connection, ctx);
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection,
                              const char *url, const char *method,
                              const char *version, const char *data,
                              size_t *size, void **ctx)
{
    const bool asks = strcmp(method, "POST") == 0;
    exchange *x = *ctx != cls ? *ctx : NULL;
    (void)version;
    if (x && x->unasked && *size == 0)
        return route(cls, connection, url, method, ctx);
    if (x)
        return go_on(x, data, size);
    /* Of no length that is told: the answer stands behind its end. */
    if (!asks && header_of(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        begin_exchange(cls, connection, ctx)->unasked = true;
        return MHD_YES;
    }
    /* An answer in the first call would close the connection: a body may be
     * behind it, which is to come only where it is asked for. */
    if (*ctx || asks || header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH))
        return route(cls, connection, url, method, ctx);
    *ctx = cls;
    return MHD_YES;
}

static void end(void *cls, struct MHD_Connection *connection, void **ctx,
                enum MHD_RequestTerminationCode how)
{
    (void)connection, (void)how;
    if (*ctx && *ctx != cls)
        free_exchange(*ctx);
    *ctx = NULL;
}

/* ---- the address ---- */

/* "PORT", "ADDRESS:PORT", "[ADDRESS]:PORT": parts of a copy. */
static void split(char *text, const char **host, const char **port)
{
    char *colon = strrchr(text, ':');
    *host = "127.0.0.1";
    *port = colon ? colon + 1 : text;
    if (!colon)
        return;
    *colon = '\0';
    *host = text;
    if (text[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        *host = text + 1;
    }
}

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;
    return a->sa_family == AF_INET ? ntohl(four->sin_addr.s_addr) >> 24 == 127
                                   : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static const char *name_of(cli *c, int file)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[64] = "", port[16] = "";
    getsockname(file, (struct sockaddr *)&a, &n);
    getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    if (!is_loopback((struct sockaddr *)&a) && !c->quiet)
        fs_warn("--listen %s: whoever reaches this address may ask; there are "
                "no passwords and no encryption",
                host);
    return fs_printf(c->arena, a.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                     host, port);
}

static int open_socket(const struct addrinfo *at)
{
    const int yes = 1;
    int file = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0)
        return -1;
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(file, at->ai_addr, at->ai_addrlen) == 0 &&
        listen(file, SOMAXCONN) == 0)
        return file;
    const int why = errno;
    close(file);
    errno = why;
    return -1;
}

fs_status cli_http_listen(cli *c, int *out, const char **address)
{
    enum { USUAL_PORT = 8080 };
    const cli_args *a = &c->args;
    const struct addrinfo wanted = {.ai_flags = AI_NUMERICHOST |
                                                AI_NUMERICSERV | AI_PASSIVE,
                                    .ai_socktype = SOCK_STREAM};
    struct addrinfo *at;
    const char *host, *port;
    if (a->listen && a->port >= 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--listen %s and --port %lld: one of them says the port",
                       a->listen, (long long)a->port);
    char *said = a->listen ? fs_strdup(c->arena, a->listen)
                           : fs_printf(c->arena, "%lld",
                                       a->port >= 0 ? (long long)a->port
                                                    : (long long)USUAL_PORT);
    split(said, &host, &port);
    char *last;
    const long number = strtol(port, &last, 10);
    if (!*port || *last || number < 0 || number > 65535 ||
        getaddrinfo(host, port, &wanted, &at) != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "%s is no address: --listen wants PORT, "
                       "127.0.0.1:PORT or [::1]:PORT, --port 0 to 65535",
                       a->listen ? a->listen : said);
    int file = open_socket(at);
    freeaddrinfo(at);
    if (file < 0)
        return fs_fail(&c->err, FS_INVALID, "cannot listen at %s port %s: %s",
                       host, port, strerror(errno));
    *out = file;
    *address = name_of(c, file);
    return FS_OK;
}

/* ---- opening and closing ---- */

fs_status cli_http_open(const cli_served *served, int socket_file, fs_err *err,
                        cli_http **out)
{
    sigset_t all, before;
    cli_http *http = fs_malloc(sizeof *http);
    *http = (cli_http){.served = served};
    fs_status status =
        cli_env_seconds("FS_PATIENCE_S", patience_s, err, &http->patience_s);
    if (status != FS_OK) {
        free(http);
        close(socket_file);
        return status;
    }
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        handle, http, MHD_OPTION_LISTEN_SOCKET, socket_file,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)ceil(http->patience_s),
        MHD_OPTION_NOTIFY_COMPLETED, end, http, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!http->daemon) {
        free(http);
        close(socket_file);
        return fs_fail(err, FS_FAULT, "the HTTP server does not start: %s",
                       strerror(errno));
    }
    *out = http;
    return FS_OK;
}

void cli_http_serve(cli_http *http, cli_batches *batches)
{
    atomic_store(&http->batches, batches);
}

void cli_http_close(cli_http *http)
{
    const struct timespec nap = {0, DRAIN_NS};
    const int64_t begun_ns = fs_now_ns();
    const double most_s = http->patience_s;
    while (atomic_load(&http->active) > 0 &&
           1e-9 * (double)(fs_now_ns() - begun_ns) < most_s)
        nanosleep(&nap, NULL);
    MHD_stop_daemon(http->daemon);
    free(http);
}
