#include "node/chain/chain_database.h"

#include "base/big_endian.h"
#include "chain/consensus/committee.h"
#include "chain/state/state_tries.h"
#include "chain/store/block_store.h"
#include "chain/store/memory_kv.h"
#include "chain/store/tables.h"
#include "node/chain/activity_index.h"

namespace quern::node {
namespace {

using chain::store::BlockStore;

constexpr std::string_view kVersionName = "database_version";
constexpr std::string_view kGenesisName = "genesis";
constexpr std::string_view kGenesisHashName = "genesis_hash";
constexpr std::string_view kArchiveName = "archive";

class NoState final : public chain::state::StateReader {
public:
    std::optional<chain::state::Account> account(const chain::types::Address&) const override { return std::nullopt; }
    Bytes code(const Hash32&) const override { return {}; }
    Hash32 storage(const chain::types::Address&, const Hash32&) const override { return {}; }
    std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override { return {}; }
};

Expected<chain::consensus::Committee> committee_of(const chain::exec::Genesis& genesis) {
    std::vector<chain::types::CommitteeEntry> entries;
    entries.reserve(genesis.validators.size());
    for (const auto& validator : genesis.validators) entries.push_back({validator.public_key, validator.stake});
    return chain::consensus::Committee::from_entries(entries);
}

Expected<ChainSetup> load(const chain::store::Store& store, BytesView version) {
    if (!equal(version, be64(kDatabaseVersion)))
        return fail("node.database_version",
                    "this program reads databases of version " + std::to_string(kDatabaseVersion) + ", this one has " +
                        (version.size() == 8 ? Uint256::from_be(version).to_decimal() : std::string("no number")) +
                        ": move chaindata in the data directory away, and the node loads the chain from others");
    QUERN_TRY(const auto text, chain::store::get_meta(store, kGenesisName));
    QUERN_TRY(const auto hash, chain::store::get_meta(store, kGenesisHashName));
    if (!text || !hash || hash->size() != 32) return fault("store.corrupt", "the database names no genesis");
    ChainSetup setup;
    QUERN_TRY(setup.genesis, chain::exec::parse_genesis(as_text(*text)));
    setup.genesis_hash = Hash32::copy_of(*hash);
    setup.genesis.params.genesis_hash = setup.genesis_hash;
    QUERN_TRY(const auto archive, chain::store::get_meta(store, kArchiveName));
    setup.archive = archive.has_value();
    return setup;
}

}  // namespace

Expected<GenesisBlock> make_genesis_block(const chain::exec::Genesis& genesis, bool archive) {
    QUERN_TRY(const auto committee, committee_of(genesis));
    const NoState nothing;
    chain::state::Overlay overlay(nothing);
    chain::exec::apply_genesis(genesis, overlay);
    const chain::store::MemoryStore empty;
    QUERN_TRY(const auto tries,
              chain::state::StateTries::open(empty, 0, chain::state::Roots{}, nullptr, {.archive = archive}));
    QUERN_TRY(auto change, tries->compute(overlay, *tries->head(), empty));
    tries->commit(change.version, 0, change.batch);
    change.batch.append(tries->take_all_parts().batch);

    GenesisBlock result;
    result.block.header =
        chain::exec::genesis_header(genesis, change.roots.state_root, change.roots.native_root, committee.hash());
    result.hash = chain::types::hash_of(result.block.header);
    result.batch = std::move(change.batch);
    const chain::store::BlockId id{0, result.hash};
    BlockStore::put_block(result.batch, result.hash, chain::types::encode(result.block));
    BlockStore::put_receipts(result.batch, result.hash, {});
    BlockStore::put_canonical(result.batch, id);
    BlockStore::put_head(result.batch, id);
    begin_activity(result.batch, 1);
    chain::store::put_meta(result.batch, kVersionName, be64(kDatabaseVersion));
    chain::store::put_meta(result.batch, kGenesisName, as_bytes(chain::exec::to_json(genesis).dump()));
    chain::store::put_meta(result.batch, kGenesisHashName, result.hash);
    if (archive) chain::store::put_meta(result.batch, kArchiveName, Bytes{1});
    return result;
}

Expected<ChainSetup> open_chain_database(chain::store::Store& store, const std::optional<std::string>& genesis_text,
                                         bool archive) {
    std::optional<chain::exec::Genesis> given;
    if (genesis_text) {
        auto parsed = chain::exec::parse_genesis(*genesis_text);
        if (!parsed) {
            const std::string& detail = parsed.error().detail;
            return detailed(parsed.error(), "the file of -genesis" + (detail.empty() ? "" : ": " + detail));
        }
        given = std::move(*parsed);
    }
    QUERN_TRY(auto version, chain::store::get_meta(store, kVersionName));
    if (version && equal(*version, be64(kVersionWithoutIndex))) {
        version = to_bytes(be64(kDatabaseVersion));
        chain::store::WriteBatch batch;
        chain::store::put_meta(batch, kVersionName, *version);
        QUERN_CHECK(store.write(batch, true));
    }
    if (version) {
        QUERN_TRY(auto setup, load(store, *version));
        if (archive && !setup.archive)
            return fail("node.not_archive",
                        "this database does not have the states of its earlier blocks, and they cannot be made from "
                        "it: leave -archive out, or move chaindata in the data directory away, and the node loads the "
                        "chain from others and keeps all states");
        if (given) {
            QUERN_TRY(const auto block, make_genesis_block(*given));
            if (block.hash != setup.genesis_hash)
                return fail("node.wrong_genesis", "the data directory holds the chain with genesis " +
                                                      to_hex0x(setup.genesis_hash) + ", the file describes " +
                                                      to_hex0x(block.hash));
        }
        return setup;
    }
    if (!given)
        return fail("node.no_genesis",
                    "the data directory holds no chain yet: give -genesis=FILE (quern-genesis make writes one)");
    QUERN_TRY(const auto block, make_genesis_block(*given, archive));
    QUERN_CHECK(store.write(block.batch, true));
    given->params.genesis_hash = block.hash;
    return ChainSetup{std::move(*given), block.hash, archive};
}

}  // namespace quern::node
