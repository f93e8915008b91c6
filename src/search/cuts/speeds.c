/* How fast the devices of each stage are, all of the graph told. */
#include "config.h"
#include "search/cuts/cut.h"

#include <math.h>

/* Seconds of all of the graph on one device; known: [group of the cluster], 0
 * what is not. */
static double plain_seconds(const search_problem *problem,
                            const ir_graph *graph, int32_t device,
                            double *known)
{
    const hw_cluster *cluster = problem->cluster;
    const plan_stage one = {{0}, device};
    const ir_nd_sig plain = {0};
    double *sum = &known[hw_group_of(cluster, device) - cluster->groups];
    if (*sum > 0)
        return *sum;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        *sum += cost_node_seconds(problem->cost, graph, v, &plain, &one);
    return *sum;
}

double *search_find_speeds(const search_problem *problem,
                           const search_layout *layout, fs_arena *arena)
{
    const hw_cluster *cluster = problem->cluster;
    const ir_graph *graph = layout->graph;
    double *speed = fs_new(arena, double, layout->n_stages);
    double *known = fs_new(arena, double, cluster->n_groups);
    for (int32_t k = 0; k < layout->n_stages; k++) {
        const plan_stage *stage = &layout->stages[k];
        const int32_t size = ir_mesh_size(&stage->mesh);
        double slowest = 0;
        for (int32_t d = 0; cluster->n_groups > 1 && d < size; d++)
            slowest =
                fmax(slowest, plain_seconds(problem, graph,
                                            stage->first_device + d, known));
        speed[k] = size;
        if (slowest > 0)
            speed[k] *= plain_seconds(problem, graph, 0, known) / slowest;
    }
    return speed;
}
