/* CRC-32C (Castagnoli, RFC 3720): what files carry so that damage is found. */
#ifndef FS_BASE_CRC_H
#define FS_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of what gave `crc` (0: nothing), followed by these bytes. By the processor's
 * own instruction where it has one. */
uint32_t fs_crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same without it: the oracle. */
uint32_t fs_crc32c_plain(uint32_t crc, const void *data, size_t bytes);

#endif
