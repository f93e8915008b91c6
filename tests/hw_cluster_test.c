/* Clusters: synthetic strings, files, their errors, links, probing. */
#include "config.h"
#include "hw/cluster.h"

#include "base/json.h"
#include "hw/curves.h"
#include "hw/share.h"
#include "tap.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static fs_arena *arena;
static char data[4096];

static hw_cluster *open_good(const char *spec)
{
    fs_err err = {0};
    hw_cluster *cluster = NULL;
    fs_status status = hw_cluster_open(spec, data, arena, &err, &cluster);
    tap_ok(status == FS_OK, "%s: opens (%s)", spec, err.text);
    if (status != FS_OK)
        exit(1);
    return cluster;
}

/* Refused as the user's mistake, with `part` in the message. */
static void refuse(const char *spec, const char *part, const char *fact)
{
    fs_err err = {0};
    hw_cluster *cluster = NULL;
    fs_status status = hw_cluster_open(spec, data, arena, &err, &cluster);
    tap_ok(status == FS_INVALID && !cluster && strstr(err.text, part), "%s",
           fact);
    printf("# %s\n", err.text);
}

static const char *write_file(const char *text)
{
    const char *path = fs_printf(arena, "%s/hw_cluster_test.%d.json",
                                 getenv("FS_BUILDDIR"), (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) == EOF || fclose(file))
        exit(99);
    return path;
}

static void refuse_text(const char *text, const char *part, const char *fact)
{
    const char *path = write_file(text);
    refuse(path, part, fact);
    unlink(path);
}

static void test_synthetic(void)
{
    hw_cluster *c = open_good("2x8:a100-sxm4-80g+1x4:l40s");
    tap_equal_int(c->n_devices, 20, "synthetic: devices of all groups");
    tap_equal_int(c->n_nodes, 3, "synthetic: nodes of all groups");
    tap_equal_text(hw_group_of(c, 15)->device.name, "a100-sxm4-80g",
                   "device 15 is of the first group");
    tap_equal_text(hw_group_of(c, 16)->device.name, "l40s",
                   "device 16 is of the second group");
    tap_equal_int(hw_node_of(c, 7), 0, "device 7 is on node 0");
    tap_equal_int(hw_node_of(c, 8), 1, "device 8 is on node 1");
    tap_equal_int(hw_node_of(c, 19), 2, "device 19 is on node 2");
    tap_ok(hw_link_between(c, 3, 3) == &c->groups[0].memory,
           "a device with itself: its memory");
    tap_ok(hw_link_between(c, 8, 15) == &c->groups[0].inner,
           "two devices of a node: the inner link");
    tap_ok(hw_link_between(c, 7, 8) == &c->outer,
           "devices of two nodes: the outer link");
    tap_ok(open_good("1x1:L40S")->n_devices == 1, "names ignore case");
    tap_ok(open_good("2x8:h100-sxm5-80g")->digest !=
               open_good("2x8:h200-sxm-141g")->digest,
           "other devices, another digest");
}

static void test_outer_share(void)
{
    hw_cluster *c = open_good("2x8:a100-sxm4-80g");
    double whole = c->outer.bandwidth_bps;
    tap_near(hw_outer_share(c, 1, 8).bandwidth_bps, whole, 1e-12,
             "one group of all devices has all NICs");
    tap_near(hw_outer_share(c, 1, 1).bandwidth_bps, whole / 8, 1e-12,
             "one device alone has one NIC");
    tap_near(hw_outer_share(c, 4, 2).bandwidth_bps, whole / 4, 1e-12,
             "four groups of two divide the NICs");
    c->nics_per_node = 1;
    tap_near(hw_outer_share(c, 8, 1).bandwidth_bps, whole / 8, 1e-12,
             "eight groups divide one NIC");
}

static void test_errors(void)
{
    refuse("0x8:l40s", "zero", "zero nodes are refused");
    refuse("8x0:l40s", "zero", "zero devices are refused");
    refuse("-1x8:l40s", "whole number", "negative counts are refused");
    refuse("99999999999999999999x8:l40s", "1000000",
           "a count that overflows is refused");
    refuse("2000x1000:l40s", "1000000", "too many devices are refused");
    refuse("1x1000000:l40s+1x1:l40s", "1000000",
           "too many devices in sum are refused");
    refuse("2x8:a100", "a100-sxm4-80g", "an unknown name lists the near ones");
    refuse("2x8:a100-smx4-80g", "a100-sxm4-80g", "a typing error is near");
    refuse("2x8:qqqqqqqqqqqq", "known", "a name near to nothing lists all");
    refuse("2x8:../x", "device name", "no path as a device name");
    refuse("2x8:", "device name", "a name must follow");
    refuse("2x8:l40s+", "whole number", "a group must follow '+'");
    refuse("hello", "2x8:a100-sxm4-80g", "the form is shown");
    refuse("", "whole number", "an empty string is refused");
    refuse("/nonexistent/c.json", "No such file", "a missing file is said");
}

