#include "compute/cost/trials.h"

#include <array>
#include <functional>
#include <string>
#include <utility>

#include "compute/program/builder.h"

namespace quern::compute::cost {
namespace {

using program::Builder;
using program::Initializer;
using program::matrix_shape;
using program::Value;
using vm::tensor::DataType;
using vm::tensor::DType;
using vm::tensor::Shape;
using vm::tensor::arith::ElementOp;
using vm::tensor::arith::WordType;

constexpr std::uint32_t kIndices = 64;

DType dtype_of(WordType type) { return type == WordType::f32 ? DType::f32 : DType::i32; }

// Slots for what an op reads, which keep their values, and one for each result.
class TrialBuilder {
public:
    explicit TrialBuilder(std::vector<vm::tensor::DataSet> data = {}) : builder(data), data_(std::move(data)) {}

    Value input(const Shape& shape, DType dtype = DType::f32) { return slot("input", dtype, shape); }
    Value index(const Shape& shape) { return slot("index", DType::i32, shape); }
    void result(Value value) {
        const vm::tensor::OperandType type = builder.type(value);
        builder.update(slot("result", type.dtype, type.shape), value);
    }
    Expected<Trial> finish(std::string name, TrialKind kind) {
        builder.set_loss_slot(slot("loss", DType::f32, program::scalar_shape()));
        QUERN_TRY(program::BuiltProgram built, builder.finish());
        Trial trial{std::move(name), kind, std::move(built.program), {}};
        for (const vm::tensor::DataSet& set : data_)
            trial.data.emplace_back(vm::tensor::data_bytes(set), std::uint8_t{1});
        return trial;
    }

    Builder builder;

private:
    Value slot(const std::string& kind, DType dtype, const Shape& shape) {
        std::string name = kind;
        name.append(std::to_string(slots_++));
        return builder.slot(std::move(name), dtype, shape, Initializer::zeros());
    }

    std::vector<vm::tensor::DataSet> data_;
    std::size_t slots_ = 0;
};

struct ProductSize {
    std::uint32_t batch, m, n, k;
    bool transpose_a, transpose_b;
};

class Trials {
public:
    using Make = std::function<void(TrialBuilder&)>;

    void add(std::string name, const Make& make, TrialKind kind = TrialKind::step,
             std::vector<vm::tensor::DataSet> data = {}) {
        TrialBuilder trial(std::move(data));
        make(trial);
        auto made = trial.finish(std::move(name), kind);
        if (made)
            trials_.push_back(std::move(*made));
        else if (failed_)
            failed_ = fail(made.error());
    }

    Expected<std::vector<Trial>> make() {
        add_elements();
        add_small_steps();
        add_copies();
        add_products();
        add_products_of_bytes();
        add_far_bytes();
        add_reductions();
        add_rows();
        add_sources();
        add_commitments();
        QUERN_CHECK(failed_);
        return std::move(trials_);
    }

private:
    static Value element(TrialBuilder& t, const vm::tensor::arith::ElementOpInfo& info, const Shape& shape) {
        std::array<Value, 3> in;
        for (std::size_t i = 0; i < info.arity; ++i)
            in[i] = info.op == ElementOp::permute_index && i == 0 ? t.index(shape)
                                                                  : t.input(shape, dtype_of(info.inputs[i]));
        const std::uint32_t immediate = info.uses_immediate ? 48 : 0;
        if (info.arity == 1) return t.builder.elementwise(info.op, {in[0]}, immediate);
        if (info.arity == 2) return t.builder.elementwise(info.op, {in[0], in[1]}, immediate);
        return t.builder.elementwise(info.op, {in[0], in[1], in[2]}, immediate);
    }

    // A column for each of 32 products, of words that lie 2,048 apart.
    static Value far_columns(TrialBuilder& t, DType dtype) {
        const Value rows = t.builder.slice(t.input(Shape{{1, 128, 64, 32}}, dtype), {}, Shape{{1, 128, 1, 32}});
        return t.builder.permute(rows, {0, 3, 1, 2});
    }

