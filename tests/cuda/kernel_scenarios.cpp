#include "cuda/kernel_scenarios.h"

#include <algorithm>
#include <cstring>

#include "arith/random_cases.h"

namespace quern::test {
namespace {

namespace cuda = vm::tensor::cuda;
namespace cases = vm::tensor::arith::test;
using cases::some_words;
using cases::text;
using Random = cases::Words;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using Pointers = std::vector<u32*>;
using Kernels = std::vector<cuda::AnyKernel>;

u32 some_dim(Random& random) { return random.below(3) == 0 ? 1 : 1 + random.below(9); }

// Dims and strides of words that lie in any order of the axes, some of them repeated, with a gap; how many words.
struct SomeLayout {
    cuda::Layout layout;
    u64 words = 0;
};
SomeLayout some_layout(const u32 (&dims)[cuda::kDims], bool repeats, Random& random) {
    SomeLayout made;
    u32 axes[cuda::kDims] = {0, 1, 2, 3};
    for (u32 i = cuda::kDims; i > 1; --i) std::swap(axes[i - 1], axes[random.below(i)]);
    cuda::i64 stride = 1;
    made.words = 1;
    for (const u32 axis : axes) {
        made.layout.dims[axis] = dims[axis];
        if (repeats && random.below(4) == 0) continue;
        made.layout.strides[axis] = stride;
        made.words += static_cast<u64>(stride) * (dims[axis] - 1);
        stride = stride * dims[axis] + random.below(2);
    }
    if (random.below(2) == 0) made.layout = cuda::merged(made.layout.dims, made.layout.strides);
    return made;
}

u64 count_of(const u32 (&dims)[cuda::kDims]) { return u64{dims[0]} * dims[1] * dims[2] * dims[3]; }

Scenario copy_scenario(Random& random) {
    const u32 dims[] = {some_dim(random), some_dim(random), some_dim(random), 1 + random.below(300)};
    const SomeLayout from = some_layout(dims, true, random);
    const SomeLayout to = some_layout(dims, false, random);
    Scenario made;
    made.what = text("copy of %u %u %u %u", dims[0], dims[1], dims[2], dims[3]);
    made.arrays = {some_words(from.words, random), some_words(to.words, random)};
    made.kernels = [=](const Pointers& at) -> Kernels {
        cuda::Copy kernel;
        kernel.from = at[0];
        kernel.source = from.layout;
        kernel.to = at[1];
        kernel.target = to.layout;
        return {kernel};
    };
    return made;
}

Scenario elementwise_scenario(Random& random) {
    const auto& info =
        vm::tensor::arith::kElementOps[random.below(static_cast<u32>(vm::tensor::arith::kElementOps.size()))];
    const u32 dims[] = {some_dim(random), some_dim(random), some_dim(random), 1 + random.below(200)};
    Scenario made;
    made.what = text("%.*s over %u %u %u %u", static_cast<int>(info.name.size()), info.name.data(), dims[0], dims[1],
                     dims[2], dims[3]);
    std::vector<cuda::Layout> layouts;
    for (unsigned o = 0; o < info.arity; ++o) {
        const SomeLayout operand = some_layout(dims, true, random);
        layouts.push_back(operand.layout);
        made.arrays.push_back(some_words(operand.words, random));
    }
    made.arrays.push_back(some_words(count_of(dims), random));
    const u32 immediate = random.below(1000);
    made.kernels = [=, op = info.op, count = count_of(dims)](const Pointers& at) -> Kernels {
        cuda::Elementwise kernel;
        kernel.op = op;
        kernel.immediate = immediate;
        kernel.count = static_cast<u32>(count);
        kernel.arity = static_cast<u32>(layouts.size());
        for (std::size_t o = 0; o < layouts.size(); ++o) kernel.operands[o] = {at[o], layouts[o]};
        kernel.out = at.back();
        return {kernel};
    };
    return made;
}

// Members take what earlier ones made or arrays; each third one is written.
Scenario group_scenario(Random& random) {
    const u32 dims[] = {some_dim(random), some_dim(random), some_dim(random), 1 + random.below(200)};
    const u64 count = count_of(dims);
    const bool is_large = random.below(4) == 0;
    const u32 members = 1 + random.below(is_large ? cuda::LargeGroup::kMaxValues : cuda::SmallGroup::kMaxValues);
    Scenario made;
    made.what = text("group of %u over %u %u %u %u", members, dims[0], dims[1], dims[2], dims[3]);
    std::vector<cuda::GroupMember> list(members);
    struct Place {
        u32 member, operand;
        std::size_t array;
    };
    std::vector<Place> reads;
    std::vector<std::pair<u32, std::size_t>> writes;
    for (u32 m = 0; m < members; ++m) {
        const auto& info =
            vm::tensor::arith::kElementOps[random.below(static_cast<u32>(vm::tensor::arith::kElementOps.size()))];
        list[m].op = info.op;
        list[m].arity = info.arity;
        list[m].immediate = random.below(1000);
        list[m].value = m;
        for (u32 o = 0; o < info.arity; ++o) {
            if (m > 0 && random.below(2) == 0) {
                list[m].values[o] = random.below(m);
                continue;
            }
            const SomeLayout layout = some_layout(dims, true, random);
            list[m].operands[o].layout = layout.layout;
            reads.push_back({m, o, made.arrays.size()});
            made.arrays.push_back(some_words(layout.words, random));
        }
        if (m + 1 == members || random.below(3) == 0) {
            writes.emplace_back(m, made.arrays.size());
            made.arrays.push_back(some_words(count, random));
        }
    }
    // The list itself lies on the device too.
    const std::size_t described = made.arrays.size();
    made.described = described;
    made.arrays.emplace_back(list.size() * sizeof(cuda::GroupMember) / sizeof(u32));
    static_assert(sizeof(cuda::GroupMember) % sizeof(u32) == 0);
    made.description = [=](const Pointers& at) {
        std::vector<cuda::GroupMember> placed = list;
        for (const Place& read : reads) placed[read.member].operands[read.operand].data = at[read.array];
        for (const auto& [member, array] : writes) placed[member].out = at[array];
        Scenario::Words words(placed.size() * sizeof(cuda::GroupMember) / sizeof(u32));
        std::memcpy(words.data(), placed.data(), words.size() * sizeof(u32));
        return words;
    };
    made.kernels = [=](const Pointers& at) -> Kernels {
        const auto filled = [&](auto kernel) {
            kernel.members = reinterpret_cast<const cuda::GroupMember*>(at[described]);
            kernel.member_count = members;
            kernel.count = static_cast<u32>(count);
            return kernel;
        };
        if (is_large) return {filled(cuda::LargeGroup{})};
        return {filled(cuda::SmallGroup{})};
    };
    return made;
}

// A side of a product: `lines` by `inner`, of each product of the batch or of all. Words that its last element ends.
cuda::ProductSide some_side(u32 lines, u32 inner, u32 outer_products, u32 inner_products, Random& random, u64& words) {
    cuda::ProductSide side;
    const bool by_lines = random.below(2) == 0;
    const u32 gap = random.below(3);
    side.line = by_lines ? inner + gap : 1;
    side.along = by_lines ? 1 : lines + gap;
    words = static_cast<u64>(side.line) * (lines - 1) + static_cast<u64>(side.along) * (inner - 1) + 1;
    const auto matrix = static_cast<cuda::i64>(words);
    side.inner = random.below(2) == 0 ? 0 : matrix;
    side.outer = random.below(2) == 0 ? 0 : matrix * (side.inner == 0 ? 1 : inner_products);
    words += static_cast<u64>(side.inner) * (inner_products - 1) + static_cast<u64>(side.outer) * (outer_products - 1);
    return side;
}

Scenario product_scenario(bool of_bytes, Random& random) {
    const bool is_deep = random.below(4) == 0;
    const u32 m = 1 + random.below(is_deep ? 20 : 150);
    const u32 n = 1 + random.below(is_deep ? 20 : 150);
    const u32 k = 1 + random.below(is_deep ? 800 : 60);
    const u32 outer = 1 + random.below(2);
    const u32 inner = 1 + random.below(3);
    u64 words[4] = {};
    const cuda::ProductSide a = some_side(m, k, outer, inner, random, words[0]);
    const cuda::ProductSide b = some_side(n, k, outer, inner, random, words[1]);
    const u32 strips = (k + cuda::kProductBlock - 1) / cuda::kProductBlock;
    const cuda::ProductSide scale_a = some_side(m, strips, outer, inner, random, words[2]);
    const cuda::ProductSide scale_b = some_side(n, strips, outer, inner, random, words[3]);
    Scenario made;
    made.what = text("%s of %u x %u products of %u %u %u", of_bytes ? "imatmul" : "matmul", outer, inner, m, n, k);
    for (const u64 count : words) made.arrays.push_back(some_words(count, random));
    made.arrays.push_back(some_words(u64{outer} * inner * m * n, random));
    const bool is_large = random.below(2) == 0;
    made.kernels = [=](const Pointers& at) -> Kernels {
        cuda::ProductCall call{{m, n, k, n, u64{outer} * inner, inner}, a, b, scale_a, scale_b, at[4]};
        call.a.data = at[0];
        call.b.data = at[1];
        call.scale_a.data = at[2];
        call.scale_b.data = at[3];
        if (of_bytes) return {cuda::imatmul(call)};
        if (is_large) return {cuda::product<cuda::LargeMatmul>(call)};
        return {cuda::product<cuda::SmallMatmul>(call)};
    };
    return made;
}

cuda::Rows some_rows(u32 columns, Random& random, u64& words) {
    cuda::Rows rows;
    cuda::i64 stride = columns + random.below(3);
    words = columns;
    for (u32 d = 3; d-- > 0;) {
        rows.dims[d] = some_dim(random);
        if (random.below(5) == 0) continue;
        rows.strides[d] = stride;
        words += static_cast<u64>(stride) * (rows.dims[d] - 1);
        stride *= rows.dims[d];
    }
    return rows;
}

Scenario last_axis_scenario(Random& random) {
    const u32 columns = 1 + random.below(random.below(4) == 0 ? 700 : 90);
    u64 words = 0;
    const cuda::Rows rows = some_rows(columns, random, words);
    const u32 kind = random.below(3);
    const u32 k = 1 + random.below(columns);
    Scenario made;
    made.what = text("reduction %u of %u rows of %u, k %u", kind, static_cast<unsigned>(rows.count()), columns, k);
    made.arrays = {some_words(words, random), some_words(rows.count(), random)};
    if (random.below(2) == 0)  // words that are often equal
        for (u32& word : made.arrays[0]) word &= 0x30000003U;
    made.kernels = [=](const Pointers& at) -> Kernels {
        const auto filled = [&](auto kernel) {
            kernel.rows = rows;
            kernel.rows.data = at[0];
            kernel.columns = columns;
            kernel.out = at[1];
            return kernel;
        };
        if (kind == 0) return {filled(cuda::SumLast{})};
        if (kind == 1) return {filled(cuda::MaxLast{})};
        cuda::KthLast kernel = filled(cuda::KthLast{});
        kernel.k = k;
        return {kernel};
    };
    return made;
}

Scenario sum_rows_scenario(Random& random) {
    const u32 columns = 1 + random.below(40);
    const u32 height = 1 + random.below(random.below(2) == 0 ? 700 : 20);
    const u32 stride = columns + random.below(3);
    const u32 matrices[] = {some_dim(random), some_dim(random)};
    Scenario made;
    made.what = text("sums over %u rows of %u, %u x %u", height, columns, matrices[0], matrices[1]);
    const u64 whole = u64{height} * stride;
    const u64 blocks = (height + 255) / 256;
    made.arrays = {some_words(whole * matrices[0] * matrices[1], random),
                   some_words(blocks * columns * matrices[0] * matrices[1], random),
                   some_words(u64{columns} * matrices[0] * matrices[1], random)};
    made.kernels = [=, first = matrices[0], second = matrices[1]](const Pointers& at) -> Kernels {
        cuda::SumRowBlocks sums;
        sums.matrices.data = at[0];
        sums.matrices.dims[0] = first;
        sums.matrices.dims[1] = second;
        sums.matrices.strides[0] = static_cast<cuda::i64>(whole * second);
        sums.matrices.strides[1] = static_cast<cuda::i64>(whole);
        sums.row_count = height;
        sums.columns = columns;
        sums.stride = stride;
        sums.out = at[1];
        cuda::SumTotals totals;
        totals.sums = at[1];
        totals.matrices = u64{first} * second;
        totals.row_blocks = blocks;
        totals.columns = columns;
        totals.out = at[2];
        return {sums, totals};
    };
    return made;
}

Scenario rows_scenario(Random& random) {
    const u32 columns = 1 + random.below(80);
    const u32 table_rows = 1 + random.below(20);
    const u32 rows = 1 + random.below(random.below(3) == 0 ? 700 : 60);
    const u32 stride = columns + random.below(3);
    const bool adds = random.below(2) == 0;
    Scenario made;
    made.what = text("%s %u rows of %u, table of %u", adds ? "scatter-add" : "gather", rows, columns, table_rows);
    Scenario::Words index(rows);
    for (u32& i : index) i = random.below(8) == 0 ? random.mixed() : random.below(table_rows + 1);
    // Of a gather the table is first, of a scatter-add the rows; the other is the output.
    made.arrays = {some_words(u64{adds ? rows : table_rows} * stride, random), index,
                   adds ? Scenario::Words(u64{table_rows} * columns) : some_words(u64{rows} * columns, random)};
    made.kernels = [=](const Pointers& at) -> Kernels {
        if (adds) {
            cuda::ScatterAddRows kernel;
            kernel.x = at[0];
            kernel.stride = stride;
            kernel.index = at[1];
            kernel.rows = rows;
            kernel.columns = columns;
            kernel.table = at[2];
            kernel.table_rows = table_rows;
            kernel.table_stride = columns;
            return {kernel};
        }
        cuda::GatherRows kernel;
        kernel.table = at[0];
        kernel.table_rows = table_rows;
        kernel.stride = stride;
        kernel.index = at[1];
        kernel.count = rows;
        kernel.columns = columns;
        kernel.out = at[2];
        return {kernel};
    };
    return made;
}

Scenario hash_scenario(Random& random) {
    const bool is_vector = random.below(3) == 0;
    const u32 rows = is_vector ? 1 : 1 + random.below(80);
    const u32 columns = 1 + random.below(is_vector ? 2500 : 80);
    const u32 leading = some_dim(random);
    cuda::TileHashes kernel;
    kernel.leading = leading;
    kernel.rows = rows;
    kernel.columns = columns;
    Scenario made;
    made.what = text("hashes of %u x %u x %u", leading, rows, columns);
    made.arrays = {some_words(u64{leading} * rows * columns, random),
                   some_words(kernel.tiles() * cuda::TileHashes::kHashWords, random)};
    made.kernels = [=](const Pointers& at) -> Kernels {
        cuda::TileHashes placed = kernel;
        placed.words = at[0];
        placed.hashes = at[1];
        return {placed};
    };
    return made;
}

Scenario iota_scenario(Random& random) {
    cuda::Iota kernel;
    kernel.count = 1 + random.below(5000);
    kernel.inner = 1 + random.below(70);
    kernel.length = random.below(3) == 0 ? 0 : 1 + random.below(20);
    kernel.word = random.mixed();
    Scenario made;
    made.what = text("iota of %u, %u by %u", kernel.count, kernel.length, kernel.inner);
    made.arrays = {some_words(kernel.count, random)};
    made.kernels = [=](const Pointers& at) -> Kernels {
        cuda::Iota placed = kernel;
        placed.out = at[0];
        return {placed};
    };
    return made;
}

}  // namespace

Scenario scenario_of(u64 seed, u64 number) {
    Random random(cases::mix(cases::mix(seed) + number));
    switch (number % kScenarioKinds) {
        case 0:
            return copy_scenario(random);
        case 1:
            return elementwise_scenario(random);
        case 2:
            return group_scenario(random);
        case 3:
            return product_scenario(false, random);
        case 4:
            return product_scenario(true, random);
        case 5:
            return last_axis_scenario(random);
        case 6:
            return sum_rows_scenario(random);
        case 7:
            return rows_scenario(random);
        case 8:
            return hash_scenario(random);
        default:
            return iota_scenario(random);
    }
}

std::vector<Scenario::Words> outcome(const Scenario& scenario, cuda::Device& device, std::string& why) {
    std::vector<Scenario::Words> arrays = scenario.arrays;
    Pointers at(arrays.size(), nullptr);
    cuda::Failure failure = nullptr;
    const auto note = [&](cuda::Failure each) {
        if (failure == nullptr) failure = each;
    };
    for (std::size_t i = 0; i < arrays.size() && failure == nullptr; ++i) {
        note(device.allocate(arrays[i].size() + 1, at[i]));
        if (failure == nullptr) note(device.upload(arrays[i].data(), at[i], arrays[i].size() * sizeof(u32)));
    }
    Scenario::Words description;
    if (failure == nullptr && scenario.description) {
        description = scenario.description(at);
        note(device.upload(description.data(), at[scenario.described], description.size() * sizeof(u32)));
    }
    if (failure == nullptr) {
        for (const cuda::AnyKernel& kernel : scenario.kernels(at)) note(device.run(kernel));
        for (std::size_t i = 0; i < arrays.size(); ++i)
            if (!scenario.description || i != scenario.described)
                note(device.download(at[i], arrays[i].data(), arrays[i].size() * sizeof(u32)));
        note(device.wait());
    }
    for (u32* const each : at)
        if (each != nullptr) device.release(each);
    if (failure == nullptr) return arrays;
    why = failure;
    return {};
}

}  // namespace quern::test
