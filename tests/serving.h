/* Servers of the plan p.json in the test's folder, and what `run --outputs`
 * gives, which their answers are held to. */
#ifndef FS_TESTS_SERVING_H
#define FS_TESTS_SERVING_H

#include "tests/http_client.h"
#include "tests/run_going.h"

static inline int read_npy(const char *name, void *into, size_t bytes)
{
    char path[900];
    unsigned char head[10];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    int good = fread(head, 1, sizeof head, file) == sizeof head &&
               fseek(file, head[8] + 256 * head[9], SEEK_CUR) == 0 &&
               fread(into, 1, bytes, file) == bytes;
    fclose(file);
    return good;
}

static inline int wait_port(void)
{
    static char out[1 << 16];
    for (int i = 0; i < 400; i++) {
        const char *at;
        cli_slurp("goes.out", out, sizeof out);
        cli_slurp("goes.err", out + strlen(out), sizeof out - strlen(out));
        if ((at = strstr(out, "http://127.0.0.1:")) != NULL)
            return atoi(at + 17);
        nap();
    }
    printf("# no server: %s\n", out);
    return -1;
}

static inline pid_t serve(const char *options, int *port)
{
    char words[600], path[600];
    snprintf(path, sizeof path, "%s/goes.out", cli_scratch);
    unlink(path);
    snprintf(path, sizeof path, "%s/goes.err", cli_scratch);
    unlink(path);
    snprintf(words, sizeof words,
             "serve $D/p.json --port 0 --json --db $D/test.db %s", options);
    pid_t child = start(words);
    *port = wait_port();
    return child;
}

static inline const cli_answer *end(pid_t child)
{
    kill(child, SIGTERM);
    return finish(child);
}

#endif
