// A link of limited rate with delay and a drop-tail queue between two network namespaces of this process, for measuring
// real TCP through the kernel. Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and /dev/net/tun. Used by quern-bench alone;
// members may be called from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/expected.h"

namespace quern::bench {

inline constexpr int kMaxPacket = 65'000;

struct LinkShape {
    double megabits = 100;    // each way
    double one_way_ms = 10;   // beside what the queue adds
    double queue_ms = 50;     // what would wait longer is dropped
    int packet_bytes = 1500;  // the devices' MTU, kMaxPacket at most: each packet costs this machine a few µs
};

class ShapedLink {
public:
    // Errors: link.not_permitted, link.failed.
    [[nodiscard]] static Expected<std::unique_ptr<ShapedLink>> make(const LinkShape& shape);
    ~ShapedLink();
    ShapedLink(const ShapedLink&) = delete;
    ShapedLink& operator=(const ShapedLink&) = delete;

    // Runs the function on a thread inside side 0 or 1 and waits for it. Sockets and threads that it makes stay there.
    void run_in(int side, const std::function<void()>& function) const;
    [[nodiscard]] static std::string address(int side) { return side == 0 ? "10.77.0.1" : "10.77.0.2"; }

private:
    struct Impl;
    explicit ShapedLink(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::bench
