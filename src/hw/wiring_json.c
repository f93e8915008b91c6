/* How devices and nodes are joined, in cluster files: "wiring" of a group,
 * "fabric" of the whole. What is not said is as it always was, and not
 * written. */
#include "config.h"
#include "hw/links.h"
#include "hw/parts.h"

#include <string.h>

static const char *const kinds[HW_WIRED_KINDS] = {"switch", "pcie", "mesh",
                                                  "links"};

/* ---- wiring ---- */

static fs_status read_kind(const fs_json *in, fs_err *err, hw_wiring *out)
{
    const char *kind;
    FS_TRY(fs_json_text(in, "kind", err, &kind));
    for (int32_t i = 0; i < HW_WIRED_KINDS; i++)
        if (strcmp(kind, kinds[i]) == 0) {
            out->kind = (hw_wiring_kind)i;
            return FS_OK;
        }
    return fs_json_fail(in, "kind", err,
                        "is '%s', must be switch, pcie, mesh or links", kind);
}

static fs_status read_wired_devices(const fs_json *in, int32_t devices,
                                    fs_err *err, hw_wiring *out)
{
    int64_t n = devices;
    if (fs_json_has(in, "devices"))
        FS_TRY(fs_json_int(in, "devices", devices, HW_MOST_WIRED, err, &n));
    if (n > HW_MOST_WIRED)
        return fs_json_fail(in, "kind", err,
                            "is of nodes of at most %d devices, this one has "
                            "%lld",
                            HW_MOST_WIRED, (long long)n);
    out->devices = (int32_t)n;
    return FS_OK;
}

static fs_status read_wire(const fs_json *list, size_t i, fs_err *err,
                           hw_wiring *out)
{
    static const char *const keys[] = {"from", "to", "bandwidth_bps", NULL};
    fs_json wire;
    int64_t a, b;
    hw_wire *w = &out->wires[i];
    FS_TRY(fs_json_item(list, i, err, &wire));
    FS_TRY(fs_json_keys(&wire, keys, err));
    FS_TRY(fs_json_int(&wire, "from", 0, out->devices - 1, err, &a));
    FS_TRY(fs_json_int(&wire, "to", 0, out->devices - 1, err, &b));
    FS_TRY(hw_read_bps(&wire, "bandwidth_bps", err, &w->bandwidth_bps));
    if (a == b)
        return fs_json_fail(&wire, "to", err,
                            "is %lld as its other end: a link joins two "
                            "devices",
                            (long long)b);
    w->a = (int32_t)a;
    w->b = (int32_t)b;
    for (size_t k = 0; k < i; k++)
        if ((out->wires[k].a == a && out->wires[k].b == b) ||
            (out->wires[k].a == b && out->wires[k].b == a))
            return fs_json_fail(&wire, "to", err,
                                "joins devices %lld and %lld a second time: "
                                "links side by side are one with the sum of "
                                "their bandwidths",
                                (long long)a, (long long)b);
    return FS_OK;
}

static fs_status read_wires(const fs_json *in, fs_arena *arena, fs_err *err,
                            hw_wiring *out)
{
    fs_json list;
    int32_t a, b;
    FS_TRY(fs_json_array(in, "links", err, &list));
    const size_t n = json_array_size(list.value);
    if (n > HW_MOST_WIRED * (HW_MOST_WIRED - 1) / 2)
        return fs_json_fail(in, "links", err, "are %zu, too many", n);
    out->wires = fs_new(arena, hw_wire, n);
    for (size_t i = 0; i < n; i++)
        FS_TRY(read_wire(&list, i, err, out));
    out->n_wires = (int32_t)n;
    if (hw_wiring_parted(out, &a, &b))
        return fs_json_fail(in, "links", err,
                            "lead from device %d to nowhere near device %d", a,
                            b);
    return FS_OK;
}

fs_status hw_read_wiring(const fs_json *group, int32_t devices, fs_arena *arena,
                         fs_err *err, hw_wiring *out)
{
    static const char *const keys[HW_WIRED_KINDS][5] = {
        {"kind", "source", NULL},
        {"kind", "devices_per_switch", "uplink_bps", "source", NULL},
        {"kind", "devices", "bandwidth_bps", "source", NULL},
        {"kind", "devices", "links", "source", NULL}};
    fs_json in;
    int64_t per;
    if (!fs_json_has(group, "wiring"))
        return FS_OK;
    FS_TRY(fs_json_object(group, "wiring", err, &in));
    FS_TRY(read_kind(&in, err, out));
    FS_TRY(fs_json_keys(&in, keys[out->kind], err));
    if (out->kind == HW_WIRED_PCIE) {
        FS_TRY(fs_json_int(&in, "devices_per_switch", 1, HW_MAX_DEVICES, err,
                           &per));
        out->devices_per_switch = (int32_t)per;
        return hw_read_bps(&in, "uplink_bps", err, &out->bandwidth_bps);
    }
    if (out->kind == HW_WIRED_SWITCH)
        return FS_OK;
    FS_TRY(read_wired_devices(&in, devices, err, out));
    if (out->kind == HW_WIRED_MESH)
        return hw_read_bps(&in, "bandwidth_bps", err, &out->bandwidth_bps);
    return read_wires(&in, arena, err, out);
}

