noinst_LIBRARIES += src/sim/libfs_sim.a
src_sim_libfs_sim_a_SOURCES = src/sim/sim.c src/sim/sim.h src/sim/parts.h \
  src/sim/resources.c src/sim/resources.h src/sim/meter.c src/sim/meter.h \
  src/sim/heap.c src/sim/heap.h src/sim/flows.c src/sim/flows.h \
  src/sim/routes.c src/sim/routes.h src/sim/make.c src/sim/play.c src/sim/repeat.c \
  src/sim/critical.c src/sim/critical_short.c src/sim/critical.h src/sim/watch.c src/sim/watch.h \
  src/sim/goodput.c src/sim/goodput.h src/sim/noise.c src/sim/noise.h \
  src/sim/beside.c src/sim/beside.h

check_PROGRAMS += tests/sim_run_test
tests_sim_run_test_SOURCES = tests/sim_run_test.c tests/plan_hand.h tests/tap.h
tests_sim_run_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_repeat_test
tests_sim_repeat_test_SOURCES = tests/sim_repeat_test.c tests/sim_same.h tests/plan_build.h \
  tests/tap.h
tests_sim_repeat_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_beside_test
tests_sim_beside_test_SOURCES = tests/sim_beside_test.c tests/plan_hand.h \
  tests/tap.h
tests_sim_beside_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_flows_test
tests_sim_flows_test_SOURCES = tests/sim_flows_test.c tests/tap.h
tests_sim_flows_test_LDADD = src/sim/libfs_sim.a $(base_libs)
check_PROGRAMS += tests/sim_links_test
tests_sim_links_test_SOURCES = tests/sim_links_test.c tests/plan_hand.h tests/tap.h
tests_sim_links_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_critical_test
tests_sim_critical_test_SOURCES = tests/sim_critical_test.c tests/plan_hand.h \
  tests/tap.h
tests_sim_critical_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_goodput_test
tests_sim_goodput_test_SOURCES = tests/sim_goodput_test.c tests/tap.h
tests_sim_goodput_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_noise_test
tests_sim_noise_test_SOURCES = tests/sim_noise_test.c tests/plan_hand.h \
  tests/tap.h
tests_sim_noise_test_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim_ranks_test
tests_sim_ranks_test_SOURCES = tests/sim_ranks_test.c tests/plan_hand.h \
  tests/tap.h
tests_sim_ranks_test_LDADD = $(sim_libs)

EXTRA_DIST += src/sim/README.md src/sim/STUDIES.md
