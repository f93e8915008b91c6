noinst_LIBRARIES += src/hw/libfs_hw.a
src_hw_libfs_hw_a_SOURCES = src/hw/cluster.c src/hw/cluster.h src/hw/samples.h \
  src/hw/cluster_json.c src/hw/cluster_synthetic.c src/hw/parts.h \
  src/hw/devices.c src/hw/devices.h src/hw/what_if.c src/hw/what_if.h \
  src/hw/probe.c src/hw/share.c src/hw/share.h src/hw/links.c src/hw/links.h \
  src/hw/inside.c src/hw/inside.h src/hw/wires.c src/hw/wires.h \
  src/hw/packing.c src/hw/packing.h src/hw/crowd.c src/hw/crowd.h src/hw/wiring.h src/hw/wiring_json.c src/hw/variants.c src/hw/variants.h src/hw/curves.c src/hw/curves.h

# Measured collectives of devices.
collectivesdir = $(pkgdatadir)/collectives
dist_collectives_DATA = \
  datasets/collectives/a100-sxm4-40g.json \
  datasets/collectives/a100-sxm4-80g.json \
  datasets/collectives/b200-sxm.json \
  datasets/collectives/h200-sxm-141g.json \
  datasets/collectives/v100-sxm2-16g.json \
  datasets/collectives/v100-sxm2-32g.json

# Device files: NODESxDEVICES:NAME finds them here.
clustersdir = $(pkgdatadir)/clusters
dist_clusters_DATA = \
  datasets/clusters/a100-pcie-80g.json \
  datasets/clusters/a100-sxm4-40g.json \
  datasets/clusters/a100-sxm4-80g.json \
  datasets/clusters/b200-sxm.json \
  datasets/clusters/b300-sxm.json \
  datasets/clusters/cpu.json \
  datasets/clusters/cpu-2x-epyc-7742.json \
  datasets/clusters/cpu-2x-xeon-8480c.json \
  datasets/clusters/gb200.json \
  datasets/clusters/gh200-sxm.json \
  datasets/clusters/h100-pcie-80g.json \
  datasets/clusters/h100-sxm5-80g.json \
  datasets/clusters/h200-sxm-141g.json \
  datasets/clusters/l4.json \
  datasets/clusters/l40s.json \
  datasets/clusters/mi250x.json \
  datasets/clusters/mi300x.json \
  datasets/clusters/mi325x.json \
  datasets/clusters/mi355x.json \
  datasets/clusters/rtx-3090.json \
  datasets/clusters/rtx-4090.json \
  datasets/clusters/tpuv3.json \
  datasets/clusters/tpuv4.json \
  datasets/clusters/tpuv5e.json \
  datasets/clusters/tpuv5p.json \
  datasets/clusters/v100-sxm2-16g.json \
  datasets/clusters/v100-sxm2-32g.json \
  datasets/clusters/v100-sxm3-32g.json

check_PROGRAMS += tests/hw_cluster_test
tests_hw_cluster_test_SOURCES = tests/hw_cluster_test.c tests/tap.h
tests_hw_cluster_test_LDADD = $(hw_libs) $(base_libs)
check_PROGRAMS += tests/hw_what_if_test
tests_hw_what_if_test_SOURCES = tests/hw_what_if_test.c tests/tap.h
tests_hw_what_if_test_LDADD = $(hw_libs) $(base_libs)

check_PROGRAMS += tests/hw_links_test
tests_hw_links_test_SOURCES = tests/hw_links_test.c tests/tap.h
tests_hw_links_test_LDADD = $(hw_libs) $(base_libs)

check_PROGRAMS += tests/hw_rates_test
tests_hw_rates_test_SOURCES = tests/hw_rates_test.c tests/wired_cluster.h \
  tests/tap.h
tests_hw_rates_test_LDADD = $(hw_libs) $(base_libs)

EXTRA_DIST += src/hw/README.md src/hw/LINKS.md
