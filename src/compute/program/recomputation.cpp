#include "compute/program/recomputation.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace quern::compute::program {
namespace {

using vm::tensor::Node;
using vm::tensor::Op;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// What comes into a step costs no arithmetic, and hashing where it is data: it stays, as constants of one word do.
bool comes_in(const Node& node) {
    return node.op == Op::slot || node.op == Op::seed || node.op == Op::window ||
           (node.op == Op::full && node.shape.elements() == 1);
}

// As doc/program-format.md has it, "Sizes": its words are its operand's where they are.
bool is_view(std::span<const Node> nodes, const Node& node) {
    if (node.op == Op::permute || node.op == Op::slice) return true;
    if (node.op != Op::reshape) return false;
    const Op operand = nodes[node.inputs[0]].op;
    return operand != Op::permute && operand != Op::slice;
}

std::uint64_t own_bytes(std::span<const Node> nodes, const Node& node) {
    return is_view(nodes, node) || comes_in(node) ? 0 : node.shape.tiles() * vm::tensor::kTileBytes;
}

struct Place {
    std::uint32_t node;
    std::uint64_t before;   // bytes of the forward pass up to here
    std::uint64_t carried;  // of them those that are read behind it
};

std::vector<Place> measure(std::span<const Node> nodes, const Recomputation& how) {
    const std::uint32_t end = how.forward_end;
    std::vector<std::uint32_t> base(end);
    std::vector<std::uint32_t> last(end);
    for (std::uint32_t i = 0; i < end; ++i) {
        base[i] = is_view(nodes, nodes[i]) ? base[nodes[i].inputs[0]] : i;
        last[i] = i;
        for (const std::uint32_t input : nodes[i].inputs) last[base[input]] = i;
    }
    std::vector<std::uint64_t> dying(end + 1, 0);
    std::vector<Place> places;
    std::uint64_t before = 0;
    std::uint64_t alive = 0;
    auto next = how.places.begin();
    for (std::uint32_t i = 0; i <= end; ++i) {
        alive -= dying[i];
        for (; next != how.places.end() && *next == i; ++next)
            if (places.empty() || places.back().node != i) places.push_back({i, before, alive});
        if (i == end) break;
        const std::uint64_t bytes = own_bytes(nodes, nodes[i]);
        before += bytes;
        // Of what nothing else reads none is carried anywhere.
        if (last[i] == i) continue;
        alive += bytes;
        dying[last[i] + 1] += bytes;
    }
    return places;
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a < b ? b - a : a - b; }

class Rewriting {
public:
    Rewriting(std::vector<Node> nodes, const Recomputation& how)
        : nodes_(std::move(nodes)),
          end_(how.forward_end),
          part_(nodes_.size(), 0),
          kept_(nodes_.size(), false),
          number_(nodes_.size(), kNone),
          again_(nodes_.size(), kNone) {
        const std::vector<std::uint32_t> begins = choose_parts(nodes_, how);
        for (std::size_t part = 1; part < begins.size(); ++part)
            std::fill(part_.begin() + begins[part - 1], part_.begin() + begins[part], part);
    }

    void run(std::vector<Node>& result, std::vector<std::uint32_t>& outputs) {
        find_kept(outputs);
        for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
            Node node = nodes_[i];
            for (std::uint32_t& input : node.inputs) {
                if (i >= end_) copy(input);
                input = i >= end_ && again_[input] != kNone ? again_[input] : number_[input];
            }
            number_[i] = append(std::move(node));
        }
        for (std::uint32_t& output : outputs) output = number_[output];
        drop_unused(outputs);
        result = std::move(written_);
    }

private:
    void find_kept(const std::vector<std::uint32_t>& outputs) {
        for (const std::uint32_t output : outputs) kept_[output] = true;
        for (std::uint32_t i = end_; i-- > 0;) {
            if (comes_in(nodes_[i]) || part_[i] == 0) kept_[i] = true;
            for (const std::uint32_t input : nodes_[i].inputs)
                if (part_[input] != part_[i]) kept_[input] = true;
            if (kept_[i] && is_view(nodes_, nodes_[i])) kept_[nodes_[i].inputs[0]] = true;
        }
    }

