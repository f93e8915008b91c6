/* How all-reduces are done: the rows of algorithms.def. */
#ifndef FS_EXEC_ALGORITHMS_H
#define FS_EXEC_ALGORITHMS_H

#include <stdbool.h>

typedef enum exec_algorithm {
#define EXEC_ALGORITHM(name) EXEC_##name,
#include "exec/algorithms.def"
#undef EXEC_ALGORITHM
    EXEC_ALGORITHMS
} exec_algorithm;

/* NULL: beyond the last row. */
const char *exec_algorithm_name(exec_algorithm algorithm);
/* False when no row is called so. */
bool exec_algorithm_find(const char *name, exec_algorithm *out);

#endif
