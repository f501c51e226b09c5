#include "compute/worker/publisher.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"
#include "vm/tensor/view.h"

namespace quern::compute::worker {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // hashed between two looks at whether to go on
constexpr std::uint64_t kFirstPauseMs = 250;                 // before it tries again, twice as long each time
constexpr std::uint64_t kLongestPauseMs = 30'000;

}  // namespace

struct Publisher::Place {
    std::size_t in_header = 0;
    std::size_t slot = 0;
    std::size_t in_slot = 0;  // bytes
};

Publisher::~Publisher() {
    {
        const MutexLock lock(mutex_);
        abandoned_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

Status Publisher::begin(const vm::tensor::Program& program, const vm::tensor::State& state) {
    QUERN_TRY(header_, program::state_file_header(program, state));
    file_bytes_ = header_.size();
    {
        const MutexLock lock(mutex_);
        words_.clear();
        for (const vm::tensor::Tensor& slot : state) {
            words_.emplace_back(slot.words);
            file_bytes_ += slot.words.size() * sizeof(std::uint32_t);
        }
        copies_.resize(state.size());
    }
    thread_ = std::thread([this] { run(); });
    return {};
}

void Publisher::before_writing(std::size_t slot) {
    if (!runs()) return;
    const MutexLock lock(mutex_);
    if (stored_ || copies_[slot] != nullptr || is_to_end()) return;
    const std::span<const std::uint32_t> words = words_[slot];
    auto copy = std::make_unique_for_overwrite<std::uint32_t[]>(words.size());
    vm::tensor::parallel_parts(pool_, words.size(), words.size(), [&](std::size_t begin, std::size_t end) {
        std::copy(words.data() + begin, words.data() + end, copy.get() + begin);
    });
    words_[slot] = {copy.get(), words.size()};
    copies_[slot] = std::move(copy);
}

bool Publisher::is_stored() const {
    const MutexLock lock(mutex_);
    return stored_.has_value();
}

std::optional<Hash32> Publisher::take() {
    if (!is_stored()) return std::nullopt;
    thread_.join();
    const MutexLock lock(mutex_);
    return std::exchange(stored_, std::nullopt);
}

void Publisher::run() {
    const auto id = content_id();
    if (!id) return;
    for (std::uint64_t pause_ms = kFirstPauseMs;; pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
        const Status sent = node_->put_stream(*id, file_bytes_, file());
        if (sent) break;
        if (!pause(0)) return;
        log::warning(log::Category::solver, "checkpoint not stored yet content={} reason={}", to_hex(*id),
                     sent.error().to_string());
        if (!pause(pause_ms)) return;
    }
    {
        const MutexLock lock(mutex_);
        copies_.clear();
        stored_ = *id;
    }
    tell_();
}

Expected<Hash32> Publisher::content_id() {
    crypto::ContentHasher hasher;
    const ByteSource source = file();
    Bytes piece(kPieceBytes);
    for (;;) {
        QUERN_TRY(const std::size_t bytes, source(piece));
        if (bytes == 0) return hasher.finish();
        hasher.update(BytesView(piece).first(bytes));
    }
}

// From its beginning.
ByteSource Publisher::file() {
    return [this, place = Place()](std::span<std::uint8_t> buffer) mutable { return read(place, buffer); };
}

Expected<std::size_t> Publisher::read(Place& place, std::span<std::uint8_t> buffer) {
    if (place.in_header < header_.size()) {
        const auto next = BytesView(header_).subspan(place.in_header);
        const std::size_t bytes = std::min(buffer.size(), next.size());
        std::copy_n(next.begin(), bytes, buffer.begin());
        place.in_header += bytes;
        return bytes;
    }
    const MutexLock lock(mutex_);
    if (is_to_end()) return busy("worker.stopped");
    if (place.slot == words_.size()) return std::size_t{0};
    const std::span<const std::uint32_t> words = words_[place.slot];
    const std::size_t bytes = std::min(buffer.size(), words.size_bytes() - place.in_slot);
    program::copy_words(words, place.in_slot, buffer.first(bytes));
    place.in_slot += bytes;
    if (place.in_slot == words.size_bytes()) {
        ++place.slot;
        place.in_slot = 0;
    }
    return bytes;
}

bool Publisher::pause(std::uint64_t milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    MutexLock lock(mutex_);
    while (!is_to_end() && std::chrono::steady_clock::now() < until) (void)changed_.wait_until(lock, until);
    return !is_to_end();
}

}  // namespace quern::compute::worker