    void add_elements() {
        for (const auto& info : vm::tensor::arith::kElementOps) {
            const bool slow = info.work > 100;
            add("element " + std::string(info.name),
                [&](TrialBuilder& t) { t.result(element(t, info, matrix_shape(slow ? 8 : 64, 256))); });
        }
        const auto& sum = *vm::tensor::arith::find_element_op(ElementOp::add);
        const auto& fma = *vm::tensor::arith::find_element_op(ElementOp::fma);
        for (const std::uint32_t rows : {2U, 16U, 256U, 1024U, 8192U, 24576U}) {
            add("add of " + std::to_string(rows) + " rows",
                [&](TrialBuilder& t) { t.result(element(t, sum, matrix_shape(rows, 256))); });
        }
        for (const std::uint32_t rows : {1024U, 8192U})
            add("fma of " + std::to_string(rows) + " rows",
                [&](TrialBuilder& t) { t.result(element(t, fma, matrix_shape(rows, 256))); });
        for (const std::uint32_t columns : {4U, 16U, 64U, 256U}) {
            add("bias of " + std::to_string(columns) + " columns", [&](TrialBuilder& t) {
                const Value x = t.input(matrix_shape(65536 / columns, columns));
                t.result(t.builder.add(x, t.input(matrix_shape(1, columns))));
            });
            add("scale of " + std::to_string(columns) + " columns", [&](TrialBuilder& t) {
                const Value x = t.input(matrix_shape(65536 / columns, columns));
                t.result(t.builder.mul(x, t.input(matrix_shape(65536 / columns, 1))));
            });
        }
        for (const std::uint32_t rows : {4U, 64U, 1024U})
            add("chain of " + std::to_string(rows) + " rows", [&](TrialBuilder& t) {
                const Value a = t.input(matrix_shape(rows, 256));
                const Value b = t.input(matrix_shape(rows, 256));
                Value x = a;
                for (int i = 0; i < 4; ++i) {
                    x = t.builder.mul(x, b);
                    x = t.builder.add(x, a);
                    x = t.builder.sub(x, b);
                }
                t.result(x);
            });
        add("exp of 4096 rows", [](TrialBuilder& t) { t.result(t.builder.exp(t.input(matrix_shape(4096, 256)))); });
    }

    // Many nodes of few words.
    void add_small_steps() {
        const auto chain = [](TrialBuilder& t) {
            Value x = t.input(matrix_shape(2, 32));
            for (int i = 0; i < 64; ++i) {
                x = t.builder.sum_last(x);
                x = t.builder.mul(t.input(matrix_shape(2, 32)), x);
            }
            t.result(x);
        };
        add("small steps", chain);
        add("small steps, shown", chain, TrialKind::tapped);
    }

    void add_copies() {
        struct Size {
            std::uint32_t batch, rows, heads, width;
        };
        for (const Size& size : {Size{16, 64, 4, 16}, Size{8, 128, 4, 64}, Size{4, 64, 64, 3}})
            add("heads", [&](TrialBuilder& t) {
                const Value x = t.input(Shape{{size.batch, size.rows, size.heads, size.width}});
                t.result(t.builder.permute(x, {0, 2, 1, 3}));
            });
        for (const std::uint32_t rows : {64U, 256U, 1024U, 4096U})
            add("transpose", [&](TrialBuilder& t) {
                t.result(t.builder.permute(t.input(matrix_shape(rows, 256)), {0, 1, 3, 2}));
            });
        add("transpose of images", [](TrialBuilder& t) {
            t.result(t.builder.permute(t.input(Shape{{1, 32, 256, 32}}), {0, 1, 3, 2}));
        });
        add("columns", [](TrialBuilder& t) {
            const Value x = t.input(matrix_shape(4096, 1));
            t.result(t.builder.concat(x, t.input(matrix_shape(4096, 1)), 3));
        });
        for (const std::uint32_t rows : {64U, 4096U}) {
            add("slice", [&](TrialBuilder& t) {
                t.result(t.builder.slice(t.input(matrix_shape(rows, 256)), {0, 0, 0, 64}, matrix_shape(rows, 128)));
            });
            add("concat", [&](TrialBuilder& t) {
                const Value x = t.input(matrix_shape(rows, 64));
                t.result(t.builder.concat(x, t.input(matrix_shape(rows, 128)), 3));
            });
            add("repeated", [&](TrialBuilder& t) { t.result(t.input(matrix_shape(rows, 256))); });
        }
    }

