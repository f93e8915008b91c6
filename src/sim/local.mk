noinst_LIBRARIES += src/sim/libfs_sim.a
src_sim_libfs_sim_a_SOURCES =
