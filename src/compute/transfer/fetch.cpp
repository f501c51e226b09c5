#include "compute/transfer/fetch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/fs.h"
#include "base/log.h"
#include "compute/transfer/http_call.h"
#include "compute/transfer/part_file.h"
#include "compute/transfer/place.h"
#include "crypto/content_file.h"

namespace quern::compute::transfer {
namespace {

constexpr std::uint64_t kLookMs = 50;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::uint64_t kLeastProgress = crypto::kContentLeafBytes;  // a try that brings less counts as one in vain
constexpr unsigned kOk = 200;
constexpr unsigned kPartialContent = 206;
constexpr unsigned kRequestTimeout = 408;
constexpr unsigned kRangeNotSatisfiable = 416;
constexpr unsigned kTooManyRequests = 429;
constexpr unsigned kServerError = 500;

// The same source may do better at once.
bool may_pass(const Error& error) {
    return error.name == kBroken || error.name == kConnectFailed || error.name == kTooSlow;
}

void pause(std::uint64_t milliseconds, const Cancellation* cancellation) {
    for (std::uint64_t waited = 0; waited < milliseconds && !is_requested(cancellation); waited += kLookMs)
        std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
}

class Fetch {
public:
    Fetch(const Wanted& wanted, PartFile& part, const TransferOptions& options, const Cancellation* cancellation)
        : wanted_(wanted), part_(part), options_(options), cancellation_(cancellation) {}

    // What lies at the place, whole; not checked. Starts at the part's end.
    Status complete(const Place& place) {
        if (wanted_.size && part_.size() > *wanted_.size) QUERN_CHECK(part_.clear());
        unsigned in_vain = 0;
        for (unsigned broken = 0;; ++broken) {
            if (wanted_.size && part_.size() == *wanted_.size) return {};
            const std::uint64_t before = part_.size();
            const Status done = place.url.empty() ? copy(place) : download(place);
            if (done || !may_pass(done.error())) return done;
            in_vain = part_.size() < before + kLeastProgress ? in_vain + 1 : 0;
            if (in_vain >= options_.limits.tries || broken >= options_.limits.breaks) return done;
            log::debug(log::Category::worker, "transfer goes on from={} at={} reason={}", place.shown, part_.size(),
                       done.error().to_string());
            pause(options_.limits.again_ms << std::min(in_vain, 6U), cancellation_);
            if (is_requested(cancellation_)) return busy(kStopped, place.shown);
        }
    }

private:
    [[nodiscard]] std::uint64_t most() const { return wanted_.size.value_or(wanted_.max_bytes); }

    tl::unexpected<Error> too_large(const Place& place) const {
        return fail("transfer.too_large", place.shown + ": more than " + std::to_string(most()) + " bytes");
    }
    Status whole(const Place& place) const {
        if (!wanted_.size || part_.size() == *wanted_.size) return {};
        return fail("transfer.wrong_size",
                    place.shown + ": " + std::to_string(part_.size()) + " bytes, not " + std::to_string(*wanted_.size));
    }
    Status append(const Place& place, BytesView piece) {
        if (piece.size() > most() - std::min(part_.size(), most())) return too_large(place);
        return part_.append(piece);
    }

    Status download(const Place& place) {
        HttpCall call;
        call.url = place.url;
        call.shown = place.shown;
        call.addresses = place.addresses;
        call.redirects = place.redirects;
        call.sign = place.is_signed ? &options_.s3 : nullptr;
        call.from = part_.size();
        call.most_bytes = most();
        call.on_head = [&](const ResponseHead& head) { return begin(place, head); };
        call.on_body = [&](BytesView piece) { return append(place, piece); };
        QUERN_CHECK(perform(call, options_, cancellation_));
        return whole(place);
    }

    Status begin(const Place& place, const ResponseHead& head) {
        if (head.status == kRangeNotSatisfiable) {  // it has no more than that; the next try begins anew
            QUERN_CHECK(part_.clear());
            return busy(kBroken, place.shown + ": status 416");
        }
        if (head.status >= kServerError || head.status == kTooManyRequests || head.status == kRequestTimeout)
            return busy(kBroken, place.shown + ": status " + std::to_string(head.status));
        if (head.status != kOk && head.status != kPartialContent)
            return fail("transfer.refused", place.shown + ": status " + std::to_string(head.status));
        if (head.status == kOk) {  // from the beginning, whatever was asked for
            if (part_.size() != 0) QUERN_CHECK(part_.clear());
        } else if (!head.range || head.range->first != part_.size()) {
            return fail(kBadHeader, place.shown + ": another range than asked for");
        }
        if (head.length && *head.length > most() - std::min(part_.size(), most())) return too_large(place);
        const auto all = head.status == kOk ? head.length : head.range->total;
        if (all && wanted_.size && *all != *wanted_.size)
            return fail("transfer.wrong_size",
                        place.shown + ": " + std::to_string(*all) + " bytes, not " + std::to_string(*wanted_.size));
        return {};
    }

