#include "compute/worker/task_data.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "crypto/content_id.h"

namespace quern::compute::worker {
namespace {

using crypto::kContentLeafBytes;

std::uint64_t leaf_bytes(std::uint64_t size, std::uint64_t number) {
    return std::min<std::uint64_t>(kContentLeafBytes, size - number * kContentLeafBytes);
}

void wait_to_ask_again(const Cancellation* cancellation) {
    constexpr std::uint64_t kLookMs = 10;
    for (std::uint64_t waited = 0; waited < kDataAskAgainMs && !is_requested(cancellation); waited += kLookMs)
        std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
}

}  // namespace

std::uint64_t kept_data_bytes(const vm::tensor::ProgramHeader& header, std::uint64_t most_leaves, unsigned level) {
    std::uint64_t hashes = 0;
    std::uint64_t bytes = 0;
    std::uint64_t shards = 0;
    for (const vm::tensor::DataSet& data : header.data) {
        const std::uint64_t size = vm::tensor::data_bytes(data);
        bytes += size;
        if (const std::uint64_t count = crypto::content_shard_count(size, level); count > 1) {
            shards += count;
            hashes += std::min<std::uint64_t>(count, crypto::kMaxContentShards) * Hash32::kSize;
        } else {
            hashes += crypto::content_leaf_count(size) * Hash32::kSize;
        }
    }
    const std::uint64_t a_shards = crypto::content_leaf_count(crypto::content_shard_bytes(level)) * Hash32::kSize;
    return hashes + std::min<std::uint64_t>(shards, kKeptShards) * a_shards + std::min(bytes, most_leaves);
}

std::uint64_t TaskData::Set::leaves_per_shard() const {
    return shards.is_list() ? shards.shard_bytes() / kContentLeafBytes : crypto::content_leaf_count(size);
}
Hash32 TaskData::Set::shard_id(std::uint64_t shard) const { return shards.is_list() ? shards.id_of(shard) : id; }
std::uint64_t TaskData::Set::shard_bytes(std::uint64_t shard) const {
    return shards.is_list() ? shards.bytes_of(shard) : size;
}

Expected<std::shared_ptr<const TaskData>> TaskData::load(NodeView& node, const vm::tensor::ProgramHeader& header,
                                                         std::span<const Hash32> roots, std::uint64_t kept_bytes,
                                                         unsigned level) {
    std::shared_ptr<TaskData> data(new TaskData(kept_bytes));
    for (std::size_t i = 0; i < header.data.size(); ++i) {
        QUERN_TRY(Set set, find_set(node, roots[i], vm::tensor::data_bytes(header.data[i]), level, i));
        data->sets_.push_back(std::move(set));
    }
    return std::shared_ptr<const TaskData>(std::move(data));
}

Expected<TaskData::Set> TaskData::find_set(NodeView& node, const Hash32& root, std::uint64_t size, unsigned level,
                                           std::size_t number) {
    Set set{root, size, {}, {}};
    if (root.is_zero()) return set;
    std::uint64_t found = 0;
    if (crypto::content_shard_count(size, level) > 1) {
        QUERN_TRY(set.shards, node.content_shards(root, level));
        found = set.shards.size;
    } else {
        QUERN_TRY(ContentLeaves content, node.content_leaves(root, size));
        set.leaves = std::make_shared<const std::vector<Hash32>>(std::move(content.leaves));
        found = content.size;
    }
    if (found != size)
        return fail("inputs.wrong_data_size", "data tensor " + std::to_string(number) + " has " +
                                                  std::to_string(found) + " bytes, not " + std::to_string(size));
    return set;
}

Expected<std::shared_ptr<const TaskData>> TaskData::with_last(NodeView& node, const Hash32& root,
                                                              unsigned level) const {
    std::shared_ptr<TaskData> data(new TaskData(kept_bytes_ / 4));
    data->sets_ = sets_;
    if (sets_.empty()) return fail("inputs.wrong_data_size", "there is no data tensor");
    QUERN_TRY(data->sets_.back(), find_set(node, root, sets_.back().size, level, sets_.size() - 1));
    return std::shared_ptr<const TaskData>(std::move(data));
}

Status TaskData::try_shards(NodeView& node, Rng& rng) const {
    for (const Set& set : sets_) {
        if (!set.shards.is_list()) continue;
        for (std::size_t i = 0; i < std::min(kTriedShards, set.shards.tops.size()); ++i) {
            const std::uint64_t shard = rng.below(set.shards.tops.size());
            QUERN_CHECK(node.content_leaves(set.shard_id(shard), set.shard_bytes(shard)));
        }
    }
    return {};
}

TaskData::Hashes TaskData::find_hashes(std::size_t set, std::uint64_t shard) const {
    if (!sets_[set].shards.is_list()) return sets_[set].leaves;
    const MutexLock lock(mutex_);
    const auto kept = std::find_if(hashes_.begin(), hashes_.end(), [&](const KeptHashes& each) {
        return each.key == Key{set, shard};
    });
    if (kept == hashes_.end()) return nullptr;
    hashes_.splice(hashes_.begin(), hashes_, kept);
    return kept->hashes;
}

void TaskData::keep_hashes(std::size_t set, std::uint64_t shard, Hashes hashes) const {
    const MutexLock lock(mutex_);
    if (hashes_.size() >= kKeptShards) hashes_.pop_back();
    hashes_.push_front({Key{set, shard}, std::move(hashes)});
}

TaskData::Leaf TaskData::find(std::size_t set, std::uint64_t number) const {
    const MutexLock lock(mutex_);
    const auto place = places_.find({set, number});
    if (place == places_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, place->second);
    return place->second->leaf;
}

void TaskData::keep(std::size_t set, std::uint64_t number, Leaf leaf) const {
    const MutexLock lock(mutex_);
    const Key key{set, number};
    if (places_.contains(key) || leaf->size() > kept_bytes_) return;
    for (; bytes_ + leaf->size() > kept_bytes_; kept_.pop_back()) {
        bytes_ -= kept_.back().leaf->size();
        places_.erase(kept_.back().key);
    }
    bytes_ += leaf->size();
    kept_.push_front({key, std::move(leaf)});
    places_[key] = kept_.begin();
}

void DataReader::bind(NodeView& node, const Cancellation* cancellation) {
    const MutexLock lock(mutex_);
    node_ = &node;
    cancellation_ = cancellation;
}

bool DataReader::read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const {
    if (set >= data_->sets().size()) return false;
    const std::uint64_t size = data_->sets()[set].size;
    if (first > size || out.size() > size - first) return false;
    for (std::size_t done = 0; done < out.size();) {
        const std::uint64_t at = first + done;
        const TaskData::Leaf bytes = leaf(set, at / kContentLeafBytes);
        if (bytes == nullptr) return false;
        const auto within = static_cast<std::size_t>(at % kContentLeafBytes);
        const std::size_t part = std::min(out.size() - done, bytes->size() - within);
        std::memcpy(out.data() + done, bytes->data() + within, part);
        done += part;
    }
    return true;
}

// Leaves are nodes of the tree of tiles, and so are shards' tops: the path leads up to one of them, then from it.
std::optional<std::vector<Hash32>> DataReader::tile_path(std::size_t set, std::uint64_t tile) const {
    if (set >= data_->sets().size()) return std::nullopt;
    const TaskData::Set& from = data_->sets()[set];
    const std::uint64_t number = tile / crypto::kTilesPerContentLeaf;
    const std::uint64_t within = tile % crypto::kTilesPerContentLeaf;
    if (number >= crypto::content_leaf_count(from.size) ||
        within * crypto::kContentTileBytes >= leaf_bytes(from.size, number))
        return std::nullopt;
    const std::uint64_t shard = number / from.leaves_per_shard();
    const TaskData::Hashes leaves = hashes(set, shard);
    const TaskData::Leaf bytes = leaf(set, number);
    if (leaves == nullptr || bytes == nullptr) return std::nullopt;
    std::vector<Hash32> tiles;
    for (BytesView rest(*bytes); !rest.empty();) {
        const std::size_t length = std::min(rest.size(), crypto::kContentTileBytes);
        tiles.push_back(crypto::merkle_leaf(rest.first(length)));
        rest = rest.subspan(length);
    }
    std::vector<Hash32> path = crypto::merkle_path(tiles, within);
    const std::vector<Hash32> above = crypto::merkle_path(*leaves, number % from.leaves_per_shard());
    path.insert(path.end(), above.begin(), above.end());
    if (!from.shards.is_list()) return path;
    const std::vector<Hash32> top = crypto::merkle_path(from.shards.tops, shard);
    path.insert(path.end(), top.begin(), top.end());
    return path;
}

std::optional<Error> DataReader::take_missing() {
    const MutexLock lock(mutex_);
    return std::exchange(missing_, std::nullopt);
}

Status DataReader::why_ended(const Cancellation& stopping) {
    auto missing = take_missing();
    if (missing && !stopping.requested()) return fail(std::move(*missing));
    return busy("worker.stopped");
}

template <class Ask>
auto DataReader::patiently(const Ask& ask) const {
    const auto until = std::chrono::steady_clock::now() + kDataPatience;
    while (true) {
        auto answer = ask();
        if (answer || !answer.error().is_busy() || is_requested(cancellation_) ||
            std::chrono::steady_clock::now() >= until)
            return answer;
        wait_to_ask_again(cancellation_);
    }
}

TaskData::Leaf DataReader::leaf(std::size_t set, std::uint64_t number) const {
    if (auto known = data_->find(set, number)) return known;
    const TaskData::Hashes known_hashes = hashes(set, number / data_->sets()[set].leaves_per_shard());
    const MutexLock lock(mutex_);
    if (auto known = data_->find(set, number)) return known;  // came while this thread waited
    if (missing_ || known_hashes == nullptr) return nullptr;
    auto fetched = patiently([&]() QUERN_REQUIRES(mutex_) { return fetch(set, number, *known_hashes); });
    if (!fetched) {
        missing_ = std::move(fetched.error());
        return nullptr;
    }
    data_->keep(set, number, *fetched);
    return std::move(*fetched);
}

TaskData::Hashes DataReader::hashes(std::size_t set, std::uint64_t shard) const {
    if (auto known = data_->find_hashes(set, shard)) return known;
    const MutexLock lock(mutex_);
    if (auto known = data_->find_hashes(set, shard)) return known;
    if (missing_) return nullptr;
    auto fetched = patiently([&]() QUERN_REQUIRES(mutex_) { return fetch_hashes(set, shard); });
    if (!fetched) {
        missing_ = std::move(fetched.error());
        return nullptr;
    }
    data_->keep_hashes(set, shard, *fetched);
    return std::move(*fetched);
}

Expected<TaskData::Hashes> DataReader::fetch_hashes(std::size_t set, std::uint64_t shard) const {
    const TaskData::Set& from = data_->sets()[set];
    if (from.id.is_zero()) return fail(kContentNotFound, "data tensor " + std::to_string(set) + " is not there yet");
    QUERN_TRY(ContentLeaves leaves, node_->content_leaves(from.shard_id(shard), from.shard_bytes(shard)));
    if (leaves.size != from.shard_bytes(shard)) return busy(kIdMismatch, to_hex(from.shard_id(shard)));
    return std::make_shared<const std::vector<Hash32>>(std::move(leaves.leaves));
}

Expected<TaskData::Leaf> DataReader::fetch(std::size_t set, std::uint64_t number,
                                           const std::vector<Hash32>& hashes) const {
    const TaskData::Set& from = data_->sets()[set];
    const std::uint64_t within = number % from.leaves_per_shard();
    const Hash32 id = from.shard_id(number / from.leaves_per_shard());
    QUERN_TRY(Bytes bytes, node_->read_content(id, within * kContentLeafBytes, leaf_bytes(from.size, number)));
    if (bytes.size() > kContentLeafBytes) return busy(kIdMismatch, to_hex(id));
    QUERN_CHECK(check_leaves(id, bytes, hashes, within));
    return std::make_shared<const Bytes>(std::move(bytes));
}

}  // namespace quern::compute::worker
