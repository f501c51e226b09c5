// Nodes on loopback for tests: a Network with a handler that remembers what came and serves a made-up chain. The
// handler's members are guarded by its mutex; eventually() polls.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "p2p/network.h"

namespace quern::p2p::testing {

inline crypto::PrivateKey key_of(std::uint64_t seed) {
    SeededRng rng(seed);
    return crypto::PrivateKey::generate(rng);
}
inline Bytes20 address_of(std::uint64_t seed) { return crypto::address20(key_of(seed)); }

template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

inline chain::types::Block block_of(std::uint64_t number, std::vector<Bytes> transactions = {}) {
    chain::types::Block block;
    block.header.number = number;
    block.transactions = std::move(transactions);
    block.parent_certificate = Bytes(20, static_cast<std::uint8_t>(number));
    return block;
}

struct RecordingHandler : NetworkHandler {
    mutable std::mutex mutex;
    std::vector<std::pair<Bytes20, Bytes>> envelopes;
    std::map<messages::ShortId, Bytes> pool;
    std::vector<messages::BlockAnswer> blocks;
    std::vector<std::string> left;  // reasons
    std::function<void(const Bytes20&, const Bytes&)> on_consensus;
    Network* network = nullptr;
    bool wants = true;
    std::atomic<bool> admits{true};
    std::uint64_t chain_length = 0;
    std::atomic<bool> wants_blocks{true};
    std::function<Responder::Held()> held;  // with each range
    std::atomic<bool> body_fits{true};
    std::atomic<bool> hold_bodies{false};
    mutable std::atomic<std::size_t> bodies{0};  // looked at
    std::size_t certificate_bytes = 8;           // of each block in a range

    std::vector<Bytes20> joined;

    void peer_connected(const PeerInfo& peer) override {
        const std::lock_guard lock(mutex);
        joined.push_back(peer.address);
    }
    void peer_disconnected(const Bytes20&, const Error& reason) override {
        const std::lock_guard lock(mutex);
        left.emplace_back(reason.name);
    }
    void consensus(const Bytes20& from, Bytes envelope) override {
        if (on_consensus) return on_consensus(from, envelope);
        const std::lock_guard lock(mutex);
        envelopes.emplace_back(from, std::move(envelope));
    }
    bool wants_transaction(const messages::ShortId& id) override {
        const std::lock_guard lock(mutex);
        return wants && pool.count(id) == 0;
    }
    void transactions(const Bytes20&, std::vector<Bytes> encoded) override {
        if (!admits) return;
        for (auto& each : encoded) {
            const Hash32 hash = chain::types::transaction_hash(each);
            {
                const std::lock_guard lock(mutex);
                pool[messages::short_id(hash)] = each;
            }
            network->announce_transaction(hash, each);
        }
    }
    std::optional<Bytes> find_transaction(const messages::ShortId& id) override {
        const std::lock_guard lock(mutex);
        const auto at = pool.find(id);
        if (at == pool.end()) return std::nullopt;
        return at->second;
    }
    bool body_matches(BytesView) const override {
        while (hold_bodies) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++bodies;
        return body_fits;
    }
    bool wants_block(const Hash32&, std::uint64_t) override { return wants_blocks; }
    void block(const Bytes20&, messages::BlockAnswer answer) override {
        const std::lock_guard lock(mutex);
        blocks.push_back(std::move(answer));
    }
    void get_block(const Bytes20&, const messages::GetBlock& request, Responder responder) override {
        if (keeps_questions) {
            const std::lock_guard lock(mutex);
            questions.push_back(std::move(responder));
            return;
        }
        for (std::uint64_t number = 1; number <= chain_length; ++number)
            if (chain::types::hash_of(block_of(number).header) == request.hash)
                return responder.answer(messages::BlockAnswer{chain::types::encode(block_of(number)), Bytes(8, 1)});
        responder.refuse(messages::RefusalCode::not_found);
    }
    void get_block_transactions(const Bytes20&, const messages::GetBlockTransactions& request,
                                Responder responder) override {
        const std::lock_guard lock(mutex);
        messages::BlockTransactions out{request.block, {}};
        for (const auto index : request.indexes)
            if (index < last_block.transactions.size()) out.encoded.push_back(last_block.transactions[index]);
        responder.answer(out);
    }
    void get_certificate(const Bytes20&, const messages::GetCertificate& request, Responder responder) override {
        if (request.view == 7) return responder.answer(messages::CertificateAnswer{{Bytes(100, 7)}});
        // Dropped unanswered: the responder refuses by itself.
    }
    void get_range(const Bytes20&, const messages::GetRange& request, Responder responder) override {
        messages::Range range;
        if (held) responder.hold(held());
        for (std::uint64_t number = request.first; number < request.first + request.count && number <= chain_length;
             ++number)
            range.blocks.push_back({chain::types::encode(block_of(number)), Bytes(certificate_bytes, 1)});
        responder.answer(range);
    }
    chain::types::Block last_block;
    std::atomic<bool> keeps_questions{false};  // for blocks, to be answered by the test
    std::vector<Responder> questions;

    std::size_t envelope_count() const {
        const std::lock_guard lock(mutex);
        return envelopes.size();
    }
    std::size_t pool_size() const {
        const std::lock_guard lock(mutex);
        return pool.size();
    }
};

struct TestNode {
    explicit TestNode(std::uint64_t seed, std::vector<StaticPeer> peers = {},
                      const std::function<void(NetworkOptions&)>& change = {}) {
        NetworkOptions options;
        options.chain_id = 7878;
        options.local_network = true;
        options.genesis_hash = Hash32{{1, 2, 3}};
        options.listen_host = "127.0.0.1";
        options.static_peers = std::move(peers);
        options.agent = "node-" + std::to_string(seed);
        if (change) change(options);
        // The network thread may call the handler before start() returns; only transactions() needs the pointer, and
        // none come before a test sends one.
        auto started = Network::start(options, key_of(seed), handler);
        if (started) network = std::move(*started);
        handler.network = network.get();
        me = address_of(seed);
    }
    [[nodiscard]] StaticPeer as_peer() const { return {me, {"127.0.0.1", network->port()}}; }
    [[nodiscard]] bool has_peers(std::size_t count) const { return network->peer_count() == count; }

    RecordingHandler handler;
    std::unique_ptr<Network> network;
    Bytes20 me;
};

}  // namespace quern::p2p::testing
