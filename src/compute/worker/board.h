// Between the thread that decides and a thread that works: on the one side what is to be done (orders), on the other
// what was found (facts). Each set of orders replaces the one before; facts last as long as their order is given again,
// and an order that became another job (a new round, a new position) starts without any. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "compute/worker/bell.h"

namespace quern::compute::worker {

// Order: id(), and same_job(other): whether what was found for one is true of the other.

// Whether the order is among them still, and still the same job.
template <class Order>
using OrderId = decltype(std::declval<const Order&>().id());
template <class Order>
[[nodiscard]] bool is_wanted(const std::map<OrderId<Order>, Order>& orders, const Order& order) {
    const auto wanted = orders.find(order.id());
    return wanted != orders.end() && wanted->second.same_job(order);
}

template <class Order, class Facts>
class Board {
public:
    using Orders = std::map<OrderId<Order>, Order>;

    // `news` outlives the board; rung when something was found.
    explicit Board(Bell& news) : news_(news) {}

    // --- The thread that decides
    void give(Orders orders) {
        {
            const MutexLock lock(mutex_);
            std::erase_if(facts_, [&](const auto& entry) { return !is_wanted(orders, entry.second.order); });
            orders_ = std::move(orders);
            fresh_ = true;
        }
        work_.ring();
    }
    // What was found for this order; defaults when nothing was.
    [[nodiscard]] Facts facts(const Order& order) const {
        const MutexLock lock(mutex_);
        const auto found = facts_.find(order.id());
        return found != facts_.end() && found->second.order.same_job(order) ? found->second.facts : Facts{};
    }

    // --- The threads that work
    // The orders, once after each time that they were given.
    [[nodiscard]] std::optional<Orders> take() {
        const MutexLock lock(mutex_);
        if (!std::exchange(fresh_, false)) return std::nullopt;
        return orders_;
    }
    // Whether there is an order of this id for which `holds` is true, whether it was taken or not.
    template <class Holds>
    [[nodiscard]] bool has(const OrderId<Order>& id, Holds&& holds) const {
        const MutexLock lock(mutex_);
        const auto found = orders_.find(id);
        return found != orders_.end() && holds(found->second);
    }
    // Dropped when the order is not wanted any more.
    void publish(const Order& order, Facts facts) {
        {
            const MutexLock lock(mutex_);
            if (!is_wanted(orders_, order)) return;
            facts_.insert_or_assign(order.id(), Entry{order, std::move(facts)});
        }
        news_.ring();
    }
    // Until there are orders to take, at most so long.
    void wait(std::uint64_t milliseconds, const std::atomic<bool>& stop) { work_.wait(milliseconds, stop); }
    void wake() { work_.ring(); }

private:
    struct Entry {
        Order order;
        Facts facts;
    };
    Bell& news_;
    Bell work_;
    mutable Mutex mutex_;
    Orders orders_ QUERN_GUARDED_BY(mutex_);
    bool fresh_ QUERN_GUARDED_BY(mutex_) = false;
    std::map<OrderId<Order>, Entry> facts_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::compute::worker
