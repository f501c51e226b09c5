#include "vm/evm/machine.h"

#include <algorithm>

#include "base/ensure.h"
#include "base/rlp.h"
#include "crypto/hash.h"
#include "vm/evm/frame.h"
#include "vm/evm/precompiles.h"
#include "vm/evm/word.h"

namespace quern::vm::evm {
namespace {

constexpr std::int64_t kCodeByteGas = 200;

bool is_creation(const CallMessage& message) {
    return message.kind == CallKind::create || message.kind == CallKind::create2;
}
bool moves_value(const CallMessage& message) {
    return message.kind != CallKind::delegatecall && message.kind != CallKind::callcode && !message.value.is_zero();
}

CallResult failure(Halt halt, std::int64_t gas_left = 0) { return {halt, gas_left, 0, {}}; }

Address last_20(const Hash32& hash) { return Address::copy_of(hash.view().subspan(12)); }

// The calls of one message, one above the other.
class Calls {
public:
    explicit Calls(Run& run) : run_(run), world_(run.world) {}

    CallResult all(const CallMessage& message) {
        std::optional<CallResult> ended = begin(message);
        while (depth_ > 0) {
            if (ended) {
                deliver(*ended);
                ended.reset();
            }
            Frame& frame = top();
            const Exit exit = interpret(run_, frame);
            if (run_.tracer() != nullptr) pause(frame, exit);
            switch (exit) {
                case Exit::call:
                    run_.has_pending = false;
                    ended = begin(run_.pending);
                    continue;
                case Exit::done:
                    ended = end(frame, Halt::none);
                    break;
                case Exit::reverted:
                    ended = end(frame, Halt::revert);
                    break;
                case Exit::halted:
                    ended = end(frame, run_.halt);
                    break;
            }
            leave(frame.message, *ended);
            frame.message.code.reset();
            frame.code.reset();
            frame.memory.clear();
            --depth_;
        }
        return std::move(*ended);
    }

private:
    Frame& top() { return *run_.frames()[depth_ - 1]; }

    void pause(const Frame& frame, Exit exit) {
        const bool failed = exit == Exit::halted;
        run_.tracer()->pause(failed ? 0 : frame.gas, failed                   ? run_.halt
                                                     : exit == Exit::reverted ? Halt::revert
                                                                              : Halt::none);
    }
    void leave(const CallMessage& message, const CallResult& result) {
        if (run_.tracer() != nullptr) run_.tracer()->leave(message, result);
    }

    // Its result when nothing is to be interpreted; else its frame is the topmost.
    std::optional<CallResult> begin(const CallMessage& message) {
        if (run_.tracer() != nullptr) run_.tracer()->enter(message);
        std::optional<CallResult> result;
        if (const Halt refusal = refuse(message); refusal != Halt::none)
            result = failure(refusal, message.gas);
        else
            result = is_creation(message) ? begin_creation(message) : begin_call(message);
        if (result) leave(message, *result);
        return result;
    }

    Halt refuse(const CallMessage& message) {
        if (message.depth > kMaxCallDepth) return Halt::depth_exceeded;
        const bool needs_value = message.kind != CallKind::delegatecall && !message.value.is_zero();
        if (needs_value && word::less(world_.balance(message.sender), message.value)) return Halt::insufficient_balance;
        return Halt::none;
    }

    std::optional<CallResult> begin_call(const CallMessage& message) {
        if (run_.is_stopped()) return failure(Halt::stopped);
        const std::size_t snapshot = world_.snapshot();
        if (moves_value(message)) transfer(message);
        if (message.kind == CallKind::call || message.kind == CallKind::staticcall) world_.touch(message.recipient);
        if (const Precompile* precompile = find_precompile(message.code_address, run_.revision))
            return run_precompile(*precompile, message, snapshot);
        auto code = message.code ? message.code : world_.code(message.code_address);
        if (code->bytes().empty()) return CallResult{Halt::none, message.gas, 0, {}};
        push(message, std::move(code), snapshot);
        return std::nullopt;
    }

