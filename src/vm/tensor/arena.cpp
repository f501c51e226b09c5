// Where the buffers of a plan lie: in one arena, or where its holes are too many one by one.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "vm/tensor/plan.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kAlignmentWords = 16;  // a cache line
constexpr std::size_t kMostInOrder = 4096;   // buffers that are placed with a look at all others

class Arena {
public:
    explicit Arena(ExecutionPlan& plan) : plan_(plan) {}

    // Where the roots lie in the arena: of some ways the one that takes least.
    void place() {
        std::vector<std::size_t> roots;
        for (std::size_t r = 0; r < plan_.roots.size(); ++r)
            if (plan_.roots[r].kind == Root::Kind::arena) roots.push_back(r);
        std::vector<std::size_t> best;
        const auto take_if_less = [&](std::size_t words) {
            if (!best.empty() && words >= plan_.arena_words) return;
            plan_.arena_words = words;
            best.clear();
            for (const std::size_t r : roots) best.push_back(plan_.roots[r].offset);
        };
        take_if_less(place_by_step(roots, 0));
        // Who is large, lives long or to the end is hard to place once others lie about.
        using Key = std::size_t (*)(const Root&);
        const std::array<Key, 3> keys{
            [](const Root& root) { return root.words; },
            [](const Root& root) { return root.words * (root.last_step - root.first_step + 1); },
            [](const Root& root) { return root.last_step; }};
        for (const Key key : keys) take_if_less(place_in_order(roots, key));
        for (std::size_t i = 0; i < roots.size(); ++i) plan_.roots[roots[i]].offset = best[i];
    }

private:
    std::size_t padded(std::size_t r) const {
        return (plan_.roots[r].words + kAlignmentWords - 1) / kAlignmentWords * kAlignmentWords;
    }

    // By falling key, each in the smallest gap between those that live with it; behind them the small ones that are too
    // many for that.
    template <class Key>
    std::size_t place_in_order(std::vector<std::size_t> roots, Key key) {
        const auto words = [](const Root& root) { return root.words; };
        const auto sort = [&](std::size_t from, std::size_t to, auto by) {
            std::stable_sort(roots.begin() + static_cast<std::ptrdiff_t>(from),
                             roots.begin() + static_cast<std::ptrdiff_t>(to),
                             [&](std::size_t a, std::size_t b) { return by(plan_.roots[a]) > by(plan_.roots[b]); });
        };
        const std::size_t count = std::min(roots.size(), kMostInOrder);
        sort(0, roots.size(), words);
        sort(0, count, key);
        std::vector<std::size_t> placed;  // by offset
        std::size_t end = 0;
        for (std::size_t i = 0; i < count; ++i) {
            Root& root = plan_.roots[roots[i]];
            std::size_t at = 0;  // behind those so far that live with it
            std::size_t best = kNone;
            std::size_t best_gap = kNone;
            for (const std::size_t p : placed) {
                const Root& other = plan_.roots[p];
                if (other.last_step < root.first_step || root.last_step < other.first_step) continue;
                if (other.offset > at && other.offset - at >= padded(roots[i]) && other.offset - at < best_gap) {
                    best = at;
                    best_gap = other.offset - at;
                }
                at = std::max(at, other.offset + padded(p));
            }
            root.offset = best != kNone ? best : at;
            end = std::max(end, root.offset + padded(roots[i]));
            const auto behind =
                std::upper_bound(placed.begin(), placed.end(), root.offset,
                                 [&](std::size_t offset, std::size_t p) { return offset < plan_.roots[p].offset; });
            placed.insert(behind, roots[i]);
        }
        return place_by_step({roots.begin() + static_cast<std::ptrdiff_t>(count), roots.end()}, end);
    }

    // In the order of the steps, each in the smallest hole: a root's words are free again after the last step that
    // reads them. From `first` on; gives the end.
    std::size_t place_by_step(const std::vector<std::size_t>& roots, std::size_t first) {
        std::size_t end = first;
        std::vector<std::vector<std::size_t>> begins(plan_.steps.size() + 1);
        std::vector<std::vector<std::size_t>> ends(plan_.steps.size() + 1);
        for (const std::size_t r : roots) {
            begins[plan_.roots[r].first_step].push_back(r);
            ends[plan_.roots[r].last_step].push_back(r);
        }
        std::map<std::size_t, std::size_t> holes;               // by offset: words
        std::set<std::pair<std::size_t, std::size_t>> by_size;  // words, offset: a stranger's program may have many
        const auto add_hole = [&](std::size_t offset, std::size_t words) {
            holes.emplace(offset, words);
            by_size.emplace(words, offset);
        };
        const auto take_hole = [&](std::map<std::size_t, std::size_t>::iterator hole) {
            const auto [offset, words] = *hole;
            by_size.erase({words, offset});
            holes.erase(hole);
            return words;
        };
        for (std::size_t s = 0; s < begins.size(); ++s) {
            for (const std::size_t r : begins[s]) {
                const auto best = by_size.lower_bound({padded(r), 0});
                if (best != by_size.end()) {
                    const auto [words, offset] = *best;
                    take_hole(holes.find(offset));
                    plan_.roots[r].offset = offset;
                    if (words > padded(r)) add_hole(offset + padded(r), words - padded(r));
                } else {
                    plan_.roots[r].offset = end;
                    end += padded(r);
                }
            }
            for (const std::size_t r : ends[s]) {
                std::size_t offset = plan_.roots[r].offset;
                std::size_t words = padded(r);
                auto after = holes.lower_bound(offset);
                if (after != holes.begin() && std::prev(after)->first + std::prev(after)->second == offset) {
                    offset = std::prev(after)->first;
                    words += take_hole(std::prev(after));
                }
                if (after != holes.end() && offset + words == after->first) words += take_hole(after);
                add_hole(offset, words);
            }
        }
        return end;
    }

    ExecutionPlan& plan_;
};

}  // namespace

void place_arena(ExecutionPlan& plan) { Arena(plan).place(); }

// No arena, but its buffers one by one: no holes.
void part_arena(ExecutionPlan& plan) {
    plan.begins.resize(plan.steps.size() + 1);
    plan.ends.resize(plan.steps.size() + 1);
    for (std::size_t r = 0; r < plan.roots.size(); ++r) {
        if (plan.roots[r].kind != Root::Kind::arena) continue;
        plan.begins[plan.roots[r].first_step].push_back(r);
        plan.ends[plan.roots[r].last_step].push_back(r);
    }
    std::size_t alive = 0;
    plan.arena_words = 0;
    for (std::size_t s = 0; s < plan.begins.size(); ++s) {
        for (const std::size_t r : plan.begins[s]) alive += plan.roots[r].words;
        plan.arena_words = std::max(plan.arena_words, alive);
        for (const std::size_t r : plan.ends[s]) alive -= plan.roots[r].words;
    }
}

}  // namespace quern::vm::tensor
