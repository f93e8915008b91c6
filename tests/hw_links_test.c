/* Clusters as graphs of links: routes against closed forms, and what is wrong
 * with a file is told once. */
#include "config.h"

#include "hw/links.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <math.h>

static fs_arena *arena;

static json_t *cluster_json(int nodes, int devices, const char *wiring,
                            const char *fabric)
{
    const char *text = fs_printf(
        arena,
        "{\"version\": 1, \"groups\": [{\"nodes\": %d, \"devices_per_node\": "
        "%d, \"device\": {\"name\": \"d\", \"memory_bytes\": 1000000000, "
        "\"memory_bps\": 1e11, \"fp32_flops\": 1e12, \"tf32_flops\": 0, "
        "\"bf16_flops\": 0, \"matmul_efficiency\": 1, \"memory_efficiency\": "
        "1, \"launch_s\": 0, \"source\": \"made up\"}, \"inner\": {\"name\": "
        "\"in\", \"latency_s\": 0, \"bandwidth_bps\": 8e10}, \"memory\": "
        "{\"name\": \"m\", \"latency_s\": 0, \"bandwidth_bps\": 1e11}%s%s}], "
        "\"outer\": {\"name\": \"out\", \"latency_s\": 0, \"bandwidth_bps\": "
        "4e10, \"nics_per_node\": 4}%s%s}",
        nodes, devices, wiring[0] ? ", \"wiring\": " : "", wiring,
        fabric[0] ? ", \"fabric\": " : "", fabric);
    json_error_t why;
    json_t *root = json_loads(text, 0, &why);
    if (!root)
        printf("Bail out! %s\n%s\n", why.text, text);
    return root;
}

static hw_cluster *try_open(int nodes, int devices, const char *wiring,
                            const char *fabric, fs_err *err)
{
    json_t *root = cluster_json(nodes, devices, wiring, fabric);
    hw_cluster *c = NULL;
    *err = (fs_err){0};
    if (hw_cluster_from_json("wired.json", root, arena, err, &c) != FS_OK)
        c = NULL;
    json_decref(root);
    return c;
}

static hw_cluster *opened(int nodes, int devices, const char *wiring,
                          const char *fabric)
{
    fs_err err;
    hw_cluster *c = try_open(nodes, devices, wiring, fabric, &err);
    if (!c) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return c;
}

/* Widths of a route in units of 10 GB/s: "8 8". */
static const char *widths(const hw_cluster *c, int32_t a, int32_t b)
{
    int32_t hops[HW_MOST_HOPS];
    double most;
    const hw_links *l = hw_links_create(c, arena);
    const int32_t n = hw_links_route(l, a, b, hops, &most);
    fs_text text = {.arena = arena};
    fs_text_add(&text, "%s", "");
    for (int32_t i = 0; i < n; i++)
        fs_text_add(&text, "%s%g", i ? " " : "",
                    hw_links_bps(l)[hops[i]] / 1e10);
    return text.at;
}

static int32_t common(const hw_cluster *c, int32_t a, int32_t b, int32_t x,
                      int32_t y)
{
    int32_t one[HW_MOST_HOPS], two[HW_MOST_HOPS], same = 0;
    double most;
    const hw_links *l = hw_links_create(c, arena);
    const int32_t n = hw_links_route(l, a, b, one, &most);
    const int32_t m = hw_links_route(l, x, y, two, &most);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < m; k++)
            same += one[i] == two[k];
    return same;
}

static void test_default(void)
{
    const hw_cluster *c = opened(2, 4, "", "");
    int32_t hops[HW_MOST_HOPS];
    double most;
    tap_equal_text(widths(c, 0, 3), "8 8", "a switch: a port out, a port in");
    tap_equal_text(widths(c, 0, 7), "4 4", "between nodes: all NICs together");
    tap_equal_text(widths(c, 5, 5), "", "to itself nothing is crossed");
    hw_links_route(hw_links_create(c, arena), 0, 7, hops, &most);
    tap_near(most, 1e10, 1, "but a transfer has one NIC at most");
    tap_equal_int(common(c, 0, 1, 2, 1), 1, "two to one device share its port");
    tap_equal_int(common(c, 0, 1, 1, 0), 0, "directions share nothing");
    tap_ok(opened(2, 4, "{\"kind\": \"switch\"}", "")->digest == c->digest,
           "a switch is what it is when nothing is said");
}