static void test_files(void)
{
    refuse_text("{\n  \"version\": 1,\n  \"groups\": [}\n",
                ":3:", "malformed JSON: the line");
    refuse_text("[]", "must be an object", "an array is no cluster");
    refuse_text("{\"version\": 2}", "version", "another version is refused");
    refuse_text("{\"version\": 1, \"gruops\": []}", "gruops is an unknown key",
                "an unknown key is named");
    refuse_text("{\"version\": 1, \"groups\": [{\"nodes\": 1, \"turn\": 3}]}",
                "groups[0].turn is an unknown key",
                "an unknown key is named with its place");
    refuse(fs_printf(arena, "%s/clusters/l4.json", data), "is a device file",
           "a device file is no cluster, and said so");
    refuse_text("{\"version\": 1}", "groups is missing",
                "a missing field is named");
    refuse_text("{\"version\": 1, \"groups\": []}", "zero devices",
                "no groups are zero devices");
    refuse_text("{\"version\": 1, \"groups\": [{\"nodes\": 0}]}",
                "groups[0].nodes", "the path of a bad field is named");
    refuse_text("{\"version\": 1, \"groups\": [{\"nodes\": 1, "
                "\"devices_per_node\": 2, \"device\": {\"name\": \"x\", "
                "\"memory_bytes\": -5}}]}",
                "groups[0].device.memory_bytes", "a negative figure");
    refuse_text("{\"version\": 1, \"groups\": [{\"nodes\": 1, "
                "\"devices_per_node\": 2, \"device\": {\"name\": \"\"}}]}",
                "groups[0].device.name", "a device without a name");
    refuse_text("{\"version\": 1, \"groups\": [{\"nodes\": 1e3}]}",
                "whole number", "a fraction is no count");
}

/* A file as the program writes it, with one figure of the text replaced. */
static void refuse_figure(const char *figure, const char *value)
{
    hw_cluster *c = open_good("2x4:cpu");
    hw_point points[] = {{.what = "matmul", .work = 1e6, .seconds = 1e-5}};
    c->groups[0].device.points = points;
    c->groups[0].device.n_points = 1;
    c->groups[0].device.usd_per_h = 1;
    c->groups[0].device.price_source = "somebody";
    c->groups[0].device.fp16_flops = 1e12;
    c->groups[0].firing_s = 1e-7;
    json_t *root = hw_cluster_to_json(c);
    char *text = json_dumps(root, JSON_COMPACT);
    char *at = strstr(text, fs_printf(arena, "\"%s\":", figure));
    at += strlen(figure) + 3;
    char *edited = fs_printf(arena, "%.*s%s%s", (int)(at - text), text, value,
                             at + strcspn(at, ",}"));
    refuse_text(edited, fs_printf(arena, "%s is %s, must be ", figure, value),
                fs_printf(arena, "%s: %s is refused", figure, value));
    free(text);
    json_decref(root);
}

static void test_figures(void)
{
    static const char *const from_zero[] = {
        "latency_s",  "launch_s",   "turn_s",     "firing_s",
        "fp32_flops", "tf32_flops", "bf16_flops", "fp16_flops"};
    static const char *const others[] = {
        "bandwidth_bps",     "memory_bytes", "memory_bps",        "work",
        "matmul_efficiency", "seconds",      "memory_efficiency", "usd_per_h"};
    for (size_t i = 0; i < sizeof from_zero / sizeof *from_zero; i++) {
        refuse_figure(from_zero[i], "1e+308");
        refuse_figure(from_zero[i], "-1");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        refuse_figure(others[i], "1e+308");
        refuse_figure(others[i], "1e-300");
        refuse_figure(others[i], "0");
    }
}

/* The figures of a string's devices come from a file as well. */
static void test_device_figures(void)
{
    const char *base = fs_printf(arena, "%s/hw_cluster_test.%d",
                                 getenv("FS_BUILDDIR"), (int)getpid());
    const char *folder = fs_printf(arena, "%s/clusters", base);
    const char *file = fs_printf(arena, "%s/slow.json", folder);
    fs_err err = {0};
    json_t *root = NULL;
    hw_cluster *c;
    mkdir(base, 0777);
    mkdir(folder, 0777);
    fs_json_load(fs_printf(arena, "%s/clusters/l4.json", data), &err, &root);
    json_object_set_new(json_object_get(json_object_get(root, "node"), "inner"),
                        "latency_s", json_real(1e308));
    fs_json_save(root, file, &err);
    json_decref(root);
    tap_ok(hw_cluster_open("1x2:slow", base, arena, &err, &c) == FS_INVALID &&
               strstr(err.text, "slow.json: node.inner.latency_s is 1e+308"),
           "a device's figures are held to the same: %s", err.text);
    unlink(file);
    rmdir(folder);
    rmdir(base);
}

