#include "config.h"
#include "cli/ranks.h"

#include "exec/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 96 };

/* What Open MPI must be told on a workstation: root is allowed where the user
 * is root, more ranks than cores too, and nobody is bound to one core. Values
 * that the user has set stay. */
static void set_environment(void)
{
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
}

static const char *own_path(fs_arena *arena, const char *program)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    return n > 0 ? fs_strndup(arena, self, (size_t)n) : program;
}

static fs_status outcome(cli *c, int raw, int32_t n)
{
    if (WIFEXITED(raw) && WEXITSTATUS(raw) == 0)
        return FS_OK;
    if (WIFEXITED(raw) && WEXITSTATUS(raw) <= FS_FAULT)
        return fs_fail(&c->err, (fs_status)WEXITSTATUS(raw),
                       "a rank of %d ended with status %d (its message stands "
                       "above)",
                       n, WEXITSTATUS(raw));
    if (WIFEXITED(raw) && WEXITSTATUS(raw) == 127)
        return fs_fail(&c->err, FS_FAULT, "cannot start %s", FS_MPIRUN);
    return fs_fail(&c->err, FS_FAULT,
                   "the ranks were ended by a signal "
                   "(mpirun status 0x%x)",
                   (unsigned)raw);
}

bool cli_am_rank(void)
{
    return exec_started_by_mpirun() || getenv("FS_RANKS_OF");
}

fs_status cli_start_ranks(cli *c, int32_t n, const char *const *words)
{
    const char *argv[MAX_WORDS];
    int count = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    if (n > 1) {
        argv[count++] = FS_MPIRUN;
        argv[count++] = "-q";
        argv[count++] = "-n";
        argv[count++] = number;
    }
    argv[count++] = own_path(c->arena, c->program);
    for (; *words && count < MAX_WORDS - 1; words++)
        argv[count++] = *words;
    FS_ASSERT(!*words);
    argv[count] = NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return fs_fail(&c->err, FS_FAULT, "fork: %s", strerror(errno));
    if (child == 0) {
        set_environment();
        setenv("FS_DATA", c->data_dir, 1);
        setenv("FS_RANKS_OF", "1", 1);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int raw;
    while (waitpid(child, &raw, 0) < 0)
        if (errno != EINTR)
            return fs_fail(&c->err, FS_FAULT, "waitpid: %s", strerror(errno));
    return outcome(c, raw, n);
}