    void add_products() {
        static constexpr ProductSize kSizes[] = {
            {1, 1024, 64, 64, false, false},    {1, 1024, 256, 64, false, false}, {1, 1024, 64, 256, false, true},
            {1, 64, 256, 1024, true, false},    {1, 256, 256, 256, false, false}, {1, 512, 512, 512, false, false},
            {1, 512, 512, 512, true, false},    {1, 512, 512, 512, false, true},  {64, 64, 64, 16, false, true},
            {64, 64, 16, 64, false, false},     {64, 64, 16, 64, true, false},    {128, 128, 128, 32, false, true},
            {128, 128, 32, 128, false, false},  {1, 16, 64, 64, false, false},    {1, 32, 10, 128, false, false},
            {1, 128, 10, 32, true, false},      {1, 32, 128, 10, false, true},    {1, 1, 512, 512, false, false},
            {1, 4096, 32, 27, false, false},    {1, 27, 32, 4096, true, false},   {1, 4096, 256, 128, false, false},
            {1, 1024, 1024, 256, false, false}, {1, 64, 64, 64, false, false},    {16, 8, 16, 16, false, false},
            {1, 32, 512, 128, false, false},    {1, 2, 64, 256, false, false},    {1, 128, 256, 4096, true, false},
        };
        for (const ProductSize& size : kSizes)
            add("product", [&](TrialBuilder& t) {
                const auto& [batch, m, n, k, ta, tb] = size;
                const Value a = t.input(ta ? Shape{{1, batch, k, m}} : Shape{{1, batch, m, k}});
                const Value b = t.input(tb ? Shape{{1, batch, n, k}} : Shape{{1, batch, k, n}});
                t.result(t.builder.matmul(a, b, ta, tb));
            });
        // Heads of attention, read where they are.
        for (const bool second : {false, true})
            add("product of heads", [&](TrialBuilder& t) {
                const auto heads = [&](const std::array<std::uint32_t, 4>& axes) {
                    return t.builder.permute(t.input(Shape{{16, 64, 4, 16}}), axes);
                };
                const Value q = heads({0, 2, 1, 3});
                const Value k = heads({0, 2, 1, 3});
                t.result(second ? t.builder.matmul(t.builder.matmul(q, k, false, true), k)
                                : t.builder.matmul(q, k, false, true));
            });
        // Of one column; of more an operand is copied before.
        for (const bool of_left : {false, true})
            add("product of far words", [&](TrialBuilder& t) {
                const Value columns = far_columns(t, DType::f32);
                const Value other = t.input(of_left ? Shape{{1, 32, 128, 16}} : Shape{{1, 32, 16, 128}});
                t.result(of_left ? t.builder.matmul(columns, other, true, false) : t.builder.matmul(other, columns));
            });
    }

    void add_products_of_bytes() {
        static constexpr ProductSize kSizes[] = {
            {1, 1024, 64, 64, false, false},   {1, 1024, 256, 64, false, false}, {1, 1024, 64, 256, false, true},
            {1, 64, 256, 1024, true, false},   {1, 512, 512, 512, false, false}, {1, 512, 512, 512, true, true},
            {1, 512, 1024, 256, false, false}, {64, 64, 64, 16, false, true},    {1, 16, 64, 64, false, false},
        };
        for (const ProductSize& size : kSizes)
            add("product of bytes", [&](TrialBuilder& t) {
                const auto& [batch, m, n, k, ta, tb] = size;
                const Shape left = ta ? Shape{{1, batch, k, m}} : Shape{{1, batch, m, k}};
                const Shape right = tb ? Shape{{1, batch, n, k}} : Shape{{1, batch, k, n}};
                const auto scaled = [&](const Shape& shape, std::size_t axis) {
                    const Value bytes = t.input(shape, DType::i32);
                    return Builder::Scaled{bytes, t.input(vm::tensor::strips_of(shape, axis))};
                };
                const Builder::Scaled a = scaled(left, ta ? 2 : 3);
                const Builder::Scaled b = scaled(right, tb ? 3 : 2);
                t.result(t.builder.imatmul(a, b, ta, tb));
            });
    }

    void add_far_bytes() {
        add("product of far bytes", [](TrialBuilder& t) {
            const auto scaled = [&](Value bytes) {
                return Builder::Scaled{bytes, t.input(vm::tensor::strips_of(t.builder.shape(bytes), 2))};
            };
            const Builder::Scaled a = scaled(far_columns(t, DType::i32));
            const Builder::Scaled b = scaled(t.input(Shape{{1, 32, 128, 16}}, DType::i32));
            t.result(t.builder.imatmul(a, b, true, false));
        });
    }