/* What a device costs travels with it and is no figure of the machine. */
static void test_price(void)
{
    hw_cluster *c = open_good("2x4:cpu"), *again;
    const uint64_t digest = c->digest;
    fs_err err = {0};
    c->groups[0].device.usd_per_h = 1.5;
    c->groups[0].device.price_source = "somebody, on some day";
    hw_cluster_finish(c);
    tap_ok(c->digest == digest, "a price does not change the digest");
    json_t *root = hw_cluster_to_json(c);
    hw_cluster_from_json("price.json", root, arena, &err, &again);
    tap_ok(again->groups[0].device.usd_per_h == 1.5 &&
               strcmp(again->groups[0].device.price_source,
                      "somebody, on some day") == 0,
           "a price is read as it was written");
    json_object_del(
        json_object_get(json_array_get(json_object_get(root, "groups"), 0),
                        "device"),
        "price_source");
    tap_ok(hw_cluster_from_json("price.json", root, arena, &err, &again) ==
                   FS_INVALID &&
               strstr(err.text, "price_source"),
           "a price without its source is refused: %s", err.text);
    json_decref(root);
    c = open_good("3x4:a100-sxm4-80g");
    tap_ok(c->groups[0].device.usd_per_h > 0 &&
               c->groups[0].device.price_source,
           "device files have prices");
    again = hw_cluster_part(c, 1, 2, "1x2:a100-sxm4-80g", arena);
    tap_ok(again->n_devices == 2 &&
               again->digest == open_good("1x2:a100-sxm4-80g")->digest,
           "a part is the cluster of so many");
}

static void test_round_trip(void)
{
    hw_cluster *c = open_good("2x4:cpu+1x8:a100-sxm4-40g");
    hw_point points[] = {{.what = "pointwise", .work = 1e6, .seconds = 1.25e-4},
                         {.what = "matmul", .work = 3e9, .seconds = 0.1 + 0.2},
                         {.what = "matmul", .work = 1e6, .seconds = 1e-5}};
    fs_err err = {0};
    c->groups[0].device.points = points;
    c->groups[0].device.n_points = 3;
    hw_variant variants[] = {
        {.what = "matmul", .name = "slow", .form = 7, .work = 8, .seconds = 2},
        {.what = "matmul", .name = "a", .form = 9, .work = 8, .seconds = 1},
        {.what = "matmul", .name = "fast", .form = 7, .work = 8, .seconds = 1}};
    c->groups[0].device.variants = variants;
    c->groups[0].device.n_variants = 3;
    c->groups[0].device.fp16_flops = 7e9;
    c->groups[0].cores_per_node = 2;
    c->host = "somewhere";
    hw_cluster_finish(c);
    tap_ok(points[0].work == 1e6 && points[1].work == 3e9,
           "finish sorts points by what, then work");
    const char *path = write_file("");
    tap_ok(hw_cluster_save(c, path, &err) == FS_OK, "saves");
    hw_cluster *back = open_good(path);
    unlink(path);
    tap_ok(back->digest == c->digest, "the digest survives a file");
    tap_equal_text(back->host, "somewhere", "the host survives a file");
    tap_equal_int(back->groups[0].device.n_points, 3, "so do points");
    tap_ok(back->groups[0].device.points[1].seconds == 0.1 + 0.2,
           "to the last bit");
    int32_t n, none;
    const hw_device *device = &back->groups[0].device;
    const hw_variant *timed = hw_variants_of(device, "matmul", 7, &n);
    hw_variants_of(device, "matmul", 8, &none);
    tap_ok(n == 2 && none == 0 && strcmp(timed[0].name, "fast") == 0 &&
               strcmp(timed[1].name, "slow") == 0,
           "and times of several kernels, the fastest first");
    tap_equal_int(back->nics_per_node, c->nics_per_node, "and the NICs");
    tap_ok(back->groups[0].device.fp16_flops == 7e9 &&
               back->groups[1].device.fp16_flops ==
                   back->groups[1].device.bf16_flops,
           "the peak of fp16, which is bf16's if none is said");
    back->groups[0].device.points[1].seconds *= 2;
    hw_cluster_finish(back);
    tap_ok(back->digest != c->digest, "another figure, another digest");
}

