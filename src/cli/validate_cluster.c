/* The cluster of a row: which device, how many on a node, which wire between
 * nodes. */
#include "config.h"
#include "cli/validate_reader.h"

#include "base/hash.h"
#include "hw/devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what files tell, each read once ---- */

struct validate_machines {
    const char *data_dir, *folder; /* of clusters */
    fs_arena *arena;
    hw_names names;
    fs_map device;  /* of a name: its place in `bytes` */
    fs_map cluster; /* of a text: its place in `usual` */
    FS_VEC(double) bytes;
    FS_VEC(const hw_cluster *) usual;
};

validate_machines *validate_machines_create(const char *data_dir,
                                            fs_arena *arena)
{
    validate_machines *m = fs_new(arena, validate_machines, 1);
    m->data_dir = data_dir;
    m->folder = fs_printf(arena, "%s/clusters", data_dir);
    m->arena = m->device.arena = m->cluster.arena = arena;
    m->names = hw_device_names(m->folder, arena);
    return m;
}

static fs_status memory_of(validate_machines *m, const char *name, fs_err *err,
                           double *out)
{
    int32_t *at = fs_map_at(&m->device, name);
    if (*at < 0) {
        double bytes;
        FS_TRY(hw_device_memory(m->folder, name, m->arena, err, &bytes));
        *at = m->bytes.n;
        fs_push(m->arena, &m->bytes, bytes);
    }
    *out = m->bytes.at[*at];
    return FS_OK;
}

static fs_status usual_of(validate_machines *m, const char *text, fs_err *err,
                          const hw_cluster **out)
{
    int32_t *at = fs_map_at(&m->cluster, text);
    if (*at < 0) {
        hw_cluster *usual;
        FS_TRY(hw_cluster_open(text, m->data_dir, m->arena, err, &usual));
        *at = m->usual.n;
        fs_push(m->arena, &m->usual, usual);
    }
    *out = m->usual.at[*at];
    return FS_OK;
}

/* ---- the device ---- */

/* Gigabytes are told of 10^9 bytes and of 2^30; what a driver shows is less
 * than what was sold by as much at most. */
static bool has_memory(double bytes, int64_t gigabytes)
{
    const double more = 0x1p30 / 1e9;
    return bytes >= 1e9 * (double)gigabytes &&
           bytes <= 0x1p30 * more * (double)gigabytes;
}

/* Of those that the text may mean the last of that memory: where it is not
 * told, the one with most. */
static bool take_device(validate_reader *r, const char **out)
{
    const validate_row *row = r->row;
    const hw_meant meant =
        hw_devices_meant(&r->machines->names, row->gpu, r->arena);
    const int64_t gigabytes =
        row->gpu_mem_gb ? row->gpu_mem_gb : meant.gigabytes;
    fs_text known = {.arena = r->arena};
    int32_t fit = 0;
    double most = 0;
    if (row->gpu_mem_gb && meant.gigabytes &&
        row->gpu_mem_gb != meant.gigabytes)
        return validate_skip(r, "contradictory memory: %lld GB of a '%.60s'",
                             (long long)row->gpu_mem_gb, row->gpu);
    if (!meant.names.n)
        return validate_skip(r, "device '%.60s' is not known", row->gpu);
    for (int32_t i = 0; i < meant.names.n; i++) {
        fs_err err = {0};
        double bytes;
        if (memory_of(r->machines, meant.names.at[i], &err, &bytes) != FS_OK)
            return validate_skip(r, "%s", err.text);
        fs_text_add(&known, "%s%s of %.0f GB", i ? ", " : "", meant.names.at[i],
                    bytes / 0x1p30);
        if (gigabytes ? !has_memory(bytes, gigabytes) : bytes < most)
            continue;
        most = bytes;
        *out = meant.names.at[i];
        fit++;
    }
    if (!fit)
        return validate_skip(r,
                             "no device '%.60s' of %lld GB is known (known: "
                             "%s)",
                             row->gpu, (long long)gigabytes, known.at);
    if (meant.names.n > 1 && (!gigabytes || fit > 1))
        validate_assume(r, "%s", *out);
    return true;
}

/* ---- which wires they are ---- */

/* What words name; of an outer wire without a rate the kind must be the usual
 * one's, where frames go through hosts, or adapters that need none of them. */