static void test_inside(void)
{
    const hw_cluster *c =
        opened(2, 4, "{\"kind\": \"mesh\", \"bandwidth_bps\": 2e10}", "");
    tap_equal_text(widths(c, 1, 3), "2", "a mesh: one wire");
    tap_equal_int(common(c, 0, 1, 0, 2), 0, "to each device another one");
    tap_equal_int(common(c, 4, 5, 0, 1), 0, "in each node others");
    c = opened(1, 8,
               "{\"kind\": \"pcie\", \"devices_per_switch\": 4, "
               "\"uplink_bps\": 3e10}",
               "");
    tap_equal_text(widths(c, 0, 3), "8 8", "PCIe: below one switch");
    tap_equal_text(widths(c, 0, 4), "8 3 3 8", "PCIe: from switch to switch");
    tap_equal_int(common(c, 0, 4, 1, 5), 2, "who share both uplinks");
}

/* A ring of four, one link of it wide, and a stub. */
static void test_wires(void)
{
    const hw_cluster *c =
        opened(2, 5,
               "{\"kind\": \"links\", \"links\": ["
               "{\"from\": 0, \"to\": 1, \"bandwidth_bps\": 1e10},"
               "{\"from\": 1, \"to\": 2, \"bandwidth_bps\": 2e10},"
               "{\"from\": 2, \"to\": 3, \"bandwidth_bps\": 3e10},"
               "{\"from\": 3, \"to\": 0, \"bandwidth_bps\": 4e10},"
               "{\"from\": 4, \"to\": 3, \"bandwidth_bps\": 5e10}]}",
               "");
    tap_equal_text(widths(c, 0, 1), "1",
                   "links: the direct one, narrow as it "
                   "is");
    tap_equal_text(widths(c, 1, 3), "2 3", "links: of two ways the wider one");
    tap_equal_text(widths(c, 3, 1), "3 2", "and so back");
    tap_equal_text(widths(c, 6, 9), "2 3 5", "links: by way of others");
    tap_equal_int(common(c, 1, 3, 3, 1), 0, "each direction by itself");
    json_t *root = hw_cluster_to_json(c);
    hw_cluster *again;
    fs_err err = {0};
    hw_cluster_from_json("again.json", root, arena, &err, &again);
    json_decref(root);
    tap_ok(again->digest == c->digest, "wires are read as they were written");
    hw_scale by = {1, 1, 1, 2, 1, 1};
    tap_equal_text(widths(hw_cluster_scaled(c, &by, arena), 1, 3), "1 1.5",
                   "what slows a node's links slows its wires");
    const hw_cluster *part = hw_cluster_part(c, 1, 2, "1x2", arena);
    tap_equal_text(widths(part, 0, 1), "1", "a part keeps its wires");
    root = hw_cluster_to_json(part);
    tap_ok(hw_cluster_from_json("part.json", root, arena, &err, &again) ==
                   FS_OK &&
               again->digest == part->digest,
           "and is read again: %s", err.text);
    json_decref(root);
}

static void test_outside(void)
{
    const hw_cluster *c = opened(4, 4, "", "{\"rails\": true}");
    tap_equal_text(widths(c, 0, 4), "1 1", "rails: NIC to NIC");
    tap_equal_int(common(c, 0, 4, 1, 5), 0, "another device has another NIC");
    c = opened(4, 8, "", "{\"rails\": true}");
    tap_equal_int(common(c, 0, 8, 4, 12), 2, "of 8 devices two share one of 4");
    c = opened(4, 4, "", "{\"nodes_per_leaf\": 2, \"oversubscription\": 4}");
    tap_equal_text(widths(c, 0, 4), "4 4", "below one leaf nothing else");
    tap_equal_text(widths(c, 0, 8), "4 2 2 4",
                   "from leaf to leaf: 2 nodes' NICs over 4");
    tap_equal_int(common(c, 0, 8, 4, 12), 2, "which all of its nodes share");
    c = opened(4, 4, "",
               "{\"rails\": true, \"nodes_per_leaf\": 2, "
               "\"oversubscription\": 2}");
    tap_equal_text(widths(c, 0, 8), "1 1 1 1", "a leaf for each rail");
    tap_equal_text(widths(c, 0, 5), "1 1 1 1",
                   "from rail to rail by the spine");
    tap_equal_int(common(c, 0, 8, 1, 9), 0, "rails share nothing");
    c = opened(2, 4,
               "{\"kind\": \"pcie\", \"devices_per_switch\": 4, "
               "\"uplink_bps\": 3e10}",
               "");
    tap_equal_text(widths(c, 0, 4), "8 4 4 8",
                   "PCIe: what leaves the node leaves the device too");
}

