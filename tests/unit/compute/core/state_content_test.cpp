// States slot by slot: what a state content says, and tensors as the contents that their tiles are.
#include "compute/core/state_content.h"

#include <gtest/gtest.h>

#include "crypto/content_id.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::core {
namespace {

namespace tensor = vm::tensor;
using tensor::DType;
using tensor::Shape;
using tensor::Slot;
using tensor::State;
using tensor::Tensor;

Bytes tiles_of(const Tensor& slot) {
    Bytes bytes(slot_bytes(slot.shape));
    copy_tiles(slot.shape, slot.words, 0, bytes);
    return bytes;
}

// Slots of which the second is too large to come with the list; as is the third, of zeros.
struct Sample {
    tensor::Program program;
    State state;
    std::vector<Hash32> roots;

    Sample() {
        tensor::test::Random random(3);
        const Shape shapes[] = {{{1, 2, 33, 40}}, {{1, 1, 300, 290}}, {{1, 1, 65, 1030}}, {{1, 1, 1, 1}}};
        for (const Shape& shape : shapes) {
            program.slots.push_back({"slot " + std::to_string(program.slots.size()), DType::f32, shape});
            state.push_back(tensor::test::random_tensor(random, DType::f32, shape, tensor::test::Fill::special));
        }
        std::fill(state[2].words.begin(), state[2].words.end(), 0);
        roots = tensor::slot_roots(state);
    }
    [[nodiscard]] Hash32 root() const { return tensor::state_root(roots); }
};

TEST(StateContent, the_tiles_of_a_tensor_are_the_content_of_its_root) {
    tensor::test::Random random(1);
    for (const Shape& shape : {Shape{{1, 1, 1, 1}}, Shape{{1, 1, 1, 1025}}, Shape{{2, 3, 1, 5}}, Shape{{1, 1, 32, 32}},
                               Shape{{1, 2, 33, 65}}, Shape{{2, 1, 64, 31}}}) {
        const Tensor tensor = tensor::test::random_tensor(random, DType::i32, shape, tensor::test::Fill::special);
        const Bytes bytes = tiles_of(tensor);
        EXPECT_EQ(crypto::content_id_of(bytes), tensor::tensor_root(tensor)) << shape.to_string();
        const Slot slot{"x", DType::i32, shape};
        EXPECT_EQ(tensor_of_tiles(slot, bytes).value(), tensor);
        // In pieces that begin and end anywhere.
        Bytes pieces;
        for (std::size_t at = 0; at < bytes.size(); at += 1003) {
            Bytes piece(std::min<std::size_t>(1003, bytes.size() - at));
            copy_tiles(shape, tensor.words, at, piece);
            append(pieces, piece);
        }
        EXPECT_EQ(pieces, bytes);
        EXPECT_EQ(tensor_of_tiles(slot, BytesView(bytes).first(bytes.size() - 1)).error().name, "state.wrong_size");
    }
}

TEST(StateContent, words_beside_the_tensor_are_zero) {
    const Slot slot{"x", DType::f32, {{1, 1, 33, 31}}};
    const Bytes good(slot_bytes(slot.shape));
    ASSERT_TRUE(tensor_of_tiles(slot, good));
    for (const std::size_t word : {31, 1024 + 32, 2047}) {  // right of a row, below the last one, both
        Bytes bad = good;
        bad[4 * word] = 1;
        EXPECT_EQ(tensor_of_tiles(slot, bad).error().name, "state.bad_padding");
    }
}

TEST(StateContent, zeros_have_a_root_that_nobody_need_compute) {
    for (const std::uint32_t tiles : {1, 2, 3, 5, 8, 13, 100}) {
        const Shape shape{{1, 1, 1, tiles * tensor::kTileWords}};
        const Tensor zeros{DType::f32, shape, std::vector<std::uint32_t>(shape.elements())};
        EXPECT_EQ(zero_root(tiles), tensor::tensor_root(zeros)) << tiles;
    }
}

TEST(StateContent, says_its_slots_and_brings_the_small_ones) {
    const Sample sample;
    const Bytes bytes = encode_state(sample.program, sample.state, sample.roots);
    EXPECT_EQ(bytes.size(), state_content_bytes(sample.program));
    EXPECT_TRUE(is_state_content(bytes));
    EXPECT_EQ(slot_roots(bytes).value(), sample.roots);
    EXPECT_EQ(slot_roots(BytesView(bytes).first(slot_list_bytes(4))).value(), sample.roots) << "its beginning";
    const auto parts = decode_state(sample.program, sample.root(), bytes);
    ASSERT_TRUE(parts) << parts.error().to_string();
    EXPECT_EQ(parts->roots, sample.roots);
    EXPECT_EQ(parts->slots[0], sample.state[0]);
    EXPECT_EQ(parts->slots[3], sample.state[3]);
    EXPECT_EQ(parts->slots[2], sample.state[2]) << "zeros";
    EXPECT_TRUE(parts->slots[1].words.empty());
    EXPECT_EQ(own_contents(sample.program, sample.roots), std::vector<std::size_t>{1}) << "not the zeros";
}

TEST(StateContent, a_slot_that_is_like_another_is_one_content) {
    Sample sample;
    sample.program.slots.push_back(sample.program.slots[1]);
    sample.roots.push_back(sample.roots[1]);
    EXPECT_EQ(own_contents(sample.program, sample.roots), std::vector<std::size_t>{1});
}

TEST(StateContent, anything_else_is_refused) {
    const Sample sample;
    const Bytes good = encode_state(sample.program, sample.state, sample.roots);
    const auto why = [&](const Bytes& bytes) {
        const auto parts = decode_state(sample.program, sample.root(), bytes);
        return parts ? std::string() : std::string(parts.error().name);
    };
    EXPECT_EQ(why({}), "state.not_a_state");
    EXPECT_EQ(why(Bytes(good.begin(), good.begin() + 12)), "state.truncated");
    EXPECT_EQ(why(Bytes(good.begin(), good.begin() + 100)), "state.truncated");
    EXPECT_EQ(why(Bytes(good.begin(), good.end() - 1)), "state.wrong_size");
    Bytes bad = good;
    bad[8] = 1;  // more slots than any program has
    EXPECT_EQ(why(bad), "state.not_a_state");
    bad = good;
    std::fill(bad.begin() + 8, bad.begin() + 16, 0);
    EXPECT_EQ(why(bad), "state.not_a_state") << "none";
    bad = good;
    ++bad[20];
    EXPECT_EQ(why(bad), kWrongStateRoot) << "another slot's root";
    bad = good;
    ++bad.back();
    EXPECT_EQ(why(bad), kWrongStateRoot) << "another slot under the root";
    Sample other;
    other.program.slots.pop_back();
    EXPECT_EQ(decode_state(other.program, sample.root(), good).error().name, "state.wrong_size");
}

}  // namespace
}  // namespace quern::compute::core
