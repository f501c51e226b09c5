// A small chain in memory behind the interfaces that RPC answers from: blocks are given, submissions remembered.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>

#include "chain/types/json_codec.h"
#include "chain/types/native_kinds.h"
#include "rpc/dispatcher.h"
#include "rpc/methods/backend.h"

namespace quern::rpc::testing {

namespace types = chain::types;
namespace exec = chain::exec;
namespace api = chain::api;

inline crypto::PrivateKey test_key(std::uint8_t number = 1) {
    Bytes secret(32, 0);
    secret[31] = number;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}

class FakeState final : public api::StateView {
public:
    std::map<types::Address, api::AccountView> accounts;
    std::map<Bytes, Bytes, BytesLess> objects;
    std::uint64_t number = 1;
    std::uint64_t oldest = 0;  // block since which changes are known
    // What blocks have written with write(): what was there before.
    std::map<std::uint64_t, std::map<Bytes, std::optional<Bytes>, BytesLess>> written;

    // In block `number`.
    void write(const Bytes& key, const std::optional<Bytes>& value) {
        const auto found = objects.find(key);
        written[number].try_emplace(key, found == objects.end() ? std::nullopt : std::optional(found->second));
        if (value)
            objects[key] = *value;
        else
            objects.erase(key);
    }
    std::uint64_t block_number() const override { return number; }
    api::AccountView account(const types::Address& address) const override {
        const auto found = accounts.find(address);
        return found == accounts.end() ? api::AccountView() : found->second;
    }
    Bytes code_at(const types::Address& address) const override {
        return types::group_at(address).has_value() ? *from_hex("60006000fd") : Bytes();
    }
    Hash32 storage(const types::Address&, const Hash32& slot) const override { return slot; }
    std::optional<Bytes> native(BytesView key) const override {
        const auto found = objects.find(to_bytes(key));
        return found == objects.end() ? std::nullopt : std::optional(found->second);
    }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                      std::size_t limit) const override {
        std::vector<std::pair<Bytes, Bytes>> result;
        const Bytes first = to_bytes(start.empty() ? prefix : start);
        for (auto it = objects.lower_bound(first); it != objects.end() && result.size() < limit; ++it) {
            if (it->first.size() < prefix.size() || !equal(BytesView(it->first).first(prefix.size()), prefix)) break;
            result.emplace_back(it->first, it->second);
        }
        return result;
    }
    Expected<std::optional<std::vector<api::ObjectChange>>> changed_since(
        std::uint64_t since, std::span<const Bytes> prefixes, const api::ChangeLimits& limits) const override {
        std::map<Bytes, api::ObjectChange, BytesLess> changes;
        std::size_t bytes = 0;
        for (auto block = written.upper_bound(since); block != written.end(); ++block)
            for (const auto& [key, before] : block->second) {
                const bool wanted = std::any_of(prefixes.begin(), prefixes.end(),
                                                [&](const Bytes& prefix) { return prefix[0] == key[0]; });
                if (!wanted) continue;
                changes[key].key = key;
                changes[key].before.push_back(before);
                bytes += before ? before->size() : 0;
            }
        if (since < oldest || changes.size() > limits.objects || bytes > limits.bytes)
            return std::optional<std::vector<api::ObjectChange>>();
        std::vector<api::ObjectChange> result;
        for (auto& [key, change] : changes) result.push_back(std::move(change));
        return std::optional(std::move(result));
    }
    Status status() const override { return read_status; }
    Status read_status;
    Expected<api::AccountProof> prove(const types::Address& address, std::span<const Hash32> slots) const override {
        api::AccountProof proof{account(address), Hash32{{0xc0}}, Hash32{{0x57}}, {Bytes{0xc1, 0x80}}, {}};
        for (const auto& slot : slots) proof.slots.push_back({slot, slot, {Bytes{0xc2, 0x01, 0x02}}});
        return proof;
    }
};

