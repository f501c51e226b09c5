// Which segments are replayed beside those that the beacon draws, and what rows say of a history without a replay: how
// far each segment moves, by the bits of the distance program, and whether the states are these rows.
#include "compute/tolerance/judge/largest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compute/core/verification_report.h"
#include "support/training_game.h"

namespace quern::compute::tolerance::judge {
namespace {

using vm::tensor::Executor;
using vm::tensor::MemoryData;
using vm::tensor::State;

constexpr auto kScalar = vm::tensor::arith::Backend::scalar;
constexpr std::uint32_t kHuge = 0x7f7fffff;
constexpr std::uint64_t kRows = 5;
constexpr std::uint64_t kSteps = 2;
using List = std::vector<std::uint64_t>;

std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }
float number(std::uint32_t x) { return __builtin_bit_cast(float, x); }

TEST(Largest, are_those_that_move_most) {
    std::vector<std::uint32_t> movements;
    for (int i = 0; i < 100; ++i) movements.push_back(word(static_cast<float>((i * 37) % 100)));
    const List largest = largest_segments(movements, 7);
    ASSERT_EQ(largest.size(), 7U);
    EXPECT_TRUE(std::is_sorted(largest.begin(), largest.end()));
    for (const std::uint64_t i : largest) EXPECT_GE(number(movements[i]), 93.0F);
}

TEST(Largest, among_equals_the_earlier_segments_come_first) {
    EXPECT_EQ(largest_segments(std::vector(10, word(2.0F)), 3), (List{0, 1, 2}));
}

TEST(Largest, what_is_no_size_comes_first) {
    std::vector<std::uint32_t> movements(10, word(2.0F));
    movements[4] = 0x7f800000;
    movements[6] = 0x7fc00000;
    movements[8] = word(-1.0F);
    EXPECT_EQ(largest_segments(movements, 3), (List{4, 6, 8}));
    EXPECT_EQ(largest_segments(movements, 2), (List{4, 6}));
}

TEST(Largest, are_all_when_there_are_no_more) {
    EXPECT_EQ(largest_segments(std::vector(3, word(1.0F)), 9), (List{0, 1, 2}));
    EXPECT_TRUE(largest_segments({}, 3).empty());
}

TEST(Largest, small_forged_segments_are_found_by_the_beacon_alone) {
    std::vector<std::uint32_t> movements(300, word(1.0F));
    for (std::size_t i = 0; i < 300; i += 10) movements[i] = word(0.5F);
    int by_beacon = 0;
    for (std::uint8_t b = 0; b < 200; ++b) {
        const List largest = largest_segments(movements, 10);
        const auto is_forged = [](std::uint64_t i) { return i % 10 == 0; };
        EXPECT_TRUE(std::none_of(largest.begin(), largest.end(), is_forged));
        const auto drawn = core::draw_segments(Hash32{{b}}, {}, 300, 20, largest);
        by_beacon += std::any_of(drawn.begin(), drawn.end(), is_forged) ? 1 : 0;
    }
    EXPECT_GT(by_beacon, 160);  // 1 - (260 over 20) / (290 over 20) = 0.90 of 200
}

// A solver of the small transformer that claims the canonical states, and the states of the judged task.
struct Claimed {
    test::Training training = test::train(test::small_architecture(), 1);
    JudgedPrograms judged = *build_judged_programs(training.program(), kRows);
    Limits limits{kHuge, kHuge, kHuge, kHuge, kHuge, 0, kHuge};
    std::vector<State> checkpoints{training.states[0]};  // of T
    std::vector<Bytes> rows;
    std::vector<State> states;  // after each segment

