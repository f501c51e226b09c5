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

std::uint64_t kept_data_bytes(const vm::tensor::ProgramHeader& header, std::uint64_t most_leaves) {
    std::uint64_t hashes = 0;
    std::uint64_t bytes = 0;
    for (const vm::tensor::DataSet& data : header.data) {
        hashes += crypto::content_leaf_count(vm::tensor::data_bytes(data)) * Hash32::kSize;
        bytes += vm::tensor::data_bytes(data);
    }
    return hashes + std::min(bytes, most_leaves);
}

Expected<std::shared_ptr<const TaskData>> TaskData::load(NodeView& node, const vm::tensor::ProgramHeader& header,
                                                         std::span<const Hash32> roots, std::uint64_t kept_bytes) {
    std::shared_ptr<TaskData> data(new TaskData(kept_bytes));
    for (std::size_t i = 0; i < header.data.size(); ++i) {
        const std::uint64_t size = vm::tensor::data_bytes(header.data[i]);
        QUERN_TRY(ContentLeaves content, node.content_leaves(roots[i], size));
        if (content.size != size)
            return fail("inputs.wrong_data_size", "data tensor " + std::to_string(i) + " has " +
                                                      std::to_string(content.size) + " bytes, not " +
                                                      std::to_string(size));
        data->sets_.push_back({roots[i], std::move(content)});
    }
    return std::shared_ptr<const TaskData>(std::move(data));
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
    const std::uint64_t size = data_->sets()[set].content.size;
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

// Leaves are nodes of the tree of tiles: the path leads up to one of them, then from it.
std::optional<std::vector<Hash32>> DataReader::tile_path(std::size_t set, std::uint64_t tile) const {
    if (set >= data_->sets().size()) return std::nullopt;
    const ContentLeaves& content = data_->sets()[set].content;
    const std::uint64_t number = tile / crypto::kTilesPerContentLeaf;
    const std::uint64_t within = tile % crypto::kTilesPerContentLeaf;
    if (number >= content.leaves.size() || within * crypto::kContentTileBytes >= leaf_bytes(content.size, number))
        return std::nullopt;
    const TaskData::Leaf bytes = leaf(set, number);
    if (bytes == nullptr) return std::nullopt;
    std::vector<Hash32> tiles;
    for (BytesView rest(*bytes); !rest.empty();) {
        const std::size_t length = std::min(rest.size(), crypto::kContentTileBytes);
        tiles.push_back(crypto::merkle_leaf(rest.first(length)));
        rest = rest.subspan(length);
    }
    std::vector<Hash32> path = crypto::merkle_path(tiles, within);
    const std::vector<Hash32> above = crypto::merkle_path(content.leaves, number);
    path.insert(path.end(), above.begin(), above.end());
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

TaskData::Leaf DataReader::leaf(std::size_t set, std::uint64_t number) const {
    if (auto known = data_->find(set, number)) return known;
    const MutexLock lock(mutex_);
    if (auto known = data_->find(set, number)) return known;  // came while this thread waited
    if (missing_) return nullptr;
    for (unsigned asked = 1;; ++asked) {
        auto fetched = fetch(set, number);
        if (fetched) {
            data_->keep(set, number, *fetched);
            return std::move(*fetched);
        }
        if (!fetched.error().is_busy() || asked == kDataAskedTimes || is_requested(cancellation_)) {
            missing_ = std::move(fetched.error());
            return nullptr;
        }
        wait_to_ask_again(cancellation_);
    }
}

Expected<TaskData::Leaf> DataReader::fetch(std::size_t set, std::uint64_t number) const {
    const TaskData::Set& from = data_->sets()[set];
    QUERN_TRY(Bytes bytes,
              node_->read_content(from.id, number * kContentLeafBytes, leaf_bytes(from.content.size, number)));
    if (bytes.empty() || bytes.size() > kContentLeafBytes || crypto::content_leaf(bytes) != from.content.leaves[number])
        return busy(kIdMismatch, to_hex(from.id) + " leaf " + std::to_string(number));
    return std::make_shared<const Bytes>(std::move(bytes));
}

}  // namespace quern::compute::worker
