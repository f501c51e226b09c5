// The published vectors of the program format (tests/vectors/program-format, described there): programs with their ids
// and sizes, and what one step of them gives. With QUERN_WRITE_VECTORS set to a folder they are written there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "crypto/content_id.h"
#include "test_programs.h"
#include "vm/tensor/executor.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kMaxMicroSteps = 4;    // of a tile whose micro-states are published
constexpr std::uint32_t kDataNumber = 1000;  // of data tensor 0, where slots count from 0

Tensor filled(DType dtype, const Shape& shape, std::uint32_t number) {
    Tensor tensor{dtype, shape, std::vector<std::uint32_t>(shape.elements())};
    for (std::uint32_t i = 0; i < tensor.words.size(); ++i) {
        const std::uint32_t x = i * 2654435761U + number * 40503U;
        tensor.words[i] = dtype == DType::f32 ? (x << 31 | 0x3f000000U | x >> 9) : x >> 26;
    }
    return tensor;
}

Bytes filled(const DataSet& data, std::uint32_t number) {
    if (word_type(data.type) != DType::f32 && element_bytes(data.type) == 4)
        return test::bytes_of(filled(DType::i32, {{1, 1, 1, static_cast<std::uint32_t>(data.elements)}}, number).words);
    Bytes bytes(data_bytes(data));
    for (std::uint32_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::uint8_t>((i * 2654435761U + number * 40503U) >> 24);
    return bytes;
}

json::Value hex(const Hash32& hash) { return to_hex0x(hash.view()); }

json::Value micro_traces(const Program& program, const NodeOutputs& outputs) {
    json::Value list = json::Value::array();
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
        const Node& node = program.nodes[n];
        if (find_op(node.op)->micro_steps == MicroSteps::one) continue;
        std::vector<const Tensor*> operands;
        for (const std::uint32_t input : node.inputs) operands.push_back(&outputs[input]);
        const std::uint64_t tile = node.shape.tiles() - 1;
        const std::vector<MicroState> states = micro_trace(node, operands, tile);
        if (states.size() > kMaxMicroSteps) continue;
        json::Value hashes = json::Value::array();
        for (const MicroState& state : states) hashes.push(hex(micro_state_hash(state)));
        list.push(json::Value::object({{"node", n}, {"tile", tile}, {"states", std::move(hashes)}}));
    }
    return list;
}

std::string vector_of(const Program& program) {
    State state;
    for (std::uint32_t i = 0; i < program.slots.size(); ++i)
        state.push_back(filled(program.slots[i].dtype, program.slots[i].shape, i));
    std::vector<Bytes> sets;
    json::Value data_roots = json::Value::array();
    for (const DataSet& set : program.header.data) {
        sets.push_back(filled(set, kDataNumber + static_cast<std::uint32_t>(sets.size())));
        data_roots.push(hex(crypto::content_id_of(sets.back())));
    }
    const MemoryData data(std::move(sets));
    Executor executor(program, arith::Backend::scalar, nullptr);
    const NodeOutputs outputs = executor.run_all(state, data, test::test_seed());
    json::Value trace = json::Value::array();
    for (const Tensor& output : outputs) trace.push(hex(tensor_root(output)));
    State after;
    for (const std::uint32_t update : program.updates) after.push_back(outputs[update]);
    const ProgramSizes& sizes = program.header.sizes;
    return json::Value::object({{"program", to_hex0x(encode(program))},
                                {"root", hex(program_root(program))},
                                {"slotRoot", hex(slot_root(program))},
                                {"work", program.header.work_units},
                                {"commitWork", sizes.commit_work},
                                {"traceBytes", sizes.trace_bytes},
                                {"windowBytes", sizes.window_bytes},
                                {"peakBytes", sizes.peak_bytes},
                                {"stateBytes", sizes.state_bytes},
                                {"data", std::move(data_roots)},
                                {"before", hex(state_root(state))},
                                {"trace", std::move(trace)},
                                {"after", hex(state_root(after))},
                                {"micro", micro_traces(program, outputs)}})
               .dump_pretty() +
           "\n";
}

// Reductions of three rows of 70: three tiles a row, of which the last has six columns.
Program ragged_program() {
    test::Graph g;
    const std::uint32_t x = g.add_slot("x", DType::f32, {{1, 1, 3, 70}});
    g.add_slot("loss", DType::f32, {});
    const std::uint32_t low = g.element(arith::ElementOp::neg, {g.element(arith::ElementOp::abs, {x})});
    const std::uint32_t most = g.reduce(Op::max_last, low);
    const std::uint32_t sum = g.reduce(Op::sum_last, x);
    g.update(0, low);
    g.update(1, g.reduce(Op::sum_rows, g.element(arith::ElementOp::add, {most, sum})));
    g.finish({});
    return g.program;
}

class ProgramVectors : public testing::TestWithParam<std::pair<const char*, Program (*)()>> {};

TEST_P(ProgramVectors, are_what_this_machine_gives) {
    const Program program = GetParam().second();
    ASSERT_TRUE(validate(program));
    const std::string wanted = vector_of(program);
    const std::string name = std::string(GetParam().first).append(".json");
    if (const char* folder = std::getenv("QUERN_WRITE_VECTORS"))
        std::ofstream(std::string(folder).append("/").append(name)) << wanted;
    std::ifstream file(std::string(QUERN_PROGRAM_VECTORS "/").append(name));
    std::ostringstream published;
    published << file.rdbuf();
    EXPECT_TRUE(published.str() == wanted) << name;
}

INSTANTIATE_TEST_SUITE_P(Format2, ProgramVectors,
                         testing::Values(std::pair("every-op", &test::first_ops_program),
                                         std::pair("ragged", &ragged_program),
                                         std::pair(
                                             "training", +[] { return test::training_program(8, 4, 32); })),
                         [](const auto& info) {
                             std::string name = info.param.first;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace quern::vm::tensor
