/* Loops over long rows of numbers, as wide as the machine has them. Include it
 * before the first function of a file that has such loops. */
#ifndef FS_BASE_WIDE_H
#define FS_BASE_WIDE_H

/* One body, compiled for three instruction sets, picked when the program is
 * loaded. Sanitizers instrument the resolver, which runs before their own
 * start-up, so their builds do without; clang 14 lacks the attribute. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) &&         \
    defined(__linux__) && !defined(__SANITIZE_ADDRESS__) &&                    \
    !defined(__SANITIZE_THREAD__)
#define FS_CLONES                                                              \
    __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FS_CLONES
#endif

/* Loops vectorise whatever -O the user gives; infinities stay exact. No product
 * is fused into a sum: AVX-512 would in whole vectors, and not in the rest. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math,fp-contract=off")
/* Before a loop whose output may be its input, element for element. */
#define FS_IVDEP _Pragma("GCC ivdep")
#else
#define FS_IVDEP
#endif

#endif
