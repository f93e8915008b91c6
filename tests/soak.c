/* A training that goes on for long while its ranks are killed, crash and are
 * stopped (make soak, SOAK_S seconds of it): no checkpoint is lost, nothing
 * grows, and each checkpoint is that of a run beside it, which nothing
 * disturbs. Both are interrupted at the end. */
#include "config.h"
#include "tests/run_going.h"

#define PLAN                                                                   \
    "plan zoo:mlp,in=256,hidden=768,layers=4,classes=16 --cluster local "      \
    "--ranks %d --dp %d --batch 64 -o \"$D/%s.json\""
#define TRAIN                                                                  \
    "run \"$D/%s.json\" --data synthetic --db \"$D/%s.db\" --steps 10000000 "  \
    "--checkpoint \"$D/%s\" --checkpoint-every %d "
enum {
    RANKS = 2,
    INTERRUPTED = 3,
    EVERY = 50,
    MOST_FAULTS = 20000,
    MOST_SAMPLES = 400000,
    MOST_SAVED = 400000
};
/* What may grow: bytes an hour, and those that a rank keeps of each step (its
 * loss and times). */
static const double most_per_hour = 8 * 0x1p20, most_per_step = 128;

typedef struct sample {
    double at_s, bytes;
    int life; /* of a rank: samples of one are compared with each other */
} sample;

typedef struct series {
    sample at[MOST_SAMPLES];
    int n;
} series;

static series supervisor, ranks_rss;
static double resumed_s[MOST_FAULTS];
static int n_faults, n_stops, n_lost, n_checked;
static unsigned long long state;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % below;
}

/* ---- memory ---- */

static void take(series *into, pid_t process, int of, double at_s)
{
    char path[64];
    long long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *file = fopen(path, "r");
    const int got = file ? fscanf(file, "%lld %lld", &all, &resident) : 0;
    if (file)
        fclose(file);
    if (got == 2 && resident > 0 && into->n < MOST_SAMPLES)
        into->at[into->n++] = (sample){
            at_s, (double)resident * (double)sysconf(_SC_PAGESIZE), of};
}

static int by_life(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->life != y->life)
        return x->life < y->life ? -1 : 1;
    return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

/* Bytes a second, by least squares; each life has a level of its own. */
static double slope(series *s)
{
    double above = 0, below = 0;
    qsort(s->at, (size_t)s->n, sizeof s->at[0], by_life);
    for (int i = 0, k; i < s->n; i = k) {
        double x = 0, y = 0;
        for (k = i; k < s->n && s->at[k].life == s->at[i].life; k++) {
            x += s->at[k].at_s;
            y += s->at[k].bytes;
        }
        x /= k - i;
        y /= k - i;
        for (int m = i; m < k; m++) {
            above += (s->at[m].at_s - x) * (s->at[m].bytes - y);
            below += (s->at[m].at_s - x) * (s->at[m].at_s - x);
        }
    }
    return below > 0 ? above / below : 0;
}

/* ---- checkpoints ---- */

typedef struct saved {
    long long step[MOST_SAVED];
    char seal[MOST_SAVED][9]; /* CRC of its manifest: of all bytes it has */
    int n;
} saved;

static saved disturbed, calm;

static bool read_seal(const char *folder, const char *name, char seal[9])
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s/manifest.json", cli_scratch, folder,
             name);
    FILE *file = fopen(path, "r");
    const bool got =
        file && fscanf(file, "{\"seal\":\"%8[0-9a-f]\"", seal) == 1;
    if (file)
        fclose(file);
    return got;
}

static bool is_known(const saved *s, long long step, const char *seal)
{
    for (int i = s->n; i-- > 0 && i > s->n - 64;)
        if (s->step[i] == step && strcmp(s->seal[i], seal) == 0)
            return true;
    return false;
}

