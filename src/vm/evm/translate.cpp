#include <algorithm>

#include "vm/evm/code.h"
#include "vm/evm/operations.h"

namespace quern::vm::evm {
namespace {

constexpr std::uint32_t kMaxBlockGas = std::uint32_t{1} << 30;  // one more opcode still fits 32 bits
constexpr int kStackLimit = 1024;

class Translator {
public:
    Translator(BytesView code, Revision revision, bool traced) : code_(code), revision_(revision), traced_(traced) {}

    std::unique_ptr<const Program> run() {
        program_ = std::make_unique<Program>();
        program_->instructions.reserve(code_.size() + code_.size() / 4 + 4);
        program_->places.assign(code_.size(), 0);
        count_words();
        emit(Operation::UNDEFINED);  // place 0 means: no JUMPDEST
        for (std::size_t at = 0; at < code_.size(); at += 1 + operand_bytes(code_[at])) opcode(at);
        if (in_block_ || !unreachable_) {
            if (!in_block_ || traced_) begin_block();
            if (traced_) report(code_.size());
            emit(static_cast<std::uint16_t>(Opcode::STOP));
        }
        end_block();
        resolve_jumps();
        return std::move(program_);
    }

private:
    // Constants stay where they are once instructions name them.
    void count_words() {
        std::size_t words = 0;
        for (std::size_t at = 0; at < code_.size(); at += 1 + operand_bytes(code_[at]))
            if (operand_bytes(code_[at]) > 8) ++words;
        program_->words.reserve(words);
    }

    void emit(std::uint16_t operation, std::uint64_t number = 0) {
        program_->instructions.push_back({runner_of(operation), {number}});
        kinds_.push_back(operation);
    }
    void emit(Operation operation, std::uint64_t number = 0) { emit(static_cast<std::uint16_t>(operation), number); }

    void begin_block() {
        end_block();
        block_at_ = program_->instructions.size();
        emit(Operation::BEGIN_BLOCK);
        in_block_ = true;
        unreachable_ = false;
        block_ = {};
        depth_ = lowest_ = highest_ = 0;
        joinable_ = block_at_ + 1;
    }
    void end_block() {
        if (!in_block_) return;
        block_.taken = static_cast<std::uint16_t>(std::min(-lowest_, kStackLimit + 1));
        block_.grown = static_cast<std::uint16_t>(std::min(highest_, kStackLimit + 1));
        program_->instructions[block_at_].block = block_;
        in_block_ = false;
    }
    // Before the block's check, which the opcode may not pass.
    void report(std::size_t at) {
        program_->instructions[block_at_] = {runner_of(static_cast<std::uint16_t>(Operation::TRACE)), {at}};
        block_at_ = program_->instructions.size();
        emit(Operation::BEGIN_BLOCK);
        joinable_ = block_at_ + 1;
    }
    void count(std::uint8_t opcode) {
        const OpcodeInfo& info = opcode_info(opcode);
        block_.gas += static_gas(opcode, revision_);
        lowest_ = std::min(lowest_, depth_ - info.taken);
        depth_ += info.left - info.taken;
        highest_ = std::max(highest_, depth_);
    }

    void opcode(std::size_t at) {
        const std::uint8_t opcode = code_[at];
        const bool is_target = opcode == static_cast<std::uint8_t>(Opcode::JUMPDEST);
        if (unreachable_ && !is_target) return;
        if (!in_block_ || is_target || traced_ || block_.gas >= kMaxBlockGas) {
            begin_block();
            if (is_target) program_->places[at] = static_cast<std::uint32_t>(block_at_);
        }
        if (traced_) report(at);
        if (!is_defined(opcode, revision_)) {
            emit(Operation::UNDEFINED);
            return leave();
        }
        count(opcode);
        translate(at, opcode);
    }
    // Nothing falls through to what follows.
    void leave() {
        end_block();
        unreachable_ = true;
    }

