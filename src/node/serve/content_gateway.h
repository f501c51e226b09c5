// The content store behind chain/api's ContentGateway, for RPC's /content. What is not here is fetched from other
// nodes: a request waits a little for it, while few others do, and may come again; the transfer goes on meanwhile. What
// will be wanted soon waits in a queue for places among the transfers.
// Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "chain/api/content_gateway.h"
#include "content/store.h"
#include "p2p/network.h"

namespace quern::node {

inline constexpr std::uint64_t kContentWaitMs = 1'000;     // of one request, for a content on its way
inline constexpr std::uint64_t kContentSearchMs = 10'000;  // without anybody who has it: it is missing
inline constexpr std::uint64_t kContentStallMs = 60'000;   // without a new byte of it: it is missing, too
inline constexpr std::uint64_t kShardsAgainMs = 2'000;     // peers are asked for a list of shards once more
// A place's time: then it may go to another content. What has come of the first one stays on disk, and who still needs
// it asks again, so that places go around when more contents are asked for than there are.
inline constexpr std::uint64_t kContentTurnMs = 60'000;
inline constexpr std::size_t kMaxWanted = 4'096;  // contents that will be wanted soon
inline constexpr std::size_t kWantedAtOnce = 24;  // of them on their way; the other places are for who waits
static_assert(kWantedAtOnce < p2p::kMaxFetches);

class StoreGateway final : public chain::api::ContentGateway {
public:
    // The store outlives the gateway and its uploads.
    explicit StoreGateway(content::Store& store) : store_(store) {}

    // Contents that are not here come from `network` (which outlives all requests) from now on; `waiters` requests at
    // most wait at a time, so that others find a thread.
    void fetch_from(p2p::Network& network, const Clock& clock, std::size_t waiters);

    [[nodiscard]] Expected<std::uint64_t> size(const Hash32& id) const override { return store_.size(id); }
    [[nodiscard]] Expected<std::uint64_t> obtain(const Hash32& id, std::uint64_t max_bytes) override;
    [[nodiscard]] std::vector<Hash32> want(std::span<const Hash32> ids, std::uint64_t max_bytes) override;
    [[nodiscard]] Expected<Bytes> read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const override {
        return store_.read(id, offset, length);
    }
    [[nodiscard]] Expected<Bytes> read_leaves(const Hash32& id, std::uint64_t offset,
                                              std::uint64_t length) const override;
    [[nodiscard]] Expected<std::unique_ptr<Upload>> begin_upload(const Hash32& id, std::uint64_t size) override;
    [[nodiscard]] Expected<Bytes> shards(const Hash32& id) const override;
    [[nodiscard]] Expected<Bytes> obtain_shards(const Hash32& id) override;
    [[nodiscard]] Expected<std::unique_ptr<Upload>> begin_shards(const Hash32& id, std::uint64_t size) override;
    [[nodiscard]] Expected<std::set<Hash32>> let_go(const std::set<Hash32>& ids) override;

private:
    // Shared with the network's callbacks, which may come after the gateway is gone.
    struct Fetches {
        struct One {
            std::uint64_t begun_ms = 0;
            std::uint64_t max_bytes = 0;
            bool wanted = false;  // it came from the queue
        };
        struct Wanted {
            Hash32 id;
            std::uint64_t max_bytes = 0;
        };
        Mutex mutex;
        CondVar changed;
        std::map<Hash32, One> open QUERN_GUARDED_BY(mutex);
        struct Search {
            std::uint64_t begun_ms = 0;  // the first of those that nobody answered
            std::uint64_t next_ms = 0;   // peers may be asked again
            std::optional<Status> ended;
        };
        std::map<Hash32, Search> searches QUERN_GUARDED_BY(mutex);  // for lists of shards
        std::size_t waiting QUERN_GUARDED_BY(mutex) = 0;
        std::deque<Wanted> wanted QUERN_GUARDED_BY(mutex);
        // What begins: it runs on the network's thread, too.
        p2p::Network* network = nullptr;
        const Clock* clock = nullptr;
    };
    // Starts a fetch unless it runs; when it began, or nullopt when there is no room.
    [[nodiscard]] std::optional<std::uint64_t> begin_fetch(const Hash32& id, std::uint64_t max_bytes);
    // Starts as many of those in the queue as there is room for.
    static void begin_wanted(const std::shared_ptr<Fetches>& fetches);
    // Gives up a fetch (of those from the queue alone): one of which nothing comes before one that goes on, and that
    // not before it has had its time.
    [[nodiscard]] static bool let_one_go(Fetches& fetches, bool wanted_only) QUERN_REQUIRES(fetches.mutex);
    static void start(const std::shared_ptr<Fetches>& fetches, const Hash32& id, std::uint64_t max_bytes);
    void wait_for(const Hash32& id);
    // Starts a search for a list of shards unless one runs or has just ended; false without room.
    [[nodiscard]] bool begin_search(const Hash32& id);

    content::Store& store_;
    std::size_t waiters_ = 0;
    const std::shared_ptr<Fetches> fetches_ = std::make_shared<Fetches>();
};

}  // namespace quern::node
