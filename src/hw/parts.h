/* What the readers of cluster files and of device files share. */
#ifndef FS_HW_PARTS_H
#define FS_HW_PARTS_H

#include "base/json.h"
#include "hw/cluster.h"

enum { HW_MAX_DEVICES = 1000000 };

/* Objects of the JSON form; texts are copied into the arena. */
fs_status hw_read_device(const fs_json *in, fs_arena *arena, fs_err *err,
                         hw_device *out);
fs_status hw_read_link(const fs_json *in, const char *key, fs_arena *arena,
                       fs_err *err, hw_link *out);
/* "outer" with its nics_per_node. */
fs_status hw_read_outer(const fs_json *in, fs_arena *arena, fs_err *err,
                        hw_cluster *out);

/* Seconds of a message, bytes in a second, as any link has. */
fs_status hw_read_latency(const fs_json *in, const char *key, fs_err *err,
                          double *out);
fs_status hw_read_bps(const fs_json *in, const char *key, fs_err *err,
                      double *out);
/* "wiring" of a group of nodes with so many devices, "fabric" of a cluster;
 * where it is not there, nothing is written. */
fs_status hw_read_wiring(const fs_json *group, int32_t devices, fs_arena *arena,
                         fs_err *err, hw_wiring *out);
fs_status hw_read_fabric(const fs_json *cluster, fs_err *err, hw_fabric *out);
/* "collectives" of a group or a device file, of `most` ranks at most, where it
 * is there. */
fs_status hw_read_collectives(const fs_json *node, int32_t most,
                              fs_arena *arena, fs_err *err, hw_group *out);
json_t *hw_collectives_json(const hw_group *group);
/* "in_switch" of a group, a device file's node or a fabric, likewise. */
fs_status hw_read_reduction(const fs_json *in, fs_err *err, hw_reduction *out);
json_t *hw_reduction_json(const hw_reduction *reduction);
json_t *hw_wiring_json(const hw_wiring *wiring);
json_t *hw_fabric_json(const hw_fabric *fabric);

/* NODESxDEVICES:NAME[+...] */
fs_status hw_synthetic_open(const char *spec, const char *data_dir,
                            fs_arena *arena, fs_err *err, hw_cluster **out);

/* The JSON form (owned by the caller); without name and host when `figures`. */
json_t *hw_cluster_json(const hw_cluster *cluster, bool figures);

#endif
