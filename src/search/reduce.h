/* The reductions (reductions.def), one file each, and the worklist that calls
 * them. A reduction looks at one node or pair and changes the network through
 * cfn.h; each change says here what it may have made possible, so that no
 * reduction knows another. Internal to this folder. */
#ifndef FS_SEARCH_REDUCE_H
#define FS_SEARCH_REDUCE_H

#include "search/cfn.h"

/* One look at node or pair `at`, which is live. */
typedef void search_reduction_fn(search_cfn *cfn, int32_t at);
#define SEARCH_REDUCTION(NAME, name, of, what)                                 \
    search_reduction_fn search_reduce_##name;
#include "search/reductions.def"
#undef SEARCH_REDUCTION

/* What changed. All do nothing outside search_cfn_reduce. */
void search_unary_changed(search_cfn *cfn, int32_t node);
void search_pair_changed(search_cfn *cfn, int32_t pair); /* or is new */
void search_domain_fell(search_cfn *cfn, int32_t node);
void search_degree_fell(search_cfn *cfn, int32_t node);

/* Room for one look: what was there before is lost. Not zeroed. */
void *search_reduce_room(search_cfn *cfn, size_t bytes);

#endif
