// Judged tasks: what becomes of a state by claims that are near and by others, what rows hold, and which programs are
// recognised.
#include "compute/tolerance/judge/judge_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "base/rng.h"
#include "compute/program/initial_state.h"
#include "compute/tolerance/distance/adam_moments.h"
#include "compute/tolerance/judge/verdict.h"
#include "support/training_game.h"

namespace quern::compute::tolerance::judge {
namespace {

using program::Builder;
using program::DType;
using program::Initializer;
using program::Program;
using program::Value;
using vm::tensor::Executor;
using vm::tensor::MemoryData;
using vm::tensor::Op;
using vm::tensor::State;
using vm::tensor::arith::ElementOp;

constexpr auto kScalar = vm::tensor::arith::Backend::scalar;
constexpr std::uint32_t kHuge = 0x7f7fffff;
constexpr Limits kWide{kHuge, kHuge, kHuge, kHuge, kHuge, 0, kHuge};

std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }
float number(std::uint32_t x) { return __builtin_bit_cast(float, x); }

// A solver of the small transformer: its checkpoints, each a little off the canonical steps from the one before, and
// the judged task that it claims them for.
struct Solver {
    std::uint64_t k = 2;
    test::Training training;
    JudgedPrograms judged;
    distance::SegmentPrograms segment;  // to measure with
    std::vector<State> checkpoints;     // of T: S_0, after segment 1, …
    std::vector<State> replays;         // what each is compared with; the first is S_0
    Limits limits = kWide;

