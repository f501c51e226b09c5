#include "rpc/methods/task_changes.h"

#include <algorithm>
#include <map>

#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
using chain::api::ObjectChange;
using types::Claim;
using types::Task;

// The versions of a record that blocks have replaced, oldest first; nullopt: there was none.
template <types::Record T>
using Versions = std::vector<std::optional<T>>;

template <types::Record T>
Expected<Versions<T>> decode_versions(const ObjectChange& change) {
    Versions<T> versions;
    for (const auto& bytes : change.before) {
        if (!bytes) {
            versions.emplace_back();
            continue;
        }
        QUERN_TRY(auto record, types::decode_record<T>(*bytes));
        versions.emplace_back(std::move(record));
    }
    return versions;
}

// The fields, with their values now, in which a version differs from the next one.
template <types::Record T>
json::Value changed_fields(const Versions<T>& versions, const T& now) {
    json::Value present = types::to_json(now);
    std::vector<bool> differs(present.size(), false);
    json::Value next = present;
    for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
        if (!*version) return present;
        json::Value before = types::to_json(**version);
        for (std::size_t i = 0; i < differs.size(); ++i)
            if (!(before.members()[i].value == next.members()[i].value)) differs[i] = true;
        next = std::move(before);
    }
    json::Object fields;
    for (std::size_t i = 0; i < differs.size(); ++i)
        if (differs[i]) fields.push_back(present.members()[i]);
    return fields;
}

// What blocks have written of one task.
struct Touched {
    const ObjectChange* task = nullptr;
    std::vector<const ObjectChange*> claims;
    std::vector<const ObjectChange*> reports;
    std::vector<const ObjectChange*> custody;
};

// Whether the key of what belongs to a claim continues that one's.
bool is_of(const ObjectChange& part, const Bytes& claim_key) {
    return part.key.size() >= claim_key.size() &&
           equal(BytesView(part.key).subspan(1, claim_key.size() - 1), BytesView(claim_key).subspan(1));
}

bool has_any_of(const std::vector<const ObjectChange*>& parts, const Bytes& claim_key) {
    return std::any_of(parts.begin(), parts.end(), [&](const ObjectChange* each) { return is_of(*each, claim_key); });
}

bool is_live(const std::optional<Task>& task) { return task && types::is_live(*task); }

class Collector {
public:
    explicit Collector(const chain::api::StateView& state) : state_(state) {}

    // False: there is too much of it.
    Expected<bool> add(std::uint64_t id, const Touched& touched) {
        QUERN_TRY(const auto now, read<Task>(id));
        Versions<Task> versions;
        if (touched.task != nullptr) {
            QUERN_TRY(versions, decode_versions<Task>(*touched.task));
            // Who follows the live ones does not know it any more: it is told as a new one is.
            if (versions.front() && !is_live(versions.front())) versions = {std::nullopt};
        }
        if (!is_live(now)) {
            if (std::any_of(versions.begin(), versions.end(), is_live)) ended_.push_back(id);
            return true;
        }
        json::Value told = json::Value::object({{"id", id}});
        if (!versions.empty()) set(told, "task", changed_fields(versions, *now));
        QUERN_CHECK(add_claim(told, "claim", types::present_claim, *now, versions, touched));
        QUERN_CHECK(add_claim(told, "nextClaim", types::next_claim, *now, versions, touched));
        if (told.size() > 1) tasks_.push_back(std::move(told));
        return bytes_ <= kMostChanges.bytes;
    }
    json::Value take(json::Array disputes) {
        return json::Value::object(
            {{"tasks", std::move(tasks_)}, {"ended", std::move(ended_)}, {"disputes", std::move(disputes)}});
    }

private:
    static void set(json::Value& told, std::string_view name, json::Value fields) {
        if (fields.size() != 0) told.set(name, std::move(fields));  // a record may have been written as it was
    }

    template <types::Record T, class... Id>
    Expected<std::optional<T>> read(const Id&... id) {
        const auto bytes = state_.native(types::key_of<T>(id...));
        if (!bytes) return std::optional<T>();
        bytes_ += bytes->size();
        QUERN_TRY(auto record, types::decode_record<T>(*bytes));
        return std::optional<T>(std::move(record));
    }

