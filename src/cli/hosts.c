#include "config.h"
#include "cli/hosts.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/ranks.h"
#include "exec/exec.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct host {
    const char *name, *where; /* "--hosts", or a file and its line */
    int32_t ranks;            /* at most */
} host;

typedef FS_VEC(host) host_list;

/* ---- reading ---- */

static fs_status add_host(cli *c, const char *where, const char *name, size_t n,
                          const char *ranks, host_list *out)
{
    char *end = "";
    const long count = ranks ? strtol(ranks, &end, 10) : 1;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            n = 0;
    if (n == 0 || *end || count < 1 || count > 4096 ||
        (ranks && !isdigit((unsigned char)*ranks)))
        return fs_fail(&c->err, FS_INVALID,
                       "%s: '%s': a host is wanted, and how many ranks it "
                       "takes, as node1:4 (in a file node1 slots=4)",
                       where, name);
    const host one = {fs_strndup(c->arena, name, n), where, (int32_t)count};
    for (int32_t i = 0; i < out->n; i++)
        if (strcmp(out->at[i].name, one.name) == 0)
            return fs_fail(&c->err, FS_INVALID, "%s: host %s stands twice",
                           where, one.name);
    fs_push(c->arena, out, one);
    return FS_OK;
}

static fs_status read_words(cli *c, host_list *out)
{
    char *text = fs_strdup(c->arena, c->args.hosts), *rest = text, *word;
    while ((word = strsep(&rest, ",")) != NULL) {
        char *colon = strchr(word, ':');
        FS_TRY(add_host(c, "--hosts", word,
                        colon ? (size_t)(colon - word) : strlen(word),
                        colon ? colon + 1 : NULL, out));
    }
    return FS_OK;
}

/* As Open MPI reads it: a host a line, # begins a comment. */
static fs_status read_line(cli *c, int32_t number, char *line, host_list *out)
{
    const char *where = fs_printf(c->arena, "%s:%d", c->args.hostfile, number);
    char *rest = NULL;
    line[strcspn(line, "#\n")] = '\0';
    const char *name = strtok_r(line, " \t\r", &rest);
    const char *slots = name ? strtok_r(NULL, " \t\r", &rest) : NULL;
    const bool known = !slots || strncmp(slots, "slots=", 6) == 0;
    if (!name)
        return FS_OK;
    if (!known || strtok_r(NULL, " \t\r", &rest))
        return fs_fail(&c->err, FS_INVALID,
                       "%s: of host %s only slots=K is understood", where,
                       name);
    return add_host(c, where, name, strlen(name), slots ? slots + 6 : NULL,
                    out);
}

static fs_status read_file(cli *c, host_list *out)
{
    char *line = NULL;
    size_t room = 0;
    int file;
    int32_t number = 0;
    fs_status status = FS_OK;
    FS_TRY(fs_input_open(c->args.hostfile, &c->err, &file));
    FILE *from = fdopen(file, "r");
    while (from && status == FS_OK && getline(&line, &room, from) >= 0)
        status = read_line(c, ++number, line, out);
    free(line);
    if (from)
        fclose(from);
    return status;
}

static fs_status read_hosts(cli *c, host_list *out)
{
    *out = (host_list){0};
    if (c->args.hosts)
        return read_words(c, out);
    return c->args.hostfile ? read_file(c, out) : FS_OK;
}

bool cli_on_hosts(const cli *c)
{
    return c->args.hosts || c->args.hostfile || getenv("SLURM_JOB_NODELIST");
}

const char *cli_hosts_allocated(const cli *c)
{
    return c->args.hosts || c->args.hostfile ? NULL
                                             : getenv("SLURM_JOB_NODELIST");
}

/* Does this network know it? */
static bool is_known(const char *name)
{
    struct addrinfo *at;
    if (getaddrinfo(name, NULL, NULL, &at) != 0)
        return false;
    freeaddrinfo(at);
    return true;
}

/* Hosts of a word of Slurm's, "n[01-03,7]", that are not known: as many as
 * `room`, for each is waited for. */
static void add_unknown(cli *c, const char *word, int *room, fs_text *text)
{
    const char *open = strchr(word, '['), *close = strchr(word, ']');
    char range[128], *rest = range, *part;
    if (!open) {
        if (*room > 0 && !is_known(word) && --*room >= 0)
            fs_text_add(text, ", host %.64s is not known here", word);
        return;
    }
    if (!close || close < open || close - open > (long)sizeof range)
        return;
    snprintf(range, sizeof range, "%.*s", (int)(close - open - 1), open + 1);
    while ((part = strsep(&rest, ",")) != NULL) {
        long long first, last;
        const int n = sscanf(part, "%lld-%lld", &first, &last);
        const int digits = (int)strspn(part, "0123456789");
        last = n == 2 ? last : first;
        for (; n > 0 && first <= last && *room > 0; first++)
            add_unknown(c,
                        fs_printf(c->arena, "%.*s%0*lld%s", (int)(open - word),
                                  word, digits, first, close + 1),
                        room, text);
    }
}

/* The next word of Slurm's list, whose brackets hold commas too. */
static char *next_word(char **rest)
{
    char *word = *rest;
    bool inside = false;
    if (!word)
        return NULL;
    for (char *at = word; *at; at++) {
        inside = *at == '[' || (inside && *at != ']');
        if (*at == ',' && !inside) {
            *at = '\0';
            *rest = at + 1;
            return word;
        }
    }
    *rest = NULL;
    return word;
}