    void translate(std::size_t at, std::uint8_t opcode) {
        switch (static_cast<Opcode>(opcode)) {
            case Opcode::JUMPDEST:
                return;
            case Opcode::PC:
                return emit(Operation::PUSH_NUMBER, at);
            case Opcode::PUSH0:
                return push_number(0);
            case Opcode::JUMP:
                return jump();
            case Opcode::JUMPI:
                return jump_if();
            case Opcode::STOP:
            case Opcode::RETURN:
            case Opcode::REVERT:
            case Opcode::INVALID:
            case Opcode::SELFDESTRUCT:
                emit(opcode);
                return leave();
            case Opcode::GAS:
            case Opcode::SSTORE:
            case Opcode::CREATE:
            case Opcode::CREATE2:
            case Opcode::CALL:
            case Opcode::CALLCODE:
            case Opcode::DELEGATECALL:
            case Opcode::STATICCALL:
                emit(opcode);
                return end_block();
            case Opcode::LOG0:
            case Opcode::LOG1:
            case Opcode::LOG2:
            case Opcode::LOG3:
            case Opcode::LOG4:
                return emit(Operation::LOG, opcode - static_cast<unsigned>(Opcode::LOG0));
            default:
                break;
        }
        if (operand_bytes(opcode) != 0) return push(at, operand_bytes(opcode));
        if (!join(static_cast<Opcode>(opcode))) emit(opcode);
    }

    void push(std::size_t at, std::size_t bytes) {
        const std::size_t there = std::min(bytes, code_.size() - at - 1);
        std::array<std::uint8_t, 32> operand{};  // what lies behind the code's end is zero
        std::copy_n(code_.begin() + static_cast<std::ptrdiff_t>(at) + 1, there, operand.begin());
        const Uint256 value = Uint256::from_be(BytesView(operand).first(bytes));
        if (value.fits_u64()) return push_number(value.low_u64());
        program_->words.push_back(value);
        emit(Operation::PUSH_WORD);
        program_->instructions.back().word = &program_->words.back();
    }
    void push_number(std::uint64_t number) {
        if (last_is(static_cast<std::uint16_t>(Opcode::DUP1))) {
            drop();
            return emit(Operation::DUP1_PUSH, number);
        }
        emit(Operation::PUSH_NUMBER, number);
    }

    // --- Pairs. Only what the same block has, which no jump leads into.
    [[nodiscard]] bool last_is(std::uint16_t operation) const {
        return !traced_ && kinds_.size() > joinable_ && kinds_.back() == operation;
    }
    [[nodiscard]] bool last_is(Operation operation) const { return last_is(static_cast<std::uint16_t>(operation)); }
    void drop() {
        program_->instructions.pop_back();
        kinds_.pop_back();
    }
    void replace_last(Operation operation) {
        program_->instructions.back().run = runner_of(static_cast<std::uint16_t>(operation));
        kinds_.back() = static_cast<std::uint16_t>(operation);
    }

    bool join(Opcode opcode) {
        if (last_is(Operation::PUSH_NUMBER)) {
            switch (opcode) {
                case Opcode::ADD:
                    replace_last(Operation::ADD_NUMBER);
                    return true;
                case Opcode::SUB:
                    replace_last(Operation::SUB_FROM_NUMBER);
                    return true;
                case Opcode::MUL:
                    replace_last(Operation::MUL_NUMBER);
                    return true;
                case Opcode::AND:
                    replace_last(Operation::AND_NUMBER);
                    return true;
                case Opcode::EQ:
                    replace_last(Operation::EQ_NUMBER);
                    return true;
                case Opcode::LT:
                    replace_last(Operation::LT_NUMBER);
                    return true;
                case Opcode::GT:
                    replace_last(Operation::GT_NUMBER);
                    return true;
                case Opcode::SHL:
                    replace_last(Operation::SHL_NUMBER);
                    return true;
                case Opcode::SHR:
                    replace_last(Operation::SHR_NUMBER);
                    return true;
                case Opcode::BYTE:
                    replace_last(Operation::BYTE_NUMBER);
                    return true;
                case Opcode::MLOAD:
                    replace_last(Operation::MLOAD_NUMBER);
                    return true;
                case Opcode::MSTORE:
                    replace_last(Operation::MSTORE_NUMBER);
                    return true;
                default:
                    return false;
            }
        }
        if (opcode == Opcode::AND && last_is(Operation::PUSH_WORD)) {
            replace_last(Operation::AND_WORD);
            return true;
        }
        if (opcode == Opcode::POP) {
            if (last_is(static_cast<std::uint16_t>(Opcode::SWAP1))) return replace_last(Operation::SWAP1_POP), true;
            if (last_is(static_cast<std::uint16_t>(Opcode::SWAP2))) return replace_last(Operation::SWAP2_POP), true;
            if (last_is(static_cast<std::uint16_t>(Opcode::POP))) return replace_last(Operation::POP2), true;
        }
        if (opcode == Opcode::SUB && last_is(static_cast<std::uint16_t>(Opcode::SWAP1)))
            return replace_last(Operation::SWAP1_SUB), true;
        if (opcode == Opcode::ADD && last_is(static_cast<std::uint16_t>(Opcode::DUP2)))
            return replace_last(Operation::DUP2_ADD), true;
        return false;
    }

