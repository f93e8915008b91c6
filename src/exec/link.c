#include "config.h"
#include "exec/world.h"

#include <string.h>

exec_layout exec_layout_flat(exec_world *world, int64_t bytes)
{
    exec_layout layout = {.part = {.run = bytes}};
    world->link->prepare(world, &layout);
    return layout;
}

void exec_link_send(exec_world *world, const void *base,
                    const exec_layout *layout, int32_t peer, int tag,
                    exec_request *request)
{
    world->link->send(world, base, layout, peer, tag, request);
    exec_ring(world, peer, EXEC_SENT);
}

void exec_link_recv(exec_world *world, void *base, const exec_layout *layout,
                    int32_t peer, int tag, exec_request *request)
{
    world->link->recv(world, base, layout, peer, tag, request);
    exec_ring(world, peer, EXEC_TOOK);
}

void exec_send_bytes(exec_world *world, const void *from, int64_t bytes,
                     int32_t peer, int tag, exec_request *request)
{
    exec_layout layout = exec_layout_flat(world, bytes);
    exec_link_send(world, from, &layout, peer, tag, request);
    world->link->release(&layout);
}

void exec_recv_bytes(exec_world *world, void *to, int64_t bytes, int32_t peer,
                     int tag, exec_request *request)
{
    exec_layout layout = exec_layout_flat(world, bytes);
    exec_link_recv(world, to, &layout, peer, tag, request);
    world->link->release(&layout);
}

bool exec_is_none(const exec_world *world, const exec_request *request)
{
    return memcmp(request, &world->link->none, sizeof *request) == 0;
}

void exec_wait(exec_world *world, int n, exec_request *request)
{
    enum { PART = 64 };
    int index[PART];
    exec_idle idle = {
        .wants.from = {[EXEC_SENT] = UINT64_MAX, [EXEC_TOOK] = UINT64_MAX}};
    for (int at = 0; at < n;) {
        const int part = n - at < PART ? n - at : PART;
        bool open = false;
        if (world->link->poll(world, part, request + at, index) == 0)
            exec_idle_wait(world, &idle);
        else
            exec_ring_all(world);
        for (int i = at; i < at + part && !open; i++)
            open = !exec_is_none(world, &request[i]);
        at += open ? 0 : part;
    }
    exec_idle_end(world, &idle);
}
