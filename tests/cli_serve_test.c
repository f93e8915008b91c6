/* The server as its clients see it. The oracle: `run --outputs` of the same
 * plan on the same samples, bit for bit, in whatever batches they came. */
#include "config.h"
#include "tests/serving.h"

#include <pthread.h>

enum { SEQ = 16, VOCAB = 64, BATCH = 4, SAMPLES = 12, BYTES = 1000 };
enum { ANSWER = SEQ * VOCAB };

static const char *const gpt =
    "zoo:gpt,layers=2,hidden=32,heads=4,vocab=64,seq=16";
static unsigned char text[BYTES];
static float wanted[SAMPLES][ANSWER];

/* ---- samples ---- */

static const unsigned char *sample(int k)
{
    return text + k * SEQ % (BYTES - SEQ - 1);
}

static void write_text(void)
{
    char path[600];
    unsigned int x = 1;
    for (int i = 0; i < BYTES; i++) {
        x = x * 1103515245 + 12345;
        text[i] = (unsigned char)(32 + (x >> 16) % 32);
    }
    snprintf(path, sizeof path, "%s/ids.txt", cli_scratch);
    FILE *file = fopen(path, "wb");
    fwrite(text, 1, BYTES, file);
    fclose(file);
}

/* {"inputs": {"ids": ..}} of `n` samples from `k` on. */
static char *ids_body(int k, int n)
{
    char *body = malloc((size_t)n * SEQ * 8 + 64), *at = body;
    at += sprintf(at, "{\"inputs\": {\"ids\": [");
    for (int s = 0; s < n; s++)
        for (int i = 0; i < SEQ; i++)
            at +=
                sprintf(at, "%s%s%d%s", s + i ? "," : "", i ? "" : "[",
                        sample((k + s) % SAMPLES)[i], i == SEQ - 1 ? "]" : "");
    sprintf(at, "]}}");
    return body;
}

/* Leaves of nested lists, in their order. */
static int read_floats(const json_t *value, float *into, int n, int most)
{
    if (json_is_number(value) && n < most)
        into[n] = (float)json_number_value(value);
    if (!json_is_array(value))
        return n + 1;
    for (size_t i = 0; i < json_array_size(value); i++)
        n = read_floats(json_array_get(value, i), into, n, most);
    return n;
}

static int is_right(const http_answer *a, int k, int n)
{
    static __thread float got[BATCH * ANSWER];
    json_t *root = a->body ? json_loads(a->body, 0, NULL) : NULL;
    const json_t *logits =
        json_object_get(json_object_get(root, "outputs"), "logits");
    int good = a->status == 200 && json_array_size(logits) == (size_t)n &&
               read_floats(logits, got, 0, n * ANSWER) == n * ANSWER;
    for (int s = 0; s < n && good; s++)
        good = memcmp(got + s * ANSWER, wanted[(k + s) % SAMPLES],
                      sizeof *wanted) == 0;
    json_decref(root);
    return good;
}

/* One after the other and at once, requests of 1 to BATCH samples. */
typedef struct asking {
    pthread_t thread;
    int port, k, n, status, right;
    char head[2048], body[512];
} asking;

static void *ask_one(void *ctx)
{
    asking *a = ctx;
    char *body = ids_body(a->k, a->n);
    http_answer got = http_post(a->port, body);
    a->status = got.status;
    a->right = is_right(&got, a->k, a->n);
    snprintf(a->head, sizeof a->head, "%s", got.head);
    snprintf(a->body, sizeof a->body, "%s", got.body ? got.body : "");
    free(got.body);
    free(body);
    return NULL;
}

static void begin_asking(asking *all, int n, int port, int most)
{
    for (int i = 0; i < n; i++) {
        all[i] = (asking){.port = port, .k = i % SAMPLES, .n = 1 + i % most};
        pthread_create(&all[i].thread, NULL, ask_one, &all[i]);
    }
}

/* Returns how many have this status. */
static int end_asking(asking *all, int n, int status)
{
    int with = 0;
    for (int i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        with += all[i].status == status;
    }
    return with;
}

static int count_right(const asking *all, int n)
{
    int right = 0;
    for (int i = 0; i < n; i++)
        right += all[i].right;
    return right;
}

static int asks_right(int port, int k)
{
    asking a = {.port = port, .k = k, .n = 1};
    ask_one(&a);
    if (!a.right)
        printf("# status %d: %s\n", a.status, a.body);
    return a.right;
}

/* ---- whatever the plan ---- */