    std::optional<CallResult> begin_creation(const CallMessage& message) {
        if (run_.is_stopped()) return failure(Halt::stopped);
        const Address& address = message.recipient;
        // EIP-684, EIP-7610.
        if (world_.nonce(address) != 0 || !world_.code(address)->bytes().empty() || world_.has_storage(address))
            return failure(Halt::address_collision);
        const std::size_t snapshot = world_.snapshot();
        world_.create_contract(address);
        if (run_.has(Revision::spurious_dragon)) world_.set_nonce(address, 1);  // EIP-161
        if (moves_value(message)) transfer(message);
        push(message, Code::analyse(message.input), snapshot);
        top().message.input = {};
        return std::nullopt;
    }

    void transfer(const CallMessage& message) {
        world_.set_balance(message.sender, word::sub(world_.balance(message.sender), message.value));
        world_.set_balance(message.recipient, word::add(world_.balance(message.recipient), message.value));
    }

    CallResult run_precompile(const Precompile& precompile, const CallMessage& message, std::size_t snapshot) {
        const std::uint64_t gas = precompile.gas(message.input, run_.revision);
        CallResult result{Halt::none, message.gas, 0, {}};
        if (gas > static_cast<std::uint64_t>(message.gas))
            result.halt = Halt::out_of_gas;
        else if (!precompile.run(message.input, run_.revision, result.output))
            result.halt = Halt::precompile_failed;
        if (result.halt != Halt::none) {
            world_.revert_to(snapshot);
            return failure(result.halt);
        }
        result.gas_left -= static_cast<std::int64_t>(gas);
        return result;
    }

    void push(const CallMessage& message, std::shared_ptr<const Code> code, std::size_t snapshot) {
        auto& frames = run_.frames();
        if (depth_ == frames.size()) frames.push_back(std::make_unique<Frame>());
        Frame& frame = *frames[depth_++];
        frame.message = message;
        frame.code = std::move(code);
        frame.own_program.reset();
        if (run_.tracer() != nullptr) {
            frame.own_program = translate(frame.code->bytes(), run_.revision, true);
            frame.program = frame.own_program.get();
        } else {
            frame.program = &frame.code->program(run_.revision);
        }
        frame.at = &frame.program->instructions[1];
        frame.top = frame.stack.get();
        frame.gas = message.gas;
        frame.refund = 0;
        frame.return_data.clear();
        frame.snapshot = snapshot;
    }

    // What the topmost frame leaves.
    CallResult end(Frame& frame, Halt halt) {
        CallResult result{halt, frame.gas, frame.refund, {}};
        if ((halt == Halt::none || halt == Halt::revert) && frame.output_size != 0) {
            const BytesView output{frame.memory.data() + frame.output, frame.output_size};
            if (halt == Halt::none && is_creation(frame.message))
                result.halt = deposit(frame.message.recipient, output, result.gas_left);
            else
                result.output = to_bytes(output);
        }
        if (result.halt == Halt::none) return result;
        world_.revert_to(frame.snapshot);
        result.refund = 0;
        if (result.halt != Halt::revert) result.gas_left = 0;
        return result;
    }

    // Keeps the code of a new contract.
    Halt deposit(const Address& address, BytesView code, std::int64_t& gas) {
        if (run_.has(Revision::spurious_dragon) && code.size() > kMaxCodeBytes) return Halt::code_too_large;
        if (run_.has(Revision::london) && code[0] == 0xef) return Halt::invalid_code;
        const std::int64_t cost = kCodeByteGas * static_cast<std::int64_t>(code.size());
        if (cost > gas) {
            // Frontier leaves the contract without code.
            return run_.has(Revision::homestead) ? Halt::code_store_out_of_gas : Halt::none;
        }
        gas -= cost;
        world_.set_code(address, code);
        return Halt::none;
    }

