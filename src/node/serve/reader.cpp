#include "node/serve/reader.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/rng.h"
#include "chain/exec/block_executor.h"
#include "chain/state/archive_state.h"
#include "chain/state/state_layout.h"
#include "chain/store/block_store.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace api = chain::api;
using chain::store::BlockStore;

// A fault of the database is logged and reads as "not there": the interfaces have no place for it, and the chain
// thread, which meets the same fault, stops the node.
template <class T>
std::optional<T> or_nothing(Expected<std::optional<T>> result) {
    if (result) return std::move(*result);
    log::error(log::Category::store, "read failed: {}", result.error().to_string());
    return std::nullopt;
}

class CommittedState final : public api::StateView {
public:
    // `hot` outlives the state; null: this is not the newest one.
    CommittedState(SnapshotPtr snapshot, HotAccounts* hot) : snapshot_(std::move(snapshot)), hot_(hot) {}
    std::uint64_t block_number() const override { return snapshot_->number(); }
    api::AccountView account(const types::Address& address) const override {
        if (hot_ != nullptr)
            if (const auto known = hot_->find(snapshot_->number(), address)) return *known;
        const auto account = snapshot_->state.account(address).value_or(chain::state::empty_account());
        if (hot_ != nullptr) hot_->put(snapshot_->number(), address, {account.nonce, account.balance});
        return {account.nonce, account.balance};
    }
    Bytes code_at(const types::Address& address) const override {
        const auto account = snapshot_->state.account(address).value_or(chain::state::empty_account());
        if (account.code_hash == chain::state::empty_account().code_hash) return {};
        return snapshot_->state.code(account.code_hash);
    }
    Hash32 storage(const types::Address& address, const Hash32& slot) const override {
        return snapshot_->state.storage(address, slot);
    }
    std::optional<Bytes> native(BytesView key) const override { return snapshot_->state.native(key); }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                      std::size_t limit) const override {
        return snapshot_->state.native_range(prefix, start, limit);
    }
    Expected<std::optional<std::vector<api::ObjectChange>>> changed_since(
        std::uint64_t since, std::span<const Bytes> prefixes, const api::ChangeLimits& limits) const override;
    Status status() const override { return snapshot_->state.status(); }
    Expected<api::AccountProof> prove(const types::Address& address, std::span<const Hash32> slots) const override {
        QUERN_TRY(auto proof, snapshot_->prove(address, slots));
        const auto& account = proof.account;
        api::AccountProof result{
            {account.nonce, account.balance}, account.code_hash, account.storage_root, std::move(proof.nodes), {}};
        for (auto& slot : proof.slots) result.slots.push_back({slot.slot, slot.value, std::move(slot.nodes)});
        return result;
    }

private:
    SnapshotPtr snapshot_;
    HotAccounts* hot_;
};

// Read from what is kept of each block to go back to the state before it: no change is missed that has no event, and
// nothing need be remembered here.
Expected<std::optional<std::vector<api::ObjectChange>>> CommittedState::changed_since(
    std::uint64_t since, std::span<const Bytes> prefixes, const api::ChangeLimits& limits) const {
    namespace state = chain::state;
    const auto& reader = *snapshot_->reader;
    // An older state is read from a newer snapshot, and what is kept counts from that one.
    const Snapshot& newest = snapshot_->newer ? *snapshot_->newer : *snapshot_;
    QUERN_TRY(const std::uint64_t oldest, state::oldest_state(reader, newest.number()));
    if (since < oldest) return std::optional<std::vector<api::ObjectChange>>();
    std::map<Bytes, api::ObjectChange, BytesLess> changed;
    std::size_t bytes = 0;
    bool fits = true;
    QUERN_CHECK(state::visit_changes(reader, state::kNativePart, since, snapshot_->number(),
                                     [&](std::uint64_t, BytesView stored_key, const std::optional<Bytes>& before) {
                                         const BytesView key = stored_key.subspan(1);  // behind the table
                                         const auto is_wanted = [&](const Bytes& prefix) {
                                             return key.size() >= prefix.size() &&
                                                    equal(key.first(prefix.size()), prefix);
                                         };
                                         if (std::none_of(prefixes.begin(), prefixes.end(), is_wanted)) return true;
                                         auto& change = changed[to_bytes(key)];
                                         change.before.push_back(before);
                                         bytes += before ? before->size() : 0;
                                         fits = changed.size() <= limits.objects && bytes <= limits.bytes;
                                         return fits;
                                     }));
    if (!fits) return std::optional<std::vector<api::ObjectChange>>();
    std::vector<api::ObjectChange> result;
    result.reserve(changed.size());
    for (auto& [key, change] : changed) result.push_back({key, std::move(change.before)});
    return std::optional(std::move(result));
}

}  // namespace

