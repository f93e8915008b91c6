/* How many plans can be priced: the usual recipes of one network, all of them.
 */
#ifndef FS_TESTS_BENCH_PRICING_H
#define FS_TESTS_BENCH_PRICING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pricing_case {
    const char *spec, *cluster, *datasets;
    int32_t layers, devices;
    bool fewer; /* plans may do with fewer devices; else have all */
} pricing_case;

typedef struct pricing_figures {
    int64_t plans, refused; /* distinct; that are none */
    int64_t fit;            /* in a device's memory, by the formula */
    int32_t sheets, meshes, checked;
    int32_t patterns, same; /* recipes; of these, completed as another one */
    /* of the processor: completing recipes by search, graphs of few layers,
     * sheets, prices (tables of meshes and what stages hold among them) */
    double patterns_s, graphs_s, sheets_s, prices_s;
    double again_s; /* prices of a mesh again, with all tables there, */
    int64_t again;  /* so many */
    double whole_s; /* cost_strategy of a plan written out */
    double off;     /* most that a price differs from that, relative; */
    int32_t wrong;  /* and how many differ in a byte */
} pricing_figures;

pricing_figures pricing_run(const pricing_case *c);

#endif