json_t *hw_wiring_json(const hw_wiring *wiring)
{
    json_t *out = json_object(), *list;
    fs_json_set_text(out, "kind", kinds[wiring->kind]);
    if (wiring->kind == HW_WIRED_PCIE) {
        fs_json_set_int(out, "devices_per_switch", wiring->devices_per_switch);
        fs_json_set_real(out, "uplink_bps", wiring->bandwidth_bps);
        return out;
    }
    fs_json_set_int(out, "devices", wiring->devices);
    if (wiring->kind == HW_WIRED_MESH) {
        fs_json_set_real(out, "bandwidth_bps", wiring->bandwidth_bps);
        return out;
    }
    list = json_array();
    for (int32_t i = 0; i < wiring->n_wires; i++) {
        json_t *wire = json_object();
        fs_json_set_int(wire, "from", wiring->wires[i].a);
        fs_json_set_int(wire, "to", wiring->wires[i].b);
        fs_json_set_real(wire, "bandwidth_bps", wiring->wires[i].bandwidth_bps);
        json_array_append_new(list, wire);
    }
    json_object_set_new(out, "links", list);
    return out;
}

/* ---- reductions in switches ---- */

fs_status hw_read_reduction(const fs_json *in, fs_err *err, hw_reduction *out)
{
    static const char *const keys[] = {"latency_s", "bandwidth_bps", "source",
                                       NULL};
    fs_json its;
    if (!fs_json_has(in, "in_switch"))
        return FS_OK;
    FS_TRY(fs_json_object(in, "in_switch", err, &its));
    FS_TRY(fs_json_keys(&its, keys, err));
    FS_TRY(hw_read_latency(&its, "latency_s", err, &out->latency_s));
    return hw_read_bps(&its, "bandwidth_bps", err, &out->bandwidth_bps);
}

json_t *hw_reduction_json(const hw_reduction *reduction)
{
    json_t *out = json_object();
    fs_json_set_real(out, "latency_s", reduction->latency_s);
    fs_json_set_real(out, "bandwidth_bps", reduction->bandwidth_bps);
    return out;
}

/* ---- fabric ---- */

fs_status hw_read_fabric(const fs_json *cluster, fs_err *err, hw_fabric *out)
{
    static const char *const keys[] = {
        "rails",     "nodes_per_leaf", "oversubscription",
        "in_switch", "source",         NULL};
    enum { MOST = 1000 };
    fs_json in;
    int64_t nodes = 0;
    if (!fs_json_has(cluster, "fabric"))
        return FS_OK;
    FS_TRY(fs_json_object(cluster, "fabric", err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    if (fs_json_has(&in, "rails"))
        FS_TRY(fs_json_bool(&in, "rails", err, &out->rails));
    FS_TRY(hw_read_reduction(&in, err, &out->in_switch));
    if (!fs_json_has(&in, "nodes_per_leaf") &&
        !fs_json_has(&in, "oversubscription"))
        return FS_OK;
    FS_TRY(fs_json_int(&in, "nodes_per_leaf", 1, HW_MAX_DEVICES, err, &nodes));
    out->nodes_per_leaf = (int32_t)nodes;
    FS_TRY(
        fs_json_number(&in, "oversubscription", err, &out->oversubscription));
    if (!(out->oversubscription >= 1 && out->oversubscription <= MOST))
        return fs_json_fail(&in, "oversubscription", err,
                            "is %g, must be from 1 to %d",
                            out->oversubscription, MOST);
    return FS_OK;
}

json_t *hw_fabric_json(const hw_fabric *fabric)
{
    json_t *out = json_object();
    fs_json_set_bool(out, "rails", fabric->rails);
    if (fabric->nodes_per_leaf > 0) {
        fs_json_set_int(out, "nodes_per_leaf", fabric->nodes_per_leaf);
        fs_json_set_real(out, "oversubscription", fabric->oversubscription);
    }
    if (fabric->in_switch.bandwidth_bps > 0)
        json_object_set_new(out, "in_switch",
                            hw_reduction_json(&fabric->in_switch));
    return out;
}
