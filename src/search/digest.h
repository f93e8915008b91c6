/* What a proof speaks of, as numbers. Internal to this folder. */
#ifndef FS_SEARCH_DIGEST_H
#define FS_SEARCH_DIGEST_H

#include "search/candidate.h"
#include "search/search.h"

/* Of the network, the devices and what they may take, and all that says which
 * plans there are to choose from; not of how they are looked for, nor for how
 * long. A filter counts as the recipe that made it. */
uint64_t search_question_digest(const search_problem *problem);
/* Of a cut besides the balanced ones, which the question does not tell; those
 * of several cuts, in any order, are added up. */
uint64_t search_cut_digest(const search_candidate *c);
/* Of what a proof speaks of: the question, and the cuts that were looked at. */
uint64_t search_space_digest(uint64_t question, uint64_t cuts);
/* Of the cluster with all its constants, and of what the formula makes of them
 * for the ops of the network and some conversions. */
uint64_t search_cost_digest(const search_problem *problem);

#endif
