/* Inside `validate`: a row being understood. Each part says true, or has set
 * the case's `skip`. */
#ifndef FS_CLI_VALIDATE_READER_H
#define FS_CLI_VALIDATE_READER_H

#include "cli/validate.h"
#include "hw/cluster.h"

typedef struct validate_reader {
    const validate_row *row;
    validate_machines *machines;
    fs_arena *arena;
    validate_case *out;
    fs_text assumed;
    const char *family; /* of the zoo: gpt, llama, moe, bert, cnn, vit; "" */
    int64_t seq;        /* words of a sequence; 0: it has none */
    const hw_cluster
        *usual; /* its devices, and how those are joined as a rule */
} validate_reader;

/* False: the reason is the case's, and its arguments are printed. */
bool validate_skip(validate_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What the row does not tell and has one usual value. */
void validate_assume(validate_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Is the part in the text, in capitals or not? */
bool validate_has(const char *text, const char *part);

/* A text that a column may have, and what it means. */
typedef struct validate_word {
    const char *text, *means;
} validate_word;
/* NULL: none of them, up to one whose text is NULL. Capitals, remarks in
 * parentheses at the end and which of "-_ " parts words count nothing; "" means
 * what the word "" does. */
const char *validate_word_of(const char *text, const validate_word *known);
/* Is each word of it (letters and digits) one of these? The first that is not
 * is copied into `other`. */
bool validate_all_words(const char *text, const char *const *known,
                        char other[32]);

/* Is any word of it, its letters alone ("NVLink3": nvlink), one of these? What
 * the first of them means; NULL: none. */
const char *validate_any_word(const char *text, const validate_word *known);

/* Of kinds as tables have them, "gpt(mpt)", "gpt-neox", "llama2"; NULL: none.
 */
const char *validate_family(const char *arch);

/* ---- the parts, in their order ---- */
bool validate_take_measured(validate_reader *r);
bool validate_take_network(validate_reader *r);
bool validate_take_cluster(validate_reader *r);
/* Rates of inter_link; a case without one: it tells none. */
bool validate_take_wires(validate_reader *r);
bool validate_take_recipe(validate_reader *r);
/* Whether all that the row tells can be true of one run (validate_sound.c). */
bool validate_check_sound(validate_reader *r);

/* Times, and rates that tell one. */
bool validate_check_times(validate_reader *r);
/* Weights of a transformer's layers; of a mixture as if it had one expert. */
double validate_weights(const validate_reader *r);

#endif
