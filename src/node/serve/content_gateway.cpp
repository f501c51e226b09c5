#include "node/serve/content_gateway.h"

#include <algorithm>

#include "base/log.h"

namespace quern::node {
namespace {

class LoggedUpload final : public chain::api::ContentGateway::Upload {
public:
    LoggedUpload(std::unique_ptr<content::Store::Upload> upload, const Hash32& id, std::uint64_t size)
        : upload_(std::move(upload)), id_(id), size_(size) {}
    Status append(BytesView bytes) override { return upload_->append(bytes); }
    Status finish() override {
        QUERN_CHECK(upload_->finish());
        log::info(log::Category::content, "stored id={} bytes={}", to_hex(id_), size_);
        return {};
    }

private:
    std::unique_ptr<content::Store::Upload> upload_;
    Hash32 id_;
    std::uint64_t size_;
};

// A list of shards, which is small.
class ListUpload final : public chain::api::ContentGateway::Upload {
public:
    ListUpload(content::Store& store, const Hash32& id, std::uint64_t size) : store_(store), id_(id), size_(size) {}
    Status append(BytesView bytes) override {
        if (bytes.size() > size_ - list_.size()) return fail("content.too_large", "more than was announced");
        quern::append(list_, bytes);
        return {};
    }
    Status finish() override {
        if (list_.size() != size_) return fail("content.incomplete", std::to_string(list_.size()) + " bytes");
        const auto list = crypto::decode_content_shards(list_, store_.shard_level());
        if (!list) return fail("content.id_mismatch", list.error().to_string());
        if (const Hash32 id = list->id(); id != id_) return fail("content.id_mismatch", "these are " + to_hex(id));
        QUERN_CHECK(store_.put_shards(*list));
        log::info(log::Category::content, "stored list id={} shards={}", to_hex(id_), list->tops.size());
        return {};
    }

private:
    content::Store& store_;
    Hash32 id_;
    std::uint64_t size_;
    Bytes list_;
};

}  // namespace

void StoreGateway::fetch_from(p2p::Network& network, const Clock& clock, std::size_t waiters) {
    fetches_->network = &network;
    fetches_->clock = &clock;
    waiters_ = waiters;
}

namespace {

// What is damaged here is fetched again, too.
bool can_be_fetched(const Error& error) { return error.name == "content.not_found" || error.name == content::kCorrupt; }

// Whether nothing comes of a fetch that began at `begun_ms`.
bool is_idle(const std::map<Hash32, p2p::FetchProgress>& fetches, const Hash32& id, std::uint64_t begun_ms,
             std::uint64_t now_ms) {
    const auto fetch = fetches.find(id);
    const bool has_source = fetch != fetches.end() && fetch->second.sources != 0;
    return has_source ? now_ms >= fetch->second.progress_ms + kContentStallMs : now_ms >= begun_ms + kContentSearchMs;
}

}  // namespace

Expected<std::uint64_t> StoreGateway::obtain(const Hash32& id, std::uint64_t max_bytes) {
    auto here = store_.size(id);
    p2p::Network* const network = fetches_->network;
    if (here || !can_be_fetched(here.error()) || network == nullptr) return here;
    if (network->peer_count() == 0) return detailed(here.error(), "and no other node is connected");
    const auto begun = begin_fetch(id, max_bytes);
    if (!begun) return busy("content.too_many_fetches", "ask again later");
    wait_for(id);
    here = store_.size(id);
    if (here || !can_be_fetched(here.error())) return here;
    // Missing is what nobody has, or says to have and does not send.
    const auto fetches = network->status().fetches;
    const auto fetch = fetches.find(id);
    const bool has_source = fetch != fetches.end() && fetch->second.sources != 0;
    if (is_idle(fetches, id, *begun, fetches_->clock->monotonic_ms()))
        return fail("content.not_found",
                    has_source ? "the nodes that say to have it do not send it" : "no connected node has it");
    return busy(chain::api::kContentOnItsWay, "other nodes are being asked for it, ask again");
}

void StoreGateway::wait_for(const Hash32& id) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kContentWaitMs);
    MutexLock lock(fetches_->mutex);
    if (fetches_->waiting >= waiters_) return;
    ++fetches_->waiting;
    while (fetches_->open.contains(id) && fetches_->changed.wait_until(lock, until)) {
    }
    --fetches_->waiting;
}

