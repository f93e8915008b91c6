// The flows of bench_flows.c by SimGrid (LGPL, Debian: libsimgrid-dev): an
// actor a host, which sends one flow after the other. Prints the seconds it
// took, then when each flow ended. Made and run by `make bench-sim` only.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace s4u = simgrid::s4u;

struct Flow {
    int from, to;
    double bytes;
    std::vector<int> links;
    double end_s;
};

int main(int argc, char **argv)
{
    s4u::Engine engine(&argc, argv);
    // Links as they are: no factors, no windows of TCP.
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/TCP-gamma:0");
    s4u::Engine::set_config("network/crosstraffic:0");
    s4u::Engine::set_config("surf/precision:1e-12");
    s4u::Engine::set_config("maxmin/precision:1e-9");
    std::FILE *in = argc > 1 ? std::fopen(argv[1], "r") : nullptr;
    int n_links, n_hosts, n_flows;
    if (!in || std::fscanf(in, "%d %d %d", &n_links, &n_hosts, &n_flows) != 3)
        return 1;
    auto *zone = s4u::create_full_zone("tree");
    std::vector<s4u::Link *> links;
    std::vector<s4u::Host *> hosts;
    for (int i = 0; i < n_links; i++) {
        double bps;
        if (std::fscanf(in, "%lf", &bps) != 1)
            return 1;
        links.push_back(
            zone->create_link("l" + std::to_string(i), bps)->set_latency(0));
        links.back()->seal();
    }
    for (int i = 0; i < n_hosts; i++) {
        hosts.push_back(zone->create_host("h" + std::to_string(i), 1e9));
        hosts.back()->seal();
    }
    std::vector<Flow> flows((size_t)n_hosts * n_flows);
    std::map<std::pair<int, int>, bool> known;
    for (auto &f : flows) {
        int n;
        if (std::fscanf(in, "%d %d %lf %d", &f.from, &f.to, &f.bytes, &n) != 4)
            return 1;
        std::vector<s4u::LinkInRoute> route;
        for (int k = 0, l; k < n; k++) {
            if (std::fscanf(in, "%d", &l) != 1)
                return 1;
            route.emplace_back(links[l]);
        }
        if (known.emplace(std::make_pair(f.from, f.to), true).second)
            zone->add_route(hosts[f.from]->get_netpoint(),
                            hosts[f.to]->get_netpoint(), nullptr, nullptr,
                            route, false);
    }
    std::fclose(in);
    zone->seal();
    for (int h = 0; h < n_hosts; h++)
        s4u::Actor::create("a" + std::to_string(h), hosts[h], [&, h] {
            for (int i = h * n_flows; i < (h + 1) * n_flows; i++) {
                Flow &f = flows[i];
                s4u::Comm::sendto(hosts[f.from], hosts[f.to],
                                  (uint64_t)f.bytes);
                f.end_s = s4u::Engine::get_clock();
            }
        });
    const std::clock_t begin = std::clock();
    engine.run();
    std::printf("%.9f\n", (double)(std::clock() - begin) / CLOCKS_PER_SEC);
    for (const auto &f : flows)
        std::printf("%.17g\n", f.end_s);
    return 0;
}
