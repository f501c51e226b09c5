// What is told of a program, and its drawing.
#include "compute/program/description.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "compute/program/builder.h"

namespace quern::compute::program {
namespace {

constexpr std::uint64_t kBytes = 1234567;

Program small_program() {
    Builder b({{vm::tensor::DataType::u8, 400}});
    const auto weight =
        b.slot("model.w", DType::f32, matrix_shape(64, 96), Initializer::zeros(), vm::tensor::kSlotParameter);
    const auto odd = b.slot(R"(say"\n")", DType::f32, scalar_shape(), Initializer::zeros());
    const auto loss = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss);
    const auto x = b.to_f32(b.window(b.iota(matrix_shape(4, 1), 2), 0, 64, 64));
    const auto y = b.tanh(b.matmul(x, weight));
    b.update(loss, b.sum_last(b.sum_rows(y)));
    b.update(weight, b.mul(weight, b.constant(0.5F)));
    b.update(odd, b.add(odd, b.constant(1.0F)));
    const auto built = b.finish();
    EXPECT_TRUE(built) << built.error().to_string();
    return built->program;
}

std::uint64_t number_in(const json::Value& value, std::string_view key) {
    const json::Value* const found = value.find(key);
    EXPECT_NE(found, nullptr) << key;
    return found == nullptr ? 0 : found->as_u64().value_or(0);
}

TEST(Description, adds_up_to_the_whole_program) {
    const Program program = small_program();
    const json::Value told = describe(program, kBytes);
    EXPECT_EQ(number_in(told, "bytes"), kBytes);
    EXPECT_EQ(number_in(told, "parameters"), 64U * 96);
    std::uint64_t nodes = 0;
    std::uint64_t work = 0;
    std::uint64_t before = ~std::uint64_t{0};
    for (const json::Value& share : told.find("operations")->items()) {
        nodes += number_in(share, "nodes");
        work += number_in(share, "work_units");
        EXPECT_LE(number_in(share, "work_units"), before);
        before = number_in(share, "work_units");
    }
    EXPECT_EQ(nodes, program.nodes.size());
    EXPECT_GE(program.header.work_units, work) << "tiles of data come on top";
    EXPECT_GT(work, 4U * 64 * 96 / 256);
    const json::Value& largest = told.find("largest")->items()[0];
    std::uint64_t most = 0;
    for (const json::Value& node : told.find("largest")->items()) most = std::max(most, number_in(node, "work_units"));
    EXPECT_EQ(number_in(largest, "work_units"), most);
    EXPECT_EQ(largest.find("dims")->size(), 4U);
    EXPECT_EQ(told.find("slot_list")->size(), 3U);
    EXPECT_LE(told.find("largest")->size(), kLargestNodes);
}

TEST(Description, as_text_names_parameters_and_operations) {
    const std::string text = describe_as_text(small_program(), kBytes);
    EXPECT_NE(text.find("bytes of the file"), std::string::npos);
    EXPECT_NE(text.find("1,234,567"), std::string::npos);
    EXPECT_TRUE(std::regex_search(text, std::regex(R"(\n  model\.w +6,144  \[1,1,64,96\]\n)"))) << text;
    EXPECT_TRUE(std::regex_search(text, std::regex(R"(\n  matmul +[\d,]+ +\d+\.\d %  1 nodes\n)"))) << text;
    EXPECT_TRUE(std::regex_search(text, std::regex(R"(\n  2 other slots .* 2\n)"))) << text;
    EXPECT_EQ(text.back(), '\n');
}

// Line by line what the language allows, every node said once before an edge names it.
TEST(Description, draws_each_node_and_each_edge) {
    const Program program = small_program();
    std::istringstream dot(draw_as_dot(program));
    const std::regex box(R"re(  (\w+) \[label="((?:[^"\\]|\\.)*)"(, [^\]]*)?\];)re");
    const std::regex edge(R"(  (\w+) -> (\w+);)");
    std::set<std::string> boxes;
    std::size_t edges = 0;
    std::string line;
    std::getline(dot, line);
    EXPECT_EQ(line, "digraph program {");
    std::getline(dot, line);
    EXPECT_EQ(line, "  node [shape=box];");
    bool ended = false;
    while (std::getline(dot, line)) {
        std::smatch match;
        EXPECT_FALSE(ended);
        if (line == "}") {
            ended = true;
        } else if (std::regex_match(line, match, edge)) {
            ++edges;
            EXPECT_TRUE(boxes.contains(match[1]) && boxes.contains(match[2])) << line;
        } else {
            ASSERT_TRUE(std::regex_match(line, match, box)) << line;
            EXPECT_TRUE(boxes.insert(match[1]).second) << line;
        }
    }
    EXPECT_TRUE(ended);
    std::size_t wanted = 0;
    for (const Node& node : program.nodes) wanted += node.inputs.size();
    EXPECT_EQ(edges, wanted + 3) << "each slot changes";
    EXPECT_EQ(boxes.size(), program.nodes.size() + 3);
}

}  // namespace
}  // namespace quern::compute::program
