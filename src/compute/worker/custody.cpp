#include "compute/worker/custody.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "chain/market/custody.h"
#include "compute/core/state_content.h"
#include "compute/worker/task_inputs.h"
#include "crypto/content_id.h"

namespace quern::compute::worker {
namespace {

using core::CustodyManifest;
using crypto::CellCode;
using crypto::FragmentIds;
using crypto::kContentLeafBytes;

constexpr std::uint64_t kWindowBytes = 64 * kContentLeafBytes;  // that are read at once
constexpr std::size_t kWantedFragments = 1'024;                 // of which a node is told ahead
// Each asks for what is missing of a content's fragments.
constexpr unsigned kFragmentPasses = 8;
// What one restoring may wait for fragments that the node lacks, so that nobody who sends them slowly, or promises
// them, holds the thread that asks: so often to be told that one is on its way, which takes a second each time, and so
// long altogether. Whoever asks again goes on with what has come meanwhile.
constexpr unsigned kMostPromises = 12;
constexpr std::chrono::seconds kMostPatience{12};

// A node that has a content by shard asks others for the whole before it says that nobody has it.
bool is_asked_for(const Error& error) { return is_not_found(error) || is_on_its_way(error); }

// A content of the node's by windows that begin with a leaf, each checked.
class Windows {
public:
    [[nodiscard]] static Expected<Windows> open(NodeView& node, const Hash32& id, const CustodyLimits& limits) {
        if (is_requested(limits.cancellation)) return busy("worker.stopped");
        auto leaves = node.content_leaves(id, limits.content_bytes);
        if (!leaves && is_asked_for(leaves.error()) &&
            limits.content_bytes > crypto::content_shard_bytes(limits.shard_level))
            if (auto shards = node.content_shards(id, limits.shard_level))
                return open_shards(node, id, std::move(*shards), limits);
        QUERN_CHECK(leaves);
        return Windows(node, id, std::move(*leaves), limits.cancellation);
    }
    [[nodiscard]] std::uint64_t size() const { return leaves_.size; }
    [[nodiscard]] Expected<Bytes> read(std::uint64_t first, std::uint64_t length) const {
        if (is_requested(cancellation_)) return busy("worker.stopped");
        if (length == 0) return Bytes{};
        QUERN_TRY(Bytes bytes, fetch(first, length));
        if (bytes.size() != length) return busy(kIdMismatch, to_hex(id_));
        QUERN_CHECK(check_leaves(id_, bytes, leaves_.leaves, first / kContentLeafBytes));
        return bytes;
    }
    // The next window from `at`, which it moves on; empty at the end.
    [[nodiscard]] Expected<Bytes> next(std::uint64_t& at) const {
        const std::uint64_t length = std::min(kWindowBytes, size() - at);
        QUERN_TRY(Bytes bytes, read(at, length));
        at += length;
        return bytes;
    }

private:
    Windows(NodeView& node, const Hash32& id, ContentLeaves leaves, const Cancellation* cancellation)
        : node_(node), id_(id), leaves_(std::move(leaves)), cancellation_(cancellation) {}
    // What nobody has whole may be there by shard, as files of more than a shard are. Shards' leaves are its own.
    [[nodiscard]] static Expected<Windows> open_shards(NodeView& node, const Hash32& id, crypto::ContentShards shards,
                                                       const CustodyLimits& limits) {
        if (shards.size > limits.content_bytes) return fail("content.too_large", to_hex(id));
        ContentLeaves all{shards.size, {}};
        for (std::size_t i = 0; i < shards.tops.size(); ++i) {
            if (is_requested(limits.cancellation)) return busy("worker.stopped");
            QUERN_TRY(const ContentLeaves some, node.content_leaves(shards.id_of(i), shards.bytes_of(i)));
            all.leaves.insert(all.leaves.end(), some.leaves.begin(), some.leaves.end());
        }
        Windows opened(node, id, std::move(all), limits.cancellation);
        opened.shards_ = std::move(shards);
        return opened;
    }
    [[nodiscard]] Expected<Bytes> fetch(std::uint64_t first, std::uint64_t length) const {
        if (!shards_.is_list()) return node_.read_content(id_, first, length);
        Bytes bytes;
        while (length != 0) {
            const std::uint64_t within = first % shards_.shard_bytes();
            const std::uint64_t part = std::min(length, shards_.shard_bytes() - within);
            const auto shard = static_cast<std::size_t>(first / shards_.shard_bytes());
            QUERN_TRY(const Bytes more, node_.read_content(shards_.id_of(shard), within, part));
            append(bytes, more);
            first += part;
            length -= part;
        }
        return bytes;
    }
    NodeView& node_;
    Hash32 id_;
    crypto::ContentShards shards_;  // no list: it is there whole
    ContentLeaves leaves_;
    const Cancellation* cancellation_;
};

Expected<FragmentIds> fragment_ids(CellCode code, const Windows& content) {
    QUERN_TRY(crypto::FragmentHasher hasher, crypto::FragmentHasher::make(code));
    for (std::uint64_t at = 0; at < content.size();) {
        QUERN_TRY(const Bytes window, content.next(at));
        hasher.update(window);
    }
    return hasher.finish();
}

// Takes what was made and not yet sent.
std::size_t take(Bytes& made, std::size_t& taken, std::span<std::uint8_t> buffer) {
    const std::size_t count = std::min(buffer.size(), made.size() - taken);
    std::copy_n(made.begin() + static_cast<std::ptrdiff_t>(taken), count, buffer.begin());
    taken += count;
    return count;
}

// One fragment of a content, made while it is sent: n fragments are n passes, and no disk nor memory.
class FragmentSource {
public:
    FragmentSource(const Windows& content, CellCode code, unsigned fragment)
        : content_(content), code_(code), fragment_(fragment) {}
    FragmentSource(const FragmentSource&) = delete;
    FragmentSource& operator=(const FragmentSource&) = delete;