bool StoreGateway::let_one_go(Fetches& fetches, bool wanted_only) {
    const auto known = fetches.network->status().fetches;
    const std::uint64_t now = fetches.clock->monotonic_ms();
    const auto idle = [&](const auto& fetch) { return is_idle(known, fetch.first, fetch.second.begun_ms, now); };
    // The first to go is one of which nothing comes, then the one that began first.
    const auto rank = [&](const auto& fetch) { return std::pair(!idle(fetch), fetch.second.begun_ms); };
    auto goes = fetches.open.end();
    for (auto at = fetches.open.begin(); at != fetches.open.end(); ++at)
        if ((at->second.wanted || !wanted_only) && (goes == fetches.open.end() || rank(*at) < rank(*goes))) goes = at;
    if (goes == fetches.open.end()) return false;
    if (!idle(*goes) && now < goes->second.begun_ms + kContentTurnMs) return false;
    fetches.network->cancel_fetch(goes->first);
    fetches.open.erase(goes);
    return true;
}

std::optional<std::uint64_t> StoreGateway::begin_fetch(const Hash32& id, std::uint64_t max_bytes) {
    const std::uint64_t now = fetches_->clock->monotonic_ms();
    {
        const MutexLock lock(fetches_->mutex);
        auto& open = fetches_->open;
        if (const auto known = open.find(id); known != open.end()) {
            if (max_bytes <= known->second.max_bytes) return known->second.begun_ms;
            known->second.max_bytes = max_bytes;
            known->second.begun_ms = now;  // those that were too large are looked for now
        } else {
            if (open.size() >= p2p::kMaxFetches && !let_one_go(*fetches_, false)) return std::nullopt;
            open[id] = {now, max_bytes, false};
        }
    }
    start(fetches_, id, max_bytes);
    return now;
}

void StoreGateway::start(const std::shared_ptr<Fetches>& fetches, const Hash32& id, std::uint64_t max_bytes) {
    log::info(log::Category::content, "fetching id={}", to_hex(id));
    const auto ended = [fetches, id](const Status& done) {
        if (done)
            log::info(log::Category::content, "fetched id={}", to_hex(id));
        else
            log::info(log::Category::content, "not fetched id={} reason={}", to_hex(id), done.error().to_string());
        {
            const MutexLock lock(fetches->mutex);
            fetches->open.erase(id);
        }
        fetches->changed.notify_all();
        begin_wanted(fetches);
    };
    fetches->network->fetch_content(id, ended, max_bytes);
}

std::vector<Hash32> StoreGateway::want(std::span<const Hash32> ids, std::uint64_t max_bytes) {
    std::vector<Hash32> here;
    std::vector<Hash32> missing;
    for (const Hash32& id : ids) {
        const auto size = store_.size(id);
        if (size)
            here.push_back(id);
        else if (can_be_fetched(size.error()))
            missing.push_back(id);
    }
    if (fetches_->network == nullptr || missing.empty()) return here;
    {
        const MutexLock lock(fetches_->mutex);
        std::set<Hash32> known;
        for (const auto& each : fetches_->wanted) known.insert(each.id);
        for (const Hash32& id : missing)
            if (!fetches_->open.contains(id) && fetches_->wanted.size() < kMaxWanted && known.insert(id).second)
                fetches_->wanted.push_back({id, max_bytes});
    }
    begin_wanted(fetches_);
    return here;
}

void StoreGateway::begin_wanted(const std::shared_ptr<Fetches>& fetches) {
    while (true) {
        Fetches::Wanted next;
        {
            const MutexLock lock(fetches->mutex);
            auto& open = fetches->open;
            while (!fetches->wanted.empty() && open.contains(fetches->wanted.front().id)) fetches->wanted.pop_front();
            if (fetches->wanted.empty()) return;
            const auto begun =
                std::count_if(open.begin(), open.end(), [](const auto& entry) { return entry.second.wanted; });
            const bool full = static_cast<std::size_t>(begun) >= kWantedAtOnce || open.size() >= p2p::kMaxFetches;
            if (full && !let_one_go(*fetches, true)) return;
            next = fetches->wanted.front();
            fetches->wanted.pop_front();
            open[next.id] = {fetches->clock->monotonic_ms(), next.max_bytes, true};
        }
        start(fetches, next.id, next.max_bytes);
    }
}

