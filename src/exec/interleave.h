/* Where a test that steps all threads itself decides in the place of the loop,
 * or looks on (INTERLEAVINGS.md). In every other build nothing is left of it.
 */
#ifndef FS_EXEC_INTERLEAVE_H
#define FS_EXEC_INTERLEAVE_H

#include "exec/rank.h"

#ifdef FS_INTERLEAVE
/* Which of these streams is looked at next, a bit each: any is right. */
int exec_interleave_stream(uint64_t streams);
/* The head of the stream has fired; what it makes is about to be handed on. */
void exec_interleave_fired(const exec_rank *rank, int32_t stream);
void exec_interleave_done(const exec_rank *rank, int32_t stream);
#else
static inline int exec_interleave_stream(uint64_t streams)
{
    return __builtin_ctzll(streams);
}
static inline void exec_interleave_fired(const exec_rank *rank, int32_t stream)
{
    (void)rank;
    (void)stream;
}
static inline void exec_interleave_done(const exec_rank *rank, int32_t stream)
{
    (void)rank;
    (void)stream;
}
#endif

#endif