std::array<std::uint64_t, 3> HotAccounts::random_secret() {
    std::array<std::uint64_t, 3> secret{};
    OsRng rng;
    for (auto& word : secret) word = rng.u64() | 1;
    return secret;
}

std::size_t HotAccounts::SecretHasher::operator()(const types::Address& address) const noexcept {
    std::array<std::uint64_t, 3> words{};
    std::memcpy(words.data(), address.data.data(), types::Address::kSize);
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto product = static_cast<unsigned __int128>(words[i] ^ hash ^ secret[i]) * secret[(i + 1) % 3];
        hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
    return hash;
}

std::optional<api::AccountView> HotAccounts::find(std::uint64_t number, const types::Address& address) {
    const MutexLock lock(mutex_);
    if (number != number_) return std::nullopt;
    const auto found = accounts_.find(address);
    return found == accounts_.end() ? std::nullopt : std::optional(found->second);
}

void HotAccounts::put(std::uint64_t number, const types::Address& address, const api::AccountView& account) {
    const MutexLock lock(mutex_);
    if (number < number_) return;
    if (number > number_) accounts_.clear();
    number_ = number;
    if (accounts_.size() < kMaxHotAccounts) accounts_.emplace(address, account);
}

// The state after an older block than `newest`, or null when it is not kept.
Expected<SnapshotPtr> older_snapshot(const ChainSetup& setup, const SnapshotPtr& newest, std::uint64_t number) {
    QUERN_TRY(const std::uint64_t oldest, chain::state::oldest_state(*newest->reader, newest->number()));
    const bool is_recent = number >= oldest;
    if (!is_recent && !setup.archive) return SnapshotPtr();
    const BlockStore blocks(*newest->reader);
    QUERN_TRY(const auto hash, blocks.canonical_hash(number));
    QUERN_TRY(const auto encoded, hash ? blocks.block(*hash) : std::optional<Bytes>());
    if (!encoded) return fault("store.corrupt", "no block " + std::to_string(number));
    QUERN_TRY(auto block, types::decode_block(*encoded));
    const auto& header = block.header;
    std::unique_ptr<chain::state::StateAt> state;
    if (is_recent)
        state = std::make_unique<chain::state::PastState>(*newest->reader, newest->number(), number);
    else
        state = std::make_unique<chain::state::ArchiveState>(
            *newest->reader, chain::state::Roots{header.state_root, header.consensus.native_root});
    const Uint256 base_fee =
        chain::exec::next_base_fee(setup.genesis.params, header.gas_used, header.gas_limit, header.base_fee_per_gas);
    auto view = std::make_shared<const api::BlockView>(api::BlockView{std::move(block), *hash, encoded->size(), {}});
    return std::make_shared<const Snapshot>(newest, std::move(state), std::move(view), base_fee);
}

Expected<SnapshotPtr> select_snapshot(const ChainSetup& setup, const SnapshotBoard& board,
                                      const api::BlockSelector& selector) {
    using Kind = api::BlockSelector::Kind;
    const auto latest = board.latest();
    std::uint64_t number = 0;
    switch (selector.kind) {
        case Kind::latest:
        case Kind::pending:
            return latest;
        case Kind::earliest:
            break;
        case Kind::number:
            number = selector.number;
            break;
        case Kind::hash: {
            const auto encoded = or_nothing(BlockStore(*latest->reader).block(selector.hash));
            const auto block = encoded ? types::decode_block(*encoded) : fail("chain.state_unavailable");
            if (!block) return fail("chain.state_unavailable", "unknown block " + to_hex0x(selector.hash));
            number = block->header.number;
            break;
        }
    }
    if (auto snapshot = board.at(number)) return snapshot;
    if (number > latest->number())
        return fail("chain.state_unavailable", "header not found: the newest block is " +
                                                   std::to_string(latest->number()) + ", not " +
                                                   std::to_string(number));
    QUERN_TRY(auto older, older_snapshot(setup, latest, number));
    if (older) return older;
    return fail("chain.state_unavailable",
                "historical state of block " + std::to_string(number) + " is not available: only those of the newest " +
                    std::to_string(kKeptStates) + " blocks are kept (a node with -archive keeps all)");
}

Reader::BlockPtr Reader::block_by_number(const Snapshot& at, std::uint64_t number) const {
    if (number == at.number()) return at.head;
    if (number > at.number()) return nullptr;
    {
        const MutexLock lock(mutex_);
        if (const auto found = cache_.find(number); found != cache_.end()) return found->second;
    }
    const auto hash = or_nothing(BlockStore(*at.reader).canonical_hash(number));
    return hash ? block_by_hash(at, *hash) : nullptr;
}

