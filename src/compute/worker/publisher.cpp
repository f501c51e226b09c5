#include "compute/worker/publisher.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "compute/core/state_content.h"
#include "crypto/content_id.h"
#include "vm/tensor/view.h"

namespace quern::compute::worker {
namespace {

constexpr std::uint64_t kFirstPauseMs = 250;  // before it tries again, twice as long each time
constexpr std::uint64_t kLongestPauseMs = 30'000;

ByteSource source_of(BytesView bytes) {
    return [left = bytes](std::span<std::uint8_t> buffer) mutable -> Expected<std::size_t> {
        const BytesView next = left.first(std::min(buffer.size(), left.size()));
        std::copy(next.begin(), next.end(), buffer.begin());
        left = left.subspan(next.size());
        return next.size();
    };
}

std::unique_ptr<std::uint32_t[]> copy_of(std::span<const std::uint32_t> words, ThreadPool* pool) {
    auto copy = std::make_unique_for_overwrite<std::uint32_t[]>(words.size());
    vm::tensor::parallel_parts(pool, words.size(), words.size(), [&](std::size_t begin, std::size_t end) {
        std::copy(words.data() + begin, words.data() + end, copy.get() + begin);
    });
    return copy;
}

}  // namespace

Publisher::~Publisher() {
    {
        const MutexLock lock(mutex_);
        abandoned_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

Status Publisher::begin(const vm::tensor::Program& program, const vm::tensor::State& state,
                        std::span<const Hash32> roots) {
    QUERN_CHECK(vm::tensor::check_state(program, state));
    content_ = core::encode_state(program, state, roots);
    parts_.clear();
    {
        const MutexLock lock(mutex_);
        words_.assign(state.size(), {});
        copies_.clear();
        copies_.resize(state.size());
        for (const std::size_t slot : core::own_contents(program, roots)) {
            parts_.push_back({slot, state[slot].shape, roots[slot]});
            words_[slot] = state[slot].words;
        }
    }
    thread_ = std::thread([this] { run(); });
    return {};
}

void Publisher::before_writing(std::size_t slot) {
    if (!runs()) return;
    MutexLock lock(mutex_);
    while (copying_ == slot) changed_.wait(lock);
    const std::span<const std::uint32_t> words = words_[slot];
    if (words.empty() || copies_[slot] != nullptr || is_to_end()) return;
    copies_[slot] = copy_of(words, pool_);
    words_[slot] = {copies_[slot].get(), words.size()};
}

// Most of a step is over before it writes to a slot. Without the pool, which is the training's.
bool Publisher::copy_ahead() {
    for (const Part& part : parts_) {
        std::span<const std::uint32_t> words;
        {
            const MutexLock lock(mutex_);
            if (is_to_end()) return false;
            if (copies_[part.slot] != nullptr) continue;
            words = words_[part.slot];
            copying_ = part.slot;
        }
        auto copy = copy_of(words, nullptr);
        {
            const MutexLock lock(mutex_);
            copies_[part.slot] = std::move(copy);
            words_[part.slot] = {copies_[part.slot].get(), words.size()};
            copying_.reset();
        }
        changed_.notify_all();
    }
    return true;
}

bool Publisher::is_stored() const {
    const MutexLock lock(mutex_);
    return stored_.has_value();
}

std::optional<StoredState> Publisher::take() {
    if (!is_stored()) return std::nullopt;
    thread_.join();
    const MutexLock lock(mutex_);
    return std::exchange(stored_, std::nullopt);
}

void Publisher::run() {
    StoredState stored;
    if (!copy_ahead()) return;
    for (const Part& part : parts_) {
        const auto tiles = [&]() -> ByteSource {
            return [this, &part, place = std::uint64_t{0}](std::span<std::uint8_t> buffer) mutable {
                return read(part, place, buffer);
            };
        };
        if (!put(part.root, core::slot_bytes(part.shape), tiles)) return;
        stored.slots.push_back(part.root);
        const MutexLock lock(mutex_);
        words_[part.slot] = {};
        copies_[part.slot].reset();
    }
    // The last, so that where it is the state is whole.
    stored.content = crypto::content_id_of(content_);
    if (!put(stored.content, content_.size(), [this] { return source_of(content_); })) return;
    {
        const MutexLock lock(mutex_);
        stored_ = std::move(stored);
    }
    tell_();
}

bool Publisher::put(const Hash32& id, std::uint64_t bytes, const std::function<ByteSource()>& source) {
    for (std::uint64_t pause_ms = kFirstPauseMs;; pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
        if (!pause(0)) return false;
        const Status sent = node_->put_stream(id, bytes, source());
        if (sent) return true;
        if (!pause(0)) return false;
        log::warning(log::Category::solver, "state not stored yet content={} reason={}", to_hex(id),
                     sent.error().to_string());
        if (!pause(pause_ms)) return false;
    }
}

Expected<std::size_t> Publisher::read(const Part& part, std::uint64_t& place, std::span<std::uint8_t> buffer) {
    std::span<const std::uint32_t> words;  // a copy by now, which stays until it is sent
    {
        const MutexLock lock(mutex_);
        if (is_to_end()) return busy("worker.stopped");
        words = words_[part.slot];
    }
    const std::size_t bytes = std::min<std::uint64_t>(buffer.size(), core::slot_bytes(part.shape) - place);
    core::copy_tiles(part.shape, words, place, buffer.first(bytes));
    place += bytes;
    return bytes;
}

bool Publisher::pause(std::uint64_t milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    MutexLock lock(mutex_);
    while (!is_to_end() && std::chrono::steady_clock::now() < until) (void)changed_.wait_until(lock, until);
    return !is_to_end();
}

}  // namespace quern::compute::worker
