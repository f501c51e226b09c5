// What the games of one party about one task have in common: a step from one state is replayed to and executed once,
// however many rivals dispute it, and so is what is asked of one of its nodes, tiles or elements. Results live as long
// as a game of theirs holds them, a few of the last ones longer. Games that share take turns: one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "compute/core/dispute_game.h"
#include "vm/tensor/executor.h"
#include "vm/tensor/leaf.h"

namespace quern::compute::core {

// Results by key. What nobody holds is forgotten but for the last `kept` ones.
template <class Key, class Value>
class SharedResults {
public:
    explicit SharedResults(std::size_t kept) : keep_(kept) {}

    // nullptr: unknown, or forgotten.
    [[nodiscard]] std::shared_ptr<const Value> find(const Key& key) {
        const auto found = alive_.find(key);
        auto value = found == alive_.end() ? nullptr : found->second.lock();
        if (value != nullptr) keep(key, value);
        return value;
    }
    std::shared_ptr<const Value> put(const Key& key, Value value) {
        auto shared = std::make_shared<const Value>(std::move(value));
        std::erase_if(alive_, [](const auto& entry) { return entry.second.expired(); });
        alive_[key] = shared;
        keep(key, shared);
        return shared;
    }
    // Before one more is made: no more than `kept` with it.
    void make_room() {
        if (!kept_.empty() && kept_.size() >= keep_) kept_.pop_front();
    }

private:
    using Kept = std::pair<Key, std::shared_ptr<const Value>>;
    void keep(const Key& key, const std::shared_ptr<const Value>& value) {
        if (keep_ == 0) return;
        std::erase_if(kept_, [&](const Kept& one) { return one.first == key; });
        kept_.emplace_back(key, value);
        if (kept_.size() > keep_) kept_.pop_front();
    }

    const std::size_t keep_;
    std::map<Key, std::weak_ptr<const Value>> alive_;
    std::deque<Kept> kept_;  // the one asked for last at the end
};

class StepShare {
public:
    // `states` before disputed steps are kept: 1 at least.
    explicit StepShare(std::size_t states = 1) : states(states) {}

    static constexpr std::size_t kKeptRoots = 8;    // steps, of which the roots are kept though no game asks
    static constexpr std::size_t kKeptStrides = 1;  // the same of strides: up to 32 MiB each

    struct Step {  // from a state of this root
        std::uint64_t number = 0;
        decltype(Hash32::data) before{};
        auto operator<=>(const Step&) const = default;
    };
    struct Stride {  // its states: so many, from the one after step `first` on
        std::uint64_t first = 0;
        std::uint64_t count = 0;
        decltype(Hash32::data) before{};  // that it leads from
        auto operator<=>(const Stride&) const = default;
    };
    struct Before {
        vm::tensor::State state;
        std::vector<Hash32> slots;  // its slots' roots
    };
    struct Roots {
        std::vector<Hash32> slots;  // before the step
        std::vector<Hash32> trace;  // of the outputs of its nodes
    };
    using StateRoots = std::vector<Hash32>;
    using TileHashes = std::vector<Hash32>;  // of all tiles of a node's output
    struct MicroTrace {
        std::vector<Hash32> leaves;                              // one for each state
        std::map<std::uint64_t, vm::tensor::MicroState> states;  // all; of a long trace the last, and those asked for
    };
    struct Leaf {
        std::uint32_t value = 0;
        LeafWitness witness;
    };
    using NodeKey = std::pair<Step, std::uint32_t>;
    using TileKey = std::tuple<Step, std::uint32_t, std::uint64_t>;
    using ElementKey = std::tuple<Step, std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;

    SharedResults<Stride, StateRoots> strides{kKeptStrides};
    SharedResults<Step, Before> states;
    SharedResults<Step, Roots> roots{kKeptRoots};
    SharedResults<NodeKey, TileHashes> tiles{0};
    SharedResults<TileKey, MicroTrace> micro{0};
    SharedResults<ElementKey, Leaf> leaves{0};
};

}  // namespace quern::compute::core
