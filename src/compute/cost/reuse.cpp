#include "compute/cost/reuse.h"

#include <algorithm>
#include <cmath>

namespace quern::compute::cost {
namespace {

constexpr double kLeastPart = 1024;  // words
constexpr double kMostParts = 512;   // of the space: a step of a hostile program touches no more of them
constexpr double kWordBytes = 4;

}  // namespace

Reuse::Reuse(const vm::tensor::Program& program, const vm::tensor::ExecutionPlan& plan, std::size_t threads)
    : threads_(static_cast<double>(std::max<std::size_t>(threads, 1))) {
    // The arena, the slots, then constants and the seed.
    auto end = static_cast<double>(plan.arena_words);
    std::vector<double> slots;
    for (const vm::tensor::Slot& slot : program.slots) {
        slots.push_back(end);
        end += static_cast<double>(slot.shape.elements());
    }
    for (const vm::tensor::Root& root : plan.roots) {
        const auto words = static_cast<double>(root.words);
        words_.push_back(words);
        switch (root.kind) {
            case vm::tensor::Root::Kind::arena:
                base_.push_back(plan.begins.empty() ? static_cast<double>(root.offset) : 0);
                break;
            case vm::tensor::Root::Kind::slot:
            case vm::tensor::Root::Kind::next:
                base_.push_back(slots[root.index]);
                break;
            case vm::tensor::Root::Kind::seed:
            case vm::tensor::Root::Kind::constant:
                base_.push_back(end);
                end += words;
                break;
        }
    }
    part_words_ = std::max(kLeastPart, std::ceil(end / kMostParts));
    last_.assign(static_cast<std::size_t>(end / part_words_) + 1, 0);
}

std::array<double, kLevels> levels_of(double bytes, double ago) {
    std::array<double, kLevels> levels{};
    const double level = std::log2(std::max(ago, 1.0) / kLadder[0]) / 2 + 1;  // 0: the nearest cache, 1: the first
    const double at = std::clamp(level, 0.0, static_cast<double>(kLevels));
    const auto below = static_cast<std::size_t>(at);
    const double above = at - static_cast<double>(below);
    if (below > 0) levels[below - 1] = bytes * (1 - above);
    if (below < kLevels) levels[below] = bytes * above;
    return levels;
}

std::array<double, kLevels> Reuse::touch(std::size_t root, std::ptrdiff_t offset, double words) {
    std::array<double, kLevels> bytes{};
    words = std::min(words, words_[root]);
    const double first = base_[root] + std::min(static_cast<double>(offset), std::max(0.0, words_[root] - words));
    const auto begin = static_cast<std::size_t>(first / part_words_);
    const std::size_t end = std::min(last_.size() - 1, static_cast<std::size_t>((first + words - 1) / part_words_));
    const double each = words * kWordBytes / static_cast<double>(end - begin + 1);
    for (std::size_t part = begin; part <= end; ++part) {
        const double ago = (now_ - last_[part]) / threads_;
        now_ += each;
        last_[part] = now_;
        const std::array<double, kLevels> levels = levels_of(each, ago);
        for (std::size_t i = 0; i < kLevels; ++i) bytes[i] += levels[i];
    }
    return bytes;
}

}  // namespace quern::compute::cost
