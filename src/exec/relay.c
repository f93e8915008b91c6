#include "config.h"
#include "exec/relay.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* As many of a rank's last firings as are told of it, and how often. */
enum { EVENTS = 8, PERIOD_MS = 100 };
enum { CONNECT_MS = 2000 };

/* What goes over the line: this, the record up to its bell, its cause, n_now
 * streams and n_events firings, the last last. */
typedef struct letter {
    uint64_t token;
    int64_t sent_ns;
    int64_t first_event;
    uint64_t fired; /* failpoints, a bit each */
    int32_t rank, n_now, n_events;
    uint32_t record_bytes; /* another version's are others */
} letter;

enum {
    HEAD_BYTES = offsetof(exec_record, bell),
    CAUSE_BYTES = sizeof(((exec_record *)0)->cause),
    FIXED_BYTES = sizeof(letter) + HEAD_BYTES + CAUSE_BYTES,
    MOST_BYTES = FIXED_BYTES + EXEC_RECORD_STREAMS * (int)sizeof(exec_now) +
                 EVENTS * (int)sizeof(exec_event)
};

char exec_process_state(int32_t pid, int64_t *ticks)
{
    char path[64], text[1024];
    long long user = 0, system = 0;
    char state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* a name may hold anything */
    if (!at ||
        sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld",
               &state, &user, &system) != 3)
        return 0;
    *ticks = user + system;
    return state == 'Z' || state == 'X' ? 0 : state;
}

/* ---- of a rank ---- */

static bool send_all(int file, const char *at, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = send(file, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static char *put(char *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

static bool send_record(int file, uint64_t token, const exec_recorder *of)
{
    static char all[MOST_BYTES];
    const exec_record *r = of->record;
    const int64_t n = r->n_events;
    letter head = {.token = token,
                   .sent_ns = fs_now_ns(),
                   .fired = exec_job_fired(of->job),
                   .rank = r->rank,
                   .n_now = r->n_streams < EXEC_RECORD_STREAMS
                                ? r->n_streams
                                : EXEC_RECORD_STREAMS,
                   .n_events = n < EVENTS ? (int32_t)n : EVENTS,
                   .first_event = n < EVENTS ? 0 : n - EVENTS,
                   .record_bytes = sizeof *r};
    char *at = put(all, &head, sizeof head);
    at = put(at, r, HEAD_BYTES);
    at = put(at, r->cause, CAUSE_BYTES);
    at = put(at, r->now, (size_t)head.n_now * sizeof *r->now);
    for (int64_t i = head.first_event; i < n; i++)
        at = put(at, &r->ring[i % EXEC_RECORD_EVENTS], sizeof *r->ring);
    return send_all(file, all, (size_t)(at - all));
}

/* -1: nobody is there, or not in time. */
static int reach(const char *address, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    const int file =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd ready = {.fd = file, .events = POLLOUT};
    int fault = 0;
    socklen_t size = sizeof fault;
    if (file < 0)
        return -1;
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
        (connect(file, (struct sockaddr *)&to, sizeof to) != 0 &&
         errno != EINPROGRESS) ||
        poll(&ready, 1, CONNECT_MS) != 1 ||
        getsockopt(file, SOL_SOCKET, SO_ERROR, &fault, &size) != 0 || fault) {
        close(file);
        return -1;
    }
    fcntl(file, F_SETFL, 0);
    return file;
}

static int reach_any(int port, char *addresses)
{
    char *rest = addresses, *one;
    while ((one = strsep(&rest, ",")) != NULL) {
        const int file = reach(one, port);
        if (file >= 0)
            return file;
    }
    return -1;
}

/* Until the rank, which holds the other end of `alive`, has gone. */
static void serve(int file, uint64_t token, int alive, exec_recorder *of)
{
    struct pollfd end = {.fd = alive, .events = POLLIN};
    exec_record *r = of->record;
    bool gone = false, heard = true;
    while (!gone && heard) {
        gone = poll(&end, 1, PERIOD_MS) > 0;
        int64_t ticks = r->cpu_ticks;
        r->process = gone ? 0 : exec_process_state(r->pid, &ticks);
        r->cpu_ticks = ticks;
        heard = send_record(file, token, of);
        atomic_store(&of->job->relayed, heard);
    }
}

/* In the process beside the rank. mpirun waits until nobody holds a rank's
 * output, and ends the rank's group. */
static void be_relay(const char *where, int alive, exec_recorder *of)
{
    unsigned long long token;
    int port, at = 0;
    const int nothing = open("/dev/null", O_RDWR);
    for (int file = 0; file < 3; file++)
        dup2(nothing, file);
    setsid();
    if (sscanf(where, "%llx:%d:%n", &token, &port, &at) != 2 || at == 0)
        return;
    char *addresses = strdup(where + at);
    const int file = addresses ? reach_any(port, addresses) : -1;
    if (file >= 0)
        serve(file, token, alive, of);
}

void exec_relay_send(exec_recorder *recorder)
{
    const char *where = getenv("FS_RELAY");
    int ends[2];
    if (!where || recorder->supervised || pipe2(ends, O_CLOEXEC) != 0)
        return;
    exec_record *r = recorder->record;
    r->away = 1;
    r->process = 'R';
    gethostname(r->host, sizeof r->host - 1);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        be_relay(where, ends[0], recorder);
        _exit(0);
    }
    close(ends[0]);
    if (child < 0)
        close(ends[1]);
}

/* ---- of the supervisor ---- */

typedef struct peer {
    int file; /* -1: the place is free */
    bool known;
    int64_t ahead_ns; /* of our clock */
    size_t got;
    char all[MOST_BYTES];
} peer;

struct exec_relay {
    const exec_records *records;
    int file, port;
    uint64_t token;
    int32_t n;
    peer **peers; /* [n] */
    char where[1024], addresses[960];
};

static void list_addresses(exec_relay *relay)
{
    struct ifaddrs *all = NULL;
    size_t n = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[INET_ADDRSTRLEN];
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
            !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        const struct sockaddr_in *at = (const void *)i->ifa_addr;
        inet_ntop(AF_INET, &at->sin_addr, text, sizeof text);
        if (n + sizeof text + 1 > sizeof relay->addresses)
            break;
        n += (size_t)snprintf(relay->addresses + n, sizeof relay->addresses - n,
                              "%s%s", n > 0 ? "," : "", text);
    }
    freeifaddrs(all);
}

