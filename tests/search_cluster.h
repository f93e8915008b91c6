/* Clusters for the tests of search. */
#ifndef FS_TESTS_SEARCH_CLUSTER_H
#define FS_TESTS_SEARCH_CLUSTER_H

#include "hw/cluster.h"

#include <stdio.h>
#include <stdlib.h>

static hw_cluster *open_cluster(const char *spec, fs_arena *arena)
{
    fs_err err = {0};
    hw_cluster *cluster = NULL;
    const char *root = getenv("FS_SRCDIR");
    const char *data = fs_printf(arena, "%s/datasets", root ? root : ".");
    if (hw_cluster_open(spec, data, arena, &err, &cluster) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return cluster;
}

#endif