/* Of 4 devices of a node, or processes of a host that has 4 seen of it. */
static fs_status with_collective(int32_t ranks, int32_t cores, fs_err *err,
                                 hw_cluster **out)
{
    hw_cluster *c = open_good("2x4:cpu");
    hw_collective one = {"all-reduce", ranks, 1e6, 1e-3};
    c->groups[0].cores_per_node = cores;
    c->groups[0].collectives = &one;
    c->groups[0].n_collectives = 1;
    json_t *root = hw_cluster_to_json(c);
    fs_status status = hw_cluster_from_json("c.json", root, arena, err, out);
    json_decref(root);
    return status;
}

static void test_collectives(void)
{
    hw_cluster *c;
    fs_err err = {0};
    tap_equal_int(with_collective(4, 0, &err, &c), FS_OK,
                  "a collective of all devices of a node");
    tap_equal_int(
        hw_cluster_part(c, 1, 2, "part", arena)->groups[0].n_collectives, 0,
        "which a part of the node has not");
    tap_ok(with_collective(9, 0, &err, &c) == FS_INVALID &&
               strstr(err.text, "c.json: groups[0].collectives[0].ranks is 9, "
                                "outside 2 to 4"),
           "one of more devices than a node has is refused: %s", err.text);
    err = (fs_err){0};
    tap_equal_int(with_collective(9, 2, &err, &c), FS_OK,
                  "a host may have been measured as more ranks");
    hw_collectives_fit(&c->groups[0], arena);
    tap_equal_int(c->groups[0].n_collectives, 0,
                  "of which it has no use as it is seen");
}

/* Whose figures they are travels with them and is no figure. */
static void test_machine(void)
{
    hw_cluster *c = open_good("2x4:cpu"), *again;
    const uint64_t digest = c->digest;
    fs_err err = {0};
    c->machine = "0123456789abcdef";
    c->facts = "a processor, 2 cores";
    hw_cluster_finish(c);
    tap_ok(c->digest == digest, "a machine does not change the digest");
    json_t *root = hw_cluster_to_json(c);
    hw_cluster_from_json("m.json", root, arena, &err, &again);
    tap_equal_text(again->machine, c->machine, "it is read as it was written");
    tap_equal_text(again->facts, c->facts, "and what it is");
    static const char *const wrong[] = {"", "0123", "0123456789ABCDEF",
                                        "0123456789abcdeg", "0000000000000000"};
    int refused = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (fs_err){0};
        json_object_set_new(root, "machine", json_string(wrong[i]));
        refused += hw_cluster_from_json("m.json", root, arena, &err, &again) ==
                       FS_INVALID &&
                   strstr(err.text, "m.json: machine is ");
    }
    tap_equal_int(refused, 5, "what is no fingerprint is refused: %s",
                  err.text);
    json_decref(root);
}

static void test_every_device(void)
{
    char directory[4200];
    int n = 0, good = 0;
    snprintf(directory, sizeof directory, "%s/clusters", data);
    DIR *dir = opendir(directory);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        fs_err err = {0};
        hw_cluster *c = NULL;
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json"))
            continue;
        char *name = fs_strndup(arena, entry->d_name, length - 5);
        char *spec = fs_printf(arena, "4x4:%s", name);
        n++;
        if (hw_cluster_open(spec, data, arena, &err, &c) == FS_OK &&
            strcmp(c->groups[0].device.name, name) == 0)
            good++;
        else
            printf("# %s: %s\n", name, err.text);
    }
    if (dir)
        closedir(dir);
    tap_ok(n > 20, "there are device files");
    tap_equal_int(good, n, "each opens and bears its file's name");
}

/* Devices of a pool are slowed by each other and by nobody else. */
static void test_pools(void)
{
    hw_cluster c = {.n_groups = 1}, *made = NULL;
    fs_err err = {0};
    hw_cluster_probe(8, arena, &err, &made);
    hw_group group = made->groups[0];
    c.groups = &group;
    group.nodes = 2;
    group.devices_per_node = 4;
    group.cores_per_node = 2;
    hw_cluster_finish(&c);
    static const int32_t bound[] = {0, 1, 0, 1, 4, 5, 4, 5};
    int32_t cores;
    for (int32_t d = 0; d < 8; d++) {
        tap_equal_int(hw_core_pool(&c, d, &cores), bound[d],
                      "device %d of 4 per node on 2 cores: its pool", d);
        tap_equal_int(cores, 1, "which is one core");
    }
    group.devices_per_node = 3;
    hw_cluster_finish(&c);
    tap_equal_int(hw_core_pool(&c, 5, &cores), 3,
                  "3 on 2 cores are not bound: a node is one pool");
    tap_equal_int(cores, 2, "of two cores");
    group.cores_per_node = 0;
    tap_equal_int(hw_core_pool(&c, 5, &cores), 3, "a node without cores too");
    tap_equal_int(cores, 0, "and nothing is shared");
}