static int make_plan(const char *recipe)
{
    cli_answer *a = cli("plan %s --mode infer --cluster local --batch 4 "
                        "--ranks %s -o $D/p.json",
                        gpt, recipe);
    if (a->status == 0)
        a = cli("run $D/p.json --data $D/ids.txt --steps 3 --outputs $D/out.d");
    if (a->status != 0)
        cli_show(a);
    return a->status == 0 &&
           read_npy("out.d/logits.npy", wanted, sizeof wanted);
}

static void test_plan(const char *recipe)
{
    enum { N = 24 }; /* 60 samples: they all may wait */
    static asking all[N];
    int port, one = 1;
    const int made = make_plan(recipe);
    pid_t child = serve("", &port);
    for (int i = 0; i < 6; i++)
        one &= asks_right(port, i);
    begin_asking(all, N, port, BATCH);
    const int answered = end_asking(all, N, 200), right = count_right(all, N);
    const cli_answer *a = end(child);
    tap_ok(made && one && right == N,
           "--ranks %s: requests one by one and at once are answered as run "
           "does, bit for bit (%d and %d of %d right, %d answered)",
           recipe, one, right, N, answered);
    tap_ok(a->status == 0 && cli_number(a, "answered") == N + 6 &&
               cli_number(a, "batches") < N + 6 && cli_number(a, "failed") == 0,
           "--ranks %s: in fewer batches (%g), and ends with 0", recipe,
           cli_number(a, "batches"));
    if (a->status != 0)
        cli_show(a);
}

/* ---- what clients may do ---- */

static void test_refused(int port, int status, const char *headers,
                         const char *body, const char *says_it)
{
    http_answer a =
        http_ask(port, "POST", "/v1/infer", headers, body, strlen(body));
    const int good = a.status == status && strstr(a.body, says_it) &&
                     strstr(a.head, "application/json");
    tap_ok(good, "%.60s.. is refused with %d: %s", body, status, says_it);
    if (!good)
        printf("# %d: %s\n", a.status, a.body ? a.body : "");
    free(a.body);
}

static void test_bad_bodies(int port)
{
    static const struct {
        int status;
        const char *body, *says;
    } all[] = {
        {400, "", "no JSON"},
        {400, "{\"inputs\": {\"ids\": [1,2", "line 1, column"},
        {400, "{\"inputs\": {\"ids\": [1]}, \"inputs\": 1}", "duplicate"},
        {400, "[1, 2]", "is to be {\\\"inputs\\\""},
        {400, "{\"inputs\": {}}", "input 'ids' is missing"},
        {400, "{\"inputs\": {\"idz\": 1}}", "there is no input 'idz'"},
        {400, "{\"inputs\": {\"ids\": 1}}", "of shape"},
        {400, "{\"inputs\": {\"ids\": []}}", "of shape"},
        {400, "{\"inputs\": {\"ids\": [1,2,3]}}", "of shape"},
        {400, "{\"inputs\": {\"ids\": [[1,2,3]]}}",
         "element [0]: a list of 3, where 16 are wanted"},
        {400,
         "{\"inputs\": {\"ids\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,64]}}",
         "element [15]: 64 is not from 0 to 63"},
        {400,
         "{\"inputs\": {\"ids\": [-1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,6]}}",
         "element [0]: -1 is not from 0 to 63"},
        {400,
         "{\"inputs\": {\"ids\": [1,2.5,3,4,5,6,7,8,9,10,11,12,13,14,15,6]}}",
         "element [1]: 2.5 is no whole number"},
        {400,
         "{\"inputs\": {\"ids\": [1,\"2\",3,4,5,6,7,8,9,10,11,12,13,14,15,6]}}",
         "element [1]: a text, where a whole number is wanted"},
        {400,
         "{\"inputs\": {\"ids\": [1,null,3,4,5,6,7,8,9,10,11,12,13,14,15,6]}}",
         "\"element\":[1]"},
        {400, "{\"inputs\": {\"ids\": [[[[[[[[[[[[1]]]]]]]]]]]]}}", "of shape"},
        {400, "{\"inputs\": {\"ids\": [1e999]}}", "no JSON"},
    };
    char *body = ids_body(0, 5);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_refused(port, all[i].status, "", all[i].body, all[i].says);
    test_refused(port, 413, "", body, "at most 4, the batch of the plan");
    test_refused(port, 415, "Content-Encoding: gzip\r\n", body,
                 "Content-Encoding: gzip is not understood");
    test_refused(port, 413, "Content-Encoding: Identity\r\n", body,
                 "at most 4");
    free(body);
    body = ids_body(0, 1);
    test_refused(port, 400, "Content-Type: application/octet-stream\r\n", body,
                 "a multiple of 128 is wanted");
    free(body);
    tap_ok(asks_right(port, 3), "and the next good one is answered");
}

