// A contract's code, and what the machine makes of it once for each fork: instructions cut into blocks whose gas and
// stack are checked at their beginning, with constant jumps resolved. Immutable once made; shared by all who call the
// contract, and thread-safe. Memory: some 20 bytes a byte of code for each fork that it ran in.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/uint256.h"
#include "vm/evm/revision.h"

namespace quern::vm::evm {

struct Instruction;

// What is checked where a block begins: nothing inside can run out of the gas of its opcodes, nor leave the stack.
// A block ends where control may go elsewhere, and behind each opcode that shows or hands on the gas that is left
// (GAS, SSTORE, CALL, CREATE, ...), so that what these see is exact.
struct Block {
    std::uint32_t gas = 0;
    std::uint16_t taken = 0;  // items that must lie on the stack
    std::uint16_t grown = 0;  // items by which it grows at most
};

struct Instruction {
    const void* run;  // where in the interpreter
    union {
        std::uint64_t number;
        const Uint256* word;
        const Instruction* target;
        Block block;
    };
};

struct Program {
    std::vector<Instruction> instructions;  // the last one stops
    std::vector<Uint256> words;             // constants of more than 64 bits
    std::vector<std::uint32_t> places;      // by byte of the code: the instruction of a JUMPDEST there, 0 for others
};

class Code {
public:
    explicit Code(BytesView bytes) : bytes_(to_bytes(bytes)) {}
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;

    [[nodiscard]] static std::shared_ptr<const Code> analyse(BytesView bytes) {
        return std::make_shared<const Code>(bytes);
    }
    [[nodiscard]] BytesView bytes() const { return bytes_; }
    // For one fork; made when it is first asked for.
    [[nodiscard]] const Program& program(Revision revision) const;

private:
    const Bytes bytes_;
    mutable std::array<std::atomic<const Program*>, kRevisions> ready_{};
    mutable Mutex mutex_;
    mutable std::vector<std::unique_ptr<const Program>> made_ QUERN_GUARDED_BY(mutex_);
};

// With `traced` each opcode is a block of its own that is reported before it runs.
[[nodiscard]] std::unique_ptr<const Program> translate(BytesView code, Revision revision, bool traced);

}  // namespace quern::vm::evm
