#include "compute/transfer/deliver.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/fs.h"
#include "compute/transfer/http_call.h"
#include "compute/transfer/place.h"
#include "crypto/content_file.h"

namespace quern::compute::transfer {
namespace {

constexpr std::uint64_t kLookMs = 50;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr unsigned kOk = 200;
constexpr unsigned kMultipleChoices = 300;
constexpr unsigned kUnauthorized = 401;
constexpr unsigned kForbidden = 403;
constexpr unsigned kMethodNotAllowed = 405;
constexpr unsigned kTooManyRequests = 429;
constexpr unsigned kServerError = 500;

enum class Found : std::uint8_t { same, other, hidden };

class Delivery {
public:
    Delivery(std::string file, Place place, const TransferOptions& options, const Cancellation* cancellation)
        : file_(std::move(file)), place_(std::move(place)), options_(options), cancellation_(cancellation) {}

    Expected<Delivered> run() {
        QUERN_CHECK(measure());
        Delivered done{place_.shown, size_, id_, false, true};
        QUERN_TRY(const Found before, patiently([&] { return read_back(); }));
        done.before = before == Found::same;
        if (done.before) return done;
        QUERN_CHECK(patiently([&] { return put(); }));
        QUERN_TRY(const Found after, patiently([&] { return read_back(); }));
        if (after == Found::other)
            return fail("transfer.not_delivered", place_.shown + ": it reads back as something else");
        done.verified = after == Found::same;
        return done;
    }

private:
    Status measure() {
        QUERN_TRY(const crypto::ContentShards shards, crypto::content_shards_of_file(file_));
        size_ = shards.size;
        id_ = shards.id();
        if (size_ > kMaxPutBytes) return fail("transfer.too_large", file_ + ": 5 GiB at most in one request");
        std::ifstream file(file_, std::ios::binary);
        Bytes piece(kPieceBytes);
        crypto::Sha256 hash;
        while (file.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(piece.size())),
               file.gcount() > 0)
            hash.update(BytesView(piece).first(static_cast<std::size_t>(file.gcount())));
        if (file.bad()) return fault("fs.read_failed", file_);
        sha256_ = hash.finish();
        return {};
    }

    HttpCall call() const {
        HttpCall call;
        call.url = place_.url;
        call.shown = place_.shown;
        call.addresses = place_.addresses;
        call.sign = place_.is_signed ? &options_.s3 : nullptr;
        return call;
    }

    Expected<Found> read_back() const {
        HttpCall get = call();
        crypto::ContentHasher hasher;
        get.most_bytes = size_;
        bool longer = false;
        bool answered = false;
        get.on_head = [&](const ResponseHead& head) -> Status {
            QUERN_CHECK(check_status(head.status));
            answered = head.status == kOk;
            return {};
        };
        get.on_body = [&](BytesView piece) -> Status {
            if (!answered) return {};
            longer = piece.size() > size_ - hasher.size();
            if (longer) return fail("transfer.too_large", place_.shown);
            hasher.update(piece);
            return {};
        };
        const auto head = perform(get, options_, cancellation_);
        if (longer) return Found::other;
        QUERN_CHECK(head);
        if (head->status == kUnauthorized || head->status == kForbidden || head->status == kMethodNotAllowed)
            return Found::hidden;
        return answered && hasher.size() == size_ && hasher.finish() == id_ ? Found::same : Found::other;
    }

    Status put() const {
        std::ifstream file(file_, std::ios::binary);
        if (!file) return fault("fs.cannot_open", file_);
        HttpCall call = this->call();
        call.upload_bytes = size_;
        call.upload_hash = sha256_;
        call.upload = [&](std::span<std::uint8_t> target) -> Expected<std::size_t> {
            file.read(reinterpret_cast<char*>(target.data()), static_cast<std::streamsize>(target.size()));
            if (file.bad() || file.gcount() == 0) return fault("fs.read_failed", file_);
            return static_cast<std::size_t>(file.gcount());
        };
        QUERN_TRY(const ResponseHead head, perform(call, options_, cancellation_));
        QUERN_CHECK(check_status(head.status));
        if (head.status >= kOk && head.status < kMultipleChoices) return {};
        return fail("transfer.refused", place_.shown + ": status " + std::to_string(head.status));
    }

    Status check_status(unsigned status) const {
        if (status < kServerError && status != kTooManyRequests) return {};
        return busy(kBroken, place_.shown + ": status " + std::to_string(status));
    }

    template <class Ask>
    auto patiently(const Ask& ask) const -> decltype(ask()) {
        for (unsigned i = 1;; ++i) {
            auto answer = ask();
            if (answer || !answer.error().is_busy() || answer.error().name == kStopped || i >= options_.limits.tries)
                return answer;
            const std::uint64_t wait = options_.limits.again_ms << std::min(i - 1, 6U);
            for (std::uint64_t waited = 0; waited < wait && !is_requested(cancellation_); waited += kLookMs)
                std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
        }
    }

    const std::string file_;
    const Place place_;
    const TransferOptions& options_;
    const Cancellation* const cancellation_;
    std::uint64_t size_ = 0;
    Hash32 id_;
    Hash32 sha256_;
};

Expected<SourceUri> parse_target(const std::string& text, const TransferOptions& options) {
    QUERN_TRY(SourceUri uri, parse_source_uri(text));
    if (uri.scheme == Scheme::s3 && options.s3.key_id.empty())
        return fail("transfer.no_credentials", uri.shown() + ": AWS_ACCESS_KEY_ID, or --s3-credentials");
    if (uri.id) return fail("uri.bad", "an output has no #id");
    QUERN_CHECK(target_place(uri, options));
    return uri;
}

}  // namespace

Expected<Delivered> deliver(const std::string& file, const std::string& uri, const TransferOptions& options,
                            const Cancellation* cancellation) {
    QUERN_TRY(SourceUri target, parse_target(uri, options));
    if (target.is_folder()) target.path += file.substr(file.rfind('/') + 1);
    QUERN_TRY(Place place, target_place(target, options));
    return Delivery(file, std::move(place), options, cancellation).run();
}

Status check_target(const std::string& uri, const TransferOptions& options) {
    QUERN_CHECK(parse_target(uri, options));
    return {};
}

}  // namespace quern::compute::transfer
