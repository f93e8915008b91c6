/* Numbers of keys: what is equal word by word is one. */
#include "config.h"
#include "cost/numbers.h"

#include <stddef.h>
#include <string.h>

/* A key that was met. */
typedef struct met {
    int32_t number;
    int64_t word[];
} met;

int32_t cost_number_of(cost_numbers *numbers, const ir_words *key, bool *known)
{
    const size_t bytes = (size_t)key->n * sizeof *key->at;
    FS_ASSERT(key->n <= key->room);
    const void *found = fs_intern_find(&numbers->known, key->at, bytes);
    *known = found != NULL;
    if (found)
        return ((const met *)((const char *)found - offsetof(met, word)))
            ->number;
    met *made = fs_alloc(numbers->known.arena, 1, sizeof *made + bytes);
    made->number = numbers->n++;
    memcpy(made->word, key->at, bytes);
    fs_intern_add(&numbers->known, made->word, bytes);
    return made->number;
}