    explicit Solver(std::uint64_t rows = 3, float share = 1e-4F, std::uint64_t steps = 2,
                    const std::vector<std::string>& loose = {})
        : k(steps), training(test::train(test::small_architecture(), 2)) {
        auto built = build_judged_programs(training.program(), rows, loose);
        EXPECT_TRUE(built) << built.error().to_string();
        judged = std::move(*built);
        segment = *distance::build_segment_programs(training.program(), loose);
        checkpoints = replays = {training.states[2]};
        for (std::uint64_t i = 0; i < rows; ++i) extend(share);
    }
    // One more segment.
    void extend(float share) {
        SeededRng rng(checkpoints.size());
        const State previous = checkpoints.back();
        State state = previous;
        Executor executor(training.program(), kScalar, nullptr);
        for (std::uint64_t step = 0; step < k; ++step) EXPECT_TRUE(executor.step(state, training.data, training.seed));
        replays.push_back(state);
        for (const RowSlot& slot : judged.layout.slots)
            for (std::size_t i = 0; i < slot.elements; ++i) {
                std::uint32_t& each = state[slot.slot].words[i];
                const float noise = static_cast<float>(rng.below(2001)) / 1000.0F - 1.0F;
                each = word(number(each) + (number(each) - number(previous[slot.slot].words[i])) * noise * share);
            }
        checkpoints.push_back(state);
    }
    // Its claims of the stretch's rows, the first of which is segment `first`'s.
    [[nodiscard]] Bytes claimed(std::size_t first = 1) const {
        Bytes bytes(judged.claimed_bytes());
        for (std::size_t i = 0; i < judged.rows; ++i) {
            const std::span row = std::span(bytes).subspan(i * judged.layout.row_bytes(), judged.layout.row_bytes());
            EXPECT_TRUE(judged.layout.write_row(checkpoints[first + i], row));
        }
        return bytes;
    }
    [[nodiscard]] MemoryData data(Bytes rows) const { return data(std::move(rows), encode_limits(limits)); }
    [[nodiscard]] MemoryData data(Bytes rows, Bytes bounds) const {
        std::vector<Bytes> sets = training.data.sets();
        sets.push_back(std::move(bounds));
        sets.push_back(std::move(rows));
        return MemoryData(std::move(sets));
    }
    // A verifier's replay of a segment.
    void judge(State& state, const MemoryData& data) const {
        Executor trainer(judged.training, kScalar, nullptr);
        for (std::uint64_t step = 0; step < k; ++step) ASSERT_TRUE(trainer.step(state, data, training.seed));
        Executor judging(judged.judge, kScalar, nullptr);
        ASSERT_TRUE(judging.step(state, data, training.seed));
    }
    // Segment 1 with another claim than the solver's.
    [[nodiscard]] State judge(const State& claim) const {
        Solver other = *this;
        other.checkpoints[1] = claim;
        State state = *first_state(judged, checkpoints[0]);
        judge(state, data(other.claimed()));
        return state;
    }
    // By the distance program.
    [[nodiscard]] Measured measure(const State& claim) const {
        State state = *distance::segment_state(segment, checkpoints[0], claim);
        for (std::size_t s = 0; s < replays[1].size(); ++s) state[s] = replays[1][s];
        Executor executor(segment.distance, kScalar, nullptr);
        EXPECT_TRUE(executor.step(state, training.data, training.seed));
        return distance::read_measured(segment, state);
    }
    // What a refused claim leaves behind.
    [[nodiscard]] State refused() const {
        State state = *state_after(judged, replays[1], 1);
        state[judged.accepted_slot()].words[0] = 0;
        return state;
    }
    [[nodiscard]] std::size_t any(Class its) const {
        return static_cast<std::size_t>(std::find(judged.classes.begin(), judged.classes.end(), its) -
                                        judged.classes.begin());
    }
};

TEST(Judge, claims_that_are_near_become_the_state) {
    for (const float share : {0.0F, 1e-4F})
        for (const std::uint64_t k : {1U, 3U}) {
            Solver solver(3, share, k);
            for (int i = 0; i < 3; ++i) solver.extend(share);
            solver.limits = {word(1e-3F), word(1e-1F), word(1e-2F), word(1e-2F), 0, word(1e-6F), word(1e6F)};
            State state = *first_state(solver.judged, solver.checkpoints[0]);
            ASSERT_TRUE(check_first_state(solver.judged, state));
            for (std::size_t done = 1; done <= 6; ++done) {  // two stretches
                solver.judge(state, solver.data(solver.claimed(done <= 3 ? 1 : 4)));
                EXPECT_EQ(state, *state_after(solver.judged, solver.checkpoints[done], done)) << share << " " << done;
                EXPECT_EQ(state[solver.judged.segment_slot()].words[0], done % 3);
                EXPECT_TRUE(accepted(solver.judged, state));
                EXPECT_EQ(training_state(solver.judged, state), solver.checkpoints[done]);
                EXPECT_EQ(share == 0, solver.checkpoints[done] == solver.replays[done]);
            }
        }
}

TEST(Judge, refused_claims_leave_the_replay_and_a_mark_for_good) {
    const Solver solver;
    State far = solver.checkpoints[1];
    const std::size_t slot = solver.any(Class::parameter);
    far[slot].words[0] = word(number(far[slot].words[0]) + 1e-2F);
    Solver strict = solver;
    strict.limits.l2 = word(1e-3F);
    State state = strict.judge(far);
    EXPECT_EQ(state, solver.refused());
    EXPECT_FALSE(accepted(solver.judged, state));
    // The next claim is near, but not from where the solver went.
    Solver other = strict;
    other.checkpoints[1] = solver.replays[1];
    other.checkpoints.resize(2);
    other.replays.resize(2);
    other.extend(1e-4F);
    other.extend(1e-4F);
    strict.judge(state, strict.data(other.claimed()));
    EXPECT_EQ(training_state(solver.judged, state), other.checkpoints[2]);
    EXPECT_FALSE(accepted(solver.judged, state));
    EXPECT_EQ(state[solver.judged.segment_slot()].words[0], 2U);
}

TEST(Judge, each_measure_refuses_alone_from_the_word_above_its_limit_on) {
    Solver solver;
    const std::string left_out = solver.training.program().slots[solver.any(Class::parameter)].name;
    solver = Solver(3, 1e-4F, 2, {left_out});
    State claim = solver.checkpoints[1];
    const Measured measured = solver.measure(claim);
    const Limits tight{measured[Measure::l2],      measured[Measure::linf],  measured[Measure::moments],
                       measured[Measure::rest],    measured[Measure::loose], measured[Measure::movement],
                       measured[Measure::movement]};
    solver.limits = tight;
    EXPECT_EQ(solver.judge(claim), *state_after(solver.judged, claim, 1));
    for (const auto limit : {&Limits::l2, &Limits::linf, &Limits::moments, &Limits::rest, &Limits::loose,
                             &Limits::most_movement, &Limits::least_movement}) {
        solver.limits = tight;
        ASSERT_NE(tight.*limit, 0U);
        solver.limits.*limit += limit == &Limits::least_movement ? 1U : ~0U;
        EXPECT_EQ(solver.judge(claim), solver.refused());
        EXPECT_NE(refused_by(measured, solver.limits), std::nullopt);
        solver.limits = kWide;  // and none but this one
        solver.limits.*limit = tight.*limit + (limit == &Limits::least_movement ? 1U : ~0U);
        EXPECT_EQ(solver.judge(claim), solver.refused());
    }
}

// A second moment that was made small would let the next steps go as far as their maker likes, and it takes next to
// nothing of what moments may be off by: the smallest elements of all.
TEST(Judge, a_first_moment_beyond_its_second_is_refused_whatever_the_limits) {
    Solver solver(2, 0);
    const auto pairs = distance::find_moment_pairs(solver.training.program());
    ASSERT_FALSE(pairs.empty());
    const auto beyond = [&](float share_of_bound) {
        State claim = solver.checkpoints[1];
        for (const auto& pair : pairs)
            for (std::size_t i = 0; i < claim[pair.first].words.size(); ++i) {
                const float m = number(claim[pair.first].words[i]);
                claim[pair.second].words[i] = word(share_of_bound * m * m / pair.bound);
            }
        return claim;
    };
    EXPECT_EQ(solver.judge(beyond(0)), solver.refused());
    EXPECT_EQ(solver.judge(beyond(0.9F)), solver.refused());
    const State least = beyond(1.1F);
    EXPECT_EQ(solver.judge(least), *state_after(solver.judged, least, 1));
    // Nor may one be below 0, whose root is none.
    State negative = solver.checkpoints[1];
    negative[pairs.front().first].words[3] = 0;
    negative[pairs.front().second].words[3] = word(-1e-30F);
    EXPECT_EQ(solver.judge(negative), solver.refused());
    // One element is enough, and one whose moments do not show in any norm.
    State one = solver.checkpoints[1];
    one[pairs.front().second].words[3] = 0;
    EXPECT_EQ(solver.judge(one), solver.refused());
    EXPECT_EQ(refused_by(solver.measure(one), solver.limits), Measure::moments);
    // From the worst that passes the next steps go a few times as far as from the truth: the bound's root is 7.
    const auto movement_after = [&](const State& from) {
        Executor executor(solver.training.program(), kScalar, nullptr);
        State state = from;
        EXPECT_TRUE(executor.step(state, solver.training.data, solver.training.seed));
        double squares = 0;
        for (const RowSlot& slot : solver.judged.layout.slots) {
            if (solver.judged.classes[slot.slot] != Class::parameter) continue;
            for (std::size_t i = 0; i < slot.elements; ++i) {
                const double way = static_cast<double>(number(state[slot.slot].words[i])) -
                                   static_cast<double>(number(from[slot.slot].words[i]));
                squares += way * way;
            }
        }
        return std::sqrt(squares);
    };
    const double honest = movement_after(solver.checkpoints[1]);
    EXPECT_LT(movement_after(least), 12 * honest);
    EXPECT_GT(movement_after(beyond(0)), 12 * honest);
}

TEST(Judge, exact_slots_are_those_of_the_replay_whatever_is_claimed) {
    const Solver solver;
    State claim = solver.checkpoints[1];
    for (std::size_t s = 0; s < claim.size(); ++s)
        if (solver.judged.classes[s] == Class::exact) ++claim[s].words[0];
    const State state = solver.judge(claim);  // rows do not hold them
    EXPECT_EQ(state, *state_after(solver.judged, solver.checkpoints[1], 1));
    EXPECT_NE(vm::tensor::state_root(state), vm::tensor::state_root(*state_after(solver.judged, claim, 1)));
}

TEST(Judge, hostile_words_in_a_claim_are_refused) {
    const Solver solver(1);
    ASSERT_TRUE(accepted(solver.judged, solver.judge(solver.checkpoints[1])));
    for (const std::uint32_t hostile : {0x7fc00000U, 0x7f800001U, 0xffffffffU, 0x7f800000U, 0xff800000U})
        for (const RowSlot& slot : solver.judged.layout.slots) {
            State claim = solver.checkpoints[1];
            claim[slot.slot].words.back() = hostile;
            EXPECT_EQ(solver.judge(claim), solver.refused())
                << hostile << " in " << solver.training.program().slots[slot.slot].name;
        }
    // Numbers are numbers: what is claimed of them is the state, bit by bit.
    const std::size_t slot = solver.any(Class::parameter);
    for (const std::uint32_t tiny : {0x80000000U, 0x00000001U, 0x807fffffU}) {
        State claim = solver.checkpoints[1];
        claim[slot].words[0] = tiny;
        EXPECT_EQ(solver.judge(claim), *state_after(solver.judged, claim, 1)) << tiny;
        Solver strict = solver;
        strict.limits.linf = word(1e-6F);
        EXPECT_EQ(strict.judge(claim), solver.refused()) << tiny;
    }
}

TEST(Judge, hostile_limits_let_nothing_pass) {
    const Solver solver(1, 0);
    for (const std::uint32_t hostile :
         {0x7fc00000U, 0x7f800001U, 0xffffffffU, 0x7f800000U, 0xff800000U, 0x80000000U, 0x80000001U})
        for (std::size_t i = 0; i < 7; ++i) {
            Bytes bounds = encode_limits(kWide);
            for (std::size_t byte = 0; byte < 4; ++byte)
                bounds[4 * i + byte] = static_cast<std::uint8_t>(hostile >> (8 * byte));
            State state = *first_state(solver.judged, solver.checkpoints[0]);
            solver.judge(state, solver.data(solver.claimed(), bounds));
            EXPECT_EQ(state, solver.refused()) << hostile << " as limit " << i;
        }
    Solver strict = solver;  // +0 and subnormal numbers are limits as others
    strict.limits = {0, 1, 0, 0x007fffff, 0, 1, kHuge};
    EXPECT_EQ(strict.judge(solver.checkpoints[1]), *state_after(solver.judged, solver.checkpoints[1], 1));
}

// The verdict alone, of any measures and limits.
TEST(Judge, agrees_with_refused_by_on_any_words) {
    Builder b({{vm::tensor::DataType::f32, 7}});
    std::vector<Value> slots;
    distance::Measures measures;
    for (std::size_t m = 0; m < kMeasures; ++m)
        slots.push_back(
            b.slot(std::string(kMeasureNames[m]), DType::f32, program::scalar_shape(), Initializer::zeros(), 0));
    for (std::size_t m = 0; m < kMeasures; ++m)
        if (m != static_cast<std::size_t>(Measure::exact)) measures[m] = slots[m];
    const Value result = b.slot("ok", DType::i32, program::scalar_shape(), Initializer::zeros());
    b.set_loss_slot(slots[0]);
    const Value first = b.constant_i32(0);
    const Value limits = b.window(first, 0, 7, 7);
    b.update(result, build_verdict(b, measures, limits));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    Executor executor(built->program, kScalar, nullptr);
    State state = program::initial_state(*built, 1);

    SeededRng rng(11);
    constexpr std::array<std::uint32_t, 14> kWords{0,          1,          0x007fffff, 0x00800000, 0x3f800000,
                                                   0x3f800001, kHuge,      0x7f800000, 0x7f800001, 0x7fffffff,
                                                   0x80000000, 0x80000001, 0xff800000, 0xffffffff};
    const auto any_word = [&]() -> std::uint32_t {
        const std::uint64_t kind = rng.below(8);
        if (kind == 0) return static_cast<std::uint32_t>(rng.below(std::uint64_t{1} << 32));
        if (kind == 1) return kWords[rng.below(kWords.size())];
        return 0x3f800000U + static_cast<std::uint32_t>(rng.below(4));  // mostly near each other
    };
    std::array<int, 2> seen{};
    std::map<Measure, int> refusals;
    for (int i = 0; i < 20'000; ++i) {
        Measured measured;
        for (std::size_t m = 0; m < kMeasures; ++m)
            if (m != static_cast<std::size_t>(Measure::exact)) measured.words[m] = any_word();
        Limits bounds = kWide;
        for (const auto limit : {&Limits::l2, &Limits::linf, &Limits::moments, &Limits::rest, &Limits::loose,
                                 &Limits::most_movement, &Limits::least_movement})
            if (i % 3 == 0 || rng.below(7) == 0) bounds.*limit = any_word();
        for (std::size_t m = 0; m < kMeasures; ++m) state[m].words[0] = measured.words[m];
        ASSERT_TRUE(executor.step(state, MemoryData({encode_limits(bounds)}), vm::tensor::seed_tensor({})));
        const auto expected = refused_by(measured, bounds);
        ASSERT_EQ(state[kMeasures].words[0], expected ? 0U : 1U) << i;
        ++seen[state[kMeasures].words[0]];
        if (expected) ++refusals[*expected];
    }
    EXPECT_GT(seen[0], 1000);
    EXPECT_GT(seen[1], 1000);
    EXPECT_EQ(refusals.size(), 6U);  // each but exact and cosine
}

TEST(Judge, rows_begin_at_tiles_and_what_lies_between_changes_nothing) {
    Solver solver;
    const RowLayout& layout = solver.judged.layout;
    ASSERT_GT(layout.slots.size(), 10U);
    std::uint64_t end = 0;
    for (const RowSlot& slot : layout.slots) {
        EXPECT_EQ(slot.offset, end);
        EXPECT_EQ(slot.elements, solver.training.program().slots[slot.slot].shape.elements());
        EXPECT_NE(solver.judged.classes[slot.slot], Class::exact);
        end += (slot.elements + 1023) / 1024 * 1024;
    }
    EXPECT_EQ(layout.row_elements, end);
    EXPECT_EQ(solver.judged.training.header.data.back().elements, 3 * end);
    const Bytes rows = solver.claimed();
    const std::size_t word_at = layout.row_bytes() + 4 * layout.slots[3].offset + 4;
    for (std::size_t byte = 0; byte < 4; ++byte)
        EXPECT_EQ(rows[word_at + byte],
                  static_cast<std::uint8_t>(solver.checkpoints[2][layout.slots[3].slot].words[1] >> (8 * byte)));

    State read = solver.replays[2];
    EXPECT_TRUE(layout.read_row(BytesView(rows).subspan(layout.row_bytes(), layout.row_bytes()), read));
    EXPECT_EQ(read, solver.checkpoints[2]);
    const MemoryData honest = solver.data(rows);
    Bytes other = rows;
    for (std::size_t i = 0; i < 3; ++i) {
        other[i * layout.row_bytes() + 4 * layout.slots[0].elements] ^= 0x80;  // the first word behind slot 0
        other[i * layout.row_bytes() + 4 * layout.slots[1].offset - 1] ^= 0x80;
    }
    ASSERT_LT(layout.slots[0].elements, 1023U);
    EXPECT_NE(solver.data(other).roots().back(), honest.roots().back());
    State state = *first_state(solver.judged, solver.checkpoints[0]);
    for (int i = 0; i < 3; ++i) solver.judge(state, solver.data(other));
    EXPECT_EQ(state, *state_after(solver.judged, solver.checkpoints[3], 3));
}

TEST(Judge, slots_of_many_tiles_lie_in_rows_as_others) {
    program::Architecture architecture = test::small_architecture();
    architecture.transformer().vocabulary = 300;  // 2,400 elements of an embedding
    const test::Training training = test::train(architecture, 2);
    const auto judged = build_judged_programs(training.program(), 2);
    ASSERT_TRUE(judged) << judged.error().to_string();
    const auto large = std::find_if(judged->layout.slots.begin(), judged->layout.slots.end(),
                                    [](const RowSlot& slot) { return slot.elements > 2048; });
    ASSERT_NE(large, judged->layout.slots.end());
    ASSERT_NE(large + 1, judged->layout.slots.end());
    EXPECT_EQ((large + 1)->offset, large->offset + 3072);
    std::vector<Bytes> sets = training.data.sets();
    sets.push_back(encode_limits(kWide));
    Bytes& rows = sets.emplace_back(judged->claimed_bytes());
    for (std::size_t i = 0; i < 2; ++i) {
        const auto row = std::span(rows).subspan(i * judged->layout.row_bytes(), judged->layout.row_bytes());
        ASSERT_TRUE(judged->layout.write_row(training.states[i + 1], row));
    }
    const auto task = judged->task(1, 2);
    ASSERT_TRUE(task);
    State state = *first_state(*judged, training.states[0]);
    for (std::uint64_t step = 1; step <= 4; ++step) {
        Executor executor(task->at(step), kScalar, nullptr);
        ASSERT_TRUE(executor.step(state, MemoryData(sets), training.seed));
    }
    EXPECT_EQ(state, *state_after(*judged, training.states[2], 2));
}

TEST(Judge, refuses_rows_and_states_of_other_sizes) {
    const Solver solver;
    const RowLayout& layout = solver.judged.layout;
    Bytes row(layout.row_bytes() - 4);
    State state = solver.checkpoints[1];
    EXPECT_EQ(layout.write_row(state, row).error().name, "executor.bad_state");
    EXPECT_EQ(layout.read_row(row, state).error().name, "executor.bad_state");
    EXPECT_EQ(state, solver.checkpoints[1]);
    row.resize(layout.row_bytes());
    state[layout.slots[2].slot].words.pop_back();
    EXPECT_EQ(layout.write_row(state, row).error().name, "executor.bad_state");
    EXPECT_EQ(layout.read_row(row, state).error().name, "executor.bad_state");
    EXPECT_EQ(first_state(solver.judged, state).error().name, "executor.bad_state");
    state.pop_back();
    EXPECT_EQ(first_state(solver.judged, state).error().name, "executor.bad_state");
    state = {state[0]};
    EXPECT_EQ(layout.write_row(state, row).error().name, "executor.bad_state");

    const State first = *first_state(solver.judged, solver.checkpoints[0]);
    EXPECT_TRUE(check_first_state(solver.judged, first));
    for (const std::size_t slot :
         {solver.judged.training_slots, solver.judged.segment_slot(), solver.judged.accepted_slot()}) {
        State other = first;
        other[slot].words[0] ^= 2;
        EXPECT_EQ(check_first_state(solver.judged, other).error().name, "tolerance.bad_first_state");
    }
    EXPECT_EQ(check_first_state(solver.judged, solver.checkpoints[0]).error().name, "executor.bad_state");
}

TEST(Judge, refuses_what_it_cannot_make_by_name) {
    const test::Training training = test::train(test::small_architecture(), 2);
    const auto error_of = [&](const Program& program, std::uint64_t rows) {
        const auto built = build_judged_programs(program, rows);
        return built ? std::string("none") : std::string(built.error().name);
    };
    EXPECT_EQ(error_of(training.program(), 1), "none");
    EXPECT_EQ(error_of(training.program(), kMaxRows), "none");
    EXPECT_EQ(error_of(training.program(), 0), "tolerance.bad_rows");
    EXPECT_EQ(error_of(training.program(), kMaxRows + 1), "tolerance.bad_rows");
    const auto named = [&](const std::string& name) {
        Program program = training.program();
        for (vm::tensor::Slot& slot : program.slots)  // the last parameter: it is not exact
            if (slot.name.starts_with("model.")) slot.name = "x" + slot.name;
        const auto last = std::find_if(program.slots.rbegin(), program.slots.rend(),
                                       [](const auto& slot) { return slot.name.starts_with("xmodel."); });
        last->name = name;
        vm::tensor::complete_header(program);
        return program;
    };
    for (const char* const name : {"previous.x", "loose.x", "judge.segment", "judge.x"})
        EXPECT_EQ(error_of(named(name), 1), "tolerance.reserved_name") << name;
    EXPECT_EQ(error_of(named("previously"), 1), "none");
    EXPECT_EQ(error_of(named(std::string(125, 'x')), 1), "program.bad_slot_name");
    Program program = training.program();
    program.header.data.resize(7, program.header.data[0]);
    vm::tensor::complete_header(program);
    EXPECT_EQ(error_of(program, 1), "program.wrong_count");
    // Windows begin at a word's number of tiles: 2^20 rows of 2^23 elements are as many as there are.
    Builder b;
    const Value weight = b.slot("w", DType::f32, program::vector_shape(1U << 22), Initializer::zeros(), 1);
    const Value loss = b.slot("loss", DType::f32, program::scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss);
    const Value sum = b.sum_last(weight);
    b.update(loss, sum);
    b.update(weight, b.mul(weight, sum));
    const auto large = b.finish();
    ASSERT_TRUE(large) << large.error().to_string();
    EXPECT_EQ(error_of(large->program, 0xffffffff / ((1U << 12) + 1)), "none");
    EXPECT_EQ(error_of(large->program, 0xffffffff / ((1U << 12) + 1) + 1), "tolerance.bad_rows");
}

TEST(Judge, recognises_what_it_made_and_nothing_else) {
    const Solver plain(5);
    const std::string left_out = plain.training.program().slots[plain.any(Class::parameter)].name;
    const Solver solver(5, 0, 2, {left_out});
    for (const Solver* const each : {&plain, &solver}) {
        const auto found = recognise(each->judged.training, each->judged.judge);
        ASSERT_TRUE(found) << found.error().to_string();
        EXPECT_EQ(found->classes, each->judged.classes);
        EXPECT_EQ(found->training_slots, each->judged.training_slots);
        EXPECT_EQ(found->rows, 5U);
        EXPECT_EQ(found->layout.row_elements, each->judged.layout.row_elements);
    }
    const auto refusal = [](const Program& training, const Program& judge) {
        const auto found = recognise(training, judge);
        if (found) return std::string("none");
        EXPECT_EQ(found.error().name, "tolerance.not_a_judged_task") << found.error().to_string();
        return found.error().detail;
    };
    const JudgedPrograms& judged = solver.judged;
    EXPECT_NE(refusal(judged.judge, judged.training), "none");
    EXPECT_NE(refusal(judged.training, judged.training), "none");
    EXPECT_NE(refusal(judged.training, plain.judged.judge), "none");
    EXPECT_NE(refusal(plain.judged.training, judged.judge), "none");
    EXPECT_NE(refusal(solver.training.program(), judged.judge), "none");
    EXPECT_NE(refusal(judged.training, Solver(4, 0, 2, {left_out}).judged.judge), "none");
    EXPECT_NE(refusal(solver.segment.training, solver.segment.distance), "none");

    // Each part of the judge's program, altered so that the program stays valid.
    std::size_t altered = 0;
    const auto refused_with = [&](const std::function<void(Program&)>& change) {
        Program judge = judged.judge;
        change(judge);
        vm::tensor::complete_header(judge);
        if (!vm::tensor::validate(judge)) return;
        ++altered;
        EXPECT_EQ(refusal(judged.training, judge).substr(0, 6), "judge:");
    };
    for (std::size_t i = 0; i < judged.judge.nodes.size(); ++i) {
        const vm::tensor::Node& node = judged.judge.nodes[i];
        refused_with([&](Program& judge) { judge.nodes[i].immediate ^= 1; });
        for (std::size_t a = 0; a < node.attributes.size(); ++a)
            refused_with([&](Program& judge) { judge.nodes[i].attributes[a] += 1; });
        for (std::size_t input = 0; input < node.inputs.size(); ++input)
            if (const std::uint32_t by = i % 4 == 0 ? 7 : 1; node.inputs[input] >= by)
                refused_with([&](Program& judge) { judge.nodes[i].inputs[input] -= by; });
        constexpr std::array kOps{ElementOp::ior, ElementOp::max, ElementOp::mul, ElementOp::abs};
        if (node.op == Op::elementwise && node.element != kOps[i % 4])
            refused_with([&](Program& judge) { judge.nodes[i].element = kOps[i % 4]; });
    }
    EXPECT_GT(altered, 500U);
    // One that always accepts; one that keeps the claim whatever it is; another loss; a slot more; other data.
    const std::size_t before = altered;
    const auto last = static_cast<std::uint32_t>(judged.accepted_slot());
    refused_with([&](Program& judge) {
        judge.updates[last] = static_cast<std::uint32_t>(
            std::find_if(judge.nodes.begin(), judge.nodes.end(),
                         [](const vm::tensor::Node& node) { return node.op == Op::full && node.immediate == 1; }) -
            judge.nodes.begin());
    });
    for (const RowSlot& slot : judged.layout.slots)
        refused_with(
            [&](Program& judge) { judge.updates[slot.slot] = judge.nodes[judge.updates[slot.slot]].inputs[1]; });
    EXPECT_EQ(altered, before + 1 + judged.layout.slots.size());
    const auto with_slot = [](Program program) {
        program.slots.push_back({"more", DType::f32, program::scalar_shape(), 0});
        program.updates.push_back(program.updates[program.header.loss_slot]);
        vm::tensor::complete_header(program);
        EXPECT_TRUE(vm::tensor::validate(program));
        return program;
    };
    EXPECT_NE(refusal(with_slot(judged.training), with_slot(judged.judge)), "none");
    for (const std::size_t data : {judged.limits_data(), judged.claimed_data()})
        for (const std::uint64_t more : {std::uint64_t{1}, judged.layout.row_elements}) {
            Program training = judged.training;
            Program judge = judged.judge;
            training.header.data[data].elements += more;
            judge.header.data[data].elements += more;
            EXPECT_NE(refusal(training, judge), "none");
        }
    // A training that does more than it says: one that changes what is compared with, one with a slot in another place.
    Program training = judged.training;
    training.updates[judged.training_slots] = training.updates[judged.layout.slots[0].slot];
    vm::tensor::complete_header(training);
    ASSERT_TRUE(vm::tensor::validate(training));
    EXPECT_EQ(refusal(training, judged.judge).substr(0, 9), "training:");
    for (const char* const name : {"loose.", "previous."}) {  // names that say something else of what is left out
        training = judged.training;
        Program judge = judged.judge;
        for (Program* const each : {&training, &judge}) {
            for (vm::tensor::Slot& slot : each->slots)
                if (slot.name == "loose." + left_out || (slot.name == "previous.loss" && name[0] == 'l'))
                    slot.name = name + (slot.name == "previous.loss" ? "loss" : left_out);
            vm::tensor::complete_header(*each);
            ASSERT_TRUE(vm::tensor::validate(*each));
        }
        EXPECT_NE(refusal(training, judge), "none") << name;
    }
}

TEST(Judge, recognises_plans_of_segments_that_end_in_a_judging_step) {
    const Solver solver(4);
    const JudgedPrograms& judged = solver.judged;
    for (const std::uint64_t k : {1U, 2U, 1000U})
        for (const std::uint64_t n : {4U, 5U, 100U}) {
            const auto task = judged.task(k, n);
            ASSERT_TRUE(task) << task.error().to_string();
            EXPECT_EQ(task->plan.steps(), n * (k + 1));
            const auto found = recognise(*task);
            ASSERT_TRUE(found) << found.error().to_string();
            EXPECT_EQ(found->k, k);
            EXPECT_EQ(found->segments, n);
            EXPECT_EQ(found->programs.rows, 4U);
        }
    const JudgedPrograms single = *build_judged_programs(solver.training.program(), 1);
    EXPECT_EQ(recognise(*single.task(1, 1))->segments, 1U);
    EXPECT_EQ(recognise(*single.task(7, 1))->k, 7U);
    using core::plan_repeat;
    using core::plan_step;
    const auto error_of = [&](std::vector<core::PlanItem> body) {
        const auto task = core::TaskPrograms::make({judged.training, judged.judge}, std::move(body));
        EXPECT_TRUE(task) << task.error().to_string();
        const auto found = recognise(*task);
        return found ? std::string("none") : std::string(found.error().name);
    };
    const std::string no = "tolerance.not_a_judged_task";
    EXPECT_EQ(error_of({plan_repeat(4, {plan_step(0), plan_step(1)})}), "none");
    EXPECT_EQ(error_of({plan_repeat(3, {plan_step(0), plan_step(1)})}), no);  // fewer segments than rows
    EXPECT_EQ(error_of({plan_repeat(4, {plan_step(1), plan_step(0)})}), no);
    EXPECT_EQ(error_of({plan_repeat(4, {plan_step(0), plan_step(1)}), plan_step(0)}), no);
    EXPECT_EQ(error_of({plan_repeat(4, {plan_step(0), plan_step(1), plan_step(0)})}), no);
    EXPECT_EQ(error_of({plan_repeat(4, {plan_repeat(3, {plan_step(0), plan_step(1)}), plan_step(1)})}), no);
    EXPECT_EQ(error_of({plan_step(0), plan_repeat(4, {plan_step(1)})}), no);
    const auto three = core::TaskPrograms::make({judged.training, judged.judge, judged.training},
                                                {plan_step(0), plan_step(1), plan_step(2)});
    ASSERT_TRUE(three);
    EXPECT_EQ(recognise(*three).error().name, no);
}

}  // namespace
}  // namespace quern::compute::tolerance::judge
