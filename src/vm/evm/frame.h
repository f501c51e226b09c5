// A call in progress, and the run it belongs to: what the interpreter, the operations on the world and the machine
// share. Internal to the folder.
#pragma once

#include <cstdlib>
#include <optional>

#include "vm/evm/code.h"
#include "vm/evm/machine.h"

namespace quern::vm::evm {

inline constexpr std::size_t kStackItems = 1024;
inline constexpr std::size_t kKeptMemoryBytes = std::size_t{64} << 10;

// Byte-addressed, all zero at first, grown by words. Its start moves when it grows.
class Memory {
public:
    Memory() = default;
    ~Memory() { std::free(bytes_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] std::uint8_t* data() { return bytes_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    // `size` is a multiple of 32, larger than it is.
    void grow(std::size_t size);
    void clear();

private:
    std::uint8_t* bytes_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

struct Frame {
    Frame() : stack(std::make_unique<Uint256[]>(kStackItems + 1)) {}

    CallMessage message;
    const Instruction* at = nullptr;
    std::unique_ptr<Uint256[]> stack;  // item 0 is no item
    Uint256* top = nullptr;
    std::int64_t gas = 0;
    std::int64_t refund = 0;
    Memory memory;
    Bytes return_data;  // of the last call made from here
    std::shared_ptr<const Code> code;
    std::unique_ptr<const Program> own_program;  // of traced runs
    const Program* program = nullptr;
    std::size_t snapshot = 0;
    std::optional<Address> created;  // what the call that is made makes
    // Where the output of the call that is made goes, in this memory; and this call's own.
    std::size_t call_output = 0;
    std::size_t call_output_size = 0;
    std::size_t output = 0;
    std::size_t output_size = 0;
};

// How the interpreter came back.
enum class Exit : std::uint8_t { done, reverted, halted, call };

struct Run {
    World& world;
    const BlockContext& block;
    const TransactionContext& transaction;
    const Revision revision;
    Machine& machine;
    Halt halt = Halt::none;  // when halted
    CallMessage pending;     // when a call is to be made
    bool has_pending = false;

    [[nodiscard]] bool has(Revision since) const { return revision >= since; }
    [[nodiscard]] Tracer* tracer() const { return machine.tracer_; }
    [[nodiscard]] bool is_stopped() const { return machine.is_stopped(); }
    [[nodiscard]] std::vector<std::unique_ptr<Frame>>& frames() { return machine.frames_; }
};

// Runs a frame until it ends or makes a call.
[[nodiscard]] Exit interpret(Run& run, Frame& frame);

// What memory costs that reaches up to so many words (Yellow Paper, 326); words < 2^32.
[[nodiscard]] constexpr std::int64_t memory_gas(std::uint64_t words) {
    return static_cast<std::int64_t>(3 * words + words * words / 512);
}
// Grows the memory for a range and takes its gas. Negative: not affordable.
[[nodiscard]] std::int64_t reach(Frame& frame, const Uint256& offset, const Uint256& size, std::int64_t gas);

// Whether the account is warm; it is from here on. Precompiled contracts always are.
[[nodiscard]] bool was_warm(Run& run, const Address& address);

}  // namespace quern::vm::evm
