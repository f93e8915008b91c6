/* make bench: what lowering GPT-3 175B takes, in CPU time of one core. */
#include "config.h"

#include "plan_scale.h"

int main(void)
{
    static const int32_t devices[] = {8, 64, 1024, 16384};

    for (int32_t i = 0; i < 4; i++) {
        scale_case c = {4, devices[i] / 4};
        double best = INFINITY;
        char text[64];
        for (int32_t k = 0; k < 3; k++)
            best = fmin(best, scale_lower(&c).cpu_s);
        snprintf(text, sizeof text, "lowering of GPT-3 175B: %d devices",
                 (int)devices[i]);
        printf("| %-52s | %10.4g | %-8s | %-12s |\n", text, best, "s", "< 1");
        fflush(stdout);
    }
    return 0;
}