static bool listen_anywhere(exec_relay *relay)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    relay->file =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (relay->file < 0 ||
        bind(relay->file, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(relay->file, SOMAXCONN) != 0 ||
        getsockname(relay->file, (struct sockaddr *)&at, &size) != 0)
        return false;
    relay->port = ntohs(at.sin_port);
    return true;
}

exec_relay *exec_relay_open(const exec_records *records)
{
    exec_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return NULL;
    relay->records = records;
    relay->file = -1;
    relay->n = records->n;
    relay->peers = calloc((size_t)relay->n, sizeof(peer *));
    list_addresses(relay);
    if (relay->peers && relay->addresses[0] && listen_anywhere(relay))
        return relay;
    exec_relay_close(relay);
    return NULL;
}

static void drop(exec_relay *relay, int32_t place)
{
    if (!relay->peers[place])
        return;
    close(relay->peers[place]->file);
    free(relay->peers[place]);
    relay->peers[place] = NULL;
}

void exec_relay_close(exec_relay *relay)
{
    if (!relay)
        return;
    for (int32_t i = 0; relay->peers && i < relay->n; i++)
        drop(relay, i);
    if (relay->file >= 0)
        close(relay->file);
    free(relay->peers);
    free(relay);
}

const char *exec_relay_begin(exec_relay *relay)
{
    for (int32_t i = 0; i < relay->n; i++)
        drop(relay, i);
    if (getrandom(&relay->token, sizeof relay->token, 0) < 0)
        relay->token = (uint64_t)fs_now_ns();
    snprintf(relay->where, sizeof relay->where, "%llx:%d:%s",
             (unsigned long long)relay->token, relay->port, relay->addresses);
    return relay->where;
}