/* Switches that add: a group's, a fabric's. */
static void test_in_switch(void)
{
    const char *fabric = "{\"in_switch\": {\"latency_s\": 6e-6, "
                         "\"bandwidth_bps\": 3e10, \"source\": \"x\"}}";
    const char *wiring = "{\"kind\": \"switch\", \"source\": \"y\"}, "
                         "\"in_switch\": {\"latency_s\": 5e-6, "
                         "\"bandwidth_bps\": 6e10}";
    const hw_cluster *c = opened(2, 4, wiring, fabric);
    hw_cluster *again;
    fs_err err = {0};
    tap_near(c->groups[0].in_switch.bandwidth_bps, 6e10, 1, "a node's");
    tap_near(c->fabric.in_switch.latency_s, 6e-6, 1e-12, "a fabric's");
    tap_ok(!hw_links_told(c), "links are ports as before");
    json_t *root = hw_cluster_to_json(c);
    tap_ok(hw_cluster_from_json("again.json", root, arena, &err, &again) ==
                   FS_OK &&
               again->digest == c->digest,
           "read as it was written");
    json_decref(root);
    tap_ok(opened(2, 4, "", fabric)->digest != opened(2, 4, "", "")->digest,
           "it is of what the machine is");
}

static void refused(const char *wiring, const char *fabric, const char *why)
{
    fs_err err;
    tap_ok(!try_open(2, 4, wiring, fabric, &err) && strstr(err.text, why),
           "refused: %s", err.text);
}

static void test_errors(void)
{
    refused("{\"kind\": \"torus\"}", "", "wiring.kind is 'torus'");
    refused("{\"kind\": \"links\", \"links\": [{\"from\": 0, \"to\": 4, "
            "\"bandwidth_bps\": 1e9}]}",
            "", "wiring.links[0].to is 4, outside 0 to 3");
    refused("{\"kind\": \"links\", \"links\": [{\"from\": 0, \"to\": \"x\", "
            "\"bandwidth_bps\": 1e9}]}",
            "", "wiring.links[0].to must be a whole number");
    refused("{\"kind\": \"links\", \"links\": [{\"from\": 0, \"to\": 1, "
            "\"bandwidth_bps\": 0}]}",
            "", "wiring.links[0].bandwidth_bps is 0");
    refused("{\"kind\": \"links\", \"links\": [{\"from\": 2, \"to\": 2, "
            "\"bandwidth_bps\": 1e9}]}",
            "", "joins two devices");
    refused("{\"kind\": \"links\", \"links\": [{\"from\": 0, \"to\": 1, "
            "\"bandwidth_bps\": 1e9}, {\"from\": 1, \"to\": 0, "
            "\"bandwidth_bps\": 1e9}]}",
            "", "a second time");
    refused("{\"kind\": \"links\", \"links\": [{\"from\": 0, \"to\": 1, "
            "\"bandwidth_bps\": 1e9}, {\"from\": 2, \"to\": 3, "
            "\"bandwidth_bps\": 1e9}]}",
            "", "lead from device 0 to nowhere near device 2");
    refused("{\"kind\": \"mesh\", \"bandwidth_bps\": 0}", "",
            "wiring.bandwidth_bps is 0");
    refused("{\"kind\": \"mesh\", \"bandwidth\": 1e9}", "",
            "wiring.bandwidth is an unknown key");
    refused("{\"kind\": \"pcie\", \"devices_per_switch\": 0, "
            "\"uplink_bps\": 1e9}",
            "", "devices_per_switch is 0");
    refused("", "{\"nodes_per_leaf\": 2}", "oversubscription is missing");
    refused("", "{\"nodes_per_leaf\": 2, \"oversubscription\": 0}",
            "oversubscription is 0, must be from 1");
    refused("", "{\"nodes_per_leaf\": 0, \"oversubscription\": 2}",
            "nodes_per_leaf is 0");
    refused("", "{\"in_switch\": {\"latency_s\": 1e-6}}",
            "in_switch.bandwidth_bps is missing");
    refused("", "{\"rail\": true}", "fabric.rail is an unknown key");
}

int main(void)
{
    arena = fs_arena_create();
    test_default();
    test_inside();
    test_wires();
    test_outside();
    test_in_switch();
    test_errors();
    fs_arena_destroy(arena);
    return tap_done();
}
