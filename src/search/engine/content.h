/* Contents of a network that is being reduced (content.c): a deep network has
 * few different ones, and what was done with some need not be done with equal
 * ones again. Internal to this folder. */
#ifndef FS_SEARCH_CONTENT_H
#define FS_SEARCH_CONTENT_H

#include "search/engine/cfn.h"

/* Numbers of equal contents are equal while search_cfn_reduce runs. Of a table
 * that a number was asked of, which is then not changed but copied; */
int32_t search_content_of_pair(search_cfn *cfn, search_pair *pair);
/* of a node's own costs; the number is forgotten when they change; */
int32_t search_content_of_unary(search_cfn *cfn, int32_t node);
void search_content_forget(search_cfn *cfn, int32_t node);
/* and of a choice among n values. */
int32_t search_content_of_choice(search_cfn *cfn, const bool *keep, int32_t n);

/* What is done with contents. */
typedef enum search_deed {
    SEARCH_DEED_FOLD,
    SEARCH_DEED_ADD,
    SEARCH_DEED_KEEP,
    SEARCH_DEED_ARCS,
    SEARCH_DEED_SPLIT,
    SEARCH_DEED_GOLDSTEIN
} search_deed;

/* And what that gave, of which each deed has its part. */
typedef struct search_outcome {
    bool known;      /* else whoever asked is to tell the rest */
    double *cost;    /* a table that pairs share, */
    bool forbids;    /* with an entry that is not finite, */
    int32_t content; /* and its number */
    uint16_t *best;
    bool *keep; /* NULL: all values */
} search_outcome;

/* A deed and the numbers that it depends on. */
enum { SEARCH_DEED_CONTENTS = 64 };
typedef struct search_deed_key {
    int32_t n;
    int32_t at[SEARCH_DEED_CONTENTS];
} search_deed_key;
void search_deed_add(search_deed_key *key, int32_t number);
/* A table as one of its ends sees it. */
void search_deed_add_side(search_cfn *cfn, search_deed_key *key,
                          search_pair *pair, int32_t node);
/* Does it take longer to go through so many entries than to ask? Never where no
 * reductions run. */
bool search_is_worth(const search_cfn *cfn, int64_t entries);
/* NULL: there are too many numbers. */
search_outcome *search_deed_of(search_cfn *cfn, const search_deed_key *key);

/* Values that a deed keeps: notes what was found, where it is not known yet. */
bool *search_outcome_keep(search_cfn *cfn, search_outcome *outcome,
                          const bool *found, int32_t n);

/* search_cfn_add of an outcome's table (rows of u), which pairs share. */
void search_cfn_join(search_cfn *cfn, int32_t u, int32_t v,
                     const search_outcome *table);

/* While reductions run. */
void search_contents_begin(search_cfn *cfn, fs_arena *arena);
void search_contents_end(search_cfn *cfn);

#endif