static void shift(int64_t *at_ns, int64_t by_ns)
{
    if (*at_ns > 0)
        *at_ns += by_ns;
}

/* Times become those of this host's clock: by one difference per rank, so that
 * a time that stood still does. */
static void take(exec_relay *relay, peer *from, const letter *head)
{
    exec_record *r = exec_records_at(relay->records, head->rank);
    const char *at = from->all + sizeof *head;
    const int64_t end = head->first_event + head->n_events;
    if (!from->known)
        from->ahead_ns = fs_now_ns() - head->sent_ns;
    from->known = true;
    memcpy(r, at, HEAD_BYTES);
    r->heard_ns = fs_now_ns();
    memcpy(r->cause, at + HEAD_BYTES, CAUSE_BYTES);
    r->cause[CAUSE_BYTES - 1] = r->host[sizeof r->host - 1] = '\0';
    at += HEAD_BYTES + CAUSE_BYTES;
    memcpy(r->now, at, (size_t)head->n_now * sizeof *r->now);
    at += (size_t)head->n_now * sizeof *r->now;
    r->n_events = end; /* the rank has gone on meanwhile */
    for (int64_t i = head->first_event; i < end; i++, at += sizeof *r->ring) {
        exec_event *e = &r->ring[i % EXEC_RECORD_EVENTS];
        memcpy(e, at, sizeof *e);
        shift(&e->start_ns, from->ahead_ns);
        shift(&e->end_ns, from->ahead_ns);
    }
    for (int32_t s = 0; s < head->n_now; s++)
        shift(&r->now[s].since_ns, from->ahead_ns);
    shift(&r->heartbeat_ns, from->ahead_ns);
    shift(&r->moved_ns, from->ahead_ns);
    shift(&r->begun_ns, from->ahead_ns);
    if (r->saving_ns > 0)
        r->saving_ns += from->ahead_ns;
    exec_job_fire((exec_job_record *)(void *)relay->records->at, head->fired);
}

static bool is_ours(const exec_relay *relay, const letter *head)
{
    return head->token == relay->token &&
           head->record_bytes == sizeof(exec_record) && head->rank >= 0 &&
           head->rank < relay->records->n && head->n_now >= 0 &&
           head->n_now <= EXEC_RECORD_STREAMS && head->n_events >= 0 &&
           head->n_events <= EVENTS && head->first_event >= 0 &&
           head->first_event <= INT64_MAX - EVENTS;
}

/* False: it is none of ours, or has gone. */
static bool hear(exec_relay *relay, peer *from)
{
    for (;;) {
        letter head;
        size_t wanted = FIXED_BYTES;
        if (from->got >= FIXED_BYTES) {
            memcpy(&head, from->all, sizeof head);
            if (!is_ours(relay, &head))
                return false;
            wanted += (size_t)head.n_now * sizeof(exec_now) +
                      (size_t)head.n_events * sizeof(exec_event);
        }
        if (from->got >= FIXED_BYTES && from->got == wanted) {
            take(relay, from, &head);
            from->got = 0;
            continue;
        }
        const ssize_t n =
            recv(from->file, from->all + from->got, wanted - from->got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        from->got += (size_t)n;
    }
}

static void admit(exec_relay *relay)
{
    int file;
    while ((file = accept4(relay->file, NULL, NULL,
                           SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        int32_t place = 0;
        while (place < relay->n && relay->peers[place])
            place++;
        peer *new = place < relay->n ? calloc(1, sizeof *new) : NULL;
        if (!new) {
            close(file);
            continue;
        }
        new->file = file;
        relay->peers[place] = new;
    }
}

void exec_relay_look(exec_relay *relay)
{
    if (!relay)
        return;
    admit(relay);
    for (int32_t i = 0; i < relay->n; i++)
        if (relay->peers[i] && !hear(relay, relay->peers[i]))
            drop(relay, i);
}