Expected<Bytes> StoreGateway::read_leaves(const Hash32& id, std::uint64_t offset, std::uint64_t length) const {
    QUERN_TRY(const auto manifest, store_.manifest(id));
    return content::encode_part(*manifest, offset, length);
}

Expected<std::unique_ptr<StoreGateway::Upload>> StoreGateway::begin_upload(const Hash32& id, std::uint64_t size) {
    QUERN_TRY(auto upload, store_.begin_upload(id, size));
    return std::unique_ptr<Upload>(std::make_unique<LoggedUpload>(std::move(upload), id, size));
}

Expected<Bytes> StoreGateway::shards(const Hash32& id) const {
    QUERN_TRY(const auto list, store_.shards(id));
    return crypto::encode(*list);
}

bool StoreGateway::begin_search(const Hash32& id) {
    {
        const MutexLock lock(fetches_->mutex);
        auto& searches = fetches_->searches;
        const std::uint64_t now = fetches_->clock->monotonic_ms();
        if (!searches.contains(id)) {
            // The oldest that has ended makes way: lists that nobody has keep none from being looked for.
            auto oldest = searches.end();
            for (auto at = searches.begin(); at != searches.end(); ++at)
                if (at->second.ended && (oldest == searches.end() || at->second.next_ms < oldest->second.next_ms))
                    oldest = at;
            if (searches.size() >= p2p::kMaxShardSearches) {
                if (oldest == searches.end()) return false;
                searches.erase(oldest);
            }
            searches[id].begun_ms = now;
        } else if (!searches[id].ended || now < searches[id].next_ms) {
            return true;
        }
        searches[id].ended.reset();
        searches[id].next_ms = now + kShardsAgainMs;
    }
    fetches_->network->fetch_shards(id, [fetches = fetches_, id](Status ended) {
        {
            const MutexLock lock(fetches->mutex);
            if (const auto search = fetches->searches.find(id); search != fetches->searches.end())
                search->second.ended = std::move(ended);
        }
        fetches->changed.notify_all();
    });
    return true;
}

Expected<Bytes> StoreGateway::obtain_shards(const Hash32& id) {
    auto here = shards(id);
    if (here || here.error().name != "content.not_found" || fetches_->network == nullptr ||
        fetches_->network->peer_count() == 0)
        return here;
    if (!begin_search(id)) return busy("content.too_many_fetches", "ask again later");
    {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kContentWaitMs);
        MutexLock lock(fetches_->mutex);
        auto& searches = fetches_->searches;
        const bool may_wait = fetches_->waiting < waiters_;
        fetches_->waiting += may_wait ? 1 : 0;
        for (bool in_time = may_wait; in_time;) {
            const auto search = searches.find(id);
            in_time = search != searches.end() && !search->second.ended && fetches_->changed.wait_until(lock, until);
        }
        fetches_->waiting -= may_wait ? 1 : 0;
        const auto search = searches.find(id);
        if (search != searches.end()) {
            const auto& [begun_ms, next_ms, ended] = search->second;
            // Others may come that have it; not for ever: missing is also what the others neither give nor deny.
            const bool soon = !ended || (!*ended && fetches_->clock->monotonic_ms() < begun_ms + kContentSearchMs);
            if (soon) return busy(chain::api::kContentOnItsWay, "other nodes are asked for its shards, ask again");
            const Status why = *ended;
            searches.erase(search);
            if (!why && why.error().is_busy()) return fail("content.not_found", "no connected node gives its shards");
            if (!why) return fail(why.error());
        }
    }
    return shards(id);
}

Expected<std::unique_ptr<StoreGateway::Upload>> StoreGateway::begin_shards(const Hash32& id, std::uint64_t size) {
    if (size > crypto::kMaxShardListBytes) return fail("content.too_large", "no list of shards is as long");
    return std::unique_ptr<Upload>(std::make_unique<ListUpload>(store_, id, size));
}

Expected<std::set<Hash32>> StoreGateway::let_go(const std::set<Hash32>& ids) {
    QUERN_TRY(auto held, store_.let_go(ids));
    log::info(log::Category::content, "let go asked={} held={}", ids.size(), held.size());
    return held;
}

}  // namespace quern::node
