// The steps of a traced run, each with what it cost and how it failed, which is known only when it is over: what
// EIP-3155 traces and the struct logs of debug_traceTransaction are written from. A log belongs to the thread of its
// machine.
#pragma once

#include <functional>

#include "vm/evm/machine.h"

namespace quern::vm::evm {

struct LoggedStep {
    std::size_t at = 0;  // in the code
    std::uint8_t opcode = 0;
    int depth = 0;  // of its call; the outermost has 0
    std::int64_t gas = 0;
    std::int64_t cost = 0;  // of a call with the gas that it hands on (no stipend); of one that failed: all
    // What SSTORE and SELFDESTRUCT earned in all calls that run, without what authorizations did (EIP-7702).
    std::int64_t refund = 0;
    std::size_t memory_size = 0;
    Halt halt = Halt::none;  // how it ended the call; Halt::none: it went on, or ended well
    // As they were before it, where the log is to keep them.
    std::vector<Uint256> stack;  // the last is the top
    Bytes memory;
    Bytes return_data;
};

class StepLog final : public Tracer {
public:
    struct Kept {
        bool stack = true;
        bool memory = false;
        bool return_data = false;
    };
    // `sink` gets each step when it is over, in the order in which they began.
    using Sink = std::function<void(const LoggedStep&)>;
    StepLog(Kept kept, Sink sink) : kept_(kept), sink_(std::move(sink)) {}

    void step(const Step& step) override;
    void pause(std::int64_t gas, Halt halt) override;
    void enter(const CallMessage& message) override;
    void leave(const CallMessage& message, const CallResult& result) override;

private:
    void finish(std::int64_t gas, Halt halt);

    const Kept kept_;
    const Sink sink_;
    LoggedStep last_;
    bool is_running_ = false;            // the last is not over
    std::int64_t last_refund_ = 0;       // of the last step's call alone
    std::vector<std::int64_t> refunds_;  // by depth: earned in the calls below
};

// "PUSH1"; as geth says it where there is none: "opcode 0xc not defined".
[[nodiscard]] std::string step_name(std::uint8_t opcode);

}  // namespace quern::vm::evm
