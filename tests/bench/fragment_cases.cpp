// Contents as fragments of which any k give the whole: making and naming all of them, which a solver and each verifier
// does with every content, and putting one together that nobody serves.
#include <numeric>

#include "base/rng.h"
#include "bench/cases.h"
#include "crypto/content_fragments.h"

namespace quern::bench {
namespace {

constexpr crypto::CellCode kCode{4, 12};
constexpr std::size_t kContent = std::size_t{32} << 20;
constexpr double kMiBs = 32;

std::vector<unsigned> numbers(unsigned first, unsigned end) {
    std::vector<unsigned> all(end - first);
    std::iota(all.begin(), all.end(), first);
    return all;
}

std::vector<Bytes> fragments_of(BytesView content) {
    std::vector<Bytes> fragments(kCode.total);
    auto encoder = must(crypto::FragmentEncoder::make(kCode, numbers(0, kCode.total),
                                                      [&](unsigned i, BytesView cell) -> Status {
                                                          append(fragments[i], cell);
                                                          return {};
                                                      }),
                        "encoder");
    must(encoder.update(content), "encode");
    must(encoder.finish(), "encode");
    return fragments;
}

void decode(const Hash32& id, const std::vector<Bytes>& fragments, unsigned first) {
    std::vector<crypto::GivenFragment> given;
    for (unsigned i = first; i < first + kCode.data; ++i)
        given.push_back({i, [&bytes = fragments[i]](std::uint64_t offset, std::uint64_t length) -> Expected<Bytes> {
                             return to_bytes(BytesView(bytes).subspan(offset, length));
                         }});
    must(crypto::decode_fragments(kCode, id, kContent, given,
                                  [](BytesView bytes) -> Status {
                                      keep(bytes.data());
                                      return {};
                                  }),
         "decode");
}

void bench_cells(Bench& bench) {
    const auto map =
        must(crypto::CellMap::make(kCode, numbers(0, kCode.data), numbers(kCode.data, kCode.total)), "map");
    Bytes data(kCode.data * crypto::kFragmentCellBytes);
    SeededRng(9).fill(data);
    Bytes made((kCode.total - kCode.data) * crypto::kFragmentCellBytes);
    std::vector<BytesView> from;
    for (unsigned i = 0; i < kCode.data; ++i)
        from.push_back(BytesView(data).subspan(i * crypto::kFragmentCellBytes, crypto::kFragmentCellBytes));
    std::vector<std::span<std::uint8_t>> to;
    for (unsigned i = 0; i < kCode.total - kCode.data; ++i)
        to.push_back(std::span(made).subspan(i * crypto::kFragmentCellBytes, crypto::kFragmentCellBytes));
    const auto timings = bench.time({[&] {
                                         map.apply(from, to);
                                         keep(made.data());
                                     },
                                     [&] {
                                         map.apply_by_table(from, to);
                                         keep(made.data());
                                     },
                                     [&] { keep(crypto::content_id_of(data)); }});
    const std::string name =
        "8 parity cells of a stripe of 64 KiB (" + std::string(crypto::reed_solomon_engine()) + ")";
    bench.add_time(name, timings[0], 1, "content id of the data", &timings[2]);
    bench.add_time(name, timings[0], 1, "a table for each factor", &timings[1]);
}

}  // namespace

void bench_fragments(Bench& bench) {
    bench_cells(bench);
    Bytes content(kContent);
    SeededRng(10).fill(content);
    const Hash32 id = crypto::content_id_of(content);
    const std::vector<Bytes> fragments = fragments_of(content);
    const auto timings =
        bench.time({[&] {
                        auto hasher = must(crypto::FragmentHasher::make(kCode), "hasher");
                        hasher.update(content);
                        keep(hasher.finish());
                    },
                    [&] { decode(id, fragments, 0); }, [&] { decode(id, fragments, kCode.total - kCode.data); },
                    [&] { keep(crypto::content_id_of(content)); },
                    [&] {
                        for (const Bytes& fragment : fragments) keep(crypto::content_id_of(fragment));
                    }});
    bench.add_time("MiB of a content, ids of it and its 12 fragments", timings[0], kMiBs,
                   "content ids of the 12, 3 MiB", &timings[4], kMiBs);
    bench.add_time("MiB of a content from the 4 fragments of its data", timings[1], kMiBs, "content id of it",
                   &timings[3], kMiBs);
    bench.add_time("MiB of a content from 4 other fragments", timings[2], kMiBs, "content id of it", &timings[3],
                   kMiBs);
}

}  // namespace quern::bench