class FakeChain final : public api::ChainReader,
                        public api::TxSubmitter,
                        public api::Simulator,
                        public api::MarketGuide {
public:
    std::vector<std::shared_ptr<api::BlockView>> blocks;
    std::map<std::uint64_t, std::vector<types::Receipt>> block_receipts;
    std::shared_ptr<FakeState> current = std::make_shared<FakeState>();
    exec::Result submit_result;
    std::size_t submissions = 0;  // calls, each of any number of transactions
    Expected<api::SimulationResult> call_result = api::SimulationResult{};
    Expected<std::uint64_t> gas_result = std::uint64_t{21'000};
    mutable std::vector<api::SimulatedCall> calls;
    std::vector<Bytes> submitted;
    std::vector<types::RecoveredTransaction> waiting_tasks;

    FakeChain() {
        auto genesis = std::make_shared<api::BlockView>();
        genesis->hash.data[0] = 0xb0;
        genesis->block.header.base_fee_per_gas = 7;
        genesis->block.header.gas_limit = 30'000'000;
        blocks.push_back(genesis);
    }

    // Appends a block with these transactions, each with a receipt that `shape` may fill in.
    mutable int blocks_read = 0;
    mutable int receipts_read = 0;
    std::function<void()> on_read;  // of each block

    void add_block(const std::vector<types::Transaction>& transactions,
                   const std::function<void(std::size_t, types::Receipt&)>& shape = {}) {
        auto view = std::make_shared<api::BlockView>();
        auto& header = view->block.header;
        header.number = blocks.size();
        header.base_fee_per_gas = 10;
        header.gas_limit = 30'000'000;
        header.timestamp = 1'700'000'000 + header.number;
        view->hash.data[0] = 0xb0;
        view->hash.data[31] = static_cast<std::uint8_t>(header.number);
        std::vector<types::Receipt> receipts;
        for (std::size_t i = 0; i < transactions.size(); ++i) {
            view->block.transactions.push_back(types::encode(transactions[i]));
            types::Receipt receipt;
            receipt.type = transactions[i].type;
            receipt.success = true;
            receipt.gas_used = 21'000;
            receipt.effective_gas_price = types::effective_gas_price(transactions[i], header.base_fee_per_gas);
            if (shape) shape(i, receipt);
            const types::Bloom bloom = types::bloom_of(receipt.logs);
            for (std::size_t b = 0; b < bloom.data.size(); ++b) header.logs_bloom.data[b] |= bloom.data[b];
            header.gas_used += receipt.gas_used;
            receipt.cumulative_gas_used = header.gas_used;
            receipts.push_back(receipt);
        }
        block_receipts[header.number] = receipts;
        view->size = types::encode(view->block).size();
        blocks.push_back(view);
    }

    std::uint64_t chain_id() const override { return 7878; }
    Hash32 genesis_hash() const override { return blocks[0]->hash; }
    std::uint64_t head_number() const override { return blocks.size() - 1; }
    std::shared_ptr<const api::BlockView> block(const api::BlockSelector& selector) const override {
        using Kind = api::BlockSelector::Kind;
        ++blocks_read;
        if (on_read) on_read();
        if (selector.kind == Kind::latest || selector.kind == Kind::pending) return blocks.back();
        if (selector.kind == Kind::earliest) return blocks[0];
        if (selector.kind == Kind::number) return selector.number < blocks.size() ? blocks[selector.number] : nullptr;
        for (const auto& view : blocks)
            if (view->hash == selector.hash) return view;
        return nullptr;
    }
    std::vector<types::Receipt> receipts(std::uint64_t number) const override {
        ++receipts_read;
        const auto found = block_receipts.find(number);
        return found == block_receipts.end() ? std::vector<types::Receipt>() : found->second;
    }
    std::optional<api::TransactionView> transaction(const Hash32& hash) const override {
        for (const auto& view : blocks)
            for (std::size_t i = 0; i < view->block.transactions.size(); ++i)
                if (types::transaction_hash(view->block.transactions[i]) == hash)
                    return api::TransactionView{*types::recover(view->block.transactions[i]), view->hash,
                                                view->block.header.number, i, view->block.header.base_fee_per_gas};
        return std::nullopt;
    }
    std::optional<api::ReceiptView> receipt(const Hash32& hash) const override {
        const auto found = transaction(hash);
        if (!found) return std::nullopt;
        return api::ReceiptView{block_receipts.at(found->block_number).at(found->index), *found, 0};
    }
    Expected<std::shared_ptr<const api::StateView>> state(const api::BlockSelector& selector) const override {
        if (selector.kind == api::BlockSelector::Kind::earliest)
            return fail("chain.state_unavailable", "the state of block 0 is not kept");
        return std::shared_ptr<const api::StateView>(current);
    }
    std::uint64_t pending_nonce(const types::Address&) const override { return 42; }
    Uint256 next_base_fee() const override { return 9; }
    std::uint64_t block_gas_limit() const override { return 30'000'000; }
    std::vector<types::RecoveredTransaction> pending_tasks() const override { return waiting_tasks; }
    std::optional<double> leaf_microseconds(std::uint64_t) const override { return 12.5; }
    std::string params_json() const override { return R"({"chainId":7878})"; }

    std::vector<api::Submission> submit_all(std::span<const Bytes> encoded, const Bytes20&) override {
        ++submissions;
        submitted.insert(submitted.end(), encoded.begin(), encoded.end());
        return std::vector<api::Submission>(encoded.size(), {submit_result, Hash32{}});
    }
    Expected<api::SimulationResult> call(const api::SimulatedCall& request, const api::BlockSelector&) const override {
        calls.push_back(request);
        return call_result;
    }
    Expected<std::uint64_t> estimate_gas(const api::SimulatedCall& request, const api::BlockSelector&) const override {
        calls.push_back(request);
        return gas_result;
    }

    Expected<api::NativeTrial> try_native(const api::SimulatedCall& request, const api::BlockSelector&) const override {
        calls.push_back(request);
        return trial_result;
    }
    Expected<api::NativeTrial> trial_result = api::NativeTrial{};

    Expected<api::TaskEstimate> estimate_task(const types::TaskSubmitPayload& spec) const override {
        if (spec.work.interval == 0) return fail("task.bad_interval");
        api::TaskEstimate estimate;
        estimate.steps = 2 * spec.work.interval;
        estimate.total_work = Uint256(spec.work.interval) * Uint256(1000);
        return estimate;
    }
    Expected<json::Value> describe_game(BytesView game) const override {
        if (game.empty()) return fail("rlp.truncated");
        return json::Value::object({{"phase", "trace"}});
    }
    std::uint64_t retention_end(const types::Task& task) const override { return task.since + 1'000; }
    std::string op_name(std::uint32_t op) const override { return op == 16 ? "matmul" : "unknown"; }
};

// A signed type-2 transfer; change it through `shape` before it is signed.
inline types::Transaction signed_transaction(const std::function<void(types::Transaction&)>& shape = {}) {
    types::Transaction tx;
    tx.type = types::TxType::dynamic_fee;
    tx.chain_id = 7878;
    tx.gas_limit = 21'000;
    tx.max_fee_per_gas = 100;
    tx.max_priority_fee_per_gas = 3;
    tx.to = types::Address{};
    tx.to->data[19] = 0xaa;
    tx.value = 5;
    if (shape) shape(tx);
    types::sign(tx, test_key());
    return tx;
}

// A member of a committee of two, with one peer.
class FakeNetwork final : public api::NetworkStatus {
public:
    api::ConsensusStatus status;
    api::SyncStatus progress;
    std::vector<api::PeerStatus> known;
    api::OwnAddress own;
    std::vector<std::string> added;

    api::ConsensusStatus consensus() const override { return status; }
    api::SyncStatus sync() const override { return progress; }
    std::vector<api::PeerStatus> peers() const override { return known; }
    std::size_t peer_count() const override { return known.size(); }
    api::OwnAddress own_address() const override { return own; }
    Status add_peer(std::string_view peer) override {
        if (peer.find('@') == std::string_view::npos) return fail("p2p.bad_peer", std::string(peer));
        added.emplace_back(peer);
        return {};
    }
};

// Tells what it is given, whatever range is asked for.
class FakeLedger final : public api::Ledger {
public:
    struct Asked {
        std::uint64_t from = 0;
        std::uint64_t to = 0;
        std::size_t limit = 0;
    };
    api::LedgerPage<api::Happening> events;
    api::LedgerPage<api::StatementBlock> blocks;
    mutable Asked asked;
    std::uint64_t begins = 1;

    Expected<std::uint64_t> since() const override { return begins; }
    Expected<api::LedgerPage<api::Happening>> task_history(std::uint64_t, std::uint64_t from, std::size_t limit,
                                                           const Cancelled& cancelled) const override {
        asked = {from, 0, limit};
        if (cancelled()) return busy("ledger.cancelled");
        return events;
    }
    Expected<api::LedgerPage<api::StatementBlock>> statement(const types::Address&, std::uint64_t from,
                                                             std::uint64_t to, std::size_t limit,
                                                             const Cancelled& cancelled) const override {
        asked = {from, to, limit};
        if (cancelled()) return busy("ledger.cancelled");
        return blocks;
    }
};

// A store of which only the contents that nobody is bound to serve can go.
class FakeContents final : public api::ContentGateway {
public:
    std::set<Hash32> ids;
    std::set<Hash32> duties;
    bool broken = false;

    Expected<std::uint64_t> size(const Hash32& id) const override {
        if (!ids.contains(id)) return fail("content.not_found");
        return std::uint64_t{1};
    }
    Expected<Bytes> read(const Hash32&, std::uint64_t, std::uint64_t) const override { return fail("content.corrupt"); }
    Expected<Bytes> read_leaves(const Hash32&, std::uint64_t, std::uint64_t) const override {
        return fail("content.corrupt");
    }
    Expected<std::unique_ptr<Upload>> begin_upload(const Hash32&, std::uint64_t) override {
        return fail("content.quota_exceeded");
    }
    Expected<std::set<Hash32>> let_go(const std::set<Hash32>& asked) override {
        if (broken) return fail("content.duties_unknown");
        std::set<Hash32> held;
        for (const Hash32& id : asked) {
            if (ids.contains(id) && duties.contains(id)) held.insert(id);
            if (!duties.contains(id)) ids.erase(id);
        }
        return held;
    }
    std::vector<Hash32> want(std::span<const Hash32> asked, std::uint64_t max_bytes) override {
        most = max_bytes;
        std::vector<Hash32> here;
        for (const Hash32& id : asked) (ids.contains(id) ? here : wanted).push_back(id);
        return here;
    }
    std::vector<Hash32> wanted;
    std::uint64_t most = 0;
};

// A registry over a FakeChain, called as JSON-RPC would.
struct Fixture {
    FakeChain chain;
    FakeNetwork network;
    FakeContents contents;
    FakeLedger ledger;
    methods::Backend backend;
    std::unique_ptr<Registry> registry;
    bool stopped = false;

    Fixture() {
        backend.chain = &chain;
        backend.submitter = &chain;
        backend.simulator = &chain;
        backend.market = &chain;
        backend.ledger = &ledger;
        backend.network = &network;
        backend.content = &contents;
        backend.version = "0.1.0";
        backend.request_stop = [this] { stopped = true; };
        registry = std::move(*methods::make_registry(backend));
    }
    Result call(std::string_view method, std::string_view params = "[]", bool authenticated = false) const {
        return registry->call(method, *json::parse(params), CallContext{{authenticated, nullptr}, nullptr, nullptr});
    }
};

}  // namespace quern::rpc::testing