/* Shares of these processors: each has some, none two owners; all are dealt. */
static int are_dealt(const cpu_set_t *usable, int32_t processes)
{
    cpu_set_t seen, share, both;
    CPU_ZERO(&seen);
    for (int32_t i = 0; i < processes; i++) {
        if (!hw_share_of(i, processes, usable, &share) || !CPU_COUNT(&share))
            return 0;
        CPU_AND(&both, &seen, &share);
        if (CPU_COUNT(&both) > 0)
            return 0;
        CPU_OR(&seen, &seen, &share);
    }
    return CPU_EQUAL(&seen, usable);
}

static void test_shares(void)
{
    cpu_set_t usable, one, share;
    sched_getaffinity(0, sizeof usable, &usable);
    const int32_t n = CPU_COUNT(&usable);
    int good = 1;
    for (int32_t processes = 1; processes <= n && processes <= 16; processes++)
        good &= are_dealt(&usable, processes);
    tap_ok(good, "processors are dealt to as many processes or fewer");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    tap_ok(are_dealt(&one, 1), "or those alone that may be used");
    tap_ok(!hw_share_of(0, n + 1, &usable, &share) &&
               !hw_share_of(1, 1, &usable, &share) &&
               !hw_share_of(-1, 1, &usable, &share),
           "and not to more");
}

static void test_probe(void)
{
    hw_cluster *c = NULL;
    fs_err err = {0};
    cpu_set_t set;
    tap_ok(hw_cluster_probe(4, arena, &err, &c) == FS_OK, "probes this host");
    sched_getaffinity(0, sizeof set, &set);
    hw_group *g = &c->groups[0];
    tap_equal_int(c->n_devices, 4, "seen as four devices");
    tap_ok(g->cores_per_node >= 1 && g->cores_per_node <= CPU_COUNT(&set),
           "cores are those this process may use");
    tap_ok(g->device.memory_bytes > 1e6, "memory is divided among ranks");
    tap_ok(c->host && c->host[0], "the host has a name");
    tap_near(hw_core_share(g, 3 * g->cores_per_node), 3, 1e-12,
             "three ranks a core run at a third");
    tap_near(hw_core_share(g, 1), 1, 0, "one rank has a core");
    int32_t before = g->cores_per_node;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0 && before > 1) {
        hw_cluster_probe(4, arena, &err, &c);
        tap_equal_int(c->groups[0].cores_per_node, 1,
                      "bound to one core it counts one");
    } else {
        tap_skip("one processor only", "bound to one core it counts one");
    }
    fs_err bad = {0};
    tap_ok(hw_cluster_probe(0, arena, &bad, &c) == FS_INVALID,
           "zero ranks are refused");
}

/* The example of src/hw/README.md. */
static void test_readme(void)
{
    static char text[1 << 15];
    FILE *in = fopen(
        fs_printf(arena, "%s/src/hw/README.md", getenv("FS_SRCDIR")), "r");
    text[in ? fread(text, 1, sizeof text - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    char *from = strstr(text, "```json\n");
    char *to = from ? strstr(from + 8, "```") : NULL;
    tap_ok(to != NULL, "the README shows a cluster file");
    if (!to)
        return;
    *to = '\0';
    const char *path = write_file(from + 8);
    hw_cluster *c = open_good(path);
    unlink(path);
    tap_equal_int(c->n_devices, 8, "README: devices of both groups");
    tap_equal_int(c->n_nodes, 3, "README: nodes of both groups");
    tap_equal_text(hw_link_between(c, 4, 5)->name, "PCIe 4.0 x16",
                   "README: the second group's own link");
    tap_equal_text(hw_link_between(c, 0, 4)->name, "InfiniBand HDR",
                   "README: between nodes");
}

int main(void)
{
    arena = fs_arena_create();
    snprintf(data, sizeof data, "%s/datasets", getenv("FS_SRCDIR"));
    test_synthetic();
    test_outer_share();
    test_errors();
    test_files();
    test_figures();
    test_device_figures();
    test_price();
    test_round_trip();
    test_collectives();
    test_machine();
    test_every_device();
    test_readme();
    test_pools();
    test_shares();
    test_probe();
    fs_arena_destroy(arena);
    return tap_done();
}
