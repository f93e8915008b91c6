/* Numbers of keys. Internal to this folder. */
#ifndef FS_COST_NUMBERS_H
#define FS_COST_NUMBERS_H

#include "base/intern.h"
#include "ir/words.h"

/* Keys by the order in which they were met first. It begins with the arena of
 * `known`. */
typedef struct cost_numbers {
    fs_intern known;
    int32_t n;
} cost_numbers;
/* `known`: it was met before. */
int32_t cost_number_of(cost_numbers *numbers, const ir_words *key, bool *known);

#endif
