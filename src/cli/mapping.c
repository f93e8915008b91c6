/* Which file is mapped where: for a handler of signals, so only calls that one
 * may make. */
#include "config.h"
#include "cli/guard.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static uintptr_t read_hex(const char **at)
{
    uintptr_t value = 0;
    for (;; ++*at) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uintptr_t)(c - 'a' + 10);
        else
            return value;
    }
}

/* "7f00-7f10 r--p 00000000 08:01 42    /path/of the.file" */
static bool holds(const char *line, uintptr_t address)
{
    uintptr_t low = read_hex(&line);
    line += *line == '-';
    return address >= low && address < read_hex(&line);
}

bool cli_mapping_at(const void *address, char *path, size_t room)
{
    enum { MOST = 4096 + 128 };
    char line[MOST], c;
    size_t n = 0;
    bool found = false;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    /* Byte by byte: it is read once, by a process that is about to end. */
    while (!found && file >= 0 && read(file, &c, 1) == 1) {
        if (c != '\n') {
            n += n + 1 < MOST ? 1 : 0;
            line[n - 1] = c;
            continue;
        }
        line[n] = '\0';
        n = 0;
        const char *name = strchr(line, '/');
        found = name && strlen(name) < room && holds(line, (uintptr_t)address);
        if (found)
            memcpy(path, name, strlen(name) + 1);
    }
    if (file >= 0)
        close(file);
    return found;
}
