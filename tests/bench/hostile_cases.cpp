// Ops and whole steps on the words that take longest against ordinary ones: who makes a task chooses its numbers.
#include <random>

#include "bench/architectures.h"
#include "bench/cases.h"
#include "bench/one_op.h"
#include "compute/program/composite.h"
#include "support/training_game.h"

namespace quern::bench {
namespace {

using compute::program::Builder;
using compute::program::Initializer;
using compute::program::matrix_shape;
using compute::program::Value;
using vm::tensor::DType;
using vm::tensor::Shape;
using vm::tensor::arith::ElementOp;

constexpr std::uint32_t kRows = 64;
constexpr std::uint32_t kColumns = 256;
const Shape kMatrix = matrix_shape(kRows, kColumns);

// --- Words
// ----------------------------------------------------------------------------------------------------------

// The word at a place of a slot. None: as the slot begins.
using Words = std::function<std::uint32_t(std::mt19937& random, std::size_t at)>;
struct Kind {
    std::string name;
    std::vector<Words> slots;
};

Words floats(std::uint32_t exponent, std::uint32_t exponents, bool negative) {
    return [=](std::mt19937& random, std::size_t) {
        const auto bits = static_cast<std::uint32_t>(random());
        return (negative ? 0x80000000U : 0) | (exponent + (bits >> 23) % exponents) << 23 | (bits & 0x7fffffU);
    };
}
// Biased exponents from the first on.
const std::vector<std::pair<std::string, Words>>& float_words() {
    static const std::vector<std::pair<std::string, Words>> all{{"subnormal", floats(0, 1, false)},
                                                                {"products around 2^-126", floats(58, 12, false)},
                                                                {"exp around 2^-126", floats(127 + 6, 1, true)},
                                                                {"tiny", floats(1, 20, true)},
                                                                {"huge", floats(230, 25, false)},
                                                                {"infinite or NaN", floats(255, 1, false)}};
    return all;
}
// Those, of so many slots.
std::vector<Kind> float_kinds(std::size_t slots) {
    std::vector<Kind> kinds;
    for (const auto& [name, words] : float_words()) kinds.push_back({name, std::vector<Words>(slots, words)});
    return kinds;
}

Words any_word() {
    return [](std::mt19937& random, std::size_t) { return static_cast<std::uint32_t>(random()); };
}
Words below(std::uint32_t bound) {
    return [=](std::mt19937& random, std::size_t) { return static_cast<std::uint32_t>(random()) % bound; };
}
Words signed_bytes() {
    return [](std::mt19937& random, std::size_t) { return static_cast<std::uint32_t>(random()) % 255 - 127; };
}
Words by_place(std::uint32_t (*word)(std::uint32_t at)) {
    return [=](std::mt19937&, std::size_t at) { return word(static_cast<std::uint32_t>(at)); };
}

// --- Ops
// ------------------------------------------------------------------------------------------------------------

struct Entry {
    std::string name;
    OneOp::Op op;
    std::vector<Shape> inputs;
    Kind ordinary;
    std::vector<Kind> kinds;
};

Entry of_floats(std::string name, OneOp::Op op) {
    return {std::move(name), std::move(op), {kMatrix, kMatrix}, {}, float_kinds(2)};
}
Entry element(std::string name, ElementOp op, std::size_t arity) {
    return of_floats(std::move(name), [op, arity](Builder& b, const std::vector<Value>& in) {
        if (arity == 1) return b.elementwise(op, {in[0]});
        return arity == 2 ? b.elementwise(op, {in[0], in[1]}) : b.elementwise(op, {in[0], in[1], in[1]});
    });
}

// Operands are words of any size, of which the low bytes count, under scales of each kind.
Entry imatmul() {
    const auto op = [](Builder& b, const std::vector<Value>&) {
        const auto operand = [&](const std::string& name) {
            const auto bytes = b.slot("bytes_" + name, DType::i32, kMatrix, Initializer::zeros());
            const auto scales =
                b.slot("scales_" + name, DType::f32, vm::tensor::strips_of(kMatrix, 3), Initializer::constant(1.0F));
            return Builder::Scaled{bytes, scales};
        };
        const auto left = operand("left");
        return b.imatmul(left, operand("right"), false, true);
    };
    Entry entry{"imatmul", op, {}, {"ordinary", {signed_bytes(), {}, signed_bytes(), {}}}, {}};
    for (const auto& [name, words] : float_words())
        entry.kinds.push_back({name, {any_word(), words, any_word(), words}});
    return entry;
}

// What is found by comparing: orders, equal words, words that differ late.
Entry kth_last() {
    const auto op = [](Builder& b, const std::vector<Value>&) {
        return b.kth_last(b.slot("words", DType::i32, kMatrix, Initializer::zeros()), kColumns / 2);
    };
    return {"kth_last",
            op,
            {},
            {"ordinary", {any_word()}},
            {{"equal words", {by_place([](std::uint32_t) { return 7U; })}},
             {"words that rise", {by_place([](std::uint32_t at) { return at; })}},
             {"words that fall", {by_place([](std::uint32_t at) { return ~at; })}},
             {"zeros and ones", {below(2)}},
             {"all ones and one less", {by_place([](std::uint32_t at) { return 0xffffffffU - at % 2; })}}}};
}

// Rows to places: to one, to none, side by side, and far from one another; with words of each kind.
Entry scatter_add_rows() {
    constexpr std::uint32_t kTable = 48;
    const auto op = [](Builder& b, const std::vector<Value>& in) {
        const auto index = b.slot("index", DType::i32, matrix_shape(kRows, 1), Initializer::zeros());
        return b.scatter_add_rows(in[0], index, kTable);
    };
    Entry entry{"scatter_add_rows",
                op,
                {kMatrix},
                {"ordinary", {{}, below(kTable)}},
                {{"one place", {{}, by_place([](std::uint32_t) { return 5U; })}},
                 {"no place", {{}, any_word()}},
                 {"places that rise", {{}, by_place([](std::uint32_t at) { return at % kTable; })}},
                 {"places that fall", {{}, by_place([](std::uint32_t at) { return kTable - 1 - at % kTable; })}}}};
    for (const auto& [name, words] : float_words()) entry.kinds.push_back({name, {words, below(kTable)}});
    return entry;
}

std::vector<Entry> entries() {
    return {element("add", ElementOp::add, 2),
            element("mul", ElementOp::mul, 2),
            element("div", ElementOp::div, 2),
            element("fma", ElementOp::fma, 3),
            element("sqrt", ElementOp::sqrt, 1),
            element("exp", ElementOp::exp, 1),
            element("log", ElementOp::log, 1),
            element("tanh", ElementOp::tanh, 1),
            element("sigmoid", ElementOp::sigmoid, 1),
            element("erf", ElementOp::erf, 1),
            of_floats("sum_last", [](Builder& b, const std::vector<Value>& in) { return b.sum_last(in[0]); }),
            of_floats("max_last", [](Builder& b, const std::vector<Value>& in) { return b.max_last(in[0]); }),
            of_floats("sum_rows", [](Builder& b, const std::vector<Value>& in) { return b.sum_rows(in[0]); }),
            of_floats("softmax of rows",
                      [](Builder& b, const std::vector<Value>& in) { return compute::program::softmax(b, in[0]); }),
            of_floats("matmul",
                      [](Builder& b, const std::vector<Value>& in) { return b.matmul(in[0], in[1], false, true); }),
            imatmul(),
            kth_last(),
            scatter_add_rows()};
}

void fill(OneOp& op, const Kind& kind) {
    std::mt19937 random(1);
    for (std::size_t slot = 0; slot < kind.slots.size(); ++slot) {
        if (!kind.slots[slot]) continue;
        std::size_t at = 0;
        op.fill(slot, [&] { return kind.slots[slot](random, at++); });
    }
}

// The kind that takes longest, beside the first of all, ordinary words.
void add_worst(Bench& bench, const std::string& name, const std::vector<std::string>& kinds,
               const std::vector<Timing>& timings) {
    std::size_t worst = 1;
    for (std::size_t kind = 2; kind < timings.size(); ++kind)
        if (timings[kind].median > timings[worst].median) worst = kind;
    bench.add_time(name + ", " + kinds[worst], timings[worst], 1, "ordinary words", &timings[0]);
}

// --- Whole steps
// ------------------------------------------------------------------------------------------------------

// Every number of the state is of the kind; each run begins with it anew.
void time_steps(Bench& bench, const std::string& name, const test::Training& training) {
    vm::tensor::Executor executor(training.program(), vm::tensor::arith::best_backend(), nullptr);
    std::vector<std::string> names{"ordinary"};
    std::vector<vm::tensor::State> states{training.states[0]};
    for (const auto& [kind, words] : float_words()) {
        names.push_back(kind);
        states.push_back(training.states[0]);
        std::mt19937 random(1);
        for (vm::tensor::Tensor& slot : states.back())
            for (std::size_t at = 0; at < slot.words.size() && slot.dtype == DType::f32; ++at)
                slot.words[at] = words(random, at);
    }
    std::vector<std::function<void()>> functions;
    for (const vm::tensor::State& begin : states)
        functions.emplace_back([&] {
            vm::tensor::State state = begin;
            executor.step(state, training.data, training.seed);
            keep(state);
        });
    add_worst(bench, name, names, bench.time(functions));
}

}  // namespace

void bench_hostile(Bench& bench) {
    for (const Entry& entry : entries()) {
        std::vector<std::unique_ptr<OneOp>> ops;
        std::vector<std::function<void()>> functions;
        std::vector<std::string> names;
        const auto add = [&](const Kind& kind) {
            ops.push_back(std::make_unique<OneOp>(entry.inputs, entry.op, vm::tensor::arith::best_backend(), nullptr));
            fill(*ops.back(), kind);
            functions.emplace_back([&op = *ops.back()] { op.run(); });
            names.push_back(kind.name);
        };
        add(entry.ordinary);
        for (const Kind& kind : entry.kinds) add(kind);
        add_worst(bench, entry.name, names, bench.time(functions));
    }
    constexpr std::uint32_t kWindows = 4'736;
    time_steps(bench, "step of the demo's transformer", test::train(test::demo_architecture(kWindows), 0));
    auto bytes = test::demo_architecture(kWindows);
    bytes.transformer().precision = bytes.transformer().head_precision = compute::program::Precision::int8;
    time_steps(bench, "step of the demo's transformer in bytes", test::train(bytes, 0));
    time_steps(bench, "step of a convolutional network", test::train(image_network({32, 64, 128}, false), 0));
}

}  // namespace quern::bench