static void test_routes(int port)
{
    http_answer a = http_get(port, "/v1/model");
    tap_ok(a.status == 200 && strstr(a.body, "\"ids\"") &&
               strstr(a.body, "\"batch\":4"),
           "GET /v1/model says what is served");
    free(a.body);
    a = http_get(port, "/metrics");
    tap_ok(a.status == 200 && strstr(a.body, "\nflowsearch_requests_total ") &&
               strstr(a.body, "seconds{quantile=\"0.99\"}"),
           "GET /metrics has counts and quantiles");
    free(a.body);
    a = http_get(port, "/nothing");
    tap_ok(a.status == 404, "what there is not is 404");
    free(a.body);
    a = http_get(port, "/v1/infer");
    tap_ok(a.status == 405 && strstr(a.head, "Allow: POST"),
           "another method is 405");
    free(a.body);
    a = http_ask(port, "BREW", "/v1/infer", "", "", 0);
    tap_ok(a.status == 405 && strstr(a.body, "\"error\""),
           "one that there is not too");
    free(a.body);
}

/* A body that no route wants, in chunks: it is answered as if there were none,
 * and the next request of the connection too. */
static void test_chunked(int port, const char *begin, int status)
{
    char head[300];
    int file = http_connect(port);
    snprintf(head, sizeof head,
             "%s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked"
             "\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n",
             begin);
    http_write(file, head, strlen(head));
    http_begin(file, "GET", "/healthz", "", 0);
    http_answer a = http_read(file);
    tap_ok(a.status == status && strstr(a.body, "HTTP/1.1 200"),
           "%s with a body in chunks is answered (%d), and what follows it",
           begin, a.status);
    free(a.body);
    close(file);
}

static void test_raw(int port)
{
    int64_t ids[2 * SEQ];
    for (int i = 0; i < 2 * SEQ; i++)
        ids[i] = sample(4 + i / SEQ)[i % SEQ];
    http_answer a = http_ask(port, "POST", "/infer",
                             "Content-Type: application/octet-stream\r\n"
                             "Accept: application/octet-stream\r\n",
                             ids, sizeof ids);
    tap_ok(a.status == 200 && a.n == 2 * sizeof *wanted &&
               memcmp(a.body, wanted[4], a.n) == 0 &&
               strstr(a.head, "X-Tensor: f32 2,16,64"),
           "bytes as they lie in memory are taken and given");
    free(a.body);
    ids[SEQ + 2] = VOCAB;
    a = http_ask(port, "POST", "/infer",
                 "Content-Type: application/octet-stream\r\n", ids, sizeof ids);
    tap_ok(a.status == 400 && strstr(a.body, "element [1][2]: 64"),
           "and looked at: %.60s", a.body ? a.body : "");
    free(a.body);
}

/* Before it reads: what is longer than any request may be. */
static void test_long(int port)
{
    char junk[4096], head[200];
    memset(junk, '1', sizeof junk);
    int file = http_connect(port);
    http_begin(file, "POST", "/v1/infer", "", (size_t)1 << 40);
    http_answer a = http_read(file);
    tap_ok(a.status == 413, "a body of a terabyte is refused unread (%d)",
           a.status);
    free(a.body);
    close(file);
    file = http_connect(port);
    snprintf(head, sizeof head,
             "POST /v1/infer HTTP/1.1\r\nHost: localhost\r\nConnection: "
             "close\r\nTransfer-Encoding: chunked\r\n\r\n");
    http_write(file, head, strlen(head));
    for (int i = 0; i < 64; i++) {
        http_write(file, "1000\r\n", 6);
        http_write(file, junk, sizeof junk);
        http_write(file, "\r\n", 2);
    }
    http_write(file, "0\r\n\r\n", 5);
    a = http_read(file);
    tap_ok(a.status == 413, "and one in chunks that is too long (%d)",
           a.status);
    free(a.body);
    close(file);
}

