/* Do measured points name what there is? */
#ifndef FS_COST_POINTS_H
#define FS_COST_POINTS_H

#include "hw/cluster.h"

/* FS_INVALID names `file`, the field and a name in it that is no op, no class
 * of ops, and nothing else that is measured (hw/samples.h), or no collective:
 * such a point would be used by nothing, and nobody would know. */
fs_status cost_points_check(const hw_cluster *cluster, const char *file,
                            fs_err *err);

#endif
