// A port on loopback that passes connections on to another port and counts the bytes that go through it: what somebody
// reads and writes over TCP, whatever it is. Used by quern-bench alone; members may be called from one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace quern::bench {

class CountingRelay {
public:
    // Ends the program when there is no port.
    explicit CountingRelay(std::uint16_t to);
    ~CountingRelay();  // closes all connections
    CountingRelay(const CountingRelay&) = delete;
    CountingRelay& operator=(const CountingRelay&) = delete;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] std::uint64_t answered() const { return answered_; }  // bytes to those who connected
    [[nodiscard]] std::uint64_t asked() const { return asked_; }        // and from them

private:
    void accept_all();
    void relay(int near) const;

    const std::uint16_t to_;
    std::uint16_t port_ = 0;
    int listener_ = -1;
    std::atomic<bool> stop_{false};
    mutable std::atomic<std::uint64_t> answered_{0};
    mutable std::atomic<std::uint64_t> asked_{0};
    std::thread thread_;
    std::vector<std::thread> connections_;  // of that thread
};

}  // namespace quern::bench