    [[nodiscard]] Expected<std::size_t> read(std::span<std::uint8_t> buffer) {
        if (!encoder_) {
            const auto sink = [this](unsigned, BytesView cell) -> Status {
                append(made_, cell);
                return {};
            };
            QUERN_TRY(auto encoder, crypto::FragmentEncoder::make(code_, {fragment_}, sink));
            encoder_.emplace(std::move(encoder));
        }
        while (taken_ == made_.size() && !finished_) {
            made_.clear();
            taken_ = 0;
            QUERN_TRY(const Bytes window, content_.next(at_));
            QUERN_CHECK(encoder_->update(window));
            if (at_ < content_.size()) continue;
            QUERN_CHECK(encoder_->finish());
            finished_ = true;
        }
        return take(made_, taken_, buffer);
    }

private:
    const Windows& content_;
    const CellCode code_;
    const unsigned fragment_;
    std::optional<crypto::FragmentEncoder> encoder_;
    std::uint64_t at_ = 0;
    bool finished_ = false;
    Bytes made_;
    std::size_t taken_ = 0;
};

// `sending` is another connection: a fragment is made of what is read while it is sent.
Expected<FragmentIds> put_fragments(NodeView& node, NodeView& sending, CellCode code, const Hash32& id,
                                    const CustodyLimits& limits) {
    QUERN_TRY(const Windows content, Windows::open(node, id, limits));
    QUERN_TRY(FragmentIds ids, fragment_ids(code, content));
    for (unsigned i = 0; i < code.total; ++i) {
        QUERN_TRY(const bool known, node.has_content(ids.fragments[i]));
        if (known) continue;
        FragmentSource source(content, code, i);
        QUERN_CHECK(sending.put_stream(ids.fragments[i], crypto::fragment_bytes(ids.size, code.data),
                                       [&](std::span<std::uint8_t> buffer) { return source.read(buffer); }));
    }
    return ids;
}

// Between a thread that decodes and one that sends: one piece at a time.
class Pipe {
public:
    // Waits until the piece before it was taken. Error worker.stopped: nobody takes any more.
    [[nodiscard]] Status give(BytesView piece) {
        MutexLock lock(mutex_);
        while (taken_ < piece_.size() && !closed_) changed_.wait(lock);
        if (closed_) return busy("worker.stopped");
        piece_ = to_bytes(piece);
        taken_ = 0;
        changed_.notify_all();
        return {};
    }
    void end(Status result) {
        const MutexLock lock(mutex_);
        result_ = std::move(result);
        ended_ = true;
        changed_.notify_all();
    }
    [[nodiscard]] Expected<std::size_t> read(std::span<std::uint8_t> buffer) {
        MutexLock lock(mutex_);
        while (taken_ == piece_.size() && !ended_) changed_.wait(lock);
        if (taken_ == piece_.size()) {
            QUERN_CHECK(result_);
            return std::size_t{0};
        }
        const std::size_t count = take(piece_, taken_, buffer);
        changed_.notify_all();
        return count;
    }
    // Nothing is taken any more.
    void close() {
        const MutexLock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    [[nodiscard]] Status result() const {
        const MutexLock lock(mutex_);
        return result_;
    }

private:
    mutable Mutex mutex_;
    CondVar changed_;
    Bytes piece_ QUERN_GUARDED_BY(mutex_);
    std::size_t taken_ QUERN_GUARDED_BY(mutex_) = 0;
    bool ended_ QUERN_GUARDED_BY(mutex_) = false;
    bool closed_ QUERN_GUARDED_BY(mutex_) = false;
    Status result_ QUERN_GUARDED_BY(mutex_);
};

// One of a content of `size` bytes; another size is another content, and its bytes no fragment.
Expected<Windows> open_fragment(NodeView& node, const CustodyManifest& manifest, const FragmentIds& ids,
                                std::size_t number, const CustodyLimits& limits) {
    const std::uint64_t bytes = crypto::fragment_bytes(ids.size, manifest.code.data);
    CustodyLimits of_fragment = limits;
    of_fragment.content_bytes = std::min(limits.content_bytes, bytes);
    QUERN_TRY(Windows fragment, Windows::open(node, ids.fragments[number], of_fragment));
    if (fragment.size() != bytes) return fail(kWrongCustody, to_hex(ids.fragments[number]) + " has another size");
    return fragment;
}

// Counts what is asked for alone: what takes long because it is much is somebody's who waits for it.
class Patience {
public:
    [[nodiscard]] bool is_over() const { return promises_ >= kMostPromises || waited_ >= kMostPatience; }
    template <class Ask>
    [[nodiscard]] auto ask(Ask&& question) {
        const auto begun = std::chrono::steady_clock::now();
        auto answer = question();
        waited_ += std::chrono::steady_clock::now() - begun;
        if (!answer && is_on_its_way(answer.error())) ++promises_;
        return answer;
    }

private:
    unsigned promises_ = 0;
    std::chrono::steady_clock::duration waited_{};
};

// Fragments of which any k give the content. Those that the node has come first: nobody's promises are before them.
Expected<std::map<unsigned, Windows>> find_fragments(NodeView& node, const CustodyManifest& manifest,
                                                     const FragmentIds& ids, const CustodyLimits& limits,
                                                     Patience& patience) {
    std::map<unsigned, Windows> found;
    const unsigned needed = manifest.code.data;
    for (unsigned i = 0; i < manifest.code.total && found.size() < needed; ++i) {
        QUERN_TRY(const bool here, node.has_content(ids.fragments[i]));
        if (!here) continue;
        if (auto fragment = open_fragment(node, manifest, ids, i, limits)) found.emplace(i, std::move(*fragment));
    }
    Error last{kContentNotFound, to_hex(ids.content)};
    bool comes = true;  // some of what is missing
    for (unsigned pass = 0; comes && pass < kFragmentPasses && found.size() < needed; ++pass) {
        comes = false;
        for (unsigned i = 0; i < manifest.code.total && found.size() < needed; ++i) {
            if (found.contains(i)) continue;
            if (patience.is_over()) {
                // The node gets all others meanwhile, those that nobody was asked for among them.
                QUERN_CHECK(node.want_contents(ids.fragments, crypto::fragment_bytes(ids.size, needed)));
                return busy(chain::api::kContentOnItsWay, to_hex(ids.content));
            }
            auto fragment = patience.ask([&] { return open_fragment(node, manifest, ids, i, limits); });
            if (fragment)
                found.emplace(i, std::move(*fragment));
            else
                last = fragment.error();
            comes = comes || (!fragment && is_on_its_way(last));
        }
    }
    if (found.size() >= needed) return found;
    // What is still on its way says nothing against who was to serve it, whichever fragment it is.
    if (comes) return busy(chain::api::kContentOnItsWay, to_hex(ids.content));
    return fail(std::move(last));
}

Status restore(NodeView& node, const CustodyManifest& manifest, const Hash32& content, const CustodyLimits& limits,
               Patience& patience) {
    const FragmentIds* const ids = manifest.find(content);
    if (ids == nullptr || ids->size > limits.content_bytes) return fail(kContentNotFound, to_hex(content));
    QUERN_TRY(const auto found, find_fragments(node, manifest, *ids, limits, patience));
    // One thread reads and another sends, each over a connection of its own.
    const std::unique_ptr<NodeView> sending = node.another();
    if (sending == nullptr) return busy("custody.no_connection");
    std::vector<crypto::GivenFragment> given;
    for (const auto& [number, fragment] : found)
        given.push_back({number, [&from = fragment](std::uint64_t offset, std::uint64_t length) {
                             return from.read(offset, length);
                         }});
    Pipe pipe;
    std::thread decoder([&] {
        pipe.end(crypto::decode_fragments(manifest.code, content, ids->size, given,
                                          [&](BytesView piece) { return pipe.give(piece); }));
    });
    const Status sent =
        sending->put_stream(content, ids->size, [&](std::span<std::uint8_t> buffer) { return pipe.read(buffer); });
    pipe.close();
    decoder.join();
    // The node may have had it meanwhile and read nothing.
    if (sent) return {};
    const Status decoded = pipe.result();
    return !decoded && decoded.error().name == crypto::kWrongContent ? decoded : sent;
}

CustodyRef ref_of(const chain::types::Task& task, const Hash32& manifest) {
    return {manifest, {chain::market::custody_data(task.custodians), task.custodians}};
}

}  // namespace

CustodyRef custody_of(const chain::types::TaskClaim& live) { return ref_of(live.task, live.claim.custody_content); }
CustodyRef custody_of_start(const chain::types::Task& task) { return ref_of(task, task.start_custody); }

CustodyLimits limits_of(const vm::tensor::Program& program, CustodyLimits limits) {
    std::uint64_t most = std::max<std::uint64_t>(most_state_bytes(program), core::kMaxManifestBytes);
    for (const auto& slot : program.slots) most = std::max(most, core::slot_bytes(slot.shape));
    limits.content_bytes = std::min(limits.content_bytes, most);
    return limits;
}

Expected<std::vector<Hash32>> custody_contents(NodeView& node, const vm::tensor::Program& program,
                                               const Hash32& history, const core::HistoryManifest& manifest,
                                               const CustodyLimits& limits) {
    QUERN_CHECK(core::check_manifest(manifest));
    const std::vector<Hash32>& states = manifest.checkpoint_contents;  // two at least
    std::set<Hash32> contents{history};
    for (const Hash32& state : std::set<Hash32>{states.front(), states[states.size() - 2], states.back()}) {
        contents.insert(state);
        // One that is larger than any state content of the program is a file.
        const auto bytes = node.get_content(state, std::min(limits.content_bytes, core::state_content_bytes(program)));
        if (!bytes && bytes.error().name == kContentTooLarge) continue;
        if (!bytes && is_asked_for(bytes.error()) && node.content_shards(state, limits.shard_level)) continue;
        QUERN_CHECK(bytes);
        if (!core::is_state_content(*bytes)) continue;
        QUERN_TRY(const std::vector<Hash32> roots, core::slot_roots(*bytes));
        if (roots.size() != program.slots.size()) return fail("state.wrong_size");
        for (const std::size_t slot : core::own_contents(program, roots)) contents.insert(roots[slot]);
    }
    return std::vector<Hash32>(contents.begin(), contents.end());
}

Expected<Hash32> put_custody(NodeView& node, CellCode code, std::span<const Hash32> contents,
                             const CustodyLimits& limits) {
    CustodyManifest manifest{code, {}};
    // A view that has no other one has no connection that could be in the middle of something.
    const std::unique_ptr<NodeView> other = node.another();
    NodeView& sending = other != nullptr ? *other : node;
    for (const Hash32& content : contents) {
        QUERN_TRY(FragmentIds ids, put_fragments(node, sending, code, content, limits));
        manifest.contents.push_back(std::move(ids));
    }
    QUERN_CHECK(core::check_custody(manifest));
    return node.put_content(core::encode(manifest));
}

Expected<CustodyManifest> fetch_custody(NodeView& node, const Hash32& id, CellCode code) {
    QUERN_TRY(const Bytes bytes, node.get_content(id, core::kMaxCustodyManifestBytes));
    QUERN_TRY(CustodyManifest manifest, core::decode_custody_manifest(bytes));
    if (manifest.code != code) return fail(kWrongCustody, "another code");
    return manifest;
}

Status check_custody(NodeView& node, const CustodyManifest& manifest, std::span<const Hash32> contents,
                     const CustodyLimits& limits) {
    const bool same = std::equal(contents.begin(), contents.end(), manifest.contents.begin(), manifest.contents.end(),
                                 [](const Hash32& id, const FragmentIds& ids) { return id == ids.content; });
    if (!same) return fail(kWrongCustody, "other contents");
    for (const FragmentIds& named : manifest.contents) {
        QUERN_TRY(const Windows content, Windows::open(node, named.content, limits));
        QUERN_TRY(const FragmentIds made, fragment_ids(manifest.code, content));
        if (made != named) return fail(kWrongCustody, "other fragments of " + to_hex(named.content));
    }
    return {};
}

Status fetch_fragments(NodeView& node, const CustodyManifest& manifest, std::size_t place, const CustodyLimits& limits,
                       std::size_t& done) {
    const std::span rest = std::span(manifest.contents).subspan(std::min(done, manifest.contents.size()));
    // Those that come next are asked for, so that the node gets them while each is waited for: by their sizes, so that
    // none brings more than twice what its place in the manifest says.
    std::map<int, std::pair<std::uint64_t, std::vector<Hash32>>> wanted;
    for (const FragmentIds& ids : rest.first(std::min(rest.size(), kWantedFragments))) {
        const std::uint64_t bytes = crypto::fragment_bytes(ids.size, manifest.code.data);
        auto& [largest, fragments] = wanted[static_cast<int>(std::bit_width(bytes))];
        largest = std::max(largest, bytes);
        fragments.push_back(ids.fragments[place]);
    }
    for (const auto& [size, named] : wanted) QUERN_CHECK(node.want_contents(named.second, named.first));
    for (const FragmentIds& ids : rest) {
        QUERN_CHECK(open_fragment(node, manifest, ids, place, limits));
        ++done;
    }
    return {};
}
Status fetch_fragments(NodeView& node, const CustodyManifest& manifest, std::size_t place,
                       const CustodyLimits& limits) {
    std::size_t done = 0;
    return fetch_fragments(node, manifest, place, limits, done);
}

Status restore_content(NodeView& node, const CustodyManifest& manifest, const Hash32& content,
                       const CustodyLimits& limits) {
    Patience patience;
    return restore(node, manifest, content, limits, patience);
}

Status restore_state(NodeView& node, const CustodyRef& custody, const Hash32& content, const CustodyLimits& limits) {
    QUERN_TRY(const CustodyManifest manifest, fetch_custody(node, custody.manifest, custody.code));
    Patience patience;
    QUERN_TRY(const bool is_here, node.has_content(content));
    // Who reads it sees whether it is the state before anything is fetched that it names.
    if (!is_here && manifest.find(content) != nullptr) return restore(node, manifest, content, limits, patience);
    QUERN_TRY(const Bytes bytes, node.get_content(content, limits.content_bytes));
    if (!core::is_state_content(bytes)) return {};
    QUERN_TRY(const std::vector<Hash32> slots, core::slot_roots(bytes));
    for (const Hash32& slot : slots) {
        if (manifest.find(slot) == nullptr) continue;
        QUERN_TRY(const bool known, node.has_content(slot));
        if (!known) QUERN_CHECK(restore(node, manifest, slot, limits, patience));
    }
    return {};
}

}  // namespace quern::compute::worker
