/* flowsearch validate: devices and wires as people write them, or what is wrong
 * with them. */
#include "config.h"
#include "tests/cli_rows.h"

static void test_devices(void)
{
    static const wrong rows[] = {
        {"gpu_mem_gb=13", "no device 'A100-SXM4' of 13 GB is known (known: "
                          "a100-sxm4-40g of 40 GB, a100-sxm4-80g of 80 GB)"},
        {"gpu=L4|gpu_mem_gb=48", "no device 'L4' of 48 GB"},
        {"gpu=A10|gpu_mem_gb=", "device 'A10' is not known"},
        {"gpu=A100-SXM4-80GB|gpu_mem_gb=40", "contradictory memory"},
        {"gpu=RTX|gpu_mem_gb=12", "no device 'RTX' of 12 GB"},
        {"gpu=TPU v5|gpu_mem_gb=", "device 'TPU v5' is not known"},
        {"gpu=(none)", "device '(none)' is not known"},
    };
    static const struct {
        const char *changes, *device;
    } known[] = {
        {"gpu=L4 (PCIe)|gpu_mem_gb=24", "1x4:l4"},
        {"gpu=L4|gpu_mem_gb=", "1x4:l4"},
        {"gpu=RTX 3090|gpu_mem_gb=24", "1x4:rtx-3090"},
        {"gpu=NVIDIA A100-SXM4-40GB|gpu_mem_gb=", "1x4:a100-sxm4-40g"},
        {"gpu=NVIDIA H100 80GB HBM3|gpu_mem_gb=", "1x4:h100-sxm5-80g"},
        {"gpu=H100-SXM", "1x4:h100-sxm5-80g"},
        {"gpu=h100_pcie", "1x4:h100-pcie-80g"},
        {"gpu=Tesla V100-SXM2|gpu_mem_gb=16", "1x4:v100-sxm2-16g"},
        {"gpu=A100-SXM4|gpu_mem_gb=", "1x4:a100-sxm4-80g"},
        {"gpu=GH200|gpu_mem_gb=144", "1x4:gh200-sxm"},
        {"gpu=TPU v4|gpu_mem_gb=|precision=bf16", "1x4:tpuv4"},
        {"gpu=Google Cloud TPU v5e|gpu_mem_gb=|precision=bf16", "1x4:tpuv5e"},
        {"gpu=RTX3090|gpu_mem_gb=24", "1x4:rtx-3090"},
        {"gpu=A100SXM4-80GB|gpu_mem_gb=", "1x4:a100-sxm4-80g"},
    };
    enum { KNOWN = sizeof known / sizeof known[0] };
    ALL_SKIPPED(rows);
    begin();
    for (int i = 0; i < KNOWN; i++)
        add_row(known[i].changes);
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), KNOWN, "devices as people write them");
    for (int i = 0; i < KNOWN; i++)
        tap_equal_text(detail(a, (size_t)i, "cluster"), known[i].device, "%s",
                       known[i].changes);
}

