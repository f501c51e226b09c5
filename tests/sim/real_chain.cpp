#include "sim/real_chain.h"

#include "chain/exec/invariants/invariants.h"
#include "chain/exec/system/epoch_reader.h"
#include "chain/state/account_codec.h"
#include "chain/state/trie.h"
#include "chain/store/block_store.h"
#include "chain/store/tables.h"
#include "sim/users.h"

namespace quern::sim {
namespace {

namespace store = chain::store;
namespace state = chain::state;

class NoState final : public state::StateReader {
public:
    std::optional<state::Account> account(const types::Address&) const override { return std::nullopt; }
    Bytes code(const Hash32&) const override { return {}; }
    Hash32 storage(const types::Address&, const Hash32&) const override { return {}; }
    std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override { return {}; }
};

}  // namespace

std::string real_genesis_text(const LightGenesis& light) {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = light.block.header.consensus.timestamp_ms;
    genesis.params.epoch_length = light.epoch_length;
    genesis.params.market.unbonding_blocks = light.epoch_length + chain::params::kDrawReach;
    genesis.params.min_block_ms = 10;  // of market time alone: the scenario paces the blocks
    genesis.params.max_idle_ms = 24;
    genesis.params.market.min_window_s = 2;
    genesis.params.market.dispute_cost = 1000;
    for (std::size_t user = 0; user < kUsers; ++user)
        genesis.allocations.push_back({user_address(user), Uint256(1000) * chain::params::kGrainsPerQrn});
    for (std::size_t i = 0; i < light.stake.size(); ++i)
        if (light.stake[i] != 0)
            genesis.validators.push_back(
                {to_bytes(light.keys[i].bytes), Uint256(light.stake[i]) * chain::params::kGrainsPerQrn});
    return chain::exec::to_json(genesis).dump();
}

RealChain::RealChain(std::string genesis_text, std::uint8_t beneficiary, std::size_t range_blocks)
    : genesis_text_(std::move(genesis_text)),
      beneficiary_(beneficiary),
      range_blocks_(std::min(range_blocks, sdbft::kMaxBlocksPerRange)),
      store_(std::make_unique<store::FaultStore>(durable_)) {
    if (const auto started = start(); !started) {
        std::fprintf(stderr, "the simulated genesis is no good: %s\n", started.error().to_string().c_str());
        std::abort();
    }
}

Status RealChain::start() {
    chain_.reset();
    pool_.reset();
    QUERN_TRY(auto setup, node::open_chain_database(*store_, genesis_text_));
    setup_ = std::move(setup);
    pool_ = std::make_unique<chain::mempool::Pool>(setup_->genesis.params);
    types::Address address;
    address.data[0] = beneficiary_;
    address.data[1] = 0x51;
    QUERN_TRY(chain_, node::Chain::open({*store_, *setup_, *pool_, threads_, clock_, address, std::nullopt, 0}));
    return {};
}

Expected<Bytes> RealChain::build(const sdbft::BlockRequest& request, std::vector<Bytes>, std::uint8_t) {
    QUERN_TRY(auto built, chain_->build_block(request));
    return std::move(built.block);
}

bool RealChain::validate(const Hash32& hash, BytesView block) {
    return chain_->validate_block(hash, block).has_value();
}

Expected<std::optional<sdbft::EpochSetup>> RealChain::commit(const Hash32& hash, BytesView block,
                                                             const std::optional<Certificate>& certificate) {
    QUERN_TRY(auto committed, chain_->commit(hash, block, certificate));
    return std::move(committed.next_epoch);
}

Status RealChain::crash(Rng& rng) {
    chain_.reset();
    QUERN_CHECK(store_->crash(rng.below(store_->unsynced_batches() + 1)));
    return start();
}

std::unique_ptr<SimChain> RealChain::copy_of_disk() const {
    auto copy = std::make_unique<RealChain>(genesis_text_, beneficiary_, range_blocks_);
    store::WriteBatch rows;
    // Its own genesis goes first: what the original has erased since must not stay.
    (void)copy->durable_.for_each({}, {}, [&](BytesView key, BytesView) {
        rows.erase(to_bytes(key));
        return true;
    });
    (void)durable_.for_each({}, {}, [&](BytesView key, BytesView value) {
        rows.put(to_bytes(key), value);
        return true;
    });
    copy->chain_.reset();
    (void)copy->durable_.write(rows, true);
    copy->store_ = std::make_unique<store::FaultStore>(copy->durable_);
    if (!copy->start()) return nullptr;
    return copy;
}

void RealChain::submit(const types::RecoveredTransaction& transaction) {
    const auto latest = chain_->board().latest();
    (void)pool_->add(transaction, latest->state, latest->number());
}

std::optional<bool> RealChain::has_transactions() const {
    return pool_->has_executable(chain_->board().latest()->next_base_fee);
}

Hash32 RealChain::hash_at(std::uint64_t height) const {
    const auto hash = store::BlockStore(*store_).canonical_hash(height);
    return hash && *hash ? **hash : Hash32{};
}

sdbft::EpochSetup RealChain::epoch_setup() const { return *chain_->epoch_setup(); }

std::optional<Committee> RealChain::committee_of(std::uint64_t epoch) const {
    // The state has those up to the epoch after the next height's.
    if (epoch > sdbft::EpochHeights(setup_->genesis.params.epoch_length).epoch_of(height() + 1) + 1)
        return std::nullopt;
    auto committee = chain::exec::system::committee_of_epoch(state(), epoch);
    return committee ? std::optional(std::move(*committee)) : std::nullopt;
}

std::optional<sdbft::BlockAnswer> RealChain::block(const Hash32& hash) const {
    auto answer = server().block(hash);
    if (!answer || hash == setup_->genesis_hash) return std::nullopt;
    return sdbft::BlockAnswer{std::move(answer->block)};
}

std::optional<sdbft::RangeAnswer> RealChain::range(std::uint64_t first) const {
    if (first == 0 || first > height()) return std::nullopt;
    const std::uint64_t length = setup_->genesis.params.epoch_length;
    auto range = server().range({first, range_blocks_, node::kMaxServedRangeBytes});
    // Those of one epoch, up to the last that has a finalization of its own.
    const sdbft::EpochHeights heights(length);
    std::size_t count = 0;
    for (std::size_t i = 0; i < range.blocks.size() && heights.epoch_of(first + i) == heights.epoch_of(first); ++i)
        if (!range.blocks[i].certificate.empty()) count = i + 1;
    if (count == 0) return std::nullopt;
    auto certificate = chain::consensus::decode_certificate(range.blocks[count - 1].certificate);
    if (!certificate) return std::nullopt;
    sdbft::RangeAnswer answer{height(), {}, std::move(*certificate)};
    for (std::size_t i = 0; i < count; ++i) answer.blocks.push_back(std::move(range.blocks[i].block));
    return answer;
}

Status RealChain::audit() const {
    // The whole state over nothing: invariants then speak of all of it, and roots are made anew.
    const NoState nothing;
    state::Overlay all(nothing);
    std::vector<std::pair<Bytes, Bytes>> accounts;
    std::vector<std::pair<Bytes, Bytes>> objects;
    Status decoded;
    const auto each = [&](store::Table table, const std::function<void(BytesView, BytesView)>& visit) {
        return store_->for_each(store::table_key(table), {}, [&](BytesView key, BytesView value) {
            visit(key.subspan(1), value);
            return true;
        });
    };
    QUERN_CHECK(each(store::Table::account, [&](BytesView key, BytesView value) {
        const auto account = state::decode_account(value);
        if (!account)
            decoded = fail(account.error());
        else
            all.set_account(types::Address::copy_of(key), *account);
        accounts.emplace_back(to_bytes(key), to_bytes(value));
    }));
    QUERN_CHECK(each(store::Table::native, [&](BytesView key, BytesView value) {
        all.set_native(to_bytes(key), to_bytes(value));
        objects.emplace_back(to_bytes(key), to_bytes(value));
    }));
    QUERN_CHECK(decoded);
    const auto& header = chain_->board().latest()->head->block.header;
    if (state::secure_trie_root(accounts) != header.state_root) return fail("audit.state_root");
    if (state::trie_root(objects) != header.consensus.native_root) return fail("audit.native_root");
    return chain::exec::invariants::check_all(all, setup_->genesis.params);
}

std::vector<types::Address> RealChain::convicted() const {
    std::vector<types::Address> out;
    for (const auto& [key, value] : state().native_range(types::object_key(types::ObjectPrefix::conviction), {}, 1000))
        out.push_back(types::Address::copy_of(BytesView(key).last(20)));
    return out;
}

std::uint64_t RealChain::nonce_of(const types::Address& address) const {
    return state().account(address).value_or(state::empty_account()).nonce;
}

}  // namespace quern::sim
