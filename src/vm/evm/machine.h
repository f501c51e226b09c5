// The Ethereum Virtual Machine: runs one message call, or makes one contract, with all the calls that it makes in turn
// (Yellow Paper, 8 and 9). Calls do not nest on the C++ stack: each has a frame of this machine, which keeps the
// frames' stacks and memories for the next message. Pure over the world it is given. A machine belongs to one thread at
// a time, but for stop(). Memory: 34 KiB a depth that was used, and what calls pay for, of which a frame keeps 64 KiB.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "vm/evm/world.h"

namespace quern::vm::evm {

inline constexpr int kMaxCallDepth = 1024;
inline constexpr std::size_t kMaxCodeBytes = 24'576;                 // EIP-170
inline constexpr std::size_t kMaxInitCodeBytes = 2 * kMaxCodeBytes;  // EIP-3860

enum class CallKind : std::uint8_t { call, callcode, delegatecall, staticcall, create, create2 };

// How a call ended. All but the first two take all its gas.
enum class Halt : std::uint8_t {
    none,
    revert,
    out_of_gas,
    stack_underflow,
    stack_overflow,
    invalid_jump,
    invalid_opcode,
    static_violation,
    return_data_out_of_bounds,
    init_code_too_large,
    address_collision,
    code_too_large,
    code_store_out_of_gas,
    invalid_code,  // begins with 0xef (EIP-3541)
    precompile_failed,
    insufficient_balance,  // these two never began: gas is given back
    depth_exceeded,
    stopped,
};
// As clients know it from geth: "out of gas", "execution reverted", "invalid jump destination".
[[nodiscard]] std::string_view halt_message(Halt halt);

struct TransactionContext {
    Address origin;
    Uint256 gas_price;
    std::span<const Hash32> blob_hashes;
};

struct CallMessage {
    CallKind kind = CallKind::call;
    bool is_static = false;
    int depth = 0;
    Address sender;
    Address recipient;                 // whose storage and balance the code sees; of a creation: the new contract
    Address code_address;              // whose code runs
    std::shared_ptr<const Code> code;  // that code; absent: asked of the world
    Uint256 value;
    BytesView input;  // call data, or the code that makes a contract
    std::int64_t gas = 0;
};

struct CallResult {
    Halt halt = Halt::none;
    std::int64_t gas_left = 0;
    std::int64_t refund = 0;  // what SSTORE and SELFDESTRUCT earned; 0 unless it succeeded
    Bytes output;             // returned or revert data
};

// Sees each step and call of a traced run.
class Tracer {
public:
    virtual ~Tracer() = default;
    struct Step {
        const CallMessage* message;
        std::size_t at;  // in the code
        std::uint8_t opcode;
        std::int64_t gas;
        std::int64_t refund;             // of this call and those in it so far
        std::span<const Uint256> stack;  // the last is the top
        BytesView memory;
        BytesView return_data;
    };
    virtual void step(const Step& step) = 0;
    // The last step is over and its call stops for now: it makes a call, or it ends. What gas it left, without what the
    // call that is made gets; none when it failed. Steps before it are over when the next one of their call begins.
    virtual void pause(std::int64_t /*gas*/, Halt /*halt*/) {}
    // Also of calls that never begin.
    virtual void enter(const CallMessage& message) = 0;
    virtual void leave(const CallMessage& message, const CallResult& result) = 0;
};

struct Frame;

class Machine {
public:
    Machine();
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    // The caller has taken the message's gas, of a creation also chosen the address and counted the sender's nonce;
    // what is warm from the start is in the world. After a failure the world is as before, but for warm entries of a
    // creation's address.
    [[nodiscard]] CallResult run(World& world, const BlockContext& block, const TransactionContext& transaction,
                                 Revision revision, const CallMessage& message);

    // Null: none. It outlives its use.
    void set_tracer(Tracer* tracer) { tracer_ = tracer; }
    // Ends what runs, and what runs later, with Halt::stopped. From any thread.
    void stop() { stopped_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }

private:
    friend struct Run;
    std::vector<std::unique_ptr<Frame>> frames_;  // by depth
    Tracer* tracer_ = nullptr;
    std::atomic<bool> stopped_{false};
};

// The address of a contract made by CREATE, or a transaction, when the maker's nonce was this; and by CREATE2.
[[nodiscard]] Address created_address(const Address& maker, std::uint64_t nonce);
[[nodiscard]] Address created_address(const Address& maker, const Uint256& salt, BytesView init_code);

// EIP-7702: 0xef0100 and an address, which runs instead.
[[nodiscard]] std::optional<Address> delegation_of(BytesView code);

}  // namespace quern::vm::evm
