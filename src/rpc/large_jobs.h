// Who answers a large request next, so that no host holds all places: one of several places is never given to the host
// that has the others, of those who wait whoever runs least comes first, and when too many wait the newest of the host
// that waits with most goes. Used by the HTTP and WebSocket servers; whoever has it calls what it hands out, without a
// lock of its own held. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

namespace quern::rpc {

class LargeJobs {
public:
    struct Request {
        std::string host;  // the client's address without its port
        std::function<void()> begin;
        std::function<void()> refuse;  // called instead of `begin`
        const void* owner = nullptr;   // for forget(); lives as long as the two functions
    };

    // `max_waiting`: beside those that run.
    LargeJobs(std::size_t places, std::size_t max_waiting)
        : places_(places == 0 ? 1 : places), max_waiting_(max_waiting) {}

    // What is to be called now: `begin` of this one, `refuse` of this one or of another; nothing when it waits.
    [[nodiscard]] std::function<void()> ask(Request request);
    // A job of the host has ended: what is to be called now, `begin` of one that waited, or nothing.
    [[nodiscard]] std::function<void()> ended(const std::string& host);
    // Drops what waits of this owner, neither begun nor refused: what a client that has gone keeps here is memory that
    // nobody counts. The requests come back, to be destroyed where the caller holds no lock.
    [[nodiscard]] std::list<Request> forget(const std::string& host, const void* owner);
    [[nodiscard]] std::size_t running() const { return running_; }
    [[nodiscard]] std::size_t waiting() const { return waiting_; }

private:
    struct Waiting {
        std::uint64_t number = 0;  // by arrival
        Request request;
    };
    struct Host {
        std::size_t running = 0;
        std::list<Waiting> waiting;
    };
    using Hosts = std::map<std::string, Host>;

    [[nodiscard]] bool may_begin(const Host& host) const;
    [[nodiscard]] std::function<void()> refuse_newest(Hosts::iterator host);
    void tidy(Hosts::iterator host);

    const std::size_t places_;
    const std::size_t max_waiting_;
    std::size_t running_ = 0;
    std::size_t waiting_ = 0;
    std::uint64_t arrivals_ = 0;
    Hosts hosts_;  // that run or wait
};

}  // namespace quern::rpc
