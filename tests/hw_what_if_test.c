/* Figures of a cluster by their path. */
#include "config.h"

#include "base/hash.h"
#include "hw/what_if.h"

#include "tap.h"

static hw_cluster *cluster_of(const char *spec, fs_arena *arena)
{
    const char *src = getenv("FS_SRCDIR");
    fs_err err = {0};
    hw_cluster *c = NULL;
    if (hw_cluster_open(spec, fs_printf(arena, "%s/datasets", src ? src : "."),
                        arena, &err, &c) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return c;
}

static hw_cluster *set(const hw_cluster *c, const char *words, fs_arena *arena,
                       hw_changes *changes)
{
    fs_err err = {0};
    hw_cluster *out = NULL;
    if (hw_cluster_set(c, words, arena, &err, &out, changes) != FS_OK)
        printf("# %s\n", err.text);
    return out;
}

static void refused(const hw_cluster *c, const char *words, const char *why,
                    fs_arena *arena)
{
    fs_err err = {0};
    hw_cluster *out = NULL;
    hw_changes changes = {0};
    const fs_status status =
        hw_cluster_set(c, words, arena, &err, &out, &changes);
    tap_ok(status == FS_INVALID && strstr(err.text, why), "'%s' is refused: %s",
           words, why);
    printf("# %s\n", err.text);
}

static void test_paths(fs_arena *arena)
{
    const hw_cluster *c =
        cluster_of("2x8:a100-sxm4-80g+1x4:v100-sxm2-32g", arena);
    hw_changes changes = {0};
    hw_cluster *d = set(c, "link.bandwidth*=2", arena, &changes);
    tap_ok(d && d->outer.bandwidth_bps == 2 * c->outer.bandwidth_bps &&
               d->groups[0].inner.bandwidth_bps ==
                   2 * c->groups[0].inner.bandwidth_bps &&
               d->groups[1].inner.bandwidth_bps ==
                   2 * c->groups[1].inner.bandwidth_bps,
           "link.bandwidth is that of all links");
    tap_equal_int(changes.n, 3, "three figures");
    tap_ok(d && d->digest != c->digest && d->n_devices == c->n_devices,
           "it is another cluster of as many devices");
    d = set(c, "groups[1].inner.latency=1e-3", arena, &changes);
    tap_ok(d && d->groups[1].inner.latency_s == 1e-3 &&
               d->groups[0].inner.latency_s == c->groups[0].inner.latency_s,
           "groups[1] is that group alone");
    d = set(c, "device.flops*=.5", arena, &changes);
    tap_ok(d &&
               d->groups[0].device.bf16_flops ==
                   .5 * c->groups[0].device.bf16_flops &&
               d->groups[0].device.fp32_flops ==
                   .5 * c->groups[0].device.fp32_flops,
           "device.flops is all peaks");
    d = set(c, "device.memory_bandwidth*=4", arena, &changes);
    tap_ok(d &&
               d->groups[0].device.memory_bps ==
                   4 * c->groups[0].device.memory_bps &&
               d->groups[0].memory.bandwidth_bps ==
                   4 * c->groups[0].memory.bandwidth_bps,
           "local copies follow the memory");
    d = set(c, "device.memory*=.3", arena, &changes);
    tap_ok(d && d->groups[0].device.memory_bytes ==
                    (double)(int64_t)(.3 * c->groups[0].device.memory_bytes),
           "bytes are whole ones");
    d = set(c, "nics=1", arena, &changes);
    tap_ok(d && d->nics_per_node == 1, "nics is the number of NICs of a node");
    d = set(c, "device.launch_s+=1e-6", arena, &changes);
    tap_ok(d && fabs(d->groups[0].device.launch_s -
                     c->groups[0].device.launch_s - 1e-6) < 1e-15,
           "+= adds; a figure's own name is as good");
}

static void test_points(fs_arena *arena)
{
    hw_cluster *c = cluster_of("1x2:cpu", arena);
    hw_point points[] = {{.what = "add", .work = 1e6, .seconds = 3e-3},
                         {.what = "matmul", .work = 1e9, .seconds = 5e-3}};
    c->groups[0].device.launch_s = 1e-3;
    c->groups[0].device.points = points;
    c->groups[0].device.n_points = 2;
    hw_cluster_finish(c);
    hw_changes changes = {0};
    hw_cluster *d = set(c, "device.flops*=2", arena, &changes);
    tap_near(d->groups[0].device.points[1].seconds, 3e-3, 1e-12,
             "measured products take half beyond their launch");
    tap_near(d->groups[0].device.points[0].seconds, 3e-3, 1e-12,
             "what moves bytes takes as long");
    d = set(c, "device.launch*=3", arena, &changes);
    tap_near(d->groups[0].device.points[0].seconds, 5e-3, 1e-12,
             "a launch is a part of what was measured");
}

/* Bytes as --memory takes them. */
static void test_bytes(fs_arena *arena)
{
    const hw_cluster *c = cluster_of("2x8:a100-sxm4-80g", arena);
    static const char *const same[] = {
        "device.memory=6G", "device.memory=6GiB", "device.memory_bytes=6 GB",
        "device.memory=6442450944", "device.memory+=-74g"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        hw_changes changes = {0};
        tap_near(
            set(c, same[i], arena, &changes)->groups[0].device.memory_bytes,
            6 * 0x1p30, 1e-12, "%s", same[i]);
    }
}

static void test_refused(fs_arena *arena)
{
    const hw_cluster *c = cluster_of("2x8:a100-sxm4-80g", arena);
    refused(c, "link.bandwith*=2", "link.bandwidth", arena);
    refused(c, "groups[1].inner.latency*=2", "inner.latency", arena);
    refused(c, "nonsense*=2", "known: ", arena);
    refused(c, "groups[0].outer.latency*=2", "has no figure", arena);
    refused(c, "nodes*=2", "cannot change under a plan", arena);
    refused(c, "groups[0].devices_per_node=4", "cannot change", arena);
    refused(c, "device.usd_per_h*=2", "no part in a step's time", arena);
    refused(c, "device.memory*=0", "must be from", arena);
    refused(c, "cores=4", "none that share cores", arena);
    refused(c, "link.bandwidth", "PATH*=X", arena);
    refused(c, "*=2", "has no figure", arena);
    refused(c, "=2", "PATH*=X", arena);
    refused(c, "link.bandwidth*=two", "no number", arena);
    refused(c, "link.bandwidth*=2x", "no number", arena);
    refused(c, "link.bandwidth*=inf", "no number", arena);
    refused(c, "link.bandwidth=0x10", "no number", arena);
    refused(c, "outer.bandwidth=25G", "in the figure's unit", arena);
    refused(c, "device.memory=6X", "no number of bytes (such as", arena);
    refused(c, "device.memory*=6G", "no number", arena);
    refused(c, "link.bandwidth=0", "must be from", arena);
    refused(c, "link.bandwidth*=-1", "must be", arena);
    refused(c, "device.launch=100", "must be 0 or from", arena);
    refused(c, "nics*=1.3", "a whole number", arena);
    refused(c, "nics=0", "nics_per_node", arena);
    refused(c, "device.flops=1e15", "it takes *=", arena);
    refused(c, "link.bandwidth*=1", "changes nothing", arena);
    refused(c, "cores*=2", "changes nothing", arena);
}

/* Whatever is changed and changed back is as it was. */
static void test_back(fs_arena *arena, uint64_t seed)
{
    static const char *const paths[] = {
        "link.bandwidth",  "inner.latency",
        "outer.bandwidth", "device.launch",
        "device.flops",    "groups[0].device.bf16_flops",
        "memory.latency",  "device.memory_bandwidth"};
    const hw_cluster *c = cluster_of("2x8:h100-sxm5-80g", arena);
    int32_t wrong = 0;
    for (int32_t i = 0; i < 200; i++) {
        const char *path = paths[fs_rand_below(&seed, 8)];
        const int32_t power = 1 + (int32_t)fs_rand_below(&seed, 3);
        hw_changes changes = {0};
        const hw_cluster *d = set(
            c, fs_printf(arena, "%s*=%d", path, 1 << power), arena, &changes);
        d = d ? set(d, fs_printf(arena, "%s*=%.17g", path, 1.0 / (1 << power)),
                    arena, &changes)
              : d;
        wrong += !d || d->digest != c->digest;
    }
    tap_equal_int(wrong, 0,
                  "200 changes by powers of two and back: the same "
                  "digest");
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    test_paths(arena);
    test_points(arena);
    test_bytes(arena);
    test_refused(arena);
    test_back(arena, tap_seed(3));
    fs_arena_destroy(arena);
    return tap_done();
}