/* Clients that go away or never come to an end harm nobody. */
static void test_halfway(int port)
{
    char *body = ids_body(0, 2);
    for (int i = 0; i < 8; i++) { /* half of it; all of it, and away */
        int file = http_connect(port);
        http_begin(file, "POST", "/v1/infer", "", strlen(body));
        http_write(file, body, i % 2 ? strlen(body) : strlen(body) / 2);
        close(file);
    }
    int slow = http_connect(port);
    http_begin(slow, "POST", "/v1/infer", "", strlen(body));
    http_write(slow, body, 10);
    tap_ok(asks_right(port, 5), "clients that close half way harm nobody");
    http_answer a = http_read(slow);
    tap_ok(a.status != 200, "one that does not end is closed (%d)", a.status);
    free(a.body);
    close(slow);
    free(body);
}

static void test_clients(void)
{
    int port;
    make_plan("1");
    setenv("FS_PATIENCE_S", "abc", 1);
    tap_ok(says(cli("serve \"$D/p.json\" --port 0"), 2,
                "FS_PATIENCE_S wants seconds, more than 0, not 'abc'"),
           "patience that is none is refused");
    setenv("FS_PATIENCE_S", "2", 1);
    pid_t child = serve("", &port);
    test_bad_bodies(port);
    test_routes(port);
    test_chunked(port, "GET /healthz", 200);
    test_chunked(port, "GET /v1/infer", 405);
    test_chunked(port, "PUT /nothing", 404);
    test_raw(port);
    test_long(port);
    test_halfway(port);
    unsetenv("FS_PATIENCE_S");
    const cli_answer *a = end(child);
    tap_ok(a->status == 0, "after all that it ends with 0");
    tap_ok(count(a->err, "without --weights") == 1,
           "and has told, once, that its values are drawn");
    if (a->status != 0)
        cli_show(a);
}

/* ---- queue, end, faults ---- */

/* The first task for a request takes three seconds: of 24 samples at once the three
 * batches that may be away have 12 at most, and four wait. */
static void test_full(void)
{
    enum { N = 24 };
    static asking all[N];
    int port, right = 0, refused = 0, told = 0;
    setenv("FLOWSEARCH_FAILPOINT", "step:2=sleep3000", 1);
    pid_t child = serve("--queue 4 --linger-ms 100", &port);
    begin_asking(all, N, port, 1);
    end_asking(all, N, 200);
    for (int i = 0; i < N; i++) {
        right += all[i].right;
        refused += all[i].status == 503;
        told += strstr(all[i].head, "Retry-After: ") != NULL;
    }
    tap_ok(refused >= 8 && told == refused && right + refused == N,
           "a full queue refuses with 503 and Retry-After: %d of %d, %d right",
           refused, N, right);
    tap_ok(asks_right(port, 1), "and takes requests again");
    unsetenv("FLOWSEARCH_FAILPOINT");
    const cli_answer *a = end(child);
    tap_ok(a->status == 0 && cli_number(a, "refused") == refused,
           "and counts them");
}

/* Told to end while requests wait for a step that takes two seconds. */
static void test_end(void)
{
    enum { N = 6 };
    static asking all[N];
    int port;
    setenv("FLOWSEARCH_FAILPOINT", "step:2=sleep2000", 1);
    pid_t child = serve("", &port);
    begin_asking(all, N, port, 2);
    for (int i = 0; i < 10; i++)
        nap();
    kill(child, SIGTERM);
    for (int i = 0; i < 4; i++)
        nap();
    char *body = ids_body(0, 1);
    http_answer late = http_post(port, body),
                health = http_get(port, "/healthz");
    const int answered = end_asking(all, N, 200), right = count_right(all, N);
    const cli_answer *a = finish(child);
    tap_ok(late.status == 503 && strstr(late.body, "stops"),
           "once told to end it takes no more (%d)", late.status);
    tap_ok(health.status == 503 && strstr(health.body, "stopping"),
           "and says so");
    tap_ok(answered == N && right == N && a->status == 0 &&
               cli_number(a, "answered") == N,
           "what waited is answered (%d, %d right), and it ends with 0 (%d)",
           answered, right, a->status);
    free(late.body);
    free(health.body);
    free(body);
    unsetenv("FLOWSEARCH_FAILPOINT");
}

/* Asks until one is not answered with 200: its status; what it was told. */
static int ask_until(int port, int most, char told[512])
{
    asking a = {.status = 200};
    for (int i = 0; i < most && a.status == 200; i++) {
        a = (asking){.port = port, .k = i % SAMPLES, .n = 1};
        ask_one(&a);
    }
    strcpy(told, a.body);
    return a.status;
}