/* Takes down what is whole there; the newest one's step; 0: none. */
static long long look_at(const char *folder, saved *s)
{
    char path[1024], seal[9];
    long long most = 0, step;
    snprintf(path, sizeof path, "%s/%s", cli_scratch, folder);
    DIR *all = opendir(path);
    for (struct dirent *d; all && (d = readdir(all)) != NULL;) {
        int end = 0;
        if (sscanf(d->d_name, "step-%lld%n", &step, &end) != 1 ||
            d->d_name[end] || !read_seal(folder, d->d_name, seal))
            continue;
        most = step > most ? step : most;
        if (is_known(s, step, seal) || s->n == MOST_SAVED)
            continue;
        s->step[s->n] = step;
        strcpy(s->seal[s->n++], seal);
    }
    if (all)
        closedir(all);
    return most;
}

static int by_step(const void *a, const void *b)
{
    const long long x = calm.step[*(const int *)a],
                    y = calm.step[*(const int *)b];
    return (x > y) - (x < y);
}

/* How many checkpoints both have; how many of them differ. */
static int compare_saved(int *differ)
{
    static int order[MOST_SAVED];
    int both = 0;
    *differ = 0;
    for (int i = 0; i < calm.n; i++)
        order[i] = i;
    qsort(order, (size_t)calm.n, sizeof *order, by_step);
    for (int i = 0; i < disturbed.n; i++) {
        int low = 0, high = calm.n;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (calm.step[order[middle]] < disturbed.step[i])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == calm.n || calm.step[order[low]] != disturbed.step[i])
            continue;
        both++;
        if (strcmp(calm.seal[order[low]], disturbed.seal[i]) == 0)
            continue;
        (*differ)++;
        printf("# step %lld: not the same checkpoint\n", disturbed.step[i]);
    }
    return both;
}

/* How often the supervisor has gone on, and from where it did last. */
static int count_resumed(long long *from)
{
    static char text[1 << 24];
    int n = 0;
    cli_slurp("ck.err", text, sizeof text);
    *from = 0;
    for (const char *at = text; (at = strstr(at, "; resumed from step ")); at++)
        n += sscanf(at, "; resumed from step %lld", from) == 1;
    for (const char *at = text; (at = strstr(at, "; begun anew")); at++)
        n++;
    return n;
}

/* ---- trouble ---- */

static bool is_over(pid_t child)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) !=
               0 ||
           info.si_pid == child;
}

/* Ranks that live all along tell what a rank keeps; the supervisor of those
 * that do not, what their ends do. */
static void watch_for(pid_t child, double seconds)
{
    static const double settled_s = 60; /* first steps touch memory */
    static double begin_s;
    const double from_s = now_s();
    pid_t ranks[MOST_RANKS];
    begin_s = begin_s > 0 ? begin_s : from_s;
    for (int i = 0; now_s() < from_s + seconds && !is_over(child); i++) {
        nap();
        look_at("ck", &disturbed);
        look_at("calm", &calm);
        if (i % 10 != 0 || from_s < begin_s + settled_s)
            continue;
        take(&supervisor, child, 0, now_s());
        const int n = find_working("calm.json", ranks);
        for (int r = 0; r < n; r++)
            take(&ranks_rss, ranks[r], (int)ranks[r], now_s());
    }
}

static void stop_shortly(pid_t child, pid_t rank)
{
    kill(rank, SIGSTOP);
    watch_for(child, 0.2 + 0.1 * draw(20));
    kill(rank, SIGCONT);
    n_stops++;
}

/* What is whole when the rank is killed is gone on from, or a later one. */
static void end_rank(pid_t child, pid_t rank)
{
    long long from;
    const int before = count_resumed(&from);
    const long long whole = look_at("ck", &disturbed);
    const double begin_s = now_s();
    kill(rank, draw(4) ? SIGKILL : SIGSEGV);
    while (count_resumed(&from) == before && !is_over(child) &&
           now_s() < begin_s + 60)
        nap();
    if (is_over(child))
        return;
    n_checked++;
    if (from < whole) {
        n_lost++;
        printf("# the checkpoint of step %lld was there, resumed from %lld\n",
               whole, from);
    }
    if (n_faults < MOST_FAULTS)
        resumed_s[n_faults++] = now_s() - begin_s;
}