const char *cli_hosts_allocation_text(cli *c)
{
    const char *list = cli_hosts_allocated(c);
    char *rest = fs_strdup(c->arena, list), *word;
    int room = 8;
    fs_text text = {.arena = c->arena};
    fs_text_add(&text, "the Slurm allocation (SLURM_JOB_NODELIST=%.300s", list);
    while ((word = next_word(&rest)) != NULL)
        add_unknown(c, word, &room, &text);
    fs_text_add(&text, ")");
    return text.at;
}

/* "2(x3),1" is 7, as Slurm counts tasks of nodes; 0: it is no such text. */
static int64_t count_tasks(const char *text)
{
    int64_t all = 0;
    while (*text) {
        long long each, nodes = 1;
        int n = 0;
        if (sscanf(text, "%lld%n", &each, &n) < 1 || each < 1 || each > 4096)
            return 0;
        text += n;
        n = 0;
        if (*text == '(' && (sscanf(text, "(x%lld)%n", &nodes, &n) < 1 ||
                             n == 0 || nodes < 1 || nodes > 1 << 20))
            return 0;
        text += n;
        all += each * nodes;
        if (*text && *text++ != ',')
            return 0;
    }
    return all;
}

/* mpirun deals the others to slots that have a rank already: well where a task
 * has several cores, as one of a shell has. */
static void tell_allocation(const cli *c, int32_t ranks)
{
    const char *tasks = getenv("SLURM_TASKS_PER_NODE");
    const int64_t room =
        cli_hosts_allocated(c) && tasks ? count_tasks(tasks) : 0;
    if (room == 0 || room >= ranks || c->quiet || cli_am_rank())
        return;
    fs_warn("the Slurm allocation has %lld task%s (SLURM_TASKS_PER_NODE=%s), "
            "the plan %d ranks: several share one (--ntasks=%d gives each its "
            "own)",
            (long long)room, room == 1 ? "" : "s", tasks, ranks, ranks);
}

bool cli_on_several_hosts(cli *c)
{
    host_list hosts;
    const char *list = cli_hosts_allocated(c);
    if (list)
        return strpbrk(list, ",[") != NULL;
    if (read_hosts(c, &hosts) != FS_OK) {
        c->err = (fs_err){0}; /* said by cli_hosts_check */
        return false;
    }
    return hosts.n > 1;
}

static bool is_this(const char *name)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    const size_t n = strcspn(name, "."), m = strcspn(own, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, own) == 0 ||
           (n == m && n > 0 && strncmp(name, own, n) == 0);
}

static void tell_left_over(const cli *c, int64_t room, int32_t ranks)
{
    const int64_t left = room - ranks;
    if (c->quiet || cli_am_rank())
        return;
    fs_warn("%s: the hosts take %lld ranks, the plan has %d: %lld slot%s left "
            "over",
            c->args.hosts ? "--hosts" : c->args.hostfile, (long long)room,
            ranks, (long long)left, left == 1 ? " is" : "s are");
}

fs_status cli_hosts_check(cli *c, int32_t ranks)
{
    host_list hosts;
    int64_t room = 0;
    if (c->args.hosts && c->args.hostfile)
        return fs_fail(&c->err, FS_INVALID,
                       "--hosts and --hostfile both say where ranks run; give "
                       "one");
    if (!c->args.hosts && !c->args.hostfile) {
        tell_allocation(c, ranks);
        return FS_OK;
    }
    if (c->args.replan)
        return fs_fail(&c->err, FS_INVALID, "--replan is for one host");
    FS_TRY(read_hosts(c, &hosts));
    for (int32_t i = 0; i < hosts.n; i++)
        room += hosts.at[i].ranks;
    if (room < ranks)
        return fs_fail(&c->err, FS_INVALID,
                       "%s: the hosts take %lld rank%s, the plan has %d",
                       c->args.hosts ? "--hosts" : c->args.hostfile,
                       (long long)room, room == 1 ? "" : "s", ranks);
    if (!is_this(hosts.at[0].name))
        return fs_fail(&c->err, FS_INVALID,
                       "%s: the first host, %s, is not this one: rank 0 hands "
                       "back here what was trained",
                       hosts.at[0].where, hosts.at[0].name);
    if (room > ranks)
        tell_left_over(c, room, ranks);
    return FS_OK;
}

const char *cli_hosts_names(cli *c)
{
    host_list hosts;
    fs_text text = {.arena = c->arena};
    fs_text_add(&text, "%s", "");
    if (read_hosts(c, &hosts) == FS_OK)
        for (int32_t i = 0; i < hosts.n; i++)
            fs_text_add(&text, "%s%s", i ? "," : "", hosts.at[i].name);
    return text.at;
}

int cli_hosts_words(const cli *c, const char **words)
{
    static const char *const always[] = {"FS_DATA", "FS_RANKS_OF", "FS_HOSTS",
                                         "GLIBC_TUNABLES"};
    static const char *const given[] = {
        "FS_PLAN",         "FS_RESULT",     "FS_GRADIENTS",
        "FS_WHOLE_TRACE",  "FS_FIRST_STEP", "FS_PROGRESS",
        "FS_STALL_S",      "FS_CHECK",      "FLOWSEARCH_FAILPOINT",
        "FS_RELAY",        "FS_FIRED",      "FS_READS_DATA",
        "FS_READS_WEIGHTS"};
    int n = 0;
    if (!cli_on_hosts(c))
        return 0;
    if (c->args.hosts || c->args.hostfile) {
        words[n++] = c->args.hosts ? "--host" : "--hostfile";
        words[n++] = c->args.hosts ? c->args.hosts : c->args.hostfile;
    }
    words[n++] = "--map-by";
    words[n++] = "slot";
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        words[n++] = "-x";
        words[n++] = always[i];
    }
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (getenv(given[i])) {
            words[n++] = "-x";
            words[n++] = given[i];
        }
    FS_ASSERT(n <= CLI_HOSTS_WORDS);
    return n;
}
