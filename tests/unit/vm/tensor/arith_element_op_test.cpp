#include <gtest/gtest.h>

#include <set>
#include <string>

#include "vm/tensor/arith/element_op.h"

namespace quern::vm::tensor::arith {
namespace {

TEST(ElementOps, have_distinct_numbers_and_names) {
    std::set<int> numbers;
    std::set<std::string_view> names;
    for (const ElementOpInfo& info : kElementOps) {
        EXPECT_TRUE(numbers.insert(static_cast<int>(info.op)).second) << info.name;
        EXPECT_TRUE(names.insert(info.name).second) << info.name;
        EXPECT_GE(info.arity, 1) << info.name;
        EXPECT_LE(info.arity, 3) << info.name;
        EXPECT_GT(info.work, 0U) << info.name;
        EXPECT_EQ(find_element_op(info.name), &info);
        EXPECT_EQ(find_element_op(info.op), &info);
    }
    EXPECT_FALSE(numbers.contains(0));
}

TEST(ElementOps, keep_their_serialised_numbers) {
    std::string all;
    for (const ElementOpInfo& info : kElementOps)
        all += std::string(info.name) + "=" + std::to_string(static_cast<int>(info.op)) + " ";
    EXPECT_EQ(all,
              "neg=1 abs=2 sqrt=3 exp=4 log=5 tanh=6 sigmoid=7 erf=8 add=16 sub=17 mul=18 div=19 min=20 max=21 fma=24 "
              "lt=32 le=33 eq=34 ilt=35 ieq=36 select=40 iselect=41 iadd=48 isub=49 imul=50 idiv=51 irem=52 iand=53 "
              "ior=54 ixor=55 ishl=56 ishr=57 isar=58 imin=59 imax=60 i2f=64 f2i=65 bits=66 permute_index=72 ");
}

TEST(ElementOps, are_not_found_by_other_numbers_or_names) {
    for (int number : {0, 9, 15, 22, 61, 63, 67, 71, 73, 255})
        EXPECT_EQ(find_element_op(static_cast<std::uint8_t>(number)), nullptr) << number;
    EXPECT_EQ(find_element_op(std::string_view("cos")), nullptr);
    EXPECT_EQ(find_element_op(std::string_view("")), nullptr);
}

TEST(ElementOps, declare_operand_types) {
    const ElementOpInfo* select = find_element_op(ElementOp::select);
    ASSERT_NE(select, nullptr);
    EXPECT_EQ(select->inputs[0], WordType::i32);
    EXPECT_EQ(select->inputs[1], WordType::f32);
    EXPECT_EQ(select->output, WordType::f32);
    EXPECT_EQ(find_element_op(ElementOp::lt)->output, WordType::i32);
    EXPECT_EQ(find_element_op(ElementOp::f2i)->output, WordType::i32);
    EXPECT_EQ(find_element_op(ElementOp::i2f)->inputs[0], WordType::i32);
    EXPECT_TRUE(find_element_op(ElementOp::permute_index)->uses_immediate);
}

}  // namespace
}  // namespace quern::vm::tensor::arith
