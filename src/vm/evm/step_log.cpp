#include "vm/evm/step_log.h"

#include <fmt/core.h>

#include "base/ensure.h"
#include "vm/evm/opcodes.h"

namespace quern::vm::evm {

void StepLog::step(const Step& step) {
    if (is_running_) finish(step.gas, Halt::none);
    ensure(!refunds_.empty(), "a step belongs to a call");
    last_refund_ = step.refund;
    last_.at = step.at;
    last_.opcode = step.opcode;
    last_.depth = step.message->depth;
    last_.gas = step.gas;
    last_.refund = refunds_.back() + step.refund;
    last_.memory_size = step.memory.size();
    if (kept_.stack) last_.stack.assign(step.stack.begin(), step.stack.end());
    if (kept_.memory) last_.memory.assign(step.memory.begin(), step.memory.end());
    if (kept_.return_data) last_.return_data.assign(step.return_data.begin(), step.return_data.end());
    is_running_ = true;
}

void StepLog::pause(std::int64_t gas, Halt halt) {
    if (is_running_) finish(gas, halt);
}

void StepLog::finish(std::int64_t gas, Halt halt) {
    is_running_ = false;
    last_.cost = last_.gas - gas;
    last_.halt = halt;
    sink_(last_);
}

void StepLog::enter(const CallMessage& /*message*/) {
    const std::int64_t below = refunds_.empty() ? 0 : refunds_.back() + last_refund_;
    refunds_.push_back(below);
    last_refund_ = 0;
}

void StepLog::leave(const CallMessage& /*message*/, const CallResult& /*result*/) { refunds_.pop_back(); }

std::string step_name(std::uint8_t opcode) {
    const std::string_view name = opcode_info(opcode).name;
    return name.empty() ? fmt::format("opcode {:#x} not defined", opcode) : std::string(name);
}

}  // namespace quern::vm::evm
