#include "chain/statetest/trace.h"

#include <fmt/format.h>

#include <iterator>

#include "base/bytes.h"

namespace quern::chain::statetest {
namespace {

// By hand, in the order of the EIP's table: traces have millions of lines, whose texts are all ours.
void write(const vm::evm::LoggedStep& step, std::ostream& out) {
    fmt::memory_buffer line;
    const auto append = [&line](auto format, const auto&... values) {
        fmt::format_to(std::back_inserter(line), format, values...);
    };
    append(FMT_STRING(R"({{"pc":{},"op":{},"gas":"{:#x}","gasCost":"{:#x}","stack":[)"), step.at, step.opcode, step.gas,
           step.cost);
    for (std::size_t i = 0; i < step.stack.size(); ++i)
        append(FMT_STRING(R"({}"{}")"), i == 0 ? "" : ",", step.stack[i].to_hex_quantity());
    append(FMT_STRING(R"(],"depth":{},"returnData":"{}","refund":"{:#x}","memSize":{},"opName":"{}")"), step.depth + 1,
           to_hex0x(step.return_data), step.refund, step.memory_size, vm::evm::step_name(step.opcode));
    if (step.halt != vm::evm::Halt::none) append(FMT_STRING(R"(,"error":"{}")"), vm::evm::halt_message(step.halt));
    append(FMT_STRING("}}\n"));
    out.write(line.data(), static_cast<std::streamsize>(line.size()));
}

}  // namespace

Trace::Trace(std::ostream& out)
    : out_(out), log_({.stack = true, .memory = false, .return_data = true}, [&out](const vm::evm::LoggedStep& step) {
          write(step, out);
      }) {}

void Trace::sum_up(const Summary& summary) {
    // The output without 0x, as the EIP's examples and geth have it.
    out_ << fmt::format(R"({{"stateRoot":"{}","output":"{}","gasUsed":"{:#x}","pass":{},"fork":"{}"}})",
                        to_hex0x(summary.state_root), to_hex(summary.output), summary.gas_used, summary.passed,
                        summary.fork)
         << "\n";
}

}  // namespace quern::chain::statetest
