// What a step of a program makes a processor do, counted without running it: kernel calls, multiply-adds, words that
// are moved, bytes by how long ago they were last touched. The plan that the executor would follow is walked, and of
// each loop the part of the thread that has most is counted, so that a sum of counts times what one of each takes
// (profile.h) is the time of the step. Counts are doubles: no program that is valid makes one overflow. Pure;
// thread-safe.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/plan.h"

namespace quern::compute::cost {

// What is counted, beside the words of each elementwise operation.
enum class Unit : std::uint8_t {
    step,           // of the plan: choosing a kernel and its operands
    tap,            // a node that is shown
    loop,           // spread over threads
    element_call,   // a kernel's, of a row or a block of one
    gathered_word,  // of an operand, one by one
    copy_row,
    copy_word,
    fill_word,
    turned_word,  // of a transpose
    odd_word,     // whose neighbours are apart on both sides
    product_call,
    product_step,   // of the inner dim, of a tile of the product that registers hold
    product_fma,    // of a vector
    product_tile,   // written once for each 256 of the inner dim
    product_store,  // of a vector
    pack_left,      // words of A whose rows lie together
    pack_left_steps,
    pack_left_far,
    pack_right,  // of B
    pack_right_turned,
    pack_right_far,
    bytes_call,  // the same of products of bytes
    bytes_step,
    bytes_dot,
    bytes_tile,
    bytes_store,
    bytes_pack,
    bytes_pack_lines,
    bytes_pack_far,
    sum_row,
    sum_chunk,  // of 32 columns
    max_row,
    max_chunk,
    rows_call,
    rows_strip,   // eight vectors of a row
    rows_single,  // one, whose sum waits for the one before
    scatter_index,
    scatter_number,  // of a row behind the first block, whose targets are numbered
    scatter_row,
    scatter_word,
    gather_row,
    gather_word,
    random_word,
    random_quarter,  // of philox_words
    number_word,     // of iota
    kth_row,
    kth_word,
    kth_pair,  // of a short row, each with each
    window_row,
    window_byte,
    window_short,
    window_word,
    hash_tile,   // of a state's commitment
    hash_batch,  // of tiles that are hashed together
    tree_tile,
    hash_slot,
    read_128k,  // bytes that were last touched so many bytes ago, and what lies between two of them in parts
    read_512k,
    read_2m,
    read_8m,
    read_32m,
    read_128m,
    write_128k,
    write_512k,
    write_2m,
    write_8m,
    write_32m,
    write_128m,
};
inline constexpr std::size_t kUnits = static_cast<std::size_t>(Unit::write_128m) + 1;
inline constexpr std::size_t kCounted = kUnits + vm::tensor::arith::kElementOps.size();

using Counts = std::array<double, kCounted>;

[[nodiscard]] std::string name_of(std::size_t counted);  // "product_fma", "element.tanh"
// kCounted when nothing has the name.
[[nodiscard]] std::size_t counted_of(std::string_view name);

// Of whoever runs the step.
struct Setup {
    vm::tensor::arith::Backend backend = vm::tensor::arith::Backend::scalar;
    std::size_t threads = 1;  // of the pool
    bool spins = true;        // ThreadPool::spins

    bool operator==(const Setup&) const = default;
};

// `take(node, counts)` for each part of a step, in the order in which it runs; what belongs to no node, such as a copy
// into a slot, is counted for the last one before it. `program` is valid.
using TakeCounts = std::function<void(std::uint32_t node, const Counts& counts)>;
void count_step(const vm::tensor::Program& program, vm::tensor::PlanMode mode, const Setup& setup,
                const TakeCounts& take);
// Of state_root().
[[nodiscard]] Counts count_commitment(const vm::tensor::Program& program, const Setup& setup);

}  // namespace quern::compute::cost
