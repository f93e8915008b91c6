/* A client of HTTP/1.1 over plain sockets: one request per connection. */
#ifndef FS_TESTS_HTTP_CLIENT_H
#define FS_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct http_answer {
    int status; /* 0: the connection was closed without one */
    char head[2048];
    char *body; /* the caller's */
    size_t n;
} http_answer;

static inline int http_connect(int port)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 60};
    int file = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(file, (const struct sockaddr *)&at, sizeof at) == 0)
        return file;
    close(file);
    return -1;
}

static inline int http_write(int file, const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        const ssize_t sent = send(file, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        at += sent;
        n -= (size_t)sent;
    }
    return 1;
}

/* Until the server closes, as it was asked to. */
static inline http_answer http_read(int file)
{
    http_answer a = {0};
    size_t n = 0, room = 1 << 16;
    char *all = malloc(room + 1);
    for (ssize_t got; (got = recv(file, all + n, room - n, 0)) > 0;) {
        n += (size_t)got;
        if (n == room)
            all = realloc(all, (room *= 2) + 1);
    }
    all[n] = '\0';
    char *end = strstr(all, "\r\n\r\n");
    if (end && sscanf(all, "HTTP/1.%*d %d", &a.status) == 1) {
        snprintf(a.head, sizeof a.head, "%.*s", (int)(end - all), all);
        a.n = n - (size_t)(end + 4 - all);
        a.body = malloc(a.n + 1);
        memcpy(a.body, end + 4, a.n + 1);
    }
    free(all);
    return a;
}

/* `headers`: whole lines, "" for none. */
static inline void http_begin(int file, const char *method, const char *url,
                              const char *headers, size_t n)
{
    char head[2048];
    int length = snprintf(head, sizeof head,
                          "%s %s HTTP/1.1\r\nHost: localhost\r\n%s"
                          "Connection: close\r\nContent-Length: %zu\r\n\r\n",
                          method, url, headers, n);
    http_write(file, head, (size_t)length);
}

static inline http_answer http_ask(int port, const char *method,
                                   const char *url, const char *headers,
                                   const void *body, size_t n)
{
    http_answer a = {0};
    int file = http_connect(port);
    if (file < 0)
        return a;
    http_begin(file, method, url, headers, n);
    http_write(file, body, n);
    a = http_read(file);
    close(file);
    return a;
}

static inline http_answer http_get(int port, const char *url)
{
    return http_ask(port, "GET", url, "", "", 0);
}

static inline http_answer http_post(int port, const char *body)
{
    return http_ask(port, "POST", "/v1/infer", "", body, strlen(body));
}

#endif
