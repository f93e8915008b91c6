/* Text of others: names in files, cells of a database. */
#ifndef FS_BASE_TEXT_H
#define FS_BASE_TEXT_H

#include <stddef.h>

/* Bytes of the character at `at`, 0 when it is no UTF-8, or one that acts on a
 * terminal instead of showing: a control character (C0, C1, DEL), a separator
 * of lines, a change of direction. */
size_t fs_printable(const char *at, size_t left);

/* In place, "?" for each byte of what is not printable. */
void fs_make_printable(char *text);

#endif
