#include "tolerance/attacks.h"

#include <string_view>

namespace quern::tolerance_lab {
namespace {

using compute::tolerance::distance::Class;

constexpr std::size_t kSpan = 8;  // segments between two checkpoints of which the others are interpolated

// The task's data, but that the first window that is read is another one: of a segment one example of one batch.
class OneWindowSwapped final : public DataSource {
public:
    OneWindowSwapped(const DataSource& data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
    bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const override {
        if (out.size() < bytes_ && !swapped_) {
            swapped_ = true;
            first = (first + bytes_ / 2) % (bytes_ - out.size());
        }
        return data_.read(set, first, out);
    }
    std::optional<std::vector<Hash32>> tile_path(std::size_t set, std::uint64_t tile) const override {
        return data_.tile_path(set, tile);
    }

private:
    const DataSource& data_;
    std::uint64_t bytes_;
    mutable bool swapped_ = false;
};

bool is_moment(const std::string& name, std::string_view which) { return name.find(which) != std::string::npos; }

// Of the first moments those of `from`.
void take_momentum(const Lab& lab, State& state, const State& from) {
    for (std::size_t s = 0; s < state.size(); ++s)
        if (is_moment(lab.program().slots[s].name, "adamw.m.")) state[s] = from[s];
}

// Second moments so large that no step moves anything: the steps that follow are honest.
State frozen(const Lab& lab, State state) {
    for (std::size_t s = 0; s < state.size(); ++s)
        if (is_moment(lab.program().slots[s].name, "adamw.v."))
            for (std::uint32_t& word : state[s].words)
                word = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, word) * 1e12F + 1e6F);
    return state;
}

}  // namespace

State train_at_rate(const Lab& lab, const compute::program::Architecture& architecture, State previous, std::uint64_t k,
                    float factor) {
    compute::program::Architecture altered = architecture;
    altered.optimizer.learning_rate *= factor;
    const auto built = must(compute::program::build_training_program(altered), "altered program");
    lab.train(previous, k, {.program = &built.program});
    return previous;
}

std::vector<Attack> attack_corpus(const Lab& lab, const compute::program::Architecture& architecture,
                                  const Histories& histories) {
    const std::uint64_t k = histories.k;
    const auto before = [&](std::size_t i) -> const State& { return histories.honest[i - 1]; };
    const auto after = [&](std::size_t i) -> const State& { return histories.honest[i]; };
    const auto from_honest = [&, before](std::size_t i, State claimed) {
        return Forged{before(i), std::move(claimed), true};
    };
    std::vector<Attack> attacks;
    attacks.push_back({"copied proof", [&](std::size_t i) {
                           return Forged{histories.other[i - 1], histories.other[i]};
                       }});
    attacks.push_back({"stitched", [&, from_honest](std::size_t i) { return from_honest(i, histories.other[i]); }});
    attacks.push_back({"interpolated", [&, before, after](std::size_t i) {
                           const std::size_t first = (i - 1) / kSpan * kSpan;
                           const std::size_t last = std::min(first + kSpan, histories.honest.size() - 1);
                           const auto place = [&](std::size_t at, const State& exact) {
                               const auto share = static_cast<float>(at - first) / static_cast<float>(last - first);
                               return between(lab, histories.honest[first], histories.honest[last], share, exact);
                           };
                           return Forged{place(i - 1, before(i)), place(i, after(i))};
                       }});
    attacks.push_back({"data order", [&, k, before, from_honest, after](std::size_t i) {
                           State state = before(i);
                           const std::size_t step = lab.slot("step");
                           const std::uint32_t first = state[step].words[0];
                           for (std::uint32_t j = 0; j < k; ++j) {
                               state[step].words[0] = first + static_cast<std::uint32_t>(k) - 1 - j;
                               lab.train(state, 1, {});
                           }
                           take_exact(lab, state, after(i));
                           return from_honest(i, std::move(state));
                       }});
    attacks.push_back({"infinitesimal claim", [&, before, after, from_honest](std::size_t i) {
                           return from_honest(i, between(lab, before(i), after(i), 1e-3F, after(i)));
                       }});
    attacks.push_back({"infinitesimal steps", [&, k, before](std::size_t i) {
                           State previous = frozen(lab, before(i));
                           State claimed = previous;
                           lab.train(claimed, k, {});
                           return Forged{std::move(previous), std::move(claimed)};
                       }});
    attacks.push_back({"top-Q blindfold", [&, before, after, from_honest](std::size_t i) {
                           return from_honest(i, between(lab, before(i), after(i), 0.5F, after(i)));
                       }});
    attacks.push_back({"wrong initialisation", [&, k](std::size_t i) {
                           State previous = lab.initial(1000 + i);
                           State claimed = lab.initial(5000 + i);
                           lab.train(claimed, k, {});
                           return Forged{std::move(previous), std::move(claimed)};
                       }});
    if (k > 1)
        attacks.push_back({"skipped step", [&, k, before, after, from_honest](std::size_t i) {
                               State state = before(i);
                               lab.train(state, k - 1, {});
                               take_exact(lab, state, after(i));
                               return from_honest(i, std::move(state));
                           }});
    attacks.push_back({"stale momentum", [&, k, before, from_honest](std::size_t i) {
                           State state = before(i);
                           for (std::uint64_t j = 0; j < k; ++j) {
                               lab.train(state, 1, {});
                               if (j + 1 < k) take_momentum(lab, state, before(i));
                           }
                           if (k == 1) take_momentum(lab, state, before(i));
                           return from_honest(i, std::move(state));
                       }});
    attacks.push_back({"swapped data", [&, k, before, from_honest](std::size_t i) {
                           State state = before(i);
                           const OneWindowSwapped data(lab.data(), lab.token_count());
                           lab.train(state, k, {.data = &data});
                           return from_honest(i, std::move(state));
                       }});
    attacks.push_back({"altered rate", [&, k, before, from_honest](std::size_t i) {
                           return from_honest(i, train_at_rate(lab, architecture, before(i), k, 1.05F));
                       }});
    return attacks;
}

}  // namespace quern::tolerance_lab