    void jump() {
        if (last_is(Operation::PUSH_NUMBER)) {
            aim(Operation::JUMP_TO, Operation::JUMP_NOWHERE);
        } else if (last_is(Operation::PUSH_WORD)) {
            replace_last(Operation::JUMP_NOWHERE);
        } else {
            emit(static_cast<std::uint16_t>(Opcode::JUMP));
        }
        leave();
    }
    void jump_if() {
        if (last_is(Operation::PUSH_WORD)) {
            replace_last(Operation::JUMP_NOWHERE_IF);
        } else if (last_is(Operation::PUSH_NUMBER)) {
            const std::uint64_t target = program_->instructions.back().number;
            drop();
            const bool negated = last_is(static_cast<std::uint16_t>(Opcode::ISZERO));
            if (negated) drop();
            emit(Operation::PUSH_NUMBER, target);
            if (negated)
                aim(Operation::JUMP_TO_UNLESS, Operation::JUMP_NOWHERE_UNLESS);
            else
                aim(Operation::JUMP_TO_IF, Operation::JUMP_NOWHERE_IF);
        } else {
            emit(static_cast<std::uint16_t>(Opcode::JUMPI));
        }
        end_block();
    }
    // The last instruction, a constant, becomes a jump there: which of the two is known when all the code is.
    void aim(Operation somewhere, Operation nowhere) {
        replace_last(somewhere);
        jumps_.push_back({program_->instructions.size() - 1, nowhere});
    }
    void resolve_jumps() {
        for (const auto& [at, nowhere] : jumps_) {
            Instruction& jump = program_->instructions[at];
            const std::uint32_t place = jump.number < code_.size() ? program_->places[jump.number] : 0;
            if (place == 0)
                jump.run = runner_of(static_cast<std::uint16_t>(nowhere));
            else
                jump.target = &program_->instructions[place];
        }
    }

    BytesView code_;
    Revision revision_;
    bool traced_;
    std::unique_ptr<Program> program_;
    std::vector<std::uint16_t> kinds_;  // of each instruction
    struct ConstantJump {
        std::size_t at;
        Operation nowhere;
    };
    std::vector<ConstantJump> jumps_;
    bool in_block_ = false;
    bool unreachable_ = false;
    std::size_t block_at_ = 0;
    std::size_t joinable_ = 0;  // instructions before this one belong to other blocks
    Block block_;
    int depth_ = 0;  // of the stack, from the block's beginning
    int lowest_ = 0;
    int highest_ = 0;
};

}  // namespace

std::unique_ptr<const Program> translate(BytesView code, Revision revision, bool traced) {
    return Translator(code, revision, traced).run();
}

const Program& Code::program(Revision revision) const {
    auto& ready = ready_[static_cast<std::size_t>(revision)];
    if (const Program* program = ready.load(std::memory_order_acquire)) return *program;
    const MutexLock lock(mutex_);
    if (const Program* program = ready.load(std::memory_order_relaxed)) return *program;
    made_.push_back(translate(bytes_, revision, false));
    ready.store(made_.back().get(), std::memory_order_release);
    return *made_.back();
}

}  // namespace quern::vm::evm
