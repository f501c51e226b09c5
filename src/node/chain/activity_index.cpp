#include "node/chain/activity_index.h"

#include <algorithm>
#include <map>

#include "base/big_endian.h"
#include "chain/store/block_store.h"
#include "chain/store/tables.h"
#include "node/chain/market_events.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace api = chain::api;
using chain::store::Table;
using chain::store::table_key;

constexpr std::string_view kSince = "activity_since";
constexpr std::size_t kPlaceBytes = sizeof(std::uint32_t);

tl::unexpected<Error> corrupt() { return fault("store.corrupt", "an index of activity"); }

struct StoredActivity {
    Bytes places;
    api::Holdings before;
    api::Holdings after;
    QUERN_FIELDS(v("places", places), v("before", before), v("after", after))
};

void add_place(Bytes& places, std::size_t place) { append_big_endian(places, place, kPlaceBytes); }

Expected<Places> read_places(BytesView bytes) {
    if (bytes.size() % kPlaceBytes != 0) return corrupt();
    Places places;
    for (std::size_t i = 0; i < bytes.size(); i += kPlaceBytes)
        places.push_back(static_cast<std::uint32_t>(from_big_endian(bytes.subspan(i, kPlaceBytes))));
    return places;
}

// Places by whom they are of, each once.
template <class Subject>
using PlacesOf = std::map<Subject, Bytes>;

template <class Subject>
void note(PlacesOf<Subject>& places, const Subject& subject, std::size_t place, std::map<Subject, std::size_t>& last) {
    const auto [found, is_new] = last.try_emplace(subject, place);
    if (!is_new && found->second == place) return;
    found->second = place;
    add_place(places[subject], place);
}

class Collector {
public:
    explicit Collector(const chain::state::Overlay& overlay) : overlay_(overlay) {}

    Status add(std::size_t place, const IndexedSender& sender, const types::Receipt& receipt) {
        note(accounts, sender.address, place, last_of_account_);
        for (const auto& log : receipt.logs) {
            const auto event = read_market_event(log);
            if (!event) continue;
            if (const auto account = account_of(*event)) note(accounts, *account, place, last_of_account_);
            auto task = task_of(*event);
            if (const auto dispute = dispute_of(*event); !task && dispute) {
                QUERN_TRY(const auto object, overlay_.load<types::Dispute>(*dispute));
                if (object) task = object->claim.task;
            }
            if (task) note(tasks, *task, place, last_of_task_);
        }
        return {};
    }

    PlacesOf<std::uint64_t> tasks;
    PlacesOf<types::Address> accounts;

private:
    const chain::state::Overlay& overlay_;
    std::map<std::uint64_t, std::size_t> last_of_task_;
    std::map<types::Address, std::size_t> last_of_account_;
};

// Visits the entries under a subject in a range of blocks: visit(number, value) gives a Status.
template <class Visit>
Status visit_blocks(const chain::store::Reader& reader, const Bytes& prefix, std::uint64_t from, std::uint64_t to,
                    std::size_t limit, Visit&& visit) {
    Bytes start = prefix;
    append(start, be64(from));
    Status status;
    std::size_t left = limit;
    if (left == 0) return status;
    QUERN_CHECK(reader.for_each(prefix, start, [&](BytesView key, BytesView value) {
        const std::uint64_t number = from_big_endian(key.last(sizeof(std::uint64_t)));
        if (number > to) return false;
        status = visit(number, value);
        return status.has_value() && --left != 0;
    }));
    return status;
}

}  // namespace

Expected<api::Holdings> holdings_of(const chain::state::StateReader& state, const types::Address& account) {
    api::Holdings holdings;
    holdings.balance = state.account(account).value_or(chain::state::empty_account()).balance;
    for (const types::Role role : types::kRoles) {
        const auto bytes = state.native(types::key_of<types::RoleBond>(role, account));
        if (!bytes) continue;
        const auto bond = types::decode_record<types::RoleBond>(*bytes);
        if (!bond) return fault("state.corrupt_object", bond.error().to_string());
        api::BondHoldings held{role, bond->bonded, bond->locked, {}};
        for (const auto& entry : bond->unbonding) held.unbonding += entry.amount;
        if (!held.bonded.is_zero() || !held.unbonding.is_zero()) holdings.bonds.push_back(held);
    }
    return holdings;
}

Status put_activity(chain::store::WriteBatch& batch, std::uint64_t number, std::span<const IndexedSender> senders,
                    std::span<const types::Receipt> receipts, const chain::state::Overlay& overlay) {
    Collector collector(overlay);
    for (std::size_t i = 0; i < senders.size() && i < receipts.size(); ++i)
        if (senders[i].native) QUERN_CHECK(collector.add(i, senders[i], receipts[i]));
    for (auto& [task, places] : collector.tasks)
        batch.put(table_key(Table::task_blocks, {be64(task), be64(number)}), std::move(places));
    for (auto& [account, places] : collector.accounts) {
        StoredActivity activity;
        activity.places = std::move(places);
        QUERN_TRY(activity.before, holdings_of(overlay.base(), account));
        QUERN_TRY(activity.after, holdings_of(overlay, account));
        batch.put(table_key(Table::money_blocks, {account, be64(number)}), types::encode_record(activity));
    }
    return {};
}

void begin_activity(chain::store::WriteBatch& batch, std::uint64_t first) {
    chain::store::put_meta(batch, kSince, be64(first));
}

Expected<std::optional<std::uint64_t>> activity_since(const chain::store::Reader& reader) {
    QUERN_TRY(const auto bytes, chain::store::get_meta(reader, kSince));
    if (!bytes) return std::optional<std::uint64_t>();
    if (bytes->size() != sizeof(std::uint64_t)) return corrupt();
    return std::optional(from_big_endian(*bytes));
}

Status erase_activity_above(const chain::store::Reader& reader, std::uint64_t number, chain::store::WriteBatch& batch) {
    for (const Table table : {Table::task_blocks, Table::money_blocks})
        QUERN_CHECK(reader.for_each(table_key(table), {}, [&](BytesView key, BytesView) {
            if (from_big_endian(key.last(sizeof(std::uint64_t))) > number) batch.erase(to_bytes(key));
            return true;
        }));
    QUERN_TRY(const auto since, activity_since(reader));
    if (since && *since > number + 1) begin_activity(batch, number + 1);
    return {};
}

Expected<std::vector<TaskActivity>> activity_of_task(const chain::store::Reader& reader, std::uint64_t task,
                                                     std::uint64_t from, std::uint64_t to, std::size_t limit) {
    std::vector<TaskActivity> found;
    QUERN_CHECK(visit_blocks(reader, table_key(Table::task_blocks, {be64(task)}), from, to, limit,
                             [&](std::uint64_t number, BytesView value) -> Status {
                                 QUERN_TRY(auto places, read_places(value));
                                 found.push_back({number, std::move(places)});
                                 return {};
                             }));
    return found;
}

Expected<std::vector<AccountActivity>> activity_of_account(const chain::store::Reader& reader,
                                                           const types::Address& account, std::uint64_t from,
                                                           std::uint64_t to, std::size_t limit) {
    std::vector<AccountActivity> found;
    QUERN_CHECK(visit_blocks(
        reader, table_key(Table::money_blocks, {account}), from, to, limit,
        [&](std::uint64_t number, BytesView value) -> Status {
            auto stored = types::decode_record<StoredActivity>(value);
            if (!stored) return corrupt();
            QUERN_TRY(auto places, read_places(stored->places));
            found.push_back({number, std::move(places), std::move(stored->before), std::move(stored->after)});
            return {};
        }));
    return found;
}

}  // namespace quern::node