static void test_wires(void)
{
    static const wrong rows[] = {
        {"inter_link=-5 Gb/s", "inter_link '-5 Gb/s': no such wire"},
        {"inter_link=0 Gb/s", "inter_link '0 Gb/s': no such wire"},
        {"inter_link=0.0 GB/s", "no such wire"},
        {"inter_link=8x HDR 0 Gb/s", "no such wire"},
        {"inter_link=0x HDR 200 Gb/s", "no such wire"},
        {"inter_link=100x HDR 200 Gb/s", "no such wire"},
        {"inter_link=1e9 Gb/s", "no such wire"},
        {"inter_link=2000000 Gb/s", "no such wire"},
        {"inter_link=200", "a number without a unit"},
        {"inter_link=banana", "inter_link 'banana' is no wire that is known"},
        {"intra_link=banana", "intra_link 'banana' is no wire that is known"},
        {"intra_link=PCIe 4.0", "the usual wire of a100-sxm4-80g is another: "
                                "NVLink3"},
        {"gpu=L4|gpu_mem_gb=24|intra_link=NVLink", "of l4 is another: PCIe"},
        {"gpus_per_node=2|inter_link=Ethernet", "inter_link 'Ethernet' tells "
                                                "no rate, and the usual wire"},
        {"gpus_per_node=2|inter_link=single node", "but 2 nodes"},
    };
    static const char *const same[] = {
        "200 Gb/s",       "200Gbps",         "25 GB/s",
        "0.2 Tb/s",       "IB HDR-200 Gb/s", "HDR IB 200 Gbit/s (MT27700)",
        "2x IB 100 Gb/s", "2x100G IB",       "2x100G IB (200 Gb/s per node)"};
    enum { SAME = sizeof same / sizeof same[0] };
    ALL_SKIPPED(rows);
    begin();
    for (int i = 0; i < SAME; i++) {
        char changes[200];
        snprintf(changes, sizeof changes,
                 "gpus_per_node=2|dp=4|tp=1|pp=1|micro_batch=1|schedule=|"
                 "layers=2|hidden=1024|inter_link=%s",
                 same[i]);
        add_row(changes);
    }
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), SAME, "wires as people write them (%s)",
                  cli_reason(a, 0));
    const json_t *details = json_object_get(a->json, "details");
    const json_t *first = json_array_get(details, 0);
    for (size_t i = 1; i < 6; i++)
        tap_near(json_number_value(json_object_get(json_array_get(details, i),
                                                   "predicted_s")),
                 json_number_value(json_object_get(first, "predicted_s")), 1e-9,
                 "%s is 200 Gb/s", same[i]);
}

#define OF_NODE "%nx %r Gb/s per node"
#define BETWEEN                                                                \
    "gpus_per_node=2|dp=4|tp=1|pp=1|micro_batch=1|schedule=|layers=2|"         \
    "hidden=1024|inter_link="

/* So many wires of a rate, on nodes of two devices, in any spelling are what
 * they are in one. 'n': how many; 'r', 'b': Gb/s, GB/s of one; 'a': Gb/s of
 * all; any other letter is itself. */
static void spell(char out[120], const char *as, int n, int gbps)
{
    size_t at = 0;
    for (; *as; as++) {
        const bool figure = *as == '%';
        const double value = as[1] == 'n'   ? n
                             : as[1] == 'r' ? gbps
                             : as[1] == 'b' ? gbps / 8.0
                                            : n * gbps;
        at += (size_t)(figure ? snprintf(out + at, 120 - at, "%g", value)
                              : snprintf(out + at, 120 - at, "%c", *as));
        as += figure;
    }
}

