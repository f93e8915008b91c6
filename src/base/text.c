#include "config.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the UTF-8 sequence at `at`, 0 when it is none. */
static size_t sequence_length(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return 1;
    size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong =
        (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool outside =
        (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return overlong || outside ? 0 : n;
}

static uint32_t code_of(const unsigned char *at, size_t n)
{
    uint32_t code = n == 1 ? at[0] : at[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (at[i] & 0x3fu);
    return code;
}

static bool acts(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
           (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

size_t fs_printable(const char *at, size_t left)
{
    const unsigned char *bytes = (const unsigned char *)at;
    size_t n = left ? sequence_length(bytes, left) : 0;
    return n > 0 && acts(code_of(bytes, n)) ? 0 : n;
}

void fs_make_printable(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t n = fs_printable(text, left);
        if (n == 0) {
            *text = '?';
            n = 1;
        }
        text += n;
        left -= n;
    }
}