static const validate_word kinds[] = {{"nvlink", "NVLink"},
                                      {"nvswitch", "NVLink"},
                                      {"pcie", "PCIe"},
                                      {"pci", "PCIe"},
                                      {"xgmi", "Infinity Fabric"},
                                      {"infinity", "Infinity Fabric"},
                                      {"ici", "ICI"},
                                      {"upi", "sockets"},
                                      {"socket", "sockets"},
                                      {"shared", "sockets"},
                                      {"ethernet", "Ethernet"},
                                      {"eth", "Ethernet"},
                                      {"tcp", "Ethernet"},
                                      {"ib", "RDMA"},
                                      {"infiniband", "RDMA"},
                                      {"qdr", "RDMA"},
                                      {"fdr", "RDMA"},
                                      {"edr", "RDMA"},
                                      {"hdr", "RDMA"},
                                      {"ndr", "RDMA"},
                                      {"xdr", "RDMA"},
                                      {"rdma", "RDMA"},
                                      {"roce", "RDMA"},
                                      {"rocev", "RDMA"},
                                      {"efa", "RDMA"},
                                      {"slingshot", "RDMA"},
                                      {"omnipath", "RDMA"},
                                      {NULL, NULL}};

/* Wires of a usual node have several names, "Ethernet or NDR InfiniBand". */
static bool is_of_kind(const char *name, const char *kind)
{
    validate_word one[sizeof kinds / sizeof kinds[0]];
    int32_t n = 0;
    for (const validate_word *k = kinds; k->text; k++)
        if (strcmp(k->means, kind) == 0)
            one[n++] = *k;
    one[n] = (validate_word){NULL, NULL};
    return validate_any_word(name, one) != NULL;
}

/* No more than a word says which wire it is: that must be the usual one. */
static bool take_kind(validate_reader *r, const char *column, const char *text,
                      const char *usual, bool counts)
{
    const char *kind = validate_any_word(text, kinds);
    if (!kind)
        return validate_skip(r, "%s '%.60s' is no wire that is known", column,
                             text);
    if (counts && !is_of_kind(usual, kind))
        return validate_skip(r,
                             "%s '%.60s' tells no rate, and the usual wire of "
                             "%s is another: %s",
                             column, text, r->usual->groups[0].device.name,
                             usual);
    return true;
}

/* Texts that tell of no wire: nothing, or that none is wanted. */
static const char *without_wire(const char *text)
{
    static const validate_word known[] = {{"", ""},
                                          {"n/a", ""},
                                          {"na", ""},
                                          {"-", ""},
                                          {"single-node", "one node"},
                                          {"none", "one node"},
                                          {"nvlink-only", "one node"},
                                          {NULL, NULL}};
    return validate_word_of(text, known);
}

/* Devices of a node are joined as in the usual one: rates there are told of
 * links, of both directions or of all, and count nothing. */
static bool take_inner(validate_reader *r)
{
    const char *text = r->row->intra_link,
               *usual = r->usual->groups[0].inner.name;
    const bool counts = r->usual->groups[0].devices_per_node > 1;
    const char *none = without_wire(text);
    if (!none)
        return take_kind(r, "intra_link", text, usual, counts);
    if (counts)
        validate_assume(r, "the usual links within a node, %s", usual);
    return true;
}

static bool take_outer(validate_reader *r)
{
    const char *text = r->row->inter_link, *usual = r->usual->outer.name;
    const bool counts = r->usual->groups[0].nodes > 1;
    const char *none = without_wire(text);
    if (none && none[0] && counts)
        return validate_skip(r,
                             "contradictory sizes: inter_link '%.60s', but %d "
                             "nodes",
                             text, r->usual->groups[0].nodes);
    if (!none && !validate_take_wires(r))
        return false;
    if (r->out->outer_bps > 0)
        return true;
    if (!none && !take_kind(r, "inter_link", text, usual, counts))
        return false;
    if (counts)
        validate_assume(r, "the usual wire between nodes, %s", usual);
    return true;
}

bool validate_take_cluster(validate_reader *r)
{
    const validate_row *row = r->row;
    const char *device = NULL;
    int64_t per_node = row->gpus_per_node;
    if (!take_device(r, &device))
        return false;
    if (!per_node) {
        per_node = 8;
        validate_assume(r, "8 devices per node");
    }
    const int64_t on_node = row->gpus < per_node ? row->gpus : per_node;
    if (row->gpus % on_node)
        return validate_skip(r,
                             "contradictory sizes: %lld devices are no whole "
                             "number of nodes of %lld",
                             (long long)row->gpus, (long long)per_node);
    r->out->cluster =
        fs_printf(r->arena, "%lldx%lld:%s", (long long)(row->gpus / on_node),
                  (long long)on_node, device);
    fs_err err = {0};
    if (usual_of(r->machines, r->out->cluster, &err, &r->usual) != FS_OK)
        return validate_skip(r, "%s", err.text);
    return take_inner(r) && take_outer(r);
}
