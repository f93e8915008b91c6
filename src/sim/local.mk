noinst_LIBRARIES += src/sim/libfs_sim.a
src_sim_libfs_sim_a_SOURCES = src/sim/sim.c src/sim/sim.h src/sim/parts.h \
  src/sim/resources.c src/sim/resources.h src/sim/meter.c src/sim/meter.h \
  src/sim/heap.c src/sim/heap.h src/sim/flows.c src/sim/flows.h \
  src/sim/routes.c src/sim/routes.h src/sim/make.c src/sim/play.c src/sim/repeat.c

check_PROGRAMS += tests/sim_run_test
tests_sim_run_test_SOURCES = tests/sim_run_test.c tests/plan_hand.h tests/tap.h
tests_sim_run_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_flows_test
tests_sim_flows_test_SOURCES = tests/sim_flows_test.c tests/tap.h
tests_sim_flows_test_LDADD = src/sim/libfs_sim.a $(base_libs)
check_PROGRAMS += tests/sim_links_test
tests_sim_links_test_SOURCES = tests/sim_links_test.c tests/plan_hand.h tests/tap.h
tests_sim_links_test_LDADD = $(sim_libs)

EXTRA_DIST += src/sim/README.md
