/* Equal layers become equal parts of a network, and reductions do the same with
 * each. So tables are numbered by what they contain, and what was made of some
 * numbers is remembered: minima over a node's values, sums of tables, values
 * that were dropped. Nothing is other than if it had been done anew, to the
 * bit. Numbers follow from those before where an outcome is known, else from
 * the entries, which are compared. */
#include "config.h"
#include "search/engine/content.h"

#include "search/engine/memo.h"

#include <string.h>

enum { WORTH = 256 };

/* What has a number; no padding. */
typedef struct known_entries {
    const void *at;
    size_t bytes;
} known_entries;

struct search_contents {
    fs_arena *arena;
    int32_t n;          /* numbers given: 0 is none */
    search_memo places; /* a shared table's place -> its number */
    search_memo looks;  /* hash and size of entries -> entries[], */
    FS_VEC(known_entries) entries;
    FS_VEC(int32_t) number; /* and their number */
    search_memo deeds;      /* -> outcomes[] */
    FS_VEC(search_outcome *) outcomes;
    int32_t *unary; /* [node] number */
};

static int32_t next_number(struct search_contents *c)
{
    return ++c->n;
}

/* Four lanes: one word waits for no other. */
static uint64_t hash_entries(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t lane[4] = {bytes, 1, 2, 3}, word[4] = {0};
    for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
        memcpy(word, at, sizeof word);
        for (int32_t k = 0; k < 4; k++) {
            lane[k] = (lane[k] ^ word[k]) * 0x9e3779b97f4a7c15u;
            lane[k] ^= lane[k] >> 29;
        }
    }
    memset(word, 0, sizeof word);
    memcpy(word, at, bytes);
    uint64_t hash = 0;
    for (int32_t k = 0; k < 4; k++)
        hash = (hash ^ lane[k] ^ word[k]) * 0xbf58476d1ce4e5b9u + (hash >> 31);
    return hash;
}

typedef struct look {
    uint64_t hash;
    int64_t bytes, rows;
} look;

/* `copy`: they do not stay as they are. */
static int32_t number_of_entries(struct search_contents *c, const void *data,
                                 size_t bytes, int32_t rows, bool copy)
{
    const look key = {hash_entries(data, bytes), (int64_t)bytes, rows};
    int32_t *known = search_memo_at(&c->looks, &key, sizeof key);
    if (*known >= 0)
        return memcmp(c->entries.at[*known].at, data, bytes) == 0
                   ? c->number.at[*known]
                   : next_number(c);
    *known = c->entries.n;
    const known_entries entries = {
        copy ? fs_memdup(c->arena, data, bytes) : data, bytes};
    fs_push(c->arena, &c->entries, entries);
    fs_push(c->arena, &c->number, next_number(c));
    return c->n;
}

int32_t search_content_of_pair(search_cfn *cfn, search_pair *pair)
{
    struct search_contents *c = cfn->contents;
    if (pair->content)
        return pair->content;
    if (pair->shared) {
        const void *place = pair->cost;
        int32_t *known = search_memo_at(&c->places, &place, sizeof(place));
        if (*known < 0)
            *known = next_number(c);
        return pair->content = *known;
    }
    const size_t cells = (size_t)cfn->dom[pair->u] * (size_t)cfn->dom[pair->v];
    pair->content = number_of_entries(c, pair->cost, cells * sizeof *pair->cost,
                                      cfn->dom[pair->u], false);
    pair->shared = true;
    return pair->content;
}

int32_t search_content_of_unary(search_cfn *cfn, int32_t node)
{
    struct search_contents *c = cfn->contents;
    if (!c->unary[node])
        c->unary[node] = number_of_entries(
            c, cfn->unary[node],
            (size_t)cfn->dom[node] * sizeof *cfn->unary[node], 0, true);
    return c->unary[node];
}

void search_content_forget(search_cfn *cfn, int32_t node)
{
    if (cfn->contents)
        cfn->contents->unary[node] = 0;
}

int32_t search_content_of_choice(search_cfn *cfn, const bool *keep, int32_t n)
{
    return number_of_entries(cfn->contents, keep, (size_t)n, -1, true);
}

void search_deed_add(search_deed_key *key, int32_t number)
{
    if (key->n < SEARCH_DEED_CONTENTS)
        key->at[key->n] = number;
    key->n++;
}

void search_deed_add_side(search_cfn *cfn, search_deed_key *key,
                          search_pair *pair, int32_t node)
{
    const int32_t number = search_content_of_pair(cfn, pair);
    search_deed_add(key, pair->u == node ? number : -number);
}

bool search_is_worth(const search_cfn *cfn, int64_t entries)
{
    return cfn->contents && entries >= WORTH;
}

search_outcome *search_deed_of(search_cfn *cfn, const search_deed_key *key)
{
    struct search_contents *c = cfn->contents;
    if (key->n > SEARCH_DEED_CONTENTS)
        return NULL;
    int32_t *known =
        search_memo_at(&c->deeds, key->at, (size_t)key->n * sizeof *key->at);
    if (*known < 0) {
        *known = c->outcomes.n;
        search_outcome *made = fs_new(c->arena, search_outcome, 1);
        made->content = next_number(c);
        fs_push(c->arena, &c->outcomes, made);
    }
    return c->outcomes.at[*known];
}

bool *search_outcome_keep(search_cfn *cfn, search_outcome *outcome,
                          const bool *found, int32_t n)
{
    if (!outcome->known && memchr(found, false, (size_t)n))
        outcome->keep = fs_memdup(cfn->contents->arena, found, (size_t)n);
    outcome->known = true;
    return outcome->keep;
}

void search_contents_begin(search_cfn *cfn, fs_arena *arena)
{
    struct search_contents *c = fs_new(arena, struct search_contents, 1);
    c->arena = c->places.arena = c->looks.arena = c->deeds.arena = arena;
    c->unary = fs_new(arena, int32_t, cfn->n);
    cfn->contents = c;
    for (int32_t p = 0; p < cfn->pairs.n; p++)
        cfn->pairs.at[p].content = 0;
}

void search_contents_end(search_cfn *cfn)
{
    cfn->contents = NULL;
}
