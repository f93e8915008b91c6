#ifndef FS_EXEC_FAILPOINT_H
#define FS_EXEC_FAILPOINT_H
typedef struct exec_failpoints exec_failpoints;
enum { EXEC_AT_SAVE, EXEC_AT_SYNC, EXEC_AT_COMMIT, EXEC_AT_COMMITTED };
static inline int exec_failpoint_come(exec_failpoints *f, int at)
{
    (void)f;
    (void)at;
    return 0;
}
static inline exec_failpoints *exec_world_failpoints(void *w)
{
    (void)w;
    return 0;
}
#endif