    // Hands what a call left to the frame that made it, the topmost now.
    void deliver(CallResult& result) {
        Frame& frame = top();
        frame.gas += result.gas_left;
        frame.refund += result.refund;
        const bool succeeded = result.halt == Halt::none;
        *frame.top = {};
        if (succeeded) *frame.top = frame.created ? word::from_address(*frame.created) : Uint256(1);
        const std::size_t copied = std::min(result.output.size(), frame.call_output_size);
        if (copied != 0) std::memcpy(frame.memory.data() + frame.call_output, result.output.data(), copied);
        frame.return_data = std::move(result.output);
    }
    Run& run_;
    World& world_;
    std::size_t depth_ = 0;
};

}  // namespace

void Memory::grow(std::size_t size) {
    if (size > capacity_) {
        const std::size_t capacity = std::max({size, 2 * capacity_, std::size_t{4096}});
        auto* bytes = static_cast<std::uint8_t*>(std::realloc(bytes_, capacity));
        ensure(bytes != nullptr, "memory for a call");
        bytes_ = bytes;
        capacity_ = capacity;
    }
    std::memset(bytes_ + size_, 0, size - size_);
    size_ = size;
}

void Memory::clear() {
    size_ = 0;
    if (capacity_ <= kKeptMemoryBytes) return;
    std::free(bytes_);
    bytes_ = nullptr;
    capacity_ = 0;
}

Machine::Machine() = default;
Machine::~Machine() = default;

CallResult Machine::run(World& world, const BlockContext& block, const TransactionContext& transaction,
                        Revision revision, const CallMessage& message) {
    Run run{world, block, transaction, revision, *this, Halt::none, {}, false};
    return Calls(run).all(message);
}

std::string_view halt_message(Halt halt) {
    switch (halt) {
        case Halt::none:
            return "";
        case Halt::revert:
            return "execution reverted";
        case Halt::out_of_gas:
            return "out of gas";
        case Halt::stack_underflow:
            return "stack underflow";
        case Halt::stack_overflow:
            return "stack limit reached 1024 (1023)";
        case Halt::invalid_jump:
            return "invalid jump destination";
        case Halt::invalid_opcode:
            return "invalid opcode";
        case Halt::static_violation:
            return "write protection";
        case Halt::return_data_out_of_bounds:
            return "return data out of bounds";
        case Halt::init_code_too_large:
            return "max initcode size exceeded";
        case Halt::address_collision:
            return "contract address collision";
        case Halt::code_too_large:
            return "max code size exceeded";
        case Halt::code_store_out_of_gas:
            return "contract creation code storage out of gas";
        case Halt::invalid_code:
            return "invalid code: must not begin with 0xef";
        case Halt::precompile_failed:
            return "precompiled contract failed";
        case Halt::insufficient_balance:
            return "insufficient balance for transfer";
        case Halt::depth_exceeded:
            return "max call depth exceeded";
        case Halt::stopped:
            return "execution was stopped";
    }
    return "";
}

Address created_address(const Address& maker, std::uint64_t nonce) {
    rlp::Writer writer;
    writer.begin_list().fixed(maker).integer(nonce).end_list();
    return last_20(crypto::keccak256(std::move(writer).finish()));
}

Address created_address(const Address& maker, const Uint256& salt, BytesView init_code) {
    std::array<std::uint8_t, 85> preimage{0xff};  // EIP-1014
    std::copy_n(maker.data.begin(), 20, preimage.begin() + 1);
    word::store(preimage.data() + 21, salt);
    std::copy_n(crypto::keccak256(init_code).data.begin(), 32, preimage.begin() + 53);
    return last_20(crypto::keccak256(preimage));
}

std::optional<Address> delegation_of(BytesView code) {
    constexpr std::array<std::uint8_t, 3> kPrefix{0xef, 0x01, 0x00};
    if (code.size() != 23 || !equal(code.first(3), kPrefix)) return std::nullopt;
    return Address::copy_of(code.subspan(3));
}

}  // namespace quern::vm::evm