static void test_spellings(void)
{
    static const char *const same[] = {"%nx %r Gb/s",
                                       "%n x %rG IB",
                                       "%n\xc3\x97%r Gb/s per node",
                                       "%n*%rGbps Ethernet",
                                       "%nX%rGbE",
                                       "%n rails of %r Gb/s",
                                       "%n-rail %r Gbit/s",
                                       "%n NICs, %b GB/s each",
                                       "%n ConnectX-6 HCAs at %r Gb/s each",
                                       "%r Gb/s x %n",
                                       "%b GB/s (x%n) RoCE",
                                       "%r gigabits per second per port, %n "
                                       "ports",
                                       "%nx IB (%a Gb/s per node)",
                                       "%nx%rG (%a Gb/s total)",
                                       "%n\xc2\xa0\xc3\x97\xc2\xa0%r Gbps"};
    static const char *const of_two[] = {
        "%r Gb/s per GPU",  "%b GB/s per GPU",
        "%rGbps/GPU",       "%r Gb/s HDR IB per device",
        "%r Gb/s each GPU", "%r Gb/s, one per GPU",
        "dual %r Gb/s",     "two %r Gb/s links",
        "1 NIC/GPU, %rG"};
    static const char *const none[] = {"%nx%r",
                                       "%n*%r",
                                       "%n \xc3\x97 %r",
                                       "%r",
                                       "IB %r",
                                       "%r-%a Gb/s",
                                       "%r Gb/s per rack",
                                       "%r GBPS",
                                       "%nx%r,0 Gb/s",
                                       "NVLink 600 GB/s, IB %r Gb/s",
                                       "%r Gb/s bidirectional"};
    enum {
        SAME = sizeof same / sizeof same[0],
        TWO = sizeof of_two / sizeof of_two[0],
        NONE = sizeof none / sizeof none[0],
        ROUNDS = 3,
        EACH = 2 + SAME + TWO + NONE
    };
    static const int rates[] = {25, 50, 100, 200, 400};
    char text[ROUNDS * EACH][120], row[300];
    int n = 0, gbps = 0;
    state = tap_seed(30);
    begin();
    for (int k = 0; k < ROUNDS * EACH; k++) {
        const int i = k % EACH;
        if (i == 0)
            gbps = rates[below(5)];
        n = i == 0 ? 2 + (int)below(7) : i == SAME + 1 ? 2 : n;
        const char *as = i % (SAME + 1) == 0 && i <= SAME + 1 ? OF_NODE
                         : i < SAME + 1                       ? same[i - 1]
                         : i < SAME + TWO + 2 ? of_two[i - SAME - 2]
                                              : none[i - SAME - TWO - 2];
        spell(text[k], as, n, gbps);
        snprintf(row, sizeof row, BETWEEN "%.119s", text[k]);
        add_row(row);
    }
    const cli_answer *a = ask();
    const json_t *details = json_object_get(a->json, "details");
    tap_equal_int(predicted(a), ROUNDS * (EACH - NONE),
                  "spellings that are clear are predicted, the others not");
    double wanted = 0;
    for (size_t k = 0, at = 0; k < ROUNDS * EACH; k++) {
        if (k % EACH >= SAME + TWO + 2)
            continue;
        const double s = cli_real(json_array_get(details, at++), "predicted_s");
        if (k % EACH == 0 || k % EACH == SAME + 1)
            wanted = s;
        tap_near(s, wanted, 1e-9, "%s", text[k]);
    }
}

/* What is not told of wires is taken as usual and said, where it counts. */
static void test_usual_wires(void)
{
    static const struct {
        const char *changes;
        bool inner, outer;
    } rows[] = {
        {"", true, false},
        {"gpus_per_node=1", false, true},
        {"gpus_per_node=2|inter_link=n/a", true, true},
        {"gpus_per_node=2|inter_link=RoCEv2", true, true},
        {"gpus_per_node=2|inter_link=RoCE RDMA (rate not stated)", true, true},
        {"gpus_per_node=2|inter_link=banana 200 Gb/s", true, false},
        {"gpus_per_node=2|inter_link=100 GbE|intra_link=NVLink", false, false},
        {"gpu=L4|gpu_mem_gb=24|gpus_per_node=2|inter_link=Ethernet", true,
         true},
        {"gpu=L4|gpu_mem_gb=24|intra_link=PCI-e Gen4", false, false},
        {"inter_link=Ethernet|intra_link=NVLink3/NVSwitch 600 GB/s", false,
         false},
        {"inter_link=NVLink only|intra_link=NVLink2 hybrid cube mesh", false,
         false},
        {"gpus_per_node=1|inter_link=IB|intra_link=PCIe", false, true},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    begin();
    for (int i = 0; i < ROWS; i++)
        add_row(rows[i].changes);
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), ROWS, "all are predicted (%s)",
                  cli_reason(a, 0));
    for (size_t i = 0; i < ROWS; i++) {
        const char *assumed = detail(a, i, "assumed");
        tap_ok((strstr(assumed, "the usual links within") != NULL) ==
                       rows[i].inner &&
                   (strstr(assumed, "the usual wire between") != NULL) ==
                       rows[i].outer,
               "'%s': assumed '%s'", rows[i].changes, assumed);
    }
}

int main(void)
{
    cli_begin_scratch("cli_wires_test");
    test_devices();
    test_wires();
    test_spellings();
    test_usual_wires();
    cli_end_scratch();
    return tap_done();
}
