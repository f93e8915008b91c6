/* On which cores a rank and its threads run. */
#ifndef FS_EXEC_BINDING_H
#define FS_EXEC_BINDING_H

#include <stdint.h>

/* Cores for all ranks of this host. */
int32_t exec_usable_cores(void);
/* The calling thread, to its share of the cores, of which there are so many for
 * the ranks of this host. */
void exec_bind_rank(int32_t on_host, int32_t cores);
/* Of a thread that waits more than it computes, at its beginning: where its
 * rank has cores to itself, it runs on whichever is free. */
void exec_bind_helper(void);

#endif
