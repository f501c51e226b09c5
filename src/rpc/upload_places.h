// Which uploads of contents are open, and which of them ends when all places are taken or when it hardly moves: whoever
// holds a place sends, and no host keeps the others out. Used by the HTTP server. Thread-safe; what ends an upload is
// called without a lock held, on the thread that begins another one or looks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "base/mutex.h"

namespace quern::rpc {

// Bytes per second that an upload makes at least: a quarter of what a line of 256 kbit/s carries.
inline constexpr std::uint64_t kLeastUploadRate = 8U << 10;
inline constexpr std::uint64_t kUploadBehindMs = 30'000;  // so far behind that rate it is ended
inline constexpr std::uint64_t kUploadCrawlsMs = 10'000;  // so far behind it gives way to a host that has fewer

struct UploadLimits {
    std::size_t places = 64;    // open at once; choose_upload() says what is beyond
    std::size_t per_host = 16;  // more are refused
    std::uint64_t bytes_per_second = kLeastUploadRate;
    std::uint64_t behind_ms = kUploadBehindMs;  // what came early is no credit
    std::uint64_t whole_ms = 24 * 3'600'000;    // an upload takes no longer
};
// Uploads that hold something of the content store, in all: beside those with a place there are such as are about to
// begin and such as had to end and have a piece on its way to the disk.
[[nodiscard]] constexpr std::size_t most_uploads(std::size_t places) { return 2 * places; }

struct OpenUpload {
    std::string_view host;        // host_of() of base/eviction.h
    std::uint64_t behind_ms = 0;  // the least rate
    std::uint64_t received = 0;   // bytes
};
// The place in `uploads` of the one that ends for a newcomer when all places are taken; nullopt: the newcomer does. Of
// the host that has most it is the one farthest behind the least rate, then the one that has sent least. The
// newcomer's host has no more than the other afterwards, or it had fewer and the other crawls. Pure.
[[nodiscard]] std::optional<std::size_t> choose_upload(std::span<const OpenUpload> uploads, std::string_view newcomer);

class UploadPlaces {
    struct Entry;
    using Entries = std::map<std::uint64_t, Entry>;

public:
    // What ends an upload: it drops what it has, says the error to its client, and gives its place back. Errors:
    // content.gave_way (busy), content.too_slow.
    using End = std::function<void(const Error& why)>;

    explicit UploadPlaces(const UploadLimits& limits) : limits_(limits) {}

    // One upload's, given back when it is dropped, on any thread; otherwise one thread at a time. Must not outlive the
    // places.
    class Place {
    public:
        ~Place();
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        // The upload goes on from here; another may have to end for it. Once, before what follows. Error
        // content.too_many_uploads (busy).
        [[nodiscard]] Status begin(std::uint64_t now_ms, End end);
        // It waits for its client from now on: this time counts.
        void wait(std::uint64_t now_ms);
        // So much came; it still waits.
        void received(std::uint64_t now_ms, std::uint64_t bytes);
        // The client waits for the node.
        void rest(std::uint64_t now_ms);

    private:
        friend class UploadPlaces;
        Place(UploadPlaces& places, std::uint64_t number) : places_(places), number_(number) {}
        UploadPlaces& places_;
        const std::uint64_t number_;
    };
    // For an upload that is to begin; nobody ends for it yet, but somebody could have to. Error
    // content.too_many_uploads (busy).
    [[nodiscard]] Expected<std::unique_ptr<Place>> open(const std::string& host, std::uint64_t now_ms);
    // Every now and then: ends what is too slow.
    void look(std::uint64_t now_ms);
    [[nodiscard]] std::size_t held() const;  // places, and what is about to begin or to end

private:
    enum class Stage { opening, open, ending };
    struct Entry {
        std::string host;
        Stage stage = Stage::opening;
        std::uint64_t begun_ms = 0;
        std::optional<std::uint64_t> waits_since_ms;  // counted up to here
        std::uint64_t debt = 0;                       // what it is behind the least rate, in thousandths of bytes
        std::uint64_t received = 0;
        End end;
    };

    // What Place's functions do to an entry.
    void count_time(Entry& entry, std::uint64_t now_ms) const;
    [[nodiscard]] std::uint64_t behind_ms(const Entry& entry) const;
    // The one that ends for a newcomer, as choose_upload() says; `with_opening`: those are counted, too.
    [[nodiscard]] Entries::iterator find_victim(const std::string& newcomer, std::uint64_t now_ms, bool with_opening)
        QUERN_REQUIRES(mutex_);
    [[nodiscard]] std::size_t count(Stage stage) const QUERN_REQUIRES(mutex_);
    [[nodiscard]] Status begin(std::uint64_t number, std::uint64_t now_ms, End end) QUERN_EXCLUDES(mutex_);

    const UploadLimits limits_;
    mutable Mutex mutex_;
    Entries entries_ QUERN_GUARDED_BY(mutex_);  // most_uploads() at most
    std::uint64_t next_ QUERN_GUARDED_BY(mutex_) = 0;
};

}  // namespace quern::rpc