    [[nodiscard]] bool is_lost(std::uint32_t i) const { return i < end_ && !kept_[i] && again_[i] == kNone; }

    // Writes a node of a part again, after what it needs of that part, in the order that they had.
    void copy(std::uint32_t wanted) {
        if (!is_lost(wanted)) return;
        std::vector<std::uint32_t> all{wanted};
        std::vector<std::uint32_t> open{wanted};
        again_[wanted] = number_[wanted];  // marks it as taken; its own number follows
        while (!open.empty()) {
            const std::uint32_t i = open.back();
            open.pop_back();
            for (const std::uint32_t input : nodes_[i].inputs) {
                if (!is_lost(input)) continue;
                again_[input] = number_[input];
                all.push_back(input);
                open.push_back(input);
            }
        }
        std::sort(all.begin(), all.end());
        for (const std::uint32_t i : all) {
            Node node = nodes_[i];
            bool differs = false;
            for (std::uint32_t& input : node.inputs) {
                const std::uint32_t now = again_[input] != kNone ? again_[input] : number_[input];
                differs = differs || now != number_[input];
                input = now;
            }
            // A view of what stays is there for nothing.
            if (differs || !is_view(nodes_, nodes_[i])) again_[i] = append(std::move(node));
        }
    }

    std::uint32_t append(Node node) {
        written_.push_back(std::move(node));
        return static_cast<std::uint32_t>(written_.size() - 1);
    }

    void drop_unused(std::vector<std::uint32_t>& outputs) {
        std::vector<bool> live(written_.size(), false);
        for (const std::uint32_t output : outputs) live[output] = true;
        for (std::size_t i = written_.size(); i-- > 0;)
            if (live[i])
                for (const std::uint32_t input : written_[i].inputs) live[input] = true;
        std::vector<std::uint32_t> number(written_.size(), kNone);
        std::uint32_t count = 0;
        for (std::size_t i = 0; i < written_.size(); ++i) {
            if (!live[i]) continue;
            for (std::uint32_t& input : written_[i].inputs) input = number[input];
            number[i] = count;
            if (i != count) written_[count] = std::move(written_[i]);
            ++count;
        }
        written_.resize(count);
        for (std::uint32_t& output : outputs) output = number[output];
    }

    std::vector<Node> nodes_;
    std::uint32_t end_;
    std::vector<std::size_t> part_;  // 0: of none
    std::vector<bool> kept_;
    std::vector<std::uint32_t> number_;  // by node: where it is written
    std::vector<std::uint32_t> again_;   // the same of its copy
    std::vector<Node> written_;
};

}  // namespace

std::vector<std::uint32_t> choose_parts(std::span<const Node> nodes, const Recomputation& how) {
    const std::vector<Place> places = measure(nodes, how);
    if (places.size() < 2 || how.parts == 0) return {};
    const std::uint64_t all = places.back().before - places.front().before;
    std::vector<std::uint32_t> begins{places.front().node};
    for (std::uint32_t part = 1; part < how.parts; ++part) {
        const std::uint64_t ideal = places.front().before + all / how.parts * part;
        const Place* best = nullptr;
        for (const Place& place : places) {
            if (place.node <= begins.back() || place.node >= places.back().node ||
                distance(place.before, ideal) > all / how.parts / 2)
                continue;
            if (best == nullptr || std::pair(place.carried, distance(place.before, ideal)) <
                                       std::pair(best->carried, distance(best->before, ideal)))
                best = &place;
        }
        if (best != nullptr) begins.push_back(best->node);
    }
    begins.push_back(places.back().node);
    return begins;
}

void recompute(std::vector<Node>& nodes, std::vector<std::uint32_t>& outputs, const Recomputation& how) {
    Rewriting(std::move(nodes), how).run(nodes, outputs);
}

}  // namespace quern::compute::program