    void add_reductions() {
        static constexpr std::array<std::array<std::uint32_t, 2>, 7> kSizes{
            {{1024, 64}, {4096, 16}, {1024, 256}, {64, 1024}, {4096, 5}, {1024, 98}, {8192, 1024}}};
        for (const auto& [rows, columns] : kSizes) {
            const Shape shape = matrix_shape(rows, columns);
            add("sum_last", [&](TrialBuilder& t) { t.result(t.builder.sum_last(t.input(shape))); });
            if (rows < 8192) add("max_last", [&](TrialBuilder& t) { t.result(t.builder.max_last(t.input(shape))); });
            add("sum_rows", [&](TrialBuilder& t) { t.result(t.builder.sum_rows(t.input(shape))); });
        }
        add("sum_rows of heads", [](TrialBuilder& t) {
            t.result(t.builder.sum_rows(t.input(Shape{{16, 8, 64, 64}})));
        });
        for (const std::uint32_t columns : {4U, 8U, 128U, 512U})
            add("kth_last", [&](TrialBuilder& t) {
                t.result(t.builder.kth_last(t.input(matrix_shape(256, columns), DType::i32), 2));
            });
    }

    void add_rows() {
        for (const auto& size : {std::array{1024U, 64U}, std::array{4096U, 128U}, std::array{256U, 512U},
                                 std::array{16384U, 3U}, std::array{16384U, 8U}, std::array{4096U, 16U}}) {
            const std::uint32_t rows = size[0];
            const std::uint32_t columns = size[1];
            add("gather", [&](TrialBuilder& t) {
                const Value table = t.input(matrix_shape(kIndices, columns));
                t.result(t.builder.gather_rows(table, t.index(matrix_shape(rows, 1))));
            });
            add("scatter", [&](TrialBuilder& t) {
                const Value source = t.input(matrix_shape(rows, columns));
                t.result(t.builder.scatter_add_rows(source, t.index(matrix_shape(rows, 1)), 98));
            });
        }
    }

    void add_sources() {
        for (const std::uint32_t rows : {4U, 64U, 256U}) {
            add("philox", [&](TrialBuilder& t) {
                t.result(t.builder.philox(t.input(Shape{{1, 1, 1, 4}}, DType::i32), matrix_shape(rows, 256)));
            });
            add("philox_words", [&](TrialBuilder& t) {
                t.result(t.builder.philox_words(t.input(Shape{{1, 1, 1, 4}}, DType::i32), matrix_shape(rows, 256)));
            });
        }
        for (const DataType type : {DataType::u8, DataType::u16, DataType::f32})
            for (const std::uint32_t length : {4U, 64U, 1024U})
                add("window",
                    [&](TrialBuilder& t) {
                        t.result(t.builder.window(t.index(matrix_shape(128, 1)), 0, length, length));
                    },
                    TrialKind::step, {{type, std::uint64_t{kIndices} * length}});
    }

    void add_commitments() {
        for (const std::uint32_t tiles : {1U, 8U, 64U, 512U})
            add(
                "commitment",
                [&](TrialBuilder& t) {
                    for (int i = 0; i < 4; ++i) (void)t.input(matrix_shape(32 * tiles, 32));
                },
                TrialKind::commit);
        for (const int slots : {40, 160})
            add(
                "commitment of small slots",
                [&](TrialBuilder& t) {
                    for (int i = 0; i < slots; ++i) (void)t.input(matrix_shape(1, 64));
                },
                TrialKind::commit);
    }

    std::vector<Trial> trials_;
    Status failed_;
};

}  // namespace

Expected<std::vector<Trial>> make_trials() { return Trials().make(); }

vm::tensor::State trial_state(const vm::tensor::Program& program) {
    vm::tensor::State state;
    std::uint32_t random = 1;
    for (const vm::tensor::Slot& slot : program.slots) {
        vm::tensor::Tensor tensor{slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())};
        for (std::uint32_t& word : tensor.words) {
            random = random * 1664525U + 1013904223U;
            if (slot.name.starts_with("index"))
                word = (random >> 16) % kIndices;
            else if (slot.dtype == DType::i32)
                word = random >> 8;
            else
                word = 0x3f000000U | random >> 9;  // 0.5 to 1
        }
        state.push_back(std::move(tensor));
    }
    return state;
}

}  // namespace quern::compute::cost
