/* The reductions (reductions.def), one file each, and the worklist that calls
 * them. A reduction looks at one node or pair and changes the network through
 * cfn.h; each change says here what it may have made possible, so that no
 * reduction knows another. Internal to this folder. */
#ifndef FS_SEARCH_REDUCE_H
#define FS_SEARCH_REDUCE_H

#include "search/engine/cfn.h"

/* One look at node or pair `at`, which is live. */
typedef void search_reduction_fn(search_cfn *cfn, int32_t at);
#define SEARCH_REDUCTION(NAME, name, of, what)                                 \
    search_reduction_fn search_reduce_##name;
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION

/* What changed. All do nothing outside search_cfn_reduce. */
void search_unary_changed(search_cfn *cfn, int32_t node);
void search_pair_changed(search_cfn *cfn, int32_t pair); /* or is new */
void search_domain_fell(search_cfn *cfn, int32_t node);
void search_degree_fell(search_cfn *cfn, int32_t node);

/* Bytes of nodes (usage.c). Those of a node whose values were dropped; */
void search_usage_keep(search_cfn *cfn, int32_t node, const bool *keep);
/* of a follower, which the leader holds from now on; */
void search_usage_follow(search_cfn *cfn, int32_t leader, int32_t follower,
                         const uint16_t *best);
/* the same with every value? Then they are held whatever is chosen. */
bool search_usage_level(const search_cfn *cfn, int32_t node);
void search_usage_hold(search_cfn *cfn, int32_t node);
/* Never more with t than with s? */
bool search_usage_below(const search_cfn *cfn, int32_t node, int32_t t,
                        int32_t s);
/* Sums up what a node, or each live one, holds at the same time. */
void search_usage_pack(search_cfn *cfn, int32_t node);
void search_usage_pack_all(search_cfn *cfn);

/* Room for one look: what was there before is lost. Not zeroed. */
void *search_reduce_room(search_cfn *cfn, size_t bytes);

#endif
