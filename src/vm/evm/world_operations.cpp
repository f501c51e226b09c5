#include "vm/evm/world_operations.h"

#include <algorithm>

#include "crypto/hash.h"
#include "vm/evm/precompiles.h"
#include "vm/evm/word.h"

namespace quern::vm::evm {
namespace {

constexpr std::int64_t kWordCopyGas = 3;
constexpr std::int64_t kKeccakWordGas = 6;
constexpr std::int64_t kLogByteGas = 8;
constexpr std::int64_t kInitCodeWordGas = 2;  // EIP-3860
constexpr std::int64_t kWarmGas = 100;        // EIP-2929: what opcodes cost by themselves
constexpr std::int64_t kColdAccountGas = 2'600;
constexpr std::int64_t kColdSlotGas = 2'100;
constexpr std::int64_t kCallValueGas = 9'000;
constexpr std::int64_t kCallStipend = 2'300;
constexpr std::int64_t kNewAccountGas = 25'000;

std::int64_t halt(Run& run, Halt why) {
    run.halt = why;
    return -1;
}

std::int64_t words_of(std::uint64_t bytes) { return static_cast<std::int64_t>((bytes + 31) / 32); }

// What is due beyond the opcode's own gas for an account that is cold.
std::int64_t cold_account_gas(Run& run, const Address& address) {
    return run.has(Revision::berlin) && !was_warm(run, address) ? kColdAccountGas - kWarmGas : 0;
}

// Copies `size` bytes from `offset` of the source; what lies behind its end is zero.
void copy_padded(std::uint8_t* target, BytesView source, const Uint256& offset, std::size_t size) {
    std::size_t there = 0;
    if (offset.fits_u64() && offset.low_u64() < source.size()) {
        there = std::min(size, source.size() - static_cast<std::size_t>(offset.low_u64()));
        std::memcpy(target, source.data() + offset.low_u64(), there);
    }
    if (there < size) std::memset(target + there, 0, size - there);
}

// Memory for a copy of top[-2] bytes to top[0], and its gas.
std::int64_t reach_copy(Frame& frame, const Uint256& target, const Uint256& size, std::int64_t gas) {
    gas = reach(frame, target, size, gas);
    return gas < 0 ? gas : gas - kWordCopyGas * words_of(size.low_u64());
}

std::int64_t copy_to_memory(Frame& frame, const Uint256* top, std::int64_t gas, BytesView source) {
    gas = reach_copy(frame, top[0], top[-2], gas);
    if (gas >= 0 && !top[-2].is_zero())
        copy_padded(frame.memory.data() + top[0].low_u64(), source, top[-1],
                    static_cast<std::size_t>(top[-2].low_u64()));
    return gas;
}

}  // namespace

std::int64_t reach(Frame& frame, const Uint256& offset, const Uint256& size, std::int64_t gas) {
    if (size.is_zero()) return gas;
    constexpr std::uint64_t kReach = std::uint64_t{1} << 36;  // whose words cost more gas than any limit has
    if (!offset.fits_u64() || !size.fits_u64() || offset.low_u64() > kReach || size.low_u64() > kReach) return -1;
    const std::uint64_t words = (offset.low_u64() + size.low_u64() + 31) / 32;
    const std::uint64_t now = frame.memory.size() / 32;
    if (words <= now) return gas;
    gas -= memory_gas(words) - memory_gas(now);
    if (gas >= 0) frame.memory.grow(static_cast<std::size_t>(words * 32));
    return gas;
}

bool was_warm(Run& run, const Address& address) {
    return find_precompile(address, run.revision) != nullptr || run.world.access_account(address);
}

std::int64_t exp(Run& run, Frame& /*frame*/, Uint256* top, std::int64_t gas) {
    const unsigned bytes = (top[-1].bit_length() + 7) / 8;
    gas -= (run.has(Revision::spurious_dragon) ? 50 : 10) * static_cast<std::int64_t>(bytes);  // EIP-160
    if (gas >= 0) top[-1] = word::power(top[0], top[-1]);
    return gas;
}

std::int64_t keccak256(Run& /*run*/, Frame& frame, Uint256* top, std::int64_t gas) {
    gas = reach(frame, top[0], top[-1], gas);
    if (gas < 0) return gas;
    const std::uint64_t size = top[-1].low_u64();
    gas -= kKeccakWordGas * words_of(size);
    if (gas < 0) return gas;
    const BytesView message = size == 0 ? BytesView() : BytesView(frame.memory.data() + top[0].low_u64(), size);
    top[-1] = word::from_hash(crypto::keccak256(message));
    return gas;
}

std::int64_t balance(Run& run, Frame& /*frame*/, Uint256* top, std::int64_t gas) {
    const Address address = word::to_address(top[0]);
    gas -= cold_account_gas(run, address);
    if (gas >= 0) top[0] = run.world.balance(address);
    return gas;
}

std::int64_t calldatacopy(Run& /*run*/, Frame& frame, Uint256* top, std::int64_t gas) {
    return copy_to_memory(frame, top, gas, frame.message.input);
}

std::int64_t codecopy(Run& /*run*/, Frame& frame, Uint256* top, std::int64_t gas) {
    return copy_to_memory(frame, top, gas, frame.code->bytes());
}

std::int64_t extcodesize(Run& run, Frame& /*frame*/, Uint256* top, std::int64_t gas) {
    const Address address = word::to_address(top[0]);
    gas -= cold_account_gas(run, address);
    if (gas >= 0) top[0] = run.world.code(address)->bytes().size();
    return gas;
}

std::int64_t extcodecopy(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    const Address address = word::to_address(top[0]);
    gas = reach_copy(frame, top[-1], top[-3], gas);
    if (gas < 0) return gas;
    gas -= cold_account_gas(run, address);
    if (gas >= 0 && !top[-3].is_zero())
        copy_padded(frame.memory.data() + top[-1].low_u64(), run.world.code(address)->bytes(), top[-2],
                    static_cast<std::size_t>(top[-3].low_u64()));
    return gas;
}

std::int64_t returndatacopy(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    const std::size_t there = frame.return_data.size();
    if (!top[-1].fits_u64() || !top[-2].fits_u64() || top[-1].low_u64() > there ||
        top[-2].low_u64() > there - top[-1].low_u64())
        return halt(run, Halt::return_data_out_of_bounds);  // EIP-211
    return copy_to_memory(frame, top, gas, frame.return_data);
}

std::int64_t extcodehash(Run& run, Frame& /*frame*/, Uint256* top, std::int64_t gas) {
    const Address address = word::to_address(top[0]);
    gas -= cold_account_gas(run, address);
    if (gas < 0) return gas;
    top[0] = run.world.is_empty(address) ? Uint256() : word::from_hash(run.world.code_hash(address));  // EIP-1052
    return gas;
}

std::int64_t blockhash(Run& run, Frame& /*frame*/, Uint256* top, std::int64_t gas) {
    const std::uint64_t current = run.block.number;
    const std::uint64_t number = top[0].low_u64();
    const bool is_recent = top[0].fits_u64() && number < current && current - number <= 256;
    top[0] = is_recent ? word::from_hash(run.world.block_hash(number)) : Uint256();
    return gas;
}

std::int64_t blobhash(Run& run, Frame& /*frame*/, Uint256* top, std::int64_t gas) {
    const auto& hashes = run.transaction.blob_hashes;
    top[0] =
        top[0].fits_u64() && top[0].low_u64() < hashes.size() ? word::from_hash(hashes[top[0].low_u64()]) : Uint256();
    return gas;
}

std::int64_t sload(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    const World::Slot slot = run.world.access_slot(frame.message.recipient, top[0]);
    if (run.has(Revision::berlin) && !slot.was_warm) gas -= kColdSlotGas - kWarmGas;
    top[0] = slot.value;
    return gas;
}

std::int64_t sstore(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    if (frame.message.is_static) return halt(run, Halt::static_violation);
    if (run.has(Revision::istanbul) && gas <= kCallStipend) return -1;  // EIP-2200
    const Address& address = frame.message.recipient;
    const Uint256& key = top[0];
    const Uint256& value = top[-1];
    const World::Slot slot = run.world.access_slot(address, key);
    if (run.has(Revision::berlin) && !slot.was_warm) gas -= kColdSlotGas;

    constexpr std::int64_t kSet = 20'000;
    const std::int64_t clear_refund = run.has(Revision::london) ? 4'800 : 15'000;  // EIP-3529
    const bool is_net = run.has(Revision::istanbul) || run.revision == Revision::constantinople;
    if (!is_net) {
        gas -= slot.value.is_zero() && !value.is_zero() ? kSet : 5'000;
        if (!slot.value.is_zero() && value.is_zero()) frame.refund += clear_refund;
    } else {
        // EIP-1283, EIP-2200, EIP-2929 by their parameters.
        const std::int64_t load = run.has(Revision::berlin) ? kWarmGas : run.has(Revision::istanbul) ? 800 : 200;
        const std::int64_t reset = run.has(Revision::berlin) ? 5'000 - kColdSlotGas : 5'000;
        if (word::same(value, slot.value)) {
            gas -= load;
        } else if (word::same(slot.value, slot.original)) {
            gas -= slot.original.is_zero() ? kSet : reset;
            if (!slot.original.is_zero() && value.is_zero()) frame.refund += clear_refund;
        } else {
            gas -= load;
            if (!slot.original.is_zero()) {
                if (slot.value.is_zero()) frame.refund -= clear_refund;
                if (value.is_zero()) frame.refund += clear_refund;
            }
            if (word::same(value, slot.original)) frame.refund += (slot.original.is_zero() ? kSet : reset) - load;
        }
    }
    if (gas < 0) return gas;
    if (!word::same(value, slot.value)) run.world.set_storage(address, key, value);
    return gas;
}

std::int64_t tload(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    top[0] = run.world.transient(frame.message.recipient, top[0]);
    return gas;
}

std::int64_t tstore(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    if (frame.message.is_static) return halt(run, Halt::static_violation);
    run.world.set_transient(frame.message.recipient, top[0], top[-1]);
    return gas;
}

std::int64_t mcopy(Run& /*run*/, Frame& frame, Uint256* top, std::int64_t gas) {
    const Uint256& further = word::less(top[0], top[-1]) ? top[-1] : top[0];
    gas = reach_copy(frame, further, top[-2], gas);
    if (gas >= 0 && !top[-2].is_zero())
        std::memmove(frame.memory.data() + top[0].low_u64(), frame.memory.data() + top[-1].low_u64(),
                     static_cast<std::size_t>(top[-2].low_u64()));
    return gas;
}

std::int64_t log(Run& run, Frame& frame, Uint256* top, std::int64_t gas, std::size_t topics) {
    if (frame.message.is_static) return halt(run, Halt::static_violation);
    gas = reach(frame, top[0], top[-1], gas);
    if (gas < 0) return gas;
    const auto size = static_cast<std::size_t>(top[-1].low_u64());
    gas -= kLogByteGas * static_cast<std::int64_t>(size);
    if (gas < 0) return gas;
    Log log{frame.message.recipient, {}, {}};
    log.topics.reserve(topics);
    for (std::size_t i = 0; i < topics; ++i) log.topics.push_back(word::to_hash(*(top - 2 - i)));
    if (size != 0) log.data = to_bytes({frame.memory.data() + top[0].low_u64(), size});
    run.world.add_log(std::move(log));
    return gas;
}

namespace {

// Both ranges of a call's memory.
std::int64_t reach_both(Frame& frame, const Uint256* input, const Uint256* output, std::int64_t gas) {
    gas = reach(frame, input[0], input[-1], gas);
    return gas < 0 ? gas : reach(frame, output[0], output[-1], gas);
}

std::int64_t all_but_one_64th(std::int64_t gas) { return gas - gas / 64; }  // EIP-150

std::int64_t begin_call(Run& run, Frame& frame, Uint256* top, std::int64_t gas, CallKind kind) {
    const bool names_value = kind == CallKind::call || kind == CallKind::callcode;
    const Uint256 asked = top[0];
    const Address address = word::to_address(top[-1]);
    const Uint256 value = names_value ? top[-2] : Uint256();
    const Uint256* const input = top - (names_value ? 3 : 2);
    const Uint256* const output = input - 2;

    const bool moves_value = !value.is_zero();
    if (kind == CallKind::call && moves_value && frame.message.is_static) return halt(run, Halt::static_violation);
    gas = reach_both(frame, input, output, gas);
    if (gas < 0) return gas;
    gas -= cold_account_gas(run, address);
    auto code = run.world.code(address);
    if (run.has(Revision::prague))
        if (const auto delegate = delegation_of(code->bytes())) {
            gas -= was_warm(run, *delegate) ? kWarmGas : kColdAccountGas;
            code = run.world.code(*delegate);
            // A precompiled contract that is delegated to runs as no code at all (EIP-7702).
        }
    if (moves_value) gas -= kCallValueGas;
    if (kind == CallKind::call) {
        const bool is_new = run.has(Revision::spurious_dragon) ? moves_value && run.world.is_empty(address)
                                                               : !run.world.exists(address);
        if (is_new) gas -= kNewAccountGas;
    }
    if (gas < 0) return gas;

    std::int64_t given = gas;
    if (run.has(Revision::tangerine_whistle)) given = all_but_one_64th(gas);
    if (asked.fits_u64() && asked.low_u64() < static_cast<std::uint64_t>(given))
        given = static_cast<std::int64_t>(asked.low_u64());
    else if (!run.has(Revision::tangerine_whistle) && !word::same(asked, static_cast<std::uint64_t>(given)))
        return -1;
    gas -= given;
    if (moves_value) given += kCallStipend;

    frame.return_data.clear();
    frame.created.reset();
    const std::size_t input_size = input[-1].low_u64();
    const BytesView data =
        input_size == 0 ? BytesView() : BytesView(frame.memory.data() + input[0].low_u64(), input_size);
    frame.call_output = output[-1].is_zero() ? 0 : output[0].low_u64();
    frame.call_output_size = output[-1].low_u64();

    CallMessage& message = run.pending;
    message.kind = kind;
    message.is_static = frame.message.is_static || kind == CallKind::staticcall;
    message.depth = frame.message.depth + 1;
    message.sender = kind == CallKind::delegatecall ? frame.message.sender : frame.message.recipient;
    message.recipient = kind == CallKind::call || kind == CallKind::staticcall ? address : frame.message.recipient;
    message.code_address = address;
    message.code = std::move(code);
    message.value = kind == CallKind::delegatecall ? frame.message.value : value;
    message.input = data;
    message.gas = given;
    run.has_pending = true;
    return gas;
}

std::int64_t begin_create(Run& run, Frame& frame, Uint256* top, std::int64_t gas, CallKind kind) {
    const bool is_salted = kind == CallKind::create2;
    const Uint256 value = top[0];
    const Uint256 salt = is_salted ? top[-3] : Uint256();
    Uint256& result = *(top - (is_salted ? 3 : 2));
    if (frame.message.is_static) return halt(run, Halt::static_violation);
    gas = reach(frame, top[-1], top[-2], gas);
    if (gas < 0) return gas;
    const std::uint64_t size = top[-2].low_u64();
    if (run.has(Revision::shanghai) && size > kMaxInitCodeBytes) return halt(run, Halt::init_code_too_large);
    if (run.has(Revision::shanghai)) gas -= kInitCodeWordGas * words_of(size);
    if (is_salted) gas -= kKeccakWordGas * words_of(size);
    if (gas < 0) return gas;

    frame.return_data.clear();
    const Address& maker = frame.message.recipient;
    const BytesView init_code = size == 0 ? BytesView() : BytesView(frame.memory.data() + top[-1].low_u64(), size);
    const std::uint64_t nonce = run.world.nonce(maker);
    const Address address = is_salted ? created_address(maker, salt, init_code) : created_address(maker, nonce);
    // Else the machine refuses it, and nothing of it happens.
    if (frame.message.depth < kMaxCallDepth && !word::less(run.world.balance(maker), value)) {
        result = {};
        if (nonce == ~std::uint64_t{0}) return gas;  // EIP-2681
        run.world.set_nonce(maker, nonce + 1);
        if (run.has(Revision::berlin)) (void)run.world.access_account(address);
    }
    const std::int64_t given = run.has(Revision::tangerine_whistle) ? all_but_one_64th(gas) : gas;
    frame.call_output = frame.call_output_size = 0;
    frame.created = address;
    CallMessage& message = run.pending;
    message.kind = kind;
    message.is_static = false;
    message.depth = frame.message.depth + 1;
    message.sender = maker;
    message.recipient = message.code_address = address;
    message.code = nullptr;
    message.value = value;
    message.input = init_code;
    message.gas = given;
    run.has_pending = true;
    return gas - given;
}

}  // namespace

std::int64_t create(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    return begin_create(run, frame, top, gas, CallKind::create);
}
std::int64_t create2(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    return begin_create(run, frame, top, gas, CallKind::create2);
}
std::int64_t call(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    return begin_call(run, frame, top, gas, CallKind::call);
}
std::int64_t callcode(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    return begin_call(run, frame, top, gas, CallKind::callcode);
}
std::int64_t delegatecall(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    return begin_call(run, frame, top, gas, CallKind::delegatecall);
}
std::int64_t staticcall(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    return begin_call(run, frame, top, gas, CallKind::staticcall);
}

std::int64_t selfdestruct(Run& run, Frame& frame, Uint256* top, std::int64_t gas) {
    if (frame.message.is_static) return halt(run, Halt::static_violation);
    const Address& self = frame.message.recipient;
    const Address heir = word::to_address(top[0]);
    World& world = run.world;
    const Uint256 balance = world.balance(self);
    if (run.has(Revision::berlin) && !was_warm(run, heir)) gas -= kColdAccountGas;
    const bool is_new =
        run.has(Revision::spurious_dragon) ? !balance.is_zero() && world.is_empty(heir) : !world.exists(heir);
    if (run.has(Revision::tangerine_whistle) && is_new) gas -= kNewAccountGas;
    if (gas < 0) return gas;

    const bool deletes = !run.has(Revision::cancun) || world.is_new(self);  // EIP-6780
    if (heir == self) {
        if (deletes) world.set_balance(self, {});
    } else {
        world.set_balance(heir, word::add(world.balance(heir), balance));
        world.set_balance(self, {});
    }
    world.touch(heir);
    if (deletes && world.mark_destroyed(self) && !run.has(Revision::london)) frame.refund += 24'000;
    return gas;
}

}  // namespace quern::vm::evm
