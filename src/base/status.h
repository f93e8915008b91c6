/* Outcomes and messages. What can fail returns fs_status and takes an
 * fs_err, which the function that finds the fault fills once; callers only
 * pass the status on. */
#ifndef FS_BASE_STATUS_H
#define FS_BASE_STATUS_H

/* The numeric values are the program's exit statuses (CLI.md). */
typedef enum fs_status {
    FS_OK = 0,
    FS_NO = 1,      /* the answer is no: infeasible, check failed */
    FS_INVALID = 2, /* the input or usage is wrong */
    FS_FAULT = 3    /* a fault at run time */
} fs_status;

typedef struct fs_err {
    fs_status status;
    char text[1024]; /* one sentence, printable, no newline */
} fs_err;

/* Fills *err (when not NULL and still clean) and returns `status`. The first
 * fault wins: later calls on the same err keep its text. */
fs_status fs_fail(fs_err *err, fs_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text of an err already filled. */
void fs_err_prefix(fs_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns from the calling function when `call` does not give FS_OK. */
#define FS_TRY(call)                                                           \
    do {                                                                       \
        fs_status fs_try_status = (call);                                      \
        if (fs_try_status != FS_OK)                                            \
            return fs_try_status;                                              \
    } while (0)

/* Our own mistake: prints file:line and the condition, then aborts. */
#define FS_ASSERT(condition)                                                   \
    ((condition) ? (void)0 : fs_assert_failed(#condition, __FILE__, __LINE__))
void fs_assert_failed(const char *condition, const char *file, int line)
    __attribute__((noreturn));

#endif