    Status copy(const Place& place) {
        QUERN_TRY(const int file, open_within(place.file, options_.directories));
        const Status copied = copy_from(place, file);
        ::close(file);
        QUERN_CHECK(copied);
        return whole(place);
    }
    Status copy_from(const Place& place, int file) {
        Bytes piece(kPieceBytes);
        for (;;) {
            if (is_requested(cancellation_)) return busy(kStopped, place.shown);
            const ssize_t got = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(part_.size()));
            const int code = errno;
            if (got < 0 && code == EINTR) continue;
            if (got < 0) return fault("fs.read_failed", place.shown + ": " + std::generic_category().message(code));
            if (got == 0) return {};
            QUERN_CHECK(append(place, BytesView(piece).first(static_cast<std::size_t>(got))));
        }
    }

    const Wanted& wanted_;
    PartFile& part_;
    const TransferOptions& options_;
    const Cancellation* const cancellation_;
};

// Whether the file is the content.
Expected<std::optional<crypto::ContentShards>> check(const std::string& path, const Wanted& wanted) {
    QUERN_TRY(crypto::ContentShards shards, crypto::content_shards_of_file(path, wanted.shard_level));
    if (shards.id() != wanted.id) return std::optional<crypto::ContentShards>();
    return std::optional(std::move(shards));
}

// Where some of it came from elsewhere, the source has a second chance with all of its own.
Expected<crypto::ContentShards> from_source(const Wanted& wanted, const Place& place, const std::string& path,
                                            PartFile& part, const TransferOptions& options,
                                            const Cancellation* cancellation) {
    for (;;) {
        const bool begun_elsewhere = part.size() != 0;
        QUERN_CHECK(Fetch(wanted, part, options, cancellation).complete(place));
        QUERN_TRY(auto shards, check(path, wanted));
        if (shards) return std::move(*shards);
        QUERN_CHECK(part.clear());
        if (!begun_elsewhere) return fail("content.id_mismatch", place.shown);
    }
}

}  // namespace

std::vector<SourceUri> sources_of(const std::vector<std::string>& uris, const Wanted& wanted) {
    std::vector<SourceUri> sources;
    for (const std::string& text : uris) {
        auto uri = parse_source_uri(text);
        if (!uri) continue;
        if (uri->id ? *uri->id != wanted.id : !uri->is_folder() && !wanted.is_plain) continue;
        if (uri->is_folder()) uri->path += to_hex(wanted.id);
        sources.push_back(std::move(*uri));
    }
    return sources;
}

Expected<Fetched> fetch(const Wanted& wanted, const std::vector<SourceUri>& sources, const std::string& directory,
                        const TransferOptions& options, const Cancellation* cancellation) {
    QUERN_CHECK(fs::create_directories(directory, 0700));
    const std::string path = directory + "/" + to_hex(wanted.id);
    const std::string part_path = path + ".part";
    if (fs::exists(path)) {
        QUERN_TRY(auto shards, check(path, wanted));
        if (shards) return Fetched{path, std::move(*shards), {}};
        QUERN_CHECK(fs::remove_file(path));
    }
    QUERN_TRY(PartFile part, PartFile::open(part_path));
    std::string reasons;
    Error last{"transfer.no_source", "none of the uris has it", {}};
    for (const SourceUri& source : sources) {
        const auto place = source_place(source, options);
        auto shards = place ? from_source(wanted, *place, part_path, part, options, cancellation)
                            : Expected<crypto::ContentShards>(fail(place.error()));
        if (shards) {
            QUERN_CHECK(part.finish(path));
            return Fetched{path, std::move(*shards), place->shown};
        }
        last = shards.error();
        if (last.name == kStopped || last.is_local_fault()) return fail(last);
        log::debug(log::Category::worker, "source gave nothing content={} reason={}", to_hex(wanted.id),
                   last.to_string());
        reasons += (reasons.empty() ? "" : "; ") + last.to_string();
    }
    if (!reasons.empty()) last.detail = reasons;
    return fail(std::move(last));
}

}  // namespace quern::compute::transfer