    // Of the claim that `which` names of a task.
    template <class Which>
    Status add_claim(json::Value& told, std::string_view name, Which&& which, const Task& task,
                     const Versions<Task>& versions, const Touched& touched) {
        const auto id = which(task);
        const bool another = std::any_of(versions.begin(), versions.end(), [&](const std::optional<Task>& version) {
            return (version ? which(*version) : std::nullopt) != id;
        });
        if (!id) {
            if (another) told.set(name, json::Value());
            return {};
        }
        const auto& claims = touched.claims;
        const Bytes key = types::key_of<Claim>(*id);
        const auto written =
            std::find_if(claims.begin(), claims.end(), [&](const ObjectChange* each) { return each->key == key; });
        const bool reported = has_any_of(touched.reports, key);
        const bool kept = has_any_of(touched.custody, key);
        if (!another && written == claims.end() && !reported && !kept) return {};
        QUERN_TRY(const auto claim, read<Claim>(*id));
        if (!claim) return fault("store.corrupt", "no claim of task " + std::to_string(task.id));
        json::Value fields = json::Value::object({});
        if (another) {
            fields = types::to_json(*claim);
        } else if (written != claims.end()) {
            QUERN_TRY(const auto before, decode_versions<Claim>(**written));
            fields = changed_fields(before, *claim);
        }
        if (another || reported) {
            Reports reports;
            for (std::uint8_t place = 0; place < claim->drawn; ++place) {
                QUERN_TRY(auto report, read<types::VerifierReport>(*id, place));
                if (!report) return fault("store.corrupt", "no report of task " + std::to_string(task.id));
                reports.push_back(std::move(*report));
            }
            fields.set("reports", reports_json(reports));
        }
        if (another || kept) {
            QUERN_TRY(const auto custody, read<types::Custody>(*id));
            fields.set("custody", custody_json(custody));
        }
        set(told, name, std::move(fields));
        return {};
    }

    const chain::api::StateView& state_;
    std::size_t bytes_ = 0;  // read of what is there now
    json::Array tasks_;
    json::Array ended_;
};

}  // namespace

Result changes_of_tasks(const chain::api::StateView& state, std::uint64_t since, const Call& call) {
    using types::ObjectPrefix;
    const Bytes prefixes[] = {types::prefix_of<Task>(), types::prefix_of<Claim>(),
                              types::prefix_of<types::VerifierReport>(), types::prefix_of<types::Custody>(),
                              types::prefix_of<types::Dispute>()};
    QUERN_RPC_TRY(const auto changed, state.changed_since(since, prefixes, kMostChanges));
    if (!changed) return json::Value();
    std::map<std::uint64_t, Touched> touched;
    json::Array disputes;
    for (const ObjectChange& change : *changed) {
        // Each key begins with a number: the task's, or the dispute's.
        if (change.key.size() < 1 + sizeof(std::uint64_t)) return rpc_fail(kInternalError, "store.corrupt");
        const std::uint64_t id = Uint256::from_be(BytesView(change.key).subspan(1, sizeof(std::uint64_t))).low_u64();
        switch (static_cast<ObjectPrefix>(change.key[0])) {
            case ObjectPrefix::task:
                touched[id].task = &change;
                break;
            case ObjectPrefix::claim:
                touched[id].claims.push_back(&change);
                break;
            case ObjectPrefix::report:
                touched[id].reports.push_back(&change);
                break;
            case ObjectPrefix::custody:
                touched[id].custody.push_back(&change);
                break;
            default:
                disputes.push_back(id);
                break;
        }
    }
    Collector collector(state);
    for (const auto& [id, each] : touched) {
        if (call.is_cancelled()) return timed_out();
        QUERN_RPC_TRY(const bool fits, collector.add(id, each));
        if (!fits) return json::Value();
    }
    return collector.take(std::move(disputes));
}

}  // namespace quern::rpc::methods
