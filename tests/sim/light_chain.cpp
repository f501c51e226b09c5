#include "sim/light_chain.h"

#include "crypto/hash.h"

namespace quern::sim {
namespace {

void put(Bytes& out, std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

Hash32 root_of(const Hash32& parent, const LightState& state) {
    Bytes bytes = to_bytes(parent);
    put(bytes, state.counter);
    put(bytes, state.pool);
    for (const auto stake : state.stake) put(bytes, stake);
    return crypto::sha256(bytes);
}

Hash32 transactions_root(const std::vector<Bytes>& transactions) {
    Bytes bytes;
    for (const auto& transaction : transactions) append(bytes, transaction);
    return crypto::sha256(bytes);
}

}  // namespace

std::uint64_t LightState::total() const {
    std::uint64_t sum = pool;
    for (const auto amount : stake) sum += amount;
    return sum;
}

types::Block make_genesis_block() {
    types::Block block;
    block.header.consensus.timestamp_ms = 1'000'000;
    block.header.timestamp = 1000;
    return block;
}

Tip LightGenesis::tip() const { return chain::consensus::tip_of(block.header); }

LightChain::LightChain(const LightGenesis& genesis, std::size_t range_blocks)
    : genesis_(&genesis),
      range_blocks_(std::min(range_blocks, sdbft::kMaxBlocksPerRange)),
      heights_(genesis.epoch_length) {
    state_.pool = genesis.pool;
    state_.stake = genesis.stake;
    tips_.push_back(genesis.tip());
    blocks_.emplace_back();
    certificates_.emplace_back();
    heights_by_hash_[tips_[0].hash] = 0;
    committees_ = {committee_from(state_.stake), committee_from(state_.stake)};
}

Committee LightChain::committee_from(const std::vector<std::uint64_t>& stake) const {
    std::vector<chain::consensus::CommitteeMember> members;
    for (std::size_t i = 0; i < stake.size(); ++i)
        if (stake[i] != 0) members.push_back({genesis_->keys[i], stake[i]});
    return *Committee::make(std::move(members));
}

Expected<LightState> LightChain::execute(const LightState& parent, const types::Block& block) const {
    LightState state = parent;
    for (const auto& transaction : block.transactions) {
        if (transaction.size() != 11) return fail("light.invalid", "transaction");
        const std::size_t who = transaction[1] % state.stake.size();
        const std::uint64_t amount = transaction[2];
        if (transaction[0] == 1 && amount <= state.pool && state.stake[who] + amount <= genesis_->ceiling[who]) {
            state.pool -= amount;
            state.stake[who] += amount;
        } else if (transaction[0] == 2 && state.stake[who] >= genesis_->floor[who] + amount) {
            state.pool += amount;
            state.stake[who] -= amount;
        }
        ++state.counter;
    }
    state.root = root_of(parent.root, state);
    return state;
}

const LightState* LightChain::state_of(const Hash32& hash) const {
    if (hash == tip().hash) return &state_;
    const auto found = speculative_.find(hash);
    return found == speculative_.end() ? nullptr : &found->second;
}

Expected<Bytes> LightChain::build(const sdbft::BlockRequest& request, std::vector<Bytes> transactions,
                                  std::uint8_t mark) {
    const LightState* parent = state_of(request.parent.hash);
    if (parent == nullptr) return fail("light.no_parent");
    types::Block block;
    auto& header = block.header;
    block.transactions = std::move(transactions);
    block.parent_certificate = request.parent_certificate;
    header.parent_hash = request.parent.hash;
    header.beneficiary.data[0] = mark;
    header.number = request.parent.number + 1;
    header.transactions_root = transactions_root(block.transactions);
    header.timestamp = request.timestamp_ms / 1000;
    header.prev_randao = request.beacon;
    auto& fields = header.consensus;
    fields.view = request.view;
    fields.epoch = request.epoch;
    fields.parent_certificate_hash = chain::consensus::certificate_hash(request.parent_certificate);
    fields.committee_hash = request.committee_hash;
    fields.next_committee_hash = request.next_committee_hash;
    fields.beacon = request.beacon;
    fields.vrf_proof = request.vrf_proof;
    fields.timestamp_ms = request.timestamp_ms;
    QUERN_TRY(auto state, execute(*parent, block));
    header.state_root = state.root;
    speculative_[types::hash_of(header)] = std::move(state);
    return types::encode(block);
}

bool LightChain::validate(const Hash32& hash, BytesView bytes) {
    const auto block = types::decode_block(bytes);
    if (!block) return false;
    const LightState* parent = state_of(block->header.parent_hash);
    // The question may have been overtaken by the block's own commit.
    if (parent == nullptr) return heights_by_hash_.contains(hash);
    auto state = execute(*parent, *block);
    if (!state || state->root != block->header.state_root) return false;
    speculative_[types::hash_of(block->header)] = std::move(*state);
    return true;
}

Expected<std::optional<sdbft::EpochSetup>> LightChain::commit(const Hash32&, BytesView bytes,
                                                              const std::optional<Certificate>& certificate) {
    if (commit_fails_) return fault("store.io", "injected fault");
    QUERN_TRY(const auto block, types::decode_block(bytes));
    const Tip next = chain::consensus::tip_of(block.header);
    if (block.header.parent_hash != tip().hash || !body_matches(bytes)) return fail("light.invalid", "parent or body");
    QUERN_TRY(auto state, execute(state_, block));
    if (state.root != block.header.state_root) return fail("light.invalid", "state root");
    state_ = std::move(state);
    tips_.push_back(next);
    blocks_.push_back(to_bytes(bytes));
    certificates_.push_back(certificate);
    heights_by_hash_[next.hash] = height();
    // States of other blocks of this height can never be needed again; those above are few and replaced in time.
    if (heights_.is_last(height())) {
        speculative_.clear();
        committees_.push_back(committee_from(state_.stake));
        return std::optional(epoch_at(height() + 1));
    }
    return std::optional<sdbft::EpochSetup>();
}

Status LightChain::crash(Rng&) {
    commit_fails_ = false;
    speculative_.clear();
    return {};
}

std::unique_ptr<SimChain> LightChain::copy_of_disk() const {
    auto copy = std::make_unique<LightChain>(*this);
    copy->speculative_.clear();
    return copy;
}

Status LightChain::audit() const {
    LightState first;
    first.pool = genesis_->pool;
    first.stake = genesis_->stake;
    if (state_.total() != first.total()) return fail("light.supply", std::to_string(state_.total()));
    return {};
}

sdbft::EpochSetup LightChain::epoch_setup() const { return epoch_at(height() + 1); }

Bytes LightChain::tip_certificate() const {
    return certificates_.back() ? chain::consensus::encode(*certificates_.back()) : Bytes{};
}

sdbft::EpochSetup LightChain::epoch_at(std::uint64_t height) const {
    const std::uint64_t epoch = heights_.epoch_of(height);
    const Hash32 seed = epoch == 0 ? crypto::sha256(tips_[0].hash) : tips_[heights_.seed_height(epoch - 1)].beacon;
    return {epoch, committees_[epoch], committees_[epoch + 1].hash(), seed, committees_[epoch + 1]};
}

std::optional<Committee> LightChain::committee_of(std::uint64_t epoch) const {
    return epoch < committees_.size() ? std::optional(committees_[epoch]) : std::nullopt;
}

std::optional<sdbft::BlockAnswer> LightChain::block(const Hash32& hash) const {
    const auto found = heights_by_hash_.find(hash);
    if (found == heights_by_hash_.end() || found->second == 0) return std::nullopt;
    return sdbft::BlockAnswer{blocks_[found->second]};
}

std::optional<sdbft::RangeAnswer> LightChain::range(std::uint64_t first) const {
    if (first == 0 || first > height()) return std::nullopt;
    // Up to the last block within the limit and the epoch that has a finalization of its own.
    std::optional<std::uint64_t> end;
    for (std::uint64_t at = first; at <= height() && at < first + range_blocks_; ++at) {
        if (certificates_[at]) end = at;
        if (heights_.is_last(at)) break;
    }
    if (!end) return std::nullopt;
    sdbft::RangeAnswer answer{height(), {}, *certificates_[*end]};
    for (std::uint64_t at = first; at <= *end; ++at) answer.blocks.push_back(blocks_[at]);
    return answer;
}

bool LightChain::body_matches(BytesView bytes) const {
    const auto block = types::decode_block(bytes);
    return block && transactions_root(block->transactions) == block->header.transactions_root &&
           block->withdrawals.empty();
}

}  // namespace quern::sim
