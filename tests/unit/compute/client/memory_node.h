// A node with a mempool, blocks and contents in memory, of which what goes in and what comes out may get lost.
#pragma once

#include <map>
#include <set>

#include "chain/types/transaction.h"
#include "compute/worker/node_view.h"
#include "crypto/content_id.h"

namespace quern::compute::client::test {

using chain::types::Address;

class MemoryNode final : public worker::NodeView {
public:
    Expected<worker::MarketNews> market_news(const std::optional<worker::Head>&) override {
        return fail("node.rpc_error");
    }
    Expected<Uint256> gas_price() override { return Uint256(10); }
    Expected<Uint256> tip() override { return Uint256(3); }
    Expected<std::uint64_t> pending_nonce(const Address&) override { return nonce; }
    Expected<std::uint64_t> estimate_gas(const Address&, const Address&, BytesView) override {
        if (!estimate_error.empty()) return fail("node.rpc_error", estimate_error);
        return 100'000;
    }
    Expected<Hash32> send_raw(BytesView encoded) override {
        const Hash32 hash = chain::types::transaction_hash(encoded);
        told.emplace_back(encoded.begin(), encoded.end());
        if (!refusal.empty()) return fail("node.rpc_error", refusal);
        if (!loses_questions) mempool.insert(hash);
        if (includes_at_once) included.insert(hash);
        if (loses_questions || loses_answers) return busy("http.timeout");
        return hash;
    }
    Expected<std::optional<worker::TransactionOutcome>> outcome(const Hash32& hash) override {
        if (silent) return busy("http.connect_failed");
        if (!included.contains(hash)) return std::optional<worker::TransactionOutcome>();
        return std::optional(worker::TransactionOutcome{true, 1, {}});
    }
    Expected<bool> knows(const Hash32& hash) override {
        // What others do between two questions.
        if (includes_after_asking) included.insert(hash);
        return mempool.contains(hash);
    }
    Expected<std::vector<chain::types::TaskClaim>> live_tasks() override {
        return std::vector<chain::types::TaskClaim>();
    }
    Expected<worker::DisputeNews> dispute(std::uint64_t) override { return fail("node.rpc_error"); }
    Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport&) override {
        return fail("node.down");
    }
    Expected<chain::params::MarketParams> market_params() override { return chain::params::MarketParams{}; }
    Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role, const Address&) override {
        return std::optional<chain::types::RoleBond>();
    }
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t max_bytes) override {
        const auto found = contents.find(id);
        if (found == contents.end()) return fail(worker::kContentNotFound);
        if (found->second.size() > max_bytes) return fail(worker::kContentTooLarge);
        return found->second;
    }
    Expected<worker::ContentLeaves> content_leaves(const Hash32&, std::uint64_t) override {
        return fail(worker::kContentNotFound);
    }
    Expected<Bytes> read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) override {
        const auto found = contents.find(id);
        if (found == contents.end()) return fail(worker::kContentNotFound);
        const BytesView part = BytesView(found->second).subspan(first, length);
        return Bytes(part.begin(), part.end());
    }
    Status put_stream(const Hash32&, std::uint64_t, const worker::ByteSource&) override {
        return fail("content.upload_refused");
    }
    Expected<bool> has_content(const Hash32& id) override { return contents.contains(id); }
    Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32>) override { return std::vector<Hash32>(); }

    Hash32 put(const Bytes& content) {
        const Hash32 id = crypto::content_id_of(content);
        contents[id] = content;
        return id;
    }

    std::uint64_t nonce = 4;
    bool silent = false;
    bool loses_questions = false;
    bool loses_answers = false;
    bool includes_at_once = false;
    bool includes_after_asking = false;
    std::string refusal;
    std::string estimate_error;
    std::vector<Bytes> told;
    std::set<Hash32, BytesLess> mempool;
    std::set<Hash32, BytesLess> included;
    std::map<Hash32, Bytes, BytesLess> contents;
};

}  // namespace quern::compute::client::test
