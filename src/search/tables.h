/* Tables of nodes and of edges, by all that they depend on (tables.c).
 * Internal to this folder. */
#ifndef FS_SEARCH_TABLES_H
#define FS_SEARCH_TABLES_H

#include "search/level0.h"

/* Signatures and seconds of all nodes that look alike. From value `kept` on
 * copies of what changes once per step are made anew for the node, from `left`
 * on it is left out. */
typedef struct search_domain {
    int32_t n, kept, left;
    ir_nd_sig *sig;
    double *seconds;
} search_domain;

/* Those of one network, or of all cuts: keys are of what nodes, meshes and
 * places are. */
typedef struct search_tables {
    fs_arena *arena;
    search_memo alike;    /* words -> domain */
    search_memo filtered; /* domain and mask -> domain */
    search_memo lasting;  /* domain and how long copies live -> domain */
    search_memo loose;    /* domain -> domain */
    search_memo gone;     /* domain -> domain */
    FS_VEC(search_domain) domains;
    search_memo pairs; /* edges -> table */
    FS_VEC(double *) table;
    FS_VEC(double)
    apart; /* of each table; INFINITY: it is not between pieces */
    search_scaler scaler;
} search_tables;

/* None yet; they live in the arena. */
search_tables *search_tables_create(fs_arena *arena);

/* Those of all cuts with its graph and rates, for one hand to add to until they
 * are put back; NULL: its network has its own. */
search_tables *search_take_tables(search_level0 *z, const search_candidate *c);
void search_put_back_tables(search_level0 *z, search_tables *tables);
void search_destroy_tables(search_level0 *z);

#endif
