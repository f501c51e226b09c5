// The thread that owns the chain: runs consensus, sleeps until its next deadline or a new transaction. start() and
// stop() belong to one thread; wake() may be called from any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <thread>

#include "node/single_producer.h"
#include "node/tx_gateway.h"

namespace quern::node {

class ChainThread {
public:
    struct Parts {  // all outlive the thread
        Chain& chain;
        chain::consensus::BlockProducer& producer;
        chain::mempool::Pool& pool;
        TxGateway& gateway;
        chain::consensus::Engine& engine;
        chain::consensus::SafetyJournal& journal;
        const Clock& clock;
    };
    // `on_failure` is called once, from the chain thread, when it cannot go on.
    ChainThread(const Parts& parts, std::function<void(const Error&)> on_failure)
        : parts_(parts), on_failure_(std::move(on_failure)) {}
    ~ChainThread() { stop(); }
    ChainThread(const ChainThread&) = delete;
    ChainThread& operator=(const ChainThread&) = delete;

    void start();
    // Finishes the block that is being made, if any, and joins.
    void stop();
    void wake();  // transactions may wait

private:
    void run();
    [[nodiscard]] Status run_until_stopped();

    Parts parts_;
    std::function<void(const Error&)> on_failure_;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;  // guarded by mutex_
    bool woken_ = false;     // guarded by mutex_
};

}  // namespace quern::node