static void test_killed(void)
{
    char told[512];
    int port;
    make_plan("2 --dp 2");
    setenv("FLOWSEARCH_FAILPOINT", "step:5=kill9@1", 1);
    pid_t child = serve("", &port);
    int status = ask_until(port, 20, told);
    const cli_answer *a = finish(child);
    const char *fault = json_string_value(json_object_get(a->json, "fault"));
    tap_ok(status == 500 && strstr(told, "rank 1 was killed by signal 9"),
           "of a rank that dies who waits is told: %.80s", told);
    tap_ok(a->status == 3 && fault && strcmp(fault, "killed") == 0 &&
               cli_number(a, "failed") == 1,
           "and it ends with 3, the fault named");
    child = serve("--max-restarts 1", &port);
    status = ask_until(port, 20, told);
    tap_ok(status == 500 && asks_right(port, 2) && asks_right(port, 3),
           "started again it goes on where it was");
    a = end(child);
    tap_ok(a->status == 0 && cli_number(a, "restarts") == 1 &&
               cli_number(a, "failed") == 1,
           "and ends with 0");
    unsetenv("FLOWSEARCH_FAILPOINT");
}

/* Waiting for requests is no hang, a rank that hangs is one. */
static void test_idle(void)
{
    char told[512];
    int port;
    setenv("FS_STALL_S", "1", 1);
    setenv("FLOWSEARCH_FAILPOINT", "step:4=hang@1", 1);
    pid_t child = serve("", &port);
    int good = asks_right(port, 0);
    for (int i = 0; i < 60; i++)
        nap();
    good &= asks_right(port, 1);
    tap_ok(good, "three seconds without a request are no hang, whose limit is "
                 "one");
    const int status = ask_until(port, 4, told);
    const cli_answer *a = finish(child);
    tap_ok(status == 500 && strstr(told, "hangs") && a->status == 3,
           "a rank that hangs is found: %.80s", told);
    unsetenv("FS_STALL_S");
    unsetenv("FLOWSEARCH_FAILPOINT");
}

/* More steps than times are kept of. */
static void test_many(void)
{
    enum { STEPS = 1200 };
    int port, right = 0;
    pid_t child = serve("--linger-ms 0", &port);
    for (int i = 0; i < STEPS; i++)
        right += asks_right(port, i % SAMPLES);
    const cli_answer *a = end(child);
    tap_ok(right == STEPS && a->status == 0 &&
               cli_number(a, "batches") == STEPS,
           "%d steps of two ranks, one for each request, are right", right);
}

/* ---- what cannot be served ---- */

static void test_usage(void)
{
    int port;
    cli("plan %s --cluster local --batch 4 --ranks 1 -o $D/train.json", gpt);
    tap_ok(says(cli("serve $D/train.json"), 2, "the plan is of training"),
           "a plan of training is refused");
    cli("plan $S/datasets/models/gpt_bytes.dyn.onnx --mode infer --cluster "
        "local --batch 4 --ranks 1 -o $D/loss.json");
    tap_ok(says(cli("serve $D/loss.json"), 2, "each one sample's alone") &&
               says(cli("serve $D/loss.json"), 2, "exported without its loss"),
           "one whose output is of all samples is refused, with a way out");
    tap_ok(says(cli("serve $D/p.json --queue 3"), 2, "--queue 3"),
           "a queue shorter than a batch is refused");
    tap_ok(says(cli("serve $D/p.json --listen nowhere:1"), 2, "no address") &&
               says(cli("serve $D/p.json --port 65536"), 2, "no address"),
           "what is no address is refused");
    tap_ok(says(cli("serve $D/p.json --port 1 --listen 2"), 2,
                "one of them says the port"),
           "two ports are refused");
    pid_t child = serve("", &port);
    tap_ok(says(cli("serve $D/p.json --port %d", port), 2,
                "Address already in use"),
           "a port that is taken is refused");
    tap_ok(end(child)->status == 0, "a server that nobody asked ends with 0");
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    tap_ok(says(cli("serve $D/p.json"), 2, "does not run under mpirun"),
           "under mpirun it is refused");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

int main(void)
{
    cli_begin_scratch("cli_serve");
    write_text();
    test_plan("1");
    test_plan("2 --dp 2");
    test_plan("2 --tp 2");
    test_plan("2 --pp 2 --micro-batches 2");
    test_plan("4 --pp 2 --tp 2 --micro-batches 4");
    test_clients();
    test_full();
    test_end();
    test_killed();
    test_idle();
    test_many();
    test_usage();
    cli_end_scratch();
    return tap_done();
}