Reader::BlockPtr Reader::block_by_hash(const Snapshot& at, const Hash32& hash) const {
    if (hash == at.head->hash) return at.head;
    const BlockStore blocks(*at.reader);
    const auto encoded = or_nothing(blocks.block(hash));
    if (!encoded) return nullptr;
    auto block = types::decode_block(*encoded);
    if (!block) {
        log::error(log::Category::store, "block {} does not decode: {}", to_hex0x(hash), block.error().to_string());
        return nullptr;
    }
    auto view = std::make_shared<const api::BlockView>(
        api::BlockView{std::move(*block), hash, encoded->size(),
                       or_nothing(blocks.finalization(hash)).value_or(Bytes{}), &pool_.senders()});
    const MutexLock lock(mutex_);
    cache_[view->block.header.number] = view;
    if (cache_.size() > kCachedBlocks) cache_.erase(cache_.begin());
    return view;
}

Reader::BlockPtr Reader::block(const api::BlockSelector& selector) const {
    const auto at = board_.latest();
    using Kind = api::BlockSelector::Kind;
    switch (selector.kind) {
        case Kind::earliest:
            return block_by_number(*at, 0);
        case Kind::number:
            return block_by_number(*at, selector.number);
        case Kind::hash:
            return block_by_hash(*at, selector.hash);
        case Kind::latest:
        case Kind::pending:
            break;
    }
    return at->head;
}

std::vector<types::Receipt> Reader::receipts(std::uint64_t block_number) const {
    const auto at = board_.latest();
    if (block_number > at->number()) return {};
    const BlockStore blocks(*at->reader);
    const auto hash = or_nothing(blocks.canonical_hash(block_number));
    const auto stored = hash ? or_nothing(blocks.receipts(*hash)) : std::nullopt;
    std::vector<types::Receipt> receipts;
    if (!stored) return receipts;
    for (const auto& encoded : *stored) {
        auto receipt = types::decode_stored_receipt(encoded);
        if (!receipt) {
            log::error(log::Category::store, "receipt of block {}: {}", block_number, receipt.error().to_string());
            return {};
        }
        receipts.push_back(std::move(*receipt));
    }
    return receipts;
}

std::optional<api::TransactionView> Reader::transaction(const Hash32& hash) const {
    const auto at = board_.latest();
    if (const auto place = or_nothing(BlockStore(*at->reader).transaction_place(hash))) {
        const auto view = block_by_number(*at, place->block.number);
        if (!view || place->position >= view->block.transactions.size()) return std::nullopt;
        auto transaction = pool_.senders().recover(view->block.transactions[place->position]);
        if (!transaction) return std::nullopt;
        return api::TransactionView{std::move(*transaction), view->hash, place->block.number, place->position,
                                    view->block.header.base_fee_per_gas};
    }
    if (const auto pooled = pool_.find(hash))
        return api::TransactionView{pooled->transaction, std::nullopt, 0, 0, at->next_base_fee};
    return std::nullopt;
}

std::optional<api::ReceiptView> Reader::receipt(const Hash32& hash) const {
    auto transaction = this->transaction(hash);
    if (!transaction || !transaction->block_hash) return std::nullopt;
    auto all = receipts(transaction->block_number);
    if (transaction->index >= all.size()) return std::nullopt;
    api::ReceiptView view;
    for (std::size_t i = 0; i < transaction->index; ++i) view.first_log_index += all[i].logs.size();
    view.receipt = std::move(all[transaction->index]);
    view.transaction = std::move(*transaction);
    return view;
}

Expected<std::shared_ptr<const api::StateView>> Reader::state(const api::BlockSelector& selector) const {
    QUERN_TRY(auto snapshot, select_snapshot(setup_, board_, selector));
    using Kind = api::BlockSelector::Kind;
    const bool is_newest = selector.kind == Kind::latest || selector.kind == Kind::pending;
    return std::shared_ptr<const api::StateView>(
        std::make_shared<CommittedState>(std::move(snapshot), is_newest ? &hot_accounts_ : nullptr));
}

std::uint64_t Reader::pending_nonce(const types::Address& address) const {
    const auto account = board_.latest()->state.account(address).value_or(chain::state::empty_account());
    return pool_.next_nonce(address, account.nonce);
}

std::vector<types::RecoveredTransaction> Reader::pending_tasks() const {
    std::vector<types::RecoveredTransaction> tasks;
    for (const auto& pooled : pool_.tasks()) tasks.push_back(pooled->transaction);
    return tasks;
}

std::optional<double> Reader::leaf_microseconds(std::uint64_t dispute) const {
    return leaf_timer_.microseconds(*board_.latest()->reader, dispute);
}

std::string Reader::params_json() const {
    auto document = chain::exec::to_json(setup_.genesis);
    for (const char* list : {"format", "timestamp_ms", "allocations", "validators", "bonds"}) document.erase(list);
    return document.dump();
}

}  // namespace quern::node
