#include "config.h"
#include "base/crc.h"

#include <stdbool.h>
#include <string.h>

uint32_t fs_crc32c_plain(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t sum = ~crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    for (; bytes > 0; bytes--)
        sum = __builtin_ia32_crc32qi((uint32_t)sum, *at++);
    return ~(uint32_t)sum;
}

uint32_t fs_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, data, bytes)
                                            : fs_crc32c_plain(crc, data, bytes);
}
#else
uint32_t fs_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return fs_crc32c_plain(crc, data, bytes);
}
#endif