    explicit Claimed(std::uint32_t most_movement = kHuge) {
        limits.most_movement = most_movement;
        Executor executor(training.program(), kScalar, nullptr);
        for (std::uint64_t i = 0; i < kRows; ++i) {
            State state = checkpoints.back();
            for (std::uint64_t step = 0; step < kSteps; ++step)
                EXPECT_TRUE(executor.step(state, training.data, training.seed));
            checkpoints.push_back(std::move(state));
            rows.emplace_back(judged.layout.row_bytes());
            EXPECT_TRUE(judged.layout.write_row(checkpoints.back(), rows.back()));
        }
        const MemoryData all = data();
        Executor trainer(judged.training, kScalar, nullptr);
        Executor judging(judged.judge, kScalar, nullptr);
        State state = start();
        for (std::uint64_t i = 0; i < kRows; ++i) {
            for (std::uint64_t step = 0; step < kSteps; ++step) EXPECT_TRUE(trainer.step(state, all, training.seed));
            EXPECT_TRUE(judging.step(state, all, training.seed));
            states.push_back(state);
        }
    }
    [[nodiscard]] State start() const { return *first_state(judged, checkpoints[0]); }
    [[nodiscard]] MemoryData data() const {
        std::vector<Bytes> sets = training.data.sets();
        sets.push_back(encode_limits(limits));
        sets.emplace_back();
        for (const Bytes& row : rows) append(sets.back(), row);
        return MemoryData(std::move(sets));
    }
    [[nodiscard]] std::unique_ptr<RowWalk> walk(const MemoryData& data) const {
        auto made = RowWalk::make({judged, kSteps, data, training.seed, kScalar}, start());
        EXPECT_TRUE(made) << made.error().to_string();
        return std::move(*made);
    }
    [[nodiscard]] Hash32 root(std::uint64_t segment) const { return vm::tensor::state_root(states[segment]); }
    // Of checkpoint `to` from `from`, by the distance program, as if it were the replay.
    [[nodiscard]] std::uint32_t movement(std::size_t from, std::size_t to) const {
        const auto segment = *distance::build_segment_programs(training.program());
        State state = *distance::segment_state(segment, checkpoints[from], checkpoints[to]);
        for (std::size_t s = 0; s < segment.training_slots; ++s) state[s] = checkpoints[to][s];
        Executor executor(segment.distance, kScalar, nullptr);
        EXPECT_TRUE(executor.step(state, training.data, training.seed));
        return distance::read_measured(segment, state)[Measure::movement];
    }
    // The first word of the first slot of this class in a row.
    [[nodiscard]] std::uint8_t& row_byte(std::uint64_t row, Class its) {
        for (const RowSlot& slot : judged.layout.slots)
            if (judged.classes[slot.slot] == its) return rows[row][4 * slot.offset + 2];
        ADD_FAILURE();
        return rows[0][0];
    }
};

TEST(RowWalk, measures_what_the_distance_program_does_and_finds_the_states) {
    const Claimed solver;
    const MemoryData data = solver.data();
    const auto walk = solver.walk(data);
    for (std::uint64_t i = 0; i < kRows; ++i) {
        const auto moved = walk->advance(1);
        ASSERT_TRUE(moved) << moved.error().to_string();
        EXPECT_EQ(*moved, solver.movement(i, i + 1)) << i;
        EXPECT_GT(number(*moved), 0.0F);
        EXPECT_TRUE(walk->check(solver.root(i))) << i;
        EXPECT_EQ(walk->check(solver.root((i + 1) % kRows)).error().name, "tolerance.unbound_rows");
    }
    EXPECT_EQ(walk->advance(1).error().name, "tolerance.bad_rows");
}

// A segment of the history may hold several of the training.
TEST(RowWalk, goes_over_several_segments_at_once) {
    const Claimed solver;
    const MemoryData data = solver.data();
    const auto walk = solver.walk(data);
    EXPECT_EQ(walk->advance(0).error().name, "tolerance.bad_rows");
    EXPECT_EQ(*walk->advance(2), solver.movement(0, 2));
    EXPECT_TRUE(walk->check(solver.root(1)));
    EXPECT_EQ(walk->advance(4).error().name, "tolerance.bad_rows");
    EXPECT_EQ(*walk->advance(3), solver.movement(2, 5));
    EXPECT_TRUE(walk->check(solver.root(4)));
}

// Whoever posts a state that is not its row hides how far it moved.
TEST(RowWalk, finds_rows_that_are_not_the_states) {
    for (const Class its : {Class::parameter, Class::companion, Class::rest}) {
        Claimed solver;
        solver.row_byte(2, its) ^= 1;
        const MemoryData data = solver.data();
        const auto walk = solver.walk(data);
        for (std::uint64_t i = 0; i < kRows; ++i) {
            ASSERT_TRUE(walk->advance(1));
            EXPECT_EQ(walk->check(solver.root(i)).has_value(), i != 2) << i;
        }
    }
}

// Nor are exact slots the solver's to set.
TEST(RowWalk, finds_states_whose_exact_slots_are_others) {
    const Claimed solver;
    const MemoryData data = solver.data();
    for (std::size_t slot = 0; slot < solver.judged.training_slots; ++slot) {
        if (solver.judged.classes[slot] != Class::exact) continue;
        const auto walk = solver.walk(data);
        ASSERT_TRUE(walk->advance(1));
        State state = solver.states[0];
        state[slot].words[0] ^= 1;
        EXPECT_EQ(walk->check(vm::tensor::state_root(state)).error().name, "tolerance.unbound_rows") << slot;
    }
}

// What a row does not hold is computed again, and nothing else.
TEST(RowWalk, computes_nothing_but_exact_slots) {
    const Claimed solver;
    const auto& training = solver.training.program();
    const auto exact = exact_part(training, solver.judged.classes);
    ASSERT_TRUE(exact) << exact.error().to_string();
    EXPECT_LT(exact->header.work_units * 100, training.header.work_units);
    EXPECT_TRUE(*is_checked(solver.judged));
    State state = solver.checkpoints[0];
    Executor executor(*exact, kScalar, nullptr);
    for (std::uint64_t step = 0; step < kSteps; ++step)
        ASSERT_TRUE(executor.step(state, solver.training.data, solver.training.seed));
    for (std::size_t slot = 0; slot < state.size(); ++slot) {
        const bool is_exact = solver.judged.classes[slot] == Class::exact;
        EXPECT_EQ(state[slot], solver.checkpoints[is_exact ? 1 : 0][slot]) << training.slots[slot].name;
    }
    // Where all were exact the whole step would have to be computed.
    JudgedPrograms dear = solver.judged;
    std::fill(dear.classes.begin(), dear.classes.end(), Class::exact);
    EXPECT_FALSE(*is_checked(dear));
}

// What was refused is the replay, which an honest solver's row is then, too; once refused is refused for good.
TEST(RowWalk, takes_states_after_which_a_claim_was_refused) {
    const Claimed solver(0);  // whatever moves is refused
    EXPECT_FALSE(accepted(solver.judged, solver.states[0]));
    const MemoryData data = solver.data();
    const auto walk = solver.walk(data);
    ASSERT_TRUE(walk->advance(1));
    EXPECT_TRUE(walk->check(solver.root(0)));
    ASSERT_TRUE(walk->advance(1));
    EXPECT_TRUE(walk->check(solver.root(1)));
    State again = solver.states[1];
    again[solver.judged.accepted_slot()].words[0] = 1;
    EXPECT_FALSE(walk->check(vm::tensor::state_root(again)));
}

TEST(RowWalk, knows_no_size_of_what_is_no_number) {
    Claimed solver;
    for (std::size_t slot = 0; slot < solver.judged.training_slots; ++slot)
        if (solver.judged.classes[slot] == Class::parameter) solver.checkpoints[3][slot].words[0] = 0x7fc00000;
    ASSERT_TRUE(solver.judged.layout.write_row(solver.checkpoints[3], solver.rows[2]));
    const MemoryData data = solver.data();
    const auto walk = solver.walk(data);
    std::vector<std::uint32_t> movements;
    for (std::uint64_t i = 0; i < kRows; ++i) movements.push_back(*walk->advance(1));
    EXPECT_EQ(largest_segments(movements, 2), (List{2, 3})) << "into it and out of it";
}

TEST(RowWalk, says_where_rows_cannot_be_had) {
    class NoRows final : public vm::tensor::DataSource {
    public:
        explicit NoRows(const MemoryData& data) : data_(data) {}
        bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const override {
            return set + 1 < data_.sets().size() && data_.read(set, first, out);
        }
        std::optional<std::vector<Hash32>> tile_path(std::size_t, std::uint64_t) const override { return {}; }

    private:
        const MemoryData& data_;
    };
    const Claimed solver;
    const MemoryData data = solver.data();
    const NoRows rows(data);
    const auto walk = RowWalk::make({solver.judged, kSteps, rows, solver.training.seed, kScalar}, solver.start());
    ASSERT_TRUE(walk);
    EXPECT_EQ((*walk)->advance(1).error().name, "tolerance.no_rows");
    EXPECT_TRUE((*walk)->advance(1).error().is_busy());
    EXPECT_EQ(RowWalk::make({solver.judged, kSteps, data, solver.training.seed, kScalar}, {}).error().name,
              "executor.bad_state");
}

}  // namespace
}  // namespace quern::compute::tolerance::judge
