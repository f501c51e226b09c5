#include "compute/worker/publisher.h"

#include <algorithm>

#include "compute/program/state_file.h"
#include "crypto/content_id.h"

namespace quern::compute::worker {
namespace {

constexpr std::size_t kSmallSlotWords = 1U << 12;
constexpr std::size_t kMostCopiedWords = 1U << 20;
constexpr std::size_t kPieceWords = 1U << 16;  // hashed between two looks at whether to go on

}  // namespace

Publisher::~Publisher() {
    abandoned_ = true;
    if (thread_.joinable()) thread_.join();
}

Status Publisher::begin(const vm::tensor::Program& program, const vm::tensor::State& state) {
    QUERN_TRY(header_, program::state_file_header(program, state));
    state_ = &state;
    copies_.assign(state.size(), {});
    std::size_t copied = 0;
    for (std::size_t slot = 0; slot < state.size(); ++slot) {
        const std::size_t count = state[slot].words.size();
        if (count > kSmallSlotWords || copied + count > kMostCopiedWords) continue;
        copies_[slot] = state[slot].words;
        copied += count;
    }
    is_ready_ = false;
    {
        const MutexLock lock(mutex_);
        sent_ = 0;
    }
    thread_ = std::thread([this] {
        content_ = send();
        set_sent(copies_.size());
        is_ready_ = true;
    });
    return {};
}

void Publisher::before_writing(std::size_t slot) {
    if (!thread_.joinable() || !copies_[slot].empty()) return;
    MutexLock lock(mutex_);
    while (sent_ <= slot) sent_more_.wait(lock);
}

void Publisher::set_sent(std::size_t slots) {
    {
        const MutexLock lock(mutex_);
        sent_ = slots;
    }
    sent_more_.notify_all();
}

Expected<Hash32> Publisher::finish() {
    thread_.join();
    state_ = nullptr;
    return std::move(content_);
}

std::span<const std::uint32_t> Publisher::words(std::size_t slot) const {
    return copies_[slot].empty() ? std::span<const std::uint32_t>((*state_)[slot].words) : copies_[slot];
}

Expected<Hash32> Publisher::send() {
    const auto has_to_stop = [this] { return abandoned_ || stopping_.requested(); };
    crypto::ContentHasher hasher;
    hasher.update(header_);
    Bytes piece;
    for (std::size_t slot = 0; slot < copies_.size(); ++slot) {
        const auto all = words(slot);
        for (std::size_t at = 0; at < all.size(); at += kPieceWords) {
            if (has_to_stop()) return busy("worker.stopped");
            piece.resize(std::min(kPieceWords, all.size() - at) * sizeof(std::uint32_t));
            program::copy_words(all.subspan(at), piece);
            hasher.update(piece);
        }
    }
    const std::uint64_t size = hasher.size();
    const Hash32 id = hasher.finish();
    std::size_t in_header = 0;
    std::size_t slot = 0;
    std::size_t at = 0;
    const ByteSource source = [&](std::span<std::uint8_t> buffer) -> Expected<std::size_t> {
        if (has_to_stop()) return busy("worker.stopped");
        if (in_header < header_.size()) {
            const std::size_t take = std::min(buffer.size(), header_.size() - in_header);
            std::copy_n(header_.begin() + static_cast<std::ptrdiff_t>(in_header), take, buffer.begin());
            in_header += take;
            return take;
        }
        if (slot == copies_.size()) return std::size_t{0};
        const auto left = words(slot).subspan(at);
        const std::size_t count = std::min(buffer.size() / sizeof(std::uint32_t), left.size());
        program::copy_words(left, buffer.first(count * sizeof(std::uint32_t)));
        at += count;
        if (count == left.size()) {
            set_sent(++slot);
            at = 0;
        }
        return count * sizeof(std::uint32_t);
    };
    QUERN_CHECK(node_->put_stream(id, size, source));
    return id;
}

}  // namespace quern::compute::worker
