/* What transfers of a rank take alone: drawn work, of which each rank's thread
 * does one thing at a time, is told apart again. */
#include "exec/alone.h"
#include "tap.h"

#include "base/hash.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 200, MOST = 4 };

typedef struct transfer {
    plan_task task;
    int64_t start, began;
    double had; /* of the thread */
    bool flies;
} transfer;

typedef struct world {
    exec_alone clock;
    transfer of[MOST];
    int64_t now;
    double worst; /* relative */
    int32_t ended;
} world;

static int32_t flying(const world *w, bool moves)
{
    int32_t n = 0;
    for (int32_t i = 0; i < MOST; i++)
        n += w->of[i].flies && (w->of[i].task.comm < 0) == moves;
    return n;
}

static void pass(world *w, int64_t ns)
{
    const int32_t n = flying(w, false);
    for (int32_t i = 0; i < MOST; i++)
        if (w->of[i].flies)
            w->of[i].had += (double)ns / (w->of[i].task.comm < 0 ? 1 : n);
    w->now += ns;
}

static void toggle(world *w, transfer *t)
{
    if (!t->flies) {
        t->start = w->now;
        t->had = 0;
        t->began = exec_alone_begin(&w->clock, &t->task, w->now);
        t->flies = true;
        return;
    }
    const float beside =
        exec_alone_end(&w->clock, &t->task, t->began, t->start, w->now);
    const double whole = (double)(w->now - t->start);
    t->flies = false;
    if (whole <= 0)
        return;
    w->ended++;
    w->worst = fmax(w->worst, fabs(1 - beside - t->had / whole));
}

static void draw(uint64_t *seed, world *w)
{
    for (int32_t i = 0; i < MOST; i++) {
        w->of[i] = (transfer){.task = {.comm = -1, .channel = -1}};
        *(i % 2 ? &w->of[i].task.comm : &w->of[i].task.channel) = i;
    }
    for (int32_t k = 0; k < 100; k++) {
        const int64_t ns = 1000 + (int64_t)fs_rand_below(seed, 100000);
        switch (fs_rand_below(seed, 3)) {
        case 0: /* a kernel */
            w->now += ns;
            exec_alone_compute(&w->clock, ns);
            break;
        case 1:
            pass(w, ns);
            break;
        default:
            toggle(w, &w->of[fs_rand_below(seed, MOST)]);
        }
    }
}

int main(void)
{
    uint64_t seed = tap_seed(3);
    double worst = 0;
    int32_t ended = 0;
    for (int32_t k = 0; k < CASES; k++) {
        world w = {.now = (int64_t)fs_rand_below(&seed, 1000000)};
        draw(&seed, &w);
        worst = fmax(worst, w.worst);
        ended += w.ended;
    }
    tap_ok(ended > 1000 && worst < 1e-4,
           "a transfer's time less that of kernels, and of n collectives at "
           "once an n-th part (%d, off by %.1g of it)",
           ended, worst);
    exec_alone clock = {0};
    const plan_task kernel = {.comm = -1, .channel = -1};
    tap_ok(exec_alone_end(&clock, &kernel, exec_alone_begin(&clock, &kernel, 5),
                          5, 9) == 0,
           "of a kernel's time all is its own");
    return tap_done();
}