static void trouble(pid_t child, double seconds)
{
    pid_t ranks[MOST_RANKS];
    const double end_s = now_s() + seconds;
    while (now_s() < end_s && !is_over(child)) {
        watch_for(child, 3 + draw(10));
        if (find_working("p2.json", ranks) < RANKS)
            continue;
        if (draw(4) == 0)
            stop_shortly(child, ranks[draw(RANKS)]);
        else
            end_rank(child, ranks[draw(RANKS)]);
    }
}

/* ---- what it came to ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void table(double steps_per_s)
{
    const double hour = 3600, mib = 0x1p20;
    series *s = &supervisor, *r = &ranks_rss;
    qsort(resumed_s, (size_t)n_faults, sizeof *resumed_s, by_size);
    printf("# ranks killed or crashed     %d\n", n_faults);
    printf("# stopped for a while         %d\n", n_stops);
    if (n_faults > 0)
        printf("# from the kill to going on   %.2f s (median), %.2f s (most)\n",
               resumed_s[n_faults / 2], resumed_s[n_faults - 1]);
    printf("# checkpoints looked after    %d, lost %d\n", n_checked, n_lost);
    if (s->n > 0)
        printf("# supervisor                  %.1f MiB at first, %.1f MiB at "
               "last, %+.2f MiB an hour\n",
               s->at[0].bytes / mib, s->at[s->n - 1].bytes / mib,
               slope(s) * hour / mib);
    if (r->n > 0)
        printf("# a rank                      %.1f MiB, %+.2f MiB an hour "
               "(%+.0f bytes a step)\n",
               r->at[r->n - 1].bytes / mib, slope(r) * hour / mib,
               steps_per_s > 0 ? slope(r) / steps_per_s : 0);
}

static void judge(int status, double steps_per_s)
{

    const double per_s = most_per_hour / 3600;
    int differ;
    const int both = compare_saved(&differ);
    table(steps_per_s);
    tap_equal_int(status, INTERRUPTED, "the run goes on to the end");
    tap_equal_int(n_lost, 0, "no checkpoint is lost");
    tap_ok(
        both > 0 && differ == 0,
        "of %d checkpoints, up to step %lld, %d differ from those of the run "
        "that nothing disturbs",
        both, disturbed.n ? disturbed.step[disturbed.n - 1] : 0, differ);
    tap_ok(slope(&supervisor) <= per_s,
           "the supervisor does not grow by more than %.0f MiB an hour",
           most_per_hour / 0x1p20);
    tap_ok(slope(&ranks_rss) <= per_s + most_per_step * steps_per_s,
           "nor a rank, but for %.0f bytes a step", most_per_step);
}

static pid_t begin(const char *plan, const char *folder, const char *more)
{
    char words[1024];
    const cli_answer *a = cli(PLAN, RANKS, RANKS, plan);
    tap_ok(a->status == 0, "a plan for two ranks");
    snprintf(words, sizeof words, TRAIN "%s", plan, folder, folder, EVERY,
             more);
    return start_as(folder, words);
}

static int end(const char *name, pid_t child)
{
    kill(child, SIGINT);
    const cli_answer *a = finish_as(name, child);
    if (a->status != INTERRUPTED)
        cli_show(a);
    return a->status;
}

int main(void)
{
    const double seconds = atof(cli_env("SOAK_S", "7200"));
    state = tap_seed(1);
    cli_begin_scratch("soak");
    const pid_t beside = begin("calm", "calm", "");
    const pid_t child = begin("p2", "ck", "--max-restarts 1000000");
    trouble(child, seconds);
    tap_equal_int(end("calm", beside), INTERRUPTED,
                  "the run beside it goes on too");
    const int status = end("ck", child);
    judge(status, (double)look_at("calm", &calm) / seconds);
    cli_end_scratch();
    return tap_done();
}
